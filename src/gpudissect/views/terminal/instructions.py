"""Findings of instructions, one row per instruction, so that they do not bury the others."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from rich.text import Text

from gpudissect.catalogue.compute_capability import dense_matrix_peak
from gpudissect.printable import clean
from gpudissect.results.folded import folded, folded_published
from gpudissect.results.model import Finding
from gpudissect.results.scope import FROM_MEMORY, WARPS_SHARE, warps_share
from gpudissect.results.text import words
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import ACCESSES, INSTRUCTIONS
from gpudissect.workload import MATRIX_NAMES

TITLE = f"instructions, with the warps of one chain each that reach {WARPS_SHARE:.0%} of the peak rate"
_ATTRIBUTES = {
    "latency": "latency (cycles)",
    "rate": "rate (ops/cycle/SM)",
    "warps_needed": f"warps ({WARPS_SHARE:.0%})",
}
COLUMNS = ("instruction", *_ATTRIBUTES.values(), "share of dense peak", "verdict", "why")
OPTIONAL = (*reversed(COLUMNS[4:]), COLUMNS[3])  # in the order in which they are dropped
_BY_SEVERITY = (Verdict.DIFFERS, Verdict.AS_PRINTED, Verdict.OVERLAPS, Verdict.FINER, Verdict.AGREES)
_NAMES = {each.value: name for each, name in MATRIX_NAMES.items()}


def is_of_instruction(finding: Finding) -> bool:
    """Whether a finding is about an instruction."""
    return finding.element in INSTRUCTIONS or finding.element in ACCESSES


def name_of(element: str) -> str:
    """Name of an instruction in a table; matrix instructions have their PTX names."""
    return _NAMES.get(element, element)


def rows(findings: Sequence[Finding], facts: Mapping[str, object]) -> Iterator[tuple[Text, ...]]:
    """A row of `COLUMNS` for each instruction with a value; a dash for missing values.

    The verdict is the worst of its values; what differs is named with the published value. `facts` are the device's.
    """
    peaks = {each.value: peak for each, peak in dense_matrix_peak(facts).items()}
    for element, group in groupby(filter(is_of_instruction, findings), key=lambda finding: finding.element):
        by_name = {finding.attribute: finding for finding in group}
        if not any(finding.status.has_value for finding in by_name.values()):
            continue
        compared = {name: each.published for name, each in by_name.items() if each.published is not None}
        verdicts = {published.verdict for published in compared.values()}
        worst = next((verdict for verdict in _BY_SEVERITY if verdict in verdicts), None)
        values = [_number(by_name.get(name)) for name in _ATTRIBUTES]
        different = (
            f"{words(name)}: published {folded_published(published)}, {published.text}"
            for name, published in compared.items()
            if published.verdict in (Verdict.DIFFERS, Verdict.AS_PRINTED)
        )
        yield (
            Text(clean(name_of(element)), "bold"),
            *(Text(value, "dim" if value == "-" else "bold") for value in values),
            Text(_share(by_name.get("rate"), peaks.get(element))),
            Text("" if worst is None else worst.value, "bold red" if worst is Verdict.DIFFERS else "green"),
            Text(clean("; ".join(different))),
        )


def _share(rate: Finding | None, peak: int | None) -> str:
    """A rate in percent of the peak of dense matrices."""
    if rate is None or peak is None or not isinstance(rate.value, int | float):
        return ""
    return f"{rate.value / peak:.0%} of {peak}"


def merge_notes(notes: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Notes of (element, attributes, reason), those of instructions with the same text in one: ``fadd, fmul``."""
    merged: dict[tuple[str, str, str], list[str]] = {}
    for element, attributes, reason in notes:
        of_instruction = element in INSTRUCTIONS or element in ACCESSES
        merged.setdefault(("" if of_instruction else element, attributes, reason), []).append(element)
    return [(", ".join(elements), attributes, reason) for (_, attributes, reason), elements in merged.items()]


def _number(finding: Finding | None) -> str:
    """The value, but for counts with its bracket; the unit stands in the heading."""
    if finding is None or not finding.status.has_value:
        bound = folded(finding) if finding is not None and finding.attribute == "warps_needed" else ""
        return bound + _other_share(finding) if finding is not None and bound else "-"
    return clean(folded(finding, unit=False) if finding.unit else str(finding.value)) + _other_share(finding)


def _other_share(finding: Finding) -> str:
    """The share of the peak where it is not that of the heading."""
    memory = finding.attribute == "warps_needed" and finding.element in FROM_MEMORY
    return f" ({warps_share(finding.element)})" if memory else ""
