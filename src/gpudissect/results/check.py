"""Whether a result can be relied on: what went wrong while measuring, what does not fit together, what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.command import command_of
from gpudissect.results.compare import compare, in_common, letter
from gpudissect.results.likeness import Likeness
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import quantity
from gpudissect.results.verdict import Verdict

CLOCK_SPREAD = 0.03  # of the median: more than that, and cycles of memory are not those of one clock
FORETOLD = 0.05  # by which what was foretold may fall short of what can be
LOOSE = 0.25  # width of a latency's bracket, as a share of the value
WIDE = ("contention_rise",)  # of a fit in which it makes up for another: its bracket is wide however still the GPU is
ONLY = {"discover": "only", "hide": "access"}  # options that leave the rest out
Found = Mapping[tuple[str, str], Finding]


class Weight(StrEnum):
    """What a concern means for the result."""

    UNSTABLE = "unstable"  # do not rely on the values named
    NOTE = "note"  # rely on it, knowing this


@dataclass(frozen=True)
class Concern:
    """Something that a careful reader holds against a result.

    Attributes:
        weight: whether it makes the result unstable.
        what: what was seen.
        advice: what to do about it.
        about: which findings it touches, ``element.attribute``; all of them if empty.
        of: which of the results it is about, counted from 0; of what lies between results, all of those.

    """

    weight: Weight
    what: str
    advice: str
    about: tuple[str, ...] = ()
    of: tuple[int, ...] = ()


def concerns(results: Sequence[Result], files: Sequence[str] = ()) -> list[Concern]:
    """What there is against each result, the gravest first; of runs of one kind on one GPU, also what changed.

    Where the results were read from `files`, as many, what lies between them is said with their names.
    """
    found = [replace(each, of=(n,)) for n, result in enumerate(results) for each in _of_one(result)]
    found += _between(results, files or [letter(n) for n in range(len(results))])
    together: dict[Concern, list[int]] = {}
    for each in found:
        together.setdefault(replace(each, of=()), []).extend(each.of)
    order = list(Weight)
    return [replace(each, of=tuple(dict.fromkeys(of)))
            for each, of in sorted(together.items(), key=lambda item: order.index(item[0].weight))]  # fmt: skip


def is_stable(found: Sequence[Concern]) -> bool:
    """Whether nothing speaks against relying on the values."""
    return all(each.weight is not Weight.UNSTABLE for each in found)


def _of_one(result: Result) -> Iterator[Concern]:
    yield from _run(result)
    yield from _clocks(result)
    by_name = {(each.element, each.attribute): each for each in result.findings}
    yield from _findings(result.findings)
    yield from _fits(by_name)
    yield from _prediction(result)


def _run(result: Result) -> Iterator[Concern]:
    """What happened while it ran."""
    command = command_of(result)
    notes = result.conditions.notes
    if result.interrupted:
        yield Concern(
            Weight.UNSTABLE, "interrupted: it holds what was measured until then", f"run {command} to the end"
        )
    for failure in result.failures[:50]:
        yield Concern(Weight.UNSTABLE, f"the experiment {failure.experiment} failed: {failure.reason}",
                      "run it again with --record; if it fails again, send the recording")  # fmt: skip
    if reasons := _real(notes.get("throttling", ())):
        yield Concern(Weight.UNSTABLE, f"the GPU was throttled: {'; '.join(reasons)}",
                      "let it cool, or lock its clock below the limit (nvidia-smi -lgc), then run again")  # fmt: skip
    if others := _real(notes.get("other_processes", ())):
        yield Concern(Weight.UNSTABLE, f"others used the GPU: {'; '.join(others)}", "run when the GPU is free")
    if result.options.quick:
        yield Concern(Weight.NOTE, "a quick run: much was left out", f"run {command} without --quick")
    if not result.findings:
        yield Concern(Weight.UNSTABLE, "it holds no finding", f"run {command} without --{ONLY[command]}")


def _real(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if text and text.lower() not in ("none", "no", "0")]


def _clocks(result: Result) -> Iterator[Concern]:
    seen = result.conditions
    measured = Origin.MEASURED in (result.device.origin, result.device.recorded_origin)
    if measured and not seen.clock_seen:
        yield Concern(Weight.NOTE, "the clock could not be read: nanoseconds follow from the rate that is stated",
                      "rely on cycles")  # fmt: skip
    if measured and seen.clock_hz and seen.clock_low is None:
        yield Concern(Weight.NOTE, "how far the SM clock went is not told", "hold it against another run")
    if seen.clock_hz and seen.clock_low and seen.clock_high:
        spread = (seen.clock_high - seen.clock_low) / seen.clock_hz
        if spread > CLOCK_SPREAD:
            said = (
                f"the SM clock went from {seen.clock_low / 1e6:.5g} to {seen.clock_high / 1e6:.5g} MHz ({spread:.1%})"
            )
            yield Concern(Weight.UNSTABLE, said, "lock the clock (nvidia-smi -lgc) and run again",
                          ("l2.hit_latency", "dram.hit_latency"))  # fmt: skip


def _findings(findings: Sequence[Finding]) -> Iterator[Concern]:
    """What the findings say of themselves."""
    unclear = [each for each in findings if each.status is Status.AMBIGUOUS]
    for reason, names in _by_reason(unclear).items():
        yield Concern(Weight.NOTE, f"ambiguous: {reason}",
                      "run again; if it stays so, the evidence allows more than one answer", names)  # fmt: skip
    unsure = tuple(_name(each) for each in findings if each.confidence is not None and each.confidence < 0.5)
    if unsure:
        yield Concern(Weight.UNSTABLE, "held at less than 50 %", "run again, on a GPU that does nothing else", unsure)
    loose = tuple(
        _name(each) for each in findings
        if each.unit == "cycles" and isinstance(each.value, int | float) and each.low is not None
        and each.high is not None and each.value > 0 and each.high - each.low > max(LOOSE * each.value, 4)
        and not each.element.startswith("spectrum") and each.attribute not in WIDE
    )  # fmt: skip
    if loose:
        yield Concern(Weight.NOTE, f"brackets wider than {LOOSE:.0%} of the value", "run again on an idle GPU", loose)
    against = tuple(_name(each) for each in findings if each.published and each.published.verdict is Verdict.DIFFERS)
    if against:
        yield Concern(Weight.NOTE, "not what is published", "look at the evidence: the document may be off, or of "
                      "another model", against)  # fmt: skip


def _by_reason(findings: Sequence[Finding]) -> dict[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = {}
    for each in findings:
        grouped.setdefault(each.reason, []).append(_name(each))
    return {reason: tuple(names) for reason, names in grouped.items()}


def _fits(by_name: Found) -> Iterator[Concern]:
    """Whether findings that say the same thing twice agree."""
    for element in dict.fromkeys(element for element, _ in by_name):
        values = [_number(by_name, element, name) for name in ("sets", "ways", "line_size", "capacity")]
        if all(each is not None for each in values):
            sets, ways, line, size = (float(each) for each in values if each is not None)
            high = by_name[element, "capacity"].high
            if not size <= sets * ways * line * (1 + 1e-9) or sets * ways * line > max(size, high or size) * 1.07:
                said = f"{sets:g} sets x {ways:g} ways x {quantity(line, 'B')} is not {quantity(size, 'B')}"
                yield Concern(Weight.NOTE, f"{element}: {said}", "others may take some of the array: look at capacity",
                              tuple(f"{element}.{name}" for name in ("capacity", "sets", "ways")))  # fmt: skip
    ladder = [(name, value) for name in ("l1", "l2", "dram") if (value := _number(by_name, name, "hit_latency"))]
    for (near, quick), (far, slow) in pairwise(ladder):
        if quick > slow:
            yield Concern(
                Weight.UNSTABLE,
                f"{far} answers in {slow:g} cycles, {near} in {quick:g}: not a hierarchy",
                "run again with --record and look at the traces",
                (f"{near}.hit_latency", f"{far}.hit_latency"),
            )


def _number(by_name: Found, element: str, attribute: str) -> float | None:
    finding = by_name.get((element, attribute))
    return finding.value if finding is not None and isinstance(finding.value, int | float) else None


def _prediction(result: Result) -> Iterator[Concern]:
    if result.prediction is None:
        return
    for each in result.prediction.elements[:50]:
        if each.possible - each.agreement > FORETOLD:
            share = f"{each.agreement:.1%} of random accesses where {each.possible:.1%} is possible"
            said = f"{each.element} as found foretells {share}"
            yield Concern(
                Weight.UNSTABLE,
                said,
                "its sets, index function or policy are not what was found: look at them",
                tuple(f"{each.element}.{name}" for name in ("sets", "index_function", "replacement_policy")),
            )


def _between(results: Sequence[Result], names: Sequence[str]) -> Iterator[Concern]:
    """What is not the same in runs of one kind on one GPU; results of other kinds and GPUs stand by themselves."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, result in enumerate(results):
        alike.setdefault((result.device.name, command_of(result)), []).append(number)
    everyone = tuple(range(len(results)))
    if len({name for name, _ in alike}) > 1:
        yield Concern(Weight.NOTE, "these are different GPUs, each is checked by itself",
                      "gpudissect compare holds them against one another", of=everyone)  # fmt: skip
    elif len(alike) > 1:
        yield Concern(Weight.NOTE, f"these are results of {' and of '.join(kind for _, kind in alike)}, which have "
                      "nothing to be held against one another: each is checked by itself",
                      "to see what changes from run to run, name several runs of one", of=everyone)  # fmt: skip
    for group in alike.values():
        if len(group) > 1:
            changed = _between_runs([results[n] for n in group], [names[n] for n in group])
            yield from (replace(each, of=tuple(group)) for each in changed)


def _between_runs(results: Sequence[Result], names: Sequence[str]) -> Iterator[Concern]:
    if not in_common(results):
        yield Concern(Weight.NOTE, "these runs have no value in common: each is checked by itself",
                      "to see what changes from run to run, run the same twice")  # fmt: skip
        return
    made = compare(results, names)
    moved = {f"{row.element}.{row.attribute}": row.why for row in made.rows if row.likeness is Likeness.DIFFERENT}
    if moved:
        yield Concern(Weight.UNSTABLE, f"{len(moved)} values differ from run to run by more than their brackets",
                      "rely on neither; gpudissect compare shows them", tuple(moved))  # fmt: skip
    if made.read:
        yield Concern(Weight.NOTE, made.read, "read them with one version: replay recordings of both")
    for obstacle in made.obstacles:
        yield Concern(Weight.NOTE, obstacle, "run again under the same conditions")


def _name(finding: Finding) -> str:
    return f"{finding.element}.{finding.attribute}"
