"""The shape of a graph encoder: what its card says and its tensors must fit. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from weft.errors import InputError

KIND = "topoformer"
RELATIONS = (
    "successors",
    "predecessors",
    "descendants",
    "ancestors",
    "resource",
    "all",
    "reduction",
    "reduction-back",
    "skipping",
    "skipping-back",
    "closure",
    "closure-back",
    "incomparable",
)
"""Whom a head looks at. ``skipping`` edges have another path beside them; ``closure`` is descendants
that no edge joins; ``X-back`` is ``X`` the other way round."""
DEFAULT_HEADS = (
    "descendants",
    "descendants",
    "ancestors",
    "ancestors",
    "successors",
    "predecessors",
    "resource",
    "resource",
    "resource",
    "all",
)
PAPER_RELATIONS = RELATIONS[6:]
"""The seven relations of the one-shot study: every ordered pair is in exactly one."""
PER_LIST = 2
"""Scores of a task in a list: the priority's logit, and the log-odds of holding."""
LEAST_ODDS = -2.0
"""Without a draw a task holds from these log-odds on. One task that lets others pass undoes the holds of all
behind it, so drawn holds act like a lower limit than even odds."""


@dataclass(frozen=True)
class EncoderShape:
    """Layers of masked attention over the tasks of a graph, and heads that score tasks and pairs."""

    num_features: int
    num_pair_features: int
    width: int = 80
    layers: int = 3
    hidden: int = 160
    """Width of the layers between attentions."""
    heads: tuple[str, ...] = DEFAULT_HEADS
    """The relation of every attention head, see ``RELATIONS``."""
    pair_width: int = 16
    num_lists: int = 1
    """Lists of priorities that a pass gives; each is drawn from in turn."""
    num_types: int = 0
    """Resources distinguished by a one-hot column, as in the study; 0: by the relation alone."""
    kind: str = KIND

    def __post_init__(self) -> None:
        for name in (
            "num_features",
            "num_pair_features",
            "width",
            "layers",
            "hidden",
            "pair_width",
            "num_lists",
        ):
            _refuse_size(name, getattr(self, name), 1)
        _refuse_size("num_types", self.num_types, 0)
        if not self.heads or any(name not in RELATIONS for name in self.heads):
            raise InputError(f"expected relations of {', '.join(RELATIONS)}, got {self.heads}", field="heads")
        if self.width % len(self.heads):
            raise InputError(
                f"expected a multiple of the {len(self.heads)} heads, got {self.width}", field="width"
            )
        if self.kind != KIND:
            raise InputError(f"expected {KIND!r}, got {self.kind!r}", field="kind")

    @classmethod
    def read(cls, known: Mapping[str, object]) -> EncoderShape:
        """The shape in a card."""
        names = [f.name for f in fields(cls)]
        for name in names:
            if name not in known:
                raise InputError("expected a value, found none", field=name)
        for name in known:
            if name not in names:
                raise InputError(f"unknown; expected {', '.join(names)}", field=name)
        heads = known["heads"]
        if not isinstance(heads, list) or not all(isinstance(name, str) for name in heads):
            raise InputError("expected a list of relations", field="heads")
        return cls(**{**known, "heads": tuple(heads)})  # type: ignore[arg-type]

    @property
    def labels(self) -> dict[str, int]:
        """Fields of a card that name parts of this, with their sizes."""
        return dict.fromkeys(("features", "scales", "ranges"), self.num_features)

    @property
    def heads_of(self) -> dict[str, list[int]]:
        """Relations with the numbers of their heads."""
        return {name: [h for h, other in enumerate(self.heads) if other == name] for name in self.heads}

    @property
    def num_inputs(self) -> int:
        """Columns that go into the first layer."""
        return self.num_features + self.num_types

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Name and shape of every tensor, in order."""
        w, h, scores = self.width, self.hidden, self.num_lists * PER_LIST
        shapes: dict[str, tuple[int, ...]] = {"embed.weight": (w, self.num_inputs), "embed.bias": (w,)}
        for i in range(self.layers):
            layer = f"layers.{i}"
            shapes |= {f"{layer}.before.weight": (w,), f"{layer}.before.bias": (w,)}
            shapes |= {f"{layer}.mix.weight": (3 * w, w), f"{layer}.mix.bias": (3 * w,)}
            shapes |= {f"{layer}.out.weight": (w, w), f"{layer}.out.bias": (w,)}
            shapes |= {f"{layer}.between.weight": (w,), f"{layer}.between.bias": (w,)}
            shapes |= {f"{layer}.up.weight": (h, w), f"{layer}.up.bias": (h,)}
            shapes |= {f"{layer}.down.weight": (w, h), f"{layer}.down.bias": (w,)}
        shapes |= {"norm.weight": (w,), "norm.bias": (w,)}
        shapes |= {"score.weight": (scores, w), "score.bias": (scores,)}
        shapes |= {"skip": (scores, self.num_features)}
        shapes |= {"task.weight": (self.pair_width, w), "task.bias": (self.pair_width,)}
        shapes |= {"pair": (self.pair_width, self.num_pair_features), "pair_skip": (self.num_pair_features,)}
        return shapes


def _refuse_size(name: str, size: object, least: int) -> None:
    if type(size) is not int or not least <= size <= 4096:
        raise InputError(f"expected a whole number from {least} to 4096, got {size!r:.60}", field=name)
