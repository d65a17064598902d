"""The links of all GPUs, or of one: measure them, write the files."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from pathlib import Path

from gpudissect.device import kinds
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.interrupts import interruptible
from gpudissect.results.links import LinkReport
from gpudissect.study import Contents, save_files
from gpudissect.survey.drive import Progress
from gpudissect.survey.links import LinkValues, measure_links

PAIRS = ("links.peer", "additions.peer")
"""Experiments of `links_between`."""


def links(device: str | None = None, *, seed: int = 0, progress: Progress | None = None) -> LinkReport:
    """Measure the links from GPUs to the host and to each other, as ``gpudissect links`` does.

    `device` is one GPU, such as ``cuda:0``; None for all CUDA GPUs, one after the other. `progress` is called as
    ``progress(done, total, what)``. A KeyboardInterrupt ends it with the links that were measured. Raises `UsageError`,
    `DeviceError`.
    """
    return _measure(kinds.choose(device or "cuda:all").specs, seed, progress)


def links_between(specs: Sequence[str], seed: int, progress: Progress) -> LinkReport:
    """Latency, bandwidth and additions over the links between these GPUs; raises as `links`."""
    return _measure(specs, seed, progress, PAIRS, specs)


def _measure(
    specs: Sequence[str],
    seed: int,
    progress: Progress | None,
    names: Collection[str] | None = None,
    among: Collection[str] | None = None,
) -> LinkReport:
    infos: list[DeviceInfo] = []
    values: list[LinkValues] = []
    failures: list[str] = []
    interrupted = False
    for spec in specs:
        try:
            with ExitStack() as stack:  # one at a time: each may lock a share of the host's free memory
                with interruptible():
                    one = stack.enter_context(kinds.open_device(spec))
                found = measure_links(one, seed, progress, names, among)
                infos.append(one.info)
        except KeyboardInterrupt:
            interrupted = True
            break
        except DeviceError as error:
            if not infos:
                raise
            failures.append(f"{spec}: {error}")
            continue
        values += found.values
        failures += [f"{spec}: {failure.experiment}: {failure.reason}" for failure in found.failures]
        if interrupted := found.interrupted:
            break
    return LinkReport(tuple(infos), tuple(values), tuple(failures), interrupted)


def save_links(report: LinkReport, output: Path | None, html: Path | None) -> list[GpudissectError]:
    """Write the files of a report, as `RunOutcome.save` does."""
    from gpudissect.views.page.links import links_page

    contents: Contents = (
        (output, lambda: f"{json.dumps(report.to_json(), indent=1)}\n".encode()),
        (html, lambda: links_page(report).encode()),
    )
    return save_files(contents, any(link.values for link in report.links), report.interrupted)
