"""The code of a tile of a stream: number, width and path of the accesses, all in flight before one is used."""

import re

import pytest

from gpudissect.device.cuda.stream.backends import stream_code
from gpudissect.workload import MOVES, Path, Stream, Transfer
from tests.support.machine_code import kernels_of

ARCHS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]  # sm_86 and sm_89 get the instructions of sm_80
PATHS = [Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED]
# Width, loads in flight, threads: the limits of what fits into the registers of each block size, and some between.
EDGES = [(16, 10, 1024), (16, 26, 512), (4, 32, 1024)]
SHAPES = [
    *EDGES,
    (1, 8, 1024),
    (2, 4, 40),
    (4, 1, 1024),
    (8, 4, 96),
    (8, 20, 1024),
    (16, 1, 1024),
    (16, 4, 40),
    (16, 32, 256),
]
CASES = [
    (arch, path, *shape)
    for arch in ARCHS
    for path in PATHS
    for shape in (SHAPES if arch == "sm_90" and path is not Path.GLOBAL_L2 else EDGES[1:2])
]
every_case = pytest.mark.parametrize(("arch", "path", "width", "ilp", "threads"), CASES)
every_transfer = pytest.mark.parametrize("transfer", MOVES)
MEMORY = re.compile(r"LD|ST|ATOM|RED|BAR|MEMBAR|CCTL|TEX|TLD|SUST|SULD")
SUFFIX = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128"}


def code_of(arch, path, transfer, width, ilp, threads):
    tile = width * ilp * threads
    stream = Stream(path=path, transfer=transfer, footprint=tile, blocks=1, threads=threads, ilp=ilp, width=width)
    source, *macros = stream_code(stream)
    return kernels_of(source, tuple(macros), arch)[source.removesuffix(".cu")]


def opcodes(path, width, arch):
    """Patterns of the load and the store of a path. (Before Ampere, the scope of the L1 has another name.)"""
    if path is Path.SHARED:
        return rf"LDS(\.U)?{SUFFIX[width]}", f"STS{SUFFIX[width]}"
    scope = "GPU" if path is Path.GLOBAL_L2 else "CTA" if arch == "sm_75" else "SM"
    return (rf"LDG\.E{SUFFIX[width]}\.STRONG\.{scope}", rf"STG\.E{SUFFIX[width]}\.STRONG\.{scope}")


def tile_loop(code):
    """The smallest loop with an access between the two reads of the global timer."""
    first, last = (at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands)
    loops = [
        code[i.target : end + 1]
        for end, i in enumerate(code)
        if i.target is not None and first < i.target <= end < last
    ]
    return min((loop for loop in loops if any(i.name in ("LDG", "LDS", "STG", "STS") for i in loop)), key=len)


def offset(instruction):
    """Bytes that an access adds to its address register."""
    found = re.search(r"\[(?:R\d+[^\]+]*)(?:\+UR\d+)?(?:\+(-?0x[0-9a-f]+))?\]", instruction.operands)
    assert found is not None, instruction
    return int(found[1] or "0", 16)


def words(instruction, width):
    """Registers that a load writes or a store reads."""
    register = instruction.registers[0 if instruction.name.startswith("LD") else -1]
    return [f"R{int(register[1:]) + word}" for word in range(max(1, width // 4))]


@every_case
@every_transfer
def test_a_tile(arch, path, transfer, width, ilp, threads):
    code = code_of(arch, path, transfer, width, ilp, threads)
    assert not any(i.name in ("LDL", "STL", "CALL", "BRX") for i in code), "local memory, or a call"
    loop = tile_loop(code)
    load, store = opcodes(path, width, arch)
    loads = [at for at, i in enumerate(loop) if re.fullmatch(load, i.opcode)]
    stores = [at for at, i in enumerate(loop) if re.fullmatch(store, i.opcode)]
    assert len(loads) == (0 if transfer is Transfer.WRITE else ilp)
    assert len(stores) == (0 if transfer is Transfer.READ else ilp)
    others = [i for at, i in enumerate(loop) if MEMORY.match(i.name) and at not in (*loads, *stores)]
    assert all(i.name in ("LDC", "LDCU") for i in others), f"unexpected: {others}"
    assert not any(loop[at].predicate for at in (*loads, *stores))
    lanes = 32 if threads % 32 == 0 else 8
    distances = [access * lanes * width for access in range(ilp)]
    for group in (loads, stores):
        if group:
            lowest = min(offset(loop[at]) for at in group)
            assert sorted(offset(loop[at]) - lowest for at in group) == distances
            assert len({loop[at].registers[loop[at].name.startswith("LD")] for at in group}) == 1, "one address"
    if loads:
        _check_in_flight(loop, loads, width)
    if transfer is Transfer.COPY:
        assert max(loads) < min(stores)
        loaded = {word for at in loads for word in words(loop[at], width)}
        assert loaded == {word for at in stores for word in words(loop[at], width)}
    arithmetic = len(loop) - len(loads) - len(stores)
    assert arithmetic <= 15 + (ilp * max(4, width) // 8 if transfer is Transfer.READ else 0), (
        "an instruction adds two words"
    )


def _check_in_flight(loop, loads, width):
    """Check that no instruction waits for a load before the last one has started, and that every word is used."""
    pending = set()
    for at, i in enumerate(loop[: loads[-1] + 1]):
        if at in loads:
            assert not pending & set(i.registers[1:]), f"{i} needs an earlier load"
            assert not pending & set(words(i, width)), f"{i} overwrites an earlier load"
            pending |= set(words(i, width))
        else:
            assert not pending & set(i.registers), f"{i} needs a load"
    used = set()
    for i in loop[loads[-1] + 1 :]:
        read = words(i, width) if i.name in ("STG", "STS") else i.registers[1:]
        used |= set(read)
    assert pending <= used, f"unused: {sorted(pending - used)}"


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("path", [Path.GLOBAL, Path.SHARED])
@every_transfer
def test_the_end_waits_for_every_thread(arch, path, transfer):
    code = code_of(arch, path, transfer, 16, 4, 1024)
    begin, end = (at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands)
    barriers = [at for at, i in enumerate(code) if i.name == "BAR"]
    accesses = [code.index(i) for i in tile_loop(code) if i.name in ("LDG", "LDS", "STG", "STS")]
    assert len(barriers) == 2 and barriers[0] < begin < min(accesses) <= max(accesses) < barriers[1] < end
    if transfer is Transfer.READ:
        assert code[barriers[1]].opcode.startswith("BAR.RED.OR") and code[barriers[1]].operands.endswith("P0")
    elif path is Path.GLOBAL:
        fences = [at for at, i in enumerate(code) if i.name == "MEMBAR"]
        assert fences and max(accesses) < fences[0] < barriers[1], "stores are still in flight"
        skips = [i for i in code[max(accesses) : fences[0]] if i.target is not None and i.target > fences[0]]
        assert skips and skips[-1].predicate, "a block that another replaces would wait, too"
    clocks = [at for at, i in enumerate(code) if i.reads_clock]
    assert len(clocks) == 2 and clocks[0] < min(accesses) and barriers[1] < clocks[1]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("path", "name", "pattern"),
    [(Path.READONLY, "LDG", r"LDG\.E(\.U8|\.64|\.128)?\.CONSTANT(\.SYS)?"), (Path.TEXTURE, "TLD", r"TLD(\.SCR)?\.LZ")],
)
@pytest.mark.parametrize(("width", "ilp"), [(1, 4), (4, 4), (8, 4), (16, 2)])
def test_fetches_are_in_flight_together(arch, path, name, pattern, width, ilp):
    code = code_of(arch, path, Transfer.READ, width, ilp, 1024)
    first, last = (at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands)
    ends = [end for end, i in enumerate(code) if i.target is not None and first < i.target <= end < last]
    loops = [code[code[end].target : end + 1] for end in ends]
    loop = min((each for each in loops if any(i.name == name for i in each)), key=len)
    fetches = [at for at, i in enumerate(loop) if i.name == name]
    assert len(fetches) == ilp and all(re.fullmatch(pattern, loop[at].opcode) for at in fetches)
    assert not any(i.name in ("LDL", "STL", "ST", "STG") for i in loop)
    loaded = set()
    for at, i in enumerate(loop[: fetches[-1] + 1]):
        assert not loaded & set(i.registers[1 if at in fetches else 0 :]), f"{i} needs an earlier fetch"
        loaded |= {i.registers[0]} if at in fetches else set()
    assert len(loaded) == ilp


@pytest.mark.parametrize(("arch", "ilp"), [("sm_75", 4), ("sm_90", 1), ("sm_90", 16), ("sm_120", 4)])
def test_additions_return_nothing_and_none_waits_for_another(arch, ilp):
    """RED, not ATOM, which would return the old value over a link."""
    code = code_of(arch, Path.PEER, Transfer.ADD, 4, ilp, 512)
    begin, end = (at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands)
    accesses = [i for i in code[begin:end] if MEMORY.match(i.name) and i.name not in ("LDC", "LDCU", "BAR", "MEMBAR")]
    added = [i for i in accesses if i.opcode.startswith("RED")]
    assert len(added) == ilp and all(i.opcode.endswith("ADD.STRONG.SYS") for i in added)
    assert sorted(offset(i) - min(map(offset, added)) for i in added) == [128 * each for each in range(ilp)]
    assert all(i.name in ("RED", "REDG", "CCTL", "ERRBAR") for i in accesses), accesses
