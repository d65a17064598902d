"""A simulated GPU with a link to the host, and one that takes it for the memory of other GPUs."""

import re
from dataclasses import replace
from importlib import resources

import numpy as np
import pytest

from gpudissect.device.base import Device
from gpudissect.device.kinds import open_device
from gpudissect.trace import Context, Trace
from gpudissect.workload import EngineCopy, Path, Stream, Transfer
from gpudissect.workload.digest import digest

COPIED, START_NS = 4e10, 2e4
ADDED, REPEATED, DISPLACED = 2, 50, 1.25  # ratios of times: adds / stores, first / repeated, memory / L2


class Changed(Device):
    """A device with other properties."""

    def __init__(self, device, **changes):
        self.device, self.changes = device, changes

    @property
    def info(self):
        return replace(self.device.info, **self.changes)

    def run(self, batch):
        return self.device.run(batch)


class FakePeers(Changed):
    """Memory of GPU n behaves like the host's, n times slower; this GPU's L1 and the other's L2 cache it."""

    def __init__(self, device, peers):
        limits = {**device.info.span_limits, Path.PEER: 1 << 30, Path.PEER_L1: 1 << 30}
        facts = {**device.info.facts, "peers": peers, "atomic_peers": peers}
        copies = (Path.HOST, Path.PEER)
        super().__init__(device, span_limits=limits, facts=facts, unsupported={}, copies=copies)

    def run(self, batch):
        return [self._copied(each) if isinstance(each, EngineCopy) else self._accessed(each) for each in batch]

    def _copied(self, copy):
        """At `COPIED` bytes per second, a quarter of that if pageable."""
        seconds = (4 if copy.pageable else copy.peer) * copy.size / COPIED
        times = START_NS + 1e9 * seconds * (1 + 0.001 * np.arange(copy.runs))
        return Trace(digest(copy), {"nanoseconds": times.astype(np.int64)}, Context("fake"))

    def _accessed(self, workload):
        if not workload.path.leads_to_peer:
            return self.device.run([workload])[0]
        if isinstance(workload, Stream):
            adds = workload.transfer is Transfer.ADD
            near = replace(workload, path=Path.HOST, peer=1, transfer=Transfer.WRITE if adds else workload.transfer)
            return self._slower(self.device.run([near])[0], workload.peer * (ADDED if adds else 1))
        (trace,) = self.device.run([replace(workload, path=Path.HOST, peer=1, before=())])
        factors = np.full(trace.cycles.shape, workload.peer * (DISPLACED if workload.before else 1.0))
        if workload.path is Path.PEER_L1:
            factors[1:] /= REPEATED
        return self._slower(trace, factors)

    def _slower(self, trace, factor):
        arrays = {name: trace.arrays[name] for name in ("cycles", "nanoseconds", "bytes") if name in trace.arrays}
        slower = {name: array * (1 if name == "bytes" else factor) for name, array in arrays.items()}
        return Trace(
            trace.workload, {name: np.asarray(array, np.int64) for name, array in slower.items()}, trace.context
        )


@pytest.fixture(scope="session")
def linked_file(tmp_path_factory):
    """The example of the format's README."""
    text = (resources.files("gpudissect.catalogue") / "README.md").read_text("utf-8")
    file = tmp_path_factory.mktemp("gpu") / "linked.toml"
    file.write_text(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1], encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def linked(linked_file):
    with open_device(f"sim:{linked_file}") as device:
        yield device
