"""What the documents say of throughput, typed anew, against what the catalogue says is published and simulated."""

import pytest

from gpudissect.catalogue import Published, load, names
from gpudissect.simulation.sm.description import Pipe
from gpudissect.workload import Instruction

SCHEDULERS = {"8800gtx": 1, "gtx280": 1, "gtx480": 2, "gtx680": 4, "gtx980": 4}
ROWS = {"fadd": 0, "rsq": 1, "lds": 2, "lds_2way": 3, "ldg_streaming": 4, "ldg_random": 5}
# VV16 tables 6.1 (ops/cycle a scheduler), 6.2 (cycles), 6.3 (warps a scheduler): add, SFU, smem, smem2, stream, random.
RATES = {
    "8800gtx": (8, 2, 6, 3, 0.86, 0.027), "gtx280": (8, 2, 8, 4, 0.89, 0.016),
    "gtx480": (16, 2, 8, 4, 0.97, 0.029), "gtx680": (48, 8, 8, 4, 1.07, 0.034),  # 32 adds printed: without ILP
    "gtx980": (32, 8, 8, 4, 0.65, 0.023),
}  # fmt: skip
LATENCIES = {
    "8800gtx": (20, 32, 38, 54, 444, 644), "gtx280": (24, 34, 40, 56, 434, 662),
    "gtx480": (18, 22, 26, 58, 513, 1571), "gtx680": (9, 9, 24, 56, 301, 1213), "gtx980": (6, 13, 24, 26, 368, 534),
}  # fmt: skip
WARPS = {
    "8800gtx": (5, 2, 9, 6, 20, None), "gtx280": (6, 3, 11, 8, 16, None), "gtx480": (9, 1.5, 6.5, 7.5, 21, 2),
    "gtx680": (9, 3, 6, 7, 14, 1.75), "gtx980": (6, 4, 8, 3.75, 10, 0.75),
}  # fmt: skip
TRANSACTIONS = {"8800gtx": 6.7, "gtx280": 7.6, "gtx480": 34, "gtx680": 33, "gtx980": 5.9}  # table 6.7
BANKS = {"8800gtx": (16, 4), "gtx280": (16, 4), "gtx480": (32, 4), "gtx680": (32, 8), "gtx980": (32, 4)}  # table 2.5
PINS = {"8800gtx": 86.4, "gtx280": 141.7, "gtx480": 177.4, "gtx680": 192.3}  # table 2.7, GB/s
READ = {"8800gtx": 74, "gtx280": 138, "gtx480": 161, "gtx680": 154, "gtx980": 211}  # table 6.4, GB/s
SM = {"8800gtx": (24, 2, 1), "gtx280": (32, 2, 1), "gtx480": (48, 2, 1), "gtx680": (64, 1, 2)}  # table 2.8
MC16_6 = {"gtx560ti": (134.40, 109.38), "gtx780": (288.38, 215.92), "gtx980": (224.38, 156.25)}
MC16_7 = {"gtx560ti": (0.950, 34.90), "gtx780": (1.006, 83.81), "gtx980": (1.279, 137.41)}


def found(name: str) -> dict[tuple[str, str], Published]:
    return {(item.element, item.attribute): item for item in load(name).published()}


@pytest.mark.parametrize("name", RATES)
@pytest.mark.parametrize("element", ROWS)
def test_vv16_tables_6_1_to_6_3(name: str, element: str) -> None:
    published, row, schedulers = found(name), ROWS[element], SCHEDULERS[name]
    assert published[element, "rate"].value == pytest.approx(RATES[name][row] * schedulers)
    assert published[element, "latency"].value == LATENCIES[name][row]
    needed = published.get((element, "warps_needed"))
    assert (None if needed is None else needed.value / schedulers) == WARPS[name][row]


@pytest.mark.parametrize("name", RATES)
def test_vv16_other_tables(name: str) -> None:
    published, table = found(name), load(name).table
    assert (published["shared", "banks"].value, published["shared", "bank_width"].value) == BANKS[name]
    assert published["dram", "read_bandwidth"].value == READ[name] * 1e9
    if name in PINS:
        pins = published["dram", "peak_bandwidth"]
        assert (pins.printed or pins.value) == PINS[name] * 1e9
    assert table.memory is not None and table.processor is not None
    each = table.memory.transaction_latency
    assert (each.printed or each.value) == TRANSACTIONS[name]
    if name in SM:
        processor = table.processor
        assert (processor.warps.value, processor.issue_interval.value, processor.issue_width.value) == SM[name]


@pytest.mark.parametrize("name", RATES)
def test_random_loads_take_what_their_transactions_do(name: str) -> None:
    """VV16 s6.7 finds table 6.7 so: both rows of table 6.2 and the number of transactions."""
    memory = load(name).processor().memory
    further = (32 - memory.transactions) * memory.transaction_latency
    assert memory.latency + further == pytest.approx(LATENCIES[name][5], abs=1)


@pytest.mark.parametrize("name", MC16_6)
def test_mc16_tables_6_and_7(name: str) -> None:
    published = found(name)
    peak, copied = published["dram", "peak_bandwidth"], published["dram", "copy_bandwidth"]
    assert ((peak.printed or peak.value) / 1e9, copied.value / 1e9) == MC16_6[name]
    clock, seen = MC16_7[name]
    assert published["shared", "copy_rate"].value == pytest.approx(seen / clock, abs=0.01)
    assert not published["shared", "copy_rate"].simulated


@pytest.mark.parametrize("name", [name for name in names() if load(name).table.processor is not None])
def test_a_processor_is_one_that_can_be(name: str) -> None:
    gpu = load(name)
    processor, chip = gpu.processor(), gpu.table.chip
    assert processor.warps * 32 == chip.threads_per_sm.value
    assert {Pipe.MEMORY, Pipe.BARRIER} <= processor.single
    assert processor.dram.copy <= 2 * processor.dram.read
    clock, bits, rate = chip.memory_clock_hz, chip.memory_bus_bits, chip.memory_data_rate
    pins = clock.value * bits.value / 8 * (rate.value if rate else 2)
    assert processor.dram.read * processor.clock_hz <= pins
    assert all(operation.interval > 0 for operation in processor.operations.values())
    assert all(each.latency > 0 for each in processor.operations.values()), Instruction


@pytest.mark.parametrize("name", names())
def test_instructions_take_whole_cycles(name: str) -> None:
    """What is simulated ends at whole cycles, and a fraction more makes it a cycle more: 5 for 4.02."""
    for instruction, unit in load(name).table.units.items():
        assert unit.latency is None or unit.latency.value == int(unit.latency.value), instruction
