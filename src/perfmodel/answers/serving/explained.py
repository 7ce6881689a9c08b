"""A steady state in words: its times and rates, what they consist of, what is assumed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.answers.serving.scheduler import Disaggregated
from perfmodel.base.units import si

if TYPE_CHECKING:
    from perfmodel.answers.serving.record import Serving


def explain(found: Serving) -> str:
    """The whole answer as text."""
    return "\n".join(
        [
            str(found)[1:-1],
            *(f"  {line}" for line in _lines(found)),
            "assumptions",
            *(f"  - {line}" for line in found.assumptions),
            "the usual decode step",
            *(f"  {line}" for line in found.step.explain().splitlines()),
        ]
    )


def _lines(found: Serving) -> list[str]:
    kv = "" if found.kv_utilization is None else f", room for sequences {found.kv_utilization:.0%}"
    lines = [
        f"a request: first token {si(found.ttft, 's')}, then {si(found.tpot, 's')} a token, "
        f"{si(found.end_to_end, 's')} in all",
        f"a second: {found.requests_per_second:.4g} requests, "
        f"{found.output_tokens_per_second:,.0f} tokens written "
        f"({found.output_tokens_per_second_per_device:,.0f} a device, "
        f"{found.tokens_per_second_per_user:,.1f} a user), "
        f"{found.prompt_tokens_per_second:,.0f} read",
        f"a step: {found.together:.1f} sequences, {si(found.plain, 's')}; with prompts of others "
        f"{si(found.iteration, 's')} ({found.interference:.0%} of it)",
        f"busy: compute {found.compute_utilization:.0%}, memory {found.memory_utilization:.0%}, "
        f"network {found.network_utilization:.0%}{kv}, prompts {found.load:.0%} of what steps take",
        f"limit: {found.bound}",
    ]
    if found.waiting:
        lines.append(f"{found.waiting:,.0f} requests wait, for only {found.capacity:,} have room")
    if found.balanced_pools is not None:
        lines.append(
            f"pools: keys and values move in {si(found.transfer, 's')}; "
            f"{found.balanced_pools:.2f} prefill replicas keep one decode replica busy"
        )
    if found.speculation is not None:
        lines.append(
            f"drafts: {found.speculation.expected_tokens:.2f} tokens a step; they pay from an "
            f"acceptance of {found.breakeven_acceptance:.0%} on"
        )
    return lines


def assumptions(found: Serving) -> tuple[str, ...]:
    """What the numbers take for granted, and what they leave out."""
    work, order = found.workload, found.scheduler
    lines = ["means of a steady state; no percentiles"]
    if isinstance(order, Disaggregated):
        lines.append("prompts are read one by one; a first token is sent once its keys have moved")
    elif order.kind == "chunked":
        lines.append(
            f"a step holds a token of every sequence and parts of prompts, first come, first "
            f"served, up to {order.budget:,} tokens"
        )
    else:
        lines.append(f"prompts are read before tokens, up to {order.budget:,} tokens a step")
    lines.append("attention of prompts and of tokens runs apart; matrices are those of all tokens")
    lines.append(
        "requests come at random times"
        if work.rate
        else "every user sends the next request when the last is answered"
    )
    late = found.server
    if late.steps or late.delay:
        lines.append(
            f"a first token is seen {late.steps:g} steps and {si(late.delay, 's')} after it is "
            "made, as the server sends"
        )
    if work.rounds:
        lines.append(f"all users begin at once, and send {work.rounds:g} requests each")
    if work.prefix:
        lines.append(f"{work.prefix:g} tokens of every prompt are cached, and held once a sequence")
    if found.capacity is not None and not order.reserves:
        lines.append("sequences are admitted while there is room; that some start over is left out")
    if found.replicas > 1:
        lines.append(f"{found.replicas} replicas share the requests evenly")
    return (*lines, f"efficiency of steps: {found.step.assumptions[-2]}")
