"""``gpudissect export``: what goes wrong is one line with the next step, and nothing is half written."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
H200 = ROOT / "docs" / "results" / "h200.json"


def test_it_prints_a_gpu_file(gpudissect):
    code, out, err = gpudissect("export", H200, "--format", "gpu")
    assert (code, err) == (0, "")
    assert out.startswith("# NVIDIA H200\n")
    assert '\nname = "NVIDIA H200"\n' in out


def test_what_it_writes_is_a_device(gpudissect, tmp_path):
    file = tmp_path / "mine.toml"
    assert gpudissect("export", H200, "-f", "gpu", "-o", file) == (0, "", "")
    code, out, _ = gpudissect("chase", "-d", f"sim:{file}", "--size", "4KiB", "--json")
    assert code == 0
    assert "NVIDIA H200" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("export", H200), "Missing option '--format'"),
        (("export", "-f", "gpu"), "Missing argument 'FILE'"),
        (("export", H200, "-f", "mtg"), "no such format: 'mtg'; did you mean mt4g?"),
        (("export", H200, "-f", "xml"), "no such format: 'xml'; there are gpu"),
        (("export", "nowhere.json", "-f", "gpu"), "cannot read nowhere.json: No such file"),
        (("export", "empty.json", "-f", "gpu"), "empty.json is no result file: it is empty"),
        (("export", "nothing.json", "-f", "gpu"), "run discover on all elements"),
        (("export", H200, "-f", "gpu", "-o", "no/folder.toml"), "cannot write no/folder.toml: there is no folder no"),
        (("export", H200, "-f", "gpu", "-o", "."), "it is a folder; name a file"),
    ],
)
def test_what_goes_wrong_is_2_and_one_line(gpudissect, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    Path("empty.json").touch()
    device = '{"spec": "cuda:0", "name": "x\\n\\u001b[2J", "origin": "measured", "sm_count": 1}'
    Path("nothing.json").write_text(f'{{"schema": "gpudissect/1", "device": {device}}}')
    code, out, err = gpudissect(*arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert said in err
    assert "\x1b" not in err


def test_a_file_is_kept_when_the_export_fails(gpudissect, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("mine")
    assert gpudissect("export", H200, "-f", "xml", "-o", file)[0] == 2
    assert file.read_text() == "mine"


def test_nothing_that_is_read_is_written_over(gpudissect, tmp_path):
    result, gpu, recording = tmp_path / "result.json", tmp_path / "gpu.toml", tmp_path / "recording"
    result.write_bytes(H200.read_bytes())
    (tmp_path / "link.json").symlink_to(result)
    gpu.write_text((ROOT / "src/gpudissect/catalogue/gpus/gtx780.toml").read_text())
    tried = [
        ("export", result, "-f", "gpu", "-o", tmp_path / "link.json"),
        ("discover", "-d", f"sim:{gpu}?noise=0", "-o", gpu),
        ("discover", "-d", f"rec:{recording}", "-o", recording / "arrays.bin"),
        ("discover", "-d", "sim:gtx780", "--record", recording, "-o", recording / "recording.jsonl"),
    ]
    for arguments in tried:
        code, _, err = gpudissect(*arguments)
        assert code == 2 and err.count("\n") == 1
        assert "it is what is read; name another file" in err or f"the recording {recording} is made there" in err
    assert result.read_bytes() == H200.read_bytes()
    assert gpu.read_text().startswith("#")
