"""How long is waited for memory that the driver clears."""

import pytest

from gpudissect.device.cuda.clearing import Clearing

GIB = 1 << 30


def after(sizes: list[int], clearing: Clearing) -> float:
    """Seconds left when all of these were given back at once."""
    for at, size in enumerate(sizes):
        clearing.taken(at, size)
    for at in range(len(sizes)):
        clearing.given_back(at, 100.0)
    return clearing.left(100.0)


@pytest.mark.parametrize(
    ("size", "took"), [(GIB // 2, 0.004), (GIB, 0.0042), (2 * GIB, 0.008), (9 * GIB, 0.029), (36 * GIB, 0.095)]
)
def test_longer_than_an_h200_took_but_not_much(size: int, took: float) -> None:
    assert took < after([size], Clearing(4.8e12)) < 2.5 * took


def test_one_after_the_other() -> None:
    assert after([GIB, 2 * GIB], Clearing()) == pytest.approx(after([GIB], Clearing()) + after([2 * GIB], Clearing()))


def test_slower_memory_takes_longer() -> None:
    assert after([GIB], Clearing(224e9)) > 2 * GIB / 224e9 > after([GIB], Clearing(4.8e12))


def test_time_passes() -> None:
    clearing = Clearing()
    left = after([9 * GIB], clearing)
    assert clearing.left(100.0 + left / 2) == pytest.approx(left / 2)
    assert clearing.left(200.0) == 0.0
