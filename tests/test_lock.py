"""The lock was made for the dependencies that stand in pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_lock_is_of_these_dependencies():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {("", *_parts(text)) for text in project["dependencies"]}
    wanted |= {
        (f"extra == '{extra}'", *_parts(text))
        for extra, texts in project["optional-dependencies"].items()
        for text in texts
    }
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    own = next(package for package in packages if package["name"] == project["name"])
    locked = {(d.get("marker", ""), d["name"], _sorted(d["specifier"])) for d in own["metadata"]["requires-dist"]}
    assert locked == wanted, "run uv lock"


def _parts(text):
    name, specifier = re.fullmatch(r"([A-Za-z0-9._-]+)(.*)", text).groups()
    return name, _sorted(specifier)


def _sorted(specifier):
    return ",".join(sorted(specifier.split(",")))
