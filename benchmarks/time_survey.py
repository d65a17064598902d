"""Time a survey stage by stage: ``python benchmarks/time_survey.py [DEVICE] [--quick] [--hide] [--runs N]``.

A Markdown table of wall and CPU seconds, each the median of N runs in fresh processes:

- import: modules, from the first statement of the process on;
- driver: open the device (a recording is read here);
- compile: load or compile kernels, or loops of the simulator;
- device: run batches without compiling: on a GPU, in the simulator, or from the recording;
- plans: infer, and choose the next workloads;
- result: build the result file.

CPU seconds are those of all threads. Below: how long the GPU was busy (from the first kernel that is started after a
wait until the wait for it ends; only on CUDA GPUs), how long the host was, and how long neither (the host's work while
the GPU was busy counts once).
"""

from time import perf_counter, process_time, thread_time

BEGIN = perf_counter(), process_time()  # before anything else is imported

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import wraps  # noqa: E402
from statistics import median  # noqa: E402
from threading import current_thread, main_thread  # noqa: E402
from typing import Any  # noqa: E402

STAGES = ("import", "driver", "compile", "device", "plans", "result")


class Clock:
    """Wall and CPU seconds by stage; a stage within another is deducted from it."""

    def __init__(self) -> None:
        self.stages = {stage: [0.0, 0.0] for stage in STAGES}
        self.gpu = [0.0, 0.0]  # wall and CPU seconds while the GPU was busy
        self._last = BEGIN
        self._current = ["import"]
        self._busy_since: tuple[float, float] | None = None
        self._marks = 0  # launches to be awaited one by one

    def _charge(self) -> None:
        now = perf_counter(), process_time()
        for unit in range(2):
            self.stages[self._current[-1]][unit] += now[unit] - self._last[unit]
        self._last = now

    def within(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, charged to a stage."""

        @wraps(function)
        def charged(*arguments: Any, **options: Any) -> Any:
            if current_thread() is not main_thread():  # of the simulator, which compiles in one thread at a time
                begin = perf_counter(), thread_time()
                result = function(*arguments, **options)
                for unit, now in enumerate((perf_counter(), thread_time())):
                    self.stages[stage][unit] += now - begin[unit]
                    self.stages["device"][unit] -= now - begin[unit]
                return result
            self._charge()
            self._current.append(stage)
            try:
                return function(*arguments, **options)
            finally:
                self._charge()
                self._current.pop()

        return charged

    def starts_gpu(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after which the GPU is busy."""

        @wraps(function)
        def starting(*arguments: Any, **options: Any) -> Any:
            self._busy_since = self._busy_since or (perf_counter(), process_time())
            return function(*arguments, **options)

        return starting

    def marks_gpu(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after which there is one more launch to be awaited."""

        @wraps(function)
        def marking(*arguments: Any, **options: Any) -> Any:
            self._marks += 1
            return function(*arguments, **options)

        return marking

    def awaits_mark(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after which the GPU is idle unless there is another launch to be awaited."""
        waiting = self.awaits_gpu(function)

        @wraps(function)
        def awaiting(*arguments: Any, **options: Any) -> Any:
            was_busy, self._marks = self._busy_since is not None, self._marks - 1
            result = waiting(*arguments, **options)
            if was_busy and self._marks:
                self._busy_since = perf_counter(), process_time()
            return result

        return awaiting

    def awaits_gpu(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, after which the GPU is idle."""

        @wraps(function)
        def waiting(*arguments: Any, **options: Any) -> Any:
            try:
                return function(*arguments, **options)
            finally:
                if self._busy_since is not None:
                    self.gpu[0] += perf_counter() - self._busy_since[0]
                    self.gpu[1] += process_time() - self._busy_since[1]
                    self._busy_since = None

        return waiting


def time_once(spec: str, quick: bool, hide: bool) -> dict[str, Any]:
    """Seconds of one survey in this process, by stage, and its largest memory in megabytes."""
    clock = Clock()
    from gpudissect import study
    from gpudissect.device import kinds
    from gpudissect.survey import registry

    registry.measured_elements()  # imports all plans
    if spec.startswith("cuda"):
        from gpudissect.device.cuda import gpu
        from gpudissect.device.cuda.compile import Compiler
        from gpudissect.device.cuda.context import CudaContext as Context

        gpu.Precompiler.wait = clock.within("compile", gpu.Precompiler.wait)  # type: ignore[method-assign]
        Compiler.cubin = clock.within("compile", Compiler.cubin)  # type: ignore[method-assign]
        Context.launch = clock.starts_gpu(Context.launch)  # type: ignore[method-assign]
        Context.wait = clock.awaits_gpu(Context.wait)  # type: ignore[method-assign]
        Context.mark = clock.marks_gpu(Context.mark)  # type: ignore[method-assign]
        Context.wait_for = clock.awaits_mark(Context.wait_for)  # type: ignore[method-assign]
    elif spec.startswith("sim"):
        from gpudissect.simulation.cache import compiled

        compiled._load_cached = clock.within("compile", compiled._load_cached)
    open_device = kinds.open_device

    def open_timed(*arguments: Any, **options: Any) -> Any:
        device = open_device(*arguments, **options)
        kind: Any = type(device)
        kind.run = clock.within("device", kind.run)
        return device

    kinds.open_device = clock.within("driver", open_timed)
    study.surveys.run_survey = clock.within("plans", study.surveys.run_survey)
    run_study = clock.within("result", study.run_study)
    outcome = run_study(spec, study.Request(quick=quick or None, hiding=hide))
    clock.within("result", outcome.result.to_json)()
    wall, cpu = perf_counter() - BEGIN[0], process_time() - BEGIN[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"stages": clock.stages, "whole": [wall, cpu], "gpu": clock.gpu, "memory": memory}


def table(spec: str, runs: list[dict[str, Any]]) -> str:
    """The medians of some runs."""

    def middle(read: Callable[[dict[str, Any]], float]) -> float:
        return median(map(read, runs))

    wall = middle(lambda run: run["whole"][0])
    lines = [f"| {spec} | wall (s) | CPU (s) |", "|---|---|---|"]
    for stage in STAGES:
        seconds = [median(run["stages"][stage][unit] for run in runs) for unit in range(2)]
        lines.append(f"| {stage} | {seconds[0]:.2f} | {seconds[1]:.2f} |")
    lines.append(f"| whole | {wall:.2f} | {middle(lambda run: run['whole'][1]):.2f} |")
    gpu = middle(lambda run: run["gpu"][0])
    host = middle(lambda run: run["whole"][1] - run["gpu"][1])
    busy = f"GPU busy {gpu:.2f} s ({gpu / wall:.0%}), " if spec.startswith("cuda") else ""
    idle = max(wall - gpu - host, 0.0)
    return "\n".join(
        [
            *lines,
            "",
            f"{busy}host busy {host:.2f} s, neither {idle:.2f} s; median of {len(runs)}; "
            f"at most {max(run['memory'] for run in runs):.0f} MB",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Time a survey stage by stage.")
    parser.add_argument("device", nargs="?", default="sim:gtx980")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hide", action="store_true")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(time_once(options.device, options.quick, options.hide)))
        return
    flags = [f"--{name}" for name in ("quick", "hide") if getattr(options, name)]
    command = [sys.executable, __file__, options.device, "--once", *flags]
    runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(options.runs)]
    print(table(" ".join([options.device, *flags]), runs))


if __name__ == "__main__":
    main()
