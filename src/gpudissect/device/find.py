"""From a device's name to the device: ``cuda:0``, ``sim:gtx980?seed=2``, ``rec:folder``.

Everything heavy (the driver, the simulator's compiler) is imported only when that device is opened.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from gpudissect.errors import DeviceError, RecordingError, UsageError

if TYPE_CHECKING:
    from gpudissect.device.base import Device
    from gpudissect.device.simulated.noise import Noise

DEFAULT_SIMULATED = "sim:gtx980"
_NOISE = ("jitter", "outliers", "drift")


@dataclass(frozen=True)
class Listing:
    """One device that can be named: its spec, the GPU's name, its origin, and why it cannot be used (or None)."""

    spec: str
    name: str
    origin: str
    why_not: str | None = None


@dataclass(frozen=True)
class Choice:
    """Specs to run on, each for `open_device`; `note` says in one line what was chosen for want of a name."""

    specs: tuple[str, ...]
    note: str | None = None


def choose(spec: str | None) -> Choice:
    """Resolve what the user named: None and ``cuda:all`` become the GPUs they stand for.

    Raises `DeviceError` for ``cuda:all`` without a usable GPU.
    """
    if spec not in (None, "cuda:all"):
        return Choice((str(spec),))
    gpus = _cuda_gpus()
    usable = tuple(gpu.spec for gpu in gpus if gpu.why_not is None)
    why = "; ".join(f"{gpu.spec}: {gpu.why_not}" for gpu in gpus) or "none was found"
    if spec == "cuda:all":
        if not usable:
            raise DeviceError(f"no CUDA GPU can be used ({why})")
        return Choice(usable)
    if usable:
        return Choice(usable[:1], f"no device named, taking {usable[0]}")
    return Choice((DEFAULT_SIMULATED,), f"no CUDA GPU can be used ({why}); taking {DEFAULT_SIMULATED}, a simulated one")


def open_device(spec: str | None = None, *, seed: int = 0) -> Device:
    """Open one device; `seed` is the noise seed of a simulated GPU that does not name its own.

    Raises `DeviceError` for an unknown device or one that cannot be used, `RecordingError` and `CatalogueError`
    for damaged files, `UsageError` for options that make no sense.
    """
    specs = choose(spec).specs
    if len(specs) > 1:
        raise UsageError(f"{spec} names {len(specs)} GPUs where one is needed; name one, such as {specs[0]}")
    kind, _, rest = specs[0].partition(":")
    if kind == "cuda" and rest:
        return _open_cuda(rest)
    if kind == "sim" and rest:
        return _open_simulated(specs[0], *_split_options(rest), seed)
    if kind == "rec" and rest:
        return _open_recorded(rest)
    raise unknown_device(specs[0])


def unknown_device(spec: str) -> DeviceError:
    """The error for a name that is no device, with names that come close."""
    from gpudissect.catalogue.load import names

    wanted = spec.lower().partition("?")[0]
    known = ["cuda:0", "cuda:all", *(f"sim:{name}" for name in names())]
    close = difflib.get_close_matches(wanted, known, n=2, cutoff=0.75)
    # People leave out the prefix, or take the wrong one: compare the names alone too.
    close += (f"sim:{name}" for name in difflib.get_close_matches(wanted.rpartition(":")[2], names(), n=2, cutoff=0.75))
    hint = f"did you mean {' or '.join(dict.fromkeys(close))}?" if close else "'gpudissect devices' lists what there is"
    return DeviceError(f"unknown device {spec!r}; {hint}")


def list_devices(folder: FilePath | None = None) -> list[Listing]:
    """Every device that can be named: real GPUs, the catalogue's, and recordings in `folder` (the current one)."""
    return [*_cuda_gpus(), *_simulated_gpus(), *_recordings(folder or FilePath())]


def _cuda_gpus() -> list[Listing]:
    from gpudissect.device.cuda.gpu import probe

    try:
        return [Listing(f"cuda:{index}", name, "measured", why_not) for index, name, why_not in probe()]
    except DeviceError as error:  # no driver, no package, no GPU: worth a line in a list
        return [Listing("cuda:0", "", "measured", str(error))]


def _simulated_gpus() -> Iterator[Listing]:
    from gpudissect.catalogue.load import load, names

    for name in names():
        yield Listing(f"sim:{name}", load(name).name, "simulated")


def _recordings(folder: FilePath) -> Iterator[Listing]:
    from gpudissect.device.recording.device import RecordedGpu
    from gpudissect.device.recording.format import is_recording

    try:
        found = sorted(inner for inner in folder.iterdir() if is_recording(inner))
    except OSError:  # nothing to list in a folder that may not be read
        return
    for path in found:
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
            raise UsageError(
                f"device options are written name?key=value&key=value, each once, got {part!r} in {text!r}"
            )
        options[key] = value
    return name, options


def _open_cuda(rest: str) -> Device:
    if not (rest.isascii() and rest.isdecimal() and len(rest) < 6):
        raise unknown_device(f"cuda:{rest}")
    from gpudissect.device.cuda.gpu import CudaGpu

    return CudaGpu.open(int(rest))


def _open_simulated(spec: str, name: str, options: Mapping[str, str], seed: int) -> Device:
    from gpudissect.catalogue.load import load, names

    is_file = name.endswith(".toml") or "/" in name
    if not is_file and name not in names():
        raise unknown_device(spec)
    if is_file and not FilePath(name).is_file():
        raise DeviceError(f"no such GPU file: {name}")
    noise = _noise(options, seed)
    gpu = load(name)
    facts = gpu.facts()
    facts.pop("registers_per_sm", None)  # no compiler gives them out: a simulated SM never runs short of them
    from gpudissect.device.simulated.gpu import SimulatedGpu

    return SimulatedGpu(
        gpu.hierarchy(),
        spec=spec,
        name=gpu.name,
        facts=facts,
        unsupported=gpu.unsupported(),
        noise=noise,
        catalogue=None if is_file else name,
        processor=gpu.processor(),
    )


def _noise(options: Mapping[str, str], seed: int) -> Noise:
    from gpudissect.device.simulated.noise import Noise

    if unknown := sorted(set(options) - {"seed", "noise", *_NOISE}):
        raise UsageError(
            f"a simulated GPU has no option {unknown[0]!r}; it has seed, jitter, outliers, drift, noise=none"
        )
    own = _whole(options["seed"]) if "seed" in options else seed
    if "noise" in options:
        if options["noise"] != "none" or set(options) & set(_NOISE):
            raise UsageError("the option noise can only be 'none', and then goes with no other kind of noise")
        return replace(Noise.none(), seed=own)
    return Noise(seed=own, **{key: _amount(key, options[key]) for key in _NOISE if key in options})


def _amount(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"the option {key} takes a number that is not negative, got {text!r}")
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) < 2**32):
        raise UsageError(f"the option seed takes a whole number in [0, 2^32), got {text!r}")
    return int(text)


def _open_recorded(rest: str) -> Device:
    from gpudissect.device.recording.device import RecordedGpu

    name, options = _split_options(rest)
    if set(options) - {"partial"} or options.get("partial", "yes") != "yes":
        raise UsageError("a recording has the one option partial=yes: take one that was cut off for what it holds")
    return RecordedGpu.open(FilePath(name), partial="partial" in options)
