"""The steady state of a server: what follows from how many sequences decode beside a given one.

Everything is explicit in ``others``, the mean number of other sequences that decode in a step of a
given one. Little's law closes the loop: a search along one number, of many candidates at once. All
numbers are arrays whose last axis has one element, and the rest an element a candidate.
``docs/serving.md`` derives each line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Final, NamedTuple

from perfmodel.answers.serving.costs import Costs
from perfmodel.base._num import Num, maximum, minimum, where
from perfmodel.base.errors import InvalidValueError

_ROUNDS: Final = 120  # of the search along one number; it mostly needs eight
_CLOSE: Final = 1e-9
_FULL: Final = 1 - 1e-6  # load of a queue from which on it has no end
_LEAST: Final = 1e-12
_MANY: Final = 700.0  # of a power of e
_LAST_BEND: Final = 8  # prompts in a step from which on each adds the same


class Loop(NamedTuple):
    """What the steady state depends on beside the costs of steps."""

    steps: Num
    """Steps in which a request decodes [1]."""
    tokens: Num
    """Its tokens after the first [1]."""
    users: Num
    """Users of one replica in a closed loop; None: requests come by themselves [1]."""
    rate: Num
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
    """Share of the budget of steps that prompts take, or of the time where they are read first; at
    1 their queue has no end [1]."""
    met: Num = 0.0
    """What is left of the running step for a request that comes at any time of it, where ``first``
    has it come as a step ends [s]."""


def prompts_in_step(mean: Num, costs: Costs, begun: int = 0) -> Num:
    """By how much prompts make a step longer: their number is Poisson, their time has bends.

    Parameters
    ----------
    mean : float or array
        Prompts that begin in a step, on average [1].
    costs : Costs
        What one, two, four, eight and sixteen of them add [s].
    begun : int
        1 if one more is read there whose own time does not count, else 0 [1].

    Returns
    -------
    float or array
        Mean time [s].
    """
    slopes, above = _slopes(costs), _above(mean)
    time = slopes[begun] * mean
    for bend in range(begun, len(slopes) - 1):  # at 1, 2, 4 and 8 prompts
        time = time + (slopes[bend + 1] - slopes[bend]) * above[2**bend - begun]
    return time


def _slopes(costs: Costs) -> list[Num]:
    """What each further prompt in a step adds: the first may fill idle units, later ones may not.

    Of the first, the second, those up to the fourth, to the eighth, and all that follow.
    """
    known = [costs.one, costs.two, costs.four, costs.eight, costs.sixteen]
    return [costs.one, *((b - a) / 2**i for i, (a, b) in enumerate(pairwise(known)))]


def _above(mean: Num) -> list[Num]:
    """By how much a Poisson number A is above 0, 1, ... and 8, on average: ``E[(A - k)+]``."""
    chance = math.e**-mean
    found, more = [mean], 1 - chance  # the chance that A is k or more
    for k in range(1, _LAST_BEND + 1):
        found.append(found[-1] - more)
        chance = chance * mean / k
        more = more - chance
    return found


def state(loop: Loop, costs: Costs, others: Num) -> State:
    """The times of a request beside which so many others decode, on average."""
    return (_of_users if loop.rate is None else _of_rate)(loop, costs, others)


def mean_step(costs: Costs, others: Num, users: Num | None) -> Num:
    """A step without prompts, on average over how many others decode in it.

    Their number scatters: binomially among so many users, else like Poisson's. Two numbers with
    the same mean, variance and skewness stand for it (a Gauss rule), for steps bend with experts.
    """
    chance = 0.0 if users is None else others / maximum(users - 1, _LEAST)
    variance, skew = others * (1 - chance), 1 - 2 * chance
    off = (variance + skew**2 / 4) ** 0.5
    low, high = (others + skew / 2 + sign * off for sign in (-1, 1))
    weight = (high - others) / maximum(high - low, _LEAST)
    at_low, at_high = (costs.step_at(1 + maximum(x, 0.0)) for x in (low, high))
    return weight * at_low + (1 - weight) * at_high


def _of_users(loop: Loop, costs: Costs, others: Num) -> State:
    """Requests come at the end of a step, each as another one is answered there."""
    beside, together = costs.at(others), costs.at(1 + others)
    step = mean_step(costs, others, loop.users)
    begin = others / loop.steps  # requests of others that end in a step, and as many begin
    # Where prompts stop all decoding, those that come with a request's own do not hold it up.
    seen = begin if loop.mixed else begin * (1 - 1 / loop.steps)
    iteration = step + _held_up(loop, seen, together)
    size, fits = beside.load, maximum(1 - beside.load, 0.0)
    wait, left, load = prompts_in_step(begin * (1 + fits) / 2, beside, 1), 0.0, begin * size
    if loop.mixed:
        left = _left(load, begin * beside.square) + begin / 2 * size * minimum(size, 1.0)
        wait = wait + left * (beside.step + _slopes(beside)[-1] / maximum(size, _LEAST))
    else:
        # No budget holds such prompts up, but they hold up tokens.
        load = 1 - step / iteration
    away = (beside.chunks + left) * loop.mixed
    # At any time a long step is met more often than a short one: half of E[t^2] / E[t] is left.
    long = iteration + begin * together.one**2 / maximum(together.chunks, _LEAST) / iteration
    most = maximum(loop.users - 1, _LEAST)
    busy = 1 - maximum(1 - others / most, 0.0) ** most
    first = wait + beside.read
    return State(iteration, step, loop.steps * iteration, first, away, load, busy * long / 2)


def _of_rate(loop: Loop, costs: Costs, others: Num) -> State:
    """Requests come at any time: in long steps more than in short ones."""
    beside, together = costs.at(others), costs.at(1 + others)
    step, begin = mean_step(costs, others, None), others / loop.steps
    usual = step + prompts_in_step(begin, together)
    busy = 1 - math.e ** -minimum(loop.rate * (loop.steps * usual + beside.read), _MANY)
    arrives = _beside_tokens if loop.mixed else _before_tokens
    came = arrives(loop, beside, together, Steps(step, usual, begin, busy))
    # Who came while the own prompt was read, and was not read with it, holds up its tokens.
    seen = maximum(begin + loop.rate * came.behind / loop.steps, 0.0)
    iteration = step + _held_up(loop, seen, together)
    first = busy * came.met / 2 + came.queue + beside.read
    return State(iteration, step, loop.steps * iteration, first, 0.0, came.load)


class Steps(NamedTuple):
    """What steps a request meets that comes at any time."""

    plain: Num
    """Without prompts [s]."""
    usual: Num
    """With the prompts that begin in one, on average [s]."""
    begin: Num
    """Those prompts [1]."""
    busy: Num
    """Chance that there is a step to wait for [1]."""


class Arrival(NamedTuple):
    """What a request meets that comes at any time."""

    met: Num
    """Length of the step in which it comes [s]."""
    queue: Num
    """Its wait for prompts of others from the end of that step on [s]."""
    behind: Num
    """Time in which others come whose prompts hold up its tokens, beside those that come while it
    decodes [s]."""
    load: Num
    """Share of what steps can take of prompts that is taken [1]."""


def _beside_tokens(loop: Loop, beside: Costs, together: Costs, steps: Steps) -> Arrival:
    """Prompts are read beside tokens, a budget of them a step."""
    size, prompt = beside.load, together.one
    full = steps.plain + prompt / maximum(size, 1.0)  # a step whose budget is used up
    load = loop.rate * (size * steps.plain + prompt)
    kept = minimum(load, _FULL)
    left = _left(kept, loop.rate * full * beside.square) * full
    # Prompts of a step and more queue in seconds, and for a step where there was no queue.
    long = kept * full + (1 - kept) * steps.plain
    after = left + kept * steps.plain / 2
    # At the end of a step fewer are unread than at any time, for long steps are those that read.
    plain = loop.rate * steps.plain * size
    unread = plain / (1 - kept + plain) / maximum(kept, _LEAST)
    later = (after + beside.read) * (1 - unread) + steps.busy * long / 2 * (1 - unread)
    # Shorter ones: all that came in a step are read in the next.
    share = minimum(steps.begin * prompt / steps.usual, _FULL)
    short = steps.usual + prompt**2 * steps.begin / steps.usual / (1 - share**2)
    with_it = prompts_in_step(loop.rate * short, beside, 1) + left
    soon = with_it + beside.read - steps.usual
    fits = size < 1
    return Arrival(
        where(fits, short, long), where(fits, with_it, after), where(fits, soon, later), load
    )


def _before_tokens(loop: Loop, beside: Costs, together: Costs, steps: Steps) -> Arrival:
    """Prompts are read before tokens: who comes meets a step of either kind."""
    fits, load = beside.load < 1, prompts_in_step(steps.begin, together) / steps.usual
    met = load * together.one + (1 - load) * steps.plain
    with_it = loop.rate * met * (1 + maximum(1 - beside.load, 0.0)) / 2
    # Of those that fill their steps, some wait for the prompts of several.
    queue = prompts_in_step(with_it, beside, 1) / where(fits, 1.0, 1 - minimum(load, _FULL))
    behind = queue + beside.read - steps.plain + where(fits, 0.0, steps.busy * met / 2)
    return Arrival(met, queue, behind, load)


def _held_up(loop: Loop, prompts: Num, costs: Costs) -> Num:
    """What so many prompts in a step take from a sequence that decodes in it."""
    coupled = (1 - math.e ** -(loop.lanes * prompts)) * (loop.lanes > 1)
    return loop.interference * prompts_in_step(maximum(prompts, coupled), costs)


def _left(load: Num, square: Num) -> Num:
    """Full steps for which prompts left over from earlier ones suffice, on average.

    ``(a E[n^2] + u^2 - u) / (2 (1 - u))`` for a prompts of n steps each that come in a step, of
    whose room they take u: exact for whole steps.
    """
    kept = minimum(load, _FULL)
    return maximum(square + kept**2 - kept, 0.0) / (2 * (1 - kept))


def burst(loop: Loop, costs: Costs, others: Num, rounds: Num) -> Num:
    """What a common start adds to a first token, on average over so many rounds.

    All users come at once; in the first round each waits for half of the others' prompts, which
    fill the steps.
    """
    beside = costs.at(others)
    each = _slopes(beside)[-1] + loop.mixed * beside.step * beside.load
    return (loop.users - 1) / 2 * each / rounds


# -- closing the loop ------------------------------------------------------------------------------


def closed(
    loop: Loop, costs: Costs, aside: Callable[[Num, State], Num], most: Num = math.inf
) -> Num:
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

    return crossing(excess, costs.knots, maximum(minimum(loop.users - 1, most), 0.0))


def opened(loop: Loop, costs: Costs, most: Num) -> Num:
    """How many others decode beside a request where so many come a second: ``rate D``."""

    def excess(others: Num) -> Num:
        found = state(loop, costs, others)
        return where(found.load < _FULL, others - loop.rate * found.decoding, 1.0 + others)

    import numpy as np

    # Of several the first: where a server that begins empty comes to rest.
    tried = minimum(costs.knots, most)
    over = excess(tried) > 0
    first = np.where(over.any(axis=-1), np.argmax(over, axis=-1), over.shape[-1] - 1)
    return crossing(excess, costs.knots, _picked(tried, first[..., None]))


def crossing(excess: Callable[[Num], Num], knots: Num, most: Num) -> Num:
    """Where a rising function turns positive, from 0 to ``most``; ``most`` if it never does.

    Halving finds the two knots between which it does, and Chandrupatla's method the place: it
    halves, too, but where a parabola through the last three points is sure to be nearer. Where it
    creeps, for the function bends sharply, every third round halves all the same.

    Raises
    ------
    InvalidValueError
        If it has not settled after 120 rounds.
    """
    import numpy as np

    tried = minimum(knots, most)
    last = 0 * excess(tried[..., :1]) + len(knots) - 1
    left, right = (0 * last).astype(int), last.astype(int)
    for _ in range(len(knots).bit_length()):
        middle = (left + right) // 2
        negative = excess(_picked(tried, middle)) <= 0
        left, right = np.where(negative, middle, left), np.where(negative, right, middle)
    left = np.minimum(left, right - 1)
    here, far = _picked(tried, left), _picked(tried, right)
    at_here, at_far, part = excess(here), excess(far), 0.5
    for turn in range(_ROUNDS):
        guess = here + part * (far - here)
        value = excess(guess)
        same = (value > 0) == (at_here > 0)
        past, at_past = np.where(same, here, far), np.where(same, at_here, at_far)
        far, at_far = np.where(same, far, here), np.where(same, at_far, at_here)
        here, at_here = guess, value
        span = np.abs(far - here)
        if np.all((np.abs(value) <= _CLOSE * (1 + guess)) | (span <= _CLOSE * (1 + guess))):
            return guess
        part = 0.5 if turn % 3 == 1 else _parabola(here, far, past, at_here, at_far, at_past)
        least = np.minimum(_CLOSE * (1 + guess) / 2 / np.maximum(span, _LEAST), 0.5)
        part = np.clip(part, least, 1 - least)
    raise InvalidValueError(
        f"workload: expected a steady state within {_ROUNDS} rounds, got none; "
        "fewer users, or a lower rate, leave more room"
    )


def _picked(knots: Num, at: Num) -> Num:
    """The knot of a number, of each candidate."""
    import numpy as np

    return np.take_along_axis(np.broadcast_to(knots, (*at.shape[:-1], knots.shape[-1])), at, -1)


def _parabola(a: Num, b: Num, c: Num, at_a: Num, at_b: Num, at_c: Num) -> Num:
    """How far a root is on the way from a to b, by the inverse parabola through three points.

    Half of it where that parabola is not sure to stay between them.
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        x, y = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        sure = (y * y < x) & ((1 - y) ** 2 < 1 - x)
        over = at_a / (at_b - at_a)
        root = over * at_c / (at_b - at_c)
        root = root + (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
    return np.where(sure, root, 0.5)
