"""What tests of the command line share: one command in this process, and what it did."""

from __future__ import annotations

import json
from typing import NamedTuple, Protocol

import pytest


class Ran(NamedTuple):
    """What one command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        return json.loads(self.out, parse_constant=pytest.fail)


class Weft(Protocol):
    def __call__(self, *words: str) -> Ran: ...
