"""`Study`: what can be asked of a whole device; one file each has those there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo
from gpudissect.results.model import Options
from gpudissect.survey.drive import Progress
from gpudissect.survey.run import Survey

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu


class Study(Protocol):
    """A survey of a device, and what it is held against."""

    @property
    def noise_seed(self) -> int:
        """Seed of the noise of a simulated GPU that does not name its own."""

    def options(self, recorded: Mapping[str, Any]) -> Options:
        """What was asked for, else what a recording was made with, else the defaults.

        Raises `RecordingError` for what the recording cannot answer.
        """

    def survey(self, device: Device, options: Options, progress: Progress | None) -> Survey:
        """Run it; a KeyboardInterrupt ends it with what was measured so far."""

    def held_against(self, info: DeviceInfo) -> Gpu | None:
        """The GPU of the catalogue whose published values the findings are held against."""
