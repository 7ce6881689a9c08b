"""Which kernels attention runs as: one for a new token a sequence, another for many."""

from __future__ import annotations

from typing import Final

from perfmodel.base._num import Num, ceil_div, is_zero
from perfmodel.base.precision import Precision
from perfmodel.work.operation import Kernel
from perfmodel.work.step import Step

_QUERIES: Final = 128  # of one head, that a kernel works on together


def attention_kernel(
    step: Step, precision: Precision, *, heads: Num, kv_heads: Num, pairs: Num
) -> Kernel:
    """Attention over keys and values; pairs are those of one head."""
    if _decodes(step):
        sequences = step.sequences
        return Kernel(
            f"decode-attention.{_cached(precision)}",
            inner=pairs / sequences,  # the values of a context are summed over its tokens
            tiles=kv_heads * sequences,
        )
    computed = "fp8" if precision.attention == "fp8" else "bf16"
    return _prefill(f"prefill-attention.{computed}", step, heads, pairs)


def latent_kernel(step: Step, precision: Precision, *, heads: Num, pairs: Num) -> Kernel:
    """Attention over latents, which all heads share."""
    if _decodes(step):
        return Kernel(f"latent-decode.{_cached(precision)}", tiles=step.sequences)
    return _prefill(f"latent-prefill.{_cached(precision)}", step, heads, pairs)


def _decodes(step: Step) -> bool:
    return all(is_zero(group.new - 1) for group in step.groups)


def _cached(precision: Precision) -> str:
    return "bf16" if precision.kv.bits >= 16 else "fp8"


def _prefill(name: str, step: Step, heads: Num, pairs: Num) -> Kernel:
    tiles = heads * sum([g.count * ceil_div(g.new, _QUERIES) for g in step.groups])
    return Kernel(name, tiles=tiles, exponentials=heads * pairs)
