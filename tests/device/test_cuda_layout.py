"""The structures of host and kernels agree, as the CUDA compiler sees them."""

import pytest

from gpudissect.device.cuda import compile as module
from gpudissect.device.cuda import layout

pytest.importorskip("cuda.core")
STRUCTURES = {
    "Job": layout.JOB,
    "Report": layout.REPORT,
    "ChainSpec": layout.CHAIN,
    "PriorAccesses": layout.PRIOR,
    "StreamReport": layout.STREAM_REPORT,
    "StreamSummary": layout.STREAM_SUMMARY,
    "MixReport": layout.MIX_REPORT,
    "GridBarrier": layout.GRID_BARRIER,
    "Samples": layout.SAMPLES,
}
INCLUDES = (
    '#define PATH_GLOBAL\n#include "chains.cu"\n#include "prior.cuh"\n#include "stream_words.cu"\n#include "mix.cuh"\n'
)


def assertions(name, dtype):
    lines = [f"static_assert(sizeof({name}) == {dtype.itemsize});"]
    for field, (kind, offset, *_) in (dtype.fields or {}).items():
        lines.append(f"static_assert(__builtin_offsetof({name}, {field}) == {offset});")
        lines.append(f"static_assert(sizeof({name}::{field}) == {kind.itemsize});")
    return "\n".join(lines)


def test_structures_agree(tmp_path, monkeypatch):
    for file in module.KERNELS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(module, "KERNELS", tmp_path)
    source = tmp_path / "check.cu"
    source.write_text(INCLUDES + "\n".join(assertions(name, dtype) for name, dtype in STRUCTURES.items()))
    assert module.compile_cubin("check.cu", (), "sm_90")
    source.write_text('#include "job.cuh"\nstatic_assert(sizeof(Job) == 1);')
    with pytest.raises(module.KernelFailed, match=r"^check\.cu did not compile for sm_90: .*error") as caught:
        module.compile_cubin("check.cu", (), "sm_90")
    assert "\n" not in str(caught.value)
