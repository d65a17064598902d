"""``gpudissect chase``: one pointer chase of the user's own, raw trace out."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli.raw import DeviceOption, JsonOption, OutputOption, RecordOption, Wishes, run_and_give
from gpudissect.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Bounds, Chase


class OrderName(StrEnum):
    """Orders that have a name; those of the workload package would import numpy here."""

    SEQUENTIAL = "sequential"
    RANDOM = "random"


class PathName(StrEnum):
    """`gpudissect.workload.Path`, by name."""

    GLOBAL = "global"
    GLOBAL_L2 = "global_l2"
    READONLY = "readonly"
    TEXTURE = "texture"
    CONSTANT = "constant"
    SHARED = "shared"
    CLUSTER = "cluster"
    TMA = "tma"
    CODE = "code"
    NOTHING = "nothing"


class TimingName(StrEnum):
    """`gpudissect.workload.Timing`, by name."""

    EACH = "each"
    LAP = "lap"
    COUNT = "count"


def chase(
    device: DeviceOption = None,
    path: Annotated[PathName, typer.Option(help="The way a load takes to memory.")] = PathName.GLOBAL,
    size: Annotated[str, typer.Option(metavar="BYTES", help="Footprint, such as 24KiB.")] = "16KiB",
    stride: Annotated[str, typer.Option(metavar="BYTES", help="Distance of neighbours.")] = "32",
    order: Annotated[OrderName, typer.Option(help="How one lap visits them.")] = OrderName.SEQUENTIAL,
    timing: Annotated[
        TimingName, typer.Option(help="Time each access, a whole lap, or count hits and misses.")
    ] = TimingName.EACH,
    warmup: Annotated[int, typer.Option(min=0, help="Laps before timing starts.")] = 1,
    laps: Annotated[int, typer.Option(min=1, help="Timed laps.")] = 1,
    bounds: Annotated[
        str | None, typer.Option(metavar="HIT,MISS,MAX", help="With count: hit <= HIT, MISS <= miss <= MAX cycles.")
    ] = None,
    carveout: Annotated[
        int | None, typer.Option(min=0, max=100, help="Percent of the on-chip array as shared memory.")
    ] = None,
    sm: Annotated[int | None, typer.Option(min=0, help="The SM that must run it, by the hardware's number.")] = None,
    flush: Annotated[bool, typer.Option("--flush", help="Empty every cache of the data first.")] = False,
    peer: Annotated[
        int, typer.Option(min=0, max=15, help="With path cluster: rank of the block whose shared memory is asked.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of a random order.")] = 0,
    output: OutputOption = None,
    record: RecordOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run one pointer chase and give its raw trace.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.units import parse_bytes
    from gpudissect.views.traces.trace import ChaseTrace
    from gpudissect.workload import Chase, Path, Sequential, Shuffled, Timing

    step = parse_bytes(stride)
    if step < 1 or parse_bytes(size) < step:
        raise UsageError(f"the footprint must hold at least one stride, got --size {size} and --stride {stride}")
    count = parse_bytes(size) // step
    wanted = Chase(
        path=Path(path),
        order=Sequential(count, step) if order is OrderName.SEQUENTIAL else Shuffled(count, step, seed),
        timing=Timing(timing),
        warmup=warmup,
        laps=laps,
        bounds=_bounds(bounds),
        carveout=carveout,
        flush=flush,
        sm=sm,
        alone=True,
        peer=peer,
    )

    def fitting(info: DeviceInfo) -> Chase:
        _check_fits(info, wanted)
        return wanted

    wishes = Wishes(device=device, output=output, record=record, as_json=as_json, seed=seed)
    run_and_give(fitting, ChaseTrace, wishes)


def _check_fits(info: DeviceInfo, chase: Chase) -> None:
    from gpudissect.units import format_bytes
    from gpudissect.workload import Path

    if chase.path is Path.NOTHING:
        return
    if (why := info.unsupported.get(chase.path)) is not None:
        raise DeviceError(f"{info.name} has no path {chase.path.value}: {why}")
    limit = info.limit(chase.path)
    if chase.order.span > limit:
        got, most = format_bytes(chase.order.span), format_bytes(limit)
        raise UsageError(f"a chase on path {chase.path.value} of {info.name} spans at most {most}, got {got}")


def _bounds(text: str | None) -> Bounds | None:
    from gpudissect.workload import Bounds

    if text is None:
        return None
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--bounds takes three whole numbers of cycles such as 60,180,400, got {text!r}")
    return Bounds(*(int(part) for part in parts))
