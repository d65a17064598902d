"""The GPU of tests that need one."""

import pytest

from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.workload import Path


@pytest.fixture(scope="session")
def gpu():
    with CudaGpu.open(0) as device:
        yield device


@pytest.fixture
def hopper(gpu):
    """The GPU if it has clusters and bulk copies."""
    if not gpu.info.limit(Path.CLUSTER):
        pytest.skip(gpu.info.unsupported[Path.CLUSTER])
    return gpu
