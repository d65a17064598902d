"""Compare result files of two versions value by value: a change of the code must not change what is found.

    python validation/same_results.py BEFORE.json AFTER.json [BEFORE.json AFTER.json ...]

Compared are status, value, bracket, confidence, unit and evidence of every finding, all columns of every series, the
predictions and the readings of older methods. Texts (methods, reasons, caveats, names of series and columns) are not.
Attributes that were renamed are found under their new name. Exit code 1 where anything differs.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpudissect.vocabulary import RENAMED

COMPARED = ("status", "value", "unit", "low", "high", "value_ns", "confidence", "evidence")
PUBLISHED = ("value", "low", "high", "verdict")
WITHOUT_NAMES = {"name", "element", "method", "note"}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Every difference of two result files, in one line each."""
    old, new = findings_of(before), findings_of(after)
    yield from (f"{name}: only before" for name in sorted(old.keys() - new.keys()))
    yield from (f"{name}: only after" for name in sorted(new.keys() - old.keys()))
    for name in sorted(old.keys() & new.keys()):
        for field in COMPARED:
            if old[name].get(field) != new[name].get(field):
                yield f"{name}.{field}: {cut(old[name].get(field))} before, {cut(new[name].get(field))} after"
        published = (
            {field: (each["published"] or {}).get(field) for field in PUBLISHED} for each in (old[name], new[name])
        )
        if len({json.dumps(each) for each in published}) > 1:
            yield f"{name}.published differs"
    lost, gained = series_of(before), series_of(after)
    yield from (f"series of {element}: {cut(numbers)} only before" for element, numbers in (lost - gained).elements())
    yield from (f"series of {element}: {cut(numbers)} only after" for element, numbers in (gained - lost).elements())
    for part in ("prediction", "comparisons"):
        if values(before.get(part)) != values(after.get(part)):
            yield f"{part} differs"


def findings_of(result: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Findings by ``element.attribute``, renamed attributes under their new name."""
    return {
        f"{each['element']}.{RENAMED.get(each['attribute'], each['attribute'])}": each for each in result["findings"]
    }


def series_of(result: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    """The numbers of every series, by element."""
    return Counter(
        (each["element"], json.dumps([numbers_of(column) for column in each["columns"].values()]))
        for each in result["series"]
    )


def numbers_of(column: list[Any]) -> list[Any]:
    """The numbers of a column; of a column of texts, which rows have the same text."""
    seen: dict[str, int] = {}
    return [seen.setdefault(each, len(seen)) if isinstance(each, str) else each for each in column]


def values(part: Any) -> Any:
    """The numbers of a part of a file, texts and names left out, in an order of their own."""
    if isinstance(part, Mapping):
        return sorted((json.dumps(values(each)) for name, each in part.items() if name not in WITHOUT_NAMES))
    if isinstance(part, list):
        return sorted(json.dumps(values(each)) for each in part)
    return None if isinstance(part, str) else part


def cut(value: object) -> str:
    """The beginning of a value."""
    text = str(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def main(files: list[str]) -> int:
    """Compare pairs of files; the number of pairs that differ."""
    differing = 0
    for before, after in zip(files[::2], files[1::2], strict=True):
        found = list(differences(*(json.loads(Path(file).read_text(encoding="utf-8")) for file in (before, after))))
        print(f"{after}: {f'{len(found)} differences' if found else 'the same'}")
        print(*(f"  {line}" for line in found), sep="\n", end="\n" if found else "")
        differing += bool(found)
    return differing


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
