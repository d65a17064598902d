"""Which command gave a result."""

from __future__ import annotations

from gpudissect.report.result import Result
from gpudissect.vocabulary import HIDING


def command_of(result: Result) -> str:
    """``hide`` of a result about latency hiding, else ``discover``."""
    about = {each.element for each in result.findings} or set(result.options.elements or ())
    return "hide" if about and about <= set(HIDING) else "discover"
