"""Many candidates at once: how many replicas a load needs, and how much load replicas bear.

Every number is an array with a candidate a row and one column. The steady state is that of
``serve``; what is searched here is only along whole replicas, or along the load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

from perfmodel.answers.planning.candidates import Candidate
from perfmodel.answers.planning.demand import Demand
from perfmodel.answers.serving.costs import Costs
from perfmodel.answers.serving.pools import SPARE, Pools
from perfmodel.answers.serving.scheduler import Disaggregated
from perfmodel.answers.serving.serve import MANY, Asked, System
from perfmodel.answers.serving.steady import state
from perfmodel.base._num import Num, minimum
from perfmodel.work.parallel import SINGLE

_TURNS: Final = 80  # of a search: enough to halve 1e24 to one
_EVEN: Final = 1 + 1e-9  # a target that is met to rounding is met
_STABLE: Final = 1 - 1e-9  # of the rate at which a queue has no end
_LEFT: Final = 1e-8  # share of a load that a search may be off by
IDLE: Final = 50.0  # replicas for each request in the servers: all but alone


class Answers(NamedTuple):
    """Steady states of all candidates."""

    numbers: dict[str, Any]
    """Fields of a steady state, by name."""
    used: dict[Any, Any]
    """Share of each limit that is used; above 1 it is broken [1]."""

    @property
    def works(self) -> Any:
        """Whether all limits are kept."""
        import numpy as np

        shares = [
            share < _STABLE if name == "rate" else share <= _EVEN
            for name, share in self.used.items()
        ]
        return np.logical_and.reduce(shares)

    def of(self, index: int) -> Answers:
        """Those of one candidate, as plain numbers."""

        def plain(values: dict[Any, Any]) -> dict[Any, Any]:
            kept = {name: item for name, item in values.items() if getattr(item, "ndim", 0) == 2}
            return {name: float(item[index, 0]) for name, item in kept.items()}

        return Answers(plain(self.numbers), plain(self.used))


class Many:
    """Candidates of one kind: all with prompts beside tokens, or all with two pools."""

    def __init__(self, demand: Demand, found: Sequence[Candidate], *, apart: bool) -> None:
        self.demand, self.apart = demand, apart
        self.coupled = _column([one.division.ways.data for one in found])
        order = Disaggregated() if apart else demand.scheduler
        self._asked = Asked(
            workload=demand.workload,
            order=order,
            speculation=demand.speculation,
            server=demand.server,
            replica=SINGLE,
            lanes=1,
            coupled=1,
        )
        self.most = minimum(_column([one.most for one in found]), self._asked.most)
        self._costs = _stacked([one.costs for one in found], apart=apart)
        self._pools = _pooled([one.pools for one in found]) if apart else None

    def answers(self, load: Num, replicas: Num, reading: Num = 1) -> Answers:
        """What so many replicas do under a load; of pools, so many others read prompts."""
        system = self._system(replicas, reading)
        lanes, most = system.asked.lanes, self.most
        load = load + 0 * most
        used: dict[Any, Any] = {}
        if self.demand.is_open:
            fastest = self._fastest(replicas, reading)
            numbers = system.of_rate(load, most, fastest)
            used["rate"] = load / fastest
        else:
            numbers = system.of_users(load, most)
            used |= self._read(load, numbers["tpot"], reading)
        tokens = self.demand.workload.decode_tokens
        numbers["end_to_end"] = numbers["ttft"] + tokens * numbers["tpot"]
        numbers["prompt_share"] = self._prompts(system, numbers, replicas, reading)
        for name, target in self.demand.slo.targets.items():
            used[name] = numbers[name] / target
        users = numbers["requests_per_second"] * numbers["end_to_end"]
        used["capacity"] = (users if self.demand.is_open else load) / (lanes * most)
        return Answers(numbers, used)

    def _read(self, users: Num, tpot: Num, reading: Num) -> dict[Any, Any]:
        """How full the pool that reads prompts would be, if nobody waited for it.

        Asked where no target ends that wait: users in a loop would all stand there, the few that
        decode would do so quickly, and next to nothing would be written.
        """
        if self._pools is None or {"ttft", "end_to_end"} & {*self.demand.slo.targets}:
            return {}
        each, decoding = self._pools.prefill, self.demand.workload.decode_tokens * tpot
        return {"rate": users * each / (reading * (each + decoding))}

    def _fastest(self, replicas: Num, reading: Num) -> Num:
        """Requests a second that so many replicas answer; of two pools, the one that is full first.

        Replicas do not know of each other, so that of one pool they answer so many times more.
        """
        if self._pools is None:
            return replicas * self._alone
        return minimum(replicas * self._alone, reading * (1 - SPARE) / self._pools.prefill)

    @cached_property
    def _alone(self) -> Num:
        """Requests a second that one replica answers with all its places taken."""
        system = self._system(1, 1)
        if self._pools is None:
            return system.fastest(self.most)
        full = state(system.loop(MANY, None), self._costs, self.most - 1)
        return self.coupled * self.most / full.decoding

    def _system(self, replicas: Num, reading: Num) -> System:
        lanes = replicas * self.coupled
        asked = self._asked._replace(lanes=lanes, coupled=self.coupled)
        pools = None if self._pools is None else self._pools._replace(replicas=reading)
        return System(asked, self._costs, pools)

    def _prompts(self, system: System, numbers: dict[str, Any], replicas: Num, reading: Num) -> Num:
        """Share of the devices' time that is spent on prompts: the rest is spent on tokens.

        Of one pool, a request's prompt makes steps longer by w, and its tokens take a part of
        each of n steps: ``w / (w + n t / b)``.
        """
        if self.apart:
            return reading / (reading + replicas)
        own = self._costs.at(numbers["together"] - 1).one
        steps = self.demand.workload.decode_tokens / system.asked.accepted
        return own / (own + steps * numbers["plain"] / numbers["together"])

    # -- how much load replicas bear ---------------------------------------------------------------

    def borne(self, replicas: Any, reading: Any = 1, *, whole: bool) -> tuple[Any, Answers]:
        """The largest load within all limits, and the answers at it; 0 where there is none."""
        import numpy as np

        def works(load: Any) -> Any:
            return self.answers(load, replicas, reading).works

        if self.demand.is_open:
            fastest = self._fastest(replicas, reading)
            lowest = fastest * 1e-6
            found = between(works, lowest, fastest, 1e-6)
        else:
            lowest = 1.0
            found = self._users(replicas, reading)
            if whole:
                found = _next_whole(works, np.floor(found))
        return found, self.answers(np.where(found > 0, found, lowest), replicas, reading)

    def _users(self, replicas: Any, reading: Any) -> Any:
        """The most users within all limits, whole or not; 0 where not even one.

        The loop is searched the other way round: along how many others decode.
        """
        import numpy as np

        system = self._system(replicas, reading)
        places, tokens = system.asked.lanes * self.most, self.demand.workload.decode_tokens
        targets = self.demand.slo.targets

        def works(others: Any) -> Any:
            users, ttft, tpot = system.users_at(others)
            times = {"ttft": ttft, "tpot": tpot, "end_to_end": ttft + tokens * tpot}
            kept = [times[name] <= target * _EVEN for name, target in targets.items()]
            kept += [share < _STABLE for share in self._read(users, tpot, reading).values()]
            return np.logical_and.reduce([users <= places, *kept])

        # One user has no others, and so no loop to close.
        alone = works(0.0 * places)
        low, high = 0.0 * places, self.most + 0.0 * places
        for _ in range(_TURNS):
            if np.all(high - low <= 1e-9 * (1 + low)):
                break
            middle = (low + high) / 2
            good = works(middle)
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        return np.where(alone, minimum(system.users_at(low)[0], places), 0.0)

    # -- how many replicas a load needs ------------------------------------------------------------

    def sized(self, load: float) -> tuple[Any, Any, Answers]:
        """The fewest replicas for a load, of pools those that read too; and their answers.

        Where no number of them is enough, so many that each request is all but alone.
        """
        import numpy as np

        plenty = self._plenty(load)
        ones = plenty * 0 + 1

        def works(writing: Any, reading: Any) -> Any:
            return self.answers(load, writing, reading).works

        if not self.apart:
            # What one replica bears, so many bear so many times.
            each = self.borne(ones, whole=False)[0]
            guess = np.ceil(load / np.where(each > 0, each, 1.0) / _EVEN)
            guess = np.where(each > 0, np.minimum(guess, plenty), plenty)
            writing = _next_fewest(lambda n: works(n, ones), guess, plenty)
            return writing, ones, self.answers(load, writing, ones)
        writing = least(lambda n: works(n, plenty), plenty)
        reading = least(lambda n: works(writing, n), plenty)
        if not self.demand.is_open:  # a longer way to the first token leaves fewer that decode
            writing = least(lambda n: works(n, reading), writing)
        return writing, reading, self.answers(load, writing, reading)

    def _plenty(self, load: float) -> Any:
        """So many replicas that each has a user, or almost no rate."""
        import numpy as np

        many = load + 0 * self.most
        if self.demand.is_open:
            ones = 0 * self.most + 1
            alone = self.answers(load * 1e-6, ones, ones).numbers["end_to_end"]
            many = IDLE * load * alone
        return np.maximum(np.ceil(many / self.coupled), 1.0)


def _next_whole(works: Callable[[Any], Any], found: Any) -> Any:
    """The largest whole number that works next to where a search ended; 0 where none does."""
    import numpy as np

    best = 0 * found
    # Of very many users, the search leaves more than one to rounding.
    for step in (-np.ceil(found * _LEFT), -1, 0, 1):
        tried = np.maximum(found + step, 1.0)
        best = np.where(works(tried) & (found > 0), tried, best)
    return best


def _next_fewest(works: Callable[[Any], Any], found: Any, plenty: Any) -> Any:
    """The fewest that work next to where a search ended; ``plenty`` where none does."""
    import numpy as np

    best = plenty
    for step in (1, 0, -1):
        tried = np.clip(found + step, 1.0, plenty)
        best = np.where(works(tried), np.minimum(tried, best), best)
    return best


def least(works: Callable[[Any], Any], plenty: Any) -> Any:
    """The smallest whole number that works, from 1 on; ``plenty`` where no smaller one does."""
    import numpy as np

    low, high = 0 * plenty, plenty
    for _ in range(_TURNS):
        if np.all(high - low <= 1):
            break
        middle = np.maximum((low + high) // 2, 1.0)
        good = works(middle)
        low, high = np.where(good, low, middle), np.where(good, middle, high)
    return high


def between(works: Callable[[Any], Any], lowest: Any, highest: Any, close: float) -> Any:
    """The largest number that works between two, nearly; 0 where not the lowest does."""
    import numpy as np

    low, high = lowest + 0 * highest, highest
    bears, all_of_it = works(low), works(high)
    for _ in range(_TURNS):
        if np.all(high <= low * (1 + close)):
            break
        middle = (low * high) ** 0.5
        good = works(middle)
        low, high = np.where(good, middle, low), np.where(good, high, middle)
    # A little less, for a steady state is found to rounding: what kept a limit keeps it again.
    return np.where(bears, np.where(all_of_it, highest, low * (1 - close / 10)), 0.0)


def _column(values: Sequence[float]) -> Any:
    import numpy as np

    return np.array(values, dtype=np.float64)[:, None]


def _stacked(found: Sequence[Costs], *, apart: bool) -> Costs:
    """Tables of all candidates, a row each; where prompts have their own pool, without them."""
    import numpy as np

    tables = [np.stack([one[i] for one in found]) for i in range(1, len(Costs._fields))]
    if apart:
        tables[1:] = [0.0 * tables[0]] * (len(tables) - 1)
    return Costs(found[0].knots, *tables)


def _pooled(found: Sequence[Any]) -> Pools:
    prefill, square, transfer = (
        _column([getattr(one, name) for one in found]) for name in ("prefill", "square", "transfer")
    )
    return Pools(prefill, square, transfer, 1)
