"""Tables of kernels as problems for the library's own fits, and which rows are for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import pandas as pd

from perfmodel.answers.calibrating import kinds
from perfmodel.answers.calibrating.fitting import Array, Free, fitted


class Problem(NamedTuple):
    """A problem of the library, and the columns that its form reads."""

    asked: kinds.Problem
    columns: Sequence[str]

    @property
    def free(self) -> Mapping[str, Free]:
        """What is found."""
        return self.asked.free

    def time(self, parameters: Mapping[str, Any], rows: pd.DataFrame) -> Array:
        """Times of many rows, by the library's own arithmetic [s]."""
        columns = {name: rows[name].to_numpy(float) for name in self.columns}
        return self.asked.made(parameters).time(**columns)

    def fit(self, rows: pd.DataFrame) -> dict[str, float]:
        """Parameters of the least soft-L1 loss of log(predicted / measured).

        Where rows say which are of one server, of those: the tables spread experts over up to 256
        devices, a few on each, and such rows would outvote them.
        """
        rows = rows[rows["near"]] if "near" in rows else rows
        measured = rows.measured.to_numpy(float)
        return fitted(lambda some: self.time(some, rows), self.free, measured).values


def halves(rows: pd.DataFrame) -> Array:
    """Which rows are for tests: half of the shapes, whole, by a checksum of their names.

    Where a format has only a few models' shapes, those of other splits over devices are.
    """
    few = "finer" in rows and rows["shape"].nunique() < 6
    names = rows["finer" if few else "shape"]
    picked = {name: crc32(name.encode()) % 2 == 1 for name in names.unique()}
    return names.map(picked).to_numpy(bool)


def sample(rows: pd.DataFrame, most: int, seed: int = 5) -> pd.DataFrame:
    """At most so many rows, the same ones every time."""
    return rows if len(rows) <= most else rows.sample(most, random_state=seed)
