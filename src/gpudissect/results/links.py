"""What `gpudissect links` found: the links of some GPUs as matrices, one for each attribute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from gpudissect import __version__
from gpudissect.device.base import without_host
from gpudissect.device_info import DeviceInfo
from gpudissect.survey.links import HOST as HOST
from gpudissect.survey.links import OTHER_GPUS, LinkValues
from gpudissect.survey.links import Bracketed as Bracketed
from gpudissect.vocabulary import unit_of

SCHEMA = "gpudissect-links/1"


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
        return replace(self, gpus=tuple(map(without_host, self.gpus)))

    @property
    def targets(self) -> list[str]:
        """Whose memory was accessed: ``host``, then GPUs by number."""
        targets = {link.target for link in self.links}
        gpus = sorted(targets - {HOST, OTHER_GPUS}, key=lambda name: int(name.rpartition(":")[2]))
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
                lines.append(f"{link.source} to {link.target}: no {names}: {reason}")
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
        return {"schema": SCHEMA, "version": __version__, "gpus": gpus, "links": rows, **ended}


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
