"""The first screen of a page: the summary, verdicts on published values, what is remarkable, different or uncertain."""

from collections import Counter
from collections.abc import Iterator

from gpudissect.printable import brief, cut
from gpudissect.results.folded import folded, folded_published, rounded
from gpudissect.results.model import Finding, Result
from gpudissect.results.summary import Level, Remark, Summary, Tlb
from gpudissect.results.text import title_of, words
from gpudissect.views.page.markup import Child, Markup, table, tag

MAX_REASON_LENGTH, MAX_SOURCE_LENGTH = 160, 18  # characters; the finding has all of them
MAX_REMARKS = 60
LEVEL_HEAD = ("level", "size", "cycles", "ns", "read bandwidth", "line", "sets x ways", "published")
NS_DIGITS = 3


def level_row(level: Level) -> tuple[str, ...]:
    """One level as texts, in the order of `LEVEL_HEAD`."""
    sets, ways = (_text(each) for each in (level.sets, level.ways))
    return (
        level.name,
        ", 2 x ".join(filter(None, (_text(level.size), _text(level.partition_size)))),
        *_latency(level),
        _bandwidth(level),
        _text(level.line),
        f"{sets} x {ways}" if sets and ways else "",
        _agreement(level.agreement),
    )


def tlb_line(tlb: Tlb) -> str:
    """One TLB as a line of text."""
    entries, page, reach, miss = (_text(each) for each in (tlb.entries, tlb.page_size, tlb.reach, tlb.miss_penalty))
    size = f"{entries} x {page}" if entries and page else entries or page
    reached, missed = f"reach {reach}" if reach else "", f"a miss adds {miss}" if miss else ""
    has_miss_cache = tlb.miss_cache is not None and tlb.miss_cache.value
    miss_cache = f"{_text(tlb.miss_cache)}-entry miss cache" if has_miss_cache else ""
    return ", ".join(filter(None, (size, reached, miss_cache, missed, tlb.sharing)))


def overview(result: Result, summary: Summary) -> Iterator[Markup]:
    """Table of levels, TLBs and warps; then verdicts and remarks."""
    rows = [level_row(level) for level in summary.levels]
    columns = [n for n in range(len(LEVEL_HEAD)) if any(row[n] for row in rows)]
    if rows:
        yield table("Summary", [LEVEL_HEAD[n] for n in columns], ([_broken(row[n]) for n in columns] for row in rows))
    terms: list[tuple[str, Child]] = [(tlb.name, tlb_line(tlb)) for tlb in summary.tlbs]
    if summary.warps:
        terms.append(("Warps per SM", summary.warps_needed))
    if summary.latency_by_sm:
        terms.append(
            (title_of("l2"), f"hit {summary.latency_by_sm}, depending on the SM; the table has the median over SMs")
        )
    terms += [("Not stable", reason) for reason in summary.instabilities]
    if verdicts := _verdicts(result, summary):
        terms.append(("Published values", verdicts))
    if sentences := list(remarkable(result)):
        terms.append(("Remarkable", tag("ul", *(tag("li", each) for each in sentences))))
    if terms:
        yield tag("dl", *(each for name, text in terms for each in (tag("dt", name), tag("dd", text))), class_="brief")


def _broken(text: str) -> Child:
    """A cell with a line for each part."""
    first, *rest = text.split(", ")
    return [first, *([tag("br"), part] for part in rest)]


def differences(result: Result, summary: Summary) -> Markup | None:
    """What differs from published values, and by how much; None without any."""
    by_name = {(each.element, each.attribute): each for each in result.findings}
    rows = []
    for remark in [each for each in summary.remarks if each.is_difference][:MAX_REMARKS]:
        known = by_name[remark.element, remark.attributes[0]].published
        if known is not None:
            source = tag("span", cut(known.source, MAX_SOURCE_LENGTH), title=known.source)
            rows.append((_name(remark), remark.value, folded_published(known), known.text, source))
    if not rows:
        return None
    head = tag("h2", f"Different from published values ({len(rows)})")
    return tag("section", head, table("Different", ("value", "found", "published", "difference", "source"), rows))


def uncertainties(summary: Summary) -> Markup | None:
    """What is uncertain or was not found, each with its reason; None without any."""
    listed = [each for each in summary.remarks if not each.is_difference]
    if not listed:
        return None
    items = [tag("li", *_remark(each)) for each in listed[:MAX_REMARKS]]
    return tag("section", tag("h2", f"Uncertain or not found ({len(listed)})"), tag("ul", *items, class_="remarks"))


def _name(remark: Remark) -> str:
    return f"{title_of(remark.element, short=True)}, {', '.join(map(words, remark.attributes))}"


def _remark(remark: Remark) -> Iterator[Child]:
    yield tag("b", f"{title_of(remark.element)}, {', '.join(map(words, remark.attributes))}: ")
    yield remark.value
    reason = cut(remark.reason, MAX_REASON_LENGTH)
    yield tag("span", f" · {reason}", class_="why", title=remark.reason if reason != remark.reason else None)


def _agreement(text: str) -> str:
    """``agrees``, or what differs behind a sign."""
    for verb in (" differs", " differ"):
        if text.endswith(verb):
            return f"≠ {text.removesuffix(verb)}"
    return text


def _text(finding: Finding | None) -> str:
    return folded(finding) if finding is not None else ""


def _latency(level: Level) -> tuple[str, str]:
    """Latency in cycles and in ns; that of both partitions of an L2."""
    both = [each for each in (level.latency, level.far_latency) if each is not None and each.status.has_value]
    cycles = " / ".join(folded(each, unit=False) for each in both)
    return cycles, " / ".join(f"{each.value_ns:.{NS_DIGITS}g}" for each in both if each.value_ns is not None)


def _bandwidth(level: Level) -> str:
    """Read bandwidth, with the footprint it holds for where it depends on it."""
    if not (ends := level.bandwidth_ends):
        return _text(level.bandwidth)
    return ", ".join(f"{rounded(rate, 'B/s')} at {rounded(size, 'B')}" for size, rate in ends)


def _verdicts(result: Result, summary: Summary) -> str:
    """How many values agree with published ones and how many do not, and of which GPU those are."""
    counts = Counter(each.published.verdict.value for each in result.findings if each.published is not None)
    texts = [f"{name} {count}" for name, count in sorted(counts.items(), key=lambda each: -each[1])]
    of = f"; of catalogue entry {brief(summary.reference, 40)}, a related GPU" if summary.reference else ""
    return f"{', '.join(texts)}{of}" if texts else ""


def remarkable(result: Result) -> Iterator[str]:
    """Properties that no data sheet states, in a sentence each."""
    found = {f"{each.element}.{each.attribute}": each for each in result.findings if each.status.has_value}

    def text(name: str) -> str:
        return _text(found.get(name))

    index = found.get("l1.index_function")
    if index is not None and str(index.value).startswith("xor"):
        bits = str(index.value).replace("^", " ").split()[1:]
        highest = max(map(int, bits))
        end = " (higher ones were not tested)" if any(f"below {highest + 1} " in each for each in index.caveats) else ""
        yield f"The L1 chooses its set by a hash of address bits {min(map(int, bits))} to {highest}{end}."
    near, far = found.get("l2.near_latency"), found.get("l2.far_latency")
    if near and far and isinstance(near.value, int | float) and isinstance(far.value, int | float):
        yield f"The L2 has two partitions; a hit in the far one takes {far.value - near.value:.0f} cycles longer."
    texture, data = found.get("texture.hit_latency"), found.get("l1.hit_latency")
    shared = found.get("texture.shared_with")
    if texture and data and shared and "l1" in str(shared.value).split(", ") and texture.value != data.value:
        yield f"Texture loads hit the L1's array in {text('texture.hit_latency')}, global loads in {folded(data)}."
    reach, memory = found.get("tlb_l2.reach"), found.get("dram.capacity")
    if (
        reach
        and memory
        and isinstance(reach.value, int)
        and isinstance(memory.value, int)
        and reach.value < memory.value
    ):
        penalty, by_sm = text("tlb_l2.miss_penalty"), found.get("tlb_l2.tlb_by_sm")
        yield f"The L2 TLB reaches {folded(reach)} in one piece, of {folded(memory)}; a miss adds {penalty}."
        if by_sm is not None and isinstance(by_sm.value, tuple) and len(set(by_sm.value)) > 1:
            yield f"For random loads, all SMs of an L2 TLB should load from the same {folded(reach)}."
    code = found.get("icache_l1.shared_with")
    if code and "constant_l15" in str(code.value).split(", "):
        yield "Code that fills the L1 instruction cache evicts constants from their L1.5: both share a cache."
