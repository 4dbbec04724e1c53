"""What is said of policies: only what the rows support, paired by seed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from weft.evaluation.sweep.answers import evaluate
from weft.evaluation.sweep.claims import Claim, Table, claims
from weft.evaluation.sweep.evaluation import Evaluation
from weft.evaluation.sweep.runner import Sweep
from weft.policies.checkpoint import Architecture, Card, save_policy
from weft.scenarios import read_recipe, sweep
from weft.sim.queues.observation import Sight, feature_names

RULES = ("fifo", "mru", "depth-first")
ENVELOPE = ("heavy-last-1", "heavy-last-3", "heavy-last-5")


def saved(folder: Path, name: str, *, p_c: float | str, estimates: bool) -> str:
    """A policy of random weights that says how it was trained."""
    sight = Sight(oldest=0, mean_age=False, estimates=estimates)
    features = tuple(feature_names(sight, list("ABCDEF"), 4, 1))
    shape = Architecture(len(features), 4, 7, (5,), critic="none")
    rng = np.random.default_rng(1)
    tensors = {key: rng.standard_normal(size).astype(np.float32) for key, size in shape.shapes().items()}
    training = {"sight": sight._asdict(), "recipe": {"p_c": p_c}}
    save_policy(
        folder / f"{name}.json", tensors, Card(name, "none", shape, features=features, training=training)
    )
    return str(folder / f"{name}.json")


def found(*schedulers: str, seeds: int = 6) -> Evaluation:
    cells = sweep("conditional", {"jobs": 200, "p_c": [0.2, 0.8]})
    return evaluate(Sweep(cells, schedulers, 1, tuple(range(seeds))))


@cache
def shipped() -> Evaluation:
    return found("ppo", *RULES, *ENVELOPE, seeds=7)


def about(said: tuple[Claim, ...], what: str) -> list[Claim]:
    return [one for one in said if one.about == what]


def test_claims_compare_with_the_best_rule_of_each_cell():
    (usual,) = about(claims(shipped()), "usual")
    table = Table(shipped())
    for point in usual.points:
        means = {name: table.values(point.cell, name).mean() for name in RULES}
        assert point.reference == min(means, key=lambda name: means[name])
    assert usual.points[0].cell == "p_c=0.2"


def test_overall_figure_is_the_geometric_mean_over_cells_and_seeds():
    (envelope,) = about(claims(shipped()), "envelope")
    mean = np.log1p([point.comparison.percent / 100 for point in envelope.points]).mean()
    assert envelope.overall.percent == pytest.approx(100 * np.expm1(mean), abs=1e-6)
    assert "the envelope of heavy-last-1, -3 and -5" in envelope.text
    assert "over p_c, better at" in envelope.text


def test_too_few_seeds_are_said_with_how_many_it_takes():
    (usual,) = about(claims(found("ppo", *RULES, *ENVELOPE, seeds=6)), "usual")
    assert "over p_c, at each point 6 seeds are too few for a verdict; at least 7 are needed" in usual.text


def test_nothing_is_claimed_without_a_policy_or_its_rivals():
    assert claims(found(*RULES)) == ()
    assert claims(found("ppo", "fifo", "mru", *ENVELOPE[:2])) == ()


def test_nothing_is_claimed_from_one_seed():
    assert claims(found("ppo", *RULES, seeds=1)) == ()


def test_specialist_is_compared_with_the_policy_trained_everywhere(tmp_path: Path):
    special = saved(tmp_path, "pi_2", p_c=0.9, estimates=False)
    broad = saved(tmp_path, "pi_4", p_c="uniform", estimates=True)
    (one,) = about(claims(found(special, broad)), "specialist")
    assert (one.scheduler, one.reference) == (special, "pi_4.json")
    assert "trained at p_c=0.9, at its best at p_c=" in one.text


def test_estimate_is_judged_where_one_policy_sees_it_and_one_does_not(tmp_path: Path):
    blind = saved(tmp_path, "pi_3", p_c="uniform", estimates=False)
    sees = saved(tmp_path, "pi_4", p_c="uniform", estimates=True)
    (one,) = about(claims(found(blind, sees)), "estimate")
    assert (one.scheduler, one.reference) == (sees, "pi_3.json")


def test_claim_as_json_has_the_share_of_cells():
    (usual,) = about(claims(shipped()), "usual")
    shown = usual.to_dict()
    assert shown["better_cells_percent"] == 50.0 * usual.num_better
    assert len(shown["points"]) == 2  # type: ignore[arg-type]
    assert [group.key for group in read_recipe("conditional").groups] == ["usual", "envelope", "waiting"]


def test_policies_of_one_folder_are_spoken_of_together(tmp_path: Path):
    names = tuple(saved(tmp_path, f"seed-{k}", p_c="uniform", estimates=True) for k in (1, 2))
    cells = sweep("conditional", {"jobs": 60, "p_c": [0.2, 0.8]})
    asked = Sweep(cells, (*names, *RULES), 1, (0, 1, 2))
    (one,) = about(claims(evaluate(asked, members={"runs/pi-4": names})), "usual")
    assert (one.scheduler, one.num_runs) == ("runs/pi-4", 2)
    assert one.text.startswith("pi-4 (2 training seeds) ")
    alone = about(claims(evaluate(asked)), "usual")
    assert [claim.scheduler for claim in alone] == list(names)
    assert one.overall.percent == pytest.approx(alone[0].overall.percent)  # both runs have the same weights
