"""Hold confidences against truth: of random simulated GPUs, how often is right what was found? Makes the page of it."""

from __future__ import annotations

import argparse
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from random_gpu import random_gpu
from reliability import Bin, bins, picture

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.prediction.infer_agreement import (
    RANDOM_POLICIES,
    NotPredicted,
    PathCounts,
    PredictionCounts,
    wilson_interval,
)
from gpudissect.results.verdict import weights_agree
from gpudissect.survey.run import run_survey

ELEMENTS = ("l1", "texture", "l2", "dram", "tlb_l1", "tlb_l2", "tlb_l3", "hierarchy")
GEOMETRY = ("line_size", "fetch_granularity", "capacity", "sets", "ways", "index_function")
NONE_THERE = {("l2", "segment_size"), ("l2", "far_latency"), ("dram", "near_latency"), ("dram", "far_latency")}
"""Must not be found where there are no parts."""
SURE = 0.95  # more confident than that an answer must not be wrong
MOST_REASONS = 8
PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"
PICTURE = PAGE.with_suffix(".svg")


@dataclass(frozen=True)
class Answer:
    """One finding of one random GPU: whether what was found is the truth (None: nothing was found)."""

    seed: int
    found: Estimate
    truth: Value | None
    right: bool | None

    @property
    def exact(self) -> bool:
        """Found, and the number itself the truth."""
        return bool(self.right) and (isinstance(self.truth, str | tuple) or self.found.value == self.truth)


@dataclass(frozen=True)
class Surveyed:
    """One random GPU: its answers, what was foretold of its accesses, and how often they were delayed."""

    answers: tuple[Answer, ...]
    predictions: tuple[PredictionCounts, ...]
    path_predictions: tuple[PathCounts, ...]
    not_predicted: tuple[NotPredicted, ...]
    drawn: frozenset[str]
    noise: float
    failures: tuple[str, ...]


def surveyed(seed: int) -> Surveyed:
    """What a survey of a random GPU finds, held against what is true of it."""
    gpu = random_gpu(seed)
    survey = run_survey(gpu.device, elements=ELEMENTS, seed=seed)
    answers = []
    for found in survey.findings:
        name = (found.element, found.attribute)
        if name in gpu.truth or found.element.startswith("tlb") or name in NONE_THERE:
            right = _right(found, gpu.truth.get(name)) if found.status is Status.FOUND else None
            answers.append(Answer(seed, found, gpu.truth.get(name), right))
    caches = gpu.device.hierarchy.caches
    drawn = frozenset(name for name, cache in caches.items() if cache.policy.kind in RANDOM_POLICIES)
    return Surveyed(
        tuple(answers),
        survey.predictions,
        survey.path_predictions,
        survey.not_predicted,
        drawn,
        gpu.noise.outliers,
        tuple(f"seed {seed}, {each.experiment}: {each.reason}" for each in survey.failures),
    )


def _right(found: Estimate, truth: Value | None) -> bool:
    if isinstance(truth, str) and isinstance(found.value, str):
        return found.value == truth or weights_agree(found.value, truth)
    if isinstance(found.value, tuple):
        return tuple(sorted(found.value)) == truth
    if not isinstance(truth, int | float) or not isinstance(found.value, int | float):
        return False
    open_end = found.low is not None and found.high is None
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    return bool(low <= truth and (open_end or truth <= high))


def page(every: Sequence[Surveyed], first: int) -> str:
    """The page, in Markdown."""
    answers = [each for one in every for each in one.answers]
    return "\n".join(
        [
            "# What a confidence is worth", "",
            f"{len(every)} random simulated GPUs, seeds {first} to {first + len(every) - 1}: all replacement policies, "
            "three kinds of index function, unequal sets, sectors, copies, caches in parts, TLBs, up to 1 % of the "
            "accesses delayed. Made by `validation/calibrate.py`.", "",
            "![share wrong against the confidence stated](calibration.svg)", "",
            "| confidence | answers | right | share right (95 %) |", "|---|---|---|---|",
            *(f"| {_range(each)} | {each.count} | {each.right} | {each.share:.2%} ({each.low:.2%} .. {each.high:.2%}) |"
              for each in bins(_told(answers))), "",
            *_in_words(every, answers), "",
            "## By property", "", "| element | property | exactly right | in its bracket | wrong | no answer |",
            "|---|---|---|---|---|---|", *_by_property(answers), "",
            "## What was wrong", "", *_wrong(answers), "",
        ]
    )  # fmt: skip


def _told(answers: Sequence[Answer]) -> list[tuple[float, bool]]:
    return [(a.found.confidence, a.right) for a in answers if a.right is not None and a.found.confidence is not None]


def _range(each: Bin) -> str:
    return f"{each.least:.4g}" if each.least == each.most else f"{each.least:.4g} .. {each.most:.4g}"


def _in_words(every: Sequence[Surveyed], answers: Sequence[Answer]) -> Iterator[str]:
    parts = {each.seed for each in answers if each.found.attribute == "segment_size" and each.truth is not None}
    geometry = [
        each for each in answers
        if each.found.attribute in GEOMETRY and each.truth is not None and not each.found.element.startswith("tlb")
        and not (each.found.element == "l2" and each.seed in parts)
    ]  # fmt: skip
    exact = sum(a.exact for a in geometry)
    for each in bins(_told(answers)):
        if each.low > each.most:
            yield f"- Too modest: right more often than stated, at {_range(each)}."
        if each.high < each.least:
            yield f"- Too sure: right less often than stated, at {_range(each)}."
    sure = [a.right for a in answers if a.right is not None and (a.found.confidence or 0) > SURE]
    wrong = sure.count(False)
    yield f"- Geometry ({', '.join(GEOMETRY)}) of L1, texture cache and L2 in one part: {exact} of {len(geometry)} "
    yield f"  exactly right ({exact / len(geometry):.2%})."
    yield f"- Wrong with a confidence above {SURE}: {wrong} of {len(sure)} ({wrong / len(sure):.2%})."
    struck = {a.seed for a in answers if a.right is False and (a.found.confidence or 0) > SURE}
    low, high = wilson_interval(len(every) - len(struck), len(every))
    yield f"- Answers of one GPU are not independent. GPUs with such a wrong answer: {len(struck)} of {len(every)} "
    yield f"  (95 %: {1 - high:.2%} .. {1 - low:.2%})."
    for title, noise in (("no access delayed", 0.0), ("0.5 % of the accesses delayed", 0.005)):
        alike = [one for one in every if one.noise == noise]
        for drawn in (False, True):
            own = [tally for one in alike for tally in one.predictions if (tally.element in one.drawn) is drawn]
            policies = "drawn" if drawn else "deterministic"
            yield from _foretold(f"Random accesses foretold, {title}, {policies} policies", own, "caches")
        for drawn in (False, True):
            paths = [whole for one in alike for whole in one.path_predictions if (whole.possible < 1) is drawn]
            chance = "some victims drawn" if drawn else "no victim drawn"
            yield from _foretold(f"The same of whole paths, caches and TLBs simulated as one, {title}, {chance}",
                                 paths, "paths")  # fmt: skip
    left = Counter(f"{each.name} ({each.reason})" for one in every for each in one.not_predicted)
    yield f"- Not foretold: {'; '.join(f'{name}: {count}' for name, count in left.most_common(MOST_REASONS))}."
    failures = [each for one in every for each in one.failures]
    yield f"- Experiments that failed: {len(failures)}{''.join(f'; {each}' for each in failures)}."


def _foretold(title: str, told: Sequence[PredictionCounts | PathCounts], what: str) -> Iterator[str]:
    if told:
        right, of = sum(each.right for each in told), sum(each.accesses for each in told)
        possible = sum(each.possible * each.accesses for each in told) / of
        least = min(each.agreement for each in told)
        share = f"{right / of:.2%} of {of} ({possible:.1%} possible)"
        yield f"- {title}: {share}, {len(told)} {what}, {least:.2%} in the worst."


def _by_property(answers: Sequence[Answer]) -> Iterator[str]:
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for each in answers:
        said = "none" if each.right is None else "exact" if each.exact else "right" if each.right else "wrong"
        if each.truth is not None or said != "none":
            kinds.setdefault((each.found.element, each.found.attribute), Counter())[said] += 1
    for (element, attribute), n in kinds.items():
        yield f"| {element} | {attribute} | {n['exact']} | {n['right']} | {n['wrong']} | {n['none']} |"


def _wrong(answers: Sequence[Answer]) -> Iterator[str]:
    for each in answers:
        if each.right is False:
            it = each.found
            bracket = f" [{it.low:g}, {it.high:g}]" if it.low is not None and it.high is not None else ""
            yield (f"- seed {each.seed}, {it.element} {it.attribute}: {_short(it.value)}{bracket} "
                   f"at {it.confidence}, truth {_short(each.truth)}")  # fmt: skip


def _short(value: Value | None) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _count(text: str) -> int:
    """At least one."""
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def main() -> None:
    """Draw, survey, print the page, and keep it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--gpus", type=_count, default=500)
    parser.add_argument("--workers", type=_count, default=os.cpu_count() or 1)
    parser.add_argument("--keep", action="store_true", help=f"write docs/{PAGE.name} and docs/{PICTURE.name}")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.gpus)
    every: list[Surveyed] = []
    pool = ProcessPoolExecutor(options.workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))
    try:
        for one in pool.map(surveyed, seeds):
            every.append(one)
            print(f"{len(every)}/{options.gpus}", *_wrong(one.answers), *one.failures, sep="\n  ", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: the page is about the first {len(every)}")
    pool.shutdown(wait=False, cancel_futures=True)
    if not every:
        return
    text = page(every, options.first)
    print(text)
    if options.keep:
        PAGE.write_text(text, encoding="utf-8")
        PICTURE.write_text(picture(bins(_told([a for one in every for a in one.answers]))), encoding="utf-8")


if __name__ == "__main__":
    main()
