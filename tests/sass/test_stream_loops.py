"""The loops of streams in clusters and of bulk copies: loads in flight, each used, and the end read after all."""

import pytest

from tests.support.machine_code import kernels_of

every_arch = pytest.mark.parametrize("arch", ["sm_90", "sm_100", "sm_120"])


def code_of(source, name, arch, *macros):
    return kernels_of(source, macros, arch)[name]


def loops(code):
    return [code[i.target : end + 1] for end, i in enumerate(code) if i.target is not None and i.target <= end]


@every_arch
@pytest.mark.parametrize(("threads", "ilp"), [(1024, 1), (1024, 2), (1024, 4), (256, 4)])
@pytest.mark.parametrize(("width", "load"), [(4, "LD.E"), (8, "LD.E.64"), (16, "LD.E.128")])
def test_reading_a_neighbor(arch, threads, ilp, width, load):
    code = code_of("stream_cluster.cu", "stream_cluster", arch, f"WIDTH={width}", f"ILP={ilp}", f"THREADS={threads}")
    reading = min((loop for loop in loops(code) if any(i.name == "LD" for i in loop)), key=len)
    loads = [at for at, i in enumerate(reading) if i.name == "LD"]
    assert [reading[at].opcode for at in loads] == [load] * ilp
    assert not {"LDG", "LDS", "STS", "ST", "STG", "LDL", "STL", "BAR"} & {i.name for i in reading}
    pending = set()
    for i in reading[loads[0] : loads[-1] + 1]:  # no instruction may wait for a load before the next has started
        if i.name == "LD":
            low = int(i.registers[0][1:])
            assert not pending & set(i.registers[1:]), f"{i} needs an earlier load"
            pending |= {f"R{low + part}" for part in range(width // 4)}
        else:
            assert not pending & set(i.registers), f"{i} needs a load"


@every_arch
def test_the_end_waits_for_every_thread(arch):
    code = code_of("stream_cluster.cu", "stream_cluster", arch, "WIDTH=16", "ILP=4", "THREADS=1024")
    timers = [at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands]
    reads = [at for at, i in enumerate(code) if i.name == "LD"]
    barrier = next(at for at, i in enumerate(code) if i.opcode.startswith("BAR.RED"))
    assert len(timers) == 2
    assert timers[0] < min(reads) <= max(reads) < barrier < timers[1]


@every_arch
def test_bulk_copies_are_started_and_awaited_in_one_loop(arch):
    code = code_of("stream_tma.cu", "stream_tma", arch)
    timers = [at for at, i in enumerate(code) if "SR_GLOBALTIMER" in i.operands]
    copies = [at for at, i in enumerate(code) if i.name == "UBLKCP"]
    waits = [at for at, i in enumerate(code) if "TRYWAIT" in i.opcode]
    assert len(timers) == 2 and len(copies) == 2, "one that starts the first copies, one in the loop"
    assert all(timers[0] < at < timers[1] for at in copies)
    loop = min((loop for loop in loops(code) if any(i is code[waits[0]] for i in loop)), key=len)
    names = [i.name for i in loop]
    assert names.count("UBLKCP") == 1 and names.count("LDS") == 1
    assert names.index("LDS") < names.index("UBLKCP"), "a buffer is checked before it is written again"
