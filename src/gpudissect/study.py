"""One study on one device: open it, record, measure, build the result, write the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gpudissect import catalogue
from gpudissect.call_checks import percent_of
from gpudissect.device import kinds
from gpudissect.device.base import EVIDENCE_BYTES, Described, Device, Keeper, without_host
from gpudissect.device.process import open_in_process
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError, GpudissectError, RecordingError, UsageError, unknown_name
from gpudissect.estimate import Status
from gpudissect.exports.tables import check_traces_name
from gpudissect.interrupts import interruptible, uninterrupted
from gpudissect.measure.plan import Study
from gpudissect.results.build import build
from gpudissect.results.evidence.series import PAGE_LIMITS, with_evidence
from gpudissect.results.files import (
    check_apart_from_run,
    check_card,
    check_names,
    check_writable,
    holds_data,
    is_special,
    partial_path,
    write_bytes,
)
from gpudissect.results.model import Options, Result
from gpudissect.survey import run as surveys
from gpudissect.survey.drive import Progress
from gpudissect.survey.profiles import PROFILES
from gpudissect.survey.registry import measured_elements
from gpudissect.vocabulary import HIDING, OLDER_METHODS

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu

MAX_QUOTED_CHARACTERS = 200
STREAMING, ALL_ACCESSES = "streaming", "all"


@dataclass(frozen=True, kw_only=True)
class Request:
    """What to measure; None stands for the options of a recording, or else the defaults.

    Attributes:
        hiding: whether latency hiding is measured instead of the memory hierarchy.
        elements: only these; see `check_elements`.
        quick: whether to leave out what takes longest.
        seed: of every random choice, in [0, 2^32).
        compare_methods: whether older methods read the same caches.
        methods: older methods to run alone; see `check_methods`.
        host: whether the result and the recording name the host.
        precision: requested max width of latency brackets, percent of the value.
        profile: only the experiments of this profile, see `survey.profiles`; it excludes the other selections.

    """

    hiding: bool = False
    elements: tuple[str, ...] | None = None
    quick: bool | None = None
    seed: int | None = None
    compare_methods: bool | None = None
    methods: tuple[str, ...] | None = None
    host: bool = True
    precision: float | None = None
    profile: str | None = None

    def __post_init__(self) -> None:
        """Convert numpy's values. Raises `UsageError` for a wrong seed, flag, precision or profile."""
        if self.profile is not None and self.profile not in PROFILES:
            raise unknown_name("profile", self.profile, tuple(PROFILES))
        object.__setattr__(self, "precision", percent_of("precision", self.precision))
        selections = (self.elements, self.quick, self.compare_methods, self.methods, self.precision)
        if self.profile is not None and any(selections):
            raise UsageError("a profile chooses the experiments: leave out --only, --quick, --precision, older methods")
        if self.seed is not None:
            object.__setattr__(self, "seed", kinds.check_seed(self.seed))
        for name in ("quick", "compare_methods", "host"):
            value = getattr(self, name)
            if value is not None:
                if value not in (True, False):
                    raise UsageError(f"{name} is True or False, got {value!r:.40}")
                object.__setattr__(self, name, bool(value))

    @property
    def is_whole(self) -> bool:
        """Whether no option restricts the survey to a part. A recording may still hold only a part."""
        return not (self.hiding or self.elements or self.quick or self.methods or self.profile)

    @property
    def has_links(self) -> bool:
        """Whether a survey of all GPUs includes the links between them."""
        return self.is_whole or self.profile == "health"

    def options(self, recorded: Mapping[str, Any]) -> Options:
        """Requested options, else those of a recording, else the defaults. Raises `RecordingError` or `UsageError`."""
        if self.seed is not None and recorded.get("seed", self.seed) != self.seed:
            raise RecordingError(f"it was recorded with --seed {recorded['seed']}; leave out --seed")
        if recorded and self.precision not in (None, recorded.get("precision")):
            raise RecordingError("it was recorded with another --precision, or without one; leave out --precision")
        requested = {name: getattr(self, name) for name in Options.model_fields if getattr(self, name) is not None}
        elements = recorded.get("elements")
        if self.profile is not None:  # of whatever was recorded
            if isinstance(elements, list) and any(each in HIDING for each in elements):
                raise RecordingError("this recording is of latency hiding: replay it with 'gpudissect hide'")
            recorded = {name: each for name, each in recorded.items() if name == "seed"}
        elif requested.keys() - {"seed"}:
            recorded = {name: each for name, each in recorded.items() if name != "profile"}
        lists = {name: recorded.get(name) for name in ("elements", "methods")}
        listed = {name: tuple(each) for name, each in lists.items() if isinstance(each, list)}
        merged = {name: recorded[name] for name in Options.model_fields if name in recorded} | listed | requested
        try:
            options = Options.model_validate(merged)
        except ValidationError as error:
            name = error.errors()[0]["loc"][0]
            if name in requested:
                raise UsageError(f"no value of {name}: {str(requested[str(name)])[:MAX_QUOTED_CHARACTERS]!r}") from None
            quoted = str(dict(recorded))[:MAX_QUOTED_CHARACTERS]
            raise RecordingError(f"the recording's options are not valid: {quoted}") from None
        if not self.hiding:
            return options
        if recorded and not (isinstance(elements, list) and elements and all(each in HIDING for each in elements)):
            raise RecordingError("this recording is not of latency hiding: replay it with 'gpudissect discover'")
        return options if options.elements else options.model_copy(update={"elements": HIDING[:1]})

    def study(self, options: Options) -> Study:
        """The experiments to run."""
        if self.hiding:
            return Study.HIDE
        return Study.COMPARE_METHODS if options.compare_methods or options.methods else Study.DISCOVER

    def reference(self, info: DeviceInfo) -> Gpu | None:
        """The GPU whose published values are compared: its own, by name if measured; none for a user's GPU file.

        None for latency hiding: its published values are compared in the documentation.
        """
        if self.hiding:
            return None
        if info.catalogue in catalogue.names():
            return catalogue.load(info.catalogue)
        return catalogue.for_name(info.name) if Origin.MEASURED in (info.origin, info.recorded_origin) else None


@dataclass(frozen=True)
class RunOutcome:
    """What a study gave.

    Attributes:
        info: the device.
        result: the result, of an interrupted study too.
        kept: traces by the digests of their workloads.
        error: why the recording could not be finished; the result is not lost.

    """

    info: DeviceInfo
    result: Result
    kept: Keeper
    error: UsageError | None

    def save(
        self, output: Path | None, html: Path | None, traces: Path | None, card: Path | None = None
    ) -> list[GpudissectError]:
        """Write the requested files; give the reasons for those that could not be written.

        Call it within `uninterrupted`. An interrupted result replaces no file: it is written beside it, as
        ``name.partial.json`` or under the next free name, and not at all without a found value.
        """
        found = any(finding.status is Status.FOUND for finding in self.result.findings)
        contents: Contents = (
            (output, lambda: self.result.to_json().encode()),
            (html, lambda: self._page().encode()),
            (traces, lambda: self._traces(traces.suffix if traces else "")),
            (card, lambda: self._card(card.suffix if card else "")),
        )
        return save_files(contents, found, self.result.interrupted)

    def _page(self) -> str:
        from gpudissect.views.page.result import result_page

        return result_page(with_evidence(self.result, self.kept, PAGE_LIMITS))

    def _card(self, suffix: str) -> bytes:
        from gpudissect.views.card import card_file

        return card_file(self.result, suffix)

    def _traces(self, suffix: str) -> bytes:
        from gpudissect.exports.tables import TRACE_FORMATS
        from gpudissect.views.traces import RunTrace

        return TRACE_FORMATS[suffix](self.kept, lambda request, trace: RunTrace.of(request, trace, self.info).columns())


Contents = Sequence[tuple[Path | None, Callable[[], bytes]]]
"""Files to be written and what makes their content; None for files that were not requested."""


def save_files(contents: Contents, found: bool, interrupted: bool) -> list[GpudissectError]:
    """Write files as `RunOutcome.save` does; `found`: whether there is any value."""
    not_replaced: list[Path] = []
    partial: list[Path] = []
    errors: list[GpudissectError] = []
    for path, content in sorted(contents, key=lambda each: each[0] is not None and is_special(each[0])):
        if path is None:
            continue
        if not found and holds_data(path):
            not_replaced.append(path)
            continue
        written = partial_path(path) if interrupted and holds_data(path) else path
        try:
            write_bytes(written, content())
        except UsageError as error:
            errors.append(error)
            continue
        if written != path:
            partial.append(written)
    if not_replaced:
        names = ", ".join(map(str, not_replaced))
        errors.append(GpudissectError(f"nothing was found; not replaced: {names}; name a new file to write to"))
    if partial:
        names = ", ".join(map(str, partial))
        errors.append(GpudissectError(f"interrupted: the files of an earlier run are kept; wrote {names}"))
    return errors


def run_study(
    spec: str,
    request: Request,
    *,
    record: Path | None = None,
    kept_bytes: int = EVIDENCE_BYTES,
    progress: Progress | None = None,
    opened: Device | None = None,
) -> RunOutcome:
    """Run a study on the device of this name, one of `gpudissect.device.kinds.choose`.

    `record` is a new folder for everything measured. At most `kept_bytes` of traces are kept: `EVIDENCE_BYTES` for the
    series of a result, `MAX_KEPT_BYTES` for a page or a table of traces. `opened` is the device, if it is open already;
    it stays open. A KeyboardInterrupt ends the study with what was measured. Raises `DeviceError` for a device that
    cannot be used, `RecordingError` for a recording of another study, `UsageError` for a folder that cannot be written.
    """
    error: UsageError | None = None
    is_compiled: Callable[[], bool] | None = None
    with uninterrupted(), ExitStack() as own, ExitStack() as stack:
        with interruptible():
            device = opened
            if device is None:
                device = own.enter_context(open_in_process(spec, seed=request.seed or 0))
            if spec.startswith("cuda") and not request.hiding:
                is_compiled = _prepare()  # while the device opens
            info = device.info
        reading = Thread(target=_read_reference, args=(request, info))  # while the first batches run
        with suppress(RuntimeError):  # no more threads possible: it is read at the end
            reading.start()
            stack.callback(reading.join)
        options = request.options(getattr(device, "options", {}))
        if request.hiding and not info.instructions:
            raise DeviceError(f"{info.name} runs no mixes of instructions: latency hiding cannot be measured")
        if not request.host:
            device = Described(device, without_host)
        recorder = None
        if record is not None:
            from gpudissect.device.recording.device import Recorder

            device = recorder = stack.enter_context(Recorder(device, record, options=options.model_dump()))
        keeper = Keeper(device, kept_bytes)
        survey = surveys.run_survey(
            keeper,
            request.study(options),
            elements=options.elements,
            methods=options.methods,
            quick=options.quick,
            seed=options.seed,
            precision=options.precision,
            progress=progress,
            profile=options.profile,
            can_simulate=is_compiled if is_compiled and record is None else lambda: True,  # a recording never waits
        )
        info = device.info
        closing = Thread(target=own.close)  # freeing GPU memory is slow: do it while the result is built
        with suppress(RuntimeError):  # no more threads possible: it is closed at the end
            closing.start()
            stack.callback(closing.join)
        if recorder is not None:
            try:
                recorder.close(interrupted=survey.interrupted)
            except UsageError as caught:
                error = caught
        result = with_evidence(build(info, survey, options, request.reference(info)), keeper)
        return RunOutcome(info, result, keeper, error)


def _read_reference(request: Request, info: DeviceInfo) -> None:
    """Read the GPU file with the published values, which takes 0.2 s; the catalogue keeps it."""
    with suppress(GpudissectError):  # whoever needs it reports that
        request.reference(info)


def _prepare() -> Callable[[], bool]:
    """Load what the survey of a GPU needs later; the result says whether its cache simulator is not being compiled."""
    from gpudissect.device.simulated import precompile

    catalogue.prepare()
    precompile.start_caches_if_missing()
    return lambda: not precompile.is_compiling()


def check_elements(elements: Sequence[str] | None) -> tuple[str, ...] | None:
    """Elements without repetitions, before anything is opened; None for none. Raises `UsageError` for unknown ones."""
    known = measured_elements()
    for element in elements or ():
        if element not in known:
            raise unknown_name("element", element, known)
    return tuple(dict.fromkeys(elements)) if elements else None


def check_methods(methods: Sequence[str] | None) -> tuple[str, ...] | None:
    """Older methods without repetitions; None for none. Raises `UsageError` for unknown names."""
    for method in methods or ():
        if method not in OLDER_METHODS:
            raise unknown_name("method", method, tuple(OLDER_METHODS))
    return tuple(dict.fromkeys(methods)) if methods else None


def hiding_elements(access: Sequence[str] | None) -> tuple[str, ...] | None:
    """Elements of latency hiding by the names of their accesses, ``all`` for every one; None for none.

    Raises `UsageError` for unknown names.
    """
    by_access = {element.partition("_")[2] or STREAMING: element for element in HIDING}
    for name in access or ():
        if name not in (*by_access, ALL_ACCESSES):
            raise unknown_name("access", name, (*by_access, ALL_ACCESSES))
    if ALL_ACCESSES in (access or ()):
        return HIDING
    return tuple(dict.fromkeys(by_access[name] for name in access or ())) or None


def check_outputs(
    output: Path | None,
    html: Path | None,
    traces: Path | None,
    spec: str | None,
    record: Path | None,
    card: Path | None = None,
) -> None:
    """Check before measuring that every file can be written, has a fitting name and replaces no other of the run.

    Raises `UsageError` for one that is a file of the device, of the recording, or another output.
    """
    if card is not None:
        check_card(card)
    check_traces_name(traces)
    checked = set[Path]()
    for file in (output, html, traces, card):
        if file is None:
            continue
        check_apart_from_run(file, spec, record)
        check_writable(file)
        if file.resolve() in checked:
            raise UsageError(f"cannot write {file}: another output has the same name; name two files")
        checked.add(file.resolve())
    check_names(output, html)
