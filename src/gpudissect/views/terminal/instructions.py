"""Findings of instructions, one row per instruction, so that they do not bury the others."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from gpudissect.results.model import Finding
from gpudissect.results.text import clean, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS

COLUMNS = ("instruction", "latency (cycles)", "rate (ops/cycle/SM)", "warps needed", "published", "verdict")
_ATTRIBUTES = ("latency", "rate", "warps_needed")
_BY_SEVERITY = (Verdict.DIFFERS, Verdict.AS_PRINTED, Verdict.OVERLAPS, Verdict.FINER, Verdict.AGREES)


def is_of_instruction(finding: Finding) -> bool:
    """Whether a finding is about an instruction."""
    return finding.element in INSTRUCTIONS or finding.element in ACCESSES


def rows(findings: Sequence[Finding]) -> Iterator[tuple[Text, ...]]:
    """A row of `COLUMNS` for each instruction with a value; a dash for missing values.

    Published values are in the order of the columns; the verdict is the worst of them.
    """
    for element, group in groupby(filter(is_of_instruction, findings), key=lambda finding: finding.element):
        by_name = {finding.attribute: finding for finding in group}
        if not any(finding.status.has_value for finding in by_name.values()):
            continue
        columns = [by_name.get(name) for name in _ATTRIBUTES]
        verdicts = {finding.published.verdict for finding in by_name.values() if finding.published is not None}
        worst = next((verdict for verdict in _BY_SEVERITY if verdict in verdicts), None)
        values = [None if each is None or not each.status.has_value else each.value for each in columns]
        published = [None if each is None or each.published is None else each.published.value for each in columns]
        yield (
            Text(clean(element), "bold"),
            *(Text(_number(value), "dim" if value is None else "bold") for value in values),
            Text(", ".join(map(_number, published)) if verdicts else ""),
            Text("" if worst is None else worst.value, "bold red" if worst is Verdict.DIFFERS else "green"),
        )


def merge_notes(notes: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Notes of (element, attributes, reason), those of instructions with the same text in one: ``fadd, fmul``."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for element, attributes, reason in notes:
        of_instruction = element in INSTRUCTIONS or element in ACCESSES
        merged.setdefault(("" if of_instruction else element, attributes, reason), []).append(element)
    return [(", ".join(elements), attributes, reason) for (_, attributes, reason), elements in merged.items()]


def _number(value: object) -> str:
    """Four digits; the unit stands in the heading."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, int | float) else quantity(str(value), "")
