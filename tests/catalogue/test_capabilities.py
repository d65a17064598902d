import pytest

from gpudissect.catalogue import capabilities

FUNCTIONS = ("schedulers", "warp_issues", "special_function_rate", "min_blocks_per_sm", "max_block_threads")
EXPECTED = {
    "1.3": (1, 1, 2, 8, 512),
    "2.0": (2, 2, 4, 8, 1024),
    "2.1": (2, 4, 8, 8, 1024),
    "3.5": (4, 8, 32, 16, 1024),
    "5.2": (4, 4, 32, 16, 1024),
    "6.0": (2, 2, 16, 16, 1024),
    "6.1": (4, 4, 32, 16, 1024),
    "9.0": (4, 4, 16, 16, 1024),
    "unknown": (4, None, None, 16, 1024),
}


@pytest.mark.parametrize(("capability", "expected"), EXPECTED.items())
def test_limits_by_capability(capability, expected):
    facts = {"compute_capability": capability}
    assert tuple(getattr(capabilities, name)(facts) for name in FUNCTIONS) == expected


def test_limits_since_volta():
    found = {
        text: (
            capabilities.max_sm_threads({"compute_capability": text}),
            capabilities.stores_cross_l1({"compute_capability": text}),
            capabilities.smallest_carveout({"compute_capability": text}),
        )
        for text in ("7.0", "7.5", "8.0", "8.6", "12.0")
    }
    assert found == {
        "7.0": (2048, True, 8192),
        "7.5": (1024, True, 32768),
        "8.0": (2048, True, 8192),
        "8.6": (1536, True, 8192),
        "12.0": (1536, True, 8192),
    }
    assert not capabilities.stores_cross_l1({"compute_capability": "6.1"})
