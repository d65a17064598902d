"""What the model takes from a result: measured latencies, rates and bandwidths of a GPU."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from gpudissect.catalogue.compute_capability import (
    SM_REGISTERS,
    USUAL_BLOCKS,
    carveouts,
    max_sm_threads,
    reserved_shared,
    schedulers,
)
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.explanation.reuse import L2, SECTOR_BYTES
from gpudissect.printable import brief
from gpudissect.results.model import Result
from gpudissect.units import WARP_SIZE
from gpudissect.vocabulary import HIDING

NEEDED = (
    ("l1", "hit_latency"),
    ("l2", "hit_latency"),
    ("l2", "read_bandwidth"),
    ("dram", "hit_latency"),
    ("dram", "read_bandwidth"),
    ("dram", "copy_bandwidth"),
    ("fadd", "rate"),
    ("ffma", "rate"),
    ("iadd", "rate"),
    ("lds", "latency"),
    ("lds", "rate"),
    ("launch", "block_replacement"),
)
"""Without these there is no model."""
AT_L2 = 0.33  # of the latency of a hit, in which the L2 merges requests: the rest is the way there and back

MAX_FACT = 1 << 22  # threads, blocks, registers or bytes of shared memory of an SM: more than any has


@dataclass(frozen=True)
class Card:
    """A measured GPU: values of its findings by element and attribute, in their units.

    `value` raises `UsageError` for one that was not measured.
    """

    name: str
    compute_capability: int  # 10 * major + minor
    sms: int
    clock_hz: float
    schedulers: int
    warps: int  # maximum of an SM
    blocks: int
    registers: int  # of an SM, 32 bits each
    shared_bytes: int  # of an SM
    reserved_shared: int  # of each block, in bytes
    carveouts: tuple[int, ...]  # bytes of shared memory of an SM, the least first
    values: Mapping[tuple[str, str], float] = field(repr=False)
    partition_of_sm: tuple[int, ...] = field(default=(0,), repr=False)  # of the L2

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))

    def value(self, element: str, attribute: str) -> float:
        """A measured value. Raises `UsageError` without it."""
        if (element, attribute) not in self.values:
            raise UsageError(
                f"no {element}.{attribute} in the result of {self.name}: measure with 'gpudissect discover'"
            )
        return self.values[element, attribute]

    @property
    def far_homes(self) -> float:
        """Share of the lines whose home is not in the partition of the L2 near an SM."""
        return 1 - 1 / (max(self.partition_of_sm) + 1)

    @property
    def l2(self) -> L2 | None:
        """The L2, None if its capacity was not measured."""
        capacity = self.values.get(("l2", "capacity"))
        if capacity is None:
            return None
        partitions = max(self.partition_of_sm) + 1
        fetched = int(self.values.get(("l2", "fetch_granularity"), float(SECTOR_BYTES)))
        in_flight = self.value("l2", "read_bandwidth") * self.value("l2", "hit_latency") / self.clock_hz * AT_L2
        return L2(capacity / partitions, fetched, self.partition_of_sm, in_flight)

    def bytes_per_cycle(self, element: str, attribute: str) -> float:
        """A bandwidth as the share of one SM, in bytes per cycle of its clock."""
        return self.value(element, attribute) / (self.sms * self.clock_hz)


def card_of(*results: Result) -> Card:
    """The GPU of one or more results: of `discover`, and of `hide` too if given. Later ones replace earlier values.

    Raises `UsageError` for results of different GPU models, or if one of `NEEDED` is in none of them.
    """
    if len({result.device.name for result in results}) != 1:
        names = " and ".join(dict.fromkeys(result.device.name for result in results))
        raise UsageError(f"results of different GPUs: {names}; --machine and --against each take results of one GPU")
    values = {
        (each.element, each.attribute): float(each.value)
        for result in results
        for each in result.findings
        if each.status is Status.FOUND and isinstance(each.value, int | float)
    }
    missing = [".".join(key) for key in NEEDED if key not in values]
    if missing:
        raise UsageError(_why_missing(results, ", ".join(missing)))
    device, facts = results[0].device, results[0].device.facts
    clock = next((r.conditions.clock_hz for r in results if r.conditions.clock_hz), None)
    if clock is None:
        raise UsageError(f"the result of {device.name} has no SM clock")

    capability = str(facts.get("compute_capability", ""))
    if not re.fullmatch(r"\d{1,2}\.\d", capability):
        raise UsageError(f"the result of {device.name} has no compute capability")

    def fact(name: str, default: int) -> int:
        found = facts.get(name)
        if found is None:
            return default
        if not isinstance(found, int) or not 1 <= found <= MAX_FACT:
            raise UsageError(f"the result of {device.name} states {name} = {brief(str(found), 40)}")
        return found

    return Card(
        name=device.name,
        compute_capability=int(capability.replace(".", "")),
        sms=device.sm_count,
        clock_hz=clock,
        schedulers=schedulers(facts),
        warps=fact("threads_per_sm", max_sm_threads(facts)) // WARP_SIZE,
        blocks=fact("blocks_per_sm", USUAL_BLOCKS),
        registers=fact("registers_per_sm", SM_REGISTERS),
        shared_bytes=fact("shared_per_sm", 0),
        reserved_shared=reserved_shared(facts),
        carveouts=carveouts(facts),
        values=values,
        partition_of_sm=_partition_of_sm(results),
    )


def _why_missing(results: Sequence[Result], missing: str) -> str:
    """What the results lack, why, and what to do."""
    what = f"the result of {results[0].device.name}"
    if all(each.element in HIDING for result in results for each in result.findings):
        return f"{what} is one of 'hide': also give one of 'discover'"
    profiles = [f"--profile {result.options.profile}" for result in results if result.options.profile]
    chosen = profiles + ["--quick" for result in results if result.options.quick]
    if chosen:
        return f"{what} lacks {missing}: it was measured with {chosen[0]}; run 'gpudissect discover' without it"
    return f"{what} lacks {missing}; measure with 'gpudissect discover'"


def _partition_of_sm(results: Sequence[Result]) -> tuple[int, ...]:
    """The partition of the L2 near each SM; all the same if they were not measured."""
    found = [
        each.value
        for result in results
        for each in result.findings
        if (each.element, each.attribute) == ("l2", "partition_by_sm") and each.status is Status.FOUND
    ]
    partitions = found[-1] if found and isinstance(found[-1], list | tuple) and found[-1] else (0,)
    return tuple(max(0, int(partition)) for partition in partitions)
