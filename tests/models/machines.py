"""Machines that tests of several models share."""

from gpudissect.models import published
from gpudissect.models.base import Machine, Unit

G80, GT200, FERMI, KEPLER, MAXWELL = published.machines().values()
FIVE = (G80, GT200, FERMI, KEPLER, MAXWELL)
SYNTHETIC = Machine(  # the GPU of Huang et al. 2014 (VV16 s7.7)
    name="synthetic",
    sms=16,
    clock_hz=1e9,
    schedulers=1,
    warps=32,
    issue=1,
    units={
        "fadd": Unit(resource="cores", latency=25, throughput=1),
        "ldg_streaming": Unit(resource="memory", latency=300, throughput=0.09, bytes=128),
    },
    pin_bandwidth=192e9,
)
