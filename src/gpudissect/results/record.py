"""What all parts of a result file have in common."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")

Items = Annotated[tuple[T, ...], Field(fail_fast=True)]
"""A list of any length. Its first wrong item ends the check: an error for each takes hundreds of bytes."""


class Record(BaseModel):
    """A part of a result file: frozen, of the types that it says.

    Readers take what they know and pass over the rest, so that later versions of schema 1 may add fields.
    """

    model_config = ConfigDict(
        frozen=True, strict=True, allow_inf_nan=False, extra="ignore", use_attribute_docstrings=True
    )
