"""Times of prepared variants on a GPU: ``python validation/limiter_timing.py measure FOLDER OUT.json h100``.

``launch FOLDER OUT.json h100`` launches each kernel once between the start and stop of the profiler, for ``ncu
--profile-from-start off`` with the counters of `limiters.COUNTERS`, in the same order.

Batches of launches of all variants follow one another in random order, several rounds of them. Kernels that OUT.json
has already are left out, so that a run which a kernel ended goes on when it is started again.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.info import NvmlMonitor
from gpudissect.device.cuda.user_kernel import FULL_CARVEOUT, UserKernel
from gpudissect.explanation.arguments import Argument, parse_arguments

ROUNDS, BATCH_NS, MIN_LAUNCHES, LIMIT_S = 7, 4e6, 2, 20.0
LEVEL, STREAM, STREAM_BYTES = "gpudissect_0_level", "gpudissect_0_stream", 1 << 30
WARM_UP_LAUNCHES = 3
MAX_SPREAD, MAX_TRIES, PAUSE_S = 0.02, 3, 0.5  # of the rounds: where power or another process disturbs, once more
ALIGNMENT = 512


class Runner:
    """Runs the variants of one kernel; its arrays lie side by side, behind them what only variants load."""

    def __init__(self, context: CudaContext, folder: Path, row: dict[str, Any], data: Sequence[Any]) -> None:
        self._context, self._folder, self._row = context, folder, row
        arguments = parse_arguments(row["arguments"])
        sizes = [-(-a.array_bytes // ALIGNMENT) * ALIGNMENT for a in arguments if a.count is not None]
        self._arena = context.allocate(sum(sizes) + STREAM_BYTES + ALIGNMENT)
        self.values, at, arrays = list[Any](), self._arena, iter(data)
        for argument in arguments:
            if argument.count is None:
                self.values.append(argument.scalar())
                continue
            content = next(arrays)
            if isinstance(content, int):
                context.fill_zeros(at, content)
            else:
                context.upload(at, content)
            self.values.append(np.array([at], np.uint64))
            at += -(-argument.array_bytes // ALIGNMENT) * ALIGNMENT
        self._stream = at
        context.fill_zeros(at, STREAM_BYTES)
        context.wait(LIMIT_S)

    def run(self, gpu: str) -> dict[str, Any]:
        """Nanoseconds of each variant at each occupancy: the median of the rounds, and their spread relative to it."""
        points = []
        with self._kernels() as kernels:
            for blocks, carveout in self._row["points"][gpu]:
                points.append(self._point(kernels, blocks, carveout))
        return {"points": points}

    @contextmanager
    def _kernels(self) -> Iterator[dict[str, UserKernel]]:
        kernels = {}
        for variant in self._row["variants"]:
            code = (self._folder / variant["file"]).read_bytes()
            for level in (0, variant["level"]) if variant["accesses"] else (None,):
                name = variant["name"] if level is None else f"{variant['name']}:{min(level, 1)}"
                kernels[name] = kernel = UserKernel(self._context, code, self._row["kernel"])
                if level is not None:
                    self._context.upload(kernel.array(LEVEL)[0], np.array([level], np.uint32))
                    if variant["width"]:
                        self._context.upload(kernel.array(STREAM)[0], np.array([self._stream], np.uint64))
                    self._context.wait(LIMIT_S)
        yield kernels
        for kernel in kernels.values():
            kernel.unload()

    def launch(self, gpu: str) -> None:
        """Launch the kernel itself once for the profiler at each occupancy, after some launches without it."""
        driver = self._context.driver
        with self._kernels() as kernels:
            for blocks, carveout in self._row["points"][gpu]:
                start, _ = self._launcher(kernels["plain"], blocks, carveout)
                for _ in range(WARM_UP_LAUNCHES):
                    start()
                self._context.wait(LIMIT_S)
                driver.cuProfilerStart()
                start()
                self._context.wait(LIMIT_S)
                driver.cuProfilerStop()

    def _launcher(self, kernel: UserKernel, blocks: int, carveout: int) -> tuple[Callable[[], None], int]:
        """What launches a kernel with so many blocks on an SM, and how many fit in fact."""
        grid, block, shared = self._row["grid"], self._row["block"], self._row["shared"]
        threads = int(np.prod(block))
        if carveout == FULL_CARVEOUT:
            shared = kernel.shared_for(blocks, threads, shared) or shared
        kernel.configure(shared=shared, carveout=carveout)
        return kernel.launcher(grid, block, shared, self.values), kernel.max_blocks(threads, shared)

    def _point(self, kernels: dict[str, UserKernel], blocks: int, carveout: int) -> dict[str, Any]:
        launches, left_out = dict[str, Callable[[], None]](), dict[str, int]()
        for name, kernel in kernels.items():
            start, resident = self._launcher(kernel, blocks, carveout)
            if resident == blocks:
                launches[name] = start
            else:
                left_out[name] = resident
        if not launches:
            return {"blocks": blocks, "left_out": left_out}
        for trial in range(MAX_TRIES):
            times = self._times(launches)
            if max(float(np.ptp(each) / np.median(each)) for each in times.values()) <= MAX_SPREAD:
                break
            time.sleep(PAUSE_S * (trial + 1))
        medians = {name: float(np.median(each)) for name, each in times.items()}
        return {
            "blocks": blocks,
            "ns": {name: round(ns) for name, ns in medians.items()},
            "spread": {name: round(float(np.ptp(each)) / medians[name], 4) for name, each in times.items()},
            **({"left_out": left_out} if left_out else {}),
        }

    def _times(self, launches: dict[str, Callable[[], None]]) -> dict[str, list[float]]:
        driver, stream = self._context.driver, self._context.stream.handle
        events = {name: (driver.cuEventCreate(0)[1], driver.cuEventCreate(0)[1]) for name in launches}

        def batch(name: str, count: int) -> None:
            launches[name]()
            driver.cuEventRecord(events[name][0], stream)
            for _ in range(count):
                launches[name]()
            driver.cuEventRecord(events[name][1], stream)

        def elapsed(name: str, count: int) -> float:
            return 1e6 * float(driver.cuEventElapsedTime(*events[name])[1]) / count

        names, times = list(launches), {name: list[float]() for name in launches}
        for name in names:
            batch(name, 1)
        self._context.wait(LIMIT_S)
        counts = {name: max(MIN_LAUNCHES, round(BATCH_NS / max(1.0, elapsed(name, 1)))) for name in names}
        for number in range(ROUNDS):
            random.Random(number).shuffle(names)
            for name in names:
                batch(name, counts[name])
            self._context.wait(LIMIT_S)
            for name in names:
                times[name].append(elapsed(name, counts[name]))
        for pair in events.values():
            for event in pair:
                driver.cuEventDestroy(event)
        return times

    def free(self) -> None:
        """Free the arrays."""
        self._context.free(self._arena)


def data_of(row: dict[str, Any]) -> list[Any]:
    """The data of the arrays of a kernel; the number of bytes for zeros."""

    def data(argument: Argument) -> Any:
        return argument.array_bytes if argument.fill == "zeros" else argument.data(0)

    return [data(argument) for argument in parse_arguments(row["arguments"]) if argument.count is not None]


def run(command: str, folder: Path, out: Path, gpu: str, only: Sequence[str] = ()) -> int:
    """Time or launch all kernels; the exit code."""
    rows = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json")) if path.stem != "demand"}
    done = json.loads(out.read_text()) if out.exists() else {"gpu": gpu, "kernels": {}}
    names = [name for name in rows if name not in done["kernels"] and (not only or name in only)]
    context = CudaContext(0)
    nvml = NvmlMonitor(context.device.pci_bus_id)
    done |= {"name": str(context.device.name), "driver": nvml.driver() or ""}
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(data_of, rows[names[0]]) if names else None
        for number, name in enumerate(names):
            begin = time.perf_counter()
            assert following is not None
            data = following.result()
            following = pool.submit(data_of, rows[names[number + 1]]) if number + 1 < len(names) else None
            waited = time.perf_counter() - begin
            try:
                runner = Runner(context, folder, rows[name], data)
                if command == "launch":
                    runner.launch(gpu)
                done["kernels"][name] = {} if command == "launch" else runner.run(gpu)
                runner.free()
            except Exception as error:
                done["kernels"][name] = {"error": str(error)[:300]}
                print(f"{name}: {error}", flush=True)
            reasons = nvml.throttling()
            if reasons:
                done["kernels"][name]["throttled"] = reasons
            out.write_text(json.dumps(done))
            print(f"{name}: {time.perf_counter() - begin:.1f} s, {waited:.1f} s for data {reasons or ''}", flush=True)
            if context.is_lost():
                os._exit(3)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4], sys.argv[5:]))
