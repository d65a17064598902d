"""Values of a result, looked up by element and attribute, for the writers of formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from gpudissect import catalogue
from gpudissect.catalogue.compute_capability import USUAL_BLOCK_THREADS, USUAL_BLOCKS, USUAL_CORES
from gpudissect.device_info import Origin
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.printable import clean
from gpudissect.results.model import Device, Finding, Result
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, unit_of
from gpudissect.workload import Instruction

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu

Entry = dict[str, Any]
"""A value of a GPU file with its source, or with the reason why it was assumed."""
MAX_TEXT = 390  # characters of a source, a note or a reason: a GPU file takes 400
MAX_NAME = 100  # characters
MAX_COUNT = 2**44  # bytes, and anything else that is counted
MAX_CYCLES = 1e6
CYCLE_DIGITS = 2  # decimal places of cycles


@dataclass(frozen=True)
class Lookup:
    """Facts and findings of a result, as they are."""

    result: Result

    def fact(self, name: str) -> float | None:
        """A number stated by the device, None if it states none."""
        value = self.result.device.facts.get(name)
        return value if isinstance(value, int | float) and value >= 0 else None

    def finding(self, element: str, attribute: str) -> Finding | None:
        """A finding with a value, None if there is none."""
        for finding in self.result.findings:
            if (finding.element, finding.attribute) == (element, attribute) and finding.status.has_value:
                return finding
        return None

    def number(self, element: str, attribute: str) -> float | None:
        """The value of a finding if it is a number."""
        finding = self.finding(element, attribute)
        return finding.value if finding is not None and isinstance(finding.value, int | float) else None

    def numbers(self, finding: Finding, *columns: str) -> tuple[list[float], ...]:
        """The columns of the series that shows a finding and has just these; each empty if there is none."""
        for each in self.result.series:
            shown = each.element == finding.element and finding.attribute in each.shows
            if shown and set(each.columns) == set(columns):
                return tuple([x for x in each.columns[name] if isinstance(x, int | float)] for name in columns)
        return tuple([] for _ in columns)

    def lower_bound(self, element: str, attribute: str) -> float | None:
        """The low end of an attribute that was not found because its end could not be reached."""
        for finding in self.result.findings:
            if (finding.element, finding.attribute, finding.status) == (element, attribute, Status.NOT_FOUND):
                return finding.low
        return None

    def shared_with(self, element: str) -> tuple[str, ...]:
        """Elements that share an array with this one."""
        finding = self.finding(element, "shared_with")
        if finding is None or not isinstance(finding.value, str) or finding.value == "nothing":
            return ()
        return tuple(name.strip() for name in finding.value.split(","))

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability. Raises `UsageError` if the result does not have it."""
        major, _, minor = str(self.result.device.facts.get("compute_capability", "")).partition(".")
        if not (major.isdecimal() and minor.isdecimal() and len(major) < 4 and len(minor) < 4):
            raise UsageError("this result does not state its compute capability, which the format needs")
        return int(major), int(minor)


def documented_gpu(device: Device) -> Gpu | None:
    """The documented GPU whose processor stands in: the device's entry of the catalogue, or one of its capability."""
    capability = device.facts.get("compute_capability")
    for name in sorted(catalogue.names(), key=lambda name: name != device.catalogue):
        gpu = catalogue.load(name)
        matches = gpu.key == device.catalogue or gpu.table.chip.compute_capability.value == capability
        if matches and gpu.table.run is None and gpu.table.processor is not None:
            return gpu
    return None


@dataclass(frozen=True)
class SmLimits:
    """FP32 lanes and blocks of an SM, threads of a block; `assumed` names those that are not known."""

    cores: int
    blocks: int
    block_size: int
    assumed: tuple[str, ...]


def sm_limits(lookup: Lookup) -> SmLimits:
    """What the driver states, else a documented GPU of the same capability, the measured rate, the usual values."""
    gpu = documented_gpu(lookup.result.device)
    table = gpu.table.processor if gpu is not None else None
    known = {
        "cores of an SM": _cores(lookup, gpu),
        "blocks of an SM": lookup.fact("blocks_per_sm") or (table and table.blocks.value),
        "threads of a block": lookup.fact("threads_per_block") or (table and table.block_size.value),
    }
    usual = dict(zip(known, (USUAL_CORES, USUAL_BLOCKS, USUAL_BLOCK_THREADS), strict=True))
    cores, blocks, block_size = (int(value or usual[name]) for name, value in known.items())
    return SmLimits(cores, blocks, block_size, tuple(name for name, value in known.items() if not value))


def _cores(lookup: Lookup, gpu: Gpu | None) -> int | None:
    """FP32 lanes of an SM: stated of the GPU, documented, or as many as it completes additions per cycle."""
    stated, sms = lookup.fact("cores"), lookup.result.device.sm_count
    if stated and sms and stated % sms == 0:
        return int(stated) // sms
    unit = gpu.table.units.get(Instruction.FADD) if gpu is not None else None
    if unit is not None and unit.rate is not None:
        return round(unit.rate.value)
    measured = lookup.number("fadd", "rate")
    return None if measured is None else max(1, round(measured / 8)) * 8


def line(text: object, max_length: int = MAX_TEXT) -> str:
    """One printable line of at most `max_length` characters."""
    text = clean(" ".join(str(text).split()))
    return text if len(text) <= max_length else text[: max_length - 3] + "..."


def sourced(value: Any, source: str, *, low: float | None = None, high: float | None = None, note: str = "") -> Entry:
    """An entry with a source; a bracket of a single point is left out."""
    entry: Entry = {"value": value}
    if not low == value == high:
        entry |= {key: end for key, end in (("low", low), ("high", high)) if end is not None}
    return entry | {"source": line(source)} | ({"note": line(note)} if note else {})


def assumed(value: Any, reason: str) -> Entry:
    """An entry for which nothing was found."""
    return {"value": value, "assumed": line(reason)}


@dataclass(frozen=True)
class Readings:
    """Findings of a result as entries of a GPU file: only plausible numbers are taken, texts are cut and cleaned."""

    result: Result

    @cached_property
    def _origin(self) -> tuple[str, str]:
        """How the numbers came about, and the run that they are from."""
        device, environment = self.result.device, self.result.environment
        kind = device.origin.value
        if device.origin is Origin.REPLAYED:
            kind = f"{device.recorded_origin.value if device.recorded_origin else 'unknown'}, {kind}"
        driver = [f"driver {line(environment['driver'], 40)}"] if environment.get("driver") else []
        run = ", ".join([line(device.name, MAX_NAME), *driver, line(device.spec, MAX_NAME)])
        return kind, f"gpudissect discover of {run}"

    @property
    def source(self) -> str:
        """Source of a number that was found."""
        return ": ".join(self._origin)

    @property
    def stated_source(self) -> str:
        """Source of a number that the driver stated, which was not measured."""
        kind, run = self._origin
        return f"stated by the driver{'' if kind == Origin.MEASURED else f' ({kind})'}: {run}"

    @cached_property
    def _findings(self) -> Mapping[tuple[str, str], Finding]:
        known: dict[tuple[str, str], Finding] = {}
        for finding in self.result.findings:
            if finding.element in ELEMENTS and finding.attribute in ATTRIBUTES:
                known.setdefault((finding.element, finding.attribute), finding)
        return known

    def __iter__(self) -> Iterator[Finding]:
        """Every finding with names of the vocabulary, one per element and attribute."""
        return iter(self._findings.values())

    def finding(self, element: str, attribute: str) -> Finding | None:
        """The finding, whatever its status."""
        return self._findings.get((element, attribute))

    def number(self, element: str, attribute: str) -> float | None:
        """A plausible number that was found or stated: cycles rounded, bytes and counts whole."""
        finding = self.finding(element, attribute)
        if finding is None or not finding.status.has_value or finding.unit != unit_of(attribute):
            return None
        return _plausible(finding.value, finding.unit)

    def whole(self, element: str, attribute: str) -> int | None:
        """A count or size of at least 1 that was found or stated."""
        value = self.number(element, attribute)
        return int(value) if value is not None and value >= 1 and value == int(value) else None

    def wholes(self, element: str, attribute: str) -> tuple[int, ...] | None:
        """As `whole`, but of a list if there is one: the ways of unequal sets."""
        finding = self.finding(element, attribute)
        if finding is None or finding.status is not Status.FOUND or not isinstance(finding.value, tuple):
            one = self.whole(element, attribute)
            return None if one is None else (one,)
        counts = [_plausible(count, "") for count in finding.value]
        if not counts or any(count is None or count < 1 or count != int(count) for count in counts):
            return None
        return tuple(int(count) for count in counts if count is not None)

    def text(self, element: str, attribute: str) -> str | None:
        """A text that was found."""
        finding = self.finding(element, attribute)
        if finding is None or finding.status is not Status.FOUND or not isinstance(finding.value, str):
            return None
        return finding.value

    def entry(self, element: str, attribute: str) -> Entry | None:
        """The entry of a number with its bracket and its caveats; None if there is none."""
        value, finding = self.number(element, attribute), self.finding(element, attribute)
        if value is None or finding is None:
            return None
        low, high = _plausible(finding.low, finding.unit, floor), _plausible(finding.high, finding.unit, ceil)
        if (low is not None and low > value) or (high is not None and high < value):
            low = high = None
        source = self.stated_source if finding.status is Status.STATED else self.source
        return sourced(value, source, low=low, high=high, note="; ".join(finding.caveats))

    def entries(self, element: str, attributes: tuple[str, ...]) -> dict[str, Entry]:
        """The entries of those attributes that have a number."""
        found = {attribute: self.entry(element, attribute) for attribute in attributes}
        return {attribute: entry for attribute, entry in found.items() if entry is not None}

    def sum(self, one: float, other: float, note: str) -> Entry:
        """The entry of cycles that are a sum of findings."""
        return sourced(round_cycles(one + other), self.source, note=note)

    def fact(self, name: str) -> int | None:
        """A plausible whole number stated by the driver."""
        value = self.result.device.facts.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_COUNT else None


def round_cycles(value: float) -> float:
    """Cycles as in a GPU file."""
    return round(float(value), CYCLE_DIGITS)


def _plausible(value: Any, unit: str, rounded: Callable[[float], int] = round) -> float | None:
    """The number, rounded as in a GPU file; None if it is none or impossible in this unit."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1e18:
        return None
    if unit == "cycles":
        return rounded(value * 10**CYCLE_DIGITS) / 10**CYCLE_DIGITS if value <= MAX_CYCLES else None
    if unit == "B" or (unit == "" and value == int(value)):
        return rounded(value) if value <= MAX_COUNT else None
    return float(value)
