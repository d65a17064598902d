"""From names to devices, and from wrong names to one helpful line."""

import shutil
from dataclasses import replace
from importlib import resources

import pytest

from gpudissect.device import find
from gpudissect.device.simulated.noise import Noise
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError, RecordingError, UsageError


@pytest.fixture(autouse=True)
def gpus(monkeypatch, tmp_path):
    """No CUDA GPU, whatever this machine has; a test may add some."""
    monkeypatch.chdir(tmp_path)
    found: list[find.Listing] = []
    monkeypatch.setattr(find, "_cuda_gpus", lambda: list(found))
    return found


def gpu(index, why_not=None):
    return find.Listing(f"cuda:{index}", "Fake H200", "measured", why_not)


def test_without_a_name_the_first_usable_gpu_is_taken_and_said(gpus):
    gpus += [gpu(0, "in exclusive use"), gpu(1)]
    assert find.choose(None) == find.Choice(("cuda:1",), "no device named, taking cuda:1")


def test_without_a_gpu_a_simulated_one_is_taken_and_why_is_said(gpus):
    gpus.append(gpu(0, "no driver"))
    choice = find.choose(None)
    assert choice.specs == ("sim:gtx980",)
    assert "no driver" in choice.note
    assert "simulated" in choice.note


def test_all_gpus_are_those_that_can_be_used(gpus):
    with pytest.raises(DeviceError, match="no CUDA GPU can be used"):
        find.choose("cuda:all")
    gpus += [gpu(0), gpu(1, "asleep"), gpu(2)]
    assert find.choose("cuda:all").specs == ("cuda:0", "cuda:2")
    with pytest.raises(UsageError, match="2 GPUs where one is needed"):
        find.open_device("cuda:all")


def test_a_catalogue_entry_opens_as_a_simulated_gpu():
    with find.open_device("sim:gtx980") as device:
        assert device.info.origin is Origin.SIMULATED
        assert (device.info.spec, device.info.catalogue) == ("sim:gtx980", "gtx980")


def test_ones_own_file_opens_as_a_simulated_gpu(tmp_path):
    mine = tmp_path / "mine.toml"
    with resources.as_file(resources.files("gpudissect.catalogue") / "gpus" / "gtx980.toml") as built_in:
        shutil.copy(built_in, mine)
    for name in ("mine.toml", "./mine.toml", str(mine)):
        assert find.open_device(f"sim:{name}").info.catalogue is None
    with pytest.raises(DeviceError, match=r"no such GPU file: other\.toml"):
        find.open_device("sim:other.toml")


@pytest.mark.parametrize(
    ("options", "noise"),
    [
        ("", Noise(seed=9)),
        ("?seed=2&outliers=0.005", Noise(seed=2, outliers=0.005)),
        ("?jitter=0&drift=0", Noise(seed=9, jitter=0, drift=0)),
        ("?noise=none", replace(Noise.none(), seed=9)),
        ("?noise=none&seed=1", replace(Noise.none(), seed=1)),
    ],
)
def test_options_set_the_noise(options, noise):
    _, given = find._split_options(f"gtx980{options}")
    assert find._noise(given, seed=9) == noise


@pytest.mark.parametrize(
    "options",
    ["?", "?seed", "?=1", "?seed=1&seed=2", "?sede=1", "?jitter=-1", "?jitter=nan", "?jitter=x", "?seed=-1",
     "?seed=1.5", f"?seed={'9' * 5000}", f"?seed={2**32}", "?noise=some", "?noise=none&jitter=0", "?jitter=7"],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(UsageError) as caught:
        find.open_device(f"sim:gtx980{options}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["gtx980", "sim:gtx98", "sim:GTX980", "cuda:gtx980", "rec:", "simm:gtx980"])
def test_a_wrong_name_gets_close_ones_suggested(name):
    if name == "rec:":
        with pytest.raises(DeviceError, match="gpudissect devices"):
            find.open_device(name)
        return
    with pytest.raises(DeviceError, match=r"unknown device .*did you mean .*sim:gtx980"):
        find.open_device(name)


@pytest.mark.parametrize(
    "name", ["", ":", "sim:", "cuda:", "cuda:-1", "cuda:٣", "x" * 1000, "sim:no\nsuch", "cuda:" + "9" * 5000]
)
def test_no_name_at_all_is_refused(name):
    with pytest.raises(DeviceError, match=r"unknown device|no device"):
        find.open_device(name)


def test_without_a_driver_the_list_says_so(monkeypatch):
    from gpudissect.device.cuda import driver

    def no_gpus():
        raise DeviceError("no NVIDIA driver")

    monkeypatch.undo()
    monkeypatch.setattr(driver, "list_gpus", no_gpus)
    assert find.list_devices()[0] == find.Listing("cuda:0", "", "measured", "no NVIDIA driver")
    assert "no NVIDIA driver" in find.choose(None).note
    monkeypatch.setattr(driver, "list_gpus", lambda: [(0, "H200", None), (1, "H200", "busy")])
    assert find.choose("cuda:all").specs == ("cuda:0",)


def test_recordings_here_are_listed_damaged_ones_with_the_reason(tmp_path):
    from gpudissect.device.recording.device import Recorder

    with find.open_device("sim:gtx980") as device:
        Recorder(device, tmp_path / "good").close()
        Recorder(device, tmp_path / "torn").close()
    torn = tmp_path / "torn" / "recording.jsonl"
    torn.write_text(torn.read_text().splitlines(keepends=True)[0])
    listed = {item.spec: item for item in find.list_devices()}
    assert listed["sim:gtx980"].why_not is None
    assert listed["rec:good"].name == listed["sim:gtx980"].name
    assert "cut off" in listed["rec:torn"].why_not
    assert find.open_device("rec:good").info.origin is Origin.REPLAYED
    assert find.open_device("rec:torn?partial=yes").info.origin is Origin.REPLAYED
    with pytest.raises(RecordingError, match="no such folder"):
        find.open_device("rec:nowhere")
    with pytest.raises(UsageError, match="partial=yes"):
        find.open_device("rec:good?seed=1")
