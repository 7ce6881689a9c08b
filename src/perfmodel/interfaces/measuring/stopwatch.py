"""Timing calls in rounds, within a budget: whatever drifts, drifts for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Final, NamedTuple, TypeAlias

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError

Call: TypeAlias = Callable[[], object]
Tell: TypeAlias = Callable[[float, str], object]  # the share of the time used, and what runs

REPEATS: Final = 7


def whom(name: str, told: Callable[..., object] | None) -> Callable[..., object]:
    """A function to tell something; None: nobody is told.

    Raises
    ------
    InvalidValueError
        If it is neither.
    """
    if told is None:
        return lambda *_: None
    if not callable(told):
        raise InvalidValueError(f"{name}: expected a function or None, got {shown(told)}")
    return told


def clock() -> float:
    """Seconds since some moment [s]."""
    return time.perf_counter()


def settle() -> None:
    """Wait until no thread spins, as those of a BLAS library do for 0.1 s after their work."""
    for _ in range(30):
        before = time.process_time()
        time.sleep(0.01)
        if time.process_time() - before < 0.002:
            break


class Timing(NamedTuple):
    """The times of one call."""

    times: tuple[float, ...]
    """Each repeat, or the first call alone [s]."""
    warmed: bool
    """Whether an untimed call came before."""

    @property
    def median(self) -> float:
        """The middle one [s]."""
        return median(self.times)


class Stopwatch(NamedTuple):
    """When it started, and how long it may take."""

    start: float
    seconds: float
    tell: Tell

    @classmethod
    def started(cls, seconds: float, tell: Tell) -> Stopwatch:
        """One that runs from now on."""
        return cls(clock(), seconds, tell)

    @property
    def used(self) -> float:
        """Time since the start [s]."""
        return clock() - self.start

    @property
    def left(self) -> float:
        """What is left of the time [s]."""
        return self.seconds - self.used

    def lap(self, name: str, call: Call) -> float:
        """How long one call takes [s]."""
        self.tell(min(self.used / self.seconds, 1.0), name)
        settle()
        before = clock()
        call()
        return clock() - before

    def rounds(self, calls: Sequence[tuple[str, Call]]) -> list[Timing]:
        """Every call once to warm up, then all of them round after round.

        A round leaves out a call that would not be over in time, if it takes as long as the last
        time; a call that never runs again keeps its first time.
        """
        first = [self.lap(name, call) for name, call in calls]
        found: list[list[float]] = [[] for _ in calls]
        for _ in range(REPEATS):
            for (name, call), times, warm in zip(calls, found, first, strict=True):
                if (times or [warm])[-1] <= self.left:
                    times.append(self.lap(name, call))
        return [
            Timing(tuple(times or [warm]), bool(times))
            for times, warm in zip(found, first, strict=True)
        ]
