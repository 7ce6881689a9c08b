"""Plans in words: what is bought, what it does, what limits it, what it costs, what it leaves."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Final

from perfmodel.base.units import si

if TYPE_CHECKING:
    from perfmodel.answers.planning.record import Plan, Plans

_WIDTH: Final = 96
LIMITS: Final = {
    "format": "the chip lacks the format",
    "link": "no link joins so many chips",
    "split": "the model cannot be divided so",
    "memory": "it does not fit the memory",
    "ttft": "the first token comes too late",
    "tpot": "tokens come too slowly",
    "end_to_end": "requests take too long",
    "capacity": "there is no room for so many sequences",
    "rate": "requests come faster than they can be answered",
    "devices": "it takes more devices than allowed",
}


def explain_plan(plan: Plan) -> str:
    """One plan as a paragraph, in lines."""
    return textwrap.fill(_paragraph(plan), _WIDTH)


def _paragraph(plan: Plan) -> str:
    if not plan.feasible:
        return f"{plan.purchase} will not do: {plan.reason}."
    said = [f"Buy {plan.purchase}." if plan.devices > 1 else f"Buy one {plan.purchase}."]
    users, work = plan.users or 0.0, plan.workload
    first, each = si(plan.ttft or 0.0, "s"), si(plan.tpot or 0.0, "s")
    load = f"{work.rate:g} requests/s" if work.rate else f"{work.concurrency:g} users"
    said.append(
        f"For {load} of {work.prompt.mean:,.6g} tokens and {work.output.mean:,.6g} out, a first "
        f"token takes {first} and each further one {each}; "
        f"{plan.output_tokens_per_second:,.0f} tokens/s are written, "
        f"{plan.output_tokens_per_second_per_device:,.0f} a device, in steps of "
        f"{plan.batch or 0.0:,.0f} sequences; {users:,.0f} requests are in the servers, with room "
        f"for {plan.capacity:,}."
    )
    said.append(f"The tightest limit is {plan.binding}, of which {plan.headroom:.0%} is left.")
    said.append(_cost(plan))
    if plan.power is not None:
        said.append(f"At their power limits the chips draw {si(plan.power, 'W')}, no more.")
    return " ".join(said)


def _cost(plan: Plan) -> str:
    price = plan.price
    if price is None:
        return f"No price of {plan.gpu.name} is known, and so no cost."
    spread = ""
    if price.high_per_hour > price.low_per_hour:
        spread = f" (up to {plan.devices * price.high_per_hour:,.2f} where it is dearest)"
    day = f", as of {price.date}" if price.date else ""
    return (
        f"That is {plan.cost_per_hour:,.2f} USD an hour{spread}{day}: "
        f"{plan.cost_per_million_input:,.3f} USD a million tokens of prompts, "
        f"{plan.cost_per_million_output:,.3f} USD a million written, for prompts take "
        f"{plan.prompt_share:.0%} of the time."
    )


def explain_plans(plans: Plans) -> str:
    """All plans: the best, what comes next, and what rules out the rest."""
    best = plans.best
    if best is None:
        said = [f"None of {len(plans):,} candidates will do."]
        if plans.rows:
            said.append(f"The closest: {_paragraph(plans.rows[0])}")
    else:
        said = [_paragraph(best)]
        other = next((plan for plan in plans.feasible if plan.gpu != best.gpu), None)
        if other is not None:
            said.append(f"The next chip: {str(other)[1:-1]}.")
    broken = Counter(plan.broken for plan in plans.rows if plan.broken is not None)
    if broken:
        told = ", ".join(f"{LIMITS[limit]} ({count:,})" for limit, count in broken.most_common())
        said.append(f"Of the rest {sum(broken.values()):,} will not do: {told}.")
    said.append("Means of a steady state; prices are indicative.")
    return "\n".join(textwrap.fill(part, _WIDTH) for part in said)
