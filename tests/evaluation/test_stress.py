"""The adversary's search: repeatable, resumable, and its files say what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.errors import InputError, LockedError, UnsupportedError
from weft.evaluation.questions import stress
from weft.evaluation.questions.adversary import Space, draw_instance, draw_parameters, neighbour
from weft.evaluation.questions.stress import Question, Search, open_search, save_record
from weft.io.files import read_problem, write_problem
from weft.model.validate import validate
from weft.schedulers.base import Limit

SMALL = Space(tasks=6, devices=3)


@pytest.fixture(autouse=True)
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of some hundred problems."""
    monkeypatch.setattr(stress, "DRAWS", 40)
    monkeypatch.setattr(stress, "STEPS", 80)
    monkeypatch.setattr(stress, "REPAIRS", 40)


def searched(effort: int, question: Question | None = None) -> Search:
    search = Search(question or Question("heft", "peft", space=SMALL))
    search.run(Limit(effort=effort))
    return search


def finds(search: Search) -> list[tuple[float, float, tuple[int, ...]]]:
    return [(find.better, find.worse, find.size) for find in (search.worst, search.smallest) if find]


@pytest.mark.parametrize(("better", "worse"), [("heft", "peft"), ("peft", "heft")])
def test_search_finds_a_ratio_both_ways(better: str, worse: str) -> None:
    search = searched(600, Question(better, worse, space=SMALL))
    assert search.smallest is not None
    assert search.worst.ratio >= search.smallest.ratio >= 1.3
    assert search.smallest.size <= search.worst.size
    assert search.smallest.above_percent == pytest.approx(100 * (search.smallest.ratio - 1))


def test_search_reports_valid_schedules_of_both_planners() -> None:
    search = searched(300)
    for find in (search.worst, search.smallest):
        plans = [weft.schedule(find.problem, name).schedule for name in ("heft", "peft")]
        assert [plan.makespan for plan in plans] == [find.better, find.worse]
        assert not any(validate(plan) for plan in plans)


def test_search_effort_counts_problems_and_repeats() -> None:
    one, two = searched(333), searched(333)
    assert one.evaluations == 333
    assert finds(one) == finds(two)


def test_search_seed_changes_what_is_tried() -> None:
    other = searched(100, Question("heft", "peft", space=SMALL, seed=1))
    assert finds(searched(100)) != finds(other)


def test_search_stops_at_a_budget() -> None:
    search = Search(Question("heft", "peft", space=SMALL))
    search.run(Limit(budget=0.05))
    assert search.rounds >= 1
    assert search.worst is not None


def test_search_tells_after_every_problem() -> None:
    told: list[int] = []
    search = Search(Question("heft", "peft", space=SMALL), lambda so_far: told.append(so_far.evaluations))
    search.run(Limit(effort=30))
    assert told == list(range(1, 31))


def test_search_without_a_find_of_the_ratio_has_no_smallest() -> None:
    search = searched(50, Question("heft", "peft", ratio=1e9, space=SMALL))
    assert search.worst is not None
    assert search.smallest is None


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_file_of_an_instance_reproduces_the_makespans(tmp_path_factory, seed: int, is_related: bool) -> None:
    space, rng = Space(8, 3, 50.0, is_related), np.random.default_rng(seed)
    instance = neighbour(draw_instance(draw_parameters(space, rng), space, rng), space, rng)
    path = tmp_path_factory.mktemp("files") / "problem.json"
    search = Search(Question("heft", "peft"))
    written = search.measure(instance.problem())
    write_problem(written.problem, path)
    read = search.measure(read_problem(path))
    assert (read.better, read.worse, read.size) == (written.better, written.worse, written.size)


# -- folders ----------------------------------------------------------------------------------------


def run_in(folder: Path, effort: int, stop: Callable[[Search], None] = lambda search: None) -> Search:
    with open_search(folder, Question("heft", "peft", space=SMALL), stop) as search:
        search.run(Limit(effort=effort), lambda done: save_record(done, folder))
    return search


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "lock"}


def test_open_search_leaves_files_that_say_the_same(tmp_path: Path) -> None:
    search = run_in(tmp_path / "found", 400)
    for name, find in (("worst.json", search.worst), ("smallest.json", search.smallest)):
        problem = read_problem(tmp_path / "found" / name)
        assert weft.schedule(problem, "heft").schedule.makespan == find.better
        assert weft.schedule(problem, "peft").schedule.makespan == find.worse


def test_open_search_interrupted_resumes_to_the_same_files(tmp_path: Path) -> None:
    run_in(tmp_path / "straight", 700)

    def stop(search: Search) -> None:
        if search.evaluations == 450:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "broken", 700, stop)
    assert set(files(tmp_path / "broken")) == {"smallest.json", "stress.json", "worst.json"}
    run_in(tmp_path / "broken", 700)
    assert files(tmp_path / "broken") == files(tmp_path / "straight")


def test_open_search_interrupted_in_the_first_round_keeps_the_best(tmp_path: Path) -> None:
    def stop(search: Search) -> None:
        if search.evaluations == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "broken", 700, stop)
    best = read_problem(tmp_path / "broken" / "worst.json")
    with open_search(tmp_path / "broken", Question("heft", "peft", space=SMALL)) as search:
        assert (search.evaluations, search.rounds) == (0, 0)
        assert search.worst.better == weft.schedule(best, "heft").schedule.makespan


def test_open_search_done_tries_nothing_again(tmp_path: Path) -> None:
    run_in(tmp_path, 200)
    before = files(tmp_path)
    assert run_in(tmp_path, 200).evaluations == 200
    assert files(tmp_path) == before


def test_open_search_refuses_another_question(tmp_path: Path) -> None:
    run_in(tmp_path, 20)
    with (
        pytest.raises(
            InputError, match=r"holds another search \(--ratio: there 1.3, here 2\): ask for the same"
        ),
        open_search(tmp_path, Question("heft", "peft", 2, SMALL)),
    ):
        pass


def test_open_search_is_held_by_one_process(tmp_path: Path) -> None:
    question = Question("heft", "peft", space=SMALL)
    with (
        open_search(tmp_path, question),
        pytest.raises(LockedError, match="is searching in this folder"),
        open_search(tmp_path, question),
    ):
        pass


RECORDS = [
    ("notes", "expected JSON"),
    ({"schema": "weft/other/1"}, "schema: expected 'weft/stress-record/1'"),
    ({"rounds": -1}, "rounds: expected a whole number >= 0"),
    ({"evaluations": "many"}, "evaluations: expected a whole number >= 0"),
]


@pytest.mark.parametrize(("change", "message"), RECORDS)
def test_open_search_refuses_a_damaged_record(tmp_path: Path, change, message: str) -> None:
    run_in(tmp_path, 20)
    path = tmp_path / "stress.json"
    text = change if isinstance(change, str) else json.dumps(json.loads(path.read_text()) | change)
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        run_in(tmp_path, 20)


# -- questions --------------------------------------------------------------------------------------

WRONG = [
    (("heft", "heft"), {}, InputError, "expected two planners, got 'heft' twice"),
    (("heft", "peft"), {"ratio": 1.0}, InputError, "ratio: expected a ratio > 1, got 1.0"),
    (("heft", "hept"), {}, InputError, "no planner 'hept'; did you mean"),
    (("fifo", "heft"), {}, UnsupportedError, "better: fifo is a dispatcher"),
    (("heft", "tabu"), {}, UnsupportedError, "worse: tabu: "),
]


@pytest.mark.parametrize(("names", "change", "error", "message"), WRONG)
def test_question_refuses(names, change, error, message: str) -> None:
    with pytest.raises(error) as caught:
        Question(*names, **change)
    assert message in str(caught.value)
