"""Which chases share a launch, where their chains lie, how many blocks and how much shared memory a launch has."""

import pytest

from gpudissect.device.cuda.chase.plan import DeviceLimits, max_resident_blocks, plan_launches
from gpudissect.device.cuda.layout import CODE_BYTES
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload
from gpudissect.workload import Path, PriorAccesses, Sequential, Shuffled, Transfer
from tests.support.workloads import LAP, chase, stream

CHAIN = Shuffled(20, 32, seed=1)
CODE = chase(Path.CODE, Sequential(8, 128), LAP)
TEXELS = Sequential(8, 128, start=1 << 20)


def limits(spans=None, unsupported=None, **changed):
    unsupported = unsupported or {}
    known = {path: 1 << 24 for path in Path} | {Path.CONSTANT: 65536, Path.SHARED: 40000, Path.CLUSTER: 40000}
    spans = {path: span for path, span in (known | (spans or {})).items() if path not in unsupported}
    shared = {"shared_per_block": 49152, "shared_per_sm": 65536, "shared_beside_l1": 1024}
    sizes = {"sm_count": 4, "blocks_per_sm": 32, "max_cluster": 4, "peers": (1,)} | shared | changed
    return DeviceLimits(spans=spans, unsupported=unsupported, **sizes)


def lap(path, order=CHAIN, **fields):
    return chase(path, order, LAP, **fields)


def test_lone_chases_run_in_their_order_at_the_same_place():
    """What is touched after a chase must be the lines that the chase was over."""
    orders = [Sequential(9, 64), Sequential(5, 64), Sequential(7, 128)]
    lone = [lap(Path.GLOBAL, order, alone=True) for order in orders]
    mixed = [lone[0], lap(Path.GLOBAL, orders[0]), lone[1], lone[2]]
    launches = [launch for launch in plan_launches(mixed, limits()) if launch.first.alone]
    assert [launch.first for launch in launches] == lone
    assert {launch.chains[0].region for launch in launches} == {0}


def test_chases_that_do_not_fit_together_get_several_launches():
    chases = [lap(Path.GLOBAL, Sequential(1 << 16, 64)) for _ in range(3)]  # 4 MiB each
    launches = plan_launches(chases, limits({Path.GLOBAL: 9 << 20}))
    assert [launch.indices for launch in launches] == [(0, 1), (2,)]


def test_chases_on_different_sms_visit_the_same_memory():
    launches = plan_launches([lap(Path.GLOBAL_L2, alone=True, sm=sm) for sm in range(4)], limits())
    assert [launch.first.sm for launch in launches] == [0, 1, 2, 3]
    assert {launch.chains[0].region for launch in launches} == {0}
    assert len({(launch.blocks, launch.shared) for launch in launches}) == 1


def test_every_sm_gets_a_block():
    """One block an SM where shared memory allows no more; else as many as fit."""
    assert max_resident_blocks(227 << 10, limits(shared_per_sm=228 << 10)) == 4
    assert max_resident_blocks(48 << 10, limits(shared_per_sm=96 << 10)) == 8
    assert max_resident_blocks(16, limits()) == 4 * 32
    (launch,) = plan_launches([lap(Path.GLOBAL_L2, sm=1)], limits())
    assert launch.shared == 49152 and launch.blocks == 4
    (plain,) = plan_launches([lap(Path.GLOBAL_L2)], limits())
    assert plain.shared < launch.shared and plain.blocks == 1


SHARED_BYTES = [(Path.GLOBAL, None, 1024), (Path.TEXTURE, 0, 1024), (Path.READONLY, 1, 1024)]
SHARED_BYTES += [(Path.GLOBAL, 50, 65536 // 2 - 16384), (Path.GLOBAL, 100, 49152), (Path.GLOBAL_L2, None, 16)]
SHARED_BYTES += [(Path.NOTHING, None, 16), (Path.SHARED, None, 4 * 64 + 16), (Path.TMA, None, 32 + 16)]


@pytest.mark.parametrize(("path", "carveout", "shared"), SHARED_BYTES)
def test_shared_memory_of_a_block(path, carveout, shared):
    """Through the L1 always all that the carve-out offers; elsewhere what is needed."""
    (launch,) = plan_launches([lap(path, Sequential(4, 64), carveout=carveout)], limits())
    assert launch.shared == shared


def test_equal_chains_before_a_chase_are_one():
    paths = {Path.READONLY: CHAIN, Path.CONSTANT: CHAIN, Path.CODE: Sequential(8, 128), Path.TEXTURE: TEXELS}
    before = tuple(PriorAccesses(path=path, order=order) for path, order in paths.items())
    (launch,) = plan_launches([lap(Path.GLOBAL, before=before)], limits())
    assert launch.prior == (0, 1, 2, 3)
    assert [chain.path for chain in launch.chains] == [Path.GLOBAL, Path.CONSTANT, Path.CODE, Path.TEXTURE]
    assert launch.constant_region not in (None, launch.chains[0].region)


def test_a_chain_of_code_is_never_one_in_memory():
    before = tuple(PriorAccesses(path=path, order=CODE.order) for path in (Path.TEXTURE, Path.CODE))
    (launch,) = plan_launches([lap(Path.CONSTANT, before=before)], limits())
    assert launch.prior == (1, 2) and Path.CODE in launch.paths


FAR = PriorAccesses(path=Path.GLOBAL, order=Sequential(3, 8, start=4096), sm=4)


@pytest.mark.parametrize(
    ("workload", "error", "message"),
    [
        (lap(Path.CONSTANT, Sequential(2000, 64)), OutOfMemory, "64 KiB"),
        (lap(Path.CODE, Sequential(8 * 513, 128)), OutOfMemory, "513 KiB on path code: this device has 512 KiB"),
        (stream(Path.GLOBAL, Transfer.READ, 4, 1, 1), DeviceError, "Stream"),
        (lap(Path.CLUSTER, Sequential(4, 8), peer=4), UnsupportedWorkload, "clusters of 4 .* no rank 4"),
        (lap(Path.GLOBAL_L2, sm=4), UnsupportedWorkload, r"has 4 SMs: there is no SM 4$"),
        (lap(Path.GLOBAL, before=(FAR,)), UnsupportedWorkload, "there is no SM 4"),
    ],
)
def test_unsupported_workloads_are_refused_in_one_line(workload, error, message):
    with pytest.raises(error, match=message) as caught:
        plan_launches([workload], limits({Path.CODE: CODE_BYTES}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("chase", [CODE, lap(Path.CONSTANT, before=(PriorAccesses(path=Path.CODE, order=CODE.order),))])
def test_an_unsupported_path_is_refused_with_the_reason(chase):
    with pytest.raises(DeviceError, match="no path 'code': too old"):
        plan_launches([chase], limits(unsupported={Path.CODE: "too old"}))
