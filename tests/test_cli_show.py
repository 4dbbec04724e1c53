"""The verb show, and the warning about kinds that no task has: text, JSON, exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Weft

ROOT = Path(__file__).resolve().parent.parent
PIPELINE = str(ROOT / "examples" / "pipeline.json")
MINE = str(ROOT / "examples" / "cluster.toml")


@pytest.fixture
def misspelt(tmp_path: Path) -> str:
    """The example's cluster with ``unpack-scene`` misspelt."""
    path = tmp_path / "misspelt.toml"
    path.write_text(Path(MINE).read_text("utf-8").replace("unpack-scene", "unpack-scen"), "utf-8")
    return str(path)


@pytest.mark.parametrize(
    "words",
    [
        ("schedule", PIPELINE),
        ("schedule", PIPELINE, "--json"),
        ("compare", PIPELINE, PIPELINE, "-s", "heft"),
        ("explain", PIPELINE, "unpack"),
        ("gantt", PIPELINE),
        ("whatif", PIPELINE, "--add", "cpu=1"),
        ("pareto", PIPELINE, "-s", "heft", "--most", "2"),
        ("evaluate", PIPELINE, "-s", "heft"),
        ("show", PIPELINE),
    ],
    ids=lambda words: words[0],
)
def test_unknown_kind_is_said_once_by_every_verb(weft: Weft, misspelt: str, words: tuple[str, ...]):
    ran = weft(*words, "--cluster", misspelt)
    assert ran.code == 0
    line = "weft: cluster misspelt names a kind that no task has: 'unpack-scen' of class gpu "
    assert [one for one in ran.err.splitlines() if "no task has" in one] == [
        f"{line}(did you mean 'unpack-scene'?)"
    ]


@pytest.mark.parametrize("cluster", [MINE, "gpu-mix-8"])
def test_known_kinds_and_builtin_clusters_make_no_noise(weft: Weft, cluster: str):
    assert "no task has" not in weft("schedule", PIPELINE, "--cluster", cluster).err


# -- show -------------------------------------------------------------------------------------------


def test_show_prints_facts_kinds_classes_and_a_picture(weft: Weft):
    ran = weft("show", PIPELINE, "--cluster", MINE)
    assert ran.code == 0
    assert ran.out.startswith("image-pipeline: 37 tasks, 71 edges, 9 levels, at most 13 tasks on one level\n")
    assert "critical path  424.78 s over 9 tasks: unpack -> calibrate-4 -> denoise-4 -> ... -> " in ran.out
    assert "on gpu [s]   on cpu [s]" in ran.out
    assert "gpu x 2 can run all, cpu x 4 can run all" in ran.out
    assert "     3      13  @@@@@@&&&&&&$\n" in ran.out
    assert ran.err == f"next: weft schedule {PIPELINE} --cluster {MINE}\n"


def test_show_json_has_the_documented_keys(weft: Weft):
    found = weft("show", PIPELINE, "--cluster", MINE, "--json").json
    assert found["schema"] == "weft/show/1"
    keys = "name time_unit tasks edges depth width work critical_path critical_tasks"
    more = "parallelism data largest_data largest_edge kinds levels jobs fit"
    assert set(found) == {"schema", "weft", "seed", *keys.split(), *more.split()}
    assert (found["depth"], found["width"]) == (9, 13)
    fit = "cluster devices classes no_class one_class ccr fastest_path lacks unknown_kinds"
    assert set(found["fit"]) == set(fit.split())
    assert list(found["kinds"][0]) == ["kind", "tasks", "work", "run_times", "no_class", "one_class"]


def test_show_needs_no_cluster(weft: Weft, tmp_path: Path):
    (tmp_path / "two.dot").write_text("digraph { a -> b }", "utf-8")
    ran = weft("show", "two.dot")
    assert ran.code == 0
    assert "on " not in ran.out.splitlines()[-1]
    assert ran.err == "next: weft schedule two.dot --cluster gpu-mix-8\n"


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_show_draws_the_graph(weft: Weft, suffix: str, tmp_path: Path):
    ran = weft("show", PIPELINE, "--plot", f"graph.{suffix}")
    assert ran.code == 0
    assert f"wrote graph.{suffix}\n" in ran.err
    start = (tmp_path / f"graph.{suffix}").read_bytes()[:5]
    assert start in (b"\x89PNG\r", b"<?xml")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("nothing.json",), "weft: nothing.json: no such file"),
        ((MINE,), f"weft: {MINE}: expected a workflow or a problem, got a cluster"),
        (
            (PIPELINE, "--plot", "graph.pdf"),
            "weft: --plot: expected a path that ends in .png or .svg, got 'graph.pdf'",
        ),
        ((PIPELINE, "--plot", "no/graph.png"), "weft: no/graph.png: cannot be written: no such folder"),
        ((PIPELINE, "-c", PIPELINE[:-5] + "s.toml"), f"weft: {PIPELINE[:-5]}s.toml: no such file"),
    ],
)
def test_show_refuses_bad_input_in_one_line(weft: Weft, words: tuple[str, ...], line: str):
    ran = weft("show", *words)
    assert (ran.code, ran.out, ran.err) == (2, "", f"{line}\n")


def test_show_says_what_no_device_has(weft: Weft, tmp_path: Path):
    text = (
        '[[tasks]]\nname = "big"\nwork = 1\nmemory = 1e12\nslots = 2\n[[tasks]]\nname = "small"\nwork = 1\n'
    )
    (tmp_path / "two.toml").write_text(f'schema = "weft/graph/1"\n{text}', "utf-8")
    ran = weft("show", "two.toml", "-c", "gpu-mix-8")
    assert ran.code == 0
    assert "restricted     only one class can run 0 of the tasks, no class 1\n" in ran.out
    assert "1 task needs more slots than any device has: big 2, most 1\n" in ran.out
    assert "1 task needs more memory than any device has: big 1 TB, most 40 GB\n" in ran.out
