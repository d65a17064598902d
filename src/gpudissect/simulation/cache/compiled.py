"""Compilation of inner loops, their arrays and their random numbers.

Machine code is cached on disk. Later processes load it with llvmlite alone, because importing numba and loading from
its own cache takes a second.

Compiled functions take arrays of fixed types (contiguous, writeable), so that each function is compiled once. The cache
key contains a digest of all modules in the folder of the function: keep a loop and all its callees in one folder.
"""

import ctypes
import hashlib
import inspect
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property, partial, wraps
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

# error_model: divisions do not test for zero. _nrt: without numba's runtime, code cannot allocate memory, but does not
# count references to arrays either, which took two thirds of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_RESULTS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "none": ctypes.c_void_p}
MAX_WAIT_S, _WAIT_STEP_S = 60, 0.02  # for another process that compiles
SPREAD = "spread"  # name of the function of `_spread`
_byte_of, _address = ctypes.c_char.from_buffer, ctypes.addressof
_lock = Lock()


class Arrays(NamedTuple):
    """All caches and TLBs of a hierarchy, packed.

    Columns of `shape`: LINE_SHIFT, SECTOR_SHIFT: log2 of the bytes; SECTORS per line; INDEX: kind; TABLE: start in
    `tables`; PER: lines per granule; PERIOD: of MODULO and LOOKUP; FIRST: start in `tags`; WAYS: 0 for unequal sets;
    STARTS: of their list in `tables`; POLICY: kind; ODDS: start in `odds`; ORDERS: start in `tables`;
    TOUCHED: start in `touched`; SETS: number; ROOM: limit in half lines, 0 for none; FIRST_USE: half lines that a new
    line takes; LINE, SECTOR: bytes; FEEDS: 1 if another array receives its victims; HOLES: 1 if lines are removed.
    LINE_SHIFT is -1 for a line that is no power of two.
    """

    shape: I64  # (arrays, COLUMNS)
    tables: I32  # orders, each after its length; index tables; for unequal sets their starts in `tags` and the last end
    odds: F64  # cumulative probabilities of WEIGHTED
    tags: I32  # per way, number of its line, or EMPTY
    # Per way: reference bit, prediction, rank (SLRU, LAST_TWO_HITS), node of the PLRU tree (1 the root, 0 unused), or
    # half lines that its line takes (ROOM). For way 0 with ORDER: position in the order.
    marks: I8
    sectors: I32  # per way, bit i is set if sector i is valid; a single element if no array is sectored
    touched: I32  # per set, the numbers of the sets that hold lines, so that a reset is cheap
    filled: I64  # (arrays,), number of valid entries of `touched`
    draws: U64  # (arrays,), states of the random streams
    used: I64  # (arrays,), lines, where there is room for fewer than ways
    turns: I64  # (arrays,), set that evicts the next line if they exceed the room
    lost: I64  # (arrays, 2), with FEEDS the tag that the last miss evicted, negative for none, and its valid sectors


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or load its cached machine code. The function runs without the GIL.

    Arguments are numbers, arrays and tuples of these. The function is compiled for each combination of argument types.
    """
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return wraps(function)(lambda *arguments: function(*_plain(arguments)))  # type: ignore[return-value]
    linked: dict[str, Callable[[list[Any]], Any]] = {}

    @wraps(function)
    def call(*arguments: Any) -> Any:
        types, values = list[str](), list[Any]()
        _flatten(arguments, types, values)
        key = " ".join(types)
        with _lock:
            if key not in linked:
                linked[key] = _load_cached(function, _plain(arguments), key, values)
        return linked[key](values)

    return call  # type: ignore[return-value]


def _load_cached(
    function: Callable[..., Any], arguments: tuple[Any, ...], key: str, values: Iterable[Any]
) -> Callable[[list[Any]], Any]:
    """A compiled function that takes flat arguments of the types of `values`; `key`: see `_cached_machine_code`."""
    return _load(_cached_machine_code(function, arguments, key), values)


def with_first(function: Callable[..., Any], *arguments: Any) -> Callable[..., Any]:
    """A compiled function with its first arguments, which are converted once for many calls."""
    return partial(function, _Repeated(*arguments))


class _Repeated:
    """Consecutive arguments that many calls share, converted."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.types, self.values = list[str](), list[Any]()
        _flatten(arguments, self.types, self.values)


def _plain(arguments: Iterable[Any]) -> tuple[Any, ...]:
    """Arguments, with those that are repeated in their places."""
    return tuple(one for each in arguments for one in (each.arguments if isinstance(each, _Repeated) else (each,)))


def _flatten(arguments: Iterable[Any], types: list[str], values: list[Any]) -> None:
    """Append types and values as numba passes them; arrays: two nulls, size, item size, address, shape, strides."""
    for each in arguments:
        if isinstance(each, np.ndarray):
            flags, size = each.flags, each.size
            types.append(_array_type(each.dtype, each.ndim, flags.c_contiguous, flags.writeable))
            buffer: Any = each
            if not size:
                address = 0
            elif flags.carray:  # contiguous and writeable: then ctypes takes a quarter of the time
                address = _address(_byte_of(buffer))
            else:
                address = each.ctypes.data
            values += (0, 0, size, each.itemsize, address, *each.shape, *each.strides)
        elif isinstance(each, _Repeated):
            types += each.types
            values += each.values
        elif isinstance(each, tuple):
            types.append("(")
            _flatten(each, types, values)
            types.append(")")
        else:
            types.append(_scalar_type(type(each).__name__))
            values.append(float(each) if isinstance(each, float) else int(each))


@cache
def _scalar_type(name: str) -> str:
    return np.dtype(name).str


@cache
def _array_type(dtype: np.dtype[Any], dimensions: int, contiguous: bool, writeable: bool) -> str:
    return f"{dtype.str}{dimensions}{contiguous:d}{writeable:d}"


def _cached_machine_code(function: Callable[..., Any], arguments: tuple[Any, ...], key: str) -> bytes:
    """The machine code of a function, from the cache or compiled. `key`: types of its arguments, see `_flatten`."""
    folder, name = _place(function)
    if folder is None:
        return _compile(function, arguments)
    file = folder / f"{name}{hashlib.sha256(key.encode()).hexdigest()[:8]}.o"
    if file.exists():
        return file.read_bytes()
    with _locked(file.with_suffix(".lock")):
        if file.exists():  # another process has compiled it meanwhile
            return file.read_bytes()
        code = _compile(function, arguments)
        part = file.with_suffix(f".{os.getpid()}")  # other processes may read the file at any time
        with suppress(OSError):
            part.write_bytes(code)
            part.replace(file)
        return code


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Wait until no other process is in such a block, but not forever; not where files cannot be locked."""
    with ExitStack() as stack:
        with suppress(ImportError, OSError):  # fcntl is of POSIX alone
            import fcntl

            file, end = stack.enter_context(path.open("w")), time.monotonic() + MAX_WAIT_S
            while time.monotonic() < end:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                time.sleep(_WAIT_STEP_S)
        yield


def _place(function: Callable[..., Any]) -> tuple[Path | None, str]:
    """Folder of the cached machine code of a function, and how the names of its files begin."""
    source = Path(inspect.getfile(function))
    build = hashlib.sha256(_build_id(source.parent).encode()).hexdigest()[:8]
    return _cache_folder(source.parent / "__pycache__"), f"{source.stem}.{function.__name__}-{build}"


def is_missing(function: Callable[..., Any]) -> bool:
    """Whether a function that is to be compiled has no machine code in the cache, though there is a cache."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        return False
    folder, name = _place(inspect.unwrap(function))
    return folder is not None and not any(folder.glob(f"{name}*.o"))


@cache
def _build_id(folder: Path) -> str:
    """Identifies the modules of a folder, the compiler and the CPU, which determine machine code."""
    found = hashlib.sha256(b"".join(file.read_bytes() for file in [Path(__file__), *sorted(folder.glob("*.py"))]))
    features = binding.get_host_cpu_features().flatten()
    return f"{found.hexdigest()} {version('numba')} {version('llvmlite')} {binding.get_host_cpu_name()} {features}"


def _cache_folder(pycache: Path) -> Path | None:
    """Folder of cached machine code; None if other users can write to all candidates, since cached code is executed.

    `pycache`, the bytecode cache of the source, needs no check: whoever can write there can also replace bytecode.
    """
    if (chosen := os.environ.get("NUMBA_CACHE_DIR")) and (configured := private_folder(Path(chosen))):
        return configured
    try:
        pycache.mkdir(exist_ok=True)
    except OSError:
        return cache_folder("numba")
    return pycache if os.access(pycache, os.W_OK) else cache_folder("numba")


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bytes:
    """Compile a function for these arguments: a line with its symbol, one with its result type, object code."""
    from numba import njit, typeof

    dispatcher = njit(**OPTIONS)(function)
    types = tuple(map(typeof, arguments))
    dispatcher.compile(types)
    found = dispatcher.overloads[types]
    code: bytes = found.library.serialize_using_object_code()[2][0]
    return f"{found.fndesc.llvm_func_name}\n{found.signature.return_type}\n".encode() + code


def _load(machine_code: bytes, values: Iterable[Any]) -> Callable[[list[Any]], Any]:
    """Load machine code into the process, as a function that takes flat arguments of the types of `values`."""
    symbol, result, code = machine_code.split(b"\n", 2)
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple().create_target_machine(opt=0)  # of `_spread` alone
    kinds = ["double" if isinstance(each, float) else "i64" for each in values]
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_spread(symbol.decode(), kinds)), target)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
    native = prototype(engine.get_function_address(SPREAD))
    pack = struct.Struct("".join("d" if kind == "double" else "q" for kind in kinds)).pack
    returned_type = _RESULTS[result.decode()]

    def call(values: list[Any], engine: Any = engine) -> Any:  # the engine owns the machine code
        returned, error = returned_type(), ctypes.c_void_p()
        if native(ctypes.addressof(returned), ctypes.addressof(error), pack(*values)) > 0:
            raise ValueError(f"{symbol.decode()} failed: it does not take arrays of these shapes")
        return returned.value

    return call


def _spread(symbol: str, kinds: Sequence[str]) -> str:
    """A function that calls another with arguments from memory: ctypes takes longer for each than to call."""
    loads = [
        f"%p{n} = getelementptr {kind}, {kind}* %{kind}s, i64 {n}\n%v{n} = load {kind}, {kind}* %p{n}"
        for n, kind in enumerate(kinds)
    ]
    passed = ", ".join(["i64 %returned", "i64 %error", *(f"{kind} %v{n}" for n, kind in enumerate(kinds))])
    return "\n".join(
        [
            f'declare i32 @"{symbol}"({", ".join(["i64", "i64", *kinds])})',
            f"define i32 @{SPREAD}(i64 %returned, i64 %error, i64 %memory) {{",
            *(f"%{kind}s = inttoptr i64 %memory to {kind}*" for kind in ("i64", "double")),
            *loads,
            f'%code = call i32 @"{symbol}"({passed})',
            "ret i32 %code",
            "}",
        ]
    )


class _Callee:
    """A function that compiled functions call. numba reads its type when it compiles a caller."""

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
    """Inline a function into each of its compiled callers."""
    return _Callee(function, forceinline=True)  # type: ignore[return-value]


def called(function: Function) -> Function:
    """Compile a function once for all compiled callers. For functions that are called rarely."""
    return _Callee(function)  # type: ignore[return-value]


@inlined
def uniform(draws: U64, stream: int | np.int64) -> float:
    """Next number in [0, 1) of the SplitMix64 stream with state ``draws[stream]`` (source: `geometry.PolicyKind`)."""
    state = draws[stream] + np.uint64(0x9E3779B97F4A7C15)
    draws[stream] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53
