"""The verb report, from sweeps that were run to pages that were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from report_examples import HOSTILE, example_config, example_rows, write_run, write_sweep
from typer.testing import CliRunner, Result

from weft.cli import evaluate as evidence
from weft.cli import report
from weft.errors import InputError
from weft.evaluation.report.replay import draw, instance
from weft.evaluation.sweep.answers import read_evaluation


def weft(*words: str) -> Result:
    app = typer.Typer()
    for verb in (evidence.evaluate, report.report):
        app.command()(verb)
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep of planners, with noise and copies."""
    folder = tmp_path_factory.mktemp("sweeps") / "plans"
    settings = ("--set", "tasks=8", "--set", "ccr=[0.5, 2]", "--set", "noise=0.2")
    weft("evaluate", "workflows", *settings, "--problems", "3", "-s", "heft,deft", "--out", str(folder))
    return folder


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small sweep of streams with the policy that ships."""
    folder = tmp_path_factory.mktemp("sweeps") / "streams"
    settings = ("--set", "jobs=300", "--set", "p_c=[0, 0.8]")
    weft("evaluate", "conditional", *settings, "--seeds", "6", "-s", "fifo,ppo", "--out", str(folder))
    return folder


def test_report_writes_a_page_and_its_twin(streams: Path, tmp_path: Path):
    run = write_run(tmp_path / "run", [{"samples": 10, "mean_reward": -1.0, "seconds": 1.0}])
    done = weft("report", str(streams), str(run), "--out", str(tmp_path / "r.html"))
    assert done.exit_code == 0
    assert "ppo wins. By ratios its mean job time is" in done.stdout
    page, twin = (tmp_path / "r.html").read_text(), (tmp_path / "r.md").read_text()
    for part in (
        "Side by side",
        "Where ppo loses",
        "Devices",
        "Training",
        "Every row",
        "Commands and versions",
    ):
        assert part in page
    assert "--set 'p_c=[0.0, 0.8]'" in twin and "claims and verdicts" in twin


def test_report_repeats_byte_for_byte(plans: Path, tmp_path: Path):
    out = tmp_path / "r.html"
    weft("report", str(plans), "--out", str(out))
    first = out.read_bytes()
    weft("report", str(plans), "--out", str(out))
    assert out.read_bytes() == first


def test_report_of_markdown_alone_writes_no_page(plans: Path, tmp_path: Path):
    weft("report", str(plans), "--out", str(tmp_path / "r.md"), "--no-charts")
    assert [path.name for path in tmp_path.iterdir()] == ["r.md"]


def test_report_json_names_the_files_and_the_headline(plans: Path, tmp_path: Path):
    done = weft("report", str(plans), "--out", str(tmp_path / "r.html"), "--no-charts", "--json")
    found = json.loads(done.stdout)
    assert found["schema"] == "weft/report/1"
    assert [Path(path).name for path in found["out"]] == ["r.html", "r.md"]
    assert found["headline"]


def test_report_opens_the_page(plans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr(typer, "launch", lambda url: opened.append(url))
    weft("report", str(plans), "--out", str(tmp_path / "r.html"), "--no-charts", "--open")
    assert opened == [str((tmp_path / "r.html").resolve())]


def test_report_takes_the_baseline_of_evaluate(tmp_path: Path):
    folder = str(tmp_path / "sweep")
    asked = (
        "evaluate",
        "workflows",
        "-s",
        "heft,deft",
        "--problems",
        "2",
        "--set",
        "tasks=6",
        "--out",
        folder,
    )
    for baseline in ("deft", "heft"):
        weft(*asked, "--baseline", baseline)
        weft("report", folder, "--no-charts", "--out", str(tmp_path / "r.md"))
        assert f"against {baseline} in %" in (tmp_path / "r.md").read_text()
    weft("report", folder, "--baseline", "deft", "--no-charts", "--out", str(tmp_path / "r.md"))
    assert "against deft in %" in (tmp_path / "r.md").read_text()


def test_report_judges_claims_without_a_sweep(tmp_path: Path):
    run = write_run(tmp_path / "run", [{"samples": 10, "seconds": 1.0}])
    done = weft("report", str(run), "--claims", "conditional", "--out", str(tmp_path / "r.md"))
    assert "not measured" in done.stdout


def test_report_escapes_names_of_schedulers_and_problems(tmp_path: Path):
    names = ("fifo", HOSTILE)
    rows = example_rows(names, (0.0, 1.0), 3, lambda name, p, seed: 1.0 + seed + len(name))
    write_sweep(tmp_path / "s", example_config(names, (0.0, 1.0), 3, name=HOSTILE), rows)
    weft("report", str(tmp_path / "s"), "--out", str(tmp_path / "r.html"))
    assert "<img" not in (tmp_path / "r.html").read_text()
    outside_code = (tmp_path / "r.md").read_text().split("```")[::2]
    assert not any("<img" in part for part in outside_code)


def test_report_lets_no_escape_codes_through_to_the_terminal(tmp_path: Path):
    names = ("fifo", "mru")
    rows = example_rows(names, (0.0,), 2, lambda name, p, seed: 1.0 + seed)
    write_sweep(tmp_path / "s", example_config(names, (0.0,), 2, name="\x1b[31mred"), rows)
    done = weft("report", str(tmp_path / "s"), "--out", str(tmp_path / "r.html"))
    assert "drawing" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_report_draws_the_instance_asked_for(streams: Path, tmp_path: Path):
    words = ("--instance", "p_c=0.8 seed=2", "--out", str(tmp_path / "r.html"))
    weft("report", str(streams), *words)
    assert "p_c=0.8, test/0, seed 2 (asked for)" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--out", "r.pdf"), "expected a path that ends in .html or .md"),
        (("--baseline", "hefd"), "expected one of heft, deft, got 'hefd'"),
        (("--subject", "x"), "expected one of heft, deft, got 'x'"),
        (("--instance", "ccr=9"), "expected an instance of the sweep"),
        (("--claims", "x"), "no claims 'x'"),
    ],
)
def test_report_refuses_what_it_cannot_do(plans: Path, words: tuple[str, ...], reason: str, tmp_path: Path):
    out = () if "--out" in words else ("--out", str(tmp_path / "r.html"))
    with pytest.raises(InputError, match=reason):
        weft("report", str(plans), *words, *out)


def test_instance_is_made_again_exactly_with_noise(plans: Path):
    frame = read_evaluation(plans)
    cell = frame.cells[1].label
    chart = draw(frame, cell, frame.samples[cell][0], frame.schedulers)
    assert "other versions" not in chart.caption
    ends = [float(panel.finish.max()) for panel in chart.panels]
    assert ends == pytest.approx([frame.costs(cell, name)[0] for name in frame.schedulers])


def test_stream_is_made_again_exactly_and_its_window_holds_the_loss(streams: Path):
    frame = read_evaluation(streams)
    chart = draw(frame, "p_c=0", frame.samples["p_c=0"][1], ("fifo", "ppo"), at="loss")
    assert "other versions" not in chart.caption
    assert chart.span is not None and chart.span[0] < chart.span[1]
    assert chart.kinds == ("A", "B", "C", "D", "E", "F")


def test_instance_that_is_not_there_is_an_error(plans: Path):
    frame = read_evaluation(plans)
    sample = frame.samples[frame.cells[0].label][0]
    with pytest.raises(InputError, match="no problem 'x'"):
        instance(frame, frame.cells[0].label, type(sample)("x", 0))


def test_report_tells_results_before_claims_and_only_measured_ones(streams: Path, tmp_path: Path):
    rows = [{"samples": 1_000_000 * k, "baselines_percent": -20.0, "seconds": 60.0 * k} for k in range(1, 7)]
    run = write_run(tmp_path / "run", rows)
    weft("report", str(streams), str(run), "--no-charts", "--out", str(tmp_path / "r.md"))
    text = (tmp_path / "r.md").read_text()
    assert text.index("## Results") < text.index("claims and verdicts")
    assert "no sweep with" not in text
