"""The study of the memory hierarchy and the instructions: `gpudissect discover`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import RecordingError, unknown_name
from gpudissect.measure.plan import Study
from gpudissect.results.model import Options
from gpudissect.survey import run as surveys
from gpudissect.survey.drive import Progress
from gpudissect.survey.registry import measured_elements
from gpudissect.survey.run import Survey

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """What is asked for; None where a recording's own options, or else the defaults, are meant.

    Attributes:
        elements: only these, such as ``l1``; see `known_elements`.
        quick: whether what takes longest is left out.
        seed: of every random choice, in [0, 2^32).
        compare_methods: whether older methods read the same caches.

    """

    elements: tuple[str, ...] | None = None
    quick: bool | None = None
    seed: int | None = None
    compare_methods: bool | None = None

    @property
    def noise_seed(self) -> int:
        """Seed of the noise of a simulated GPU that does not name its own."""
        return self.seed or 0

    def options(self, recorded: Mapping[str, Any]) -> Options:
        """What was asked for, else what a recording was made with, else the defaults. Raises `RecordingError`."""
        asked = {name: recorded[name] for name in Options.model_fields if name in recorded}
        if self.seed is not None and asked.get("seed", self.seed) != self.seed:
            raise RecordingError(
                f"recorded with --seed {asked['seed']}, it holds nothing for another; leave --seed away"
            )
        asked |= {name: value for name, value in vars(self).items() if value is not None}
        if isinstance(asked.get("elements"), list):
            asked["elements"] = tuple(asked["elements"])
        try:
            return Options.model_validate(asked)
        except ValidationError:
            raise RecordingError(f"the recording's options make no sense: {dict(recorded)}") from None

    def survey(self, device: Device, options: Options, progress: Progress | None) -> Survey:
        """Every experiment that was asked for."""
        study = Study.COMPARE_METHODS if options.compare_methods else Study.DISCOVER
        return surveys.run_survey(
            device, study, elements=options.elements, quick=options.quick, seed=options.seed, progress=progress
        )

    def held_against(self, info: DeviceInfo) -> Gpu | None:
        """The GPU's own entry. A simulation of somebody's own file has none."""
        from gpudissect.catalogue import for_name, load, names

        if info.catalogue in names():
            return load(info.catalogue)
        return for_name(info.name) if Origin.MEASURED in (info.origin, info.recorded_origin) else None


def known_elements(elements: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check names of elements before anything is opened or written; None for none. Raises `UsageError`."""
    if not elements:
        return None
    for element in elements:
        if element not in measured_elements():
            raise unknown_name("element", element, measured_elements())
    return tuple(dict.fromkeys(elements))
