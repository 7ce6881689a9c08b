"""What to buy for a load, and what load a purchase bears: every chip and division at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from perfmodel.answers.holding.policies import PolicyLike, resolve_policy
from perfmodel.answers.planning.candidates import (
    Candidate,
    Division,
    PlanLimit,
    Refusal,
    Search,
    candidates,
)
from perfmodel.answers.planning.demand import Demand, Slo, told_apart
from perfmodel.answers.planning.offers import Chips, Offer, Prices, offers, refuse_twice
from perfmodel.answers.planning.record import Plan, Plans, ranked
from perfmodel.answers.planning.solve import Answers, Many
from perfmodel.answers.serving.costs import knots_up_to
from perfmodel.answers.serving.scheduler import Scheduler, Speculation
from perfmodel.answers.serving.serve import MOST
from perfmodel.answers.serving.workload import Workload
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import MAX_COUNT, checked_count, checked_kind, checked_list
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.forms import ServerForm
from perfmodel.sources.catalog import gpu as chip_of
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency, resolve_server
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

Kinds: TypeAlias = tuple[bool, ...]  # without pools of their own for prompts, with them, or both
Pooling: TypeAlias = Literal["together", "apart", "both"]
MOST_DEVICES: Final = 10**9  # of more, whole users are lost to rounding
_SHARES: Final = 15  # ways to divide many replicas between two pools that are tried


def plan(
    model: ModelShape,
    workload: Workload,
    *,
    slo: Slo,
    gpus: Chips | Iterable[Chips] | None = None,
    precisions: Iterable[PrecisionLike] | PrecisionLike = None,
    parallelisms: Iterable[Parallelism] | Parallelism | None = None,
    pools: Pooling = "both",
    max_devices: int | None = None,
    prices: Prices | None = None,
    scheduler: Scheduler | None = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    server: ServerForm | None = None,
    speculation: Speculation | None = None,
    policy: PolicyLike = "logical",
) -> Plans:
    """What to buy so that a load is served within its targets: chips, divided how, at what cost.

    Parameters
    ----------
    model : ModelShape
        The model.
    workload : Workload
        Lengths of prompts and outputs, and users at once or requests a second.
    slo : Slo
        What a mean request may take.
    gpus : str or GpuSpec or Cluster or sequence of them or None
        Chips to choose from, keys among them; None: the whole catalog.
    precisions : Precision or str or sequence of them or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    parallelisms : Parallelism or sequence of Parallelism or None
        How one replica may be divided; None: in all powers of two that links join, up to 16.
    pools : {"together", "apart", "both"}
        Whether prompts are read beside tokens, on devices of their own, or whichever is better.
    max_devices : int or None
        Devices in all, at most; None: as many as it takes [1].
    prices : dict or None
        USD an hour of one device, by key or name of the chip; None: ``prices()``. Chips without
        one are planned without a cost, and come after the others.
    scheduler : Scheduler or None
        How one pool orders its work; None: prompts in chunks beside tokens.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of each
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
    Plans
        One of each chip, precision, division and kind of pools: with the fewest replicas that
        keep all limits, or with the limit that it breaks. The cheapest hour comes first.

    Raises
    ------
    UnknownKeyError
        If there is no chip, preset, engine or policy of that name.
    InvalidValueError
        If an argument is not what it should be, or contradicts another.

    Notes
    -----
    Means of a steady state, and no percentiles. No request waits for memory. An hour costs what
    the devices cost; prompts bear the share of the time that they take, tokens the rest.

    Examples
    --------
    A chip that reads 3.35 TB a second, at 2 USD an hour, and 8 billion parameters in bf16:

    >>> from perfmodel import GpuSpec, ModelShape, Slo, Workload, plan
    >>> chip = GpuSpec(
    ...     name="mine", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
    ... )
    >>> chat = Workload(prompt=1000, output=200, concurrency=300)
    >>> found = plan(
    ...     ModelShape.from_totals(params=8e9), chat, slo=Slo(ttft=0.5, tpot=0.02), gpus=chip,
    ...     prices={"mine": 2.0}, pools="together",
    ... )
    >>> found.best.devices, found.best.cost_per_hour, found.best.binding
    (2, 4.0, 'tpot')
    """
    demand, named = _demanded(
        model, workload, slo, scheduler, efficiency, engine, server, speculation, policy, precisions
    )
    limit = MAX_COUNT if max_devices is None else checked_count("max_devices", max_devices)
    reach = MOST if demand.is_open else min(demand.load, MOST)
    search = _search(demand, named, parallelisms, pools, limit, reach)
    return ranked(sized(search, offers(gpus, prices), _kinds(pools), limit), "hour", limit)


def largest_load(
    model: ModelShape,
    workload: Workload,
    *,
    slo: Slo,
    devices: int,
    gpus: Chips | Iterable[Chips] | None = None,
    precisions: Iterable[PrecisionLike] | PrecisionLike = None,
    parallelisms: Iterable[Parallelism] | Parallelism | None = None,
    pools: Pooling = "both",
    prices: Prices | None = None,
    scheduler: Scheduler | None = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    server: ServerForm | None = None,
    speculation: Speculation | None = None,
    policy: PolicyLike = "logical",
) -> Plans:
    """What so many devices bear within the targets: the most users, or the largest rate.

    Parameters
    ----------
    model : ModelShape
        The model.
    workload : Workload
        Lengths of prompts and outputs. Its ``concurrency`` or ``rate`` only says which of the two
        is sought.
    slo : Slo
        What a mean request may take.
    devices : int
        Devices that there are; a division that does not use all of them leaves some idle [1].
    gpus : str or GpuSpec or Cluster or sequence of them or None
        Chips to choose from, keys among them; None: the whole catalog.
    precisions : Precision or str or sequence of them or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    parallelisms : Parallelism or sequence of Parallelism or None
        How one replica may be divided; None: in all powers of two that links join, up to 16.
    pools : {"together", "apart", "both"}
        Whether prompts are read beside tokens, on devices of their own, or whichever is better.
    prices : dict or None
        USD an hour of one device, by key or name of the chip; None: ``prices()``. Chips without
        one are planned without a cost, and come after the others.
    scheduler : Scheduler or None
        How one pool orders its work; None: prompts in chunks beside tokens.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of each
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
    Plans
        One of each chip, precision, division and kind of pools, each under the largest load that
        it bears; whole users. The cheapest token comes first.

    Raises
    ------
    UnknownKeyError
        If there is no chip, preset, engine or policy of that name.
    InvalidValueError
        If an argument is not what it should be, or contradicts another.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, Slo, Workload, largest_load
    >>> chip = GpuSpec(
    ...     name="mine", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
    ... )
    >>> chat = Workload(prompt=1000, output=200, concurrency=1)
    >>> most = largest_load(
    ...     ModelShape.from_totals(params=8e9), chat, slo=Slo(tpot=0.02), devices=1, gpus=chip
    ... )
    >>> most.best.workload.concurrency
    201.0
    """
    demand, named = _demanded(
        model, workload, slo, scheduler, efficiency, engine, server, speculation, policy, precisions
    )
    there = checked_count("devices", devices)
    if there > MOST_DEVICES:
        raise InvalidValueError(f"devices: expected at most {MOST_DEVICES:,}, got {there:,}")
    search = _search(demand, named, parallelisms, pools, there, MOST)
    return ranked(bearing(search, offers(gpus, prices), _kinds(pools), there), "token", there)


def sized(search: Search, offered: list[Offer], kinds: Kinds, limit: int) -> list[Plan]:
    """The fewest replicas of each candidate that keep all limits, or the limit that it breaks."""
    demand = search.demand

    def rows(every: Sequence[Candidate], *, apart: bool) -> list[Plan]:
        writing, reading, found = Many(demand, every, apart=apart).sized(demand.load)
        return [
            _planned(demand, one, _Size(int(n), int(m) * apart, demand.load), found.of(i), limit)
            for i, (one, n, m) in enumerate(zip(every, writing[:, 0], reading[:, 0], strict=True))
        ]

    return _all(search, offered, kinds, rows)


def bearing(search: Search, offered: list[Offer], kinds: Kinds, devices: int) -> list[Plan]:
    """Each candidate under the largest load that so many devices bear."""

    def rows(every: Sequence[Candidate], *, apart: bool) -> list[Plan]:
        return _bearing(search.demand, every, devices, apart=apart)

    return _all(search, offered, kinds, rows)


class _Rows(Protocol):
    """Candidates of one kind, solved."""

    def __call__(self, every: Sequence[Candidate], *, apart: bool) -> list[Plan]: ...


def _all(search: Search, offered: list[Offer], kinds: Kinds, rows: _Rows) -> list[Plan]:
    """Every candidate as a plan: those ruled out as they are, the others solved together."""
    found = candidates(search, offered)
    done = [
        _refused(search.demand, offer, division, one)
        for offer, division, one in found
        if isinstance(one, Refusal)
    ]
    kept = [one for _, _, one in found if isinstance(one, Candidate)]
    for apart in kinds:
        every = []
        for one in kept:
            if apart and isinstance(one.pools, Refusal):
                done.append(_refused(search.demand, one.offer, one.division, one.pools))
            else:
                every.append(one)
        done += rows(every, apart=apart) if every else []
    return done


class _Size(NamedTuple):
    """How much of a candidate, for which load."""

    writing: int
    reading: int
    load: float


def _bearing(
    demand: Demand, every: Sequence[Candidate], devices: int, *, apart: bool
) -> list[Plan]:
    """Each candidate under the largest load; of two pools, divided as bears most."""
    tried: list[tuple[Candidate, float, float]] = []
    done: dict[int, Plan] = {}
    for one in every:
        width = one.division.ways.devices
        there = devices // width
        if apart and there < 2:
            told = f"two pools take {2 * width:,} devices, of {devices:,}"
            done[id(one)] = _refused(
                demand, one.offer, one.division, Refusal("devices", told), reading=1
            )
        elif apart:
            tried += [(one, float(there - reading), float(reading)) for reading in _shares(there)]
        else:
            tried.append((one, float(there), 0.0))
    if tried:
        import numpy as np

        writing = np.array([[n] for _, n, _ in tried])
        reading = np.array([[m] for _, _, m in tried])
        many = Many(demand, [one for one, _, _ in tried], apart=apart)
        load, found = many.borne(writing, reading, whole=True)
        best: dict[int, int] = {}
        for i, (one, _, _) in enumerate(tried):
            j = best.setdefault(id(one), i)
            best[id(one)] = i if load[i, 0] > load[j, 0] else j
        for key, i in best.items():
            one, n, m = tried[i]
            size = _Size(int(n), int(m), float(load[i, 0]))
            done[key] = _planned(demand, one, size, found.of(i), devices)
    return list(done.values())


def _shares(replicas: int) -> list[int]:
    """How many of so many replicas may read prompts: all numbers, or a few of many."""
    few = range(1, min(replicas, _SHARES + 1))
    if replicas <= _SHARES + 1:
        return list(few)
    return sorted({max(1, round(replicas * i / (_SHARES + 1))) for i in few})


# -- one row ---------------------------------------------------------------------------------------


def _planned(demand: Demand, one: Candidate, size: _Size, found: Answers, limit: float) -> Plan:
    """A candidate that was solved, with the limit that it breaks if it does."""
    ways, numbers = one.division.ways, found.numbers
    devices = ways.devices * (size.writing + size.reading)
    does = bool(found.works)
    broken, reason = (None, "") if does else _broken(demand, found)
    if does and devices > limit:
        broken, reason = "devices", f"it takes {devices:,} devices, of {limit:,}"
    if not does:  # no number of replicas will do: it stands for one of them
        size = size._replace(writing=1, reading=min(size.reading, 1), load=demand.load)
    return Plan.trusted(
        **_what(demand, one.offer, one.division),
        replicas=size.writing,
        prefill_replicas=size.reading,
        workload=demand.loaded(size.load),
        ttft=numbers["ttft"],
        tpot=numbers["tpot"],
        requests_per_second=numbers["requests_per_second"] if does else None,
        batch=numbers["together"] if does else None,
        capacity=int(size.writing * ways.data * one.most),
        prompt_share=numbers["prompt_share"] if does else None,
        used=tuple(found.used.items()),
        broken=broken,
        reason=reason,
    )


def _what(demand: Demand, offer: Offer, division: Division) -> dict[str, Any]:
    return {
        "demand": demand,
        "gpu": offer.gpu,
        "cluster": offer.cluster,
        "price": offer.price,
        "precision": division.precision,
        "parallelism": division.ways,
    }


def _broken(demand: Demand, found: Answers) -> tuple[PlanLimit, str]:
    """The limit that is broken most, in words: no number of replicas keeps it."""
    _, name = max((share, limit) for limit, share in found.used.items())
    target = demand.slo.targets.get(name)
    if target is None:
        return name, "more requests come than can be answered or held"
    words = {"ttft": "a first token", "tpot": "a token", "end_to_end": "a request"}
    takes, most = told_apart(found.numbers[name], target)
    return name, f"{words[name]} takes {takes} even if each request is all but alone, of {most}"


def _refused(
    demand: Demand, offer: Offer, division: Division, why: Refusal, *, reading: int = 0
) -> Plan:
    """A candidate that was ruled out before anything was solved."""
    return Plan.trusted(
        **_what(demand, offer, division),
        replicas=1,
        prefill_replicas=reading,
        workload=demand.workload,
        ttft=None,
        tpot=None,
        requests_per_second=None,
        batch=None,
        capacity=None,
        prompt_share=None,
        used=(),
        broken=why.limit,
        reason=why.reason,
    )


# -- what is asked, checked ------------------------------------------------------------------------


def _demanded(
    model: ModelShape,
    workload: Workload,
    slo: Slo,
    scheduler: Scheduler | None,
    efficiency: EfficiencyLike,
    engine: str | None,
    server: ServerForm | None,
    speculation: Speculation | None,
    policy: PolicyLike,
    precisions: Any,
) -> tuple[Demand, list[Precision]]:
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    checked_kind("workload", workload, Workload, "pm.Workload(prompt=, output=, concurrency=)")
    checked_kind("slo", slo, Slo, "pm.Slo(ttft=1.0, tpot=0.04), in s")
    if scheduler is not None:
        checked_kind("scheduler", scheduler, Scheduler, "pm.Scheduler(budget=8192)")
    if server is not None:
        checked_kind("server", server, ServerForm, "pm.ServerForm(steps=, delay=)")
    if speculation is not None:
        checked_kind("speculation", speculation, Speculation, "pm.Speculation(tokens=, ...)")
    model.require_positions(workload.longest_context - 1)
    # A wrong engine or efficiency is an error now, not once for each chip.
    resolve_efficiency(efficiency, chip_of("h100-sxm"), engine)
    single = precisions is None or isinstance(precisions, str | Precision)
    named = [precisions] if single else checked_list("precisions", precisions)
    demand = Demand.trusted(
        model=model,
        workload=workload,
        slo=slo,
        scheduler=scheduler or Scheduler(),
        speculation=speculation,
        efficiency=efficiency if isinstance(efficiency, Efficiency | str) else IDEAL,
        engine=engine,
        server=resolve_server(server, engine),
        policy=resolve_policy(policy),
    )
    resolved = [model.resolve_precision(one) for one in named]
    refuse_twice("precisions", [one.name for one in resolved])
    return demand, resolved


def _search(
    demand: Demand,
    precisions: list[Precision],
    parallelisms: Any,
    pools: Pooling,
    widest: int,
    reach: float,
) -> Search:
    return Search(
        demand=demand,
        precisions=tuple(precisions),
        ways=_ways(parallelisms),
        pools=True in _kinds(pools),
        widest=widest,
        knots=knots_up_to(reach + reach**0.5 + 3),  # how many decode scatters
    )


def _ways(given: Any) -> tuple[Parallelism, ...] | None:
    if given is None:
        return None
    every = checked_list("parallelisms", given, Parallelism)
    for ways in every:
        checked_kind("parallelisms", ways, Parallelism, "pm.Parallelism(tensor=8)")
        if ways.data > 1 and ways.expert <= ways.tensor:
            raise InvalidValueError(
                "parallelisms: expected the division of one replica, data=1, for the plan counts "
                f"replicas, got {ways}"
            )
    refuse_twice("parallelisms", [str(ways) for ways in every])
    return tuple(every)


def _kinds(pools: str) -> Kinds:
    found = {"together": (False,), "apart": (True,), "both": (False, True)}
    if not isinstance(pools, str) or pools not in found:
        raise InvalidValueError(f"pools: expected one of {', '.join(found)}, got {pools!r:.60}")
    return found[pools]
