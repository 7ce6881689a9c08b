"""How sure a whole step is: what the bands of its kernels do not hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from scores import steps
from scores.figures import Score, score
from scores.records import HOSTLESS, Record

FOLDS: Final = 5
# Which families tell of which band: that of an engine with its host, and of kernels alone. No
# prompt by itself was timed without a host.
FAMILIES: Final = {
    ("engine", "decode"): ("batch", "serving"),
    ("engine", "prefill"): ("first token",),
    ("pooled", "decode"): (HOSTLESS,),
    ("pooled", "prefill"): ("first token",),
}


class Beside(NamedTuple):
    """A band beside those of the kernels: shares of the expected time."""

    low: float
    high: float

    def holds(self, one: Score) -> bool:
        """Whether a measurement lies in both bands together."""
        ratio, below, above = _ratio(one)
        reached = (below**2 + (1 - self.low) ** 2) ** 0.5, (above**2 + (self.high - 1) ** 2) ** 0.5
        return bool(1 - reached[0] <= ratio <= 1 + reached[1])


class Tested(NamedTuple):
    """A band, and what such bands hold of rows that they were not made from."""

    whose: str
    phase: str
    band: Beside
    rows: int
    held: float  # share


def bands(records: Iterable[Record]) -> list[Tested]:
    """Of all records; tested fold by fold, alike ones together."""
    with steps.kernels_only():
        scores = score(one for one in records if not one.is_kernel)
    found = []
    for (whose, phase), families in FAMILIES.items():
        mine = [one for one in scores if one.record.family in families]
        held = [
            band.holds(one)
            for fold in range(FOLDS)
            for band in [fit(one for one in mine if _fold(one) != fold)]
            for one in mine
            if _fold(one) == fold
        ]
        found.append(Tested(whose, phase, fit(mine), len(held), sum(held) / len(held)))
    return found


def fit(scores: Iterable[Score]) -> Beside:
    """The band that leaves out one row of ten on each side."""
    found = [_ratio(one) for one in scores]
    below = [(1 - r) ** 2 - low**2 if r < 1 else 0.0 for r, low, _ in found]
    above = [(r - 1) ** 2 - high**2 if r > 1 else 0.0 for r, _, high in found]
    return Beside(1 - _ninetieth(below) ** 0.5, 1 + _ninetieth(above) ** 0.5)


def written(text: str, found: Iterable[Tested]) -> str:
    """The engines' catalog with other bands."""
    of = {(one.whose, one.phase): one.band for one in found}
    for whose in {whose for whose, _ in of}:
        both = ", ".join(
            f"{phase} = {{low = {of[whose, phase].low:.3f}, high = {of[whose, phase].high:.3f}}}"
            for phase in ("decode", "prefill")
        )
        text = re.sub(
            rf"^{whose} = \{{decode.*$", f"{whose} = {{{both}}}", text, flags=re.MULTILINE
        )
    return text


def _fold(one: Score) -> int:
    """Rows of a model, chip, engine, precision and number of devices are alike."""
    r = one.record
    return crc32(f"{r.model}/{r.gpu}/{r.engine}/{r.precision}/{r.tensor}".encode()) % FOLDS


def _ratio(one: Score) -> tuple[float, float, float]:
    """Measured over expected, and how far its kernels' bands reach below and above."""
    expected = one.expected
    return (
        one.record.measured / expected.time,
        1 - expected.low / expected.time,
        expected.high / expected.time - 1,
    )


def _ninetieth(values: list[float]) -> float:
    return max(0.0, sorted(values)[round(0.9 * (len(values) - 1))])
