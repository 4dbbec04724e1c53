"""Schedulers that installed packages offer, beside weft's own, and what tells two states of outside code apart."""

from __future__ import annotations

from collections.abc import Iterable

from weft import catalog, plugins
from weft.errors import InputError


def roles() -> dict[str, dict[str, catalog.Entry | catalog.Views]]:
    """All names by role, with what installed packages offer; what cannot be used is listed with the reason."""
    found: dict[str, dict[str, catalog.Entry | catalog.Views]] = {
        role: dict(entries) for role, entries in catalog.ROLES.items()
    }
    for name, offer in plugins.offers(plugins.SCHEDULERS).items():
        target = offer.points[0].value
        try:
            made = plugins.made(offer.load(catalog.builtin_names(), "scheduler"), name, "scheduler")
        except InputError as error:
            found.setdefault("refused", {})[name] = catalog.Entry("", str(error.message))
            continue
        summary = f"{_first_line(made)}(from {offer.origin})"
        is_planner = callable(getattr(made, "plan", None))
        entry = catalog.Entry(target, summary) if is_planner else catalog.Views(summary, tasks=target)
        found["planner" if is_planner else "dispatcher"][name] = entry
    return found


def _first_line(found: object) -> str:
    text = (type(found).__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return f"{text} " if text else ""


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """For every scheduler that is not weft's: the hash of its file, or the version of its package."""
    found = {}
    for name in names:
        bare = name.removeprefix(catalog.PLAN).removesuffix(catalog.AGAIN)
        if plugins.is_code(bare) or not (
            _is_known(bare) or catalog.is_weights(bare) or bare.endswith(".toml")
        ):
            found[name] = plugins.version(plugins.SCHEDULERS, bare)
    return {name: version for name, version in found.items() if version}


def _is_known(name: str) -> bool:
    base = name.removesuffix(catalog.WAIT).removesuffix(catalog.PROFILE).removesuffix(catalog.SEARCH)
    return base in catalog.builtin_names()
