"""Runs of a fleet: what a report needs of each result file of a folder."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, zip_longest
from pathlib import Path
from statistics import median
from sys import intern
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from gpudissect.child_processes import usable_cores
from gpudissect.errors import UsageError
from gpudissect.fleet.fingerprint import letters_of
from gpudissect.results.compare import MIN_CONFIDENCE, Key
from gpudissect.results.files import load, load_part
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
from gpudissect.vocabulary import ATTRIBUTES as UNIT_OF

MIN_PARALLEL_FILES = 64
MIN_CHUNK, MAX_CHUNK = 16, 128  # files that a process reads before it returns their runs, which share their texts
CHUNKS_PER_CORE = 8
FILES_AHEAD = 8  # of each process
MAX_FILES = 100_000
MIN_PEER_LINKS = 3  # of fewer, the median would depend on a single slow GPU at one other end
MAX_LINKED_GPUS = 1024  # of a file of links
MIN_VALUE, MAX_VALUE = 1e-30, 1e30  # of a reading; no GPU comes near them
UNITS = ("B/s", "ops/s", "B/cycle", "ops/cycle", "cycles")
ATTRIBUTES = ("bandwidth", "rate", "latency")  # of which cards of one model differ
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
    code: str = ""


class LinkedGpu(Record):
    """What `gpudissect links` states of a GPU."""

    spec: str
    name: str
    origin: str
    gpu_uuid: str | None = None
    provenance: Provenance = Provenance()
    pcie_lanes: int | None = None
    nvlinks: int | None = None


class PartOfLink(Record):
    """A link, and in further fields its values by attribute."""

    model_config = ConfigDict(extra="allow")
    source: str = Field(alias="from")
    target: str = Field(alias="to")

    @property
    def element(self) -> str:
        """``host``, or ``peer`` for the memory of another GPU."""
        return "host" if self.target == "host" else "peer"

    @property
    def readings(self) -> dict[Key, Reading]:
        """Its values by element and attribute. Raises `ValidationError`."""
        values = {name: each for name, each in (self.model_extra or {}).items() if isinstance(each, dict)}
        known = {"element": self.element, "confidence": 1.0}
        findings = [
            PartOfFinding.model_validate({**each, **known, "attribute": name})
            for name, each in values.items()
            if name in UNIT_OF
        ]
        return dict(_readings(findings))


class PartOfLinks(Record):
    """The fields of a file of links that a report needs."""

    schema_: Literal["gpudissect-links/1"] = Field(alias="schema")
    gpus: Items[LinkedGpu] = Field(max_length=MAX_LINKED_GPUS)
    links: Items[PartOfLink]
    failures: Items[str] = ()
    interrupted: bool = False


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


def read_folder(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs of all result files in a folder and its subfolders, and one line for each file that is none.

    Raises `UsageError` if there is no such folder, or no result in it.
    """
    if not os.path.isdir(folder):
        if os.path.exists(folder):
            raise UsageError(f"{folder} is no folder: name the folder that holds the result files")
        raise UsageError(f"no such folder: {folder}; 'gpudissect discover -o {folder}/NAME.json' writes a result there")
    files = sorted(path for path in folder.rglob("*.json") if not path.name.startswith(".") and path.is_file())
    if len(files) > MAX_FILES:
        raise UsageError(f"{folder} has {len(files)} JSON files, allowed: up to {MAX_FILES}")
    runs, unreadable = list[Run](), list[str]()
    for one in _read_all(files):
        if isinstance(one, Run):
            runs.append(one)
        else:
            unreadable.append(one)
    if not runs:
        why = f": {unreadable[0]}" if unreadable else f"; 'gpudissect discover -o {folder}/NAME.json' writes one"
        raise UsageError(f"no result file in {folder}{why}")
    return runs, unreadable


def _read_all(files: Sequence[Path]) -> Iterator[Run | str]:
    if len(files) < MIN_PARALLEL_FILES:
        yield from chain.from_iterable(map(_read, files))
        return
    cores = usable_cores()
    chunk = min(max(MIN_CHUNK, len(files) // (CHUNKS_PER_CORE * cores)), MAX_CHUNK)
    chunks = [files[first : first + chunk] for first in range(0, len(files), chunk)]
    with ProcessPoolExecutor(cores) as workers:
        for runs in workers.map(_read_chunk, chunks):
            yield from runs


def _read_chunk(files: Sequence[Path]) -> list[Run | str]:
    """Each file, while the disk reads the next ones."""
    runs = list[Run | str]()
    for file in files[:FILES_AHEAD]:
        _read_ahead(file)
    for file, later in zip_longest(files, files[FILES_AHEAD:]):
        if later is not None:
            _read_ahead(later)
        runs += _read(file)
    return runs


def _read_ahead(file: Path) -> None:
    """Ask the system for a file that is read soon; without effect where it cannot."""
    with suppress(OSError, AttributeError):  # AttributeError: not Linux
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(number)


def _read(file: Path) -> list[Run | str]:
    """A run, or one of each GPU whose links the file has, or why the file is none."""
    try:
        if (part := load_part(file, PartOfResult)) is None and (links := load_part(file, PartOfLinks)) is not None:
            return runs_of_links(links, str(file))
        return [run_of(part or load(file), str(file))]
    except ValidationError:
        return [f"{file} is a damaged file of links: a value of a link is not a number with a bracket"]
    except UsageError as error:
        return [str(error)]


def run_of(result: Result | PartOfResult, file: str) -> Run:
    """What a report needs of a result."""
    origin, card = result.provenance, result.provenance.gpu_uuid
    chosen = (*(("quick",) if result.options.quick else ()), *filter(None, [result.options.profile]))
    label = " ".join(filter(None, (origin.host, result.device.spec)))
    readings = dict(_readings(result.findings))
    command = command_of({each.element for each in result.findings} or set(result.options.elements or ()))
    group = (result.device.name, result.device.origin.value, command, *chosen, *_settings(origin))
    partitions = _partitions(result.findings, result.device.sm_count)
    failed = [f"{each.experiment}: {each.reason}" for each in result.failures]
    problem = failed[0] if failed else "interrupted" if result.interrupted else ""
    facts = dict(_facts(result))
    return Run(file, card or file, label, group, origin.time or "", readings, facts, partitions, problem)


def runs_of_links(found: PartOfLinks, file: str) -> list[Run | str]:
    """A run of each GPU, with the median of each value over its links, and a line for each failure of another GPU.

    The median of `MIN_PEER_LINKS` or more links to other GPUs does not depend on a slow GPU at one other end. Only GPUs
    with the same number of links are compared.
    """
    values: dict[str, dict[Key, list[Reading]]] = defaultdict(lambda: defaultdict(list))
    peers = Counter(link.source for link in found.links if link.element == "peer")
    for link in found.links:
        for key, reading in link.readings.items():
            values[link.source][key].append(reading)
    failed = dict[str, str]()
    for line in found.failures:
        failed.setdefault(line.partition(": ")[0], line)
    gpus = {gpu.spec: gpu for gpu in found.gpus}
    others = [f"{file}: {line}" for spec, line in failed.items() if spec not in gpus]
    runs: list[Run | str] = [*others[:MAX_LINKED_GPUS]]
    for gpu in gpus.values():
        origin = gpu.provenance
        readings = {
            key: Reading(median(each.value for each in of), median(each.error for each in of), of[0].unit)
            for key, of in values[gpu.spec].items()
            if key[0] == "host" or len(of) >= MIN_PEER_LINKS
        }
        label = " ".join(filter(None, (origin.host, gpu.spec)))
        group = (gpu.name, gpu.origin, "links", f"{peers[gpu.spec]} other GPUs", *_settings(origin))
        links = gpu.model_dump(include={"pcie_lanes", "nvlinks"}, exclude_none=True)
        facts = dict(chain(_sizes(links), _states(origin)))
        problem = failed.get(gpu.spec, "interrupted" if found.interrupted else "")
        card = origin.gpu_uuid or gpu.gpu_uuid or f"{file} {gpu.spec}"
        runs.append(Run(file, card, label, group, origin.time or "", readings, facts, problem=problem))
    return runs


def _settings(origin: Provenance) -> Iterator[str]:
    return (f"{name} {value}" for name in ("mig", "ecc") if (value := getattr(origin, name)))


def seconds_of(time: str) -> float | None:
    """Seconds since 1970 of an ISO 8601 time, in UTC if it names no zone; None for a text that is none."""
    try:
        parsed = datetime.fromisoformat(time)
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _readings(findings: Iterable[Finding | PartOfFinding]) -> Iterator[tuple[Key, Reading]]:
    for each in findings:
        is_compared = each.unit in UNITS and each.attribute.rpartition("_")[2] in ATTRIBUTES
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
    yield from _sizes(result.device.facts)
    if result.conditions.clock_hz and result.conditions.clock_observed:
        yield "SM clock", f"{result.conditions.clock_hz / 1e6:.0f} MHz"
    if result.code:
        yield "gpudissect build", result.code[:12]
    yield from _states(result.provenance)
    for name in ("throttling", OTHER_PROCESSES):
        if given := [text for text in result.conditions.notes.get(name, ()) if text.lower() not in NO_VALUE]:
            yield f"{name.replace('_', ' ')} while measuring", "; ".join(given)


def _sizes(stated: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name in ("memory_size", "l2_size", "memory_bus_bits", "pcie_lanes", "nvlinks"):
        if name in stated:
            yield _TITLES.get(name, name.replace("_", " ")), str(stated[name])


def _states(origin: Provenance) -> Iterator[tuple[str, str]]:
    for name in ("driver", "power_limit", "sm_clock", "memory_clock", "throttling", "remapped_rows", "nvlink_errors"):
        if text := getattr(origin, name):
            yield _TITLES.get(name, name.replace("_", " ")), text.removesuffix(" at the start")
