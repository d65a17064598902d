"""Conditions on an explanation, such as ``spills == 0 and warps_for_90 <= 48``: parsed here, never run as code.

The grammar::

    condition = both {"or" both}
    both      = term {"and" term}
    term      = "not" term | "(" condition ")" | operand OPERATOR operand
    operand   = NAME | WORD | NUMBER [UNIT]
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpudissect.errors import UsageError, unknown_name
from gpudissect.explanation.result import Explanation, GateResult
from gpudissect.explanation.sentences import LATENCY, RESOURCES
from gpudissect.units import BYTE_UNITS, TIME_UNITS, format_bytes, format_ns

MAX_LENGTH = 1000  # characters
MAX_DEPTH = 30  # of parentheses and "not"
Value = float | str
Test = Callable[[Mapping[str, Value]], bool]

_WORD, _NS, _BYTES, _PERCENT, _COUNT = "word", "ns", "B", "%", ""
_NAMES: Mapping[str, tuple[str, Callable[[Explanation], Value | None]]] = {
    "spills": (_BYTES, lambda each: each.stack_bytes),
    "registers": (_COUNT, lambda each: each.registers),
    "shared": (_BYTES, lambda each: each.shared_bytes),
    "blocks": (_COUNT, lambda each: each.point.blocks_per_sm),
    "warps": (_COUNT, lambda each: each.point.warps_per_sm),
    "warps_for_90": (_COUNT, lambda each: each.warps_for_90),
    "occupancy": (_PERCENT, lambda each: 100 * each.point.warps_per_sm / each.max_warps if each.max_warps else None),
    "time": (_NS, lambda each: each.point.predicted),
    "measured": (_NS, lambda each: each.point.measured),
    "error": (_PERCENT, lambda each: None if (error := each.point.error) is None else 100 * abs(error)),
    "critical_path": (_NS, lambda each: each.critical_path),
    "roofline": (_PERCENT, lambda each: 100 * each.point.roofline / each.point.predicted or None),  # 0: none applies
    "limiter": (_WORD, lambda each: each.point.limiter),
}
"""Names in a condition: unit and value. `spills` is local memory of a thread, `roofline` the share of it reached."""
NAMES = tuple(_NAMES)
_MEASURED = ("measured", "error")
NEEDS_TIME = "needs a measured time: run it on the GPU or give a profile recorded on this GPU"
_OPERATORS: Mapping[str, Callable[[Value, Value], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_SCALES = {name: (size, _NS) for size, name in TIME_UNITS} | {name: (size, _BYTES) for size, name in BYTE_UNITS}
_SCALES |= {"B": (1, _BYTES), "%": (1, _PERCENT)}
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d*)?(?:e[+-]?\d+)?)\s*(%|[A-Za-z]+)?|([A-Za-z_]\w*)|(==|!=|<=|>=|[<>()])|(\S))", re.ASCII
)
_KEYWORDS = ("and", "or", "not")


@dataclass(frozen=True)
class Gate:
    """A parsed condition and the names in it."""

    text: str
    names: tuple[str, ...]
    _test: Test

    @property
    def needs_time(self) -> bool:
        """Whether it has a value that only a measured time gives."""
        return any(name in _MEASURED for name in self.names)

    def evaluate(self, explanation: Explanation) -> GateResult:
        """Whether it is true, and the values in it. Raises `UsageError` if a value is not known."""
        values = {name: _value(name, explanation) for name in self.names}
        return GateResult(expression=self.text, is_true=self._test(values), values=values)


def text_of(result: GateResult) -> str:
    """A result in one line: ``gate passed: spills == 0 and limiter == l2 (spills is 0 B, limiter is l2)``."""
    values = ", ".join(f"{name} is {_shown(name, value)}" for name, value in result.values.items())
    return f"gate {'passed' if result.is_true else 'failed'}: {result.expression} ({values})"


def parse_gate(text: str) -> Gate:
    """The condition of a text. Raises `UsageError` with the place of an error, for unknown names and wrong units."""
    if len(text) > MAX_LENGTH:
        raise UsageError(f"a condition has at most {MAX_LENGTH} characters, got {len(text)}")
    parser = _Parser(text)
    test = parser.condition(0)
    if parser.token[0]:
        raise parser.error("'and', 'or' or the end")
    for word in parser.words:
        if word not in (LATENCY, *RESOURCES):
            raise unknown_name("limiter", word, (LATENCY, *RESOURCES))
    return Gate(text, tuple(dict.fromkeys(parser.names)), test)


@dataclass(frozen=True)
class _Operand:
    """A name, a number or a word, with its unit (None: a number without one, of any count)."""

    value: Value
    unit: str | None
    name: str | None = None

    def of(self, values: Mapping[str, Value]) -> Value:
        return self.value if self.name is None else values[self.name]


class _Parser:
    """Reads one token ahead: its text, and number and unit of a number."""

    def __init__(self, text: str) -> None:
        self._text, self._end = text, 0
        self.names, self.words = list[str](), list[str]()
        self.token: tuple[str, float | None, str] = ("", None, "")
        self._next()

    def _next(self) -> None:
        rest = self._text[self._end :]
        self._start = self._end + len(rest) - len(rest.lstrip())
        found = _TOKEN.match(self._text, self._end)
        if found is None:
            self.token = ("", None, "")
            return
        self._end = found.end()
        number, unit, *others = found.groups()
        if number is not None and unit in _KEYWORDS:  # "0 and": no unit
            self._end, unit = found.end(1), None
        self.token = (number, float(number), unit or "") if number else (next(filter(None, others)), None, "")

    def error(self, expected: str) -> UsageError:
        got = repr(self.token[0]) if self.token[0] else "the end"
        return UsageError(f"wrong condition at character {self._start + 1}: expected {expected}, got {got}")

    def condition(self, depth: int) -> Test:
        tests = [self._both(depth)]
        while self._accept("or"):
            tests.append(self._both(depth))
        return lambda values: any(test(values) for test in tests)

    def _both(self, depth: int) -> Test:
        tests = [self._term(depth)]
        while self._accept("and"):
            tests.append(self._term(depth))
        return lambda values: all(test(values) for test in tests)

    def _term(self, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise UsageError(f"a condition has at most {MAX_DEPTH} levels of parentheses")
        if self._accept("not"):
            negated = self._term(depth + 1)
            return lambda values: not negated(values)
        if self._accept("("):
            inside = self.condition(depth + 1)
            if not self._accept(")"):
                raise self.error("')'")
            return inside
        return self._comparison()

    def _comparison(self) -> Test:
        left = self._operand()
        symbol = self.token[0]
        compare = _OPERATORS.get(symbol)
        if compare is None:
            raise self.error(f"one of {' '.join(_OPERATORS)}")
        self._next()
        right = self._operand()
        sides = left, right
        named = next((each for each in sides if each.name is not None), None)
        if named is None:
            word = next((str(each.value) for each in sides if each.unit == _WORD), None)
            raise unknown_name("name in a condition", word, NAMES) if word else self.error("a name in a comparison")
        for each in sides:
            _check_unit(named, each)
        if named.unit == _WORD and symbol not in ("==", "!="):
            raise UsageError(f"{named.name} is a word: compare it with == or !=")
        return lambda values: compare(left.of(values), right.of(values))

    def _operand(self) -> _Operand:
        text, number, unit = self.token
        if (number is None and not text.isidentifier()) or text in _KEYWORDS:
            raise self.error("a name or a number")
        if number is not None and not math.isfinite(number):
            raise self.error("a finite number")
        self._next()
        if number is not None:
            if unit and unit not in _SCALES:
                raise unknown_name("unit", unit, _SCALES)
            scale, kind = _SCALES[unit] if unit else (1, None)
            return _Operand(number * scale, kind)
        if text in _NAMES:
            self.names.append(text)
            return _Operand(0.0, _NAMES[text][0], text)
        self.words.append(text)
        return _Operand(text, _WORD)

    def _accept(self, text: str) -> bool:
        if self.token[0] != text:
            return False
        self._next()
        return True


def _check_unit(named: _Operand, other: _Operand) -> None:
    """Raise `UsageError` if an operand cannot be compared with a name; a time needs its unit.

    A number without a unit counts, or is of bytes or percent. One between 0 and 1 may be meant as a share: refused.
    """
    if named.unit == _PERCENT and other.unit is None and isinstance(other.value, float) and 0 < other.value < 1:
        share, percent = f"{100 * other.value:g}%", f"{other.value:g}%"
        raise UsageError(f"{named.name} is in percent: write {share} or {percent} instead of {other.value:g}")
    if other.unit == named.unit or (other.unit is None and named.unit in (_COUNT, _BYTES, _PERCENT)):
        return
    if other.unit == _WORD and other.name is None:
        raise unknown_name("name in a condition", str(other.value), NAMES)
    if named.unit == _NS and other.unit is None:
        raise UsageError(f"{named.name} needs a unit, such as 12us; got {other.value:g}")
    units = {_NS: "a time such as 12us", _BYTES: "bytes such as 48KiB", _PERCENT: "a percentage such as 50%"}
    expected = units.get(named.unit or "", "a number" if named.unit == _COUNT else "a word such as memory")
    got = other.name or f"{other.value} {other.unit or ''}".rstrip()
    raise UsageError(f"{named.name} is compared with {expected}, got {got}")


def _value(name: str, explanation: Explanation) -> Value:
    value = _NAMES[name][1](explanation)
    if value is None:
        what = NEEDS_TIME if name in _MEASURED else f"cannot be evaluated: {name} of this kernel is not known"
        raise UsageError(f"the condition {what}")
    return value


def _shown(name: str, value: Value) -> str:
    unit = _NAMES[name][0]
    if isinstance(value, str):
        return value
    if unit == _NS:
        return format_ns(value)
    return format_bytes(value) if unit == _BYTES else f"{value:.4g}{' %' if unit == _PERCENT else ''}"
