"""The result file, schema ``gpudissect/1``: what a survey found, for programs, and its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.prediction import Prediction
from gpudissect.results.record import Items, Record
from gpudissect.results.verdict import Verdict

SCHEMA = "gpudissect/1"
_NUMBERS = r"(?:-?\d[\d.eE+-]*|null)"
_LONG_LISTS = re.compile(rf"(?<=\[)\n( +){_NUMBERS}(?:,\n +{_NUMBERS}){{2,}}(?=\n +\])")
_A_LINE = 16
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)] | float
Value = Number | str | Items[Number]


class Device(Record):
    """A device, as it described itself."""

    spec: str
    """The name it was opened by: cuda:0, sim:gtx980, rec:folder."""
    name: str
    """The GPU's name."""
    origin: Origin
    """Whether the numbers were measured on a GPU, simulated, or replayed from a recording."""
    recorded_origin: Origin | None = None
    """For a replay: what the recording is of."""
    catalogue: str | None = None
    """Name of the catalogue entry that the findings were held against; of a relative, if it has none of its own."""
    sm_count: int
    """Number of SMs."""
    facts: dict[str, int | float | str | None] = {}
    """What the driver says."""
    unsupported: dict[str, str] = {}
    """Paths to memory that this device lacks, each with the reason."""


class Published(Record):
    """A published value for the same attribute, and the verdict on it."""

    value: Value | None = None
    """In the unit of the finding; None where only a range is published."""
    low: Number | None = None
    """Low end of a published range."""
    high: Number | None = None
    """High end of a published range."""
    unit: str = ""
    """Unit of the published value."""
    printed: Number | str | None = None
    """What the document prints where that is known to be off."""
    source: str = ""
    """Document and table."""
    note: str = ""
    """What else is known about it."""
    verdict: Verdict
    """How the finding stands to it."""
    text: str = ""
    """The verdict in a few words."""


class Finding(Record):
    """One attribute of one element."""

    element: str
    """What it is about: l1, texture, l2, dram, ..."""
    attribute: str
    """Which property: capacity, line_size, hit_latency, ..."""
    status: Status
    """Found, stated by the driver (not measured), or why there is no value."""
    value: Value | None = None
    """The value in `unit`; bytes and counts are whole numbers, unequal ways the list of them; null unless found
    or stated."""
    unit: str = ""
    """B, cycles, B/s, ...; empty for counts."""
    low: Number | None = None
    """Low end of the bracket, inclusive, in `unit`."""
    high: Number | None = None
    """High end of the bracket, inclusive, in `unit`."""
    value_ns: float | None = None
    """For cycles: the value in nanoseconds, by the clock_hz of the conditions."""
    confidence: float | None = Field(None, ge=0, le=1)
    """Probability that the truth lies within the bracket; only of what was found."""
    method: str = ""
    """How it was found."""
    evidence: Items[str] = ()
    """Digests of the workloads whose traces it rests on."""
    caveats: Items[str] = ()
    """What a careful reader must know."""
    reason: str = ""
    """Why it is not a plain finding."""
    published: Published | None = None
    """What is published for it, if anything."""

    @model_validator(mode="after")
    def _text_has_no_unit(self) -> Finding:
        if isinstance(self.value, str) and self.unit:
            raise ValueError(f"value {self.value[:40]!r} is a text, but has a unit")
        return self


class Comparison(Record):
    """What an older method reads on the same device."""

    element: str
    """What it is about."""
    attribute: str
    """Which property."""
    method: str
    """Name and source of the method."""
    value: Number | None = None
    """What it reads, in `unit`; null where it reads nothing."""
    unit: str = ""
    """B, or empty for counts."""
    note: str = ""
    """What the method says of its own reading."""


class Series(Record):
    """What was seen on the way, as columns of numbers: the stuff of a plot."""

    element: str
    """What it is about."""
    name: str
    """Which series: "latency against stride"."""
    columns: dict[str, Items[Number | str | None]]
    """Equally long columns by name."""
    units: dict[str, str] = {}
    """Unit of each column that has one."""
    evidence: Items[str] = ()
    """Digests of the workloads behind it."""
    shows: Items[str] = ()
    """Attributes of its element of which it shows the evidence, thinned out: it has that of those findings, and none of
    its own here."""

    @field_validator("columns", mode="before")
    @classmethod
    def _of_any_sequences(cls, columns: Any) -> Any:
        """Whoever makes a series by hand has lists, or arrays of numpy."""
        if not isinstance(columns, Mapping):
            return columns
        plain = {name: column.tolist() if hasattr(column, "tolist") else column for name, column in columns.items()}
        return {name: tuple(column) if isinstance(column, list) else column for name, column in plain.items()}

    @model_validator(mode="after")
    def _equally_long(self) -> Series:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of {self.name[:40]!r} are not equally long")
        return self


class Failure(Record):
    """An experiment that did not finish."""

    experiment: str
    """Its name."""
    reason: str
    """Why, in one line."""


class Options(Record):
    """What was asked for; the same options on the same recording give the same findings."""

    seed: int = 0
    """Seed of every random choice."""
    quick: bool = False
    """Whether what takes longest was left out."""
    elements: Items[str] | None = None
    """Elements asked for; null for all."""
    compare_methods: bool = False
    """Whether older methods were run beside."""


class Conditions(Record):
    """What was seen while the survey ran."""

    clock_hz: float | None = None
    """SM clock rate in Hz by which cycles were converted to nanoseconds: the median seen, or else the one stated."""
    clock_seen: bool = False
    """Whether the clock was read while measuring."""
    clock_low: float | None = None
    """The slowest clock rate seen, in Hz."""
    clock_high: float | None = None
    """The fastest clock rate seen, in Hz."""
    notes: dict[str, Items[str]] = {}
    """Every different text seen under each name: reasons for throttling, other users of the GPU, ..."""


class Result(Record):
    """A whole result file."""

    schema_: Literal["gpudissect/1"] = Field("gpudissect/1", alias="schema")
    """Name and version of this format."""
    device: Device
    """What was taken apart."""
    environment: dict[str, str] = {}
    """Driver, compiler, versions: as text."""
    options: Options = Options()
    """What was asked for."""
    conditions: Conditions = Conditions()
    """What was seen while it ran."""
    findings: Items[Finding] = ()
    """What was found, element by element."""
    prediction: Prediction | None = None
    """How well what was found foretells accesses not seen before; null where nothing could be foretold."""
    comparisons: Items[Comparison] = ()
    """What older methods read, if they were asked for."""
    series: Items[Series] = ()
    """What was seen on the way, to look at."""
    failures: Items[Failure] = ()
    """Experiments that did not finish."""
    interrupted: bool = False
    """Whether the survey was broken off; the findings are those made until then."""
    seconds: float | None = None
    """Duration of the survey."""
    workloads: int | None = None
    """How many workloads it ran."""
    code: str = ""
    """Digest of the code that read the traces; empty if it is not known, as of results of earlier versions."""

    def to_json(self) -> str:
        """The text of the result file."""
        return _LONG_LISTS.sub(_in_lines, self.model_dump_json(by_alias=True, indent=2)) + "\n"

    def finding(self, element: str, attribute: str) -> Finding:
        """One finding: ``result.finding("l1", "capacity").value``. Raises `KeyError` for one that there is not."""
        for each in self.findings:
            if (each.element, each.attribute) == (element, attribute):
                return each
        there = [each.attribute for each in self.findings if each.element == element]
        raise KeyError(f"no {element}.{attribute}; of {element} there is {', '.join(there) or 'nothing'}")

    def seen(self, element: str, name: str) -> Series:
        """One series: ``result.seen("shared", "latency against stride")``. Raises `KeyError` for none."""
        for each in self.series:
            if (each.element, each.name) == (element, name):
                return each
        there = [each.name for each in self.series if each.element == element]
        raise KeyError(f"no series {name!r} of {element}; there is {', '.join(there) or 'none'}")


def _in_lines(numbers: re.Match[str]) -> str:
    """Numbers of a list, several a line: one a line would make a file of plots half as long again."""
    given = numbers[0].split()
    rows = (" ".join(given[n : n + _A_LINE]) for n in range(0, len(given), _A_LINE))
    return "".join(f"\n{numbers[1]}{row}" for row in rows)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the result file."""
    schema = Result.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
