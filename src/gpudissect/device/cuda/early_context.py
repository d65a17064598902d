"""Creates the context of a GPU while modules are imported; both take about 0.3 s."""

import ctypes
from contextlib import suppress
from threading import Thread

_LIBRARY = "libcuda.so.1"


def start(index: int) -> Thread:
    """Let the driver create the primary context of GPU `index` in a thread.

    Whoever opens the GPU later finds the context, or waits in the driver until it exists. Errors are ignored here: the
    driver reports them again then.
    """
    thread = Thread(target=_retain, args=(index,), name="gpudissect-context", daemon=True)
    with suppress(RuntimeError):  # no more threads possible
        thread.start()
    return thread


def _retain(index: int) -> None:
    device, context = ctypes.c_int(), ctypes.c_void_p()
    with suppress(OSError, AttributeError):  # no driver, or one that lacks these calls
        driver = ctypes.CDLL(_LIBRARY)  # its calls run without Python's global interpreter lock
        if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), index) == 0:
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
