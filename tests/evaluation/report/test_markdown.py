"""The Markdown twin: tables and words, with nothing in them that Markdown reads as a sign."""

from __future__ import annotations

from report_examples import HOSTILE

from weft.evaluation.report.blocks import Code, Figure, Report, Section, Table, Text
from weft.evaluation.report.markdown import plain, render


def test_table_is_marked_up_with_numbers_right_and_best_bold():
    table = Table(("a", "b"), (("x", "1"), ("y", "2")), (1,), "Times", ((1, 1),))
    text = render(Report("t", (), (Section("s", (table,)),)))
    assert text.endswith("Times\n\n| a | b |\n| --- | ---: |\n| x | 1 |\n| y | **2** |\n")


def test_headline_is_a_list_and_code_a_block():
    text = render(Report("t", ("one", "two"), (Section("s", (Code(("weft report x",)),)),)))
    assert "- one\n- two" in text
    assert "```sh\nweft report x\n```" in text


def test_section_of_drawings_alone_is_left_out():
    assert "## s" not in render(Report("t", (), (Section("s", (Figure("<svg/>", "c", "a"),)),)))


def test_what_is_said_of_drawings_is_left_out_with_them():
    """A heading above nothing is no help."""
    figure, lead = Figure("<svg/>", "c", "a"), Text(("all on one time axis",))
    assert "## s" not in render(Report("t", (), (Section("s", (lead, figure)),)))
    table = Table(("a",), (("1",),), (0,))
    assert "## s" in render(Report("t", (), (Section("s", (lead, figure, table)),)))


def test_plain_text_escapes_signs():
    assert plain("a_b|c<d>\n*e* _f_") == "a_b\\|c&lt;d&gt; \\*e\\* \\_f\\_"
    assert "<script" not in render(Report(HOSTILE, (HOSTILE,), (Section("s", (Text((HOSTILE,)),)),)))
