"""Latency against throughput or cost: plans, and the front that no other plan beats."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

from perfmodel.answers.planning.record import Plan, Plans
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import checked_choice, checked_kind
from perfmodel.interfaces.plots._canvas import COLOURS, Canvas, Theme
from perfmodel.interfaces.plots._labels import Label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LATENCIES: Final = {
    "tpot": "time of each token",
    "ttft": "time to the first token",
    "end_to_end": "time to the last token",
}
_YIELDS: Final = {
    "output_tokens_per_second_per_device": "tokens/s of each device",
    "cost_per_million": "USD a million tokens",
    "cost_per_million_output": "USD a million tokens written",
}
_APART: Final = 1.03  # of the plans of the front that lie closer, the best alone has a label
_Mark: TypeAlias = tuple[float, float, Plan]


def frontier(
    plans: Plans,
    *,
    x: str = "tpot",
    y: str = "output_tokens_per_second_per_device",
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw plans by latency and by what they yield or cost, and the front of the best.

    Parameters
    ----------
    plans : Plans
        What ``plan`` or ``largest_load`` answered; those that do what is asked are drawn.
    x : {"tpot", "ttft", "end_to_end"}
        The latency.
    y : {"output_tokens_per_second_per_device", "cost_per_million", "cost_per_million_output"}
        Throughput, or cost of the chips that have a price.
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        latency [s] against tokens [1/s] or cost [USD]; one marker a chip, filled where
        no other plan is better in both. A line joins those; labels say how many devices, in which
        precision, and how a replica is divided.

    Raises
    ------
    InvalidValueError
        If an argument is not what it should be, or there is no plan to draw.

    Examples
    --------
    >>> import perfmodel as pm
    >>> plans = pm.largest_load(
    ...     pm.model("llama-3.1-8b"), pm.Workload(prompt=1000, output=200, concurrency=1),
    ...     slo=pm.Slo(tpot=0.02), devices=1, gpus="h100-sxm", precisions=["bf16", "fp8"],
    ... )
    >>> pm.plots.frontier(plans).get_xlabel()
    'time of each token'
    """
    checked_kind("plans", plans, Plans, "pm.plan(...) or pm.largest_load(...)")
    checked_choice("x", x, tuple(_LATENCIES))
    checked_choice("y", y, tuple(_YIELDS))
    found = [(getattr(plan, x), getattr(plan, y), plan) for plan in plans.feasible]
    drawn = [mark for mark in found if None not in mark]
    if not drawn:
        why = " with a price" if found else ""
        raise InvalidValueError(f"plans: expected one{why} that does what is asked, got none")
    best = _front(drawn, sign=1 if y.startswith("cost") else -1)

    asked = drawn[0][2].demand
    prompt, output = asked.workload.prompt.mean, asked.workload.output.mean
    title = f"{asked.model.name}, requests of {prompt:,.6g} + {output:,.6g} tokens"
    page = Canvas(ax, theme, title)
    across, up, _ = zip(*drawn, strict=True)
    page.log("x", "s", min(across) / 1.3, max(across) * 1.3)
    page.log("y", "1/s", min(up) / 1.3, max(up) * 1.3)
    page.ax.set(xlabel=_LATENCIES[x], ylabel=_YIELDS[y])
    across, up, _ = zip(*best, strict=True)
    page.ax.step(across, up, where="post", color=page.ink, lw=1)
    chips: dict[str, list[_Mark]] = {}
    for mark in drawn:
        chips.setdefault(mark[2].gpu.key or mark[2].gpu.name, []).append(mark)
    for number, (chip, own) in enumerate(chips.items()):
        colour = COLOURS[number % 4]
        faces = [colour if any(mark is one for one in best) else page.paper for mark in own]
        marks = (mark[:2] for mark in own)
        page.points(marks, number, chip, facecolor=faces, edgecolor=colour)
    page.key(loc="best")
    labels = [Label(*mark[:2], "", radius=4) for mark in drawn]  # which no text may hide
    nexts = [*(mark[0] for mark in best[1:]), math.inf]
    for (at, height, plan), after in zip(best, nexts, strict=True):
        if after > _APART * at:
            told = f"{plan.devices} x {plan.precision.name}, {plan.parallelism}"
            labels.append(Label(at, height, told, radius=4))
    page.write(labels)
    return page.ax


def _front(drawn: list[_Mark], sign: int) -> list[_Mark]:
    """The plans that no other beats in both, the quickest first."""
    kept: list[_Mark] = []
    for mark in sorted(drawn, key=lambda mark: (mark[0], sign * mark[1])):
        if not kept or sign * mark[1] < sign * kept[-1][1]:
            kept.append(mark)
    return kept
