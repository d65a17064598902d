"""Banks of the register file: multiply-adds that read one, adjacent, or distant registers."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpudissect.catalogue.compute_capability import schedulers
from gpudissect.estimate import Series, Status
from gpudissect.measure.infer_confidence import BANKS, TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import block_size_of, why_unsupported
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

BANK_COUNTS = (1, 2, 4, 8)
MIN_SLOWDOWN = 1.2  # by three registers of one bank, relative to one register
MAX_ERROR = 0.05  # relative, of the times that a number of banks predicts
REGISTERS = ((4, 4, 4), (4, 5, 6), (4, 6, 8), (5, 7, 9), (4, 8, 12))
WARPS, CHAINS, LONG, SHORT, REPETITIONS = 16, 4, 512, 128, 2
ATTRIBUTES = ("banks", "read_interval")
METHOD = (
    "multiply-adds that do not depend on one another, their source registers chosen in the machine code; "
    f"{WARPS} warps, {LONG} iterations less {SHORT}"
)


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


def registers_plan(bench: Bench, known: Known) -> Plan:
    """Banks of a scheduler's registers, and cycles to read one."""
    if (reason := why_unsupported(Instruction.FFMA, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "registers", reason, *ATTRIBUTES))
    block_size = block_size_of(WARPS, bench.info) or WARP_SIZE
    body = (Step(Instruction.FFMA),)
    plain = Mix(body=body, warps=WARPS, block_size=block_size, iterations=LONG, ilp=CHAINS, sms=1)
    mixes = [
        replace(plain, source_registers=registers, iterations=iterations, repetition=repetition)
        for registers in REGISTERS
        for repetition in range(REPETITIONS)
        for iterations in (LONG, SHORT)
    ]
    traces = yield mixes
    spans = np.reshape([float(np.median(SmTotals.of(trace).spans)) for trace in traces], (-1, REPETITIONS, 2))
    scale = WARPS * CHAINS * (LONG - SHORT) / schedulers(bench.info.facts)
    times = ((spans[..., 0] - spans[..., 1]).min(axis=1) / scale).tolist()
    evidence = tuple(map(digest, mixes))
    columns: dict[str, tuple[float | str, ...]] = {
        "registers": tuple(" ".join(f"R{number}" for number in registers) for registers in REGISTERS),
        "cycles": tuple(times),
    }
    name = "cycles of a scheduler for a multiply-add against its registers"
    series = (Series("registers", name, columns, {"cycles": "cycles"}, evidence),)
    fit = fit_banks(dict(zip(REGISTERS, times, strict=True)))
    if fit is None or not fit.counts:
        reason = "no registers are slower to read than others"
        if fit is not None:
            reason = "no number of banks explains which registers are slow"
        return Outcome(without(Status.NOT_FOUND, "registers", reason, *ATTRIBUTES, evidence=evidence), series=series)
    count, error = fit.counts[0], 2 * MAX_CLOCK_DRIFT * fit.interval + 0.01
    low, high = min(fit.counts), max(fit.counts)
    banks = found(
        "registers", "banks", count, low, high, BANKS, METHOD, evidence, ("register r is in bank r modulo it",)
    )
    interval, least, most = fit.interval, fit.interval - error, fit.interval + error
    read = found("registers", "read_interval", interval, least, most, TIMED, METHOD, evidence)
    return Outcome((banks, read), series=series)


EXPERIMENTS = (Experiment(Key("registers.ffma"), registers_plan, ATTRIBUTES, element="registers"),)
