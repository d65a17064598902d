"""``gpudissect links``: latency and bandwidth from every GPU to the host and to every other GPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

from typer import Option

from gpudissect.cli.console import DONE, INTERRUPTED, PARTIAL, print_error, print_json, progress_on_stderr
from gpudissect.cli.options import DeviceOption, HostOption


def links(
    device: DeviceOption = None,
    seed: Annotated[int, Option(min=0, max=2**32 - 1, help="Seed of all random choices.")] = 0,
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE.json", help="Save every value with its bracket as JSON.")
    ] = None,
    html: Annotated[Path | None, Option(metavar="FILE.html", help="Write the matrices as an HTML page.")] = None,
    host: HostOption = True,
    as_json: Annotated[bool, Option("--json", help="Print every value with its bracket as JSON.")] = False,
) -> int:
    """Measure the links from GPUs to the host and to each other.

    Rows are the GPUs that load and store, columns whose memory it is. Nothing else should use these GPUs meanwhile.
    Without -d all CUDA GPUs are measured: pairs that NVLink connects at once, each GPU in one pair, other links one
    after the other.
    """
    from gpudissect.interrupts import uninterrupted
    from gpudissect.link_study import links as measured_links
    from gpudissect.link_study import save_links
    from gpudissect.study import check_outputs

    check_outputs(output, html, None, device, None)
    with uninterrupted():
        with progress_on_stderr() as progress:
            report = measured_links(device, seed=seed, progress=progress)
        report = report if host else report.without_host()
        if as_json:
            print_json(json.dumps(report.to_json(), indent=1))
        else:
            from gpudissect.views.terminal.layout import console
            from gpudissect.views.terminal.links import print_links

            print_links(console(sys.stdout), report)
        errors = save_links(report, output, html)
    for line in (*report.failures, *map(str, errors)):
        print_error(line)
    return INTERRUPTED if report.interrupted else PARTIAL if report.failures or errors else DONE
