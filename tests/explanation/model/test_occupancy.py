"""Resident blocks are those that the driver stated for the recorded kernels."""

from pathlib import Path

import pytest

from gpudissect.explanation.model.occupancy import l1_bytes, occupancy_of
from gpudissect.explanation.profile import read_profile
from tests.explanation.model.test_costs import CARD

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
    assert l1_bytes(CARD, resident, shared, largest_carveout=False) == kib << 10
    assert l1_bytes(CARD, resident, shared, largest_carveout=True) == 21 << 10
