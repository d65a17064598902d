"""Resident blocks are those that the driver stated for the recorded kernels."""

from pathlib import Path

import pytest

from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.occupancy import l1_beside, l1_bytes, limited_blocks, occupancy_of
from gpudissect.explanation.profile import read_profile
from gpudissect.results.files import load
from tests.explanation.model.test_costs import CARD

LINE = 128  # bytes, by which the capacity of the L1 of one card differs from that of another
FILES = sorted(Path("tests/recordings/kernels/h200").glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_blocks_are_those_of_the_driver(file):
    profile = read_profile(file)
    _, kernel = profile.machine_code()
    launch = profile.launch
    found = occupancy_of(kernel, launch.threads_per_block, launch.shared_bytes, CARD)
    assert found.blocks == profile.blocks_per_sm


@pytest.mark.parametrize(
    ("resident", "shared", "kib"), [(1, 1024, 241), (8, 1024, 241), (8, 20 << 10, 85), (1, 228 << 10, 21)]
)
def test_the_l1_has_what_the_carveout_leaves(resident, shared, kib):
    assert l1_bytes(CARD, resident, shared, largest_carveout=False) == pytest.approx(kib << 10, abs=LINE)
    assert l1_bytes(CARD, resident, shared, largest_carveout=True) == pytest.approx(21 << 10, abs=LINE)


@pytest.mark.parametrize("shared", [1024, 1152, 17 << 10])
@pytest.mark.parametrize("resident", [2, 6, 13])
def test_shared_memory_limits_the_blocks_of_a_carveout(resident, shared):
    for blocks in range(1, resident):
        carveout, size = limited_blocks(CARD, resident, shared, blocks)
        assert carveout // size == blocks and size >= shared and size % 128 == 0
        assert l1_beside(CARD, carveout) <= l1_bytes(CARD, resident, shared, largest_carveout=False)


def test_blocks_that_no_carveout_limits_are_not_offered():
    assert limited_blocks(CARD, 200, 1024, 199) is None


@pytest.mark.parametrize(
    ("capability", "shared_kib", "blocks", "l1_kib"),
    [("7.0", 96, 12, 241 + 8 - 96), ("8.6", 100, 11, 241 + 8 - 100), ("9.0", 228, 25, 241 + 8 - 228)],
)
def test_shared_memory_is_reserved_and_divided_as_the_capability_has_it(capability, shared_kib, blocks, l1_kib):
    measured = load(Path("docs/results/h200.json"))
    facts = measured.device.facts | {"compute_capability": capability, "shared_per_sm": shared_kib << 10}
    device = measured.device.model_copy(update={"facts": facts})
    card = card_of(measured.model_copy(update={"device": device}))
    kernel = read_profile(FILES[0]).machine_code()[1]
    found = occupancy_of(kernel, 32, 8 << 10, card)
    assert kernel.shared_bytes == 0 and found.by_limit["shared memory"] == blocks
    beside = l1_bytes(card, blocks, (8 << 10) + card.reserved_shared, largest_carveout=False)
    assert beside == pytest.approx(l1_kib << 10, abs=LINE)
