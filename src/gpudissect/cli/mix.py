"""``gpudissect mix``: many warps run instructions; when each warp began and ended."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gpudissect.cli import completion
from gpudissect.cli.options import DeviceOption, RecordOption, TraceJsonOption, TraceOption
from gpudissect.cli.raw import check_span, run_and_print
from gpudissect.errors import DeviceError, UsageError, unknown_name
from gpudissect.units import WARP_SIZE

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Mix, Step

DEFAULT_FOOTPRINT = "64MiB"

AccessName = StrEnum("AccessName", "RESIDENT STREAMING RANDOM")  # names of `gpudissect.workload`, which imports numpy


def mix(
    device: DeviceOption = None,
    run: Annotated[
        str,
        Option(
            metavar="BODY",
            autocompletion=completion.instructions,
            help="Instructions of an iteration, in order, such as fadd:4,ldg:1.",
        ),
    ] = "fadd:64",
    warps: Annotated[int, Option(min=1, help="Warps per SM, all resident at once.")] = 1,
    block_size: Annotated[int | None, Option(help="Threads per block (default: as many warps as fit).")] = None,
    iterations: Annotated[int, Option(min=1, help="Iterations of each warp.")] = 16,
    ilp: Annotated[int, Option(min=1, help="Independent chains per warp.")] = 1,
    sms: Annotated[int | None, Option(min=1, help="Number of SMs that run it (default: all).")] = None,
    stride: Annotated[int, Option(min=0, help="4-byte words between operands of neighbouring lanes.")] = 1,
    width: Annotated[int, Option(min=1, help="Bytes of an operand in memory: 4, 8 or 16.")] = 4,
    access: Annotated[AccessName, Option(help="Access pattern in global memory.")] = AccessName.RESIDENT,
    size: Annotated[
        str | None, Option(metavar="BYTES", help="Footprint of streaming or random access (default 64MiB).")
    ] = None,
    waves: Annotated[int, Option(min=1, help="Number of block waves.")] = 1,
    output: TraceOption = None,
    record: RecordOption = None,
    as_json: TraceJsonOption = False,
) -> None:
    """Run one mix of instructions and print its raw trace.

    It has SM, block, begin and end of every warp. The trace goes to FILE and the summary to stdout; without FILE
    the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.workload import GLOBAL_INSTRUCTIONS, Access, Mix

    resident, body = access is AccessName.RESIDENT, _body(run)
    if not resident and not any(step.instruction in GLOBAL_INSTRUCTIONS for step in body):
        raise UsageError(
            f"--access {access} needs an instruction on global memory, --run {run[:40]!r} has none: "
            f"add {' or '.join(GLOBAL_INSTRUCTIONS)}"
        )
    workload = Mix(
        body=body,
        warps=warps,
        block_size=block_size if block_size is not None else WARP_SIZE * max(n for n in range(1, 33) if warps % n == 0),
        iterations=iterations,
        ilp=ilp,
        sms=sms,
        stride=stride,
        width=width,
        access=Access(access),
        footprint=_footprint(size if resident or size is not None else DEFAULT_FOOTPRINT),
        waves=waves,
    )

    run_and_print(device, partial(_fitting, workload), output=output, record=record, as_json=as_json)


def _body(text: str) -> tuple[Step, ...]:
    """``fadd:4,ldg`` as steps; the count defaults to 1."""
    from gpudissect.workload import Instruction, Step

    steps = []
    for part in text.split(","):
        name, colon, count = part.strip().partition(":")
        if name not in list(Instruction):
            raise unknown_name("instruction", name, list(Instruction))
        if colon and not (count.isascii() and count.isdecimal() and len(count) < 7):
            raise UsageError(f"--run takes counts in whole numbers to 999999 such as fadd:4,ldg:1, got {part[:40]!r}")
        steps.append(Step(Instruction(name), int(count) if colon else 1))
    return tuple(steps)


def _footprint(size: str | None) -> int:
    from gpudissect.units import parse_bytes

    if size is None:
        return 0
    if (footprint := parse_bytes(size)) == 0:
        raise UsageError("--size takes at least one byte, got 0; leave it out for resident operands")
    return footprint


def _fitting(mix: Mix, info: DeviceInfo) -> Mix:
    """The mix. Raises `DeviceError` or `UsageError` if the device cannot run it."""
    from gpudissect.workload import Path

    if missing := [step.instruction.value for step in mix.body if step.instruction not in info.instructions]:
        supported = ", ".join(info.instructions) or "none"
        raise DeviceError(f"{info.name} runs no {missing[0]}; instructions that it runs: {supported}")
    threads = info.facts.get("threads_per_sm")
    if isinstance(threads, int) and mix.warps * WARP_SIZE > threads:
        raise UsageError(f"an SM of {info.name} has room for {threads // WARP_SIZE} warps, got {mix.warps}")
    if mix.sms is not None and mix.sms > info.sm_count:
        raise UsageError(f"{info.name} has {info.sm_count} SMs, got {mix.sms}")
    check_span(info, Path.GLOBAL, mix.footprint, "mix")
    return mix
