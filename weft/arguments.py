"""Command lines of modules that are run by themselves: what is wrong with a word is one line, exit code 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from weft.errors import InputError


class Arguments(argparse.ArgumentParser):
    """A parser that names the option, what it expects and what came."""

    def error(self, message: str) -> NoReturn:
        line = message.removeprefix("argument ")
        print(f"weft: {line} (see {self.prog} --help)", file=sys.stderr)
        sys.exit(InputError.exit_code)


def whole_number(least: int) -> Callable[[str], int]:
    """Reads a whole number that is at least this."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"expected a whole number >= {least}, got {text!r:.80}")
        return value

    return read
