"""A simulated GPU: a known memory hierarchy with a noisy clock."""

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise

__all__ = ["Noise", "SimulatedGpu"]
