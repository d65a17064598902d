"""Validation of the hierarchy on accesses that nothing was inferred from: where it is right, and where it is not."""

from dataclasses import replace

import pytest

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_policy import Replacement
from gpudissect.measure.plan import Bench, Known, Study
from gpudissect.measure.prediction.infer_agreement import NotPredicted
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.survey.registry import experiments
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import learned, outcome

DISCOVER = experiments(Study.DISCOVER)


@pytest.fixture(scope="module")
def knowledge(gpu_with):
    """A GPU with an L1 and a small L2, and what is inferred of it."""
    l1 = Cache((4,) * 32, 128, 32, bits(7, 5), Policy(PolicyKind.LRU))
    device = gpu_with(l1, plain_l2(256), Noise(seed=1))
    return device, learned(device, [need.name for need in DISCOVER["hierarchy.global"].needs])[1]


def run(knowledge, experiment="hierarchy.global", **changes):
    device, known = knowledge
    return outcome(DISCOVER[experiment].plan(Bench(device.info), Known(known | changes)), device)


def test_both_levels_are_predicted_to_the_last_access(knowledge):
    result = run(knowledge)
    assert result.estimates == result.series == ()
    counts = result.knowledge
    assert counts.agreement > 0.999 and counts.accesses > 10000 and counts.assumed == ()


@pytest.mark.parametrize("element", ["l1", "l2"])
def test_a_wrong_policy_is_refuted_and_the_accesses_named(knowledge, element):
    result = run(knowledge, **{f"policy.{element}": Replacement(Policy(PolicyKind.SRRIP), True)})
    refuted = {each.element: each for each in result.estimates}[element]
    assert refuted.status is Status.AMBIGUOUS
    assert refuted.reason.startswith("srrip, ") and "(byte " in refuted.reason
    (series,) = result.series
    assert set(series.columns) == {"sequence", "access", "offset", "predicted", "answered"}


@pytest.mark.parametrize(
    ("changes", "assumed"),
    [
        ({"policy.l1": Replacement(Policy(PolicyKind.LRU), False)}, "l1: policy lru"),
        ({"sets.l1": None, "policy.l1": None}, "l1: unknown sets"),
        ({"sets.l2": None, "policy.l2": None}, "l2: unknown sets"),
    ],
    ids=["policy not certain", "sets of the L1 not known", "sets of the L2 not known"],
)
def test_what_was_not_found_is_assumed(knowledge, changes, assumed):
    counts = run(knowledge, **changes).knowledge
    assert counts.agreement > (0.97 if "sets.l1" in changes else 0.999)
    assert (counts.not_predicted > 0) is ("sets.l1" in changes)
    assert counts.assumed[0].startswith(assumed)


def test_a_cache_of_which_nothing_is_known_is_not_simulated(knowledge):
    found = run(knowledge, **{"sets.l1": None, "capacity.l1": None}).knowledge
    assert isinstance(found, NotPredicted) and found.name == "path global" and "l1" in found.reason


def test_without_caches_nothing_is_predicted(gpu_with):
    names = [f"hierarchy.{path}" for path in ("global", "global_l2", "translation")]
    known = learned(gpu_with(None, None), names)[1]
    assert all(isinstance(known[name], NotPredicted) for name in names)


def test_a_policy_that_is_impossible_for_some_sets_is_not_predicted(knowledge):
    unequal = replace(knowledge[1]["sets.l1"], ways=(4, 3) * 16)
    changes = {"sets.l1": unequal, "policy.l1": Replacement(Policy(PolicyKind.PLRU), True)}
    found = run(knowledge, "prediction.l1", **changes).knowledge
    assert isinstance(found, NotPredicted) and found.name == "l1" and "power of two" in found.reason
