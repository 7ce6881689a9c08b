"""Decoders with compressed convolutional attention."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import (
    Family,
    by_kind,
    copy,
    decoder,
    layer_types,
    number_of_kv_heads,
    number_of_layers,
)
from perfmodel.work.layers import ConvolutionalAttention, NetworkRoutedExperts
from perfmodel.work.shape import ModelShape

HYBRID: Final = "hybrid"
HYBRID_SLIDING: Final = "hybrid_sliding"


def zaya(c: Config) -> ModelShape:
    """ZayaConfig: convolutional attention, one of the experts, scaled residuals; tied."""
    hidden = c.count("hidden_size")
    scaling = 4 * hidden  # scale and shift, of the stream and of what is added
    full = convolutional_attention(c, scaling)
    kinds = layer_types(c, lambda _: HYBRID, (HYBRID, HYBRID_SLIDING))
    sliding = full
    if HYBRID_SLIDING in kinds:
        sliding = copy(full, window=c.count("sliding_window"))
    mixers = by_kind(kinds, {HYBRID: full, HYBRID_SLIDING: sliding})
    mixers[0] = copy(mixers[0], scalars=full.scalars + 2 * hidden)  # scale and shift at the input
    first = routed_experts(c, scaling)
    others = copy(first, carries_router=True)
    layers = [others if i else first for i in range(number_of_layers(c))]
    return decoder(c, mixers, layers, tied=True, head_bias=c.flag("lm_head_bias", False))


def convolutional_attention(c: Config, scaling: int) -> ConvolutionalAttention:
    """Two convolutions over 2 tokens each, and a temperature a key head."""
    kv_heads, bias = number_of_kv_heads(c, 2), c.flag("attention_bias", False)
    return ConvolutionalAttention(
        heads=c.count("num_attention_heads"),
        kv_heads=kv_heads,
        head_dim=c.count("head_dim", 128),
        channel_kernel=c.count("cca_time0", 2),
        head_kernel=c.count("cca_time1", 2),
        qkv_bias=bias,
        output_bias=bias,
        scalars=kv_heads + scaling,
    )


def routed_experts(c: Config, scaling: int) -> NetworkRoutedExperts:
    """One of the experts for each token, as a network of width 256 routes it."""
    number, chosen = c.count("num_experts"), c.count("num_experts_per_tok", 1)
    if chosen != 1:
        raise c.wrong("num_experts_per_tok", "1", chosen)
    return NetworkRoutedExperts(
        experts=number,
        top_k=chosen,
        width=c.count("moe_intermediate_size"),
        router_width=number + 1,
        router_rank=c.count("router_hidden_size", 256),
        scalars=scaling,
    )


ZAYA: Final = {"zaya": Family(("ZayaForCausalLM",), zaya)}
