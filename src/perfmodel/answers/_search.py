"""The largest size that still does: a search, for what grows but not in proportion."""

from __future__ import annotations

from collections.abc import Callable

from perfmodel.base.errors import UnboundedError
from perfmodel.base.spec import MAX_COUNT


def largest(fits: Callable[[int], bool | None]) -> int:
    """The largest size that fits, 0 if none does, by doubling and bisection.

    Memory grows with every size, but behind a window not in proportion: it cannot be divided.

    Raises
    ------
    UnboundedError
        If every size fits.
    """
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        if high > MAX_COUNT:
            raise UnboundedError(
                "memory sets no limit up to 1e15: either every layer keeps only a window, "
                "or the memory is as large as that"
            )
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
