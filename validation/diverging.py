"""Loads that diverge: VV16 s6.7, table 6.7."""

from __future__ import annotations

from rows import Row, number

from gpudissect.device.find import open_device
from gpudissect.workload import Access, Instruction, Mix, Step

TABLE_6_7 = {"8800gtx": 6.7, "gtx280": 7.6, "gtx480": 34.0, "gtx680": 33.0, "gtx980": 5.9}
TRANSACTIONS = {"8800gtx": 2, "gtx280": 2, "gtx480": 1, "gtx680": 4, "gtx980": 4}  # of a coalesced load, VV16 s6.7
TABLE_6_2 = {"8800gtx": (444, 644), "gtx280": (434, 662), "gtx480": (513, 1571), "gtx680": (301, 1213),
             "gtx980": (368, 534)}  # fmt: skip
OVER = 256 << 20  # bytes, beyond every cache


def table_6_7() -> list[Row]:
    """Rows of VV16 tables 6.2 (stream, random) and 6.7: one warp on the whole GPU, as there."""
    rows = []
    for gpu, known in TABLE_6_7.items():
        took = {}
        with open_device(f"sim:{gpu}?noise=none") as device:
            for access in (Access.STREAMING, Access.RANDOM):
                mix = Mix(body=(Step(Instruction.LDG, 16),), warps=1, block_size=32, iterations=64, sms=1,
                          access=access, footprint=OVER)  # fmt: skip
                (trace,) = device.run([mix])
                took[access] = float(trace.end[0] - trace.begin[0]) / mix.instructions
        stream, random = took[Access.STREAMING], took[Access.RANDOM]
        for what, value, found in zip(("stream", "random"), TABLE_6_2[gpu], (stream, random), strict=True):
            rows.append(number("VV16 table 6.2", gpu, f"{what}, one warp on the GPU", value, found, "cycles", 0.02))
        each = (random - stream) / (32 - TRANSACTIONS[gpu])
        rows.append(number("VV16 table 6.7", gpu, "each further transaction", known, each, "cycles", 0.03))
    return rows
