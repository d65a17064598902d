"""Models of latency hiding: how much throughput n warps give, and how many are needed (VV16 chapters 3, 4, 6, 7).

`base` says what a model is given and answers; every other file but `bounds`, `needed`, `judge`, `worksheet`, `schedule`
and `published` is one model.
"""

from __future__ import annotations

from gpudissect.models.agarwal import Agarwal, Saavedra
from gpudissect.models.baghsorkhi import Baghsorkhi
from gpudissect.models.base import Model
from gpudissect.models.chen_aamodt import ChenAamodt
from gpudissect.models.cuda_guide import CudaGuide
from gpudissect.models.hong_kim import HongKim
from gpudissect.models.huang import GreedyThenOldest, RoundRobin, WithBandwidth
from gpudissect.models.queued import Queued
from gpudissect.models.sim import Sim
from gpudissect.models.volkov import Basic, Refined
from gpudissect.models.zhang_owens import Added, ZhangOwens

ALL: tuple[Model, ...] = (
    Basic(),
    Refined(),
    Queued(),
    HongKim(),
    CudaGuide(),
    Agarwal(),
    Saavedra(),
    Baghsorkhi(),
    ZhangOwens(),
    Added(),
    Sim(),
    RoundRobin(),
    GreedyThenOldest(),
    WithBandwidth(RoundRobin()),
    WithBandwidth(GreedyThenOldest()),
    ChenAamodt(),
)
"""Every model: those of VV16 itself, the refined one with queues, then those that VV16 evaluates."""


def by_key(key: str) -> Model:
    """The model of that key. Raises `ValueError` if there is none."""
    for model in ALL:
        if model.key == key:
            return model
    raise ValueError(f"unknown model {key!r}; known: {', '.join(model.key for model in ALL)}")
