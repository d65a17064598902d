"""The models know numbers only: no device, no catalogue, no inference."""

import ast
import sys
from pathlib import Path

import pytest

from gpudissect import models

FILES = sorted(Path(models.__file__).parent.glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_model_imports_numpy_units_and_other_models_only(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    ours = {name for name in names if name.startswith("gpudissect")}
    assert all(name.startswith("gpudissect.models.") for name in ours - {"gpudissect.units"})
    assert {name.partition(".")[0] for name in names - ours} <= {"numpy", *sys.stdlib_module_names}
