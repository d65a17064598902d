import pytest

from gpudissect.catalogue import compute_capability

LIMITS = ("schedulers", "warp_issues", "special_function_rate", "min_blocks_per_sm", "max_block_threads")
SINCE_VOLTA = ("max_sm_threads", "stores_cross_l1", "smallest_carveout", "reserved_shared")
KIB = 1024


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
        ("7.0", SINCE_VOLTA, (2048, True, 8192, 0)),
        ("7.5", SINCE_VOLTA, (1024, True, 32768, 0)),
        ("8.6", SINCE_VOLTA, (1536, True, 8192, 1024)),
        ("12.0", SINCE_VOLTA, (1536, True, 8192, 1024)),
    ],
)
def test_limits_by_compute_capability(capability, names, expected):
    facts = {"compute_capability": capability}
    assert tuple(getattr(compute_capability, name)(facts) for name in names) == expected


@pytest.mark.parametrize(
    ("capability", "largest", "count"),
    [
        *(("7.0", 96, 5), ("7.5", 64, 2), ("8.0", 164, 7), ("8.7", 164, 7), ("8.6", 100, 5), ("8.9", 100, 5)),
        *(("9.0", 228, 9), ("10.0", 228, 9), ("10.3", 228, 9), ("12.0", 100, 5), ("12.1", 100, 5)),
    ],
)
def test_carveouts_by_compute_capability(capability, largest, count):
    found = compute_capability.carveouts({"compute_capability": capability})
    assert (found[-1], len(found)) == (largest * KIB, count) and list(found) == sorted(found)
