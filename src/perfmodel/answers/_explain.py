"""An estimate in words: its operations, its assumptions, its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmodel.base.units import si

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.answers.estimate import Estimate

_HEADER = (
    f"{'operation':<12}{'calls':>6}{'FLOP':>12}{'bytes':>12}{'FLOP/B':>9}"
    f"{'compute':>12}{'memory':>12}  bound"
)


def explain(estimate: Estimate) -> str:
    """The whole estimate as text."""
    return "\n".join(
        [
            *_summary(estimate),
            "",
            *_table(estimate),
            "",
            "assumptions",
            *(f"  - {line}" for line in estimate.assumptions),
            "sources",
            *_origins(estimate),
        ]
    )


def _summary(estimate: Estimate) -> list[str]:
    asked = ", ".join(
        f"{group.count} x ({group.new} new after {group.past} past)"
        for group in estimate.step.groups
    )
    memory = estimate.memory
    fits = {True: "fits", False: "does not fit", None: "capacity unknown"}[memory.fits]
    return [
        f"{estimate.phase} of {estimate.model.name} on {estimate.gpu.name}, "
        f"{estimate.precision.name}: {asked}",
        f"time {si(estimate.time, 's')}, floor {si(estimate.floor, 's')}, "
        f"{estimate.tokens_per_second:,.0f} tokens/s, bound by {estimate.bound}",
        f"compute {si(estimate.compute_time, 's')} ({estimate.compute_utilization:.1%} busy), "
        f"memory {si(estimate.memory_time, 's')} ({estimate.memory_utilization:.1%} busy), "
        f"{estimate.intensity:.3g} FLOP/B",
        f"memory: {memory.shortfall()}: {fits}",
    ]


def _table(estimate: Estimate) -> list[str]:
    rows = [_HEADER]
    rows += [
        f"{row.operation.name:<12}{row.operation.calls:>6}{si(row.flops, 'FLOP'):>12}"
        f"{si(row.bytes, 'B'):>12}{row.operation.intensity:>9.3g}"
        f"{si(row.compute_time, 's'):>12}{si(row.memory_time, 's'):>12}  {row.bound}"
        for row in estimate.rows()
    ]
    return rows


def _origins(estimate: Estimate) -> list[str]:
    """One line an origin, with all fields that have it; peaks only of formats computed in."""
    computed = {f"peak_flops.{op.compute}" for op in estimate.operations}
    fields: dict[str, list[str]] = {}
    for owner in (estimate.gpu, estimate.model, estimate.efficiency):
        for origin in owner.origins:
            if not origin.field.startswith("peak_flops.") or origin.field in computed:
                fields.setdefault(str(origin), []).append(origin.field)
    lines = [f"  {', '.join(names)}: {text}" for text, names in fields.items()]
    return lines or ["  all values as given by the caller"]


def assumptions(estimate: Estimate) -> tuple[str, ...]:
    """What the numbers take for granted, and what they leave out."""
    model, step = estimate.model, estimate.step
    lines = [
        f"precision {estimate.precision.name}"
        + (" (the checkpoint's own)" if estimate.precision == model.precision else ""),
        "2 FLOPs per multiply-add; each weight matrix read once a step; dense peaks",
        "operations run one after another, each overlapping its own arithmetic and traffic",
    ]
    if estimate.weights_only:
        lines.append("only the weights count: no KV cache, no activations, no attention")
    elif estimate.small_steps == "fused":
        lines.append("norms, residual additions and activations are fused into their neighbours")
    else:
        lines.append("norms, residual additions and activations run as kernels of their own")
    if model.hidden is None:
        lines.append(
            "a coarse shape: every parameter a matrix weight, no activations, no scales a row"
        )
    if len(step.groups) > 1:
        lines.append(
            "attention of all groups is one kernel, which overlaps what binds each of them"
        )
    if any(group.shared_past for group in step.groups):
        lines.append("the shared past is read once and held once")
    limit = model.max_context
    longest = max(group.context for group in step.groups)
    if limit is not None and longest > limit:
        lines.append(
            f"the context of {longest} is past the {limit} positions the model was made for"
        )
    if model.name and not model.origins:
        lines.append("the model's sizes are as given by the caller")
    if not estimate.gpu.origins:
        lines.append("the chip's figures are as given by the caller")
    kind = estimate.gpu.capacity_kind
    if kind is not None:
        lines.append(f"capacity is the {kind} figure; no paging, no runtime reserve, no buffers")
    if estimate.efficiency.model_copy(update={"origins": ()}) == type(estimate.efficiency)():
        lines.append("ideal efficiency: a lower bound on time, not an expectation")
    lines.append("not modelled: kernel launches, host time, sampling, scheduling, thermal limits")
    return tuple(lines)


def to_frame(estimate: Estimate) -> pd.DataFrame:
    """One row an operation, all its calls together."""
    import pandas as pd

    return pd.DataFrame(
        {
            "operation": row.operation.name,
            "kind": row.operation.kind,
            "calls": row.operation.calls,
            "compute": row.operation.compute,
            "flops": row.flops,
            "bytes": row.bytes,
            "intensity": row.operation.intensity,
            "compute_time": row.compute_time,
            "memory_time": row.memory_time,
            "time": row.time,
            "bound": row.bound,
        }
        for row in estimate.rows()
    )
