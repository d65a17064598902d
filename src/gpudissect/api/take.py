"""One study on one device: opened, recorded, measured, put into a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpudissect.api.saving import uninterrupted
from gpudissect.api.study import Study
from gpudissect.device import find
from gpudissect.device.recording.device import Recorder
from gpudissect.device.recording.keeper import MAX_BYTES, Keeper
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import GpudissectError, UsageError
from gpudissect.estimate import Status
from gpudissect.exports.traces import check_name
from gpudissect.results.build import build
from gpudissect.results.evidence.keep import with_evidence
from gpudissect.results.files import check_apart_from_run, check_page, check_writable, holds_data, write_bytes
from gpudissect.results.model import Result
from gpudissect.survey.drive import Progress

FOR_THE_RESULT = 256 << 20  # bytes of traces: half a survey of an H200 has 34 million


@dataclass(frozen=True)
class Taken:
    """What a study gave.

    Attributes:
        info: the device.
        result: the result, of an interrupted study too.
        kept: the traces by the digests of their workloads, where they were kept.
        trouble: why the recording could not be finished; it costs no result.

    """

    info: DeviceInfo
    result: Result
    kept: Keeper | None
    trouble: UsageError | None

    def page(self) -> str:
        """The page of the result, with what was kept."""
        from gpudissect.views.page.result import result_page

        return result_page(self.result, self.kept)

    def traces(self, suffix: str) -> bytes:
        """What was kept as a table, ``.csv`` or ``.parquet``. Raises `UsageError` for Parquet without pyarrow."""
        from gpudissect.exports.traces import FORMATS

        return FORMATS[suffix](self.kept or {}, self.info)

    def save(self, output: Path | None, html: Path | None, traces: Path | None) -> list[GpudissectError]:
        """Write the requested files; give the reasons for those not written, which must not cost the result.

        A result without a value that was found, as after an early Ctrl-C, replaces no file.
        """
        found = any(finding.status is Status.FOUND for finding in self.result.findings)
        kept: list[Path] = []
        troubles: list[GpudissectError] = []
        with uninterrupted():
            for path, content in self._outputs(output, html, traces):
                if not found and holds_data(path):
                    kept.append(path)
                    continue
                try:
                    write_bytes(path, content())
                except UsageError as error:
                    troubles.append(error)
        if kept:
            names = ", ".join(map(str, kept))
            troubles.append(GpudissectError(f"nothing was found; not replaced: {names}; name a new file to write to"))
        return troubles

    def _outputs(
        self, output: Path | None, html: Path | None, traces: Path | None
    ) -> Iterator[tuple[Path, Callable[[], bytes]]]:
        """The requested files and their content: the result, its page, its traces."""
        if output is not None:
            yield output, lambda: self.result.to_json().encode()
        if html is not None:
            yield html, lambda: self.page().encode()
        if traces is not None:
            yield traces, lambda: self.traces(traces.suffix)


def take_apart(
    spec: str, study: Study, *, record: Path | None = None, keep: bool = False, progress: Progress | None = None
) -> Taken:
    """Run a study on the device of this name, one of `gpudissect.device.find.choose`.

    `record` is a new folder for everything measured; with `keep` the traces are handed out, for a page or a table.
    Raises `DeviceError` for a device that cannot be used, `RecordingError` for a recording that does not answer this
    study, `UsageError` for a folder that cannot be written. A KeyboardInterrupt ends it with what was measured.
    """
    trouble: UsageError | None = None
    with ExitStack() as stack:
        device = stack.enter_context(find.open_device(spec, seed=study.noise_seed))
        options = study.options(getattr(device, "options", {}))
        recorder = None
        if record is not None:
            device = recorder = stack.enter_context(Recorder(device, record, options=options.model_dump()))
        keeper = Keeper(device, MAX_BYTES if keep else FOR_THE_RESULT)
        survey = study.survey(keeper, options, progress)
        if recorder is not None:
            try:
                with uninterrupted():
                    recorder.close(interrupted=survey.interrupted)
            except UsageError as error:
                trouble = error
        built = build(device.info, survey, options, study.held_against(device.info))
        result = with_evidence(built, keeper)
        return Taken(device.info, result, keeper if keep else None, trouble)


def check_outputs(
    output: Path | None, html: Path | None, traces: Path | None, spec: str | None, record: Path | None
) -> None:
    """Make sure, before anything is measured, that outputs can be written, have names of their kind and a place each.

    Neither that of a file of the device or of the recording, nor that of one another. Raises `UsageError`.
    """
    check_name(traces)
    written = set[Path]()
    for file in (output, html, traces):
        if file is None:
            continue
        check_apart_from_run(file, spec, record)
        check_writable(file)
        if file.resolve() in written:
            raise UsageError(f"cannot write {file}: something else is written there; name two files")
        written.add(file.resolve())
    if html is not None:
        check_page(html)
