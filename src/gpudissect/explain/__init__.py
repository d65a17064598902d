"""Kernels explained: how often their instructions run and what they access, from instrumented PTX.

The modules here are pure functions of texts and arrays, apart from the processes that compile and run kernels.
``gpudissect.explain(...)`` is `gpudissect.api.explain`: the folder has the name of the function, so it can be called.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class _Explain(ModuleType):
    """A folder that calls the function of its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return import_module("gpudissect.api").explain(*arguments, **options)


sys.modules[__name__].__class__ = _Explain
