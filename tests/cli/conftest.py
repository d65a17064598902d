"""The command line on a small GPU that answers at once, with a survey of three steps."""

import os
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpudissect.cli.app import main
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.errors import DeviceError
from gpudissect.estimate import Estimate, Status
from gpudissect.survey.drive import Failure
from gpudissect.survey.run import Survey
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.digest import digest


class FakeGpu:
    def __init__(self, spec: str, seed: int) -> None:
        self.seed = seed
        self.info = DeviceInfo(
            spec=spec, name="Fake", origin=Origin.SIMULATED, sm_count=2, facts={"clock_hz": 1e9},
            span_limits={Path.GLOBAL: 1 << 20}, unsupported={Path.TEXTURE: "no texture units"},
        )  # fmt: skip

    def run(self, batch: Sequence[Chase]) -> list[Trace]:
        return [self._trace(chase) for chase in batch]

    def _trace(self, chase: Chase) -> Trace:
        shapes = {Timing.LAP: (chase.laps,), Timing.COUNT: (chase.laps, 3)}
        context = Context("Fake", clock_hz=1e9)
        if chase.timing in shapes:
            name = "cycles" if chase.timing is Timing.LAP else "counts"
            return Trace(digest(chase), {name: np.full(shapes[chase.timing], 30 + self.seed)}, context)
        offsets = np.tile(chase.order.offsets(), chase.laps)
        return Trace(digest(chase), {"offsets": offsets, "cycles": 30 + self.seed + offsets // 512}, context)

    def close(self) -> None: ...

    def __enter__(self) -> "FakeGpu":
        return self

    def __exit__(self, *exception: object) -> None: ...


class FakeSurvey:
    """Three chases, one finding each; told to, it fails in one or is interrupted before one."""

    def __init__(self) -> None:
        self.fail_at: int | None = None
        self.stop_at: int | None = None
        self.asked: dict[str, object] = {}

    def __call__(self, device, *, progress, **options) -> Survey:
        self.asked, seed = options, options["seed"]
        findings, failures = [], []
        for step, element in enumerate(("l1", "l2", "dram")):
            progress(step, 3, element)
            if step == self.stop_at:
                return Survey(tuple(findings), (), True, 0.5, step)
            chase = Chase(path=Path.GLOBAL, order=Sequential(64, 32 << step, start=32 * seed), timing=Timing.LAP)
            try:
                cycles = float(device.run([chase])[0].cycles[0])
                if step == self.fail_at:
                    raise DeviceError("a kernel did not finish")
            except DeviceError as error:
                failures.append(Failure(element, str(error)))
                continue
            findings.append(
                Estimate(element=element, attribute="hit_latency", status=Status.FOUND, value=cycles,
                         confidence=0.9, evidence=(digest(chase),))
            )  # fmt: skip
        return Survey(tuple(findings), tuple(failures), False, 0.5, 3)


@pytest.fixture
def survey(monkeypatch, tmp_path) -> FakeSurvey:
    """Put the fake survey and the fake GPU in place; recordings still open as they are."""
    from gpudissect.device import find
    from gpudissect.survey import run

    fake = FakeSurvey()
    real_open = find.open_device
    monkeypatch.setattr(run, "run_survey", fake)
    monkeypatch.setattr(find, "_cuda_gpus", list)
    monkeypatch.setattr(
        find, "open_device", lambda spec, *, seed=0: real_open(spec) if spec[:4] == "rec:" else FakeGpu(spec, seed)
    )
    monkeypatch.chdir(tmp_path)
    return fake


@pytest.fixture
def gpudissect(capsys) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; gives exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(autouse=True)
def no_ambient_colour(monkeypatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    assert os.environ.get("FORCE_COLOR") is None
