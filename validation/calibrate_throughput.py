"""Hold brackets of throughput against truth: of random simulated SMs, how often does each hold what is true?"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from random_processor import RandomProcessor, random_processor

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Known, Study
from gpudissect.measure.prediction.infer_agreement import wilson_interval
from gpudissect.survey.registry import experiments

KINDS = ("bandwidth", "banks", "conflicts", "rate", "latency", "warps", "launch", "stores")
"""First words of the names of the experiments that are run."""
PAGE_HEAD = "| confidence | what | answers | right | share right (95 %) | no answer |\n|---|---|---|---|---|---|"


class KnownL1:
    """That there is an L1: its structure is not what is asked here."""

    absent: dict[str, Any] = {}  # noqa: RUF012

    def level(self, element: str) -> str:
        """Give anything but None."""
        return element


@dataclass(frozen=True)
class Answer:
    """One finding and the truth."""

    seed: int
    found: Estimate
    truth: float

    @property
    def right(self) -> bool | None:
        """Whether the bracket holds the truth; None if nothing was found."""
        it = self.found
        if it.status is not Status.FOUND or it.low is None or it.high is None:
            return None
        return it.low <= self.truth <= it.high


def measured(seed: int) -> list[Answer]:
    """What is found of the throughput of a random GPU, where the truth is known."""
    gpu = random_processor(seed)
    elements = {element for element, _ in gpu.truth}
    known: dict[str, Any] = {"levels.global": KnownL1(), "capacity.l1": gpu.l1, "capacity.l2": gpu.l2}
    found: list[Estimate] = []
    for name, experiment in experiments(Study.DISCOVER).items():
        if name.partition(".")[0] in KINDS and experiment.element in elements and _of_throughput(name):
            _run(name, gpu, seed, known, found)
    return [
        Answer(seed, each, gpu.truth[each.element, each.attribute])
        for each in found if (each.element, each.attribute) in gpu.truth
    ]  # fmt: skip


def _of_throughput(name: str) -> bool:
    kind, _, element = name.partition(".")
    return kind != "latency" or f"rate.{element}" in experiments(Study.DISCOVER)


def _run(name: str, gpu: RandomProcessor, seed: int, known: dict[str, Any], found: list[Estimate]) -> None:
    """Run an experiment and what it needs."""
    if name in known:
        return
    for need in (key.name for key in experiments(Study.DISCOVER)[name].needs):
        _run(need, gpu, seed, known, found)
    plan = experiments(Study.DISCOVER)[name].plan(Bench(gpu.device.info, seed), Known(known))
    try:
        batch = next(plan)
        while True:
            batch = plan.send(gpu.device.run(batch))
    except StopIteration as end:
        known[name] = end.value.knowledge
        if not name.startswith("stores"):
            found.extend(end.value.estimates)


def table(answers: Sequence[Answer]) -> Iterator[str]:
    """How often each kind of answer is right, in Markdown."""
    kinds: dict[tuple[str, str], list[Answer]] = defaultdict(list)
    for each in answers:
        kinds[each.found.element, each.found.attribute].append(each)
    yield PAGE_HEAD
    for (element, attribute), own in sorted(kinds.items()):
        told = [each for each in own if each.right is not None]
        right = sum(bool(each.right) for each in told)
        if not told:
            yield f"| | {element} {attribute} | 0 | | | {len(own)} |"
            continue
        low, high = wilson_interval(right, len(told))
        yield (f"| {told[0].found.confidence} | {element} {attribute} | {len(told)} | {right} | "
               f"{right / len(told):.1%} ({low:.1%} .. {high:.1%}) | {len(own) - len(told)} |")  # fmt: skip


def wrong(answers: Sequence[Answer]) -> Iterator[str]:
    """What the brackets did not hold."""
    for each in answers:
        it = each.found
        if each.right is False:
            said = f"{it.value} [{it.low}, {it.high}]"
        elif each.right is None:
            said = f"{it.status.value}: {it.reason}"
        else:
            continue
        yield f"- seed {each.seed}, {it.element} {it.attribute}: {said}, truth {each.truth}"


def main() -> None:
    """Draw, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    answers: list[Answer] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for own in pool.map(measured, range(options.first, options.first + options.gpus)):
            answers += own
            for line in wrong(own):
                print(line, flush=True)
    print(*table(answers), sep="\n")


if __name__ == "__main__":
    main()
