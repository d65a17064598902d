"""What `explain` found of a kernel on a GPU, schema ``gpudissect/explanation/1``: data for views and programs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpudissect.device_info import Origin
from gpudissect.results.model import Items, Record

SCHEMA: Literal["gpudissect/explanation/1"] = "gpudissect/explanation/1"
MIN_GAIN = 0.03
"""Share of the time that an advice saves at least."""


class Point(Record):
    """Time at one occupancy. Times in nanoseconds of a launch."""

    blocks_per_sm: int
    """Blocks on an SM at once."""
    warps_per_sm: int
    """Warps on an SM at once."""
    predicted: float
    """Predicted time."""
    low: float
    """Lower end of its bracket."""
    high: float
    """Upper end."""
    l1_bytes: int | None = None
    """Bytes of the L1: lower occupancies are timed with dynamic shared memory, which shrinks it."""
    limiter: str
    """What limits it: a resource such as `memory`, or `latency`."""
    measured: float | None = None
    """Measured time, if this GPU ran it."""
    volkov: float
    """Time by Volkov's model (VV16 s3.3)."""
    roofline: float
    """Time by the roofline."""

    @property
    def error(self) -> float | None:
        """Predicted over measured time, minus one: negative if predicted too fast. None if it was not measured."""
        return self.predicted / self.measured - 1 if self.measured else None


class WorksheetRow(Record):
    """A resource as in the worksheet of VV16 (table 3.4)."""

    unit: str
    """The resource: a pipe, the issue slots, the L2 or memory."""
    instructions: float
    """Instructions of a warp that use it."""
    cycles: float
    """Cycles of the unit that all warps of an SM take."""
    share: float
    """`cycles` as a fraction of the predicted time."""


class Line(Record):
    """An instruction of the machine code."""

    address: int
    """Byte offset from the start of the kernel."""
    text: str
    """The instruction."""
    source_file: str | None = None
    """File of its source line."""
    source_line: int | None = None
    """Number of its source line."""
    executed: float
    """Executions by a warp, on average."""
    active_threads: float | None = None
    """Threads of a warp that execute it together, on average."""
    unit: str
    """Unit that executes it."""
    issue_cycles: float
    """Cycles until its unit accepts the next one, conflicts included."""
    latency: float | None = None
    """Cycles until a dependent instruction may issue, unloaded; of a load the mean by where its requests end. None if
    stall counts fix it."""
    waits_for: Items[int] = ()
    """Addresses of the instructions whose results it waits for."""
    stall: float
    """Share of the time of a warp that it waits at this instruction, for a result or a barrier."""
    contended: float
    """Share of the time of a warp that it waits for an issue slot or a unit."""
    limiting: float = 0.0
    """Share of the work of the resource that limits the kernel."""
    is_measured: bool
    """Whether its cost was measured, as this very instruction."""
    cost_source: str
    """The measured element, `like` another one, or what is assumed."""
    is_critical: bool = False
    """Whether it is on the longest chain of dependences."""
    sectors: float | None = None
    """Sectors of 32 bytes that a request of it touches."""
    l1_hits: float | None = None
    """Share of its requests that end in the SM."""
    l2_hits: float | None = None
    """Share of the others that end in the L2."""


class Advice(Record):
    """What would make the kernel faster."""

    text: str
    """What to do."""
    gain: float
    """Time saved relative to now, by the model."""
    is_limit: bool = False
    """Whether `gain` is an upper limit."""
    evidence: str
    """The numbers behind it."""


class GateResult(Record):
    """A condition on an explanation, such as ``spills == 0``, and whether it is true."""

    expression: str
    """The condition."""
    is_true: bool
    """Whether it is true."""
    values: dict[str, float | str]
    """Values of the names in it: bytes, nanoseconds, percent, counts, or the name of a resource."""


class Explanation(Record):
    """A kernel on a GPU."""

    schema_: Literal["gpudissect/explanation/1"] = Field(SCHEMA, alias="schema")
    kernel: str
    """Name of the kernel."""
    architecture: str
    """Architecture of the machine code."""
    gpu: str
    """GPU whose measured values were used."""
    origin: Origin | None = None
    """Whether these values were measured, simulated or replayed."""
    recorded_origin: Origin | None = None
    """Origin of the recording that was replayed."""
    recorded_gpu: str | None = None
    """GPU of the profile, if it is another one: its measured times are not comparable."""
    counts: Literal["measured", "given"] = "measured"
    """Whether executions were counted on a GPU, or follow from given trips of the loops."""
    active_threads: float | None = None
    """Threads of a warp that execute an instruction, on average over the PTX; None if executions were not counted."""
    sms: int | None = None
    """SMs of the GPU."""
    max_warps: int | None = None
    """Maximum warps per SM."""
    grid: tuple[int, int, int]
    """Blocks."""
    block: tuple[int, int, int]
    """Threads of a block."""
    registers: int
    """Registers of a thread."""
    shared_bytes: int
    """Shared memory of a block, static and dynamic."""
    stack_bytes: int
    """Local memory of a thread: more than 0 if registers are spilled or arrays indexed."""
    occupancy: dict[str, int]
    """Blocks that an SM holds, by what limits them."""
    point: Point
    """At the kernel's own occupancy."""
    curve: Items[Point] = ()
    """Over all occupancies."""
    warps_for_90: int | None = None
    """Minimum warps per SM that reach 90 % of the best throughput of the curve, with the L1 of the launch."""
    bounds: dict[str, float] = Field(default_factory=dict)
    """Nanoseconds that each resource needs at least."""
    traffic: dict[str, float] = Field(default_factory=dict)
    """Bytes that all SMs move from and to the L2, and that the L2 moves from and to memory: ``l2`` and ``memory``."""
    working_blocks: int | None = None
    """Blocks that do not exit at once; None if all blocks work, or if the number is unknown."""
    critical_path: float
    """Nanoseconds of the longest chain of instructions of a warp that depend on one another through registers."""
    loops: dict[str, float] = Field(default_factory=dict)
    """Cycles that one iteration of each loop adds to the longest chain."""
    worksheet: Items[WorksheetRow] = ()
    """Instructions by unit."""
    lines: Items[Line] = ()
    """The machine code."""
    advice: Items[Advice] = ()
    """Ranked, largest gain first."""
    hint: str = ""
    """What reduces the work of the resource that limits the kernel; empty if it is not known."""
    rejected: Items[Advice] = ()
    """Other changes that were tried: each saves less than `MIN_GAIN`."""
    assumptions: Items[str] = ()
    """What was not measured, with its source."""
    notes: Items[str] = ()
    """What the profile or the model could not do."""
    gate: GateResult | None = None
    """The condition of `--gate`, if one was given."""
    against: Explanation | None = None
    """The same kernel on another GPU, if requested."""

    def to_json(self) -> str:
        """The text of the file."""
        return self.model_dump_json(by_alias=True, indent=1)
