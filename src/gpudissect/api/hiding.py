"""The study of latency hiding: `gpudissect hide`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import RecordingError
from gpudissect.measure.plan import Study
from gpudissect.results.model import Options
from gpudissect.survey import run as surveys
from gpudissect.survey.drive import Progress
from gpudissect.survey.run import Survey
from gpudissect.vocabulary import HIDING


@dataclass(frozen=True, kw_only=True)
class Hiding:
    """What is asked for; None where a recording's own options, or else the defaults, are meant.

    Attributes:
        elements: of `vocabulary.HIDING`; by default streaming loads alone.
        quick: whether fewer mixes are run.

    """

    elements: tuple[str, ...] | None = None
    quick: bool | None = None
    noise_seed: int = 0

    def options(self, recorded: Mapping[str, Any]) -> Options:
        """What was asked for, else what a recording was made with, else the defaults. Raises `RecordingError`."""
        own = recorded.get("elements")
        if recorded and not (isinstance(own, list | tuple) and own and set(own) <= set(HIDING)):
            raise RecordingError("this recording is not of latency hiding: replay it with 'gpudissect discover'")
        before = tuple(own) if own else ("hiding",)
        hurry = bool(recorded.get("quick", False)) if self.quick is None else self.quick
        return Options(elements=before if self.elements is None else self.elements, quick=hurry)

    def survey(self, device: Device, options: Options, progress: Progress | None) -> Survey:
        """Loads with additions between them at every occupancy, and what models say of it."""
        return surveys.run_survey(
            device, Study.HIDE, elements=options.elements or (), quick=options.quick, progress=progress
        )

    def held_against(self, info: DeviceInfo) -> None:
        """Nothing: what is published of latency hiding stands in the models' own pages."""
