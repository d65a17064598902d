"""Messages of NVIDIA's tools that fail."""

import signal

import pytest

from gpudissect.child_processes import Ended
from gpudissect.errors import MachineCodeError
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


@pytest.mark.parametrize(
    ("code", "messages", "reason"),
    [
        (-signal.SIGXFSZ, b"", "larger file than the limit allows"),
        (-signal.SIGSEGV, b"", "needed more than 1.5 GiB"),
        (1, b"cuobjdump fatal   : Memory allocation failure", "needed more than 1.5 GiB"),
        (255, b"", r"failed \(exit code 255\)"),
    ],
)
def test_the_cause_of_a_failure_is_named(code, messages, reason, monkeypatch):
    monkeypatch.setattr(tools, "find_tool", lambda name: name)
    monkeypatch.setattr(tools, "run_limited", lambda *_, **__: Ended(code, b"", messages))
    with pytest.raises(MachineCodeError, match=reason):
        tools.run_tool("cuobjdump", [])
