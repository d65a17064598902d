"""Examples that hypothesis draws are the same in every run; slow results that several tests need are computed once."""

import fcntl
import os
import pickle

import pytest
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from tests.support.driving import survey_of

settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")
# Without this, hypothesis also draws constants of the modules that happen to be imported.
providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """`once(name, compute)`: what `compute()` returns, computed by one worker of a session and kept for the others."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def get(name, compute):
        kept = folder / f"{name}.pickle"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_bytes(pickle.dumps(compute()))
        return pickle.loads(kept.read_bytes())

    return get


@pytest.fixture(scope="session")
def survey_once(once):
    """`survey_once(spec, options)`: what a simulated GPU states and its survey, run once for several tests."""
    return lambda spec, options: once(f"{spec} {options!r}", lambda: survey_of(spec, options))


@pytest.fixture(scope="session")
def hide_once(once):
    """`gpudissect.hide`, run once with the same arguments."""
    from gpudissect import hide

    return lambda device, **options: once(f"hide {device} {options}", lambda: hide(device, **options))
