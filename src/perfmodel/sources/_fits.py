"""Tables of fitted parameters: rows of numbers, whose columns are named once a kind of kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from perfmodel.base._data import read_toml

COLUMNS: Final = "columns"
SAME: Final = "same"
"""What all rows of a kind have in common, if anything, by name."""
TESTED: Final = ("rows", "mean", "p90", "low", "high")
"""The last columns of each row: rows tested, two errors [1], and the band [1]."""


def read_fits(path: Path) -> dict[str, Any]:
    """A table with its numbers under their names: a ``form``, and how it was ``tested``."""
    return {
        key: _named(value, value.pop(COLUMNS), value.pop(SAME, {}))
        if isinstance(value, dict) and COLUMNS in value
        else value
        for key, value in read_toml(path).items()
    }


def _named(rows: dict[str, Any], columns: Sequence[str], same: dict[str, float]) -> dict[str, Any]:
    """Rows by engine, or tables of them by recipe."""
    return {
        key: _row(found, columns, same) if isinstance(found, list) else _named(found, columns, same)
        for key, found in rows.items()
    }


def _row(numbers: list[float], columns: Sequence[str], same: dict[str, float]) -> dict[str, Any]:
    split = len(columns)
    return {
        "form": same | dict(zip(columns, numbers[:split], strict=True)),
        "tested": dict(zip(TESTED, numbers[split:], strict=True)),
    }
