"""One study on one device: opened, recorded, measured, put into a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gpudissect.device import find
from gpudissect.device.base import DeviceInfo
from gpudissect.device.kept import MOST_BYTES, Keeper
from gpudissect.device.recorded import Recorder
from gpudissect.device.recording import ARRAYS, INDEX
from gpudissect.errors import UsageError
from gpudissect.report.build import build
from gpudissect.report.export.traces import check_name
from gpudissect.report.files import check_apart, check_page, check_writable
from gpudissect.report.keep import with_evidence
from gpudissect.report.result import Result
from gpudissect.session.saving import uninterrupted
from gpudissect.session.study import Study
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
        from gpudissect.report.page.write import page

        return page(self.result, self.kept)

    def traces(self, suffix: str) -> bytes:
        """What was kept as a table, ``.csv`` or ``.parquet``. Raises `UsageError` for Parquet without pyarrow."""
        from gpudissect.report.export.traces import FORMATS

        return FORMATS[suffix](self.kept or {}, self.info)

    def outputs(
        self, output: Path | None, html: Path | None, traces: Path | None
    ) -> Iterator[tuple[Path, Callable[[], bytes]]]:
        """The files that were asked for, and what is to stand in them: the result, its page, its traces."""
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
        keeper = Keeper(device, MOST_BYTES if keep else FOR_THE_RESULT)
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
    own, written = _own_files(spec, record), set[Path]()
    for file in (output, html, traces):
        if file is None:
            continue
        check_apart(file, own)
        check_writable(file)
        if file.resolve() in written:
            raise UsageError(f"cannot write {file}: something else is written there; name two files")
        written.add(file.resolve())
    if html is not None:
        check_page(html)


def _own_files(spec: str | None, record: Path | None) -> list[Path]:
    """Files of the device that is read and of the recording that is made."""
    kind, _, rest = (spec or "").partition("?")[0].partition(":")
    folders = [*([Path(rest)] if kind == "rec" else []), *([record] if record is not None else [])]
    inside = [folder / name for folder in folders for name in (INDEX, ARRAYS)]
    return [*inside, *([Path(rest)] if kind == "sim" else [])]
