"""What holds of all models, and what of some."""

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.models import ALL, by_key
from gpudissect.models.base import Contention, Limit, Loop, Machine, Unit, latency, peak
from gpudissect.models.evaluation import warps_needed
from tests.support.machines import FIVE, MAXWELL

N = np.arange(1, 129, dtype=float)
BOUNDED = ("basic", "refined", "queued")  # never above the bounds of VV16 s4.1
RISING = ("basic", "refined", "queued", "hong-kim", "cuda-guide", "agarwal", "saavedra", "baghsorkhi", "zhang-owens",
          "added", "huang-rr", "chen-aamodt")  # fmt: skip
# sim: a jump where its formula changes at CWP = MWP; greedy-then-oldest falls to its own asymptote; bandwidth terms are
# singular.
MODEL = pytest.mark.parametrize("model", ALL, ids=lambda model: model.key)
positive = st.floats(0.01, 8)


@st.composite
def machines(draw):
    access = draw(st.floats(0.001, 1))
    return Machine(
        name="drawn",
        sms=draw(st.integers(1, 200)),
        clock_hz=draw(st.floats(1e9, 3e9)),
        schedulers=4,
        warps=64,
        issue=draw(st.sampled_from((0.5, 1.0, 2.0, 4.0))),
        units={
            "fadd": Unit(resource="cores", latency=draw(st.floats(2, 40)), throughput=draw(positive)),
            "ldg_streaming": Unit(resource="memory", latency=draw(st.floats(50, 2000)), throughput=access, bytes=128),
        },
        contention={
            "ldg_streaming": Contention(
                draw(st.floats(50, 2000)), ((draw(st.floats(0, 200)), access * draw(st.floats(0.9, 1.5))),)
            )
        },
    )


alphas = st.one_of(st.just(0.0), st.just(inf), st.floats(0.01, 1000))


@MODEL
@given(machine=machines(), alpha=alphas)
def test_shapes_and_numbers(model, machine, alpha):
    loop = Loop(alpha=alpha)
    found = model.throughput(machine, loop, N)
    assert found.shape == N.shape
    assert not np.isnan(found).any()
    assert np.shape(model.throughput(machine, loop, 7)) == ()
    assert found[6] == pytest.approx(float(model.throughput(machine, loop, 7)))
    assert model.limit(machine, loop, 7) in Limit


@pytest.mark.parametrize("key", RISING)
@given(machine=machines(), alpha=alphas)
def test_throughput_rises_with_warps(key, machine, alpha):
    found = by_key(key).throughput(machine, Loop(alpha=alpha), N)
    assert np.all(found > 0)
    assert np.all(np.diff(found) >= -1e-9 * found[1:])


@pytest.mark.parametrize("key", BOUNDED)
@given(machine=machines(), alpha=alphas)
def test_never_above_the_bounds(key, machine, alpha):
    loop = Loop(alpha=alpha)
    found = by_key(key).throughput(machine, loop, N)
    assert np.all(found <= peak(machine, loop) * (1 + 1e-12))
    if key == "basic":
        assert np.all(found <= N / latency(machine, loop) * (1 + 1e-12))


@given(machine=machines(), alpha=alphas)
def test_contention_never_helps(machine, alpha):
    loop = Loop(alpha=alpha)
    idle = machine.contention["ldg_streaming"].base
    bound = N / latency(machine, loop, idle)
    assert np.all(by_key("refined").throughput(machine, loop, N) <= bound * (1 + 1e-9))


@given(machine=machines(), alpha=alphas)
def test_times_added_are_never_shorter_than_overlapped(machine, alpha):
    loop = Loop(alpha=alpha)
    added, overlapped = (by_key(key).throughput(machine, loop, N) for key in ("added", "zhang-owens"))
    assert np.all(added <= overlapped * (1 + 1e-12))
    assert np.all(added * 2 >= overlapped * (1 - 1e-12))


@given(machine=machines(), alpha=alphas)
def test_needed_warps_do_it_and_no_fewer(machine, alpha):
    loop, model = Loop(alpha=alpha), by_key("basic")
    found = warps_needed(model, machine, loop, 0.9)
    if found is None:
        assert model.throughput(machine, loop, 1024) < 0.9 * peak(machine, loop)
        return
    assert model.throughput(machine, loop, found) >= 0.9 * peak(machine, loop) * (1 - 1e-9)
    assert model.throughput(machine, loop, found * 0.999) < 0.9 * peak(machine, loop)
    assert found == pytest.approx(0.9 * latency(machine, loop) * peak(machine, loop))  # VV16 s3.10


@MODEL
def test_every_alpha_on_every_gpu(model):
    for machine in FIVE:
        for alpha in (0, 0.25, 1, 32, inf):
            for access in ("ldg_streaming", "ldg_stride2", "ldg_random", "lds", "rsq"):
                assert np.isfinite(model.throughput(machine, Loop(alpha=alpha, access=access), N)).all()


@MODEL
def test_names(model):
    assert by_key(model.key) is model
    assert model.name
    assert "VV16 s" in model.source


def test_keys_are_unique_and_others_refused():
    assert len({model.key for model in ALL}) == len(ALL)
    with pytest.raises(ValueError, match="unknown model 'crystal-ball'; known: basic, refined"):
        by_key("crystal-ball")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Loop(alpha=-1), "alpha .* 0, got -1"),
        (lambda: Loop(alpha=float("nan")), "alpha .* got nan"),
        (lambda: Loop(alpha=0, ilp=0), "at least one chain"),
        (lambda: Unit(resource="cores", latency=0, throughput=1), "positive"),
        (lambda: MAXWELL.unit("frobnicate"), "unknown instruction 'frobnicate'; known: fadd, ldg_random"),
    ],
)
def test_what_makes_no_sense(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_no_cusp_in_prior_models():  # VV16 s7.10: none, or a subtle one
    for key in ("baghsorkhi", "zhang-owens", "sim"):
        gpu = {"baghsorkhi": FIVE[0], "zhang-owens": FIVE[1], "sim": FIVE[2]}[key]
        ends = [warps_needed(by_key(key), gpu, Loop(alpha=alpha), 0.9) for alpha in (0, 1e4)]
        middle = [warps_needed(by_key(key), gpu, Loop(alpha=alpha), 0.9) for alpha in 2 ** np.arange(0, 9.5, 0.5)]
        ours = [warps_needed(by_key("basic"), gpu, Loop(alpha=alpha), 0.9) for alpha in 2 ** np.arange(0, 9.5, 0.5)]
        assert max(middle) <= max(ends) * 1.12
        assert max(ours) > max(warps_needed(by_key("basic"), gpu, Loop(alpha=alpha), 0.9) for alpha in (0, inf)) * 1.25
