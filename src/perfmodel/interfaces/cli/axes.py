"""Axes as the command line spells them: ``1,2,4..64`` and ``1024:131072:1024``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import whole
from perfmodel.interfaces.cli.given import real

MAX_NUMBERS: Final = 10_000_000  # of an axis
HOW: Final = "A,B; A..B doubles from A up to B, A:B:STEP counts from A up to B."


def numbers(name: str, text: str) -> list[int]:
    """The whole numbers that an axis of the command line means.

    Raises
    ------
    InvalidValueError
        If the text is no such list, an end lies before its start, or there are too many.
    """
    found: list[int] = []
    for part in text.split(","):
        several = _several(part)
        if not several:
            raise InvalidValueError(
                f"--{name}: expected whole numbers from 1 to 1e15, as 1,2,4..64 or "
                f"1024:131072:1024, got {shown(text)}"
            )
        if len(found) + len(several) > MAX_NUMBERS:
            raise InvalidValueError(
                f"--{name}: expected at most {MAX_NUMBERS:,} numbers, got {shown(text)}"
            )
        found += several
    return found


def _several(part: str) -> Sequence[int]:
    """What one part between commas means; empty where it means nothing."""
    mark = ".." if ".." in part else ":"
    try:
        ends = [whole(real(end)) for end in part.split(mark)]
    except ValueError:
        return ()
    match mark, ends:
        case _, [one]:
            return [one]
        case "..", [first, last]:
            return list(_doubled(first, last))
        case ":", [first, last, *step] if len(step) < 2:
            return range(first, last + 1, *step)
    return ()


def _doubled(number: int, last: int) -> Iterator[int]:
    while number <= last:
        yield number
        number *= 2
