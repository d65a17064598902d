"""The hash of a workload: it tells workloads apart, and never changes, or every recording would be lost."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from gpudissect.workload import Bounds, Chase, Explicit, Path, PriorAccesses, Sequential, Shuffled, Stream, Timing
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer

PLAIN = Chase(path=Path.GLOBAL, order=Shuffled(10, 32, 1), timing=Timing.LAP)
TURN = PriorAccesses(path=Path.TEXTURE, order=Sequential(4, 32, 512), warp=1)
OTHERS = (
    replace(PLAIN, laps=2),
    replace(PLAIN, warmup=0),
    replace(PLAIN, repetition=1),
    replace(PLAIN, alone=True),
    replace(PLAIN, flush=True),
    replace(PLAIN, carveout=0),
    replace(PLAIN, path=Path.TEXTURE),
    replace(PLAIN, order=Sequential(10, 32)),
    replace(PLAIN, order=Shuffled(10, 32, 1, 32)),
    replace(PLAIN, order=Explicit(np.arange(10) * 32)),
    replace(PLAIN, timing=Timing.EACH),
    replace(PLAIN, timing=Timing.EACH, picks=(1,)),
    replace(PLAIN, timing=Timing.COUNT, bounds=Bounds(40, 200, 300)),
    replace(PLAIN, before=(TURN,)),
    replace(PLAIN, before=(TURN, TURN)),
    replace(PLAIN, before=(replace(TURN, sm=1),)),
    replace(PLAIN, sm=0),
    replace(PLAIN, sm=1),
    replace(PLAIN, path=Path.CLUSTER),
    replace(PLAIN, path=Path.CLUSTER, peer=2),
    replace(PLAIN, path=Path.TMA),
    replace(PLAIN, path=Path.CODE, order=Sequential(8, 128)),
    replace(PLAIN, before=(PriorAccesses(path=Path.CODE, order=Sequential(8, 128)),)),
)
STREAM = Stream(path=Path.TMA, transfer=Transfer.READ, footprint=65536, blocks=4, threads=1, width=1024, ilp=2)
STREAMS = (
    STREAM,
    replace(STREAM, passes=2),
    replace(STREAM, runs=2),
    replace(STREAM, path=Path.GLOBAL, width=16, waves=2),
    replace(STREAM, repetition=1),
    replace(STREAM, blocks=8),
    replace(STREAM, path=Path.CLUSTER, width=16, cluster=2),
    replace(STREAM, path=Path.CLUSTER, width=16, cluster=4),
)


def test_every_field_counts():
    assert len({digest(each) for each in (PLAIN, *OTHERS, *STREAMS)}) == 1 + len(OTHERS) + len(STREAMS)


@pytest.mark.parametrize(("chase", "frozen"), [
    (PLAIN, "0222aff041af9df1c1d426971051b061"),
    (OTHERS[9], "5505f321282235cba679f8ddc3225622"),
    (OTHERS[11], "71bcb159a9c72b4db0f39c0d61404df7"),
    (OTHERS[12], "300db5f9718ad5c7c6f62b885413286c"),
    (OTHERS[13], "7c0452ef792b291dfffdf7df5741ca67"),
    (OTHERS[18], "035201320ad09d3c4d286fcc9e214ff0"),
    (OTHERS[19], "aff4aebe73049c2a924d4463b4f7691d"),
    (STREAM, "996ee840d35397f529041ab8b6d03ce1"),
    (STREAMS[7], "c6123ac884595532798b790ff3f3ff19"),
    (Chase(path=Path.CODE, order=Sequential(8, 128), timing=Timing.LAP), "3fad66bf00d8181ad947856f91ec8bbc"),
])  # fmt: skip
def test_it_is_the_same_in_every_version(chase, frozen):
    assert digest(chase) == frozen


def test_a_field_added_later_leaves_old_digests_as_they_are():
    @dataclass(frozen=True)
    class Old:
        laps: int
        flush: bool = False

    @dataclass(frozen=True)
    class New:
        laps: int
        flush: bool = False
        added: int = 7

    New.__name__ = "Old"
    assert digest(Old(3)) == digest(New(3)) != digest(New(3, added=8))
