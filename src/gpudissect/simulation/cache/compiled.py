"""Compilation of inner loops, their arrays and their random numbers.

Machine code is kept on disk. A later process links it with llvmlite alone: numba takes a second to import and to load
from its own cache.

Compiled functions take arrays of fixed types (contiguous, writeable), so that each is compiled once. A digest of all
modules of its folder is part of the name of its file: keep an inner loop, with everything it calls, in one folder.
"""

import ctypes
import hashlib
import inspect
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, cached_property, wraps
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

from gpudissect.cache_folder import cache_folder, private_folder

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])

# Divisions need no test for zero. Without numba's runtime (_nrt) nothing can be allocated, and in return arrays are not
# reference-counted, which took two thirds of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_RESULTS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "none": ctypes.c_void_p}
_lock = Lock()


class Arrays(NamedTuple):
    """All caches and TLBs of a hierarchy, packed.

    Columns of `shape`: LINE_SHIFT, SECTOR_SHIFT: log2 of the bytes; SECTORS per line; INDEX: kind; TABLE: start in
    `tables`; PER: lines per granule; PERIOD: of MODULO and LOOKUP; FIRST: start in `tags`; WAYS: 0 for unequal sets;
    STARTS: of their list in `tables`; POLICY: kind; ODDS: start in `odds`; ORDERS: start in `tables`;
    TOUCHED: start in `touched`; SETS: number; ROOM: limit in half lines, 0 for none; FIRST_USE: half lines that a new
    line takes.
    """

    shape: I64  # (arrays, COLUMNS)
    tables: I32  # orders after their lengths, index tables, and for unequal sets the starts in `tags` and the last end
    odds: F64  # cumulative probabilities of WEIGHTED
    tags: I32  # per way the line number there, or EMPTY
    marks: (
        I8  # per way reference bit, prediction, rank (SLRU) or node of the PLRU tree (1 the root, 0 unused); of way 0
    )
    #            the place in the order (ORDER); half lines that a line takes, where ROOM limits them
    sectors: I32  # per way, bit i is set when sector i is valid. A single element if nothing is sectored
    touched: I32  # per set, the numbers of the sets that hold lines, so that a reset is cheap
    filled: I64  # (arrays,), number of valid entries of `touched`
    draws: U64  # (arrays,), states of the random streams
    used: I64  # (arrays,), half lines of room in use
    turns: I64  # (arrays,), set that is next to lose a line if room runs out


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or load it from an earlier process's compilation. It runs without the GIL.

    Arguments are numbers, arrays and tuples of these; it is compiled for each combination of their types.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return function
    linked: dict[str, Callable[[list[Any]], Any]] = {}

    @wraps(function)
    def call(*arguments: Any) -> Any:
        types, values = list[str](), list[Any]()
        _flatten(arguments, types, values)
        key = " ".join(types)
        with _lock:
            if key not in linked:
                linked[key] = _link(_machine_code(function, arguments, key), values)
        return linked[key](values)

    return call  # type: ignore[return-value]


def _flatten(arguments: Iterable[Any], types: list[str], values: list[Any]) -> None:
    """Append types, and what numba passes: of an array two null pointers, size, item size, address, shape, strides."""
    for each in arguments:
        if isinstance(each, tuple):
            types.append("(")
            _flatten(each, types, values)
            types.append(")")
        elif isinstance(each, np.ndarray):
            types.append(f"{each.dtype.str}{each.ndim}{each.flags.c_contiguous:d}{each.flags.writeable:d}")
            values += (0, 0, each.size, each.itemsize, each.ctypes.data, *each.shape, *each.strides)
        else:
            types.append(np.dtype(type(each)).str)
            values.append(float(each) if isinstance(each, float) else int(each))


def _machine_code(function: Callable[..., Any], arguments: tuple[Any, ...], key: str) -> bytes:
    """Lines with the symbol and the type of the result, and object file of a function for arguments of these types."""
    source = Path(inspect.getfile(function))
    folder = _folder(source.parent / "__pycache__")
    name = hashlib.sha256(f"{_origin(source.parent)} {key}".encode()).hexdigest()[:16]
    file = folder and folder / f"{source.stem}.{function.__name__}-{name}.o"
    if file and file.exists():
        return file.read_bytes()
    code = _compile(function, arguments)
    if file:
        part = file.with_suffix(f".{os.getpid()}")  # others may read the file at any time
        with suppress(OSError):
            part.write_bytes(code)
            part.replace(file)
    return code


@cache
def _origin(folder: Path) -> str:
    """What determines machine code besides the types of arguments: modules of a folder, the compiler, the CPU."""
    found = hashlib.sha256(b"".join(file.read_bytes() for file in [Path(__file__), *sorted(folder.glob("*.py"))]))
    features = binding.get_host_cpu_features().flatten()
    return f"{found.hexdigest()} {version('numba')} {version('llvmlite')} {binding.get_host_cpu_name()} {features}"


def _folder(beside: Path) -> Path | None:
    """Folder for machine code, which runs when it is found there; None if there is no safe one.

    `beside`, Python's own cache of the source, needs no check: who can write there can also replace bytecode.
    """
    if (chosen := os.environ.get("NUMBA_CACHE_DIR")) and (configured := private_folder(Path(chosen))):
        return configured
    try:
        beside.mkdir(exist_ok=True)
    except OSError:
        return cache_folder("numba")
    return beside if os.access(beside, os.W_OK) else cache_folder("numba")


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    from numba import njit, typeof

    dispatcher = njit(**OPTIONS)(function)
    types = tuple(map(typeof, arguments))
    dispatcher.compile(types)
    found = dispatcher.overloads[types]
    code: bytes = found.library.serialize_using_object_code()[2][0]
    return f"{found.fndesc.llvm_func_name}\n{found.signature.return_type}\n".encode() + code


def _link(machine_code: bytes, values: Iterable[Any]) -> Callable[[list[Any]], Any]:
    """A function of flat arguments like `values`."""
    symbol, result, code = machine_code.split(b"\n", 2)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), target)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    types = [ctypes.c_double if isinstance(each, float) else ctypes.c_int64 for each in values]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)
    native = prototype(engine.get_function_address(symbol.decode()))

    def call(values: list[Any], engine: Any = engine) -> Any:  # the engine owns the code
        returned, error = _RESULTS[result.decode()](), ctypes.c_void_p()
        if native(ctypes.addressof(returned), ctypes.addressof(error), *values) > 0:
            raise ValueError(f"{symbol.decode()} failed: arrays of other shapes than it takes")
        return returned.value

    return call


class _Callee:
    """A function that compiled functions call; numba reads its type when it compiles one of them."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.function, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @cached_property
    def _numba_type_(self) -> Any:
        from numba import njit

        self.dispatcher = njit(**OPTIONS, **self.options)(self.function)
        return self.dispatcher._numba_type_  # a weak reference


def inlined(function: Function) -> Function:
    """Compile a function into each of its callers."""
    return _Callee(function, forceinline=True)  # type: ignore[return-value]


def called(function: Function) -> Function:
    """Compile a function once for all of its callers: one that compiled functions call rarely."""
    return _Callee(function)  # type: ignore[return-value]


@inlined
def uniform(draws: U64, stream: int | np.int64) -> float:
    """Next number, in [0, 1), of the SplitMix64 stream with state draws[stream] (source: `geometry.PolicyKind`)."""
    state = draws[stream] + np.uint64(0x9E3779B97F4A7C15)
    draws[stream] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
