"""The Python functions of ``import gpudissect``: what the commands do, with results for values."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import overload

from gpudissect.api.hiding import Hiding
from gpudissect.api.hierarchy import Hierarchy, known_elements
from gpudissect.api.study import Study
from gpudissect.api.take import check_outputs, take_apart
from gpudissect.device import find
from gpudissect.device.base import Device
from gpudissect.device.find import Listing
from gpudissect.device.recording.device import Recorder
from gpudissect.errors import UsageError
from gpudissect.results import check as checking
from gpudissect.results import compare as comparing
from gpudissect.results import files
from gpudissect.results.check import Concern
from gpudissect.survey.drive import Progress
from gpudissect.views.interactive import Comparison, Result
from gpudissect.views.traces.run_trace import RunTrace
from gpudissect.vocabulary import HIDING
from gpudissect.workload import Chase, Launch, Mix, Stream, Workload

Name = str | Path


def discover(
    device: str | None = None,
    *,
    elements: Sequence[str] | None = None,
    quick: bool | None = None,
    seed: int | None = None,
    compare_methods: bool | None = None,
    record: Name | None = None,
    html: Name | None = None,
    traces: Name | None = None,
    progress: Progress | None = None,
) -> Result:
    """Find the memory hierarchy of one GPU, as ``gpudissect discover`` does.

    Args:
        device: ``cuda:0``, ``sim:gtx980``, ``sim:my.toml``, ``rec:folder``; None for the first CUDA GPU, or, with a
            warning, a simulated one where there is none.
        elements: only these, such as ``["l1", "l2"]``.
        quick: leave out what takes longest.
        seed: of every random choice.
        compare_methods: also read the caches with older methods.
        record: a new folder to keep everything measured in; it replays as ``rec:folder``.
        html: a file for the page, with the traces behind the findings.
        traces: a file for all traces as one table, .csv or .parquet; findings name theirs as evidence.
        progress: called as ``progress(done, total, what)`` while experiments finish and start.

    None of `elements`, `quick`, `seed` and `compare_methods` means: as the recording was made, or else the default.
    A KeyboardInterrupt while measuring (Ctrl-C, a notebook's stop button) does not reach the caller: the result then
    holds what was measured until then, its `interrupted` is True, and a warning says so. Experiments that failed stand
    in its `failures`. Raises `UsageError`, `DeviceError` (`gpudissect.errors`).

    """
    study = Hierarchy(
        elements=known_elements(_listed(elements)), quick=quick, seed=seed, compare_methods=compare_methods
    )
    return _result(device, study, _path(record), _path(html), progress, _path(traces))


def hide(
    device: str | None = None,
    *,
    elements: Sequence[str] | None = None,
    quick: bool | None = None,
    record: Name | None = None,
    html: Name | None = None,
    traces: Name | None = None,
    progress: Progress | None = None,
) -> Result:
    """Measure throughput against occupancy and hold models against it, as ``gpudissect hide`` does.

    `elements` are of `gpudissect.vocabulary.HIDING`, ``["hiding"]`` if left out; for the rest see `discover`.
    """
    if unknown := sorted(set(_listed(elements) or ()) - set(HIDING)):
        raise UsageError(f"no such element: {', '.join(unknown)}; there are {', '.join(HIDING)}")
    study = Hiding(elements=tuple(dict.fromkeys(elements)) if elements else None, quick=quick)
    return _result(device, study, _path(record), _path(html), progress, _path(traces))


@overload
def run(
    workload: Workload, device: str | Device | None = None, *, seed: int = 0, record: Name | None = None
) -> RunTrace: ...
@overload
def run(
    workload: Sequence[Workload], device: str | Device | None = None, *, seed: int = 0, record: Name | None = None
) -> list[RunTrace]: ...
def run(
    workload: Workload | Sequence[Workload],
    device: str | Device | None = None,
    *,
    seed: int = 0,
    record: Name | None = None,
) -> RunTrace | list[RunTrace]:
    """Run one workload, or several in one batch, and give the trace of each.

    `device` is a name as for `discover`, or one opened by `open_device`, which stays open: many calls on one device pay
    for opening it once. `seed` is that of a simulated GPU's noise; `record` a new folder that keeps what was run.
    Raises `UsageError`, `DeviceError`, and `UnsupportedWorkload` for a workload that the device cannot run.
    """
    batch = [workload] if isinstance(workload, Chase | Stream | Mix | Launch) else list(workload)
    with ExitStack() as stack:
        if device is None or isinstance(device, str):
            device = stack.enter_context(find.open_device(_one(device, 1), seed=seed))
        recorder = None if record is None else stack.enter_context(Recorder(device, Path(record)))
        traces = (device if recorder is None else recorder).run(batch)
        made = [RunTrace.of(each, trace, device.info) for each, trace in zip(batch, traces, strict=True)]
    return made[0] if isinstance(workload, Chase | Stream | Mix | Launch) else made


def devices() -> list[Listing]:
    """Every device that can be named: real (and why one cannot be used), simulated, recordings in this folder."""
    return find.list_devices()


def load(file: Name) -> Result:
    """Read a result file. Raises `UsageError` for one that is missing, foreign, newer or malformed."""
    return Result.of(files.load(Path(file)))


def compare(*results: Result) -> Comparison:
    """Two results or more against one another, value by value. Raises `UsageError` for fewer."""
    return Comparison.of(comparing.compare(results))


def check(*results: Result) -> list[Concern]:
    """What there is against relying on a result; of several, of one GPU, also what changed between them."""
    return checking.concerns(results)


def _result(
    device: str | None,
    study: Study,
    record: Path | None,
    html: Path | None,
    progress: Progress | None,
    traces: Path | None = None,
) -> Result:
    check_outputs(None, html, traces, device, record)
    keep = html is not None or traces is not None
    taken = take_apart(_one(device, 2), study, record=record, keep=keep, progress=progress)
    troubles = [*([taken.trouble] if taken.trouble is not None else []), *taken.save(None, html, traces)]
    for trouble in troubles:  # they must not cost the result
        warnings.warn(str(trouble), stacklevel=3)
    if taken.result.interrupted:
        warnings.warn("interrupted; the result holds what was measured until then", stacklevel=3)
    return Result.of(taken.result)


def _one(device: str | None, calls: int) -> str:
    """The name of one device. That a simulated one was taken for want of a real one is said, as so many `calls` up."""
    choice = find.choose(device)
    if len(choice.specs) > 1:
        raise UsageError(f"{device} names {len(choice.specs)} GPUs where one is needed; name one, such as "
                         f"{choice.specs[0]}")  # fmt: skip
    if device is None and not choice.specs[0].startswith("cuda:"):
        warnings.warn(choice.note or "", stacklevel=2 + calls)
    return choice.specs[0]


def _listed(elements: Sequence[str] | None) -> Sequence[str] | None:
    """A text is a sequence too, of letters."""
    if isinstance(elements, str):
        raise UsageError(f"elements are a list, such as [{elements!r}], got {elements!r}")
    return elements


def _path(name: Name | None) -> Path | None:
    return None if name is None else Path(name)
