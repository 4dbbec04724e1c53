"""Streams of jobs: paired workloads, rules and policies alike, the published figures, own graphs."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.catalog import DISPATCHERS, QUEUES, dispatcher
from weft.cli.app import app
from weft.errors import InputError
from weft.evaluation.sweep import queue_runs as streams
from weft.evaluation.sweep.answers import evaluate
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.queue_runs import (
    Outcome,
    play,
    run_policy,
    run_rule,
    workload_seed,
)
from weft.evaluation.sweep.runner import Sweep
from weft.evaluation.sweep.stream_bounds import least_job_times
from weft.io.files import write_graph
from weft.model.graph import Bools, GraphBuilder, Ints
from weft.policies.checkpoint import Architecture, Card, save_policy
from weft.policies.learned import Narrow, load_learned
from weft.scenarios import scenario, sweep
from weft.sim.queues.environment import Setup, setup_of
from weft.sim.queues.observation import Sight

SEEDS = (1, 2, 3)
OWN = """
extends = "conditional"
schedulers = ["fifo", "srw"]
cluster = { device = [{ class = "cpu", count = 2 }, { class = "gpu", batch = 4 }] }
graph = { time_unit = "ms", tasks = [
  { name = "scan", kind = "scan", work = 5 },
  { name = "easy", kind = "easy", work = 5 },
  { name = "hard", kind = "hard", work = 40 },
  { name = "store", kind = "store", work = 2 },
], edges = [
  { source = "scan", target = "easy", branch = 0, probability = 0.5 },
  { source = "scan", target = "hard", branch = 0, probability = 0.5 },
  { source = "easy", target = "store" },
  { source = "hard", target = "store" },
] }
[settings]
branch = "scan"
jobs = 40
"""


def small(jobs: int = 300, sight: Sight | None = None, *, waits: bool = False, **given: object) -> Setup:
    case = scenario("conditional", jobs=jobs, **given).stream("test", 0)
    return setup_of(case, sight, waits=waits)


# -- workloads ----------------------------------------------------------------------------------------


def test_workload_seed_differs_between_problems_and_seeds():
    found = {workload_seed(0, problem, seed) for problem in ("test/0", "test/1") for seed in range(5)}
    assert len(found) == 10


def test_job_takes_no_less_than_its_fastest_path():
    setup = small()
    for name in (one for one, entry in DISPATCHERS.items() if QUEUES.name in entry.acts_on):
        found = run_rule(dispatcher(name), setup, SEEDS)
        least = np.stack([least_job_times(setup, seed) for seed in SEEDS])
        assert (found.job_times >= least - 1e-9).all()


def test_fastest_path_is_met_where_nothing_waits():
    case = scenario("conditional", jobs=50, arrivals="periodic", gap=500).stream("test", 0)
    setup = setup_of(case)
    found = run_rule(dispatcher("eft"), setup, SEEDS)
    assert found.job_times[0] == pytest.approx(least_job_times(setup, SEEDS[0]))


def test_probability_of_the_heavy_task_is_that_of_the_setting():
    least = least_job_times(small(jobs=20000, p_c=0.2), 7)
    assert (least > 50).mean() == pytest.approx(0.5 * 0.8, abs=0.02)


def test_small_buffers_grow_and_change_nothing(monkeypatch: pytest.MonkeyPatch):
    before = run_rule(dispatcher("top-first"), small(p_c=0), SEEDS)
    monkeypatch.setattr(streams, "FIRST_ROOM", 2)
    after = run_rule(dispatcher("top-first"), small(p_c=0), SEEDS)
    assert [before.trace(k) for k in range(3)] == [after.trace(k) for k in range(3)]


# -- policies -----------------------------------------------------------------------------------------


LENGTHS = Sight(oldest=0, mean_age=False, estimates=False, length_scale=2.0**20)
"""The lengths of the queues and nothing else, never clipped."""


class DepthFirst:
    """Depth-first from observation and mask alone."""

    batch = (1, 1, 5, 10)

    def decide_batch(
        self, observation: np.ndarray, mask: Bools, rng: np.random.Generator | None = None
    ) -> Ints:
        actions = np.full(mask.shape[:2], mask.shape[2] - 1, np.int64)
        waiting = (observation * LENGTHS.length_scale).astype(np.int64)
        for b in range(len(mask)):
            for p in np.flatnonzero(mask[b, :, :-1].any(axis=1)).tolist():
                kinds = np.flatnonzero(waiting[b] > 0)
                if len(kinds):
                    actions[b, p] = kinds[-1]
                    waiting[b, kinds[-1]] -= self.batch[p]
        return actions


@pytest.mark.parametrize("waits", [False, True])
def test_policy_that_copies_a_rule_gives_the_same_job_times(waits: bool):
    rule = run_rule(dispatcher("depth-first+wait" if waits else "depth-first"), small(), SEEDS)
    policy = run_policy(DepthFirst(), small(sight=LENGTHS, waits=waits), SEEDS)
    assert [policy.trace(k) for k in range(3)] == [rule.trace(k) for k in range(3)]
    assert policy.decisions.tolist() == rule.decisions.tolist()


def saved_policy(folder: Path, **training: object) -> str:
    """Weights that mean nothing, for the graph of the scenario and queue lengths."""
    shape = Architecture(6, 4, 7, (5,), critic="none")
    rng = np.random.default_rng(3)
    tensors = {name: rng.standard_normal(size).astype(np.float32) for name, size in shape.shapes().items()}
    features = tuple(f"length {kind}" for kind in "ABCDEF")
    card = Card("toy", "none", shape, features=features, training={"sight": LENGTHS._asdict(), **training})
    save_policy(folder / "toy.json", tensors, card)
    return str(folder / "toy.safetensors")


def test_policy_file_is_a_scheduler(tmp_path: Path):
    name = saved_policy(tmp_path)
    found = evaluate(Sweep(sweep("conditional", {"jobs": 100}), ("fifo", name), 1, SEEDS))
    assert [row.scheduler for row in found.rows] == ["fifo"] * 3 + [name] * 3
    assert found.rows[3]["mean_jct"] > found.rows[0]["lower_bound"]


def test_policy_of_another_graph_is_refused(tmp_path: Path):
    (tmp_path / "own.toml").write_text(OWN, "utf-8")
    case = scenario(tmp_path / "own.toml").stream("test", 0)
    with pytest.raises(InputError, match="trained for another graph or cluster: expected 4 features"):
        play(saved_policy(tmp_path), case, SEEDS)


@pytest.mark.parametrize(
    ("sight", "field"),
    [
        ({"smell": True}, "training.sight.smell"),
        ({"oldest": 10**30}, "training.sight.oldest"),
        ({"devices": "yes"}, "training.sight.devices"),
        ([1], "training.sight"),
    ],
)
def test_policy_with_a_wrong_sight_is_refused(tmp_path: Path, sight: object, field: str):
    case, name = scenario("conditional", jobs=5).stream("test", 0), saved_policy(tmp_path, sight=sight)
    with pytest.raises(InputError) as caught:
        play(name, case, SEEDS)
    assert (caught.value.file, caught.value.field) == (name, field)


def test_policy_of_another_feature_version_is_refused(tmp_path: Path):
    name = saved_policy(tmp_path)
    card = json.loads((tmp_path / "toy.json").read_text("utf-8"))
    (tmp_path / "toy.json").write_text(json.dumps(card | {"feature_version": "queue/9"}), "utf-8")
    load_learned.cache_clear()
    with pytest.raises(InputError, match="expected 'queue/1', got 'queue/9'") as caught:
        play(name, scenario("conditional", jobs=5).stream("test", 0), SEEDS)
    assert caught.value.field == "feature_version"


class Greedy:
    """Every device in turn takes the first kind it may, from what those before it have left."""

    def decide_batch(
        self,
        observation: np.ndarray,
        mask: Bools,
        rng: np.random.Generator | None = None,
        narrow: Narrow | None = None,
    ) -> Ints:
        allowed, actions = mask.copy(), np.empty(mask.shape[:2], np.int64)
        for head in range(mask.shape[1]):
            actions[:, head] = allowed[:, head].argmax(axis=1)
            if narrow is not None:
                narrow(allowed, head, actions[:, head])
        return actions


def test_policy_that_narrows_chooses_like_the_rule_that_counts_claims():
    rule = run_rule(dispatcher("top-first"), small(), SEEDS)
    policy = run_policy(Greedy(), replace(small(), narrows=True), SEEDS)
    assert policy.trace(0) == rule.trace(0)
    assert policy.idles.tolist() == rule.idles.tolist()


def test_policy_forgets_as_its_card_says_unless_the_setting_says_otherwise(tmp_path: Path):
    sight = LENGTHS._replace(forget=0.9)._asdict()
    name = saved_policy(tmp_path, sight=sight)
    own = play(name, scenario("conditional", jobs=50).stream("test", 0), SEEDS)
    told = play(name, scenario("conditional", jobs=50, forget=0.5).stream("test", 0), SEEDS)
    assert (own.setup.rules.forget, told.setup.rules.forget) == (0.9, 0.5)


def test_recorded_estimate_nears_the_probability():
    found = run_policy(DepthFirst(), small(3000, LENGTHS, p_c=0.7), SEEDS, records=True)
    assert found.estimates.shape == (3, 3000)
    assert found.estimates[:, -1] == pytest.approx([0.7] * 3, abs=0.05)


def test_forgetting_estimate_follows_a_step():
    given: dict[str, object] = {"p_c": 0.1, "drift": "step", "drift_to": 0.9}
    slow, fast = (
        run_policy(DepthFirst(), small(2000, LENGTHS, forget=w, **given), SEEDS, records=True)
        for w in (1, 0.95)
    )
    assert (abs(slow.estimates[:, 1300] - 0.9) > 0.3).all()
    assert (abs(fast.estimates[:, 1300] - 0.9) < 0.3).all()


# -- published figures --------------------------------------------------------------------------------

WORKLOADS = tuple(workload_seed(0, "test/0", seed) for seed in range(6))
PUBLISHED = {  # mean job time and its standard error at p_c = 0, 0.5 and 1
    "fifo": ((160.18, 2.45), (91.09, 0.30), (36.47, 0.02)),
    "mru": ((137.87, 0.25), (94.47, 0.22), (37.74, 0.03)),
    "depth-first": ((145.18, 2.54), (94.19, 1.24), (36.52, 0.06)),
    "heavy-last-1": ((106.5, 0.5), (72.7, 0.35), (34.1, 0.1)),
    "heavy-last-3": ((108.9, 0.5), (72.9, 0.35), (34.1, 0.1)),
    "heavy-last-5": ((106.4, 0.5), (72.0, 0.35), (34.1, 0.1)),
}


@cache
def full_run(name: str, p_c: float) -> Outcome:
    return play(name, scenario("conditional", p_c=p_c).stream("test", 0), WORKLOADS)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", PUBLISHED)
def test_mean_job_time_is_the_published_one(name: str, place: int):
    found = full_run(name, (0.0, 0.5, 1.0)[place]).mean_jct
    mean, error = PUBLISHED[name][place]
    own = found.std(ddof=1) / len(found) ** 0.5
    assert abs(found.mean() - mean) < 3.0 * np.hypot(error, own)


# -- sweeps -------------------------------------------------------------------------------------------


def swept(**given: object) -> Evaluation:
    cells = sweep("conditional", {"jobs": 80, "p_c": [0, 0.5]} | given)
    return evaluate(Sweep(cells, ("fifo", "heavy-last-1", "random"), 1, (0, 1, 2, 3)))


def test_sweep_pairs_schedulers_by_seed():
    bounds: dict[tuple[str, int], list[float]] = {}
    for row in swept().rows:
        bounds.setdefault((row.cell, row.seed), []).append(row["lower_bound"])
    assert all(len(found) == 3 and len(set(found)) == 1 for found in bounds.values())
    assert len({found[0] for found in bounds.values()}) > 4


def test_sweep_is_the_same_seed_by_seed_and_all_at_once():
    cells = sweep("conditional", {"jobs": 80})
    together = evaluate(Sweep(cells, ("random",), 1, (0, 1, 2))).rows
    alone = [row for seed in range(3) for row in evaluate(Sweep(cells, ("random",), 1, (seed,))).rows]
    assert list(together) == alone


def test_sweep_resumes_from_its_folder(tmp_path: Path):
    asked = Sweep(sweep("conditional", {"jobs": 40}), ("fifo", "mru"), 1, SEEDS)
    first = evaluate(asked, out=tmp_path / "sweep")
    assert evaluate(asked, out=tmp_path / "sweep").rows_hash == first.rows_hash


def test_sweep_takes_every_seed_as_a_sample():
    found = swept()
    assert {one.comparison.n for one in found.comparisons} == {4}
    assert {one.metric for one in found.summary} >= {"mean_jct", "p99_jct", "utilisation", "batch_fill"}


def test_sweep_keeps_utilisation_and_batch_fill_of_every_device():
    devices = json.loads(swept().rows[0].devices or "null")
    assert [one["device"] for one in devices] == ["cpu-0", "cpu-1", "gpu-small-0", "gpu-large-0"]
    assert devices[0]["batch_fill"] == 1.0
    assert all(0 < one["utilisation"] <= 1 + 1e-9 for one in devices)


def test_sweep_refuses_a_planner():
    with pytest.raises(InputError, match="peft is a planner: it acts on whole problems"):
        Sweep(sweep("conditional"), ("peft",), 1)


def test_evaluate_verb_prints_streams_and_json():
    words = ["evaluate", "conditional", "-s", "fifo,eft", "--seeds", "3", "--set", "jobs=50"]
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert shown.stdout.startswith("conditional, jobs=50: 3 test seeds, times in ms\n")
    found = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).stdout)
    assert len(found["rows"]) == 6
    assert found["rows"][0]["devices"][3]["device"] == "gpu-large-0"


# -- variants and own graphs --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"arrivals": "periodic"},
        {"arrivals": "poisson"},
        {"arrivals": "once"},
        {"idle": "wait"},
        {"expiry": 60},
        {"spread": 0},
        {"drift": "step", "drift_to": 0.9},
        {"drift": "ramp", "drift_to": 1},
        {"drift": "walk"},
    ],
    ids=str,
)
def test_variant_of_the_scenario_changes_what_happens(given: dict[str, object]):
    changed = run_rule(dispatcher("fifo"), small(**given), SEEDS)
    usual = run_rule(dispatcher("fifo"), small(), SEEDS)
    assert changed.trace(0) != usual.trace(0)


def test_expired_jobs_count_with_the_limit():
    found = run_rule(dispatcher("top-first"), small(p_c=0, expiry=150), SEEDS)
    assert (found.expired > 0).all()
    assert (np.isclose(found.job_times, 150).sum(axis=1) >= found.expired).all()


def test_arrivals_may_come_from_a_file(tmp_path: Path):
    (tmp_path / "times.txt").write_text("# ms\n30\n10\n20.5\n", "utf-8")
    case = scenario("conditional", arrivals="trace", trace=str(tmp_path / "times.txt")).stream("test", 0)
    assert case.arrivals.draw(0).tolist() == [10.0, 20.5, 30.0]
    assert run_rule(dispatcher("fifo"), setup_of(case), [1]).job_times.shape == (1, 3)


def test_trace_of_a_recipe_lies_beside_it_and_is_an_input(tmp_path: Path):
    (tmp_path / "times.json").write_text("[1, 2, 3, 4]", "utf-8")
    text = 'extends = "conditional"\n[settings]\narrivals = "trace"\ntrace = "times.json"\njobs = 3\n'
    (tmp_path / "own.toml").write_text(text, "utf-8")
    chosen = scenario(tmp_path / "own.toml")
    assert chosen.inputs == (str(tmp_path / "times.json"),)
    assert chosen.stream("test", 0).arrivals.times == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(("arrivals", "trace"), [("trace", ""), ("normal", "times.txt")])
def test_trace_and_its_file_belong_together(arrivals: str, trace: str):
    with pytest.raises(InputError) as caught:
        scenario("conditional", arrivals=arrivals, trace=trace).stream("test", 0)
    assert caught.value.field == "settings.trace"


def test_own_graph_needs_no_code(tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text(OWN, "utf-8")
    found = evaluate(Sweep(sweep(path, {"p_c": [0.1, 0.9]}), ("fifo", "srw", "heavy-last"), 1, SEEDS))
    assert len(found.rows) == 18
    assert all(row["mean_jct"] >= row["lower_bound"] for row in found.rows)


def test_forks_joins_and_branches_work_together():
    setup = setup_of(scenario("conditional-join", jobs=200).stream("test", 0))
    for name in ("fifo", "depth-first", "heavy-last-3", "eft"):
        found = run_rule(dispatcher(name), setup, SEEDS)
        least = np.stack([least_job_times(setup, seed) for seed in SEEDS])
        assert (found.job_times >= least - 1e-9).all()
    calm = setup_of(scenario("conditional-join", jobs=50, arrivals="periodic", gap=900).stream("test", 0))
    alone = run_rule(dispatcher("fifo+wait"), calm, SEEDS).job_times[0]
    assert set(np.round(alone, 6)) == {32.0, 40.0, 108.0}  # after fuse: pass and label, archive, segment


def test_bad_trace_names_its_field_and_line(tmp_path: Path):
    (tmp_path / "times").write_text("1\nsoon\n", "utf-8")
    with pytest.raises(InputError, match="expected a finite time") as caught:
        scenario("conditional", arrivals="trace", trace=str(tmp_path / "times")).stream("test", 0)
    assert (caught.value.field, caught.value.line) == ("settings.trace", 2)


def test_own_graph_may_be_a_file(tmp_path: Path):
    builder = GraphBuilder("two", "ms")
    builder.task("a", 3.0, kind="a")
    builder.task("b", 4.0, kind="b", after=["a"])
    write_graph(builder.build(), tmp_path / "two.json")
    text = 'extends = "conditional"\ngraph = "two.json"\n[settings]\nbranch = ""\njobs = 20\n'
    (tmp_path / "own.toml").write_text(text, "utf-8")
    (cell,) = sweep(tmp_path / "own.toml")
    assert cell.problem("test", 0).graph.names == ("a", "b")
    assert cell.inputs == (str(tmp_path / "two.json"),)
    assert len(evaluate(Sweep((cell,), ("fifo",), 1, SEEDS)).rows) == 3


BAD = [
    ('branch = "scan"', 'branch = "hard"', "expected a task with at least two edges of branch 0, got 'hard'"),
    ('branch = "scan"', 'branch = "X"', "no task 'X' in graph 'graph'; scan branch"),
    ("work = 40", "work = -1", "expected a finite number >= 0, got -1"),
    (
        'target = "hard", branch = 0, probability = 0.5',
        'target = "hard", branch = 0, probability = 0.6',
        "sum to",
    ),
    ('target = "hard", branch', 'target = "herd", branch', "names an unknown task 'herd'"),
    ("batch = 4", "batch = 0", "greater than or equal to 1, got 0"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_own_graph_with_a_mistake_is_refused(tmp_path: Path, old: str, new: str, message: str):
    path = tmp_path / "own.toml"
    path.write_text(OWN.replace(old, new), "utf-8")
    with pytest.raises(InputError, match=message):
        scenario(path).stream("test", 0)


def test_graph_of_another_generator_is_refused(tmp_path: Path):
    path = tmp_path / "own.toml"
    path.write_text('extends = "workflows"\ngraph = "a.json"\n', "utf-8")
    with pytest.raises(InputError, match="generator workflow makes its own graphs"):
        scenario(path)


def test_scenario_without_a_stream_says_so():
    with pytest.raises(InputError, match="scenario jobshop is no stream of jobs"):
        scenario("jobshop").stream("test", 0)
