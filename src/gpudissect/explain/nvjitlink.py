"""Run as a process: PTX from a file to a cubin on standard output, with libnvJitLink.

Arguments: the library, the file, options such as ``-arch=sm_90``. Imports nothing of the package. An error is printed
to standard error, exit code 1.
"""

import ctypes
import sys
from pathlib import Path

_INPUT_PTX = 2  # NVJITLINK_INPUT_PTX of nvJitLink.h


def compile_ptx(library: str, ptx: bytes, options: list[bytes]) -> bytes:
    """The cubin of a module of PTX. Raises `ValueError` with the compiler's message."""
    link = ctypes.CDLL(library)
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    if link.nvJitLinkCreate(ctypes.byref(handle), len(options), (ctypes.c_char_p * len(options))(*options)):
        raise ValueError(f"options not accepted: {b' '.join(options)!r}")
    failed = link.nvJitLinkAddData(handle, _INPUT_PTX, ptx + b"\0", len(ptx) + 1, b"kernel.ptx")
    if failed or link.nvJitLinkComplete(handle):
        link.nvJitLinkGetErrorLogSize(handle, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        link.nvJitLinkGetErrorLog(handle, log)
        lines = log.value.decode("ascii", "backslashreplace").splitlines()
        raise ValueError(next((line for line in lines if "error" in line.lower()), "no message"))
    link.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
    cubin = ctypes.create_string_buffer(size.value)
    link.nvJitLinkGetLinkedCubin(handle, cubin)
    return cubin.raw


if __name__ == "__main__":
    try:
        sys.stdout.buffer.write(
            compile_ptx(sys.argv[1], Path(sys.argv[2]).read_bytes(), [o.encode() for o in sys.argv[3:]])
        )
    except (OSError, ValueError) as error:
        sys.exit(str(error))
