"""How far predictions from given trips are off: ``python -m validation.given_counts``.

Each recorded kernel is predicted from the exact trips of its loops, but without its addresses and conditions, and
compared with the measured time of its launch. What is printed belongs to `GIVEN_FACTOR` in explanation/model/build.py.
"""

import statistics
from pathlib import Path

from gpudissect.explanation.model.assess import assess, facts_of
from gpudissect.explanation.model.build import GIVEN_FACTOR, explain_given
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.profile import Profile, read_profile
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.trips import executions
from gpudissect.machine_code.program import read_program
from gpudissect.results.files import load
from gpudissect.results.model import Result

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings" / "kernels"


def ratio_of(profile: Profile, result: Result) -> float:
    """Predicted over measured time of a launch."""
    program, card = read_program(*profile.machine_code()), card_of(result)
    counts = assess(program, parse_ptx(profile.ptx()), facts_of(profile, card), card).counts
    trips = {}
    for loop in program.loops.loops:
        threads = counts.threads[loop.header].value
        entries = threads - sum(counts.edges[latch, loop.header].value for latch in loop.latches)
        trips[loop.name] = threads / entries if entries > 0 else 0.0
    given = executions(program, trips, profile.launch.blocks * profile.launch.threads_per_block)
    return explain_given(program, profile.launch, given, [result]).point.predicted / profile.sweep[-1].ns


def main() -> None:
    for gpu in ("h200", "h100"):
        result = load(ROOT / "docs" / "results" / f"{gpu}.json")
        files = sorted((RECORDINGS / gpu).glob("*.json"))
        ratios = {file.stem: ratio_of(read_profile(file), result) for file in files}
        errors = [abs(ratio - 1) for ratio in ratios.values()]
        inside = sum(1 / GIVEN_FACTOR <= ratio <= GIVEN_FACTOR for ratio in ratios.values())
        near = sum(error <= 0.3 for error in errors)
        print(f"{gpu}: median error {statistics.median(errors):.0%}, {near} of {len(errors)} within 30 %,", end=" ")
        print(f"{inside} within a factor of {GIVEN_FACTOR}")
        print(*(f"  {name}: {ratio:.2f}" for name, ratio in ratios.items() if ratio * GIVEN_FACTOR < 1), sep="\n")
        print(*(f"  {name}: {ratio:.2f}" for name, ratio in ratios.items() if ratio > GIVEN_FACTOR), sep="\n")


if __name__ == "__main__":
    main()
