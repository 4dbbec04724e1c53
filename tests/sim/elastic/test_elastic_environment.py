"""The elastic kernel against its plain twin, and the rules one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from weft.errors import InputError
from weft.model.elastic import ElasticProblem, TaskType, amdahl, insensitive, saturating
from weft.sim.elastic.environment import ElasticBatch
from weft.sim.elastic.state import LOST, PLACED, SKIPPED, VOID

from .plain_elastic import Plain

STEPS_OF_LM = [21, 10, 7, 5, 4, 4, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2]


def problem_of(num_clusters: int = 3, num_tasks: int = 24, rate: float = 2.0, noise: float = 0.0, **fields):
    types = (
        insensitive("img", (2, 1), (16, 16), 0.25, noise),
        saturating("lm", (2, 1), (16, 16), 1, 16.0, noise),
    )
    return ElasticProblem(np.full((num_clusters, 2), 16), types, num_tasks, rate, **fields)


def random_moves(rng: np.random.Generator, sight, num_clusters: int):
    """Slots, units and chances for one environment, some of them invalid."""
    moves = []
    for _ in range(num_clusters):
        slot = int(rng.integers(-1, sight.slot.shape[2]))
        units = tuple(int(u) for u in rng.choice([0, 1, 2, 3, 6, 10, 16], 2))
        moves.append((None if slot < 0 else slot, units, float(rng.choice([0.25, 0.5, 1.0]))))
    return moves


def arrays_of(moves):
    slot = np.array([[-1 if m[0] is None else m[0] for m in moves]])
    return slot, np.array([[m[1] for m in moves]]), np.array([[m[2] for m in moves]])


VARIANTS = [
    {},
    {"stepping": "multi", "conflicts": "softmax"},
    {"conflicts": "count", "pending": "earliest", "num_slots": 3, "noise": 0.1},
    {"stepping": "multi", "conflicts": "count", "links": "bandwidth", "num_slots": 2, "noise": 0.3},
    {"links": "bandwidth", "threshold": 9.5, "weights": (1.0, 3.0), "pending": "earliest"},
    {"links": "bandwidth", "bandwidth": 0.0},
]


@pytest.mark.parametrize("fields", VARIANTS, ids=str)
@pytest.mark.parametrize("seed", [0, 1])
def test_kernel_does_what_plain_python_does(fields: dict, seed: int):
    problem = problem_of(num_tasks=40, rate=4.0, **fields)
    batch, plain, rng = ElasticBatch(problem, seed=seed), Plain(problem, seed), np.random.default_rng(seed)
    for _ in range(2000):
        moves = random_moves(rng, batch.observe(), 3)
        found = batch.act(*arrays_of(moves))
        advanced, rewards = plain.act(moves)
        assert bool(found.advanced[0]) is advanced
        assert found.reward[0].tolist() == rewards
        if found.done[0]:
            break
        state = batch.state
        assert [[-1 if j is None else j for j in one] for one in plain.slots] == state.slot[0].tolist()
        assert [plain.free(n) for n in range(3)] == state.free[0].tolist()
        assert [len(one) for one in plain.queues] == state.queued[0].tolist()
        progress = [task.progress for task in plain.tasks]
        assert state.progress[0, : len(progress)].tolist() == progress
    assert plain.is_over
    times = [task.finish - task.arrival for task in plain.tasks]
    assert found.mean_completion[0] == pytest.approx(np.mean(times), rel=1e-12)


def test_durations_of_the_sensitive_type_by_units():
    lm = problem_of().types[1]
    assert [lm.steps((2, g)) for g in range(1, 17)] == STEPS_OF_LM
    assert [lm.steps((16, g)) for g in range(1, 17)] == STEPS_OF_LM


@pytest.mark.parametrize(
    ("kind", "units", "steps"), [(0, (2, 1), 4), (0, (16, 16), 4), (1, (2, 10), 2), (1, (2, 1), 21)]
)
def test_a_lone_task_takes_as_long_as_its_table_says(kind: int, units: tuple[int, int], steps: int):
    weights = (1.0, 0.0) if kind == 0 else (0.0, 1.0)
    batch = ElasticBatch(problem_of(num_clusters=1, num_tasks=1, rate=50.0, weights=weights), seed=3)
    found = batch.act(np.array([[0]]), np.array([[units]]))
    while not found.done[0]:
        found = batch.act(np.array([[-1]]), np.zeros((1, 1, 2), np.int64))
    assert found.mean_completion[0] == steps


def test_noise_changes_the_duration_as_published():
    rng = np.random.default_rng(0)
    noisy = problem_of(noise=0.1)

    def mean_steps(kind: TaskType, units: tuple[int, int]) -> float:
        counts = []
        for _ in range(4000):
            progress, count = 0.0, 0
            while progress < 1.0:
                progress += kind.gain(units, progress, rng.uniform(-0.1, 0.1))
                count += 1
            counts.append(count)
        return float(np.mean(counts))

    for units, expected in {1: 18.3, 2: 10.6, 4: 5.4, 6: 3.7, 8: 2.9, 10: 2.3, 12: 2.0}.items():
        assert mean_steps(noisy.types[1], (2, units)) == pytest.approx(expected, abs=0.12)
    assert mean_steps(noisy.types[0], (2, 1)) == pytest.approx(4.5, abs=0.06)


@pytest.mark.parametrize("conflicts", ["lowest", "softmax", "count"])
@pytest.mark.parametrize("stepping", ["single", "multi"])
def test_units_are_conserved_and_tasks_have_one_winner(conflicts: str, stepping: str):
    problem = problem_of(num_clusters=4, num_tasks=120, rate=6.0)
    batch = ElasticBatch(problem, 8, stepping=stepping, conflicts=conflicts, seed=5)
    rng = np.random.default_rng(1)
    for _ in range(300):
        sight, state = batch.observe(), batch.state
        slot = np.where(
            sight.slot[..., 0] >= 0, 0, rng.integers(0, 10, (8, 4))
        )  # all want the first: many conflicts
        found = batch.act(slot, np.stack([rng.integers(2, 5, (8, 4)), rng.integers(1, 12, (8, 4))], -1))
        for b, n in itertools.product(range(8), range(4)):
            mine = state.running[b, n, : state.num_running[b, n]]
            assert (state.units[b, mine].sum(axis=0) + state.free[b, n] == problem.capacity[n]).all()
            assert (state.free[b, n] >= 0).all() and (state.cluster[b, mine] == n).all()
            assert ((state.links[b, mine] >> n) & 1 == 1).all()
        for b in range(8):
            everywhere = state.running[b][state.running[b] >= 0]
            assert len(set(everywhere.tolist())) == len(everywhere)
            assert not set(everywhere.tolist()) & set(state.slot[b][state.slot[b] >= 0].tolist())
        assert np.isin(found.outcome, [VOID, PLACED, LOST, SKIPPED]).all()


def test_ties_of_equal_claims_go_to_the_lowest_index():
    problem = problem_of(num_clusters=3, num_tasks=6, rate=50.0)
    for conflicts in ("lowest", "softmax", "count"):
        batch = ElasticBatch(problem, 32, conflicts=conflicts, seed=2)
        state = batch.state
        shared = np.array([[j for j in range(6) if state.links[b, j] == 7][:1] or [-1] for b in range(32)])[
            :, 0
        ]
        b = int(np.flatnonzero(shared >= 0)[0])
        slot = np.full((32, 3), -1)
        slot[b] = [state.slot[b, n].tolist().index(shared[b]) for n in range(3)]
        found = batch.act(slot, np.full((32, 3, 2), 2), np.full((32, 3), 0.5))
        assert found.outcome[b].tolist() == [PLACED, LOST, LOST]


def test_bayes_prefers_room_and_chance():
    problem = problem_of(num_clusters=2, num_tasks=40, rate=60.0).replaced(
        capacity=np.array([[4, 4], [16, 16]])
    )
    for conflicts, winner in (("lowest", 0), ("softmax", 1), ("count", 1)):
        batch = ElasticBatch(problem, conflicts=conflicts, seed=2)
        slots = batch.state.slot[0]
        j = next(j for j in slots[0] if j in slots[1])
        slot = np.array([[slots[0].tolist().index(j), slots[1].tolist().index(j)]])
        batch.act(slot, np.full((1, 2, 2), 2), np.array([[0.9, 0.5]]))
        assert batch.state.cluster[0, j] == winner
    batch = ElasticBatch(problem, conflicts="count", seed=2)
    batch.act(slot, np.full((1, 2, 2), 2), np.array([[0.9, 0.1]]))
    assert batch.state.cluster[0, j] == 0  # 0.9 x 2 against 0.1 x 8


def test_multi_task_world_advances_only_if_nobody_placed():
    batch = ElasticBatch(problem_of(num_tasks=50, rate=20.0, stepping="multi"), seed=1)
    placed = 0
    for _ in range(10):
        before = int(batch.state.now[0])
        slot = np.array([[next((k for k in range(10) if row[k] >= 0), -1) for row in batch.state.slot[0]]])
        found = batch.act(slot, np.full((1, 3, 2), 2))
        any_placed = bool((found.outcome[0] == PLACED).any())
        placed += any_placed
        assert bool(found.advanced[0]) is not any_placed
        assert int(batch.state.now[0]) - before == (0 if any_placed else 1)
        if any_placed:
            assert (found.reward == 0.0).all() and found.reward_alive[0] == 0.0
    assert placed > 2


def test_slots_stay_empty_between_logical_steps_and_are_filled_after_a_world_step():
    batch = ElasticBatch(problem_of(num_clusters=1, num_tasks=60, rate=30.0, stepping="multi"), seed=4)
    state = batch.state
    assert state.queued[0, 0] > 0
    batch.act(np.array([[3]]), np.array([[[2, 1]]]))
    assert state.slot[0, 0, 3] == -1
    batch.act(np.array([[-1]]), np.zeros((1, 1, 2), np.int64))
    assert state.slot[0, 0, 3] >= 10


def test_earliest_sets_are_the_earliest_waiting_tasks_at_any_time():
    problem = problem_of(num_clusters=2, num_tasks=60, rate=30.0, stepping="multi", pending="earliest")
    batch, rng = ElasticBatch(problem, seed=4), np.random.default_rng(0)
    for _ in range(60):
        batch.act(rng.integers(-1, 10, (1, 2)), np.full((1, 2, 2), 2))
        state = batch.state
        for n in range(2):
            waiting = [j for j in range(60) if state.status[0, j] == 1 and (state.links[0, j] >> n) & 1]
            held = state.slot[0, n][state.slot[0, n] >= 0].tolist()
            assert held == waiting[:10]


@pytest.mark.parametrize("of_all", [0.5, 1.0])
def test_a_change_of_units_costs_the_switching_factor_once(of_all: float):
    problem = problem_of(num_clusters=1, num_tasks=1, rate=50.0, weights=(1.0, 0.0), switching=of_all)
    problem = problem.replaced(types=tuple(replace(one, switching=0.5 / of_all) for one in problem.types))
    batch = ElasticBatch(problem, seed=3)
    none, zero = np.array([[-1]]), np.zeros((1, 1, 2), np.int64)
    batch.act(np.array([[0]]), np.array([[[2, 1]]]))
    progress = [float(batch.state.progress[0, 0])]
    again = np.zeros((1, 1, 8, 2), np.int64)
    for units in ([2, 2], [2, 2], [2, 1], [0, 0], [2, 1]):
        again[0, 0, 0] = units
        batch.act(none, zero, None, again)
        progress.append(float(batch.state.progress[0, 0]))
    assert np.diff([0.0, *progress]).tolist() == [0.25, 0.125, 0.25, 0.125, 0.0, 0.125]


def test_new_units_beyond_the_capacity_are_refused_as_a_whole():
    batch = ElasticBatch(problem_of(num_clusters=1, num_tasks=9, rate=50.0), seed=3)
    batch.act(np.array([[0]]), np.array([[[2, 1]]]))
    batch.act(np.array([[1]]), np.array([[[2, 1]]]))
    again = np.zeros((1, 1, 8, 2), np.int64)
    again[0, 0, :2] = [9, 9]
    held = batch.state.units[0].copy()
    batch.act(np.array([[-1]]), np.zeros((1, 1, 2), np.int64), None, again)
    assert batch.state.units[0].tolist() == held.tolist()


def test_the_box_of_an_allocation_equals_brute_force():
    batch = ElasticBatch(problem_of(num_tasks=100, rate=8.0), 4, seed=3)
    rng = np.random.default_rng(2)
    for _ in range(40):
        batch.act(rng.integers(-1, 10, (4, 3)), rng.integers(1, 9, (4, 3, 2)))
        sight = batch.observe()
        for b, n in itertools.product(range(4), range(3)):
            rows = sight.slot[b, n][sight.slot[b, n] >= 0]
            boxes = [bool((sight.least[b, m] <= sight.most[b, n]).all()) for m in rows]
            assert bool(sight.active[b, n]) is any(boxes)
        b, n = int(rng.integers(4)), int(rng.integers(3))
        k = int(np.argmax(sight.slot[b, n] >= 0))
        if sight.slot[b, n, k] < 0:
            continue
        least, most = sight.least[b, sight.slot[b, n, k]].copy(), sight.most[b, n].copy()
        kept = batch.snapshot()
        for cpu, gpu in itertools.product(
            (0, 1, 2, int(most[0]), int(most[0]) + 1), (0, 1, int(most[1]), int(most[1]) + 1)
        ):
            slot, units = np.full((4, 3), -1), np.zeros((4, 3, 2), np.int64)
            slot[b, n], units[b, n] = k, (cpu, gpu)
            if cpu > 16 or gpu > 16:
                continue
            found = batch.act(slot, units)
            inside = bool((least <= units[b, n]).all() and (units[b, n] <= most).all())
            assert (int(found.outcome[b, n]) == PLACED) is inside
            batch.restore(kept)


def test_observations_say_what_the_state_is():
    batch = ElasticBatch(problem_of(num_tasks=100, rate=8.0), 4, seed=3)
    rng = np.random.default_rng(2)
    for _ in range(60):
        batch.act(rng.integers(-1, 10, (4, 3)), rng.integers(1, 9, (4, 3, 2)))
        sight, state = batch.observe(), batch.state
        assert np.allclose(sight.cluster[..., :2] * 16, state.free)
        assert np.allclose(sight.cluster[..., 4] * 10, state.queued)
        for b in range(4):
            tasks = {int(j) for j in state.slot[b].ravel() if j >= 0}
            count = int((sight.waiting[b, :, -1] == 1.0).sum())
            assert (
                count == len(tasks)
                and not sight.waiting[b, count:].any()
                and not sight.least[b, count:].any()
            )
            for n, k in itertools.product(range(3), range(10)):
                row, j = sight.slot[b, n, k], state.slot[b, n, k]
                assert (row < 0) == (j < 0)
                if j >= 0:
                    x = sight.waiting[b, row]
                    assert x[2 + state.kind[b, j]] == 1.0
                    assert x[4] == pytest.approx((state.now[b] - state.arrival[b, j]) / 10)
                    assert x[5] == pytest.approx(bin(state.links[b, j]).count("1") / 3)
            for n, k in itertools.product(range(3), range(8)):
                j = state.running[b, n, k]
                assert sight.running[b, n, k, -1] == (1.0 if j >= 0 else 0.0)
                if j >= 0:
                    assert sight.running[b, n, k, -2] == np.float32(state.progress[b, j])


def episodes(seed: int, num_envs: int, num_steps: int) -> tuple[list[float], bytes]:
    batch, rng = ElasticBatch(problem_of(noise=0.1), num_envs, seed=seed), np.random.default_rng(0)
    means: list[float] = []
    for _ in range(num_steps):
        found = batch.act(rng.integers(-1, 10, (num_envs, 3)), rng.integers(1, 9, (num_envs, 3, 2)))
        means += found.mean_completion[found.done].tolist()
    return means, b"".join(value.tobytes() for value in batch.snapshot().values())


def test_same_seed_same_bytes_and_other_seeds_differ():
    one, other = episodes(1, 4, 200), episodes(1, 4, 200)
    assert one == other and one[0]
    assert episodes(2, 4, 200) != one


def test_going_on_from_a_snapshot_is_going_on():
    batch, rng = ElasticBatch(problem_of(noise=0.1), 3, seed=1), np.random.default_rng(0)
    moves = [(rng.integers(-1, 10, (3, 3)), rng.integers(1, 9, (3, 3, 2))) for _ in range(80)]
    for move in moves[:40]:
        batch.act(*move)
    kept = batch.snapshot()
    first = [batch.act(*move).reward.tolist() for move in moves[40:]]
    batch.restore(kept)
    assert [batch.act(*move).reward.tolist() for move in moves[40:]] == first


def test_what_agents_see_does_not_depend_on_the_future():
    """Two problems that differ only in tasks that arrive later show the same until these arrive."""
    short = ElasticBatch(problem_of(num_tasks=20), seed=1)
    long = ElasticBatch(problem_of(num_tasks=40), seed=1)
    rng = np.random.default_rng(0)
    while short.state.arrived[0] < 20:
        one, other = short.observe(), long.observe()
        for name in one._fields:
            assert (getattr(one, name) == getattr(other, name)).all(), name
        move = (rng.integers(-1, 10, (1, 3)), rng.integers(1, 9, (1, 3, 2)))
        short.act(*move)
        long.act(*move)


def test_rigid_resources_are_cut_to_what_a_task_may_have():
    types = (
        TaskType("small", (1, 4), (8, 4), np.linspace(0.0, 0.5, 9)[:, None], np.zeros((9, 1))),
        TaskType("large", (1, 16), (8, 16), np.linspace(0.0, 0.5, 9)[:, None], np.zeros((9, 1))),
    )
    problem = ElasticProblem(np.array([[8, 32]]), types, 10, 20.0, resources=("gpu", "memory"))
    batch = ElasticBatch(problem, seed=0)
    kind = int(batch.state.kind[0, 0])
    batch.act(np.array([[0]]), np.array([[[2, 16]]]))
    assert batch.state.units[0, 0].tolist() == [2, (4, 16)[kind]]
    assert batch.observe().top[0, 0].tolist() in ([8, 4], [8, 16])


def test_amdahl_divides_the_parallel_share():
    kind = amdahl("train", (1, 1), (4, 4), 10.0, (0.25, 0.5))
    assert kind.gain((1, 1)) == pytest.approx(0.1)
    assert kind.gain((2, 4)) == pytest.approx(0.1 / (0.25 + 0.125 + 0.125))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"num_tasks": 0}, "num_tasks: expected a whole number >= 1, got 0"),
        ({"rate": 0.0}, "arrival_rate: expected a number above 0"),
        ({"stepping": "both"}, "stepping: expected one of single, multi, got 'both'"),
        ({"switching": 2.0}, "switching: expected a number in 0..1, got 2.0"),
        ({"resources": ("cpu",)}, "resources: expected 2 names, got cpu"),
    ],
)
def test_what_a_problem_cannot_be_is_said(fields: dict, text: str):
    with pytest.raises(InputError) as raised:
        problem_of(**fields)
    assert text in str(raised.value)


def test_wrong_shapes_are_refused():
    batch = ElasticBatch(problem_of())
    with pytest.raises(InputError, match=r"slot: expected shape \(1, 3\), got \(3,\)"):
        batch.act(np.zeros(3, np.int64), np.zeros((1, 3, 2), np.int64))
    with pytest.raises(InputError, match="units: expected whole numbers, got float64"):
        batch.act(np.zeros((1, 3), np.int64), np.zeros((1, 3, 2)))
