"""The tables that describe arrays, caches and TLBs. Their geometry must multiply out."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from gpudissect.catalogue.quantity import Bit, Count, Cycles, Number, Position, Size, Sourced, Table, wrong
from gpudissect.simulation.cache.check import MAX_ORDER_LENGTH
from gpudissect.simulation.cache.geometry import ROOM_POLICIES, Fill, IndexKind, Policy, PolicyKind, Scope

MAX_WAYS = 1 << 14
MAX_LINES = 1 << 23  # 256 MiB in lines of 32 B


class Run(Table):
    """`sets` neighbouring sets of `ways` ways; without `sets`: all of them."""

    ways: Count
    sets: Count | None = None


def _runs(given: Any) -> Any:
    if isinstance(given, int) and not isinstance(given, bool):
        return [{"ways": given}]
    if not isinstance(given, list) or not given:
        raise ValueError("a number of ways, or a list such as [{ sets = 1, ways = 17 }, { sets = 6, ways = 8 }]")
    return given


Ways = Annotated[tuple[Run, ...], BeforeValidator(_runs)]
_FIELD_BY_KIND = {IndexKind.BITS: "bits", IndexKind.XOR: "masks", IndexKind.TABLE: "table"}


class IndexTable(Table):
    """An index function: `bits` for bits; `masks`, each a list of address bits, for xor; `table` for table."""

    kind: IndexKind
    bits: tuple[Bit, ...] = ()
    masks: tuple[tuple[Bit, ...], ...] = ()
    table: tuple[Position, ...] = ()
    granule: Position = 0

    @model_validator(mode="after")
    def _check_fields_of_kind(self) -> IndexTable:
        expected = _FIELD_BY_KIND.get(self.kind)
        for field in ("bits", "masks", "table"):
            if getattr(self, field) and field != expected:
                allowed = f"index kind {self.kind.value!r} takes {expected or 'granule'}"
                wrong(field, list(getattr(self, field)), allowed)
        if self.granule and self.kind not in (IndexKind.MODULO, IndexKind.TABLE):
            wrong("granule", self.granule, "only index kinds 'modulo' and 'table' take a granule")
        return self

    def check(self, sets: int, line: int, place: str = "index_function.value") -> None:
        """Reject an index that does not number `sets` sets with lines of `line` bytes; errors name `place`."""
        if self.kind in (IndexKind.BITS, IndexKind.XOR) and line & (line - 1):
            wrong(f"{place}.kind", self.kind.value, f"'modulo' or 'table': lines of {line} B are no power of two")
        if self.kind in (IndexKind.BITS, IndexKind.XOR):
            self._check_bits(f"{place}.{_FIELD_BY_KIND[self.kind]}", sets, line.bit_length() - 1)
        elif self.kind is IndexKind.TABLE and set(self.table) != set(range(sets)):
            wrong(f"{place}.table", sorted(set(self.table))[:8], f"every set 0..{sets - 1} and no other")
        if self.granule % line:
            wrong(f"{place}.granule", self.granule, f"a multiple of the line, {line} B (0: the line)")

    def _check_bits(self, place: str, sets: int, lowest: int) -> None:
        masks = self.masks or tuple((bit,) for bit in self.bits)
        if 2 ** len(masks) != sets:
            wrong(place, len(masks), f"{sets} sets need 2^n = {sets}, a list of n")
        if any(bit < lowest for mask in masks for bit in mask):
            low = min(bit for mask in masks for bit in mask)
            wrong(place, low, f"address bits from {lowest} (above the line) to 47")
        if any(not mask for mask in masks):
            wrong(place, [], "every mask names at least one address bit")
        if _rank(masks) < len(masks):
            wrong(place, list(self.masks or self.bits), "independent bits, or some sets stay empty")


def _rank(masks: tuple[tuple[int, ...], ...]) -> int:
    """Rank over GF(2) of masks given as lists of bits."""
    basis: list[int] = []
    for mask in masks:
        rest = sum(1 << bit for bit in set(mask))
        for vector in basis:
            rest = min(rest, rest ^ vector)
        if rest:
            basis.append(rest)
    return len(basis)


class PolicyTable(Table):
    """A replacement policy; `weights`, one per way and summing to 1, for weighted; `order`, ways from 1, for order."""

    kind: PolicyKind
    weights: tuple[Number, ...] = ()
    order: tuple[Count, ...] = ()

    def check(self, ways: tuple[int, ...]) -> None:
        """Reject a policy that cannot run sets of these ways."""
        place = "replacement_policy.value.weights"
        if self.kind is PolicyKind.WEIGHTED:
            if set(ways) != {len(self.weights)}:
                wrong(place, len(self.weights), f"one per way, sets have {sorted(set(ways))}")
            if abs(sum(self.weights) - 1) > 1e-6:
                wrong(place, sum(self.weights), "a sum of 1")
        elif self.weights:
            wrong(place, list(self.weights), "only kind 'weighted' takes weights")
        self._check_order(min(ways))
        if self.kind is PolicyKind.PLRU and any(count & (count - 1) for count in ways):
            wrong("replacement_policy.value.kind", "plru", f"ways that are a power of two, got {sorted(set(ways))}")

    def policy(self) -> Policy:
        """The policy, with weights that sum to 1 exactly."""
        total = sum(self.weights)
        return Policy(self.kind, tuple(weight / total for weight in self.weights), self.order)

    def _check_order(self, ways: int) -> None:
        place = "replacement_policy.value.order"
        if self.kind is not PolicyKind.ORDER:
            if self.order:
                wrong(place, list(self.order), "only kind 'order' takes an order")
        elif not 1 <= len(self.order) <= MAX_ORDER_LENGTH:
            wrong(place, len(self.order), f"1 to {MAX_ORDER_LENGTH} ways")
        elif max(self.order) > ways:
            wrong(place, max(self.order), f"ways 1 to {ways}, which every set has")


class Lines(Table):
    """Sets, ways, index and policy: what caches and TLBs have in common."""

    sets: Sourced[Count]
    ways: Sourced[Ways]
    index_function: Sourced[IndexTable]
    replacement_policy: Sourced[PolicyTable]

    def ways_of_sets(self) -> tuple[int, ...]:
        """Ways of each set."""
        runs = self.ways.value
        if len(runs) == 1:
            return (runs[0].ways,) * (runs[0].sets or self.sets.value)
        return tuple(way for run in runs for way in (run.ways,) * (run.sets or 0))

    def _check_lines(self, line: int) -> int:
        """The number of lines. Rejects sets and ways that contradict each other."""
        runs = self.ways.value
        if len(runs) > 1 and any(run.sets is None for run in runs):
            wrong("ways.value", len(runs), "the number of sets of each run, if there are several")
        sets = sum(run.sets or self.sets.value for run in runs)
        widest = max(run.ways for run in runs)
        if widest > MAX_WAYS or sets * widest > MAX_LINES:
            wrong("ways.value", widest, f"at most {MAX_WAYS} ways and {MAX_LINES} lines in total can be simulated")
        if sets != self.sets.value:
            wrong("ways.value", f"{sets} sets", f"sets is {self.sets.value}")
        ways = self.ways_of_sets()
        self.index_function.value.check(len(ways), line)
        self.replacement_policy.value.check(ways)
        return sum(ways)


class RoomTable(Table):
    """Data storage of a cache with more tags than data: `lines` is how many lines it stores."""

    lines: Count


class CacheTable(Lines):
    """One cache array. Sizes in bytes. `count_per_sm`: independent copies per SM, one if not given.

    `room`: see `gpudissect.simulation.cache.geometry.Room`; the capacity is then that of the data.

    `alternative`: another structure of the same capacity, where a document's data and its conclusion differ.
    """

    capacity: Sourced[Size]
    line_size: Sourced[Size]
    fetch_granularity: Sourced[Size]
    count_per_sm: Sourced[Annotated[int, Field(strict=True, ge=1, le=64)]] | None = None
    room: Sourced[RoomTable] | None = None
    scope: Scope = Scope.SM
    fill: Fill = Fill.MISSES
    alternative: CacheTable | None = None

    @model_validator(mode="after")
    def _check_geometry(self) -> CacheTable:
        line, sector = self.line_size.value, self.fetch_granularity.value
        if line < 4 or line % 4:
            wrong("line_size.value", line, "a multiple of 4")
        if line % sector or sector < 4 or sector % 4:
            wrong("fetch_granularity.value", sector, f"a divisor of the line, {line} B, and a multiple of 4 B")
        total = self._check_lines(line) * line
        if self.room is not None:
            self._check_room(self.room.value, total // line)
            total = self.room.value.lines * line
        if total != self.capacity.value:
            what = "sum of ways * line_size" if self.room is None else "room.lines * line_size"
            wrong("capacity.value", self.capacity.value, f"{what} = {total}")
        if self.alternative is not None and self.alternative.capacity.value != total:
            wrong("alternative.capacity.value", self.alternative.capacity.value, f"the same, {total}")
        return self

    def _check_room(self, room: RoomTable, ways: int) -> None:
        if room.lines > ways:
            wrong("room.value.lines", room.lines, f"at most {ways}, the sum of ways")
        if self.replacement_policy.value.kind not in ROOM_POLICIES or self.fill is not Fill.MISSES:
            wrong("room", "a table", f"only with policies {', '.join(ROOM_POLICIES)}, and fill 'misses'")


class TlbTable(Lines):
    """One TLB level. `penalty`: cycles of a miss if the next level hits; the last level has [walk] instead.

    `alternative`: another structure with as many entries, as of caches. `miss_cache`: entries of one beside it, see
    `gpudissect.simulation.cache.geometry.Tlb`; not counted in `entries`. `tlb_by_sm`: the number of the TLB of each SM;
    by default one serves all SMs, but each SM has a first TLB if a later level has `tlb_by_sm`.
    """

    entries: Sourced[Count]
    page_size: Sourced[Size]
    penalty: Sourced[Cycles] | None = None
    miss_cache: Sourced[Count] | None = None
    tlb_by_sm: Sourced[tuple[Position, ...]] | None = None
    alternative: Lines | None = None

    @model_validator(mode="after")
    def _check_geometry(self) -> TlbTable:
        page = self.page_size.value
        if page & (page - 1):
            wrong("page_size.value", page, "a power of two")
        for table in filter(None, (self, self.alternative)):
            total = table._check_lines(page)
            if total != self.entries.value:
                wrong("entries.value", self.entries.value, f"sum of ways = {total}")
        return self


class ViewTable(Table):
    """An element without its own array, that looks into the array of another element (`of`).

    Repeated values (sizes in bytes) carry their own source and must agree with that array.
    """

    of: Sourced[str]
    capacity: Sourced[Size] | None = None
    line_size: Sourced[Size] | None = None
    fetch_granularity: Sourced[Size] | None = None
    sets: Sourced[Count] | None = None
    count_per_sm: Sourced[Count] | None = None
