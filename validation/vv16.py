"""The tables of VV16 as data (``vv16.toml``), and the machines that they describe."""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from issue_times import Issue

from gpudissect.models.base import Contention, Machine, Unit
from gpudissect.units import WARP_SIZE

COALESCED_BYTES = 4 * WARP_SIZE  # of a warp's access to neighbouring words (VV16 s3.2)
STRIDE_2_BYTES = 2 * COALESCED_BYTES  # VV16 s3.6
GIGA = 1e9


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
    """A GPU with the parameters of VV16 tables 4.1, 6.1, 6.2 and its contention (table 6.5).

    The G80's latency under load is the better fit of VV16 s6.4. Stride-2 accesses are published for Maxwell only
    (s4.3); on others they move twice the bytes at half the rate with the latency of coalesced ones (s7.8).
    Raises `ValueError` for a GPU that is not of VV16.
    """
    sms, clock = int(value(gpu, "table_2_6", "sms")), value(gpu, "table_2_7", "clock_ghz") * GIGA
    return Machine(
        name=generation(gpu),
        sms=sms,
        clock_hz=clock,
        schedulers=int(value(gpu, "table_2_6", "schedulers")),
        warps=int(value(gpu, "table_2_8", "warps")),
        issue=value(gpu, "table_4_1", "issue_thru"),
        units=_units(gpu),
        reissue=value(gpu, "section_3_7", "reissue"),
        pin_bandwidth=value(gpu, "table_2_7", "pin_bandwidth_gbs") * GIGA,
        contention={"ldg_streaming": contention(*_fit(gpu), sms * clock)},
    )


def machines() -> dict[str, Machine]:
    """All five of VV16 by catalogue name."""
    return {gpu: machine(gpu) for gpu in gpus()}


def synthetic() -> Machine:
    """The synthetic GPU of Huang et al. 2014 (VV16 s7.7)."""
    given = tables()["section_7_7"]["synthetic"]
    return Machine(
        name="synthetic",
        sms=given["sms"],
        clock_hz=given["clock_ghz"] * GIGA,
        schedulers=1,
        warps=given["warps"],
        issue=1,
        pin_bandwidth=given["pin_bandwidth_gbs"] * GIGA,
        units={
            "fadd": Unit(resource="cores", latency=given["alu_lat"], throughput=given["alu_thru"]),
            "ldg_streaming": _memory(given["mem_lat"], given["mem_thru"], COALESCED_BYTES),
        },
    )


def vector_add() -> tuple[Issue, ...]:
    """Machine code of a vector addition on Kepler, with latencies (VV16 listing 3.5)."""
    program = tables()["listing_3_5"]["program"]
    return tuple(Issue(**{**line, "reads": tuple(line.get("reads", ()))}) for line in program)


def contention(base: float, terms: tuple[tuple[float, float], ...], cycles_per_second: float) -> Contention:
    """The fit of VV16 s6.4 with its c (GB/s) converted to accesses per cycle of one SM (VV16 s6.5).

    `cycles_per_second`: of all SMs together.
    """
    return Contention(base, tuple((b, c * GIGA / (COALESCED_BYTES * cycles_per_second)) for b, c in terms))


def _fit(gpu: str) -> tuple[float, tuple[tuple[float, float], ...]]:
    if generation(gpu) == "G80":
        better = tables()["section_6_4"]["g80"]
        return better["a"], tuple(zip(better["b"], better["c"], strict=True))
    a, b, c = (value(gpu, "table_6_5", name) for name in ("a", "b", "c"))
    return a, ((b, c),)


def _memory(latency: float, throughput: float, moved: float) -> Unit:
    return Unit(resource="memory", latency=latency, throughput=throughput, bytes=moved)


def _units(gpu: str) -> dict[str, Unit]:
    is_maxwell = generation(gpu) == "Maxwell"
    to_core = tables()["section_4_7"] if is_maxwell else {}
    stride = tables()["section_4_3"]["stride2"] if is_maxwell else {}
    alu_lat, alu_thru, mem_lat, mem_thru = (
        value(gpu, "table_4_1", column) for column in ("alu_lat", "alu_thru", "mem_lat", "mem_thru")
    )

    def row(column: str) -> tuple[float, float]:
        """Latency and warp instructions per cycle of one SM (tables 6.2 and 6.1)."""
        rate = value(gpu, "table_6_1", column) * value(gpu, "table_2_6", "schedulers") / WARP_SIZE
        return value(gpu, "table_6_2", column), rate

    def unit(resource: str, column: str, latency_to_core: float | None = None) -> Unit:
        latency, rate = row(column)
        return Unit(resource=resource, latency=latency, throughput=rate, latency_to_core=latency_to_core)

    return {
        "fadd": Unit(resource="cores", latency=alu_lat, throughput=alu_thru),
        "rsq": unit("special", "sfu", to_core.get("rsq_to_core")),
        "lds": unit("shared memory", "smem", to_core.get("lds_to_core")),
        "lds_2way": unit("shared memory", "smem2"),
        "ldg_streaming": _memory(mem_lat, mem_thru, COALESCED_BYTES),
        "ldg_stride2": _memory(stride.get("latency", mem_lat), stride.get("throughput", mem_thru / 2), STRIDE_2_BYTES),
        "ldg_random": _memory(*row("random"), WARP_SIZE * value(gpu, "section_6_7", "diverging_bytes")),
    }
