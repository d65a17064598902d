"""Messages of NVIDIA's tools that fail."""

import pytest

from gpudissect.machine_code import tools


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            ["ptxas k.ptx, line 9; error   : Unknown symbol 'x'", "ptxas fatal   : Ptx assembly aborted due to errors"],
            "Unknown",
        ),
        (["ptxas fatal   : Unsupported .version 9.5; current version is '9.0'"], "ptxas is older"),
        (["nvdisasm fatal   : no such section"], "no such section"),
        (["", "  "], ""),
    ],
)
def test_the_message_of_the_first_error_is_the_reason(lines, reason):
    assert reason in tools._reason(lines) and bool(reason) == bool(tools._reason(lines))
