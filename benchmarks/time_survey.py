"""Time a survey stage by stage: ``python benchmarks/time_survey.py [DEVICE] [--quick] [--hide] [--runs N]``.

A Markdown table of seconds, each the median of N runs. In the process of the survey:

- import: modules, from the first statement of the process on;
- plans: infer, and choose the next workloads;
- wait: for the device to start, and for traces (a recording is read here);
- result: build the result file.

In the process of the device, or the first of several:

- start: import modules and open the device;
- compile: load or compile kernels, or loops of the simulator;
- run: run batches without compiling;
- idle: wait for a batch, or prepare for later ones.

Below: how long the stream of the GPU had work (sampled every 2 ms; only on CUDA GPUs), the CPU time of both processes,
and the peak memory of the larger one.
"""

from time import perf_counter, process_time, sleep

BEGIN = perf_counter()  # before anything else is imported

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import wraps  # noqa: E402
from pathlib import Path  # noqa: E402
from statistics import median  # noqa: E402
from tempfile import TemporaryDirectory  # noqa: E402
from threading import Thread  # noqa: E402
from typing import Any  # noqa: E402

SAMPLE_S = 0.002
STAGES = {"survey": ("import", "plans", "wait", "result"), "device": ("start", "compile", "run", "idle")}


class Clock:
    """Seconds by stage, from the `first` one on; a stage within another is deducted from it."""

    def __init__(self, first: str) -> None:
        self.stages = dict.fromkeys([stage for stages in STAGES.values() for stage in stages], 0.0)
        self._last = BEGIN
        self._current = [first]

    def report(self) -> dict[str, float]:
        """Seconds by stage and in all; CPU seconds; peak memory in megabytes."""
        self._charge()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        rest = {"wall": perf_counter() - BEGIN, "cpu": process_time(), "memory": memory}
        return {**self.stages, **rest}

    def _charge(self) -> None:
        now = perf_counter()
        self.stages[self._current[-1]] += now - self._last
        self._last = now

    def within(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charged to a stage."""

        @wraps(function)
        def charged(*arguments: Any, **options: Any) -> Any:
            self._charge()
            self._current.append(stage)
            try:
                return function(*arguments, **options)
            finally:
                self._charge()
                self._current.pop()

        return charged


class StreamSampler(Thread):
    """Looks every 2 ms whether the stream of a CUDA context has work; `busy` seconds in which it had."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.context: Any = None
        self.busy = 0.0

    def watch(self, create: Callable[..., None]) -> Callable[..., None]:
        """The constructor of a context, which is watched from then on."""

        @wraps(create)
        def creating(context: Any, index: int) -> None:
            create(context, index)
            self.context = context
            self.start()

        return creating

    def run(self) -> None:
        """Sample until the process ends."""
        self.context.activate()
        driver, stream, last = self.context.driver, self.context.stream.handle, perf_counter()
        while True:
            sleep(SAMPLE_S)
            now, is_busy = perf_counter(), driver.cuStreamQuery(stream)[0] == driver.CUresult.CUDA_ERROR_NOT_READY
            self.busy += is_busy * (now - last)
            last = now


def time_survey(spec: str, quick: bool, hide: bool) -> dict[str, Any]:
    """Seconds of one survey by stage: of this process and of the device's."""
    clock = Clock("import")
    from gpudissect import study
    from gpudissect.device import child
    from gpudissect.device.process import DeviceProcess
    from gpudissect.device.recording.device import RecordedGpu
    from gpudissect.survey import registry

    registry.measured_elements()  # imports all plans
    with TemporaryDirectory() as folder:
        child.COMMAND = (sys.executable, __file__, folder)
        DeviceProcess._receive = clock.within("wait", DeviceProcess._receive)  # type: ignore[method-assign]
        RecordedGpu.run = clock.within("wait", RecordedGpu.run)  # type: ignore[method-assign]
        study.open_in_process = clock.within("wait", study.open_in_process)
        study.surveys.run_survey = clock.within("plans", study.surveys.run_survey)
        outcome = clock.within("result", study.run_study)(spec, study.Request(quick=quick or None, hiding=hide))
        clock.within("result", outcome.result.to_json)()
        reports = [json.loads(path.read_text()) for path in Path(folder).iterdir()]
    if child.needs_process(spec) and not reports:
        raise SystemExit(f"{spec}: the device process failed")
    return {"survey": clock.report(), "device": reports[0] if reports else None}


def time_device(folder: str, spec: str, seed: str, prepares: str, *sockets: str) -> None:
    """Run as the device process, and write its seconds by stage to a folder."""
    clock, sampler = Clock("start"), StreamSampler()
    from gpudissect.device import process, queue

    if spec.startswith("cuda"):
        from gpudissect.device.cuda import gpu
        from gpudissect.device.cuda.compile import Compiler
        from gpudissect.device.cuda.context import CudaContext as Context
        from gpudissect.device.cuda.pipeline import Pipeline

        gpu.Precompiler.wait = clock.within("compile", gpu.Precompiler.wait)  # type: ignore[method-assign]
        Compiler.cubin = clock.within("compile", Compiler.cubin)  # type: ignore[method-assign]
        Context.__init__ = sampler.watch(Context.__init__)  # type: ignore[method-assign]
        Pipeline.collect = clock.within("run", Pipeline.collect)  # type: ignore[method-assign]
    else:
        from gpudissect.simulation.cache import compiled

        compiled._load_cached = clock.within("compile", compiled._load_cached)
        queue.Stepwise.collect = clock.within("run", queue.Stepwise.collect)  # type: ignore[method-assign]
    process.serve = clock.within("idle", process.serve)
    first = os.getpid()
    process.main(spec, int(seed), [*map(int, sockets)], prepares=prepares == "1")
    if os.getpid() == first:
        Path(folder, "device.json").write_text(json.dumps({**clock.report(), "gpu": sampler.busy}))


def table(spec: str, runs: list[dict[str, Any]]) -> str:
    """The medians of some runs."""

    def middle(role: str, name: str) -> float:
        return median(run[role][name] for run in runs if run[role])

    wall, memory = middle("survey", "wall"), middle("survey", "memory")
    lines = [f"| {spec} | wall (s) |", "|---|---|"]
    for role in ("survey", "device"):
        if runs[0][role]:
            lines += [f"| {role}: {stage} | {middle(role, stage):.2f} |" for stage in STAGES[role]]
    cpu = f"CPU {middle('survey', 'cpu'):.2f} s"
    busy = ""
    if runs[0]["device"]:
        cpu += f" and {middle('device', 'cpu'):.2f} s"
        memory = max(memory, middle("device", "memory"))
        if spec.startswith("cuda"):
            gpu = middle("device", "gpu")
            busy = f"GPU busy {gpu:.2f} s ({gpu / wall:.0%}), "
    return "\n".join([*lines, f"| whole | {wall:.2f} |", "", f"{busy}{cpu}, {memory:.0f} MB; median of {len(runs)}"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a survey stage by stage.")
    parser.add_argument("device", nargs="?", default="sim:gtx980")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hide", action="store_true")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(time_survey(options.device, options.quick, options.hide)))
        return
    flags = [f"--{name}" for name in ("quick", "hide") if getattr(options, name)]
    command = [sys.executable, __file__, options.device, "--once", *flags]
    runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(options.runs)]
    print(table(" ".join([options.device, *flags]), runs))


if __name__ == "__main__":
    if os.path.isdir(sys.argv[1] if len(sys.argv) > 1 else ""):
        time_device(*sys.argv[1:])
    else:
        main()
