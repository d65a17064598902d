"""Count false alarms of `fleet report`: healthy cards whose values spread by 0.5 %, with one run or several.

Run in the root of the repository: ``python -m validation.fleet_alarms``.
"""

import argparse
from dataclasses import replace
from pathlib import Path

from tests.support.fleet import fleet

from gpudissect.fleet.readings import Run, run_of
from gpudissect.fleet.report import report
from gpudissect.results.files import load

MODEL = Path(__file__).parents[1] / "docs" / "results" / "h200.json"
SPREAD = 0.005  # relative standard deviation of every value, from card to card and from run to run


def count_alarms(model: Run, cards: int, runs: int, seed: int) -> int:
    """Cards that are out although nothing is planted."""
    found = list[Run]()
    for number in range(runs):
        measured = fleet(model, cards, runs * seed + number, spread=SPREAD)
        found += [replace(run, time=f"2026-01-{number + 1:02d}", file=f"{number}/{run.file}") for run in measured]
    return len(report(found).out)


def main() -> None:
    """Print the counts of each seed, with one, two and four runs of each card."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cards", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    model = run_of(load(MODEL), str(MODEL))
    for runs in (1, 2, 4):
        alarms = [count_alarms(model, options.cards, runs, seed) for seed in range(options.seeds)]
        print(f"{options.cards} healthy cards, {runs} run(s) each: cards out by seed {alarms}")


if __name__ == "__main__":
    main()
