"""From names to devices, and from wrong names to one helpful line."""

import shutil
from dataclasses import replace
from importlib import resources

import pytest

from gpudissect.device import kinds
from gpudissect.device.cuda import driver
from gpudissect.device.recording.device import Recorder
from gpudissect.device.simulated.noise import Noise
from gpudissect.device_info import Origin
from gpudissect.errors import CatalogueError, DeviceError, RecordingError, UsageError
from gpudissect.workload import Path, Stream, Transfer


@pytest.fixture(autouse=True)
def gpus(monkeypatch, tmp_path):
    """The CUDA GPUs of the machine: none, unless a test adds some as (index, name, why not)."""
    monkeypatch.chdir(tmp_path)
    found = []
    monkeypatch.setattr(driver, "list_gpus", lambda: list(found))
    return found


def test_without_a_name_the_first_usable_gpu_is_chosen(gpus):
    gpus += [(0, "H200", "in exclusive use"), (1, "H200", None)]
    assert kinds.choose(None) == kinds.Choice(("cuda:1",), "no device named, taking cuda:1")


def test_without_a_usable_gpu_a_simulated_one_is_chosen(gpus):
    gpus.append((0, "H200", "in exclusive use"))
    choice = kinds.choose(None)
    assert choice.specs == ("sim:gtx980",)
    assert "cuda:0: in exclusive use" in choice.note and "simulated" in choice.note


def test_without_a_driver_the_reason_is_listed(monkeypatch):
    def fail():
        raise DeviceError("no NVIDIA driver")

    monkeypatch.setattr(driver, "list_gpus", fail)
    assert kinds.list_devices()[0] == kinds.Listing("cuda:0", "", "measured", "no NVIDIA driver")
    assert "no NVIDIA driver" in kinds.choose(None).note


def test_all_gpus_are_the_usable_ones(gpus):
    with pytest.raises(DeviceError, match="no CUDA GPU can be used"):
        kinds.choose("cuda:all")
    gpus += [(0, "H200", None), (1, "H200", "busy"), (2, "H200", None)]
    assert kinds.choose("cuda:all").specs == ("cuda:0", "cuda:2")
    with pytest.raises(UsageError, match="2 GPUs where one is needed"):
        kinds.open_device("cuda:all")


def test_catalogue_entries_and_files_open_as_simulated_gpus(tmp_path):
    with kinds.open_device("sim:gtx980") as device:
        info = device.info
    assert (info.origin, info.spec, info.catalogue) == (Origin.SIMULATED, "sim:gtx980", "gtx980")
    with resources.as_file(resources.files("gpudissect.catalogue") / "gpus" / "gtx980.toml") as built_in:
        shutil.copy(built_in, tmp_path / "own.toml")
    for name in ("own.toml", "./own.toml", str(tmp_path / "own.toml")):
        assert kinds.open_device(f"sim:{name}").info.catalogue is None
    with pytest.raises(DeviceError, match=r"no such GPU file: other\.toml"):
        kinds.open_device("sim:other.toml")


@pytest.mark.parametrize("name", ["random", "untuned"])
def test_a_generated_gpu_depends_on_its_seed_alone(name):
    one, again, other = (kinds.open_device(f"sim:{name}?seed={seed}") for seed in (7, 7, 8))
    assert (one.hierarchy, one.noise, one.info.spec) == (again.hierarchy, again.noise, f"sim:{name}?seed=7")
    assert one.hierarchy != other.hierarchy
    assert kinds.open_device(f"sim:{name}", seed=7).hierarchy == one.hierarchy


@pytest.mark.parametrize("option", ["jitter=0", "noise=none", "alternative=yes"])
def test_a_generated_gpu_has_no_option_but_its_seed(option):
    with pytest.raises(UsageError, match=f"sim:random has no option '{option.partition('=')[0]}'"):
        kinds.open_device(f"sim:random?{option}")


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
    _, given = kinds._split_options(f"gtx980{options}")
    assert kinds._noise(given, seed=9) == noise


WRONG_OPTIONS = ["", "seed", "=1", "seed=1&seed=2", "sede=1", "jitter=-1", "jitter=nan", "jitter=x", "jitter=7"]
WRONG_OPTIONS += ["seed=-1", "seed=1.5", f"seed={'9' * 5000}", f"seed={2**32}", "noise=some", "noise=none&jitter=0"]
WRONG_OPTIONS += ["alternative=no", "alternative=", "dram=0", "dram=x", "sms=0", "sms=17", "other_users=9999999"]


@pytest.mark.parametrize("options", WRONG_OPTIONS)
def test_invalid_options_are_refused(options):
    with pytest.raises(UsageError) as caught:
        kinds.open_device(f"sim:gtx980?{options}")
    assert "\n" not in str(caught.value)


def test_a_card_has_fewer_sms_and_slower_memory_than_its_model():
    model, card = (kinds.open_device(f"sim:gtx980?noise=none{more}") for more in ("", "&dram=0.9&sms=15"))
    assert (model.info.sm_count, card.info.sm_count) == (16, 15)
    size = {"footprint": 64 << 20, "blocks": 15, "threads": 512, "ilp": 4, "width": 16}
    stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.READ, passes=2, **size)
    times = [gpu.run([stream])[0].arrays["nanoseconds"][-1] for gpu in (model, card)]
    assert times[0] / times[1] == pytest.approx(0.9, rel=0.01)
    assert kinds.open_device("sim:gtx980?other_users=5").noise.other_users == 5


def test_the_alternative_structure_of_a_tlb_is_simulated_on_request():
    with kinds.open_device("sim:gtx780?alternative=yes&seed=2") as device:
        assert device.hierarchy.tlbs[1].ways == (16, *[7] * 7)
    with pytest.raises(CatalogueError, match="gtx680: its GPU file has no alternative structure"):
        kinds.open_device("sim:gtx680?alternative=yes")


@pytest.mark.parametrize("name", ["gtx980", "sim:gtx98", "sim:GTX980", "cuda:gtx980", "simm:gtx980"])
def test_similar_names_are_suggested_for_a_wrong_one(name):
    with pytest.raises(DeviceError, match=r"unknown device .*did you mean .*sim:gtx980"):
        kinds.open_device(name)


@pytest.mark.parametrize(
    "name", ["rec:", "", ":", "sim:", "cuda:", "cuda:-1", "cuda:٣", "x" * 1000, "sim:no\nsuch", "cuda:" + "9" * 5000]
)
def test_names_of_no_device_are_refused(name):
    with pytest.raises(DeviceError, match="unknown device"):
        kinds.open_device(name)


def test_recordings_are_listed_and_opened_damaged_ones_with_the_reason(tmp_path):
    with kinds.open_device("sim:gtx980") as device:
        Recorder(device, tmp_path / "good").close()
        Recorder(device, tmp_path / "torn").close()
    torn = tmp_path / "torn" / "recording.jsonl"
    torn.write_text(torn.read_text().splitlines(keepends=True)[0])
    listed = {item.spec: item for item in kinds.list_devices()}
    assert listed["sim:gtx980"].why_not is None
    assert listed["rec:good"].name == listed["sim:gtx980"].name
    assert "cut off" in listed["rec:torn"].why_not
    assert kinds.open_device("rec:good").info.origin is Origin.REPLAYED
    assert kinds.open_device("rec:torn?partial=yes").info.origin is Origin.REPLAYED
    with pytest.raises(RecordingError, match="no such folder"):
        kinds.open_device("rec:nowhere")
    with pytest.raises(UsageError, match="partial=yes"):
        kinds.open_device("rec:good?seed=1")
