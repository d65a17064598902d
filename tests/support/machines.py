"""Machines of VV16, and checks that tests of several models share."""

import pytest
import vv16

G80, GT200, FERMI, KEPLER, MAXWELL = vv16.machines().values()
FIVE = (G80, GT200, FERMI, KEPLER, MAXWELL)
EACH_MACHINE = pytest.mark.parametrize("machine", FIVE, ids=lambda machine: machine.name)
SYNTHETIC = vv16.synthetic()
