"""Robust fits of the library's own forms, and what they miss on shapes that they have not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from perfmodel.base.spec import Spec

Array: TypeAlias = Any
SOFT: Final = 0.1  # errors far above this count by their size, not by its square


class Free(NamedTuple):
    """A parameter to find: from where, between which bounds."""

    start: float
    low: float
    high: float


class Problem(NamedTuple):
    """A form of the library, what is found, what is fixed, and the columns that it reads."""

    form: type[Spec]
    free: Mapping[str, Free]
    fixed: Mapping[str, Any]
    columns: Sequence[str]

    def time(self, parameters: Mapping[str, Any], rows: pd.DataFrame) -> Array:
        """Times of many rows, by the library's own arithmetic [s]."""
        defaults = {name: field.default for name, field in self.form.model_fields.items()}
        form: Any = self.form.trusted(**defaults | dict(self.fixed) | dict(parameters))
        return form.time(**{name: rows[name].to_numpy(float) for name in self.columns})

    def fit(self, rows: pd.DataFrame, weights: Array | None = None) -> dict[str, float]:
        """Parameters of the least soft-L1 loss of log(predicted / measured)."""
        names = list(self.free)
        start, low, high = (np.log([self.free[n][i] for n in names]) for i in range(3))
        measured = np.log(rows.measured.to_numpy(float))
        scale = 1.0 if weights is None else np.sqrt(weights)

        def missed(logs: Array) -> Array:
            parameters = dict(zip(names, np.exp(logs), strict=True))
            return scale * (np.log(self.time(parameters, rows)) - measured)

        found = least_squares(
            missed, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT, x_scale=0.1
        )
        return dict(zip(names, np.exp(found.x).tolist(), strict=True))


class Tested(NamedTuple):
    """Errors of |predicted / measured - 1|, and the band of measured over predicted."""

    rows: int
    mean: float
    median: float
    p90: float
    bias: float  # median of predicted / measured - 1
    low: float  # 10th percentile of measured / predicted
    high: float  # 90th


def tested(predicted: Array, measured: Array) -> Tested:
    """What a prediction misses."""
    error = predicted / measured - 1
    low, high = np.percentile(measured / predicted, [10, 90])
    size = np.abs(error)
    return Tested(
        len(error),
        float(size.mean()),
        float(np.median(size)),
        float(np.percentile(size, 90)),
        float(np.median(error)),
        float(low),
        float(high),
    )


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
