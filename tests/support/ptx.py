"""PTX of CUDA sources, compiled with NVRTC. Needs no GPU and no driver."""

from functools import cache


@cache
def ptx_of(text, architecture="compute_75", *options):
    """The PTX of a CUDA source given as text."""
    from cuda.bindings import nvrtc

    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernels.cu", 0, [], [])
    arguments = [option.encode() for option in ("--std=c++17", f"-arch={architecture}", *options)]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(arguments), arguments)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = b" " * nvrtc.nvrtcGetProgramLogSize(program)[1]
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.decode())
    ptx = b" " * nvrtc.nvrtcGetPTXSize(program)[1]
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(program)
    return ptx.rstrip(b"\0").decode()
