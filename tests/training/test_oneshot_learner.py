"""The one-shot learner: its gradient, its learning, and runs that resume."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from weft.errors import InputError
from weft.io.runs import read_metrics
from weft.policies.checkpoint import load_policy
from weft.policies.oneshot.features import FEATURES
from weft.training.__main__ import main
from weft.training.oneshot.config import MODES, SampleConfig
from weft.training.oneshot.learner import Pull, SampleLearner, advantages, draw, pull, pull_all, scores_of
from weft.training.oneshot.problems import Feed, Group, Source, draw_group
from weft.training.recipes import read_recipe, recipe_names
from weft.training.run.folder import Spec, open_run

SHOPS = Source("jobshop", ((4, 3), (3, 3)))
QUERIES = Source("tpch", ((2,),))
FLOWS = Source("workflow", ((8,),), families=("layered", "fork-join"), devices=(3, 4), ccr=(0.5, 2.0))
HEADS = ("descendants", "ancestors", "resource", "all")
SMALL = {
    "updates": 6, "groups": 2, "graphs": 2, "samples": 8, "width": 16, "layers": 1, "hidden": 16,
    "heads": HEADS, "every": 3, "validation": 4,
}  # fmt: skip


def learner(sources: tuple[Source, ...] = (SHOPS,), **changes: object) -> SampleLearner:
    return SampleLearner(sources, SampleConfig(**{**SMALL, **changes}), seed=1, threads=1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", [SHOPS, QUERIES, FLOWS], ids=lambda source: source.generator)
def test_update_changes_every_part_that_matters(source: Source, mode: str):
    one = learner((source,), mode=mode)
    before = one.net.weights()
    row = one.step()
    after = one.net.weights()
    moved = {name for name in before if (before[name] != after[name]).any()}
    assert {"embed.weight", "layers.0.mix.weight", "score.weight", "skip"} <= moved
    assert ("pair_skip" in moved) == (source is FLOWS)
    assert np.isfinite(row["drawn_percent"]) and row["best_percent"] <= row["drawn_percent"]


def test_advantages_are_deviations_from_the_mean_of_the_problem():
    config = SampleConfig()
    cost = np.array([10.0, 12.0, 14.0])
    np.testing.assert_allclose(advantages(cost, config), (cost - 12.0) / cost.std())
    np.testing.assert_allclose(advantages(np.array([1.0, 1.02]), config), [-0.1, 0.1])
    np.testing.assert_allclose(advantages(cost, SampleConfig(is_standardised=False)), [-2.0, 0.0, 2.0])


def test_loss_has_the_gradient_that_the_draws_ask_for():
    one = learner(logit_norm=0.0)
    groups = [draw_group(one.sources, 1, "train", 0, 2)]
    outputs = [one.net(one.graphs(groups[0]))]
    pulls = one.pulls(groups, outputs)
    loss, _ = one.loss(groups, outputs, pulls)
    (by_score,) = torch.autograd.grad(loss, outputs[0][0])
    for b, found in enumerate(pulls[0]):
        n = len(found.by_score)
        np.testing.assert_allclose(by_score[b, :n].numpy(), found.by_score / 2, atol=1e-6)


def test_loss_keeps_the_logits_of_tasks_small():
    one = learner((QUERIES,), logit_norm=0.5)
    group = draw_group(one.sources, 1, "train", 0, 2)
    sizes = [len(instance.a.run) for instance in group]
    score, bias = (torch.full((2, max(sizes), columns), 3.0) for columns in (2, 1))
    outputs = [(score.requires_grad_(), bias)]
    pulls = [[Pull(np.zeros((n, 2)), np.zeros((n, 0)), 1.0, 1.0) for n in sizes]]
    loss, norm = one.loss([group], outputs, pulls)
    (by_score,) = torch.autograd.grad(loss, score)
    assert sizes[0] != sizes[1] and norm == pytest.approx(9.0) and loss.item() == pytest.approx(4.5)
    for b, n in enumerate(sizes):
        np.testing.assert_allclose(by_score[b, :n, 0], 0.5 * 2 * 3.0 / n / 2, rtol=1e-6)
        assert not by_score[b, n:].any() and not by_score[b, :, 1].any()


def test_label_mode_raises_the_likelihood_of_the_best_draw_only():
    instance = draw_group((SHOPS,), 1, "train", 0, 1)[0]
    n, num_classes = instance.a.run.shape
    (scores,) = scores_of(instance, np.zeros((n, 2)), np.zeros((n, num_classes)), 0.0)
    drawn = draw(instance, scores, 8, False, (1,))
    found = pull(instance, drawn, SampleConfig(mode="label"))
    np.testing.assert_allclose(found.by_score[:, 0], -drawn.by_logit[drawn.makespan.argmin()] / n)


def test_label_weight_adds_the_likelihood_of_the_best_draw():
    instance = draw_group((SHOPS,), 1, "train", 0, 1)[0]
    n, num_classes = instance.a.run.shape
    (scores,) = scores_of(instance, np.zeros((n, 2)), np.zeros((n, num_classes)), 0.0)
    drawn = draw(instance, scores, 8, False, (1,))
    plain, label, both = (
        pull(instance, drawn, SampleConfig(**change)).by_score
        for change in ({}, {"mode": "label"}, {"label_weight": 0.5})
    )
    assert plain.any() and label.any()
    np.testing.assert_allclose(both, plain + 0.5 * label)


@pytest.mark.parametrize("mode", MODES)
def test_only_the_mode_of_the_study_draws_by_list(mode: str):
    instance = draw_group((SHOPS,), 1, "train", 0, 1)[0]
    n, num_classes = instance.a.run.shape
    lists = scores_of(instance, np.zeros((n, 2)), np.zeros((n, num_classes)), 0.0)
    config = SampleConfig(mode=mode, samples=8)
    by_list, by_dispatch = (
        pull(instance, draw(instance, lists[0], 8, way, (1, 0)), config).by_score for way in (True, False)
    )
    assert (by_list != by_dispatch).any()
    expected = by_list if mode == "paper" else by_dispatch
    np.testing.assert_array_equal(pull_all(instance, lists, config, (1,)).by_score, expected)


def test_pull_on_biases_is_in_the_unit_of_the_net():
    instance = draw_group((FLOWS,), 1, "train", 0, 1)[0]
    n, num_classes = instance.a.run.shape
    assert instance.view.scale != 1.0
    (scores,) = scores_of(instance, np.zeros((n, 2)), np.ones((n, num_classes)), 0.1)
    assert (scores.bias == instance.view.scale).all() and scores.spread == 0.1 * instance.view.scale
    drawn = draw(instance, scores, 8, False, (1,))
    found = pull(instance, drawn, SampleConfig(mode="label"))
    by_time = drawn.by_bias[drawn.makespan.argmin()].reshape(n, num_classes)
    np.testing.assert_allclose(found.by_bias, -by_time * instance.view.scale / n)


def test_learner_starts_every_list_as_the_recipe_says():
    prior = ({"tail": 100.0}, {"tail": 60.0, "area of path": 30.0})
    net = learner((QUERIES,), hold_start=(3.0, -5.0), prior=prior).net
    expected = np.zeros((4, len(FEATURES)))
    for k, table in enumerate(prior):
        for name, weight in table.items():
            expected[2 * k, FEATURES.index(name)] = weight
    np.testing.assert_array_equal(net.skip.detach(), expected)
    np.testing.assert_array_equal(net.score.bias.detach(), [0.0, 3.0, 0.0, -5.0])


def test_learning_rate_falls_to_zero():
    one = learner(learning_rate=6e-4)
    rates = [one.step()["learning_rate"] for _ in range(6)]
    np.testing.assert_allclose(rates, [6e-4, 5e-4, 4e-4, 3e-4, 2e-4, 1e-4])


def test_updates_share_problems_as_often_as_asked(monkeypatch: pytest.MonkeyPatch):
    numbers: list[int] = []
    batch = Feed.batch

    def noted(feed: Feed, number: int) -> list[Group]:
        numbers.append(number)
        return batch(feed, number)

    monkeypatch.setattr(Feed, "batch", noted)
    one = learner(reuse=2)
    for _ in range(6):
        one.step()
    assert numbers == [0, 1, 2]


def test_validation_counts_draws_beside_the_greedy_schedule():
    greedy_gap, best_gap = learner((Source("jobshop", ((8, 6),)),)).validate()
    assert best_gap < greedy_gap


def test_all_lists_learn_from_a_problem_or_only_those_with_the_best_draw():
    instance = draw_group((Source("jobshop", ((8, 6),)),), 1, "train", 0, 1)[0]
    tail = 10.0 * instance.view.features[:, FEATURES.index("tail")]
    score = np.stack([tail, np.full(len(tail), 3.0), -tail, np.full(len(tail), 3.0)], axis=1)
    lists = scores_of(instance, score, np.zeros((len(tail), 6)), 0.0)
    config = SampleConfig(samples=16, hold_start=(3.0, 3.0), only_winner=True)
    found = pull_all(instance, lists, config, (1,))
    alone = [pull(instance, draw(instance, one, 8, False, (1, k)), config) for k, one in enumerate(lists)]
    assert alone[0].best < alone[1].best and found.best == alone[0].best
    assert alone[1].by_score.any() and not found.by_score[:, 2:].any()
    np.testing.assert_array_equal(found.by_score[:, :2], alone[0].by_score)
    both = pull_all(instance, lists, replace(config, only_winner=False), (1,)).by_score
    np.testing.assert_array_equal(2.0 * both, np.concatenate([one.by_score for one in alone], axis=1))


def test_learner_gets_better_at_the_same_problems():
    one = learner(
        (Source("jobshop", ((5, 4),)),), updates=40, reuse=40, samples=24, learning_rate=5e-3, every=40
    )
    rows = [one.step() for _ in range(40)]
    early, late = (np.mean([row["drawn_percent"] for row in part]) for part in (rows[:4], rows[-4:]))
    assert late < 0.92 * early


def test_validation_draws_from_every_list_however_many():
    one = learner((QUERIES,), hold_start=(1.0,) * 17, validation=2)
    greedy_gap, best_gap = one.validate()
    assert 0.0 <= best_gap <= greedy_gap


def test_run_resumed_in_the_middle_ends_with_the_same_bytes(tmp_path: Path):
    weights = []
    for name, stops in (("whole", (6,)), ("parts", (2, 4, 6))):
        for stop in stops:
            one = learner((SHOPS, QUERIES))
            spec = Spec("oneshot", asdict(one.config), 1)
            with open_run(tmp_path / name, spec, is_resumed=stop != stops[0]) as run:
                if stop == 6:
                    run.train(one, every=1)
                else:
                    _train_until(run, one, stop)
        weights.append(load_policy(f"{tmp_path / name}@last")[0])
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


def _train_until(run: object, one: SampleLearner, stop: int) -> None:
    def interrupt(progress: object) -> None:
        if one.update == stop:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        run.train(one, every=1, on_progress=interrupt)  # type: ignore[attr-defined]


def test_instances_depend_on_their_number_alone():
    one, two = (draw_group((SHOPS, FLOWS), 5, "train", 3, 2) for _ in range(2))
    for first, second in zip(one, two, strict=True):
        assert (first.a.run == second.a.run).all() and (first.view.features == second.view.features).all()
    other = draw_group((SHOPS, FLOWS), 5, "validation", 3, 2)
    assert other[0].a.run.shape != one[0].a.run.shape or (other[0].a.run != one[0].a.run).any()


def test_feed_gives_batches_by_number():
    feed = Feed((SHOPS,), 1, 2, 3, 0)
    first = feed.batch(0)
    assert [len(group) for group in first] == [3, 3]
    assert feed.batch(0) is first and feed.batch(1) is not first


@pytest.mark.parametrize(
    "name", [name for name in recipe_names() if read_recipe(name).algorithm == "oneshot"]
)
def test_recipe_describes_a_run(name: str):
    recipe = read_recipe(name, {"updates": 3})
    assert recipe.name == name and recipe.config.updates == 3
    assert recipe.config.shape.num_features > 0


BAD_CHANGES = {
    "config.upates": ({"upates": 3}, "did you mean 'updates'"),
    "samples": ({"samples": 1}, "whole number from 2 to"),
    "mode": ({"mode": "guess"}, "one of paper, conflict, label"),
    "width": ({"width": 81}, "multiple of the 10 heads"),
    "prior.charm": ({"prior": {"charm": 1.0}}, "a feature and a number"),
    "prior": ({"prior": [{"tail": 1.0}, {"tail": 2.0}]}, "for each of 1 lists"),
    "hold_start": ({"hold_start": []}, "a number per list"),
    "sharpness": ({"sharpness": 2.0}, "a list of numbers > 0"),
    "learning_rate": ({"learning_rate": 10**400}, "a number > 0"),
}


@pytest.mark.parametrize("field", BAD_CHANGES)
def test_recipe_refuses_what_it_does_not_know(field: str):
    changes, message = BAD_CHANGES[field]
    with pytest.raises(InputError, match=message) as caught:
        read_recipe("oneshot-jobshop", changes)
    assert caught.value.field == field


BAD_DOCUMENTS = {
    "config = 3\n[[source]]": "config: expected a table, got 3",
    "source = [1]": "source: expected a table, got 1",
    "source = 5": r"source: expected at least one table \[\[source\]\]",
}


@pytest.mark.parametrize("text", BAD_DOCUMENTS)
def test_recipe_refuses_what_is_no_table(text: str, tmp_path: Path):
    file = tmp_path / "bad.toml"
    file.write_text(f'schema = "weft/training/1"\nalgorithm = "oneshot"\n{text}\n')
    with pytest.raises(InputError, match=rf"bad\.toml: {BAD_DOCUMENTS[text]}"):
        read_recipe(str(file))


BAD_SOURCES = {
    "source.generator": {"generator": "dreams", "sizes": [[1]]},
    "source.sizes": {"generator": "jobshop", "sizes": [[3, 2.5]]},
    "source.families": {"generator": "workflow", "sizes": [[3]]},
    "source.share": {"generator": "tpch", "sizes": [[3]], "share": float("inf")},
    "source.devices": {"generator": "workflow", "sizes": [[3]], "families": ["layered"], "devices": []},
    "source.ccr": {"generator": "workflow", "sizes": [[3]], "families": ["layered"], "ccr": [-1.0]},
    "source.colour": {"generator": "tpch", "sizes": [[3]], "colour": 1},
    "source": {"generator": "tpch"},
}


@pytest.mark.parametrize("field", BAD_SOURCES)
def test_source_refuses_what_it_does_not_know(field: str):
    with pytest.raises(InputError) as caught:
        Source.read(BAD_SOURCES[field])
    assert caught.value.field == field


def test_training_path_needs_none_of_the_packages_of_the_command_line():
    code = """
import sys
for name in ("pydantic", "typer", "rich", "gymnasium", "tensorboard", "scipy", "matplotlib", "ortools"):
    sys.modules[name] = None
import weft.training.oneshot.learner, weft.training.ship
from weft.training.recipes import read_recipe
from weft.training.oneshot.problems import draw_group
for name in ("oneshot-jobshop", "oneshot-graphs", "oneshot-workflows"):
    read_recipe(name)
print(len(draw_group(read_recipe("oneshot-workflows").sources, 0, "train", 0, 1)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_entry_without_the_command_line_trains_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    sets = [f"--set={key}={value}" for key, value in SMALL.items() if key != "heads"]
    words = [
        "oneshot-jobshop",
        "--out",
        str(tmp_path / "run"),
        *sets,
        f"--set=heads={list(HEADS)}".replace("'", '"'),
    ]
    assert main(words) == 0
    assert len(read_metrics(tmp_path / "run")) == 6
    assert main(words) == 2
    assert "holds a run" in capsys.readouterr().err
    words[2] = str(tmp_path / "next")
    assert main([*words, "--from", f"{tmp_path / 'run'}@last"]) == 0
    assert main([*words, "--from", "ppo"]) == 2
