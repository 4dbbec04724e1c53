"""A policy on disk: weights as safetensors, and a JSON card that says what they are.

The card names the weights file, its SHA-256 and the architecture; every tensor is checked against
them before it is used. Neither torch nor pickle is involved. Imports nothing of weft but ``errors`` and
its neighbours.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np
import numpy.typing as npt

from weft.errors import InputError
from weft.policies.candidates.architecture import CandidateArchitecture
from weft.policies.graph.architecture import GraphArchitecture
from weft.policies.han import architecture as han
from weft.policies.oneshot import encoder_shape
from weft.policies.oneshot.encoder_shape import EncoderShape
from weft.policies.picks.architecture import PickArchitecture
from weft.policies.tensors import Array, decode_tensors, encode_tensors, read_bytes, sha256, write_atomic
from weft.policies.weights.architecture import WeightsArchitecture

SCHEMA = "weft.policy/1"
ACTIVATIONS = ("tanh", "relu")
CRITICS = ("separate", "shared", "none")
MAX_BYTES = 64_000_000
MAX_WIDTH = 65_536
HEAD = "head"

OfTasks = CandidateArchitecture | PickArchitecture | WeightsArchitecture
Net = GraphArchitecture | OfTasks | han.HanArchitecture
"""Shapes that a card names in ``net``."""
Floats32 = npt.NDArray[np.float32]
Weights = dict[str, Floats32]


class Shape(Protocol):
    """The shape of any net: what a card describes and weights are checked against."""

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of the net, with their sizes."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""


@dataclass(frozen=True)
class Architecture:
    """A multi-layer perceptron with one categorical choice per head.

    With ``is_autoregressive`` head h also sees the choices of the heads before it, added into the
    last hidden layer.
    """

    num_features: int
    num_heads: int
    num_choices: int
    """Choices of every head; masks rule some out."""
    hidden: tuple[int, ...] = (64, 64)
    """Widths of the hidden layers."""
    activation: str = "tanh"
    """``tanh`` or ``relu``."""
    is_autoregressive: bool = False
    critic: str = "separate"
    """Where the value estimate comes from: a ``separate`` net, the ``shared`` layers, or ``none``."""

    def __post_init__(self) -> None:
        sizes = {
            "num_features": self.num_features,
            "num_heads": self.num_heads,
            "num_choices": self.num_choices,
        }
        sizes |= {f"hidden[{i}]": width for i, width in enumerate(self.hidden)}
        for name, size in sizes.items():
            if type(size) is not int or not 1 <= size <= MAX_WIDTH:
                raise InputError(
                    f"expected a whole number from 1 to {MAX_WIDTH}, got {size!r:.60}", field=name
                )
        if not 1 <= len(self.hidden) <= 8:
            raise InputError(f"expected 1 to 8 hidden layers, got {len(self.hidden)}", field="hidden")
        if self.activation not in ACTIVATIONS:
            raise InputError(f"expected tanh or relu, got {self.activation!r}", field="activation")
        if self.critic not in CRITICS:
            raise InputError(f"expected one of {', '.join(CRITICS)}, got {self.critic!r}", field="critic")
        if type(self.is_autoregressive) is not bool:
            raise InputError(
                f"expected true or false, got {self.is_autoregressive!r}", field="is_autoregressive"
            )

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        sizes = dict.fromkeys(("features", "scales", "ranges"), self.num_features)
        return sizes | {"heads": self.num_heads, "choices": self.num_choices}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""
        num_logits = self.num_heads * self.num_choices
        shapes = self._layers("policy", num_logits)
        if self.is_autoregressive:
            shapes["policy.prefix"] = (num_logits, self.hidden[-1])
        if self.critic == "separate":
            shapes |= self._layers("value", 1)
        elif self.critic == "shared":
            shapes |= {"value.out.weight": (1, self.hidden[-1]), "value.out.bias": (1,)}
        return shapes

    def _layers(self, prefix: str, num_outputs: int) -> dict[str, tuple[int, ...]]:
        widths = (self.num_features, *self.hidden, num_outputs)
        names = [*(str(i) for i in range(len(self.hidden))), "out"]
        shapes: dict[str, tuple[int, ...]] = {}
        for name, fan_in, fan_out in zip(names, widths, widths[1:], strict=False):
            shapes[f"{prefix}.{name}.weight"] = (fan_out, fan_in)
            shapes[f"{prefix}.{name}.bias"] = (fan_out,)
        return shapes


@dataclass(frozen=True)
class Card:
    """What a reader must know about weights: where they came from and what they act on."""

    name: str
    algorithm: str
    architecture: Architecture | Net | EncoderShape
    feature_version: str = ""
    """Which layout of the observation the policy was trained on, e.g. ``queue/1``; empty: not recorded."""
    features: tuple[str, ...] = ()
    """Name of every element of the observation; empty where nobody named them."""
    scales: tuple[float, ...] = ()
    """What every element was divided by before it got here; empty where not recorded."""
    heads: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    ranges: tuple[tuple[float, float], ...] = ()
    """Least and greatest value of every element seen in training; empty where not recorded."""
    training: Mapping[str, object] = field(default_factory=dict)
    """Seeds, command, data and figures, as plain JSON."""
    weights: str = ""
    """The weights file, relative to the card."""
    sha256: str = ""
    """Hash of the weights file."""

    def __post_init__(self) -> None:
        for name, size in self.architecture.labels.items():
            found = len(getattr(self, name))
            if found not in (0, size):
                raise InputError(f"expected {size} entries as in the architecture, got {found}", field=name)

    @property
    def perceptron(self) -> Architecture:
        """The architecture of a dispatching policy; a planner's card is refused."""
        if isinstance(self.architecture, EncoderShape):
            raise InputError(f"{self.name} plans whole graphs: it is no dispatcher", field="architecture")
        if isinstance(self.architecture, GraphArchitecture):
            raise InputError(f"{self.name} is a graph net, no perceptron", field="architecture")
        if not isinstance(self.architecture, Architecture):
            of = "elastic" if isinstance(self.architecture, han.HanArchitecture) else "single"
            message = f"{self.name} acts on {of} tasks, not on queues by kind (one repeated job)"
            raise InputError(message, field="architecture")
        return self.architecture

    def to_json(self) -> str:
        """The card as it is stored."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=2, allow_nan=False) + "\n"


def check_weights(tensors: Mapping[str, Array], architecture: Shape, file: str | None = None) -> Weights:
    """The tensors in the order of the architecture, if names, shapes, dtypes and values are right."""
    shapes = architecture.shapes()
    for name in tensors:
        if name not in shapes:
            raise InputError("a tensor that the architecture does not have", file=file, field=name)
    checked: Weights = {}
    for name, shape in shapes.items():
        if name not in tensors:
            raise InputError("expected a tensor of this name, found none", file=file, field=name)
        array = tensors[name]
        if array.shape != shape:
            raise InputError(f"expected shape {shape}, got {array.shape}", file=file, field=name)
        if array.dtype != np.float32:
            raise InputError(f"expected float32, got {array.dtype}", file=file, field=name)
        if not np.isfinite(array).all():
            raise InputError("expected finite numbers, got NaN or infinity", file=file, field=name)
        checked[name] = array.astype(np.float32)
    return checked


def save_policy(
    path: str | Path, tensors: Mapping[str, Array], card: Card, weights: str | None = None
) -> Card:
    """Write weights and card, each all or nothing, the card last; return the card as stored.

    Parameters
    ----------
    path
        The card, ``NAME.json``.
    weights
        The weights file relative to the card; ``NAME.safetensors`` unless given.
    """
    target = Path(path)
    name = weights or f"{target.stem}.safetensors"
    data = encode_tensors(check_weights(tensors, card.architecture))
    stored = replace(card, weights=name, sha256=sha256(data))
    text = stored.to_json()
    write_atomic(data, target.parent / name)
    write_atomic(text.encode(), target)
    return stored


def load_policy(path: str | Path) -> tuple[Weights, Card]:
    """Weights and card of a policy, by either file or as ``RUN``, ``RUN@best`` or ``RUN@last``.

    Raises InputError where anything does not fit.
    """
    given, card_path = _file_of(path), card_file(path)
    if given.suffix != ".json":
        _refuse_foreign(given)
    if not card_path.parent.is_dir():
        raise InputError("no such run or folder", file=str(card_path.parent))
    if not card_path.is_file():
        raise InputError(f"expected its card {card_path.name} beside it", file=str(given))
    card = read_card(card_path)
    weights_path = card_path.parent / card.weights
    data = _read_limited(weights_path)
    if sha256(data) != card.sha256:
        raise InputError(
            f"does not have the SHA-256 that {card_path.name} says: damaged or replaced",
            file=str(weights_path),
        )
    tensors = decode_tensors(data, str(weights_path))
    return check_weights(tensors, card.architecture, str(weights_path)), card


def card_file(path: str | Path) -> Path:
    """The card of a policy, named as for ``load_policy``; it need not be there."""
    given = _file_of(path)
    return given if given.suffix == ".json" else given.with_suffix(".json")


def points_at_candidates(path: str | Path) -> bool:
    """Whether the policy, named as for ``load_policy``, acts on single tasks; not if there is none."""
    card = card_file(path)
    return card.is_file() and isinstance(read_card(card).architecture, OfTasks)


def _file_of(name: str | Path) -> Path:
    """The file meant by a name; a run's folder stands for its best policy."""
    folder, _, which = str(name).rpartition("@")
    if folder and which in ("best", "last"):
        return Path(folder) / f"{which}.json"
    return Path(name) / "best.json" if Path(name).is_dir() else Path(name)


def read_card(path: str | Path) -> Card:
    """The card in a JSON file; raises InputError naming the field that is wrong."""
    try:
        document = json.loads(_read_limited(Path(path)).decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected the card of a policy, which is JSON: {error}", file=str(path)) from None
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, dict) else type(document).__name__
        raise InputError(
            f"expected the card of a policy, {SCHEMA!r}, got {found!r:.60}", file=str(path), field="schema"
        )
    try:
        return _card(document)
    except InputError as error:
        raise error.at(file=str(path)) from None


def _card(document: Mapping[str, object]) -> Card:
    return Card(
        name=_text(document, "name"),
        algorithm=_text(document, "algorithm"),
        architecture=_architecture(document.get("architecture")),
        feature_version=_version(document),
        features=_texts(document, "features"),
        scales=_numbers(document.get("scales"), "scales"),
        heads=_texts(document, "heads"),
        choices=_texts(document, "choices"),
        ranges=_ranges(document),
        training=_mapping(document.get("training"), "training"),
        weights=_relative(document),
        sha256=_text(document, "sha256"),
    )


def _architecture(value: object) -> Architecture | Net | EncoderShape:
    known = _mapping(value, "architecture")
    if "net" in known:
        return _net(known)
    if known.get("kind") == encoder_shape.KIND:
        try:
            return EncoderShape.read(known)
        except InputError as error:
            raise InputError(error.message, field=f"architecture.{error.field}") from None
    hidden = known.get("hidden")
    if not isinstance(hidden, list):
        raise InputError(f"expected a list of widths, got {hidden!r:.60}", field="architecture.hidden")
    try:
        return Architecture(
            num_features=_whole(known, "num_features"),
            num_heads=_whole(known, "num_heads"),
            num_choices=_whole(known, "num_choices"),
            hidden=tuple(hidden),
            activation=_text(known, "activation"),
            is_autoregressive=_flag(known, "is_autoregressive"),
            critic=_text(known, "critic"),
        )
    except InputError as error:
        raise InputError(error.message, field=f"architecture.{error.field}") from None


_NETS: dict[object, tuple[Callable[..., Net], tuple[str, ...], tuple[str, ...]]] = {
    "graph": (GraphArchitecture, ("world", "kind", "device", "pair", "hidden", "rounds"), ("net",)),
    "candidates": (CandidateArchitecture, ("world", "column", "hidden"), ("net", HEAD)),
    "weights": (WeightsArchitecture, ("count",), ("net",)),
    "picks": (PickArchitecture, ("node", "job", "pick", "world", "hidden"), ("style", "net")),
    "han": (han.HanArchitecture, han.SIZES, han.WORDS),
}
"""Nets by the name in their cards: what they are, their sizes, their words; the first cards did not say their head."""


def _net(known: Mapping[str, object]) -> Net:
    made, sizes, words = _NETS.get(known["net"], _NETS["graph"])
    try:
        numbers = {name: _whole(known, name) for name in sizes}
        said = {name: _text(known, name) for name in words if name in known or name != HEAD}
        return made(**numbers, **said)
    except InputError as error:
        raise InputError(error.message, field=f"architecture.{error.field}") from None


def _mapping(value: object, name: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise InputError(f"expected named values, got {value!r:.60}", field=name)


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if isinstance(value, str):
        return value
    raise InputError(f"expected text, got {value!r:.60}", field=name)


def _whole(document: Mapping[str, object], name: str) -> int:
    value = document.get(name)
    if type(value) is int:
        return value
    raise InputError(f"expected a whole number, got {value!r:.60}", field=name)


def _version(document: Mapping[str, object]) -> str:
    """The feature version; the first cards gave the number of the queue view's alone."""
    value = document.get("feature_version")
    if type(value) is int:
        return f"queue/{value}" if value else ""
    return _text(document, "feature_version")


def _flag(document: Mapping[str, object], name: str) -> bool:
    value = document.get(name)
    if isinstance(value, bool):
        return value
    raise InputError(f"expected true or false, got {value!r:.60}", field=name)


def _texts(document: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = document.get(name)
    if isinstance(value, list) and all(isinstance(text, str) for text in value):
        return tuple(value)
    raise InputError("expected a list of names", field=name)


def _numbers(value: object, name: str) -> tuple[float, ...]:
    if isinstance(value, list) and all(type(x) in (int, float) and math.isfinite(x) for x in value):
        return tuple(float(x) for x in value)
    raise InputError("expected a list of finite numbers", field=name)


def _ranges(document: Mapping[str, object]) -> tuple[tuple[float, float], ...]:
    value = document.get("ranges")
    if not isinstance(value, list):
        raise InputError("expected a list of pairs", field="ranges")
    pairs: Sequence[tuple[float, ...]] = [_numbers(pair, f"ranges[{i}]") for i, pair in enumerate(value)]
    for i, pair in enumerate(pairs):
        if len(pair) != 2:
            raise InputError(
                f"expected least and greatest value, got {len(pair)} numbers", field=f"ranges[{i}]"
            )
    return tuple((pair[0], pair[1]) for pair in pairs)


def _relative(document: Mapping[str, object]) -> str:
    """The weights file's name, which may not lead out of the card's folder."""
    name = _text(document, "weights")
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or not name.isprintable():
        raise InputError(f"expected a file in the card's folder, got {name!r:.60}", field="weights")
    return name


def _refuse_foreign(path: Path) -> None:
    """Say what a weights file is, where it is not safetensors."""
    decode_tensors(_read_limited(path), str(path))


def _read_limited(path: Path) -> bytes:
    if path.is_file() and path.stat().st_size > MAX_BYTES:
        raise InputError(f"expected at most {MAX_BYTES} bytes, got {path.stat().st_size}", file=str(path))
    return read_bytes(path)
