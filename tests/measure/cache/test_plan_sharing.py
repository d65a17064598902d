"""Which caches share an array, and the number of copies, are found for any policy."""

import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Policy, PolicyKind, Route
from gpudissect.workload import Path
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates


def survey(policy: Policy, copies: int, unified: bool):
    """Values found on a GPU whose texture path goes through the L1 (`unified`) or through its read-only cache."""

    def cache(size, number):
        sets = size // 128
        return Cache((4,) * sets, 32, 32, bits(5, sets.bit_length() - 1), policy, copies=number)

    caches = {"l1": cache(8192, 1), "texture": cache(4096, copies), "l2": plain_l2()}
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (40, 230), 500, timer=12),
        Path.GLOBAL_L2: Route(("l2",), (230,), 500, timer=12),
        Path.TEXTURE: Route(("l1" if unified else "texture", "l2"), (90, 260), 530, timer=20),
        Path.READONLY: Route(("texture", "l2"), (60, 230), 500, timer=12),
    }
    hierarchy = Hierarchy(caches=caches, routes=routes, sm_count=8)
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=4))
    found = estimates(device, ["sharing.l1", "sharing.readonly", "sharing.texture"])
    return {name: estimate.value for name, estimate in found.items()}


POLICIES = [Policy(PolicyKind(name)) for name in ("lru", "fifo", "plru", "nru", "random")]
WEIGHTED = Policy(PolicyKind.WEIGHTED, (1 / 6, 1 / 2, 1 / 6, 1 / 6))


@pytest.mark.parametrize("policy", [*POLICIES, WEIGHTED], ids=lambda policy: policy.kind)
def test_pairs_and_copies(policy):
    found = survey(policy, 4, unified=False)
    assert found["l1", "shared_with"] == "nothing"
    assert found["readonly", "shared_with"] == "texture"
    assert found["texture", "shared_with"] == "readonly"
    assert (found["l1", "count_per_sm"], found["texture", "count_per_sm"]) == (1, 4)


def test_texture_in_the_l1():
    found = survey(Policy(PolicyKind.LRU), 2, unified=True)
    assert found["l1", "shared_with"] == "texture"
    assert found["texture", "shared_with"] == "l1"
    assert found["readonly", "shared_with"] == "nothing"
    assert (found["l1", "count_per_sm"], found["readonly", "count_per_sm"]) == (1, 2)
