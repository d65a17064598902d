"""The command line on a small GPU that answers at once, with a survey of three steps."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpudissect.cli.app import main
from gpudissect.device import child, kinds, process
from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Study
from gpudissect.survey import run as surveys
from gpudissect.survey.drive import Failure
from gpudissect.survey.run import Survey
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.digest import digest
from tests.support.result_fixtures import stated


class FakeGpu(Device):
    def __init__(self, spec: str, seed: int) -> None:
        self.spec, self.seed = spec, seed

    @property
    def info(self) -> DeviceInfo:
        limits, unsupported = {Path.GLOBAL: 1 << 20}, {Path.TEXTURE: "no texture units"}
        return DeviceInfo(
            self.spec, "Fake", Origin.SIMULATED, 2, limits, facts={"clock_hz": 1e9}, unsupported=unsupported
        )

    def run(self, batch: Sequence[Chase]) -> list[Trace]:
        return [Trace(digest(chase), self._arrays(chase), Context("Fake", clock_hz=1e9)) for chase in batch]

    def _arrays(self, chase: Chase) -> dict[str, np.ndarray]:
        if chase.timing is Timing.EACH:
            offsets = np.tile(chase.order.offsets(), chase.laps)
            return {"offsets": offsets, "cycles": 30 + self.seed + offsets // 512}
        shape = (chase.laps,) if chase.timing is Timing.LAP else (chase.laps, 3)
        return {"cycles" if chase.timing is Timing.LAP else "counts": np.full(shape, 30 + self.seed)}


class FakeSurvey:
    """Three chases, one finding each; fails in the step `fail_at`, is interrupted before `stop_at`."""

    def __init__(self) -> None:
        self.fail_at: int | None = None
        self.stop_at: int | None = None
        self.options: dict[str, object] = {}

    def __call__(self, device, study, *, progress, can_simulate, **options) -> Survey:
        self.options, seed = options | {"compare_methods": study is Study.COMPARE_METHODS}, options["seed"]
        findings, failures = [], []
        for step, element in enumerate(("l1", "l2", "dram")):
            progress(step, 3, element)
            if step == self.stop_at:
                return Survey(stated(findings), (), True, 0.5, step)
            chase = Chase(path=Path.GLOBAL, order=Sequential(64, 32 << step, start=32 * seed), timing=Timing.LAP)
            try:
                cycles = float(device.run([chase])[0].cycles[0])
                if step == self.fail_at:
                    raise DeviceError("a kernel did not finish")
            except DeviceError as error:
                failures.append(Failure(element, str(error)))
                continue
            found = {"status": Status.FOUND, "value": cycles, "confidence": 0.9, "evidence": (digest(chase),)}
            findings.append(Estimate(element=element, attribute="hit_latency", **found))
        return Survey(stated(findings), tuple(failures), False, 0.5, 3)


@pytest.fixture
def open_fake(monkeypatch, tmp_path) -> Callable[..., None]:
    """Make `open_device` give a fake GPU, except for recordings; the working folder is empty, no GPU is present."""
    real_open = kinds.open_device
    monkeypatch.setattr(kinds, "_cuda_gpus", list)
    monkeypatch.setattr(child, "needs_process", lambda spec: False)
    monkeypatch.setattr(process, "needs_process", lambda spec: False)
    monkeypatch.chdir(tmp_path)

    def use(make: Callable[[str, int], Device]) -> None:
        monkeypatch.setattr(
            kinds, "open_device", lambda spec, *, seed=0: real_open(spec) if spec[:4] == "rec:" else make(spec, seed)
        )

    return use


@pytest.fixture
def survey(monkeypatch, open_fake) -> FakeSurvey:
    """Put the fake survey and the fake GPU in place."""
    fake = FakeSurvey()
    monkeypatch.setattr(surveys, "run_survey", fake)
    open_fake(FakeGpu)
    return fake


@pytest.fixture
def gpudissect(capsys) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; gives exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def error_of(gpudissect) -> Callable[..., str]:
    """Run a command line that must fail with this code and one line on stderr; gives that line."""

    def run(*arguments: object, code: int = 2) -> str:
        got, out, err = gpudissect(*arguments)
        assert (got, out, err.count("\n")) == (code, "", 1), err
        assert err.startswith("gpudissect: error: ")
        return err

    return run


@pytest.fixture(autouse=True)
def no_ambient_colour(monkeypatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """GPUs of this machine, by their specs."""
    monkeypatch.chdir(tmp_path)
    specs = ["sim:gtx980", "sim:gtx280"]
    monkeypatch.setattr(kinds, "_cuda_gpus", lambda: [kinds.Listing(spec, "Fake", "measured") for spec in specs])
    return specs
