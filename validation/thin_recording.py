"""Make a recording smaller such that it replays to the same result: how the recordings in tests/recordings were made.

    python validation/thin_recording.py FOLDER RESULT.json NEW_FOLDER [--step 16]

Half of the bytes of an H200's recording are latencies of chases over thousands of pages. Most of these chases only test
whether a translation misses: they are compared with a threshold, tens of cycles above a hit. With ``--step``, the
latencies of such chases that are no evidence of a finding are rounded to multiples of that many cycles, and the header
says so (``rounded``). Without loss, ends of warps are stored relative to their begins, every array is compressed as far
as zlib can, and the index with gzip. The name of the host is left out. All checks are computed again.

Then the new recording is replayed. Exit code 1 where any value of its result, series of plots included, differs from
RESULT.json in its first 12 digits: fits differ in the last ones from one processor's linear algebra to the next.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from same_results import differences

import gpudissect
from gpudissect.device.recording import codec
from gpudissect.device.recording.codec import Entry
from gpudissect.device.recording.format import COMPRESSED_INDEX, INDEX, Recording, Writer, read
from gpudissect.study import STREAMING
from gpudissect.survey.drive import Drive
from gpudissect.vocabulary import HIDING
from gpudissect.workload import Chase
from gpudissect.workload.digest import digest

EXPERIMENTS = {"tlb.tlb_l2", "tlb.tlb_l3", "sets.tlb_l2"}
MAX_VALUES = 1 << 27  # of one array
MAX_PRINTED = 20  # differences


def chases_to_round(folder: Path) -> set[str]:
    """Digests of the chases of `EXPERIMENTS` that are no evidence of a finding; replays the recording."""
    users: dict[str, set[str]] = defaultdict(set)
    submit = Drive._submit

    def observed(drive: Drive, running: Any) -> None:
        for workload in running.batch:
            costs = isinstance(workload, Chase) and workload.repetition > 0  # of misses, in cycles
            users[digest(workload)].add("costs" if costs else running.experiment.name)
        submit(drive, running)

    Drive._submit = observed  # type: ignore[method-assign]
    try:
        result = gpudissect.discover(f"rec:{folder}")
    finally:
        Drive._submit = submit  # type: ignore[method-assign]
    evidence = {name for finding in result.findings for name in finding.evidence}
    return {name for name, experiments in users.items() if experiments <= EXPERIMENTS} - evidence


def thinned(entries: Iterator[tuple[Entry, bytes]], tests: set[str], step: int) -> Iterator[tuple[Entry, bytes]]:
    """The entries in fewer bytes; those of `tests` with rounded cycles."""
    for entry, data in entries:
        arrays: list[Entry] = []
        parts: list[bytes] = []
        begin: NDArray[np.int64] | None = None
        for each in entry.get("arrays", ()):
            part, data = bytes(data[: each["packed"]]), data[each["packed"] :]
            name = each["name"]
            if name == "cycles" and entry.get("trace") in tests and step > 1:
                cycles = codec.unpack(each, part, MAX_VALUES)
                each, part = packed((cycles + step // 2) // step * step)
            elif name == "end" and begin is not None:
                rest, part = packed(codec.unpack(each, part, MAX_VALUES) - begin)
                each = {"code": "since", "of": "begin", "rest": rest}
            elif part:
                begin = codec.unpack(each, part, MAX_VALUES) if name == "begin" else begin
                part = zlib.compress(zlib.decompress(part), 9)
            arrays.append({**each, "name": name, "packed": len(part)})
            parts.append(part)
        smaller = {**entry, "arrays": arrays} if arrays else entry
        yield {key: value for key, value in smaller.items() if key != "bytes"}, b"".join(parts)


def packed(array: NDArray[np.int64]) -> tuple[Entry, bytes]:
    """An array in the form that `codec.pack` chooses, compressed as far as zlib can."""
    description, part = codec.pack(array)
    part = zlib.compress(zlib.decompress(part), 9)
    return {**description, "packed": len(part)}, part


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


def replay(device: str, elements: set[str]) -> gpudissect.Result:
    """The result of a recording of `discover`, or of `hide` with the kinds of access that are among the elements."""
    accesses = [element.partition("_")[2] or STREAMING for element in HIDING if element in elements]
    return gpudissect.hide(device, access=accesses) if accesses else gpudissect.discover(device)


def rounded(text: str) -> dict[str, Any]:
    """A result file with numbers of 12 digits."""
    content: dict[str, Any] = json.loads(text, parse_float=lambda number: float(f"{float(number):.12g}"))
    return content


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
    published = rounded(options.result.read_text(encoding="utf-8"))
    replayed = replay(f"rec:{options.new}", {each["element"] for each in published["findings"]})
    lines = list(differences(published, rounded(replayed.to_json())))
    print(*(lines[:MAX_PRINTED] or ["every value is the same"]), sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
