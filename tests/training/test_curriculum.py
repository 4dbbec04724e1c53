"""Which configurations actors play: orders, sharing out, what is given back, and how much is explored."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.policies.checkpoint import load_policy
from weft.training.distributed.curriculum import Curriculum, arcs, gray_path
from weft.training.distributed.leases import LeaseReport, Seats
from weft.training.distributed.points import held_out
from weft.training.distributed.scheduler import ConfigScheduler, Grid

GRID = Grid(
    np.array([(a, b) for a in range(3) for b in range(3)]),
    np.arange(9)[::-1] / 10.0,  # the last is the easiest
    np.full(9, -1.0),
    np.ones(9),
)


def scheduler(order: str, workers: int = 1, **changes: object) -> ConfigScheduler:
    names = [f"actor-{k}" for k in range(workers)]
    return ConfigScheduler(GRID, Curriculum(order=order, **changes), names, seed=3)


def played(
    made: ConfigScheduler, worker: str, count: int, total: float = -2.0, decisions: int = 10
) -> list[int]:
    """The configurations of so many leases, each played at once."""
    found = []
    for _ in range(count):
        lease = made.next_lease(worker)
        found.append(lease.config)
        made.report(worker, LeaseReport(lease.number, lease.config, total, decisions, 0.5, True))
    return found


@pytest.mark.parametrize("radices", [(3,), (2, 3), (3, 3, 3), (4, 1, 2)])
def test_gray_path_changes_one_digit_by_one(radices: tuple[int, ...]):
    path = gray_path(radices)
    assert len(set(path)) == len(path) == np.prod(radices)
    assert {int(np.abs(np.subtract(a, b)).sum()) for a, b in pairwise(path)} == {1}


def test_arcs_follow_one_another_and_hold_all():
    parts = arcs(list(range(10)), 3)
    assert [x for part in parts for x in part] == list(range(10))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_lexicographic_order_plays_whole_configurations_one_after_another():
    assert played(scheduler("lexicographic", episodes=2), "actor-0", 20) == [*np.repeat(range(9), 2), 0, 0]


@pytest.mark.parametrize("is_split", [False, True])
def test_configurations_are_whole_or_split(is_split: bool):
    made = scheduler("lexicographic", 2, episodes=4, is_split=is_split)
    found = [played(made, f"actor-{k % 2}", 1)[0] for k in range(8)]
    assert found == ([0] * 4 + [1] * 4 if is_split else [0, 1] * 4)


def test_gray_arcs_are_walked_by_their_actors():
    made = scheduler("gray", 3, episodes=1)
    walked = [played(made, f"actor-{k}", 3) for k in range(3)]
    assert sorted(x for arc in walked for x in arc) == list(range(9))
    for arc in walked:
        steps = np.abs(np.diff(GRID.points[arc], axis=0)).sum(axis=1)
        assert steps.tolist() == [1, 1]


def test_uniform_order_plays_all_about_equally_often():
    counts = Counter(played(scheduler("uniform", episodes=1), "actor-0", 900))
    assert len(counts) == 9 and min(counts.values()) > 60


def test_easy_order_begins_with_the_easiest_and_grows_when_they_are_learned():
    made = scheduler("easy", episodes=1, uniform_share=0.0, rise=0.3)
    assert set(played(made, "actor-0", 30, total=-2.0)) <= {6, 7, 8}  # behind the base rule: stays
    played(made, "actor-0", 60, total=-1.0)
    assert set(played(made, "actor-0", 90, total=-1.0)) == set(range(9))


def test_regret_order_prefers_what_is_behind_the_base_rule():
    made = scheduler("regret", episodes=1, stale_share=0.1)
    for _ in range(400):
        lease = made.next_lease("actor-0")
        total = -3.0 if lease.config == 4 else -1.0
        made.report("actor-0", LeaseReport(lease.number, lease.config, total, 10, 0.5, True))
    assert (made.episodes > 0).all()
    assert made.episodes[4] > 0.5 * made.episodes.sum()


def test_lost_actor_gives_its_leases_back():
    made = scheduler("lexicographic", 2, episodes=1)
    lent = [lease.config for lease in made.leases_for("actor-0", 2)]
    assert lent == [0, 1, 2, 3] and made.leases_for("actor-0", 2) == ()
    made.give_back("actor-0")
    assert played(made, "actor-1", 5) == [0, 1, 2, 3, 4]


def test_held_out_configurations_are_never_played():
    made = scheduler("uniform", episodes=1, held_out=0.3)
    back = held_out(9, 0.3)
    assert back.sum() == 3
    assert not back[sorted(set(played(made, "actor-0", 200)))].any()


def test_k_and_n_limit_the_grid():
    assert set(played(scheduler("uniform", episodes=1, values=2), "actor-0", 100)) == {0, 1, 3, 4}
    assert set(played(scheduler("uniform", episodes=1, dimensions=1), "actor-0", 100)) == {0, 3, 6}


def test_visits_decay_exploration_by_configuration_however_it_is_divided():
    """Both ways of sharing out give the same schedule: only decisions in the configuration count."""
    made = [
        scheduler("lexicographic", 2, episodes=4, is_split=x, exploration="visits", epsilon_decisions=10.0)
        for x in (False, True)
    ]
    found = []
    for one in made:
        epsilons: dict[int, list[float]] = {}
        for k in range(40):
            lease = one.next_lease(f"actor-{k % 2}")
            epsilons.setdefault(lease.config, []).append(lease.epsilon)
            one.report(f"actor-{k % 2}", LeaseReport(lease.number, lease.config, -1.0, 10, 0.0, True))
        found.append(epsilons[0][:4])
    assert found[0] == found[1] == pytest.approx([0.9 / np.sqrt(1 + n) for n in range(4)])


def test_decay_goes_by_the_decisions_of_all():
    made = scheduler("uniform", exploration="decay", epsilon_decisions=100.0)
    played(made, "actor-0", 10)
    assert made.next_lease("actor-0").epsilon == pytest.approx(0.05 + 0.85 * np.exp(-1.0))


def test_scheduler_goes_on_after_a_break():
    one, other = scheduler("regret", 2), scheduler("regret", 2)
    played(one, "actor-0", 50)
    one.leases_for("actor-1", 3)
    other.restore(one.state())
    assert played(one, "actor-1", 20) == played(other, "actor-1", 20)


class Stepped:
    """Environments that end when told."""

    num_envs = 2
    deal = None

    def reset(self, seed: int) -> None:
        self.played = [self.deal(e, 0.0) for e in range(2)]


def test_seats_play_leases_and_report_episodes():
    env = Stepped()
    seats = Seats(env, [np.array([0, 1, 2])] * 2)
    made = scheduler("lexicographic", episodes=1)
    seats.take([made.next_lease("actor-0") for _ in range(3)])
    assert env.played == [0, 1]

    class Moment:
        reward = np.array([1.0, 2.0], np.float32)
        discount = np.array([0.9, 0.9], np.float32)
        error = np.array([0.5, -1.0], np.float32)

    seats.note(Moment())
    assert seats.reports() == ()
    assert env.deal(1, 0.0) == 2  # the second one ended and goes on with the third lease
    Moment.discount = np.array([0.9, 0.0], np.float32)
    seats.note(Moment())
    assert seats.reports() == (LeaseReport(1, 1, 4.0, 2, 1.0, True),)
    assert seats.num_waiting == 0


def test_recipe_with_a_curriculum_trains_and_repeats(tmp_path: Path):
    settings = {
        "load": [0.6, 0.9],
        "tasks": [6, 8],
        "jobs": 3,
        "streams": 4,
        "samples": 512,
        "num_envs": 4,
        "num_steps": 32,
        "warmup": 100,
        "replay": 256,
        "minibatch": 32,
        "replay_candidates": 64,
        "candidates.tasks": 4,
        "validation.every": 2,
        "validation.seeds": 1,
        "curriculum.order": "regret",
        "curriculum.exploration": "both",
    }
    for name in ("one", "two"):
        weft.train("workflows-dqn-quick", tmp_path / name, settings=settings, engine="local", actors=2)
    one, two = (load_policy(f"{tmp_path / name}@last")[0] for name in ("one", "two"))
    assert {k: v.tobytes() for k, v in one.items()} == {k: v.tobytes() for k, v in two.items()}
