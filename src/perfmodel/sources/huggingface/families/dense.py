"""Decoders whose blocks are attention and a dense feed-forward layer, with rotary positions."""

from __future__ import annotations

from math import isqrt
from typing import Any, Final

from perfmodel.sources.huggingface.config import REQUIRED, Config
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
    feedforward,
    number_of_layers,
    width_of_head,
)
from perfmodel.work.layers import AnyLayer, Attention, MixtureOfExperts
from perfmodel.work.layers.embedding import Embedding
from perfmodel.work.shape import ModelShape

# -- Llama and what differs from it by a flag or a default ------------------------------------


def llama(c: Config) -> ModelShape:
    """LlamaConfig: biases are flags, heads default to hidden / heads wide."""
    return llama_like(c)


def llama_like(
    c: Config, *, kv_heads: int | None = None, head_dim: int | None = None, tied: bool = False
) -> ModelShape:
    """Llama with other defaults: ``attention_bias`` and ``mlp_bias`` are flags."""
    mixer = attention(c, kv_heads=kv_heads, head_dim=head_dim, **biases(c))
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False)), tied=tied)


def exaone(c: Config) -> ModelShape:
    """ExaoneConfig: Llama with 8 KV heads and ``num_layers`` layers."""
    return llama_like(c, kv_heads=8)


def iquestcoder(c: Config) -> ModelShape:
    """IQuestCoderConfig: Llama with 8 KV heads, 128 wide."""
    return llama_like(c, kv_heads=8, head_dim=128)


def internlm3(c: Config) -> ModelShape:
    """InternLM3Config: Llama with 2 KV heads, 128 wide; ``qkv_bias`` and ``bias`` must agree."""
    if c.flag("attention_bias", False) is not c.flag("mlp_bias", False):
        raise c.wrong("attention_bias", "the same flag as mlp_bias")
    return llama_like(c, kv_heads=2, head_dim=128)


def hyperclovax(c: Config) -> ModelShape:
    """HyperCLOVAXConfig: Llama with norms after each layer too, unless ``use_post_norm`` is off."""
    after = "rms" if c.flag("use_post_norm", True) else None
    mixer = attention(c, post_norm=after, **biases(c))
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False), post_norm=after))


def seed_oss(c: Config) -> ModelShape:
    """SeedOssConfig: 8 KV heads, 128 wide; biases on queries, keys and values but not behind."""
    mixer = attention(
        c,
        kv_heads=8,
        head_dim=128,
        qkv_bias=c.flag("attention_bias", True),
        output_bias=c.flag("attention_out_bias", False),
    )
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False)))


def helium(c: Config) -> ModelShape:
    """HeliumConfig: 20 KV heads, 128 wide; the output projection never has a bias."""
    mixer = attention(c, kv_heads=20, head_dim=128, qkv_bias=c.flag("attention_bias", False))
    if mixer.result_width != c.count("hidden_size"):
        raise c.wrong("head_dim", "hidden_size / num_attention_heads", mixer.head_dim)
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False)))


def ernie4_5(c: Config) -> ModelShape:
    """Ernie4_5Config: 2 KV heads, 128 wide, a tied head; ``use_bias`` is all biases in one flag."""
    mixer = attention(c, kv_heads=2, head_dim=128, **biases(c, "use_bias"))
    return decoder(c, mixer, feedforward(c, bias=c.flag("use_bias", False)), tied=True)


def gemma(c: Config) -> ModelShape:
    """GemmaConfig: heads 256 wide, 16 of them keys and values, a tied head."""
    mixer = attention(c, kv_heads=16, head_dim=256, **biases(c))
    return decoder(c, mixer, feedforward(c), tied=True)


def ministral3(c: Config) -> ModelShape:
    """Ministral3Config: 8 KV heads, 128 wide; a window only where the config gives one."""
    window = c.optional_count("sliding_window", None)
    return decoder(c, attention(c, kv_heads=8, head_dim=128, window=window), feedforward(c))


def phi3(c: Config) -> ModelShape:
    """Phi3Config: fused projections without biases; a window only where the config gives one."""
    mixer = attention(c, window=c.optional_count("sliding_window", None))
    return decoder(c, mixer, feedforward(c))


# -- norms of queries and keys, norms after ---------------------------------------------------


def qwen2(c: Config) -> ModelShape:
    """Qwen2Config: biases on queries, keys and values; a window only where it is switched on."""
    mixer = attention(c, kv_heads=32, qkv_bias=True)
    return decoder(c, qwen_windows(c, mixer), feedforward(c))


def qwen3(c: Config) -> ModelShape:
    """Qwen3Config: heads 128 wide, a norm on each query and key head."""
    mixer = attention(c, kv_heads=32, head_dim=128, qk_norm="head", **biases(c))
    return decoder(c, qwen_windows(c, mixer), feedforward(c))


def qwen_windows(c: Config, mixer: Attention) -> AnyLayer | Column:
    """One mixer for all layers, or a window in some: on only by ``use_sliding_window``.

    Layers from ``max_window_layers`` on slide (the class default is 28), unless ``layer_types``
    lists each.
    """
    slides = c.flag("use_sliding_window", False)
    listed = c.kinds("layer_types", c.count("num_hidden_layers"), (FULL, SLIDING))
    if not slides:
        return mixer
    sliding = copy(mixer, window=c.optional_count("sliding_window", 4096))
    if listed is None:
        first = c.count_or_zero("max_window_layers", 28)
        listed = [SLIDING if i >= first else FULL for i in range(number_of_layers(c))]
    return by_kind(listed, {FULL: mixer, SLIDING: sliding})


def hunyuan(c: Config) -> ModelShape:
    """HunYuanDenseV1Config: a norm on each query and key head."""
    return decoder(c, attention(c, qk_norm="head", **biases(c)), feedforward(c))


def apertus(c: Config) -> ModelShape:
    """ApertusConfig: a norm on each query and key head, no gate; xIELU learns two numbers."""
    learned = 2 if c.get("hidden_act") in (None, "xielu") else 0
    mixer = attention(c, qk_norm="head", **biases(c))
    return decoder(c, mixer, feedforward(c, gated=False, scalars=learned))


def apertus1p5_text(c: Config) -> ModelShape:
    """Apertus1p5TextConfig: Apertus whose head may know fewer tokens than its embedding."""
    shape, rows = apertus(c), c.count("vocab_size")
    known = c.optional_count("output_vocab_size", None) or rows
    if known > rows:
        raise c.wrong("output_vocab_size", f"at most vocab_size={rows}")
    cut: ModelShape = copy(shape, vocab=known, embedding=Embedding(extra_rows=rows - known))
    return cut


def glm(c: Config) -> ModelShape:
    """GlmConfig: 2 KV heads, 128 wide; biases on queries, keys and values unless switched off."""
    mixer = attention(c, kv_heads=2, head_dim=128, qkv_bias=c.flag("attention_bias", True))
    return decoder(c, mixer, feedforward(c))


def glm4(c: Config) -> ModelShape:
    """Glm4Config: GLM with norms after each layer too."""
    mixer = attention(
        c,
        kv_heads=2,
        head_dim=128,
        qkv_bias=c.flag("attention_bias", True),
        post_norm="rms",
    )
    return decoder(c, mixer, feedforward(c, post_norm="rms"))


def olmo2(c: Config) -> ModelShape:
    """Olmo2Config: norms only after each layer, and over the full width of queries and keys."""
    mixer = attention(c, qk_norm="full", norm=None, post_norm="rms", **biases(c))
    return decoder(c, mixer, feedforward(c, norm=None, post_norm="rms"))


# -- LayerNorm, parallel halves, plain feed-forward layers ------------------------------------


def olmo(c: Config) -> ModelShape:
    """OlmoConfig: LayerNorms that have learned nothing."""
    return decoder(
        c, attention(c, norm="bare", **biases(c)), feedforward(c, norm="bare"), norm="bare"
    )


def cohere(c: Config) -> ModelShape:
    """CohereConfig: both halves of a block share a LayerNorm without shift; a tied head."""
    qk_norm = "full" if c.flag("use_qk_norm", False) else None
    mixer = attention(c, norm="layer-scale", qk_norm=qk_norm, **biases(c))
    return decoder(c, mixer, feedforward(c, norm=None), tied=True, norm="layer-scale")


def arcee(c: Config) -> ModelShape:
    """ArceeConfig: Llama without a gate."""
    plain = feedforward(c, gated=False, bias=c.flag("mlp_bias", False))
    return decoder(c, attention(c, **biases(c)), plain)


def nemotron(c: Config) -> ModelShape:
    """NemotronConfig: LayerNorm, no gate."""
    plain = feedforward(c, gated=False, norm="layer", bias=c.flag("mlp_bias", False))
    return decoder(c, attention(c, norm="layer", **biases(c)), plain, norm="layer")


def jais2(c: Config) -> ModelShape:
    """Jais2Config: LayerNorm, no gate, biases everywhere unless they are switched off."""
    plain = feedforward(c, gated=False, norm="layer", bias=c.flag("mlp_bias", True))
    mixer = attention(c, norm="layer", **biases(c, default=True))
    return decoder(c, mixer, plain, norm="layer")


def starcoder2(c: Config) -> ModelShape:
    """Starcoder2Config: 2 KV heads, LayerNorm, no gate, biases by one flag, a tied head."""
    window = c.optional_count("sliding_window", None)
    mixer = attention(c, kv_heads=2, norm="layer", window=window, **biases(c, "use_bias", True))
    plain = feedforward(c, gated=False, norm="layer", bias=c.flag("use_bias", True))
    return decoder(c, mixer, plain, tied=True, norm="layer")


def phi(c: Config) -> ModelShape:
    """PhiConfig: both halves of a block share a LayerNorm; biases everywhere, the head's too."""
    return phi_like(c)


def phi_like(c: Config, inner: Any = REQUIRED) -> ModelShape:
    """Phi with a default for the inner width.

    With ``qk_layernorm``, queries and keys have LayerNorms, whose shifts are counted as scalars.
    """
    normed = c.flag("qk_layernorm", False)
    mixer = attention(
        c,
        norm="layer",
        qkv_bias=True,
        output_bias=True,
        qk_norm="head" if normed else None,
        scalars=2 * divided(c, "hidden_size", "num_attention_heads") if normed else 0,
    )
    plain = feedforward(c, default=inner, gated=False, norm=None, bias=True)
    return decoder(c, mixer, plain, norm="layer", head_bias=True)


def stablelm(c: Config) -> ModelShape:
    """StableLmConfig: 32 KV heads, LayerNorm; parallel halves and a QK-norm are flags."""
    mixer = attention(
        c,
        kv_heads=32,
        head_dim=divided(c, "hidden_size", "num_attention_heads"),
        norm="layer",
        qkv_bias=c.flag("use_qkv_bias", False),
        qk_norm="full" if c.flag("qk_layernorm", False) else None,
    )
    parallel = c.flag("use_parallel_residual", False)
    return decoder(c, mixer, feedforward(c, norm=None if parallel else "layer"), norm="layer")


def nanochat(c: Config) -> ModelShape:
    """NanoChatConfig: no norm has learned anything, and one stands after the embedding; no gate."""
    mixer = attention(c, norm="bare", qk_norm="bare", **biases(c))
    plain = feedforward(c, gated=False, norm="bare")
    return decoder(c, mixer, plain, norm="bare", embedding=Embedding(norm="bare"))


# -- attention of another kind ----------------------------------------------------------------


def bitnet(c: Config) -> ModelShape:
    """BitNetConfig: 5 KV heads; norms before the last projection of each layer, as scalars."""
    hidden, inner = c.count("hidden_size"), c.count("intermediate_size")
    mixer = attention(c, kv_heads=5, scalars=hidden, **biases(c))
    return decoder(c, mixer, feedforward(c, scalars=inner))


def diffllama(c: Config) -> ModelShape:
    """DiffLlamaConfig: differences of two attentions, weighed by four learned vectors a layer."""
    mixer = attention(c, differential=True, scalars=4 * width_of_head(c), **biases(c))
    if mixer.kv_heads % 2:
        raise c.wrong("num_key_value_heads", "an even number", mixer.kv_heads)
    return decoder(c, mixer, feedforward(c))


def doge(c: Config) -> ModelShape:
    """DogeConfig: values tell which keys to mask, residuals are scaled; experts are one wide.

    Of the mask, counted are the projection and a number a head, not the tokens that it may save.
    """
    hidden = c.count("hidden_size")
    mixer = attention(c, qk_norm="head", masks_keys=True, **biases(c))
    mixer = copy(mixer, scalars=mixer.kv_heads + hidden)
    dense = feedforward(c, bias=c.flag("mlp_bias", False), scalars=hidden)
    both = (dense, doge_experts(c))  # asked for in any case: dense models state their number too
    return decoder(c, mixer, [both] * number_of_layers(c) if c.flag("is_moe", False) else dense)


def doge_experts(c: Config) -> MixtureOfExperts:
    """Experts beside the dense layer, found by the sum of a row's and a column's score."""
    number, chosen = c.count("num_experts", 16384), c.count("num_experts_per_tok", 64)
    side = isqrt(number)
    if chosen > side**2:
        raise c.wrong("num_experts_per_tok", f"at most num_experts={number}", chosen)
    return MixtureOfExperts(
        experts=number, top_k=chosen, width=1, gated=False, router_width=2 * side, norm=None
    )


DENSE: Final = {
    "apertus": Family(("ApertusForCausalLM",), apertus),
    "apertus1p5_text": Family(("Apertus1p5TextForCausalLM",), apertus1p5_text),
    "arcee": Family(("ArceeForCausalLM",), arcee),
    "bitnet": Family(("BitNetForCausalLM", "BitnetForCausalLM"), bitnet),
    "cohere": Family(("CohereForCausalLM",), cohere),
    "diffllama": Family(("DiffLlamaForCausalLM",), diffllama),
    "doge": Family(("DogeForCausalLM",), doge),
    "ernie4_5": Family(("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"), ernie4_5),
    "exaone": Family(
        ("ExaoneForCausalLM", "LlamaForCausalLM"), exaone, {"num_hidden_layers": ("num_layers",)}
    ),
    "gemma": Family(("GemmaForCausalLM",), gemma),
    "glm": Family(("GlmForCausalLM",), glm),
    "glm4": Family(("Glm4ForCausalLM",), glm4),
    "granite": Family(("GraniteForCausalLM",), llama),
    "helium": Family(("HeliumForCausalLM",), helium),
    "hunyuan_v1_dense": Family(
        ("HunYuanDenseV1ForCausalLM",), hunyuan, {"head_dim": ("attention_head_dim",)}
    ),
    "hyperclovax": Family(("HyperCLOVAXForCausalLM",), hyperclovax),
    "internlm3": Family(
        ("InternLM3ForCausalLM", "LlamaForCausalLM"),
        internlm3,
        {"attention_bias": ("qkv_bias",), "mlp_bias": ("bias",)},
    ),
    "iquestcoder": Family(("IQuestCoderForCausalLM", "LlamaForCausalLM"), iquestcoder),
    "jais2": Family(("Jais2ForCausalLM",), jais2),
    "llama": Family(("LlamaForCausalLM", "LLaMAForCausalLM"), llama),
    "ministral3": Family(("Ministral3ForCausalLM",), ministral3),
    "nanochat": Family(("NanoChatForCausalLM",), nanochat),
    "nemotron": Family(("NemotronForCausalLM",), nemotron),
    "olmo": Family(("OlmoForCausalLM",), olmo),
    "olmo2": Family(("Olmo2ForCausalLM",), olmo2),
    "phi": Family(("PhiForCausalLM",), phi),
    "phi3": Family(("Phi3ForCausalLM",), phi3),
    "qwen2": Family(("Qwen2ForCausalLM",), qwen2),
    "qwen3": Family(("Qwen3ForCausalLM",), qwen3),
    "seed_oss": Family(("SeedOssForCausalLM",), seed_oss),
    "stablelm": Family(("StableLmForCausalLM",), stablelm),
    "starcoder2": Family(("Starcoder2ForCausalLM",), starcoder2),
}
