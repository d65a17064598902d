"""What an H200 gave, out of its result file: for the tables and pictures of the pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpudissect.api import load
from gpudissect.estimate import Status
from gpudissect.results.model import Finding
from gpudissect.results.text import bracket, percent, quantity
from gpudissect.views.interactive import Result
from gpudissect.vocabulary import LIST_INDEX

FILE = Path(__file__).parents[1] / "results" / "h200.json"
LONGEST = 60  # characters of a value in a table


@cache
def _result() -> Result:
    return load(FILE)


def values(element: str, attribute: str) -> NDArray[np.float64]:
    """A list that was found, one number an SM."""
    return np.array(next(f.value for f in _result().findings if (f.element, f.attribute) == (element, attribute)))


def plots(element: str) -> dict[str, str]:
    """Every plot of one element by its title, as SVG."""
    return _result().plots(element)


def rows(elements: Collection[str], attributes: Collection[str]) -> Iterator[tuple[str, ...]]:
    """Element, attribute, value, bracket, confidence of each finding of these words (all elements if none is given)."""
    for finding in _result().findings:
        if finding.attribute in attributes and (not elements or finding.element in elements):
            yield (
                f"`{finding.element}`",
                f"`{finding.attribute}`",
                _value(finding),
                bracket(finding.low, finding.high, finding.unit),
                "" if finding.confidence is None else percent(finding.confidence),
            )


def _value(finding: Finding) -> str:
    if finding.status is Status.FOUND or finding.status is Status.STATED:
        each = LIST_INDEX.get(finding.attribute, "values")
        text = quantity(finding.value, finding.unit, each)
        stated = ", stated" if finding.status is Status.STATED else ""
        return (text if len(text) <= LONGEST else text[:LONGEST].rsplit(" ", 1)[0] + " ...") + stated
    return finding.status.value
