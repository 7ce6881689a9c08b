"""Which kernels attention runs as: one for a new token a sequence, another for many."""

from __future__ import annotations

from typing import Final

from perfmodel.base._num import Num, ceil_div, is_plain, is_zero
from perfmodel.base.precision import Precision
from perfmodel.work.operation import Kernel
from perfmodel.work.step import Step

_QUERIES: Final = 128  # of one head, that a kernel works on together


def attention_kernel(step: Step, precision: Precision, *, heads: Num, kv_heads: Num) -> Kernel:
    """Attention over keys and values."""
    if _decodes(step):
        return Kernel("decode-attention", _cached(precision), heads=kv_heads)
    computed = "fp8" if precision.attention == "fp8" else "bf16"
    return Kernel("prefill-attention", computed, heads=heads, rows=_blocks(step))


def latent_kernel(step: Step, precision: Precision, *, heads: Num) -> Kernel:
    """Attention over latents, which all heads share."""
    if _decodes(step):
        return Kernel("latent-decode", _cached(precision), heads=1)
    return Kernel("latent-prefill", _cached(precision), heads=heads, rows=_blocks(step))


def _decodes(step: Step) -> bool:
    return all(is_zero(group.new - 1) for group in step.groups)


def _cached(precision: Precision) -> str:
    bits = precision.kv.bits  # a width that is a symbol counts as wide
    return "fp8" if is_plain(bits) and bits < 16 else "bf16"


def _blocks(step: Step) -> Num:
    return sum([group.count * ceil_div(group.new, _QUERIES) for group in step.groups])
