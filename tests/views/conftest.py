"""One result with everything in it."""

from tests.support.result_fixtures import result, survey

__all__ = ["result", "survey"]
