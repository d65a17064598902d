"""The Python functions of ``import gpudissect``: what the commands do, with results for values."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, overload

from gpudissect.call_checks import (
    check_type,
    list_of,
    names_of,
    path_of,
    path_or_none,
    seconds_of,
    sizes_of,
    trips_of,
    whole_number,
)
from gpudissect.child_processes import temporary_folder
from gpudissect.device import kinds
from gpudissect.device.base import EVIDENCE_BYTES, MAX_KEPT_BYTES, Device
from gpudissect.device.kinds import Listing
from gpudissect.device.recording.device import Recorder
from gpudissect.errors import UsageError
from gpudissect.interrupts import uninterrupted
from gpudissect.results import check as checking
from gpudissect.results import compare as comparing
from gpudissect.results import files, model
from gpudissect.results import predict as predicting
from gpudissect.results.check import Concern
from gpudissect.results.predict import DEFAULT_ACCESS
from gpudissect.study import Request, check_elements, check_methods, check_outputs, hiding_elements, run_study
from gpudissect.survey.drive import Progress
from gpudissect.views.interactive import Comparison, Explanation, MixPrediction, Result
from gpudissect.views.traces import RunTrace
from gpudissect.workload import Workload
from gpudissect.workload.chase import parse_chase

Name = str | Path
DEVICE_NAME = "a name such as 'cuda:0'"


def discover(
    device: str | None = None,
    *,
    only: str | Sequence[str] | None = None,
    quick: bool | None = None,
    seed: int | None = None,
    compare_methods: bool | None = None,
    methods: str | Sequence[str] | None = None,
    record: Name | None = None,
    html: Name | None = None,
    traces: Name | None = None,
    card: Name | None = None,
    host: bool = True,
    precision: float | None = None,
    profile: str | None = None,
    progress: Progress | None = None,
) -> Result:
    """Measure the memory hierarchy of one GPU, as ``gpudissect discover`` does.

    Args:
        device: ``cuda:0``, ``sim:gtx980``, ``rec:folder``; None for the first CUDA GPU, or a simulated one.
        only: only this element or these, such as ``"l1"`` or ``["l1", "l2"]``.
        quick: leave out what takes longest.
        seed: of every random choice.
        compare_methods: also read the caches with older methods.
        methods: only these older methods: "saavedra", "wong", "mt22", or several.
        record: a new folder to keep everything measured in; it replays as ``rec:folder``.
        html: a file for the page, with the traces behind the findings.
        traces: a file for all traces as one table, .csv or .parquet; findings name theirs as evidence.
        card: a file for one picture of the GPU, .svg or .png.
        host: whether the result and the recording name the host.
        precision: requested max width of latency brackets, percent of the value; more SMs are sampled to reach it.
        profile: "health" for what a check between jobs needs.
        progress: called as ``progress(done, total, what)`` while experiments finish and start.

    Where one of `only` to `methods` is None, a recording's own option holds, or else the default.
    A KeyboardInterrupt while measuring (Ctrl-C, a notebook's stop button) does not reach the caller: the result holds
    what was measured until then, its `interrupted` is True, and a warning is given. `failures` lists failed
    experiments. Raises `UsageError`, `DeviceError` (`gpudissect.errors`).

    """
    request = Request(
        elements=check_elements(names_of("only", only)),
        quick=quick,
        seed=seed,
        compare_methods=compare_methods,
        methods=check_methods(names_of("methods", methods)),
        host=host,
        precision=precision,
        profile=profile,
    )
    outputs = (path_or_none("record", record), path_or_none("html", html), path_or_none("traces", traces))
    return _result(device, request, *outputs, progress, path_or_none("card", card))


def hide(
    device: str | None = None,
    *,
    access: str | Sequence[str] | None = None,
    quick: bool | None = None,
    record: Name | None = None,
    html: Name | None = None,
    traces: Name | None = None,
    host: bool = True,
    progress: Progress | None = None,
) -> Result:
    """Measure throughput against occupancy and compare models with it, as ``gpudissect hide`` does.

    `access` is streaming (if left out), stride2, random, rsq, lds, all, or several; for the rest see `discover`.
    """
    request = Request(hiding=True, elements=hiding_elements(names_of("access", access)), quick=quick, host=host)
    outputs = (path_or_none("record", record), path_or_none("html", html), path_or_none("traces", traces))
    return _result(device, request, *outputs, progress)


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
    batch = list(workload) if isinstance(workload, Iterable) else [workload]
    _check_device(device)
    for each in batch:
        check_type("workload", each, Workload, "a workload")
    with ExitStack() as stack:
        if device is None or isinstance(device, str):
            device = stack.enter_context(kinds.open_device(_only_device(device, 1), seed=seed))
        recorder = None if record is None else stack.enter_context(Recorder(device, Path(record)))
        traces = (device if recorder is None else recorder).run(batch)
        outcomes = [RunTrace.of(each, trace, device.info) for each, trace in zip(batch, traces, strict=True)]
    return outcomes[0] if isinstance(workload, Workload) else outcomes


def chase(
    device: str | Device | None = None,
    *,
    path: str = "global",
    size: str | int = "16KiB",
    stride: str | int = 32,
    order: str = "sequential",
    timing: str = "each",
    warmup: int = 1,
    laps: int = 1,
    bounds: str | None = None,
    carveout: int | None = None,
    sm: int | None = None,
    flush: bool = False,
    peer: int = 1,
    seed: int = 0,
    record: Name | None = None,
) -> RunTrace:
    """Run one pointer chase, as ``gpudissect chase`` does; `run` takes a `Chase` with more options.

    Raises `UsageError` for impossible options, and what `run` raises.
    """
    workload = parse_chase(
        path=path,
        size=size,
        stride=stride,
        order=order,
        timing=timing,
        warmup=warmup,
        laps=laps,
        bounds=bounds,
        carveout=carveout,
        sm=sm,
        flush=flush,
        peer=peer,
        seed=seed,
    )
    _check_device(device)
    opened = _only_device(device, 1) if device is None or isinstance(device, str) else device
    return run(workload, opened, seed=seed, record=record)


def predict(
    result: Result,
    warps: int,
    *,
    run: str | Mapping[str, float] | None = None,
    alpha: float | None = None,
    access: str = DEFAULT_ACCESS,
) -> MixPrediction:
    """Predict the throughput of a mix of dependent instructions, as ``gpudissect predict`` does.

    Args:
        result: one of `hide`.
        warps: warps of an SM.
        run: instructions of a warp, such as ``"ldg_streaming:1,fadd:32"`` or ``{"ldg_streaming": 1, "fadd": 32}``.
        alpha: instead of `run`: fadd per access.
        access: the access of `alpha`.

    Raises `UsageError` for a result without parameters of latency hiding, an impossible occupancy, or a wrong mix.

    """
    check_type("result", result, model.Result, "a result of hide")
    return MixPrediction(**vars(predicting.predict(result, warps, run, alpha, access)))


def explain(
    code: Name | object,
    *,
    machine: Name | Result | Sequence[Name | Result] = (),
    kernel: str | None = None,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    args: Sequence[Any] = (),
    shared: int = 0,
    device: str | None = None,
    trips: Mapping[str, float] | str | None = None,
    limit: float | None = None,
    compile_options: Sequence[str] = (),
    profile: Name | None = None,
    against: Name | Result | Sequence[Name | Result] = (),
    progress: Progress | None = None,
) -> Explanation:
    """Predict the time of a kernel on a measured GPU, and what limits it, as ``gpudissect explain`` does.

    With `grid` and `block` the kernel runs on a GPU, in a separate process. Without them a profile of an earlier run is
    needed. With `trips` it is not run: execution counts are given, not measured.

    Args:
        code: CUDA C++ (.cu), PTX (.ptx), a profile (.json), or any other file with device code; or a kernel of a
            package: a compiled kernel of Triton (what ``kernel[grid](...)`` and ``kernel.warmup(...)`` return), a
            RawKernel of CuPy, a kernel of Numba that was compiled, an ObjectCode of cuda.core.
        machine: results of `discover` of the GPU, and of `hide` too if there are any, or their files.
        kernel: its name, if the file has several, such as ``ns::scale<float>``.
        grid: blocks in x, or in x, y and z.
        block: threads of a block in x, or in x, y and z; a kernel of Triton has them.
        args: its arguments as its package takes them: numbers, arrays of numpy, CuPy, torch, Numba or others, on a GPU
            or not, and texts in the format of ``--arg``. The kernel runs in another process, on copies of the arrays
            (8 GiB in all).
        shared: dynamic shared memory of a block in bytes.
        device: the GPU, ``cuda:0`` if None.
        trips: iterations per entry of each loop, by its name (of `loops` in the result) or the address of its header;
            {} or "none" for a kernel without loops. Conditional code counts as executed by all threads, accesses as
            contiguous.
        limit: seconds that a launch may take, 60 if None.
        compile_options: options of NVRTC for CUDA C++.
        profile: with `grid`, the file to save the profile to; else the profile to read, unless `code` is one.
        against: results of another GPU, for the predicted time on that one.
        progress: called with (done, total, stage).

    Raises `UsageError` for files that do not belong together or arguments that the kernel does not take, `KernelFailed`
    for a kernel that fails or exceeds the limit (what was recorded is in `profile`), `DeviceError` without a GPU or
    compiler.

    """
    from gpudissect.explanation.inputs import check_launch, explain_file, explain_recorded, explain_trips

    grid, block = sizes_of("grid", grid), sizes_of("block", block)
    trips, limit = trips_of(trips), seconds_of("limit", limit)
    shared = shared if isinstance(shared, str) else whole_number("shared", shared, "a number of bytes")
    check_type("kernel", kernel, str | None, "a name")
    check_type("device", device, str | None, DEVICE_NAME)
    args = list_of("args", args, object, "a list of arguments")
    compile_options = list_of("compile_options", compile_options, str, "a list of options of NVRTC")
    given: dict[str, object] = {
        "grid": grid,
        "shared": shared or None,
        "args": args if len(args) else None,
        "device": device,
    }
    with ExitStack() as stack:
        if not isinstance(code, str | Path):
            from gpudissect.explanation.python_kernels import python_kernel

            held = python_kernel(code, kernel, args)
            code = held.write(stack.enter_context(temporary_folder()))
            kernel, shared, compile_options = held.name, shared or held.shared_bytes, (*held.options, *compile_options)
            block = held.block if block is None and grid is not None else block
            args = args if grid is None or trips is not None else held.values(args, grid)
        results, others = _results_of("machine", machine), _results_of("against", against)
        path, file, options = path_or_none("profile", profile), path_of("code", code), tuple(compile_options)
        given |= {"block": block, "limit": limit, "trips": trips, "profile": path}
        if not check_launch(file, given):
            found = explain_file(file, results, kernel=kernel, profile=path, options=options, against=others)
            return Explanation.of(found)
        from gpudissect.explanation.on_gpu import check_saved, record_on_gpu, run_of, save_profile
        from gpudissect.explanation.trips import parse_trips

        assert grid is not None and block is not None
        run = run_of(grid, block, shared, args, device, limit, options)
        if trips is not None:
            trips = parse_trips([trips]) if isinstance(trips, str) else trips
            found = explain_trips(file, run.launch, trips, results, kernel=kernel, options=options, against=others)
            return Explanation.of(found)
        check_saved(path, [file])
        outcome = record_on_gpu(file, kernel, run, results, progress or (lambda done, total, stage: None))
    if path is not None and outcome.profile is not None:
        save_profile(path, outcome.profile)
    if outcome.is_interrupted:
        raise KeyboardInterrupt
    if outcome.error is not None and not (outcome.is_partial and outcome.is_explainable):
        raise outcome.error
    if outcome.error is not None:
        warnings.warn(str(outcome.error), stacklevel=2)
    assert outcome.profile is not None
    return Explanation.of(explain_recorded(outcome.profile, results, others))


def devices() -> list[Listing]:
    """Every device that can be named: real (and why one cannot be used), simulated, recordings in this folder."""
    return kinds.list_devices()


def load(file: Name) -> Result:
    """Read a result file. Raises `UsageError` for one that is missing, foreign, newer or malformed."""
    return Result.of(files.load(path_of("file", file)))


def compare(*results: Result) -> Comparison:
    """Compare two results or more, value by value. Raises `UsageError` for fewer."""
    _check_results(results)
    return Comparison.of(comparing.compare(results))


def check(*results: Result) -> list[Concern]:
    """Reasons not to rely on a result; for several results of one GPU, also what changed between them."""
    _check_results(results)
    return checking.concerns(results)


def _result(
    device: str | None,
    request: Request,
    record: Path | None,
    html: Path | None,
    traces: Path | None,
    progress: Progress | None,
    card: Path | None = None,
) -> Result:
    check_type("device", device, str | None, DEVICE_NAME)
    check_outputs(None, html, traces, device, record, card)
    kept_bytes = EVIDENCE_BYTES if html is None and traces is None else MAX_KEPT_BYTES
    spec = _only_device(device, 2)
    with uninterrupted() as held:
        outcome = run_study(spec, request, record=record, kept_bytes=kept_bytes, progress=progress)
        errors = (outcome.error, *outcome.save(None, html, traces, card))
    for error in filter(None, errors):  # an error must not cost the result
        warnings.warn(str(error), stacklevel=3)
    if held or outcome.result.interrupted:
        warnings.warn("interrupted; the result holds what was measured until then", stacklevel=3)
    return Result.of(outcome.result)


def _only_device(device: str | None, calls: int) -> str:
    """The name of one device. A warning, attributed to the caller `calls` up, says if a simulated one was chosen."""
    choice = kinds.choose(device)
    if len(choice.specs) > 1:
        count, first = len(choice.specs), choice.specs[0]
        raise UsageError(f"{device} names {count} GPUs where one is needed; name one, such as {first}")
    if device is None and not choice.specs[0].startswith("cuda:"):
        warnings.warn(choice.note or "", stacklevel=2 + calls)
    return choice.specs[0]


def _results_of(argument: str, given: Name | Result | Sequence[Name | Result]) -> list[model.Result]:
    """Results and files of results, one or several."""
    kind, what = str | Path | model.Result, "a result, its file, or a list of them"
    chosen = list_of(argument, [given] if isinstance(given, kind) else given, kind, what)
    return [each if isinstance(each, model.Result) else files.load(path_of(argument, each)) for each in chosen]


def _check_device(device: object) -> None:
    if not hasattr(device, "info"):  # of an opened one
        check_type("device", device, str | None, f"{DEVICE_NAME} or an opened device")


def _check_results(results: Sequence[object]) -> None:
    for each in results:
        check_type("result", each, model.Result, "a result, as from discover or load")
