import pytest

from gpudissect.catalogue import compute_capability

LIMITS = ("schedulers", "warp_issues", "special_function_rate", "min_blocks_per_sm", "max_block_threads")
SINCE_VOLTA = ("max_sm_threads", "stores_cross_l1", "smallest_carveout")


@pytest.mark.parametrize(
    ("capability", "names", "expected"),
    [
        ("1.3", LIMITS, (1, 1, 2, 8, 512)),
        ("2.0", LIMITS, (2, 2, 4, 8, 1024)),
        ("2.1", LIMITS, (2, 4, 8, 8, 1024)),
        ("3.5", LIMITS, (4, 8, 32, 16, 1024)),
        ("5.2", LIMITS, (4, 4, 32, 16, 1024)),
        ("6.0", LIMITS, (2, 2, 16, 16, 1024)),
        ("6.1", LIMITS, (4, 4, 32, 16, 1024)),
        ("9.0", LIMITS, (4, 4, 16, 16, 1024)),
        ("unknown", LIMITS, (4, None, None, 16, 1024)),
        ("6.1", ("stores_cross_l1",), (False,)),
        ("7.0", SINCE_VOLTA, (2048, True, 8192)),
        ("7.5", SINCE_VOLTA, (1024, True, 32768)),
        ("8.6", SINCE_VOLTA, (1536, True, 8192)),
        ("12.0", SINCE_VOLTA, (1536, True, 8192)),
    ],
)
def test_limits_by_compute_capability(capability, names, expected):
    facts = {"compute_capability": capability}
    assert tuple(getattr(compute_capability, name)(facts) for name in names) == expected
