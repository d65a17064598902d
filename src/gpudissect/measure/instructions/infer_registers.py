"""Banks of a register file from the time of instructions by the registers that they read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BANK_COUNTS = (1, 2, 4, 8)
MIN_SLOWDOWN = 1.2  # by three registers of one bank, relative to one register
MAX_ERROR = 0.05  # relative, of the times that a number of banks predicts


@dataclass(frozen=True)
class RegisterBanks:
    """Numbers of banks that explain the times, the likeliest first, and cycles of a bank to read one register."""

    counts: tuple[int, ...]
    interval: float


def reads_of_a_bank(registers: Sequence[int], banks: int) -> int:
    """Different registers that the bank with the most of them reads, register r in bank r modulo `banks`."""
    return max(Counter(register % banks for register in set(registers)).values())


def fit_banks(cycles: Mapping[tuple[int, ...], float]) -> RegisterBanks | None:
    """Banks from cycles of a scheduler by source registers; None if no registers are slower than others.

    An instruction takes as long as its unit, which one register shows, or as its reads of one bank. Raises `ValueError`
    without an instruction that reads one register.
    """
    single = min((time for registers, time in cycles.items() if len(set(registers)) == 1), default=None)
    if single is None:
        raise ValueError("banks need an instruction that reads one register")
    slowest = max(cycles, key=lambda registers: cycles[registers])
    if cycles[slowest] < MIN_SLOWDOWN * single:
        return None
    interval = cycles[slowest] / len(set(slowest))

    def error(banks: int) -> float:
        times = ((max(single, interval * reads_of_a_bank(r, banks)), time) for r, time in cycles.items())
        return max(abs(predicted / time - 1) for predicted, time in times)

    counts = sorted((banks for banks in BANK_COUNTS if error(banks) <= MAX_ERROR), key=error)
    return RegisterBanks(tuple(counts), interval)
