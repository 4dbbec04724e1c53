"""Code that the command line names, what installed packages offer, and that data files load nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from example_package.weft_example import Forks, ManyForks

import weft
from weft import catalog, offered, plugins
from weft.cli import app
from weft.kinds import TASKS
from weft.scenarios import read_recipe, scenario

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tests" / "example_package"
Run = Callable[..., tuple[int, str, str]]

EDGES = "# edges\na 2.0\nb 3.0\na -> b\n"
BROKEN = {
    "nothing.py:X": ("", "nothing.py: scheduler: expected a Python file, found none"),
    "own.py:Nope": ("class Mine: pass", "own.py: scheduler: no 'Nope' in it; there are Mine"),
    "own.py:Mine": ("class Mine: pass", "expected a planner, and Mine has no method 'plan'"),
    "syntax.py:X": ("x = 1\nx = = 2", "syntax.py:2: scheduler: syntax.py cannot be loaded: SyntaxError: "),
    "lost.py:X": (
        "\nimport no_such_thing",
        "lost.py:2: scheduler: lost.py cannot be loaded: ModuleNotFoundError",
    ),
    "quits.py:X": (
        "import sys; sys.exit(0)",
        "quits.py:1: scheduler: quits.py cannot be loaded: SystemExit: 0",
    ),
    "no.such.module:X": ("", "no module 'no.such.module' is installed (a file is named as in file.py:Name)"),
}


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """One command line in a folder of its own; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "mine.py").write_text((PACKAGE / "weft_example.py").read_text("utf-8"), "utf-8")
    (tmp_path / "pipeline.json").write_bytes((ROOT / "examples" / "pipeline.json").read_bytes())

    def call(*words: str) -> tuple[int, str, str]:
        code = app.main(list(words))
        return code, *capsys.readouterr()

    return call


def test_schedule_and_compare_take_code_by_name(run: Run):
    code, out, _ = run("schedule", "pipeline.json", "-c", "gpu-mix-8", "-s", "mine.py:ByNumber")
    assert code == 0
    assert "by mine.py:ByNumber" in out
    code, out, _ = run("compare", "pipeline.json", "-c", "gpu-mix-8", "--schedulers=heft,mine.py:ByNumber")
    assert code == 0
    assert out.count("valid") == 2
    code, out, _ = run(
        "schedule", "pipeline.json", "-c", "gpu-mix-8", "-sweft.schedulers.planners.lists:Heft"
    )
    assert code == 0


def test_evaluate_takes_code_by_name_and_notes_its_state(run: Run, tmp_path: Path):
    words = ("evaluate", "workflows", "--set", "load=0.8", "--set", "jobs=4", "--set", "tasks=8")
    words = (
        *words,
        "-s",
        "fifo,mine.py:FirstFinish,plan:mine.py:ByNumber",
        "--out",
        "sweep",
        "--check",
        "all",
    )
    assert run(*words)[0] == 0
    assert run(*words)[0] == 0
    with (tmp_path / "mine.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")
    code, _, err = run(*words)
    assert code == 2
    assert "sweep" in err


@pytest.mark.parametrize("name", BROKEN)
def test_code_that_cannot_be_loaded_is_one_line(name: str, run: Run, tmp_path: Path):
    text, message = BROKEN[name]
    if text:
        (tmp_path / name.partition(":")[0]).write_text(text, "utf-8")
    code, out, err = run("schedule", "pipeline.json", "-c", "gpu-mix-8", "-s", name)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


# -- nothing but the command line loads code -------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.py:ByNumber", "json:JSONDecoder"])
def test_names_of_code_load_nothing_by_themselves(name: str, fork_problem: weft.Problem, tmp_path: Path):
    for look in (catalog.planner, catalog.task_dispatcher, catalog.dispatcher):
        with pytest.raises(weft.InputError, match="names code, which is loaded only where the command line"):
            look(name)
    with pytest.raises(weft.InputError, match="in Python give the object"):
        weft.Session(fork_problem, f"plan:{name}")


def test_recipe_that_names_code_is_refused(run: Run, tmp_path: Path):
    (tmp_path / "mine.py").write_text("raise SystemExit('was loaded')", "utf-8")
    (tmp_path / "own.toml").write_text(
        'extends = "workflows"\nschedulers = ["mine.py:ByNumber"]\nbaseline = "mine.py:ByNumber"', "utf-8"
    )
    with pytest.raises(weft.InputError, match=r"own\.toml: schedulers: expected a name that weft knows"):
        read_recipe(tmp_path / "own.toml")
    code, _, err = run("evaluate", "own.toml")
    assert code == 2
    assert "no file may name code to load" in err


def test_code_may_be_loaded_only_while_the_command_line_holds():
    with plugins.named_by_user(
        ["-s", "fifo,mine.py:A,plan:mine.py:B", "--better=x.y:C", "-sD.py:E", "plan:heft"]
    ):
        assert plugins.allowed() == ("D.py:E", "mine.py:A", "mine.py:B", "x.y:C")
    assert plugins.allowed() == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mine.py:Mine", True),
        ("../a b/mine.py:Mine", True),
        ("package.module:Mine", True),
        ("plan:heft", False),
        ("heft", False),
        ("runs/x@best", False),
        ("oneshot+search", False),
        ("mine.py", False),
        ("mine.py:", False),
    ],
)
def test_is_code_tells_names(name: str, expected: bool):
    assert plugins.is_code(name) == expected


# -- entry points ----------------------------------------------------------------------------------


def installed(folder: Path, points: str, version: str = "1.0") -> Path:
    """What pip leaves behind: the module, and a folder with metadata and entry points."""
    folder.mkdir()
    (folder / "weft_example.py").write_bytes((PACKAGE / "weft_example.py").read_bytes())
    info = folder / f"weft_example-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: weft-example\nVersion: {version}\n", "utf-8"
    )
    (info / "entry_points.txt").write_text(points, "utf-8")
    return folder


def points_of_example() -> str:
    """The entry points of the package, as pip writes them."""
    import tomllib

    tables = tomllib.loads((PACKAGE / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    lines = []
    for group, points in tables.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    return "\n".join(lines)


def weft_with(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that has the package installed."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    return subprocess.run(
        [sys.executable, "-m", "weft", *words],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_installed_package_is_listed_and_used(tmp_path: Path):
    folder = installed(tmp_path / "site", points_of_example())
    listed = weft_with(folder, "schedulers", "--json").stdout
    assert "The ready task that can finish first, where it does (from weft-example 1.0)" in listed
    done = weft_with(
        folder, "compare", "examples/pipeline.json", "-c", "gpu-mix-8", "-s", "heft,by-number", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"valid": true') == 2
    assert "one task, then many (from weft-example 1.0)" in weft_with(folder, "scenarios", "--json").stdout
    done = weft_with(folder, "evaluate", "forks", "-s", "heft,by-number", "--problems", "2", "--check", "all")
    assert done.returncode == 0, done.stderr
    (tmp_path / "a.edges").write_text(EDGES, "utf-8")
    done = weft_with(folder, "convert", str(tmp_path / "a.edges"), str(tmp_path / "a.json"))
    assert done.returncode == 0, done.stderr
    assert weft.read_graph(tmp_path / "a.json").num_edges == 1


def test_entry_point_with_the_name_of_a_builtin_is_refused(tmp_path: Path):
    points = "[weft.schedulers]\nheft = weft_example:ByNumber\nlost = weft_example:Nope\n"
    listed = weft_with(installed(tmp_path / "site", points), "schedulers", "--json").stdout
    assert "weft-example 1.0 offers 'heft', which is the name of a built-in one: refused" in listed
    assert "'lost' of weft-example 1.0 cannot be loaded: AttributeError" in listed


def test_builtin_names_scan_no_packages(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plugins, "offers", lambda group: pytest.fail("looked for packages"))
    catalog.planner("heft")
    catalog.task_dispatcher("fifo")
    catalog.dispatcher("fifo+wait")
    assert (
        offered.versions_of(["heft", "fifo", "fifo+wait", "plan:heft", "ppo", "mix.toml", "run@best"]) == {}
    )


# -- formats of the command line -------------------------------------------------------------------


def test_command_line_reads_a_format_of_ones_own(run: Run, tmp_path: Path):
    (tmp_path / "a.edges").write_text(EDGES, "utf-8")
    code, out, _ = run("--format", "mine.py:EdgeList", "schedule", "a.edges", "-c", "gpu-mix-8")
    assert (code, "a: 2 tasks" in out) == (0, True)
    words = ("evaluate", "a.edges", "pipeline.json", "-c", "gpu-mix-8", "-s", "heft,spt", "--workers", "2")
    assert run("--format", "mine.py:EdgeList", *words)[0] == 0
    code, _, err = run("schedule", "a.edges", "-c", "gpu-mix-8")
    assert (code, "the content looks like none" in err) == (2, True)
    after = run("schedule", "a.edges", "--format=mine.py:EdgeList", "-c", "gpu-mix-8")
    assert (after[0], after[2]) == (
        0,
        "next: weft --format mine.py:EdgeList compare a.edges --cluster gpu-mix-8\n",
    )
    code, _, err = run("schedule", "--format", "mine.py:ByNumber", "a.edges", "-c", "gpu-mix-8")
    assert (code, "expected a file format, and ByNumber has no function 'detect'" in err) == (2, True)


# -- scenarios -------------------------------------------------------------------------------------


def test_scenario_of_an_object_has_problems_and_settings():
    chosen = scenario(Forks(), width=4)
    one, again = (chosen.problem("test", 1) for _ in range(2))
    assert (one.num_tasks, one.name, one.cluster.num_devices) == (5, "test/1", 3)
    assert one.graph.work.tolist() == again.graph.work.tolist()
    assert one.graph.work.tolist() != chosen.problem("test", 2).graph.work.tolist()
    stream = scenario(ManyForks)
    assert stream.kind is TASKS
    assert stream.dispatched("test", 0, 0).jobs[0].release != stream.dispatched("test", 0, 1).jobs[0].release


def test_evaluate_takes_a_scenario_by_its_code(run: Run):
    words = ("--problems", "2", "--check", "all", "--workers", "2")
    code, out, _ = run("evaluate", "mine.py:Forks", "-s", "heft,spt", "--set", "width=[3, 5]", *words)
    assert code == 0
    assert "width=5" in out
    code, out, _ = run(
        "evaluate", "mine.py:ManyForks", "-s", "fifo,mine.py:FirstFinish", "--seeds", "2", "--out", "s"
    )
    assert code == 0
    assert "mean_jct" in out
    assert run("report", "s", "--out", "page.md", "--no-charts")[0] == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (object(), "expected a scenario generator, and object has no method 'make'"),
        (SimpleNamespace(make=print), "has no text 'name'"),
        (
            SimpleNamespace(make=print, name="x", settings=("width",)),
            "settings that are no weft.scenarios.Setting",
        ),
        (SimpleNamespace(make=lambda settings, seed: 1, name="x"), "makes no weft.Problem, but int"),
        (SimpleNamespace(make=lambda settings, seed: 1 / 0, name="x"), "make failed: ZeroDivisionError"),
        ("mine.py:Forks", "names code, which is loaded only where the command line names it"),
    ],
)
def test_own_scenario_is_refused_by_what_is_wrong(given: object, message: str):
    with pytest.raises(weft.InputError, match=message):
        scenario(given).problem("test", 0)


CHEAT = """
from dataclasses import replace
import weft

class Cheat:
    name = "cheat"
    def plan(self, problem, *, seed=0, limit=None):
        plan = weft.schedule(problem, "heft").schedule
        return replace(plan, start=plan.start / 2, finish=plan.finish / 2)
"""


def test_plan_that_breaks_a_rule_is_called_that_and_not_optimal(run: Run, tmp_path: Path):
    (tmp_path / "cheat.py").write_text(CHEAT, "utf-8")
    words = ("schedule", "pipeline.json", "-c", "gpu-mix-8", "-s", "cheat.py:Cheat")
    code, out, _ = run(*words)
    assert code == 1
    assert "below the lower bound, so it cannot be valid" in out
    assert "NOT VALID: duration" in out
    code, out, _ = run(*words, "--json")
    assert code == 1 and '"valid": false' in out
