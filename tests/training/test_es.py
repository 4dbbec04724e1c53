"""Weights tuned by CMA-ES: the search, the learner, its run and what becomes of it."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from weft import catalog
from weft.errors import InputError
from weft.model.problem import realise
from weft.policies.checkpoint import load_policy, save_policy
from weft.policies.weights.architecture import WeightsArchitecture
from weft.schedulers.dispatchers.tasks import RuleDispatcher, run_one
from weft.sim.tasks.rules import LATE
from weft.sim.tasks.weights import ADDED, FORECAST, NAMES, PRICED, SRW
from weft.training.es.cma import CMAES
from weft.training.es.config import ESConfig
from weft.training.es.learner import RuleES, cost_of, made_ready, measured, weights_card
from weft.training.recipes import read_recipe
from weft.training.train import train

SMALL = {
    "generations": 4,
    "population": 6,
    "episodes": 3,
    "jobs": 6,
    "tasks": 10,
    "load": [0.8],
    "devices": [4],
    "ccr": [1.0],
    "validation.seeds": 2,
    "validation.every": 2,
}


def valley(x: np.ndarray) -> float:
    """Rosenbrock's function, least at ones."""
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def test_search_finds_the_bottom_of_a_curved_valley():
    search = CMAES(np.zeros(5), 0.5, np.ones(5), 12, seed=3)
    for _ in range(400):
        search.tell(np.array([valley(x) for x in search.ask()]))
    assert search.best == pytest.approx(np.ones(5), abs=1e-3)


def test_search_goes_on_from_its_state():
    first, second = (CMAES(np.zeros(4), 0.3, np.ones(4), 8, seed=5) for _ in range(2))
    for _ in range(7):
        first.tell(np.array([valley(x) for x in first.ask()]))
    second.restore(first.state())
    for _ in range(5):
        a, b = first.ask(), second.ask()
        assert a.tobytes() == b.tobytes()
        first.tell(np.array([valley(x) for x in a]))
        second.tell(np.array([valley(x) for x in b]))
    assert first.best.tobytes() == second.best.tobytes()


def test_search_adapts_to_scales():
    search = CMAES(np.full(2, 5.0), 1.0, np.array([1.0, 100.0]), 8, seed=1)
    for _ in range(120):
        search.tell(np.array([x[0] ** 2 + (x[1] / 100) ** 2 for x in search.ask()]))
    assert abs(search.best[0]) < 1e-3
    assert abs(search.best[1]) < 0.1


def learner(threads: int = 1, recipe: str = "workflows-es") -> RuleES:
    chosen = read_recipe(recipe, SMALL)
    return RuleES(
        lambda number: chosen.problem("train", number),
        chosen.config,
        weights_card(chosen),
        seed=1,
        threads=threads,
    )


def test_threads_change_nothing():
    one, two = learner(1), learner(2)
    assert one.step() == two.step()
    assert one.policy()[0]["weights"].tobytes() == two.policy()[0]["weights"].tobytes()
    one.close()
    two.close()


def test_tables_of_a_mix_take_turns():
    recipe = read_recipe("workflows-es")
    found = [recipe.problem("train", k) for k in range(8)]
    kinds = [problem.jobs[0].graph.kinds == ("program",) for problem in found]
    assert kinds == [False, False, True, False] * 2
    distinct = [len({job.graph.name for job in problem.jobs}) for problem in found]
    assert [count <= 9 for count in distinct] == [False, False, True, True] * 2


@pytest.mark.parametrize("mix", ["3", "[[], []]"])
def test_a_mix_is_a_list_of_tables(tmp_path: Path, mix: str):
    path = tmp_path / "own.toml"
    path.write_text(f'schema = "weft/training/1"\nextends = "workflows-es"\nmix = {mix}\n', "utf-8")
    with pytest.raises(InputError, match="mix: expected tables of settings, got"):
        read_recipe(path)


def test_weights_that_are_not_free_stay():
    recipe = read_recipe("workflows-priced", SMALL | {"generations": 1})
    learner = RuleES(lambda number: recipe.problem("train", number), recipe.config, weights_card(recipe))
    learner.step()
    found = learner.policy()[0]["weights"]
    learner.close()
    moved = {name for name, a, b in zip(NAMES, found, PRICED, strict=True) if a != np.float32(b)}
    assert moved == {"work left", "rank ratio", "price"}


def test_tuning_improves_on_the_rule_it_began_with(tmp_path: Path):
    longer = {"generations": 16, "population": 10, "episodes": 8, "begin": "srw", "sigma": 0.4}
    judged = {"validation.seeds": 8, "validation.rules": ["srw"]}
    done = train("workflows-es", tmp_path / "run", settings=SMALL | longer | judged)
    assert done.runs[0].best is not None
    assert done.runs[0].best > 2.0


def test_run_acts_as_a_dispatcher_and_resumes(tmp_path: Path):
    whole = train("workflows-es", tmp_path / "whole", settings=SMALL)
    part = tmp_path / "part"

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train("workflows-es", part, settings=SMALL, on_progress=stop)
    train("workflows-es", part, settings=SMALL, resume=True)
    assert whole.runs[0].best is not None
    assert (part / "last.json").read_text() == (tmp_path / "whole" / "last.json").read_text()
    assert catalog.task_dispatcher(f"{part}@best").name == f"{part}@best"


def test_weights_may_begin_where_others_ended(tmp_path: Path):
    train("workflows-es", tmp_path / "run", settings=SMALL | {"generations": 1, "sigma": 1e-9}, start="es")
    found, _ = load_policy(f"{tmp_path / 'run'}@last")
    shipped, _ = load_policy(catalog.policy_file("es") or "")
    known = len(shipped["weights"])
    assert found["weights"][:known] == pytest.approx(shipped["weights"], abs=1e-6)
    assert not found["weights"][NAMES.index("work left x forecast") : NAMES.index("work left x spread")].any()


def test_weights_of_the_forecast_are_tuned_where_they_are_not_frozen():
    moved = {}
    for name in ("workflows-es", "workflows-es-forecast"):
        one = learner(recipe=name)
        one.step()
        moved[name] = one.policy()[0]["weights"][[NAMES.index(word) for word in FORECAST]]
        one.close()
    assert not moved["workflows-es"].any()
    assert moved["workflows-es-forecast"].all()


def test_weights_before_the_forecast_decide_as_they_did(tmp_path: Path):
    weights, card = load_policy(catalog.policy_file("es") or "")
    first, names = weights["weights"][:24], card.features[:24]
    old = replace(
        card, architecture=WeightsArchitecture(24), feature_version="task-weights/1", features=names
    )
    save_policy(tmp_path / "old.json", {"weights": first}, old)
    known = catalog.task_dispatcher(str(tmp_path / "old.json")).weights
    assert known == (*first.astype(float).tolist(), *[0.0] * len(ADDED))


def test_search_for_little_energy_finds_less_than_the_rule(tmp_path: Path):
    wanted = {"generations": 8, "objective": [0.0, 1.0, 0.0], "validation.seeds": 4, "free": ["energy"]}
    train("workflows-es-pareto", tmp_path / "run", settings=SMALL | wanted)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = rows[-1]
    assert last["energy_percent"] == last["envelope_percent"] < -1.0
    assert last["time_percent"] > last["energy_percent"]
    assert "unfairness_percent" in last


def test_cost_is_that_of_schedules():
    """Figures from the kernel's state are those that schedules state."""
    recipe = read_recipe("workflows-es", SMALL)
    problem, objective = recipe.problem("train", 3), (1.0, 0.5, 2.0)
    begin, other = np.array(PRICED), np.array(SRW)
    found = measured(made_ready(problem, 7, begin, objective), other, objective)
    done = run_one(RuleDispatcher("srw", LATE, weights=SRW), problem, realise(problem, 7))
    assert found.tolist() == pytest.approx([done.mean_jct, done.energy, done.unfairness], rel=1e-12)
    slow = sorted(done.slowdowns)
    assert slow[-2] / np.mean(slow) < done.unfairness <= slow[-1] / np.mean(slow)
    cost = cost_of(found, np.array([2.0, 3.0, 4.0]), objective)
    wanted = math.log(found[0] / 2) + 0.5 * math.log(found[1] / 3) + 2 * math.log(found[2] / 4)
    assert float(cost) == pytest.approx(wanted)


def test_energy_is_refused_where_no_watts_are_stated():
    machines = {"device": [{"class": "cpu", "count": 2}]}
    recipe = read_recipe("workflows-es", SMALL | {"objective": [1.0, 1.0, 0.0]})
    scene = recipe.cells[0]
    bare = replace(scene, recipe=replace(scene.recipe, cluster=json.dumps(machines)))
    recipe.__dict__["cells"] = (bare,)
    with pytest.raises(InputError, match="states no watts"):
        recipe.check(0)


@pytest.mark.parametrize("objective", [(1.0, 0.0), (0.0, 0.0, 0.0), (1.0, -1.0, 0.0)])
def test_config_refuses_an_objective_without_three_weights(objective: tuple[float, ...]):
    with pytest.raises(InputError, match="expected three numbers >= 0, not all 0"):
        ESConfig(objective=objective)


def test_rules_of_the_validation_are_looked_up_beforehand():
    with pytest.raises(InputError, match=r"^validation\.rules: no dispatcher 'nope'"):
        read_recipe("workflows-es", {**SMALL, "validation.rules": ["nope"]}).check(0)


def test_config_refuses_to_freeze_all():
    with pytest.raises(InputError, match="expected a weight that is not frozen"):
        ESConfig(frozen=NAMES)


def test_config_refuses_a_weight_that_is_not_there():
    with pytest.raises(InputError, match="no weight 'prise'; did you mean 'price'"):
        ESConfig(free=("prise",))


def test_config_lists_the_weights_where_none_is_close():
    with pytest.raises(
        InputError, match="free: no weight 'nope'; expected some of work left, work left x backlog"
    ):
        ESConfig(free=("nope",))


@pytest.mark.parametrize("field", ["population", "generations", "episodes"])
def test_config_refuses_more_than_anybody_means(field: str):
    with pytest.raises(InputError, match=f"{field}: expected a whole number from"):
        ESConfig(**{field: 10**9})


def test_search_may_begin_from_a_rule_by_its_name(tmp_path: Path):
    train("workflows-es", tmp_path / "named", settings=SMALL, start="srw")
    train("workflows-es", tmp_path / "begun", settings={**SMALL, "begin": "srw"})
    ends = [load_policy(f"{tmp_path / name}@last")[0]["weights"].tolist() for name in ("named", "begun")]
    assert ends[0] == ends[1]


def test_progress_names_what_the_search_began_with(tmp_path: Path):
    recipe, said = read_recipe("workflows-es", SMALL), []
    train(
        "workflows-es",
        tmp_path / "run",
        settings=SMALL,
        start="es",
        on_progress=lambda one: said.append(one.row),
    )
    assert recipe.progress_in_words(said[-1]).endswith("% against es")


def test_next_command_has_the_load_of_the_recipe():
    for load, told in ((0, "--set load=0"), ([0.5, 0.8], "--set 'load=[0.5, 0.8]'")):
        recipe = read_recipe("workflows-es", {**SMALL, "load": load})
        assert recipe.next_command("RUN").endswith(f"{told} --seeds 8")
