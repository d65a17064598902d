"""Measure in isolation what latency hiding loses where its two bounds meet; the page of the GPU shows it.

``python validation/hiding_corner.py cuda:0 -o docs/results/NAME-latency-hiding-corner.json``: ten seconds on an H200.
The same loop on all SMs, on one SM (no load on memory), and with loads that hit in the L1 (no memory); additions alone
with bodies of several lengths (instruction fetch); and how long each block took (which goes first).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpudissect.device.base import Device
from gpudissect.device.kinds import open_device
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.latency_hiding.mixes import WAVES, block_sizes, footprint
from gpudissect.workload import Access, Instruction, Mix, Step

CYCLES, LONG_CYCLES = 150_000, 600_000  # per warp, about
ALPHA = 181
WARPS = (16, 20, 24, 28, 32, 36, 40, 48, 64)
L1_WARPS, L1_ALPHAS = (8, 16, 20, 24, 28, 32, 48, 64), (8, 16)
LENGTHS, LENGTH_WARPS = (64, 182, 513, 1026), (16, 32, 64)
MAX_RATE = 3.9  # instructions per cycle, to choose the iterations of a mix
LONG_RUN_WAVES, LONG_RUN_WARPS = 20, (32, 64)


def mix_of(info: DeviceInfo, alpha: int, warps: int, loads: Access | None, cycles: int = CYCLES) -> Mix:
    """One wave of a mix; `loads`: where they go, None for additions alone."""
    adds = Step(Instruction.FADD, alpha)
    waits = {Access.STREAMING: 700, Access.RESIDENT: 40, None: 0}[loads]
    each = max(4 * alpha + waits, (alpha + 1) * warps / MAX_RATE, 17 * warps if loads is Access.STREAMING else 0)
    plain = Mix(
        body=(adds,) if loads is None else (Step(Instruction.LDG), adds),
        warps=warps,
        block_size=block_sizes(warps, info)[-1],
        iterations=max(24, round(cycles / each)),
    )
    if loads is None:
        return plain
    return replace(
        plain, width=8, stride=2, access=loads, footprint=footprint(info) if loads is Access.STREAMING else 0
    )


def mixes(info: DeviceInfo) -> Iterator[tuple[str, Mix]]:
    """Mixes whose rate is measured, by name: on all SMs, on one, in many waves, with hits in the L1, without loads."""
    for warps in WARPS:
        mix = replace(mix_of(info, ALPHA, warps, Access.STREAMING), waves=WAVES)
        yield "all", mix
        yield "one", replace(mix, sms=1)
        if warps in LONG_RUN_WARPS:
            yield "rounds", replace(mix, waves=LONG_RUN_WAVES)
    for alpha in L1_ALPHAS:
        for warps in L1_WARPS:
            yield "l1", replace(mix_of(info, alpha, warps, Access.RESIDENT), waves=WAVES)
    for length in LENGTHS:
        for warps in LENGTH_WARPS:
            yield "adds", replace(mix_of(info, length, warps, None, 2 * CYCLES), waves=8)


def one_wave(info: DeviceInfo) -> Iterator[tuple[str, Mix]]:
    """Mixes of one wave of which the end of each block is measured, by name."""
    yield "additions alone", mix_of(info, 64, 64, None, LONG_CYCLES)
    for warps in (32, 64):
        yield f"alpha {ALPHA}", mix_of(info, ALPHA, warps, Access.STREAMING, LONG_CYCLES)
    yield "loads alone", replace(mix_of(info, 1, 64, Access.STREAMING, LONG_CYCLES), body=(Step(Instruction.LDG),))


def measured(device: Device) -> dict[str, object]:
    """Rates (instructions per cycle of one SM), and the time of each block of the first SM in the order of starts."""
    rates, ends = [], []
    for where, mix in mixes(device.info):
        (trace,) = device.run([mix])
        totals = SmTotals.of(trace)
        rate = totals.rate_between_waves(mix.instructions) or totals.attained_rate(mix.instructions)
        rates.append({"where": where, "alpha": mix.body[-1].count, "warps": mix.warps, "rate": round(rate, 4)})
    for name, mix in one_wave(device.info):
        (trace,) = device.run([mix])
        own = trace.sm == trace.sm.min()
        cycles, block = (trace.end - trace.begin)[own], trace.block[own]
        shares = [round(float(cycles[block == each].mean() / cycles.max()), 3) for each in np.unique(block)]
        places = place_times(cycles, block)
        ends.append({"what": name, "warps": mix.warps, "block": mix.block_size, "shares": shares, "places": places})
    return {"device": device.info.name, "rates": rates, "ends": ends}


def place_times(cycles: np.ndarray, block: np.ndarray) -> list[float]:
    """Mean time of the first, second, ... warp of blocks over the mean of all."""
    by_block = cycles[np.argsort(block, kind="stable")].reshape(np.unique(block).size, -1)
    return [round(float(mean), 4) for mean in by_block.mean(axis=0) / by_block.mean()]


def text(found: dict[str, object]) -> str:
    """As JSON, one row per line."""
    lists = [
        f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]"
        for name, rows in found.items()
        if isinstance(rows, list)
    ]
    return "{\n" + ",\n".join([f' "device": {json.dumps(found["device"])}', *lists]) + "\n}\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("device", help="such as cuda:0")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    with open_device(options.device) as device:
        found = measured(device)
    options.output.write_text(text(found))


if __name__ == "__main__":
    main()
