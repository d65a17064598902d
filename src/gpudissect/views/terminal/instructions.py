"""Instructions have a table of their own, one row each: thirty of them with three findings would bury the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from gpudissect.results.model import Finding
from gpudissect.results.text import clean, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS, unit_of

COLUMNS = ("instruction", "latency (cycles)", "rate (ops/cycle of an SM)", "warps needed", "published", "verdict")
_ATTRIBUTES = ("latency", "rate", "warps_needed")
_GRAVEST = (Verdict.DIFFERS, Verdict.AS_PRINTED, Verdict.OVERLAPS, Verdict.FINER, Verdict.AGREES)


def is_of_instruction(finding: Finding) -> bool:
    """Whether a finding is about an instruction."""
    return finding.element in INSTRUCTIONS or finding.element in ACCESSES


def rows(findings: Sequence[Finding]) -> Iterator[tuple[Text, ...]]:
    """A row of `COLUMNS` for each instruction of which anything was found; a dash for what was not.

    The published values stand in the order of the columns, the verdict is the gravest of them.
    """
    own = [finding for finding in findings if is_of_instruction(finding)]
    for element, group in groupby(own, key=lambda finding: finding.element):
        by_name = {finding.attribute: finding for finding in group}
        if not any(finding.status.has_value for finding in by_name.values()):
            continue
        verdicts = {finding.published.verdict for finding in by_name.values() if finding.published is not None}
        gravest = next((verdict for verdict in _GRAVEST if verdict in verdicts), None)
        published = [_published(by_name.get(name)) for name in _ATTRIBUTES] if verdicts else []
        yield (
            Text(clean(element), "bold"),
            *(_value(by_name.get(name)) for name in _ATTRIBUTES),
            Text(", ".join(published)),
            Text("" if gravest is None else gravest.value, "bold red" if gravest is Verdict.DIFFERS else "green"),
        )


def together(lines: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Notes of (element, attributes, why) with those of instructions that say the same in one: ``fadd, fmul``."""
    joined: dict[tuple[str, str, str], list[str]] = {}
    for element, attributes, why in lines:
        of_instruction = element in INSTRUCTIONS or element in ACCESSES
        joined.setdefault(("" if of_instruction else element, attributes, why), []).append(element)
    return [(", ".join(elements), attributes, why) for (_, attributes, why), elements in joined.items()]


def _value(finding: Finding | None) -> Text:
    if finding is None or not finding.status.has_value:
        return Text("-", "dim")
    return Text(_bare(finding.value, unit_of(finding.attribute)), "bold")


def _published(finding: Finding | None) -> str:
    if finding is None or finding.published is None or finding.published.value is None:
        return "-"
    return _bare(finding.published.value, unit_of(finding.attribute))


def _bare(value: object, unit: str) -> str:
    """A number with four digits; its unit stands above."""
    return f"{value:.4g}" if isinstance(value, int | float) else quantity(str(value), unit)
