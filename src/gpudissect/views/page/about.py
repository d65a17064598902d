"""The rest of a page about a result: warnings, prediction, older methods, conditions, device and versions."""

import re
from collections.abc import Iterator, Sequence

from gpudissect.errors import UsageError
from gpudissect.printable import brief, clean
from gpudissect.results.machine import CURVES, KINDS, machine_of
from gpudissect.results.model import ElementPrediction, PathPrediction, Result
from gpudissect.results.text import percent, quantity, title_of, words
from gpudissect.trace import OTHER_PROCESSES
from gpudissect.views.page.findings import value_text
from gpudissect.views.page.markup import Child, Markup, scrolling, table, tag
from gpudissect.views.terminal.hiding import (
    answer,
    hit_latencies,
    is_answered,
    model_errors,
    single_loads,
    throughput_table,
)
from gpudissect.views.terminal.table import restriction

MAX_ROWS = 500
MAX_FACT_LENGTH = 40  # characters
LINE_LENGTH = 2000  # characters: the window breaks sentences
_UTC = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)\S*(Z|\+00:00)")
_WARNINGS = ("throttling", OTHER_PROCESSES)
_BYTES = (
    *("l2_size", "l2_fetch_limit", "persisting_l2_size", "memory_size", "constant_size", "shared_per_sm"),
    *("shared_per_block", "default_shared_per_block", "reserved_shared_per_block"),
)
_UNITS = {"clock_hz": "Hz", "memory_clock_hz": "Hz", **dict.fromkeys(_BYTES, "B")}
_FACTS = {
    "compute_capability": "compute capability",
    "clock_hz": "clock",
    "l2_size": "L2",
    "shared_per_sm": "shared memory per SM",
    "memory_size": "memory",
}


def facts(result: Result) -> str:
    """What the driver states of the device, in one line."""
    known = {name: value for name in _FACTS if (value := result.device.facts.get(name)) is not None}
    parts = [f"{_FACTS[name]} {brief(_fact(name, value), MAX_FACT_LENGTH)}" for name, value in known.items()]
    return f"Stated by the driver, not measured: {', '.join([f'{result.device.sm_count} SMs', *parts])}."


def provenance(result: Result) -> list[str]:
    """When, where and with which driver it was measured, as far as that is known."""
    made = result.provenance
    driver = f"driver {made.driver}" if made.driver else ""
    time = brief(made.time or "", MAX_FACT_LENGTH)
    time = f"{utc[1]} {utc[2]} UTC" if (utc := _UTC.fullmatch(time)) else time
    return [each for each in (time, *(brief(text, MAX_FACT_LENGTH) for text in (made.host, driver) if text)) if each]


def notes(result: Result) -> Iterator[Markup]:
    """Warnings that every reader must see before the findings."""
    seen = result.conditions.notes
    texts = [f"{words(name)} while measuring: {'; '.join(seen[name])}" for name in _WARNINGS if seen.get(name)]
    texts += [f"failed: {each.experiment}: {each.reason}" for each in result.failures[:MAX_ROWS]]
    texts += ["interrupted: only what was measured until then"] if result.interrupted else []
    texts += [only] if (only := restriction(result)) else []
    if texts:
        yield caution(texts)


def caution(texts: Sequence[str]) -> Markup:
    """A box of warnings."""
    return tag("div", tag("ul", *(tag("li", each) for each in texts)), class_="caution", role="note")


def prediction(result: Result) -> Iterator[Markup]:
    """How well the inferred caches predict accesses that nothing was inferred from."""
    if (made := result.prediction) is None:
        return
    caches = [
        (title_of(each.element), *_shares(each), f"{each.hits_wrong} / {each.misses_wrong}")
        for each in made.elements[:MAX_ROWS]
    ]
    paths = [
        (each.path, *_shares(each), _counts(each.wrong), "; ".join(each.assumed)) for each in made.paths[:MAX_ROWS]
    ]
    head = ("predicted", "95 %", "possible", "accesses")
    interval = f"95 %: {made.low:.2%} .. {made.high:.2%}"
    text = f"{percent(made.agreement)} of {made.accesses} held-out random accesses predicted correctly ({interval})."
    parts = [table("Prediction", ("cache", *head, "mispredicted hits / misses"), caches)]
    if paths:
        parts.append(table("Whole paths", ("path, all its levels as one", *head, "mispredicted by", "assumed"), paths))
    if missing := [tag("li", f"{name}: {why}") for name, why in list(made.not_predicted.items())[:MAX_ROWS]]:
        parts += [tag("p", "Not predicted:"), tag("ul", *missing)]
    yield tag("section", tag("h3", "Prediction"), tag("p", text), *parts, class_="element")


def _shares(made: ElementPrediction | PathPrediction) -> tuple[str, str, str, str]:
    return (
        f"{made.agreement:.2%}",
        f"{made.low:.2%}\u00a0..\u00a0{made.high:.2%}",
        f"{made.possible:.2%}",
        str(made.accesses),
    )


def _counts(wrong: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in wrong.items()) or "none"


def latency_hiding(result: Result) -> Iterator[tuple[str, list[Markup], Markup]]:
    """How many warps hide latency: element, answer in sentences, and the tables behind it, for each kind of access."""
    if not is_answered(result):
        return
    try:
        machine = machine_of(result)
        for element, kind in KINDS.items():
            series = {each.name: each for each in result.series if each.element == element}
            if kind not in machine.units or CURVES not in series:
                continue
            sentences = [*answer(machine, kind, series[CURVES]), *single_loads(series, hit_latencies(result))]
            rows = [*throughput_table(series[CURVES], machine, kind, LINE_LENGTH), *model_errors(series, LINE_LENGTH)]
            lines = tag("pre", *((clean(row), Markup("\n")) for row in rows))
            folded = tag("summary", "Throughput as a table, and the models"), scrolling(None, lines)
            yield element, [tag("p", clean(text)) for text in sentences], tag("details", *folded, class_="group")
    except (UsageError, ArithmeticError, LookupError, TypeError, ValueError):  # the file may come from anywhere
        return


def older_methods(result: Result) -> Iterator[Markup]:
    """What older methods read on the same caches."""
    rows = [
        (
            title_of(each.element),
            words(each.attribute),
            quantity(each.value, each.unit) or "nothing",
            each.method,
            each.note,
        )
        for each in result.comparisons[:MAX_ROWS]
    ]
    if rows:
        body = table("Older methods", ("element", "attribute", "value", "method", "note"), rows)
        yield tag("section", tag("h3", "Older methods on the same caches"), body, class_="element")


def conditions(result: Result) -> Iterator[Markup]:
    """Clock, other conditions, options and duration of the measurement."""
    seen, options = result.conditions, result.options
    rows: list[tuple[str, str]] = []
    if seen.clock_hz is not None:
        source = "median while measuring" if seen.clock_observed else "as stated, not observed"
        rows.append(("clock for nanoseconds", f"{_fact('clock_hz', seen.clock_hz)}, {source}"))
    if seen.clock_low is not None and seen.clock_high is not None:
        low, high = (_fact("clock_hz", each) for each in (seen.clock_low, seen.clock_high))
        rows.append(("observed clocks", f"{low} .. {high}"))
    rows += [(words(name), "; ".join(texts)) for name, texts in list(seen.notes.items())[:MAX_ROWS]]
    profile = [f"profile {options.profile}"] if options.profile else []
    only = [f"only {', '.join(options.elements)}"] if options.elements else []
    quick = ["quick"] if options.quick else []
    precision = [f"precision {options.precision:g} %"] if options.precision else []
    rows.append(("options", ", ".join([f"seed {options.seed}", *quick, *precision, *profile, *only])))
    if result.seconds is not None:
        rows.append(("duration", f"{result.seconds:.1f} s, {result.workloads or 0} workloads"))
    yield _folded("Conditions", rows)


def environment(result: Result) -> Iterator[Markup]:
    """Versions, and everything that the driver states of the device."""
    device = result.device
    rows = [(words(name), f"{value}") for name, value in result.provenance if value is not None]
    rows += list(result.environment.items())[:MAX_ROWS]
    rows += [("analysis build", result.code)] if result.code else []
    stated = list(device.facts.items())[:MAX_ROWS]
    rows += [(words(name), _fact(name, value)) for name, value in stated if value is not None]
    rows += [(f"no path {path}", reason) for path, reason in list(device.unsupported.items())[:MAX_ROWS]]
    yield _folded("Device and versions", rows)


def _folded(title: str, rows: Sequence[tuple[str, str]]) -> Markup:
    terms: list[Child] = [(tag("dt", name), tag("dd", text)) for name, text in rows]
    return tag("details", tag("summary", title), tag("dl", *terms), class_="group")


def _fact(name: str, value: float | int | str) -> str:
    unit = _UNITS.get(name, "")
    if isinstance(value, str):
        return value
    if unit == "Hz":
        return f"{value / 1e6:.6g} MHz"
    return value_text(value, unit) if unit else f"{value:.6g}" if isinstance(value, float) else str(value)
