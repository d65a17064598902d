"""An explanation with everything in it: a kernel of four instructions and a loop, limited by device memory."""

from gpudissect.device_info import Origin
from gpudissect.explanation.result import SCHEMA, Advice, Explanation, Line, Point, WorksheetRow

BEST = 10_000.0  # ns, of the curve


def point(blocks: int, *, measured: bool = True) -> Point:
    """A point of a curve that reaches its best with 5 blocks of 8 warps."""
    predicted = BEST * max(1.0, 5 / blocks)
    return Point(
        blocks_per_sm=blocks,
        warps_per_sm=8 * blocks,
        predicted=predicted,
        low=0.9 * predicted,
        high=1.1 * predicted,
        l1_bytes=(241 if blocks == 8 else 21) << 10,
        limiter="memory" if blocks >= 5 else "latency",
        measured=1.05 * predicted if measured else None,
        volkov=0.8 * predicted,
        roofline=0.9 * BEST,
    )


def line(index: int, text: str, **fields: object) -> Line:
    """An instruction at 16 * index."""
    known = {"executed": 4.0, "unit": "fma", "issue_cycles": 2.0, "latency": None, "stall": 0.01, "contended": 0.005}
    known |= {
        "source_file": "/home/me/add.cu",
        "source_line": 3 + index,
        "is_measured": True,
        "cost_source": text.partition(" ")[0].lower() + ".rate",
    }
    return Line(address=16 * index, text=text, **known | fields)


def explanation(**fields: object) -> Explanation:
    """The explanation, with other `fields`."""
    load = line(1, "LDG.E R2, desc[UR4][R2.64]", unit="lsu", latency=563.0, sectors=4.0, l1_hits=0.25, limiting=1.0)
    load = load.model_copy(update={"l2_hits": 0.125})
    add = line(2, "FADD R5, R2, R4", waits_for=(16,), stall=0.62, contended=0.04, is_critical=True)
    store = line(3, "STG.E desc[UR4][R6.64], R5", unit="lsu", is_measured=False, cost_source="2 cycles")
    content: dict[str, object] = {
        "schema": SCHEMA,
        "kernel": "_Z3addPfPKfi",
        "architecture": "sm_90",
        "gpu": "NVIDIA H200",
        "origin": Origin.MEASURED,
        "max_warps": 64,
        "grid": (4096, 1, 1),
        "block": (256, 1, 1),
        "registers": 16,
        "shared_bytes": 0,
        "stack_bytes": 0,
        "occupancy": {"warps": 8, "blocks": 32, "registers": 16, "shared memory": 228},
        "point": point(8),
        "curve": tuple(point(blocks) for blocks in range(1, 9)),
        "warps_for_90": 40,
        "bounds": {"memory": 9000.0, "issue": 1200.0, "fma": 300.0, "lsu": 2400.0, "l2": 4000.0, "fp64": 0.0},
        "critical_path": 1500.0,
        "loops": {"0x0010": 570.0},
        "worksheet": (
            WorksheetRow(unit="lsu", instructions=8.0, cycles=2048.0, share=0.24),
            WorksheetRow(unit="fma", instructions=4.0, cycles=256.0, share=0.03),
        ),
        "lines": (line(0, "IMAD R2, R0, R3, R4"), load.model_copy(update={"is_critical": True}), add, store),
        "advice": (
            Advice(text="move fewer bytes: the loads touch 8 sectors of which 4 are used", gain=0.31, evidence="x 2"),
            Advice(text="use loads of 16 bytes", gain=0.05, evidence="8 instructions of a warp are loads"),
        ),
        "assumptions": ("STG: 2 cycles",),
        "notes": ("accesses of 1 PTX instruction are not traced",),
    }
    return Explanation(**content | fields)
