"""``gpudissect stream``: many threads move bytes; how many a second."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli.raw import DeviceOption, JsonOption, OutputOption, RecordOption, Wishes, run_and_give
from gpudissect.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Path, Stream

OF_A_BLOCK = "16KiB"
OF_ALL = "64MiB"
THREADS, PAIR = 512, 2


class StreamPath(StrEnum):
    """Paths of `gpudissect.workload.Path` that streams take, by name."""

    GLOBAL = "global"
    GLOBAL_L2 = "global_l2"
    SHARED = "shared"
    CLUSTER = "cluster"
    TMA = "tma"


class TransferName(StrEnum):
    """`gpudissect.workload.Transfer`, by name."""

    READ = "read"
    WRITE = "write"
    COPY = "copy"


def stream(
    device: DeviceOption = None,
    path: Annotated[
        StreamPath | None,
        typer.Option(help="The way to memory (global_l2, or global without an L1).", show_default=False),
    ] = None,
    transfer: Annotated[TransferName, typer.Option(help="Which way the bytes go.")] = TransferName.READ,
    size: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help=f"Footprint; on shared and cluster of a block ({OF_ALL}, {OF_A_BLOCK}).",
                     show_default=False),
    ] = None,
    blocks_per_sm: Annotated[int, typer.Option(min=1, help="Blocks for each SM.")] = 2,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads of a block (512; 1 on tma).", show_default=False)
    ] = None,
    ilp: Annotated[int, typer.Option(min=1, help="Accesses of a thread in flight.")] = 2,
    width: Annotated[str, typer.Option(metavar="BYTES", help="Of one access: 4, 8 or 16; on tma of one copy.")] = "16",
    passes: Annotated[int, typer.Option(min=1, help="How often a run goes through the footprint.")] = 1,
    waves: Annotated[int, typer.Option(min=1, help="Number of block waves that traverse the footprint.")] = 1,
    runs: Annotated[int, typer.Option(min=1, help="Timed runs, after one that is not.")] = 5,
    cluster: Annotated[
        int | None, typer.Option(min=1, help="Blocks of a cluster, only with path cluster (2).", show_default=False)
    ] = None,
    output: OutputOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Run one stream and give its raw trace: nanoseconds and bytes of each run.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.units import parse_bytes
    from gpudissect.views.traces.throughput_trace import StreamTrace
    from gpudissect.workload import Path, Stream, Transfer

    if cluster is not None and path is not StreamPath.CLUSTER:
        raise UsageError("--cluster is of --path cluster, where a block reads the shared memory of its neighbour")
    own = path in (StreamPath.SHARED, StreamPath.CLUSTER)
    footprint, each = parse_bytes(size if size is not None else OF_A_BLOCK if own else OF_ALL), parse_bytes(width)

    def fitting(info: DeviceInfo) -> Stream:
        way = _past_the_l1(info) if path is None else Path(path)
        _check_runs(info, way)
        wanted = Stream(
            path=way, transfer=Transfer(transfer), footprint=footprint, blocks=blocks_per_sm * info.sm_count * waves,
            threads=threads or (1 if way is Path.TMA else THREADS), ilp=ilp, width=each, passes=passes, runs=runs,
            cluster=cluster or (PAIR if way is Path.CLUSTER else 1), waves=waves,
        )  # fmt: skip
        _check_fits(info, wanted)
        return wanted

    wishes = Wishes(device=device, output=output, record=record, as_json=as_json)
    run_and_give(fitting, StreamTrace, wishes)


def _past_the_l1(info: DeviceInfo) -> Path:
    """The way to memory that takes no detour."""
    from gpudissect.workload import Path

    return Path.GLOBAL_L2 if Path.GLOBAL_L2 in info.streams else Path.GLOBAL


def _check_runs(info: DeviceInfo, path: Path) -> None:
    there = ", ".join(each.value for each in info.streams) or "none"
    if (why := info.unsupported.get(path)) is not None:
        raise DeviceError(f"{info.name} has no path {path.value}: {why}; paths on which it runs streams: {there}")
    if path not in info.streams:
        raise DeviceError(f"{info.name} runs no streams on path {path.value}; paths on which it does: {there}")


def _check_fits(info: DeviceInfo, stream: Stream) -> None:
    from gpudissect.units import format_bytes
    from gpudissect.workload import Transfer

    needed = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
    if needed > (limit := info.limit(stream.path)):
        raise UsageError(f"a stream on path {stream.path.value} of {info.name} goes through at most "
                         f"{format_bytes(limit)}, got {format_bytes(needed)}")  # fmt: skip
    for fact, got, what in (
        ("threads_per_sm", stream.threads, "an SM of {} has room for {} threads, got blocks of {}"),
        ("threads_per_block", stream.threads, "a block of {} has at most {} threads, got {}"),
        ("cluster_size", stream.cluster, "a cluster of {} has at most {} blocks, got {}"),
    ):
        most = info.facts.get(fact)
        if isinstance(most, int) and got > most:
            raise UsageError(what.format(info.name, most, got))
