"""Conditions gathered from contexts."""

from gpudissect.survey.run import gather
from gpudissect.trace import Context


def test_clock_rates_have_a_range_and_notes_are_listed_once():
    clocks_and_notes = (2e9, "none"), (1e9, "power"), (2e9, "none")
    conditions = gather(Context("x", clock_hz=clock, notes={"throttle": note}) for clock, note in clocks_and_notes)
    assert (conditions.clock_low, conditions.clock_hz, conditions.clock_high) == (1e9, 2e9, 2e9)
    assert conditions.notes == {"throttle": ("none", "power")}


def test_many_notes_of_a_name_are_cut():
    notes = gather(Context("x", notes={"user": str(n)}) for n in range(7)).notes
    assert notes == {"user": ("0", "1", "2", "3", "and 3 more")}


def test_without_a_clock_there_is_no_rate():
    assert gather([Context("x")]).clock_hz is None
