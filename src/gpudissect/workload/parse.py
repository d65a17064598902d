"""Workloads from words and sizes such as ``24KiB``, as the command line and `gpudissect.chase` take them."""

from typing import Any

from gpudissect.errors import UsageError, unknown_name
from gpudissect.units import parse_bytes
from gpudissect.workload.chase import Bounds, Chase, Path, Timing
from gpudissect.workload.order import Sequential, Shuffled

ORDERS = ("sequential", "random")


def parse_chase(
    *,
    path: str,
    size: str | int,
    stride: str | int,
    order: str,
    seed: int,
    timing: str,
    bounds: str | None,
    **options: Any,
) -> Chase:
    """A chase of one thread over `size` bytes in steps of `stride` bytes; `options` are further ones of `Chase`.

    `order` is sequential or random; `seed` that of a random one. Raises `UsageError` for an unknown name, a footprint
    without a single stride, or impossible options.
    """
    footprint, step = parse_bytes(str(size)), parse_bytes(str(stride))
    if step < 1 or footprint < step:
        raise UsageError(f"the footprint must hold at least one stride, got size {size} and stride {stride}")
    for kind, name, known in (("path", path, Path), ("order", order, ORDERS), ("timing", timing, Timing)):
        if name not in list(known):
            raise unknown_name(kind, name, known)
    count = footprint // step
    return Chase(
        path=Path(path),
        order=Sequential(count, step) if order == "sequential" else Shuffled(count, step, seed),
        timing=Timing(timing),
        bounds=None if bounds is None else _bounds(bounds),
        alone=True,
        **options,
    )


def _bounds(text: str) -> Bounds:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 10 for part in parts):
        raise UsageError(f"--bounds takes three whole numbers of cycles such as 60,180,400, got {text!r}")
    return Bounds(*map(int, parts))
