"""Robust fits of a few named parameters, and what they miss on rows that they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

from perfmodel.base.errors import MissingExtraError

Array: TypeAlias = Any
Times: TypeAlias = Callable[[Mapping[str, float]], Array]  # parameters -> time of each row [s]

SOFT: Final = 0.1  # errors far above this count by their size, not by its square
FOLDS: Final = 5
_NOISE: Final = 0.01  # no measurement is better than this, however well the rows agree
_SURE: Final = 3.0  # standard errors by which rows must contradict the base


class Free(NamedTuple):
    """A parameter to find: from where, between which bounds."""

    start: float
    low: float
    high: float


class Found(NamedTuple):
    """Parameters that were found, and how well the rows tell each from the others."""

    values: dict[str, float]
    errors: dict[str, float]  # standard errors; infinite where rows tell nothing


class Tested(NamedTuple):
    """Errors of |predicted / measured - 1|, and the band of measured over predicted."""

    rows: int
    """Rows tested on [1]."""
    mean: float
    """Mean error [1]."""
    median: float
    """Median error [1]."""
    p90: float
    """90th percentile of the errors [1]."""
    bias: float
    """Median of predicted over measured, less one [1]."""
    low: float
    """10th percentile of measured over predicted [1]."""
    high: float
    """90th percentile of measured over predicted [1]."""


def fitted(time: Times, free: Mapping[str, Free], measured: Array) -> Found:
    """Parameters of the least soft-L1 loss of log(predicted / measured).

    Raises
    ------
    MissingExtraError
        If SciPy is not installed.
    """
    import numpy as np

    least_squares = _least_squares()
    names = list(free)
    start, low, high = (np.log([free[name][i] for name in names]) for i in range(3))
    target = np.log(measured)

    def missed(logs: Array) -> Array:
        return np.log(time(dict(zip(names, np.exp(logs), strict=True)))) - target

    best = least_squares(
        missed,
        np.clip(start, low, high),
        bounds=(low, high),
        loss="soft_l1",
        f_scale=SOFT,
        x_scale=0.1,
    )
    values = np.exp(best.x)
    noise = max(_NOISE, 1.4826 * float(np.median(np.abs(best.fun))))
    # Few rows lie nearer to a fit of theirs than to the truth.
    noise *= (len(target) / max(1, len(target) - len(names))) ** 0.5
    errors = noise * _spread(best.jac / values)
    return Found(
        dict(zip(names, values.tolist(), strict=True)),
        dict(zip(names, errors.tolist(), strict=True)),
    )


def _least_squares() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise MissingExtraError(
            'calibrate: needs SciPy, which is not installed: pip install "perfmodel[calibrate]"'
        ) from None
    return least_squares


def _spread(slopes: Array) -> Array:
    """Standard errors for a noise of 1: infinite for what changes nothing."""
    import numpy as np

    lengths = np.sqrt((slopes**2).sum(axis=0))
    unit = slopes / np.where(lengths > 0, lengths, 1)
    # A trace of the identity keeps parallel columns from having no inverse: their errors are vast.
    inverse = np.linalg.inv(unit.T @ unit + 1e-12 * np.eye(len(lengths)))
    with np.errstate(divide="ignore"):
        return np.sqrt(np.abs(np.diag(inverse))) / lengths


def doubts(found: Found, base: Mapping[str, float]) -> dict[str, float]:
    """By how many standard errors each parameter differs from the base's."""
    return {
        name: abs(found.values[name] - base[name]) / found.errors[name] for name in found.values
    }


def sure(found: Found, base: Mapping[str, float]) -> bool:
    """Whether the rows contradict the base in every parameter that was found."""
    return all(size >= _SURE for size in doubts(found, base).values())


def settled(
    time: Times, free: Mapping[str, Free], base: Mapping[str, float], measured: Array
) -> dict[str, float]:
    """Only what the rows tell: every other parameter stays at the base's value.

    The one that differs least from the base, in standard errors, is put back; the others are found
    anew, until each of them is told.
    """
    open_, back = dict(free), dict[str, float]()
    while open_:
        found = fitted(lambda some: time({**back, **some}), open_, measured)
        if sure(found, base):
            return found.values
        size = doubts(found, base)
        weakest = min(size, key=size.__getitem__)
        back[weakest] = base[weakest]
        del open_[weakest]
    return {}


# -- what they miss --------------------------------------------------------------------------------


def tested(predicted: Array, measured: Array, *, few: bool) -> Tested:
    """What a prediction misses.

    Of few rows the band is as wide as it takes for eight in ten of *further* rows to lie within:
    the percentiles of the rows themselves would hold fewer.
    """
    import numpy as np

    error = predicted / measured - 1
    low, high = np.percentile(measured / predicted, [10, 90], method="weibull" if few else "linear")
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


def loss(predicted: Array, measured: Array) -> float:
    """What is compared between fits: the mean error of the nearest eight rows in ten.

    The others may be as far as they like: an outlier is none of the fit's merits or faults.
    """
    import numpy as np

    missed = np.sort(np.abs(np.log(predicted / measured)))
    return float(missed[: max(1, round(0.8 * len(missed)))].mean())


def folds(names: Iterable[str]) -> Array:
    """The part in which each row is held out: shapes whole, by a checksum of their names."""
    import numpy as np

    every = list(names)
    ranked = sorted(set(every), key=lambda name: (crc32(name.encode()), name))
    part = {name: rank % FOLDS for rank, name in enumerate(ranked)}
    return np.array([part[name] for name in every])


def held_out(time: Times, free: Mapping[str, Free], measured: Array, parts: Array) -> Array:
    """Times of all rows, each by a fit that has seen neither it nor its shape [s]."""
    import numpy as np

    if not free:
        return time({})

    def without(away: Array) -> dict[str, float]:
        return fitted(lambda some: time(some)[~away], free, measured[~away]).values

    predicted = np.empty(len(measured))
    for part in range(FOLDS):
        away = parts == part
        if away.any():
            predicted[away] = time(without(away))[away]
    return predicted
