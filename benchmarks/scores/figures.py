"""How far scored records lie from their expectations, in a few figures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import NamedTuple

from perfmodel.base.errors import PerfModelError
from scores.kernels import Expected, kernel
from scores.records import HOSTLESS, Left, Record
from scores.steps import step


class Score(NamedTuple):
    """A record beside its expectation."""

    record: Record
    expected: Expected

    @property
    def error(self) -> float:
        """Expected over measured, less one."""
        return self.expected.time / self.record.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the band of eight in ten holds the measurement."""
        return self.expected.low <= self.record.measured <= self.expected.high


class Figures(NamedTuple):
    """Errors of many scores: shares of the measured time."""

    rows: int
    median: float
    mean: float
    ninetieth: float
    bias: float  # median with sign
    covered: float  # share of the rows that lie in their bands


def score(records: Iterable[Record]) -> list[Score]:
    """Records beside what is expected of them; serving without the host as well."""
    found = list(records)
    found += [one._replace(family=HOSTLESS) for one in found if one.family == "serving"]
    return [Score(one, (kernel if one.is_kernel else step)(one)) for one in found]


def figures(scores: list[Score]) -> Figures:
    """The figures of at least one score."""
    signed = [one.error for one in scores]
    errors = sorted(map(abs, signed))
    return Figures(
        rows=len(scores),
        median=statistics.median(errors),
        mean=statistics.fmean(errors),
        ninetieth=errors[round(0.9 * (len(errors) - 1))],
        bias=statistics.median(signed),
        covered=statistics.fmean(one.inside for one in scores),
    )


def left_score(left: Left) -> Score | None:
    """What a row that is left out would have scored, where that can be told."""
    if left.record is None:
        return None
    try:
        return score([left.record])[0]
    except PerfModelError:
        return None
