"""How far predictions from given trips are off: ``python -m validation.given_counts``.

Each recorded kernel is predicted from the exact trips of its loops, but without its addresses and conditions, and
compared with the measured time of its launch. What is printed belongs to `GIVEN_FACTOR` in explanation/model/build.py.
"""

import os
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from gpudissect.explanation.model.assess import assess
from gpudissect.explanation.model.build import GIVEN_FACTOR, assess_given
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.trips import executions
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings" / "kernels"
MIN_SHARE_INSIDE = 0.9


def ratio_of(gpu: str, kernel: str) -> float:
    """Predicted over measured time of a recorded launch, as `explain_given` predicts it."""
    profile = read_profile(RECORDINGS / gpu / f"{kernel}.json")
    program = read_program(*profile.machine_code())
    card = card_of(load(ROOT / "docs" / "results" / f"{gpu}.json"))
    counts = assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card).counts
    trips = {}
    for loop in program.loops.loops:
        threads = counts.threads[loop.header].value
        entries = threads - sum(counts.edges[latch, loop.header].value for latch in loop.latches)
        trips[loop.name] = threads / entries if entries > 0 else 0.0
    launch = profile.launch
    given = executions(program, trips, launch)
    assessment = assess_given(program, launch, given, card)
    return assessment.predict(assessment.occupancy.blocks, largest_carveout=False).nanoseconds / profile.sweep[-1].ns


def main() -> None:
    """Print both GPUs; fails if fewer than `MIN_SHARE_INSIDE` of the measured times lie in the bracket."""
    all_inside = launches = 0
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for gpu in ("h200", "h100"):
            kernels = [file.stem for file in sorted((RECORDINGS / gpu).glob("*.json"))]
            ratios = dict(zip(kernels, pool.map(ratio_of, [gpu] * len(kernels), kernels), strict=True))
            errors = [abs(ratio - 1) for ratio in ratios.values()]
            inside = sum(1 / GIVEN_FACTOR <= ratio <= GIVEN_FACTOR for ratio in ratios.values())
            all_inside, launches = all_inside + inside, launches + len(ratios)
            near = sum(error <= 0.3 for error in errors)
            print(f"{gpu}: median error {statistics.median(errors):.0%}, {near} of {len(errors)} within 30 %,", end=" ")
            print(f"{inside} within a factor of {GIVEN_FACTOR}")
            print(*(f"  {name}: {ratio:.2f}" for name, ratio in ratios.items() if ratio * GIVEN_FACTOR < 1), sep="\n")
            print(*(f"  {name}: {ratio:.2f}" for name, ratio in ratios.items() if ratio > GIVEN_FACTOR), sep="\n")
    print(f"{all_inside} of {launches} within a factor of {GIVEN_FACTOR}")
    if all_inside < MIN_SHARE_INSIDE * launches:
        sys.exit(1)


if __name__ == "__main__":
    main()
