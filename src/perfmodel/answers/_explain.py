"""An estimate in words: its operations, its assumptions, its sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfmodel.answers.holding.question import Holding
from perfmodel.answers.holding.remedies import in_words, remedies_of
from perfmodel.base.units import si
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.work.layers import LatentAttention, MixtureOfExperts
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.shape import ModelShape

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.answers.estimate import Estimate


# To what the kernels of an efficiency were fitted, by how well the chip is known.
_FITTED: Final = {
    "": "as given",
    "chip": "fitted to this chip",
    "family": "fitted to chips of its family",
    "unknown": "fitted to other chips",
}


def explain(estimate: Estimate) -> str:
    """The whole estimate as text."""
    return "\n".join(
        [
            *_summary(estimate),
            "",
            *_table(estimate),
            *_exchanges(estimate),
            "",
            "assumptions",
            *(f"  - {line}" for line in estimate.assumptions),
            "values",
            *_values(estimate),
            "sources",
            *_sources(estimate),
        ]
    )


def headline(estimate: Estimate) -> str:
    """An estimate in one line."""
    asked = ", ".join(
        f"{group.count:,} x ({group.new:,} new after {group.past:,})"
        for group in estimate.step.groups[:3]
    )
    more = ", ..." if len(estimate.step.groups) > 3 else ""
    many = "" if estimate.devices == 1 else f"{estimate.devices} x "
    subject = f"{estimate.phase} of {estimate.model.name} on {many}{estimate.gpu.name}"
    answer = f"{si(estimate.time, 's')}, {estimate.bound}-bound"
    return f"{subject}, {estimate.precision.name}, {asked}{more}: {answer}"


def _summary(estimate: Estimate) -> list[str]:
    memory, step = estimate.memory, estimate.step
    fits = {True: "fits", False: "does not fit", None: "capacity unknown"}[memory.fits]
    kind = f" {memory.capacity_kind}" if memory.capacity_kind else ""
    state = f", state {si(memory.state, 'B', 4)}" if memory.state else ""
    return [
        headline(estimate),
        f"time {si(estimate.time, 's')}, floor {si(estimate.floor, 's')}",
        f"{step.tokens:,} tokens, {step.logit_tokens:,} of them through the head, "
        f"{estimate.tokens_per_second:,.0f} tokens/s",
        f"compute {si(estimate.compute_time, 's')} ({estimate.compute_utilization:.1%} busy), "
        f"memory {si(estimate.memory_time, 's')} ({estimate.memory_utilization:.1%} busy), "
        + (f"network {si(estimate.network_time, 's')}, " if estimate.collectives else "")
        + f"{_intensity(estimate.intensity)} FLOP/B",
        f"moved: weights {si(estimate.weight_traffic, 'B', 4)}, "
        f"KV {si(estimate.kv_traffic, 'B', 4)}, "
        f"activations {si(estimate.activation_traffic, 'B', 4)}",
        f"held: weights {si(memory.weights, 'B', 4)}, KV {si(memory.kv, 'B', 4)}{state}; "
        f"{memory.shortfall()}{kind}: {fits}{_help(estimate)}",
    ]


def _help(estimate: Estimate) -> str:
    """What would make it fit, where all sequences are alike."""
    groups = estimate.step.groups
    if estimate.memory.fits is not False or len(groups) > 1:
        return ""
    holding = Holding(
        estimate.model,
        estimate.gpu,
        precision=estimate.precision,
        policy="logical",
        parallelism=estimate.parallelism,
        draft=None,
        mtp=False,
    )
    return in_words(remedies_of(holding, groups[0].count, groups[0].context))


HEADER: Final = (
    "operation", "calls", "FLOP", "bytes", "FLOP/B", "compute", "memory", "time", "bound"
)  # fmt: skip


def cells(estimate: Estimate) -> list[tuple[str, ...]]:
    """Each operation in words, under ``HEADER``."""
    return [
        (
            row.operation.name,
            f"{row.operation.calls}",
            si(row.flops, "FLOP"),
            si(row.bytes, "B"),
            _intensity(row.operation.intensity),
            *(si(time, "s") for time in (row.compute_time, row.memory_time, row.time)),
            row.bound,
        )
        for row in estimate.rows()
    ]


def _table(estimate: Estimate) -> list[str]:
    rows = [HEADER, *cells(estimate)]
    wide = 2 + max(len(row[0]) for row in rows)
    widths = (6, 12, 10, 9, 11, 11, 11)
    return [
        f"{name:<{wide}}{''.join(map(str.rjust, numbers, widths))}  {bound}"
        for name, *numbers, bound in rows
    ]


def _exchanges(estimate: Estimate) -> list[str]:
    """A table of the collectives, where there are any."""
    rows = estimate.exchanges()
    if not rows:
        return []
    wide = 2 + max(map(len, ["collective", *(row.collective.name for row in rows)]))
    header = f"{'collective':<{wide}}{'calls':>6}{'devices':>9}{'sent':>10}{'time':>11}  kind"
    return ["", header] + [
        f"{row.collective.name:<{wide}}{row.collective.calls:>6}{row.collective.group:>9}"
        f"{si(row.wire, 'B'):>10}{si(row.time, 's'):>11}  {row.collective.kind}"
        for row in rows
    ]


def _intensity(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def chip_figures(estimate: Estimate) -> list[tuple[str, float, str]]:
    """Field, value and unit of each of the chip's figures that an estimate used."""
    gpu = estimate.gpu
    used = [("memory_bandwidth", gpu.memory_bandwidth, "B/s")]
    used += [
        (f"peak_flops.{compute}", gpu.peak(compute), "FLOP/s")
        for compute in sorted({op.compute for op in estimate.operations})
    ]
    links = (("link.", gpu.link), ("host_link.", gpu.host_link))
    if estimate.collectives:
        used += [(name + "bandwidth", link.bandwidth, "B/s") for name, link in links if link]
    if gpu.capacity is not None:
        field = "visible_capacity" if gpu.capacity_kind == "visible" else "memory_capacity"
        used.append((field, gpu.capacity, "B"))
    return used


def _values(estimate: Estimate) -> list[str]:
    """The chip's figures that were used, each with its origin, and the model's sizes."""
    origins = {origin.field: str(origin) for origin in estimate.gpu.origins}
    lines = [
        f"{field} = {si(value, unit, 4)}: {origins.get(field, 'as given by the caller')}"
        for field, value, unit in chip_figures(estimate)
    ]
    lines += estimate.model.describe().splitlines()
    by_origin: dict[str, list[str]] = {}
    for origin in estimate.model.origins:
        by_origin.setdefault(str(origin), []).append(origin.field)
    lines += [f"{', '.join(fields)}: {text}" for text, fields in by_origin.items()]
    lines += [f"efficiency.{origin.field}: {origin}" for origin in estimate.efficiency.origins]
    return [f"  {line}" for line in lines]


def _sources(estimate: Estimate) -> list[str]:
    return [
        "  " + ", ".join(filter(None, (s.title, s.publisher, s.date, s.url)))
        for s in estimate.sources
    ] or ["  none: all values are the caller's"]


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
    lines += _about_layers(model)
    if estimate.devices > 1:
        lines += _about_devices(estimate)
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
    if not model.origins:
        lines.append("the model's sizes are as given by the caller")
    if not estimate.gpu.origins:
        lines.append("the chip's figures are as given by the caller")
    kind = estimate.gpu.capacity_kind
    if kind is not None:
        lines.append(f"capacity is the {kind} figure; no paging, no runtime reserve, no buffers")
    lines += [_efficiency(estimate.efficiency), _left_out(estimate.efficiency)]
    return tuple(lines)


def _about_layers(model: ModelShape) -> list[str]:
    """What kinds of layers take for granted."""
    kinds = {type(layer) for _, layer in model.distinct_layers}
    lines = []
    if MixtureOfExperts in kinds:
        lines.append(
            "tokens choose experts uniformly, each for itself; the floor reads the fewest experts"
        )
    if LatentAttention in kinds:
        lines.append("latent attention runs in the form that its layers name; auto: fewer FLOPs")
    if any(issubclass(kind, Recurrent) for kind in kinds):
        lines.append("the state of recurrent layers is read and written once a step")
    if model.tower_params:
        lines.append("vision and audio towers are held in memory; no step runs them")
    if model.mtp:
        lines.append("extra prediction blocks are neither held nor run")
    return lines


def _about_devices(estimate: Estimate) -> list[str]:
    """What a division over devices takes for granted."""
    ways = estimate.parallelism
    lines = [
        f"{ways.devices} devices ({ways}): work, traffic and memory are those of the device that "
        "takes longest, or holds most; sequences divide evenly, rounded up",
        {
            "serial": "devices wait for each other: communication follows the operations",
            "overlapped": "communication runs beside the operations, perfectly",
            "ignored": "communication is left out",
        }[ways.communication],
    ]
    if estimate.collectives:
        lines.append(
            f"partial sums are added up by an all-reduce ({ways.all_reduce}) after each divided "
            "layer; latency only where the link states one"
        )
    if ways.pipeline > 1:
        parts = ways.micro_batches_of(estimate.step.sequences)
        then = "the next step fills the bubbles" if estimate.phase == "decode" else "once"
        lines.append(f"{ways.pipeline} stages, which {parts} micro-batches pass in turn; {then}")
    if ways.expert > 1:
        lines.append("every device holds as many experts, and is sent as many tokens, as the rest")
    return lines


def _efficiency(efficiency: Efficiency) -> str:
    if efficiency.model_copy(update={"origins": ()}) == IDEAL:
        return "ideal efficiency: the roofs themselves, not an expectation; the floor is a bound"
    if efficiency.kernels:
        whose = efficiency.engine or "all engines together"
        return (
            f"efficiency: kernels of {whose}, {_FITTED[efficiency.known]}: an expectation, whose "
            "band says how sure it is; the floor is a bound"
        )
    return (
        f"efficiency: {efficiency.compute:g} of the peaks, {efficiency.memory:g} of the bandwidth, "
        f"{si(efficiency.call_overhead, 's')} a call, {si(efficiency.step_overhead, 's')} a step, "
        f"roofs joined with exponent {efficiency.exponent:g}"
    )


def _left_out(efficiency: Efficiency) -> str:
    """What no number of an estimate has in it, whatever was expected."""
    known = {
        "kernel launches": efficiency.kernels or efficiency.call_overhead,
        "host time": efficiency.host or efficiency.step_overhead or efficiency.block_overhead,
    }
    left_out = [name for name, modelled in known.items() if not modelled]
    return f"not modelled: {', '.join([*left_out, 'sampling', 'scheduling', 'thermal limits'])}"


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
