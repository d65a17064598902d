"""How many blocks an SM holds, what limits them, and how much of its memory is left for the L1."""

from collections.abc import Iterator
from dataclasses import dataclass

from gpudissect.catalogue.compute_capability import allocated_registers
from gpudissect.explanation.model.card import Card
from gpudissect.machine_code.kernel import Kernel
from gpudissect.units import WARP_SIZE

SHARED_UNIT = 128
"""Bytes in which shared memory is allocated (CUDA C++ Programming Guide, Shared Memory)."""


@dataclass(frozen=True)
class Occupancy:
    """Blocks of an SM by what limits them: ``warps``, ``blocks``, ``registers``, ``shared memory``."""

    by_limit: dict[str, int]

    @property
    def blocks(self) -> int:
        """Blocks that an SM holds."""
        return min(self.by_limit.values())

    @property
    def limits(self) -> tuple[str, ...]:
        """What limits them."""
        return tuple(name for name, blocks in self.by_limit.items() if blocks == self.blocks)


def shared_of_block(kernel: Kernel, dynamic: int, card: Card) -> int:
    """Bytes of shared memory that a block takes, with those that the system reserves."""
    return -(-(kernel.shared_bytes + dynamic) // SHARED_UNIT) * SHARED_UNIT + card.reserved_shared


def occupancy_of(kernel: Kernel, threads: int, dynamic: int, card: Card) -> Occupancy:
    """Blocks of `threads` threads with `dynamic` bytes of shared memory that an SM holds."""
    warps = -(-threads // WARP_SIZE)
    of_warp = allocated_registers(max(1, kernel.registers)) * WARP_SIZE
    by_registers = card.registers // card.schedulers // of_warp * card.schedulers
    shared = shared_of_block(kernel, dynamic, card)
    limits = {
        "warps": card.warps // warps,
        "blocks": card.blocks,
        "registers": by_registers // warps,
        "shared memory": card.shared_bytes // shared if shared else card.blocks,
    }
    return Occupancy(limits)


def l1_bytes(card: Card, resident: int, shared: int, *, largest_carveout: bool) -> int:
    """Bytes of the L1 left by `resident` blocks of `shared` bytes each.

    The driver takes the smallest carveout that holds them, unless the largest is preferred (CUDA C++ Programming
    Guide). `l1.capacity` is beside the smallest one: on an H200 and an H100 241 KiB, and 21 KiB beside the largest,
    where a chase through 20 KiB hits and one through 22 KiB does not.
    """
    return l1_beside(card, next(_carveouts(card, card.shared_bytes if largest_carveout else resident * shared), 0))


def l1_beside(card: Card, carveout: int) -> int:
    """Bytes of the L1 beside a carveout; beside the largest one if it is 0."""
    capacity = int(card.values.get(("l1", "capacity"), float(card.shared_bytes)))
    return max(0, capacity + card.carveouts[0] - (carveout or card.shared_bytes))


def _carveouts(card: Card, needed: int) -> Iterator[int]:
    """Bytes of the carveouts that hold so many bytes, the smallest first."""
    return (size for size in card.carveouts if size >= needed)


def limited_blocks(card: Card, resident: int, shared: int, blocks: int) -> tuple[int, int] | None:
    """Carveout, and shared memory of a block, in bytes, with which an SM holds `blocks` instead of `resident` blocks.

    Neither is smaller than now; `shared` has the reserved bytes. None if no carveout fits so many blocks alone.
    """
    for carveout in _carveouts(card, resident * shared):
        least = max(shared, (carveout // (blocks + 1) // SHARED_UNIT + 1) * SHARED_UNIT)
        if blocks * least <= carveout <= card.shared_bytes:
            return carveout, least
    return None
