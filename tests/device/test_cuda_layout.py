"""The structures of host and kernels agree, as the CUDA compiler sees them."""

from __future__ import annotations

import numpy as np
import pytest

from gpudissect.device.cuda import compile as cuda_compile
from gpudissect.device.cuda.chase.layout import JOB, MEETING, MIX_REPORT, REPORT, RING, SAMPLES, STREAM_REPORT, TURN

pytest.importorskip("cuda.core")


def checks(name: str, dtype: np.dtype) -> str:
    lines = [f"static_assert(sizeof({name}) == {dtype.itemsize});"]
    for field, (kind, offset) in ((field, entry[:2]) for field, entry in (dtype.fields or {}).items()):
        lines.append(f"static_assert(__builtin_offsetof({name}, {field}) == {offset});")
        lines.append(f"static_assert(sizeof({name}::{field}) == {kind.itemsize});")
    return "\n".join(lines)


def test_structures_agree(tmp_path, monkeypatch) -> None:
    (tmp_path / "check.cu").write_text(
        "\n".join(
            [
                '#include "lay.cu"',
                "#define PATH_GLOBAL",
                '#include "turns.cuh"',
                '#include "stream.cuh"',
                checks("Job", JOB),
                checks("Report", REPORT),
                checks("Ring", RING),
                checks("Turn", TURN),
                checks("StreamReport", STREAM_REPORT),
                '#include "mix.cuh"',
                checks("MixReport", MIX_REPORT),
                checks("Meeting", MEETING),
                checks("Samples", SAMPLES),
            ]
        )
    )
    for file in cuda_compile.KERNELS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(cuda_compile, "KERNELS", tmp_path)
    assert cuda_compile.compile_cubin("check.cu", (), "sm_90")
    (tmp_path / "check.cu").write_text('#include "job.cuh"\nstatic_assert(sizeof(Job) == 1);')
    with pytest.raises(cuda_compile.KernelFailed, match=r"^check\.cu did not compile for sm_90: .*error") as caught:
        cuda_compile.compile_cubin("check.cu", (), "sm_90")
    assert "\n" not in str(caught.value)
