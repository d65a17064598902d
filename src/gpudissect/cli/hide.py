"""``gpudissect hide``: how many warps this GPU needs to hide latency, and how well models predict it."""

from enum import StrEnum
from typing import Annotated

from typer import Option

from gpudissect.cli.discover import run_and_finish
from gpudissect.cli.options import (
    AllOption,
    DetailsOption,
    DeviceOption,
    HostOption,
    HtmlOption,
    RecordOption,
    ResultOption,
    TracesOption,
)

Access = StrEnum("Access", "STREAMING STRIDE2 RANDOM RSQ LDS ALL")


def hide(
    device: DeviceOption = None,
    access: Annotated[
        list[Access] | None, Option(help="Instruction between additions (default streaming); repeatable.")
    ] = None,
    quick: Annotated[bool | None, Option("--quick/--full", help="Takes seconds: fewer mixes.")] = None,
    output: ResultOption = None,
    html: HtmlOption = None,
    traces: TracesOption = None,
    record: RecordOption = None,
    host: HostOption = True,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    everything: AllOption = False,
    details: DetailsOption = False,
) -> int:
    """Measure how many warps hide latency.

    Throughput is measured against occupancy. Every warp runs a chain of loads with alpha additions between two of
    them. Ctrl-C keeps what was measured: the quick grid comes first. Exit codes: 0 done, 4 done in part, 130
    interrupted.
    """
    from gpudissect.study import Request, hiding_elements

    request = Request(hiding=True, elements=hiding_elements(access), quick=quick, host=host)
    return run_and_finish(request, device, (output, html, traces), record, as_json, everything, details)
