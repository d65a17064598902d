"""Measure what latency hiding loses where its two bounds meet, apart from all else; its page shows it.

``python validation/hiding_corner.py cuda:0 -o docs/results/NAME-latency-hiding-corner.json``: ten seconds on an H200.
The same loop on all SMs, on one SM (nobody else loads the memory), and with loads that hit in the L1 (no memory at
all); additions alone with bodies of several lengths (instruction fetch); and how long each block took (who goes first).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from gpudissect.device.base import Device
from gpudissect.device.find import open_device
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.infer_issue import Lifetimes
from gpudissect.measure.latency_hiding.mixes import WAVES, block_sizes, footprint
from gpudissect.workload import Access, Instruction, Mix, Step

CYCLES, LONG = 150_000, 600_000  # that a warp takes, about
ALPHA = 181
WARPS = (16, 20, 24, 28, 32, 36, 40, 48, 64)
OF_L1, ALPHAS_OF_L1 = (8, 16, 20, 24, 28, 32, 48, 64), (8, 16)
LENGTHS, WARPS_OF_LENGTHS = (64, 182, 513, 1026), (16, 32, 64)
FASTEST = 3.9  # instructions a cycle, to choose how often a mix runs
MANY_ROUNDS, WARPS_OF_ROUNDS = 20, (32, 64)


def mix_of(info: DeviceInfo, alpha: int, warps: int, loads: Access | None, cycles: int = CYCLES) -> Mix:
    """`loads`: where they go; None for additions alone. Without `rounds`."""
    adds = Step(Instruction.FADD, alpha)
    waits = {Access.STREAMING: 700, Access.RESIDENT: 40, None: 0}[loads]
    each = max(4 * alpha + waits, (alpha + 1) * warps / FASTEST, 17 * warps if loads is Access.STREAMING else 0)
    plain = Mix(body=(adds,) if loads is None else (Step(Instruction.LDG), adds), warps=warps,
                block_size=block_sizes(warps, info)[-1], iterations=max(24, round(cycles / each)))  # fmt: skip
    if loads is None:
        return plain
    return replace(
        plain, width=8, stride=2, access=loads, footprint=footprint(info) if loads is Access.STREAMING else 0
    )


def mixes(info: DeviceInfo) -> Iterator[tuple[str, Mix]]:
    """What is run for its rate, by name: on all SMs, in many rounds, on one SM, with hits in the L1, without loads."""
    for warps in WARPS:
        many = replace(mix_of(info, ALPHA, warps, Access.STREAMING), waves=WAVES)
        yield "all", many
        yield "one", replace(many, sms=1)
        if warps in WARPS_OF_ROUNDS:
            yield "rounds", replace(many, waves=MANY_ROUNDS)
    for alpha in ALPHAS_OF_L1:
        for warps in OF_L1:
            yield "l1", replace(mix_of(info, alpha, warps, Access.RESIDENT), waves=WAVES)
    for length in LENGTHS:
        for warps in WARPS_OF_LENGTHS:
            yield "adds", replace(mix_of(info, length, warps, None, 2 * CYCLES), waves=8)


def whole(info: DeviceInfo) -> Iterator[tuple[str, Mix]]:
    """What is run for who ends when: a name and the mix, of one round."""
    yield "additions alone", mix_of(info, 64, 64, None, LONG)
    for warps in (32, 64):
        yield f"alpha {ALPHA}", mix_of(info, ALPHA, warps, Access.STREAMING, LONG)
    yield "loads alone", replace(mix_of(info, 1, 64, Access.STREAMING, LONG), body=(Step(Instruction.LDG),))


def measured(device: Device) -> dict[str, object]:
    """Rates (instructions a cycle of one SM), and of the first SM how long each block took, in the order they began."""
    rates, ends = [], []
    for where, mix in mixes(device.info):
        (trace,) = device.run([mix])
        seen = Lifetimes(trace.begin, trace.end, trace.sm)
        rate = seen.rate_between_waves(mix.instructions) or seen.attained_rate(mix.instructions)
        rates.append({"where": where, "alpha": mix.body[-1].count, "warps": mix.warps, "rate": round(rate, 4)})
    for what, mix in whole(device.info):
        (trace,) = device.run([mix])
        own = trace.sm == trace.sm.min()
        took, block = (trace.end - trace.begin)[own], trace.block[own]
        shares = [round(float(took[block == each].mean() / took.max()), 3) for each in np.unique(block)]
        places = own_places(took, block)
        ends.append({"what": what, "warps": mix.warps, "block": mix.block_size, "shares": shares, "places": places})
    return {"device": device.info.name, "rates": rates, "ends": ends}


def own_places(took: np.ndarray, block: np.ndarray) -> list[float]:
    """Mean time of the first, second, ... warp of blocks over the mean of all."""
    by_block = took[np.argsort(block, kind="stable")].reshape(np.unique(block).size, -1)
    return [round(float(mean), 4) for mean in by_block.mean(axis=0) / by_block.mean()]


def text(found: dict[str, object]) -> str:
    """As JSON, a row a line."""
    lists = [f' "{name}": [\n  ' + ",\n  ".join(map(json.dumps, rows)) + "\n ]"
             for name, rows in found.items() if isinstance(rows, list)]  # fmt: skip
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
