"""Which command gave a result."""

from __future__ import annotations

from gpudissect.results.model import Result
from gpudissect.results.text import brief
from gpudissect.vocabulary import HIDING

LONGEST = 400  # characters


def command_of(result: Result) -> str:
    """``hide`` of a result about latency hiding, else ``discover``."""
    about = {each.element for each in result.findings} or set(result.options.elements or ())
    return "hide" if about and about <= set(HIDING) else "discover"


def only_asked(result: Result) -> str:
    """That a survey was asked for some elements only, and which; empty if it was asked for all."""
    if not result.options.elements or command_of(result) == "hide":
        return ""
    return f"asked for these elements only: {brief(', '.join(result.options.elements), LONGEST)}"
