"""Strides over the banks of shared memory: MC16 s6.2, figures 17 to 19."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from curves import Panel, picture
from rows import Row, number

from gpudissect import catalogue
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.workload import Instruction, Mix, Path, Step

STRIDES = range(65)
REPEATED = 64  # loads, as in MC16 listing 4


def latencies(gpu: str, interleave: int | None = None) -> list[float]:
    """Cycles of a load of shared memory by one warp at every stride; with the banks in another mode if one is given."""
    known = catalogue.load(gpu)
    processor = known.processor()
    assert processor is not None
    if interleave is not None:
        processor = replace(processor, shared=replace(processor.shared, interleave=interleave))
    device = SimulatedGpu(known.hierarchy(), spec=f"sim:{gpu}", name=known.name, facts=known.facts(),
                          noise=Noise.none(), processor=processor)  # fmt: skip
    body = (Step(Instruction.LDS, REPEATED),)
    mixes = [Mix(body=body, warps=1, block_size=32, iterations=4, sms=1, stride=stride) for stride in STRIDES]
    return [float(trace.end[0] - trace.begin[0]) / mix.instructions
            for mix, trace in zip(mixes, device.run(mixes), strict=True)]  # fmt: skip


def figures_17_to_19() -> tuple[list[Row], str]:
    """Rows and picture of MC16 figures 17 to 19."""
    fermi, maxwell = latencies("gtx560ti"), latencies("gtx980")
    modes = {4: latencies("gtx780", 4), 8: latencies("gtx780", 8)}
    rows = []

    def ways(took: Sequence[float], stride: int) -> float:
        return 1 + (took[stride] - took[1]) / (took[32 if took is fermi else 64] - took[1]) * 31

    told = sum(round(ways(fermi, stride)) == gcd(stride, 32) for stride in STRIDES[1:])
    rows.append(Row("MC16 fig 17", "gtx560ti", "ways of strides 1 to 64", "gcd(stride, 32)",
                    f"so in {told} of 64", told == 64))  # fmt: skip
    for place, stride, known in (("MC14 s4.1", 0, 50), ("MC16 fig 17", 2, 88), ("MC14 s4.1", 32, 1210)):
        rows.append(number(place, "gtx560ti", f"load at stride {stride}", known, fermi[stride], "cycles", 0.01))
    free = {(2, 4): True, (2, 8): True, (6, 4): False, (6, 8): True, (4, 4): False, (4, 8): False}
    for (stride, mode), known in free.items():
        found = ways(modes[mode], stride)
        place = "MC16 fig 18" if stride == 6 else "MC16 fig 19"
        rows.append(Row(place, "gtx780", f"stride {stride}, {mode}-byte mode", "no conflict" if known else "2 ways",
                        f"{found:.0f} way{'s' * (found > 1.5)}", round(found) == (1 if known else 2)))  # fmt: skip
    for gpu, took in (("gtx560ti", fermi), ("gtx780", modes[4])):
        worst, memory = max(took), catalogue.load(gpu).processor().memory.latency  # type: ignore[union-attr]
        rows.append(Row("MC16 s6.2", gpu, "32 ways against a load from memory", "much longer",
                        f"{worst:.0f} against {memory:.0f} cycles", worst > 1.5 * memory))  # fmt: skip
    l1 = catalogue.load("gtx980").table.paths[Path.GLOBAL].latency[0].value
    rows.append(Row("MC16 s6.2", "gtx980", "32 ways against a hit in the L1", "the same level",
                    f"{max(maxwell):.0f} against {l1:.0f} cycles", abs(max(maxwell) / l1 - 1) < 0.15))  # fmt: skip

    def even(took: Sequence[float]) -> list[tuple[float, float]]:
        return [(float(stride), took[stride]) for stride in STRIDES if stride % 2 == 0]

    panels = [
        Panel("GTX560Ti (fig 17)", {"4 B": even(fermi)}, ((0, 50), (2, 88), (32, 1210))),
        Panel("GTX780 (fig 19)", {"4-byte mode": even(modes[4]), "8-byte mode": even(modes[8])}),
        Panel("GTX980", {"4 B": even(maxwell)}),
    ]
    return rows, picture(panels, "stride, words of 4 bytes", "cycles", doubling=False)
