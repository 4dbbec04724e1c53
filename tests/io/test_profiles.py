"""Profiles: what runs took, kept in a file and put into problems."""

from __future__ import annotations

import json
import multiprocessing
import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import problems

from weft.errors import InputError
from weft.io.profiled import with_profile
from weft.io.profiles import Profile, Series, default_path
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem

KINDS = ("load", "train", "score")
CLASSES = ("cpu", "gpu")


def problem_of(work: list[float], kinds: tuple[str, ...] = KINDS, unit: str = "s", **more: object) -> Problem:
    """One task per entry, kinds in turn, on a cpu of speed 1 and a gpu of speed 2."""
    kind = [i % len(kinds) for i in range(len(work))]
    graph = TaskGraph(work, kind=kind, kinds=kinds, time_unit=unit, **more)  # type: ignore[arg-type]
    return Problem(graph, Cluster.uniform([DeviceClass("cpu"), DeviceClass("gpu", 2.0)], [1, 1]))


# -- the file -----------------------------------------------------------------------------------------


@given(st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_series_sums_values_up(values: list[float]):
    series = Series.of(values[0])
    for value in values[1:]:
        series = series.then(value)
    assert (series.count, series.least, series.most) == (len(values), min(values), max(values))
    assert series.mean == pytest.approx(statistics.fmean(values))
    if len(values) > 1:
        assert series.variation == pytest.approx(
            statistics.stdev(values) / statistics.fmean(values), rel=1e-6, abs=1e-7
        )
    if len(values) <= 10:
        assert series.recent == pytest.approx(series.mean)


def test_recent_values_count_more():
    series = Series.of(1.0)
    for _ in range(50):
        series = series.then(1.0)
    for _ in range(20):
        series = series.then(2.0)
    assert series.mean == pytest.approx(91 / 71)
    assert series.recent == pytest.approx(2.0 - 0.9**20)


def test_profile_survives_a_file(tmp_path: Path):
    profile = Profile(tmp_path / "deep" / "profile.json")
    profile.add("train", "gpu", 2.0, 1000, work=4.0, graph="nightly", task="t1")
    profile.add("train", "gpu", 3.0, work=6.0)
    profile.add("load", "cpu", 0.5)
    profile.write()
    again = Profile.read(profile.path)
    assert len(again) == 2
    for kind, class_name in (("train", "gpu"), ("load", "cpu")):
        assert again.time(kind, class_name) == profile.time(kind, class_name)
    observed = again.time("train", "gpu")
    assert observed is not None and observed.pace is not None and observed.size is not None
    assert (observed.count, observed.pace.mean, observed.size.count) == (2, 0.5, 1)
    assert again.tasks_of("nightly")["t1", "gpu"].seconds == Series.of(2.0)
    assert again.time("train", "cpu") is None
    assert again.tasks_of("other") == {}
    assert json.loads(profile.path.read_text())["schema"] == "weft/profile/1"


def test_a_profile_that_is_not_there_is_empty(tmp_path: Path):
    profile = Profile.read(tmp_path / "none.json")
    assert len(profile) == 0
    profile.write()
    assert not profile.path.exists()


def test_profile_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("WEFT_PROFILE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "weft" / "profile.json"
    monkeypatch.setenv("WEFT_PROFILE", str(tmp_path / "mine.json"))
    assert Profile.read().path == tmp_path / "mine.json"
    monkeypatch.delenv("WEFT_PROFILE")
    monkeypatch.setenv("XDG_DATA_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_path() == tmp_path / ".local" / "share" / "weft" / "profile.json"


def write_some(path: Path, name: str) -> None:
    for i in range(10):
        profile = Profile.read(path)
        profile.add(name, "cpu", float(i))
        profile.add("shared", "cpu", 1.0)
        profile.write()


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path):
    path = tmp_path / "profile.json"
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=write_some, args=(path, name)) for name in ("a", "b")]
    for one in others:
        one.start()
    write_some(path, "c")
    for one in others:
        one.join()
    profile = Profile.read(path)
    counts = {kind: profile.time(kind, "cpu") for kind in ("a", "b", "c", "shared")}
    assert {kind: one and one.count for kind, one in counts.items()} == {
        "a": 10,
        "b": 10,
        "c": 10,
        "shared": 30,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "expected"),
        ('{"kinds": []}', "schema: expected a value, got nothing"),
        ('{"schema": "weft/graph/1"}', "schema: expected 'weft/profile/1', got 'weft/graph/1'"),
        (
            '{"schema": "weft/profile/1", "kinds": [{"kind": "a", "class": "b", "seconds": {"count": 0}}]}',
            "kinds[0].seconds.count: expected",
        ),
        ('{"schema": "weft/profile/1", "times": []}', "times: unknown"),
    ],
)
def test_wrong_profiles_are_refused(tmp_path: Path, text: str, message: str):
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        Profile.read(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_wrong_observations_are_refused(tmp_path: Path, seconds: float):
    with pytest.raises(InputError, match="seconds: expected a finite number >= 0"):
        Profile(tmp_path / "p.json").add("a", "cpu", seconds)


# -- problems -----------------------------------------------------------------------------------------


@given(problems())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_an_empty_profile_changes_nothing(problem: Problem):
    assert with_profile(problem, Profile("none.json")) is problem


@given(problems(), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_profile_keeps_who_can_run_what(problem: Problem, seed: int):
    rng, profile = np.random.default_rng(seed), Profile("none.json")
    for job in problem.jobs:
        for kind in job.graph.kinds:
            for one in problem.cluster.classes:
                if rng.random() < 0.5:
                    profile.add(kind, one.name, float(rng.uniform(0.0, 9.0)))
    found = with_profile(problem, profile)
    assert (np.isfinite(found.run_times) == np.isfinite(problem.run_times)).all()


@given(
    st.lists(st.floats(0.01, 100.0), min_size=3, max_size=3),
    st.floats(0.1, 10.0),
    st.sets(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1),
    st.sampled_from(["s", "ms", "min"]),
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_product_of_kind_and_class_is_recovered(
    times: list[float], slower: float, known: set[tuple[int, int]], unit: str
):
    """Wherever a kind was seen on both classes, its ratio completes the kinds that were seen on one."""
    known |= {(0, 0), (0, 1)}
    problem, profile = problem_of([1.0, 7.0, 3.0], unit=unit), Profile("none.json")
    for k, c in sorted(known):
        profile.add(KINDS[k], CLASSES[c], times[k] * (1.0, slower)[c])
    found = with_profile(problem, profile, prior=0.0)
    for k in {k for k, _ in known}:
        expected = np.array([times[k], times[k] * slower]) / problem.seconds_per_unit
        assert found.run_times[k] == pytest.approx(expected)


def test_a_kind_never_seen_gets_the_mean_correction():
    profile = Profile("none.json")
    profile.add("load", "cpu", 4.0)
    profile.add("train", "cpu", 1.0)
    found = with_profile(problem_of([1.0, 1.0, 1.0]), profile, prior=0.0)
    assert found.run_times == pytest.approx(np.array([[4.0, 2.0], [1.0, 0.5], [2.0, 1.0]]))


def test_few_observations_leave_much_to_the_problem():
    problem, errors = problem_of([1.0, 1.0, 1.0]), []
    profile = Profile("none.json")
    for count in range(1, 65):
        profile.add("load", "cpu", 10.0)
        if count in (1, 4, 16, 64):
            errors.append(10.0 - float(with_profile(problem, profile, prior=1.0).run_times[0, 0]))
    assert errors[0] == pytest.approx(10.0 - 10.0**0.5)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.4


def test_work_tells_tasks_of_a_kind_apart():
    problem, profile = problem_of([1.0, 4.0], ("load",)), Profile("none.json")
    for work in (2.0, 8.0):
        profile.add("load", "cpu", 3.0 * work, work=work)
    found = with_profile(problem, profile, prior=0.0)
    assert found.run_times[:, 0] == pytest.approx([3.0, 12.0])
    assert found.cluster.classes[0].speeds["load"] == pytest.approx(1 / 3)
    assert found.noise == pytest.approx(0.0, abs=1e-9)


def test_work_that_says_nothing_is_left_aside():
    """The kind took the same whatever its work was said to be."""
    problem, profile = problem_of([8.0, 8.0], ("load",)), Profile("none.json")
    for work in (1.0, 2.0, 3.0):
        profile.add("load", "cpu", 5.0, work=work)
    assert with_profile(problem, profile, prior=0.0).run_times[:, 0] == pytest.approx([5.0, 5.0])


def test_times_of_classes_and_graphs_are_corrected():
    graph = TaskGraph([np.nan, 2.0], classes=("cpu",), times=[[3.0], [np.nan]], kind=[0, 1], kinds=("a", "b"))
    cluster = Cluster.uniform([DeviceClass("cpu", times={"b": 4.0}, overhead=1.0)], [1])
    profile = Profile("none.json")
    profile.add("a", "cpu", 6.0)
    profile.add("b", "cpu", 2.0)
    found = with_profile(Problem(graph, cluster), profile, prior=0.0)
    assert found.run_times[:, 0] == pytest.approx([7.0, 3.0])
    assert found.cluster.classes[0].times["b"] == pytest.approx(2.0)


def test_kinds_without_any_work_take_what_was_seen():
    profile = Profile("none.json")
    profile.add("load", "cpu", 3.0)
    found = with_profile(problem_of([0.0, 0.0, 2.0], unit="ms"), profile)
    assert found.run_times == pytest.approx(np.array([[3000.0, 1500.0], [0.0, 0.0], [2.0, 1.0]]))


def test_noise_is_the_observed_variation():
    profile = Profile("none.json")
    for seconds in (1.0, 2.0, 3.0):
        profile.add("load", "cpu", seconds)
    assert with_profile(problem_of([1.0]), profile, prior=0.0).noise == pytest.approx(0.5)
    assert with_profile(problem_of([1.0]).replaced(noise=0.1), Profile("none.json")).noise == 0.1


def test_tasks_that_were_seen_themselves_have_times_of_their_own():
    problem = problem_of([1.0, 1.0], ("load",), names=("x", "y"), name="nightly")
    profile = Profile("none.json")
    for seconds in (4.0, 4.0):
        profile.add("load", "gpu", seconds, graph="nightly", task="x")
    profile.add("load", "gpu", 1.0, graph="nightly", task="y")
    found = with_profile(problem, profile, prior=0.0)
    assert found.run_times[:, 1] == pytest.approx([4.0, 1.0])
    assert found.run_times[:, 0] == pytest.approx([8.0, 2.0])  # half as fast, by the problem
    assert found.noise == pytest.approx(0.0, abs=1e-12)


def test_jobs_keep_everything_else():
    problem = problem_of([1.0]).replaced(
        jobs=[Job(problem_of([1.0]).graph, "a", release=3.0), Job(problem_of([2.0]).graph, "b")]
    )
    profile = Profile("none.json")
    profile.add("load", "cpu", 9.0)
    found = with_profile(problem, profile, prior=0.0)
    assert [(job.name, job.release) for job in found.jobs] == [("a", 3.0), ("b", 0.0)]
    assert found.run_times[:, 0] == pytest.approx([6.0, 12.0])


def seen_once(problem: Problem, took: np.ndarray, seed: int) -> Profile:
    """A profile after one run in which every task ran once, classes in turn."""
    profile, graph, rng = Profile("nowhere.json"), problem.jobs[0].graph, np.random.default_rng(seed)
    start = int(rng.integers(2))
    for i, name in enumerate(graph.names):
        c = (start + i // len(graph.kinds)) % 2
        kind = graph.kinds[int(graph.kind[i])]
        profile.add(kind, CLASSES[c], float(took[i, c]), work=1.0, graph=graph.name, task=name)
    return profile


def test_a_task_unlike_its_kind_does_not_change_the_others():
    """A short task among long ones of its kind, as the last one of a graph often is."""
    speeds = np.array([[1.0, 4.0], [1.0, 0.25], [1.0, 1.0]])  # (num_kinds, num_classes)
    took = np.array([[1.0, 1.0] / speeds[i % 3] for i in range(36)])
    took[0] /= 100.0
    blank = problem_of([1.0] * 36)
    found = with_profile(blank, seen_once(blank, took, 0)).run_times
    assert found[1:] == pytest.approx(took[1:], rel=0.15)


@pytest.mark.parametrize("seed", range(5))
def test_classes_that_differ_alike_for_all_kinds_are_told_by_all(seed: int):
    rng = np.random.default_rng(seed)
    took = rng.lognormal(0.0, 0.3, 36)[:, None] / np.array([1.0, 4.0])
    blank = problem_of([1.0] * 36)
    ratio = [row[0] / row[1] for row in with_profile(blank, seen_once(blank, took, seed)).run_times]
    assert np.ptp(np.log(ratio)) < 0.05  # one ratio for all kinds, but for what the problem says


@pytest.mark.parametrize("seed", range(5))
def test_kinds_that_differ_between_classes_keep_their_own(seed: int):
    rng, speeds = np.random.default_rng(seed), np.array([[1.0, 4.0], [4.0, 1.0], [1.0, 1.0]])
    took = np.array([rng.lognormal(0.0, 0.1) / speeds[i % 3] for i in range(36)])
    blank = problem_of([1.0] * 36)
    found = with_profile(blank, seen_once(blank, took, seed)).run_times
    assert np.median(np.abs(np.log(found / took))) < 0.1
