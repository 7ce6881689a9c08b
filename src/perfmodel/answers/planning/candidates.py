"""What each replica could be: its tables of step costs, or the limit that rules it out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from perfmodel.answers._asked import require_devices
from perfmodel.answers.holding.policies import resolve_policy
from perfmodel.answers.holding.stages import Stage, stages_of
from perfmodel.answers.memory import max_batch
from perfmodel.answers.planning.demand import Demand, told_apart
from perfmodel.answers.planning.offers import Offer, divisions
from perfmodel.answers.serving.costs import Costs, Server, costs_of
from perfmodel.answers.serving.pools import Pools, pools_of
from perfmodel.answers.serving.scheduler import Disaggregated
from perfmodel.answers.serving.serve import MOST
from perfmodel.base.errors import (
    DoesNotFitError,
    InvalidValueError,
    PerfModelError,
    UnboundedError,
    UnsupportedFormatError,
    UnsupportedGroupError,
)
from perfmodel.base.precision import Precision
from perfmodel.base.units import si
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.machine.stack import Stack, alike
from perfmodel.sources.efficiency import resolve_efficiency
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Group

PlanLimit: TypeAlias = Literal[
    "format",
    "link",
    "split",
    "memory",
    "ttft",
    "tpot",
    "end_to_end",
    "capacity",
    "rate",
    "devices",
]


class Refusal(NamedTuple):
    """The limit that a candidate breaks, and how."""

    limit: PlanLimit
    reason: str


class Candidate(NamedTuple):
    """One replica, or a group of them that step together, of which a plan has many."""

    offer: Offer
    division: Division
    most: float
    """Sequences of each lane that decode at once [1]."""
    costs: Costs
    """Steps that hold prompts beside tokens."""
    pools: Pools | Refusal | None
    """The way through a pool of prompts; None: it is not asked about."""


class Division:
    """One way to divide a replica in one precision: what its devices hold, whatever they are."""

    def __init__(self, demand: Demand, precision: Precision, ways: Parallelism) -> None:
        self._demand, self.precision, self.ways = demand, precision, ways

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """What a device of each stage holds."""
        demand = self._demand
        return stages_of(
            demand.model,
            precision=self.precision,
            policy=demand.policy,
            parallelism=self.ways,
            draft=None if demand.speculation is None else demand.speculation.draft,
            mtp=False,
        )

    @cached_property
    def context(self) -> int:
        """Tokens for which a sequence needs room."""
        work = self._demand.workload
        reserved = self._demand.scheduler.reserves
        return max(1, round(work.reserved_context if reserved else work.mean_context))

    @cached_property
    def needs(self) -> list[tuple[float, float]]:
        """Of each stage, the weights, and what a sequence adds [B]."""
        one = Group.trusted(count=1, new=1, past=self.context - 1, logits=1, shared_past=0)
        return [(s.weights, s.kv(one) + s.state_bytes) for s in dict.fromkeys(self.stages)]

    def room(self, gpu: GpuSpec) -> float:
        """Sequences of each lane that a chip holds beside the weights.

        Raises
        ------
        DoesNotFitError
            If it is not even one.
        """
        capacity = gpu.capacity
        if capacity is None:
            raise DoesNotFitError(
                f"memory_capacity: required to plan, but {gpu.name} does not state it"
            )
        if self._demand.policy == resolve_policy("logical"):
            found = min(_beside(capacity, *stage) for stage in self.needs)
        else:
            found = self._under_policy(gpu)
        if found >= 1:
            return found
        needed, weights = max((fixed + each, fixed) for fixed, each in self.needs)
        raise DoesNotFitError(
            f"a device needs {si(needed, 'B')} for its weights ({si(weights, 'B')}) and one "
            f"sequence of {self.context:,} tokens; {gpu.name} has {si(capacity, 'B')}"
        )

    def _under_policy(self, gpu: GpuSpec) -> float:
        demand, ways = self._demand, self.ways
        if not demand.model.has_cache:
            return MOST
        try:
            held = max_batch(
                demand.model,
                gpu,
                context=self.context,
                precision=self.precision,
                policy=demand.policy,
                parallelism=ways,
                draft=None if demand.speculation is None else demand.speculation.draft,
            )
        except UnboundedError:
            return MOST
        except DoesNotFitError:
            return 0.0
        return held / ways.data


def _beside(capacity: float, weights: float, each: float) -> float:
    """Sequences that memory holds beside the weights."""
    if weights + each > capacity:
        return 0.0
    return min(MOST, (capacity - weights) // each if each else MOST)


class Search(NamedTuple):
    """What is asked of every chip."""

    demand: Demand
    precisions: tuple[Precision, ...]
    ways: tuple[Parallelism, ...] | None
    """How a replica may be divided; None: in every way."""
    pools: bool
    """Whether pools are asked about."""
    widest: int
    """Devices of a replica, at most [1]."""
    knots: Any
    """Sequences that decode beside, for which steps are asked [1]."""


Found: TypeAlias = tuple[Offer, Division, Candidate | Refusal]


class _Chip(NamedTuple):
    """A chip that is offered, how far it stays below its roofs, and with which others it is asked.

    Chips are asked together that have the same kernels, formats and network: as arrays.
    """

    offer: Offer
    efficiency: Efficiency
    kind: Any


def candidates(search: Search, offered: Iterable[Offer]) -> list[Found]:
    """Every chip in every precision and division, as tables, or as the limit that it breaks.

    Divisions are asked one by one, for each makes other operations; all else are arrays.
    """
    chips = _chips(search, list(offered))
    widest = max((chip.offer.widest for chip in chips), default=1)
    every = search.ways or tuple(divisions(search.demand.model, min(widest, search.widest)))
    found: list[Found] = []
    for precision in search.precisions:
        for ways in every:
            asked = [chip for chip in chips if search.ways or ways.devices <= chip.offer.widest]
            found += _of_division(search, Division(search.demand, precision, ways), asked)
    return found


def _chips(search: Search, offered: list[Offer]) -> list[_Chip]:
    demand = search.demand
    known = [resolve_efficiency(demand.efficiency, one.gpu, demand.engine) for one in offered]
    formats = frozenset[str]().union(*map(_computed, search.precisions))
    return [
        _Chip(
            offer,
            efficiency,
            (
                form,
                offer.cluster,
                formats & {*offer.gpu.peak_flops.formats},
                offer.gpu.link is None and offer.gpu.host_link is None,
            ),
        )
        for offer, (efficiency, form) in zip(offered, alike(known), strict=True)
    ]


def _computed(precision: Precision) -> frozenset[str]:
    """The formats that matrix units compute in."""
    parts = (precision.linear, precision.head, *(formats for _, formats in precision.parts))
    return frozenset({precision.attention, *(part.compute for part in parts)})


def _of_division(search: Search, division: Division, chips: list[_Chip]) -> list[Found]:
    """What rules a chip out is asked from the cheapest on; the rest are asked together."""
    found: list[Found] = []
    groups: dict[Any, list[tuple[_Chip, float]]] = {}
    for chip in chips:
        offer = chip.offer
        try:
            _joined(offer, division.ways)
            room = division.room(offer.gpu)
        except UnsupportedGroupError as error:
            found.append((offer, division, Refusal("link", str(error))))
        except DoesNotFitError as error:
            found.append((offer, division, Refusal("memory", str(error))))
        except InvalidValueError as error:
            found.append((offer, division, Refusal("split", str(error))))
        else:
            groups.setdefault(chip.kind, []).append((chip, room))
    for group in groups.values():
        found += _tabled(search, division, group)
    return found


def _joined(offer: Offer, ways: Parallelism) -> None:
    """Refuse more devices than links join."""
    if offer.cluster is not None:
        require_devices(offer.cluster, ways)
    elif ways.devices > 1:
        offer.gpu.link_to(ways.devices)


def _tabled(
    search: Search, division: Division, group: list[tuple[_Chip, float]]
) -> Iterator[Found]:
    """Chips that are alike, as tables; or what rules all of them out, told of each."""
    try:
        yield from _tables(search, division, group)
    except PerfModelError as error:
        limit: PlanLimit = "format" if isinstance(error, UnsupportedFormatError) else "split"
        if len(group) == 1:
            yield group[0][0].offer, division, Refusal(limit, str(error))
            return
        for one in group:  # each is told by its own name
            yield from _tabled(search, division, [one])


def _tables(
    search: Search, division: Division, group: list[tuple[_Chip, float]]
) -> Iterator[Found]:
    """Tables of all chips of a group at once, then those on which one sequence is not too slow."""
    demand, first = search.demand, group[0][0].offer
    stack = Stack([chip.offer.gpu for chip, _ in group], [chip.efficiency for chip, _ in group])
    server = Server(demand.model, stack, division.precision, None, division.ways, first.cluster)
    costs = costs_of(server, demand.workload, demand.scheduler, demand.speculation, search.knots)
    pools = _pools(demand, server) if search.pools else None
    accepted = 1.0 if demand.speculation is None else demand.speculation.expected_tokens
    target = demand.slo.tpot or math.inf
    for i, (chip, room) in enumerate(group):
        own = Costs(costs.knots, *(table[i] if table.ndim > 1 else table for table in costs[1:]))
        alone = float(own.step[1]) / accepted
        if alone > target:
            takes, most = told_apart(alone, target)
            told = f"a token takes {takes} even alone, of {most}"
            yield chip.offer, division, Refusal("tpot", told)
            continue
        apart = pools
        if isinstance(pools, Pools):
            prefill, square = float(pools.prefill[i]), float(pools.square[i])
            apart = Pools(prefill, square, _each(pools.transfer, i), 1)
        places = min(room, demand.scheduler.sequences or MOST)
        yield chip.offer, division, Candidate(chip.offer, division, places, own, apart)


def _each(values: Any, index: int) -> float:
    return float(values[index]) if hasattr(values, "__len__") else float(values)


def _pools(demand: Demand, server: Server) -> Pools | Refusal:
    try:
        return pools_of(server, demand.workload, Disaggregated())
    except InvalidValueError as error:
        return Refusal("link", str(error))
