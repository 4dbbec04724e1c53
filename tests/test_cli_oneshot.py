"""The one-shot planner from the command line: plans after installation, trains, refuses by name."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from policies.planners import saved_policy

from weft.cli import main
from weft.policies.oneshot.features import FEATURES, VERSION
from weft.policies.tensors import decode_tensors, encode_tensors

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = (str(ROOT / "examples" / "pipeline.json"), "--cluster", "gpu-mix-8")
TINY = {
    "updates": 2, "groups": 1, "graphs": 2, "samples": 4, "width": 8, "layers": 1, "hidden": 8,
    "every": 1, "validation": 2, "heads": '["ancestors", "all"]',
}  # fmt: skip


def made(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_schedule_with_more_samples_is_never_longer(capsys: pytest.CaptureFixture[str]):
    one, many = (
        made(capsys, "schedule", *EXAMPLE, "-s", "oneshot", "--samples", count) for count in ("1", "40")
    )
    assert many["makespan"] <= one["makespan"]  # type: ignore[operator]
    assert one["valid"] and many["valid"]


def test_schedule_takes_samples_or_effort(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "oneshot", "--samples", "4", "--effort", "4"]) == 2
    assert "give --samples or --effort, not both" in capsys.readouterr().err


def test_schedule_refuses_a_dispatcher_as_planner(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "ppo"]) == 2
    assert (
        "ppo is a dispatcher: it decides while jobs arrive and run, and makes no plan"
        in capsys.readouterr().err
    )


def test_schedule_says_that_a_weights_file_is_not_there(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "nowhere@best"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_schedule_searches_from_the_weights_named(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    card = saved_policy(tmp_path)
    drawn = made(capsys, "schedule", *EXAMPLE, "-s", str(card), "--effort", "8")
    found = made(capsys, "schedule", *EXAMPLE, "-s", f"{card}+search", "--effort", "64")
    assert str(found["note"]).startswith("small, best of 8")
    assert found["valid"] and found["makespan"] <= drawn["makespan"]  # type: ignore[operator]


@pytest.mark.parametrize("suffix", ["", "+search"])
def test_schedule_says_what_may_follow_a_run(
    suffix: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shops").mkdir()
    assert main(["schedule", *EXAMPLE, "-s", f"shops@frist{suffix}"]) == 2
    assert "expected shops@best or shops@last, got @frist" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--samples", "--effort", "--budget"])
def test_schedule_says_that_a_planner_uses_no_limit(option: str, capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "heft", option, "9"]) == 0
    said = capsys.readouterr().err
    assert f"heft makes one plan and neither draws nor searches: {option} changes nothing" in said


@pytest.mark.parametrize("name", ["oneshot", "jobshop-oneshot", "perturbed"])
def test_schedule_says_nothing_of_a_limit_that_is_used(name: str, capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", name, "--samples", "9"]) == 0
    assert "changes nothing" not in capsys.readouterr().err


def rewritten(card: Path, **changes: object) -> None:
    card.write_text(json.dumps(json.loads(card.read_text()) | changes))


def with_tensors(card: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Other weights, with the hash that belongs to them."""
    path = card.with_suffix(".safetensors")
    tensors = {name: array.copy() for name, array in decode_tensors(path.read_bytes(), str(path)).items()}
    change(tensors)
    data = encode_tensors(tensors)
    path.write_bytes(data)
    rewritten(card, sha256=hashlib.sha256(data).hexdigest())


def cut(card: Path) -> None:
    path = card.with_suffix(".safetensors")
    path.write_bytes(path.read_bytes()[:-100])


def cut_and_signed(card: Path) -> None:
    cut(card)
    rewritten(card, sha256=hashlib.sha256(card.with_suffix(".safetensors").read_bytes()).hexdigest())


def altered(card: Path) -> None:
    path = card.with_suffix(".safetensors")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def no_number(card: Path) -> None:
    with_tensors(card, lambda tensors: tensors["skip"].fill(np.nan))


def no_tensor(card: Path) -> None:
    with_tensors(card, lambda tensors: tensors.update(skip=tensors["skip"][:, :-1].copy()))


def other_kind(card: Path) -> None:
    architecture = json.loads(card.read_text())["architecture"]
    rewritten(card, architecture=architecture | {"kind": "transformer"})


def fewer_columns(card: Path) -> None:
    """A net that is whole in itself, but takes one feature less."""

    def narrow(tensors: dict[str, np.ndarray]) -> None:
        for name in ("embed.weight", "skip"):
            tensors[name] = np.ascontiguousarray(tensors[name][:, :-1])

    with_tensors(card, narrow)
    document = json.loads(card.read_text())
    fewer = document["architecture"]["num_features"] - 1
    rewritten(
        card,
        architecture=document["architecture"] | {"num_features": fewer},
        features=document["features"][:-1],
    )


def other_order(card: Path) -> None:
    rewritten(card, features=json.loads(card.read_text())["features"][::-1])


def no_weights(card: Path) -> None:
    card.with_suffix(".safetensors").unlink()


BAD_WEIGHTS = {
    "cut": (cut, "does not have the SHA-256"),
    "cut, with a hash of its own": (cut_and_signed, "small.safetensors"),
    "altered": (altered, "does not have the SHA-256"),
    "not a number": (no_number, "skip: expected finite numbers, got NaN or infinity"),
    "other shape": (no_tensor, "skip: expected shape"),
    "other kind of net": (other_kind, "architecture.hidden"),
    "fewer features": (fewer_columns, f"architecture.num_features: expected {len(FEATURES)}, got"),
    "features in another order": (other_order, f"features: expected those of {VERSION!r}"),
    "other feature version": (
        lambda card: rewritten(card, feature_version="tasks/9"),
        "feature_version: trained on features 'tasks/9'",
    ),
    "a name no file can have": (
        lambda card: rewritten(card, weights="\ud800.safetensors"),
        "weights: expected a file in the card's folder",
    ),
    "a very long number": (
        lambda card: rewritten(card, name=10**400),
        f"name: expected text, got {10**400!r:.60}\n",
    ),
    "no weights": (no_weights, "small.safetensors"),
    "no card": (lambda card: card.write_text("{"), "expected the card of a policy"),
}


@pytest.mark.parametrize("damage", BAD_WEIGHTS)
def test_schedule_refuses_bad_weights_in_one_line(
    damage: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    card = saved_policy(tmp_path)
    harm, said = BAD_WEIGHTS[damage]
    harm(card)
    assert main(["schedule", *EXAMPLE, "-s", str(card)]) == 2
    shown = capsys.readouterr()
    assert said in shown.err
    assert shown.out == "" and shown.err.count("\n") == 1


def test_schedule_with_weights_that_overflow_plans_with_a_rule(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    card = saved_policy(tmp_path)
    with_tensors(card, lambda tensors: [array.fill(3e38) for array in tensors.values()])
    assert main(["schedule", *EXAMPLE, "-s", str(card)]) == 0
    assert "the scores of small are not finite: " in capsys.readouterr().out


def test_schedule_with_weights_of_another_kind_plans_with_a_note(capsys: pytest.CaptureFixture[str]):
    assert main(["schedule", *EXAMPLE, "-s", "jobshop-oneshot"]) == 0
    said = capsys.readouterr().out
    assert "jobshop-oneshot, best of 64; unlike the training (workflows, not jobshop, freedom" in said
    assert "best of net and rules, " in said


def test_schedule_refuses_a_graph_without_tasks(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    file = tmp_path / "empty.stg"
    file.write_text("0\n0 0 0\n1 0 1 0\n")
    assert main(["schedule", str(file), "--cluster", "gpu-mix-8", "-s", "oneshot"]) == 2
    assert capsys.readouterr().err.endswith("empty.stg:1: tasks: no tasks\n")


def test_schedule_refuses_a_task_that_no_device_can_run(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    cluster, graph = tmp_path / "small.toml", tmp_path / "large.toml"
    cluster.write_text('[[device]]\nclass = "cpu"\nmemory = 1\n')
    graph.write_text('schema = "weft/graph/1"\n[[tasks]]\nname = "a"\nwork = 1.0\nmemory = 100\n')
    assert main(["schedule", str(graph), "--cluster", str(cluster), "-s", "oneshot"]) == 3
    shown = capsys.readouterr()
    assert "tasks.a" in shown.err and shown.err.count("\n") == 1


def test_train_makes_a_run_that_plans(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    sets = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    done = made(capsys, "train", "oneshot-jobshop-quick", "--out", "run", *sets)
    assert done["samples"] == 16
    assert made(capsys, "schedule", *EXAMPLE, "-s", "run@last", "--samples", "3")["valid"]


def test_train_dry_run_shows_the_recipe(capsys: pytest.CaptureFixture[str]):
    found = made(capsys, "train", "oneshot-graphs", "--dry-run")
    assert [source["generator"] for source in found["recipe"]["source"]] == ["opgraph", "tpch"]  # type: ignore[index]


def test_evaluate_refuses_a_planner_for_a_stream(capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", "conditional", "-s", "jobshop-oneshot", "--seeds", "1"]) == 2
    assert "is a planner: it acts on whole problems" in capsys.readouterr().err


def test_train_says_percentages_above_the_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    sets = [word for key, value in TINY.items() for word in ("--set", f"{key}={value}")]
    assert main(["train", "oneshot-jobshop-quick", *sets, "--out", str(tmp_path / "run")]) == 0
    said = capsys.readouterr()
    percents = r"greedy \d+\.\d %, best of 16 \d+\.\d % above the bound"
    assert re.search(rf"run: 16 schedules in .*, best policy in validation: {percents}\n", said.out)
    assert re.search(
        rf"16 of 16 schedules, drawn \d+\.\d % above the bound, validation: {percents}", said.err
    )
    assert "reward" not in said.out + said.err
