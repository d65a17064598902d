"""Tables as data frames of pandas, which is no dependency: whoever asks for one has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpudissect.errors import UsageError

if TYPE_CHECKING:
    import pandas
    from numpy.typing import NDArray


def frame(columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> pandas.DataFrame:
    """A data frame of these columns. Raises `UsageError` without pandas."""
    try:
        import pandas
    except ImportError:
        raise UsageError("data frames need pandas: pip install pandas") from None
    return pandas.DataFrame(dict(columns))
