"""How large the jobs must be: past the last-level cache, within the memory asked for."""

from __future__ import annotations

from math import ceil, isqrt
from typing import Final, NamedTuple

from perfmodel.base.errors import DoesNotFitError
from perfmodel.base.units import si

TOKENS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# What a cache that evicts at random still serves of data r times its size, read in rounds, is h
# with h = exp(-r (1 - h)): 2 % of four times its size, 20 % of twice.
WANTED: Final = 4
LEAST: Final = 2
_STEP: Final = 64  # sides are multiples of it, as those of real matrices
SIDE: Final = 512  # of the smallest matrices whose product is timed


class Sizes(NamedTuple):
    """What the jobs work on: one table, whose memory all of them share, and what passes it."""

    side: int
    """Rows and columns of the table [1]."""
    nbytes: int
    """All arrays together [B]."""
    spare: int
    """For the matrices of large products [B]."""
    note: str = ""
    """What is smaller than wanted, and why."""

    @property
    def values(self) -> int:
        """Numbers in the table [1]."""
        return self.side**2


def sized(*, cache: float, memory: float, width: int, least: float = 0, formats: int = 1) -> Sizes:
    """Four times the cache where the memory allows, no less than twice; of numbers so wide [B].

    A table of fewer bytes than ``least`` is done too soon to be timed well. A quarter of it is
    spared for the large products of so many formats.

    Raises
    ------
    DoesNotFitError
        If the memory does not hold twice the cache.
    """

    def spare(side: int) -> int:
        return max(side**2 * width // 4, 3 * SIDE**2 * 4 * formats)

    def total(side: int) -> int:
        return side**2 * width + 2 * TOKENS[-1] * side * width + spare(side)

    def side_of(nbytes: float) -> int:
        return ceil((isqrt(ceil(nbytes / width) - 1) + 1) / _STEP) * _STEP

    smallest = side_of(max(LEAST * cache, SIDE**2 * width))  # each user has a token
    wanted = max(side_of(max(WANTED * cache, least)), smallest)
    if total(smallest) > memory:
        raise DoesNotFitError(
            f"memory: expected at least {si(total(smallest), 'B')}, for a table of {LEAST} times "
            f"the last-level cache of {si(cache, 'B')}, got {si(memory, 'B')}"
        )
    side = wanted
    while side > smallest and total(side) > memory:
        side -= _STEP
    if side == wanted:
        return Sizes(side, total(side), spare(side))
    times = side**2 * width / cache
    note = (
        f"tables of {si(side**2 * width, 'B')} in place of {si(wanted**2 * width, 'B')}, for "
        f"memory is {si(memory, 'B')}: {times:.1f} times the last-level cache"
    )
    return Sizes(
        side, total(side), spare(side), note + (", of which some may serve" if times < 3 else "")
    )
