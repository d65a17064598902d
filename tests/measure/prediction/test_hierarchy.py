"""The whole hierarchy held against accesses that nothing was inferred from: where it is right, and where it is not."""

from dataclasses import replace

import pytest

from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_policy import Replacement
from gpudissect.measure.plan import Bench, Known, Study
from gpudissect.measure.prediction.infer_disagreement import Unforetold
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.survey.registry import experiments
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import learned, outcome

GLOBAL = experiments(Study.DISCOVER)["hierarchy.global"]


def l1(kind=PolicyKind.LRU):
    return Cache((4,) * 32, 128, 32, bits(7, 5), Policy(kind))


@pytest.fixture(scope="module")
def knowledge(gpu_with):
    """A GPU with an L1 and a small L2, and what is inferred of it."""
    device = gpu_with(l1(), plain_l2(256), Noise(seed=1))
    return device, learned(device, [need.name for need in GLOBAL.needs])[1]


def told(device, known, **instead):
    return outcome(GLOBAL.plan(Bench(device.info), Known(known | instead)), device)


def test_both_levels_are_foretold_to_the_last_access(knowledge):
    result = told(*knowledge)
    assert result.estimates == ()
    assert result.knowledge.agreement > 0.999
    assert result.knowledge.assumed == ()
    assert result.knowledge.accesses > 10000
    assert result.series == ()


@pytest.mark.parametrize("element", ["l1", "l2"])
def test_a_wrong_policy_is_found_out_and_the_accesses_named(knowledge, element):
    wrong = Replacement(Policy(PolicyKind.SRRIP), True)
    result = told(*knowledge, **{f"policy.{element}": wrong})
    blamed = {each.element: each for each in result.estimates}
    assert blamed[element].status is Status.AMBIGUOUS
    assert "srrip, but of" in blamed[element].reason
    assert "(byte " in blamed[element].reason
    (series,) = result.series
    assert set(series.columns) == {"sequence", "access", "offset", "foretold", "answered"}


def test_a_policy_that_was_not_found_is_said_to_be_assumed(knowledge):
    result = told(*knowledge, **{"policy.l1": Replacement(Policy(PolicyKind.LRU), False)})
    assert result.knowledge.assumed == ("l1: lru for its policy: that comes nearest",)


def test_of_a_cache_of_unknown_sets_what_is_certain_is_foretold(knowledge):
    result = told(*knowledge, **{"sets.l1": None, "policy.l1": None})
    assert result.knowledge.open > 0
    assert result.knowledge.agreement > 0.97
    assert result.knowledge.assumed[0].startswith("l1: its sets are not known")


def test_of_an_l2_of_unknown_sets_no_more_is_asked_than_it_holds(knowledge):
    result = told(*knowledge, **{"sets.l2": None, "policy.l2": None})
    assert result.knowledge.agreement > 0.999
    assert "l2: room for all" in result.knowledge.assumed[0]


def test_a_cache_of_which_nothing_is_known_cannot_be_simulated(knowledge):
    result = told(*knowledge, **{"sets.l1": None, "capacity.l1": None})
    reason = "of l1 neither the sets nor line and capacity are known"
    assert result.knowledge == Unforetold("path global", reason)


def test_without_caches_there_is_nothing_to_foretell(gpu_with):
    device = gpu_with(None, None)
    _, known = learned(device, ["hierarchy.global", "hierarchy.global_l2", "hierarchy.translation"])
    for name in ("global", "global_l2", "translation"):
        assert isinstance(known[f"hierarchy.{name}"], Unforetold)


def test_a_cache_whose_policy_does_not_fit_all_its_sets_says_so(knowledge):
    device, known = knowledge
    unequal = replace(known["sets.l1"], ways=(4, 3) * 16)
    known = known | {"sets.l1": unequal, "policy.l1": Replacement(Policy(PolicyKind.PLRU), True)}
    result = outcome(experiments(Study.DISCOVER)["prediction.l1"].plan(Bench(device.info), Known(known)), device)
    assert result.knowledge.name == "l1"
    assert "power of two" in result.knowledge.reason
