"""Registers that the blocks of a kernel use from before, and leave behind, with the instructions that wrote them."""

from collections.abc import Iterable, Iterator, Mapping

from gpudissect.machine_code.flow import Flow, State, merge
from gpudissect.machine_code.registers import reads, writes

_SAME, _OPPOSITE, _UNKNOWN = 1, -1, 0


class Accesses:
    """What the instructions of each block read and write; a call as its callee does."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.reads = [reads(instruction) for instruction in flow.instructions]
        self.writes = [writes(instruction) for instruction in flow.instructions]
        self.bodies = {entry: _reached(flow, entry) for entry in flow.entries}
        self.exposed: list[list[tuple[int, str]]] = [[] for _ in flow.blocks]
        self.local: list[list[tuple[int, int, str]]] = [[] for _ in flow.blocks]
        self.last: list[State] = [{} for _ in flow.blocks]
        self.replaced: list[set[str]] = [set() for _ in flow.blocks]
        self._summarize_calls()
        for block in flow.order:
            self._scan(block)

    def after(self, block: int, state: State) -> State:
        """Last writers of each register at the end of a block."""
        return merge((self.surviving(block, state), self.last[block]))

    def surviving(self, block: int, state: State) -> State:
        """Those of the start of a block that are not replaced in it."""
        replaced = self.replaced[block]
        return {register: writers for register, writers in state.items() if register not in replaced}

    def incoming(self, block: int, state: State) -> Iterator[tuple[int, int, str]]:
        """Producer, consumer and register of the values that a block uses from before."""
        for consumer, register in self.exposed[block]:
            for producer in state.get(register, ()):
                yield producer, consumer, register

    def uses(self, block: int, state: State) -> Iterator[tuple[int, int, str]]:
        """Producer, consumer and register of all values that a block uses."""
        yield from self.local[block]
        yield from self.incoming(block, state)

    def _scan(self, block: int) -> None:
        bounds, last, replaced = self.flow.blocks[block], self.last[block], self.replaced[block]
        written = dict[str, int]()
        for index in range(bounds.start, bounds.end):
            for register in self.reads[index]:
                threads = {p: self._compare(p, index, written) for p in last.get(register, ())}
                newest = max((p for p, shared in threads.items() if shared == _SAME), default=-1)
                producers = (p for p, shared in threads.items() if p >= newest and shared != _OPPOSITE)
                self.local[block] += [(producer, index, register) for producer in producers]
                if register not in replaced and newest < 0:
                    self.exposed[block].append((index, register))
            for register in self.writes[index]:
                threads = {p: self._compare(p, index, written) for p in last.get(register, ())}
                other = max((p for p, shared in threads.items() if shared == _OPPOSITE), default=-1)
                if not self.flow.instructions[index].predicate:
                    threads.clear()
                if not self.flow.instructions[index].predicate or other >= 0:
                    replaced.add(register)
                kept = {p for p, shared in threads.items() if p >= other and shared != _SAME}
                last[register] = frozenset(kept | {index})
            written |= dict.fromkeys(self.writes[index], index)

    def _compare(self, first: int, second: int, written: Mapping[str, int]) -> int:
        """Whether two instructions are run by the same threads or by opposite ones, as far as predicates show.

        `written` has the last instruction before `second` that wrote each register of the block.
        """
        one, two = (self.flow.instructions[index].predicate for index in (first, second))
        register = one.lstrip("!")
        if not one or register != two.lstrip("!") or written.get(register, -1) >= first:
            return _UNKNOWN
        return _SAME if one == two else _OPPOSITE

    def _summarize_calls(self) -> None:
        """Gives calls the registers that their callees read before writing them, and write; nested calls first."""
        calls = [block for block in self.flow.blocks if block.callee is not None]
        for _ in range(len(self.flow.entries)):
            before = [self.writes[block.end - 1] for block in calls]
            for block in calls:
                body = self.bodies.get(block.callee if block.callee is not None else -1, set())
                spans = [range(self.flow.blocks[b].start, self.flow.blocks[b].end) for b in sorted(body)]
                written = frozenset[str]().union(*(self.writes[i] for span in spans for i in span))
                self.writes[block.end - 1] = written
                self.reads[block.end - 1] |= self._arguments(spans)
            if before == [self.writes[block.end - 1] for block in calls]:
                break

    def _arguments(self, spans: list[range]) -> frozenset[str]:
        """Registers that code reads before it writes them, in the order of addresses."""
        written, arguments = set[str](), set[str]()
        for index in (i for span in spans for i in span):
            arguments |= self.reads[index] - written
            if not self.flow.instructions[index].predicate:
                written |= self.writes[index]
        return frozenset(arguments)


def most_live(flow: Flow) -> tuple[int, int]:
    """The largest number of general registers whose values are needed at once, and an instruction that has so many.

    Without those of callers while a callee runs. A write under a predicate keeps the value that was there.
    """
    read, written = ([_general(names(each)) for each in flow.instructions] for names in (reads, writes))
    kept = [-1 if each.predicate else ~bits for each, bits in zip(flow.instructions, written, strict=True)]
    spans = [range(block.start, block.end) for block in flow.blocks]
    defined, needed, before = [0] * len(spans), [0] * len(spans), None
    most = 0, 0
    while before != (before := (tuple(defined), tuple(needed))):
        for number in flow.order:
            values = defined[number]
            for index in spans[number]:
                values |= written[index]
            for successor in flow.blocks[number].successors:
                defined[successor] |= values
        for number in reversed(flow.order):
            live = 0
            for successor in flow.blocks[number].successors:
                live |= needed[successor] & defined[successor]
            for index in reversed(spans[number]):
                most = max(most, ((live | written[index]).bit_count(), index))
                live = live & kept[index] | read[index]
            needed[number] = live
    return most


def _general(names: Iterable[str]) -> int:
    """General registers as bits."""
    return sum(1 << int(name[1:]) for name in names if name.startswith("R"))


def _reached(flow: Flow, entry: int) -> set[int]:
    found, stack = set[int](), [entry]
    while stack:
        block = stack.pop()
        if block not in found:
            found.add(block)
            stack += flow.blocks[block].successors
    return found
