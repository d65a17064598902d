"""Where the rings of a chase and of the turns before it lie in the arena."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpudissect.device.cuda.arena import place
from gpudissect.device.cuda.chase.layout import UNRINGED
from gpudissect.workload import Chase, Order, Path


@dataclass(frozen=True)
class Ring:
    """A ring to be laid: its path, its region's offset in the arena, and, if it is timed, picked positions or all."""

    path: Path
    order: Order
    region: int
    timed: bool = False
    picks: tuple[int, ...] | None = None


def span(path: Path, order: Order) -> int:
    """Bytes a ring takes, a multiple of 8; 0 where there is no ring."""
    return 0 if path in UNRINGED else -(-order.span // 8) * 8


def with_turns(chase: Chase) -> tuple[list[Ring], list[int], int]:
    """Rings of a chase and of the turns before it, each once, the ring of every turn, and the arena they need.

    All rings lie in one region, as offsets say, but for those of constant memory, which has a region of its own.
    """
    wanted = [Ring(chase.path, chase.order, 0, timed=True, picks=chase.picks)]
    wanted += [Ring(turn.path, turn.order, 0) for turn in chase.before]
    rings: list[Ring] = []
    numbers: list[int] = []
    for ring in wanted:
        same = [
            i
            for i, other in enumerate(rings)
            if other.path.link_format == ring.path.link_format and other.order == ring.order
        ]
        numbers.append(same[0] if same else len(rings))
        if not same:
            rings.append(ring)
    constant = [ring for ring in rings if ring.path is Path.CONSTANT]
    memory = [ring for ring in rings if ring.path is not Path.CONSTANT]
    spans = [max((span(ring.path, ring.order) for ring in space), default=0) for space in (memory, constant)]
    (at, bank), arena = place(spans)
    rings = [replace(ring, region=bank if ring.path is Path.CONSTANT else at) for ring in rings]
    return rings, numbers[1:], arena
