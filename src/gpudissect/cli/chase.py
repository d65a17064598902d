"""``gpudissect chase``: one pointer chase and its raw trace."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gpudissect.cli.options import DeviceOption, RecordOption, TraceJsonOption, TraceOption
from gpudissect.cli.raw import check_span, run_and_print
from gpudissect.errors import DeviceError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Chase

# Names of `gpudissect.workload`, which imports numpy.
OrderName = StrEnum("OrderName", "SEQUENTIAL RANDOM")
PathName = StrEnum("PathName", "GLOBAL GLOBAL_L2 READONLY TEXTURE CONSTANT SHARED CLUSTER TMA CODE NOTHING")
TimingName = StrEnum("TimingName", "EACH LAP COUNT")


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
    peer: Annotated[int, Option(min=0, max=15, help="With path cluster: rank of the block to read.")] = 1,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of a random order.")] = 0,
    output: TraceOption = None,
    record: RecordOption = None,
    as_json: TraceJsonOption = False,
) -> None:
    """Run one pointer chase and print its raw trace.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.workload import Path
    from gpudissect.workload.parse import parse_chase

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
