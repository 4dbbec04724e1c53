"""Directed graphs in the DOT language, read and written.

Nodes: ``work`` (or ``weight``, ``size``), ``kind``, ``slots``, ``memory``; a file without any run time
gets 1 for every task. Edges: ``data`` (or ``size``, ``weight``) in bytes, ``probability``, ``branch``.
Other attributes are passed over; subgraphs only group.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from weft.errors import InputError
from weft.io.columns import codes
from weft.io.formats import Loaded
from weft.io.sources import decode, located, shown
from weft.model.graph import ALWAYS, TaskGraph

_HEAD = re.compile(
    rb"(?>\s+|//[^\n]*|#[^\n]*|/\*.*?\*/)*+(?:strict\s+)?(?:di)?graph\b[^=]", re.DOTALL | re.IGNORECASE
)
_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|^\#[^\n]*)
    |"(?P<quoted>(?:[^"\\]|\\.)*)"
    |(?P<bare>-?(?:\.\d+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|[^\W\d]\w*)
    |(?P<mark>->|--|[{}\[\]=;,:])
    |(?P<bad>.)""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_NAME, _END = "name", "end"
_MAX_DEPTH = 100

Attributes = dict[str, tuple[str, int]]  # name: value, position in the file


@dataclass
class _Graph:
    """What the statements said, in order of first mention."""

    name: str = ""
    nodes: dict[str, Attributes] = field(default_factory=dict)
    edges: list[tuple[str, str, Attributes]] = field(default_factory=list)
    is_strict: bool = False


def detect(head: bytes, path: Path) -> bool:
    """Whether the content starts with ``digraph`` or ``graph`` after comments."""
    return _HEAD.match(head.removeprefix(b"\xef\xbb\xbf")) is not None


def read(data: bytes, path: Path) -> Loaded:
    """The task graph of a DOT file."""
    with located(path, "edges"):
        text = decode(data, path)
        return Loaded(graph=_task_graph(_Parser(text).graph(), path.stem, text))


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _Parser:
    """Recursive descent over the tokens, held as three columns; the kind of a mark is the mark itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[str] = []
        self.words: list[str] = []
        self.positions: list[int] = []
        self.at = 0
        self.depth = 0
        self.result = _Graph()
        self._split()

    def _split(self) -> None:
        for found in _TOKEN.finditer(self.text):
            group = found.lastgroup
            if group == "space":
                continue
            word = found[group or 0]
            if group == "bad":
                what = "a text that does not end" if word == '"' else shown(word)
                raise InputError(f"expected DOT, got {what}", line=_line(self.text, found.start()))
            if group == "quoted":
                word = word.replace('\\"', '"').replace("\\\\", "\\")
            self.kinds.append(word if group == "mark" else _NAME)
            self.words.append(word)
            self.positions.append(found.start())
        self.kinds += [_END, _END]
        self.words += ["", ""]
        self.positions += [len(self.text.rstrip())] * 2

    def graph(self) -> _Graph:
        """The whole file: one digraph."""
        if self._is_word("strict"):
            self.at += 1
            self.result.is_strict = True
        if not self._is_word("digraph"):
            self._refuse("digraph")
        self.at += 1
        if self.kinds[self.at] == _NAME:
            self.result.name = self._take(_NAME)
        self._block({}, {})
        if self.kinds[self.at] != _END:
            self._refuse("the end of the file after the graph")
        return self.result

    def _block(self, node: Attributes, edge: Attributes) -> list[str]:
        """Statements in braces; the nodes they mention."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._refuse(f"at most {_MAX_DEPTH} nested subgraphs")
        self._take("{")
        mentioned: list[str] = []
        node, edge = dict(node), dict(edge)
        while self.kinds[self.at] != "}":
            mentioned += self._statement(node, edge)
            while self.kinds[self.at] in (";", ","):
                self.at += 1
        self.at += 1
        self.depth -= 1
        return list(dict.fromkeys(mentioned))

    def _statement(self, node: Attributes, edge: Attributes) -> list[str]:
        follows = self.kinds[self.at + 1]
        if follows == "[":
            word = self.words[self.at].lower()
            if word in ("node", "edge", "graph"):
                self.at += 1
                defaults = {"node": node, "edge": edge, "graph": {}}[word]
                defaults |= self._attributes()
                return []
        if follows == "=":
            self.at += 2
            self._take(_NAME)
            return []
        return self._chain(node, edge)

    def _chain(self, node: Attributes, edge: Attributes) -> list[str]:
        """A node, or a chain a -> b -> {c d} with attributes for all its edges."""
        ends = [self._end(node, edge)]
        while self.kinds[self.at] in ("->", "--"):
            if self.kinds[self.at] == "--":
                self._refuse("'->' between the nodes of a digraph")
            self.at += 1
            ends.append(self._end(node, edge))
        attributes = self._attributes()
        if len(ends) == 1:
            for name in ends[0]:
                self.result.nodes[name] |= attributes
        for sources, targets in pairwise(ends):
            self.result.edges += [(s, t, edge | attributes) for s in sources for t in targets]
        return [name for end in ends for name in end]

    def _end(self, node: Attributes, edge: Attributes) -> list[str]:
        if self._is_word("subgraph"):
            self.at += 1
            if self.kinds[self.at] == _NAME:
                self.at += 1
        if self.kinds[self.at] == "{":
            return self._block(node, edge)
        name = self._take(_NAME, "a node, an edge or '}'")
        while self.kinds[self.at] == ":":
            self.at += 1
            self._take(_NAME)
        if name not in self.result.nodes:
            self.result.nodes[name] = dict(node)
        return [name]

    def _attributes(self) -> Attributes:
        found: Attributes = {}
        while self.kinds[self.at] == "[":
            self.at += 1
            while self.kinds[self.at] != "]":
                position = self.positions[self.at]
                key = self._take(_NAME, "an attribute or ']'")
                self._take("=")
                found[key.lower()] = (self._take(_NAME, "a value"), position)
                if self.kinds[self.at] in (",", ";"):
                    self.at += 1
            self.at += 1
        return found

    def _is_word(self, word: str) -> bool:
        return self.kinds[self.at] == _NAME and self.words[self.at].lower() == word

    def _take(self, kind: str, expected: str = "a name") -> str:
        if self.kinds[self.at] != kind:
            self._refuse(expected if kind == _NAME else repr(kind))
        self.at += 1
        return self.words[self.at - 1]

    def _refuse(self, expected: str) -> None:
        got = "the end of the file" if self.kinds[self.at] == _END else shown(self.words[self.at])
        line = _line(self.text, self.positions[self.at])
        raise InputError(f"expected {expected}, got {got}", line=line)


def _task_graph(parsed: _Graph, name: str, text: str) -> TaskGraph:
    nodes = list(parsed.nodes)
    if not nodes:
        raise InputError("no tasks", line=1)
    index = {node: i for i, node in enumerate(nodes)}
    edges = parsed.edges
    if parsed.is_strict:
        edges = [(s, t, a) for (s, t), a in {(s, t): a for s, t, a in edges}.items()]
    tasks = [(a, f"tasks.{node}") for node, a in parsed.nodes.items()]
    links = [(a, f"edges.{s} -> {t}") for s, t, a in edges]
    kinds, kind = codes([a.get("kind", ("task", 0))[0] or "task" for a in parsed.nodes.values()])
    return TaskGraph(
        _work(tasks, text),
        [index[s] for s, *_ in edges],
        [index[t] for _, t, _ in edges],
        _column(links, ("data", "size", "weight"), 0.0, text),
        names=nodes,
        kinds=kinds,
        kind=kind,
        slots=_column(tasks, ("slots",), 1, text),
        memory=_column(tasks, ("memory",), 0.0, text),
        probability=_column(links, ("probability",), 1.0, text),
        branch=_column(links, ("branch",), ALWAYS, text),
        name=parsed.name or name,
    )


Places = Sequence[tuple[Attributes, str]]


def _work(tasks: Places, text: str) -> list[float]:
    keys = ("work", "weight", "size")
    has_work = [any(key in attributes for key in keys) for attributes, _ in tasks]
    if any(has_work) and not all(has_work):
        place = tasks[has_work.index(False)][1]
        raise InputError("expected a work or weight like other nodes have, got nothing", field=place)
    return _column(tasks, keys, 1.0, text)


def _column(places: Places, keys: Sequence[str], default: float, text: str) -> list[float]:
    """The first of these attributes of every node or edge, as a number."""
    column = []
    for attributes, place in places:
        key = next((key for key in keys if key in attributes), None)
        column.append(default if key is None else _number(attributes[key], f"{place}.{key}", text))
    return column


def _number(given: tuple[str, int], place: str, text: str) -> float:
    word, position = given
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        line = _line(text, position)
        raise InputError(f"expected a finite number >= 0, got {shown(word)}", field=place, line=line)
    return value


def dump(graph: TaskGraph) -> bytes:
    """The graph in the DOT language."""
    if np.isnan(graph.work).any():
        at = int(np.argmax(np.isnan(graph.work)))
        raise InputError("DOT needs one run time per task", field=f"tasks.{graph.names[at]}.work")
    lines = [f"digraph {_quoted(graph.name)} {{"]
    for task in graph.tasks():
        extra = f", kind={_quoted(task.kind)}" if graph.kinds != ("task",) else ""
        extra += f", slots={task.slots}" if task.slots != 1 else ""
        extra += f", memory={task.memory!r}" if task.memory else ""
        lines.append(f"  {_quoted(task.name)} [work={task.work!r}{extra}];")
    for edge in graph.edges():
        extra = f", branch={edge.branch}, probability={edge.probability!r}" if edge.branch != ALWAYS else ""
        lines.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [data={edge.data!r}{extra}];")
    return "\n".join([*lines, "}", ""]).encode("utf-8")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
