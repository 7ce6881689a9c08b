"""Dense decoders whose layers differ: sliding windows in some, full attention in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.mla import mtp_blocks
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
    divided,
    every,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.work.layers import Attention, Projection
from perfmodel.work.layers.embedding import Embedding
from perfmodel.work.layers.layer import Norm
from perfmodel.work.shape import ModelShape


def windows(
    c: Config, mixer: Attention, rule: Callable[[int], str], window: int | None = 4096
) -> Column:
    """A mixer with a window where ``layer_types``, else the class's rule, says that it slides."""
    sliding = copy(mixer, window=c.optional_count("sliding_window", window))
    return by_kind(layer_types(c, rule), {FULL: mixer, SLIDING: sliding})


def full_closes(c: Config, period: int) -> Callable[[int], str]:
    """A full layer at the end of each ``sliding_window_pattern``."""
    return every(c.count("sliding_window_pattern", period), FULL, SLIDING)


# -- a full layer last in each period ---------------------------------------------------------


def cohere2(c: Config) -> ModelShape:
    """Cohere2Config: three windows to one full layer; halves share a LayerNorm without shift."""
    mixer = attention(c, norm="layer-scale", **biases(c))
    mixers = windows(c, mixer, full_closes(c, 4))
    return decoder(c, mixers, feedforward(c, norm=None), tied=True, norm="layer-scale")


def cohere_compass_text(c: Config) -> ModelShape:
    """CohereCompassTextConfig: Cohere2 without windows unless ``layer_types`` lists them."""
    mixer = attention(c, norm="layer-scale", **biases(c))
    mixers = windows(c, mixer, every(1, FULL, SLIDING))
    return decoder(c, mixers, feedforward(c, norm=None), tied=True, norm="layer-scale")


def exaone4(c: Config) -> ModelShape:
    """Exaone4Config: 32 KV heads; norms only after, and on each query and key head."""
    mixer = attention(c, kv_heads=32, qk_norm="head", norm=None, post_norm="rms")
    mixers, inner = windows(c, mixer, exaone_rule(c)), feedforward(c, norm=None, post_norm="rms")
    return decoder(c, mixers, inner, mtp=mtp_blocks(c, mixer, inner))


def exaone_rule(c: Config) -> Callable[[int], str]:
    """A period or a word such as LLLG, L for local, tells which slide; none without a window."""
    if c.optional_count("sliding_window", 4096) is None:
        return every(1, FULL, SLIDING)
    word = c.get("sliding_window_pattern")
    if isinstance(word, str) and word and set(word) <= {"L", "G"}:
        return lambda i: SLIDING if word[i % len(word)] == "L" else FULL
    return full_closes(c, 4)


def gemma2(c: Config) -> ModelShape:
    """Gemma2Config: norms before and after; a window of 4096 in every other layer."""
    mixer = attention(c, kv_heads=4, head_dim=256, post_norm="rms", **biases(c))
    mixers = windows(c, mixer, every(2, FULL, SLIDING))
    return decoder(c, mixers, feedforward(c, post_norm="rms"), tied=True)


def vaultgemma(c: Config) -> ModelShape:
    """VaultGemmaConfig: Gemma 2 without the norms after."""
    mixer = attention(c, kv_heads=4, head_dim=256, **biases(c))
    return decoder(c, windows(c, mixer, every(2, FULL, SLIDING)), feedforward(c), tied=True)


def gemma3_text(c: Config) -> ModelShape:
    """Gemma3TextConfig: norms before and after, five windows of 4096 to one full layer."""
    if c.flag("use_bidirectional_attention", False):
        raise UnsupportedModelError(
            "config.use_bidirectional_attention: only decoder-only models are read"
        )
    mixer = attention(c, kv_heads=4, head_dim=256, qk_norm="head", post_norm="rms", **biases(c))
    mixers = windows(c, mixer, full_closes(c, 6))
    return decoder(c, mixers, feedforward(c, post_norm="rms"), tied=True)


def olmo3(c: Config) -> ModelShape:
    """Olmo3Config: norms only after, one over all queries and keys; three windows to one full."""
    mixer = attention(c, qk_norm="full", norm=None, post_norm="rms", **biases(c))
    mixers = windows(c, mixer, every(4, FULL, SLIDING))
    return decoder(c, mixers, feedforward(c, norm=None, post_norm="rms"))


# -- a full layer first in each period --------------------------------------------------------


def cwm(c: Config) -> ModelShape:
    """CwmConfig: 8 KV heads, 128 wide; one full layer, then three windows of 8192."""
    mixer = attention(c, kv_heads=8, head_dim=128)
    mixers = windows(c, mixer, every(4, FULL, SLIDING, offset=0), 8192)
    return decoder(c, mixers, feedforward(c, bias=c.flag("mlp_bias", False)))


def granite_swa(c: Config) -> ModelShape:
    """GraniteSWAConfig: one full layer, then three windows of 128; a sink a head, a tied head."""
    sinks = c.count("num_attention_heads")
    mixer = attention(c, kv_heads=4, scalars=sinks, **biases(c))
    mixers = windows(c, mixer, every(4, FULL, SLIDING, offset=0), 128)
    return decoder(c, mixers, feedforward(c, bias=c.flag("mlp_bias", False)), tied=True)


# -- windows in all layers, or in those that the config names ---------------------------------


def mistral(c: Config) -> ModelShape:
    """MistralConfig, MinistralConfig: 8 KV heads; windows of 4096 in all layers or those listed."""
    mixers = windows(c, attention(c, kv_heads=8), every(1, SLIDING, FULL))
    return decoder(c, mixers, feedforward(c))


def smollm3(c: Config) -> ModelShape:
    """SmolLM3Config: 4 KV heads, a tied head; no layer slides unless ``use_sliding_window``.

    Then those without rotary positions do: every fourth, or as ``no_rope_layers`` lists them.
    """
    mixer = attention(c, kv_heads=4, **biases(c))
    rotary = c.counts("no_rope_layers", number_of_layers(c))
    period = c.count("no_rope_layer_interval", 4)
    slides = c.flag("use_sliding_window", False)

    def rule(i: int) -> str:
        has_rope = (i + 1) % period if rotary is None else rotary[i]
        return FULL if has_rope or not slides else SLIDING

    mixers = windows(c, mixer, rule, None)
    return decoder(c, mixers, feedforward(c, bias=c.flag("mlp_bias", False)), tied=True)


def modernbert_decoder(c: Config) -> ModelShape:
    """ModernBertDecoderConfig: one full layer, then two that see half of ``local_attention``.

    LayerNorms, one after the embedding instead of in the first layer; a dense layer before a tied
    head with a bias.
    """
    norm: Norm = "layer" if c.flag("norm_bias", False) else "layer-scale"
    width = divided(c, "hidden_size", "num_attention_heads")
    heads = c.count("num_attention_heads")
    mixer = copy(attention(c, head_dim=width, norm=norm, **biases(c)), kv_heads=heads)
    seen = c.count("local_attention", 128) // 2
    kinds = layer_types(c, every(c.count("global_attn_every_n_layers", 3), FULL, SLIDING, offset=0))
    first, *mixers = by_kind(kinds, {FULL: mixer, SLIDING: copy(mixer, window=seen)})
    inner = feedforward(c, norm=norm, bias=c.flag("mlp_bias", False))
    feedforwards: Column = [inner] * (len(kinds) - 1)
    end = (inner, Projection(norm=norm, bias=c.flag("classifier_bias", False)))
    return decoder(
        c,
        [copy(first, norm=None), *mixers],
        [*feedforwards, end],
        tied=True,
        norm=norm,
        embedding=Embedding(norm=norm),
        head_bias=c.flag("decoder_bias", True),
    )


WINDOWED: Final = {
    "cohere2": Family(("Cohere2ForCausalLM",), cohere2),
    "cohere_compass_text": Family(("CohereCompassForCausalLM",), cohere_compass_text),
    "cwm": Family(("CwmForCausalLM",), cwm),
    "exaone4": Family(("Exaone4ForCausalLM",), exaone4),
    "gemma2": Family(("Gemma2ForCausalLM",), gemma2),
    "gemma3_text": Family(("Gemma3ForCausalLM",), gemma3_text),
    "granite_swa": Family(("GraniteSWAForCausalLM",), granite_swa),
    "ministral": Family(("MinistralForCausalLM",), mistral),
    "mistral": Family(("MistralForCausalLM",), mistral),
    "modernbert-decoder": Family(("ModernBertDecoderForCausalLM",), modernbert_decoder),
    "olmo3": Family(("Olmo3ForCausalLM",), olmo3),
    "smollm3": Family(("SmolLM3ForCausalLM",), smollm3),
    "vaultgemma": Family(("VaultGemmaForCausalLM",), vaultgemma),
}
