"""Decoders with mixtures of experts behind grouped-query attention."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.mla import mtp_blocks
from perfmodel.sources.huggingface.families.moe_windows import MOE_WINDOWS, MTP_NAMES
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    attention,
    biases,
    decoder,
    divided,
    experts,
    feedforward,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import (
    dense_or_sparse,
    one_or_each,
    shared_experts,
    sparse_where,
)
from perfmodel.sources.huggingface.families.windowed import windows
from perfmodel.work.layers import Attention, FeedForward, MixtureOfExperts, MixtureOfHeads
from perfmodel.work.shape import ModelShape

# -- experts in every layer -----------------------------------------------------------------------


def mixtral(c: Config) -> ModelShape:
    """MixtralConfig: 8 KV heads, 2 of 8 experts; a window only where the config gives one."""
    mixer = attention(c, kv_heads=8, window=c.optional_count("sliding_window", None))
    moe = experts(c, width="intermediate_size")
    return decoder(c, mixer, moe)


def olmoe(c: Config) -> ModelShape:
    """OlmoeConfig: a norm over all queries, and one over all keys."""
    mixer = attention(c, qk_norm="full", **biases(c))
    return decoder(c, mixer, experts(c, width="intermediate_size"))


def flex_olmo(c: Config) -> ModelShape:
    """FlexOlmoConfig: like OLMoE, with each norm after its layer, not before."""
    mixer = attention(c, qk_norm="full", norm=None, post_norm="rms", **biases(c))
    moe = experts(c, width="intermediate_size", norm=None, post_norm="rms")
    return decoder(c, mixer, moe)


def phimoe(c: Config) -> ModelShape:
    """PhimoeConfig: LayerNorm; biases of attention and head are flags; a window is rare."""
    window = c.optional_count("sliding_window", None)
    mixer = attention(c, kv_heads=8, window=window, norm="layer", **biases(c))
    moe = experts(c, width="intermediate_size", norm="layer")
    return decoder(c, mixer, moe, norm="layer", head_bias=c.flag("lm_head_bias", False))


def granitemoe(c: Config) -> ModelShape:
    """GraniteMoeConfig, and GraniteMoeSharedConfig: perhaps a shared expert of its own width."""
    shared = c.count_or_zero("shared_intermediate_size", 0)
    moe = experts(c, width="intermediate_size", shared=shared)
    return decoder(c, attention(c, **biases(c)), moe)


def aria_text(c: Config) -> ModelShape:
    """AriaTextConfig: two shared experts; ``mlp_bias`` is for them alone."""
    bias = c.flag("mlp_bias", False)
    moe = shared_experts(c, default=2, width="intermediate_size", shared_bias=bias)
    return decoder(c, attention(c, **biases(c)), moe)


def minimax_m2(c: Config) -> ModelShape:
    """MiniMaxM2Config: heads 128 wide, a norm over all queries and one over all keys."""
    mixer = attention(c, kv_heads=8, head_dim=128, qk_norm="full")
    return decoder(c, mixer, experts(c, width="intermediate_size"))


def solar_open(c: Config) -> ModelShape:
    """SolarOpenConfig: heads 128 wide, one shared expert; no bias on the output."""
    mixer = attention(c, kv_heads=8, head_dim=128, qkv_bias=c.flag("attention_bias", False))
    return decoder(c, mixer, shared_experts(c, default=1))


def hunyuan_v1_moe(c: Config) -> ModelShape:
    """HunYuanMoEV1Config: a shared expert as wide as the routed ones; top-k may be listed."""
    mixer = attention(c, qk_norm="head", **biases(c))
    width = c.count("intermediate_size")
    chosen = one_or_each(c, "num_experts_per_tok")
    numbers = one_or_each(c, "num_experts")
    for most, top_k in zip(numbers, chosen, strict=True):
        if not 1 <= top_k <= most:
            raise c.wrong("num_experts_per_tok", f"from 1 to num_experts={most}")
    layers: Column = [
        MixtureOfExperts(experts=most, top_k=top_k, width=width, shared_width=width)
        for most, top_k in zip(numbers, chosen, strict=True)
    ]
    return decoder(c, mixer, layers)


def dbrx(c: Config) -> ModelShape:
    """DbrxConfig: sizes in two sections; norms that only scale."""
    heads, section = c.count("num_attention_heads"), c.section("attn_config")
    kv_heads = section.count("kv_n_heads")
    if heads % kv_heads:
        raise section.wrong("kv_n_heads", f"a divisor of n_heads={heads}")
    width = divided(c, "hidden_size", "num_attention_heads")
    mixer = Attention(heads=heads, kv_heads=kv_heads, head_dim=width, norm="layer-scale")
    moe = experts(c.section("ffn_config"), width="ffn_hidden_size", norm="layer-scale")
    return decoder(c, mixer, moe, norm="layer-scale")


def jetmoe(c: Config) -> ModelShape:
    """JetMoeConfig: experts of attention, too; one bias of the result in each layer; tied."""
    number, top_k = c.count("num_experts"), c.count("num_experts_per_tok")
    moe = experts(c, width="intermediate_size", scalars=c.count("hidden_size"))
    kv_heads = c.count("num_key_value_heads")
    mixer = MixtureOfHeads(
        heads=top_k * kv_heads,
        kv_heads=kv_heads,
        head_dim=c.count("head_dim"),
        experts=number,
        top_k=top_k,
        output_bias=True,
    )
    return decoder(c, mixer, moe, tied=True)


def grok_1(c: Config) -> ModelShape:
    """Grok1Config: norms before and after each layer; tied."""
    mixer = attention(c, post_norm="rms")
    return decoder(c, mixer, experts(c, width="intermediate_size", post_norm="rms"), tied=True)


def arctic(c: Config) -> ModelShape:
    """ArcticConfig: beside the experts a dense layer as wide as the model, with its own norm."""
    count, step = number_of_layers(c), c.count("moe_layer_frequency", 2)
    window = c.optional_count("sliding_window", None)
    moe = experts(c, width="intermediate_size")
    beside = FeedForward(width=c.count("hidden_size"))
    sparse = (beside, moe) if c.flag("parallel_attn_mlp_res", False) else (moe,)
    dense = (feedforward(c),)
    layers: Column = [sparse if (i + 1) % step == 0 else dense for i in range(count)]
    return decoder(c, attention(c, window=window, **biases(c)), layers)


# -- experts in some layers -----------------------------------------------------------------------


def qwen2_moe(c: Config) -> ModelShape:
    """Qwen2MoeConfig: biases but on the output; a shared expert behind a gate; windows rarely."""
    mixer = attention(c, kv_heads=16, qkv_bias=c.flag("qkv_bias", True))
    shared = c.count("shared_expert_intermediate_size")
    layers = sparse_where(c, experts(c, shared=shared, shared_gate=True), feedforward(c))
    if not c.flag("use_sliding_window", False):
        return decoder(c, mixer, layers)
    last = c.count_or_zero("max_window_layers", 28)
    mixers = windows(c, mixer, lambda i: FULL if i % 2 or i >= last else SLIDING)
    return decoder(c, mixers, layers)


def qwen3_moe(c: Config) -> ModelShape:
    """Qwen3MoeConfig: dense where ``mlp_only_layers`` or ``decoder_sparse_step`` say so."""
    slides = c.flag("use_sliding_window", False)
    window = c.optional_count("sliding_window", 4096) if slides else None
    mixer = attention(c, kv_heads=4, qk_norm="head", window=window, **biases(c))
    return decoder(c, mixer, sparse_where(c, experts(c), feedforward(c)))


def glm4_moe(c: Config) -> ModelShape:
    """Glm4MoeConfig: no bias on the output, a norm of heads by a flag, one shared expert.

    Without ``head_dim`` it is hidden / heads, rounded down.
    """
    mixer = attention(
        c,
        kv_heads=8,
        head_dim=c.count("head_dim", c.count("hidden_size") // c.count("num_attention_heads")),
        qkv_bias=c.flag("attention_bias", False),
        qk_norm="head" if c.flag("use_qk_norm", False) else None,
    )
    moe = shared_experts(c, default=1)
    layers = dense_or_sparse(c, feedforward(c), moe, first=1)
    return decoder(c, mixer, layers, mtp=mtp_blocks(c, mixer, moe))


def ernie4_5_moe(c: Config) -> ModelShape:
    """Ernie4_5_MoeConfig: experts from a first to a last layer, at intervals; tied."""
    bias, count = c.flag("use_bias", False), number_of_layers(c)
    mixer = attention(c, kv_heads=4, **biases(c, "use_bias"))
    moe = shared_experts(c, default=2, router_bias=True, shared_bias=bias)
    dense = feedforward(c, bias=bias)
    step, first = c.count("moe_layer_interval", 1), c.count_or_zero("moe_layer_start_index", 1)
    to_the_end = c.get("moe_layer_end_index") in (None, -1)
    last = count - 1 if to_the_end else c.count_or_zero("moe_layer_end_index")
    layers: Column = [
        moe if first <= i <= last and (i + 1) % step == 0 else dense for i in range(count)
    ]
    mtp = mtp_blocks(c, mixer, dense)
    return decoder(c, mixer, layers, tied=True, head_bias=bias, mtp=mtp)


def hy_v3(c: Config) -> ModelShape:
    """HYV3Config: one dense layer first, one shared expert; ``mlp_bias`` is not for the routed."""
    mixer = attention(c, kv_heads=8, head_dim=128, qk_norm="head", **biases(c))
    bias = c.flag("mlp_bias", False)
    moe = shared_experts(c, default=1, shared_bias=bias)
    layers = dense_or_sparse(c, feedforward(c, bias=bias), moe, first=1)
    return decoder(c, mixer, layers, mtp=mtp_blocks(c, mixer, moe))


def deepseek(c: Config) -> ModelShape:
    """DeepseekConfig of the first DeepSeek-MoE: dense layers first, then experts at intervals."""
    layers = dense_or_sparse(c, feedforward(c), shared_experts(c), first=0)
    return decoder(c, attention(c, **biases(c)), layers)


def bailing_moe(c: Config) -> ModelShape:
    """BailingMoeConfig of Ling: the norm of heads is a flag, so are biases, in two kinds."""
    mixer = attention(
        c,
        qkv_bias=c.flag("use_qkv_bias", False),
        output_bias=c.flag("use_bias", False),
        qk_norm="head" if c.flag("use_qk_norm", False) else None,
    )
    moe = shared_experts(c)
    layers = dense_or_sparse(c, feedforward(c), moe, first=0)
    return decoder(c, mixer, layers, mtp=mtp_blocks(c, mixer, moe))


MOE: Final = {
    "arctic": Family(("ArcticForCausalLM",), arctic),
    "aria_text": Family(("AriaTextForCausalLM",), aria_text),
    "bailing_moe": Family(("BailingMoeForCausalLM",), bailing_moe),
    "bailing_moe_v2": Family(("BailingMoeV2ForCausalLM",), bailing_moe),
    "dbrx": Family(
        ("DbrxForCausalLM", "DBRXForCausalLM"),
        dbrx,
        {
            "hidden_size": ("d_model",),
            "max_position_embeddings": ("max_seq_len",),
            "num_attention_heads": ("n_heads",),
            "num_hidden_layers": ("n_layers",),
        },
    ),
    "deepseek": Family(("DeepseekForCausalLM",), deepseek),
    "ernie4_5_moe": Family(("Ernie4_5_MoeForCausalLM", "Ernie4_5_MoEForCausalLM"), ernie4_5_moe),
    "flex_olmo": Family(("FlexOlmoForCausalLM",), flex_olmo),
    "glm4_moe": Family(("Glm4MoeForCausalLM",), glm4_moe, MTP_NAMES),
    "granitemoe": Family(("GraniteMoeForCausalLM",), granitemoe),
    "granitemoeshared": Family(("GraniteMoeSharedForCausalLM",), granitemoe),
    "grok-1": Family(("Grok1ModelForCausalLM", "Grok1ForCausalLM"), grok_1),
    "hunyuan_v1_moe": Family(("HunYuanMoEV1ForCausalLM",), hunyuan_v1_moe),
    "hy_v3": Family(("HYV3ForCausalLM",), hy_v3),
    "jetmoe": Family(
        ("JetMoeForCausalLM", "JetMoEForCausalLM"),
        jetmoe,
        {"head_dim": ("kv_channels",), "intermediate_size": ("ffn_hidden_size",)},
    ),
    "minimax_m2": Family(("MiniMaxM2ForCausalLM",), minimax_m2),
    "mixtral": Family(("MixtralForCausalLM",), mixtral),
    "olmoe": Family(("OlmoeForCausalLM",), olmoe),
    "phimoe": Family(("PhimoeForCausalLM", "PhiMoEForCausalLM"), phimoe),
    "qwen2_moe": Family(("Qwen2MoeForCausalLM",), qwen2_moe),
    "qwen3_moe": Family(("Qwen3MoeForCausalLM",), qwen3_moe),
    "sarvam_moe": Family(
        ("SarvamMoEForCausalLM", "Glm4MoeForCausalLM"),
        glm4_moe,
        {"attention_bias": ("use_qkv_bias",), **MTP_NAMES},
        # SarvamMoEConfig
        {"head_dim": 64, "num_key_value_heads": 4, "use_qk_norm": True},
    ),
    "solar_open": Family(("SolarOpenForCausalLM",), solar_open),
} | MOE_WINDOWS
