"""Time ``gpudissect explain`` of every recorded kernel: ``python benchmarks/time_explain.py``.

Seconds and CPU seconds from the start of the process, and its largest memory, slowest kernels first. The target is 5 s
and 1 GB.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

RECORDINGS, RESULTS = Path("tests/recordings/kernels"), Path("docs/results")


def run(recording: Path) -> tuple[float, float, float]:
    """Seconds, CPU seconds and megabytes of the explanation of a recorded kernel."""
    machine = RESULTS / f"{recording.parent.name[:4]}.json"
    command = [sys.executable, "-m", "gpudissect", "explain", str(recording), "--machine", str(machine)]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{recording}: exit code {process.returncode}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1e3


if __name__ == "__main__":
    recordings = sorted(RECORDINGS.glob("*/*.json"))
    run(recordings[0])  # compiles the simulator, if it is not in the cache
    found = sorted(((*run(each), each) for each in recordings), reverse=True)
    for seconds, cpu, megabytes, each in found:
        print(f"{seconds:5.1f} s {cpu:5.1f} s CPU {megabytes:5.0f} MB  {each.parent.name}/{each.stem}")
    print(f"{len(found)} kernels: median {found[len(found) // 2][0]:.1f} s, longest {found[0][0]:.1f} s")
