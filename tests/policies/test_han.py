"""The net for edge clusters: torch and NumPy agree, tasks and clusters may stand in any order, graphs do not touch."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from policies.elastic_problems import edge_problem, in_the_middle, taken, turned

from weft import catalog
from weft.errors import InputError
from weft.kinds import ELASTIC
from weft.model.elastic_oracle import first_fault
from weft.policies.checkpoint import Card, load_policy, save_policy
from weft.policies.han.allocator import FEATURE_VERSION, load_allocator
from weft.policies.han.architecture import CRITICS, ENCODERS, MASKS, POINTERS, UNITS, HanArchitecture
from weft.policies.han.forward import HanPolicy
from weft.policies.han.net import HanNet, Seen, pick
from weft.scenarios import scenario
from weft.schedulers.allocators.running import run_all
from weft.sim.elastic.environment import ElasticBatch
from weft.sim.elastic.observation import ElasticSight

SHAPE = HanArchitecture(7, 7, 7, "16x16", 16, 4, 2, 1)


def drawn_net(shape: HanArchitecture = SHAPE, seed: int = 3) -> HanNet:
    """A net whose scores differ."""
    net, generator = HanNet(shape), torch.Generator().manual_seed(seed)
    net.initialise(generator)
    with torch.no_grad():
        for tensor in net.parameters():
            tensor.add_(torch.randn(tensor.shape, generator=generator) * 0.2)
    return net


def tensors(sight: ElasticSight) -> Seen:
    return Seen(*(torch.from_numpy(getattr(sight, name)) for name in Seen._fields))


@torch.no_grad()
def outputs(net: HanNet, sight: ElasticSight, slot: np.ndarray | None = None) -> list[np.ndarray]:
    """Probabilities of slots, of void and of units for the likeliest slot or a given one, and values."""
    seen = tensors(sight)
    known = net.encode(seen)
    pointer = net.pointer(seen, known)
    law = net.unit_law(seen, known, pick(pointer, None) if slot is None else torch.from_numpy(slot))
    found = [(pointer.exp() * known.can), law.void.exp(), *(level.exp() for level in law.levels)]
    return [one.numpy() for one in (*found, net.values(known))]


@pytest.fixture(scope="module")
def sight() -> ElasticSight:
    found = in_the_middle(ElasticBatch(edge_problem(), 6, seed=1))
    assert (found.slot < 0).any() and (found.slot >= 0).any() and found.running[..., -1].any()
    return found


@pytest.mark.parametrize(
    ("encoder", "pointer", "units", "critic", "masks", "layers"),
    [
        *itertools.product(ENCODERS, POINTERS, ("factorised",), ("agent",), ("box",), (0,)),
        *itertools.product(("han",), ("pointer",), UNITS, CRITICS, MASKS, (0, 2)),
    ],
)
def test_numpy_gives_the_numbers_of_torch(
    sight: ElasticSight, encoder: str, pointer: str, units: str, critic: str, masks: str, layers: int
):
    shape = HanArchitecture(7, 7, 7, "16x16", 16, 4, 2, layers, encoder, pointer, units, critic, masks)
    net = drawn_net(shape)
    policy = HanPolicy(net.weights(), shape)
    known = policy.encode(sight)
    log_probs = policy.pointer(sight, known)
    slot = log_probs.argmax(-1)
    laws = policy.laws(sight, known, slot)
    own = [np.exp(log_probs) * known.can, np.exp(laws.void), *(np.exp(level) for level in laws.levels)]
    can = known.can.any(2)  # where nothing fits, there is no law of units
    for here, there in zip([*own, policy.values(known)], outputs(net, sight, slot), strict=True):
        np.testing.assert_allclose(here[can], there[can], atol=1e-5)


def test_permuting_the_batch_permutes_the_outputs(sight: ElasticSight):
    order, net = np.array([4, 0, 5, 2, 1, 3]), drawn_net()
    for there, here in zip(outputs(net, sight), outputs(net, taken(sight, order)), strict=True):
        np.testing.assert_allclose(here, there[order], atol=1e-5)


def test_permuting_the_clusters_permutes_the_outputs(sight: ElasticSight):
    order, net = np.array([2, 0, 1]), drawn_net()
    for there, here in zip(outputs(net, sight), outputs(net, turned(sight, order)), strict=True):
        np.testing.assert_allclose(here, there[:, order], atol=1e-5)


def test_graphs_in_a_batch_do_not_touch(sight: ElasticSight):
    net = drawn_net()
    together = outputs(net, sight)
    for b in range(len(sight.slot)):
        alone = outputs(net, taken(sight, np.array([b])))
        for there, here in zip(together, alone, strict=True):
            np.testing.assert_allclose(here[0], there[b], atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_own_type_changes_an_embedding_also_with_one_cluster(sight: ElasticSight, encoder: str):
    net = drawn_net(replace(SHAPE, encoder=encoder, transformer=0))
    in_slots = [(sight.slot[0] == row).any(1).sum() for row in range(sight.waiting.shape[1])]
    row = in_slots.index(1)  # a task that a single cluster sees
    other = ElasticSight(*(column.copy() for column in sight))
    other.waiting[0, row, 2:4] = other.waiting[0, row, 2:4][::-1]
    n, p = (int(place[0]) for place in np.nonzero(sight.slot[0] == row))
    with torch.no_grad():
        one, two = (net.encode(tensors(s)).slots[0, n, p] for s in (sight, other))
    assert (one - two).abs().max() > 1e-2


def test_empty_slots_and_rows_without_a_task_change_nothing(sight: ElasticSight):
    other = ElasticSight(*(column.copy() for column in sight))
    used = int(sight.slot.max()) + 1
    other.waiting[:, used:] = 9.0
    other.running[sight.running[..., -1] == 0, :-1] = 9.0
    for one, two in zip(outputs(drawn_net(), sight), outputs(drawn_net(), other), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


@pytest.mark.parametrize("critic", CRITICS)
def test_critic_can_go_below_zero(sight: ElasticSight, critic: str):
    net = drawn_net(replace(SHAPE, critic=critic))
    with torch.no_grad():
        net.value_out_bias.fill_(-50.0)
    values = outputs(net, sight)[-1]
    assert (values < -10.0).all()
    assert (np.ptp(values, axis=1) < 1e-5).all() == (critic == "central")


@pytest.mark.parametrize("units", UNITS)
def test_units_lie_in_the_box_or_are_void(sight: ElasticSight, units: str):
    shape = replace(SHAPE, units=units)
    net, rngs = drawn_net(shape), [np.random.default_rng(k) for k in range(6)]
    policy, seen = HanPolicy(net.weights(), shape), tensors(sight)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        known = net.encode(seen)
        slot = pick(net.pointer(seen, known), generator)
        given = net.unit_law(seen, known, slot).draw(generator).numpy()
    for chosen, units_given in ((slot.numpy(), given), policy.decide(sight, "sampled", rngs)[:2]):
        acts = units_given.any(2)
        row = np.take_along_axis(sight.slot, np.maximum(chosen, 0)[..., None], 2)
        least = np.take_along_axis(sight.least, np.maximum(row, 0), 1)
        assert ((units_given >= least) & (units_given <= sight.most))[acts].all()
        assert not (acts & ~sight.active).any()
        assert acts.any()


@pytest.mark.parametrize("units", UNITS)
def test_probabilities_of_units_add_up(sight: ElasticSight, units: str):
    net, seen = drawn_net(replace(SHAPE, units=units)), tensors(sight)
    with torch.no_grad():
        known = net.encode(seen)
        law = net.unit_law(seen, known, pick(net.pointer(seen, known), None))
        pairs = itertools.product(range(17), range(17))
        total = sum(law.log_prob(torch.tensor(pair).expand(6, 3, 2)).exp() for pair in pairs)
        entropy = law.entropy()
    active = torch.from_numpy(sight.active)
    assert (total[active] - 1.0).abs().max() < 1e-4
    assert (entropy[active] > 0).all()


def test_policy_of_three_clusters_acts_on_six(tmp_path: Path):
    net = drawn_net()
    card = Card("edge", "mappo", SHAPE, feature_version=FEATURE_VERSION, training={"mode": "greedy"})
    save_policy(tmp_path / "edge.json", net.weights(), card)
    allocator = load_allocator(str(tmp_path / "edge.json"))
    problem = edge_problem(6)
    assert (allocator.supports(problem), allocator.mode) == (None, "greedy")
    batch = ElasticBatch(problem, 2, seed=5)
    found = allocator.begin(problem, np.array([1, 2])).decide(batch.observe())
    assert found.slot.shape == (2, 6)
    batch.act(found.slot, found.units, found.chance)
    other = problem.replaced(types=problem.types[:1])
    said = "it was trained for 2 resources and 2 types of task, here are 2 and 1"
    assert allocator.supports(other) == said


def test_shipped_policy_refuses_types_that_it_does_not_know():
    found = catalog.find("tapfinger", ELASTIC)
    assert found.supports(scenario("edge-multi-12").elastic("test", 0)) is None
    assert found.supports(scenario("edge-pointer").elastic("test", 0)) == (
        "it was trained on tasks of the types img and lm, here they are short and long"
    )


def test_shipped_policy_beats_the_rules_in_a_few_episodes():
    problem = scenario("edge-multi-3").elastic("test", 0)
    runs = {
        name: run_all(catalog.find(name, ELASTIC), problem, range(3)) for name in ("edge-multi", "static-10")
    }
    times = {name: np.mean([run.mean_completion for run in found]) for name, found in runs.items()}
    assert times["edge-multi"] < 0.9 * times["static-10"]
    assert all(first_fault(run) is None for run in runs["edge-multi"])


def test_draws_belong_to_the_environment_not_to_the_batch(sight: ElasticSight):
    policy = HanPolicy(drawn_net().weights(), SHAPE)
    together = policy.decide(sight, "sampled", [np.random.default_rng(k) for k in range(6)])
    alone = policy.decide(taken(sight, np.array([4])), "sampled", [np.random.default_rng(4)])
    for here, there in zip(alone, together, strict=True):
        np.testing.assert_allclose(here[0], there[4], atol=1e-6)


def test_card_is_read_as_it_was_written(tmp_path: Path):
    save_policy(tmp_path / "edge.json", drawn_net().weights(), Card("edge", "mappo", SHAPE))
    assert load_policy(tmp_path / "edge.json")[1].architecture == SHAPE


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("grid", "16x", "expected numbers from 1 to 256 as in 16x16"),
        ("hidden", 18, "expected a multiple of the 4 heads"),
        ("pointer", "best", "expected pointer or uniform or fifo"),
        ("layers", 0, "expected a whole number from 1 to 8"),
        ("units", "joint", "expected at most 1024 combinations"),
    ],
)
def test_shapes_that_make_no_net_are_refused(field: str, value: object, message: str):
    grid = {"grid": "64x64"} if field == "units" else {}
    with pytest.raises(InputError, match=message):
        replace(SHAPE, **{**grid, field: value}).shapes()
