"""The activation peak: what the largest step of an engine needs beside weights and cache.

The larger of two moments, and so a floor of what a run needs. Within a block, inputs and outputs
of its widest operation beside the residual stream: ``T (inputs + outputs + d) b``. At the end, what
goes into the head and the logits in fp32: ``S (d b + 4 V)``, for one token a sequence or for all.
"""

from __future__ import annotations

from perfmodel.answers.holding.policies import MemoryPolicy
from perfmodel.base.formats import FORMATS
from perfmodel.base.precision import MatrixFormats, Precision
from perfmodel.work.forward import forward
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step

_LOGITS = FORMATS["fp32"]


def block_peak(model: ModelShape, policy: MemoryPolicy, precision: Precision) -> float:
    """The widest operation of the largest step, beside the residual stream [B]."""
    kept, tokens = _keeping(precision, policy), policy.step_tokens
    new = min(tokens, model.position_limit or tokens)
    group = Group.trusted(count=-(-tokens // new), new=new, past=0, logits=0, shared_past=0)
    step = Step.trusted(groups=(group,))
    operations = forward(model, step, kept, small_steps="separate")
    widest = max((operation.activation_bytes for operation in operations), default=0.0)
    return float(widest + kept.linear.outputs.nbytes(tokens * (model.hidden or 0)))


def head_peak(model: ModelShape, policy: MemoryPolicy, precision: Precision, batch: int) -> float:
    """What goes into the head, and the logits [B]."""
    if model.head is None or model.vocab is None:
        return 0.0
    tokens = policy.step_tokens
    rows = tokens if policy.logits == "all" else min(batch, tokens)
    values = policy.activation or precision.linear.outputs
    return float(values.nbytes(rows * (model.hidden or 0)) + _LOGITS.nbytes(rows * model.vocab))


def _keeping(precision: Precision, policy: MemoryPolicy) -> Precision:
    """The precision, with all activations in the policy's format."""
    values = policy.activation
    if values is None:
        return precision

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
