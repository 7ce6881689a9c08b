"""The activation peak: what the widest operation of the largest step needs at once."""

from __future__ import annotations

from perfmodel.answers.policies import MemoryPolicy
from perfmodel.base.precision import FORMATS, MatrixFormats, Precision
from perfmodel.work.forward import forward
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step

_LOGITS = FORMATS["fp32"]


def activation_peak(
    model: ModelShape, policy: MemoryPolicy, precision: Precision, batch: int
) -> float:
    """What the largest step of an engine needs beside weights and cache: a floor [B].

    The larger of two moments. Within a block, inputs and outputs of its widest operation beside
    the residual stream: ``T (inputs + outputs + d) b``. At the end, what goes into the head and
    the logits in fp32: ``S (d b + 4 V)``, for one token a sequence or for all of them.
    """
    kept = precision if policy.activation is None else _keeping(precision, policy)
    tokens = policy.step_tokens
    new = min(tokens, model.position_limit or tokens)
    step = Step.trusted(
        groups=(Group.trusted(count=-(-tokens // new), new=new, past=0, logits=0, shared_past=0),)
    )
    operations = forward(model, step, kept, small_steps="separate")
    widest = max((operation.activation_bytes for operation in operations), default=0.0)
    width, values = model.hidden or 0, kept.linear.outputs
    peak = widest + values.nbytes(tokens * width)
    if model.head is None or model.vocab is None:
        return float(peak)
    rows = tokens if policy.logits == "all" else min(batch, tokens)
    return float(max(peak, values.nbytes(rows * width) + _LOGITS.nbytes(rows * model.vocab)))


def _keeping(precision: Precision, policy: MemoryPolicy) -> Precision:
    """The precision with all activations in the policy's format."""
    values = policy.activation

    def kept(formats: MatrixFormats) -> MatrixFormats:
        return formats.model_copy(update={"inputs": values, "outputs": values})

    return precision.model_copy(
        update={
            "name": f"{precision.name} in {policy.name}",
            "linear": kept(precision.linear),
            "head": kept(precision.head),
            "parts": tuple((name, kept(formats)) for name, formats in precision.parts),
        }
    )
