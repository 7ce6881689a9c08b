"""What a table says of itself: units, meanings, what was asked, what is taken for granted."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from perfmodel.interfaces.sweeping.columns import Column
from perfmodel.interfaces.sweeping.grid import Grid
from perfmodel.interfaces.sweeping.settings import Skipped


def about(grid: Grid, columns: Sequence[Column], skipped: Sequence[Skipped]) -> dict[str, Any]:
    """The metadata of a table: of plain values, so that any format can hold it."""
    return {
        "units": {column.name: column.unit for column in columns},
        "meanings": {column.name: column.meaning for column in columns},
        "perfmodel": sys.modules["perfmodel"].__version__,  # no import points up
        "phase": grid.phase,
        "asked": grid.labels,
        "assumptions": grid.assumptions(),
        "skipped": [asdict(one) for one in skipped],
    }
