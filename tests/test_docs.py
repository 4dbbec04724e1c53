"""The pages under docs/ hold what they promise: code runs, names exist, nothing is left out."""

from __future__ import annotations

import glob
import itertools
import re
import shlex
import shutil
import tomllib
from functools import cached_property
from pathlib import Path

import pytest
import typer
from command_line import Weft

from weft import catalog
from weft.cli.app import app
from weft.evaluation.report.claims import read_claims
from weft.evaluation.report.markdown import plain
from weft.io.clusters import builtin_clusters
from weft.io.files import read_graph, read_problem
from weft.io.formats import FORMATS
from weft.model.schedule import Schedule
from weft.model.validate import RULES
from weft.schedulers.planners.rules import DECODERS, FEATURES

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BENCHMARKS = sorted(path for path in (ROOT / "benchmarks").glob("*.py") if not path.name.startswith("_"))
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")

RESULTS = sorted((ROOT / "docs" / "results").glob("*.md"))
"""One page per system, written by ``weft report`` or by a benchmark."""
CLAIMED = [page for page in RESULTS if (ROOT / "weft" / "claims" / f"{page.stem}.toml").exists()]
"""Those that judge the claims of a study."""

every_page = pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES, *RESULTS],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)


def blocks(page: Path, *languages: str) -> list[str]:
    """Code blocks of a page in these languages."""
    return [code for language, code in BLOCK.findall(page.read_text("utf-8")) if language in languages]


def commands(page: Path, program: str) -> list[list[str]]:
    """Words of every shell line of a page that starts with this program, the program left out."""
    start = shlex.split(program)
    lines = [line for code in blocks(page, "sh", "") for line in code.replace("\\\n", " ").splitlines()]
    split = [shlex.split(line, comments=True) for line in lines if line.startswith(program + " ")]
    return [words[len(start) :] for words in split]


def text_of(name: str) -> str:
    """Text of one page."""
    return (ROOT / "docs" / name).read_text("utf-8")


@pytest.fixture
def example_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the examples beside."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@every_page
def test_page_python_blocks_run(page: Path, example_folder: Path):
    namespace: dict[str, object] = {"__name__": page.stem}
    for code in blocks(page, "python"):
        exec(compile(code, page.name, "exec"), namespace)


LONG = ("doctor", "train", "out/policy", "out/policy@best")
"""Words of the lines of docs/start.md that take long, or need what such a line makes."""


def start_lines() -> list[list[str]]:
    """The command lines of docs/start.md."""
    return commands(ROOT / "docs" / "start.md", "weft")


def is_long(words: list[str]) -> bool:
    return any(part in LONG for word in words for part in word.split(","))


def run_lines(weft: Weft, lines: list[list[str]]) -> None:
    """Run command lines one after another, as a shell would; all must succeed."""
    shutil.copytree(ROOT / "examples", "examples")
    for words in lines:
        found = [sorted(glob.glob(word)) if "*" in word else [word] for word in words]
        ran = weft(*itertools.chain(*found))
        assert ran.code == 0, f"weft {shlex.join(words)}: {ran.err}"


def test_start_page_quick_lines_run(weft: Weft):
    lines = [words for words in start_lines() if not is_long(words)]
    assert {words[0] for words in lines} == {
        "show",
        "schedule",
        "compare",
        "explain",
        "evaluate",
        "report",
        "run",
        "validate",
    }
    run_lines(weft, lines)


@pytest.mark.slow
def test_start_page_lines_run(weft: Weft):
    run_lines(weft, [words for words in start_lines() if words[0] != "doctor"])


@pytest.mark.parametrize(
    ("page", "words", "file"),
    [("start.md", "generator", "stream.toml"), ("problems.md", "[[jobs]]", "problem.toml")],
)
def test_page_shows_an_example_file(page: str, words: str, file: str):
    example = tomllib.loads((ROOT / "examples" / file).read_text("utf-8"))
    shown = tomllib.loads(next(code for code in blocks(ROOT / "docs" / page, "toml") if words in code))
    assert {key: example.get(key) for key in shown} == shown


def test_example_problem_is_read(example_folder: Path):
    problem = read_problem(example_folder / "examples" / "problem.toml")
    assert (len(problem.jobs), problem.noise, problem.objective.copies) == (2, 0.1, False)


def test_files_page_graph_is_read(tmp_path: Path):
    example = next(code for code in blocks(ROOT / "docs" / "files.md", "toml") if "[[tasks]]" in code)
    file = tmp_path / "example.toml"
    file.write_text(example, "utf-8")
    assert read_graph(file).num_edges == 3


@every_page
def test_page_shell_lines_name_verbs_and_options_that_exist(page: Path):
    verbs = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for words in commands(page, "weft"):
        verb, *words = words[2:] if words[0] == "--format" else words
        assert verb in verbs, f"{page.name}: weft {verb}"
        known = {name for p in verbs[verb].params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        for word in words:
            if re.match(r"--?[a-z]", word):
                assert word.partition("=")[0] in known, f"{page.name}: weft {verb} {word}"


@every_page
def test_page_benchmark_lines_name_benchmarks_and_options_that_exist(page: Path):
    sources = {path.stem: path.read_text("utf-8") for path in BENCHMARKS}
    for name in sources:  # options of parts stand in a folder of the same name
        parts = sorted((BENCHMARKS[0].parent / f"_{name}").glob("*.py"))
        sources[name] += "".join(path.read_text("utf-8") for path in parts)
    for name, *words in commands(page, "python -m benchmarks"):
        assert name in sources, f"{page.name}: benchmark {name}"
        for word in words:
            if word.startswith("--"):
                assert f'"{word}"' in sources[name], f"{page.name}: benchmark {name} {word}"


@every_page
def test_page_links_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "index.md"], ids=lambda path: path.name)
def test_index_lists_page(page: Path):
    assert f"({page.name})" in text_of("index.md")


@pytest.mark.parametrize("page", RESULTS, ids=lambda path: path.name)
def test_results_page_leads_to_the_page_of_a_system(page: Path):
    assert f"(results/{page.name})" in text_of("results.md")


@pytest.mark.parametrize("page", CLAIMED, ids=lambda path: path.name)
def test_page_of_a_system_has_a_verdict_on_every_claim(page: Path):
    text = page.read_text("utf-8")
    for number, claim in enumerate(read_claims(page.stem).claims, 1):
        line = next(line for line in text.splitlines() if line.startswith(f"| {number} |"))
        assert line.split(" | ")[1] == plain(claim.text), "run the command at the end of the page again"
        assert line.strip("| *").endswith(
            ("holds", "holds partly", "cannot be told", "does not hold", "not measured")
        )


def test_oneshot_page_shows_figures_of_its_results_page():
    figures = text_of("oneshot.md").partition("## Figures")[2].partition("\n## ")[0]
    rows = [line for line in figures.splitlines() if line.startswith("| ")][2:]
    numbers = [number for row in rows for number in re.findall(r"[\d,]+\.\d+", row)]
    assert numbers
    for number in numbers:
        assert number in text_of("results/oneshot.md"), f"{number}: copy the figures of the page again"


def test_citation_names_the_version():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


@pytest.mark.parametrize("name", catalog.PLANNERS)
def test_schedulers_page_describes_planner(name: str):
    assert f"| `{name}` |" in text_of("schedulers.md")


@pytest.mark.parametrize("name", [*FEATURES, *DECODERS])
def test_schedulers_page_describes_part_of_a_mix(name: str):
    assert f"`{name}`" in text_of("schedulers.md")


METRICS = [
    name
    for name, member in vars(Schedule).items()
    if isinstance(member, property | cached_property) and not name.startswith("_")
]


@pytest.mark.parametrize("name", METRICS)
def test_schedules_page_defines_metric(name: str):
    assert f"`{name}`" in text_of("schedules.md")


@pytest.mark.parametrize("rule", RULES)
def test_schedules_page_names_validation_rule(rule: str):
    assert f"`{rule}`" in text_of("schedules.md")


@pytest.mark.parametrize("name", builtin_clusters())
def test_files_page_lists_builtin_cluster(name: str):
    assert f"| `{name}` |" in text_of("files.md")


@pytest.mark.parametrize("suffix", [suffix for form in FORMATS for suffix in form.suffixes])
def test_files_page_names_suffix(suffix: str):
    assert f"`{suffix}`" in text_of("files.md")


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.stem)
def test_results_page_gives_the_command_of_benchmark(benchmark: Path):
    assert f"python -m benchmarks {benchmark.stem}" in text_of("results.md")
