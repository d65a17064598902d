"""The tables of VV16 agree with one another, and with the catalogue's files of the same GPUs."""

import pytest

from gpudissect import catalogue
from gpudissect.models import published
from gpudissect.models.base import Unit

ALL = pytest.mark.parametrize("gpu", published.gpus())


@ALL
def test_table_4_1_follows_from_table_6_4(gpu):  # VV16 s4.1: peak / (SMs clock 128)
    machine = published.machine(gpu)
    peak = published.value(gpu, "table_6_4", "peak_gbs") * 1e9
    assert machine.bytes_per_second("ldg_streaming", machine.unit("ldg_streaming").throughput) == pytest.approx(
        peak, rel=3e-3
    )


@ALL
def test_table_4_1_follows_from_tables_6_1_and_6_2(gpu):
    rate = published.value(gpu, "table_6_1", "add") * published.value(gpu, "table_2_6", "schedulers") / 32
    assert published.value(gpu, "table_4_1", "alu_thru") == rate
    assert published.value(gpu, "table_4_1", "alu_lat") == published.value(gpu, "table_6_2", "add")
    assert published.value(gpu, "table_4_1", "mem_lat") == published.value(gpu, "table_6_2", "stream")
    issue = published.value(gpu, "table_2_6", "schedulers") / published.value(gpu, "table_2_8", "issue_interval")
    assert published.value(gpu, "table_4_1", "issue_thru") == issue


@ALL
def test_table_6_4_linear_is_latency_times_throughput(gpu):
    unit = published.machine(gpu).unit("ldg_streaming")
    schedulers = published.value(gpu, "table_2_6", "schedulers")
    linear = published.value(gpu, "table_6_4", "linear")
    assert unit.latency * unit.throughput / schedulers == pytest.approx(linear, abs=0.25)


@ALL
def test_table_6_7_follows_from_table_6_2(gpu):  # VV16 s6.7: over 32 transactions less those of a coalesced access
    further = 32 - published.value(gpu, "section_6_7", "transactions")
    more = published.value(gpu, "table_6_2", "random") - published.value(gpu, "table_6_2", "stream")
    assert more / further == pytest.approx(published.value(gpu, "table_6_7", "transaction_latency"), rel=0.02)


@ALL
def test_the_ratios_of_s4_3(gpu):
    ratio = published.value(gpu, "table_6_3", "stream") / published.value(gpu, "table_6_3", "add")
    assert ratio == pytest.approx(published.value(gpu, "section_4_3", "ratio"), abs=0.06)


@ALL
def test_the_catalogue_has_the_same_numbers(gpu):
    processor = catalogue.load(gpu).processor()
    machine = published.machine(gpu)
    assert processor.sms == machine.sms
    assert processor.schedulers == machine.schedulers
    assert processor.warps == machine.warps
    assert processor.memory.latency == machine.unit("ldg_streaming").latency
    by_name = {instruction.value: operation for instruction, operation in processor.operations.items()}
    for kind in ("fadd", "rsq", "lds"):
        unit: Unit = machine.unit(kind)
        assert (by_name[kind].latency, by_name[kind].latency_to_core) == (unit.latency, unit.latency_to_core)


def test_stride_2_and_random_on_maxwell():  # VV16 s4.3
    machine = published.machine("gtx980")
    assert (machine.unit("ldg_stride2").latency, machine.unit("ldg_stride2").throughput) == (376, 0.041)
    assert machine.unit("ldg_random").latency == 534
    assert machine.unit("ldg_random").throughput == pytest.approx(0.0029, abs=5e-5)


def test_percentiles_rise_with_load_and_rank():  # VV16 table 6.6
    rows = published.tables()["table_6_6"]["latency"]
    assert all(row == sorted(row) for row in rows)
    medians = [row[3] for row in rows]
    assert medians == sorted(medians)


def test_other_gpus_are_not_in_it():
    with pytest.raises(ValueError, match="VV16 has no 'h200'"):
        published.machine("h200")
