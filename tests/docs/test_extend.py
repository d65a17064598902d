"""The pages on extending, followed in a copy of the package: each ends with something new to see."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from gpudissect.results.files import load
from tests.support.pages import DOCS, ROOT

BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)


@pytest.fixture
def follow(tmp_path):
    """Follows a page: writes its files, applies its changes, runs its commands; gives their outputs."""
    shutil.copytree(ROOT / "src", tmp_path / "src")  # with what is compiled

    def run(*command):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def follow_page(name):
        outputs = []
        for language, title, text in BLOCK.findall((DOCS / "extend" / name).read_text(encoding="utf-8")):
            path = tmp_path / title
            if language == "diff":
                path.write_text(changed(path.read_text(encoding="utf-8"), text), encoding="utf-8")
            elif title:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            else:
                outputs += [run(*shlex.split(line)) for line in text.splitlines()]
        return outputs

    follow_page.run = run
    return follow_page


def changed(text, diff):
    """A text with the lines that begin with + inserted after those before them."""
    lines = diff.splitlines()
    context = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    inserted = "".join(f"{line[1:]}\n" for line in lines if line.startswith("+"))
    assert text.count(context) == 1, f"the page shows lines that are not in the file once: {context}"
    return text.replace(context, context + inserted)


def test_a_new_experiment_is_found_plotted_and_compared(follow, tmp_path):
    first, second, compared = follow("experiment.md")
    assert "footprint_step" in first and "footprint_step" in second
    page = (tmp_path / "step.html").read_text(encoding="utf-8")
    assert "footprint step" in page and "4 KiB and 1 MiB</figcaption>" in page
    assert re.search("footprint_step .* different", compared)
    follow.run("pytest", "-q", "-p", "no:cacheprovider", "tests")


def test_a_new_device_is_listed_measured_and_compared(follow, tmp_path):
    devices, found, _, compared = follow("device.md")
    assert "busy:gtx980" in devices
    assert "GTX 980, busy" in found and "GTX 980, busy" in (tmp_path / "busy.html").read_text(encoding="utf-8")
    assert "busy:gtx980" in compared and "0 different" in compared
    busy, idle = (load(tmp_path / name).finding("l1", "capacity").value for name in ("busy.json", "idle.json"))
    assert busy == idle == 24576


def test_a_new_gpu_is_found_as_its_file_describes_it(follow, tmp_path):
    found, _, compared = follow("gpu.md")
    assert "Example 1" in found and "Example 1" in (tmp_path / "example1.html").read_text(encoding="utf-8")
    result = load(tmp_path / "example1.json")
    values = {name: result.finding("l1", name).value for name in ("capacity", "sets", "ways", "replacement_policy")}
    assert values == {"capacity": 16384, "sets": 32, "ways": 4, "replacement_policy": "lru"}
    assert result.finding("l1", "hit_latency").value == pytest.approx(30, abs=1)
    assert re.search("l1 +capacity .* different", compared)
