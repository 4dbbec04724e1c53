"""Words for numbers and lists."""

from __future__ import annotations

import pytest

from weft.wording import listed


@pytest.mark.parametrize(
    ("words", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_lists_end_with_and(words: list[str], text: str):
    assert listed(words) == text
