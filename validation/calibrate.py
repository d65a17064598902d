"""Compare confidences with the truth of random simulated GPUs: how often is a finding right? Writes its page."""

from __future__ import annotations

import argparse
import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

from truth import truth_of

from gpudissect.device.simulated.random_gpu import random_gpu
from gpudissect.device.simulated.untuned_gpu import untuned_gpu
from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.prediction.infer_agreement import (
    RANDOM_POLICIES,
    CacheCounts,
    NotPredicted,
    PathCounts,
    PredictionCounts,
    wilson_interval,
)
from gpudissect.results.verdict import weights_agree
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.survey.run import Survey, run_survey

ELEMENTS = ("l1", "texture", "l2", "dram", "tlb_l1", "tlb_l2", "tlb_l3", "page_table", "hierarchy")
GEOMETRY = ("line_size", "fetch_granularity", "capacity", "sets", "ways", "index_function")
PARTITIONED_ONLY = {("l2", "segment_size"), ("l2", "far_latency"), ("dram", "near_latency"), ("dram", "far_latency")}
"""Must not be found on a GPU whose L2 has one part."""
BIN_EDGES = (0.0, 0.95, 0.9975, 0.9997, 1.01)  # between the confidences in use
HIGH_CONFIDENCE = 0.95
MAX_REASONS = 8
PAGE = Path(__file__).parents[1] / "docs" / "calibration.md"


@dataclass(frozen=True)
class Answer:
    """One finding of one random GPU; `is_right` is None if nothing was found."""

    seed: int
    found: Estimate
    truth: Value | None
    is_right: bool | None

    @property
    def is_exact(self) -> bool:
        """Whether the value itself is the truth."""
        return bool(self.is_right) and (isinstance(self.truth, str | tuple) or self.found.value == self.truth)

    @property
    def is_bound(self) -> bool:
        """Whether the bracket has no upper end: hardly ever wrong, so it counts for no confidence."""
        return self.found.low is not None and self.found.high is None

    @property
    def kind(self) -> str:
        """exact, right (within the bracket), wrong or none."""
        if self.is_right is None:
            return "none"
        return "exact" if self.is_exact else "right" if self.is_right else "wrong"


@dataclass(frozen=True)
class Surveyed:
    """One random GPU: answers, predictions, caches with random policies, share of delayed accesses, failures."""

    answers: tuple[Answer, ...]
    predictions: tuple[CacheCounts, ...]
    path_predictions: tuple[PathCounts, ...]
    not_predicted: tuple[NotPredicted, ...]
    random_caches: frozenset[str]
    delayed: float
    failures: tuple[str, ...]


@dataclass(frozen=True)
class Bin:
    """Answers of about one confidence: how many, how many right, and the share right with its 95 % interval."""

    confidences: tuple[float, ...]
    right: int

    @property
    def share(self) -> float:
        return self.right / len(self.confidences)

    @property
    def interval(self) -> tuple[float, float]:
        return wilson_interval(self.right, len(self.confidences))

    @property
    def name(self) -> str:
        low, high = min(self.confidences), max(self.confidences)
        return f"{low:.4g}" if low == high else f"{low:.4g} .. {high:.4g}"


def survey_random_gpu(seed: int, untuned: bool = False, elements: Sequence[str] = ELEMENTS) -> Surveyed:
    """Survey a random GPU, or one beyond the ranges of these, and compare the findings with its truth."""
    gpu = (untuned_gpu if untuned else random_gpu)(seed)
    survey = run_survey(gpu, elements=elements, seed=seed)
    caches = gpu.hierarchy.caches
    return Surveyed(
        tuple(answers_of(survey, gpu.hierarchy, seed)),
        survey.predictions,
        survey.path_predictions,
        survey.not_predicted,
        frozenset(name for name, cache in caches.items() if cache.policy.kind in RANDOM_POLICIES),
        gpu.noise.outliers,
        tuple(f"seed {seed}, {each.experiment}: {each.reason}" for each in survey.failures),
    )


def answers_of(survey: Survey, hierarchy: Hierarchy, seed: int) -> Iterator[Answer]:
    """The findings that have a true value, or must not be there, with what is true."""
    true_values = truth_of(hierarchy)
    for found in survey.findings:
        name = (found.element, found.attribute)
        is_absent = name in PARTITIONED_ONLY and hierarchy.partition is None
        if name in true_values or found.element.startswith(("tlb", "page_table")) or is_absent:
            truth = true_values.get(name)
            yield Answer(seed, found, truth, _is_right(found, truth) if found.status is Status.FOUND else None)


def _is_right(found: Estimate, truth: Value | None) -> bool:
    if isinstance(truth, str) and isinstance(found.value, str):
        return found.value == truth or weights_agree(found.value, truth)
    if isinstance(found.value, tuple):
        return tuple(sorted(found.value)) == truth
    if not isinstance(truth, int | float) or not isinstance(found.value, int | float):
        return False
    is_open = found.low is not None and found.high is None
    low = found.value if found.low is None else found.low
    high = found.value if found.high is None else found.high
    return bool(low <= truth and (is_open or truth <= high))


def bins(answers: Sequence[Answer]) -> list[Bin]:
    """Answers by confidence; empty bins are left out."""
    some = [a for a in answers if a.is_right is not None and not a.is_bound]
    known = [(a.found.confidence, a.is_right) for a in some if a.found.confidence]
    binned = [[each for each in known if low <= each[0] < high] for low, high in pairwise(BIN_EDGES)]
    return [Bin(tuple(c for c, _ in rows), sum(right for _, right in rows)) for rows in binned if rows]


def _ranges(seeds: Sequence[int]) -> str:
    """Seeds in order, such as ``5 to 9 and 20 to 30``."""
    starts = [n for n, seed in enumerate(seeds) if n == 0 or seed != seeds[n - 1] + 1]
    return " and ".join(f"{seeds[a]} to {seeds[b - 1]}" for a, b in pairwise((*starts, len(seeds))))


def page(surveyed: Sequence[Surveyed]) -> str:
    """The page in Markdown."""
    answers = [each for one in surveyed for each in one.answers]
    seeds = _ranges([one.answers[0].seed for one in surveyed])
    lines = [
        "# What a confidence is worth",
        "",
        f"{len(surveyed)} random simulated GPUs, seeds {seeds}: all replacement "
        "policies, three kinds of index function, unequal sets, sectors, copies, partitioned caches, prefetch into the "
        "L2, TLBs before and behind the L1, page windows, costlier page walks for data in memory, index functions "
        "by path, TLBs with an XOR index, miss caches, more tags than data, lines that take less room until their "
        "second access, other processes, and up to 1 % of the accesses delayed. "
        "An answer is right if its bracket holds the true value; one without an upper end counts for no confidence. "
        "Made by `validation/calibrate.py`.",
        "",
        "<!-- made: picture calibration -->",
        "",
        "| confidence | answers | right | share right (95 %) |",
        "|---|---|---|---|",
    ]
    for each in bins(answers):
        low, high = each.interval
        lines.append(
            f"| {each.name} | {len(each.confidences)} | {each.right} | {each.share:.2%} ({low:.2%} .. {high:.2%}) |"
        )
    lines += ["", *_summary(surveyed, answers), "", "## By property", ""]
    lines += [
        "| element | property | exactly right | in its bracket | wrong | no answer |",
        "|---|---|---|---|---|---|",
    ]
    lines += [*_by_property(answers), "", "## Wrong answers", "", *_wrong(answers), ""]
    return "\n".join(lines)


def _summary(surveyed: Sequence[Surveyed], answers: Sequence[Answer]) -> Iterator[str]:
    partitioned = {a.seed for a in answers if a.found.attribute == "segment_size" and a.truth is not None}
    geometry = [
        a
        for a in answers
        if a.found.attribute in GEOMETRY
        and a.truth is not None
        and not a.found.element.startswith("tlb")
        and not (a.found.element == "l2" and a.seed in partitioned)
    ]
    for each in bins(answers):
        if each.interval[0] > max(each.confidences):
            yield f"- Too low at {each.name}: right more often than stated."
        if each.interval[1] < min(each.confidences):
            yield f"- Too high at {each.name}: right less often than stated."
    if geometry:
        exact = sum(a.is_exact for a in geometry)
        yield f"- Geometry ({', '.join(GEOMETRY)}) of L1, texture cache and unpartitioned L2: {exact} of"
        yield f"  {len(geometry)} exactly right ({exact / len(geometry):.2%})."
    confident = [a for a in answers if a.is_right is not None and (a.found.confidence or 0) > HIGH_CONFIDENCE]
    wrong = [a for a in confident if not a.is_right]
    share = f"{len(wrong)} of {len(confident)} ({len(wrong) / len(confident):.2%})"
    yield f"- Wrong with a confidence above {HIGH_CONFIDENCE}: {share}."
    count = len({a.seed for a in wrong})
    low, high = wilson_interval(len(surveyed) - count, len(surveyed))
    yield f"- Answers of one GPU are not independent. GPUs with such a wrong answer: {count} of {len(surveyed)}"
    yield f"  (95 %: {1 - high:.2%} .. {1 - low:.2%})."
    for title, delayed in (("no access delayed", 0.0), ("0.5 % of the accesses delayed", 0.005)):
        alike = [one for one in surveyed if one.delayed == delayed]
        for is_random, policies in ((False, "deterministic"), (True, "random")):
            caches = [t for one in alike for t in one.predictions if (t.name in one.random_caches) is is_random]
            yield from _predicted(f"Random accesses predicted, {title}, {policies} policies", caches, "caches")
        for is_random, policies in ((False, "no random policy"), (True, "some random policies")):
            paths = [path for one in alike for path in one.path_predictions if (path.possible < 1) is is_random]
            yield from _predicted(f"Paths (caches and TLBs together), {title}, {policies}", paths, "paths")
    missing = Counter(f"{each.name} ({each.reason})" for one in surveyed for each in one.not_predicted)
    yield f"- Not predicted: {'; '.join(f'{name}: {count}' for name, count in missing.most_common(MAX_REASONS))}."
    failures = [each for one in surveyed for each in one.failures]
    yield f"- Failed experiments: {'; '.join([str(len(failures)), *failures])}."


def _predicted(title: str, counts: Sequence[PredictionCounts], noun: str) -> Iterator[str]:
    if counts:
        right, total = sum(each.right for each in counts), sum(each.accesses for each in counts)
        possible = sum(each.possible * each.accesses for each in counts) / total
        worst = min(each.agreement for each in counts)
        share = f"{right / total:.2%} of {total} ({possible:.1%} possible)"
        yield f"- {title}: {share}, {len(counts)} {noun}, {worst:.2%} in the worst."


def _by_property(answers: Sequence[Answer]) -> Iterator[str]:
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for each in answers:
        if each.truth is not None or each.kind != "none":
            kinds.setdefault((each.found.element, each.found.attribute), Counter())[each.kind] += 1
    for (element, attribute), n in kinds.items():
        yield f"| {element} | {attribute} | {n['exact']} | {n['right']} | {n['wrong']} | {n['none']} |"


def _wrong(answers: Sequence[Answer]) -> Iterator[str]:
    for each in answers:
        if each.is_right is False:
            yield f"- seed {each.seed}, {described(each)}"


def described(answer: Answer) -> str:
    """A wrong answer beside the truth, in one line."""
    it = answer.found
    bracket = f" [{it.low:g}, {it.high:g}]" if it.low is not None and it.high is not None else ""
    found = f"{_short(it.value)}{bracket} at {it.confidence}"
    return f"{it.element} {it.attribute}: {found}, truth {_short(answer.truth)}"


def _short(value: Value | None) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def main() -> None:
    """Survey random GPUs, print the page, and write it with --keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=1000, help="first seed")
    parser.add_argument("--gpus", type=_count, default=500)
    parser.add_argument("--workers", type=_count, default=os.cpu_count() or 1)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--keep", action="store_true", help=f"write docs/{PAGE.name}")
    output.add_argument("--untuned", action="store_true", help="GPUs beyond the ranges of these: see untuned_gpu")
    parser.add_argument(
        "--elements", nargs="+", choices=ELEMENTS, default=ELEMENTS, metavar="NAME", help="survey these alone"
    )
    options = parser.parse_args()
    if options.keep and options.elements is not ELEMENTS:
        parser.error("--keep writes the page about all elements: leave out --elements or --keep")
    surveyed: list[Surveyed] = []
    pool = ProcessPoolExecutor(options.workers, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN))
    try:
        survey = partial(survey_random_gpu, untuned=options.untuned, elements=options.elements)
        seeds = range(options.first, options.first + options.gpus)
        for one in pool.map(survey, seeds):
            surveyed.append(one)
            print(f"{len(surveyed)}/{options.gpus}", *_wrong(one.answers), *one.failures, sep="\n  ", flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: the page is about the first {len(surveyed)}")
    pool.shutdown(wait=False, cancel_futures=True)
    if not surveyed:
        return
    text = page(surveyed)
    print(text)
    if options.keep:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
