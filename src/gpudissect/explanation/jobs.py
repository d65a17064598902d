"""What the process that runs a user's kernel reads and writes in a folder: a job, and what it measured so far."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field

from gpudissect.explanation.arguments import Argument, parse_arguments
from gpudissect.explanation.profile import Gpu, Launch, Point, Results
from gpudissect.explanation.sampling import Plan

JOB, MEASURED = "job.json", "measured.json"
PLAIN, COUNTED, TRACED, SAMPLED = "plain.cubin", "counted.cubin", "traced.cubin", "sampled.cubin"
COUNTERS = "counters.npy"
LINES = "lines.npz"
CONTENTS = "contents.npz"
INSTRUMENTED = ("counts", "trace", "lines")
"""Stages with a kernel that is not quite the user's."""
DEFAULT_LIMIT_S = 60.0
"""Of a launch, and of all times against occupancy."""


def trace_file(folder: Path, plan: int, launch: int) -> Path:
    """The file with the arrays of a traced launch for a plan."""
    return folder / f"trace{plan}-{launch}.npz"


def trace_files(folder: Path, plan: int) -> list[Path]:
    """The files of all traced launches for a plan, in their order."""
    return sorted(folder.glob(f"trace{plan}-*.npz"))


class Job(BaseModel, frozen=True, strict=True):
    """A kernel to measure: cubins and names of the arrays of instrumented ones."""

    kernel: str
    launch: Launch
    arguments: tuple[str, ...]
    seed: int = 0
    counters: str
    """Array of the counters."""
    trace: dict[str, str]
    """Arrays of the trace by their names without prefix."""
    lines: dict[str, str] = {}
    """Arrays of sampled lines by their names without prefix; empty if the kernel has no accesses to sample."""
    is_traced_in_order: bool = False
    """Whether traces must have the first accesses of each warp, without gaps."""
    accesses_of_blocks: tuple[int, ...]
    """Accesses that a visit of each counted block makes."""
    limit_s: float = DEFAULT_LIMIT_S
    """Of a launch."""
    sweep_s: float = DEFAULT_LIMIT_S
    """In which the times against occupancy are measured, those at high occupancy first."""
    skip: tuple[str, ...] = ()
    """Stages to leave out."""


class Measured(BaseModel, strict=True):
    """Partial measurements; `stage`: the last stage started."""

    stage: str = "launch"
    registers: int = 0
    shared_bytes: int = 0
    local_bytes: int = 0
    blocks_per_sm: int = 0
    gpu: Gpu | None = None
    addresses: tuple[int, ...] = ()
    """Of the arrays among the arguments."""
    has_counts: bool = False
    sweep: tuple[Point, ...] = ()
    conditions: tuple[str, ...] = ()
    """What may have slowed the timed launches."""
    omitted_points: int = 0
    """Occupancies, the lowest ones, for which the time did not suffice."""
    traces: tuple[Plan, ...] = ()
    """Plans of the traced launches."""
    has_lines: bool = False
    results: Results = Results()
    seconds: dict[str, float] = {}
    """Time of each stage."""


class Step(BaseModel, frozen=True, strict=True, extra="forbid"):
    """A line that the process prints while it measures: a stage and its progress."""

    stage: str
    done: int = 0
    total: int = 1


class Answer(BaseModel, frozen=True, strict=True, extra="forbid"):
    """A line that the process prints after each job."""

    error: Annotated[str, Field(max_length=2000)] = ""
    is_lost: bool = False
    """Whether the process ends, as its context is lost."""
    has_timed_out: bool = False
    """Whether a launch took longer than its limit."""


def write_job(folder: Path, job: Job) -> None:
    """Write a job into its folder."""
    (folder / JOB).write_text(job.model_dump_json(), encoding="utf-8")


def read_job(folder: Path) -> Job:
    """The job of a folder."""
    return Job.model_validate_json((folder / JOB).read_bytes())


def write_contents(folder: Path, arguments: Sequence[Argument]) -> None:
    """Write the data of arrays that no text describes."""
    contents: dict[str, Any] = {f"x{n}": a.content for n, a in enumerate(arguments) if a.content is not None}
    if contents:
        np.savez(folder / CONTENTS, **contents)


def read_arguments(folder: Path, job: Job) -> tuple[Argument, ...]:
    """The arguments of a job, with their data where no text describes them."""
    arguments, path = parse_arguments(job.arguments), folder / CONTENTS
    if not path.exists():
        return arguments
    with np.load(path, allow_pickle=False) as file:
        contents = {n: file[f"x{n}"] for n in range(len(arguments)) if f"x{n}" in file.files}
    return tuple(replace(a, content=contents[n]) if n in contents else a for n, a in enumerate(arguments))


def write_measured(folder: Path, measured: Measured) -> None:
    """Replace what is known, in one step."""
    temporary = folder / f"{MEASURED}.part"
    temporary.write_text(measured.model_dump_json(), encoding="utf-8")
    temporary.replace(folder / MEASURED)


def read_measured(folder: Path) -> Measured | None:
    """What is known of a job, None if nothing is."""
    path = folder / MEASURED
    return Measured.model_validate_json(path.read_bytes()) if path.exists() else None
