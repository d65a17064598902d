"""Kernels that Python packages compile: of Triton, CuPy, Numba and cuda.core. None of them is imported here.

Objects are known by the package and name of their type. What is read of each is what its documentation has: of Triton
`asm`, `metadata` and `src.signature`, of CuPy `code`, `options` and `name`, of Numba `inspect_asm` and `overloads`, of
cuda.core `code` and `code_type`.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import Argument
from gpudissect.explanation.user_code import CUDA, PTX
from gpudissect.explanation.values import host_array, is_array
from gpudissect.machine_code.names import source_name
from gpudissect.units import WARP_SIZE

KINDS = "a path, a compiled kernel of Triton, a RawKernel of CuPy, a Numba kernel or an ObjectCode of cuda.core"
_REQNTID = re.compile(r"\.reqntid\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?")
_FILES_OF_CODE = {"ptx": PTX, "cubin": ".cubin", "fatbin": ".fatbin", "object": ".o"}  # by ObjectCode.code_type
_MAX_LISTED = 4
Grid = int | Sequence[int]
Values = Callable[[Sequence[Any], Grid], list[Any]]


@dataclass(frozen=True)
class PythonKernel:
    """A kernel of a package: its code with the ending of its file, and what else is known of its launch.

    `name` is that of the kernel in the code, None for the only one. `values` are those of the kernel's parameters, from
    the arguments of the Python function and the grid.
    """

    name: str | None
    code: bytes
    ending: str
    values: Values = lambda arguments, grid: list(arguments)
    options: tuple[str, ...] = ()
    block: tuple[int, ...] | None = None
    shared_bytes: int = 0

    def write(self, folder: Path) -> Path:
        """The code as a file."""
        readable = re.sub(r"\W", "_", source_name(self.name or "kernel"))[:60]
        path = folder / f"{readable}{self.ending}"
        path.write_bytes(self.code)
        return path


def python_kernel(kernel: object, name: str | None, arguments: Sequence[Any] = ()) -> PythonKernel:
    """What a kernel object of a package holds; `arguments` choose one of several compiled versions.

    Raises `UsageError` for an object that is no kernel, or one that cannot be run from its code alone.
    """
    for kind in type(kernel).__mro__:
        reader = _READERS.get((kind.__module__.partition(".")[0], kind.__name__))
        if reader is not None:
            return reader(kernel, name, arguments)
    raise UsageError(f"not a kernel: {type(kernel).__name__[:60]}; give {KINDS}")


def _refuse(reason: str) -> Callable[[Any, str | None, Sequence[Any]], PythonKernel]:
    def reader(kernel: object, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
        raise UsageError(f"a {type(kernel).__name__[:60]} cannot be explained: {reason}")

    return reader


def _triton(kernel: Any, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
    metadata = kernel.metadata
    if "ptx" not in kernel.asm:
        raise UsageError("this Triton kernel is not compiled for an NVIDIA GPU: it has no PTX")
    cluster = tuple(getattr(metadata, "cluster_dims", ()) or ())
    if getattr(metadata, "num_ctas", 1) > 1 or any(size > 1 for size in cluster):
        raise UsageError("this Triton kernel uses clusters of blocks (num_ctas), which are not supported")
    if getattr(metadata, "launch_cooperative_grid", False):
        raise UsageError("this Triton kernel is launched cooperatively, which is not supported")
    signature = dict(getattr(getattr(kernel, "src", None), "signature", {}))
    if any(not isinstance(each, str) or each.startswith(("tensordesc", "nvTmaDesc")) for each in signature.values()):
        raise UsageError("this Triton kernel takes a tuple or a tensor descriptor, which is not supported")
    ptx = kernel.asm["ptx"]
    declared = re.search(rf"\.entry\s+{re.escape(metadata.name)}\s*\(([^)]*)\)", ptx)
    count = declared[1].count(".param") if declared else 0
    scratch = [int(getattr(metadata, f"{each}_scratch_size", 0) or 0) for each in ("global", "profile")]
    size = _REQNTID.search(ptx)
    block = tuple(int(each or 1) for each in size.groups()) if size else (WARP_SIZE * metadata.num_warps,)
    return PythonKernel(
        name=metadata.name,
        code=ptx.encode(),
        ending=PTX,
        values=lambda given, grid: _triton_values(given, signature, count, scratch, _blocks(grid)),
        block=block,
        shared_bytes=int(metadata.shared),
    )


def _blocks(grid: Grid) -> int:
    return grid if isinstance(grid, int) else math.prod(grid)


def _triton_values(
    given: Sequence[Any], signature: Mapping[str, str], count: int, scratch: Sequence[int], blocks: int
) -> list[Any]:
    """Arguments without those that Triton compiled in, and memory of its own after them."""
    kept = [kind for kind in signature.values() if kind != "constexpr"]
    if len(given) > len(kept):
        kinds = [*signature.values(), *("" for _ in given)]
        given = [each for each, kind in zip(given, kinds, strict=False) if kind != "constexpr"]
    values = [_convert_to(each, kind) for each, kind in zip(given, [*kept, *("" for _ in given)], strict=False)]
    if len(given) == len(kept):  # otherwise what is missing or too much is named later
        for number, size in zip(range(count - len(kept)), scratch, strict=False):
            own = f"scratch{number + 1}"
            fill = ("zeros", ()) if size else ("", (0,))
            values.append(Argument(own, "u8" if size else "u64", size * blocks or None, *fill))
    return values


def _convert_to(value: Any, kind: str) -> Any:
    """A whole number as a floating-point one where the kernel takes that."""
    is_float = kind.startswith(("fp", "float", "bf")) and isinstance(value, int) and not isinstance(value, bool)
    return float(value) if is_float else value


def _cupy(kernel: Any, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
    for attribute in ("enable_cooperative_groups", "translate_cucomplex", "jitify"):
        if getattr(kernel, attribute, False):
            raise UsageError(f"a RawKernel with {attribute} is not supported: give one without")
    own = str(kernel.name)
    readable = source_name(own)
    path = getattr(kernel, "file_path", None)
    if path is not None:
        return PythonKernel(own, _read(path), Path(path).suffix)
    headers = Path(getattr(sys.modules.get("cupy"), "__file__", None) or "").parent / "_core" / "include"
    folders = [folder for folder in (headers, *sorted(headers.glob("cupy/_cccl/*"))) if folder.is_dir()]
    options = (*kernel.options, *(f"-I{folder}" for folder in folders))
    return PythonKernel(readable if "<" in readable else own, kernel.code.encode(), CUDA, options=options)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _object_code(kernel: Any, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
    ending, code = _FILES_OF_CODE.get(kernel.code_type), kernel.code
    if ending is None:
        raise UsageError(f"ObjectCode of type {str(kernel.code_type)[:20]!a} has no kernel yet: compile to 'ptx'")
    mangled = {key.decode() if isinstance(key, bytes) else key: value for key, value in kernel.symbol_mapping.items()}
    found = mangled.get(name or "", name)
    if name is None and len(mangled) == 1:
        found = next(iter(mangled.values()))
    text = found.decode() if isinstance(found, bytes) else found
    data = _read(code) if isinstance(code, str) else bytes(code)
    return PythonKernel(text, data.rstrip(b"\0") if ending == PTX else data, ending)


def _numba(kernel: Any, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
    chosen = _overload(kernel, arguments)
    overload = kernel.overloads[chosen]
    if getattr(overload, "cooperative", False):
        raise UsageError("this Numba kernel is launched cooperatively, which is not supported")
    if getattr(kernel, "extensions", None):
        raise UsageError("this Numba kernel has extensions that change its arguments: give one without")
    ptx = kernel.inspect_asm(chosen)
    if len(re.findall(r"(?m)^\s*\.version\b", ptx)) != 1:
        raise UsageError("this Numba kernel consists of several modules: compile it without debug and lineinfo")
    own = getattr(overload, "entry_name", None)
    types = [str(each) for each in chosen]
    return PythonKernel(own, ptx.encode(), PTX, values=lambda given, grid: _numba_values(given, types))


def _configured_numba(kernel: Any, name: str | None, arguments: Sequence[Any]) -> PythonKernel:
    found = _numba(kernel.dispatcher, name, arguments)
    return PythonKernel(
        found.name, found.code, found.ending, found.values, (), tuple(kernel.blockdim), int(kernel.sharedmem)
    )


def _overload(kernel: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The signature that arguments belong to, or the only one."""
    signatures = list(kernel.overloads)
    if not signatures:
        raise UsageError("this Numba kernel is not compiled yet: launch it once, or declare its signature")
    fitting = [each for each in signatures if _fits(list(map(str, each)), arguments)]
    found = signatures if len(signatures) == 1 else fitting
    if len(found) != 1:
        listed = "; ".join(", ".join(map(str, each)) for each in signatures[:_MAX_LISTED])
        raise UsageError(
            f"this Numba kernel has {len(signatures)} versions, for ({listed[:300]}): give args that match one"
        )
    return tuple(found[0])


def _fits(types: Sequence[str], arguments: Sequence[Any]) -> bool:
    """Whether arguments have these types of Numba, as far as arrays, whole and other numbers differ."""
    if len(types) != len(arguments):
        return False
    for kind, value in zip(types, arguments, strict=True):
        if is_array(value):
            name = str(getattr(value, "dtype", "")).rpartition(".")[2]  # torch.float32
            if not kind.startswith(f"array({name}, {len(getattr(value, 'shape', ()))}d"):
                return False
        elif kind.startswith("array(") or (isinstance(value, float) and not kind.startswith("float")):
            return False
    return True


def _numba_values(given: Sequence[Any], types: Sequence[str]) -> list[Any]:
    """Parameters as numba.cuda passes them: of an array no owner twice, size, item size, data, shape and strides."""
    values: list[Any] = []
    for number, (value, kind) in enumerate(zip(given, [*types, *("" for _ in given)], strict=False), start=1):
        if kind.startswith(("array(", "Array(")) and not isinstance(value, str):
            array = host_array(value, number)
            if array is None:
                raise UsageError(f"argument {number} is a {type(value).__name__[:40]}, the kernel takes {kind[:60]}")
            none = Argument(f"p{number}_owner", "u64", None, "", (0,)), Argument(f"p{number}_of", "u64", None, "", (0,))
            values += [*none, array.size, array.itemsize, array, *array.shape, *array.strides]
        elif kind.startswith("complex"):
            values += [complex(value).real, complex(value).imag]
        elif kind.startswith(("Tuple", "UniTuple", "Record", "datetime", "timedelta")) or isinstance(value, tuple):
            raise UsageError(f"argument {number} of this Numba kernel is {kind[:60]}, which is not supported")
        elif kind.startswith("array("):
            raise UsageError(f"argument {number} of a Numba kernel is {kind[:60]}: give an array, not a text")
        else:
            values.append(_convert_to(value, kind))
    return values


_READERS: dict[tuple[str, str], Callable[[Any, str | None, Sequence[Any]], PythonKernel]] = {
    ("triton", "CompiledKernel"): _triton,
    ("triton", "JITFunction"): _refuse("launch it, or call its warmup, and give what that returns"),
    ("triton", "Autotuner"): _refuse("give the compiled kernel that a launch of it returns"),
    ("cupy", "RawKernel"): _cupy,
    ("cupy", "RawModule"): _refuse("give one of its kernels: module.get_function(NAME)"),
    ("cuda", "ObjectCode"): _object_code,
    ("cuda", "Kernel"): _refuse("give the ObjectCode that it is of, and its name as kernel="),
    ("numba", "CUDADispatcher"): _numba,
    ("numba", "_LaunchConfiguration"): _configured_numba,
}
_READERS |= {("numba_cuda", name): reader for (package, name), reader in _READERS.items() if package == "numba"}
"""By package and name of the type."""
