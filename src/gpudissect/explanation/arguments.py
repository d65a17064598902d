"""Arguments of kernels as text, such as ``n:i32=1048576`` or ``x:f32[4096]=random``, and their data."""

import hashlib
import math
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError, unknown_name
from gpudissect.printable import quoted
from gpudissect.units import format_bytes

TYPES = {f"{kind}{8 * size}": f"{letter}{size}" for kind, letter in (("i", "i"), ("u", "u")) for size in (1, 2, 4, 8)}
TYPES |= {"f16": "f2", "f32": "f4", "f64": "f8"}
"""Types of numpy by the names of types."""
FILLS = ("zeros", "random", "random:LOW:HIGH", "permutation", "range", "range:START:STEP", "constant:VALUE")
MAX_ARRAY_BYTES = 16 << 30
"""Of all arrays of a launch."""
MAX_ARGUMENTS, MAX_LANES = 256, 4096
CONTENT = "content"
"""The fill of an array with data of a program, which no text has."""
POINTER_BYTES = 8
_FORM = "write NAME:TYPE=VALUE or NAME:TYPE[COUNT]=FILL, such as n:i32=1024 or x:f32[1024]=random"
_SPEC = re.compile(
    r"([A-Za-z_]\w{0,59}):([A-Za-z]\w{0,19}?)(?:x(\d{1,5}))?(\[([^\]=]{0,30})\])?(?:=(.{0,2000}))?", re.ASCII
)
_VALUES_OF_FILL = {
    "zeros": (0,),
    "random": (0, 2),
    "permutation": (0,),
    "range": (0, 2),
    "constant": (1,),
    CONTENT: (0,),
}
_CHUNK = 1 << 20  # elements that one generator fills: the data do not depend on the number of threads
_MAX_THREADS = 16
_ROUNDS = 3
Number = int | float


@dataclass(frozen=True, slots=True)
class Argument:
    """A scalar with its value (`count` is None), or an array of `count` elements, its fill and the fill's numbers.

    A scalar of several values is a structure of them. `content` has the elements of an array with that fill.
    """

    name: str
    type: str
    count: int | None
    fill: str
    values: tuple[Number, ...]
    content: NDArray[Any] | None = field(default=None, compare=False, repr=False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value or element."""
        return np.dtype(TYPES[self.type])

    @property
    def parameter_bytes(self) -> int:
        """Size of the kernel's parameter: an array is a pointer."""
        return self.dtype.itemsize * len(self.values) if self.count is None else POINTER_BYTES

    @property
    def array_bytes(self) -> int:
        """Size of the array; 0 for a scalar."""
        return (self.count or 0) * self.dtype.itemsize

    @property
    def spec(self) -> str:
        """The argument as text, from which `parse_argument` reads it again."""
        numbers = [repr(value) for value in self.values]
        if self.count is None:
            lanes = f"x{len(numbers)}" if len(numbers) > 1 else ""
            return f"{self.name}:{self.type}{lanes}={':'.join(numbers)}"
        return f"{self.name}:{self.type}[{self.count}]={':'.join([self.fill, *numbers])}"

    def scalar(self) -> NDArray[Any]:
        """The values of a scalar, shape (1,), or of a structure."""
        return np.array(self.values, self.dtype)

    def data(self, seed: int = 0) -> NDArray[Any]:
        """The elements of an array, which depend on the name, the argument and the seed alone.

        Raises `UsageError` if its data are those of another process.
        """
        assert self.count is not None
        if self.fill == CONTENT:
            if self.content is None:
                raise UsageError(f"argument {self.name}: its data is not known here; valid fills: {', '.join(FILLS)}")
            return self.content
        data = np.empty(self.count, self.dtype)
        match self.fill:
            case "constant":
                data[:] = self.values[0]
            case "range":
                start, step = self.values or (0, 1)
                _fill_chunks(data, lambda at, part: _fill_range(part, at, start, step))
            case "random":
                _fill_chunks(data, lambda at, part: self._fill_random(part, _generator(seed, self.name, at)))
            case "permutation":
                _fill_permutation(data, _generator(seed, self.name, -1))
            case _:
                data[:] = 0
        return data

    def _fill_random(self, part: NDArray[Any], generator: np.random.Generator) -> None:
        if part.dtype.kind == "f":
            kind = part.dtype if part.dtype.itemsize > 2 else np.dtype(np.float32)
            random = generator.random(part.size, kind.type)
            low, high = self.values or (0.0, 1.0)
            part[:] = random if not self.values else random * kind.type(high - low) + kind.type(low)
            if self.values or kind != part.dtype:  # rounded up to HIGH, which is excluded
                np.minimum(part, np.nextafter(part.dtype.type(high), part.dtype.type(low)), out=part)
        else:
            limits = np.iinfo(part.dtype)
            low, high = self.values or (int(limits.min), int(limits.max) + 1)
            part[:] = generator.integers(int(low), int(high), part.size, part.dtype)


def parse_arguments(specs: Sequence[str]) -> tuple[Argument, ...]:
    """The arguments of a launch. Raises `UsageError` as `parse_argument` and `check_arguments` do."""
    arguments = tuple(map(parse_argument, specs))
    check_arguments(arguments)
    return arguments


def check_arguments(arguments: Sequence[Argument]) -> None:
    """Raise `UsageError` for too many arguments, two of one name, or arrays that are too large together."""
    if len(arguments) > MAX_ARGUMENTS:
        raise UsageError(f"{len(arguments)} arguments: at most {MAX_ARGUMENTS}")
    names = [argument.name for argument in arguments]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two arguments named {twice[0]}: names must differ")
    total = sum(argument.array_bytes for argument in arguments)
    if total > MAX_ARRAY_BYTES:
        raise UsageError(f"the arrays have {format_bytes(total)}: at most {format_bytes(MAX_ARRAY_BYTES)} in all")


def parse_argument(spec: str) -> Argument:
    """An argument from its text. Raises `UsageError` that names the wrong part and what is valid."""
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise UsageError(f"not an argument: {quoted(spec, 60)}; {_FORM}")
    name, kind, lanes, brackets, count_text, rest = match.groups()
    if kind not in TYPES:
        raise UsageError(f"argument {name}: {unknown_name('type', kind, TYPES)}")
    if brackets is None:
        if rest is None:
            raise UsageError(f"argument {name}: a scalar needs a value: {name}:{kind}=VALUE")
        return Argument(name, kind, None, "", _values(name, kind, rest, int(lanes or 1)))
    if lanes is not None:
        raise UsageError(f"argument {name}: no arrays of {kind}x{lanes}: give an array of {kind} of the same size")
    return _array(name, kind, count_text, rest)


def _values(name: str, kind: str, text: str, lanes: int) -> tuple[Number, ...]:
    """The values of a scalar or a structure, for which one value may stand for all."""
    texts = text.split(":")
    if not 1 <= lanes <= MAX_LANES:
        raise UsageError(f"argument {name}: {kind}x{lanes}: valid: 1 to {MAX_LANES} values")
    if len(texts) not in (1, lanes):
        raise UsageError(f"argument {name}: {len(texts)} values for {kind}x{lanes}: give {lanes}, or one for all")
    values = tuple(_number(name, kind, each) for each in texts)
    return values if len(values) == lanes else values * lanes


def _array(name: str, kind: str, count_text: str, rest: str | None) -> Argument:
    limit = MAX_ARRAY_BYTES // np.dtype(TYPES[kind]).itemsize
    if not re.fullmatch(r"[0-9]{1,20}", count_text, re.ASCII) or not 1 <= int(count_text) <= limit:
        raise UsageError(f"argument {name}: not an element count: {count_text!a}; valid: 1 to {limit}")
    count = int(count_text)
    fill, *texts = (rest or "zeros").split(":")
    if fill not in _VALUES_OF_FILL or len(texts) not in _VALUES_OF_FILL[fill]:
        raise UsageError(f"argument {name}: no such fill: {quoted(rest, 60)}; valid: {', '.join(FILLS)}")
    values = tuple(_number(name, kind, text) for text in texts if fill != "range")
    if fill == "range":
        values = _range(name, kind, count, texts)
    if fill == "random" and values and not values[0] < values[1]:
        raise UsageError(f"argument {name}: {rest}: LOW must be less than HIGH")
    if fill == "random" and values and kind[0] == "f" and values[1] - values[0] > _limits(kind)[1]:
        raise UsageError(f"argument {name}: {rest}: HIGH - LOW is not a value of {kind}; at most {_limits(kind)[1]:g}")
    if fill == "permutation" and _largest(kind) < count - 1:
        raise UsageError(f"argument {name}: {kind} does not hold the numbers 0 to {count - 1} of a permutation")
    return Argument(name, kind, count, fill, values)


def _range(name: str, kind: str, count: int, texts: Sequence[str]) -> tuple[Number, ...]:
    """Start and step of a range, whose last value the type must have too."""
    if not texts:
        start: Number = 0
        step: Number = 1
    else:
        start = _number(name, kind, texts[0])
        step = _number(name, kind.replace("u", "i") if texts[1].strip().startswith("-") else kind, texts[1])
    last = start + (count - 1) * step
    if kind[0] != "f" and not _limits(kind)[0] <= last <= _limits(kind)[1]:
        raise UsageError(f"argument {name}: the last value of the range, {last}, is not a value of {kind}")
    return (start, step) if texts else ()


def _number(name: str, kind: str, text: str) -> Number:
    """A number that is a value of a type."""
    try:
        value = float(text) if kind[0] == "f" else int(text, 0)
    except ValueError:
        what = "a number" if kind[0] == "f" else "a whole number"
        raise UsageError(f"argument {name}: not {what} of {kind}: {quoted(text, 40)}") from None
    low, high = _limits(kind)
    if not low <= value <= high and not (kind[0] == "f" and not math.isfinite(value)):
        raise UsageError(f"argument {name}: {text[:40]} is not a value of {kind}; valid: {low} to {high}")
    return value


def _limits(kind: str) -> tuple[Number, Number]:
    dtype = np.dtype(TYPES[kind])
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def _largest(kind: str) -> int:
    """The largest whole number up to which a type has all."""
    digits = {"f16": 11, "f32": 24, "f64": 53}
    return 1 << digits[kind] if kind in digits else int(_limits(kind)[1])


def _generator(seed: int, name: str, place: int) -> np.random.Generator:
    digest = hashlib.sha256(f"{seed}:{name}:{place}".encode()).digest()
    return np.random.Generator(np.random.SFC64(np.frombuffer(digest, np.uint32).tolist()))


def _fill_chunks(data: NDArray[Any], fill: Callable[[int, NDArray[Any]], None]) -> None:
    """Fill an array in parts, each from its place in the array; numpy releases the lock of the interpreter."""
    places = range(0, data.size, _CHUNK)
    if len(places) <= 1:
        fill(0, data)
        return
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS)) as pool:
        for _ in pool.map(lambda at: fill(at, data[at : at + _CHUNK]), places):
            pass


def _fill_range(part: NDArray[Any], at: int, start: Number, step: Number) -> None:
    numbers = np.arange(at, at + part.size)
    with np.errstate(over="ignore"):
        if part.dtype.kind == "f":
            part[:] = start + step * numbers
        else:  # modulo 2**64, as the last value was checked
            offset, factor = (np.uint64(int(value) % (1 << 64)) for value in (start, step))
            part[:] = (numbers.astype(np.uint64) * factor + offset).astype(part.dtype)


def _fill_permutation(data: NDArray[Any], generator: np.random.Generator) -> None:
    """The numbers from 0 in a random order: mixed bits are a bijection of a power of two; larger results are left out.

    Multiplications by odd numbers and shifts, as in the finalizer of MurmurHash3; a tenth of the time of a shuffle.
    """
    bits = max(1, (data.size - 1).bit_length())
    mask, shift = np.uint64((1 << bits) - 1), np.uint64(max(1, bits // 2))
    factors = generator.integers(0, 1 << 63, _ROUNDS, np.uint64) * np.uint64(2) + np.uint64(1)
    offsets = generator.integers(0, 1 << 63, _ROUNDS, np.uint64)

    def images(at: int) -> NDArray[np.uint64]:
        part = np.arange(at, min(at + _CHUNK, 1 << bits), dtype=np.uint64)
        for factor, offset in zip(factors, offsets, strict=True):
            part *= factor
            part += offset
            part &= mask
            part ^= part >> shift
        return part[part < data.size]

    end = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_THREADS)) as pool:
        for part in pool.map(images, range(0, 1 << bits, _CHUNK)):
            data[end : end + part.size] = part
            end += part.size
