"""Properties of all models, and of some; what they may import."""

import ast
import sys
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect import models
from gpudissect.models import ALL, by_key
from gpudissect.models.base import Contention, Loop, Machine, Unit, latency, peak
from gpudissect.models.evaluation import warps_needed
from tests.support.machines import FERMI, FIVE, G80, GT200, MAXWELL

N = np.arange(1, 129, dtype=float)
BOUNDED = ("basic", "refined", "queued")  # never above the bounds of VV16 s4.1
# sim: a jump where its formula changes at CWP = MWP; greedy-then-oldest falls to its own asymptote; bandwidth terms are
# singular.
RISING = {model.key for model in ALL} - {"sim", "huang-gto", "huang-rr-bandwidth", "huang-gto-bandwidth"}
EACH_MODEL = pytest.mark.parametrize("model", ALL, ids=lambda model: model.key)
positive, cycles = st.floats(0.01, 8), st.floats(50, 2000)
alphas = st.one_of(st.just(0.0), st.just(inf), st.floats(0.01, 1000))


@st.composite
def machines(draw):
    rate = draw(st.floats(0.001, 1))
    access = Unit(resource="memory", latency=draw(cycles), throughput=rate, bytes=128)
    term = (draw(st.floats(0, 200)), rate * draw(st.floats(0.9, 1.5)))
    return Machine(
        name="sampled",
        sms=draw(st.integers(1, 200)),
        clock_hz=draw(st.floats(1e9, 3e9)),
        schedulers=4,
        warps=64,
        issue=draw(st.sampled_from((0.5, 1.0, 2.0, 4.0))),
        units={
            "fadd": Unit(resource="cores", latency=draw(st.floats(2, 40)), throughput=draw(positive)),
            "ldg_streaming": access,
        },
        contention={"ldg_streaming": Contention(draw(cycles), (term,))},
    )


@EACH_MODEL
@given(machine=machines(), alpha=alphas)
def test_shapes_and_numbers(model, machine, alpha):
    loop = Loop(alpha=alpha)
    found = model.throughput(machine, loop, N)
    assert found.shape == N.shape
    assert not np.isnan(found).any()
    assert np.shape(model.throughput(machine, loop, 7)) == ()
    assert found[6] == pytest.approx(float(model.throughput(machine, loop, 7)))


@pytest.mark.parametrize("key", sorted(RISING))
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
    bound = N / latency(machine, loop, machine.contention["ldg_streaming"].base)
    assert np.all(by_key("refined").throughput(machine, loop, N) <= bound * (1 + 1e-9))


@given(machine=machines(), alpha=alphas)
def test_added_times_are_at_most_twice_the_overlapped_ones(machine, alpha):
    added, overlapped = (by_key(key).throughput(machine, Loop(alpha=alpha), N) for key in ("added", "zhang-owens"))
    assert np.all(added <= overlapped * (1 + 1e-12))
    assert np.all(added * 2 >= overlapped * (1 - 1e-12))


@given(machine=machines(), alpha=alphas)
def test_warps_needed_are_sufficient_and_necessary(machine, alpha):
    loop, model = Loop(alpha=alpha), by_key("basic")
    found, target = warps_needed(model, machine, loop, 0.9), 0.9 * peak(machine, loop)
    if found is None:
        assert model.throughput(machine, loop, 1024) < target
        return
    assert model.throughput(machine, loop, found) >= target * (1 - 1e-9)
    assert model.throughput(machine, loop, found * 0.999) < target
    assert found == pytest.approx(latency(machine, loop) * target)  # VV16 s3.10


@EACH_MODEL
def test_every_alpha_on_every_gpu(model):
    for machine in FIVE:
        for alpha in (0, 0.25, 1, 32, inf):
            for access in ("ldg_streaming", "ldg_stride2", "ldg_random", "lds", "rsq"):
                assert np.isfinite(model.throughput(machine, Loop(alpha=alpha, access=access), N)).all()


@EACH_MODEL
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
def test_impossible_parameters_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(("key", "machine"), [("baghsorkhi", G80), ("zhang-owens", GT200), ("sim", FERMI)])
def test_no_cusp_in_prior_models(key, machine):  # VV16 s7.10: none, or a subtle one
    def needed(model, alphas):
        return [warps_needed(by_key(model), machine, Loop(alpha=alpha), 0.9) for alpha in alphas]

    middle = 2 ** np.arange(0, 9.5, 0.5)
    assert max(needed(key, middle)) <= max(needed(key, (0, 1e4))) * 1.12
    assert max(needed("basic", middle)) > max(needed("basic", (0, inf))) * 1.25


@pytest.mark.parametrize("path", sorted(Path(models.__file__).parent.glob("*.py")), ids=lambda path: path.name)
def test_a_model_imports_only_numpy_units_and_models(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    internal = {name for name in names if name.startswith("gpudissect")}
    assert all(name.startswith(("gpudissect.models.", "gpudissect.units")) for name in internal)
    assert {name.partition(".")[0] for name in names - internal} <= {"numpy", *sys.stdlib_module_names}
