"""GPUs as data: every number with its source, and the truth of the simulated GPUs."""

from gpudissect.catalogue.load import Gpu, for_name, load, names, prepare
from gpudissect.catalogue.published import Published

__all__ = ["Gpu", "Published", "for_name", "load", "names", "prepare"]
