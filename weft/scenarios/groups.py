"""Groups of a recipe's reference schedulers, of which the best at each setting is spoken of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.errors import InputError


@dataclass(frozen=True)
class Group:
    """Reference schedulers of which the best at each setting is compared with, and what to call it."""

    key: str
    title: str
    members: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The JSON form, and that of a recipe."""
        return {"key": self.key, "title": self.title, "members": list(self.members)}


def groups_of(tables: object, schedulers: tuple[str, ...]) -> tuple[Group, ...]:
    """The groups of a recipe; one that names none has all its reference schedulers as one."""
    found = []
    for table in tables if isinstance(tables, list) else [tables]:
        if not isinstance(table, Mapping) or sorted(table) != ["key", "members", "title"]:
            raise InputError("expected tables with key, title and members", field="groups")
        if not isinstance(table["members"], list) or not table["members"]:
            raise InputError(
                f"expected a list of schedulers, got {table['members']!r}", field="groups.members"
            )
        members = tuple(text_of(name, "groups.members") for name in table["members"])
        found.append(
            Group(text_of(table["key"], "groups.key"), text_of(table["title"], "groups.title"), members)
        )
    return tuple(found) or (Group("usual", "the best of the reference schedulers", schedulers),)


def text_of(value: object, field: str) -> str:
    """The value, if it is a text; an error names the field."""
    if not isinstance(value, str):
        raise InputError(f"expected a text, got {value!r}", field=field)
    return value
