"""``gpudissect chase``, ``stream`` and ``mix``: run one workload on a device and print its raw trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from functools import partial
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from gpudissect.cli import completion
from gpudissect.cli.console import print_json, print_note
from gpudissect.cli.options import DeviceOption, RecordOption, TraceJsonOption, TraceOption
from gpudissect.errors import DeviceError, UsageError, unknown_name
from gpudissect.units import WARP_SIZE

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Chase, Mix, Path, Step, Stream, Workload

BLOCK_FOOTPRINT, TOTAL_FOOTPRINT = "16KiB", "64MiB"
DEFAULT_THREADS, DEFAULT_CLUSTER, DEFAULT_WIDTH = 512, 2, "16"

# Names of `gpudissect.workload`, which imports numpy.
OrderName = StrEnum("OrderName", "SEQUENTIAL RANDOM")
PathName = StrEnum(
    "PathName", "GLOBAL GLOBAL_L2 READONLY TEXTURE CONSTANT SHARED CLUSTER TMA HOST PEER PEER_L1 CODE NOTHING"
)
TimingName = StrEnum("TimingName", "EACH LAP COUNT")
AccessName = StrEnum("AccessName", "RESIDENT STREAMING RANDOM")
StreamPath = StrEnum("StreamPath", "GLOBAL GLOBAL_L2 READONLY TEXTURE SHARED HOST PEER CLUSTER TMA")
TransferName = StrEnum("TransferName", "READ WRITE COPY ADD")


def run_and_print(
    device: str | None,
    make: Callable[[DeviceInfo], Workload],
    *,
    output: FilePath | None,
    record: FilePath | None,
    as_json: bool,
    seed: int = 0,
) -> None:
    """Make a workload for the device, run it and write its raw trace to `output` or stdout, as the commands describe.

    What `make` raises comes before anything is run or recorded. Raises `UsageError` for several devices or an output
    that cannot be written or is an input, and `UnsupportedWorkload` for a workload that the device cannot run.
    """
    from gpudissect.device.kinds import choose, open_device
    from gpudissect.device.recording.device import Recorder
    from gpudissect.results.files import check_apart_from_run, check_ending, check_writable, write_bytes
    from gpudissect.views.traces import FORMATS, RunTrace, to_json, to_table

    if output is not None:
        check_ending(output, "of a trace", FORMATS)
        check_apart_from_run(output, device, record)
        check_writable(output)
    choice = choose(device)
    if choice.note:
        print_note(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"one workload runs on one device; name one, such as {choice.specs[0]}")
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(choice.specs[0], seed=seed))
        workload = make(opened.info)
        if record is not None:
            opened = stack.enter_context(Recorder(opened, record))
        trace = RunTrace.of(workload, opened.run([workload])[0], opened.info)
    if output is None:
        if as_json:
            print_json(to_json(trace))
        else:
            typer.echo(to_table(trace), nl=False)
        print_note(trace.summary())
        return
    content = FORMATS[output.suffix](trace)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
    if as_json:
        print_json(to_json(trace))
    else:
        typer.echo(trace.summary())


def check_span(info: DeviceInfo, path: Path, span: int, workload: str) -> None:
    """Raise `UsageError` if a footprint of `span` bytes exceeds what this path of the device reaches."""
    from gpudissect.units import format_bytes

    if span > (limit := info.limit(path)):
        raise UsageError(
            f"a {workload} on path {path.value} of {info.name} spans at most {format_bytes(limit)}, "
            f"got {format_bytes(span)}"
        )


def chase(
    device: DeviceOption = None,
    path: Annotated[PathName, Option(help="Memory space and caches that a load uses.")] = PathName.GLOBAL,
    size: Annotated[str, Option(metavar="BYTES", help="Footprint, such as 24KiB.")] = "16KiB",
    stride: Annotated[str, Option(metavar="BYTES", help="Distance between neighbouring links.")] = "32",
    order: Annotated[OrderName, Option(help="Order of the accesses in a lap.")] = OrderName.SEQUENTIAL,
    timing: Annotated[
        TimingName, Option(help="Time each access or whole laps, or count hits and misses.")
    ] = TimingName.EACH,
    warmup: Annotated[int, Option(min=0, help="Laps before timing starts.")] = 1,
    laps: Annotated[int, Option(min=1, help="Timed laps.")] = 1,
    bounds: Annotated[
        str | None, Option(metavar="HIT,MISS,MAX", help="With count: cycles; hit <= HIT, MISS <= miss <= MAX.")
    ] = None,
    carveout: Annotated[int | None, Option(min=0, max=100, help="Percent of the L1's array as shared memory.")] = None,
    sm: Annotated[int | None, Option(min=0, help="Hardware number of the SM that runs it.")] = None,
    flush: Annotated[bool, Option("--flush", help="Evict the data from every cache first.")] = False,
    peer: Annotated[
        int,
        Option(
            min=0, max=15, help="With path cluster: rank of the block; with paths peer, peer_l1: number of the GPU."
        ),
    ] = 1,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of a random order.")] = 0,
    output: TraceOption = None,
    record: RecordOption = None,
    as_json: TraceJsonOption = False,
) -> None:
    """Run one pointer chase and print its raw trace.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.workload import Path
    from gpudissect.workload.chase import parse_chase

    workload = parse_chase(
        path=path,
        size=size,
        stride=stride,
        order=order,
        timing=timing,
        warmup=warmup,
        laps=laps,
        bounds=bounds,
        carveout=carveout,
        sm=sm,
        flush=flush,
        peer=peer,
        seed=seed,
    )

    def make(info: DeviceInfo) -> Chase:
        if workload.path is not Path.NOTHING:
            if (reason := info.unsupported.get(workload.path)) is not None:
                raise DeviceError(f"{info.name} has no path {path}: {reason}")
            check_span(info, workload.path, workload.order.span, "chase")
        return workload

    run_and_print(device, make, output=output, record=record, as_json=as_json, seed=seed)


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
        footprint=_footprint(size if resident or size is not None else TOTAL_FOOTPRINT),
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


def stream(
    device: DeviceOption = None,
    path: Annotated[
        StreamPath | None, Option(help="Path to memory (default global_l2, or global without an L1).")
    ] = None,
    transfer: Annotated[
        TransferName, Option(help="Direction, or add: atomic additions, on global_l2 and peer.")
    ] = TransferName.READ,
    size: Annotated[
        str | None,
        Option(
            metavar="BYTES",
            help=f"Footprint (default {TOTAL_FOOTPRINT}); per block on shared and cluster ({BLOCK_FOOTPRINT}).",
        ),
    ] = None,
    blocks_per_sm: Annotated[int, Option(min=1, help="Blocks per SM.")] = 2,
    threads: Annotated[int | None, Option(min=1, help="Threads per block (default 512; 1 on tma).")] = None,
    ilp: Annotated[int, Option(min=1, help="Accesses in flight per thread.")] = 2,
    width: Annotated[
        str | None,
        Option(
            metavar="BYTES", help="Size of an access: 1, 2, 4, 8 or 16 (default; 4 to add); on tma, size of a copy."
        ),
    ] = None,
    passes: Annotated[int, Option(min=1, help="Number of times that a run traverses the footprint.")] = 1,
    waves: Annotated[int, Option(min=1, help="Number of block waves that traverse the footprint.")] = 1,
    runs: Annotated[int, Option(min=1, help="Timed runs, after an untimed one.")] = 5,
    cluster: Annotated[
        int | None, Option(min=1, help="Blocks per cluster, only with path cluster (default 2).")
    ] = None,
    peer: Annotated[int, Option(min=0, max=15, help="With path peer: number of the GPU.")] = 1,
    output: TraceOption = None,
    record: RecordOption = None,
    as_json: TraceJsonOption = False,
) -> None:
    """Run one stream and print its raw trace.

    It has nanoseconds and bytes of each run. The trace goes to FILE and the summary to stdout; without FILE the
    trace goes to stdout, the summary to stderr.
    """
    from gpudissect.units import parse_bytes
    from gpudissect.workload import Path, Stream, Transfer
    from gpudissect.workload.stream import ADD_WIDTH

    if cluster is not None and path is not StreamPath.CLUSTER:
        raise UsageError(f"--cluster needs --path cluster, got {f'--path {path}' if path else 'no --path'}")
    default_width = str(ADD_WIDTH) if transfer is TransferName.ADD else DEFAULT_WIDTH
    default_size = BLOCK_FOOTPRINT if path in (StreamPath.SHARED, StreamPath.CLUSTER) else TOTAL_FOOTPRINT
    footprint, width_bytes = (
        parse_bytes(size if size is not None else default_size),
        parse_bytes(width or default_width),
    )

    def make(info: DeviceInfo) -> Stream:
        default = Path.GLOBAL_L2 if Path.GLOBAL_L2 in info.streams else Path.GLOBAL
        chosen = default if path is None else Path(path)
        _check_path(info, chosen)
        workload = Stream(
            path=chosen,
            transfer=Transfer(transfer),
            footprint=footprint,
            blocks=blocks_per_sm * info.sm_count * waves,
            threads=threads or (1 if chosen is Path.TMA else DEFAULT_THREADS),
            ilp=ilp,
            width=width_bytes,
            passes=passes,
            runs=runs,
            peer=peer,
            cluster=cluster or (DEFAULT_CLUSTER if chosen is Path.CLUSTER else 1),
            waves=waves,
        )
        _check_fits(info, workload)
        return workload

    run_and_print(device, make, output=output, record=record, as_json=as_json)


def _check_path(info: DeviceInfo, path: Path) -> None:
    if path in info.unsupported or path not in info.streams:
        reason = f" ({info.unsupported[path]})" if path in info.unsupported else ""
        supported = ", ".join(info.streams) or "none"
        raise DeviceError(f"{info.name} runs no streams on path {path.value}{reason}; its paths: {supported}")


def _check_fits(info: DeviceInfo, stream: Stream) -> None:
    from gpudissect.workload import Transfer

    check_span(info, stream.path, stream.footprint * (2 if stream.transfer is Transfer.COPY else 1), "stream")
    for fact, value, what in (
        ("threads_per_sm", stream.threads, "an SM of {} has room for at most {} threads, got blocks of {}"),
        ("threads_per_block", stream.threads, "a block of {} has at most {} threads, got {}"),
        ("cluster_size", stream.cluster, "a cluster of {} has at most {} blocks, got {}"),
    ):
        limit = info.facts.get(fact)
        if isinstance(limit, int) and value > limit:
            raise UsageError(what.format(info.name, limit, value))
