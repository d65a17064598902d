"""Models of latency hiding: throughput at n warps, and the warps needed (VV16 chapters 3, 4, 6, 7).

`base` defines the input and output of a model; `volkov`, `hong_kim`, `one_latency`, `separate_times` and `huang` hold
the models; `evaluation` compares them with measurements.
"""

from gpudissect.models.base import Model
from gpudissect.models.hong_kim import HongKim, Sim
from gpudissect.models.huang import GreedyThenOldest, RoundRobin, WithBandwidth
from gpudissect.models.one_latency import Agarwal, ChenAamodt, CudaGuide, Saavedra
from gpudissect.models.separate_times import Added, Baghsorkhi, ZhangOwens
from gpudissect.models.volkov import Basic, Queued, Refined

ALL: tuple[Model, ...] = (
    *(Basic(), Refined(), Queued(), HongKim(), CudaGuide(), Agarwal(), Saavedra(), Baghsorkhi(), ZhangOwens()),
    *(Added(), Sim(), RoundRobin(), GreedyThenOldest()),
    *(WithBandwidth(RoundRobin()), WithBandwidth(GreedyThenOldest()), ChenAamodt()),
)
"""Every model: those of VV16 itself, the refined one with queues, then those that VV16 evaluates."""


def by_key(key: str) -> Model:
    """The model of that key. Raises `ValueError` if there is none."""
    for model in ALL:
        if model.key == key:
            return model
    raise ValueError(f"unknown model {key!r}; known: {', '.join(model.key for model in ALL)}")
