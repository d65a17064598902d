"""The process that runs kernels: a kernel that crashes it, never ends or prints costs one line."""

from types import SimpleNamespace

import pytest

from gpudissect.errors import KernelFailed
from gpudissect.explanation import jobs, kernel_process
from gpudissect.explanation.jobs import Job, Measured, Step
from gpudissect.explanation.kernel_process import KernelProcess, StageFailed
from gpudissect.explanation.profile import Launch

STUB = """
import json, os, sys, time
def answer(**fields): print(json.dumps(fields), flush=True)
for line in sys.stdin:
    name = os.path.basename(json.loads(line))
    if name == "hangs": time.sleep(60)
    if name == "crashes": os._exit(7)
    if name == "noise": print("hello", flush=True); continue
    if name == "steps": [answer(stage="sweep", done=n, total=3) for n in range(3)]
    if name == "slow": [(answer(stage="sweep", done=n, total=3), time.sleep(0.5)) for n in range(3)]
    if name == "endless": answer(error="too long", is_lost=True, has_timed_out=True); break
    answer(error="it failed" if name in ("fails", "counts", "trace") else "", is_lost=name == "fails")
    if name == "fails": break
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    (tmp_path / "stub_of_process.py").write_text(STUB)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(kernel_process, "process", SimpleNamespace(__name__="stub_of_process"))
    kernels = KernelProcess(0)
    yield kernels
    kernels.close()


def job(folder, stage="launch"):
    folder.mkdir()
    launch = Launch(grid=(1, 1, 1), block=(32, 1, 1))
    made = Job(kernel="k", launch=launch, arguments=(), counters="c", trace={}, accesses_of_blocks=(), limit_s=2.5)
    jobs.write_job(folder, made)
    jobs.write_measured(folder, Measured(stage=stage))
    return folder


@pytest.mark.parametrize(
    ("name", "fact"), [("hangs", "1 s"), ("crashes", "code 7"), ("fails", "it failed"), ("noise", "no valid response")]
)
def test_a_process_that_fails_costs_one_kernel(stub, tmp_path, name, fact):
    stub.measure(tmp_path / "well", 20.0)
    with pytest.raises(KernelFailed, match=fact):
        stub.measure(tmp_path / name, 1.0)
    stub.measure(tmp_path / "well", 20.0)


def test_steps_are_reported(stub, tmp_path):
    steps = []
    stub.measure(tmp_path / "steps", 20.0, steps.append)
    assert steps == [Step(stage="sweep", done=done, total=3) for done in range(3)]


def test_the_limit_is_one_of_a_step(stub, tmp_path):
    stub.measure(tmp_path / "slow", 1.2)


def test_a_kernel_that_never_ends_is_named_with_its_limit(stub, tmp_path):
    with pytest.raises(KernelFailed, match=r"within 2\.5 s"):
        stub.measure(job(tmp_path / "endless"), 20.0)


@pytest.mark.parametrize("stage", ["counts", "trace"])
def test_an_instrumented_kernel_that_fails_is_left_out(stub, tmp_path, stage):
    folder = job(tmp_path / stage, stage)
    with pytest.raises(KernelFailed if stage == "counts" else StageFailed, match="it failed"):
        stub.measure(folder, 20.0)
    assert jobs.read_job(folder).skip == (("counts", "trace") if stage == "counts" else ())


def test_without_such_a_gpu_the_process_says_so(tmp_path):
    kernels = KernelProcess(10_000)
    with pytest.raises(KernelFailed) as error:
        kernels.measure(tmp_path, 60.0)
    assert "\n" not in str(error.value) and "code" not in str(error.value)
