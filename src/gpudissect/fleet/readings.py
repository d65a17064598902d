"""Runs of a fleet: what a report needs of a result, and of a file of links."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from statistics import median
from sys import intern
from typing import Literal, NamedTuple

from pydantic import Field

from gpudissect.device_info import Origin
from gpudissect.errors import shorten_message
from gpudissect.fleet.fingerprint import letters_of
from gpudissect.results.compare import MIN_CONFIDENCE, Key
from gpudissect.results.links import HOST, MAX_GPUS, LinksFile
from gpudissect.results.model import (
    NO_VALUE,
    Conditions,
    Device,
    Failure,
    Finding,
    Items,
    Number,
    Options,
    Provenance,
    Record,
    Result,
    Value,
    command_of,
)
from gpudissect.trace import OTHER_PROCESSES

MIN_PEER_LINKS = 3  # of fewer, the median would depend on a single slow GPU at one other end
MIN_VALUE, MAX_VALUE = 1e-30, 1e30  # of a reading; no GPU comes near them
UNITS = ("B/s", "ops/s", "B/cycle", "ops/cycle", "cycles")
UNITS_OF_LINKS = (*UNITS, "ns")
LATENCY_UNITS = ("cycles", "ns")  # of values that are worse when higher
ATTRIBUTES = ("bandwidth", "rate", "latency")  # of which cards of one model differ
OF_THE_CPU = "pageable_"  # prefix of values that depend on the host's CPU, not on the GPU
_TITLES = dict(sm_clock="SM clock setting", pcie_lanes="PCIe lanes", nvlinks="NVLinks", nvlink_errors="NVLink errors")
PARTITION_BY_SM = ("l2", "partition_by_sm")


class PartOfFinding(Record):
    """The fields of a finding that a report needs."""

    element: str
    attribute: str
    value: Value | None = None
    unit: str = ""
    low: Number | None = None
    high: Number | None = None
    confidence: float | None = Field(None, ge=0, le=1)


class PartOfResult(Record):
    """The fields of a result that a report needs: its evidence and series would take seven times as long to read."""

    schema_: Literal["gpudissect/2"] = Field("gpudissect/2", alias="schema")
    device: Device
    provenance: Provenance = Provenance()
    options: Options = Options()
    conditions: Conditions = Conditions()
    findings: Items[PartOfFinding] = ()
    failures: Items[Failure] = ()
    interrupted: bool = False
    seconds: float | None = None
    code: str = ""


class Reading(NamedTuple):
    """A measured value with the half width of its bracket, in `unit`. A tuple: a fleet has millions of them."""

    value: float
    error: float
    unit: str


@dataclass(frozen=True)
class Run:
    """One result file.

    Attributes:
        file: its path.
        card: what distinguishes the card: its UUID, or the file if it has none.
        label: how to find the card: host and device.
        group: model and settings; only runs of one group are compared.
        time: start of the measurement, ISO 8601; empty if not known.
        readings: by element and attribute.
        facts: what driver and clock state, by name.
        partitions: the L2 partition near each SM, as of `fingerprint.letters_of`; empty if not measured.
        problem: why values are missing; empty if the run is complete.
        place: host, device and PCI address, as far as known, of what was measured on a GPU; else empty.
        seconds: duration of the measurement; 0 if not known.

    """

    file: str
    card: str
    label: str
    group: tuple[str, ...]
    time: str
    readings: Mapping[Key, Reading] = field(repr=False)
    facts: Mapping[str, str]
    partitions: str = ""
    problem: str = ""
    place: str = ""
    seconds: float = 0.0


def run_of(result: Result | PartOfResult, file: str) -> Run:
    """What a report needs of a result."""
    origin, card = result.provenance, result.provenance.gpu_uuid
    chosen = (*(("quick",) if result.options.quick else ()), *filter(None, [result.options.profile]))
    label = " ".join(filter(None, (origin.host, result.device.spec)))
    readings = dict(readings_of(result.findings))
    command = command_of({each.element for each in result.findings} or set(result.options.elements or ()))
    group = (result.device.name, result.device.origin.value, command, *chosen, *settings_of(origin))
    partitions = _partitions(result.findings, result.device.sm_count)
    failed = [f"{each.experiment}: {each.reason}" for each in result.failures]
    problem = failed[0] if failed else "interrupted" if result.interrupted else ""
    facts, place = dict(_facts(result)), place_of(result.device.origin, label, origin)
    rest = (readings, facts, partitions, problem, place, result.seconds or 0.0)
    return Run(file, card or file, label, group, origin.time or "", *rest)


def runs_of_links(found: LinksFile, file: str) -> list[Run | str]:
    """A run of each GPU, with the median of each value over its links, and a line for each failure of another GPU.

    The median of `MIN_PEER_LINKS` or more links to other GPUs does not depend on a slow GPU at one other end. Only GPUs
    with the same number of links are compared.
    """
    values: dict[str, dict[Key, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    peers = Counter(link.source for link in found.links if link.target != HOST)
    for link in found.links:
        found_values = (each.model_copy(update={"confidence": 1.0}) for each in link.values.values())  # none is stated
        for key, reading in readings_of(found_values, UNITS_OF_LINKS):
            values[link.source][key].append(reading)
    failed = dict[str, str]()
    for line in found.failures:
        failed.setdefault(line.partition(": ")[0], line)
    gpus = {gpu.spec: gpu for gpu in found.gpus}
    others = [f"{file}: {shorten_message(line)}" for spec, line in failed.items() if spec not in gpus]
    runs: list[Run | str] = [*others[:MAX_GPUS]]
    for gpu in gpus.values():
        origin = gpu.provenance
        readings = {
            key: Reading(median(each.value for each in of), median(each.error for each in of), of[0].unit)
            for key, of in values[gpu.spec].items()
            if key[0] == HOST or len(of) >= MIN_PEER_LINKS
        }
        label = " ".join(filter(None, (origin.host, gpu.spec)))
        group = (gpu.name, gpu.origin, "links", f"{peers[gpu.spec]} other GPUs", *settings_of(origin))
        links = gpu.model_dump(include={"pcie_lanes", "nvlinks"}, exclude_none=True)
        facts = dict(chain(sizes_of(links), states_of(origin)))
        problem = failed.get(gpu.spec, "interrupted" if found.interrupted else "")
        card, place = gpu.uuid or f"{file} {gpu.spec}", place_of(gpu.origin, label, origin)
        runs.append(Run(file, card, label, group, origin.time or "", readings, facts, "", problem, place))
    return runs


def place_of(measured: str, label: str, origin: Provenance) -> str:
    """Location of a measured GPU; empty for a simulation or a replay."""
    return " ".join(filter(None, (label, origin.pci_address))) if measured == Origin.MEASURED else ""


def settings_of(origin: Provenance) -> Iterator[str]:
    """Settings with which all cards of a group were measured."""
    return (f"{name} {value}" for name in ("mig", "ecc") if (value := getattr(origin, name)))


def seconds_of(time: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 time, in UTC if it names no zone; None for a text that is none."""
    try:
        parsed = datetime.fromisoformat(time)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def readings_of(
    findings: Iterable[Finding | PartOfFinding], units: Collection[str] = UNITS
) -> Iterator[tuple[Key, Reading]]:
    """Values in which cards of one model differ, if they are in one of `units`."""
    for each in findings:
        is_compared = each.unit in units and each.attribute.rpartition("_")[2] in ATTRIBUTES
        is_compared &= not each.attribute.startswith(OF_THE_CPU)
        if not is_compared or isinstance(each.value, str | tuple | None) or (each.confidence or 0) < MIN_CONFIDENCE:
            continue
        low, high = (each.value if end is None else end for end in (each.low, each.high))
        if not MIN_VALUE < each.value < MAX_VALUE or not 0 <= high - low < MAX_VALUE:
            continue
        yield _key(each.element, each.attribute), Reading(float(each.value), (high - low) / 2, intern(each.unit))


@lru_cache(maxsize=4096)
def _key(element: str, attribute: str) -> Key:
    """One object for each value: what readings share is stored and sent once."""
    return intern(element), intern(attribute)


def _partitions(findings: Iterable[Finding | PartOfFinding], sms: int) -> str:
    """The L2 partition near each SM; empty if there is no such finding of all SMs."""
    for each in findings:
        if (each.element, each.attribute) == PARTITION_BY_SM and isinstance(each.value, tuple):
            return letters_of(each.value) if len(each.value) == sms else ""
    return ""


def _facts(result: Result | PartOfResult) -> Iterator[tuple[str, str]]:
    """What may explain a difference: sizes and clocks that the driver states, the clock observed, other users."""
    yield "SMs", str(result.device.sm_count)
    yield from sizes_of(result.device.facts)
    if result.conditions.clock_hz and result.conditions.clock_observed:
        yield "SM clock", f"{result.conditions.clock_hz / 1e6:.0f} MHz"
    if result.code:
        yield "gpudissect build", result.code[:12]
    yield from states_of(result.provenance)
    for name in ("throttling", OTHER_PROCESSES):
        if given := [text for text in result.conditions.notes.get(name, ()) if text.lower() not in NO_VALUE]:
            yield f"{name.replace('_', ' ')} while measuring", "; ".join(given)


def sizes_of(stated: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Facts of the hardware that the driver states."""
    for name in ("memory_size", "l2_size", "memory_bus_bits", "pcie_lanes", "nvlinks"):
        if name in stated:
            yield _TITLES.get(name, name.replace("_", " ")), str(stated[name])


def states_of(origin: Provenance) -> Iterator[tuple[str, str]]:
    """Facts of the GPU at the start of the measurement."""
    for name in ("driver", "power_limit", "sm_clock", "memory_clock", "throttling", "remapped_rows", "nvlink_errors"):
        if text := getattr(origin, name):
            yield _TITLES.get(name, name.replace("_", " ")), text.removesuffix(" at the start")
