"""Names of tasks and devices as other systems allow them; names come from files and may hold anything."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

_MARK = 8
"""Characters of the hash that tells apart names that become equal."""


def dns_label(text: str) -> str:
    """Small letters, digits and dashes, as Kubernetes names things; ``x`` where nothing is left."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"


def label_value(text: str) -> str:
    """As the value of a label of Kubernetes: letters, digits, ``-_.``, letters or digits at both ends, at most 63."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-_.")
    if safe == text and 0 < len(safe) <= 63:
        return safe
    return _marked(safe or "x", text, 63)


def word(text: str) -> str:
    """Letters, digits and ``-_.``, as task ids of Airflow and names of queues are."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text) or "_"


def unique(
    texts: Sequence[str], make: Callable[[str], str], longest: int, joint: str = "-"
) -> tuple[str, ...]:
    """A name for every text, no two equal; one that had to be cut or that another text has too ends in a hash of the text.

    The same text gets the same name whatever the order of the others, as long as the texts differ.
    """
    made = [make(text) for text in texts]
    taken: dict[str, int] = {}
    for name in made:
        taken[name] = taken.get(name, 0) + 1
    found = [
        name if taken[name] == 1 and len(name) <= longest else _marked(name, text, longest, joint)
        for name, text in zip(made, texts, strict=True)
    ]
    seen: set[str] = set()
    for i, name in enumerate(found):
        number = 2
        while found[i] in seen:
            tail = f"{joint}{number}"
            found[i], number = f"{name[: longest - len(tail)]}{tail}", number + 1
        seen.add(found[i])
    return tuple(found)


def _marked(name: str, text: str, longest: int, joint: str = "-") -> str:
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK]
    stem = name[: longest - _MARK - 1].rstrip("-_.") or "x"
    return f"{stem}{joint}{mark}"


def one_line(text: str) -> str:
    """The text without anything that ends a line or a comment, for remarks."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown.replace("*/", "* /")
