"""Types of the arguments of the Python functions: what is wrong is named, before anything is done."""

import operator
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any

from gpudissect.errors import UsageError
from gpudissect.printable import brief

MAX_SHOWN = 60  # characters of a wrong argument, in an error
SIZES = "a whole number, or up to three in x, y, z"


def wrong_type(argument: str, value: object, what: str) -> UsageError:
    """The error for an argument that is not `what`."""
    return UsageError(f"{argument} must be {what}, got {brief(repr(value), MAX_SHOWN)}")


def check_type(argument: str, value: object, kinds_of_value: type | UnionType, what: str) -> None:
    """Raise `UsageError`, which names the argument, for a value of another type."""
    if not isinstance(value, kinds_of_value):
        raise wrong_type(argument, value, what)


def names_of(argument: str, names: str | Sequence[str] | None) -> Sequence[str] | None:
    """A text stands for itself, although it is a sequence of letters. Raises `UsageError` for what names nothing."""
    if names is None or isinstance(names, str):
        return None if names is None else [names]
    check_type(argument, names, Iterable, "a name or a list of names")
    names = list(names)
    for each in names:
        check_type(argument, each, str, "a name or a list of names")
    if not names:
        raise UsageError(f"{argument} names nothing, got {names!r}; leave it out for everything")
    return names


def path_of(argument: str, name: object) -> Path:
    """The path of a name. Raises `UsageError` for what names no file."""
    if not isinstance(name, str | Path):
        raise wrong_type(argument, name, "a path")
    if "\0" in str(name):
        raise wrong_type(argument, str(name), "a path, without null characters")
    return Path(name)


def path_or_none(argument: str, name: object) -> Path | None:
    """As `path_of`; None for None."""
    return None if name is None else path_of(argument, name)


def list_of(argument: str, values: object, kind: type | UnionType, what: str) -> list[Any]:
    """The elements of a list or another sequence, all of one kind. Raises `UsageError`, also for a text."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise wrong_type(argument, values, what)
    for each in values:
        check_type(argument, each, kind, what)
    return list(values)


def whole_number(argument: str, value: Any, what: str = "a whole number") -> int:
    """A whole number of Python, numpy or another package. Raises `UsageError`."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise wrong_type(argument, value, what)


def sizes_of(argument: str, value: Any) -> Any:
    """Sizes of a grid or block: a text, a whole number, or several in a list or an array. Raises `UsageError`."""
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "__index__") and not getattr(value, "shape", ()):  # an array of numpy has it too
        return whole_number(argument, value, SIZES)
    if isinstance(value, Set | Mapping | bytes) or not isinstance(value, Iterable):
        raise wrong_type(argument, value, SIZES)
    return tuple(whole_number(argument, each, SIZES) for each in value)


def trips_of(value: Any) -> dict[str, Any] | str | None:
    """Trip counts by loop, as numbers of Python, or a text. Raises `UsageError`."""
    what = "a mapping of loops to trip counts, or 'none'"
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise wrong_type("trips", value, what)
    for name in value:
        check_type("trips", name, str, f"{what}; a loop is a text")
    return {name: _number(number) for name, number in value.items()}


def seconds_of(argument: str, value: Any) -> float | None:
    """A number of seconds, or None. Raises `UsageError`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(argument, value, "a number of seconds")
    return float(value)


def percent_of(argument: str, value: Any) -> float | None:
    """A percentage above 0 and up to 100, or None. Raises `UsageError`."""
    if value is None:
        return None
    what = "a percentage above 0 and up to 100"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise wrong_type(argument, value, what)
    try:
        percent = float(value)
    except (OverflowError, TypeError):
        raise wrong_type(argument, value, what) from None
    if not 0 < percent <= 100:
        raise wrong_type(argument, percent, what)
    return percent


def _number(value: Any) -> Any:
    """A number of Python, from one of numpy or another package; any other value as it is."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return value
    return operator.index(value) if isinstance(value, Integral) else float(value)
