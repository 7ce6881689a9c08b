"""One forward pass of a model: the operations, in the order they run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from perfmodel.base._num import Num, is_zero
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import checked_choice, checked_kind
from perfmodel.work.layers.layer import norm_step
from perfmodel.work.operation import Operation
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step

SmallSteps: TypeAlias = Literal["fused", "separate"]

_TOKEN: Final = Step.trusted(
    groups=(Group.trusted(count=1, new=1, past=0, logits=1, shared_past=0),)
)


def forward(
    model: ModelShape,
    step: Step,
    precision: PrecisionLike = None,
    *,
    small_steps: SmallSteps = "fused",
) -> tuple[Operation, ...]:
    """What a step makes a model do.

    Parameters
    ----------
    model : ModelShape
        The model.
    step : Step
        Which sequences take part, with how many tokens each.
    precision : Precision or str or None
        What each part is stored, moved and computed in; None: the checkpoint's own, else bf16.
    small_steps : {"fused", "separate"}
        Whether norms, residual additions and activations vanish into their neighbours, or are
        listed with their own traffic.

    Returns
    -------
    tuple of Operation
        In the order they first run; equal layers are one operation with as many calls.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be, or a context exceeds learned positions.

    Examples
    --------
    >>> from perfmodel.work.step import Group
    >>> tiny = ModelShape.dense(
    ...     layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16, vocab=32
    ... )
    >>> step = Step(groups=(Group(count=1, new=1),))
    >>> [op.name for op in forward(tiny, step, "bf16")]
    ['embedding', 'qkv', 'attention', 'output', 'gate_up', 'down', 'head']
    """
    checked_choice("small_steps", small_steps, ("fused", "separate"))
    checked_kind("model", model, ModelShape)
    checked_kind("step", step, Step)
    for group in step.groups:
        model.require_positions(group.context)
    formats = model.resolve_precision(precision)
    return tuple(running(model, step, formats, small_steps == "separate"))


class Between(NamedTuple):
    """The small kernels of a pass together: norms, residual additions and activations."""

    launches: Num
    """How many there are [1]."""
    token_bytes: Num
    """What each token makes them move [B]."""


def between(model: ModelShape, precision: Precision) -> Between:
    """The small kernels between the others, each of which moves so much a token."""
    known: dict[Precision, Between] = model.between
    if precision not in known:
        small = [op for op in running(model, _TOKEN, precision, True) if op.kind == "small"]
        launches = sum([op.calls for op in small])
        known[precision] = Between(launches, sum([op.calls * op.activation_bytes for op in small]))
    return known[precision]


def running(
    model: ModelShape, step: Step, precision: Precision, separate: bool
) -> Iterator[Operation]:
    """The operations of a step whose numbers have been checked, or are arrays or symbols."""
    hidden, vocab, tokens = model.hidden, model.vocab, step.tokens
    if model.embedding is not None:
        yield model.embedding.lookup(hidden, tokens, precision)
        yield from model.embedding.project(hidden, tokens, precision)
        if separate and model.embedding.norm is not None:
            yield norm_step(
                model.embedding.norm,
                name="embedding norm",
                width=hidden,
                tokens=tokens,
                precision=precision,
                calls=1,
            )
    for count, layer in model.distinct_layers:
        yield from layer.operations(hidden, step, precision, count)
        if separate:
            yield from layer.small_steps(hidden, tokens, precision, count)
    if model.head is not None:
        if separate and model.head.norm is not None:
            yield norm_step(
                model.head.norm,
                name="last norm",
                width=hidden,
                tokens=tokens,
                precision=precision,
                calls=1,
            )
        positions = step.logit_tokens
        if not is_zero(positions):
            yield from model.head.project(hidden, vocab, positions, precision)
