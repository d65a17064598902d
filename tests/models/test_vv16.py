"""The tables of VV16 agree with one another, and with the catalogue's files of the same GPUs."""

import pytest
import vv16

from gpudissect import catalogue

EACH_GPU = pytest.mark.parametrize("gpu", vv16.gpus())


def numbers(gpu, *places):
    """Numbers by ``table.column``."""
    return [vv16.value(gpu, *place.split(".")) for place in places]


@EACH_GPU
def test_table_4_1_follows_from_other_tables(gpu):
    machine = vv16.machine(gpu)
    sustained = machine.bytes_per_second("ldg_streaming", machine.unit("ldg_streaming").throughput)
    (peak,) = numbers(gpu, "table_6_4.peak_gbs")
    assert sustained == pytest.approx(peak * 1e9, rel=3e-3)  # VV16 s4.1: peak / (SMs clock 128)
    add, schedulers, interval = numbers(gpu, "table_6_1.add", "table_2_6.schedulers", "table_2_8.issue_interval")
    assert numbers(gpu, "table_4_1.alu_thru", "table_4_1.issue_thru") == [add * schedulers / 32, schedulers / interval]
    latencies = numbers(gpu, "table_4_1.alu_lat", "table_4_1.mem_lat")
    assert latencies == numbers(gpu, "table_6_2.add", "table_6_2.stream")


@EACH_GPU
def test_table_6_4_linear_is_latency_times_throughput(gpu):
    unit = vv16.machine(gpu).unit("ldg_streaming")
    schedulers, linear = numbers(gpu, "table_2_6.schedulers", "table_6_4.linear")
    assert unit.latency * unit.throughput / schedulers == pytest.approx(linear, abs=0.25)


@EACH_GPU
def test_table_6_7_follows_from_table_6_2(gpu):  # VV16 s6.7: over 32 transactions less those of a coalesced access
    random, stream, transactions, latency = numbers(
        gpu, "table_6_2.random", "table_6_2.stream", "section_6_7.transactions", "table_6_7.transaction_latency"
    )
    assert (random - stream) / (32 - transactions) == pytest.approx(latency, rel=0.02)


@EACH_GPU
def test_ratios_of_s4_3(gpu):
    stream, add, ratio = numbers(gpu, "table_6_3.stream", "table_6_3.add", "section_4_3.ratio")
    assert stream / add == pytest.approx(ratio, abs=0.06)


@EACH_GPU
def test_the_catalogue_has_the_same_numbers(gpu):
    processor, machine = catalogue.load(gpu).processor(), vv16.machine(gpu)
    for name in ("sms", "schedulers", "warps"):
        assert getattr(processor, name) == getattr(machine, name)
    assert processor.memory.latency == machine.unit("ldg_streaming").latency
    by_name = {instruction.value: operation for instruction, operation in processor.operations.items()}
    for kind in ("fadd", "rsq", "lds"):
        unit, operation = machine.unit(kind), by_name[kind]
        assert (operation.latency, operation.latency_to_core) == (unit.latency, unit.latency_to_core)


def test_stride_2_and_random_on_maxwell():  # VV16 s4.3
    stride, random = (vv16.machine("gtx980").unit(kind) for kind in ("ldg_stride2", "ldg_random"))
    assert (stride.latency, stride.throughput, random.latency) == (376, 0.041, 534)
    assert random.throughput == pytest.approx(0.0029, abs=5e-5)


def test_percentiles_rise_with_load_and_rank():  # VV16 table 6.6
    rows = vv16.tables()["table_6_6"]["latency"]
    assert all(row == sorted(row) for row in rows)
    medians = [row[3] for row in rows]
    assert medians == sorted(medians)


def test_other_gpus_are_refused():
    with pytest.raises(ValueError, match="VV16 has no 'h200'"):
        vv16.machine("h200")
