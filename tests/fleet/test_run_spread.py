"""The spread from run to run, pooled over cards, and the drifts that it lets a report find."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpudissect.fleet.readings import run_of
from gpudissect.fleet.report import report
from gpudissect.fleet.run_spread import MAX_POOLED_WEIGHT, PRIOR_RUN_SPREAD, run_priors
from gpudissect.results.files import load
from tests.support.fleet import DRAM, fleet, over_time, readings

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"
RUN_SPREAD = 0.003


def measured(cards, runs, slower=0.0):
    """Runs of healthy cards of which the first one's memory is slower in its last run."""
    base = fleet(run_of(load(H200), "h200.json"), cards, seed=1)
    found, rng = [], np.random.default_rng(2)
    for number in range(runs):
        for card in base:
            drop = slower if number == runs - 1 and card is base[0] else 0.0
            varied = {
                key: each._replace(value=each.value * (1 + RUN_SPREAD * rng.standard_normal() - drop * (key == DRAM)))
                for key, each in card.readings.items()
            }
            time, file = f"2026-01-{number + 1:02d}", f"{number}/{card.file}"
            found.append(replace(card, readings=varied, time=time, file=file))
    return found


def drifting(runs):
    return {card.card: [(each.element, each.attribute) for each in card.drifts] for card in report(runs).cards}


@pytest.mark.parametrize(("cards", "slower"), [(1, 0.14), (12, 0.08)])
def test_a_card_that_gets_slower_is_the_only_drift(cards, slower):
    found = drifting(measured(cards, 4, slower))
    assert found.pop("GPU-00000000") == [DRAM]
    assert not any(found.values())


@pytest.mark.parametrize("values", [[4.6, 4.6, 3.2], [4.6, 4.6, 3.2, 3.2], [4.6, 4.6, 4.6, 3.2, 3.2]])
def test_a_step_hides_neither_itself_nor_the_run_after_it(values):
    assert drifting(over_time(readings(values)))["GPU-1"] == [DRAM]


def test_a_partial_run_does_not_hide_the_drift_before_it():
    runs = over_time(readings([4.6, 4.6, 3.2, 3.2]))
    runs[3] = replace(runs[3], readings={})
    assert drifting(runs)["GPU-1"] == [DRAM]


def test_few_changes_show_no_spread():
    assert run_priors([over_time(readings([4.6] * 6))]) == {}
    assert run_priors([over_time(readings([4.6] * 7))])[DRAM].spread == PRIOR_RUN_SPREAD


def test_a_noisy_card_among_quiet_ones_does_not_drift():
    rng = np.random.default_rng(0)
    runs = []
    for card in range(30):
        values = 4.6 * (1 + (0.015 if card == 0 else 0.004) * rng.standard_normal(20))
        runs += [replace(run, card=f"GPU-{card}", file=f"{card}/{run.file}") for run in over_time(readings(values))]
    assert not any(drifting(runs).values())


def test_the_order_of_the_files_does_not_matter():
    runs = measured(3, 4, 0.14)
    assert drifting(runs) == drifting(runs[::-1])


def test_cards_that_vary_much_have_a_wide_spread():
    rng = np.random.default_rng(0)
    histories = [over_time(readings(4.6 * (1 + 0.05 * rng.standard_normal(5)))) for _ in range(50)]
    (prior,) = run_priors(histories).values()
    assert prior.spread == pytest.approx(0.05, rel=0.15) and prior.cards == MAX_POOLED_WEIGHT
