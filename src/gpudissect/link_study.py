"""The links of all GPUs, or of one: measure them, write the files."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from gpudissect.device import kinds
from gpudissect.device.base import Device
from gpudissect.device.process import open_in_process
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import DeviceError, GpudissectError
from gpudissect.interrupts import interruptible, uninterrupted
from gpudissect.measure.plan import Study
from gpudissect.results.links import LinkReport
from gpudissect.study import Contents, save_files
from gpudissect.survey.drive import Progress
from gpudissect.survey.links import HOST, LinkValues, Pair, Round, measure_link, nvlink_pairs, pairs_of, schedule
from gpudissect.survey.registry import experiments

PAIRS = ("links.peer", "additions.peer")
"""Experiments of `links_between`."""


def links(device: str | None = None, *, seed: int = 0, progress: Progress | None = None) -> LinkReport:
    """Measure the links from GPUs to the host and to each other, as ``gpudissect links`` does.

    `device` is one GPU, such as ``cuda:0``; None for all CUDA GPUs. Pairs of GPUs that NVLink connects are measured at
    once, each GPU in one pair; other links one after the other. `progress` is called as ``progress(done, total,
    what)``. A KeyboardInterrupt ends it with the links that were measured. Raises `UsageError`, `DeviceError`.
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
    pairs: list[Pair] = []
    measured: dict[Pair, LinkValues] = {}
    interrupted = False
    with uninterrupted(), ThreadPoolExecutor(2 * len(specs)) as threads:  # half of them close what the others use
        gpus = _Gpus(threads, seed, names)
        try:
            with interruptible():
                gpus.open(specs)
                pairs = [pair for spec, info in gpus.infos.items() for pair in pairs_of(spec, info, names, among)]
                for each in gpus.rounds(pairs):
                    for pair, values in gpus.measure(each):
                        measured[pair] = values
                        if progress is not None:
                            progress(len(measured), len(pairs), f"links of {pair[0]}")
        except KeyboardInterrupt:
            interrupted = True
        finally:
            gpus.close()
    if gpus.errors and not gpus.infos:
        raise next(iter(gpus.errors.values()))
    found = [measured[pair] for pair in pairs if pair in measured]
    failures = [f"{spec}: {error}" for spec, error in gpus.errors.items()]
    failures += (line for values in found for line in values.failures)
    return LinkReport((*gpus.infos.values(),), tuple(found), tuple(failures), interrupted)


@dataclass
class _Gpus:
    """GPUs, each in a process of its own that stays open for all links between GPUs.

    The link to the host comes last: that process locks a share of the host's free memory, and ends before the next GPU
    measures its link. `errors` are of GPUs that could not be opened, `lost` of those that could not be opened again.
    """

    threads: ThreadPoolExecutor
    seed: int
    names: Collection[str] | None
    infos: dict[str, DeviceInfo] = field(default_factory=dict)
    errors: dict[str, DeviceError] = field(default_factory=dict)
    devices: dict[str, Device] = field(default_factory=dict)
    lost: dict[str, DeviceError] = field(default_factory=dict)

    def open(self, specs: Sequence[str]) -> None:
        """Open all at once."""
        for spec in specs:
            try:  # in this thread: the processes end with the thread that starts them
                self.devices[spec] = open_in_process(spec, prepares=False)
            except DeviceError as error:
                self.errors[spec] = error
        infos = {spec: self.threads.submit(getattr, device, "info") for spec, device in self.devices.items()}
        experiments(Study.LINKS)  # imported while they open
        for spec, info in infos.items():
            try:
                self.infos[spec] = info.result()
            except DeviceError as error:
                self.errors[spec] = error

    def rounds(self, pairs: Sequence[Pair]) -> Iterator[Round]:
        """The order of the links. A GPU in exclusive mode takes one process: then the others are closed meanwhile."""
        if all("compute_mode" not in info.facts for info in self.infos.values()):
            yield from schedule(pairs, {pair for spec, info in self.infos.items() for pair in nvlink_pairs(spec, info)})
            return
        for spec in self.infos:
            self.close()
            self._reopen(spec)
            yield from schedule([pair for pair in pairs if pair[0] == spec])

    def measure(self, pairs: Round) -> Iterator[tuple[Pair, LinkValues]]:
        """Measure the pairs of a round; they come in the order in which their lists end."""
        measure = partial(self._measure_all, pairs_at_once=len(pairs))
        for future in as_completed([self.threads.submit(measure, each) for each in pairs]):
            for (source, target), values in future.result():
                if target == HOST:
                    self.devices[source].close()
                elif values.failures:
                    self._reopen(source)
                yield (source, target), values

    def _measure_all(self, pairs: Sequence[Pair], pairs_at_once: int) -> list[tuple[Pair, LinkValues]]:
        values = []
        for source, target in pairs:
            try:
                if error := self.lost.get(source):
                    raise error
                link = measure_link(self.devices[source], target, self.seed, self.names, pairs_at_once)
            except DeviceError as error:
                link = LinkValues(source, target, {}, {}, failures=(f"{source}: link to {target}: {error}",))
            values.append(((source, target), link))
        return values

    def _reopen(self, spec: str) -> None:
        """Start another process: a kernel that crashed ends the use of a GPU in the old one."""
        self.devices[spec].close()
        try:
            self.devices[spec] = open_in_process(spec, prepares=False)
        except DeviceError as error:
            self.lost[spec] = error

    def close(self) -> None:
        """Close all at once: ending a process takes some tenths of a second."""
        for each in [self.threads.submit(device.close) for device in self.devices.values()]:
            each.result()


def save_links(report: LinkReport, output: Path | None, html: Path | None) -> list[GpudissectError]:
    """Write the files of a report, as `RunOutcome.save` does."""
    from gpudissect.views.page.links import links_page

    contents: Contents = (
        (output, lambda: f"{json.dumps(report.to_json(), indent=1)}\n".encode()),
        (html, lambda: links_page(report).encode()),
    )
    return save_files(contents, any(link.values for link in report.links), report.interrupted)
