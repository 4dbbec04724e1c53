"""A training run on disk, whatever the algorithm: config, lock, metrics, checkpoints, policies.

``RUN/config.json`` says what is trained; ``metrics.jsonl`` has a row per update; ``checkpoints/``
holds all state of the learner; ``best.json`` and ``last.json`` are cards of weights in
``policies/``. A run killed at any moment and resumed ends byte-equal to one that was left alone,
but for the seconds in its metrics. Imports no torch.
"""

from __future__ import annotations

import json
import logging
import math
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Protocol

from weft import __version__
from weft.errors import InputError
from weft.io.folders import claim, locked
from weft.io.runs import CONFIG, METRICS
from weft.policies.checkpoint import Card, Weights, read_card, save_policy
from weft.policies.tensors import Array, read_bytes, sha256, write_atomic
from weft.scenarios.splits import check_training_seed
from weft.training.run.checkpoints import Checkpoints, CorruptError, Manifest, Notice
from weft.training.run.metrics import Metrics, Row

_LOG = logging.getLogger(__name__)

SCHEMA = "weft.run/1"
BEST, LAST = "best.json", "last.json"
CHECKPOINTS, POLICIES = "checkpoints", "policies"


class Learner(Protocol):
    """What a run trains: all its state can be taken out and put back."""

    @property
    def update(self) -> int:
        """Updates done."""

    @property
    def num_updates(self) -> int:
        """Updates to do in all."""

    @property
    def samples(self) -> int:
        """Decisions collected so far."""

    @property
    def num_samples(self) -> int:
        """Decisions to collect in all."""

    @property
    def score(self) -> float | None:
        """How good the policy is by its own reckoning, greater is better; None: cannot say yet."""

    def step(self) -> Row:
        """Do one update and return its row of metrics."""

    def state(self) -> dict[str, Array]:
        """Everything that the next update depends on."""

    def restore(self, state: Mapping[str, Array]) -> None:
        """Put back what :meth:`state` returned."""

    def policy(self) -> tuple[Weights, Card]:
        """The weights as they are now, and what they are."""


@dataclass(frozen=True)
class Spec:
    """What a run trains; the same spec gives the same weights."""

    algorithm: str
    config: Mapping[str, object]
    """The algorithm's parameters, as plain JSON."""
    seed: int
    recipe: Mapping[str, object] = field(default_factory=dict)
    """The problem and its settings, as plain JSON."""

    def __post_init__(self) -> None:
        check_training_seed(self.seed)

    @property
    def config_hash(self) -> str:
        """SHA-256 of the spec, whatever the order of its keys."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode())


@dataclass(frozen=True)
class Progress:
    """Where a run stands after an update."""

    update: int
    num_updates: int
    samples: int
    num_samples: int
    seconds: float
    """Wall time so far, earlier parts of a resumed run included."""
    cpu_seconds: float
    seconds_left: float | None
    """What the rest takes at the pace of this process since its first update, in which kernels may be
    compiled; None after that one."""
    row: Row


@dataclass(frozen=True)
class Outcome:
    """What a finished run reports."""

    run: str
    samples: int
    seconds: float
    cpu_seconds: float
    best: float | None
    """Score of the best policy."""


def versions() -> dict[str, str]:
    """Versions of what the figures depend on."""
    found = {"python": platform.python_version(), "machine": platform.machine(), "weft": __version__}
    for package in ("numpy", "numba", "torch"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "none"
    return found


@contextmanager
def open_run(
    folder: str | Path,
    spec: Spec,
    origin: str = "",
    *,
    is_resumed: bool = False,
    on_notice: Notice = lambda line: None,
) -> Iterator[Run]:
    """A run's folder, new or resumed, held by this process alone.

    A folder that holds another run, or this one when it is not to be resumed, is refused. ``origin`` is the name or
    file of the recipe, for who wants to repeat the run.
    """
    path = claim(folder, "training run", CONFIG)
    with locked(path, "training in this folder"):
        _prepare(path, spec, origin, is_resumed=is_resumed, notice=on_notice)
        _LOG.info("%s: a run of %s, seed %d", path, spec.algorithm, spec.seed)
        yield Run(path, spec, on_notice)


def _prepare(path: Path, spec: Spec, origin: str, *, is_resumed: bool, notice: Notice) -> None:
    """Write the config of a new run, or see that the one there is the same."""
    target = path / CONFIG
    wanted = json.loads(json.dumps(asdict(spec)))
    if not target.exists() or not _is_begun(path):
        for folder in (CHECKPOINTS, POLICIES):
            (path / folder).mkdir(exist_ok=True)
        document = {"schema": SCHEMA, **wanted, "origin": origin, "versions": versions()}
        write_atomic(f"{json.dumps(document, indent=2)}\n".encode(), target)
        return
    if not is_resumed:
        raise InputError("holds a run: go on with it by --resume, or choose another folder", file=str(path))
    stored = _read_config(target)
    for key, value in wanted.items():
        if stored.get(key) != value:
            advice = f"ask for the same, or begin a new run with its weights: --from {path}@last --out NEW"
            raise InputError(f"{_difference(stored.get(key), value)}; {advice}", file=str(target), field=key)
    if stored.get("versions") != versions():
        notice(f"{target} was written with other versions: the resumed run need not be byte-equal")


def _is_begun(path: Path) -> bool:
    """Whether there is anything to lose: a run that was refused before its first checkpoint has nothing."""
    kept = any((path / name).exists() for name in (BEST, LAST))
    return kept or any((path / CHECKPOINTS).glob("*"))


def _read_config(path: Path) -> dict[str, object]:
    try:
        stored = json.loads(read_bytes(path).decode())
    except (ValueError, RecursionError) as error:
        raise CorruptError(
            f"the configuration is not JSON: {error}; nothing was changed", file=str(path)
        ) from None
    if not isinstance(stored, dict) or stored.get("schema") != SCHEMA:
        raise CorruptError(
            f"expected the configuration of a run, {SCHEMA!r}; nothing was changed", file=str(path)
        )
    return stored


def _difference(stored: object, wanted: object) -> str:
    """Where a run's configuration differs from the one asked for."""
    place = ""
    while isinstance(stored, dict) and isinstance(wanted, dict):
        ours, theirs = wanted, stored
        strange = sorted(set(theirs) ^ set(ours))
        if strange and not place:
            return f"another version of weft began the run, with other keys: {', '.join(strange)}"
        key = next((key for key in [*ours, *theirs] if theirs.get(key) != ours.get(key)), *strange[:1])
        place, stored, wanted = f"{place}.{key}" if place else key, theirs.get(key), ours.get(key)
    return f"{place and f'{place}: '}the run has {stored!r:.80}, asked for {wanted!r:.80}"


class Run:
    """The folder of one run; made by :func:`open_run`."""

    def __init__(self, path: Path, spec: Spec, notice: Notice) -> None:
        self.path = path
        self._spec = spec
        self._notice = notice
        self._checkpoints = Checkpoints(path / CHECKPOINTS, spec.config_hash)
        self._clock = _Clock()
        self._best_score: float | None = None
        self._saved_update = 0

    def train(
        self,
        learner: Learner,
        *,
        every: int = 5,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        evaluate: Callable[[], float] | None = None,
        has_tensorboard: bool = False,
    ) -> Outcome:
        """Train to the end, from the newest whole checkpoint if there is one.

        SIGINT and SIGTERM end it after the current update with a checkpoint and KeyboardInterrupt.

        Parameters
        ----------
        every
            Updates between checkpoints. Only a policy at a checkpoint can become the best one.
        evaluate
            Scores the learner at a checkpoint, greater is better; its own score unless given.
            Must not draw from the learner's random numbers.
        has_tensorboard
            Whether rows are written for TensorBoard too.
        """
        if every < 1:
            raise InputError(f"expected a whole number >= 1, got {every}", field="every")
        rate: Callable[[], float | None] = evaluate or (lambda: learner.score)
        metrics = Metrics(self.path / METRICS)
        try:
            self._restore(learner, metrics)
            if has_tensorboard:
                metrics.log_to_tensorboard(self.path / "tensorboard", learner.update)
            with _deferred_signals() as signals:
                while learner.update < learner.num_updates and not signals:
                    row = {**learner.step(), **self._clock.columns()}
                    metrics.append(learner.update, row)
                    is_regular = learner.update % every == 0 or learner.update == learner.num_updates
                    if is_regular:
                        self._keep(learner, metrics, rate)
                    on_progress(self._progress(learner, row))
                if learner.update != self._saved_update:
                    self._keep(learner, metrics, None)
                self._tidy()
        finally:
            metrics.close()
        if signals:
            raise KeyboardInterrupt
        return self._outcome(learner)

    def _restore(self, learner: Learner, metrics: Metrics) -> None:
        """Put the learner and the metrics back to the newest whole checkpoint, or make the first."""
        found = self._checkpoints.load(self._notice)
        if found is None:
            metrics.cut(0)
            self._save_checkpoint(learner, metrics)
            return
        state, manifest = found
        learner.restore(state)
        self._best_score = manifest.best_score
        self._saved_update = manifest.update
        self._clock = _Clock(manifest.seconds, manifest.cpu_seconds)
        if not metrics.cut(manifest.metrics_bytes):
            self._notice(f"{self.path / METRICS} lacks rows of updates before {manifest.update}")

    def _keep(self, learner: Learner, metrics: Metrics, rate: Callable[[], float | None] | None) -> None:
        """Policy first, checkpoint last: what a checkpoint says is best is then on disk."""
        weights, card = learner.policy()
        name = f"{POLICIES}/{learner.update:08d}.safetensors"
        save_policy(self.path / LAST, weights, card, name)
        score = rate() if rate is not None else None
        if score is not None and score > (-math.inf if self._best_score is None else self._best_score):
            self._best_score = score
            save_policy(self.path / BEST, weights, card, name)
        self._save_checkpoint(learner, metrics)
        self._tidy()

    def _save_checkpoint(self, learner: Learner, metrics: Metrics) -> None:
        standing = Manifest(
            update=learner.update,
            samples=learner.samples,
            metrics_bytes=metrics.sync(),
            seconds=self._clock.seconds,
            cpu_seconds=self._clock.cpu_seconds,
            best_score=self._best_score,
        )
        self._checkpoints.save(learner.state(), standing)
        self._saved_update = learner.update

    def _tidy(self) -> None:
        """Remove old checkpoints, and weights that neither card names."""
        self._checkpoints.prune(self._saved_update)
        cards = [self.path / name for name in (BEST, LAST)]
        kept = [Path(read_card(card).weights).name for card in cards if card.exists()]
        for path in sorted((self.path / POLICIES).iterdir()):
            if path.name not in kept:
                path.unlink()

    def _progress(self, learner: Learner, row: Row) -> Progress:
        return Progress(
            learner.update,
            learner.num_updates,
            learner.samples,
            learner.num_samples,
            self._clock.seconds,
            self._clock.cpu_seconds,
            self._clock.left(learner.update, learner.num_updates),
            row,
        )

    def _outcome(self, learner: Learner) -> Outcome:
        clock = self._clock
        return Outcome(str(self.path), learner.samples, clock.seconds, clock.cpu_seconds, self._best_score)


class _Clock:
    """Wall and CPU time of a run, those of its earlier parts added."""

    def __init__(self, seconds: float = 0.0, cpu_seconds: float = 0.0) -> None:
        self._wall_before = seconds - time.perf_counter()
        self._cpu_before = cpu_seconds - time.process_time()
        self._paced_from: tuple[int, float] | None = None

    @property
    def seconds(self) -> float:
        return time.perf_counter() + self._wall_before

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() + self._cpu_before

    def columns(self) -> dict[str, float]:
        return {"seconds": round(self.seconds, 3), "cpu_seconds": round(self.cpu_seconds, 3)}

    def left(self, update: int, num_updates: int) -> float | None:
        """Seconds left after an update; the first one asked about begins the count."""
        now = time.perf_counter()
        if self._paced_from is None:
            self._paced_from = update, now
        first, since = self._paced_from
        if update in (first, num_updates):
            return 0.0 if update == num_updates else None
        return (now - since) / (update - first) * (num_updates - update)


@contextmanager
def _deferred_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying; a second one interrupts at once."""
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
