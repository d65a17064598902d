"""Make a recording smaller such that it replays to the same result: how tests/recordings/h200 and h100 were made.

    python validation/thin_recording.py FOLDER RESULT.json NEW_FOLDER [--step 16]

Half of the bytes of an H200's recording are latencies of chases over thousands of pages. Most of these chases only test
whether a translation misses: they are compared with a threshold, tens of cycles above a hit. With ``--step``, the
latencies of such chases that are no evidence of a finding are rounded to multiples of that many cycles, and the header
says so (``rounded``). The name of the host is left out and the index compressed. All checks are computed again.

Then the new recording is replayed. Exit code 1 where any value of its result, series of plots included, differs from
RESULT.json.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from same_results import differences

import gpudissect
from gpudissect.device.recording import codec
from gpudissect.device.recording.codec import Entry
from gpudissect.device.recording.format import COMPRESSED_INDEX, INDEX, Recording, Writer, read
from gpudissect.survey.drive import Drive
from gpudissect.workload import Chase
from gpudissect.workload.digest import digest

EXPERIMENTS = {"tlb.tlb_l2", "tlb.tlb_l3", "sets.tlb_l2"}
MAX_LATENCIES = 1 << 20  # of one chase
MAX_PRINTED = 20  # differences


def chases_to_round(folder: Path) -> set[str]:
    """Digests of the chases of `EXPERIMENTS` that are no evidence of a finding; replays the recording."""
    users: dict[str, set[str]] = defaultdict(set)
    measured = Drive._run_batch

    def run_batch(drive: Drive) -> None:
        for running in drive.running:
            for workload in running.batch:
                costs = isinstance(workload, Chase) and workload.repetition > 0  # of misses, in cycles
                users[digest(workload)].add("costs" if costs else running.experiment.name)
        measured(drive)

    Drive._run_batch = run_batch  # type: ignore[method-assign]
    try:
        result = gpudissect.discover(f"rec:{folder}")
    finally:
        Drive._run_batch = measured  # type: ignore[method-assign]
    evidence = {name for finding in result.findings for name in finding.evidence}
    return {name for name, experiments in users.items() if experiments <= EXPERIMENTS} - evidence


def thinned(entries: Iterator[tuple[Entry, bytes]], tests: set[str], step: int) -> Iterator[tuple[Entry, bytes]]:
    """The entries; those of `tests` with rounded cycles."""
    for entry, data in entries:
        if entry.get("trace") not in tests or step == 1:
            yield {key: value for key, value in entry.items() if key != "bytes"}, data
            continue
        arrays: list[Entry] = []
        parts: list[bytes] = []
        for each in entry["arrays"]:
            part, data = data[: each["packed"]], data[each["packed"] :]
            if each["name"] == "cycles":
                cycles = codec.unpack(each, part, MAX_LATENCIES)
                description, part = codec.pack((cycles + step // 2) // step * step)
                each = {"name": "cycles", **description, "packed": len(part)}
            arrays.append(each)
            parts.append(part)
        yield {**{key: value for key, value in entry.items() if key != "bytes"}, "arrays": arrays}, b"".join(parts)


def write(folder: Path, content: Recording, tests: set[str], step: int) -> None:
    """Write a copy of the recording without the name of the host, the index compressed."""
    header: dict[str, Any] = {key: value for key, value in content.header.items() if key != "schema"}
    provenance = {key: value for key, value in header["device"]["provenance"].items() if key != "host"}
    header["device"] = {**header["device"], "provenance": provenance}
    if step > 1:
        chases = f"{len(tests)} chases that test whether pages stay resident in the second and third TLB"
        header["rounded"] = f"cycles of {chases}, to multiples of {step}"
    writer = Writer(folder, header)
    writer.add(list(thinned(iter(content.entries), tests, step)))
    writer.close(content.end)
    index = folder / INDEX
    (folder / COMPRESSED_INDEX).write_bytes(gzip.compress(index.read_bytes(), 9, mtime=0))
    index.unlink()


def main() -> int:
    """Write the new recording and compare its replay with the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--step", type=int, default=1, help="cycles (default: 1)")
    options = parser.parse_args()
    tests = chases_to_round(options.folder) if options.step > 1 else set()
    write(options.new, read(options.folder), tests, options.step)
    sizes = [(path.name, path.stat().st_size) for path in sorted(options.new.iterdir())]
    print(*(f"{name}: {size} bytes" for name, size in sizes), f"{sum(size for _, size in sizes)} bytes", sep="\n")
    replayed = json.loads(gpudissect.discover(f"rec:{options.new}").to_json())
    lines = list(differences(json.loads(options.result.read_text(encoding="utf-8")), replayed))
    print(*(lines[:MAX_PRINTED] or ["every value is the same"]), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
