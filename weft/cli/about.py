"""Verbs about weft itself: schedulers, doctor."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as opt
from weft.cli import output

if TYPE_CHECKING:
    from weft.doctor import Extra, KernelCache


def schedulers(as_json: opt.Json = False) -> None:
    """List the schedulers and what each is good at."""
    from weft.catalog import POLICIES, VARIANTS, roles

    rows = [
        {"name": name, "role": role, "acts_on": entry.acts_on, "summary": entry.summary}
        for role, entries in roles().items()
        for name, entry in entries.items()
    ]
    rows += [
        {"name": name, "role": "policy", "acts_on": entry.acts_on, "summary": entry.summary}
        for name, entry in POLICIES.items()
    ]
    if as_json:
        output.emit(output.document("schedulers", None, {"schedulers": rows, "variants": VARIANTS}))
        return
    table = output.table(["name", "role", "acts on", "what it is good at"])
    for role, entries in (*roles().items(), ("policy", POLICIES)):
        for name, entry in entries.items():
            table.add_row(name, role, ", ".join(entry.acts_on), entry.summary)
    output.show(table)
    for name, meaning in VARIANTS.items():
        output.say(f"{name}: {meaning}")


def doctor(
    warm: Annotated[bool, typer.Option("--compile", help="Compile all kernels now.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Show versions, optional parts, kernel cache and threads."""
    from weft import doctor as diagnosis

    compiled: tuple[str, ...] = ()
    if warm:
        with output.progress("compiling the kernels of every planner and dispatcher"):
            compiled = tuple(dict.fromkeys((*diagnosis.warm(), *diagnosis.warm_dispatch())))
    cache = diagnosis.kernel_cache()
    if as_json:
        fields = {
            "versions": diagnosis.versions(),
            "extras": [
                asdict(extra) | {"old": extra.is_old, "install": extra.install}
                for extra in diagnosis.extras()
            ],
            "cache": asdict(cache) | {"folder": str(cache.folder), "compiled": cache.num_compiled > 0},
            "cpus": diagnosis.num_cpus(),
            "threads": diagnosis.threads(),
            "warmed": list(compiled),
        }
        output.emit(output.document("doctor", None, fields))
        return
    _show_versions()
    output.say(f"kernels     {_describe(cache)}")
    output.say(f"            in {cache.folder}")
    if cache.num_old:
        output.say(f"            {cache.num_old} folders of former versions beside it may be deleted")
    settings = ", ".join(f"{name} {value or 'not set'}" for name, value in diagnosis.threads().items())
    output.say(f"processors  {diagnosis.num_cpus()}; planners use one thread ({settings})")


def _show_versions() -> None:
    from weft import doctor as diagnosis

    table = output.table(["part", "version", "for"])
    for name, version in diagnosis.versions().items():
        table.add_row(name, version or "missing", "")
    extras = diagnosis.extras()
    for extra in extras:
        table.add_row(extra.package, _state(extra), extra.purpose)
    output.show(table)
    missing = next((extra.name for extra in extras if extra.version is None or extra.is_old), None)
    if missing is not None:
        output.say(f"in a checkout: '.[{missing}]' in place of 'weft[{missing}]'")
    output.say("")


def _state(extra: Extra) -> str:
    if extra.version is None:
        return f"not installed: {extra.install}"
    return f"{extra.version}, too old: {extra.install}" if extra.is_old else extra.version


def _describe(cache: KernelCache) -> str:
    if not cache.num_compiled:
        return "not compiled yet: the first plan takes longer, or run weft doctor --compile"
    return f"{cache.num_compiled} compiled, {output.size(cache.num_bytes)}"
