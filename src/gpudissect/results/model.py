"""The result file, schema ``gpudissect/2``: the findings of a survey for programs, and its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import HIDING

SCHEMA = "gpudissect/2"
NUMBERS_PER_LINE = 16
NO_VALUE = ("", "none", "no", "0")
"""Texts of a condition that state nothing, in lower case."""
_NUMBER = r"(?:-?\d[\d.eE+-]*|null)"
_LONG_LISTS = re.compile(rf"(?<=\[)\n( +){_NUMBER}(?:,\n +{_NUMBER}){{2,}}(?=\n +\])")

T = TypeVar("T")
Items = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list of any length. Checking stops at the first wrong item: an error per item takes hundreds of bytes."""
Number = Annotated[int, Field(ge=-(2**63), lt=2**63)] | float
Value = Number | str | Items[Number]


class Record(BaseModel):
    """A part of a result file: frozen, strictly typed. Unknown fields are ignored, so that schema 2 can grow."""

    model_config = ConfigDict(
        frozen=True, strict=True, allow_inf_nan=False, extra="ignore", use_attribute_docstrings=True
    )


class Device(Record):
    """A device, as it described itself."""

    spec: str
    """The name it was opened by: cuda:0, sim:gtx980, rec:folder."""
    name: str
    """The GPU's name."""
    origin: Origin
    """Whether the numbers were measured on a GPU, simulated, or replayed from a recording."""
    recorded_origin: Origin | None = None
    """Origin of the recording that was replayed."""
    catalogue: str | None = None
    """Catalogue entry whose published values are given; of a related GPU if this one has no entry."""
    sm_count: int
    """Number of SMs."""
    facts: dict[str, int | float | str | None] = {}
    """Properties stated by the driver."""
    unsupported: dict[str, str] = {}
    """Memory paths that this device lacks, each with the reason."""


class Published(Record):
    """A published value of the same attribute, and the verdict on it."""

    value: Value | None = None
    """In the unit of the finding; null where only a range is published."""
    low: Number | None = None
    """Low end of a published range."""
    high: Number | None = None
    """High end of a published range."""
    unit: str = ""
    """Unit of the published value."""
    printed: Number | str | None = None
    """The value printed in the document, where that is known to be wrong."""
    source: str = ""
    """Document and table."""
    note: str = ""
    """Remarks on the published value."""
    verdict: Verdict
    """How the finding compares with it."""
    text: str = ""
    """The verdict in a few words."""


class Revision(Record):
    """An earlier statement about the same attribute, which a later experiment replaced."""

    experiment: str
    """Experiment that made the statement."""
    status: Status
    """Its status."""
    value: Value | None = None
    """Its value, in the unit of the finding."""
    low: Number | None = None
    """Low end of its bracket."""
    high: Number | None = None
    """High end of its bracket."""


class Finding(Record):
    """One attribute of one element."""

    element: str
    """What it is about: l1, texture, l2, dram, ..."""
    attribute: str
    """Which property: capacity, line_size, hit_latency, ..."""
    status: Status
    """Found, stated by the driver (not measured), or why there is no value."""
    value: Value | None = None
    """The value in `unit`: integers for bytes and counts, a list if sets or SMs differ; null if there is none."""
    unit: str = ""
    """B, cycles, B/s, ...; empty for counts."""
    low: Number | None = None
    """Low end of the bracket, inclusive, in `unit`."""
    high: Number | None = None
    """High end of the bracket, inclusive, in `unit`."""
    value_ns: float | None = None
    """For cycles: the value in nanoseconds, by the clock_hz of the conditions."""
    confidence: float | None = Field(None, ge=0, le=1)
    """Probability that the true value lies within the bracket; only if found."""
    method: str = ""
    """How it was determined."""
    evidence: Items[str] = ()
    """Digests of the workloads whose traces it rests on."""
    caveats: Items[str] = ()
    """Restrictions on its validity."""
    reason: str = ""
    """Why the status is not "found"."""
    published: Published | None = None
    """The published value, if there is one."""
    experiment: str = ""
    """Name of the experiment that gave it; empty if not known."""
    revised: Items[Revision] = ()
    """Statements of other experiments that it replaced, the first one first."""

    @model_validator(mode="after")
    def _text_has_no_unit(self) -> Finding:
        if isinstance(self.value, str) and self.unit:
            raise ValueError(f"value {self.value[:40]!r} is a text, but has a unit")
        return self


class Comparison(Record):
    """The reading of an older method on the same device."""

    element: str
    """What it is about."""
    attribute: str
    """Which property."""
    method: str
    """Name and source of the method."""
    value: Number | None = None
    """Its reading, in `unit`; null if the method gives none."""
    unit: str = ""
    """B, or empty for counts."""
    note: str = ""
    """Remarks of the method on its reading."""


class Series(Record):
    """Measured data as columns of numbers, for plots."""

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
    """Attributes of its element whose evidence it shows, thinned out; `evidence` is then that of those findings and is
    empty here."""

    @field_validator("columns", mode="before")
    @classmethod
    def _accept_sequences(cls, columns: Any) -> Any:
        """Accept lists and numpy arrays, of series made in Python."""
        if not isinstance(columns, Mapping):
            return columns
        plain = {name: column.tolist() if hasattr(column, "tolist") else column for name, column in columns.items()}
        return {name: tuple(column) if isinstance(column, list) else column for name, column in plain.items()}

    @model_validator(mode="after")
    def _equally_long(self) -> Series:
        if len({len(column) for column in self.columns.values()}) > 1:
            raise ValueError(f"columns of {self.name[:40]!r} are not equally long")
        return self


class Agreement(Record):
    """How many held-out random accesses the inferred model predicts correctly."""

    agreement: float
    """Share of the accesses that were predicted correctly."""
    low: float
    """Lower end of the 95 % interval of `agreement`."""
    high: float
    """Upper end of it."""
    accesses: int
    """Number of accesses."""


class ElementPrediction(Agreement):
    """Prediction check of one cache, simulated as inferred."""

    element: str
    """Which cache."""
    hits_wrong: int
    """Hits that were predicted as misses."""
    misses_wrong: int
    """Misses that were predicted as hits."""
    possible: float
    """Share that the model itself can predict: below 1 for random replacement."""


class PathPrediction(Agreement):
    """Prediction check of all caches and TLBs of a path, simulated together: which of them serves each access."""

    path: str
    """Which path; "translation" for the TLBs, observed as the cost of an access beyond that of its line."""
    wrong: dict[str, int] = {}
    """Number of mispredicted accesses by cache or TLB."""
    misread: dict[str, int] = {}
    """Those of them that the other of two runs shows as predicted; empty for random replacement."""
    possible: float
    """Share that the model itself can predict: below 1 for random replacement."""
    assumed: Items[str] = ()
    """Assumptions in place of what was not found."""
    open: int = 0
    """Accesses without a prediction, because they depend on something that was not found."""


class Prediction(Agreement):
    """Prediction check of all caches and paths together."""

    elements: Items[ElementPrediction]
    """Cache by cache."""
    paths: Items[PathPrediction] = ()
    """Path by path, all its levels simulated as one."""
    not_predicted: dict[str, str] = {}
    """Caches and paths that cannot be simulated, each with the reason."""


class Failure(Record):
    """An experiment that did not finish."""

    experiment: str
    """Its name."""
    reason: str
    """Why, in one line."""


class Options(Record):
    """The requested options; the same options on the same recording give the same findings."""

    seed: int = 0
    """Seed of every random choice."""
    quick: bool = False
    """Whether the longest experiments were left out."""
    elements: Items[str] | None = None
    """Requested elements; null for all."""
    compare_methods: bool = False
    """Whether older methods read the same caches."""
    methods: Items[str] = ()
    """Older methods that ran alone; empty if the findings are ours."""
    precision: Annotated[float, Field(gt=0, le=100)] | None = None
    """Requested max width of latency brackets, percent of the value; null for the default number of samples."""
    profile: Literal["health"] | None = None
    """Profile of the experiments that ran; null if they were not chosen by one."""


class Conditions(Record):
    """Conditions observed while the survey ran."""

    clock_hz: float | None = None
    """SM clock rate in Hz that converts cycles to nanoseconds: the observed median, or else the stated one."""
    clock_observed: bool = False
    """Whether the clock was read while measuring."""
    clock_low: float | None = None
    """Lowest observed clock rate, in Hz."""
    clock_high: float | None = None
    """Highest observed clock rate, in Hz."""
    notes: dict[str, Items[str]] = {}
    """All distinct texts by name: reasons for throttling, other users of the GPU, ..."""


class Provenance(Record):
    """Which card was measured, where, when and under which settings; fields that are not known are null.

    Of a replay: what held when it was recorded. Empty for a simulated GPU.
    """

    time: str | None = None
    """Start of the measurement, ISO 8601, UTC."""
    host: str | None = None
    """Name of the host; null if left out by request."""
    gpu_uuid: str | None = None
    """UUID of the card; results with the same one are of one card."""
    pci_address: str | None = None
    """PCI address of the card."""
    driver: str | None = None
    """Version of the driver."""
    power_limit: str | None = None
    """Enforced power limit."""
    temperature: str | None = None
    """Temperature of the GPU at the start."""
    sm_clock: str | None = None
    """Requested and highest clock of the SMs."""
    memory_clock: str | None = None
    """Requested and highest clock of the memory."""
    throttling: str | None = None
    """Reasons for a lower clock at the start; those while measuring are in the conditions."""
    mig: str | None = None
    """Whether the GPU is partitioned (MIG)."""
    ecc: str | None = None
    """Whether memory has error correction."""
    persistence: str | None = None
    """Whether the driver stays loaded without clients."""
    remapped_rows: str | None = None
    """Number of rows of memory that were replaced after errors."""
    nvlink_errors: str | None = None
    """Number of replays, recoveries and CRC errors of all NVLinks, as NVML counts them."""


class Result(Record):
    """A whole result file."""

    schema_: Literal["gpudissect/2"] = Field("gpudissect/2", alias="schema")
    """Name and version of this format."""
    device: Device
    """The device under test."""
    provenance: Provenance = Provenance()
    """Card, place, time and settings of the measurement."""
    environment: dict[str, str] = {}
    """Versions of driver, compiler and programs, as text."""
    options: Options = Options()
    """The requested options."""
    conditions: Conditions = Conditions()
    """Clock rates, throttling and other users while the survey ran."""
    findings: Items[Finding] = ()
    """What was found, element by element."""
    prediction: Prediction | None = None
    """How well the inferred model predicts held-out accesses; null where nothing could be predicted."""
    comparisons: Items[Comparison] = ()
    """Readings of older methods, if requested."""
    series: Items[Series] = ()
    """Measured data behind the findings."""
    failures: Items[Failure] = ()
    """Experiments that did not finish."""
    interrupted: bool = False
    """Whether the survey was interrupted; the findings are those made until then."""
    seconds: float | None = None
    """Duration of the survey."""
    workloads: int | None = None
    """Number of workloads run."""
    code: str = ""
    """Digest of the code that analysed the traces; empty if not known, as in results of earlier versions."""

    @property
    def command(self) -> str:
        """The command that gives such a result: ``hide`` if it is about latency hiding, else ``discover``."""
        return command_of({finding.element for finding in self.findings} or set(self.options.elements or ()))

    def to_json(self) -> str:
        """The text of the result file."""
        return _LONG_LISTS.sub(_wrap_numbers, self.model_dump_json(by_alias=True, indent=2)) + "\n"

    def finding(self, element: str, attribute: str) -> Finding:
        """One finding: ``result.finding("l1", "capacity").value``. Raises `KeyError` if there is none."""
        for each in self.findings:
            if (each.element, each.attribute) == (element, attribute):
                return each
        present = [each.attribute for each in self.findings if each.element == element]
        raise KeyError(f"no {element}.{attribute}; of {element} there is {', '.join(present) or 'nothing'}")

    def observed(self, element: str, name: str) -> Series:
        """One series: ``result.observed("shared", "latency against stride")``. Raises `KeyError` if there is none."""
        for each in self.series:
            if (each.element, each.name) == (element, name):
                return each
        present = [each.name for each in self.series if each.element == element]
        raise KeyError(f"no series {name!r} of {element}; there is {', '.join(present) or 'none'}")


def command_of(elements: Set[str]) -> str:
    """The command that measures these elements."""
    return "hide" if elements and elements <= set(HIDING) else "discover"


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of the result file."""
    schema = Result.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def _wrap_numbers(match: re.Match[str]) -> str:
    """A list of numbers, several a line: one a line makes files half as large again."""
    numbers = match[0].split()
    rows = (" ".join(numbers[n : n + NUMBERS_PER_LINE]) for n in range(0, len(numbers), NUMBERS_PER_LINE))
    return "".join(f"\n{match[1]}{row}" for row in rows)
