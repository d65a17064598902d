"""Who shares an array and how many copies there are come out, whatever the policy."""

import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Policy, PolicyKind, Route
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import bits, plain_l2


def found_on(policy, copies, together, weights=()):
    def cache(size, number):
        return Cache(
            (4,) * (size // 128),
            32,
            32,
            bits(5, (size // 128).bit_length() - 1),
            Policy(policy, weights),
            copies=number,
        )

    caches = {"l1": cache(8192, 1), "texture": cache(4096, copies), "l2": plain_l2()}
    texture = "l1" if together else "texture"
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (40, 230), 500, timer=12),
        Path.GLOBAL_L2: Route(("l2",), (230,), 500, timer=12),
        Path.TEXTURE: Route((texture, "l2"), (90, 260), 530, timer=20),
        Path.READONLY: Route(("texture", "l2"), (60, 230), 500, timer=12),
    }
    hierarchy = Hierarchy(caches=caches, routes=routes, sm_count=8)
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=4))
    survey = run_survey(device, elements=["l1", "readonly", "texture"])
    assert survey.failures == ()
    return {(each.element, each.attribute): each.value for each in survey.findings}


@pytest.mark.parametrize(("policy", "weights"), [
    ("lru", ()), ("fifo", ()), ("plru", ()), ("nru", ()), ("random", ()), ("weighted", (1 / 6, 1 / 2, 1 / 6, 1 / 6)),
])  # fmt: skip
def test_pairs_and_copies(policy, weights):
    found = found_on(PolicyKind(policy), 4, False, weights)
    assert found["l1", "shared_with"] == "nothing"
    assert found["readonly", "shared_with"] == "texture"
    assert found["texture", "shared_with"] == "readonly"
    assert (found["l1", "count_per_sm"], found["texture", "count_per_sm"]) == (1, 4)


def test_texture_in_the_l1():
    found = found_on(PolicyKind.LRU, 2, True)
    assert found["l1", "shared_with"] == "texture"
    assert found["texture", "shared_with"] == "l1"
    assert found["readonly", "shared_with"] == "nothing"
    assert (found["l1", "count_per_sm"], found["readonly", "count_per_sm"]) == (1, 2)
