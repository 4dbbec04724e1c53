"""Claims: the TOML, the measures, and verdicts that follow from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_examples import example_frame, write_run

from weft.errors import InputError
from weft.evaluation.report.claim_tables import claim_sections
from weft.evaluation.report.claims import (
    Claim,
    Claims,
    Judged,
    Point,
    claim_names,
    parse_claims,
    read_claims,
    verdict_counts,
)
from weft.evaluation.report.measures import MEASURES, Evidence, judge, role_in, roles_played
from weft.evaluation.report.runs import read_run
from weft.evaluation.statistics import mean_interval
from weft.evaluation.sweep.breaches import Breach
from weft.evaluation.sweep.evaluation import Evaluation

NAMES = ("fifo", "mru", "x/pi-2@best", "ppo")
ROLES = {"pi_2": ("*pi-2@best",), "pi_4": ("ppo",)}


def cost(name: str, p: float, seed: int) -> float:
    base = {"fifo": 100.0, "mru": 120.0, "ppo": 80.0, "x/pi-2@best": 76.0 if p == 0.8 else 90.0}[name]
    return base + 0.01 * seed


def verdict_on(claim: Claim, evidence: Evidence) -> Judged:
    return judge(Claims("c", "C", "conditional", "", ROLES, (claim,)), evidence)[0]


def sweep() -> Evidence:
    return Evidence((example_frame(cost, schedulers=NAMES),))


def claim(measure: str, **more: object) -> Claim:
    return Claim("text", "where", "says", measure, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", claim_names())
def test_shipped_claims_can_be_read_and_name_known_measures(name: str):
    claims = read_claims(name)
    assert claims.claims
    for one in claims.claims:
        assert one.measure in MEASURES
        assert one.condition
        assert not one.of or one.of in claims.roles
        assert all(role in claims.roles for role in one.against)


@pytest.mark.parametrize("name", claim_names())
def test_shipped_claims_without_evidence_are_not_measured(name: str):
    judged = judge(read_claims(name), Evidence(()))
    assert {one.verdict for one in judged} == {"not measured"}
    assert all(one.measured.startswith("no ") for one in judged)


@pytest.mark.parametrize("name", ["ppo", "mru"])
def test_claims_on_who_broke_a_rule_are_not_measured(name: str):
    (frame,) = sweep().sweeps
    evidence = Evidence((replace(frame, breaches={name: Breach(1, 3, "slots")}),))
    found = verdict_on(claim("gain", of="pi_4", against=("fifo", "mru"), at_least=0.0), evidence)
    assert found.verdict == "not measured"
    assert found.measured == f"no sweep in which {name} broke no rule"


def test_claims_are_measured_on_a_sweep_in_which_nobody_broke_a_rule():
    (frame,) = sweep().sweeps
    broken = replace(frame, breaches={"ppo": Breach(1, 3, "slots")})
    asked = claim("gain", of="pi_4", against=("fifo", "mru"), at_least=0.0)
    assert verdict_on(asked, Evidence((broken, frame))).verdict == "holds"


def test_gain_is_over_the_best_rival_at_each_point():
    found = verdict_on(claim("gain", of="pi_4", against=("fifo", "mru"), at_least=0.0), sweep())
    assert found.verdict == "holds"
    assert [round(point.value) for point in found.points] == [20, 20, 20]


def test_gain_at_one_point_takes_the_role_by_pattern():
    asked = claim("gain", of="pi_2", against=("pi_4",), at=(("p_c", 0.8),), at_least=2.5)
    found = verdict_on(asked, sweep())
    assert (found.verdict, len(found.points)) == ("holds", 1)
    assert found.points[0].value == pytest.approx(5.0, abs=0.1)


def test_gain_at_some_points_holds_partly_and_at_none_does_not():
    partly = claim("gain", of="pi_2", against=("pi_4",), at_least=0.0)
    never = claim("gain", of="pi_4", against=("fifo",), at_least=50.0)
    assert verdict_on(partly, sweep()).verdict == "holds partly"
    assert verdict_on(never, sweep()).verdict == "does not hold"


def test_claim_about_a_scheduler_that_is_not_there_is_not_measured():
    found = verdict_on(claim("gain", of="pi_9", against=("fifo",), at_least=0.0), sweep())
    assert (found.verdict, found.measured) == ("not measured", "no sweep with pi_9")


def test_roles_are_named_where_a_scheduler_has_another_name():
    asked = (claim("gain", of="pi_2", against=("pi_4", "fifo")), claim("gain", of="pi_9", against=("fifo",)))
    claims = Claims("c", "C", "conditional", "", ROLES, asked)
    assert roles_played(judge(claims, sweep())) == {"pi_2": "pi-2@best", "pi_4": "ppo"}


def of_seeds(costs: Sequence[float], noise: float = 0.1, points: Sequence[float] = (0.8,)) -> Evaluation:
    """A rule at 100 against a policy that training seeds made so good."""
    names = [f"runs/pi-4/seed-{k + 1}@best" for k in range(len(costs))]
    rng = np.random.default_rng(1)
    table = dict(zip(names, costs, strict=True)) | {"fifo": 100.0}
    policies = dict.fromkeys(names, "hash")
    return example_frame(
        lambda name, p, seed: table[name] + noise * rng.normal(),
        schedulers=("fifo", *names),
        points=points,
        num_seeds=20,
        policies=policies,
    )


SEEDS = {"pi_4": ("*pi-4[-/]*@best",)}


def judged_on(asked: Claim, *frames: Evaluation) -> Judged:
    return judge(Claims("c", "C", "conditional", "", SEEDS, (asked,)), Evidence(frames))[0]


def test_role_of_several_training_seeds_is_judged_over_both_kinds_of_seeds():
    asked = claim("gain", of="pi_4", against=("fifo",), at_least=0.0)
    spread, alike = (judged_on(asked, of_seeds(one)) for one in ([75, 90, 97, 99, 100], [92] * 5))
    logs = np.log(np.array([75, 90, 97, 99, 100]) / 100)
    assert spread.points[0].value == pytest.approx(-100 * math.expm1(logs.mean()), abs=0.1)
    assert (spread.verdict, alike.verdict) == ("cannot be told", "holds")
    runs = mean_interval(logs)
    assert spread.points[0].low == pytest.approx(-100 * math.expm1(runs.high), abs=0.2)
    assert roles_played([spread])["pi_4"].startswith("5 training seeds (seed-1@best, seed-2@best, ")


def test_points_of_one_claim_are_corrected_together():
    asked = claim("gain", of="pi_4", against=("fifo",), at_least=0.0)
    one = judged_on(asked, of_seeds([90, 91, 92, 93, 94])).points[0]
    several = judged_on(asked, of_seeds([90, 91, 92, 93, 94], points=(0.0, 0.8, 1.0))).points[1]
    assert several.high - several.low > 1.1 * (one.high - one.low)


@pytest.mark.parametrize(
    ("num", "said"),
    [
        (1, "holds (on 1 training seed of pi_4; 5 are needed)"),
        (4, "holds (on 4 training seeds of pi_4; 5 are needed)"),
        (5, "holds"),
    ],
)
def test_verdict_on_few_training_seeds_says_so(num: int, said: str):
    found = judged_on(claim("gain", of="pi_4", against=("fifo",), at_least=0.0), of_seeds([92] * num))
    assert (found.verdict, found.remark) == ("holds", said)


def test_headline_of_verdicts_says_how_many_rest_on_few_training_seeds():
    found = judged_on(claim("gain", of="pi_4", against=("fifo",), at_least=0.0), of_seeds([92]))
    assert verdict_counts([found]) == "1 holds; 1 of them rests on fewer than 5 training seeds"


def test_claims_are_measured_on_the_sweep_with_their_settings():
    start, end = (with_setting(of_seeds([cost]), one) for cost, one in ((92, "start"), (95, "end")))
    for wanted, value in (("start", 8.0), ("end", 5.0)):
        asked = claim("gain", of="pi_4", against=("fifo",), at_least=0.0, settings=(("estimate", wanted),))
        found = judged_on(asked, start, end)
        assert found.points[0].value == pytest.approx(value, abs=0.2)
        assert found.found.sweep == f"conditional ({wanted})"
    asked = claim("gain", of="pi_4", against=("fifo",), settings=(("estimate", "other"),))
    assert judged_on(asked, start, end).missing == "no sweep at estimate=other with pi_4, fifo"


def with_setting(frame: Evaluation, estimate: str) -> Evaluation:
    cells = tuple(replace(cell, settings={**cell.settings, "estimate": estimate}) for cell in frame.cells)
    return replace(frame, cells=cells, title=f"conditional ({estimate})")


def test_shipped_policy_does_not_play_the_policy_of_the_study():
    claims = read_claims("conditional")
    frame = with_setting(example_frame(cost, schedulers=("fifo", "mru", "ppo")), "start")
    found = judge(claims, Evidence((frame,)))
    assert found[0].claim.of == "pi_4"
    assert found[0].measured == "no sweep at estimate=start with pi_4, depth-first"
    assert all(role_in(frame, claims.roles[role]) == () for role in ("pi_0", "pi_1", "pi_2", "pi_3", "pi_4"))


HEAVY = ("heavy-last-1", "heavy-last-3", "heavy-last-5")
TWINS = ("x/shipped/seed-1@best", "x/shipped/seed-2@best")


def on_the_shipped_policy(*policies: str) -> Judged:
    """The claim about the shipped policy on a sweep with these policies."""
    names = (*HEAVY, *policies)
    frame = example_frame(
        lambda n, p, s: (100.0 if n in HEAVY else 90.0) + 0.01 * s + 0.01 * len(n),
        schedulers=names,
        policies=dict.fromkeys(policies, "hash"),
    )
    return judge(read_claims("conditional"), Evidence((with_setting(frame, "end"),)))[-1]


def test_claim_on_the_shipped_policy_is_measured_on_it():
    found = on_the_shipped_policy("ppo", *TWINS)
    assert (found.found.cast["shipped"], found.remark) == ("ppo", "holds")


def test_claim_measured_on_another_policy_says_stand_in():
    found = on_the_shipped_policy(*TWINS)
    assert found.remark == (
        "holds (stand-in: 2 training seeds (seed-1@best, seed-2@best) for shipped; "
        "on 2 training seeds of shipped; 5 are needed)"
    )
    assert verdict_counts([found]).endswith("1 of them is measured on a stand-in")


def test_policy_itself_is_preferred_to_a_stand_in_of_an_earlier_sweep():
    frames = [
        example_frame(lambda n, p, s: 1.0 + len(n) + 0.01 * s, schedulers=("fifo", name))
        for name in ("mru", "ppo")
    ]
    asked = claim("gain", of="shipped", against=("fifo",))
    claims = Claims("c", "C", "conditional", "", {"shipped": ("ppo",)}, (asked,), {"shipped": ("mru",)})
    assert judge(claims, Evidence(tuple(frames)))[0].found.cast["shipped"] == "ppo"
    assert judge(claims, Evidence(tuple(frames[:1])))[0].found.stand_in == "mru for shipped"


def test_policy_of_another_recipe_does_not_play_the_policy_of_the_study():
    patterns = read_claims("conditional").roles["pi_4"]
    names = ("pi-4-end/seed-1@best", "pi-4/seed-1@best", "pi-4/seed-2@best")
    assert role_in(example_frame(lambda n, p, s: 1.0, schedulers=names), patterns) == names[1:]


def test_claims_keep_the_numbers_of_the_document():
    asked = tuple(claim("gain", of=role, against=("fifo",), at_least=0.0) for role in ("pi_9", "pi_4"))
    claims = Claims("c", "C", "conditional", "Doc", ROLES, asked)
    measured = [one for one in judge(claims, sweep()) if one.points]
    table, points = (section.blocks[-1] for section in claim_sections(claims, measured, {}))
    assert [row[0] for row in table.rows] == ["2"]  # type: ignore[union-attr]
    assert {row[0] for row in points.rows} == {"2"}  # type: ignore[union-attr]


def test_runs_of_another_recipe_stand_in(tmp_path: Path):
    run = read_run(write_run(tmp_path / "run", run_rows(), "conditional"))
    more = {"runs": ("conditional-pi-?",), "stand_in_runs": ("conditional",), "column": "baselines_percent"}
    found = verdict_on(claim("passed-after", at_most=5.0, **more), Evidence((), (run,)))
    assert found.remark.startswith("holds (stand-in: conditional for conditional-pi-?; on 1 training seed")


def test_share_of_points_counts_certain_gains():
    found = verdict_on(claim("share-of-points", of="pi_2", against=("pi_4",), at_least=50.0), sweep())
    assert found.points[0].value == pytest.approx(100.0 / 3.0)


def test_device_use_is_a_paired_difference():
    asked = claim("device-use", of="pi_2", against=("pi_4",), devices="cpu*", at_least=0.0)
    found = verdict_on(asked, sweep())
    assert [point.value for point in found.points] == [0.0, 0.0, 0.0]


def run_rows() -> list[dict[str, object]]:
    values = (40.0, -3.0, 2.0, -20.0, -20.0, -20.0)
    return [
        {"samples": 1_000_000 * (k + 1), "baselines_percent": value, "seconds": 60.0 * (k + 1)}
        for k, value in enumerate(values)
    ]


def test_runs_answer_when_rules_are_passed_and_how_long_it_takes(tmp_path: Path):
    evidence = Evidence((), (read_run(write_run(tmp_path / "run", run_rows())),))
    more = {"runs": ("conditional-pi-?",), "column": "baselines_percent"}
    passed = verdict_on(claim("passed-after", at_most=2.0, **more), evidence)
    assert (passed.points[0].value, passed.verdict) == (4.0, "does not hold")
    assert passed.remark == "does not hold (on 1 training seed of conditional-pi-4; 5 are needed)"
    took = verdict_on(claim("minutes-per-samples", samples=5_000_000, at_most=15.0, **more), evidence)
    assert (took.points[0].value, took.verdict) == (pytest.approx(5.0), "holds")
    settled = verdict_on(claim("converged-after", at_most=3.0, **more), evidence)
    assert (settled.points[0].value, settled.verdict) == (4.0, "does not hold")


def test_run_with_changed_values_answers_no_claim(tmp_path: Path):
    run = read_run(write_run(tmp_path / "run", run_rows()), lambda name: {"name": name, "waits": False})
    changed = replace(run, config={**run.config, "recipe": {**run.recipe, "waits": True}})
    more = {"runs": ("conditional-pi-?",), "column": "baselines_percent"}
    found = verdict_on(claim("passed-after", at_most=2.0, **more), Evidence((), (changed,)))
    assert (found.verdict, found.missing) == (
        "not measured",
        "no run of conditional-pi-? without --set and --from",
    )


def test_benchmark_figures_answer(tmp_path: Path):
    asked = claim("benchmark", benchmark="decision", figure="best choice", at_most=20.0, unit="us")
    found = verdict_on(asked, Evidence((), figures={"decision": {"best choice": 5.3}}))
    assert (found.verdict, found.measured) == ("holds", "5.3 us")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(1.0, 2.0, True), (-2.0, -1.0, False), (-1.0, 1.0, None)],
)
def test_point_fits_interval_and_all(low: float, high: float, expected: bool | None):
    assert Point("", 0.0, low, high).fits(claim("gain", at_least=0.0)) is expected


def test_sections_show_both_figures_and_the_verdict():
    claims = Claims(
        "c", "C", "conditional", "Doc", ROLES, (claim("gain", of="pi_4", against=("fifo",), at_least=0.0),)
    )
    sections = claim_sections(claims, judge(claims, sweep()), {"pi_4": "ppo"})
    assert "Who plays which part here: pi_4 is ppo." in sections[0].blocks[0].lines  # type: ignore[union-attr]
    assert sections[0].blocks[1].rows[0][-1] == "holds"  # type: ignore[union-attr]
    assert len(sections[1].blocks[0].rows) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x = ", "expected TOML"),
        ("schema = 'other'", "expected 'weft/claims/1'"),
        ("schema = 'weft/claims/1'\n[[claim]]\ntext = 1", "expected a text, got 1"),
        ("schema = 'weft/claims/1'\n[[claim]]\ntxt = 'a'", "no key 'txt' in a claim"),
    ],
)
def test_claims_that_are_wrong_are_refused(text: str, reason: str):
    with pytest.raises(InputError, match=reason):
        parse_claims(text, "mine.toml")


def test_unknown_claims_are_refused_with_a_hint():
    with pytest.raises(InputError, match="no claims 'condtional'; did you mean"):
        read_claims("condtional")
