"""Arrays and views of caches, and TLB levels: which elements have an array, and its entries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpudissect.catalogue.arrays import MAX_WAYS
from gpudissect.estimate import Status
from gpudissect.exports.gpu.chip import REQUIRED
from gpudissect.exports.gpu.geometry import Entries, geometry, scaled_to, usual_ways
from gpudissect.exports.readings import MAX_COUNT, Entry, Readings, assumed, round_cycles, sourced
from gpudissect.simulation.cache.check import MAX_PARTITIONS
from gpudissect.simulation.cache.geometry import PARTITION_COUNT
from gpudissect.units import KIB, MIB
from gpudissect.vocabulary import CACHES, PATHS, TLBS

PRIVATE = tuple(element for element in CACHES if element != "l2")
PATH_OF = {element: path for path, elements in PATHS.items() for element in elements}
VIEWED = ("capacity", "line_size", "fetch_granularity", "sets", "count_per_sm")
PENALTY_PATTERNS = ("p1", "p3", "p4", "p5")  # of the latency spectrum
MAX_SECTORS = 32  # of a line
MAX_LINE = 1 << 16  # bytes
MAX_COPIES = 64
MAX_ENTRIES = 2**20
MAX_REACH = 2**48  # bytes: addresses have no more bits
ASSUMED_LINE, ASSUMED_FETCH = 128, 32  # bytes
ASSUMED_CAPACITY, ASSUMED_L2_CAPACITY = 32 * KIB, 4 * MIB
ASSUMED_HOME_BITS = (12, 15, 18, 21, 24, 27)
ASSUMED_GRANULE = 4 * KIB


@dataclass(frozen=True)
class Arrays:
    """Entries of each array, of each element that looks into another's, and of an L2 in partitions.

    If there is a `partition`, `caches` describes one of them.
    """

    caches: Mapping[str, Entries]
    views: Mapping[str, Entries]
    partition: Entries | None


def arrays(readings: Readings, known: Sequence[str]) -> Arrays:
    """Arrays and views of the elements `known`, the L2 among them or not.

    Raises `UsageError` for a cache that is too large to be simulated.
    """
    owners = array_owners(readings, [element for element in PRIVATE if element in known])
    caches = {element: _cache(readings, element) for element, owner in owners.items() if element == owner}
    views = {
        element: _view(readings, element, owner, caches[owner]) for element, owner in owners.items() if element != owner
    }
    if "l2" not in known:
        return Arrays(caches, views, None)
    partition = _partition(readings)
    size = partition["capacity"]["value"] // _partition_count(readings) if partition else None
    return Arrays(caches | {"l2": _cache(readings, "l2", partition=size)}, views, partition)


def array_owners(readings: Readings, elements: Sequence[str]) -> dict[str, str]:
    """For each element the one whose array it shares: itself, or an earlier one.

    Two share if one was found to and the other not found not to; two elements of one path never do.
    """
    texts = {element: readings.text(element, "shared_with") for element in elements}
    claims = {
        element: None if text is None else {part.strip() for part in text.split(",")} for element, text in texts.items()
    }

    def agree(one: str, other: str) -> bool:
        pairs = ((claims[one], other), (claims[other], one))
        return {name in claim for claim, name in pairs if claim is not None} == {True}

    owners = {element: element for element in elements}
    for i, element in enumerate(elements):
        for other in elements[:i]:
            group = [element, *(name for name in elements if owners[name] == owners[other])]
            on_one_path = len({PATH_OF[name] for name in group}) < len(group)
            if owners[element] == element and agree(element, other) and not on_one_path:
                owners[element] = owners[other]
    return owners


def tlbs(readings: Readings) -> tuple[dict[str, Entries], Entries]:
    """The TLB levels of known entries and page size in lookup order, and the table ``[walk]``, empty without them.

    A miss is found to cost more than a hit in that level; a GPU file counts from a hit in the first.
    """
    levels = {level: table for level in TLBS if (table := _tlb(readings, level)) is not None}
    penalty: Entry | None = None
    for previous, level in zip([None, *levels], levels, strict=False):
        if previous is not None and penalty is not None:
            levels[previous]["penalty"] = penalty
        penalty = _penalty(readings, level, penalty)
    return levels, {} if penalty is None else {"penalty": penalty} | _cold_penalty(readings)


def prefetch(readings: Readings) -> Entries:
    """What the L2 fetches ahead of a run of misses; empty if nothing."""
    reach, run = readings.entry("l2", "prefetch_reach"), readings.entry("l2", "prefetch_run")
    if reach is None or run is None or not 0 < reach["value"] <= MAX_REACH or run["value"] < 1:
        return {}
    steps = {key: value - 1 if key in ("value", "low", "high") else value for key, value in run.items()}
    return {"reach": reach, "run": steps}  # a run of n misses has n - 1 steps


def _view(readings: Readings, element: str, owner: str, array: Entries) -> Entries:
    """A view repeats what was found for it, where that is the same as for the array."""
    same = {
        attribute: entry
        for attribute, entry in readings.entries(element, VIEWED).items()
        if attribute in array and entry["value"] == array[attribute]["value"]
    }
    finding = readings.finding(element, "shared_with") or readings.finding(owner, "shared_with")
    note = "; ".join(finding.caveats) if finding is not None else ""
    return {"of": sourced(owner, readings.source, note=note)} | same


def _cache(readings: Readings, element: str, partition: int | None = None) -> Entries:
    """Entries of an array; `partition`: bytes of one of two."""
    line, fetch = _line_and_fetch(readings, element)
    size = line["value"]
    capacity = _capacity(readings, element, size)
    if partition is not None:
        segment = readings.entry("l2", "segment_size")
        is_found = segment is not None and segment["value"] == partition
        capacity = segment if segment and is_found else assumed(partition, "half of both partitions")
    lines = capacity["value"] // size
    lines, structure = geometry(readings, element, lines, size, usual_ways(lines))
    capacity = scaled_to(capacity, lines, size, readings)
    entries = {"capacity": capacity, "line_size": line, "fetch_granularity": fetch} | structure
    copies = readings.entry(element, "count_per_sm")
    if element != "l2" and copies is not None and copies["value"] in range(1, MAX_COPIES + 1):
        entries["count_per_sm"] = copies
    return entries


def _line_and_fetch(readings: Readings, element: str) -> tuple[Entry, Entry]:
    line, fetch = (_power_of_two(readings, element, name) for name in ("line_size", "fetch_granularity"))
    if line is None:
        if fetch is None:
            line, fetch = (assumed(size, f"not found; {size} B taken") for size in (ASSUMED_LINE, ASSUMED_FETCH))
            return line, fetch
        line = assumed(fetch["value"], "not found; as large as what one miss fetches")
    size = line["value"]
    if fetch is None:
        return line, assumed(max(4, size), "not found; a whole line")
    if size // MAX_SECTORS <= fetch["value"] <= size:
        return line, fetch
    reason = f"one miss was found to fetch {fetch['value']} B, of which no line of {size} B is made; a whole line taken"
    return line, assumed(size, reason)


def _power_of_two(readings: Readings, element: str, attribute: str) -> Entry | None:
    entry = readings.entry(element, attribute)
    if entry is None or not 4 <= entry["value"] <= MAX_LINE or entry["value"] & (entry["value"] - 1):
        return None
    return entry


def _capacity(readings: Readings, element: str, line: int) -> Entry:
    """The capacity of an array in whole lines: found, or so large that a survey finds the same bound again."""
    entry, finding = readings.entry(element, "capacity"), readings.finding(element, "capacity")
    if entry is not None and entry["value"] >= line:
        if entry["value"] % line == 0:
            return entry
        reason = f"found {entry['value']} B, which is no whole number of lines; those that fit"
        return assumed(entry["value"] // line * line, reason)
    low = finding.low if finding is not None and not finding.status.has_value else None
    if finding is None or low is None or not line <= low <= MAX_COUNT:
        return _unknown_capacity(readings, element, line)
    if finding.high is None:  # the path ends before the cache does: constant memory
        is_constant = PATH_OF.get(element) == "constant"
        path_end = (readings.fact("constant_size") or REQUIRED["constant_size"]) if is_constant else 0
        size = -(-max(int(low), path_end) // line) * line
        return sourced(size, readings.source, low=int(low), note=finding.reason)
    return assumed(int(low) // line * line, f"{finding.status.value}, {finding.reason}; the low end taken")


def _unknown_capacity(readings: Readings, element: str, line: int) -> Entry:
    stated = readings.fact("l2_size") if element == "l2" else None
    if stated is not None and stated >= line:
        return assumed(stated // line * line, "not found; what the driver states")
    size = max(line, ASSUMED_L2_CAPACITY if element == "l2" else ASSUMED_CAPACITY)
    return assumed(size, f"not found; {size >> 10} KiB taken")


def _partition(readings: Readings) -> Entries | None:
    """The table ``[partition]`` of an L2 whose far partition was observed."""
    near, far = readings.number("l2", "hit_latency"), readings.number("l2", "far_latency")
    if near is None or far is None or far <= near:
        return None
    line = _line_and_fetch(readings, "l2")[0]["value"]
    count = _partition_count(readings)
    bits = dict.fromkeys(max(bit, line.bit_length() - 1) for bit in ASSUMED_HOME_BITS)
    home: Entries = {"home": assumed(list(bits), "which bits select the partition was not measured")}
    if count > PARTITION_COUNT:
        granule = -(-ASSUMED_GRANULE // line) * line
        home = {"count": assumed(count, "capacity by segment_size"), "granule": assumed(granule, "not measured")}
    table = {
        "capacity": _whole_capacity(readings, line),
        **home,
        "far_penalty": readings.sum(far, -near, "far_latency less hit_latency of the L2"),
    }
    near, far = readings.number("dram", "near_latency"), readings.number("dram", "far_latency")
    if near is not None and far is not None and far >= near:
        table["far_memory_penalty"] = readings.sum(far, -near, "far_latency less near_latency of memory")
    return table


def _partition_count(readings: Readings) -> int:
    """How many segments of the L2 make its capacity; two if either was not found."""
    segment, whole = readings.number("l2", "segment_size"), readings.number("l2", "capacity")
    if not segment or not whole:
        return PARTITION_COUNT
    return min(MAX_PARTITIONS, max(PARTITION_COUNT, round(whole / segment)))


def _whole_capacity(readings: Readings, line: int) -> Entry:
    """Capacity of all partitions of the L2."""
    count = _partition_count(readings)
    segment, both = readings.whole("l2", "segment_size"), readings.entry("l2", "capacity")
    if segment is None or segment < line:
        total = (both or _unknown_capacity(readings, "l2", count * line))["value"]
        segment = max(1, total // count // line) * line
    total = count * (segment // line * line)
    as_near = f"{'two' if count == PARTITION_COUNT else count} partitions of the size of the near one taken"
    if both is None:
        return assumed(total, f"not found; {as_near}")
    if both["value"] == total:
        return both
    note = f"found as {both['value']} B; {as_near}"
    if both.get("low", total) <= total <= both.get("high", total):
        bracket = {end: both[end] for end in ("low", "high") if end in both}
        return sourced(total, readings.source, note=note, **bracket)
    return assumed(total, note)


def _tlb(readings: Readings, level: str) -> Entries | None:
    entries, page = _entries_and_page(readings, level)
    if entries is None or page is None or entries["value"] * page["value"] > MAX_REACH:
        return None
    count = entries["value"]
    # Scattered pages were found to fit as well: an assumed TLB is one set.
    usual = count if count <= MAX_WAYS else usual_ways(count)
    lines, structure = geometry(readings, level, count, page["value"], usual)
    miss_cache = readings.entry(level, "miss_cache")
    more = {"miss_cache": miss_cache} if miss_cache is not None and 1 <= miss_cache["value"] <= MAX_WAYS else {}
    if (by_sm := _by_sm(readings, level)) is not None:
        more["tlb_by_sm"] = by_sm
    return {"entries": scaled_to(entries, lines, 1, readings), "page_size": page, **more} | structure


def _by_sm(readings: Readings, level: str) -> Entry | None:
    """The number of the TLB of each SM, where that is known."""
    finding = readings.finding(level, "tlb_by_sm")
    if finding is None or finding.status is not Status.FOUND or not isinstance(finding.value, tuple):
        return None
    numbers = {*finding.value}
    if len(finding.value) != readings.result.device.sm_count or numbers != {*range(len(numbers))}:
        return None
    return sourced([int(number) for number in finding.value], readings.source)


def _entries_and_page(readings: Readings, level: str) -> tuple[Entry | None, Entry | None]:
    """Two of entries, page size and reach give the third."""
    entries, page = (readings.entry(level, attribute) for attribute in ("entries", "page_size"))
    reach = readings.whole(level, "reach")
    if entries is not None and not 1 <= entries["value"] <= MAX_ENTRIES:
        entries = None
    if page is not None and (page["value"] < 1 or page["value"] & (page["value"] - 1)):
        page = None
    if entries is None and page is not None and reach is not None:
        entries = assumed(min(max(1, reach // page["value"]), MAX_ENTRIES), "follows from reach and page size")
    elif page is None and entries is not None and reach is not None:
        page = assumed(1 << max(1, reach // entries["value"]).bit_length() - 1, "follows from reach and entries")
    return entries, page


def _penalty(readings: Readings, level: str, previous: Entry | None) -> Entry:
    """Cycles of a miss in this level and in all before it."""
    found = readings.entry(level, "miss_penalty")
    if previous is None:
        return found or assumed(0, "not found")
    if found is None:
        return assumed(previous["value"], "not found; as much as a miss in the level before")
    total = readings.sum(previous["value"], found["value"], f"miss_penalty of {level} and of the levels before")
    if "assumed" in previous:
        return assumed(total["value"], f"miss_penalty of {level}; that of a level before was not found")
    return total


def _cold_penalty(readings: Readings) -> Entries:
    """Cycles of a page walk if memory serves the data, P5 - P4; empty unless that is surely more than P3 - P1."""
    found = readings.entries("spectrum_global_l2", PENALTY_PATTERNS).values()
    if len(found) < len(PENALTY_PATTERNS) or not all("low" in entry and "high" in entry for entry in found):
        return {}
    p1, p3, p4, p5 = found
    low, high = round_cycles(p5["low"] - p4["high"]), round_cycles(p5["high"] - p4["low"])
    if low <= max(0, p3["high"] - p1["low"]):
        return {}
    value, note = round_cycles(p5["value"] - p4["value"]), "P5 - P4 of the latency spectrum"
    return {"cold_penalty": sourced(value, readings.source, low=low, high=high, note=note)}
