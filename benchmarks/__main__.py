"""``python -m benchmarks NAME ...`` runs ``benchmarks/NAME.py``; without a name, lists them."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from weft.errors import WeftError


def _names() -> list[str]:
    found = pkgutil.iter_modules([str(Path(__file__).parent)])
    return sorted(module.name for module in found if not module.name.startswith("_"))


def _list(names: list[str]) -> None:
    for name in names:
        summary = (importlib.import_module(f"benchmarks.{name}").__doc__ or "").strip().splitlines()
        print(f"{name:<12} {summary[0] if summary else ''}")


def main(arguments: list[str]) -> int:
    """Run one benchmark or list them all; the exit code of the benchmark is passed on."""
    names = _names()
    if not arguments:
        _list(names)
        return 0
    name, *rest = arguments
    if name not in names:
        print(f"no benchmark {name!r}: expected one of {', '.join(names)}", file=sys.stderr)
        return 2
    try:
        return int(importlib.import_module(f"benchmarks.{name}").main(rest) or 0)
    except WeftError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
