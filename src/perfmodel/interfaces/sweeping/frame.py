"""Computed columns as arrays to work with, and as a pandas table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from perfmodel.interfaces.sweeping.columns import BOUNDS, Column
from perfmodel.interfaces.sweeping.grid import Grid

if TYPE_CHECKING:
    import pandas as pd


def array_of(grid: Grid, column: Column, values: Any) -> Any:
    """A column as people read it: names and limits in words, flags as truth values."""
    if column.kind == "name":
        return np.array(grid.labels[column.name], dtype=object)[values]
    if column.kind == "bound":
        return np.array(BOUNDS).take(values)
    if column.kind == "flag":
        return np.array([False, True, None])[values] if grid.unknown_memory else values.view(bool)
    return values


def frame_of(
    grid: Grid, columns: Sequence[Column], values: Mapping[str, Any], attributes: dict[str, Any]
) -> pd.DataFrame:
    """Columns as a table: names as categories, counts as integers."""
    import pandas as pd

    frame = pd.DataFrame({c.name: _series(grid, c, values[c.name]) for c in columns}, copy=False)
    frame.attrs.update(attributes)
    return frame


def _series(grid: Grid, column: Column, values: Any) -> Any:
    import pandas as pd

    if column.kind in ("name", "bound"):
        names = BOUNDS if column.kind == "bound" else grid.labels[column.name]
        return pd.Categorical.from_codes(values, categories=pd.Index(names))
    if column.kind == "count":
        return values.astype(np.int64)
    if column.kind == "flag":
        if not grid.unknown_memory:
            return values.view(bool)
        return pd.arrays.BooleanArray(values > 0, values < 0)
    return values
