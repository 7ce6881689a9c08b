"""Rows that cannot be, rows that say nothing new, and tables that are not in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from perfmodel.answers.calibrating.fitting import Array
from perfmodel.answers.calibrating.record import LeftOut
from perfmodel.answers.calibrating.table import Row
from perfmodel.base.errors import InvalidValueError

_FAR: Final = 100.0  # times what is expected: nothing is so slow, but milliseconds are
_COPY: Final = "copies of other rows, to the last digit"
_BEATS: Final = (
    "faster than their floor: a cache kept the data from one run to the next, or less was done"
)


def usable(
    rows: Sequence[Row], sizes: Sequence[str], floors: Array, expected: Array, launch: float
) -> tuple[Array, tuple[LeftOut, ...]]:
    """Which rows can be fitted to, and which are left out for what reason.

    ``launch`` is what a slow host may add to each, whatever the base expects [s].

    Raises
    ------
    InvalidValueError
        If most rows beat their floors, or take a hundred times what is expected.
    """
    import numpy as np

    measured = np.array([row.seconds for row in rows])
    beats = measured < floors
    if beats.mean() > 0.5:
        first = int(np.argmax(beats))
        rows[first].refuse(
            f"seconds: {measured[first]:.3g} beats the floor of {floors[first]:.3g}, which no cold "
            f"run can, and so do {int(beats.sum())} of {len(rows)} rows; expected seconds, on this "
            "chip, in this precision"
        )
    ratio = float(np.median(measured / (expected + launch)))
    if ratio > _FAR:
        raise InvalidValueError(
            f"{rows[0].file}: seconds: expected seconds, but they are {ratio:,.0f} times what the "
            "base expects: milliseconds are 1e-3, microseconds 1e-6"
        )
    seen: set[tuple[Any, ...]] = set()
    copy = np.zeros(len(rows), bool)
    for i, key in enumerate(zip(sizes, measured.tolist(), strict=True)):
        copy[i] = key in seen
        seen.add(key)
    reasons = ((_BEATS, beats), (_COPY, copy & ~beats))
    left = tuple(
        LeftOut(reason, tuple(row.number for row, one in zip(rows, which, strict=True) if one))
        for reason, which in reasons
        if which.any()
    )
    return ~(beats | copy), left
