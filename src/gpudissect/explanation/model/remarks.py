"""What an explanation assumes, what its profile lacks, and why a launch is impossible."""

from gpudissect.catalogue.compute_capability import allocated_registers
from gpudissect.explanation.model.assess import Assessment
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.costs import Cost
from gpudissect.explanation.model.occupancy import shared_of_block
from gpudissect.explanation.profile import Profile
from gpudissect.explanation.sentences import MAX_NAME_LENGTH
from gpudissect.printable import brief
from gpudissect.units import WARP_SIZE, format_bytes

FITTED = (
    "tags and stores of the L1, look-ups of the L2, atomics and queues of memory: constants from microbenchmarks and "
    "kernels on an H200 and an H100 (docs/adr/0023)"
)


def assumptions_of(assessment: Assessment) -> tuple[str, ...]:
    """What was not measured, with its source."""
    names: dict[str, set[str]] = {}
    for count, cost, each in zip(
        assessment.path.executed, assessment.costs, assessment.program.instructions, strict=True
    ):
        if count and not cost.is_measured:
            source = f"taken to cost as much as {cost.element}" if cost.element else cost.assumption
            is_own = each.opcode.lower() == cost.element  # of other modifiers, such as those of IMAD.MOV
            names.setdefault(source, set()).add(".".join((each.opcode, *each.modifiers)) if is_own else each.opcode)
    found = [f"{', '.join(sorted(opcodes))}: {source}" for source, opcodes in sorted(names.items())]
    if assessment.requests:
        found.append(FITTED)
    if assessment.program.slow_paths and not any(count.slow for count in assessment.facts.counts.values()):
        found.append("divisions and square roots: of ordinary operands, without the compiler's slow paths")
    if ("hiding", "contention_rise") not in assessment.card.values:
        found.append("latency of device memory under load: as on an H200 ('gpudissect hide' measures it)")
    return tuple(found)


def cost_source(cost: Cost) -> str:
    """The measured element, the one that stands for it, or where the cost comes from."""
    like = f"like {cost.element}" if cost.element else cost.assumption
    return cost.element if cost.is_measured and cost.element else like


def too_large(assessment: Assessment) -> str:
    """Why no block fits on an SM: what it takes, what an SM has, and what to change."""
    kernel, card, facts = assessment.program.kernel, assessment.card, assessment.facts
    warps = assessment.launch.warps_per_block
    shared = shared_of_block(kernel, facts.dynamic_shared, card)
    registers = allocated_registers(kernel.registers) * WARP_SIZE * warps
    takes, has, change = {
        "warps": (f"{warps} warps", f"{card.warps}", "smaller blocks"),
        "registers": (
            f"{registers} registers",
            f"{card.registers}",
            "smaller blocks or fewer registers (-maxrregcount)",
        ),
        "shared memory": (
            f"{format_bytes(shared)} of shared memory ({format_bytes(card.reserved_shared)} of it reserved)",
            format_bytes(card.shared_bytes),
            "smaller blocks or less shared memory",
        ),
    }[assessment.occupancy.limits[0]]
    return f"no block fits on an SM of {card.name}: a block takes {takes}, an SM has {has}; use {change}"


def assumed_accesses(assessment: Assessment) -> list[str]:
    """Instructions whose addresses no sampled warp has."""
    places = [place for place, index in assessment.accessed.items() if index in assessment.traffic.assumed]
    executed = [place for place in places if assessment.path.executed[place] > 0]
    if not executed:
        return []
    names = ", ".join(f"0x{assessment.program.instructions[place].address:04x}" for place in executed[:3])
    more = f" and {len(executed) - 3} more" if len(executed) > 3 else ""
    return [f"no sampled addresses of the accesses at {names}{more}; assumed: contiguous"]


def notes_of(profile: Profile, card: Card) -> list[str]:
    """The notes of a profile, and what of it does not fit or is missing."""
    notes = list(profile.notes)
    if profile.gpu.name != card.name:
        notes.append(f"recorded on {profile.gpu.name}: its measured times are not shown")
    if different := [*profile.results.different_counted, *profile.results.different_traced]:
        names = ", ".join(brief(name, MAX_NAME_LENGTH) for name in dict.fromkeys(different))
        notes.append(f"instrumented copies of the kernel computed other values of {names}: counts may differ, too")
    if not profile.warps:
        notes.append("the profile has no sampled addresses; assumed: all accesses hit the L1")
    if card.l2 is None:
        notes.append("the result has no l2.capacity; assumed: L1 misses go to device memory")
    if profile.lines is None:
        notes.append("the profile has no sampled lines; assumed: L1 misses go to device memory")
    return notes
