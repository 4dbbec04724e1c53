"""Scenarios: recipes, settings, splits and the problems they stand for."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.catalog import kinds_of
from weft.errors import InputError, WeftError
from weft.io.files import read_cluster, write_problem
from weft.kinds import ELASTIC, PROBLEMS, TASKS
from weft.model.bounds import longest_path
from weft.model.prices import class_prices, priced_work
from weft.model.problem import Problem
from weft.scenarios import (
    SPLITS,
    Recipe,
    file_scenarios,
    parse_assignments,
    read_recipe,
    recipe_names,
    recipe_text,
    scenario,
    seed_of,
    split_of,
    sweep,
)
from weft.scenarios.settings import expand_range
from weft.scenarios.splits import check_training_seed
from weft.scenarios.streams import drawn_stream
from weft.scenarios.workflows import read_machines, resized

OWN = """
extends = "workflows"
problems = 3
[settings]
tasks = 12
ccr = [0.5, 2]
"""


def same_problem(a: Problem, b: Problem) -> bool:
    graphs = [(one.graph, other.graph) for one, other in zip(a.jobs, b.jobs, strict=True)]
    return np.array_equal(a.run_times, b.run_times) and all(
        np.array_equal(one.targets, other.targets) for one, other in graphs
    )


# -- splits -------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.sampled_from(SPLITS), st.integers(0, 2**32 - 1), st.sampled_from(SPLITS), st.integers(0, 2**32 - 1))
def test_seeds_of_two_splits_never_meet(split: str, index: int, other: str, other_index: int):
    assert split_of(seed_of(split, index)) == (split, index)
    is_same = (split, index) == (other, other_index)
    assert (seed_of(split, index) == seed_of(other, other_index)) == is_same


@pytest.mark.parametrize("num_streams", [1, 7, 512])
def test_streams_of_a_training_seed_stay_in_the_training_split(num_streams: int):
    most = 2**32 // num_streams - 1
    assert split_of(check_training_seed(most, num_streams) * num_streams + num_streams - 1)[0] == "train"
    with pytest.raises(InputError, match=f"seed: expected a whole number from 0 to {most}, "):
        check_training_seed(most + 1, num_streams)


@pytest.mark.parametrize("split", ["validation", "test"])
def test_training_problem_refuses_the_seed_of_another_split(split: str):
    with pytest.raises(InputError, match=f"belongs to the {split} split"):
        scenario("jobshop").training_problem(seed_of(split, 3))


def test_training_problem_takes_a_training_seed():
    chosen = scenario("jobshop", jobs=3, machines=2)
    assert same_problem(chosen.training_problem(4), chosen.problem("train", 4))


def test_problem_differs_between_splits():
    chosen = scenario("jobshop", jobs=3, machines=2)
    assert not same_problem(chosen.problem("train", 0), chosen.problem("test", 0))


def test_problem_refuses_an_unknown_split():
    with pytest.raises(InputError, match="expected one of train, validation, test, got 'tests'"):
        scenario("jobshop").problem("tests", 0)


# -- built-in scenarios -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recipe_names())
def test_scenario_repeats_its_problems(name: str):
    chosen = scenario(name)
    if chosen.kind is ELASTIC:
        one, other = chosen.elastic("test", 1), chosen.elastic("test", 1)
        assert (one.name, one.capacity.tolist()) == ("test/1", other.capacity.tolist())
        assert [kind.rate.tolist() for kind in one.types] == [kind.rate.tolist() for kind in other.types]
        return
    assert same_problem(chosen.problem("test", 1), chosen.problem("test", 1))
    assert chosen.problem("test", 1).name == "test/1"


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_names_schedulers_that_can_act(name: str):
    recipe = read_recipe(name)
    assert recipe.name == name
    assert [one for one in recipe.schedulers if recipe.kind not in kinds_of(one)] == []


def test_rules_that_wait_for_free_stand_beside_the_policy_that_does():
    recipe = read_recipe("conditional")
    (waiting,) = (group.members for group in recipe.groups if group.key == "waiting")
    assert all(name.endswith("+wait") for name in waiting)
    for group in recipe.groups:
        assert set(group.members) < set(recipe.schedulers)


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_documents_every_setting(name: str):
    assert all(setting.doc for setting in read_recipe(name).settings)


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_written_to_a_file_is_the_same_scenario(name: str, tmp_path: Path):
    path = tmp_path / "my.toml"
    path.write_text(recipe_text(name), "utf-8")
    assert scenario(path) == scenario(name)


def test_workflows_meet_the_ccr():
    assert scenario("workflows", ccr=5).problem("test", 0).ccr == pytest.approx(5)


def test_workflows_keep_the_graph_when_only_the_ccr_changes():
    low, high = sweep("workflows", {"ccr": [0.1, 10]})
    assert same_problem(low.problem("test", 2), high.problem("test", 2))


def test_stream_of_workflows_meets_its_load():
    chosen = scenario("workflows", load=0.8, jobs=200, tasks=6, arrivals="periodic")
    problem = chosen.dispatched("test", 0, 1)
    work = priced_work(problem, class_prices(problem)).mean() * problem.num_tasks / len(problem.jobs)
    gap = problem.jobs[1].release - problem.jobs[0].release
    assert work / (gap * problem.cluster.num_devices) == pytest.approx(0.8)


def test_workflows_need_memory_around_a_share_of_the_smallest_device():
    whole = scenario("workflows", tasks=400, memory=0.5).problem("test", 0)
    plain = scenario("workflows", tasks=400).problem("test", 0)
    need = whole.graph.memory / 16e9
    assert np.median(need) == pytest.approx(0.5, rel=0.15)
    assert 0.1 < (need > 1).mean() < 0.3 and need.max() <= 2.5
    np.testing.assert_array_equal(whole.graph.work, plain.graph.work)


def test_workflows_are_due_a_multiple_of_their_critical_path():
    problem = scenario("workflows", load=0.5, jobs=4, tasks=10, deadline=3.0).dispatched("test", 0, 0)
    for j, job in enumerate(problem.jobs):
        own = problem.best_run_times[problem.offsets[j] : problem.offsets[j + 1]]
        assert job.deadline == pytest.approx(3.0 * longest_path(job.graph, own))


def test_load_counts_slots(tmp_path: Path):
    """Sixteen slots in one device follow as many jobs as sixteen devices do."""
    releases = []
    for what in ("slots = 16", "count = 16"):
        file = tmp_path / "cluster.toml"
        file.write_text(f'[[device]]\nclass = "cpu"\n{what}\n')
        read_machines.cache_clear()
        (chosen,) = file_scenarios(["examples/pipeline.json"], {"load": 0.8, "jobs": 10}, str(file))
        releases.append([job.release for job in chosen.dispatched("test", 0, 3).jobs])
    assert releases[0] == releases[1]


def test_random_streams_draw_their_loads_from_the_range_of_the_settings():
    usual, low = scenario("conditional-many"), scenario("conditional-many", load_low=0.2, load_high=0.3)
    for index in range(20):
        plain, other = drawn_stream(usual, "test", index), drawn_stream(low, "test", index)
        assert same_problem(plain.problem, other.problem)
        assert 0.2 <= other.load <= 0.3
        assert other.load - 0.2 == pytest.approx((plain.load - 0.5) / 4.5)


def test_random_streams_refuse_a_range_of_loads_upside_down():
    with pytest.raises(InputError, match=r"expected at most load_high=0\.3, got 0\.4") as caught:
        scenario("conditional-many", load_low=0.4, load_high=0.3).stream("test", 0)
    assert caught.value.field == "settings.load_low"


def test_stream_of_workflows_differs_between_seeds_and_repeats():
    chosen = scenario("workflows", load=0.8, jobs=4, tasks=6)
    first, again, other = (chosen.dispatched("test", 0, seed) for seed in (1, 1, 2))
    assert first.run_times.tobytes() == again.run_times.tobytes()
    assert first.run_times.tobytes() != other.run_times.tobytes()
    assert [job.release for job in first.jobs] == [job.release for job in again.jobs]
    assert chosen.kind is TASKS and chosen.seeds_are_samples
    assert (chosen.metric, chosen.baseline) == ("mean_jct", "srw")


def test_stream_of_workflows_keeps_its_jobs_when_the_load_changes():
    low, high = sweep("workflows", {"load": [0.5, 1.0], "jobs": 5, "tasks": 6})
    slow, fast = low.dispatched("test", 0, 0), high.dispatched("test", 0, 0)
    assert [job.graph.num_tasks for job in slow.jobs] == [job.graph.num_tasks for job in fast.jobs]
    assert slow.jobs[-1].release == pytest.approx(2 * fast.jobs[-1].release)


def test_stream_of_few_different_workflows_repeats_them():
    chosen = scenario("workflows", load=0.8, jobs=12, tasks=20, distinct=3)
    jobs = chosen.dispatched("test", 0, 0).jobs
    assert 1 < len({job.graph.work.tobytes() for job in jobs}) <= 3
    assert len({job.name for job in jobs}) == 12


def test_kinds_of_workflows_are_drawn_or_go_by_depth_or_do_not_count():
    graphs = {
        kinds: scenario("workflows", tasks=40, family=["cycles"], kinds=kinds).problem("test", 0)
        for kinds in ("drawn", "depth", "none")
    }
    ratios = {name: one.run_times / one.run_times[:, :1] for name, one in graphs.items()}
    assert np.ptp(ratios["none"], axis=0).max() == pytest.approx(0.0, abs=1e-9)
    assert np.ptp(ratios["drawn"], axis=0).max() > 0.1
    first = graphs["depth"].graph.kind[: int((np.diff(graphs["depth"].graph.predecessor_pointer) == 0).sum())]
    assert len(set(first.tolist())) == 1


def test_uneven_depths_differ_in_data_too():
    plain, uneven = (
        scenario("workflows", family=["mosaic"], uneven=x).problem("test", 0).graph for x in (0, 1.5)
    )
    assert np.log(uneven.data / uneven.data.mean()).std() > np.log(plain.data / plain.data.mean()).std() + 0.3


def test_workflows_without_load_are_no_stream():
    with pytest.raises(InputError, match="has jobs to dispatch with a load above 0"):
        scenario("workflows").dispatched("test", 0, 0)


def test_workflows_take_shapes_in_turn():
    chosen = scenario("workflows", family=["chain", "in-tree"], tasks=9)
    edges = [problem.graph.num_edges for problem in chosen.problems("test", 4)]
    depth = [int(np.diff(problem.graph.predecessor_pointer).max()) for problem in chosen.problems("test", 4)]
    assert edges == [8, 8, 8, 8]
    assert (depth[0], depth[2]) == (1, 1)
    assert min(depth[1], depth[3]) > 1


def test_recipe_seed_gives_other_problems(tmp_path: Path):
    path = tmp_path / "other.toml"
    path.write_text('extends = "jobshop"\nseed = 1\n', "utf-8")
    assert not same_problem(scenario(path).problem("test", 0), scenario("jobshop").problem("test", 0))


@pytest.mark.parametrize("num", [1, 2, 4, 8, 12, 16])
def test_resized_cluster_spreads_over_the_devices(num: int):
    found = resized(read_cluster("gpu-mix-8"), num)
    counts = np.bincount(found.device_class, minlength=4)
    assert found.num_devices == num
    assert counts.max() - counts.min() <= 1


# -- a user's own -------------------------------------------------------------------------------------


def test_own_recipe_extends_and_sweeps(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN, "utf-8")
    cells = sweep(path)
    assert [cell.label for cell in cells] == ["ccr=0.5", "ccr=2"]
    assert (cells[0].name, cells[0].recipe.problems) == ("mine", 3)
    assert cells[1].problem("test", 0).num_tasks == 12


def test_own_recipe_is_overridden_by_the_command_line(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(OWN, "utf-8")
    assert scenario(path, ccr=3).settings["ccr"] == 3.0


def test_own_recipe_may_write_out_its_cluster(tmp_path: Path):
    path = tmp_path / "mine.toml"
    cluster = '[cluster]\nbandwidth = "1 GB/s"\n[[cluster.device]]\nclass = "cpu"\ncount = 3\n'
    path.write_text(f'extends = "workflows"\n{cluster}', "utf-8")
    assert scenario(path).problem("test", 0).cluster.num_devices == 3


def test_own_recipe_lists_files_beside_it(tmp_path: Path, fork_problem: Problem):
    write_problem(fork_problem, tmp_path / "fork.json")
    text = 'generator = "files"\nfiles = ["fork.json"]\n[settings]\n'
    tables = "".join(f'{key} = {{ type = "number", default = 0 }}\n' for key in ("ccr", "noise"))
    (tmp_path / "mine.toml").write_text(text + tables, "utf-8")
    assert scenario(tmp_path / "mine.toml").problem("test", 0).num_tasks == 3


def write_stream(folder: Path, problem: Problem, text: str = "") -> Path:
    write_problem(problem, folder / "fork.json")
    path = folder / "stream.toml"
    path.write_text(
        f'generator = "files"\nfiles = ["fork.json"]\n{text}[settings]\nload = 0.8\njobs = 5\n', "utf-8"
    )
    return path


def test_recipe_of_files_that_arrive_keeps_the_references_it_names(tmp_path: Path, fork_problem: Problem):
    named = 'schedulers = ["priced", "fifo"]\nmetric = "p99_jct"\n'
    chosen = scenario(write_stream(tmp_path, fork_problem, named))
    assert (chosen.kind, chosen.schedulers, chosen.baseline) == (TASKS, ("priced", "fifo"), "priced")
    assert chosen.metric == "p99_jct"
    planned = scenario(tmp_path / "stream.toml", load=0)
    assert (planned.schedulers, planned.metric) == (PROBLEMS.schedulers, "makespan")


def test_recipe_of_files_that_arrive_has_the_usual_references(tmp_path: Path, fork_problem: Problem):
    chosen = scenario(write_stream(tmp_path, fork_problem))
    assert (chosen.schedulers, chosen.baseline) == (TASKS.schedulers, TASKS.baseline)


def test_recipe_that_makes_a_stream_of_another_does_not_take_over_its_planners(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text('extends = "workflows"\n[settings]\nload = 0.5\n', "utf-8")
    chosen = scenario(path)
    assert (chosen.schedulers, chosen.baseline, chosen.metric) == (
        TASKS.schedulers,
        TASKS.baseline,
        TASKS.metric,
    )


def test_files_that_arrive_have_other_streams_in_every_split(tmp_path: Path, fork_problem: Problem):
    chosen = scenario(write_stream(tmp_path, fork_problem))
    assert [chosen.count(split) for split in SPLITS] == [None, None, 1]
    releases = {tuple(job.release for job in chosen.dispatched(split, 0, 0).jobs) for split in SPLITS}
    assert len(releases) == len(SPLITS)


WRONG = {
    'extends = "workflow"': "no scenario 'workflow'; did you mean 'workflows'",
    'extends = "base.toml"': "base.toml: no such file",
    'extends = "workflows"\ngenertor = "x"': "no key 'genertor' in a recipe; did you mean 'generator'",
    'extends = "workflows"\nproblems = 0': "problems: expected a whole number >= 1, got 0",
    'extends = "workflows"\nproblems = true': "problems: expected a whole number, got True",
    'extends = "workflows"\nbaseline = "x"': "baseline: expected one of heft",
    'extends = "workflows"\n[settings]\nccrr = 1': "has no setting 'ccrr'; did you mean 'ccr'",
    'extends = "workflows"\n[settings]\ntasks = "many"': "expected a whole number >= 1",
    'extends = "jobshop"\ncluster = "laptop"': "cluster: generator jobshop brings its own machines",
    'generator = "jobshop"': "expected a table with type and default, or extend a built-in recipe",
    'generator = "shop"': "generator: expected one of workflow",
    'schema = "weft/scenario/9"': "schema: expected 'weft/scenario/1'",
    'extends = "mine.toml"': "at most 8 recipes on top of each other",
    "extends = 3 = 4": "expected TOML",
}


@pytest.mark.parametrize("text", WRONG)
def test_own_recipe_with_a_mistake_says_what_is_wrong(text: str, tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(InputError) as caught:
        scenario(path)
    assert WRONG[text] in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_unknown_scenario_gets_a_hint():
    with pytest.raises(InputError, match="no scenario 'jobshp'; did you mean 'jobshop'"):
        scenario("jobshp")


# -- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0:1:0.1", [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1]),
        ("2:5", [2, 3, 4, 5]),
        ("0:1:0.4", [0, 0.4, 0.8]),
        ("1e-1:0.3:1e-1", [0.1, 0.2, 0.3]),
        ("-1:1:1", [-1, 0, 1]),
    ],
)
def test_range_includes_both_ends(text: str, values: list[float]):
    assert expand_range(text, "p_c") == values


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(-50, 50), st.integers(0, 200), st.sampled_from([1, 10, 100]))
def test_range_counts_steps_exactly(start: int, steps: int, per_unit: int):
    text = f"{start / per_unit}:{(start + steps) / per_unit}:{1 / per_unit}"
    found = expand_range(text, "x")
    assert found == [(start + k) / per_unit for k in range(steps + 1)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ccr=0.5", 0.5),
        ("ccr = [1, 2]", [1, 2]),
        ("kind=er", "er"),
        ('kind="er"', "er"),
        ("data=../my data/sets", "../my data/sets"),
        ("devices=10:20:05", "10:20:05"),
        ("estimate=[start,end]", ["start", "end"]),
        ("family=[[layered, chain], [../my/x.json]]", [["layered", "chain"], ["../my/x.json"]]),
        ("x=[true, 1e3]", [True, 1000.0]),
        ('name="0x1"', "0x1"),
        ("data=./0x1/f.txt", "./0x1/f.txt"),
    ],
)
def test_assignments_are_toml_or_plain_words(text: str, value: object):
    assert list(parse_assignments([text]).values()) == [value]


def test_list_with_texts_that_need_quotes_says_so():
    with pytest.raises(InputError, match=r"""put texts in quotes: 'x=\["a", "b"\]'"""):
        parse_assignments(['x=["a", b]'])


@pytest.mark.parametrize(
    "texts",
    [["ccr"], ["=1"], ["ccr="], ["ccr=1", "ccr=2"], ["x=1\ny=2"], ["x={"], ["x=0xf"], ["x=[1, -0b1]"]],
)
def test_assignments_with_a_mistake_are_refused(texts: list[str]):
    with pytest.raises(InputError, match="--set"):
        parse_assignments(texts)


@pytest.mark.parametrize(
    ("given_settings", "text"),
    [
        ({"cr": 1}, "settings.cr: no setting 'cr'; did you mean 'ccr'?"),
        ({"tasks": 1.5}, "settings.tasks: expected a whole number >= 1 and <= 1e+06, got 1.5"),
        ({"ccr": float("nan")}, "settings.ccr: expected a number"),
        ({"ccr": True}, "settings.ccr: expected a number"),
        ({"ccr": []}, "settings.ccr: expected at least one value"),
        ({"ccr": "1:0:1"}, "from <= to and step > 0"),
        ({"family": ["layred"]}, "did you mean 'layered'"),
        ({"load": -0.5}, "settings.load: expected a number >= 0 and <= 10, got -0.5"),
        ({"ccr": "0:1:0.00001"}, "expected at most 10000 values"),
        ({"ccr": "0:1:0.001", "noise": "0:1:0.001"}, "expected at most 10000 cells"),
    ],
)
def test_settings_with_a_mistake_are_refused(given_settings: dict[str, object], text: str):
    with pytest.raises(InputError) as caught:
        sweep("workflows", given_settings)
    assert text in str(caught.value)


def test_sweep_is_the_grid_of_all_lists():
    cells = sweep("workflows", {"ccr": [0.1, 1], "noise": "0:0.2:0.1", "tasks": 10})
    assert [cell.label for cell in cells] == [
        f"ccr={c},noise={n}" for c in ("0.1", "1") for n in (0, 0.1, 0.2)
    ]
    assert {cell.settings["tasks"] for cell in cells} == {10}


def test_scenario_refuses_a_sweep():
    with pytest.raises(InputError, match=r"settings\.ccr: expected one value"):
        scenario("workflows", ccr=[1, 2])


# -- files and data -----------------------------------------------------------------------------------


def test_files_are_test_problems_only(tmp_path: Path, fork_problem: Problem):
    write_problem(fork_problem, tmp_path / "fork.json")
    (chosen,) = file_scenarios([tmp_path / "fork.json"])
    assert chosen.recipe.schedulers == ("heft", "peft", "deft", "min-min")
    assert (chosen.count("test"), chosen.count("train")) == (1, 0)
    assert chosen.problem("test", 0).name == str(tmp_path / "fork.json")
    with pytest.raises(InputError, match="has no training problems"):
        chosen.training_problem(0)


def write_tpch(folder: Path, sets: dict[str, int]) -> Path:
    stages = {"q1": {"tasks": [2, 3], "duration_ms": [5.0, 7.0], "edges": [[0, 1]]}}
    (folder / "tpch_stages.json").write_text(json.dumps(stages), "utf-8")
    for tag, count in sets.items():
        content = json.dumps({"2": [["q1", "q1"]] * count})
        (folder / f"tpch_{tag}_sets.json").write_text(content, "utf-8")
    return folder


def test_tpch_divides_one_file_into_disjoint_splits(tmp_path: Path):
    chosen = scenario("tpch", data=str(write_tpch(tmp_path, {"train": 10})), queries=2)
    names = {
        split: [chosen.problem_name(split, i) for i in range(chosen.count(split) or 0)] for split in SPLITS
    }
    assert names["test"] == ["2/4", "2/9"]
    assert sorted(itertools.chain(*names.values())) == sorted(f"2/{k}" for k in range(10))
    assert chosen.problem("test", 0).num_tasks == 4


def test_tpch_takes_the_test_file_for_tests(tmp_path: Path):
    chosen = scenario("tpch", data=str(write_tpch(tmp_path, {"train": 5, "test": 3})), queries=2)
    assert [chosen.count(split) for split in SPLITS] == [4, 1, 3]
    assert chosen.problem_name("test", 0) == "test-2/0"


def test_tpch_names_the_sizes_there_are(tmp_path: Path):
    chosen = scenario("tpch", data=str(write_tpch(tmp_path, {"train": 5})), queries=50)
    with pytest.raises(InputError, match="no set of 50 queries, there are 2"):
        chosen.problem("test", 0)


@pytest.mark.parametrize("name", recipe_names())
def test_recipe_comes_back_from_what_a_sweep_keeps(name: str):
    recipe = read_recipe(name)
    kept = recipe.to_dict() | {"seed": recipe.seed, "cluster": recipe.cluster, "graph": recipe.graph}
    assert Recipe.from_dict(json.loads(json.dumps(kept))) == recipe


def test_recipe_that_lacks_a_setting_is_refused():
    with pytest.raises(InputError, match=r"settings.p_c: expected a table with type and default"):
        Recipe.from_dict({"name": "x", "generator": "stream", "metric": "mean_jct", "settings": []})


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (("probability = 0.5", "probability = 0.7"), "graph"),
        (("batch = 4", "batch = 0"), "cluster"),
        (('branch = "scan"', 'branch = "skan"'), "settings.branch"),
        (("jobs = 2000", "gap = 1e300"), "settings.gap"),
    ],
)
def test_error_in_a_users_scenario_names_the_file(tmp_path: Path, change: tuple[str, str], field: str):
    page = Path(__file__).parents[1] / "docs" / "conditional.md"
    text = page.read_text("utf-8").split("```toml\n")[1].split("```")[0].replace("[0.2, 0.8]", "0.2")
    (tmp_path / "mine.toml").write_text(text.replace(*change, 1), "utf-8")
    with pytest.raises(WeftError) as caught:
        scenario(tmp_path / "mine.toml").stream("test", 0)
    assert caught.value.file == str(tmp_path / "mine.toml")
    assert str(caught.value.field).startswith(field)


def test_assignments_of_several_values_show_the_list():
    with pytest.raises(InputError, match=r"several values are a list: 'ccr=\[0.1,1,5\]'"):
        parse_assignments(["ccr=0.1,1,5"])
