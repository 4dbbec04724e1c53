"""Policy gradient for picks: torch repeats what NumPy drew, it learns an order, resumes to the bit and ends as a name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft import catalog
from weft.errors import InputError
from weft.io.runs import read_record
from weft.model.cluster import Cluster, DeviceClass
from weft.model.graph import TaskGraph
from weft.model.problem import Job, Problem, realise
from weft.policies.checkpoint import load_policy
from weft.policies.picks.dispatcher import PickDispatcher
from weft.policies.picks.forward import PickPolicy, levels_of
from weft.schedulers.dispatchers.tasks import run_one
from weft.sim.tasks.picks import STYLES, node_features
from weft.training.recipes import read_recipe
from weft.training.reinforce.config import PickConfig
from weft.training.reinforce.episodes import advantages, play
from weft.training.reinforce.learner import PickLearner, log_softmax, repeated_places

TINY = {
    "updates": 3,
    "rollouts": 2,
    "streams": 4,
    "jobs": 3,
    "tasks": 8,
    "validation.every": 1,
    "validation.seeds": 2,
}


@pytest.mark.parametrize("style", list(STYLES))
def test_torch_gives_the_probabilities_that_numpy_drew_from(style: str):
    problems = weft.scenario("workflows", load=0.9, jobs=4, tasks=8, noise=0.2)
    chosen = [problems.dispatched("train", 0, seed) for seed in range(2)]
    learner = PickLearner(chosen, PickConfig(style=style, rollouts=3), seed=1)
    with torch.no_grad():
        learner.net.score_out.mul_(100.0)
    policy = PickPolicy(learner.net.weights(), learner.net.architecture)
    played = play(policy, chosen, 3, [7, 8], np.random.default_rng(0))
    at, picked = learner.moments(played)
    features = np.concatenate([node_features(problem) for problem in chosen])
    rows = torch.from_numpy(np.ascontiguousarray(features[:, STYLES[style].node]))
    place = torch.from_numpy(repeated_places(chosen, 3))
    nodes, pooled = (part[place] for part in learner.net.embed(rows, levels_of(chosen)))
    found = log_softmax(learner.net(nodes, pooled, at), at.task_at, len(at.world))[picked]
    drawn = np.concatenate([step.log_prob for step in played.steps])
    np.testing.assert_allclose(found.detach().numpy(), drawn, atol=2e-5)
    assert len(drawn) == 3 * sum(problem.num_tasks for problem in chosen)


def test_episodes_of_one_problem_differ_only_in_what_is_picked():
    problem = weft.scenario("workflows", load=0.9, jobs=3, tasks=8, noise=0.5).dispatched("train", 0, 0)
    learner = PickLearner([problem], PickConfig(rollouts=2), seed=1)
    policy = PickPolicy(learner.net.weights(), learner.net.architecture)
    first, second = (play(policy, [problem], 2, [5], np.random.default_rng(3)) for _ in range(2))
    assert first.end.tobytes() == second.end.tobytes()
    greedy = run_one(PickDispatcher("drawn", policy=policy), problem, realise(problem, 5))
    assert first.mean_jct.min() <= 3.0 * greedy.mean_jct


def test_advantage_is_what_exceeds_the_other_episodes_at_the_same_time():
    at = np.array([0.0, 2.0])
    found = advantages([(at, np.array([-4.0, -1.0])), (at, np.array([-8.0, -3.0]))], 2)
    raw = np.array([4.0, 2.0, -4.0, -2.0])
    np.testing.assert_allclose(np.concatenate(found), raw / raw.std())


def one_device() -> Problem:
    """Long jobs before short ones, all there at once, on one device."""
    jobs = [Job(TaskGraph([9.0, 9.0, 9.0]), f"long-{k}") for k in range(3)]
    jobs += [Job(TaskGraph([1.0]), f"short-{k}") for k in range(3)]
    return Problem(jobs, Cluster.uniform((DeviceClass("cpu"),), (1,)))


@pytest.mark.parametrize("style", list(STYLES))
def test_short_jobs_are_learned_to_go_first(style: str):
    problem = one_device()
    config = PickConfig(style=style, updates=40, problems=1, rollouts=8, gamma=1.0, learning_rate=1e-2)
    learner = PickLearner([problem], config, seed=1)
    for _ in range(config.updates):
        learner.step()
    policy = PickPolicy(learner.net.weights(), learner.net.architecture)
    found = run_one(PickDispatcher("learned", policy=policy), problem, realise(problem, 0))
    assert found.start[found.task >= 9].max() == 2.0


def test_recipe_trains_and_its_run_is_a_dispatcher(tmp_path: Path):
    found = weft.train("lachesis-quick", tmp_path / "run", settings=TINY)
    assert found.runs[0].samples == 3 * 2 * 2
    problem = weft.scenario("workflows", load=0.8, jobs=3, tasks=8).dispatched("validation", 0, 0)
    dispatcher = catalog.task_dispatcher(f"{tmp_path / 'run'}@best")
    assert np.isfinite(run_one(dispatcher, problem, realise(problem, 0)).mean_jct)
    rules = read_record(tmp_path / "run").against["envelope_percent"]
    assert rules == "the best of priced, srw, deft and fifo-deft"


def test_makespan_can_be_trained_for(tmp_path: Path):
    changes = {**TINY, "reward": "makespan", "arrivals": "once", "gamma": 1.0}
    weft.train("decima-deft-quick", tmp_path / "run", settings=changes)
    assert load_policy(f"{tmp_path / 'run'}@best")[1].training["config"]["reward"] == "makespan"


def test_resumed_run_ends_with_the_same_bytes(tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    weft.train("decima-deft-quick", tmp_path / "whole", settings=TINY)
    with pytest.raises(Stop):
        weft.train("decima-deft-quick", tmp_path / "cut", settings=TINY, on_progress=stop)
    weft.train("decima-deft-quick", tmp_path / "cut", settings=TINY, resume=True)
    ends = [load_policy(f"{tmp_path / name}@last")[0] for name in ("whole", "cut")]
    assert {name: array.tobytes() for name, array in ends[0].items()} == {
        name: array.tobytes() for name, array in ends[1].items()
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"style": "other"}, "style: expected decima or lachesis"),
        ({"rollouts": 1}, "rollouts: expected a whole number from 2 to"),
        ({"reward": "speed"}, "reward: expected jct or makespan"),
        ({"config.style": "decima", "jobs": 0}, "jobs"),
    ],
)
def test_recipe_refuses(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message):
        read_recipe("decima-deft", change).check(0)


def test_recipe_refuses_a_repeated_job():
    recipe = replace(read_recipe("lachesis"), scenario="conditional", settings={})
    with pytest.raises(InputError, match="scenario: conditional is one repeated job"):
        recipe.check(0)


def test_other_devices_are_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"device: .*cpu"):
        weft.train("decima-deft-quick", tmp_path / "run", settings=TINY, device="cuda")
