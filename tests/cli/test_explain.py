"""``explain``: a recorded kernel on the GPU of a result; files that do not belong together; conditions."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect as gd
from gpudissect.errors import UsageError
from gpudissect.explanation import gate, inputs, jobs, process, record
from gpudissect.explanation.inputs import check_architecture
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.packing import pack_bytes
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.result import Explanation
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.elf import read_elf
from gpudissect.machine_code.kernel import Cubin
from gpudissect.machine_code.names import short_name
from tests.explanation.test_record import prepared, serve
from tests.support.ptx import ptx_of
from tests.support.results import PLAIN, result

ROOT = Path(__file__).parents[2]
H200, H100, HIDING = (ROOT / "docs" / "results" / f"{name}.json" for name in ("h200", "h100", "h200-latency-hiding"))
SOURCE = r"""
typedef unsigned u32;
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void divergent(u32* out, const u32* in, u32 n) {
    u32 x = in[THREAD % 64];
    if (x % 3 == 0) { out[THREAD] = x / 3; __threadfence(); }
    else if (x % 3 == 1) { out[THREAD] = in[x % 64] + n; }
    else { x = x * x; out[THREAD] = in[(x >> 3) % 64] - x; }
}
"""
OTHER = 'extern "C" __global__ void other(unsigned* out) { out[threadIdx.x] = 1; }\n'


def digest_of(cubin: Cubin) -> str:
    return hashlib.sha256(cubin.kernels[0].code).hexdigest()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel as .cu, .ptx and .cubin, its profile, and files that do not fit."""
    folder = tmp_path_factory.mktemp("explain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "_WARM_UP_S", 0.0)
        patch.setattr(record, "SHIFT", 0)
        patch.setattr(record, "LAUNCH_RECORDS", 1 << 14)
        work = folder / "work"
        work.mkdir()
        serve(prepared(work, "divergent"), work)
        profile = record.finish(work, {})
    assert (work / jobs.JOB).is_file()
    (folder / "profile.json").write_text(profile.to_json())
    for name, source in (("divergent", SOURCE), ("other", OTHER), ("both", SOURCE + OTHER)):
        ptx = ptx_of(source, "compute_90", "-lineinfo")
        (folder / f"{name}.cu").write_text(source)
        (folder / f"{name}.ptx").write_text(ptx)
        (folder / f"{name}.cubin").write_bytes(assemble(with_source_lines(parse_ptx(ptx)), "sm_90").data)
    (folder / "older.cubin").write_bytes(assemble(ptx_of(SOURCE, "compute_80"), "sm_80").data)
    whole = (folder / "divergent.cubin").read_bytes()
    (folder / "truncated.cubin").write_bytes(whole[: len(whole) // 2])
    content = json.loads(profile.to_json())
    (folder / "damaged.json").write_text(json.dumps(content | {"packed_cubin": content["packed_cubin"][:-40]}))
    warps = [warp | {"packed": "AAAA"} for warp in content["warps"]]
    (folder / "traces.json").write_text(json.dumps(content | {"warps": warps}))
    (folder / "accesses.json").write_text(json.dumps(content | {"accesses": []}))
    wide = [*content["accesses"][0][:3], 4_000_000]  # bytes of a thread: tens of GB for the addresses of a sampled warp
    (folder / "wide.json").write_text(json.dumps(content | {"accesses": [wide]}))
    (folder / "long.json").write_text(json.dumps(content | {"warps": [warps[0] | {"visits": 60_000}] * 20}))
    (folder / "altered.json").write_text(json.dumps(content | {"code_sha256": "0" * 64}))
    (folder / "lines.json").write_text(json.dumps(content | {"lines": content["lines"] | {"accesses": []}}))
    (folder / "counts.json").write_text(json.dumps(content | {"counts": [["divergent", 99, 1, 1, 1]]}))
    (folder / "early.json").write_text(json.dumps(content | {"counts": []}))
    (folder / "text.md").write_text("no code")
    (folder / "explained.json").write_text('{"schema": "gpudissect/explanation/1"}')
    slow = json.loads(H200.read_text())
    bandwidth = next(f for f in slow["findings"] if (f["element"], f["attribute"]) == ("dram", "read_bandwidth"))
    bandwidth["value"] = 0
    (folder / "slow.json").write_text(json.dumps(slow))
    partial = json.loads(H200.read_text())
    partial["findings"] = [each for each in partial["findings"] if each["element"] != "fadd"]
    (folder / "part.json").write_text(json.dumps(partial))
    partial["options"]["quick"] = True
    (folder / "quick.json").write_text(json.dumps(partial))
    plain = assemble(profile.ptx(), "sm_90", kernel="divergent")
    lineless = {"packed_cubin": pack_bytes(plain.data), "code_sha256": digest_of(plain)}
    (folder / "lineless.json").write_text(json.dumps(content | lineless))
    (folder / "cut.json").write_text(profile.to_json()[:1000])
    return folder


@pytest.fixture(scope="module")
def explained(files: Path) -> Explanation:
    return gd.explain(files / "profile.json", machine=H200)


@pytest.mark.parametrize("ending", ["cu", "ptx", "cubin"])
def test_source_ptx_and_machine_code_have_the_same_explanation(files, gpudissect, explained, ending) -> None:
    file, profile = files / f"divergent.{ending}", files / "profile.json"
    code, out, _ = gpudissect("explain", file, "--profile", profile, "--machine", H200, "--json")
    assert code == 0
    assert json.loads(out) == json.loads(explained.to_json())


def test_the_explanation_is_of_the_kernel_and_the_gpu(explained) -> None:
    assert (short_name(explained.kernel), explained.gpu, explained.origin) == ("divergent", "NVIDIA H200", "measured")
    assert (explained.grid, explained.block, explained.max_warps) == ((4, 1, 1), (64, 1, 1), 64)
    assert explained.point.low < explained.point.predicted < explained.point.high
    assert explained.active_threads is not None and 8 < explained.active_threads < 24 and explained.sms == 132
    assert len(explained.lines) > 10 and explained.curve


def test_it_is_printed_and_written(files, gpudissect, explained, tmp_path) -> None:
    output, page = tmp_path / "out.json", tmp_path / "out.html"
    code, out, err = gpudissect(
        "explain", files / "profile.json", "--machine", H200, "-o", output, "--html", page, "--against", H100, "--all"
    )
    assert code == 0 and err.count("wrote") == 2
    assert out.startswith("divergent on NVIDIA H200, GPU values MEASURED\n")
    assert "Predicted time" in out and "NVIDIA H100" in out and f"{len(explained.lines)} instructions" in out
    written = Explanation.model_validate_json(output.read_text())
    assert written.against is not None
    assert written.model_copy(update={"against": None}) == Explanation.model_validate_json(explained.to_json())
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("condition", "code", "fact"),
    [
        (
            "spills == 0 and registers > 1",
            0,
            "gpudissect: gate passed: spills == 0 and registers > 1 (spills is 0 B, registers is",
        ),
        ("not spills == 0", 4, "gpudissect: gate failed: not spills == 0 (spills is 0 B)"),
    ],
)
def test_a_condition_decides_the_exit_code(files, gpudissect, condition, code, fact) -> None:
    got, out, err = gpudissect("explain", files / "profile.json", "--machine", H200, "--gate", condition)
    assert got == code and "Predicted time" in out
    assert fact in err and err.count("\n") == 1


@pytest.mark.parametrize(("condition", "code"), [("spills == 0 and limiter != l2", 0), ("spills > 1KiB", 4)])
def test_json_has_the_condition_and_its_values(files, gpudissect, explained, condition, code, tmp_path) -> None:
    words = ("--json", "--gate", condition, "-o", tmp_path / "out.json")
    got, out, _ = gpudissect("explain", files / "profile.json", "--machine", H200, *words)
    found = json.loads(out)["gate"]
    assert got == code and json.loads((tmp_path / "out.json").read_text())["gate"] == found
    assert (found["expression"], found["is_true"], found["values"]["spills"]) == (condition, code == 0, 0.0)
    assert found["values"].get("limiter", explained.point.limiter) == explained.point.limiter
    assert json.loads(explained.to_json())["gate"] is None


@pytest.mark.parametrize(
    "words",
    [
        ("divergent.cu", "--machine", H200, "--grid", "4", "--block", "64", "--trips", "none"),
        ("profile.json", "--machine", H100),
    ],
)
def test_a_condition_on_a_measured_time_is_refused_before_any_work_without_one(files, monkeypatch, error_of, words):
    monkeypatch.chdir(files)
    monkeypatch.setattr(inputs, "explain_recorded", lambda *arguments: pytest.fail("it was explained"))
    monkeypatch.setattr(inputs, "read_program", lambda *arguments: pytest.fail("it was explained"))
    error = error_of("explain", *words, "--gate", "error < 10%")
    assert "needs a measured time: run it on the GPU or give a profile recorded on this GPU" in error


def test_an_unknown_value_of_a_condition_leaves_the_output(files, gpudissect, monkeypatch) -> None:
    monkeypatch.setitem(gate._NAMES, "warps", ("", lambda each: None))
    words = ("--machine", H200, "--json", "--gate", "warps < 5")
    code, out, err = gpudissect("explain", files / "profile.json", *words)
    assert code == 2 and json.loads(out)["gate"] is None and "warps of this kernel is not known" in err


@pytest.mark.parametrize("launch", [(), ("--grid", "4", "--block", "64"), ("--trips", "none")])
def test_a_simulated_gpu_is_refused_with_the_way_to_an_estimate(files, error_of, launch) -> None:
    error = error_of("explain", files / "divergent.cu", "-d", "sim:h200", *launch)
    facts = ("'sim:h200' cannot run", "-d cuda:0", "--profile", "--trips", "--machine", "discover -d sim:h200 -o")
    assert all(fact in error for fact in facts), error


def test_a_closed_stdout_leaves_file_and_exit_code(files, tmp_path) -> None:
    page = tmp_path / "out.html"
    words = ["explain", files / "profile.json", "--machine", H200, "--gate", "warps == 0", "--all", "--html", page]
    command = [sys.executable, "-m", "gpudissect", *map(str, words)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert done.returncode == 4 and page.is_file()
    assert b"Traceback" not in done.stderr and done.stderr.count(b"\n") == 2


def test_in_python_trips_may_be_none(files) -> None:
    launch = {"grid": 4, "block": 64, "machine": H200}
    without = gd.explain(files / "divergent.cu", trips={}, **launch)
    assert gd.explain(files / "divergent.cu", trips="none", **launch) == without
    with pytest.raises(gd.UsageError, match="trips must be"):
        gd.explain(files / "divergent.cu", trips=3, **launch)


def test_several_kernels_need_a_name(files, gpudissect, error_of) -> None:
    arguments = ("explain", files / "both.cubin", "--profile", files / "profile.json", "--machine", H200)
    assert all(name in error_of(*arguments) for name in ("--kernel", "divergent", "other"))
    assert gpudissect(*arguments, "--kernel", "divergent")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("divergent.cubin",), ("--profile", "GPU")),
        (("missing.cubin",), ("missing.cubin", "No such file")),
        (("missing.cu",), ("missing.cu", "No such file")),
        (("truncated.cubin",), ("truncated",)),
        (("both.cubin",), ("both.cubin has 2 kernels; choose one with --kernel: other, divergent",)),
        (("profile.json", "--trips", "none"), ("profile.json is a profile and contains the launch: omit --trips",)),
        (("profile.json", "--arg", "n:i32=1", "--shared", "1"), ("contains the launch: omit --shared, --arg",)),
        (
            ("profile.json", "--machine", "quick.json"),
            ("lacks fadd.rate", "with --quick; run 'gpudissect discover' wi"),
        ),
        (("profile.json", "--machine", "part.json"), ("lacks fadd.rate; measure",)),
        (("profile.json", "--machine", HIDING), ("is one of 'hide': also give one of 'discover'",)),
        (("lineless.json", "--machine", H200), ("lineless.json", "packed_cubin has no lines", "record it again")),
        (("profile.json", "--machine", H200, "--gate", "time < 12"), ("time needs a unit, such as 12us; got 12",)),
        (("divergent.cubin", "--kernel", "diverge"), ("diverge", "did you mean divergent?")),
        (("divergent.cubin", "--profile", "missing.json"), ("missing.json", "No such file")),
        (("divergent.cubin", "--profile", "cut.json"), ("cut.json", "not a profile")),
        (("divergent.cubin", "--profile", "divergent.cu"), ("divergent.cu", "not a profile")),
        (("damaged.json", "--machine", H200), ("damaged.json", "packed_cubin", "record it again")),
        (("lines.json", "--machine", H200), ("lines.json", "packed of lines", "record it again")),
        (("profile.json", "--machine", "slow.json"), ("dram.read_bandwidth is 0", "NVIDIA H200")),
        (("profile.json", "--machine", H200, "--gate", "limiter == memry"), ("memry", "did you mean memory?")),
        (("counts.json", "--machine", H200), ("counts.json", "packed_ptx", "record it again")),
        (("early.json", "--machine", H200), ("early.json", "execution counts", "record it again")),
        (("accesses.json", "--machine", H200), ("accesses.json", "warps refers to an access", "record it again")),
        (("wide.json", "--machine", H200), ("wide.json", "accesses.0.3", "128")),
        (("long.json", "--machine", H200), ("long.json", "warps has more than", "events")),
        (("traces.json", "--machine", H200), ("traces.json", "packed of warp ", "cannot be decompressed")),
        (("altered.json", "--machine", H200), ("altered.json", "packed_cubin", "record it again")),
        (("other.cubin", "--profile", "profile.json"), ("another kernel, divergent",)),
        (("both.ptx", "--kernel", "other", "--profile", "profile.json"), ("another kernel, divergent",)),
        (("older.cubin", "--profile", "profile.json"), ("sm_90", "found: sm_80")),
        (("profile.json", "--kernel", "other", "--machine", H200), ("divergent", "other")),
        (("profile.json", "--profile", "profile.json"), ("leave out --profile",)),
        (("profile.json",), ("--machine", "gpudissect discover")),
        (("profile.json", "--machine", H200, "--machine", H100), ("H200", "H100", "of one GPU")),
        (("profile.json", "--machine", "profile.json"), ("profile.json", "profile of a kernel", "as FILE")),
        ((H200, "--machine", H200), ("h200.json", "result of discover", "as --machine")),
        (("profile.json", "--machine", H200, "--gate", "spils == 0"), ("spils", "did you mean spills?")),
        (("profile.json", "--machine", H200, "-o", "profile.json"), ("profile.json", "input")),
        (("profile.json", "--machine", H200, "--html", "page.json"), ("page.json", ".html")),
        (("profile.json", "--machine", H200, "-o", "data.html"), ("data.html", "--html")),
        (("profile.json", "--machine", "explained.json"), ("explained.json", "an explanation", "explain")),
        (("text.md", "--machine", H200), ("text.md", ".cu", ".ptx", ".json", "fatbin")),
        (("other.cu", "--profile", "profile.json"), ("another kernel, divergent",)),
    ],
)
def test_bad_input_costs_one_line(files, monkeypatch, error_of, arguments, facts) -> None:
    monkeypatch.chdir(files)
    error = error_of("explain", *arguments)
    assert all(fact in error for fact in facts), error


@pytest.mark.parametrize(
    ("element", "attribute", "value"),
    [
        ("l1", "capacity", 1 << 40),
        ("l1", "capacity", 0),
        ("l2", "capacity", -1),
        ("l2", "fetch_granularity", 0),
        ("l2", "fetch_granularity", 10**15),
        ("launch", "kernel_interval", -1e6),
        ("launch", "block_replacement", 1e15),
        ("launch", "block_replacement", -1.0),
        ("l2", "partition_by_sm", (0, 1 << 40)),
    ],
)
def test_values_that_no_gpu_has_are_refused(files, element, attribute, value) -> None:
    measured = gd.load(H200)
    place = next(n for n, f in enumerate(measured.findings) if (f.element, f.attribute) == (element, attribute))
    findings = list(measured.findings)
    findings[place] = findings[place].model_copy(update={"value": value})
    with pytest.raises(UsageError, match=rf"{element}\.{attribute} is .* which no GPU has"):
        gd.explain(files / "profile.json", machine=measured.model_copy(update={"findings": tuple(findings)}))


def test_a_clock_below_zero_is_refused(files) -> None:
    measured = gd.load(H200)
    conditions = measured.conditions.model_copy(update={"clock_hz": -1e9})
    with pytest.raises(UsageError, match="clock_hz is -1e"):
        gd.explain(files / "profile.json", machine=measured.model_copy(update={"conditions": conditions}))


def test_of_a_file_only_the_code_for_the_recorded_gpu_is_read(files, monkeypatch) -> None:
    requested = []
    read = inputs.cubins_for
    monkeypatch.setattr(inputs, "cubins_for", lambda path, arch: requested.append(arch) or read(path, arch))
    monkeypatch.setattr(inputs, "read_device_code", lambda *arguments: pytest.fail("all of the file was read"))
    gd.explain(files / "divergent.cubin", profile=files / "profile.json", machine=H200)
    assert requested == ["sm_90"]


def test_lines_that_are_not_readable_are_noted(files, tmp_path) -> None:
    data = (files / "divergent.cubin").read_bytes()
    section = read_elf(data).content(".debug_line")
    (tmp_path / "k.cubin").write_bytes(data.replace(section, b"\x21" * len(section)))
    launch = {"grid": 4, "block": 64, "machine": H200, "trips": "none"}
    notes = [gd.explain(path, **launch).notes for path in (files / "divergent.cubin", tmp_path / "k.cubin")]
    assert ["line information not readable" in each for each in notes] == [False, True]


def test_source_that_does_not_compile_costs_one_line(files, error_of, tmp_path) -> None:
    (tmp_path / "wrong.cu").write_text("__global__ void wrong() { nothing; }")
    error = error_of("explain", tmp_path / "wrong.cu", "--profile", files / "profile.json", "--machine", H200, code=3)
    assert "wrong.cu did not compile" in error and "nothing" in error


@pytest.mark.parametrize(
    ("architecture", "capability", "runs"),
    [
        ("sm_90", "9.0", True),
        ("sm_80", "8.6", True),
        ("sm_89", "8.6", False),
        ("sm_80", "9.0", False),
        ("sm_100", "10.3", True),
        ("sm_120", "10.0", False),
        ("sm_90", None, False),
    ],
)
def test_machine_code_runs_on_gpus_of_its_major_capability(architecture, capability, runs) -> None:
    measured = result(PLAIN)
    device = measured.device.model_copy(update={"facts": {"compute_capability": capability}})
    measured = measured.model_copy(update={"device": device})
    if runs:
        check_architecture(architecture, measured)
        return
    with pytest.raises(UsageError, match=architecture if capability else "no compute capability"):
        check_architecture(architecture, measured)


def test_in_python_it_takes_results_and_shows_itself(files, explained, tmp_path) -> None:
    found = gd.explain(files / "profile.json", machine=gd.load(H200), against=[H100])
    assert isinstance(found, gd.Explanation) and found.against is not None
    assert repr(found).startswith("<divergent on NVIDIA H200, GPU values MEASURED: predicted ")
    assert str(found).startswith("divergent on NVIDIA H200") and "<dl" in found._repr_html_()
    found.save(tmp_path / "a.json")
    found.save(tmp_path / "a.html")
    assert Explanation.model_validate_json((tmp_path / "a.json").read_text()).kernel == found.kernel
    assert (tmp_path / "a.html").read_text() == found.to_html()
    with pytest.raises(UsageError, match=r"\.json or \.html"):
        found.save(tmp_path / "a.txt")
    with pytest.raises(UsageError, match="machine"):
        gd.explain(files / "profile.json", machine=[3])
