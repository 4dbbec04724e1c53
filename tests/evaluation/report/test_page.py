"""The HTML page: whole in itself, and nothing from a file becomes script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
from report_examples import HOSTILE

from weft.evaluation.report.blocks import (
    BigTable,
    Code,
    Figure,
    Figures,
    Gantt,
    Panel,
    Report,
    Section,
    Table,
    Text,
)
from weft.evaluation.report.page import gantt_data, packed, render, script_json

PANEL = Panel(
    title=HOSTILE,
    lanes=(HOSTILE, "gpu-0"),
    lane=np.array([0, 1]),
    low=np.zeros(2),
    high=np.ones(2),
    start=np.array([0.0, 1.5]),
    finish=np.array([1.0, 2.5]),
    kind=np.array([0, 0]),
    is_copy=np.array([0, 1]),
    names=(HOSTILE, "b"),
    size=np.array([1, 3]),
    busy=(0.5, 1.0),
    bound=1.0,
)
REPORT = Report(
    HOSTILE,
    (HOSTILE,),
    (
        Section(
            HOSTILE,
            (
                Text((HOSTILE,)),
                Text((HOSTILE,), is_list=True),
                Table((HOSTILE,), ((HOSTILE,),), caption=HOSTILE, strong=((0, 0),)),
                BigTable((HOSTILE, "n"), ([HOSTILE, "b"], np.array([1.0, np.nan])), HOSTILE),
                Figure("<svg></svg>", HOSTILE, HOSTILE),
                Figures(("<svg></svg>",), HOSTILE, HOSTILE),
                Gantt((PANEL,), (HOSTILE,), HOSTILE, HOSTILE),
                Code((HOSTILE,)),
            ),
        ),
    ),
)


class Scripts(HTMLParser):
    """Collects scripts that run, their hashes, and everything that could load or run more."""

    def __init__(self) -> None:
        super().__init__()
        self.hashes: list[str] = []
        self.suspicious: list[str] = []
        self._runs = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self._runs = tag == "script" and found.get("type") != "application/json"
        is_loading = any(key in found for key in ("src", "srcset", "onerror", "onload"))
        if tag in ("img", "iframe", "object", "embed") or is_loading:
            self.suspicious.append(tag)
        if tag == "link" and found.get("href") != "data:,":
            self.suspicious.append(tag)

    def handle_data(self, data: str) -> None:
        if self._runs:
            self.hashes.append(base64.b64encode(hashlib.sha256(data.encode()).digest()).decode())
            self._runs = False


def parsed() -> Scripts:
    scripts = Scripts()
    scripts.feed(render(REPORT))
    return scripts


def test_page_runs_only_scripts_that_its_policy_names():
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', render(REPORT))
    assert policy is not None
    for one in parsed().hashes:
        assert f"'sha256-{one}'" in policy[1]
    assert "default-src 'none'" in policy[1]


def test_page_escapes_names_from_files():
    page = render(REPORT)
    assert "window.hacked=1</script>" not in page
    assert "<img" not in page
    assert parsed().suspicious == []


def test_page_repeats():
    assert render(REPORT) == render(REPORT)


def test_page_names_no_address():
    page = re.sub(r'xmlns="[^"]+"', "", render(REPORT))
    assert re.search(r"https?://|url\(|@import", page) is None


def test_script_json_cannot_end_its_block():
    text = script_json({"a": "</script><!--&"})
    assert "<" not in text and "&" not in text
    assert json.loads(text) == {"a": "</script><!--&"}


def test_gantt_data_packs_columns():
    panel = gantt_data(Gantt((PANEL,), ("k",), "s", ""))["panels"][0]  # type: ignore[index]
    assert np.frombuffer(base64.b64decode(panel["start"]), "<f8").tolist() == [0.0, 1.5]
    assert np.frombuffer(base64.b64decode(panel["size"]), "<u4").tolist() == [1, 3]


def test_gantt_data_names_the_looks_of_its_kinds():
    few, many = (
        gantt_data(Gantt((PANEL,), tuple(f"k{i}" for i in range(n)), "s", ""))["looks"] for n in (9, 40)
    )
    assert (len(few), few[8]["hatch"], few[0]["light_ink"]) == (9, 1, "#000000")  # type: ignore[arg-type,index]
    assert len(many) == 33  # type: ignore[arg-type]


def test_packed_columns_are_small_and_little_endian():
    assert base64.b64decode(packed([1, 258], "<u2")) == b"\x01\x00\x02\x01"


def test_anchors_of_equal_titles_differ():
    twice = Report("t", (), (Section("A b", ()), Section("A b", ())))
    assert re.findall(r'section id="([^"]+)"', render(twice)) == ["a-b", "a-b--2"]
