"""Compare brackets of throughput with the truth of random simulated SMs: how often does each hold it?"""

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

KINDS = ("bandwidth", "banks", "conflicts", "rate", "latency", "warps", "launch", "stores", "schedulers")
"""First words of the names of the experiments that are run."""
HEAD = "| confidence | what | answers | right | share right (95 %) | no answer |\n|---|---|---|---|---|---|"


class KnownL1:
    """That there is an L1, whatever its structure."""

    absent: dict[str, Any] = {}  # noqa: RUF012

    def level(self, element: str) -> str:
        """Anything but None."""
        return element


@dataclass(frozen=True)
class Answer:
    """One finding and the truth; `is_right`: whether the bracket holds it, None if nothing was found."""

    seed: int
    found: Estimate
    truth: float

    @property
    def is_right(self) -> bool | None:
        low, high = self.found.low, self.found.high
        if self.found.status is not Status.FOUND or low is None or high is None:
            return None
        return low <= self.truth <= high


def answers_of(seed: int) -> list[Answer]:
    """Findings about the throughput of a random GPU for which the truth is known."""
    gpu = random_processor(seed)
    elements = {element for element, _ in gpu.truth}
    declared = experiments(Study.DISCOVER)
    known: dict[str, Any] = {"levels.global": KnownL1(), "capacity.l1": gpu.l1, "capacity.l2": gpu.l2}
    found: list[Estimate] = []
    for name, experiment in declared.items():
        kind, _, element = name.partition(".")
        is_memory_latency = kind == "latency" and f"rate.{element}" not in declared
        if kind in KINDS and experiment.element in elements and not is_memory_latency:
            _run(name, gpu, seed, known, found)
    truth = gpu.truth
    names = [(each.element, each.attribute) for each in found]
    return [Answer(seed, each, truth[name]) for each, name in zip(found, names, strict=True) if name in truth]


def _run(name: str, gpu: RandomProcessor, seed: int, known: dict[str, Any], found: list[Estimate]) -> None:
    """Run an experiment and those that it needs."""
    if name in known:
        return
    experiment = experiments(Study.DISCOVER)[name]
    for key in experiment.needs:
        _run(key.name, gpu, seed, known, found)
    plan = experiment.plan(Bench(gpu.device.info, seed), Known(known))
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
    kinds: dict[str, list[Answer]] = defaultdict(list)
    for each in answers:
        kinds[f"{each.found.element} {each.found.attribute}"].append(each)
    yield HEAD
    for name, own in sorted(kinds.items()):
        answered = [each for each in own if each.is_right is not None]
        count, right, missing = len(answered), sum(bool(each.is_right) for each in answered), len(own) - len(answered)
        if not answered:
            yield f"| | {name} | 0 | | | {missing} |"
            continue
        low, high = wilson_interval(right, count)
        share = f"{right / count:.1%} ({low:.1%} .. {high:.1%})"
        yield f"| {answered[0].found.confidence} | {name} | {count} | {right} | {share} | {missing} |"


def wrong(answers: Sequence[Answer]) -> Iterator[str]:
    """Answers whose bracket does not hold the truth."""
    for each in answers:
        it = each.found
        text = f"{it.status.value}: {it.reason}" if each.is_right is None else f"{it.value} [{it.low}, {it.high}]"
        if not each.is_right:
            yield f"- seed {each.seed}, {it.element} {it.attribute}: {text}, truth {each.truth}"


def main() -> None:
    """Measure random GPUs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--gpus", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    answers: list[Answer] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for own in pool.map(answers_of, range(options.first, options.first + options.gpus)):
            answers += own
            print(*wrong(own), sep="\n", flush=True)
    print(*table(answers), sep="\n")


if __name__ == "__main__":
    main()
