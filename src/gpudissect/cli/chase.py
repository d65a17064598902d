"""``gpudissect chase``: one pointer chase of the user's own, raw trace out."""

from __future__ import annotations

from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated

import typer

from gpudissect.cli.say import note_line
from gpudissect.errors import DeviceError, UsageError

if TYPE_CHECKING:
    from gpudissect.device.base import DeviceInfo
    from gpudissect.report.trace import ChaseTrace
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
    device: Annotated[
        str | None, typer.Option("--device", "-d", metavar="DEV", help="cuda:0, sim:gtx980, sim:my.toml, rec:folder.")
    ] = None,
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
    output: Annotated[
        FilePath | None, typer.Option("--output", "-o", metavar="FILE", help="Trace as .csv, .json, .npz or .txt.")
    ] = None,
    record: Annotated[
        FilePath | None, typer.Option(metavar="DIR", help="Keep it in a new folder, to replay as rec:DIR.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the trace as JSON.")] = False,
) -> None:
    """Run one pointer chase and give its raw trace.

    The trace goes to FILE and the summary to stdout; without FILE the trace goes to stdout, the summary to stderr.
    """
    from gpudissect.report.files import check_writable, write_bytes
    from gpudissect.report.trace import FORMATS, summary, to_json, to_table
    from gpudissect.units import parse_bytes
    from gpudissect.workload import Chase, Path, Sequential, Shuffled, Timing

    if output is not None:
        if output.suffix not in FORMATS:
            raise UsageError(f"cannot write {output}: the name must end in {', '.join(FORMATS)}")
        check_writable(output)
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
    given = _run(device, wanted, seed, record)
    if output is None:
        typer.echo(to_json(given) if as_json else to_table(given), nl=False)
        note_line(summary(given))
        return
    content = FORMATS[output.suffix](given)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
    typer.echo(to_json(given) if as_json else summary(given), nl=not as_json)


def _run(device: str | None, chase: Chase, seed: int, record: FilePath | None) -> ChaseTrace:
    from gpudissect.device.find import choose, open_device
    from gpudissect.device.recorded import Recorder
    from gpudissect.report.trace import ChaseTrace

    choice = choose(device)
    if choice.note:
        note_line(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"a chase runs on one device; name one, such as {choice.specs[0]}")
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(choice.specs[0], seed=seed))
        _check_fits(opened.info, chase)
        if record is not None:
            opened = stack.enter_context(Recorder(opened, record))
        return ChaseTrace(opened.info, chase, opened.run([chase])[0])


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
