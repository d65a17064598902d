"""Survey fixed simulated GPUs beyond the generator and list each confident answer that is wrong: docs/beyond.md."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import comb
from pathlib import Path

from beyond_gpus import BASES, FEATURES, INDEX_BY_PATH, L2_SIZE, beyond_gpus
from calibrate import Answer, answers_of, described

from gpudissect.measure.prediction.infer_agreement import wilson_interval
from gpudissect.survey.run import run_survey

ELEMENTS = ("timer", "l1", "l2", "dram", "tlb_l1", "tlb_l2", "tlb_l3", "page_table")
HIGH_CONFIDENCE = 0.95
PAGE = Path(__file__).parents[1] / "docs" / "beyond.md"


@dataclass(frozen=True)
class Row:
    """One GPU: its name, the answers, and experiments that failed."""

    name: str
    answers: tuple[Answer, ...]
    failures: tuple[str, ...]

    @property
    def confident(self) -> list[Answer]:
        """Answers of `HIGH_CONFIDENCE` or more."""
        return [
            each for each in self.answers if (each.found.confidence or 0) >= HIGH_CONFIDENCE and each.kind != "none"
        ]

    @property
    def wrong(self) -> list[Answer]:
        """Confident answers whose bracket lacks the true value."""
        return [each for each in self.confident if each.kind == "wrong"]


def surveyed(number: int) -> Row:
    """Survey one of the GPUs."""
    name, gpu = beyond_gpus()[number]
    texture = ("texture",) if INDEX_BY_PATH in name else ()
    survey = run_survey(gpu, elements=(*ELEMENTS, *texture), seed=number)
    failures = tuple(f"{each.experiment}: {each.reason}" for each in survey.failures)
    return Row(name, tuple(answers_of(survey, gpu.hierarchy, number)), failures)


def page(rows: Sequence[Row]) -> str:
    """The page in Markdown."""
    confident, wrong = sum(len(row.confident) for row in rows), sum(len(row.wrong) for row in rows)
    kinds = [each.kind for row in rows for each in row.answers]
    counts = {kind: kinds.count(kind) for kind in ("exact", "right", "wrong", "none")}
    share = f"{confident}, {wrong} of them wrong ({wrong / max(1, confident):.2%})"
    less = sum(counts[kind] for kind in ("exact", "right", "wrong")) - confident
    wrong_gpus = sum(bool(row.wrong) for row in rows)
    _, high = wilson_interval(wrong_gpus, len(rows))
    lines = [
        "# GPUs beyond the generator",
        "",
        f"{len(rows)} fixed simulated GPUs: {', '.join(BASES)} of the catalogue, with an L2 of {L2_SIZE >> 10} KiB and "
        f"one or two of {len(FEATURES)} features that the generator of [random GPUs](calibration.md) lacks or samples "
        "in a narrower range. Every feature occurs alone and in pairs. GPU files can describe every feature but noise. "
        "Made by `validation/beyond.py`.",
        "",
        f"- Answers at {HIGH_CONFIDENCE} or more: {share}.",
        f"- Answers: {counts['exact']} exact, {counts['right']} in their bracket, {counts['wrong']} wrong, "
        f"{counts['none']} not found.",
        f"- Answers below {HIGH_CONFIDENCE}: {less}, {counts['wrong'] - wrong} of them wrong "
        f"({(counts['wrong'] - wrong) / max(1, less):.0%}), more often than their confidence states.",
        f"- GPUs with a wrong answer at {HIGH_CONFIDENCE} or more: {wrong_gpus} of {len(rows)} "
        f"(95 %: up to {high:.1%}). Answers of one GPU are not independent.",
        f"- Pairs of features: {len(rows) - len(FEATURES)} of {comb(len(FEATURES), 2)}.",
        f"- Failed experiments: {sum(len(row.failures) for row in rows)}.",
        "- These GPUs revealed six errors, since corrected, so they are no fresh sample: "
        "[answers with too much confidence](what-we-got-wrong.md#answers-with-too-much-confidence).",
        "",
        f"## Wrong answers at {HIGH_CONFIDENCE} or more",
        "",
        *(list(_wrong(rows)) or ["None."]),
        "",
        "## By GPU",
        "",
        f"| GPU | at {HIGH_CONFIDENCE} or more | wrong of these | below | wrong of these | no answer |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        less = [each for each in row.answers if each.kind != "none" and each not in row.confident]
        wrong_less, none = sum(each.kind == "wrong" for each in less), sum(each.kind == "none" for each in row.answers)
        lines.append(f"| {row.name} | {len(row.confident)} | {len(row.wrong)} | {len(less)} | {wrong_less} | {none} |")
    return "\n".join([*lines, ""])


def _wrong(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield from (f"- {row.name}: {described(each)}" for each in row.wrong)
        yield from (f"- {row.name}: failed: {each}" for each in row.failures)


def main() -> None:
    """Survey the GPUs, print the confident wrong answers as they are found, and write the page with --keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="only GPUs whose name contains this")
    parser.add_argument("--keep", action="store_true", help=f"write docs/{PAGE.name}")
    options = parser.parse_args()
    if options.only and options.keep:
        parser.error("the page is about all GPUs: --keep without --only")
    numbers = [number for number, (name, _) in enumerate(beyond_gpus()) if options.only in name]
    rows: list[Row] = []
    start = time.monotonic()
    with ProcessPoolExecutor(max(1, options.jobs)) as pool:
        for row in pool.map(surveyed, numbers):
            rows.append(row)
            took = time.monotonic() - start
            print(f"{len(rows)}/{len(numbers)} {took:.0f} s {row.name}", *_wrong([row]), sep="\n  ", flush=True)
    text = page(rows)
    print(text.partition("## By GPU")[0])
    if options.keep:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
