"""The machine code between two clock reads, for every path, timing and architecture: exactly the intended instructions.

Compilers and assemblers delete loads whose value is unused, move clock reads to the uniform datapath, set up registers
inside the window, unroll, and merge two fetches of one texel. Each of these happened here once.
"""

import re

import pytest

from gpudissect.device.cuda.compile import compile_cubin
from gpudissect.device.cuda.layout import PRIOR_PATHS, TRAITS
from gpudissect.machine_code.kernel import read_cubin
from gpudissect.workload import Path
from tests.support.machine_code import kernels

ARCHS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]  # sm_89: see test_ada_runs_the_code_of_ampere
LOADS = {
    Path.GLOBAL: r"LDG\.E\.64\.STRONG\.(SM|CTA) .*",
    Path.GLOBAL_L2: r"LDG\.E\.64\.STRONG\.GPU .*",
    Path.READONLY: r"LDG\.E\.64\.CONSTANT(\.SYS)? .*",
    Path.TEXTURE: r"TLD(\.SCR)?\.LZ RZ,R\d+,R\d+,.*,1D,0x1",
    Path.CONSTANT: r"LDC R\d+,c\[0x3\]\[R\d+\]",
    Path.SHARED: r"LDS(\.U)? R\d+,\[R\d+\]",
    Path.CLUSTER: r"LD\.E\.64 .*",
}
SINCE_HOPPER = (Path.CLUSTER, Path.TMA)
# Loop control, and what loads a texture object; none of it needs the value of a load. (Wait masks are not read here:
# that none of it waits shows on a GPU, where the time per load is the same for any number of loads.)
CONTROL = {"SHF", "LOP3", "ISETP", "BRA", "IADD3", "VIADD", "IADD", "UIADD3", "ULDC", "LDCU", "UMOV", "NOP", "MOV"}
CONTROL |= {"UISETP", "BSSY", "BSYNC"}
CHAINED = list(LOADS)


def on_archs(paths):
    """Paths with the architectures that have them."""
    return [(path, arch) for path in paths for arch in ARCHS if path not in SINCE_HOPPER or int(arch[3:]) >= 90]


# bulk copies: test_bulk.py; code: test_straight_line_code.py
every_path = pytest.mark.parametrize(("path", "arch"), on_archs([Path.NOTHING, *CHAINED]))
every_chained = pytest.mark.parametrize(("path", "arch"), on_archs(CHAINED))
every_arch = pytest.mark.parametrize("arch", ARCHS)
each_and_count = pytest.mark.parametrize("timing", ["each", "count"])


def is_load(path, instruction):
    """Whether it is the load of this path, on the ordinary datapath, from an address in a register."""
    return re.fullmatch(LOADS[path], f"{instruction.opcode} {instruction.operands}") is not None


def link_loaded(instruction):
    """Registers of the link that a load returns and of the link that it follows."""
    registers = instruction.registers
    return registers[0], registers[1]


def clock_reads(code, opcode):
    return [at for at, instruction in enumerate(code) if instruction.reads_clock and instruction.opcode == opcode]


def loop_around(code, at):
    """The longest loop around this instruction."""
    loops = [code[i.target : end + 1] for end, i in enumerate(code) if i.target is not None and i.target <= at <= end]
    return max(loops, key=len)


def whole_lap(code):
    """Instructions between the two clock reads of a lap, which must be on the ordinary datapath."""
    timer = [at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands]
    reads = [at for at, i in enumerate(code) if i.reads_clock and at > timer[1]]  # read twice at the start of the block
    first, last = reads[1:3]  # the read before them is of the start of the block
    assert code[first].opcode == code[last].opcode == "CS2R"
    return code[first + 1 : last]


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.TEXTURE, Path.SHARED])
def test_ada_runs_the_code_of_ampere(path):
    """Compiled for sm_89 the kernels equal those for sm_86, so that tests of one cover the other."""
    assert kernels(path, "sm_89") == kernels(path, "sm_86")


@every_path
@each_and_count
def test_window_of_one_access(path, arch, timing):
    code = kernels(path, arch)[f"chase_{timing}"]
    reads = clock_reads(code, "CS2R.32")
    assert len(reads) == 2, "there must be one window"
    window = code[reads[0] + 1 : reads[1]]
    assert not any(i.predicate for i in code[reads[0] : reads[1] + 1])
    store = window[-1]
    assert store.opcode == "STS"
    if path is Path.NOTHING:
        assert len(window) == 1
    else:
        assert len(window) == 2, " | ".join(map(str, window))
        assert is_load(path, window[0]), window[0]
        loaded, followed = link_loaded(window[0])
        assert loaded == followed, "a link copied between registers"
        assert store.registers[-1] == loaded, "the store must wait for the load"


@every_path
@pytest.mark.parametrize("timing", ["each", "count", "lap"])
def test_only_the_chain_goes_through_the_l1(path, arch, timing):
    code = kernels(path, arch)[f"chase_{timing}"]
    assert not any(i.name in ("LDL", "STL", "CALL", "BRX") for i in code), "local memory, or a call"
    for i in code:
        if i.name in ("LDG", "LD") and not (path in CHAINED and is_load(path, i)):
            assert ".STRONG.GPU" in i.opcode, f"{i}: the job must be read past the L1"


@every_chained
@each_and_count
def test_laps_before_timing_run_the_same_code(path, arch, timing):
    code = kernels(path, arch)[f"chase_{timing}"]
    loads = [at for at, i in enumerate(code) if is_load(path, i) and not i.predicate]
    window = clock_reads(code, "CS2R.32")[0]
    loop = loop_around(code, window)
    in_loop = [i for i in loop if is_load(path, i) and not i.predicate]
    if path in (Path.GLOBAL, Path.READONLY, Path.TEXTURE, Path.CONSTANT):
        assert loads == [window + 1], "there must be one load"
    if path is not Path.SHARED:  # its loop also reads slots
        assert len(in_loop) == 1
    if path is Path.CONSTANT:
        assert not any("c[0x0]" in i.operands for i in loop), "the loop must not use the constant cache otherwise"


@every_chained
def test_lap_is_a_chain_of_loads(path, arch):
    """Nothing between two loads reads or writes the link: no address arithmetic, no copy."""
    _check_lap(path, whole_lap(kernels(path, arch)["chase_lap"]))


def _check_lap(path, lap):
    assert lap[-1].opcode == "STS"
    loads = [i for i in lap if is_load(path, i)]
    assert len(loads) == 16 + 1
    link = link_loaded(loads[0])[1]
    first = link
    for number, i in enumerate(lap[:-1]):
        if is_load(path, i):
            loaded, followed = link_loaded(i)
            assert followed == link, f"{i} does not follow the load before it"
            link = loaded
        else:
            assert link not in i.registers, f"{i} touches the link"
            assert i.name in CONTROL or i.opcode.startswith("IMAD.MOV"), f"{i} does not belong in a lap ({number})"
    assert link == first == lap[-1].registers[-1]
    assert link_loaded(loads[15])[0] == first, "every iteration must begin and end with the link in one register"


@every_arch
def test_empty_lap(arch):
    code = kernels(Path.NOTHING, arch)["chase_lap"]
    assert [i.opcode for i in whole_lap(code)] == ["STS"]


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("macros", [(), ("PRIOR_CODE", "TIMING_COUNT")], ids=["data", "code"])
@pytest.mark.parametrize("path", [path for path in PRIOR_PATHS if path is not Path.CODE], ids=str)
def test_a_block_with_prior_accesses_may_have_1024_threads(path, macros, arch):
    cubin = read_cubin(compile_cubin("chase.cu", (TRAITS[path].macro, "PRIOR", *macros), arch))
    assert max(kernel.registers for kernel in cubin.kernels) <= 64


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("path", [path for path in PRIOR_PATHS if path is not Path.CODE], ids=str)
@pytest.mark.parametrize("macros", [("PRIOR",), ("PRIOR", "ON_SM")], ids=["any", "on_sm"])
def test_prior_accesses_do_not_change_the_windows(path, arch, macros):
    plain, prior = kernels(path, arch), kernels(path, arch, *macros)
    for name in ("chase_each", "chase_count"):
        assert _opcodes(prior[name], name) == _opcodes(plain[name], name)
    laps = [_opcodes(code["chase_lap"], "chase_lap") for code in (prior, plain)]
    loads, plain_loads = ([opcode for opcode in lap if opcode.startswith(("LD", "ST", "TEX", "TLD"))] for lap in laps)
    assert loads == plain_loads and len(laps[0]) <= len(laps[1]) + 2, "a move or two before the loops"


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("path", [path for path in [Path.NOTHING, *CHAINED] if path is not Path.CLUSTER])
def test_a_required_sm_does_not_change_the_windows(path, arch):
    plain, on_sm = kernels(path, arch), kernels(path, arch, "ON_SM")
    for name in ("chase_each", "chase_count"):
        assert _opcodes(on_sm[name], name) == _opcodes(plain[name], name)
    lap = whole_lap(on_sm["chase_lap"])
    if path is Path.NOTHING:
        assert [i.opcode for i in lap] == ["STS"]
    else:
        _check_lap(path, lap)  # loop control may differ


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_the_search_for_an_sm_bypasses_the_l1_without_a_fence(arch):
    code = kernels(Path.GLOBAL, arch, "ON_SM")["chase_each"]
    begin = next(at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands)
    before = code[:begin]
    assert any("SR_VIRTUALSMID" in i.operands for i in before)
    assert sum(i.name == "ATOMG" for i in before) == 1 == sum(i.name == "ATOMG" for i in code)
    assert not any(i.name in ("MEMBAR", "CCTL", "ERRBAR") for i in code)
    assert all(".STRONG." in i.opcode for i in before if i.name in ("LDG", "LD"))


def _opcodes(code, name):
    if name == "chase_lap":
        return sorted(i.opcode for i in whole_lap(code))  # loop control may stand before or after a load
    first, last = clock_reads(code, "CS2R.32")
    return [i.opcode for i in code[first + 1 : last]]
