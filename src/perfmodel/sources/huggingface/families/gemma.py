"""Gemma's decoders with inputs of their own in every layer, and with keys and values shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    Row,
    attention,
    copy,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
    per_layer,
)
from perfmodel.work.layers import AltUp, Attention, FeedForward, PerLayerInput, StreamEnd
from perfmodel.work.shape import ModelShape


def gemma3n_text(c: Config) -> ModelShape:
    """Gemma3nTextConfig: four windows of 512 to one full layer, four streams, 15 layers share KV.

    ``activation_sparsity_pattern`` silences values of a feed-forward layer, and no weights.
    """
    streams = c.count("altup_num_inputs", 4)
    laurel = FeedForward(width=c.count("laurel_rank", 64), gated=False, norm=None, post_norm="rms")
    full = gemma_attention(c, kv_heads=2, head_dim=256)
    sliding = copy(full, window=c.optional_count("sliding_window", 512))
    kinds = layer_types(c, every(5, FULL, SLIDING))
    mixers = sharing(c, kinds, [sliding if kind == SLIDING else full for kind in kinds], 15)
    first: list[Row] = [(AltUp(streams=streams), mixer, laurel) for mixer in mixers]
    second: list[Row] = [
        (dense, *inputs)
        for dense, inputs in zip(_feedforwards(c), per_layer_inputs(c), strict=True)
    ]
    end = StreamEnd(streams=streams)
    first[0], second[-1] = (end, *first[0]), (*second[-1], end)
    return decoder(c, list(first), list(second), tied=True)


def gemma4_text(c: Config) -> ModelShape:
    """Gemma4TextConfig: windows of 512; experts beside the dense layer, each normed, then both."""
    beside: Row = ()
    if c.flag("enable_moe_block", False):
        # The norm for both results, and the router's scales of its input and of each expert.
        scalars = 2 * c.count("hidden_size") + c.count("num_experts")
        beside = (experts(c, post_norm="rms", scalars=scalars),)
    return _gemma4(c, 512, beside, per_layer_inputs(c))


def gemma4_unified_text(c: Config) -> ModelShape:
    """Gemma4UnifiedTextConfig: windows of 1024; neither experts nor per-layer inputs."""
    return _gemma4(c, 1024, (), [()] * number_of_layers(c))


def _gemma4(c: Config, window: int, beside: Row, inputs: list[Row]) -> ModelShape:
    """Five windows to one full layer, the last one full, whatever the config lists."""
    if c.get("use_bidirectional_attention") == "all":
        raise UnsupportedModelError(
            "config.use_bidirectional_attention: only decoder-only models are read, got 'all'"
        )
    kinds = layer_types(c, every(6, FULL, SLIDING))
    kinds[-1] = FULL
    mixers = sharing(c, kinds, _gemma4_mixers(c, kinds, window), 0)
    dense = feedforward(c, post_norm="rms")
    doubled = copy(dense, width=2 * dense.width) if c.flag("use_double_wide_mlp", False) else dense
    second: Column = [
        (doubled if mixer.shares_kv else dense, *beside, *own)
        for mixer, own in zip(mixers, inputs, strict=True)
    ]
    return decoder(c, list(mixers), second, tied=True)


def _gemma4_mixers(c: Config, kinds: Sequence[str], window: int) -> list[Attention]:
    """Full layers have wider heads, and perhaps one projection for keys and values.

    Older files give the full layers' sizes once, newer ones those of every layer that differs.
    """
    plain = gemma_attention(c, kv_heads=4, head_dim=256)
    sliding = copy(plain, window=c.optional_count("sliding_window", window))
    same = c.flag("attention_k_eq_v", False)
    full = copy(plain, keys_as_values=same)
    told = per_layer(c, len(kinds))
    if told is None:
        fewer = same and c.get("num_global_key_value_heads") is not None
        full = _resized(
            c,
            full,
            c.count("global_head_dim", 512),
            c.count("num_global_key_value_heads") if fewer else full.kv_heads,
        )
        return [sliding if kind == SLIDING else full for kind in kinds]
    mixers = [sliding if kind == SLIDING else full for kind in kinds]
    for index, own in told.items():
        mixer = mixers[index]
        head_dim = own.count("head_dim", mixer.head_dim)
        kv_heads = own.count("num_key_value_heads", mixer.kv_heads)
        mixers[index] = _resized(own, mixer, head_dim, kv_heads)
    return mixers


def _resized(c: Config, mixer: Attention, head_dim: int, kv_heads: int) -> Attention:
    if mixer.heads % kv_heads:
        raise c.wrong("num_key_value_heads", f"a divisor of {mixer.heads} heads", kv_heads)
    return copy(mixer, head_dim=head_dim, kv_heads=kv_heads)  # type: ignore[no-any-return]


def gemma_attention(c: Config, *, kv_heads: int, head_dim: int) -> Attention:
    """A norm on each query and key head, and one before and after the layer."""
    bias = c.flag("attention_bias", False)
    return attention(
        c,
        kv_heads=kv_heads,
        head_dim=head_dim,
        qkv_bias=bias,
        output_bias=bias,
        qk_norm="head",
        post_norm="rms",
    )


def sharing(
    c: Config, kinds: Sequence[str], mixers: list[Attention], default: int
) -> list[Attention]:
    """The last ``num_kv_shared_layers`` attend what the last one before of their kind caches."""
    shared = c.count_or_zero("num_kv_shared_layers", default)
    first = len(kinds) - shared
    if first < 1 or not set(kinds[first:]) <= set(kinds[:first]):
        raise c.wrong(
            "num_kv_shared_layers", "a number that leaves a layer of each kind before", shared
        )
    return mixers[:first] + [copy(mixer, shares_kv=True) for mixer in mixers[first:]]


def per_layer_inputs(c: Config) -> list[Row]:
    """A narrow embedding in every layer, the norm of them all in the first; none where it is 0."""
    count, width = number_of_layers(c), c.count_or_zero("hidden_size_per_layer_input", 256)
    if not width:
        return [()] * count
    rows = c.count("vocab_size_per_layer_input", 262144)
    layer = PerLayerInput(rows=rows, width=width, post_norm="rms")
    first: Row = (copy(layer, scalars=width),)
    return [first, *[(layer,)] * (count - 1)]


def _feedforwards(c: Config) -> list[FeedForward]:
    """One a layer: ``intermediate_size`` is a number, or a list of them."""
    count = number_of_layers(c)
    if not isinstance(c.get("intermediate_size"), list):
        return [feedforward(c, post_norm="rms")] * count
    widths = c.counts("intermediate_size", count) or []
    return [FeedForward(width=width, post_norm="rms") for width in widths]


GEMMA: Final = {
    "gemma3n_text": Family(("Gemma3nForCausalLM",), gemma3n_text),
    "gemma4_text": Family(("Gemma4ForCausalLM",), gemma4_text),
    "gemma4_unified_text": Family(("Gemma4UnifiedForCausalLM",), gemma4_unified_text),
}
