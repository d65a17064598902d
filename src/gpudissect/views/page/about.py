"""What else a page says of a result: conditions, warnings, prediction, older methods, where and with what it ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from gpudissect.errors import UsageError
from gpudissect.results.command import only_asked
from gpudissect.results.model import Result
from gpudissect.results.names import title_of, words
from gpudissect.results.text import brief, clean, quantity
from gpudissect.views.page.findings import plain
from gpudissect.views.page.markup import Child, Markup, tag
from gpudissect.views.page.words import value_words
from gpudissect.views.terminal.hiding import is_answered, lines

_CAUTIONS = ("throttling", "other_processes")
_UNITS = {
    "clock_hz": "Hz", "memory_clock_hz": "Hz", "l2_size": "B", "l2_fetch_limit": "B", "memory_size": "B",
    "constant_size": "B", "shared_per_sm": "B", "shared_per_block": "B",
}  # fmt: skip
MOST_ROWS = 500
LONGEST_FACT = 40  # characters
LINE = 2000  # characters: sentences are not broken, the reader's window does that


def facts(result: Result) -> str:
    """What is stated of the device, in a line."""
    device = result.device
    parts = [f"{device.sm_count} SMs"]
    for name, what, unit in (("compute_capability", "compute capability", ""), ("clock_hz", "clock", "Hz"),
                             ("l2_size", "L2", "B"), ("shared_per_sm", "shared memory an SM", "B"),
                             ("memory_size", "memory", "B")):  # fmt: skip
        if (value := device.facts.get(name)) is not None:
            parts.append(f"{what} {brief(_fact(value, unit), LONGEST_FACT)}")
    return "Stated, not measured: " + ", ".join(parts) + "."


def notes(result: Result) -> Iterator[Markup]:
    """What every reader must see before the findings."""
    said: list[str] = [f"{words(name)} while measuring: {'; '.join(result.conditions.notes[name])}"
                       for name in _CAUTIONS if result.conditions.notes.get(name)]  # fmt: skip
    said += [f"failed: {each.experiment}: {each.reason}" for each in result.failures[:MOST_ROWS]]
    if result.interrupted:
        said.append("interrupted: what was measured until then")
    if only := only_asked(result):
        said.append(only)
    if said:
        yield tag("div", tag("ul", *(tag("li", each) for each in said)), class_="caution", role="note")


def foretold(result: Result) -> Iterator[Markup]:
    """How well the caches, as found, foretell accesses that nothing was inferred from."""
    if (made := result.prediction) is None:
        return
    rows = [(title_of(each.element), f"{each.agreement:.2%}", f"{each.low:.2%} .. {each.high:.2%}",
             f"{each.possible:.2%}", str(each.accesses), f"{each.hits_wrong} / {each.misses_wrong}")
            for each in made.elements[:MOST_ROWS]]  # fmt: skip
    said = (f"Of {made.accesses} random accesses, not seen before, {made.agreement:.2%} came as foretold by what was "
            f"found (95 %: {made.low:.2%} .. {made.high:.2%}).")  # fmt: skip
    head = ("cache", "foretold", "95 %", "possible", "accesses", "hits / misses foretold wrongly")
    paths = [(each.path, f"{each.agreement:.2%}", f"{each.low:.2%} .. {each.high:.2%}", f"{each.possible:.2%}",
              str(each.accesses), ", ".join(f"{name} {count}" for name, count in each.wrong.items()) or "none",
              "; ".join(each.assumed)) for each in made.paths[:MOST_ROWS]]  # fmt: skip
    whole = ("path, all its levels as one", "foretold", "95 %", "possible", "accesses", "misjudged by", "assumed")
    left = [tag("li", f"{name}: {why}") for name, why in list(made.unforetold.items())[:MOST_ROWS]]
    yield tag("section", tag("h3", "Prediction"), tag("p", said), table("Prediction", head, rows),
              table("Whole paths", whole, paths) if paths else None,
              tag("p", "Not foretold:") if left else None, tag("ul", *left) if left else None,
              class_="element")  # fmt: skip


def hidden(result: Result) -> Iterator[Markup]:
    """How many warps hide latency, in words and as a table, of a result that knows."""
    if not is_answered(result):
        return
    try:
        told = [clean(line) for line in lines(result, LINE)]
    except UsageError:  # what stands in a stranger's file: the findings are shown all the same
        return
    body = []
    for is_text, own in groupby(told, key=lambda line: bool(line) and "  " not in line):  # rows of tables are spaced
        if is_text:
            body += [tag("p", line) for line in own]
        elif any(text := list(own)):
            rows = [part for line in text for part in (line, Markup("\n"))]
            body.append(tag("div", tag("pre", *rows), class_="scroll", tabindex="0"))
    title = "How many warps hide latency"
    yield tag("section", tag("h2", title), *body, aria_label=title)


def readings(result: Result) -> Iterator[Markup]:
    """What older methods read on the same caches."""
    if not result.comparisons:
        return
    rows = [(title_of(each.element), words(each.attribute),
             "nothing" if each.value is None else quantity(each.value, each.unit), each.method, each.note)
            for each in result.comparisons[:MOST_ROWS]]  # fmt: skip
    head = ("element", "attribute", "value", "method", "note")
    yield tag("section", tag("h3", "Older methods on the same caches"), table("Older methods", head, rows),
              class_="element")  # fmt: skip


def conditions(result: Result) -> Iterator[Markup]:
    """Under what conditions it was measured."""
    seen = result.conditions
    rows: list[tuple[str, str]] = []
    if seen.clock_hz is not None:
        how = "median seen while measuring" if seen.clock_seen else "as stated, none was seen"
        rows.append(("clock for nanoseconds", f"{_fact(seen.clock_hz, 'Hz')}, {how}"))
    if seen.clock_low is not None and seen.clock_high is not None:
        rows.append(("clocks seen", f"{_fact(seen.clock_low, 'Hz')} .. {_fact(seen.clock_high, 'Hz')}"))
    rows += [(words(name), "; ".join(texts)) for name, texts in list(seen.notes.items())[:MOST_ROWS]]
    options = result.options
    asked = [f"seed {options.seed}", *(["quick"] if options.quick else []),
             *([f"only {', '.join(options.elements)}"] if options.elements else [])]  # fmt: skip
    rows.append(("asked for", ", ".join(asked)))
    if result.seconds is not None:
        rows.append(("took", f"{result.seconds:.1f} s, {result.workloads or 0} workloads"))
    yield _folded("Conditions", rows)


def environment(result: Result) -> Iterator[Markup]:
    """Versions, and everything that is stated of the device."""
    device = result.device
    rows = [(name, text) for name, text in list(result.environment.items())[:MOST_ROWS]]
    rows += [("code that read the traces", result.code)] if result.code else []
    rows += [(words(name), _fact(value, _UNITS.get(name, "")))
             for name, value in list(device.facts.items())[:MOST_ROWS] if value is not None]  # fmt: skip
    rows += [(f"no path {path}", reason) for path, reason in list(device.unsupported.items())[:MOST_ROWS]]
    yield _folded("Device and versions", rows)


def table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table that scrolls within its own width."""
    header = tag("tr", *(tag("th", each, scope="col") for each in head))
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return tag("div", tag("table", tag("thead", header), tag("tbody", *body)), class_="scroll", tabindex="0",
               role="region", aria_label=name)  # fmt: skip


def _folded(title: str, rows: Sequence[tuple[str, str]]) -> Markup:
    terms: list[Child] = [each for name, text in rows for each in (tag("dt", name), tag("dd", text))]
    return tag("details", tag("summary", title), tag("dl", *terms), class_="group")


def _fact(value: float | int | str, unit: str) -> str:
    if isinstance(value, str):
        return value
    if unit == "Hz":
        return f"{value / 1e6:.6g} MHz"
    return value_words(value, unit) if unit else plain(value)
