"""Run the commands on damaged input: files of every kind (`fuzz_inputs.py`), command lines, signals.

Input N of a seed is always the same. Most run in a few long-lived processes. A failure is an exit code other than 0, 2,
3, 4 and 130, a traceback or any other line on stderr than notes of the program, an error of more than 300 characters,
more than 60 s, or more than 1.5 GB. ``fuzz.py --count 20000`` is the campaign; CI runs a thousand.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from fuzz_inputs import KINDS, PROFILE, RESULT, ROOT, Words, base, run_here

from gpudissect.errors import MAX_LINE

LIMIT_S, LIMIT_BYTES = 60, 1536 << 20
EXIT_CODES = (0, 2, 3, 4, 130)
INPUTS_PER_PROCESS = 1000  # then a new one: what it keeps in memory counts
COMMAND = (sys.executable, "-m", "gpudissect")
NOTE = "gpudissect: "


def prepare(seed: int, number: int) -> tuple[str, Words, Random]:
    """Kind and command of an input; its files are written to the working folder."""
    rng = Random(f"{seed}:{number}")
    kind = rng.choices(list(KINDS), [weight for weight, _ in KINDS.values()])[0]
    return kind, KINDS[kind][1](rng), rng


def run_interrupted(words: Words, rng: Random) -> tuple[int, str]:
    """Run a command in a process of its own and end it by a signal at a random time; an earlier result must be kept."""
    from gpudissect.results.files import load

    Path("r.json").write_text(json.dumps(base("result")))
    stop, delay_s = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)), rng.uniform(0, 4)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(
        [*COMMAND, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        time.sleep(delay_s)
        run.send_signal(stop)
        _, error = run.communicate(timeout=LIMIT_S)
    load(Path("r.json"))
    early = delay_s < 1 and run.returncode == -stop  # Python itself was not up
    return 130 if early else run.returncode, error.decode()


def problem(code: int, error: str) -> str:
    """What is wrong with an outcome; empty if nothing is."""
    lines = error.splitlines()
    if code not in EXIT_CODES:
        return f"exit code {code}"
    if "out of memory" in error:
        return "out of memory"
    if any(not line.startswith(NOTE) for line in lines):
        return "a line that is no note of the program"
    if any(len(line) > MAX_LINE for line in lines if line.startswith(NOTE + "error: ")):
        return "a long error"
    if code in (2, 3) and not lines:
        return f"exit code {code} without a word"
    return ""


def work(seed: int, numbers: list[int]) -> None:
    """Run inputs in this process and print one line of JSON for each, before and after."""
    reports = os.fdopen(os.dup(1), "w")
    for words in (["chase"], ["mix"], ["stream", "--size", "1MiB"], ["discover", "--only", "timer"]):
        run_here([*words, "-d", "sim:gtx980"])  # compiles; not timed
    run_here(["explain", str(PROFILE), "--machine", str(RESULT)])
    limit = LIMIT_BYTES + _data_bytes()  # what compiling reserved is not the input's
    unlimited = resource.getrlimit(resource.RLIMIT_DATA)
    home = os.getcwd()
    for number in numbers:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            os.chdir(folder)
            kind, words, rng = prepare(seed, number)
            resource.setrlimit(resource.RLIMIT_DATA, (limit, unlimited[1]))
            print(json.dumps({"number": number, "kind": kind, "words": shown(words)}), file=reports, flush=True)
            faulthandler.dump_traceback_later(LIMIT_S, exit=True)
            begin = time.monotonic()
            code, error = run_interrupted(words, rng) if kind == "signal" else run_here(words)
            faulthandler.cancel_dump_traceback_later()
            resource.setrlimit(resource.RLIMIT_DATA, unlimited)  # making an input may take more
            seconds = time.monotonic() - begin
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            wrong = problem(code, error) or (f"{peak >> 20} MiB" if peak > LIMIT_BYTES else "")
            outcome = {
                "code": code,
                "seconds": round(seconds, 2),
                "wrong": wrong,
                "error": error[-600:] if wrong else "",
            }
            print(json.dumps(outcome | {"peak": peak}), file=reports, flush=True)
            os.chdir(home)


def _data_bytes() -> int:
    """Writable memory of this process, reserved or used."""
    status = Path("/proc/self/status").read_text().partition("VmData:")[2]
    return int(status.split()[0]) * 1024


def shown(words: Words) -> str:
    """A command as one would type it, cut."""
    return shlex.join(words).encode("utf-8", "backslashreplace").decode()[:200]


def outcomes(seed: int, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """Outcomes of inputs in processes one after another; a process that dies is a failure of its input."""
    while numbers:
        batch = numbers[:INPUTS_PER_PROCESS]
        command = [sys.executable, __file__, "--seed", str(seed), "--work", json.dumps(batch)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            started: dict[str, Any] = {}
            done = 0
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                report = json.loads(line)
                if "code" not in report:
                    started = report
                    continue
                yield started | report
                started, done = {}, done + 1
            error = process.stderr.read()[-1500:]
        if process.wait() and not started:
            raise RuntimeError(f"no input was begun: {error}")
        if started:
            yield started | {"code": process.returncode, "seconds": 0, "wrong": "the process died", "error": error}
        numbers = numbers[done + bool(started) :]


def campaign(seed: int, first: int, count: int, workers: int) -> int:
    """Run all inputs, print failures as they occur and a summary; 1 if there is one."""
    begin = time.monotonic()
    kinds, codes, failures, slowest, peak = Counter[str](), Counter[int](), 0, (0.0, 0), 0
    shares = [list(range(first + n, first + count, workers)) for n in range(workers)]

    def collect(numbers: list[int]) -> None:
        nonlocal failures, slowest, peak
        for each in outcomes(seed, numbers):
            kinds[each["kind"]] += 1
            codes[each["code"]] += 1
            slowest, peak = max(slowest, (each["seconds"], each["number"])), max(peak, each.get("peak", 0))
            if each["wrong"]:
                failures += 1
                print(
                    f"input {each['number']} ({each['kind']}): {each['wrong']}: {each['words']}\n{each['error']}",
                    flush=True,
                )

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(collect, shares))
    print(f"{sum(kinds.values())} inputs of seed {seed} in {time.monotonic() - begin:.0f} s, {failures} failures")
    print(f"slowest {slowest[0]:.1f} s (input {slowest[1]}); most memory {peak >> 20} MiB")
    print("kinds:", ", ".join(f"{name} {number}" for name, number in kinds.most_common()))
    print("exit codes:", ", ".join(f"{code}: {number}" for code, number in sorted(codes.items())))
    return 1 if failures or sum(kinds.values()) != count else 0


def keep(seed: int, number: int, folder: Path) -> int:
    """Write the files of one input to a folder and print its command."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    kind, words, _ = prepare(seed, number)
    print(f"{kind}: cd {folder}; gpudissect {shown(words)}")
    return 0


def main() -> int:
    """Parse the options and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="inputs")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--keep", type=Path, help="only write the files of input --first to this folder")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    if options.work:
        work(options.seed, json.loads(options.work))
        return 0
    if options.keep:
        return keep(options.seed, options.first, options.keep)
    return campaign(options.seed, options.first, options.count, options.workers)


if __name__ == "__main__":
    sys.exit(main())
