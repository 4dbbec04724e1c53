from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from training import train_toy

from weft.errors import InputError, LockedError
from weft.io.runs import read_metrics
from weft.policies import tensors
from weft.policies.checkpoint import Architecture, Card, load_policy
from weft.training.run.checkpoints import CorruptError
from weft.training.run.folder import Outcome, Progress, Run, Spec, open_run

SHAPE = Architecture(1, 1, 1, (1,), critic="none")
SPEC = Spec("walk", {"step": 0.5}, seed=3, recipe={"scenario": "line"})
TIMES = ("seconds", "cpu_seconds", "decisions_per_second")


class Walk:
    """A learner without learning: a random walk whose every step depends on all before it."""

    num_updates, num_samples = 8, 80

    def __init__(self) -> None:
        self.update = 0
        self._place = np.zeros(4, np.float32)
        self._rng = np.array(12345, np.uint64)

    @property
    def samples(self) -> int:
        return 10 * self.update

    @property
    def score(self) -> float:
        return float(self._place.sum())

    def step(self) -> dict[str, float]:
        with np.errstate(over="ignore"):
            self._rng = self._rng * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        self._place[self.update % 4] += np.float32(int(self._rng >> np.uint64(33)) / 2**31 - 0.5)
        self.update += 1
        return {"samples": self.samples, "score": self.score}

    def state(self) -> dict[str, np.ndarray]:
        return {"update": np.array(self.update), "place": self._place, "rng": self._rng}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.update, self._rng = int(state["update"]), state["rng"]
        self._place = state["place"].copy()

    def policy(self) -> tuple[dict[str, np.ndarray], Card]:
        weights = {name: np.zeros(size, np.float32) for name, size in SHAPE.shapes().items()}
        weights["policy.0.bias"][:] = self._place[0]
        return weights, Card("walk", "walk", SHAPE, training={"update": self.update})


def walk(folder: Path, *, is_resumed: bool = True, notices: list[str] | None = None, **settings) -> Outcome:
    note = (notices if notices is not None else []).append
    with open_run(folder, SPEC, is_resumed=is_resumed, on_notice=note) as run:
        return run.train(Walk(), every=2, **settings)


def content(folder: Path) -> dict[str, object]:
    """Everything in a run but the times and what records them."""
    found: dict[str, object] = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("lock", "metrics.jsonl") and path.parent.name != "checkpoints"
    }
    found |= {path.name: path.read_bytes() for path in (folder / "checkpoints").glob("*.safetensors")}
    rows = read_metrics(folder)
    found["metrics"] = [{name: x for name, x in row.items() if name not in TIMES} for row in rows]
    return found


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the disk: what is tested here is the order of writes, not the power supply."""
    monkeypatch.setattr(tensors.os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The content of a run that was left alone."""
    folder = tmp_path_factory.mktemp("straight") / "run"
    walk(folder)
    return content(folder)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_run_leaves_what_it_should(tmp_path: Path):
    outcome = walk(tmp_path, is_resumed=False)
    assert names(tmp_path) == [
        "best.json",
        "checkpoints",
        "config.json",
        "last.json",
        "lock",
        "metrics.jsonl",
        "policies",
    ]
    assert names(tmp_path / "checkpoints") == [
        f"{update:08d}.{suffix}" for update in (4, 6, 8) for suffix in ("json", "safetensors")
    ]
    assert (outcome.run, outcome.samples) == (str(tmp_path), 80)
    assert 0.0 <= outcome.seconds < 60.0


def test_run_config_says_what_is_trained(tmp_path: Path):
    walk(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["schema"] == "weft.run/1"
    assert (config["algorithm"], config["config"], config["seed"]) == ("walk", {"step": 0.5}, 3)
    assert sorted(config["versions"]) == ["machine", "numba", "numpy", "python", "torch", "weft"]


def test_run_metrics_have_a_row_per_update(tmp_path: Path):
    walk(tmp_path)
    rows = read_metrics(tmp_path)
    assert [row["update"] for row in rows] == list(range(1, 9))
    assert all(row["cpu_seconds"] >= 0.0 for row in rows)


def test_run_best_is_the_best_of_the_checkpoints(tmp_path: Path):
    outcome = walk(tmp_path)
    rows = read_metrics(tmp_path)[1::2]
    best = max(rows, key=lambda row: row["score"])
    assert outcome.best == best["score"]
    assert load_policy(f"{tmp_path}@best")[1].training["update"] == best["update"]
    assert load_policy(f"{tmp_path}@last")[1].training["update"] == 8


def test_run_best_may_be_judged_from_outside(tmp_path: Path):
    scores = iter([1.0, 9.0, 2.0, 3.0])
    assert walk(tmp_path, evaluate=lambda: next(scores)).best == 9.0
    assert load_policy(tmp_path)[1].training["update"] == 4


def test_run_tells_its_progress(tmp_path: Path):
    seen: list[Progress] = []
    walk(tmp_path, on_progress=seen.append)
    assert [progress.update for progress in seen] == list(range(1, 9))
    assert seen[-1].samples == seen[-1].num_samples
    assert seen[0].seconds_left is None, "the first update compiles"
    assert seen[1].seconds_left is not None and seen[1].seconds_left > seen[-1].seconds_left == 0.0


def test_run_finished_is_left_as_it_is(tmp_path: Path, straight: dict[str, object]):
    walk(tmp_path)
    walk(tmp_path)
    assert content(tmp_path) == straight


def test_run_is_not_overwritten_unless_resumed(tmp_path: Path):
    walk(tmp_path)
    with pytest.raises(InputError, match="holds a run: go on with it by --resume, or choose another folder"):
        walk(tmp_path, is_resumed=False)


def test_run_refuses_a_folder_with_other_things(tmp_path: Path):
    (tmp_path / "thesis").touch()
    with pytest.raises(InputError, match="found 'thesis'"):
        walk(tmp_path)


def test_run_refuses_to_resume_another_configuration(tmp_path: Path):
    walk(tmp_path)
    other = Spec("walk", {"step": 0.25}, seed=3, recipe={"scenario": "line"})
    with pytest.raises(InputError) as error, open_run(tmp_path, other, is_resumed=True):
        pass
    assert "config: step: the run has 0.5, asked for 0.25" in str(error.value)
    assert f"begin a new run with its weights: --from {tmp_path}@last --out NEW" in str(error.value)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"a": 1, "b": {"c": 2}}, "recipe: table.b.c: the run has 3, asked for 2"),
        ({"a": 1}, "recipe: table.b: the run has {'c': 3}, asked for None"),
    ],
)
def test_run_names_the_value_in_a_table_that_differs(table: dict[str, object], text: str, tmp_path: Path):
    first = Spec("walk", {"step": 0.5}, seed=3, recipe={"table": {"a": 1, "b": {"c": 3}}})
    with open_run(tmp_path, first):
        (tmp_path / "checkpoints" / "x").touch()
    other = Spec("walk", {"step": 0.5}, seed=3, recipe={"table": table})
    with pytest.raises(InputError) as error, open_run(tmp_path, other, is_resumed=True):
        pass
    assert text in str(error.value)


def test_run_of_an_older_version_is_refused_with_the_reason(tmp_path: Path):
    walk(tmp_path)
    other = Spec("walk", {"step": 0.5}, seed=3, recipe={"scenario": "line", "vary": None})
    with pytest.raises(InputError, match="another version of weft began the run, with other keys: vary"):
        open_run(tmp_path, other, is_resumed=True).__enter__()


def test_run_is_held_by_one_process(tmp_path: Path):
    with (
        open_run(tmp_path, SPEC),
        pytest.raises(LockedError) as error,
        open_run(tmp_path, SPEC, is_resumed=True),
    ):
        pass
    assert f"process {os.getpid()} is training in this folder" in str(error.value)
    assert error.value.exit_code == 4


def test_run_says_when_versions_changed(tmp_path: Path):
    walk(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["versions"]["torch"] = "1.0"
    (tmp_path / "config.json").write_text(json.dumps(config))
    notices: list[str] = []
    walk(tmp_path, notices=notices)
    assert "other versions" in notices[0]


class Killed(BaseException):
    """Stands in for kill -9 in the middle of a write."""


def killing(monkeypatch: pytest.MonkeyPatch, name: str, at: int, *, is_after: bool) -> Callable[[], bool]:
    """Die at the given call of an os function, before or after it took effect; whether it came to that."""
    original, calls = getattr(os, name), [0]

    def call(*arguments: object) -> object:
        calls[0] += 1
        if calls[0] == at and not is_after:
            raise Killed
        result = original(*arguments)
        if calls[0] == at:
            raise Killed
        return result

    monkeypatch.setattr(tensors.os, name, call)
    return lambda: calls[0] >= at


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("name", ["replace", "fsync"])
def test_run_killed_in_any_write_ends_as_if_left_alone(
    tmp_path: Path, straight: dict[str, object], name: str, is_after: bool
):
    for at in range(1, 200):
        folder = tmp_path / str(at)
        with pytest.MonkeyPatch.context() as patch:
            was_killed = killing(patch, name, at, is_after=is_after)
            with suppress(Killed):
                walk(folder)
        walk(folder)
        assert content(folder) == straight
        if not was_killed():
            break
    assert at > 25


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGES: dict[str, Callable[[Path, str], None]] = {
    "bit flip in the tensors": lambda folder, stem: damage(folder / f"{stem}.safetensors"),
    "bit flip in the manifest": lambda folder, stem: damage(folder / f"{stem}.json"),
    "tensors cut short": lambda folder, stem: os.truncate(folder / f"{stem}.safetensors", 100),
    "tensors empty": lambda folder, stem: os.truncate(folder / f"{stem}.safetensors", 0),
    "manifest cut short": lambda folder, stem: os.truncate(folder / f"{stem}.json", 50),
    "manifest missing": lambda folder, stem: (folder / f"{stem}.json").unlink(),
    "tensors missing": lambda folder, stem: (folder / f"{stem}.safetensors").unlink(),
    "manifest of another": lambda folder, stem: (folder / f"{stem}.json").write_bytes(
        (folder / "00000004.json").read_bytes()
    ),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_run_passes_over_a_damaged_checkpoint_and_says_so(
    tmp_path: Path, straight: dict[str, object], how: str
):
    walk(tmp_path)
    DAMAGES[how](tmp_path / "checkpoints", "00000008")
    notices: list[str] = []
    walk(tmp_path, notices=notices)
    assert len(notices) == 1
    assert notices[0].startswith("checkpoint 8 cannot be used (")
    assert content(tmp_path) == straight


def test_run_with_only_damaged_checkpoints_changes_nothing(tmp_path: Path):
    walk(tmp_path)
    for stem in ("00000004", "00000006", "00000008"):
        damage(tmp_path / "checkpoints" / f"{stem}.safetensors")
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
    with pytest.raises(
        CorruptError, match="none of the 3 checkpoints can be used; nothing was changed"
    ) as error:
        walk(tmp_path)
    assert error.value.exit_code == 3
    assert {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_run_with_a_damaged_configuration_changes_nothing(tmp_path: Path, text: str):
    walk(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CorruptError, match="nothing was changed"):
        walk(tmp_path)


def test_run_drops_rows_after_the_checkpoint(tmp_path: Path, straight: dict[str, object]):
    walk(tmp_path)
    with open(tmp_path / "metrics.jsonl", "a") as metrics:
        metrics.write('{"update": 9}\n{"upda')
    walk(tmp_path)
    assert content(tmp_path) == straight


def test_run_says_when_rows_are_missing(tmp_path: Path):
    walk(tmp_path)
    os.truncate(tmp_path / "metrics.jsonl", 10)
    notices: list[str] = []
    walk(tmp_path, notices=notices)
    assert "lacks rows of updates before 8" in notices[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_run_interrupted_keeps_a_checkpoint_and_goes_on_later(
    tmp_path: Path, straight: dict[str, object], number: signal.Signals
):
    handler = signal.getsignal(number)

    def interrupt(progress: Progress) -> None:
        if progress.update == 3:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path, on_progress=interrupt)
    assert "00000003.json" in names(tmp_path / "checkpoints")
    assert signal.getsignal(number) is handler
    walk(tmp_path)
    assert content(tmp_path) == straight


def test_run_interrupted_twice_stops_at_once(tmp_path: Path):
    def interrupt(progress: Progress) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        walk(tmp_path, on_progress=interrupt)
    assert "00000001.json" not in names(tmp_path / "checkpoints")


def test_run_refuses_checkpoints_at_no_interval(tmp_path: Path):
    with (
        open_run(tmp_path, SPEC) as run,
        pytest.raises(InputError, match="every: expected a whole number >= 1, got 0"),
    ):
        assert isinstance(run, Run)
        run.train(Walk(), every=0)


def test_spec_refuses_seeds_of_other_splits():
    assert Spec("walk", {}, seed=2**32 - 1).seed == 2**32 - 1
    with pytest.raises(InputError, match="seed: expected a whole number from 0 to 4294967295"):
        Spec("walk", {}, seed=2**32)


def killed_at_random(folder: Path, algorithm: str, num_kills: int, seed: int) -> int:
    """Train in a process, kill it at random moments, then let it finish; how many kills hit home."""
    rng, hits = np.random.default_rng(seed), 0
    command = [sys.executable, train_toy.__file__, str(folder), algorithm]
    for _ in range(num_kills):
        size = (folder / "metrics.jsonl").stat().st_size if (folder / "metrics.jsonl").exists() else 0
        with subprocess.Popen(command) as process:
            while process.poll() is None and not (folder / "config.json").exists():
                time.sleep(0.005)
            changed = folder / "metrics.jsonl"
            while process.poll() is None and (not changed.exists() or changed.stat().st_size == size):
                time.sleep(0.002)
            time.sleep(float(rng.uniform(0.0, 0.1)))
            process.kill()
        hits += process.returncode == -signal.SIGKILL
    subprocess.run(command, check=True)
    return hits


@pytest.fixture(scope="module", params=train_toy.CONFIGS)
def left_alone(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, object]]:
    """An algorithm, and the content of a run of it that was left alone."""
    folder = tmp_path_factory.mktemp("toy") / "run"
    train_toy.train(folder, request.param)
    return request.param, content(folder)


def test_training_killed_three_times_ends_byte_equal(
    tmp_path: Path, left_alone: tuple[str, dict[str, object]]
):
    assert killed_at_random(tmp_path / "run", left_alone[0], 3, seed=1) == 3
    assert content(tmp_path / "run") == left_alone[1]


@pytest.mark.slow
def test_training_killed_thirty_times_ends_byte_equal(
    tmp_path: Path, left_alone: tuple[str, dict[str, object]]
):
    hits = 0
    for i in range(6):
        hits += killed_at_random(tmp_path / str(i), left_alone[0], 5, seed=i)
        assert content(tmp_path / str(i)) == left_alone[1]
    assert hits == 30
