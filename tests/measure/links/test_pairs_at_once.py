"""Links between four GPUs that NVLink connects, measured in threads as `gpudissect links` does."""

import pytest

import gpudissect
from gpudissect import link_study
from gpudissect.device import kinds
from gpudissect.device.kinds import open_device
from tests.measure.links.conftest import FakePeers

NUMBERS = (1, 2, 3, 4)


def card(number, device):
    """GPU `number`; the memory of GPU n is n times slower than the host's."""
    others = " ".join(str(other) for other in NUMBERS if other != number)
    fake = FakePeers(device, others)
    fake.changes["facts"]["nvlink_peers"] = others
    fake.changes["spec"] = f"cuda:{number}"
    return fake


def test_links_of_four_gpus(monkeypatch, linked_file):
    cards = {f"cuda:{number}": card(number, open_device(f"sim:{linked_file}")) for number in NUMBERS}
    monkeypatch.setattr(kinds, "choose", lambda device: kinds.Choice(tuple(cards)))
    monkeypatch.setattr(link_study, "open_in_process", lambda spec, seed, prepares: cards[spec])
    report = gpudissect.links()
    assert not report.failures and not report.interrupted
    assert {link.pairs_at_once for link in report.links if link.target != "host"} == {2}
    for source, row in report.matrix("read_bandwidth").items():
        rates = {target: found[0] for target, found in row.items() if found}
        assert set(rates) == {"host", *cards} - {source}
        expected = {target: rates["host"] / int(target[-1]) for target in rates if target != "host"}
        assert {target: rates[target] for target in expected} == pytest.approx(expected, rel=0.1)
