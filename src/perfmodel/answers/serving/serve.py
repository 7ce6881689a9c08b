"""Requests on devices: time to first token, time a token, throughput, and what limits them."""

from __future__ import annotations

from math import floor, log10
from typing import Any, Final, NamedTuple

from perfmodel.answers._asked import placed
from perfmodel.answers.holding.policies import PolicyLike
from perfmodel.answers.memory import max_batch
from perfmodel.answers.serving.costs import (
    Costs,
    Server,
    costs_of,
    decode_costs,
    knots_up_to,
)
from perfmodel.answers.serving.pools import Pools, pools_of, waiting
from perfmodel.answers.serving.record import Serving
from perfmodel.answers.serving.scheduler import (
    Disaggregated,
    Scheduler,
    SchedulerLike,
    Speculation,
    resolve_scheduler,
)
from perfmodel.answers.serving.steady import Loop, State, burst, closed, opened, state
from perfmodel.answers.serving.workload import Workload
from perfmodel.base._num import Num, maximum, minimum
from perfmodel.base.errors import InvalidValueError, NoCacheError, UnboundedError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import checked_kind
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.forms import ServerForm
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency, resolve_server
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

MOST: Final = 2.0**16  # sequences of a replica where nothing else limits them
_SETTLE: Final = 4  # rounds
_HALVES: Final = 40  # of the way to the largest rate
_ENDS: Final = 1 - 2e-6  # load of prompts up to which their queue has an end
MANY: Final = 2.0**20  # users of a replica that writes, who keep all pools busy


def serve(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    workload: Workload,
    *,
    parallelism: Parallelism = SINGLE,
    precision: PrecisionLike = None,
    scheduler: SchedulerLike = "chunked",
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    server: ServerForm | None = None,
    speculation: Speculation | None = None,
    policy: PolicyLike = "logical",
) -> Serving:
    """Estimate the steady state of a server: means over the requests of a workload.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    workload : Workload
        Lengths of prompts and outputs, and users at once or requests a second.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; replicas share the requests.
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    scheduler : Scheduler or Disaggregated or str
        ``"chunked"``, ``"prefill-first"``, ``"disaggregated"``, or one with settings of its own.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels, host and server are meant, of ``engines()``; implies "auto".
    server : ServerForm or None
        What a server adds to a request beside its steps; None: what is known of the engine.
    speculation : Speculation or None
        How tokens are guessed and checked; None: they are not.
    policy : MemoryPolicy or str
        How the engine uses the memory, for how many sequences there is room.

    Returns
    -------
    Serving
        ``ttft``, ``tpot``, ``end_to_end`` [s], rates [1/s], utilizations, and what limits them.

    Raises
    ------
    UnknownKeyError
        If there is no preset, engine or policy of that name.
    InvalidValueError
        If an argument is not what it should be, or requests come faster than they can be answered;
        the message says at what rate they can.
    DoesNotFitError
        If not even one sequence fits the memory.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.

    Notes
    -----
    Means of a steady state, and no percentiles. ``tpot`` is ``(end to end - ttft) / (O - 1)``, as
    serving benchmarks define it.

    Examples
    --------
    One user waits for a prefill, then for decode steps; nobody else is in the way:

    >>> from perfmodel import GpuSpec, ModelShape, Workload, serve
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> shape = ModelShape.from_totals(params=8e9)
    >>> alone = serve(shape, h100, Workload(prompt=2048, output=256, concurrency=1))
    >>> f"{alone.ttft * 1e3:.1f} ms, then {alone.tpot * 1e3:.2f} ms a token"
    '33.1 ms, then 4.78 ms a token'

    64 users get almost as many tokens each, but for the prompts that are read in between:

    >>> many = serve(shape, h100, Workload(prompt=2048, output=256, concurrency=64))
    >>> f"{many.tpot * 1e3:.1f} ms, {many.interference:.0%} of it prompts of others"
    '12.1 ms, 61% of it prompts of others'
    """
    place = placed(model, gpu, parallelism)
    checked_kind("workload", workload, Workload, "pm.Workload(prompt=, output=, concurrency=)")
    order = resolve_scheduler(scheduler)
    if speculation is not None:
        checked_kind("speculation", speculation, Speculation, "pm.Speculation(tokens=, ...)")
    if server is not None:
        checked_kind("server", server, ServerForm, "pm.ServerForm(steps=, delay=)")
    model.require_positions(workload.longest_context - 1)
    asked = Asked(
        workload=workload,
        order=order,
        speculation=speculation,
        server=resolve_server(server, engine),
        **_replicas(place.parallelism, order),
    )
    one = Server(
        model,
        place.gpu,
        model.resolve_precision(precision),
        resolve_efficiency(efficiency, place.gpu, engine),
        asked.replica,
        place.cluster,
    )
    room = _room(one, asked, policy)
    found = _answer(one, asked, room)
    return Serving(
        model=model,
        gpu=place.gpu,
        cluster=place.cluster,
        parallelism=place.parallelism,
        precision=one.precision,
        efficiency=one.efficiency,
        workload=workload,
        scheduler=order,
        speculation=speculation,
        server=asked.server,
        capacity=room,
        **found,
    )


class Asked(NamedTuple):
    """What is asked of the replicas, and how they are asked."""

    workload: Workload
    order: Scheduler | Disaggregated
    speculation: Speculation | None
    server: ServerForm
    replica: Parallelism  # how one of them is divided
    lanes: int  # replicas in all
    coupled: int  # of them, how many step together

    @property
    def accepted(self) -> float:
        """Tokens that a step gives a sequence [1]."""
        return 1.0 if self.speculation is None else self.speculation.expected_tokens

    @property
    def most(self) -> float:
        """Sequences whose tokens a step has room for, and one token of a prompt beside [1]."""
        order = self.order
        if isinstance(order, Disaggregated) or order.kind != "chunked":
            return MOST
        width = 1 if self.speculation is None else self.speculation.tokens + 1
        return max(1.0, (order.budget - 1) // width)


def _replicas(ways: Parallelism, order: Scheduler | Disaggregated) -> dict[str, Any]:
    """Replicas that share no experts are servers of their own."""
    pool = order.decode if isinstance(order, Disaggregated) else 1
    lanes = pool * ways.data
    if ways.data > 1 and ways.expert <= ways.tensor:
        return {"replica": ways.model_copy(update={"data": 1}), "lanes": lanes, "coupled": 1}
    return {"replica": ways, "lanes": lanes, "coupled": ways.data}


def _room(one: Server, asked: Asked, policy: PolicyLike) -> int | None:
    """Sequences that all replicas hold at once; None where nothing limits them."""
    work, order = asked.workload, asked.order
    limits = [] if order.sequences is None else [order.sequences * asked.lanes]
    context = work.reserved_context if order.reserves else work.mean_context
    speculation = asked.speculation
    if one.chip().capacity is not None and one.model.has_cache:
        try:
            held = max_batch(
                one.model,
                one.chip(),
                context=max(1, round(context)),
                precision=one.precision,
                policy=policy,
                parallelism=one.parallelism,
                draft=None if speculation is None else speculation.draft,
            )
            limits.append(held * asked.lanes // asked.coupled)
        except (UnboundedError, NoCacheError):
            pass
    return min(limits, default=None)


def _answer(one: Server, asked: Asked, room: int | None) -> dict[str, Any]:
    """The steady state of all replicas, as fields of a record."""
    work = asked.workload
    most = min(asked.most, MOST if room is None else max(1.0, room / asked.lanes))
    if work.rate is None:
        users = work.concurrency or 1.0
        return _plain(_system(one, asked, min(most, users)).of_users(users, most))
    system, places = _system(one, asked, most), None if room is None else most
    fastest = _number(system.fastest(most))
    if work.rate < fastest:
        found = _plain(system.of_rate(work.rate, places, fastest))
        if found["load"] < _ENDS:
            return found
    # The queue of prompts may lose its end before a loop of users is at its fastest.
    low, high = 0.0, fastest
    for _ in range(_HALVES):
        middle = (low + high) / 2
        good = _number(system.of_rate(middle, places, fastest)["load"]) < _ENDS
        low, high = (middle, high) if good else (low, middle)
    raise InvalidValueError(
        f"Workload.rate: expected less than {_rounded_down(low)} requests a second, the most that "
        f"{_words(one, asked)} can answer, got {work.rate:g}"
    )


def _rounded_down(number: float) -> str:
    """Five digits of a number, never more than it is."""
    return f"{number - 0.5 * 10.0 ** (floor(log10(number)) - 4):.5g}" if number else "0"


def _words(one: Server, asked: Asked) -> str:
    many = asked.replica.devices * asked.lanes // asked.coupled
    return f"{one.chip().name}" if many == 1 else f"{many} x {one.chip().name}"


def _system(one: Server, asked: Asked, most: float) -> System:
    knots = knots_up_to(most + most**0.5 + 3)  # their number scatters
    work, order = asked.workload, asked.order
    if isinstance(order, Disaggregated):
        costs = decode_costs(one, work, asked.speculation, knots)
        return System(asked, costs, pools_of(one, work, order))
    return System(asked, costs_of(one, work, order, asked.speculation, knots), None)


class System(NamedTuple):
    """Replicas with their costs, whose loop is to be closed."""

    asked: Asked
    costs: Costs
    pools: Pools | None

    def loop(self, users: float | None, rate: float | None) -> Loop:
        """What the steady state depends on, of one replica."""
        asked, order = self.asked, self.asked.order
        tokens = asked.workload.decode_tokens
        return Loop(
            steps=tokens / asked.accepted,
            tokens=tokens,
            users=users,
            rate=rate,
            mixed=isinstance(order, Scheduler) and order.kind == "chunked",
            interference=asked.server.interference,
            lanes=asked.coupled,
        )

    def of_users(self, users: Num, most: Num) -> dict[str, Any]:
        """The closed loop of so many users; of a replica at most so many decode."""
        lanes = self.asked.lanes
        # Prompts that are read elsewhere take no room here; of others, the rest wait outside.
        held = users if self.pools else minimum(users, most * lanes)
        # A router deals users evenly; where prompts have a pool of their own, requests.
        each = 1 + (held - 1) / lanes if self.pools else maximum(held / lanes, 1.0)
        loop = self.loop(each, None)

        def aside(others: Num, found: State) -> Num:
            return self._aside(found, lanes * others / found.decoding) + self._burst(loop, others)

        others = closed(loop, self.costs, aside, most - 1)
        found = state(loop, self.costs, others)
        ttft = self._first(found, aside(others, found), held)
        # Where all places are taken, the rest wait for one (Little's law).
        full = lanes * most / found.decoding
        late = maximum(held / full - found.decoding - ttft, 0.0)
        rate = held / (ttft + late + found.decoding)
        answer = self._record(others, found, ttft + late + (users - held) / rate, rate)
        return answer | {"waiting": rate * late + users - held}

    def users_at(self, others: Num) -> tuple[Num, Num, Num]:
        """Users with whom so many others decode beside a request; its TTFT and TPOT.

        The loop the other way round. Its users stand on both sides, for the number that decode
        scatters among them, but weakly: a few rounds settle it.
        """
        lanes, each = self.asked.lanes, 1 + others
        for _ in range(_SETTLE):
            loop = self.loop(each, None)
            found = state(loop, self.costs, others)
            aside = self._aside(found, lanes * others / found.decoding) + self._burst(loop, others)
            each = 1 + others * (1 + (found.away + aside / found.iteration) / loop.steps)
        users = 1 + (each - 1) * lanes if self.pools else each * lanes
        return users, self._first(found, aside, users), found.decoding / loop.tokens

    def _first(self, found: State, aside: Num, users: Num) -> Num:
        """From a request of so many users to its first token, whatever passes aside from steps."""
        first = found.first + aside
        if self.pools is None:
            return first
        # A request meets the queue of all users but its own; the pool has time for no more prompts.
        return maximum(first, users * self.pools.prefill / self.pools.replicas - found.decoding)

    def fastest(self, most: Num) -> Num:
        """Requests a second that so many users of each replica have answered, and no more."""
        many = (MANY if self.pools else most) * self.asked.lanes
        return self.of_users(many, most)["requests_per_second"]

    def of_rate(self, rate: Num, room: Num | None, fastest: Num) -> dict[str, Any]:
        """The open loop of so many requests a second, of at most ``fastest``."""
        lanes = self.asked.lanes
        loop = self.loop(None, rate / lanes)
        most = MOST if room is None else room
        others = opened(loop, self.costs, most)
        found = state(loop, self.costs, others)
        ttft = found.first + self._aside(found, rate)
        queue = 0.0
        if room is not None:
            # Whoever finds no room waits for one of so many places, each taken for no longer than
            # when all are. Prompts that are read elsewhere take none.
            stay = found.decoding if self.pools else ttft + found.decoding
            stay = minimum(stay, lanes * room / fastest)
            queue = waiting(stay, 2.0, rate / lanes * stay / room, room)
        return self._record(others, found, ttft + queue, rate)

    def _aside(self, found: State, rate: Num) -> Num:
        """What passes before a first token aside from steps: another pool, the server's delays."""
        server = self.asked.server
        late = server.time(step=found.iteration)
        if self.pools is not None:
            return late + self.pools.first(rate)
        # Requests that are on their way for a while come at any time of a step.
        return late + found.met * (server.steps + server.delay > 0)

    def _burst(self, loop: Loop, others: Num) -> Num:
        """All users begin at once: in the first of R rounds a prompt waits for half the others."""
        rounds = self.asked.workload.rounds
        if rounds is None:
            return 0.0
        if self.pools is not None:
            return (loop.users - 1) / 2 * self.pools.prefill / self.pools.replicas / rounds
        return burst(loop, self.costs, others, rounds)

    def _record(self, others: Num, found: State, ttft: Num, rate: Num) -> dict[str, Any]:
        asked, pools = self.asked, self.pools
        fields: dict[str, Any] = {
            "ttft": ttft,
            "tpot": found.decoding / asked.workload.decode_tokens,
            "requests_per_second": rate,
            "decoding": rate * found.decoding,
            "together": 1 + others,
            "waiting": 0.0,
            "plain": found.plain,
            "iteration": found.iteration,
            "load": found.load,
        }
        if pools is not None:
            fields |= {
                "load": minimum(rate * pools.prefill / pools.replicas, 1.0),
                "transfer": pools.transfer,
                "pools": (pools.prefill, found.decoding / (1 + others)),
            }
        return fields


def _plain(answer: dict[str, Any]) -> dict[str, Any]:
    """The one element of each number of an answer for one candidate."""
    return {
        name: tuple(map(_number, item)) if isinstance(item, tuple) else _number(item)
        for name, item in answer.items()
    }


def _number(number: Num) -> float:
    return float(number[0]) if hasattr(number, "__len__") else float(number)
