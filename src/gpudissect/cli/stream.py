"""``gpudissect stream``: many threads move bytes; the bandwidth of each run."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gpudissect.cli.options import DeviceOption, RecordOption, TraceJsonOption, TraceOption
from gpudissect.cli.raw import check_span, run_and_print
from gpudissect.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Path, Stream

BLOCK_FOOTPRINT, TOTAL_FOOTPRINT = "16KiB", "64MiB"
DEFAULT_THREADS, DEFAULT_CLUSTER = 512, 2

# Names of `gpudissect.workload`, which imports numpy.
StreamPath = StrEnum("StreamPath", "GLOBAL GLOBAL_L2 SHARED CLUSTER TMA")
TransferName = StrEnum("TransferName", "READ WRITE COPY")


def stream(
    device: DeviceOption = None,
    path: Annotated[
        StreamPath | None, Option(help="Path to memory (default global_l2, or global without an L1).")
    ] = None,
    transfer: Annotated[TransferName, Option(help="Direction of the transfer.")] = TransferName.READ,
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
        str, Option(metavar="BYTES", help="Size of an access: 4, 8 or 16; on tma, size of a copy.")
    ] = "16",
    passes: Annotated[int, Option(min=1, help="Number of times that a run traverses the footprint.")] = 1,
    waves: Annotated[int, Option(min=1, help="Number of block waves that traverse the footprint.")] = 1,
    runs: Annotated[int, Option(min=1, help="Timed runs, after an untimed one.")] = 5,
    cluster: Annotated[
        int | None, Option(min=1, help="Blocks per cluster, only with path cluster (default 2).")
    ] = None,
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

    if cluster is not None and path is not StreamPath.CLUSTER:
        raise UsageError(f"--cluster needs --path cluster, got {f'--path {path}' if path else 'no --path'}")
    default_size = BLOCK_FOOTPRINT if path in (StreamPath.SHARED, StreamPath.CLUSTER) else TOTAL_FOOTPRINT
    footprint, width_bytes = parse_bytes(size if size is not None else default_size), parse_bytes(width)

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
