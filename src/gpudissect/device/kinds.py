"""Devices by name: ``cuda:0``, ``sim:gtx980?seed=2``, ``sim:random?seed=7``, ``rec:folder``.

Drivers and simulators are imported when a device that needs them is opened.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from gpudissect.errors import CatalogueError, DeviceError, RecordingError, UsageError, suggest
from gpudissect.units import as_text

if TYPE_CHECKING:
    from gpudissect.device.base import Device
    from gpudissect.device.simulated.noise import Noise

DEFAULT_SIMULATED = "sim:gtx980"
RANDOM, UNTUNED = "random", "untuned"
"""Names of simulated GPUs that are generated from their seed; see `random_gpu` and `untuned_gpu`."""
_NOISE_OPTIONS = ("jitter", "outliers", "drift")


@dataclass(frozen=True)
class Listing:
    """A device that can be named: its spec, the GPU's name, its origin, and why it cannot be used (or None)."""

    spec: str
    name: str
    origin: str
    why_not: str | None = None


@dataclass(frozen=True)
class DeviceKind:
    """A kind of device: opens one by the spec without its prefix and a noise seed; lists those that can be named."""

    open: Callable[[str, int], Device]
    list: Callable[[FilePath], Iterable[Listing]]


@dataclass(frozen=True)
class Choice:
    """Specs of the devices to run on; `note` names the device that was chosen when none was requested."""

    specs: tuple[str, ...]
    note: str | None = None


def choose(spec: str | None) -> Choice:
    """Resolve a spec: None and ``cuda:all`` stand for GPUs of this machine. Raises `DeviceError` if none is usable."""
    if spec not in (None, "cuda:all"):
        return Choice((str(spec),))
    gpus = _cuda_gpus()
    usable = tuple(gpu.spec for gpu in gpus if gpu.why_not is None)
    reasons = "; ".join(f"{gpu.spec}: {gpu.why_not}" for gpu in gpus) or "none was found"
    unusable = f"no CUDA GPU can be used ({reasons})"
    if spec == "cuda:all":
        if not usable:
            raise DeviceError(unusable)
        return Choice(usable)
    if usable:
        return Choice(usable[:1], f"no device named, taking {usable[0]}")
    return Choice((DEFAULT_SIMULATED,), f"{unusable}; taking {DEFAULT_SIMULATED}, a simulated one")


def open_device(spec: str | None = None, *, seed: int = 0) -> Device:
    """Open one device; `seed` is the noise seed of a simulated GPU whose spec has none.

    Raises `DeviceError` for an unknown or unusable device, `RecordingError` and `CatalogueError` for damaged files,
    `UsageError` for invalid options.
    """
    seed, specs = check_seed(seed), choose(spec).specs
    if len(specs) > 1:
        raise UsageError(f"{spec} names {len(specs)} GPUs where one is needed; name one, such as {specs[0]}")
    kind, _, name = specs[0].partition(":")
    if kind not in KINDS or not name:
        raise _unknown_device(specs[0])
    return KINDS[kind].open(name, seed)


def check_seed(seed: object) -> int:
    """A seed as a whole number of Python. Raises `UsageError` for anything else, and outside [0, 2^32)."""
    try:
        if 0 <= (number := index(seed)) < 2**32:  # type: ignore[arg-type]
            return number
    except TypeError:
        pass
    raise UsageError(f"a seed is a whole number in [0, 2^32), got {seed!r:.40}")


def _unknown_device(spec: str) -> DeviceError:
    from gpudissect.catalogue.load import names

    name = spec.lower().partition("?")[0]
    similar = suggest(name, ["cuda:0", "cuda:all", *(f"sim:{known}" for known in names())], cutoff=0.75)
    # The prefix is often missing or another one: also compare the names without it.
    similar += (f"sim:{known}" for known in suggest(name.rpartition(":")[2], names(), cutoff=0.75))
    hint = f"did you mean {' or '.join(dict.fromkeys(similar))}?" if similar else "'gpudissect devices' lists them"
    return DeviceError(f"unknown device {spec!r}; {hint}")


def list_devices(folder: FilePath | None = None) -> list[Listing]:
    """Real GPUs, those of the catalogue, and the recordings in `folder` (the current one if None)."""
    return [listing for kind in KINDS.values() for listing in kind.list(folder or FilePath())]


def _open_cuda(name: str, seed: int) -> Device:
    if not (name.isascii() and name.isdecimal() and len(name) < 6):
        raise _unknown_device(f"cuda:{name}")
    from gpudissect.device.cuda import early_context

    early_context.start(int(name))
    from gpudissect.device.cuda.gpu import CudaGpu

    return CudaGpu.open(int(name))


def _cuda_gpus(folder: FilePath = FilePath()) -> list[Listing]:
    from gpudissect.device.cuda.driver import list_gpus

    try:
        return [Listing(f"cuda:{index}", name, "measured", why_not) for index, name, why_not in list_gpus()]
    except DeviceError as error:  # no driver, no package, no GPU
        return [Listing("cuda:0", "", "measured", str(error))]


def _simulated_gpus(folder: FilePath) -> Iterator[Listing]:
    from gpudissect.catalogue.load import load, names

    for name in names():
        yield Listing(f"sim:{name}", load(name).name, "simulated")


def _recordings(folder: FilePath) -> Iterator[Listing]:
    from gpudissect.device.recording.device import RecordedGpu
    from gpudissect.device.recording.format import is_recording

    try:
        paths = sorted(path for path in folder.iterdir() if is_recording(path))
    except OSError:  # a folder that may not be read
        return
    for path in paths:
        try:
            info = RecordedGpu.open(path).info
            yield Listing(f"rec:{path}", info.name, f"replayed, {info.recorded_origin}")
        except RecordingError as error:
            yield Listing(f"rec:{path}", "", "replayed", str(error))


def _split_options(text: str) -> tuple[str, dict[str, str]]:
    """Split ``name?key=value&key=value``."""
    name, mark, tail = text.partition("?")
    options: dict[str, str] = {}
    for part in tail.split("&") if mark else ():
        key, equals, value = part.partition("=")
        if not key or not equals or key in options:
            form = "name?key=value&key=value, each key once"
            raise UsageError(f"device options have the form {form}, got {part!r} in {text!r}")
        options[key] = value
    return name, options


def _open_simulated(text: str, seed: int) -> Device:
    from gpudissect.catalogue.load import load, names

    spec, (name, options) = f"sim:{text}", _split_options(text)
    if name in (RANDOM, UNTUNED):
        return _generate(name, options, seed)
    is_file = name.endswith(".toml") or "/" in name
    if not is_file and name not in names():
        raise _unknown_device(spec)
    if is_file and not FilePath(name).is_file():
        raise DeviceError(f"no such GPU file: {name}")
    alternative = options.pop("alternative", None)
    if alternative not in (None, "yes"):
        raise UsageError("the option alternative can only be 'yes': the alternative structure in the GPU file")
    from gpudissect.device.simulated.card import Card
    from gpudissect.device.simulated.gpu import SimulatedGpu

    factor, sms = options.pop("dram", "1"), options.pop("sms", None)
    card = Card(_amount("dram", factor), None if sms is None else _whole("sms", sms))
    noise = _noise(options, seed)
    gpu = load(name)
    hierarchy, processor = card.of(gpu.hierarchy(alternative=alternative is not None), gpu.processor())
    try:
        return SimulatedGpu(
            hierarchy,
            spec=as_text(spec),
            name=gpu.name,
            facts={name: value for name, value in gpu.facts().items() if name != "registers_per_sm"},  # no limit here
            unsupported=gpu.unsupported(),
            noise=noise,
            catalogue=None if is_file else name,
            processor=processor,
        )
    except DeviceError as error:
        raise CatalogueError(f"{name}: {error}") from None


def _generate(name: str, options: Mapping[str, str], seed: int) -> Device:
    """A simulated GPU generated from the seed, its noise included."""
    from gpudissect.device.simulated.random_gpu import random_gpu
    from gpudissect.device.simulated.untuned_gpu import untuned_gpu

    if unknown := sorted(set(options) - {"seed"}):
        raise UsageError(f"sim:{name} has no option {unknown[0]!r}; it has seed, which determines its noise too")
    seed = _whole("seed", options["seed"]) if "seed" in options else seed
    return (random_gpu if name == RANDOM else untuned_gpu)(seed)


def _noise(options: Mapping[str, str], seed: int) -> Noise:
    from gpudissect.device.simulated.noise import Noise

    if unknown := sorted(set(options) - {"seed", "noise", "other_users", *_NOISE_OPTIONS}):
        known = "seed, jitter, outliers, drift, other_users, noise=none, dram, sms, alternative=yes"
        raise UsageError(f"a simulated GPU has no option {unknown[0]!r}; it has {known}")
    seed = _whole("seed", options["seed"]) if "seed" in options else seed
    if "noise" in options:
        if options["noise"] != "none" or set(options) & set(_NOISE_OPTIONS):
            raise UsageError("the option noise can only be 'none', without any of jitter, outliers and drift")
        return replace(Noise.none(), seed=seed)
    amounts: dict[str, Any] = {key: _amount(key, options[key]) for key in _NOISE_OPTIONS if key in options}
    return Noise(seed=seed, other_users=_whole("other_users", options.get("other_users", "0")), **amounts)


def _amount(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"the option {key} takes a number that is not negative, got {text!r}")
    return value


def _whole(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 2**32):
        raise UsageError(f"the option {key} takes a whole number in [0, 2^32), got {text!r}")
    return int(text)


def _open_recorded(text: str, seed: int) -> Device:
    from gpudissect.device.recording.device import RecordedGpu
    from gpudissect.device.recording.format import is_recording

    name, options = (text, {}) if is_recording(FilePath(text)) else _split_options(text)
    if set(options) - {"partial"} or options.get("partial", "yes") != "yes":
        raise UsageError("the only option of a recording is partial=yes: replay one that is cut off as far as it goes")
    return RecordedGpu.open(FilePath(name), partial="partial" in options)


KINDS = {
    "cuda": DeviceKind(_open_cuda, _cuda_gpus),
    "sim": DeviceKind(_open_simulated, _simulated_gpus),
    "rec": DeviceKind(_open_recorded, _recordings),
}
"""Kinds of devices by the prefix of their specs; a new kind is registered here."""
