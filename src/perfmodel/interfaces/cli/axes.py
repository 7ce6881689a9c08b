"""Axes as the command line spells them: ``1,2,4..64`` and ``1024:131072:1024``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError

MAX_NUMBERS: Final = 10_000_000  # of an axis
HOW: Final = "A,B; A..B doubles from A up to B, A:B:STEP counts from A up to B."

_NUMBER: Final = r"([0-9]{1,15})"
_ONE: Final = re.compile(_NUMBER)
_DOUBLED: Final = re.compile(rf"{_NUMBER}\.\.{_NUMBER}")
_COUNTED: Final = re.compile(rf"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?")


def numbers(name: str, text: str) -> list[int]:
    """The whole numbers that an axis of the command line means.

    Raises
    ------
    InvalidValueError
        If the text is no such list, an end lies before its start, or there are too many.
    """
    found: list[int] = []
    for part in text.split(","):
        several = _several(part.strip())
        if several is None:
            raise InvalidValueError(
                f"--{name}: expected whole numbers as 1,2,4..64 or 1024:131072:1024, "
                f"got {shown(text)}"
            )
        if len(found) + len(several) > MAX_NUMBERS:
            raise InvalidValueError(
                f"--{name}: expected at most {MAX_NUMBERS:,} numbers, got {shown(text)}"
            )
        found += several
    return found


def _several(part: str) -> list[int] | range | None:
    """What one part between commas means; None where it means nothing."""
    if match := _ONE.fullmatch(part):
        return [int(part)]
    if match := _DOUBLED.fullmatch(part):
        first, last = map(int, match.groups())
        return list(_doubled(first, last)) or None
    if match := _COUNTED.fullmatch(part):
        first, last, step = int(match[1]), int(match[2]), int(match[3] or 1)
        return range(first, last + 1, step) or None if step else None
    return None


def _doubled(number: int, last: int) -> Iterator[int]:
    while 0 < number <= last:
        yield number
        number *= 2
