"""The profile file, schema ``gpudissect/profile/1``: what a kernel did on a GPU, recorded once, explained anywhere."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator

from gpudissect.errors import MachineCodeError, PtxError, UsageError
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.line_records import Count, LineRecords
from gpudissect.explanation.packing import MAX_EVENTS_PER_WARP, DamagedProfileError, Trace, unpack_bytes, unpack_trace
from gpudissect.explanation.ptx import MAX_PTX_BYTES, parse_ptx
from gpudissect.explanation.slow_paths import SlowCount
from gpudissect.machine_code.kernel import Cubin, Kernel, choose_kernel, read_cubin
from gpudissect.results.files import read_bounded
from gpudissect.results.model import Items, Record
from gpudissect.units import WARP_SIZE

SCHEMA: Literal["gpudissect/profile/1"] = "gpudissect/profile/1"
MAX_PROFILE_BYTES = 4 << 20
MAX_PARTS = 1 << 16  # lists and objects, or named values: each may cost an error of kilobytes
MAX_EXECUTIONS = 1 << 48  # of a block by all threads
MAX_CUBIN_BYTES = 1 << 26
_RECORD_AGAIN = "record it again"

Positive = Annotated[int, Field(ge=1, lt=2**31)]
Dimensions = tuple[Positive, Positive, Positive]
Duration = Annotated[float, Field(ge=1)]  # ns of a launch
AccessBytes = Annotated[int, Field(ge=1, le=128)]  # of a thread; PTX ISA 9.0 has up to 32
MAX_WARPS, MAX_ACCESSES, MAX_EVENTS = 1 << 8, 1 << 15, 1 << 20  # of a profile; more than `sampling` records
MAX_BLOCK_THREADS = 1024


class Launch(Record):
    """How the kernel was launched."""

    grid: Dimensions
    """Blocks in x, y and z."""
    block: Dimensions
    """Threads of a block in x, y and z."""
    shared_bytes: Count = 0
    """Dynamic shared memory of a block."""

    @field_validator("block")
    @classmethod
    def _is_a_block(cls, block: tuple[int, int, int]) -> tuple[int, int, int]:
        if block[0] * block[1] * block[2] > MAX_BLOCK_THREADS:
            raise ValueError(f"a block has at most {MAX_BLOCK_THREADS} threads")
        return block

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_block(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def warps_per_block(self) -> int:
        """Warps of a block, the last one may have fewer threads."""
        return -(-self.threads_per_block // WARP_SIZE)


class Gpu(Record):
    """The GPU on which the kernel ran."""

    name: str
    """Its name."""
    uuid: str = ""
    """Its UUID."""
    sm_count: Positive
    """Number of SMs."""
    driver: str = ""
    """Version of the driver."""
    facts: dict[str, int | float | str | None] = Field(default_factory=dict)
    """Properties stated by the driver, as in a result file."""


class Allocation(Record):
    """An array of the arguments, to which addresses are relative."""

    name: str
    """Name of the argument."""
    bytes: Count
    """Its size."""


class Warp(Record):
    """The trace of a sampled warp, packed."""

    block: Count
    """Linear index of its block in the grid."""
    warp: Count
    """Its index in the block."""
    visits: Annotated[int, Field(ge=0, le=MAX_EVENTS_PER_WARP)]
    """Recorded visits of blocks."""
    accesses: Annotated[int, Field(ge=0, le=MAX_EVENTS_PER_WARP)]
    """Recorded accesses: all, or the first, those in the middle, and the last (`windows.windows`)."""
    more_visits: Annotated[int, Field(ge=0, le=MAX_EXECUTIONS)] = 0
    """Visits after the recorded ones."""
    more_accesses: Annotated[int, Field(ge=0, le=MAX_EXECUTIONS)] = 0
    """Accesses that are not recorded."""
    packed: str = Field(repr=False)
    """See `packing.pack_trace`."""

    def trace(self) -> Trace:
        """What the warp did. Raises `DamagedProfileError`."""
        return unpack_trace(self.packed, self.visits, self.accesses, self.field)

    @property
    def field(self) -> str:
        """How errors name its trace."""
        return f"packed of warp {self.warp} in block {self.block}"


class Point(Record):
    """Time of the kernel at one occupancy."""

    blocks_per_sm: Positive
    """Blocks that fit on an SM, as the driver calculates it."""
    warps_per_sm: Positive
    """Their warps."""
    shared_bytes: Count
    """Dynamic shared memory of a block, at least that of the launch."""
    carveout: Annotated[int, Field(ge=-1, le=100)]
    """Preferred share of shared memory in percent; -1 is the driver's choice."""
    ns: Duration
    """Median time per launch in ns, launches back to back."""
    ns_low: Duration
    """First quartile."""
    ns_high: Duration
    """Third quartile."""
    launches: Count
    """Timed launches."""
    launches_per_time: Count
    """Launches between two events."""
    host_ns: float
    """Time in which the host queues a launch: if it is about `ns`, the host limits the rate."""
    sm_clock_hz: float | None = None
    """Clock of the SMs during the launches, as NVML reports it."""
    memory_clock_hz: float | None = None
    """Clock of the memory."""


class Results(Record):
    """Comparison of the outputs of instrumented and original kernels: arrays after one launch from the same data."""

    varying: Items[str] = ()
    """Arrays that differ between two launches of the plain kernel, such as sums of floats by atomics."""
    different_counted: Items[str] = ()
    """Other arrays that differ after the launch of the kernel with counters."""
    different_traced: Items[str] = ()
    """Other arrays that differ after the launch of the kernel that records accesses."""
    is_repeatable: bool = True
    """Whether another launch on the results runs every block as often; if not, each timed launch has the first data."""


class Profile(Record):
    """A kernel as it ran on a GPU."""

    schema_: Literal["gpudissect/profile/1"] = Field(SCHEMA, alias="schema")
    kernel: str
    """Name in the machine code."""
    architecture: str
    """Such as sm_90."""
    code_sha256: str
    """SHA-256 of the instructions of the kernel."""
    packed_ptx: str = Field(repr=False)
    """The PTX, compressed."""
    packed_cubin: str = Field(repr=False)
    """The machine code whose lines are numbers of PTX instructions, compressed."""
    registers: Count
    """Registers of a thread."""
    shared_bytes: Count
    """Static shared memory of a block."""
    local_bytes: Count
    """Local memory of a thread."""
    launch: Launch
    """How it was launched."""
    arguments: Items[str]
    """Arguments as `arguments.parse_argument` reads them."""
    gpu: Gpu
    """Where it ran."""
    tools: dict[str, str] = Field(default_factory=dict)
    """Versions of compiler and assembler."""
    counts: Items[tuple[str, Count, Count, Count, Count]] = ()
    """PTX function, block; executions by warps and by threads, threads with a taken branch. In a launch."""
    slow_paths: Items[tuple[str, Count, Count, Count, Count]] = ()
    """PTX function, block, number of a division or root; executions of its slow path by warps and by threads."""
    accesses: Annotated[Items[tuple[Count, str, str, AccessBytes]], Field(max_length=MAX_ACCESSES)] = ()
    """Number of the PTX instruction, space, kind and bytes per thread of what `Trace.accessed` has the index of."""
    allocations: Items[Allocation] = ()
    """Arrays of the arguments."""
    warps: Annotated[Items[Warp], Field(max_length=MAX_WARPS)] = ()
    """Traces of sampled warps, of those that likely share an SM first. Visits are indices of `counts`."""
    lines: LineRecords | None = None
    """Requests of sampled lines of the whole GPU, for hits in the L2."""
    blocks_per_sm: Count = 0
    """Blocks that fit on an SM with nothing added."""
    sweep: Items[Point] = ()
    """Times against occupancy; the point with nothing added and the carveout of the driver is the last one."""
    results: Results = Results()
    """Whether instrumented kernels computed the same."""
    notes: Items[str] = ()
    """What could not be recorded, and why."""

    @field_validator("counts")
    @classmethod
    def _are_of_warps(
        cls, counts: Sequence[tuple[str, int, int, int, int]]
    ) -> Sequence[tuple[str, int, int, int, int]]:
        for _, _, warps, threads, taken in counts:
            if not (warps <= threads <= WARP_SIZE * warps and taken <= threads <= MAX_EXECUTIONS):
                raise ValueError(f"{threads} threads in {warps} warps, {taken} of them with a taken branch")
        return counts

    def block_counts(self) -> dict[tuple[str, int], BlockCount]:
        """Executions of PTX blocks in a launch, by function and index of the block."""
        slow = defaultdict[tuple[str, int], list[SlowCount]](list)
        for function, block, *count in self.slow_paths:
            slow[function, block].append(SlowCount(*count))
        return {
            (function, block): BlockCount(warps, threads, taken, tuple(slow[function, block]))
            for function, block, warps, threads, taken in self.counts
        }

    def active_threads(self) -> float | None:
        """Threads of a warp that execute an instruction, on average over the PTX; None if no warp was counted.

        Raises `DamagedProfileError` for counts that are not of the blocks of the PTX.
        """
        module, warps, threads = parse_ptx(self.ptx()), 0, 0
        for (name, number), count in self.block_counts().items():
            try:
                block = module.function(name).blocks[number]
            except (PtxError, IndexError):
                raise DamagedProfileError("counts", "has blocks that are not in packed_ptx") from None
            warps += count.warps * (block.end - block.start)
            threads += count.threads * (block.end - block.start)
        return threads / warps if warps else None

    def check(self) -> None:
        """Raise `DamagedProfileError` for counts and traces that are too long or not of this launch, PTX and code."""
        launched = self.launch.blocks * self.launch.warps_per_block, self.launch.blocks * self.launch.threads_per_block
        if self.counts and not any(count[1] == 0 and count[2:4] == launched for count in self.counts):
            raise DamagedProfileError("counts", "has no first block that all launched threads execute")
        if sum(warp.visits + warp.accesses for warp in self.warps) > MAX_EVENTS:
            raise DamagedProfileError("warps", f"has more than {MAX_EVENTS} events")
        if any(each.block >= self.launch.blocks or each.warp >= self.launch.warps_per_block for each in self.warps):
            raise DamagedProfileError("warps", "has a warp that launch does not have")
        blocks, traces = len(self.block_counts()), [warp.trace() for warp in self.warps]
        if any((trace.accessed >= len(self.accesses)).any() for trace in traces):
            raise DamagedProfileError("warps", "refers to an access that accesses does not contain")
        if any((trace.visited >= blocks).any() for trace in traces):
            raise DamagedProfileError("warps", "refers to a block that counts does not contain")
        sizes = [each.bytes for each in self.allocations]
        for warp, trace in zip(self.warps, traces, strict=True):
            if not trace.has_addresses_in(sizes):
                raise DamagedProfileError(warp.field, "has impossible addresses")

    def ptx(self) -> str:
        """The PTX. Raises `DamagedProfileError`."""
        return unpack_bytes(self.packed_ptx, MAX_PTX_BYTES, "packed_ptx").decode("utf-8", "replace")

    def machine_code(self) -> tuple[Cubin, Kernel]:
        """The cubin with numbers of PTX instructions as lines, and its kernel. Raises `DamagedProfileError`."""
        try:
            cubin = read_cubin(unpack_bytes(self.packed_cubin, MAX_CUBIN_BYTES, "packed_cubin"))
            kernel = choose_kernel(cubin.kernels, self.kernel)
        except MachineCodeError as error:
            raise DamagedProfileError("packed_cubin", f"is no cubin of the kernel ({error})") from None
        if hashlib.sha256(kernel.code).hexdigest() != self.code_sha256:
            raise DamagedProfileError("packed_cubin", "is not the machine code that ran, by code_sha256")
        return cubin, kernel

    def to_json(self) -> str:
        """The text of the profile file."""
        return self.model_dump_json(by_alias=True, exclude_defaults=False)


def read_profile(path: Path) -> Profile:
    """Read a profile file. Raises `UsageError`, in one line, for a file that is missing, too large or no profile."""
    data = read_bounded(path, MAX_PROFILE_BYTES, "profile")
    if not data.strip():
        raise UsageError(f"{path} is empty; {_RECORD_AGAIN}")
    if max(data.count(b"{") + data.count(b"["), data.count(b":")) > MAX_PARTS:
        raise UsageError(f"{path} is not a profile: it has more than {MAX_PARTS} lists or named values")
    try:
        return Profile.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["loc"] == ("schema",) and re.fullmatch(r"gpudissect/\d", str(first["input"])[:20]):
            raise UsageError(f"{path} is a result of discover: give it as --machine, and a profile as FILE") from None
        place = ".".join(str(part)[:40] for part in first["loc"])
        reason = ascii(f"{place}: {first['msg']}" if place else first["msg"])[1:-1][:160]
        raise UsageError(f"{path} is not a profile of schema {SCHEMA}: {reason}; {_RECORD_AGAIN}") from None
