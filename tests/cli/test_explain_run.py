"""``explain --grid --block``: a kernel recorded on a fake GPU and explained; kernels and files that fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.cli import console
from gpudissect.device.cuda.driver import GpuLimits
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.explanation import inputs, kernel_process, on_gpu, record
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.user_code import assemble
from tests.cli.test_explain import H100, H200, OTHER, ROOT, SOURCE
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import ARGUMENT_BYTES

ELEMENTS = ARGUMENT_BYTES // 4
ARGUMENTS = (f"out:u32[{ELEMENTS}]", f"in:u32[{ELEMENTS}]=random", "n:u32=50")
LIMITS = GpuLimits("NVIDIA H200", (9, 0), 232448)


@pytest.fixture
def on_fake(tmp_path, monkeypatch):
    """A folder with kernels; kernels run on a fake H200, which does what the variable FAKE_GPU says."""
    monkeypatch.setattr(on_gpu, "gpu_limits", lambda index: LIMITS)
    monkeypatch.setattr(kernel_process, "process", SimpleNamespace(__name__="tests.support.fake_kernel_process"))
    monkeypatch.setattr(record, "SHIFT", 0)
    monkeypatch.setattr(record, "LAUNCH_RECORDS", 1 << 14)
    monkeypatch.setattr(console, "LOG_INTERVAL_S", 600.0)  # a slow machine would print progress
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(gd.__file__).parents[1]), str(ROOT)]))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "both.cu").write_text(SOURCE + OTHER)
    (tmp_path / "empty.cu").write_text("__device__ int twice(int x) { return 2 * x; }")
    return tmp_path


def command(file="k.cu", *more, grid="4", block="64", arguments=ARGUMENTS, machine=H200):
    given = [word for argument in arguments for word in ("--arg", argument)]
    machines = ["--machine", machine] if machine else []
    return ["explain", file, "--grid", grid, "--block", block, *given, *machines, *more]


def test_a_kernel_is_recorded_and_explained(on_fake, gpudissect):
    code, out, err = gpudissect(*command("k.cu", "--profile", "p.json", "--json"))
    assert code == 0 and err == "gpudissect: wrote p.json\n"
    profile = read_profile(on_fake / "p.json")
    assert (profile.launch.grid, profile.gpu.name, profile.notes) == ((4, 1, 1), "NVIDIA H200", ())
    assert set(profile.tools) == {"nvrtc", "ptxas"} and len(profile.sweep) == 13
    found = gd.explain(on_fake / "p.json", machine=H200)
    assert out == found.to_json() + "\n"
    assert found.point.measured == profile.sweep[-1].ns and found.point.error is not None


def test_the_first_screen_has_measured_time_and_error(on_fake, gpudissect):
    code, out, err = gpudissect(*command())
    assert (code, err) == (0, "")
    assert "measured 60 ms, error " in out


def test_without_a_result_it_is_recorded_only_for_a_profile(on_fake, gpudissect, error_of):
    error = error_of(*command(machine=None))
    assert "gpudissect discover -d cuda:0 -o result.json" in error and "--machine" in error
    code, out, err = gpudissect(*command("k.cu", "--profile", "p.json", machine=None))
    assert (code, out) == (0, "") and "explain p.json --machine" in err
    assert read_profile(on_fake / "p.json").counts


@pytest.mark.parametrize(
    ("happens", "code", "facts", "explained"),
    [
        (
            "fail_at=1",
            3,
            ("in its first launch", "CUDA_ERROR_ILLEGAL_ADDRESS", "nothing was measured", "context"),
            False,
        ),
        ("fail_at=12", 3, ("while it was timed", "CUDA_ERROR_ILLEGAL_ADDRESS", "is kept"), True),
        ("limit_at=1", 3, ("did not end within 30 s", "in its first launch", "--limit"), False),
        ("fail_in=_cursors", 4, ("no trace", "CUDA_ERROR_ILLEGAL_ADDRESS"), True),
        ("end_at=1", 3, ("ended with code 7", "nothing was measured"), False),
    ],
)
def test_a_kernel_that_fails_costs_one_line_and_keeps_what_was_measured(
    on_fake, gpudissect, monkeypatch, happens, code, facts, explained
):
    monkeypatch.setenv("FAKE_GPU", happens)
    got, out, err = gpudissect(*command("k.cu", "--limit", "30", "--profile", "p.json"))
    *notes, error = err.splitlines()
    assert got == code and all(fact in error for fact in facts), err
    assert ("Predicted time" in out) == explained
    assert notes == (["gpudissect: wrote p.json"] if explained else [])
    assert (on_fake / "p.json").exists() == explained
    if explained:
        profile = read_profile(on_fake / "p.json")
        assert profile.counts and len(profile.sweep) < 14 and "CUDA_ERROR" in profile.notes[0]
        assert not profile.warps
        gpudissect(*command("k.cu", "--limit", "30", "--profile", "p.json"))
        assert (on_fake / "p.partial.json").exists()


def test_what_cannot_be_explained_does_not_hide_why_the_kernel_failed(on_fake, gpudissect, monkeypatch):
    def refuse(*arguments):
        raise gd.UsageError("nothing to explain")

    monkeypatch.setenv("FAKE_GPU", "fail_at=12")
    monkeypatch.setattr(inputs, "explain_recorded", refuse)
    code, out, err = gpudissect(*command())
    assert (code, out) == (3, "") and "ILLEGAL_ADDRESS" in err and "nothing to explain" in err


def test_without_a_gpu_a_profile_is_proposed(on_fake, error_of, monkeypatch):
    def refuse(index):
        raise DeviceError("no driver")

    monkeypatch.setattr(on_gpu, "gpu_limits", refuse)
    what = "no GPU found: add --trips LOOP=N of each loop ('none' if there are none)"
    example = " and --machine RESULT, such as docs/results/h200.json of the repository"
    ends = ", or --profile FILE of an earlier run (no driver)\n"
    assert error_of(*command(), code=3).endswith(what + ends)
    assert error_of(*command(machine=None), code=3).endswith(what + example + ends)
    (on_fake / "k.ptx").write_text(ptx_of(SOURCE + OTHER, "compute_90"))
    (on_fake / "wrong.cu").write_text("__global__ void k() { nothing; }")
    (on_fake / "wrong.ptx").write_text(".version 8.0 .entry k( {")
    (on_fake / "k.cubin").write_bytes(assemble((on_fake / "k.ptx").read_text(), "sm_90").data)
    for words, facts, code in (
        (command("missing.cu"), ("cannot read missing.cu",), 2),
        (command("README.md"), ("cannot read README.md",), 2),
        (command(arguments=("x",)), ("NAME:TYPE",), 2),
        (command("wrong.cu", arguments=()), ("wrong.cu did not compile", "nothing"), 3),
        (command("wrong.ptx", arguments=()), ("wrong.ptx",), 2),
        (command("k.ptx", machine=None), ("k.ptx has 2 kernels; choose one with --kernel: ",), 2),
        (command("k.cubin", machine=None), ("k.cubin has 2 kernels; choose one with --kernel: ",), 2),
        (command("k.cu", arguments=ARGUMENTS[:1]), ("1 argument", "3 parameters"), 2),
        (command("k.cu", machine="missing.json"), ("missing.json",), 2),
    ):
        error = error_of(*words, code=code)
        assert all(fact in error for fact in facts), error


def test_with_trips_nothing_is_run(on_fake, gpudissect, monkeypatch):
    monkeypatch.setattr(on_gpu, "gpu_limits", lambda index: pytest.fail("the GPU was used"))
    code, out, err = gpudissect(*command("k.cu", "--trips", "none", "--all", arguments=()))
    assert (code, err) == (0, "")
    assert "counts GIVEN, not measured" in out.splitlines()[0] and "; not measured" in out
    assert "all threads" in out.rpartition("Notes")[2]
    found = gd.explain("k.cu", grid=4, block=64, trips={}, machine=H200)
    assert found.counts == "given" and "GIVEN" in str(found)
    with pytest.raises(gd.UsageError, match="leave out args"):
        gd.explain("k.cu", grid=4, block=64, trips={}, args=[1], machine=H200)
    for option in ({"device": "cuda:0"}, {"limit": 5.0}, {"profile": "p.json"}):
        with pytest.raises(gd.UsageError, match=f"with trips the kernel is not run: leave out {next(iter(option))}"):
            gd.explain("k.cu", grid=4, block=64, trips={}, machine=H200, **option)
    for option in ({"device": "cuda:0"}, {"limit": 5.0}, {"shared": 4}, {"trips": "none"}):
        with pytest.raises(gd.UsageError, match=f"{next(iter(option))} requires grid and block"):
            gd.explain("k.cu", machine=H200, **option)


@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"grid": 65536.5}, "grid must be a whole number"),
        ({"block": None}, "grid requires block"),
        ({"shared": 1.5}, "shared must be a number of bytes"),
        ({"limit": "5"}, "limit must be a number of seconds"),
        ({"machine": ()}, "add --machine"),
        ({"machine": None}, "machine must be a result"),
    ],
)
def test_wrong_values_in_python_are_refused(on_fake, options, fact):
    with pytest.raises(gd.UsageError, match=fact):
        gd.explain("k.cu", **{"grid": 4, "block": 64, "args": ARGUMENTS, "machine": H200} | options)
    with pytest.raises(gd.UsageError, match="add --machine"):
        gd.explain("k.cu", grid=4, block=64, trips={})


def test_a_disk_that_fills_up_costs_the_profile_alone(on_fake, gpudissect, monkeypatch):
    def refuse(path, text):
        raise gd.UsageError(f"cannot write {path}: No space left on device")

    monkeypatch.setattr(on_gpu, "write_text", refuse)
    code, out, err = gpudissect(*command("k.cu", "--profile", "p.json"))
    errors = [line for line in err.splitlines() if " error: " in line]  # beside the progress of a slow machine
    assert code == 2 and "Predicted time" in out and len(errors) == 1 and "No space left" in errors[0]


def test_ctrl_c_ends_the_process_and_keeps_what_was_measured(on_fake):
    script = (
        "import sys; from pathlib import Path\n"
        "from types import SimpleNamespace\n"
        "from gpudissect.cli.app import main\n"
        "from gpudissect.explanation import kernel_process, on_gpu\n"
        "from tests.cli.test_explain_run import LIMITS\n"
        "on_gpu.gpu_limits = lambda index: LIMITS\n"
        "kernel_process.process = SimpleNamespace(__name__='tests.support.fake_kernel_process')\n"
        "start = kernel_process.KernelProcess._start\n"
        "def kept(self):\n"
        "    self._log = open('log', 'w'); child = start(self); Path('pid').write_text(str(child.pid)); return child\n"
        "kernel_process.KernelProcess._start = kept\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = [str(word) for word in command("k.cu", "--profile", "p.json")]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "FAKE_GPU": "hang_at=5"}
    with subprocess.Popen([sys.executable, "-c", script, *words], env=environment, **options) as process:
        while not (Path("log").exists() and "hanging" in Path("log").read_text()):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "gpudissect: interrupted; what was measured is kept"
    assert read_profile(on_fake / "p.json").notes == ("interrupted",)
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)


@pytest.mark.parametrize(
    ("words", "facts"),
    [
        (command("both.cu"), ("2 kernels", "--kernel", "divergent", "other")),
        (command(arguments=ARGUMENTS[:1]), ("1 argument", "3 parameters", "--arg 'p2:", "--arg 'p3:i32=")),
        (command(arguments=(*ARGUMENTS, "m:i32=1")), ("4 arguments", "3 parameters")),
        (command(arguments=("x",)), ("NAME:TYPE",)),
        (command(machine=H100), ("H100", "H200", "discover -d cuda:0")),
        (command(grid="0"), ("grid", "1 to")),
        (command(grid="4,0.5"), ("not a grid", "X,Y,Z")),
        (command(grid="1,65536"), ("in y", "65535")),
        (command(block="1025"), ("block 1025", "1024")),
        (command(block="1,1,65"), ("in z", "64")),
        (command("k.cu", "--shared", "300K"), ("307200 B", "232448 B")),
        (command("k.cu", "--limit", "0"), ("time limit",)),
        (command("k.cu", "-d", "sim:h200"), ("sim:h200", "cuda:0")),
        (command("k.cu", "-d", ""), ("cuda:0",)),
        (command("k.cu", "--shared", ""), ("not a size",)),
        (command("k.cu", "--profile", "missing/p.json"), ("missing/p.json", "no folder")),
        (command("k.cu", "--profile", "p.txt"), ("p.txt", ".json")),
        (command("k.cu", "--profile", "k.cu"), ("k.cu", "input")),
        (command("p.json"), ("p.json is a profile and contains the launch: omit --grid, --block, --arg",)),
        (command("k.ptx", "--compile-option=-DN=1"), ("--compile-option",)),
        (command("k.cu", "--compile-option=-arch=sm_80"), ("-arch=sm_80",)),
        (["explain", "k.cu", "--grid", "4"], ("--grid requires --block",)),
        (["explain", "k.cu", "--arg", "n:i32=1"], ("--arg", "--grid and --block")),
        (["explain", "k.cu"], ("--grid and --block", "--profile", "--trips")),
        (["explain", "k.cu", "--trips", "none"], ("--trips", "--grid and --block")),
        (command("k.cu", "--trips", "none"), ("--trips", "leave out --arg")),
        (command("k.cu", "--trips", "k.cu:4=1", arguments=()), ("the machine code has no loops: --trips none",)),
        (command("k.cu", "--trips", "none", arguments=(), machine=None), ("--machine",)),
        (command("p.json", "--trips", "none", arguments=()), ("p.json", "omit --grid, --block, --trips")),
        (command("k.cu", "--trips", "a=1,b=2", arguments=()), ("'a=1,b=2'", "repeat --trips for each loop")),
        (command("k.cu", "--profile", "p.json", "--all", machine=None), ("--machine", "gpudissect discover -d cuda:0")),
        (command("k.cu", "--profile", "p.json", "--against", H100, machine=None), ("--machine", "discover -d cuda:0")),
        (command("empty.cu"), ("empty.cu: no kernel found: mark it __global__",)),
    ],
)
def test_what_cannot_work_is_refused_before_the_gpu_is_used(on_fake, monkeypatch, error_of, words, facts):
    monkeypatch.setattr(kernel_process.KernelProcess, "_start", lambda self: pytest.fail("the GPU was used"))
    error = error_of(*words)
    assert all(fact in error for fact in facts), error


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a folder where even root cannot write")
def test_a_profile_that_cannot_be_written_is_known_before_the_gpu_is_used(on_fake, monkeypatch, error_of):
    monkeypatch.setattr(kernel_process.KernelProcess, "_start", lambda self: pytest.fail("the GPU was used"))
    assert "cannot write /proc/" in error_of(*command("k.cu", "--profile", "/proc/self/p.json"))


def test_the_first_errors_of_the_compiler_are_printed(on_fake, error_of):
    Path("k.cu").write_text('extern "C" __global__ void k() { one; two; }')
    error = error_of(*command(arguments=()), code=3)
    assert '"one" is undefined' in error and '"two" is undefined' in error
    Path("k.cu").write_text("#include <nothing.h>\n")
    error = error_of(*command(arguments=()), code=3)
    assert "nothing.h" in error and "-IDIR" in error and "nvcc" in error


def test_macros_folders_and_instances_of_templates(on_fake, gpudissect):
    Path("include").mkdir()
    Path("include/own.h").write_text("typedef unsigned Word;")
    source = "#include <own.h>\ntemplate <class T> __global__ void put(T* out) { out[threadIdx.x] = VALUE; }"
    Path("t.cu").write_text(source)
    options = ("--compile-option=-DVALUE=5", "--compile-option", "-Iinclude")
    words = command("t.cu", *options, "--profile", "p.json", "--json", arguments=ARGUMENTS[:1])
    code, out, err = gpudissect(*words, "--kernel", "put<Word>")
    assert code == 0, err
    assert read_profile(Path("p.json")).kernel == "_Z3putIjEvPT_"
    again = ("explain", "t.cu", *options, "--kernel", "put<Word>", "--profile", "p.json", "--machine", H200, "--json")
    assert gpudissect(*again)[1] == out
    assert "'NAME<ARGUMENTS>'" in gpudissect(*words)[2]


def test_in_python_arguments_are_values(on_fake, monkeypatch):
    source = np.arange(ELEMENTS, dtype=np.uint32)
    stages = []
    options = {"machine": H200, "grid": 4, "block": (64, 1), "progress": lambda *step: stages.append(step)}
    found = gd.explain("k.cu", args=[ARGUMENTS[0], source, 50], profile="p.json", **options)
    profile = read_profile(Path("p.json"))
    assert profile.arguments == (ARGUMENTS[0] + "=zeros", f"p2:u32[{ELEMENTS}]=content", "p3:i32=50")
    assert found.to_json() == gd.explain("p.json", machine=H200).to_json()
    same = gd.explain("k.cu", args=[ARGUMENTS[0], f"in:u32[{ELEMENTS}]=range", 50], **options)
    assert same.point == found.point
    assert [done for done, _, _ in stages] == sorted(done for done, _, _ in stages[: len(stages) // 2]) * 2
    for args, fact in (([ARGUMENTS[0], source, 2.5], "p3 is f32"), ([ARGUMENTS[0], {}], "dict"), ([], "3 parameters")):
        with pytest.raises(gd.UsageError, match=fact):
            gd.explain("k.cu", args=args, **options)
    with pytest.raises(gd.UsageError, match="grid requires block"):
        gd.explain("k.cu", args=[1], machine=H200, grid=3)
    monkeypatch.setenv("FAKE_GPU", "fail_at=1")
    with pytest.raises(KernelFailed, match="ILLEGAL_ADDRESS"):
        gd.explain("k.cu", args=ARGUMENTS, **options)


def test_a_compiled_kernel_of_triton_knows_its_block(on_fake):
    metadata = SimpleNamespace(name="divergent", num_warps=2, shared=0)
    signature = {"out": "*u32", "in": "*u32", "n": "u32", "BLOCK": "constexpr"}
    attributes = {"asm": {"ptx": ptx_of(SOURCE, "compute_90")}, "metadata": metadata}
    attributes |= {"src": SimpleNamespace(signature=signature), "__module__": "triton.compiler.compiler"}
    kernel = type("CompiledKernel", (), attributes)()
    found = gd.explain(kernel, machine=H200, grid=4, args=[*ARGUMENTS[:2], 50, 64], profile="p.json")
    assert (found.kernel, found.grid, found.block) == ("divergent", (4, 1, 1), (64, 1, 1))
    assert found.point.measured is not None
    again = gd.explain(kernel, machine=H200, profile="p.json")
    assert again.point == found.point
    given = gd.explain(kernel, machine=H200, grid=4, trips={})
    assert given.counts == "given"
    with pytest.raises(gd.UsageError, match="not a kernel: dict"):
        gd.explain({}, machine=H200)
