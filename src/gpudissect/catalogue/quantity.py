"""The words of a GPU file: numbers with bounds, and `Sourced`, a value that says where it is from."""

from __future__ import annotations

from typing import Annotated, Any, Generic, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

Size = Annotated[int, Field(strict=True, ge=1, le=2**44)]  # bytes
Count = Annotated[int, Field(strict=True, ge=1, le=2**20)]
Position = Annotated[int, Field(strict=True, ge=0, le=2**28)]
Bit = Annotated[int, Field(strict=True, ge=0, le=47)]  # of a byte address
Number = Annotated[float, Field(strict=True, ge=0, le=1e18, allow_inf_nan=False)]
Cycles = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
Hertz = Annotated[float, Field(strict=True, ge=1e6, le=1e11, allow_inf_nan=False)]
Text = Annotated[str, Field(strict=True, min_length=1, max_length=400)]
T = TypeVar("T")


def wrong(field: str, got: object, allowed: str) -> NoReturn:
    """Reject `field` (dotted, relative to the table being checked): what was got, what is allowed."""
    raise PydanticCustomError(
        "catalogue", "{field}: got {got}, {allowed}", {"field": field, "got": repr(got), "allowed": allowed}
    )


class Table(BaseModel):
    """A table of the file: frozen, and a field it does not know is an error that lists those it does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known_fields_only(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for field in data:
                if field not in cls.model_fields:
                    known = ", ".join(cls.model_fields)
                    raise PydanticCustomError("unknown", "{field}", {"field": str(field), "known": known})
        return data


class Sourced(Table, Generic[T]):
    """A value and where it is from: exactly one of `source` (document and place) and `assumed` (why, in words).

    Attributes:
        value: what the simulated GPU is built with, and what a measurement should find.
        source: document and table, section or figure.
        assumed: why this value was chosen where nothing is published.
        printed: what the source printed, in the unit of `value`, where that is known to be off.
        low, high: the bracket where the source gives a range; one alone is an open end ("> 62.5 KiB").
        note: what a careful reader must know.
        simulated: false for a number of the real GPU that this file's structure does not have (in [published] only).

    """

    value: T
    source: Text | None = None
    assumed: Text | None = None
    printed: Number | None = None
    low: Number | None = None
    high: Number | None = None
    note: Text | None = None
    simulated: bool = True

    @model_validator(mode="after")
    def _says_where_from(self) -> Sourced[T]:
        if (self.source is None) == (self.assumed is None):
            given = "neither" if self.source is None else "both"
            wrong("source", given, "give exactly one of source (document and place) and assumed (why)")
        if self.source is None and (self.printed, self.low, self.high) != (None, None, None):
            wrong("assumed", self.assumed, "printed, low and high belong to a value with a source")
        if isinstance(self.value, int | float):
            if self.low is not None and self.value < self.low:
                wrong("value", self.value, f"at least low = {self.low:g}")
            if self.high is not None and self.value > self.high:
                wrong("value", self.value, f"at most high = {self.high:g}")
        return self
