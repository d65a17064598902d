"""Results in the formats of other programs, and as GPU files of the catalogue: one module or package per format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from gpudissect.errors import unknown_name

if TYPE_CHECKING:
    from gpudissect.results.model import Result


@dataclass(frozen=True)
class Format:
    """A format that a result can be written in: a summary, and the module and function that write it."""

    summary: str
    module: str
    function: str

    def write(self, result: Result) -> str | bytes:
        """The result in this format. Raises `UsageError` if it cannot be written so."""
        content: str | bytes = getattr(import_module(f"gpudissect.exports.{self.module}"), self.function)(result)
        return content


FORMATS: Mapping[str, Format] = {
    "gpu": Format("a GPU file of the catalogue, to simulate what was measured", "gpu", "gpu_file"),
    "mt4g": Format("MT4G's JSON, for sys-sage and GPUscout", "mt4g", "mt4g"),
    "hwloc": Format("hwloc's XML, for lstopo", "hwloc", "hwloc"),
    "accelsim": Format("a fragment of an Accel-Sim configuration", "accelsim", "accelsim"),
    "csv": Format("findings as CSV", "tables", "findings_csv"),
    "series": Format("measured series as CSV, one number per line", "tables", "series_csv"),
    "parquet": Format("findings as Parquet", "tables", "findings_parquet"),
    "series-parquet": Format("measured series as Parquet, one number per row", "tables", "series_parquet"),
}
"""By the name that the command line takes."""


def export(result: Result, format_name: str) -> str | bytes:
    """A result in the format of that name.

    Raises `UsageError` for an unknown format, and for a result that cannot be written in it.
    """
    if format_name not in FORMATS:
        listing = ", ".join(f"{name} ({known.summary})" for name, known in FORMATS.items())
        raise unknown_name("format", format_name, FORMATS, listing)
    return FORMATS[format_name].write(result)
