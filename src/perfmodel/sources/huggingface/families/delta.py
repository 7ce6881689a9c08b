"""Decoders that mix attention with gated delta nets."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    attention,
    biases,
    by_kind,
    copy,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import sparse_where
from perfmodel.work.layers import Attention, GatedDeltaNet, MixtureOfExperts
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.shape import Block, ModelShape

LINEAR: Final = "linear_attention"


def delta_net(c: Config, *, key_heads: int = 16, value_heads: int = 32) -> GatedDeltaNet:
    """The gated delta net of Qwen3NextConfig and its like; arguments are a class's defaults."""
    keys = c.count("linear_num_key_heads", key_heads)
    values = c.count("linear_num_value_heads", value_heads)
    if values % keys:
        raise c.wrong(
            "linear_num_value_heads", f"a multiple of linear_num_key_heads={keys}", values
        )
    return GatedDeltaNet(
        key_heads=keys,
        value_heads=values,
        key_dim=c.count("linear_key_head_dim", 128),
        value_dim=c.count("linear_value_head_dim", 128),
        conv_kernel=c.count("linear_conv_kernel_dim", 4),
    )


def gated_attention(c: Config, kv_heads: int = 2, **fields: Any) -> Attention:
    """Qwen's attention beside delta nets: heads of 256, QK-norm, a gate a value."""
    fields |= {"gate": "value", "qk_norm": "head", **biases(c)}
    return attention(c, kv_heads=kv_heads, head_dim=256, **fields)


def qwen_experts(c: Config, *, shared_gate: bool = True) -> MixtureOfExperts:
    """Routed experts, and a shared one of a width of its own that a gate may scale."""
    shared = c.count("shared_expert_intermediate_size")
    return experts(c, shared=shared, shared_gate=shared_gate)


def qwen_kinds(c: Config) -> list[str]:
    """Three delta nets to one attention, unless ``full_attention_interval`` says otherwise."""
    rule = every(c.count("full_attention_interval", 4), FULL, LINEAR)
    return layer_types(c, rule, (FULL, LINEAR))


def qwen_mtp(c: Config, *layers: Any) -> tuple[Block, ...]:
    """Extra blocks behind one common entry."""
    count = c.count_or_zero("mtp_num_hidden_layers", 0)
    first: tuple[Block, ...] = ((1, (MtpEntry(), *layers)),) if count else ()
    return (*first, (count - 1, layers)) if count > 1 else first


def qwen3_next(c: Config) -> ModelShape:
    """Qwen3NextConfig: three gated delta nets to one gated attention; a gated shared expert."""
    full, dense = gated_attention(c), feedforward(c)
    if not c.count_or_zero("num_experts"):
        return decoder(c, qwen_mixers(c, full), dense, mtp=qwen_mtp(c, full, dense))
    sparse = qwen_experts(c)
    layers = sparse_where(c, sparse, dense)
    return decoder(c, qwen_mixers(c, full), layers, mtp=qwen_mtp(c, full, sparse))


def qwen_mixers(c: Config, full: Attention) -> Column:
    """Each layer's mixer."""
    return by_kind(qwen_kinds(c), {FULL: full, LINEAR: delta_net(c)})


def qwen3_5(c: Config) -> ModelShape:
    """Qwen3_5TextConfig: as Qwen3-Next, dense, 4 KV heads by default."""
    full, dense = gated_attention(c, kv_heads=4), feedforward(c)
    return decoder(c, qwen_mixers(c, full), dense, mtp=qwen_mtp(c, full, dense))


def qwen3_5_moe(c: Config) -> ModelShape:
    """Qwen3_5MoeTextConfig: as Qwen3-Next, with experts in every layer."""
    full, sparse = gated_attention(c), qwen_experts(c)
    return decoder(c, qwen_mixers(c, full), sparse, mtp=qwen_mtp(c, full, sparse))


def lara_mini(c: Config) -> ModelShape:
    """LaraMiniConfig: delta nets, windows and full attention in a pattern of five; tied."""
    full = attention(c, kv_heads=4, head_dim=128, qk_norm="head", **biases(c))
    mixers = {
        FULL: full,
        SLIDING: copy(full, window=c.count("sliding_window", 512)),
        LINEAR: delta_net(c, key_heads=8, value_heads=16),
    }
    pattern = (LINEAR, SLIDING, LINEAR, FULL, SLIDING)
    kinds = layer_types(c, lambda i: pattern[i % 5], tuple(mixers))
    return decoder(c, by_kind(kinds, mixers), qwen_experts(c, shared_gate=False), tied=True)


def olmo_hybrid(c: Config) -> ModelShape:
    """OlmoHybridConfig: delta nets normed before, every fourth layer attention normed after."""
    full = attention(c, qk_norm="full", **biases(c))
    rule = every(min(4, number_of_layers(c)), FULL, LINEAR)
    kinds = layer_types(c, rule, (FULL, LINEAR))
    heads = c.count("num_attention_heads")
    keys, values = c.count("linear_num_key_heads", heads), c.count("linear_num_value_heads", heads)
    if values % keys:
        raise c.wrong(
            "linear_num_value_heads", f"a multiple of linear_num_key_heads={keys}", values
        )
    key_dim = c.count("linear_key_head_dim", 3 * c.count("hidden_size") // (4 * keys))
    delta = GatedDeltaNet(
        key_heads=keys,
        value_heads=values,
        key_dim=key_dim,
        value_dim=c.count("linear_value_head_dim", 2 * key_dim),
        conv_kernel=c.count("linear_conv_kernel_dim", 4),
    )
    before = feedforward(c)
    after = {"norm": None, "post_norm": "rms"}
    mixers = by_kind(kinds, {FULL: copy(full, **after), LINEAR: delta})
    return decoder(c, mixers, by_kind(kinds, {FULL: copy(before, **after), LINEAR: before}))


DELTA: Final = {
    "lara_mini": Family(("LaraMiniForCausalLM",), lara_mini),
    "olmo_hybrid": Family(("OlmoHybridForCausalLM",), olmo_hybrid),
    "qwen3_5_moe_text": Family(("Qwen3_5MoeForCausalLM",), qwen3_5_moe),
    "qwen3_5_text": Family(("Qwen3_5ForCausalLM",), qwen3_5),
    "qwen3_next": Family(("Qwen3NextForCausalLM",), qwen3_next),
}
