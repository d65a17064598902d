"""Which instructions may have written a register or set a scoreboard barrier last, at the start of each block."""

from collections.abc import Callable, Collection, Iterable, Mapping

from gpudissect.machine_code.flow import Flow

State = dict[str, frozenset[int]]
"""Indices of instructions by register, or by name of a barrier."""
Transfer = Callable[[int, State], State]
"""State at the end of a block from that at its start."""


def reach(flow: Flow, transfer: Transfer) -> list[State]:
    """State at the start of each block, over all paths from the entries, around loops as well."""
    before: list[State] = [{} for _ in flow.blocks]
    pending, rank = set(flow.order), {block: number for number, block in enumerate(flow.order)}
    while pending:
        block = min(pending, key=rank.__getitem__)
        pending.remove(block)
        after = transfer(block, before[block])
        for successor in flow.blocks[block].successors:
            merged = merge((before[successor], after))
            if merged != before[successor]:
                before[successor] = merged
                pending.add(successor)
    return before


def reach_once(flow: Flow, transfer: Transfer, start: Mapping[int, State], within: Collection[int]) -> dict[int, State]:
    """State at the start of the blocks `within`, from those in `start`, along paths without back edges."""
    rank = {block: number for number, block in enumerate(flow.order)}
    before: dict[int, State] = dict(start)
    for block in flow.order:
        if block not in within:
            continue
        after = transfer(block, before.setdefault(block, {}))
        for successor in flow.blocks[block].successors:
            if successor in within and rank[successor] > rank[block]:
                before[successor] = merge((before.get(successor, {}), after))
    return before


def merge(states: Iterable[State]) -> State:
    """Union of the instructions by key."""
    merged: State = {}
    for state in states:
        for key, found in state.items():
            present = merged.get(key)
            merged[key] = found if present is None or present is found else present | found
    return merged
