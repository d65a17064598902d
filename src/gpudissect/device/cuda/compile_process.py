"""The process that compiles a user's source by NVRTC: a compiler may take any time and memory, or crash.

It is run as a file and imports nothing else of this package, to start fast. It reads a job from standard input, writes
an answer to standard output, both in JSON, and knows no limits: `gpudissect.child_processes` has them.
"""

import json
import os
import sys
from typing import Any


def compile_source(source: str, name: str, command: list[str], instance: str | None) -> dict[str, Any]:
    """PTX of a source and the mangled name of an `instance` of a template, or `log`; the version of NVRTC.

    The answer has `missing` instead if the library of NVRTC was not found.
    """
    from cuda.bindings import nvrtc

    try:
        _, *version = nvrtc.nvrtcVersion()
    except RuntimeError:
        return {"missing": True}
    _, program = nvrtc.nvrtcCreateProgram(_bytes(source), _bytes(name), 0, [], [])
    expression = None if instance is None else _bytes(instance)
    if expression is not None:
        nvrtc.nvrtcAddNameExpression(program, expression)
    (status,) = nvrtc.nvrtcCompileProgram(program, len(command), list(map(_bytes, command)))
    answer: dict[str, Any] = {"version": "{}.{}".format(*version)}
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        log = bytearray(nvrtc.nvrtcGetProgramLogSize(program)[1])
        nvrtc.nvrtcGetProgramLog(program, log)
        return answer | {"log": log.decode("utf-8", "replace"), "status": status.name}
    ptx = bytearray(nvrtc.nvrtcGetPTXSize(program)[1])
    nvrtc.nvrtcGetPTX(program, ptx)
    lowered = None if expression is None else nvrtc.nvrtcGetLoweredName(program, expression)[1].decode()
    return answer | {"ptx": ptx.rstrip(b"\0").decode("utf-8", "replace"), "lowered": lowered}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(compile_source(**json.load(sys.stdin))))
    sys.stdout.flush()
    os._exit(0)  # nothing is left to do
