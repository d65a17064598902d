"""The tables of VV16 as data (``vv16.toml``), and the five machines that they describe."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpudissect.models.base import Contention, Machine, Unit
from gpudissect.models.schedule import Issue
from gpudissect.units import WARP_SIZE

COALESCED = 128  # bytes of a warp's access to neighbouring words (VV16 s3.2)
STRIDE_2 = 2 * COALESCED  # twice as much is transferred (VV16 s3.6)
BILLION = 1e9
SYNTHETIC = Machine(
    name="synthetic", sms=16, clock_hz=1e9, schedulers=1, warps=32, issue=1, pin_bandwidth=192e9,
    units={"fadd": Unit(resource="cores", latency=25, throughput=1),
           "ldg_streaming": Unit(resource="memory", latency=300, throughput=0.09, bytes=128)},
)  # fmt: skip
"""The GPU that Huang et al. 2014 are tried on (VV16 s7.7)."""
VECTOR_ADD = (
    Issue("MOV R1, c[0x0][0x44]", 9, (), "R1"),
    Issue("S2R R3, SR_TID.X", 9, (), "R3"),
    Issue("S2R R0, SR_CTAID.X", 9, (), "R0"),
    Issue("IMAD R2, R0, c[0x0][0x28], R3", 9, ("R0", "R3"), "R2"),
    Issue("ISCADD R3, R2, c[0x0][0x140], 0x2", 9, ("R2",), "R3"),
    Issue("ISCADD R0, R2, c[0x0][0x144], 0x2", 9, ("R2",), "R0"),
    Issue("LD R3, [R3]", 301, ("R3",), "R3", load=True),
    Issue("LD R0, [R0]", 301, ("R0",), "R0", load=True),
    Issue("ISCADD R2, R2, c[0x0][0x148], 0x2", 9, ("R2",), "R2"),
    Issue("FADD R3, R3, R0", 9, ("R3", "R0"), "R3"),
    Issue("ST [R2], R3", 9, ("R2", "R3")),
    Issue("EXIT", 9),
)
"""Machine code of a vector addition on Kepler, with latencies (VV16 listing 3.5)."""


@cache
def tables() -> Mapping[str, Any]:
    """All of ``vv16.toml``: `gpus`, `names`, and by table the columns, each a list in the order of `gpus`."""
    return tomllib.loads((Path(__file__).parent / "vv16.toml").read_text(encoding="utf-8"))


def gpus() -> tuple[str, ...]:
    """Catalogue names of the five GPUs (VV16 table 2.1)."""
    return tuple(tables()["gpus"])


def generation(gpu: str) -> str:
    """What VV16 calls it: G80, GT200, Fermi, Kepler, Maxwell."""
    return str(tables()["names"][gpus().index(gpu)])


def value(gpu: str, table: str, column: str) -> float:
    """One number of one table. Raises `ValueError` for a GPU that is not of VV16, `KeyError` for an unknown table."""
    if gpu not in gpus():
        raise ValueError(f"VV16 has no {gpu!r}; it has {', '.join(gpus())}")
    return float(tables()[table][column][gpus().index(gpu)])


def machine(gpu: str) -> Machine:
    """A GPU with the parameters of VV16 table 4.1, those of tables 6.1, 6.2 beside them, and contention (table 6.5).

    The G80's latency under load is the better fit of VV16 s6.4. Stride-2 accesses are published of Maxwell only
    (s4.3); of others they move twice the bytes at half the rate with the latency of coalesced ones (s7.8).
    Raises `ValueError` for a GPU that is not of VV16.
    """
    sms, clock = int(value(gpu, "table_2_6", "sms")), value(gpu, "table_2_7", "clock_ghz") * BILLION
    return Machine(
        name=generation(gpu),
        sms=sms,
        clock_hz=clock,
        schedulers=int(value(gpu, "table_2_6", "schedulers")),
        warps=int(value(gpu, "table_2_8", "warps")),
        issue=value(gpu, "table_4_1", "issue_thru"),
        units=_units(gpu),
        reissue=value(gpu, "section_3_7", "reissue"),
        pin_bandwidth=value(gpu, "table_2_7", "pin_bandwidth_gbs") * BILLION,
        contention={"ldg_streaming": contention(*_fit(gpu), sms * clock)},
    )


def machines() -> dict[str, Machine]:
    """All five of VV16 by catalogue name."""
    return {gpu: machine(gpu) for gpu in gpus()}


def contention(base: float, terms: tuple[tuple[float, float], ...], cycles_per_second: float) -> Contention:
    """VV16 s6.4's fit with its c (GB/s) turned into accesses a cycle of one SM (VV16 s6.5).

    `cycles_per_second`: of all SMs together.
    """
    return Contention(base, tuple((b, c * BILLION / (COALESCED * cycles_per_second)) for b, c in terms))


def _fit(gpu: str) -> tuple[float, tuple[tuple[float, float], ...]]:
    if generation(gpu) == "G80":
        better = tables()["section_6_4"]["g80"]
        return better["a"], tuple(zip(better["b"], better["c"], strict=True))
    a, b, c = (value(gpu, "table_6_5", name) for name in ("a", "b", "c"))
    return a, ((b, c),)


def _units(gpu: str) -> dict[str, Unit]:
    schedulers = value(gpu, "table_2_6", "schedulers")

    def of(column: str, resource: str, to_core: float | None = None, moved: float = 0.0) -> Unit:
        rate = value(gpu, "table_6_1", column) * schedulers / WARP_SIZE
        return Unit(resource=resource, latency=value(gpu, "table_6_2", column), throughput=rate,
                    latency_to_core=to_core, bytes=moved)  # fmt: skip

    maxwell = generation(gpu) == "Maxwell"
    to_core = tables()["section_4_7"] if maxwell else {}
    mem_lat, mem_thru = value(gpu, "table_4_1", "mem_lat"), value(gpu, "table_4_1", "mem_thru")
    stride = tables()["section_4_3"]["stride2"] if maxwell else {}
    return {
        "fadd": Unit(resource="cores", latency=value(gpu, "table_4_1", "alu_lat"),
                     throughput=value(gpu, "table_4_1", "alu_thru")),
        "rsq": of("sfu", "special", to_core.get("rsq_to_core")),
        "lds": of("smem", "shared memory", to_core.get("lds_to_core")),
        "lds_2way": of("smem2", "shared memory"),
        "ldg_streaming": Unit(resource="memory", latency=mem_lat, throughput=mem_thru, bytes=COALESCED),
        "ldg_stride2": Unit(resource="memory", latency=stride.get("latency", mem_lat),
                            throughput=stride.get("throughput", mem_thru / 2), bytes=STRIDE_2),
        "ldg_random": of("random", "memory", moved=WARP_SIZE * value(gpu, "section_6_7", "diverging_bytes")),
    }  # fmt: skip
