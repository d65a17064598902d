"""`RunTrace`: a trace with what was run and where, so that it can be shown, tabulated and written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudissect.device_info import DeviceInfo
from gpudissect.trace import Trace
from gpudissect.views.traces.launch_trace import LaunchTrace
from gpudissect.views.traces.throughput_trace import MixTrace, StreamTrace
from gpudissect.views.traces.trace import FORMATS, ChaseTrace, Columns, RawTrace, summary
from gpudissect.workload import Chase, Launch, Mix, Stream, Workload

if TYPE_CHECKING:
    import pandas

_SHAPES: Mapping[type, Callable[[DeviceInfo, Any, Trace], RawTrace]] = {
    Chase: ChaseTrace, Stream: StreamTrace, Mix: MixTrace, Launch: LaunchTrace,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class RunTrace(Trace):
    """A `gpudissect.trace.Trace` that knows its workload and its device.

    Attributes:
        asked: the workload.
        info: the device that ran it.

    """

    asked: Workload
    info: DeviceInfo

    @staticmethod
    def of(asked: Workload, trace: Trace, info: DeviceInfo) -> RunTrace:
        """The trace of this workload on this device."""
        return RunTrace(trace.workload, trace.arrays, trace.context, asked, info)

    @property
    def raw(self) -> RawTrace:
        """As the writers of files take it."""
        return _SHAPES[type(self.asked)](self.info, self.asked, self)

    def columns(self) -> Columns:
        """The trace as columns of equal length, lap by lap, run by run or warp by warp."""
        return self.raw.columns()

    def summary(self) -> str:
        """What was seen, in one line, with where the numbers come from."""
        return summary(self.raw)

    def to_pandas(self) -> pandas.DataFrame:
        """The columns as a data frame. Raises `UsageError` without pandas."""
        from gpudissect.views.frames import frame

        return frame(self.columns())

    def to_svg(self) -> str:
        """Its plot as an SVG file; empty where there is nothing to plot."""
        from gpudissect.views.plots.choose import figure_of
        from gpudissect.views.plots.standalone import standalone
        from gpudissect.views.traces.traced import series_of_run

        figure = figure_of(series_of_run(self.asked, self.raw))
        return standalone(figure) if figure is not None else ""

    def save(self, file: str | Path) -> None:
        """Write it as .csv, .json, .npz, .parquet, .txt, or its plot as .svg. Raises `UsageError`."""
        from gpudissect.results.files import check_ending, write_bytes

        path = Path(file)
        writers: dict[str, Callable[[RawTrace], str | bytes]] = {**FORMATS, ".svg": lambda _: self.to_svg()}
        check_ending(path, "of a trace", writers)
        content = writers[path.suffix](self.raw)
        write_bytes(path, content.encode() if isinstance(content, str) else content)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} {array.shape}" for name, array in self.arrays.items())
        return f"<{self.summary()}; {sizes}>"

    def _repr_html_(self) -> str:
        from gpudissect.views.notebook import picture
        from gpudissect.views.page.markup import tag

        return tag("div", tag("p", self.summary()), picture(self.to_svg(), self.raw.summary(), repr(self)))
