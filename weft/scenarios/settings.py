"""Settings of scenarios: their types and ranges, ``key=value`` on the command line, and sweeps."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from weft.errors import InputError
from weft.tables import did_you_mean as did_you_mean
from weft.tables import is_number

Value = int | float | str | tuple[str, ...]
KINDS = ("number", "whole", "text", "texts", "path")
MOST_CELLS = 10_000
"""A sweep of more cells than this is refused."""

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"\s*({_NUMBER})\s*:\s*({_NUMBER})\s*(?::\s*({_NUMBER})\s*)?")
_OTHER_BASE = re.compile(r"(?<![\w./~+@\"'-])[+-]?0[xob]\w+(?![\w./~+@\"'-])", re.IGNORECASE)
"""A number that TOML would read in another base."""
_WORD_OF_A_LIST = re.compile(
    r"(?<![^\[,\s])(?!(?:true|false|inf|nan)\s*[,\]])(?:\.{1,2}/|[A-Za-z_~/])[\w./~+@-]*(?=\s*[,\]])"
)


@dataclass(frozen=True)
class Setting:
    """One knob of a scenario."""

    name: str
    kind: str
    """number, whole, text, texts (a list of them) or path."""
    default: Value
    doc: str = ""
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    """What a text may be; empty: anything."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(
                f"expected one of {', '.join(KINDS)}, got {self.kind!r}", field=f"settings.{self.name}.type"
            )
        object.__setattr__(self, "default", self.check(self.default))

    def check(self, value: object) -> Value:
        """The value in the setting's type, or an error that says what was expected."""
        if self.kind in ("number", "whole"):
            return self._number(value)
        if self.kind == "texts":
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list | tuple) or not value:
                raise self._refusal(f"a text or a list of texts{self._such_as()}", value)
            return tuple(self._text(one) for one in value)
        return self._text(value)

    def values(self, raw: object) -> tuple[Value, ...]:
        """The values a raw setting stands for: one, or several for a list or ``from:to:step``."""
        if self.kind in ("number", "whole") and isinstance(raw, str) and _RANGE.fullmatch(raw):
            swept: Sequence[object] = expand_range(raw, self.name)
        elif isinstance(raw, list | tuple) and self._is_sweep(raw):
            swept = raw
        else:
            return (self.check(raw),)
        if not swept:
            raise self._refusal("at least one value", raw)
        return tuple(dict.fromkeys(self.check(one) for one in swept))

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {
            "name": self.name,
            "type": self.kind,
            "default": list(self.default) if isinstance(self.default, tuple) else self.default,
            "least": self.least,
            "most": self.most,
            "choices": list(self.choices),
            "doc": self.doc,
        }

    def _is_sweep(self, raw: Sequence[object]) -> bool:
        return self.kind != "texts" or any(isinstance(one, list | tuple) for one in raw)

    def _number(self, value: object) -> int | float:
        expected = ("a whole number" if self.kind == "whole" else "a number") + self._limits()
        low = -math.inf if self.least is None else self.least
        high = math.inf if self.most is None else self.most
        if not is_number(value) or not low <= value <= high or (self.kind == "whole" and value != int(value)):
            raise self._refusal(expected, value)
        return int(value) if self.kind == "whole" else float(value)

    def _limits(self) -> str:
        if self.least is not None and self.least == self.most:
            return f" equal to {self.least:g}"
        low = "" if self.least is None else f" >= {self.least:g}"
        high = "" if self.most is None else f" <= {self.most:g}"
        return f"{low} and{high}" if low and high else low or high

    def _such_as(self) -> str:
        """An example, once there is a default."""
        return f" such as {self.default[0]!r}" if isinstance(self.default, tuple) and self.default else ""

    def _text(self, value: object) -> str:
        if not isinstance(value, str):
            raise self._refusal("a text", value)
        if self.choices and value not in self.choices:
            hint = did_you_mean(value, self.choices)
            raise self._refusal(f"one of {', '.join(self.choices)}", value, hint)
        return value

    def _refusal(self, expected: str, value: object, hint: str = "") -> InputError:
        return InputError(f"expected {expected}, got {value!r}{hint}", field=f"settings.{self.name}")


def expand_range(text: str, name: str) -> list[int | float]:
    """The numbers of ``from:to`` or ``from:to:step``, both ends included."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise InputError(f"expected from:to:step, got {text!r}", field=f"settings.{name}")
    start, stop, step = (Decimal(part or "1") for part in match.groups())
    if step <= 0 or stop < start:
        raise InputError(
            f"expected from:to:step with from <= to and step > 0, got {text!r}", field=f"settings.{name}"
        )
    count = int((stop - start) / step) + 1
    if count > MOST_CELLS:
        raise InputError(f"expected at most {MOST_CELLS} values, got {count}", field=f"settings.{name}")
    numbers = [start + k * step for k in range(count)]
    return [int(number) if number == int(number) else float(number) for number in numbers]


def parse_assignments(texts: Sequence[str]) -> dict[str, object]:
    """``key=value`` texts as raw settings: values are TOML, plain words, or ``from:to:step``."""
    found: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key or not value.strip():
            raise InputError(f"expected key=value, got {text!r}", field="--set")
        if key in found:
            raise InputError(f"{key} is given twice", field="--set")
        found[key] = _parse_value(value.strip(), key)
    return found


def _quoted(text: str) -> str:
    """A list with its plain words in quotes: ``[start, end]`` means ``["start", "end"]``."""
    if not text.startswith("[") or '"' in text or "'" in text:
        return text
    return _WORD_OF_A_LIST.sub(r'"\g<0>"', text)


def _parse_value(text: str, key: str) -> object:
    if _RANGE.fullmatch(text):
        return text
    if re.fullmatch(r"0x\d+(x\d+)*", text):  # units of resources, not a number to the base of sixteen
        return text
    if other := _OTHER_BASE.search(text):
        raise InputError(f"expected a decimal number, got {other[0]!r:.80}", field=f"--set {key}")
    if re.fullmatch(r"[+-]?\.\d+", text):  # which TOML does not know
        return float(text)
    try:
        document = tomllib.loads(f"value = {_quoted(text)}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        if re.fullmatch(r"[\w./~+@: -]+", text):
            return text
        several = f"; several values are a list: '{key}=[{text}]'" if "," in text else ""
        if text.startswith("["):
            several = f'; put texts in quotes: \'{key}=["a", "b"]\''
        raise InputError(
            f"expected a TOML value or from:to:step, got {text!r}{several}", field=f"--set {key}"
        ) from None
    if list(document) != ["value"]:
        raise InputError(f"expected one TOML value, got {text!r}", field=f"--set {key}")
    return document["value"]


def grid(settings: Sequence[Setting], given: Mapping[str, object]) -> list[tuple[str, dict[str, Value]]]:
    """Label and full settings of every cell; the label names what is swept, empty if nothing is."""
    known = {setting.name: setting for setting in settings}
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) or f" (there are {', '.join(known)})"
            raise InputError(f"no setting {key!r}{hint}", field=f"settings.{key}")
    values = {key: known[key].values(raw) for key, raw in given.items()}
    count = math.prod(len(one) for one in values.values())
    if count > MOST_CELLS:
        raise InputError(f"expected at most {MOST_CELLS} cells, got {count}", field="settings")
    default = {setting.name: setting.default for setting in settings}
    swept = [key for key, one in values.items() if len(one) > 1]
    cells = []
    for combination in itertools.product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        label = ",".join(f"{key}={_shown(chosen[key])}" for key in swept)
        cells.append((label, default | chosen))
    return cells


def _shown(value: Value) -> str:
    if isinstance(value, tuple):
        return "+".join(value)
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
