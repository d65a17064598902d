"""Values of a GPU file: numbers with bounds, `Sourced` values, and errors in one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Generic, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from gpudissect.errors import suggest

Size = Annotated[int, Field(strict=True, ge=1, le=2**44)]  # bytes
Count = Annotated[int, Field(strict=True, ge=1, le=2**20)]
Position = Annotated[int, Field(strict=True, ge=0, le=2**28)]
Bit = Annotated[int, Field(strict=True, ge=0, le=47)]  # of a byte address
Number = Annotated[float, Field(strict=True, ge=0, le=1e18, allow_inf_nan=False)]
Cycles = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
Hertz = Annotated[float, Field(strict=True, ge=1e6, le=1e11, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=400)]
T = TypeVar("T")

MAX_SHOWN = 70  # characters of a wrong value that a message repeats
MAX_NAMES = 6  # shown of many known names
_REJECTED, _NAME = "catalogue", "name"  # types of the errors that `wrong` and `name_among` raise


def wrong(field: str, got: object, allowed: str) -> NoReturn:
    """Reject `field` (dotted, relative to the table being checked)."""
    context = {"field": field, "got": shorten(repr(got)), "allowed": allowed}
    raise PydanticCustomError(_REJECTED, "got {got}, allowed: {allowed}", context)


def name_among(names: Iterable[str]) -> AfterValidator:
    """A validator of names. A file may have many wrong ones, so `first_problem` looks for similar ones."""
    known = tuple(names)

    def check(name: str) -> str:
        if name not in known:
            raise PydanticCustomError(_NAME, "must be a known name", {"known": known})
        return name

    return AfterValidator(check)


def first_problem(error: ValidationError) -> str:
    """The first wrong field, the value given and what is allowed, in one line."""
    problems = error.errors(include_url=False)
    first = problems[0]
    place = [*first["loc"], first["ctx"]["field"]] if first["type"] == _REJECTED else first["loc"]
    what = first["msg"]
    if first["type"] == _NAME:
        known = first["ctx"]["known"]
        similar = suggest(str(first["input"]), known, count=MAX_NAMES, cutoff=0.4) or known[:MAX_NAMES]
        what = f"must be one of {', '.join(similar)}, ..."
    text = f"{'.'.join(shorten(str(part)) for part in place if part != '[key]')}: {what}"
    if first["type"] not in (_REJECTED, "missing"):
        text += f", got {_repr(first['input'])}"
    return text if len(problems) == 1 else f"{text} (and {len(problems) - 1} more)"


def shorten(text: str) -> str:
    """Cut to a length that fits a line, without line breaks."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _repr(value: Any) -> str:
    try:
        return shorten(repr(value))
    except (ValueError, RecursionError):  # too many digits, or nested too deeply
        return f"{type(value).__name__} that is too long"


class Table(BaseModel):
    """A table of the file: frozen; an unknown field is an error that lists the known ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict | cls):
            message = "a table is needed; a number is { value = ..., source = ... }"
            raise PydanticCustomError("table", message)
        for field in data if isinstance(data, dict) else ():
            if field not in cls.model_fields:
                known = suggest(str(field)[:MAX_SHOWN], cls.model_fields) or cls.model_fields
                context = {"field": str(field), "known": ", ".join(known)}
                raise PydanticCustomError(_REJECTED, "no such field, known here: {known}", context)
        return data


class Sourced(Table, Generic[T]):
    """A value, as a simulated GPU has and a measurement should find it, with exactly one of `source` and `assumed`."""

    value: T
    source: Text | None = None  # document and table, section or figure
    assumed: Text | None = None  # why this value was chosen where nothing is published
    printed: Number | None = None  # by the source, in the unit of `value`, where that is known to be off
    low: Number | None = None  # the bracket if the source gives a range; one alone is an open end ("> 62.5 KiB")
    high: Number | None = None
    note: Text | None = None  # what a careful reader must know
    simulated: bool = True  # false for a number of the real GPU that this file's structure lacks (in [published] only)

    @model_validator(mode="after")
    def _check_source(self) -> Sourced[T]:
        if (self.source is None) == (self.assumed is None):
            given = "neither" if self.source is None else "both"
            wrong("source", given, "exactly one of source (document and place) and assumed (why)")
        if self.source is None and (self.printed, self.low, self.high) != (None, None, None):
            wrong("assumed", self.assumed, "printed, low and high belong to a value with a source")
        if isinstance(self.value, int | float):
            if self.low is not None and self.value < self.low:
                wrong("value", self.value, f"at least low = {self.low:g}")
            if self.high is not None and self.value > self.high:
                wrong("value", self.value, f"at most high = {self.high:g}")
        return self
