"""Conditions: what many contexts have in common and where they differ."""

from gpudissect.survey.conditions import gather
from gpudissect.trace import Context


def test_clocks_are_bracketed_and_notes_listed_once():
    contexts = [
        Context("x", clock_hz=c, notes={"throttle": t}) for c, t in ((2e9, "none"), (1e9, "power"), (2e9, "none"))
    ]
    seen = gather(contexts)
    assert (seen.clock_low, seen.clock_hz, seen.clock_high) == (1e9, 2e9, 2e9)
    assert seen.notes == {"throttle": ("none", "power")}


def test_nothing_seen_is_nothing_said():
    assert gather([Context("x")]).clock_hz is None
