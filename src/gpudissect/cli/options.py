"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Option

from gpudissect.cli import completion

DeviceOption = Annotated[
    str | None,
    Option(
        "--device",
        "-d",
        metavar="DEV",
        autocompletion=completion.devices,
        help="cuda:0, sim:gtx980, sim:my.toml or rec:folder; with discover also cuda:all.",
    ),
]
RecordOption = Annotated[
    Path | None, Option(metavar="DIR", help="Record all traces in a new folder, to replay as rec:DIR.")
]
TraceOption = Annotated[
    Path | None, Option("--output", "-o", metavar="FILE", help="Trace as .csv, .json, .npz, .parquet or .txt.")
]
TraceJsonOption = Annotated[bool, Option("--json", help="Print the trace as JSON.")]
HostOption = Annotated[bool, Option("--host/--no-host", help="Record the host name in the result and the recording.")]
ResultOption = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the result as JSON.")]
HtmlOption = Annotated[Path | None, Option(metavar="FILE", help="Write an HTML report with plots of the measurements.")]
CardOption = Annotated[
    Path | None, Option(metavar="FILE", help="Write a picture of the GPU to share, .svg or .png: drawing and summary.")
]
TracesOption = Annotated[Path | None, Option(metavar="FILE", help="Write all traces as one table, .csv or .parquet.")]
AllOption = Annotated[
    bool, Option("--all", "-a", help="Also print a table of all values; in a pipe, print only the table.")
]
DetailsOption = Annotated[bool, Option("--details", help="Like --all, with method, evidence and caveats of values.")]
