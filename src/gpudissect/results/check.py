"""Whether results and links are reliable: problems while measuring, contradictions, and what to do about them."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TypeVar

from gpudissect.device_info import Origin
from gpudissect.errors import shorten_message
from gpudissect.estimate import Status
from gpudissect.measure.infer_doubts import Agreement, contradictions, path_agreements
from gpudissect.printable import counted
from gpudissect.results.compare import Outcome, Row, common_keys, compare, judge, letter
from gpudissect.results.folded import rounded_range
from gpudissect.results.links import LinksFile
from gpudissect.results.model import NO_VALUE, Finding, Result
from gpudissect.results.verdict import Verdict
from gpudissect.trace import OTHER_PROCESSES

MAX_ABOVE_STATED = 1.002  # an H100 that states 1980 MHz ran at 1995 MHz in some runs
MAX_CLOCK_SPREAD = 0.03  # of the median; beyond, cycles of memory are not those of one clock
MAX_BRACKET_WIDTH = 0.25  # of a latency, as a share of the value
MAX_SPREADS = 20  # values with their spread over cards
MAX_LISTED = 50  # failures, and elements of a prediction
MEMORY_LATENCIES = ("l2.hit_latency", "dram.hit_latency")
_WIDE_BRACKETS = (
    ("hiding", "contention_rise"),  # of a fit whose parameters compensate each other
    ("launch", "block_replacement"),  # 95 % of single events
    ("atomg", "latency"),  # from near words to far ones
)
T = TypeVar("T", "Concern", "Group")
_SELECTION = {"discover": "only", "hide": "access"}  # options that restrict a command to some elements


class Weight(StrEnum):
    """Consequence of a concern."""

    UNSTABLE = "unstable"  # the named values are unreliable
    NOTE = "note"  # reliable, with this in mind


@dataclass(frozen=True)
class Concern:
    """A reason to doubt a result."""

    weight: Weight
    what: str  # observation
    advice: str  # what to do about it
    about: tuple[str, ...] = ()  # findings concerned, ``element.attribute``; all of them if empty
    of: tuple[int, ...] = ()  # indices of the results concerned


@dataclass(frozen=True)
class Group:
    """Results of one command on one card, which are compared as runs of the same."""

    gpu: str
    uuid: str | None
    command: str
    settings: str  # quick run and clocks, as text
    of: tuple[int, ...]  # indices of the results


def concerns(results: Sequence[Result], files: Sequence[str] = ()) -> list[Concern]:
    """Concerns about each result, the most serious first; of several runs on one GPU also what changed between them.

    `files` are the names of the results, if they have any.
    """
    found = [replace(each, of=(n,)) for n, result in enumerate(results) for each in _concerns_of_one(result)]
    return _ranked([*found, *_concerns_between(results, files or [letter(n) for n in range(len(results))])])


def link_concerns(found: Sequence[LinksFile], files: Sequence[str]) -> list[Concern]:
    """As `concerns`, about files of links."""
    alone = [replace(each, of=(n,)) for n, links in enumerate(found) for each in _concerns_of_links(links)]
    return _ranked([*alone, *_concerns_between_links(found, files)])


def check_files(found: Sequence[Result | LinksFile], files: Sequence[str]) -> tuple[list[Concern], list[Group]]:
    """Concerns about results and files of links, and the groups in which they were compared."""
    results = {n: each for n, each in enumerate(found) if isinstance(each, Result)}
    links = {n: each for n, each in enumerate(found) if isinstance(each, LinksFile)}
    raised = _renumbered(concerns([*results.values()], [files[n] for n in results]), [*results])
    raised += _renumbered(link_concerns([*links.values()], [files[n] for n in links]), [*links])
    groups = _renumbered(groups_of([*results.values()]), [*results])
    return _ranked(raised), [*groups, *_renumbered(link_groups([*links.values()]), [*links])]


def _renumbered(found: Sequence[T], numbers: Sequence[int]) -> list[T]:
    return [replace(each, of=tuple(numbers[n] for n in each.of)) for each in found]


def _ranked(found: Sequence[Concern]) -> list[Concern]:
    """The most serious first; a concern about several results once."""
    merged: dict[Concern, list[int]] = defaultdict(list)
    for each in found:
        merged[replace(each, of=())].extend(each.of)
    order = list(Weight)
    ranked = sorted(merged.items(), key=lambda item: order.index(item[0].weight))
    return [replace(each, of=tuple(dict.fromkeys(numbers))) for each, numbers in ranked]


def is_stable(found: Sequence[Concern]) -> bool:
    """Whether no concern makes values unreliable."""
    return all(each.weight is not Weight.UNSTABLE for each in found)


_unstable, _note = partial(Concern, Weight.UNSTABLE), partial(Concern, Weight.NOTE)


def _concerns_of_one(result: Result) -> Iterator[Concern]:
    yield from _check_run(result)
    yield from _check_clock(result)
    yield from _check_findings(result)
    yield from _check_consistency(result)


def _check_run(result: Result) -> Iterator[Concern]:
    command, notes = result.command, result.conditions.notes
    if result.interrupted:
        yield _unstable("interrupted: the result holds only what was measured until then", f"run {command} to the end")
    for failure in result.failures[:MAX_LISTED]:
        if failure.experiment == result.options.profile:
            yield _unstable(f"the profile {failure.experiment} ended early: {failure.reason}", "run it again")
            continue
        what = f"the experiment {failure.experiment} failed: {failure.reason}"
        yield _unstable(what, "run again with --record; if it fails again, send the recording")
    if reasons := [text for text in notes.get("throttling", ()) if text.lower() not in NO_VALUE]:
        advice = "let the GPU cool, or lock its clock below the limit (nvidia-smi -lgc), then run again"
        yield _unstable(f"the GPU was throttled: {'; '.join(reasons)}", advice)
    if processes := [text for text in notes.get(OTHER_PROCESSES, ()) if text.lower() not in NO_VALUE]:
        yield _unstable(f"other processes used the GPU: {'; '.join(processes)}", "run when the GPU is free")
    if result.options.quick:
        yield _note("quick run: long experiments were skipped", f"run {command} without --quick")
    if not result.findings:
        yield _unstable("no finding", f"run {command} without --{_SELECTION[command]}")


def _check_clock(result: Result) -> Iterator[Concern]:
    conditions = result.conditions
    clock, low, high = conditions.clock_hz, conditions.clock_low, conditions.clock_high
    measured = Origin.MEASURED in (result.device.origin, result.device.recorded_origin)
    if measured and not conditions.clock_observed:
        yield _note("the clock could not be read: nanoseconds follow from the stated rate", "use the values in cycles")
    if measured and clock and low is None:
        yield _note("SM clock range not recorded", "compare with another run")
    stated = result.device.facts.get("clock_hz")
    if measured and clock and isinstance(stated, int | float) and clock > MAX_ABOVE_STATED * stated > 0:
        what = f"SM clock of {clock / 1e6:.5g} MHz, above the highest that the driver states, {stated / 1e6:.5g} MHz"
        yield _note(what, "compare cycles of L2 and memory, and bandwidths, only with runs at that clock")
    if clock and low and high and (high - low) / clock > MAX_CLOCK_SPREAD:
        what = f"SM clock varied from {low / 1e6:.5g} to {high / 1e6:.5g} MHz ({(high - low) / clock:.1%})"
        yield _unstable(what, "lock the clock (nvidia-smi -lgc) and run again", MEMORY_LATENCIES)


def _check_findings(result: Result) -> Iterator[Concern]:
    """Concerns that single findings raise themselves."""
    findings = result.findings
    if ambiguous := tuple(_name(each) for each in findings if each.status is Status.AMBIGUOUS):
        yield _note("ambiguous", "several answers fit: gpudissect show --details prints the reasons", ambiguous)
    if unsure := tuple(_name(each) for each in findings if each.confidence is not None and each.confidence < 0.5):
        yield _unstable("confidence below 50 %", "run again on an idle GPU", unsure)
    if wide := tuple(_name(each) for each in findings if _is_wide(each)):
        yield _note(f"brackets wider than {MAX_BRACKET_WIDTH:.0%} of the value", "run again on an idle GPU", wide)
    published = [each for each in findings if each.published and each.published.verdict is Verdict.DIFFERS]
    if different := tuple(map(_name, published)):
        advice = "look at the evidence: the document may be wrong, or describe another model"
        yield _note(f"different from the value published of {result.device.catalogue}", advice, different)


def _is_wide(finding: Finding) -> bool:
    """Whether the bracket of a latency is too wide to be useful."""
    value, low, high = finding.value, finding.low, finding.high
    if finding.unit != "cycles" or not isinstance(value, int | float) or low is None or high is None:
        return False
    name = (finding.element.partition("_")[0], finding.attribute)
    exempt = name[0] == "spectrum" or name in _WIDE_BRACKETS
    return not exempt and value > 0 and high - low > max(MAX_BRACKET_WIDTH * value, 4)


def _check_consistency(result: Result) -> Iterator[Concern]:
    """Concerns about findings that contradict each other, the predicted accesses, or the driver."""
    caches, paths = (result.prediction.elements, result.prediction.paths) if result.prediction else ((), ())
    agreements = [Agreement(each.element, each.agreement, each.possible) for each in caches]
    for path in paths:
        agreements += path_agreements(path.wrong, path.misread, path.accesses, path.possible)
    findings = {(each.element, each.attribute): (each.value, each.low, each.high) for each in result.findings}
    found = contradictions(findings, agreements, result.device.facts.get("l2_size"))
    for each in islice(found, MAX_LISTED):
        about = tuple(name for name in each.about if tuple(name.split(".")) in findings)
        yield _unstable(each.what, each.advice, about)


def groups_of(results: Sequence[Result]) -> list[Group]:
    """The results by card and command; cards without a UUID by the name of their model."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, result in enumerate(results):
        groups[card_of(result), result.command].append(number)
    return [_group([results[n] for n in numbers], tuple(numbers)) for numbers in groups.values()]


def _group(results: Sequence[Result], numbers: tuple[int, ...]) -> Group:
    first = results[0]
    clocks = sorted({f"{each.conditions.clock_hz / 1e6:.5g}" for each in results if each.conditions.clock_hz})
    quick = ["quick"] if all(each.options.quick for each in results) else []
    profiles = sorted({each.options.profile for each in results if each.options.profile})
    settings = ", ".join(quick + profiles + ([f"{' and '.join(clocks)} MHz"] if clocks else []))
    return Group(first.device.name, first.provenance.gpu_uuid, first.command, settings, numbers)


def _concerns_between(results: Sequence[Result], names: Sequence[str]) -> Iterator[Concern]:
    """Concerns about several runs of one command on one card; other results are only checked one by one."""
    groups = {(card_of(results[each.of[0]]), each.command): each.of for each in groups_of(results)}
    alone = None
    if (count := len({card for card, _ in groups})) > 1:
        unknown = any(map(_is_of_unknown_card, results))
        cards = f"{count} cards" if not unknown else "several cards, or of unknown ones (no GPU UUID)"
        what = f"results of {cards}: each card is checked separately"
        alone = _note(what, "gpudissect compare lists how they differ")
    elif len(groups) > 1:
        what = f"results of {' and of '.join(command for _, command in groups)}: each is checked separately"
        alone = _note(what, "for changes from run to run, name several runs of one command")
    if alone is not None:
        yield replace(alone, of=tuple(range(len(results))))
    yield from _spread_over_cards(results)
    for group in groups.values():
        if len(group) > 1:
            for each in _concerns_between_runs([results[n] for n in group], [names[n] for n in group]):
                yield replace(each, of=group)


def _spread_over_cards(results: Sequence[Result]) -> Iterator[Concern]:
    """What differs between cards of one model (by UUID), with the range over them."""
    models: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, result in enumerate(results):
        if result.provenance.gpu_uuid is not None:
            models[result.device.name, result.command].append(number)
    for (model, _), numbers in models.items():
        chosen = [results[n] for n in numbers]
        count = len({each.provenance.gpu_uuid for each in chosen})
        if count < 2 or not common_keys(chosen):
            continue
        spreads = [f"{_name(row)} {row.spread}" for row in compare(chosen).rows if row.spread]
        if spreads:
            more = f"; and {len(spreads) - MAX_SPREADS} more" if len(spreads) > MAX_SPREADS else ""
            ranges = "; ".join(each.removesuffix(f" over {count} cards") for each in spreads[:MAX_SPREADS])
            what = f"spread over {count} cards of {model}: {ranges}{more}"
            yield Concern(Weight.NOTE, what, "for another card of this model expect these ranges", of=tuple(numbers))


def card_of(result: Result) -> str:
    """What distinguishes cards: its UUID, or else only the name of its model."""
    return result.provenance.gpu_uuid or result.device.name


def _is_of_unknown_card(result: Result) -> bool:
    measured = Origin.MEASURED in (result.device.origin, result.device.recorded_origin)
    return measured and result.provenance.gpu_uuid is None


def _concerns_between_runs(results: Sequence[Result], names: Sequence[str]) -> Iterator[Concern]:
    if not common_keys(results):
        what = "runs without a common value: each is checked separately"
        yield _note(what, "for changes from run to run, run the same command twice")
        return
    if copies := [names[n] for n, each in enumerate(results) if each.provenance.time and each in results[:n]]:
        yield _copies(copies)
    comparison = compare(results, names)
    different = [row for row in comparison.rows if row.outcome is Outcome.DIFFERENT]
    if changed := tuple(map(_name, different)):
        yield _changed(changed, "treat these values as unreliable; gpudissect compare shows them")
        if any(_is_of_unknown_card(each) for each in results):
            what = "no GPU UUID in these results: two cards of one model cannot be distinguished"
            yield _note(what, "measure again to record the UUID")
    if comparison.version_note:
        yield _note(comparison.version_note, "replay the recordings of both with one version")
    for obstacle in comparison.obstacles:
        yield _note(obstacle, "run again under the same conditions")


def _copies(names: Sequence[str]) -> Concern:
    what = f"copies of another of these results: {', '.join(names)}"
    return _note(what, "a copy shows no change from run to run: name several runs")


def _changed(names: tuple[str, ...], advice: str) -> Concern:
    verb = "value differs" if len(names) == 1 else "values differ"
    return _unstable(f"{len(names)} {verb} from run to run by more than the brackets", advice, names)


def _name(finding: Finding | Row) -> str:
    return f"{finding.element}.{finding.attribute}"


def link_groups(found: Sequence[LinksFile]) -> list[Group]:
    """The files by the GPUs whose links they have; GPUs without a UUID by name and number."""
    groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, links in enumerate(found):
        groups[tuple(sorted(gpu.uuid or f"{gpu.name} {gpu.spec}" for gpu in links.gpus))].append(number)
    return [_link_group(found[numbers[0]], tuple(numbers)) for numbers in groups.values()]


def _link_group(first: LinksFile, numbers: tuple[int, ...]) -> Group:
    names, uuids = dict.fromkeys(gpu.name for gpu in first.gpus), [gpu.uuid for gpu in first.gpus if gpu.uuid]
    return Group(" and ".join(names), ", ".join(uuids) or None, "links", counted(len(first.gpus), "GPU"), numbers)


def _concerns_of_links(links: LinksFile) -> Iterator[Concern]:
    if links.interrupted:
        yield _unstable("interrupted: the file has only the links measured before that", "run gpudissect links again")
    for line in links.failures[:MAX_LISTED]:
        yield _unstable(f"a link failed: {shorten_message(line)}", "run links again when nothing else uses these GPUs")
    if not any(link.values for link in links.links):
        yield _unstable("no link has a value", "gpudissect links prints the reasons")


def _concerns_between_links(found: Sequence[LinksFile], names: Sequence[str]) -> Iterator[Concern]:
    """What changed between files of links of the same GPUs; files of other GPUs are only checked one by one."""
    groups = link_groups(found)
    if len(groups) > 1:
        what = f"links of {len(groups)} sets of GPUs: each set is checked separately"
        note = _note(what, "gpudissect fleet report compares the GPUs with one another")
        yield replace(note, of=tuple(range(len(found))))
    for group in groups:
        chosen = [found[n] for n in group.of]
        first = dict[str, int]()  # by content
        if copies := [names[n] for n in group.of if first.setdefault(found[n].model_dump_json(), n) != n]:
            yield replace(_copies(copies), of=group.of)
        if changed := tuple(_changed_links(chosen)):
            advice = "treat these values as unreliable; measure again when nothing else uses these GPUs or the host"
            yield replace(_changed(changed, advice), of=group.of)


def _changed_links(found: Sequence[LinksFile]) -> Iterator[str]:
    """Values that differ between files by more than their brackets: link and attribute, with the range over the files.

    Links are named as in the first file that has them. The two brackets that are furthest apart are judged.
    """
    tables = [*map(_by_link, found)]
    for key, (name, finding) in {key: each for table in reversed(tables) for key, each in table.items()}.items():
        same = [table[key][1] for table in tables if key in table]
        if any(each.unit != finding.unit for each in same):
            continue
        below = min(same, key=lambda each: math.inf if each.high is None else each.high)
        above = max(same, key=lambda each: -math.inf if each.low is None else each.low)
        if judge(below, above)[0] is Outcome.DIFFERENT:
            numbers = [each.value for each in same if isinstance(each.value, int | float)]
            span = f" {rounded_range(min(numbers), max(numbers), finding.unit)}" if numbers else ""
            yield f"{name}{span}"


def _by_link(links: LinksFile) -> dict[tuple[str, str, str], tuple[str, Finding]]:
    """Name and value by the UUIDs of both ends (their numbers where there is none) and the attribute."""
    uuids = {gpu.spec: gpu.uuid for gpu in links.gpus}
    return {
        (uuids.get(link.source) or link.source, uuids.get(link.target) or link.target, attribute): (
            f"{link.source} to {link.target} {attribute}",
            finding,
        )
        for link in links.links
        for attribute, finding in link.values.items()
    }
