"""What would change a plan: more of what a chip has, another price, another bandwidth."""

from __future__ import annotations

import math
from typing import Any, Final

from perfmodel.answers.planning.candidates import Candidate, Search, candidates
from perfmodel.answers.planning.offers import Offer
from perfmodel.answers.planning.plan import bearing, sized
from perfmodel.answers.planning.record import Plan, Plans, measure
from perfmodel.answers.planning.solve import Many
from perfmodel.answers.serving.costs import knots_up_to
from perfmodel.answers.serving.serve import MOST
from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.machine.hardware import Cluster, GpuSpec

MORE: Final = 1.1
_FARTHEST: Final = 64.0  # times a chip's own bandwidth
_TRIED: Final = 16  # bandwidths at once; three rounds tell a thousandth apart
_ROUNDS: Final = 3


# -- elasticities ----------------------------------------------------------------------------------


def elasticities(plan: Plan) -> dict[str, float]:
    """By how many per cent the largest load grows with each per cent more of a figure.

    Raises
    ------
    InvalidValueError
        If the plan breaks a limit.
    """
    if not plan.feasible:
        raise InvalidValueError(f"plan: expected one that keeps its limits, got: {plan.reason}")
    gpu = plan.gpu
    changed = {
        "": gpu,
        "bandwidth": gpu.model_copy(update={"memory_bandwidth": gpu.memory_bandwidth * MORE}),
        "compute": gpu.model_copy(update={"peak_flops": _scaled(gpu.peak_flops)}),
        "link": gpu.model_copy(update={n: _faster(getattr(gpu, n)) for n in ("link", "host_link")}),
        "memory": gpu.model_copy(
            update={n: _times(getattr(gpu, n)) for n in ("memory_capacity", "visible_capacity")}
        ),
    }
    loads = _loads(
        plan, [_offer(plan, chip, faster=name == "link") for name, chip in changed.items()]
    )
    own, *others = (math.log(load) for load in loads)
    names = [name for name in changed if name]
    return {
        name: round((other - own) / math.log(MORE), 6) + 0.0
        for name, other in zip(names, others, strict=True)
    }


def _times(value: float | None) -> float | None:
    return None if value is None else value * MORE


def _scaled(peaks: Any) -> dict[str, float]:
    return {name: getattr(peaks, name) * MORE for name in peaks.formats}


def _faster(link: Any) -> Any:
    return link and link.model_copy(update={"bandwidth": link.bandwidth * MORE})


def _offer(plan: Plan, chip: GpuSpec, *, faster: bool = False) -> Offer:
    """The plan's chip with other figures, in the same cluster if there is one."""
    cluster = plan.cluster
    if cluster is not None:
        network = _faster(cluster.link) if faster else cluster.link
        cluster = Cluster(gpu=chip, per_node=cluster.per_node, nodes=cluster.nodes, link=network)
    return Offer(chip, cluster, plan.price)


def _loads(plan: Plan, offered: list[Offer]) -> list[float]:
    """The largest load of the plan on each chip, whole or not."""
    apart = plan.prefill_replicas > 0
    found = candidates(_again([plan], plan.parallelism.devices, apart=apart), offered)
    by_chip = {id(offer): one for offer, _, one in found}
    every = [one for one in map(by_chip.get, map(id, offered)) if isinstance(one, Candidate)]
    if len(every) < len(offered):
        raise InvalidValueError("plan: expected a chip that can be changed, got one that cannot")
    many = Many(plan.demand, every, apart=apart)
    load, _ = many.borne(
        many.most * 0.0 + plan.replicas, many.most * 0.0 + plan.prefill_replicas, whole=False
    )
    return [float(one) for one in load[:, 0]]


def _again(plans: list[Plan], widest: int, *, apart: bool) -> Search:
    """The search in which the plans were found, on these divisions alone."""
    return Search(
        demand=plans[0].demand,
        precisions=tuple(dict.fromkeys(plan.precision for plan in plans)),
        ways=tuple(dict.fromkeys(plan.parallelism for plan in plans)),
        pools=apart,
        widest=widest,
        knots=knots_up_to(MOST + MOST**0.5 + 3),
    )


# -- what would make another chip win --------------------------------------------------------------


def winning_price(plans: Plans, gpu: str | GpuSpec) -> float | None:
    """At which price of a device a chip would be as cheap as the best of the others."""
    own, others = _sides(plans, gpu)
    rival = min((measure(plan, plans.by) for plan in others if plan.price), default=None)
    if rival is None:
        return None
    # Cost is in proportion to the price: so many dollars an hour, over what one a device costs.
    spent = [
        plan.devices / (plan.output_tokens_per_second if plans.by == "token" else 1.0)
        for plan in own
        if plan.feasible
    ]
    return rival / min(spent) if spent else None


def winning_bandwidth(plans: Plans, gpu: str | GpuSpec) -> float | None:
    """With which memory bandwidth a chip would be as cheap as the best of the others."""
    own, others = _sides(plans, gpu)
    rival = min((measure(plan, plans.by) for plan in others if plan.price), default=None)
    if rival is None or own[0].price is None:
        return None
    low, high = 1.0, _FARTHEST
    for _ in range(_ROUNDS):
        factors = [low * (high / low) ** (i / _TRIED) for i in range(_TRIED + 1)]
        wins = _wins(plans, own, factors, rival)
        if not any(wins):
            return None
        first = wins.index(True)
        low, high = factors[max(first - 1, 0)], factors[first]
        if first == 0:
            break
    return own[0].gpu.memory_bandwidth * high


def _wins(plans: Plans, own: list[Plan], factors: list[float], rival: float) -> list[bool]:
    """Whether the chip is as cheap with so many times its bandwidth."""
    gpu = own[0].gpu
    chips = [
        gpu.model_copy(update={"memory_bandwidth": gpu.memory_bandwidth * factor})
        for factor in factors
    ]
    kinds = tuple(sorted({plan.prefill_replicas > 0 for plan in own}))
    search = _again(own, plans.devices, apart=True in kinds)
    ask = sized if plans.by == "hour" else bearing
    found = ask(search, [_offer(own[0], chip) for chip in chips], kinds, plans.devices)
    cheapest = dict.fromkeys(factors, math.inf)
    for plan in found:
        if plan.feasible:
            factor = factors[chips.index(plan.gpu)]
            cheapest[factor] = min(cheapest[factor], measure(plan, plans.by))
    return [cheapest[factor] <= rival * (1 + 1e-9) for factor in factors]


def _sides(plans: Plans, gpu: str | GpuSpec) -> tuple[list[Plan], list[Plan]]:
    """The plans of a chip, and those of all others that do what is asked."""

    def asked(plan: Plan) -> bool:
        return isinstance(gpu, str | GpuSpec) and gpu in (plan.gpu, plan.gpu.key, plan.gpu.name)

    own = [plan for plan in plans.rows if asked(plan)]
    if not own:
        names = {plan.gpu.key or plan.gpu.name for plan in plans.rows}
        raise UnknownKeyError(f"gpu: no plan of {shown(gpu)}; {did_you_mean(gpu, names)}")
    return own, [plan for plan in plans.feasible if not asked(plan)]
