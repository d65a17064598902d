"""Sampled lines come out of a profile as they went in, and damaged ones are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.insertion import Access
from gpudissect.explanation.line_records import BehindL1, LineRecords, pack, thinned
from gpudissect.explanation.line_sample import LineSampled
from gpudissect.explanation.packing import DamagedProfileError
from gpudissect.explanation.reuse import L2, Requests

START, SIZE = 0x7F0000000000, 1 << 26
ACCESSES = (Access(3, "global", "load", 4, ""), Access(9, "global", "store", 4, ""))
SAMPLED = LineSampled("", {}, ACCESSES, (True, False), 0, 128, 100)


def packed(addresses, access=0, sm=0):
    addresses = np.asarray(addresses, dtype=np.uint64)
    columns = (np.full(len(addresses), each, dtype=np.uint32) for each in (access, sm))
    return pack(SAMPLED, Requests(addresses, *columns, 128, 1.0), [START], [SIZE])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, SIZE // 32 - 1), max_size=60))
def test_requests_keep_their_order_and_distances(sectors):
    found = LineRecords.model_validate_json(
        packed([START + 32 * each for each in sectors]).model_dump_json()
    ).requests()
    assert (found.address // 32).tolist() == sectors


def test_a_kernel_that_streams_hits_only_what_fits_the_l2():
    found = packed(START + 32 * np.arange(1 << 15))  # 1 MiB
    assert found.behind_l1(0, L2(2 << 20, 32, (0,)))[3][:2] == (0, 0)
    assert found.behind_l1(0, L2(1 << 19, 32, (0,)))[3][:2] == (1, 32)


@pytest.mark.parametrize(
    ("counted", "memory"),
    [(1000, 0.4), (1100, 0.4), (2000, 0.4 * (0.5 + 0.2)), (500, 0.4 * (2 - 0.2)), (100, 1.0)],
)
def test_lines_that_are_missing_from_the_sample_hit(counted, memory):
    """100 sampled lines: twice their standard error is 20 %. A share from memory is at most 1."""
    found = BehindL1(memory=0.4, memory_bytes=16.0, sectors=1000.0, lines=100).of_all(counted)
    assert found.memory == pytest.approx(memory)
    assert found.memory_bytes == pytest.approx(40 * memory)


def test_a_sample_that_was_cut_keeps_its_share():
    assert BehindL1(0.4, 16.0, sectors=1000.0).of_all(5000.0).memory == pytest.approx(0.4)


def test_the_sample_counts_sectors_and_lines():
    found = packed(START + 32 * np.arange(1 << 12)).behind_l1(0, L2(1 << 10, 64, (0,)))[3]
    assert (found.sectors, found.lines) == (1 << 12, 1 << 10)


def test_a_lone_sector_fetches_its_neighbour():
    assert packed(START + 128 * np.arange(1 << 12)).behind_l1(0, L2(1 << 10, 64, (0,)))[
        3
    ].memory_bytes == pytest.approx(64)


def test_sectors_requested_together_fetch_once():
    found = packed(START + 32 * np.arange(1 << 12)).behind_l1(0, L2(1 << 10, 64, (0,)))
    assert found[3].memory_bytes == pytest.approx(32)


def test_a_sample_in_a_sample_has_a_lower_rate():
    addresses = (START + 32 * np.arange(1 << 18)).astype(np.uint64)
    zeros = np.zeros(len(addresses), np.uint32)
    found = thinned(Requests(addresses, zeros, zeros, 128, 1.0), 0)
    assert found.rate < 1
    assert len(found.address) == pytest.approx(found.rate * (1 << 18), rel=0.1)


@pytest.mark.parametrize("change", [{"records": 5}, {"accesses": ()}, {"packed": "AAAA"}])
def test_damaged_records_are_refused(change):
    good = packed(START + 32 * np.arange(10), access=1)
    with pytest.raises(DamagedProfileError, match="packed of lines"):
        good.model_copy(update=change).requests()
