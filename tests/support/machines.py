"""Machines of VV16, and checks that tests of several models share."""

import pytest

from gpudissect.models import published
from gpudissect.models.base import Loop

G80, GT200, FERMI, KEPLER, MAXWELL = published.machines().values()
FIVE = (G80, GT200, FERMI, KEPLER, MAXWELL)
EACH_MACHINE = pytest.mark.parametrize("machine", FIVE, ids=lambda machine: machine.name)
SYNTHETIC = published.synthetic()


def limits(model, machine, cases):
    """Check what binds at pairs of alpha and warps."""
    found = {(alpha, n): model.limit(machine, Loop(alpha=alpha), n) for alpha, n in cases}
    assert found == cases
