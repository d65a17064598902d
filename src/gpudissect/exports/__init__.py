"""Results in the formats of other programs, and as GPU files of the catalogue: one module or package a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpudissect.errors import unknown_name

if TYPE_CHECKING:
    from gpudissect.results.model import Result


@dataclass(frozen=True)
class Format:
    """A format that a result can be written in: what it is, in a few words, and who writes it, text or bytes."""

    summary: str
    write: Callable[[Result], str | bytes]


def _gpu(result: Result) -> str:
    from gpudissect.exports.gpu import gpu_file

    return gpu_file(result)


def _mt4g(result: Result) -> str:
    from gpudissect.exports.mt4g import mt4g

    return mt4g(result)


def _hwloc(result: Result) -> str:
    from gpudissect.exports.hwloc import hwloc

    return hwloc(result)


def _accelsim(result: Result) -> str:
    from gpudissect.exports.accelsim import accelsim

    return accelsim(result)


def _csv(result: Result) -> str:
    from gpudissect.exports.tables import findings_csv

    return findings_csv(result)


def _series(result: Result) -> str:
    from gpudissect.exports.tables import series_csv

    return series_csv(result)


def _parquet(result: Result) -> bytes:
    from gpudissect.exports.tables import findings_parquet

    return findings_parquet(result)


def _series_parquet(result: Result) -> bytes:
    from gpudissect.exports.tables import series_parquet

    return series_parquet(result)


FORMATS: Mapping[str, Format] = {
    "gpu": Format("a GPU file of the catalogue, to simulate what was measured", _gpu),
    "mt4g": Format("MT4G's JSON, for sys-sage and GPUscout", _mt4g),
    "hwloc": Format("hwloc's XML, for lstopo", _hwloc),
    "accelsim": Format("a fragment of an Accel-Sim configuration", _accelsim),
    "csv": Format("findings as CSV", _csv),
    "series": Format("what was seen as CSV, one number a line", _series),
    "parquet": Format("findings as Parquet", _parquet),
    "series-parquet": Format("what was seen as Parquet, one number a row", _series_parquet),
}
"""By the name that the command line takes."""


def export(result: Result, wanted: str) -> str | bytes:
    """A result in the format named `wanted`.

    Raises `UsageError` for a format that there is not, and for a result that cannot be written in it.
    """
    if wanted not in FORMATS:
        raise unknown_name("format", wanted, FORMATS, ", ".join(f"{k} ({v.summary})" for k, v in FORMATS.items()))
    return FORMATS[wanted].write(result)
