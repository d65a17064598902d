"""What `gpudissect links` found: links as matrices, one for each attribute; and its file, read again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, model_validator

from gpudissect import __version__
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import shorten_message
from gpudissect.estimate import Status
from gpudissect.printable import clean
from gpudissect.results.model import Finding, Items, Provenance, Record
from gpudissect.vocabulary import ATTRIBUTES, unit_of
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.survey.links import Bracketed as Bracketed
    from gpudissect.survey.links import LinkValues

LINKS_SCHEMA = "gpudissect-links/1"
HOST = Path.HOST.value
MAX_GPUS = 1024  # of a file
MAX_NAME_LENGTH = 60  # characters in a message


ROWS, LEGEND = "GPU", "Rows are the GPUs that load and store, columns whose memory it is."
"""Heading of the rows of a matrix, short as there may be many columns; and a line about both."""


class Shown(NamedTuple):
    """How the matrix of an attribute is shown."""

    title: str
    unit: float  # of the numbers in the matrix, in the unit of the attribute
    more_is_slower: bool


MATRICES: Mapping[str, Shown] = {
    "link_latency": Shown("Latency of a load, ns", 1.0, True),
    "repeated_l1_latency": Shown("Latency of a repeated load through the L1, ns", 1.0, True),
    "repeated_latency": Shown("Latency of a repeated load bypassing the L1, ns", 1.0, True),
    "evicted_latency": Shown("Latency of a load after the L2 of the other GPU evicted the line, ns", 1.0, True),
    "read_bandwidth": Shown("Loads, GB/s", 1e9, False),
    "write_bandwidth": Shown("Stores, GB/s", 1e9, False),
    "copy_bandwidth": Shown("Loads and stores at once, GB/s of both directions together", 1e9, False),
    "add_rate": Shown("Atomic additions of 32 bits, billion per second", 1e9, False),
    "engine_read_bandwidth": Shown("Copies to the GPU by a copy engine (cudaMemcpy), GB/s", 1e9, False),
    "engine_write_bandwidth": Shown("Copies from the GPU by a copy engine (cudaMemcpy), GB/s", 1e9, False),
    "pageable_read_bandwidth": Shown("Copies to the GPU from pageable memory, GB/s", 1e9, False),
    "pageable_write_bandwidth": Shown("Copies from the GPU to pageable memory, GB/s", 1e9, False),
}


@dataclass(frozen=True)
class LinkReport:
    """Links from GPUs to the host and to each other.

    Attributes:
        gpus: descriptions of the GPUs that load and store.
        links: what was measured of each link.
        failures: a line for each experiment that failed.
        interrupted: whether links are missing because of an interrupt.

    """

    gpus: tuple[DeviceInfo, ...]
    links: tuple[LinkValues, ...]
    failures: tuple[str, ...] = ()
    interrupted: bool = False

    def without_host(self) -> LinkReport:
        """The report without the name of the host."""
        from gpudissect.device.base import without_host

        return replace(self, gpus=tuple(map(without_host, self.gpus)))

    @property
    def targets(self) -> list[str]:
        """Whose memory was accessed: ``host``, then GPUs by number."""
        targets = {link.target for link in self.links}
        gpus = sorted((name for name in targets if ":" in name), key=lambda name: int(name.rpartition(":")[2]))
        return [HOST, *gpus] if HOST in targets else gpus

    @property
    def matrices(self) -> dict[str, Shown]:
        """The attributes of `MATRICES` with any value."""
        measured = {attribute for link in self.links for attribute in link.values}
        return {attribute: shown for attribute, shown in MATRICES.items() if attribute in measured}

    def matrix(self, attribute: str) -> dict[str, dict[str, Bracketed | None]]:
        """Value, low and high of an attribute by the GPU that loads and stores, then by whose memory it is."""
        by_pair = {(link.source, link.target): link.values.get(attribute) for link in self.links}
        sources = dict.fromkeys(link.source for link in self.links)
        return {source: {target: by_pair.get((source, target)) for target in self.targets} for source in sources}

    @property
    def notes(self) -> list[str]:
        """Lines below the matrices: which caches hold lines of other GPUs' memory, and what was measured at once."""
        pairs: dict[str, list[str]] = {}
        for link in self.links:
            if (caches := link.texts.get("cached_in")) is not None:
                pairs.setdefault(caches, []).append(f"{link.source} to {link.target}")
        named = {caches: f" ({', '.join(of)})" if len(pairs) > 1 else "" for caches, of in pairs.items()}
        notes = [f"Lines of another GPU's memory are held by: {caches}{of}" for caches, of in named.items()]
        if (count := max((link.pairs_at_once for link in self.links), default=1)) > 1:
            notes.append(
                f"Up to {count} pairs of GPUs connected by NVLink were measured at once, each GPU in one of them."
            )
        return notes

    @property
    def reasons(self) -> list[str]:
        """A line for each reason why values of a link are missing."""
        lines = []
        for link in self.links:
            for reason in dict.fromkeys(link.reasons.values()):
                names = ", ".join(name for name, text in link.reasons.items() if text == reason)
                lines.append(f"{link.source} to {link.target}: no {names}: {clean(shorten_message(reason))}")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Every value with its bracket, and what the drivers state of the links."""
        rows = [
            {"from": link.source, "to": link.target, "pairs_at_once": link.pairs_at_once, "missing": dict(link.reasons)}
            | {
                name: {"value": value, "low": low, "high": high, "unit": unit_of(name)}
                for name, (value, low, high) in link.values.items()
            }
            | {name: {"value": text} for name, text in link.texts.items()}
            for link in self.links
        ]
        gpus = [_described(info) for info in self.gpus]
        ended = {"failures": [*self.failures], "interrupted": self.interrupted}
        return {"schema": LINKS_SCHEMA, "version": __version__, "gpus": gpus, "links": rows, **ended}


def _described(info: DeviceInfo) -> dict[str, Any]:
    return {
        "spec": info.spec,
        "name": info.name,
        "origin": info.origin,
        "gpu_uuid": info.provenance.get("gpu_uuid"),
        "provenance": dict(info.provenance),
        **{
            name: info.facts.get(name)
            for name in ("pcie_generation", "pcie_lanes", "nvlinks", "nvlink_version", "numa_node")
        },
        **{name: [*map(int, str(info.facts.get(name, "")).split())] for name in ("peers", "nvlink_peers")},
    }


class LinkedGpu(Record):
    """A GPU that loads and stores."""

    spec: str
    name: str
    origin: str
    gpu_uuid: str | None = None
    provenance: Provenance = Provenance()
    pcie_lanes: int | None = None
    nvlinks: int | None = None
    peers: Items[int] = ()
    """Numbers of the GPUs whose memory it can access, described or not."""

    @property
    def uuid(self) -> str | None:
        """Its UUID; files of earlier versions state it outside of the provenance."""
        return self.provenance.gpu_uuid or self.gpu_uuid


class Link(Record):
    """What was measured of one link."""

    source: str = Field(alias="from")
    """The GPU that loads and stores, such as ``cuda:0``."""
    target: str = Field(alias="to")
    """Whose memory it is: ``host``, or another GPU."""
    values: dict[str, Finding]
    """By attribute, of the element ``host`` or ``peer``; in the file they are fields of the link."""

    @model_validator(mode="before")
    @classmethod
    def _collect_values(cls, content: Any) -> Any:
        if not isinstance(content, dict):
            return content
        known = {"element": HOST if content.get("to") == HOST else "peer", "status": Status.FOUND}
        values = {name: each for name, each in content.items() if name in ATTRIBUTES}
        if wrong := [name for name, each in values.items() if not isinstance(each, dict)]:
            raise ValueError(f"{wrong[0]} is not an object with a value and its bracket")
        found = {name: {**each, **known, "attribute": name} for name, each in values.items()}
        return {name: content[name] for name in ("from", "to") if name in content} | {"values": found}

    @model_validator(mode="after")
    def _is_possible(self) -> Link:
        for name, each in self.values.items():
            numbers = [number for number in (each.value, each.low) if isinstance(number, int | float)]
            if min(numbers, default=0) < 0:
                raise ValueError(f"{name} is {min(numbers):g}, below 0")
            if each.low is not None and each.high is not None and each.low > each.high:
                raise ValueError(f"the bracket of {name} begins at {each.low:g}, above its end, {each.high:g}")
        return self


class LinksFile(Record):
    """The links of some GPUs."""

    schema_: Literal["gpudissect-links/1"] = Field(alias="schema")
    gpus: Items[LinkedGpu] = Field(max_length=MAX_GPUS)
    links: Items[Link]
    failures: Items[str] = ()
    """A line for each experiment that failed."""
    interrupted: bool = False

    @model_validator(mode="after")
    def _each_once(self) -> LinksFile:
        if again := _repeated(gpu.spec for gpu in self.gpus):
            raise ValueError(f"it describes {again} twice")
        if again := _repeated(gpu.uuid for gpu in self.gpus):
            same = [gpu.spec for gpu in self.gpus if gpu.uuid == again]
            raise ValueError(
                f"{same[0]:.{MAX_NAME_LENGTH}} and {same[1]:.{MAX_NAME_LENGTH}} have the same UUID {again}"
            )
        if again := _repeated(f"{link.source} to {link.target}" for link in self.links):
            raise ValueError(f"it has the link {again} twice")
        described = {HOST, *(gpu.spec for gpu in self.gpus)}
        peers = {gpu.spec: {f"cuda:{number}" for number in gpu.peers} for gpu in self.gpus}
        for source, target in ((link.source, link.target) for link in self.links if link.values):
            if source not in peers or not (target in described or target in peers[source]):
                unknown = source if source not in peers else target
                raise ValueError(f"it has a link of {unknown:.{MAX_NAME_LENGTH}}, which it does not list")
        return self


def _repeated(names: Iterable[str | None]) -> str:
    """The first name that occurs twice, cut; empty if there is none."""
    seen = set[str]()
    for name in names:
        if name in seen:
            return name[:MAX_NAME_LENGTH]
        if name is not None:
            seen.add(name)
    return ""
