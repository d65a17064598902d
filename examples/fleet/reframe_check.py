"""A ReFrame check (https://reframe-hpc.readthedocs.io): the health values of one GPU as performance variables.

``reframe -c examples/fleet/reframe_check.py -r``; ``-S GpuHealth.device=sim:gtx980`` tries it without a GPU. Without
references ReFrame logs the values only: `gpudissect fleet report` compares the results with one another instead.
"""

import json
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_before, sanity_function, variable

RESULT = "health.json"


@rfm.simple_test
class GpuHealth(rfm.RunOnlyRegressionTest):
    """Bandwidths, latencies and rates of a GPU between jobs."""

    device = variable(str, value="cuda:0")
    valid_systems = ["*"]  # noqa: RUF012
    valid_prog_environs = ["*"]  # noqa: RUF012
    executable = "gpudissect"
    keep_files = [RESULT]  # noqa: RUF012
    time_limit = "2m"

    @run_before("run")
    def set_options(self):
        """Measure `device`."""
        self.executable_opts = ["discover", "-d", self.device, "--profile", "health", "-o", RESULT]

    @sanity_function
    def is_complete(self):
        """Every value was measured."""
        return sn.assert_eq(self.result()["failures"], [], "some values were not measured")

    @sn.deferrable
    def result(self):
        """The result file."""
        return json.loads((Path(self.stagedir) / RESULT).read_text(encoding="utf-8"))

    def value(self, element, attribute):
        """A value of the result, in its unit."""
        for finding in self.result().evaluate()["findings"]:
            if (finding["element"], finding["attribute"]) == (element, attribute):
                return finding["value"]
        raise ValueError(f"{element}.{attribute} was not measured")

    @performance_function("B/s")
    def dram_read(self):
        """Read bandwidth of the device memory."""
        return self.value("dram", "read_bandwidth")

    @performance_function("B/s")
    def dram_write(self):
        """Write bandwidth of the device memory."""
        return self.value("dram", "write_bandwidth")

    @performance_function("cycles")
    def dram_latency(self):
        """Latency of a load from the device memory."""
        return self.value("dram", "hit_latency")
