"""Who may import whom, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft

ROOT = Path(weft.__file__).parent
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))

BELOW_SCHEDULERS = ("sim", "model", "kinds", "tables", "errors")
BELOW_POLICIES = ("schedulers", *BELOW_SCHEDULERS)
BELOW_TRAINING = (
    "policies",
    "wording",
    "catalog",
    "offered",
    "plugins",
    "scenarios",
    "session",
    "io",
    *BELOW_POLICIES,
)
EVERYTHING = (
    "reporting",
    "training",
    "evaluation",
    "spread",
    "execute",
    "service",
    "cli",
    "doctor",
    *BELOW_TRAINING,
)
ALLOWED: dict[str, tuple[str, ...]] = {
    "__init__": (),
    "__main__": ("cli",),
    "errors": (),
    "arguments": ("errors",),
    "tables": ("errors",),
    "catalog": ("kinds", "plugins", "result", "roster", "errors"),
    "offered": ("catalog", "plugins", "errors"),
    "result": ("io",),
    "kinds": (),
    "wording": (),
    "roster": ("kinds",),
    "plugins": ("errors",),
    "model": ("errors",),
    "io": ("model", "plugins", "errors"),
    "scenarios": ("io", "kinds", "model", "plugins", "tables", "errors"),
    "sim": ("model", "errors"),
    "schedulers": ("plugins", *BELOW_SCHEDULERS),
    "policies": BELOW_POLICIES,
    "session": ("catalog", "policies", "scenarios", "io", *BELOW_POLICIES),
    "spread": ("execute", "errors"),
    "training": ("arguments", "spread", *BELOW_TRAINING),
    "evaluation": ("arguments", "spread", *BELOW_TRAINING),
    "reporting": ("training", "evaluation", "execute", *BELOW_TRAINING),
    "execute": BELOW_TRAINING,
    "service": EVERYTHING,
    "doctor": EVERYTHING,
    "testing": EVERYTHING,
    "cli": EVERYTHING,
}
"""Part of weft -> the other parts it may import, at any place of a file."""

HOMES: dict[str, tuple[str, ...]] = {
    "numba": ("sim/jit",),
    "typer": ("cli/",),
    "rich": ("cli/", "evaluation/figures/gantt"),
    "pydantic": ("io/", "service/"),
    "matplotlib": ("evaluation/figures/", "evaluation/questions/"),
    "ortools": ("schedulers/exact/cpsat.py",),
    "onnx": ("io/onnx_graph.py",),
    "torch": ("policies/", "training/"),
    "gymnasium": ("sim/adapters",),
    "pettingzoo": ("sim/adapters",),
    "ray": ("execute/", "training/", "spread/"),
    "dask": ("execute/", "spread/"),
    "distributed": ("execute/", "spread/"),
    "scipy": (),
    "pickle": (),
}
"""Heavy or dangerous package -> the files that may load it, by how their path starts."""


def is_for_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def statements(node: ast.AST, *, is_lazy: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports below a node; those in functions only if ``is_lazy``; never those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not is_for_typing(child) and (is_lazy or not isinstance(child, ast.FunctionDef)):
            yield from statements(child, is_lazy=is_lazy)


def imports(file: str, *, is_lazy: bool = True) -> list[str]:
    """Dotted names a file imports."""
    package = ["weft", *Path(file).parts[:-1]]
    names: list[str] = []
    for node in statements(ast.parse((ROOT / file).read_text(encoding="utf-8")), is_lazy=is_lazy):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        else:
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names += [f"{module}.{alias.name}" for alias in node.names]
    return names


def part_of(file: str) -> str:
    return Path(file).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", FILES)
def test_layers_point_one_way(file: str):
    part = part_of(file)
    assert part in ALLOWED, f"say in the table what {part} may import"
    found = imports(file, is_lazy=part != "catalog")
    parts = [name.split(".")[1] for name in found if name.startswith("weft.")]
    assert [p for p in parts if p != part and p not in (*ALLOWED[part], "__version__")] == []


@pytest.mark.parametrize("file", FILES)
def test_layers_give_each_heavy_package_one_home(file: str):
    strays = [
        name
        for name in imports(file)
        for package, homes in HOMES.items()
        if name.split(".")[0] == package and not file.startswith(homes or ("nowhere",))
    ]
    assert strays == []


@pytest.mark.parametrize("file", FILES)
def test_layers_evaluate_and_execute_without_torch(file: str):
    if part_of(file) in ("evaluation", "execute"):
        assert [name for name in imports(file) if name.split(".")[0] == "torch"] == []


def test_layers_see_imports_in_functions_and_skip_those_for_typing():
    source = "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    from c import d\n"
    tree = ast.parse(source)
    assert [ast.unparse(node) for node in statements(tree, is_lazy=True)] == ["import a", "from c import d"]
    assert [ast.unparse(node) for node in statements(tree, is_lazy=False)] == ["import a"]
