"""Records profiles of the example kernels on a GPU: ``python validation/kernels.py record DEVICE FOLDER``.

DEVICE is such as cuda:0 or 0. Kernels are compiled and assembled, and profiles made, in other processes while one
kernel after the other is measured. A kernel that fails costs one line. `--prepare-only` stops before a GPU is needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import tomllib
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gpudissect.device.cuda.compile import compiler_version
from gpudissect.errors import GpudissectError
from gpudissect.explanation.arguments import parse_arguments
from gpudissect.explanation.kernel_process import KernelProcess
from gpudissect.explanation.profile import MAX_PROFILE_BYTES, Launch, Profile
from gpudissect.explanation.record import finish, prepare
from gpudissect.explanation.user_code import read_user_code
from gpudissect.machine_code.tools import run_tool

KERNELS = Path(__file__).parents[1] / "examples" / "kernels"
LIMIT_S = 60.0  # of a kernel
MAX_WORKERS = 16


@dataclass(frozen=True)
class Entry:
    """A kernel of ``kernels.toml``."""

    name: str
    file: Path
    kernel: str
    launch: Launch
    arguments: tuple[str, ...]
    half: str


def read_entries(folder: Path = KERNELS) -> list[Entry]:
    """The kernels of a folder, in their order."""
    table = tomllib.loads((folder / "kernels.toml").read_text(encoding="utf-8"))
    return [
        Entry(
            each["name"],
            folder / each["file"],
            each["kernel"],
            Launch(grid=dimensions(each["grid"]), block=dimensions(each["block"]), shared_bytes=each.get("shared", 0)),
            tuple(each.get("arguments", ())),
            each.get("half", ""),
        )
        for each in table["kernel"]
    ]


def dimensions(sizes: int | list[int]) -> tuple[int, int, int]:
    """Three dimensions from one to three."""
    x, y, z = [*([sizes] if isinstance(sizes, int) else sizes), 1, 1][:3]
    return x, y, z


def prepare_entry(entry: Entry, folder: Path, capability: str) -> float:
    """Compile, instrument and assemble a kernel; the seconds that took."""
    begin = time.perf_counter()
    folder.mkdir()
    architecture = f"sm_{capability}"
    code = read_user_code(entry.file, entry.kernel, architecture)
    prepare(folder, code.module, code.kernel, entry.launch, parse_arguments(entry.arguments), architecture)
    return time.perf_counter() - begin


def finish_entry(entry: Entry, folder: Path, out: Path, notes: list[str], tools: dict[str, str]) -> str:
    """Write the profile of a measured kernel; a few words on it."""
    profile = finish(folder, tools, notes)
    text = profile.to_json()
    if len(text) > MAX_PROFILE_BYTES:
        return f"NOT WRITTEN: {len(text)} B"
    (out / f"{entry.name}.json").write_text(text, encoding="utf-8")
    return describe(profile, len(text))


def describe(profile: Profile, size: int) -> str:
    """A profile in a few words."""
    parts = [f"{size / 1000:.0f} kB", f"{len(profile.counts)} blocks", f"{len(profile.warps)} warps"]
    if profile.sweep:
        natural = profile.sweep[-1]
        best = min(profile.sweep, key=lambda point: point.ns)
        parts.append(f"{natural.ns / 1000:.1f} us at {natural.warps_per_sm} warps")
        parts.append(f"least {best.ns / 1000:.1f} us at {best.warps_per_sm}")
        if any(point.host_ns > 0.8 * point.ns for point in profile.sweep):
            parts.append("limited by the host")
    results = profile.results
    for name in ("varying", "different_counted", "different_traced"):
        parts += [f"{name}: {','.join(getattr(results, name))}"] if getattr(results, name) else []
    parts += [] if results.is_repeatable else ["not repeatable"]
    return ", ".join((*parts, *profile.notes))


def capability_of(gpu: int) -> str:
    """Compute capability of a GPU, such as 90, by the driver alone."""
    from cuda.bindings import driver

    driver.cuInit(0)
    names = driver.CUdevice_attribute
    _, device = driver.cuDeviceGet(gpu)
    _, major = driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device)
    _, minor = driver.cuDeviceGetAttribute(names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device)
    return f"{major}{minor}"


def versions() -> dict[str, str]:
    """Versions of NVRTC and ptxas."""
    lines = run_tool("ptxas", ["--version"]).decode().split()
    return {"nvrtc": compiler_version(), "ptxas": next((word for word in lines if word.startswith("V")), "")}


def record(entries: list[Entry], gpu: int, out: Path, work: Path, capability: str | None, limit_s: float) -> int:
    """Record kernels; the number of those that failed. Without a GPU if a capability is given."""
    begin, failed = time.perf_counter(), set[str]()
    cc, tools = capability or capability_of(gpu), versions()
    print(f"sm_{cc}, {tools}, {len(entries)} kernels", flush=True)
    workers = min(MAX_WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool, (out / "record.log").open("w") as log:
        prepared = [(entry, pool.submit(prepare_entry, entry, work / entry.name, cc)) for entry in entries]
        finished: list[tuple[Entry, Future[str], float]] = []
        process = KernelProcess(gpu, log)
        try:
            for entry, future in prepared:
                notes: list[str] = []
                try:
                    seconds = future.result()
                    if capability:
                        print(f"{entry.name}: prepared in {seconds:.1f} s", flush=True)
                        continue
                    seconds = time.perf_counter()
                    try:
                        process.measure(work / entry.name, limit_s)
                    except GpudissectError as error:
                        notes.append(str(error))
                        print(f"{entry.name}: {error}", flush=True)
                    arguments: Any = entry, work / entry.name, out, notes, tools
                    seconds = time.perf_counter() - seconds
                    finished.append((entry, pool.submit(finish_entry, *arguments), seconds))
                    failed |= {entry.name} if notes else set()
                    print(f"{entry.name}: measured in {seconds:.1f} s", flush=True)
                except Exception as error:
                    failed.add(entry.name)
                    print(f"{entry.name}: FAILED: {error}".replace("\n", " ")[:400], flush=True)
        finally:
            process.close()
        for entry, future_text, seconds in finished:
            try:
                print(f"{entry.name}: {seconds:.1f} s, {future_text.result()}", flush=True)
            except Exception as error:
                failed.add(entry.name)
                print(f"{entry.name}: FAILED: {error}".replace("\n", " ")[:400], flush=True)
    print(f"{len(entries)} kernels, {len(failed)} failed, {time.perf_counter() - begin:.0f} s", flush=True)
    return len(failed)


def main(arguments: list[str] | None = None) -> int:
    """Read the command line and record."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="record profiles of the kernels in examples/kernels")
    recorder.add_argument("device", help="such as cuda:0")
    recorder.add_argument("folder", type=Path, help="where NAME.json are written")
    recorder.add_argument("--only", nargs="+", default=[], help="names of kernels")
    recorder.add_argument("--kernels", type=Path, default=KERNELS, help="folder with kernels.toml")
    recorder.add_argument("--limit", type=float, default=LIMIT_S, help="seconds of a kernel")
    recorder.add_argument(
        "--prepare-only", metavar="CAPABILITY", help="such as 90: compile and assemble, without a GPU"
    )
    options = parser.parse_args(arguments)
    entries = read_entries(options.kernels)
    if unknown := set(options.only) - {entry.name for entry in entries}:
        parser.error(f"no such kernels: {', '.join(sorted(unknown))}; valid: {', '.join(e.name for e in entries)}")
    chosen = [entry for entry in entries if not options.only or entry.name in options.only]
    options.folder.mkdir(parents=True, exist_ok=True)
    gpu = int(options.device.rpartition(":")[2])
    with tempfile.TemporaryDirectory() as work:
        failed = record(chosen, gpu, options.folder, Path(work), options.prepare_only, options.limit)
    return 1 if failed == len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
