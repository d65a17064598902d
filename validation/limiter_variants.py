"""Variants of a kernel that demand more of one resource: instructions inserted into its PTX.

Instructions of a unit are inserted in proportion to what each block needs of it. Accesses are repeated, by the warps
for which a constant of the module, the level, says so: at level 0 none, at level 1 every fourth. A variant at level 0
has the instructions of that at level 1, so that their times differ by the accesses alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpudissect.explanation.insertion import Names
from gpudissect.explanation.profile import Launch
from gpudissect.explanation.ptx import Function, Instruction, Module, edit
from gpudissect.units import WARP_SIZE

UNITS = ("fma", "alu", "imad", "xu", "fp64", "lsu")
ACCESSES = ("l1", "l2", "memory")
_REGISTERS = """.reg .pred {r}p<4>; .reg .b32 {r}i<8>; .reg .b32 {r}a<4>; .reg .f32 {r}f<4>; .reg .f64 {r}g<2>;
.reg .b64 {r}d<4>; .reg .b32 {r}q<32>; .reg .b32 {r}y<16>; .reg .b64 {r}z<16>; mov.u32 {r}i0, %tid.x;"""
_FLOATS = """cvt.rn.f32.u32 {r}f0, {r}i0; add.f32 {r}f1, {r}f0, 0f3F800000; add.f32 {r}f2, {r}f0, 0f40000000;
add.f32 {r}f3, {r}f0, 0f40400000;"""
_INTEGERS = "mov.u32 {r}a0, {r}i0; not.b32 {r}a1, {r}i0; xor.b32 {r}a2, {r}i0, 0x55; xor.b32 {r}a3, {r}i0, 0xAA00;"
_SETUP = {
    "fma": _FLOATS,
    "xu": _FLOATS,
    "alu": _INTEGERS,
    "imad": _INTEGERS,
    "fp64": "cvt.rn.f64.u32 {r}g0, {r}i0; add.f64 {r}g1, {r}g0, 0d3FF0000000000000;",
    "lsu": "and.b32 {r}i1, {r}i0, 31; shl.b32 {r}i1, {r}i1, 2; mov.u32 {r}i2, {name}_word;"
    " add.u32 {r}i1, {r}i1, {r}i2; mov.u32 {r}i2, {r}i1;",
}
_WORK = {
    "fma": "fma.rn.f32 {r}f{k}, {r}f{k}, 0f3F7FFFFF, {r}f{k};",
    "xu": "ex2.approx.ftz.f32 {r}f{k}, {r}f{k};",
    "alu": "lop3.b32 {r}a{k}, {r}a{k}, {r}i0, {number}, {table};",
    "imad": "mad.lo.u32 {r}a{k}, {r}a{k}, {r}a{k}, {r}i0;",
    "fp64": "fma.rn.f64 {r}g{h}, {r}g{h}, {r}g{h}, {r}g{h};",
    "lsu": "st.volatile.shared.u32 [{r}i1], 0;",
}
_STREAM = """mov.u32 {r}i1, %ctaid.z; mov.u32 {r}i2, %nctaid.y; mov.u32 {r}i3, %ctaid.y;
mad.lo.u32 {r}i1, {r}i1, {r}i2, {r}i3; mov.u32 {r}i2, %nctaid.x; mov.u32 {r}i3, %ctaid.x;
mad.lo.u32 {r}i1, {r}i1, {r}i2, {r}i3; mad.lo.u32 {r}i1, {r}i1, {warps}, {r}i4; mov.u32 {r}i6, {r}i1;
mul.lo.u32 {r}i5, {r}i1, {bytes};
and.b32 {r}i5, {r}i5, {mask}; mov.u32 {r}i1, %laneid; mul.wide.u32 {r}d1, {r}i1, {width};
ld.const.u64 {r}d0, [{name}_stream]; add.s64 {r}d1, {r}d1, {r}d0;"""
_RANDOM = """mov.u32 {r}i2, %laneid; shl.b32 {r}i1, {r}i6, 5; add.u32 {r}i1, {r}i1, {r}i2;
mul.lo.u32 {r}i5, {r}i1, 0x9E3779B1; xor.b32 {r}i5, {r}i5, 0x5BD1E995; ld.const.u64 {r}d1, [{name}_stream];"""
_ADDRESS_OF_NEXT = "cvt.u64.u32 {r}d0, {r}i5; add.s64 {r}d0, {r}d0, {r}d1;"
_STEP = "add.u32 {r}i5, {r}i5, {step}; and.b32 {r}i5, {r}i5, {mask};"
_RANDOM_ADDRESS = """mad.lo.u32 {r}i5, {r}i5, 0x19660D, 0x3C6EF35F; and.b32 {r}i1, {r}i5, {lines};
cvt.u64.u32 {r}d0, {r}i1; add.s64 {r}d0, {r}d0, {r}d1;"""
_PREFETCH = "@{r}p1 prefetch.global.L2 [{r}d0];"
STREAM_BYTES = 1 << 30
_TABLES = (0xE8, 0x1E, 0x78, 0x6A)  # functions of three bits that are not linear, so that none can be joined
_USE = {  # results are stored under a condition that hardly ever holds
    "i": "xor.b32 {r}a0, {r}a0, {r}a1; xor.b32 {r}a2, {r}a2, {r}a3; xor.b32 {r}i1, {r}a0, {r}a2;",
    "s": "mov.u32 {r}i1, {r}i2;",
    "f": "add.f32 {r}f0, {r}f0, {r}f1; add.f32 {r}f2, {r}f2, {r}f3; add.f32 {r}f0, {r}f0, {r}f2; mov.b32 {r}i1, {r}f0;",
    "g": "add.f64 {r}g0, {r}g0, {r}g1; cvt.rn.f32.f64 {r}f0, {r}g0; mov.b32 {r}i1, {r}f0;",
    "y": "mov.u32 {r}i1, {r}i2;",
}
_CLASS = {"fma": "f", "xu": "f", "fp64": "g", "lsu": "s"}
# Registers that live as long as the kernel, so that as many blocks fit on an SM.
_PAD = "ld.volatile.global.u32 {{r}}q{n}, [{{name}}_sink];"
_USE_PAD = "xor.b32 {{r}}i1, {{r}}i1, {{r}}q{n};"
_END = "setp.eq.u32 {r}p0, {r}i1, 0x7FC12345; @{r}p0 st.global.u32 [{name}_sink], {r}i1;"
# Of four warps one, of each block with a multiple of four warps as many, and not always on the same scheduler.
_CHOOSE = """{warp} mov.u32 {r}i4, {r}i0; shr.u32 {r}i1, {r}i0, 2; xor.b32 {r}i0, {r}i0, {r}i1; mov.u32 {r}i1, %ctaid.x;
xor.b32 {r}i0, {r}i0, {r}i1; mov.u32 {r}i1, %ctaid.y; xor.b32 {r}i0, {r}i0, {r}i1; and.b32 {r}i0, {r}i0, 3;
ld.const.u32 {r}i1, [{name}_level]; setp.lt.u32 {r}p1, {r}i0, {r}i1;"""
_WARP = "shr.u32 {r}i0, {r}i0, 5;"
_WARP_OF_3D = """mov.u32 {r}i1, %tid.z; mov.u32 {r}i2, %ntid.y; mov.u32 {r}i3, %tid.y;
mad.lo.u32 {r}i1, {r}i1, {r}i2, {r}i3; mov.u32 {r}i2, %ntid.x; mad.lo.u32 {r}i0, {r}i1, {r}i2, {r}i0;"""
_ADDRESS = re.compile(r"\[\s*(%[\w$]+)\s*(?:\+\s*)?(-?\d+)?\s*\]")
_BITS = {"8": 32, "16": 32, "32": 32, "64": 64}


@dataclass(frozen=True)
class Demand:
    """What each block of a kernel needs, by index of block: executions by a warp, and cycles of units by resource."""

    executions: Mapping[int, float]
    cycles: Mapping[str, Mapping[int, float]]


@dataclass(frozen=True)
class Variant:
    """A variant of a kernel. `accesses`: numbers of the PTX instructions that it repeats; none if it adds work."""

    name: str
    ptx: str = field(repr=False)
    accesses: tuple[int, ...] = ()
    width: float = 0  # bytes of memory that a lane moves at each of them, if it does not repeat them
    level: int = 1


def with_work(
    module: Module,
    kernel: str,
    name: str,
    units: Sequence[str],
    resource: str,
    demand: Demand,
    share: float,
    cost: float,
    padding: int = 0,
) -> Variant:
    """The kernel with more instructions of `units`, in turn, so that it needs `share` more of `resource`.

    `cost`: cycles of the resource that each of them takes. Blocks that need little of it get none.
    """
    function, names = module.function(kernel), Names(module)
    edits = _frame(function, names, units, "".join(_SETUP[unit] for unit in dict.fromkeys(units or ["fma"])), padding)
    number = 0
    for index, count in _counts(demand, demand.cycles.get(resource, {}), share, cost) if units else ():
        block = function.blocks[index]
        for place in range(count):
            at = function.instructions[block.start + (2 * place + 1) * (block.end - block.start) // (2 * count)].start
            edits.append((at, at, _work(names, units[number % len(units)], number // len(units))))
            number += 1
    return Variant(name, _apply(module, function, names, edits))


def _counts(
    demand: Demand, needs: Mapping[int, float], share: float, cost: float, of: Mapping[int, int] | None = None
) -> Iterator[tuple[int, int]]:
    """How many instructions to insert in each block (or at each place, whose block is `of` it), the largest first."""
    missing = 0.0
    for place in sorted(needs, key=lambda place: (-needs[place], place)):
        executions = demand.executions.get(of[place] if of else place, 0.0)
        if executions <= 0:
            continue
        missing += share * needs[place]
        count = max(0, round(missing / (executions * cost)))
        missing -= count * executions * cost
        if count:
            yield place, count


def _work(names: Names, unit: str, number: int) -> str:
    values = {"k": number % 4, "h": number % 2, "number": 0x12345679 + 0x1F35B * number}
    return names.fill(_WORK[unit], table=_TABLES[number // 4 % len(_TABLES)], **values)


def _frame(
    function: Function, names: Names, units: Sequence[str], setup: str, padding: int
) -> list[tuple[int, int, str]]:
    """Registers and their first values at the head, and the use of their values at the ends."""
    use = "".join(_USE[kind] for kind in dict.fromkeys(_CLASS.get(unit, "i") for unit in units or ["fma"]))
    setup = _REGISTERS + setup + _padding(_PAD, padding)
    use += _padding(_USE_PAD, padding)
    return [(function.body, function.body, names.fill(setup)), *_ends(function, names, use + _END)]


def _padding(code: str, count: int) -> str:
    return "".join(code.format(n=n) for n in range(count))


def _ends(function: Function, names: Names, code: str) -> list[tuple[int, int, str]]:
    ends = [i.start for i in function.instructions if i.name in ("ret", "exit") and not i.guard]
    return [(place, place, names.fill(code)) for place in ends]


def _apply(module: Module, function: Function, names: Names, edits: list[tuple[int, int, str]]) -> str:
    text = "".join(code for _, _, code in edits)
    arrays = {
        "sink": ".global .align 4 .u32 {}_sink;",
        "word": ".shared .align 128 .b32 {}_word[32];",
        "level": ".visible .const .align 4 .u32 {}_level;",
        "stream": ".visible .const .align 8 .u64 {}_stream;",
    }
    used = [each.format(names.name) for array, each in arrays.items() if f"{names.name}_{array}" in text]
    start = module.functions[0].start
    return edit(module.text, [(start, start, "\n".join([*used, ""])), *edits])


def with_accesses(
    module: Module, kernel: str, name: str, launch: Launch, chosen: Callable[[int], bool], padding: int = 0
) -> Variant:
    """The kernel whose `chosen` accesses of global memory are repeated, by number of their PTX instruction.

    Loads of the variant ``l1`` may hit the L1, others go to the L2; what they load is not waited for.
    """
    function, names = module.function(kernel), Names(module)
    setup = _REGISTERS + _choose(launch) + _padding(_PAD, padding)
    is_cached = name == "l1"
    if is_cached:
        setup += "mov.u32 {r}i2, {r}i0;"
        setup += "".join(f"mov.u32 {{r}}y{k}, {{r}}i0; cvt.u64.u32 {{r}}z{k}, {{r}}i0;" for k in range(0, 16, 4))
    edits = [(function.body, function.body, names.fill(setup))]
    if is_cached or padding:
        use = (_USE["y"] if is_cached else "mov.u32 {r}i1, 0;") + _padding(_USE_PAD, padding)
        edits += _ends(function, names, use + _END)
    found = []
    for index, instruction in enumerate(function.instructions):
        number = function.first + index
        if not chosen(number):
            continue
        code = _repeated(function, instruction, len(found) if is_cached else None)
        if code:
            base = _ADDRESS.search(" ".join(instruction.operands))
            overwrites = base is not None and base[1] in instruction.operands[0] and instruction.name == "ld"
            place = instruction.start if overwrites else instruction.end
            edits.append((place, place, "\n" + names.fill(code)))
            found.append(number)
    return Variant(name, _apply(module, function, names, edits), tuple(found))


def _choose(launch: Launch) -> str:
    """Code that leaves in ``{r}p1`` whether the level chooses this warp, and in ``{r}i4`` its number in the block."""
    return _CHOOSE.replace("{warp}", _WARP if launch.block[1:] == (1, 1) else _WARP_OF_3D + _WARP)


def with_stream(
    module: Module,
    kernel: str,
    name: str,
    launch: Launch,
    demand: Demand,
    needs: Mapping[int, float],
    bytes_of_random: float,
    padding: int = 0,
) -> Variant:
    """The kernel with prefetches into the L2 of lines that nothing else touches; nothing waits for them.

    `needs`: bytes of memory to add behind each access in all its executions by a warp, by number of its PTX
    instruction. A quarter of the warps moves them, at level 1. With `bytes_of_random`, those that a random line costs,
    every lane takes a line of its own.
    """
    function, names = module.function(kernel), Names(module)
    total = sum(needs.values())
    width = next((width for width in (16, 8) if WARP_SIZE * width / 4 <= 1.4 * total), 4)
    moved = WARP_SIZE * (bytes_of_random or width)
    block_of = {
        function.first + index: number
        for number, block in enumerate(function.blocks)
        for index in range(block.start, block.end)
    }
    places = {number: need for number, need in needs.items() if number in block_of}
    warps = launch.blocks * launch.warps_per_block
    values: dict[str, object] = {"mask": STREAM_BYTES - 1, "bytes": WARP_SIZE * width, "width": width}
    values |= {"warps": launch.warps_per_block, "step": warps * WARP_SIZE * width % STREAM_BYTES}
    values |= {"lines": STREAM_BYTES - 128}
    setup = _REGISTERS + _choose(launch) + _STREAM + (_RANDOM if bytes_of_random else "") + _padding(_PAD, padding)
    edits, found = [(function.body, function.body, names.fill(setup, **values))], list[int]()
    if padding:
        edits += _ends(function, names, "mov.u32 {r}i1, 0;" + _padding(_USE_PAD, padding) + _END)
    code = _RANDOM_ADDRESS + _PREFETCH if bytes_of_random else _ADDRESS_OF_NEXT + _PREFETCH + _STEP
    for number, count in _counts(demand, places, 1.0, moved / 4, block_of):
        place = function.instructions[number - function.first].end
        edits.append((place, place, "\n" + names.fill(code, **values) * count))
        found += [number] * count
    return Variant(name, _apply(module, function, names, edits), tuple(found), bytes_of_random or width)


def _repeated(function: Function, instruction: Instruction, cached: int | None) -> str:
    """Code that repeats an access; empty if it cannot be. With `cached` the fourth one after it uses its result."""
    place = next((operand for operand in instruction.operands if operand.startswith("[")), "")
    match, kind = _ADDRESS.fullmatch(place), instruction.name
    if match is None or "global" not in instruction.modifiers or kind not in ("ld", "st", "red", "atom"):
        return ""
    if function.register_bits(match[1], instruction.scope) != 64 or (cached is not None and kind != "ld"):
        return ""
    guard, code = "{r}p1", ""
    if instruction.guard:
        negation = "not" if instruction.guard.startswith("!") else "mov"
        code += f"{negation}.pred {{r}}p2, {instruction.guard.lstrip('!')}; and.pred {{r}}p2, {{r}}p2, {{r}}p1;"
        guard = "{r}p2"
    address = f"[{match[1]}+{int(match[2] or 0)}]"
    vector = next((modifier for modifier in instruction.modifiers if modifier in ("v2", "v4")), "")
    bits = _BITS.get(re.sub(r"\D", "", instruction.modifiers[-1]))
    if not bits:
        return ""
    count = int(vector[1:] or 1)
    kinds = ".".join(part for part in (vector, f"b{re.sub(r'[^0-9]', '', instruction.modifiers[-1])}") if part)
    first = 4 * (cached or 0) % 16
    names = [f"{{r}}{'z' if bits == 64 else 'y'}{first + n}" for n in range(count)]
    results = "{" + ", ".join(names) + "}" if vector else names[0]
    if cached is not None:
        narrow = f"cvt.u32.u64 {{r}}i1, {names[0]};" if bits == 64 else f"mov.b32 {{r}}i1, {names[0]};"
        cache = "" if "nc" in instruction.modifiers else ".nc"
        code += f"{narrow} xor.b32 {{r}}i2, {{r}}i2, {{r}}i1; @{guard} ld.global{cache}.{kinds} {results}, {address};"
    elif kind == "ld":
        code += f"@{guard} ld.volatile.global.{kinds} {results}, {address};"
    elif kind == "st":
        code += f"@{guard} st.volatile.global.{kinds} {address}, {instruction.operands[1]};"
    else:
        operands = [address, *instruction.operands[1 if kind == "red" else 2 :]]
        code += f"@{guard} {instruction.opcode.replace('atom.', 'red.', 1)} {', '.join(operands)};"
    return _escaped(code)


def _escaped(code: str) -> str:
    """Braces of vectors doubled, so that `Names.fill` keeps them."""
    return re.sub(r"\{(?!r\})|(?<!\{r)\}", lambda match: match[0] * 2, code)
