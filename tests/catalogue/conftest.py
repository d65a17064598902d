"""The example of the format's README, which the tests of reading and of rejecting start from."""

import re
from importlib import resources

import pytest


@pytest.fixture(scope="session")
def example() -> str:
    text = (resources.files("gpudissect.catalogue") / "README.md").read_text("utf-8")
    match = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert match
    return match.group(1)
