"""Machines that tests of several models share."""

from gpudissect.models import published

G80, GT200, FERMI, KEPLER, MAXWELL = published.machines().values()
FIVE = (G80, GT200, FERMI, KEPLER, MAXWELL)
SYNTHETIC = published.synthetic()
