"""Variants of a kernel that demand more of one resource: instructions inserted into its PTX.

Instructions of a unit are inserted in proportion to what each block needs of it. Accesses are repeated, by the warps
for which a constant of the module, the level, says so: at level 0 none, at level 1 every fourth. A variant at level 0
has the instructions of that at level 1, so that their times differ by the accesses alone.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpudissect.explanation.insertion import Names
from gpudissect.explanation.profile import Launch
from gpudissect.explanation.ptx import Function, Instruction, Module, edit

LEVEL = "level"
"""Suffix of the constant that says how many quarters of the warps repeat accesses."""
UNITS = ("fma", "alu", "imad", "xu", "fp64", "lsu")
ACCESSES = ("l1", "l2", "memory")
_REGISTERS = """.reg .pred {r}p<4>; .reg .b32 {r}i<8>; .reg .f32 {r}f<2>; .reg .f64 {r}g<2>; .reg .b64 {r}d<4>;
.reg .b32 {r}y<16>; .reg .b64 {r}z<16>; mov.u32 {r}i0, %tid.x;"""
_FLOATS = "cvt.rn.f32.u32 {r}f0, {r}i0; add.f32 {r}f1, {r}f0, 0f3F800000;"
_INTEGERS = "mov.u32 {r}i1, {r}i0; not.b32 {r}i2, {r}i0;"
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
    "alu": "lop3.b32 {r}i{j}, {r}i{j}, {r}i0, {number}, {table};",
    "imad": "mad.lo.u32 {r}i{j}, {r}i{j}, {r}i{j}, {r}i0;",
    "fp64": "fma.rn.f64 {r}g{k}, {r}g{k}, {r}g{k}, {r}g{k};",
    "lsu": "st.volatile.shared.u32 [{r}i1], 0;",
}
_TABLES = (0xE8, 0x1E, 0x78, 0x6A)  # functions of three bits that are not linear, so that none can be joined
_USE = {  # results are stored under a condition that hardly ever holds
    "i": "xor.b32 {r}i1, {r}i1, {r}i2;",
    "f": "add.f32 {r}f0, {r}f0, {r}f1; mov.b32 {r}i1, {r}f0;",
    "g": "add.f64 {r}g0, {r}g0, {r}g1; cvt.rn.f32.f64 {r}f0, {r}g0; mov.b32 {r}i1, {r}f0;",
    "y": "mov.u32 {r}i1, {r}i2;",
}
_CLASS = {"fma": "f", "xu": "f", "fp64": "g"}
_END = "setp.eq.u32 {r}p0, {r}i1, 0x7FC12345; @{r}p0 st.global.u32 [{name}_sink], {r}i1;"
# Of four warps one, of each block with a multiple of four warps as many, and not always on the same scheduler.
_CHOOSE = """{warp} shr.u32 {r}i1, {r}i0, 2; xor.b32 {r}i0, {r}i0, {r}i1; mov.u32 {r}i1, %ctaid.x;
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


def with_work(
    module: Module,
    kernel: str,
    name: str,
    units: Sequence[str],
    resource: str,
    demand: Demand,
    share: float,
    cost: float,
) -> Variant:
    """The kernel with more instructions of `units`, in turn, so that it needs `share` more of `resource`.

    `cost`: cycles of the resource that each of them takes. Blocks that need little of it get none.
    """
    function, names = module.function(kernel), Names(module)
    edits = _frame(function, names, units, "".join(_SETUP[unit] for unit in dict.fromkeys(units or ["fma"])))
    missing, number = 0.0, 0
    cycles = demand.cycles.get(resource, {})
    for index in sorted(cycles, key=lambda index: -cycles[index]) if units else ():
        executions, block = demand.executions.get(index, 0.0), function.blocks[index]
        if executions <= 0:
            continue
        missing += share * cycles[index]
        count = max(0, round(missing / (executions * cost)))
        missing -= count * executions * cost
        for place in range(count):
            at = function.instructions[block.start + (2 * place + 1) * (block.end - block.start) // (2 * count)].start
            edits.append((at, at, _work(names, units[number % len(units)], number // len(units))))
            number += 1
    return Variant(name, _apply(module, function, names, edits))


def _work(names: Names, unit: str, number: int) -> str:
    values = {"k": number % 2, "j": 1 + number % 2, "number": 0x12345679 + 0x1F35B * number}
    return names.fill(_WORK[unit], table=_TABLES[number // 2 % len(_TABLES)], **values)


def _frame(function: Function, names: Names, units: Sequence[str], setup: str) -> list[tuple[int, int, str]]:
    """Registers and their first values at the head, and the use of their values at the ends."""
    use = "".join(_USE[kind] for kind in dict.fromkeys(_CLASS.get(unit, "i") for unit in units or ["fma"]))
    return [(function.body, function.body, names.fill(_REGISTERS + setup)), *_ends(function, names, use + _END)]


def _ends(function: Function, names: Names, code: str) -> list[tuple[int, int, str]]:
    ends = [i.start for i in function.instructions if i.name in ("ret", "exit") and not i.guard]
    return [(place, place, names.fill(code)) for place in ends]


def _apply(module: Module, function: Function, names: Names, edits: list[tuple[int, int, str]]) -> str:
    declarations = f".global .align 4 .u32 {names.name}_sink;\n.shared .align 128 .b32 {names.name}_word[32];\n"
    declarations += f".visible .const .align 4 .u32 {names.name}_{LEVEL};\n"
    start = module.functions[0].start
    unused = [f".shared .align 128 .b32 {names.name}_word[32];\n"]
    text = "".join(code for _, _, code in edits)
    if f"{names.name}_word" not in text:
        declarations = declarations.replace(unused[0], "")
    return edit(module.text, [(start, start, declarations), *edits])


def with_accesses(
    module: Module, kernel: str, name: str, launch: Launch, chosen: Callable[[int], bool], offset: int
) -> Variant:
    """The kernel whose `chosen` accesses of global memory are repeated `offset` bytes further on, by number.

    Loads of the variant ``l1`` may hit the L1, others go to the L2; what they load is not waited for.
    """
    function, names = module.function(kernel), Names(module)
    warp = _WARP if launch.block[1:] == (1, 1) else _WARP_OF_3D + _WARP
    setup = _REGISTERS + _CHOOSE.replace("{warp}", warp)
    is_cached = name == "l1"
    if is_cached:
        setup += "mov.u32 {r}i2, {r}i0;"
        setup += "".join(f"mov.u32 {{r}}y{k}, {{r}}i0; cvt.u64.u32 {{r}}z{k}, {{r}}i0;" for k in range(0, 16, 4))
    edits = [(function.body, function.body, names.fill(setup))]
    edits += _ends(function, names, _USE["y"] + _END) if is_cached else []
    found = []
    for index, instruction in enumerate(function.instructions):
        number = function.first + index
        if not chosen(number):
            continue
        code = _repeated(function, instruction, offset, len(found) if is_cached else None)
        if code:
            base = _ADDRESS.search(" ".join(instruction.operands))
            overwrites = base is not None and base[1] in instruction.operands[0] and instruction.name == "ld"
            place = instruction.start if overwrites else instruction.end
            edits.append((place, place, "\n" + names.fill(code)))
            found.append(number)
    return Variant(name, _apply(module, function, names, edits), tuple(found))


def _repeated(function: Function, instruction: Instruction, offset: int, cached: int | None) -> str:
    """Code that repeats an access; empty if it cannot be. With `cached` its result is used by the fourth one after it."""
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
    if offset:
        code += f"add.s64 {{r}}d0, {match[1]}, {int(match[2] or 0) + offset};"
        address = "[{r}d0]"
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
