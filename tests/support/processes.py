"""Processes of devices, found by what Linux says of them."""

from contextlib import suppress
from pathlib import Path

import pytest

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc of Linux")


def children(pid):
    """Those that a thread of process `pid` has started and that run."""
    found = []
    with suppress(OSError):  # it has ended
        for file in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, file.read_text().split())
    return found


def device_processes(pid):
    """The first process of each device that process `pid` or its children have opened."""
    found = []
    for child in children(pid):
        with suppress(OSError):
            is_device = b"gpudissect.device" in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found += [child] if is_device else device_processes(child)
    return found
