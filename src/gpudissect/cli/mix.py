"""``gpudissect mix``: many warps run instructions; when each began and ended."""

from __future__ import annotations

import difflib
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli import complete
from gpudissect.cli.raw import DeviceOption, JsonOption, OutputOption, RecordOption, Wishes, run_and_give
from gpudissect.errors import DeviceError, UsageError
from gpudissect.units import WARP_SIZE

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Mix, Step

FOOTPRINT = "64MiB"


class AccessName(StrEnum):
    """`gpudissect.workload.Access`, by name."""

    RESIDENT = "resident"
    STREAMING = "streaming"
    RANDOM = "random"


def mix(
    device: DeviceOption = None,
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="BODY",
            autocompletion=complete.instructions,
            help="What an iteration runs, in order, such as fadd:4,ldg:1.",
        ),
    ] = "fadd:64",
    warps: Annotated[int, typer.Option(min=1, help="Warps of an SM, all at once.")] = 1,
    block_size: Annotated[
        int | None, typer.Option(help="Threads of a block (as many warps as fit into one).", show_default=False)
    ] = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often a warp runs the body.")] = 16,
    ilp: Annotated[int, typer.Option(min=1, help="Independent chains of a warp.")] = 1,
    sms: Annotated[int | None, typer.Option(min=1, help="How many SMs run it (all).", show_default=False)] = None,
    stride: Annotated[int, typer.Option(min=0, help="4-byte words between operands of neighbouring lanes.")] = 1,
    width: Annotated[int, typer.Option(min=1, help="Bytes of an operand in memory: 4, 8 or 16.")] = 4,
    access: Annotated[AccessName, typer.Option(help="How operands in global memory spread.")] = AccessName.RESIDENT,
    size: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help=f"Over what they spread, unless resident ({FOOTPRINT}).", show_default=False
        ),
    ] = None,
    waves: Annotated[int, typer.Option(min=1, help="Block waves: how many times as many blocks as run at once.")] = 1,
    output: OutputOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one mix of instructions and give its raw trace: SM, block, begin and end of every warp.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.views.traces.throughput_trace import MixTrace
    from gpudissect.workload import Access, Mix
    from gpudissect.workload.instruction import GLOBAL

    spread, body = access is not AccessName.RESIDENT, _body(run)
    if spread and not any(step.instruction in GLOBAL for step in body):
        raise UsageError(f"--access {access.value} is of operands in global memory, and --run {run[:40]!r} has none: "
                         f"add {' or '.join(GLOBAL)}")  # fmt: skip
    wanted = Mix(
        body=body, warps=warps, block_size=block_size if block_size is not None else _block(warps),
        iterations=iterations, ilp=ilp, sms=sms, stride=stride, width=width, access=Access(access),
        footprint=_footprint(FOOTPRINT if spread and size is None else size), waves=waves,
    )  # fmt: skip

    def fitting(info: DeviceInfo) -> Mix:
        _check_fits(info, wanted)
        return wanted

    wishes = Wishes(device=device, output=output, record=record, as_json=as_json)
    run_and_give(fitting, MixTrace, wishes)


def _body(text: str) -> tuple[Step, ...]:
    """``fadd:4,ldg`` as steps; a count that is left out is 1."""
    from gpudissect.workload import Instruction, Step

    steps = []
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        if name not in list(Instruction):
            close = difflib.get_close_matches(name.lower(), list(Instruction), n=2)
            hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(Instruction)}"
            raise UsageError(f"no such instruction: {name[:40]!r}; {hint}")
        if colon and not (count.isascii() and count.isdecimal() and len(count) < 7):
            raise UsageError(f"--run takes instructions with whole numbers to 999999 such as fadd:4,ldg:1, "
                             f"got {part[:40]!r}")  # fmt: skip
        steps.append(Step(Instruction(name), int(count) if colon else 1))
    return tuple(steps)


def _footprint(size: str | None) -> int:
    """Bytes of a size, 0 only for none."""
    from gpudissect.units import parse_bytes

    if size is None:
        return 0
    if (footprint := parse_bytes(size)) == 0:
        raise UsageError("--size takes at least one byte; leave it out where operands are resident")
    return footprint


def _block(warps: int) -> int:
    """Threads of a block: the most whole warps of it that divide what an SM runs."""
    return WARP_SIZE * max(each for each in range(1, 33) if warps % each == 0)


def _check_fits(info: DeviceInfo, mix: Mix) -> None:
    from gpudissect.units import format_bytes
    from gpudissect.workload import Path

    lacking = [step.instruction.value for step in mix.body if step.instruction not in info.instructions]
    if lacking:
        there = ", ".join(each.value for each in info.instructions) or "none"
        raise DeviceError(f"{info.name} runs no {lacking[0]}; instructions that it does run: {there}")
    most = info.facts.get("threads_per_sm")
    if isinstance(most, int) and mix.warps * WARP_SIZE > most:
        raise UsageError(f"an SM of {info.name} has room for {most // WARP_SIZE} warps, got {mix.warps}")
    if mix.sms is not None and mix.sms > info.sm_count:
        raise UsageError(f"{info.name} has {info.sm_count} SMs, got {mix.sms}")
    if mix.footprint > (limit := info.limit(Path.GLOBAL)):
        raise UsageError(f"global memory of {info.name} has room for {format_bytes(limit)}, "
                         f"got {format_bytes(mix.footprint)}")  # fmt: skip
