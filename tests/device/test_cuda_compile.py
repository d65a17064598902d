"""Choice of architecture, and cubins on disk."""

import pytest

from gpudissect.device.cuda import compile as cuda_compile
from gpudissect.device.cuda.compile import CubinCache, choose_arch, cubin_key
from gpudissect.errors import DeviceError

KNOWN_13 = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)


DAMAGES = [lambda stored: b"", lambda stored: b"short", lambda stored: bytes(32) + b"x", lambda stored: stored[:-1]]


class CountingCompiler:
    """Counts how often a cubin is compiled."""

    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return b"\x7fELF machine code"


def test_a_cubin_is_compiled_once(tmp_path):
    make = CountingCompiler()
    for _ in range(3):
        assert CubinCache(tmp_path / "deep" / "er").get("key", make) == b"\x7fELF machine code"
    assert make.calls == 1
    assert [file.name for file in (tmp_path / "deep" / "er").iterdir()] == ["key.cubin"]


@pytest.mark.parametrize("damage", DAMAGES, ids=["empty", "short", "other", "truncated"])
def test_a_damaged_file_is_compiled_again(tmp_path, damage):
    make, cache, file = CountingCompiler(), CubinCache(tmp_path), tmp_path / "key.cubin"
    cache.get("key", make)
    file.write_bytes(damage(file.read_bytes()))
    for _ in range(2):
        assert cache.get("key", make).startswith(b"\x7fELF") and make.calls == 2


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    make, cache = CountingCompiler(), CubinCache(tmp_path / "file" / "folder")
    assert cache.get("key", make) and cache.get("key", make)
    assert make.calls == 2


def test_a_failure_leaves_no_file(tmp_path):
    def fail():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CubinCache(tmp_path).get("key", fail)
    assert not list(tmp_path.iterdir())


def test_the_key_depends_on_code_target_and_compiler(tmp_path, monkeypatch):
    base = ("chase.cu", ("PATH_GLOBAL",), "sm_90", "13.0")
    changes = ("chains.cu", ("PATH_SHARED",), "sm_80", "13.1")
    others = [(*base[:n], change, *base[n + 1 :]) for n, change in enumerate(changes)]
    keys = {cubin_key(*arguments) for arguments in (base, *others)}
    assert len(keys) == 5
    assert cubin_key(*base) == cubin_key(*base)
    for file in cuda_compile.KERNELS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    monkeypatch.setattr(cuda_compile, "KERNELS", tmp_path)
    assert cubin_key(*base) in keys, "the folder of the kernels does not matter"
    with (tmp_path / "job.cuh").open("a") as file:
        file.write("// changed\n")
    cuda_compile._kernel_sources.cache_clear()
    assert cubin_key(*base) not in keys, "an included file does"


def test_a_planted_cubin_is_not_used(tmp_path):
    make = CountingCompiler()
    CubinCache(tmp_path).get("key", make)
    tmp_path.chmod(0o777)
    cache = CubinCache(tmp_path)
    assert not cache.has("key") and cache.get("key", make)
    assert make.calls == 2


@pytest.mark.parametrize(
    ("capability", "arch"), [((9, 0), "sm_90"), ((10, 3), "sm_103"), ((12, 2), "sm_121"), ((8, 5), "sm_80")]
)
def test_the_newest_arch_that_runs_is_chosen(capability, arch):
    assert choose_arch(*capability, KNOWN_13) == arch


@pytest.mark.parametrize(("capability", "cure"), [((6, 1), "cuda12"), ((7, 0), "cuda12"), ((13, 0), "upgrade")])
def test_without_a_fitting_arch_the_message_says_what_to_install(capability, cure):
    pytest.importorskip("cuda.core")
    with pytest.raises(DeviceError, match=cure) as caught:
        choose_arch(*capability, KNOWN_13)
    assert "\n" not in str(caught.value)
