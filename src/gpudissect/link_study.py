"""The links of all GPUs, or of one: measure them, write the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

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
from gpudissect.survey.links import (
    HOST,
    LinkValues,
    Pair,
    Round,
    failed_link,
    measure_link,
    nvlink_pairs,
    pairs_of,
    schedule,
)
from gpudissect.survey.registry import experiments
from gpudissect.workload.chase import MAX_PEERS

StopReason = Callable[[], str | None]
"""Called before each round of pairs. The reason to stop, such as ``not measured within 30 s``, or None to continue."""


def never_stop() -> None:
    """Give no reason to stop."""


PAIRS = ("links.peer", "additions.peer")
"""Experiments of `links_between`."""
MAX_THREADS = 2 * (MAX_PEERS + 1)  # two for each pair that is measured, and one for each GPU that is closed
LINK_LIMIT_S = 60.0  # of one link, which takes seconds at most; then its GPU hangs


def links(device: str | None = None, *, seed: int = 0, progress: Progress | None = None) -> LinkReport:
    """Measure the links from GPUs to the host and to each other, as ``gpudissect links`` does.

    `device` is one GPU, such as ``cuda:0``; None for all CUDA GPUs. Pairs of GPUs that NVLink connects are measured at
    once, each GPU in one pair; other links one after the other. `progress` is called as ``progress(done, total,
    what)``. A KeyboardInterrupt ends it with the links that were measured. Raises `UsageError`, `DeviceError`.
    """
    specs = kinds.choose(device or "cuda:all").specs
    return _measure(_Gpus(seed), specs, progress)


def links_between(
    gpus: Mapping[str, tuple[LinkGpu, DeviceInfo]], seed: int, progress: Progress, stop_reason: StopReason = never_stop
) -> LinkReport:
    """Latency, bandwidth and additions over the links between GPUs that are open, by their specs; it closes them.

    Once `stop_reason` gives one, no further pairs are measured. A failure states it, and how many links are missing.
    """
    infos = {spec: info for spec, (_, info) in gpus.items()}
    opened = _Gpus(seed, {spec: gpu for spec, (gpu, _) in gpus.items()}, infos, PAIRS)
    return _measure(opened, (), progress, stop_reason)


class LinkGpu(Protocol):
    """A GPU whose links are measured."""

    def measure(self, target: str, names: Collection[str] | None, pairs_at_once: int) -> LinkValues:
        """One of its links, as `measure_link` does; a lost device is reported in the failures."""

    def reopen(self) -> None:
        """Continue in a new process: after a kernel crash, the old one cannot use the GPU."""

    def close(self) -> None:
        """End its process, even while a link is measured. May be called twice."""

    def dismiss(self) -> None:
        """End its process; may return before it has ended."""


@dataclass
class OpenGpu:
    """A `LinkGpu` in a process of its own. `device` is None until it is opened; `lost` is why it could not be."""

    spec: str
    seed: int
    device: Device | None = None
    lost: DeviceError | None = None

    def opened(self) -> Device:
        """The device. Raises `DeviceError` if it is not open."""
        if self.device is None:
            raise self.lost or DeviceError(f"{self.spec} is not open")
        return self.device

    def measure(self, target: str, names: Collection[str] | None, pairs_at_once: int) -> LinkValues:
        """See `LinkGpu`."""
        try:
            return measure_link(self.opened(), target, self.seed, names, pairs_at_once)
        except DeviceError as error:
            return failed_link(self.spec, target, error)

    def reopen(self) -> None:
        """Start another process. It ends with the thread that calls this."""
        self.close()
        self.device = None
        try:
            self.device = open_in_process(self.spec, seed=self.seed, prepares=False)
        except DeviceError as error:
            self.lost = error

    def close(self) -> None:
        """See `LinkGpu`."""
        if self.device is not None:
            self.device.close()

    dismiss = close


def _measure(
    gpus: _Gpus, specs: Sequence[str], progress: Progress | None, stop_reason: StopReason = never_stop
) -> LinkReport:
    """Measure links of GPUs, those of `specs` too, which are opened first."""
    pairs: list[Pair] = []
    interrupted, reason = False, None
    with uninterrupted(), gpus.threads:
        try:
            with interruptible():
                gpus.open(specs)
                pairs = gpus.pairs()
                for each in gpus.rounds(pairs):
                    if reason := stop_reason():
                        break
                    for source, _ in gpus.measure(each):
                        if progress is not None:
                            progress(len(gpus.measured), len(pairs), f"links of {source}")
        except KeyboardInterrupt:
            interrupted = True
        finally:
            gpus.dismiss()
    if gpus.errors and not gpus.infos:
        raise next(iter(gpus.errors.values()))
    found = [gpus.measured[pair] for pair in pairs if pair in gpus.measured]
    failures = [f"{spec}: {error}" for spec, error in gpus.errors.items()]
    failures += (line for values in found for line in values.failures)
    if reason:
        missing = f"{len(pairs) - len(found)} of {len(pairs)} links were {reason}"
        failures.append(f"{missing}; run 'gpudissect links' when the GPUs are idle")
    return LinkReport((*gpus.infos.values(),), tuple(found), tuple(failures), interrupted)


class _Gpus:
    """GPUs, each in a process of its own that stays open for all links between GPUs.

    The link to the host comes last: that process locks a share of the host's free memory, and ends before the next GPU
    measures its link. `errors` are of GPUs that could not be opened; `measured` are the links that have ended. With
    `names`, only those experiments run, and only between these GPUs.
    """

    def __init__(
        self,
        seed: int,
        gpus: dict[str, LinkGpu] | None = None,
        infos: dict[str, DeviceInfo] | None = None,
        names: Collection[str] | None = None,
    ) -> None:
        self.infos = infos or {}
        self.errors: dict[str, DeviceError] = {}
        self.measured: dict[Pair, LinkValues] = {}
        self.threads = ThreadPoolExecutor(MAX_THREADS)
        self._seed, self._gpus, self._names, self._are_dismissed = seed, gpus or {}, names, False

    def open(self, specs: Sequence[str]) -> None:
        """Open GPUs, all at once."""
        gpus = {spec: OpenGpu(spec, self._seed) for spec in specs}
        for spec, gpu in gpus.items():
            gpu.reopen()  # in this thread: the processes end with the thread that starts them
            self._gpus[spec] = gpu
        experiments(Study.LINKS)  # imported while they open
        for spec, gpu in gpus.items():
            try:
                self.infos[spec] = gpu.opened().info
            except DeviceError as error:
                self.errors[spec] = error

    def pairs(self) -> list[Pair]:
        """Their links."""
        among = None if self._names is None else self._gpus
        return [pair for spec, info in self.infos.items() for pair in pairs_of(spec, info, self._names, among)]

    def rounds(self, pairs: Sequence[Pair]) -> Iterator[Round]:
        """The order of the links. A GPU in exclusive mode takes one process: then the others are closed meanwhile."""
        if all("compute_mode" not in info.facts for info in self.infos.values()):
            yield from schedule(pairs, {pair for spec, info in self.infos.items() for pair in nvlink_pairs(spec, info)})
            return
        for spec in self.infos:
            self._end_all(lambda each: each.close())
            self._gpus[spec] = gpu = OpenGpu(spec, self._seed)
            gpu.reopen()
            yield from schedule([pair for pair in pairs if pair[0] == spec])

    def measure(self, pairs: Round) -> Iterator[Pair]:
        """Measure the pairs of a round; they come in the order in which their lists end."""
        measure = partial(self._measure_all, pairs_at_once=len(pairs))
        for future in as_completed([self.threads.submit(measure, each) for each in pairs]):
            for source, target in future.result():
                if target == HOST:
                    self._gpus[source].close()
                elif self.measured[source, target].failures:
                    self._gpus[source].reopen()
                yield source, target

    def _measure_all(self, pairs: Sequence[Pair], pairs_at_once: int) -> Sequence[Pair]:
        """Measure pairs one after the other; return them."""
        for source, target in pairs:
            values = self._measure_link(source, target, pairs_at_once)
            if self._are_dismissed:  # it may have failed because of that
                break
            self.measured[source, target] = values
        return pairs

    def _measure_link(self, source: str, target: str, pairs_at_once: int) -> LinkValues:
        """Measure a link. If that takes longer than `LINK_LIMIT_S`, its GPU is closed; `reopen` opens it again."""
        gpu = self._gpus[source]
        future = self.threads.submit(gpu.measure, target, self._names, pairs_at_once)
        if wait([future], LINK_LIMIT_S).done:
            return future.result()
        gpu.dismiss()
        wait([future])
        self._gpus[source] = OpenGpu(source, self._seed)
        return failed_link(source, target, f"not measured within {LINK_LIMIT_S:g} s; its process was ended")

    def dismiss(self) -> None:
        """Let all processes end; links that are being measured are lost."""
        self._are_dismissed = True
        self._end_all(lambda gpu: gpu.dismiss())

    def _end_all(self, end: Callable[[LinkGpu], None]) -> None:
        """Close or dismiss all at once: ending a process takes some tenths of a second."""
        for each in [self.threads.submit(end, gpu) for gpu in self._gpus.values()]:
            each.result()


def save_links(report: LinkReport, output: Path | None, html: Path | None) -> list[GpudissectError]:
    """Write the files of a report, as `RunOutcome.save` does."""
    from gpudissect.views.page.links import links_page

    contents: Contents = (
        (output, lambda: f"{json.dumps(report.to_json(), indent=1)}\n".encode()),
        (html, lambda: links_page(report).encode()),
    )
    return save_files(contents, any(link.values for link in report.links), report.interrupted)
