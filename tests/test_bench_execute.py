"""The benchmark of real runs, without running anything for real."""

from __future__ import annotations

import threading

import pytest

from benchmarks._execute.bench import Bench, compare
from benchmarks._execute.gaps import Gaps
from benchmarks._execute.lanes import lane_of
from benchmarks._execute.rows import Rows, turns
from benchmarks._execute.stream import make_stream
from benchmarks._execute.world import END, Links, Shape, cluster_of, make_world
from weft.execute.work import Call


def test_rows_are_measured_once_also_by_another_process(tmp_path):
    path, key = tmp_path / "rows.jsonl", {"part": "speed", "run": 0}
    row = Rows(path).of(key, lambda: {"seconds": 1.5}, say=lambda line: None)
    with path.open("a") as file:
        file.write('{"key": "cut o')
    again = Rows(path)
    assert again.has(key) and not again.has({**key, "run": 1})
    assert again.of(key, lambda: pytest.fail("measured again")) == row


def test_ways_take_turns():
    assert list(turns("ab", 2)) == [(0, "a"), (0, "b"), (1, "b"), (1, "a")]


def test_worlds_end_in_one_task_and_plan_as_they_run():
    world = make_world("affinity", 3, Shape(tasks=12))
    assert world.graph.num_tasks == 13 and len(world.graph.successors(world.graph.index[END])) == 0
    problem = world.problem(cluster_of("affinity", Links(gap=0.0)))
    classes = [one.name for one in problem.cluster.classes]
    for task, name in enumerate(world.graph.names):
        assert problem.run_times[task] == pytest.approx([world.costs[name][one] for one in classes])
    noisy = world.noisy(0, 0.3).work("", "t0")
    assert isinstance(noisy, Call) and noisy.arguments[0]["disk"] != world.costs["t0"]["disk"]
    assert (world.blank().graph.work == 1.0).all()


def test_streams_ask_for_the_load_they_are_given():
    stream = make_stream("affinity", 0, 0.6, 0.5, jobs=400)
    best = sum(min(costs.values()) for world in stream.worlds for costs in world.costs.values())
    assert best / 3.0 / stream.times[-1] == pytest.approx(0.5, rel=0.15)


def test_links_are_what_tasks_waited_for_and_ran_longer():
    links = Gaps((0.01, 0.03), (0.05,), (0.001,)).links(1e8)
    assert (links.gap, links.latency, links.bandwidth) == pytest.approx((0.021, 0.03, 1e8))


def test_losses_count_and_targets_are_judged(capsys):
    bench = Bench(Rows())
    assert compare("a / b", [2.0, 1.0], [1.0, 2.0]) == [2.0, 0.5]
    bench.judge("fast", 2.0, 1.2)
    bench.judge("slow", 5.0, 4.0, is_least=False, unit="%")
    said = capsys.readouterr().out
    assert "1 of 2 runs lost" in said and "reached" in said and "MISSED" in said
    assert bench.missed == ["slow"]


def test_lanes_share_the_runs_and_another_process_judges(capsys):
    benches = [Bench(Rows(), runs=10, lane=(k, 4)) for k in range(4)]
    assert sorted(run for bench in benches for run in bench.own) == list(range(10))
    assert benches[0].whole("part", lambda run: []) == []
    rows = Rows()
    for run in (0, 2):
        rows.of({"run": run}, dict, say=lambda line: None)
    bench = Bench(rows, runs=3)
    assert bench.whole("part", lambda run: [{"run": run}]) == [0, 2]
    assert "2 of 3 runs are measured" in capsys.readouterr().out and bench.missed == ["part, 1 runs"]


def test_nothing_is_begun_after_the_time_is_up():
    bench = Bench(Rows(), until=0.0)
    assert bench.is_over and not bench.lacks([{"run": 0}])
    assert Bench(Rows()).lacks([{"run": 0}])


def test_rows_of_many_writers_are_all_there(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"key": "cut o')

    def write(lane: int) -> None:
        rows = Rows(path)
        for run in range(20):
            rows.of({"lane": lane, "run": run}, lambda: {"text": "x" * 9000}, say=lambda line: None)

    threads = [threading.Thread(target=write, args=(lane,)) for lane in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    read = Rows(path)
    assert all(read.has({"lane": lane, "run": run}) for lane in range(4) for run in range(20))


def test_lane_is_a_number_of_a_count():
    assert lane_of("2/4") == (2, 4)
    for text in ("4/4", "1", "a/b", ""):
        with pytest.raises(ValueError):
            lane_of(text)
