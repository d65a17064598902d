"""Instructions per cycle of an SM against its warps, by kind: latency first, then the width of the pipeline."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
columns = {"instruction": [], "warps": [], "rate": []}
for kind in (gd.Instruction.FADD, gd.Instruction.RSQ, gd.Instruction.LDS):
    for warps in (1, 2, 4, 8, 16, 32):
        mix = gd.Mix(body=(gd.Step(kind, 32),), warps=warps, block_size=32 * warps, iterations=8, sms=1)
        trace = gd.run(mix, DEVICE)
        cycles = int(trace.end.max() - trace.begin.min())
        columns["instruction"].append(kind.value)
        columns["warps"].append(warps)
        columns["rate"].append(32 * warps * mix.instructions / cycles)

gd.Series(
    element=DEVICE,
    name="rate against warps",
    columns=columns,
    units={"rate": "ops/cycle"},
).save("instruction_rate.svg")
