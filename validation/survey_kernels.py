"""Write the list of kernels that a survey needs: those of the recorded H100, in the order of their first use.

``python validation/survey_kernels.py``. Run it after an experiment has got other mixes or streams.
"""

import json
from collections.abc import Sequence
from pathlib import Path as FilePath

from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.precompile import SURVEY, codes_of
from gpudissect.device.recording.device import RecordedGpu
from gpudissect.survey.run import run_survey
from gpudissect.trace import Trace
from gpudissect.workload import Workload

RECORDING = FilePath(__file__).parents[1] / "tests" / "recordings" / "h100"
CAPABILITY = (9, 0)


class Observed(RecordedGpu):
    """A recording that notes what is replayed."""

    codes: dict[Code, None]

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        """Replay a batch."""
        for workload in batch:
            self.codes |= dict.fromkeys(codes_of([workload], CAPABILITY))
        return super().run(batch)


def main() -> None:
    with Observed.open(RECORDING) as recorded:
        recorded.codes = {}
        run_survey(recorded)
        lines = (json.dumps(code, separators=(",", ":")) for code in recorded.codes)
        SURVEY.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
