"""The recording of the second TLB of a real H200 replays to the SMs that share one, as another method finds them."""

from pathlib import Path

import numpy as np

from gpudissect.device.recording.device import RecordedGpu
from gpudissect.survey.run import run_survey

ROOT = Path(__file__).parents[2]


def test_sms_share_the_second_tlb_as_evictions_show():
    """`sharing.csv`: SMs that share one, a line each, by evictions on the same GPU (`validation/tlb_map_probe.py`)."""
    with RecordedGpu.open(ROOT / "tests" / "recordings" / "tlb") as recorded:
        findings = {each.attribute: each for each in run_survey(recorded, elements=["tlb_l2"]).findings}
    groups = [line.split(",") for line in (ROOT / "tests/recordings/tlb/sharing.csv").read_text().splitlines()]
    by_sm = np.array(findings["tlb_by_sm"].value)
    members = [np.flatnonzero(by_sm == number).tolist() for number in range(len(groups))]
    assert members == [[*map(int, group)] for group in groups]
    assert (findings["sets"].value, findings["ways"].value, findings["page_size"].value) == (256, 8, 32 << 20)
