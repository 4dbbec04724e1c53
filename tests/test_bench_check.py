"""The history of ratios and its judge: three drops in a row fail, nothing else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import check
from benchmarks._history import Entry, append, judge, read_history
from benchmarks._ratios import Ratio, collected, report


def entries(*values: float | None, share: float = 0.8) -> list[Entry]:
    """One entry per value of the ratio ``speed``; None: it was left out."""
    return [
        Entry(
            "2026-01-01T00:00:00Z",
            f"c{k}",
            "machine",
            {} if value is None else {"speed": Ratio(value, share)},
        )
        for k, value in enumerate(values)
    ]


def drops(*values: float | None) -> int:
    (verdict,) = judge(entries(*values))
    return verdict.drops


def test_judge_of_no_history_says_nothing() -> None:
    assert judge([]) == []


@pytest.mark.parametrize("values", [(10,), (10, 1), (10, 10, 1)])
def test_judge_leaves_first_runs_alone(values: tuple[float, ...]) -> None:
    (verdict,) = judge(entries(*values))
    assert (verdict.usual, verdict.drops) == (None, 0)


ROWS = [
    ((10, 10, 10, 7), 1),
    ((10, 10, 10, 7, 7), 2),
    ((10, 10, 10, 7, 7, 7), 3),
    ((10, 10, 10, 7, 7, 7, 7), 4),
    ((10, 10, 10, 7, 7, 10), 0),
    ((10, 10, 10, 7, 7, 10, 7), 1),
    ((10, 10, 10, 8.1, 8.1, 8.1), 0),
    ((10, 10, 10, 7, None, 7, 7), 3),
    ((10, 11, 9, 30, 30, 30), 0),
]


@pytest.mark.parametrize(("values", "expected"), ROWS)
def test_judge_counts_drops_in_a_row(values: tuple[float | None, ...], expected: int) -> None:
    assert drops(*values) == expected


def test_judge_fails_at_the_third_drop() -> None:
    failed = [judge(entries(10, 10, 10, *[7] * k))[0].is_failed for k in range(1, 5)]
    assert failed == [False, False, True, True]


def test_judge_compares_with_the_median_before_the_row_of_drops() -> None:
    (verdict,) = judge(entries(8, 10, 90, 1, 1))
    assert (verdict.usual, verdict.drops) == (10, 2)


def test_judge_uses_the_share_of_the_ratio() -> None:
    strict = entries(10, 10, 10, 9.8, share=0.99)
    assert judge(strict)[0].drops == 1


def test_judge_starts_again_at_an_accepted_entry() -> None:
    first = entries(10, 10, 10, 7, 7)
    accepted = Entry("2026-01-02T00:00:00Z", "c", "machine", {"speed": Ratio(7)}, "another peer")
    assert judge([*first, accepted])[0].drops == 0
    assert judge([*first, accepted, *entries(7, 7, 5)])[0].usual == 7


def test_judge_looks_at_each_ratio_alone() -> None:
    rows = [Entry("d", "c", "m", {"a": Ratio(10), "b": Ratio(b)}) for b in (10, 10, 10, 1, 1, 1)]
    assert {verdict.name: verdict.drops for verdict in judge(rows)} == {"a": 0, "b": 3}


# -- the file ---------------------------------------------------------------------------------------


def test_history_reads_what_was_appended(tmp_path: Path) -> None:
    written = [*entries(10, 9), Entry("d", "c", "m", {}, "why")]
    for entry in written:
        append(entry, tmp_path / "history.jsonl")
    assert read_history(tmp_path / "history.jsonl") == written


def test_history_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_history(tmp_path / "history.jsonl") == []


HEAD = '"date": "d", "commit": "c", "machine": "m"'
DAMAGED = [
    ('{"date": "d", "comm', "history.jsonl:2: expected a JSON object"),
    ("[]", "history.jsonl:2: expected a JSON object, got '[]'"),
    ("", "history.jsonl:2: expected a JSON object, got ''"),
    (f"{{{HEAD}}}", "history.jsonl:2: ratios: expected an object, got None"),
    ('{"ratios": {}}', "history.jsonl:2: date: expected a text, got ''"),
    (
        f'{{{HEAD}, "ratios": {{"a": 3}}}}',
        "history.jsonl:2: ratios.a: expected a value and a share > 0, got 3",
    ),
    (
        f'{{{HEAD}, "ratios": {{"a": {{"value": NaN, "share": 1}}}}}}',
        "ratios.a: expected a value and a share",
    ),
    (
        f'{{{HEAD}, "ratios": {{"a": {{"value": true, "share": 1}}}}}}',
        "ratios.a: expected a value and a share",
    ),
]


@pytest.mark.parametrize(("line", "message"), DAMAGED)
def test_check_refuses_a_damaged_history_before_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    path = tmp_path / "history.jsonl"
    text = f"{entries(10)[0].to_line()}{line}\n{entries(10)[0].to_line()}"
    path.write_text(text)
    assert check.main(["--history", str(path)]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert path.read_text() == text


# -- runs -------------------------------------------------------------------------------------------


@pytest.fixture
def run_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """Runs the check on one benchmark that reports ``speed`` with this value."""
    monkeypatch.setattr(check, "RUNS", {"toy": ("--fast",)})

    def run(value: float, *words: str) -> int:
        toy = SimpleNamespace(main=lambda arguments: report("speed", value))
        monkeypatch.setattr(check.importlib, "import_module", lambda name: toy)
        return check.main(["--history", str(tmp_path / "history.jsonl"), *words])

    return run


def test_check_fails_only_after_three_drops(run_check: Callable[..., int], tmp_path: Path) -> None:
    assert [run_check(value) for value in (10, 10, 10, 7, 7, 7, 10)] == [0, 0, 0, 0, 0, 1, 0]
    history = read_history(tmp_path / "history.jsonl")
    assert [entry.ratios["speed"].value for entry in history] == [10, 10, 10, 7, 7, 7, 10]
    assert all(entry.date and entry.commit and entry.machine for entry in history)


def test_check_judges_without_running(run_check: Callable[..., int], tmp_path: Path) -> None:
    for value in (10, 10, 10, 7, 7, 7):
        run_check(value)
    before = (tmp_path / "history.jsonl").read_bytes()
    assert run_check(10, "--judge") == 1
    assert (tmp_path / "history.jsonl").read_bytes() == before


def test_check_accept_makes_a_new_normal(run_check: Callable[..., int], tmp_path: Path) -> None:
    for value in (10, 10, 10, 7, 7):
        run_check(value)
    assert run_check(7, "--accept", "another machine") == 0
    assert read_history(tmp_path / "history.jsonl")[-1].accepted == "another machine"


def test_check_leaves_out_what_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(check.importlib, "import_module", missing)
    assert check.main(["--history", str(tmp_path / "history.jsonl"), "--only", "saga"]) == 0
    assert "saga left out: No module named 'benchmarks.saga'" in capsys.readouterr().out
    assert read_history(tmp_path / "history.jsonl")[0].ratios == {}


def test_report_without_a_collector_does_nothing() -> None:
    report("speed", 1.0)
    with collected() as found:
        pass
    assert found == {}


def test_report_leaves_out_what_is_not_finite() -> None:
    with collected() as found:
        report("speed", float("inf"))
        report("size", 1.23456789)
    assert found == {"size": Ratio(1.23457)}


def test_report_refuses_a_name_twice() -> None:
    with collected(), pytest.raises(ValueError, match="'speed' is reported twice"):
        for _ in range(2):
            report("speed", 1.0)


def test_committed_history_can_be_read() -> None:
    assert all(entry.ratios for entry in read_history(check.HISTORY))


def test_history_left_without_a_final_newline_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    first, second = entries(1.0, 2.0)
    path.write_text(first.to_line().rstrip("\n"), "utf-8")
    append(second, path)
    assert read_history(path) == [first, second]
