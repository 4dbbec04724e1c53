"""One-shot planners whose schedules are drawn by actors."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import weft
from weft.errors import InputError, WeftError
from weft.policies.checkpoint import load_policy
from weft.training.distributed.config import Distributed
from weft.training.distributed.drawing import SpreadSamples
from weft.training.distributed.local import LocalTransport
from weft.training.distributed.processes import ProcessTransport
from weft.training.distributed.transport import Transport
from weft.training.oneshot.config import SampleConfig
from weft.training.oneshot.learner import SampleLearner
from weft.training.oneshot.problems import Source

TINY = {
    "updates": 4, "groups": 2, "graphs": 3, "samples": 8, "width": 16, "layers": 1, "hidden": 16,
    "heads": ("descendants", "ancestors", "resource", "all"), "every": 2, "validation": 2,
}  # fmt: skip
SHOPS = Source("jobshop", ((4, 3), (3, 3)))
FLOWS = Source("workflow", ((8,),), families=("layered", "fork-join"), devices=(3, 4), ccr=(0.5, 2.0))


def weights_of(folder: Path) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in load_policy(f"{folder}@last")[0].items()}


def rows_of(learner: SampleLearner) -> list[dict[str, object]]:
    """The rows of a whole run."""
    rows = []
    while learner.update < learner.num_updates:
        rows.append(learner.step())
    learner.close()
    return rows


def spread(transport: Transport, config: SampleConfig, **changes: object) -> SpreadSamples:
    chosen = Distributed(**{"engine": "local", **changes})
    return SpreadSamples(transport, chosen, lambda line: None, (SHOPS, FLOWS), config, seed=1)


def test_one_actor_in_this_process_learns_what_one_process_learns(tmp_path: Path):
    weft.train("oneshot-jobshop-quick", tmp_path / "alone", settings=TINY)
    weft.train("oneshot-jobshop-quick", tmp_path / "spread", settings=TINY, engine="local", actors=1)
    assert weights_of(tmp_path / "alone") == weights_of(tmp_path / "spread")


@pytest.mark.parametrize("reuse", [1, 3])
def test_several_actors_of_which_some_are_lost_learn_the_same(reuse: int):
    config = SampleConfig(**{**TINY, "reuse": reuse})
    alone = SampleLearner((SHOPS, FLOWS), config, seed=1, threads=1)
    expected = rows_of(alone)
    actors = spread(LocalTransport(dies={"actor-1": [0, 3], "actor-3": [1]}), config, actors=4)
    found = rows_of(actors)
    assert [row.pop("restarts") for row in found][-1] == 3
    assert found == expected
    assert {k: x.tobytes() for k, x in actors.state().items()} == {
        k: x.tobytes() for k, x in alone.state().items()
    }


@pytest.mark.timeout(300)
def test_processes_of_which_one_is_killed_learn_the_same():
    config = SampleConfig(**TINY)
    transport = ProcessTransport()
    actors = spread(transport, config, engine="processes", actors=2)
    first = actors.step()
    os.kill(transport.pid("actor-1"), signal.SIGKILL)
    found = [first, *rows_of(actors)]
    assert [row.pop("restarts") for row in found] == [0, 1, 1, 1]
    assert found == rows_of(SampleLearner((SHOPS, FLOWS), config, seed=1, threads=1))


def test_run_that_was_cut_goes_on_with_actors(tmp_path: Path):
    class Stop(Exception):
        """Interrupts a run."""

    def stop(progress: object) -> None:
        if progress.update == 2:
            raise Stop

    where = {"settings": TINY, "engine": "local", "actors": 2}
    weft.train("oneshot-jobshop-quick", tmp_path / "whole", **where)
    with pytest.raises(Stop):
        weft.train("oneshot-jobshop-quick", tmp_path / "cut", **where, on_progress=stop)
    weft.train("oneshot-jobshop-quick", tmp_path / "cut", **where, resume=True)
    assert weights_of(tmp_path / "whole") == weights_of(tmp_path / "cut")


def test_too_many_losses_end_the_run():
    actors = spread(LocalTransport(dies={"actor-0": [0, 1]}), SampleConfig(**TINY), max_failures=1)
    with pytest.raises(WeftError, match=r"2 failures, more than distributed\.max_failures = 1"):
        actors.step()


@pytest.mark.parametrize(
    ("recipe", "change", "message"),
    [
        ("oneshot-jobshop-quick", {"distributed.actors": 7}, "distributed.actors: expected at most groups x graphs = 6"),
        ("oneshot-jobshop-quick", {"distributed.mode": "async"}, "distributed.mode: expected 'apex'"),
        ("oneshot-jobshop-quick", {"distributed.engin": 1}, "distributed.engin: unknown"),
        ("edge-quick", {}, "^engine: training by mappo cannot be spread over actors, only candidate-ppo"),
        ("workflows-es", {}, "^engine: training by rule-es cannot be spread"),
        ("conditional-quick", {}, "^engine: training by ppo cannot be spread"),
    ],
)  # fmt: skip
def test_spread_training_refuses(recipe: str, change: dict[str, object], message: str, tmp_path: Path):
    own = TINY if recipe.startswith("oneshot") else {}
    with pytest.raises(InputError, match=message):
        weft.train(recipe, tmp_path / "run", settings={**own, **change}, engine="local")


def test_ray_draws_the_same():
    pytest.importorskip("ray")
    from weft.training.distributed.ray_transport import RayTransport

    config = SampleConfig(**{**TINY, "updates": 2})
    found = rows_of(spread(RayTransport(None, 2), config, engine="ray", actors=2))
    assert [row.pop("restarts") for row in found] == [0, 0]
    assert found == rows_of(SampleLearner((SHOPS, FLOWS), config, seed=1, threads=1))
