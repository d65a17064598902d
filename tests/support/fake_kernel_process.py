"""The process that runs kernels, on a fake GPU: run as a module in the place of `gpudissect.explanation.process`.

The environment variable FAKE_GPU has what is to happen: ``fail_at=N`` (the launch that crashes), ``hang_at=N`` (the
launch that never ends), ``limit_at=N`` (the launch that takes longer than its limit), ``end_at=N`` (the process ends),
``fail_in=NAME`` (kernels crash that have an array of a name with this end).
"""

import hashlib
import io
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gpudissect.errors import KernelFailed
from gpudissect.explanation import jobs, process, record
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.parameters import parameters_of
from gpudissect.explanation.ptx import parse_ptx
from tests.support.fake_user_gpu import FakeUserContext

NAME = "NVIDIA H200"
NVML = SimpleNamespace(
    clocks=lambda: (1.98e9, 2.6e9),
    cores=lambda: None,
    pcie=dict,
    nvlinks=dict,
    driver=lambda: "580",
    settings=lambda: {"power_limit": "700 W"},
    throttling=lambda: None,
    other_processes=lambda: None,
)


def context_of(folder: Path, name: str = NAME) -> FakeUserContext:
    """A context that runs the cubins of a folder: by the PTX that they were assembled from."""
    module, kernel = parse_ptx((folder / record._PTX).read_text()), jobs.read_job(folder).kernel
    counting, tracing = record._instrumented(module, kernel)
    texts = {jobs.PLAIN: with_source_lines(module), jobs.COUNTED: counting.ptx, jobs.TRACED: tracing.ptx}
    texts[jobs.SAMPLED] = record._sampled(module, kernel).ptx
    present = {file: text for file, text in texts.items() if (folder / file).exists()}
    digests = {hashlib.sha256((folder / file).read_bytes()).hexdigest(): text for file, text in present.items()}
    sizes = tuple(parameter.size for parameter in parameters_of(module, module.function(kernel)))
    context = FakeUserContext(digests, sizes)
    context.device.name = name
    return context


def misbehave(context: FakeUserContext, what: str) -> None:
    name, _, number = what.partition("=")

    def tamper(context: FakeUserContext, function: Any) -> None:
        if name == "fail_in" and any(array.endswith(number) for array in function.module.names):
            context.lost = True
        elif name != "fail_in" and len(context.driver.launches) == int(number):
            if name == "hang_at":
                print("hanging", file=sys.stderr, flush=True)
                time.sleep(600)
            if name == "end_at":
                os._exit(7)
            if name == "limit_at":
                context._timed_out = True
                raise KernelFailed("a kernel did not finish within 1 s")

    if name == "fail_at":
        context.driver.fail_at = int(number)
    elif name:
        context.driver.tamper = tamper


def main() -> None:
    process._WARM_UP_S = 0.0
    record.SHIFT, record.LAUNCH_RECORDS = 0, 1 << 14
    for line in sys.stdin:
        context = context_of(Path(json.loads(line)))
        misbehave(context, os.environ.get("FAKE_GPU", ""))
        process.serve(context, NVML, io.StringIO(line), sys.stdout)


if __name__ == "__main__":
    main()
