"""The process that runs kernels: ``python -P -m gpudissect.explanation.process GPU``, folders of jobs on its input.

A kernel may crash or never end. Then what was measured is in the folder, and the process ends with its context.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.info import NvmlMonitor, driver_facts, provenance
from gpudissect.device.cuda.user_kernel import (
    DEFAULT_CARVEOUT,
    FULL_CARVEOUT,
    Timing,
    UserArrays,
    UserKernel,
    sweep_blocks,
)
from gpudissect.errors import GpudissectError
from gpudissect.explanation import jobs
from gpudissect.explanation.arguments import Argument
from gpudissect.explanation.instrument import MAX_WARPS
from gpudissect.explanation.jobs import Answer, Job, Measured, Step
from gpudissect.explanation.line_sample import RECORD_BYTES
from gpudissect.explanation.profile import Gpu, Point, Results
from gpudissect.explanation.sampling import PLACES, Plan, most_typical, plan_samples
from gpudissect.explanation.windows import TRACE_ARRAYS, skips
from gpudissect.units import WARP_SIZE

_WARM_UP_S = 0.1
_LAUNCHES_OF_POINT = 6  # at least: a trial, one that is not timed, and some that are
_COUNTER_FIELDS = 3
_REPEATED_TOLERANCE = 1e-3  # by which the counts of another launch may differ: where threads race, they vary
_PLACES_S = 2.0  # in which launches may look for a typical sample


class JobRunner:
    """Runs one job and writes what it measured into its folder after each stage."""

    _arrays: UserArrays
    _names: list[str]  # of the arrays
    _values: list[Any]  # of all arguments; of arrays their addresses
    _plain: Callable[[], None]  # launches the kernel without instrumentation
    _first: list[Any]  # contents of the arrays after its first launch

    def __init__(
        self, context: CudaContext, nvml: NvmlMonitor, folder: Path, report: Callable[[Step], None] = lambda step: None
    ) -> None:
        self._context, self._nvml, self._folder, self._report = context, nvml, folder, report
        self._job: Job = jobs.read_job(folder)
        self._measured = Measured()
        self._launch = self._job.launch
        self._limit_s, self._launch_s = self._job.limit_s, 0.0

    def run(self) -> None:
        """Run all stages. Raises `GpudissectError`; what was measured before is kept."""
        arguments = jobs.read_arguments(self._folder, self._job)
        self._report(Step(stage="data"))
        self._names = [a.name for a in arguments if a.count is not None]
        self._arrays = UserArrays(self._context, [_data(a, self._job.seed) for a in arguments if a.count is not None])
        try:
            self._measured.addresses = tuple(self._arrays.addresses)
            addresses = iter(self._arrays.addresses)
            self._values = [
                a.scalar() if a.count is None else np.array([next(addresses)], np.uint64) for a in arguments
            ]
            self._run_stages()
        finally:
            if not self._context.is_lost():
                self._arrays.free()

    def _run_stages(self) -> None:
        skip = self._job.skip
        with self._loaded(jobs.PLAIN) as kernel:
            self._plain = self._launcher(kernel)
            with self._stage("launch"):
                self._describe(kernel)
                self._run_first()
            if "counts" not in skip:
                with self._stage("counts"):
                    self._count()
            if "sweep" not in skip:
                with self._stage("sweep"):
                    self._sweep(kernel)
            if "trace" not in skip and "counts" not in skip:
                with self._stage("trace"):
                    self._trace()
            if "lines" not in skip and self._job.lines:
                with self._stage("lines"):
                    self._sample_lines()

    @contextmanager
    def _loaded(self, file: str) -> Iterator[UserKernel]:
        kernel = UserKernel(self._context, (self._folder / file).read_bytes(), self._job.kernel)
        try:
            yield kernel
        finally:
            if not self._context.is_lost():
                kernel.unload()

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self._measured.stage = name
        self._save()
        self._report(Step(stage=name))
        begin = time.perf_counter()
        yield
        self._measured.seconds[name] = time.perf_counter() - begin
        self._save()

    def _save(self) -> None:
        jobs.write_measured(self._folder, self._measured)

    def _launcher(
        self, kernel: UserKernel, shared: int | None = None, carveout: int = DEFAULT_CARVEOUT
    ) -> Callable[[], None]:
        """Launcher of a kernel with `shared` bytes of dynamic shared memory, or those of the job if None."""
        shared = self._launch.shared_bytes if shared is None else shared
        kernel.configure(shared=shared, carveout=carveout)
        return kernel.launcher(self._launch.grid, self._launch.block, shared, self._values)

    def _describe(self, plain: UserKernel) -> None:
        measured, launch = self._measured, self._launch
        measured.registers = plain.attribute("NUM_REGS")
        measured.shared_bytes = plain.attribute("SHARED_SIZE_BYTES")
        measured.local_bytes = plain.attribute("LOCAL_SIZE_BYTES")
        measured.blocks_per_sm = plain.max_blocks(launch.threads_per_block, launch.shared_bytes)
        facts: dict[str, Any] = driver_facts(self._context, self._nvml, {})
        found = provenance(self._context, self._nvml)
        facts |= {name: found[name] for name in ("time", "power_limit", "sm_clock", "memory_clock") if name in found}
        measured.gpu = Gpu(
            name=str(self._context.device.name),
            uuid=found["gpu_uuid"],
            sm_count=int(self._context.properties.multiprocessor_count),
            driver=self._nvml.driver() or "",
            facts=facts,
        )

    def _run_first(self) -> None:
        self._arrays.reset()
        self._context.wait_until_cleared()
        begin = time.perf_counter()
        self._finish(self._plain)
        self._launch_s = time.perf_counter() - begin
        self._first = self._arrays.contents()

    def _finish(self, launch: Callable[[], None]) -> None:
        """Launch a kernel and wait for its end."""
        launch()
        self._context.wait(self._limit_s)

    def _different(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of arrays that differ after an instrumented launch; those that vary, and the others.

        Whether an array varies, another launch of the plain kernel shows.
        """
        different = self._arrays.differences(self._first)
        if not different:
            return (), ()
        self._arrays.reset()
        self._finish(self._plain)
        varying, names = set(self._arrays.differences(self._first)) & set(different), self._names
        return tuple(names[n] for n in sorted(varying)), tuple(names[n] for n in different if n not in varying)

    def _count(self) -> None:
        with self._loaded(jobs.COUNTED) as kernel:
            launch = self._launcher(kernel)
            address, size = kernel.array(self._job.counters)
            self._arrays.reset()
            counts = self._counters_of(launch, address, size)
            np.save(self._folder / jobs.COUNTERS, counts, allow_pickle=False)
            self._measured.has_counts = True
            self._save()
            varying, different = self._different()
            self._arrays.reset()
            self._finish(self._plain)
            again = self._counters_of(launch, address, size)
            is_repeatable = bool(np.abs(again - counts).sum() <= _REPEATED_TOLERANCE * counts.sum())
            results = Results(varying=varying, different_counted=different, is_repeatable=is_repeatable)
            self._measured.results = results

    def _counters_of(self, launch: Callable[[], None], address: int, size: int) -> Any:
        self._context.fill_zeros(address, size)
        self._context.wait_until_cleared()
        self._finish(launch)
        return self._context.download(address, size).view(np.int64)

    def _sweep(self, plain: UserKernel) -> None:
        """Times at the natural occupancy and carveout first, which warms up, then at each occupancy."""
        launch, threads = self._launch, self._launch.threads_per_block
        wanted = sweep_blocks(self._measured.blocks_per_sm)
        if _LAUNCHES_OF_POINT * self._launch_s > self._job.sweep_s:
            self._measured.omitted_points = len(wanted)
            return
        self._arrays.reset()
        self._warm_up(self._launcher(plain))
        begin = time.perf_counter()
        last = self._point(plain, self._measured.blocks_per_sm, launch.shared_bytes, DEFAULT_CARVEOUT)
        self._measured.sweep, points = (last,), list[Point]()
        for done, blocks in enumerate(reversed(wanted)):
            self._report(Step(stage="sweep", done=done, total=len(wanted)))
            shared = plain.shared_for(blocks, threads, launch.shared_bytes)
            if shared is None:
                continue
            slowest = max(point.ns * point.blocks_per_sm for point in (*points, last)) / blocks
            if (time.perf_counter() - begin) + _LAUNCHES_OF_POINT * slowest * 1e-9 > self._job.sweep_s:
                self._measured.omitted_points = len(wanted) - done
                break
            points.append(self._point(plain, blocks, shared, FULL_CARVEOUT))
            self._measured.sweep = (*reversed(points), last)
            self._save()

    def _warm_up(self, launch: Callable[[], None]) -> None:
        end = time.perf_counter() + _WARM_UP_S
        while time.perf_counter() < end:
            self._finish(launch)

    def _point(self, plain: UserKernel, blocks: int, shared: int, carveout: int) -> Point:
        reset = None if self._measured.results.is_repeatable else self._arrays.reset
        start = self._launcher(plain, shared, carveout)
        timing: Timing = plain.time(start, reset, self._limit_s, self._nvml.clocks)
        self._note_conditions()
        low, middle, high = (float(value) for value in np.percentile(timing.ns, (25, 50, 75)))
        sm_clock, memory_clock = timing.observed or (None, None)
        return Point(
            blocks_per_sm=blocks,
            warps_per_sm=blocks * -(-self._launch.threads_per_block // WARP_SIZE),
            shared_bytes=shared,
            carveout=carveout,
            ns=middle,
            ns_low=low,
            ns_high=high,
            launches=timing.ns.size * timing.launches_per_time,
            launches_per_time=timing.launches_per_time,
            host_ns=timing.host_ns,
            sm_clock_hz=sm_clock,
            memory_clock_hz=memory_clock,
        )

    def _note_conditions(self) -> None:
        """Note what else may have slowed the launches that were timed."""
        others, reasons = self._nvml.other_processes(), self._nvml.throttling()
        found = [f"{others} other process(es) on the GPU while times were measured"] if others else []
        found += [f"clocks were lower than requested while times were measured: {reasons}"] if reasons else []
        self._measured.conditions = tuple(dict.fromkeys((*self._measured.conditions, *found)))

    def _trace(self) -> None:
        with self._loaded(jobs.TRACED) as kernel:
            start = self._launcher(kernel)
            plans = self._typical_plans(kernel, start)
            for number, plan in enumerate(plans):
                self._report(Step(stage="trace", done=number, total=len(plans)))
                self._record_plan(kernel, start, plan, number)
                self._measured.traces += (plan,)
                self._save()
            varying, different = self._different()
            results = self._measured.results
            varying = tuple(dict.fromkeys((*results.varying, *varying)))
            self._measured.results = results.model_copy(update={"varying": varying, "different_traced": different})

    def _typical_plans(self, kernel: UserKernel, start: Callable[[], None]) -> tuple[Plan, ...]:
        """The plans where the grid is most typical; those of its middle if launches take long, or there is one wave."""
        launch = self._launch
        words = np.load(self._folder / jobs.COUNTERS, allow_pickle=False)
        blocks = len(self._job.accesses_of_blocks)
        counts = words[: _COUNTER_FIELDS * blocks].reshape(blocks, _COUNTER_FIELDS)  # those of slow paths follow
        warps = max(1, launch.blocks * launch.warps_per_block)
        per_warp = float(np.dot(counts[:, 0], self._job.accesses_of_blocks)) / warps
        sm_count = int(self._context.properties.multiprocessor_count)
        shape = (launch.blocks, launch.warps_per_block, sm_count, self._measured.blocks_per_sm, per_warp)
        found = list(dict.fromkeys(plan_samples(*shape, place) for place in PLACES))
        if len(found) == 1 or len(found) * self._launch_s > _PLACES_S:
            return found[0]
        visits = []
        for plans in found:
            self._run_traced(kernel, start, plans[0], np.zeros(len(plans[0].places()), np.uint64))
            cursors = self._context.download(*kernel.array(self._job.trace["cursors"])).view(np.uint32)
            of_slot = cursors[1 : 2 * len(plans[0].places()) : 2]
            visits.append(of_slot.reshape(-1, plans[0].sample.warps[2]).astype(np.int64))
        return found[most_typical(visits, float(counts[:, 0].sum()) / warps)]

    def _run_traced(
        self, kernel: UserKernel, start: Callable[[], None], plan: Plan, skipped: NDArray[np.uint64]
    ) -> None:
        self._arrays.reset()
        for name, data in (("sample", np.frombuffer(plan.sample.data(), np.uint8)), ("skips", skipped.view(np.uint8))):
            self._context.upload(kernel.array(self._job.trace[name])[0], data)
        self._context.fill_zeros(*kernel.array(self._job.trace["cursors"]))
        self._context.wait_until_cleared()
        self._finish(start)

    def _record_plan(self, kernel: UserKernel, start: Callable[[], None], plan: Plan, number: int) -> None:
        """Trace the warps of a plan, in several launches if they make more accesses than are kept."""

        def record(turn: int, skipped: NDArray[np.uint64]) -> dict[str, Any]:
            self._run_traced(kernel, start, plan, skipped)
            places = {name: kernel.array(self._job.trace[name]) for name in TRACE_ARRAYS}
            found: dict[str, Any] = {
                name: self._context.download(address, size // MAX_WARPS * skipped.size)
                for name, (address, size) in places.items()
            }
            np.savez(jobs.trace_file(self._folder, number, turn), **found)
            return found

        cursors = record(0, np.zeros(len(plan.places()), np.uint64))["cursors"].view(np.uint32)
        if not self._job.is_traced_in_order:
            for turn, skipped in enumerate(skips(cursors[::2].astype(np.int64), plan.accesses), start=1):
                record(turn, skipped)

    def _sample_lines(self) -> None:
        with self._loaded(jobs.SAMPLED) as kernel:
            start = self._launcher(kernel)
            places = {name: kernel.array(array) for name, array in self._job.lines.items()}
            self._arrays.reset()
            self._context.fill_zeros(*places["cursor"])
            self._context.wait_until_cleared()
            self._finish(start)
            cursor = self._context.download(*places["cursor"])
            address, size = places["records"]
            used = min(size, int(cursor.view(np.uint64)[0]) * RECORD_BYTES)
            records = self._context.download(address, used) if used else np.zeros(0, np.uint8)
            np.savez(self._folder / jobs.LINES, cursor=cursor, records=records)
            self._measured.has_lines = True


def _data(argument: Argument, seed: int) -> Any:
    """The data of an array; the number of bytes for zeros."""
    return argument.array_bytes if argument.fill == "zeros" else argument.data(seed)


def serve(context: CudaContext, nvml: NvmlMonitor, lines: TextIO, answers: TextIO) -> None:
    """Run jobs whose folders are lines of JSON, print steps and an `Answer` for each; end when the context is lost."""

    def report(step: Step) -> None:
        print(step.model_dump_json(), file=answers, flush=True)

    for line in lines:
        error = ""
        try:
            JobRunner(context, nvml, Path(json.loads(line)), report).run()
        except GpudissectError as failure:
            error = str(failure)
        except Exception as failure:  # one kernel must not cost the others
            traceback.print_exc()
            error = f"{type(failure).__name__}: {failure}"
        is_lost = bool(error) and context.is_lost()
        answer = Answer(error=error[:500], is_lost=is_lost, has_timed_out=is_lost and context.has_timed_out)
        print(answer.model_dump_json(), file=answers, flush=True)
        if answer.is_lost:
            return


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no answer
    try:
        context = CudaContext(int(sys.argv[1]))
    except GpudissectError as error:
        print(Answer(error=str(error)[:500], is_lost=True).model_dump_json(), file=answers, flush=True)
        os._exit(1)
    serve(context, NvmlMonitor(context.device.pci_bus_id), sys.stdin, answers)
    sys.stderr.flush()
    os._exit(0)  # a kernel that never ends would hold up the driver's own exit


if __name__ == "__main__":
    _main()
