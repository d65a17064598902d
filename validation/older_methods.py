"""Compare older methods on simulated caches with their printed results: docs/validation-older-methods.csv.

`--check` runs all of them again, in half a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache

from kinds import DOCS, PRINTED_IN, Kind, yes
from written import csv_text, write_or_check

import gpudissect as gd
from gpudissect import catalogue
from gpudissect.results.text import quantity
from gpudissect.vocabulary import OLDER_METHODS

TABLE = DOCS / "validation-older-methods.csv"
COLUMNS = ("kind", "agrees", "gpu", "what", "published", "found", "verdict", "source")
SAAVEDRA, WONG, MT22 = OLDER_METHODS.values()
BY_DISTANCE = f"{MT22}, distance"
CLASSIC = {  # GPU, element, method: `ATTRIBUTES` that MC16 and HC13 read from curves, and the place
    ("gtx780", "texture", SAAVEDRA): ((12288, 32, 16, 24), "MC16 fig 4"),
    ("gtx780", "texture", WONG): ((12288, 128, 4, 24), "MC16 fig 5"),
    ("gtx780?alternative=yes", "texture", SAAVEDRA): ((12288, 32, 16, 24), "MC16 fig 4"),
    ("gtx780?alternative=yes", "texture", WONG): ((12288, 128, 4, 24), "MC16 fig 5"),
    ("c2070", "l1", WONG): ((16384, 128, 32, 4), "HC13 table"),
    ("c2070-48k", "l1", WONG): ((49152, 128, 64, 6), "HC13 table"),
}
ATTRIBUTES = ("capacity", "line_size", "sets", "ways")
UNITS = {"capacity": "B", "line_size": "B"}
SECTORS = "MC16 fig 7: 96 lines of 32 B in each set; 24 of 128 B in sectors of 32 B give both readings"
VOLTA = "the file has the vendor's size, a policy is not known: random here, LRU reads 0.1 KiB more than the size"
SPREAD = "printed for six GPUs with this size: {} KiB; ours is the first array that overflows"
WORDS = "our loads on this path are 8 bytes wide, MT22's 4; printed: 3 to 35 words more than the size"
TEXTURE = "printed: 3 or 33 words more than the size; ours 33 by distance, 1 by angle; MT22 does not say which it used"
TUNED = (("c2070", "l1"), ("c2070-48k", "l1"), ("k20c", "l1"), ("gtx780?alternative=yes", "texture"))
"""Caches whose simulated policy or structure was chosen by these readings."""


def reason(gpu: str, element: str) -> str:
    """Why a reading differs from the printed one."""
    if gpu == "gtx780":
        return SECTORS
    if gpu in ("v100", "rtx2080ti", "a100") and element in ("l1", "readonly", "texture"):
        return VOLTA
    if element.startswith("constant"):
        return SPREAD.format("1.83 to 2.14" if element == "constant_l1" else "30.47 to 32.81")
    return WORDS if element in ("l1", "readonly") else TEXTURE


def printed() -> dict[tuple[str, str, str], dict[str, tuple[float, str]]]:
    """Printed readings and their places, by GPU, element and method, then by attribute."""
    known = {
        key: {name: (value, place) for name, value in zip(ATTRIBUTES, values, strict=True)}
        for key, (values, place) in CLASSIC.items()
    }
    for gpu, place in PRINTED_IN.items():
        for item in catalogue.load(gpu).published():
            if item.attribute == "capacity" and item.printed is not None and item.element not in ("dram", "l2"):
                known[gpu, item.element, BY_DISTANCE] = {"capacity": (item.printed, place)}
    return known


@cache
def readings(gpu: str, elements: tuple[str, ...]) -> dict[tuple[str, str, str], float | None]:
    """Readings of the older methods, alone, on elements of one simulated GPU."""
    result = gd.discover(
        f"sim:{gpu}{'&' if '?' in gpu else '?'}seed=1", only=elements, methods=tuple(OLDER_METHODS), seed=1
    )
    return {(each.element, each.method, each.attribute): each.value for each in result.comparisons}


def rows() -> Iterator[tuple[str, ...]]:
    """One row for each printed reading."""
    known = printed()
    for (gpu, element, method), attributes in known.items():
        elements = tuple(dict.fromkeys(name for each, name, _ in known if each == gpu))
        found = readings(gpu, elements)
        for attribute, (value, place) in attributes.items():
            ours, unit = found.get((element, method, attribute)), UNITS.get(attribute, "")
            text = "no reading" if ours is None else quantity(ours, unit)
            agrees = ours == value
            verdict = "no reading" if ours is None else f"differs: {ours / value - 1:+.2%}"
            verdict = "agrees" if agrees else f"{verdict}; {reason(gpu, element)}"
            what = f"{element} {attribute} by {method}"
            kind = Kind.TUNED if (gpu, element) in TUNED else Kind.DATA
            yield (kind.value, yes(agrees), gpu, what, quantity(value, unit), text, verdict, place)


def main() -> int:
    """Write the table, or compare with it."""
    return write_or_check(__doc__ or "", __file__, lambda: {TABLE: csv_text([COLUMNS, *rows()])})


if __name__ == "__main__":
    sys.exit(main())
