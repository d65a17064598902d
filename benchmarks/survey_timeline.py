"""Where the rounds of a survey wait: ``python benchmarks/survey_timeline.py [DEVICE] [--quick] [--rows N]``.

A Markdown table of the experiments that last longest (s):

- from, to: their first and last step, from the start of the survey;
- rounds: batches;
- wait: until the GPU runs the first workload of a batch;
- run: from then on until it has run the last one;
- answer: until the survey takes the traces;
- infer: in the plan.

On other devices than CUDA GPUs, *run* includes *wait* and *answer*. Below: the share of each half second in which
plans infer, and in which the GPU has tasks in flight.
"""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

STEP_S = 0.5
Span = tuple[float, float]


def noting(function: Callable[..., Any], note: Callable[..., None]) -> Callable[..., Any]:
    """The function; `note` is called with its begin and end, what it returned, and its arguments."""

    @wraps(function)
    def noted(*arguments: Any, **options: Any) -> Any:
        begin = monotonic()
        result = function(*arguments, **options)
        note((begin, monotonic()), result, *arguments)
        return result

    return noted


def survey(spec: str, quick: bool, folder: str) -> tuple[dict[str, list[Any]], Span]:
    """Run a survey; what it did by experiment: plans as spans, batches as [submitted, collected, digests]."""
    from gpudissect import study
    from gpudissect.device import child
    from gpudissect.survey.drive import Drive
    from gpudissect.workload.digest import digest

    plans: dict[str, list[Span]] = defaultdict(list)
    batches: dict[str, list[list[Any]]] = defaultdict(list)

    def advanced(span: Span, has_next: bool, drive: Any, each: Any, traces: Any) -> None:
        if traces is not None:
            batches[each.experiment.name][-1][1] = span[0]
        plans[each.experiment.name].append(span)

    def submitted(span: Span, nothing: None, drive: Any, each: Any) -> None:
        batches[each.experiment.name].append([span[1], span[1], [digest(workload) for workload in each.batch]])

    Drive._advance = noting(Drive._advance, advanced)  # type: ignore[method-assign]
    Drive._submit = noting(Drive._submit, submitted)  # type: ignore[method-assign]
    child.COMMAND = (sys.executable, __file__, folder)
    begin = monotonic()
    study.run_study(spec, study.Request(quick=quick or None))
    return {name: [spans, batches[name]] for name, spans in plans.items()}, (begin, monotonic())


def serve(folder: str, spec: str, seed: str, prepares: str, *sockets: str) -> None:
    """Run as the device process, and write when each workload started and ended."""
    from gpudissect.device import process

    tasks: list[tuple[Span, list[str]]] = []
    if spec.startswith("cuda"):
        from gpudissect.device.cuda.gpu import CudaGpu

        begins: dict[int, float] = {}

        def started(span: Span, queued: Any, gpu: Any, task: Any) -> None:
            begins[id(task)] = span[1]

        def finished(span: Span, traces: Any, gpu: Any, task: Any, queued: Any) -> None:
            tasks.append(((begins.pop(id(task)), span[1]), [trace.workload for trace in traces]))

        CudaGpu.start = noting(CudaGpu.start, started)  # type: ignore[method-assign]
        CudaGpu.finish = noting(CudaGpu.finish, finished)  # type: ignore[method-assign]
    first = os.getpid()
    process.main(spec, int(seed), [*map(int, sockets)], prepares=prepares == "1")
    if os.getpid() == first:
        Path(folder, "tasks.json").write_text(json.dumps(tasks))


def rows(done: dict[str, list[Any]], tasks: list[tuple[Span, list[str]]], start: float) -> list[tuple[Any, ...]]:
    """Of each experiment: name, from, to, rounds, wait, run, answer, infer."""
    of_workload: dict[str, list[Span]] = defaultdict(list)
    for span, digests in tasks:
        for each in digests:
            of_workload[each].append(span)
    found = []
    for name, (plans, batches) in done.items():
        wait = run = answer = 0.0
        for submitted, collected, digests in batches:
            spans = [each for digest in digests for each in of_workload[digest] if submitted <= each[0] <= collected]
            begin = min((each[0] for each in spans), default=submitted)
            end = max((each[1] for each in spans), default=collected)
            wait, run, answer = wait + begin - submitted, run + end - begin, answer + max(0.0, collected - end)
        infer = sum(end - begin for begin, end in plans)
        found.append((name, plans[0][0] - start, plans[-1][1] - start, len(batches), wait, run, answer, infer))
    return found


def shares(spans: Iterable[Span], start: float, end: float) -> str:
    """The percentage of each step that the spans, joined, cover."""
    covered, last = [0.0] * (1 + int((end - start) / STEP_S)), start
    for begin, stop in sorted(spans):
        at = max(begin, last)
        last = max(last, stop)
        while at < stop:
            step = int((at - start) / STEP_S)
            until = min(stop, start + (step + 1) * STEP_S)
            if step < len(covered):
                covered[step] += until - at
            at = max(until, at + 1e-9)
    return " ".join(f"{each / STEP_S:.0%}" for each in covered)


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the rounds of a survey wait.")
    parser.add_argument("device", nargs="?", default="cuda:0")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=int, default=20)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        done, (start, end) = survey(options.device, options.quick, folder)
        tasks = json.loads(Path(folder, "tasks.json").read_text())
    longest = sorted(rows(done, tasks, start), key=lambda each: each[1] - each[2])[: options.rows]
    print("| experiment | from | to | rounds | wait | run | answer | infer |\n|---|---|---|---|---|---|---|---|")
    for name, begin, last, rounds, *times in longest:
        print(f"| {name} | {begin:.2f} | {last:.2f} | {rounds} | {' | '.join(f'{each:.2f}' for each in times)} |")
    print(f"\ninfer: {shares((span for plans, _ in done.values() for span in plans), start, end)}")
    if tasks:
        print(f"tasks: {shares((span for span, _ in tasks), start, end)}")


if __name__ == "__main__":
    if os.path.isdir(sys.argv[1] if len(sys.argv) > 1 else ""):
        serve(*sys.argv[1:])
    else:
        main()
