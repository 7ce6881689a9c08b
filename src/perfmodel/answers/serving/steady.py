"""The steady state of a server: what follows from how many sequences decode beside a given one.

Everything is explicit in ``others``, the mean number of other sequences that decode in a step of a
given one. Little's law closes the loop: a search along one number, of many candidates at once. All
numbers are arrays whose last axis has one element, and the rest an element a candidate.
``docs/serving.md`` derives each line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from perfmodel.answers.serving.costs import Costs
from perfmodel.base._num import Num, maximum, minimum, where

_ROUNDS: Final = 60  # of the search along one number; it mostly needs eight
_CLOSE: Final = 1e-9
_FULL: Final = 1 - 1e-6  # load of a queue from which on it has no end
_LEAST: Final = 1e-12


class Loop(NamedTuple):
    """What the steady state depends on beside the costs of steps."""

    steps: Num
    """Steps in which a request decodes [1]."""
    tokens: Num
    """Its tokens after the first [1]."""
    users: Num | None
    """Users of one replica in a closed loop; None: requests come by themselves [1]."""
    rate: Num | None
    """Requests a second to one replica in an open one [1/s]."""
    mixed: bool
    """Whether steps hold prompts beside tokens; else prompts have steps of their own [flag]."""
    interference: Num
    """Time that a prompt takes from decoding, over that of its kernels [1]."""
    lanes: Num = 1
    """Replicas that step together, so that a prompt of one holds up all [1]."""


class State(NamedTuple):
    """Times of a request, given how many others decode beside it."""

    iteration: Num
    """Mean time from a token's step to the next [s]."""
    plain: Num
    """Of it, the step without prompts [s]."""
    decoding: Num
    """From the first token to the last, D [s]."""
    first: Num
    """From the request to its first token, without the server's own delays [s]."""
    away: Num
    """Steps of others between a request and its first token, in which it does not decode [1]."""
    load: Num
    """Share of the budget of steps that prompts take; at 1 their queue has no end [1]."""


def prompts_in_step(mean: Num, costs: Costs) -> Num:
    """By how much prompts make a step longer: their number is Poisson, their time has two bends.

    Parameters
    ----------
    mean : float or array
        Prompts that begin in a step, on average [1].
    costs : Costs
        What one, two and four of them add [s].

    Returns
    -------
    float or array
        Mean time [s].
    """
    none = math.e**-mean
    past_one = mean - 1 + none  # E[(A - 1)+]
    past_two = mean - 2 + 2 * none + mean * none  # E[(A - 2)+]
    second, later = _further(costs)
    return costs.one * mean + (second - costs.one) * past_one + (later - second) * past_two


def _further(costs: Costs) -> tuple[Num, Num]:
    """What a second prompt in a step adds, and each after it: the first may fill idle units."""
    return costs.two - costs.one, (costs.four - costs.two) / 2


def state(loop: Loop, costs: Costs, others: Num) -> State:
    """The times of a request beside which so many others decode, on average."""
    beside, together = costs.at(others), costs.at(1 + others)
    begin = others / loop.steps  # requests of others that end in a step, and as many begin
    # Where prompts stop all decoding, those that come with a request's own do not hold it up.
    seen = begin if loop.mixed or loop.users is None else begin * (1 - 1 / loop.steps)
    held_up = maximum(seen, (1 - math.e ** -(loop.lanes * seen)) * (loop.lanes > 1))
    iteration = together.step + loop.interference * prompts_in_step(held_up, together)
    residual, company = 0.0, begin
    if loop.users is None:
        met = _met(begin, iteration, together)
        busy = 1 - math.e ** -(loop.rate * (loop.steps * iteration + beside.read))
        residual, company = busy * met / 2, begin * met / iteration
    queue, away = _queue(loop, beside, begin, company)
    return State(
        iteration=iteration,
        plain=together.step,
        decoding=loop.steps * iteration,
        first=residual + queue + beside.read,
        away=away,
        load=begin * beside.load,
    )


def _met(begin: Num, iteration: Num, costs: Costs) -> Num:
    """Length of the step that a request meets which comes at any time: long ones are met more."""
    share = minimum(begin * costs.one / iteration, _FULL)
    return iteration + costs.one**2 * begin / iteration / (1 - share**2)


def _queue(loop: Loop, beside: Costs, begin: Num, company: Num) -> tuple[Num, Num]:
    """How long a prompt waits for others, and in how many steps its request does not decode.

    It waits for those left over, and those that came in its step. Of the latter half are read
    before it; those behind it make its last step longer, as far as a step has room for more.
    """
    size = beside.load
    fits = maximum(1 - size, 0.0)
    with_it = company * (1 + fits) / 2
    second, later = _further(beside)
    wait = second * with_it + (later - second) * (with_it - 1 + math.e**-with_it)
    if not loop.mixed:
        return wait, 0.0
    load = minimum(begin * size, _FULL)
    left = maximum(begin * beside.square + load**2 - load, 0.0) / (2 * (1 - load))
    left = left + company / 2 * size * minimum(size, 1.0)
    wait = wait + left * beside.step + left * later / maximum(size, _LEAST)
    return wait, beside.chunks + left


# -- closing the loop ------------------------------------------------------------------------------


def closed(loop: Loop, costs: Costs, aside: Callable[[Num, State], Num]) -> Num:
    """How many others decode beside a request of so many users.

    Counted in steps, not in time: of the steps of a user's cycle, ``steps`` decode and ``away`` do
    not, so that ``others (steps + away) = (users - 1) steps``. What passes aside from the steps of
    this replica is turned into as many of them.
    """

    def excess(others: Num) -> Num:
        found = state(loop, costs, others)
        away = found.away + aside(others, found) / found.iteration
        over = others * (1 + away / loop.steps) - (loop.users - 1)
        return where(found.load < _FULL, over, loop.users * 1.0)

    return crossing(excess, costs.knots, maximum(loop.users - 1, 0.0))


def opened(loop: Loop, costs: Costs, most: Num) -> Num:
    """How many others decode beside a request where so many come a second: ``rate D``."""

    def excess(others: Num) -> Num:
        found = state(loop, costs, others)
        return where(found.load < _FULL, others - loop.rate * found.decoding, 1.0 + others)

    return crossing(excess, costs.knots, most)


def crossing(excess: Callable[[Num], Num], knots: Num, most: Num) -> Num:
    """Where a rising function turns positive, from 0 to ``most``; ``most`` if it never does.

    All knots are tried at once; between the last negative one and the next, false position with
    the Illinois rule closes in. A bound of 60 rounds holds, and each keeps the root between.
    """
    import numpy as np

    tried = minimum(knots, most)
    values = excess(tried)
    negative = values <= 0
    last = len(knots) - 1 - np.argmax(negative[..., ::-1], axis=-1)
    at = np.where(negative.any(axis=-1), np.minimum(last, len(knots) - 2), 0)[..., None]
    low, high = (np.take_along_axis(tried, at + i, axis=-1) for i in (0, 1))
    below, above = (np.take_along_axis(values, at + i, axis=-1) for i in (0, 1))
    middle = low
    for _ in range(_ROUNDS):
        span = np.where(above > below, above - below, 1.0)
        middle = np.clip(low - below * (high - low) / span, low, high)
        value = excess(middle)
        negative = value <= 0
        # The end that stays counts half, so that the next guess falls on its side.
        above = np.where(negative, above / 2, value)
        below = np.where(negative, value, below / 2)
        low, high = np.where(negative, middle, low), np.where(negative, high, middle)
        if np.all((np.abs(value) <= _CLOSE * (1 + middle)) | (high - low <= _CLOSE * (1 + high))):
            break
    return middle
