"""Tables of fitted parameters: rows of numbers, whose columns are named once a kind of kernel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from perfmodel.base._data import read_toml

COLUMNS: Final = "columns"
TESTED: Final = ("rows", "mean", "p90", "low", "high")
"""The last columns of each row: rows tested, two errors [1], and the band [1]."""


def read_fits(path: Path) -> dict[str, Any]:
    """A table with its numbers under their names: a ``form``, and how it was ``tested``."""
    table = read_toml(path)
    return {key: _named(value, value[COLUMNS]) if _is_kind(value) else value
            for key, value in table.items()}  # fmt: skip


def _is_kind(value: Any) -> bool:
    return isinstance(value, dict) and COLUMNS in value


def _named(rows: dict[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Rows by engine, or tables of them by recipe."""
    return {
        key: _row(found, columns) if isinstance(found, list) else _named(found, columns)
        for key, found in rows.items()
        if key != COLUMNS
    }


def _row(numbers: list[float], columns: Sequence[str]) -> dict[str, Any]:
    split = len(columns)
    return {
        "form": dict(zip(columns, numbers[:split], strict=True)),
        "tested": dict(zip(TESTED, numbers[split:], strict=True)),
    }
