"""Learning curves from the metrics of training runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from weft.cli.app import main
from weft.errors import InputError
from weft.evaluation.curves import Spread, catching, findings, read_curve
from weft.evaluation.figures.curves import draw_curves


def write_run(
    folder: Path, percents: Sequence[float], *, points: Sequence[str] = ("0", "1"), worse: float = 0.0
) -> Path:
    """A run with a judgement after every second update of 100 samples; the last point is worse."""
    folder.mkdir(parents=True)
    rows: list[dict[str, object]] = []
    for k, percent in enumerate(percents, start=1):
        rows.append({"update": 2 * k - 1, "samples": 200 * k - 100, "mean_reward": -1.0 / k})
        row: dict[str, object] = {
            "update": 2 * k,
            "samples": 200 * k,
            "mean_reward": -1.0 / k,
            "phase": "ppo",
        }
        for p in points:
            at = percent + (worse if p == points[-1] else 0.0)
            row |= {f"jct_{p}": 100.0 + at, f"baselines_percent_{p}": at, f"envelope_percent_{p}": at + 10.0}
        row |= {"baselines_percent": percent, "envelope_percent": percent + 10.0}
        rows.append(row)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    rules = {"baselines": ["fifo", "mru"], "envelope": ["heavy-last-1"]}
    recipe = {"vary": {"setting": "p_c"}, "validation": rules}
    (folder / "config.json").write_text(json.dumps({"schema": "weft.run/1", "recipe": recipe}))
    return folder


FALLING = (20.0, 5.0, -4.0, -9.5, -10.0, -10.0, -10.0)


def test_curve_has_the_judgements_of_a_run(tmp_path: Path):
    curve = read_curve(write_run(tmp_path / "run", FALLING))
    assert curve.samples.tolist() == [200, 400, 600, 800, 1000, 1200, 1400]
    assert curve.columns["baselines_percent"].tolist() == [list(FALLING)]
    assert curve.points == ("0", "1")


def test_findings_say_when_the_rules_were_passed_and_where_it_converged(tmp_path: Path):
    found = findings(read_curve(write_run(tmp_path / "run", FALLING, worse=5.0)))
    assert (found.passed_on_average, found.passed_everywhere, found.converged) == ((600,), (800,), (800,))
    assert found.baselines is not None and found.baselines.mean == -10.0
    assert "below the best of fifo and mru: on average after 600 samples" in str(found)
    assert "at every p_c that is judged: after 800 samples" in str(found)
    assert "in the end +0.0 % against heavy-last-1" in str(found)


def test_run_of_an_older_version_names_the_groups_of_rules(tmp_path: Path):
    run = write_run(tmp_path / "run", FALLING)
    (run / "config.json").write_text(json.dumps({"schema": "weft.run/1", "recipe": {"p_c": "uniform"}}))
    found = str(findings(read_curve(run)))
    assert "below the baselines: on average" in found and "at every point that is judged" in found


def test_findings_of_several_seeds_have_intervals(tmp_path: Path):
    for seed, shift in ((1, 0.0), (2, 1.0), (10, 2.0)):
        write_run(tmp_path / f"seed-{seed}", [x + shift for x in FALLING])
    curve = read_curve(tmp_path)
    found = findings(curve)
    assert curve.runs == ("seed-1", "seed-2", "seed-10")
    assert found.envelope is not None and found.envelope.low is not None
    assert found.envelope.low < found.envelope.mean == 1.0 < found.envelope.high


def test_passing_counts_only_if_it_lasts(tmp_path: Path):
    found = findings(read_curve(write_run(tmp_path / "run", (-1.0, 2.0, -3.0, 1.0))))
    assert found.passed_on_average == (None,)
    assert "on average never" in str(found)


def test_catching_counts_samples_until_the_specialist_is_equalled(tmp_path: Path):
    tuned = read_curve(write_run(tmp_path / "tuned", (0.0, -8.9, -9.2), points=("0.9",)))
    expert = read_curve(write_run(tmp_path / "expert", FALLING, points=("0.9",)))
    found = catching(tuned, expert)
    assert (found.wanted, found.samples, found.specialist_samples) == (90.0, (600,), (800,))
    assert "within 1 % of expert at p_c=0.9 (90.00): after 600 samples" in str(found)


def test_catching_needs_a_specialist_of_one_probability(tmp_path: Path):
    curve = read_curve(write_run(tmp_path / "run", FALLING))
    with pytest.raises(InputError, match="specialist: expected a specialist of one point"):
        catching(curve, curve)


def test_folder_without_runs_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="expected a run, or runs in folders seed-1"):
        read_curve(tmp_path)


def test_damaged_metrics_are_refused_with_their_line(tmp_path: Path):
    run = write_run(tmp_path / "run", FALLING)
    text = (run / "metrics.jsonl").read_text().replace('{"update": 2,', '{"update" 2,')
    (run / "metrics.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: expected JSON") as error:
        read_curve(run)
    assert error.value.line == 2


def test_judgement_without_samples_is_refused_with_its_line(tmp_path: Path):
    run = write_run(tmp_path / "run", FALLING)
    text = (run / "metrics.jsonl").read_text().replace('"samples"', '"sample"')
    (run / "metrics.jsonl").write_text(text)
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: samples: expected a number"):
        read_curve(run)


def test_row_cut_short_is_left_out(tmp_path: Path):
    run = write_run(tmp_path / "run", FALLING)
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole[:-20])
    assert len(read_curve(run).samples) == 6


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_figure_is_written(tmp_path: Path, suffix: str):
    curve = read_curve(write_run(tmp_path / "run", FALLING))
    draw_curves([curve], tmp_path / f"figure.{suffix}")
    assert (tmp_path / f"figure.{suffix}").stat().st_size > 1000


def test_figure_is_the_same_twice(tmp_path: Path):
    curve = read_curve(write_run(tmp_path / "run", FALLING))
    for name in ("a.svg", "b.svg"):
        draw_curves([curve], tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_verb_prints_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = write_run(tmp_path / "run", FALLING)
    assert main(["curves", str(run), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["curves"][0]["passed_on_average"] == [600]


def test_findings_of_few_judgements_say_that_convergence_cannot_be_said(tmp_path: Path):
    found = findings(read_curve(write_run(tmp_path / "run", FALLING[-2:])))
    assert "cannot be said from 2 judgements, of 6 at least" in str(found)


def test_findings_of_a_curve_that_still_falls_say_not_yet(tmp_path: Path):
    found = findings(read_curve(write_run(tmp_path / "run", [50.0 - 5.0 * k for k in range(12)])))
    assert found.converged == (None,)
    assert "not yet, the last judgements differ by more" in str(found)


def write_oneshot(folder: Path, percents: Sequence[float]) -> Path:
    """A run of a one-shot planner, judged after every second update; the best of 16 is a point better."""
    folder.mkdir(parents=True)
    rows: list[dict[str, float]] = []
    for k, percent in enumerate(percents, start=1):
        rows.append({"update": 2 * k - 1, "drawn_percent": 50.0})
        rows.append({"update": 2 * k, "greedy_percent": percent, "best_of_16_percent": percent - 1.0})
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_curve_of_a_one_shot_planner_is_over_updates(tmp_path: Path):
    curve = read_curve(write_oneshot(tmp_path / "shops", (30.0, 20.0, 25.0)))
    assert curve.is_planner and curve.samples.tolist() == [2, 4, 6]
    assert curve.columns["best_of_16_percent"].tolist() == [[29.0, 19.0, 24.0]]


def test_findings_of_a_one_shot_planner_say_first_last_and_best(tmp_path: Path):
    found = str(findings(read_curve(write_oneshot(tmp_path / "shops", (30.0, 20.0, 25.0)))))
    assert found == (
        "shops: 1 training seed\n"
        "  greedy, above the bound: +30.0 % after 2 updates, +25.0 % after 6 updates, at best +20.0 %\n"
        "  best of 16, above the bound: +29.0 % after 2 updates, +24.0 % after 6 updates, at best +19.0 %"
    )


def test_findings_of_one_shot_planners_are_means_over_seeds(tmp_path: Path):
    write_oneshot(tmp_path / "seed-1", (30.0, 20.0, 24.0))
    write_oneshot(tmp_path / "seed-2", (40.0, 30.0, 26.0))
    greedy = findings(read_curve(tmp_path)).courses[0]
    assert (greedy.first.mean, greedy.last.mean, greedy.best.mean) == (35.0, 25.0, 23.0)
    assert greedy.last.low is not None


def test_verb_shows_and_draws_one_shot_planners(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = write_oneshot(tmp_path / "shops", (30.0, 20.0))
    assert main(["curves", str(run), "--plot", str(tmp_path / "c.svg"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [course["said"] for course in document["curves"][0]["courses"]] == ["greedy", "best of 16"]
    assert (tmp_path / "c.svg").stat().st_size > 1000


def test_figure_of_both_kinds_of_runs_is_refused(tmp_path: Path):
    both = [write_oneshot(tmp_path / "shops", (30.0,)), write_run(tmp_path / "run", FALLING)]
    with pytest.raises(InputError, match=r"expected runs of one kind in a figure, got one-shot .*shops"):
        draw_curves([read_curve(run) for run in both], tmp_path / "c.svg")


def test_one_shot_planner_is_no_specialist(tmp_path: Path):
    curve = read_curve(write_oneshot(tmp_path / "shops", (30.0,)))
    with pytest.raises(InputError, match=r"expected a specialist of one point .* got none"):
        catching(curve, curve)


def test_spread_does_not_go_below_what_there_can_be():
    assert Spread.of(np.array([0.1, 5.0]), least=0.0).low == 0.0
    assert Spread.of(np.array([-99.0, 5.0])).low == -100.0
    assert Spread.of(np.array([5.0])).low is None


def test_run_without_a_judgement_is_refused_in_words(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    row = {"update": 1, "samples": 100, "miss_macro": None}
    (folder / "metrics.jsonl").write_text(f"{json.dumps(row)}\n")
    with pytest.raises(InputError, match="expected a judgement by job time, makespan or missed deadlines"):
        read_curve(folder)


def allocator_run(folder: Path, times: Sequence[float]) -> Path:
    """A run of agents of edge clusters, judged in every second update."""
    folder.mkdir(parents=True)
    rows: list[dict[str, object]] = []
    for k, time in enumerate(times, start=1):
        rows.append({"update": 2 * k - 1, "samples": 200 * k - 100})
        rows.append(
            {
                "update": 2 * k,
                "samples": 200 * k,
                "validation_greedy": time,
                "validation": time,
                "mode": "greedy",
            }
        )
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def deadline_run(folder: Path, shares: Sequence[float]) -> Path:
    """A run on pipelines, judged after every 100 samples; part of the configurations is held out."""
    folder.mkdir(parents=True)
    rules = {
        "rm-pinned_macro": 0.2,
        "edf-pinned_macro": 0.3,
        "rm-pinned_held_out_macro": 0.01,
        "miss_macro": 0.5,
    }
    rows = [
        {"update": k, "samples": 100 * k, "mean_reward": -1.0, "validated_macro": share, **rules}
        for k, share in enumerate(shares, start=1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def test_pipelines_are_judged_by_missed_deadlines(tmp_path: Path):
    for seed, shares in enumerate(([0.9, 0.1, 0.1], [0.7, 0.3, 0.05]), start=1):
        deadline_run(tmp_path / "runs" / f"seed-{seed}", shares)
    found = findings(read_curve(tmp_path / "runs"))
    assert found.missed == pytest.approx((80.0, 7.5, 7.5))
    assert found.rules_missed == {"rm-pinned": 20.0, "edf-pinned": 30.0}
    assert found.passed_on_average == (200, 300)
    assert "missed in validation: 80.00 % at first, 7.50 % in the end, 7.50 % at best; rm-pinned" in str(
        found
    )
    assert "below the best of these rules: after 200 to 300 samples" in str(found)


def test_curves_of_pipelines_are_drawn_alone(tmp_path: Path):
    curve = read_curve(deadline_run(tmp_path / "lanes", [0.5, 0.1]))
    draw_curves([curve], tmp_path / "curves.svg")
    assert "deadlines missed" in (tmp_path / "curves.svg").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="policies of pipelines and others"):
        draw_curves([curve, read_curve(write_run(tmp_path / "run", FALLING))], tmp_path / "b.svg")


def test_allocators_are_judged_by_completion_time(tmp_path: Path):
    for seed, times in enumerate(([22.0, 9.0, 13.0], [20.0, 10.0, 11.0]), start=1):
        allocator_run(tmp_path / "runs" / f"seed-{seed}", times)
    found = findings(read_curve(tmp_path / "runs"))
    assert found.completion == (21.0, 12.0, 9.5)
    assert "mean completion time in validation: 21.00 steps at first, 12.00 in the end, 9.50 at best" in str(
        found
    )


def test_curves_of_allocators_are_drawn_alone(tmp_path: Path):
    curve = read_curve(allocator_run(tmp_path / "agents", [22.0, 9.0]))
    draw_curves([curve], tmp_path / "curves.svg")
    assert "completion time" in (tmp_path / "curves.svg").read_text(encoding="utf-8")
    other = read_curve(write_run(tmp_path / "run", FALLING))
    with pytest.raises(InputError, match="got agents of edge clusters and others"):
        draw_curves([curve, other], tmp_path / "both.svg")
