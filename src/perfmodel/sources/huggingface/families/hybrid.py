"""Decoders that mix attention with layers of constant state."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.delta import DELTA, LINEAR
from perfmodel.sources.huggingface.families.inkling import INKLING
from perfmodel.sources.huggingface.families.mla import latent_attention, mtp_blocks
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Family,
    attention,
    biases,
    by_kind,
    by_mlp_type,
    copy,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.qwen4 import QWEN4
from perfmodel.sources.huggingface.families.sparse import shared_experts
from perfmodel.sources.huggingface.families.zaya import ZAYA
from perfmodel.work.layers import (
    AnyLayer,
    FeedForward,
    KimiDeltaAttention,
    LightningAttention,
    ShortConvolution,
)
from perfmodel.work.shape import ModelShape

CONV: Final = "conv"


# -- short convolutions -----------------------------------------------------------------------


def short_convolution(c: Config, kernel: int, **fields: Any) -> ShortConvolution:
    """LFM's gated convolution over all channels of the stream."""
    return ShortConvolution(
        channels=c.count("hidden_size"),
        conv_kernel=c.count("conv_L_cache", kernel),
        bias=c.flag("conv_bias", False),
        **fields,
    )


def lfm2_kinds(c: Config) -> list[str]:
    """As ``layer_types`` lists them, else attention at ``full_attn_idxs``, else everywhere."""
    full = c.indices("full_attn_idxs", number_of_layers(c))
    everywhere = c.get("full_attn_idxs") is None
    return layer_types(c, lambda i: FULL if everywhere or i in full else CONV, (FULL, CONV))


def lfm2_feedforward(c: Config) -> FeedForward:
    """Two thirds of ``intermediate_size``, scaled and rounded up, unless it is to stand."""
    width = c.count("intermediate_size")
    if c.flag("block_auto_adjust_ff_dim", True):
        width = 2 * width // 3
        if c.get("block_ffn_dim_multiplier") is not None or not c.has("block_ffn_dim_multiplier"):
            multiple = c.count("block_multiple_of", 256)
            width = int(c.factor("block_ffn_dim_multiplier", 1.0) * width)
            width = -(-width // multiple) * multiple
    return FeedForward(width=width)


def lfm2(c: Config) -> ModelShape:
    """Lfm2Config: convolutions over 3 tokens, and attention with QK-norm; tied."""
    full = attention(c, kv_heads=8, qk_norm="head")
    mixers = by_kind(lfm2_kinds(c), {FULL: full, CONV: short_convolution(c, 3)})
    return decoder(c, mixers, lfm2_feedforward(c), tied=True)


def lfm2_moe(c: Config) -> ModelShape:
    """Lfm2MoeConfig: as Lfm2Config; two dense layers of the full width, then experts."""
    full = attention(c, kv_heads=8, qk_norm="head")
    count = number_of_layers(c)
    kinds = c.kinds("layer_types", count, (FULL, CONV))
    if kinds is None:
        raise c.wrong("layer_types", "a list of layer types")
    mixers = by_kind(kinds, {FULL: full, CONV: short_convolution(c, 3)})
    dense, sparse, first = feedforward(c), experts(c), c.count_or_zero("num_dense_layers", 2)
    return decoder(c, mixers, [dense if i < first else sparse for i in range(count)], tied=True)


def lfm3(c: Config) -> ModelShape:
    """Lfm3Config: convolutions over 7 tokens, windows and full attention, gated head by head."""
    after: dict[str, Any] = {"post_norm": "rms" if c.flag("use_sandwich_norm", True) else None}
    full = attention(
        c,
        kv_heads=4,
        head_dim=128,
        gate="head" if c.flag("use_attention_gate", True) else None,
        gate_bias=False,
        qk_norm="head",
        **biases(c),
        **after,
    )
    mixers = {
        FULL: full,
        SLIDING: copy(full, window=c.optional_count("sliding_window", 256)),
        CONV: short_convolution(c, 7, **after),
    }
    pattern = (SLIDING, CONV, FULL, CONV)
    kinds = layer_types(c, lambda i: pattern[i % 4] if i else CONV, tuple(mixers))
    return decoder(c, by_kind(kinds, mixers), feedforward(c, **after), tied=True)


# -- lightning attention ----------------------------------------------------------------------


def minimax(c: Config) -> ModelShape:
    """MiniMaxConfig: lightning attention in every second layer, 2 of 8 experts in each."""
    full = attention(c, kv_heads=8, window=c.optional_count("sliding_window", None))
    lightning = LightningAttention(
        heads=full.heads, head_dim=full.head_dim, chunk_size=c.count("block_size", 256)
    )
    shared = c.count_or_zero("shared_intermediate_size", 0)
    moe = experts(c, width="intermediate_size", shared=shared, shared_gate=shared > 0)
    return decoder(c, by_kind(minimax_kinds(c), {FULL: full, LINEAR: lightning}), moe)


def minimax_01(c: Config) -> ModelShape:
    """The remote code of MiniMax-Text-01 and MiniMax-M1: which layer is what must be listed."""
    if c.get("attn_type_list") is None:
        raise c.wrong("attn_type_list", "a list of 0 and 1")
    return minimax(c)


def minimax_kinds(c: Config) -> list[str]:
    """As ``layer_types`` or, 0 for lightning attention and 1 for full, ``attn_type_list`` lists."""
    listed = c.counts("attn_type_list", number_of_layers(c))
    if listed is None:
        return layer_types(c, every(2, FULL, LINEAR, offset=0), (FULL, LINEAR))
    if max(listed) > 1:
        raise c.wrong("attn_type_list", "nothing but 0 and 1")
    return layer_types(c, lambda i: (LINEAR, FULL)[listed[i]], (FULL, LINEAR))


# -- Kimi delta attention ---------------------------------------------------------------------


def kimi_linear(c: Config) -> ModelShape:
    """KimiLinearConfig: Kimi delta attention, every fourth layer latent attention; untied."""
    inner = c.section("linear_attn_config") if c.has_section("linear_attn_config") else None

    def size(key: str, own: str, default: int) -> int:
        flat = c.count(own, default)
        return flat if inner is None else inner.count(key, flat)

    head_dim = size("head_dim", "linear_head_dim", 128)
    delta = KimiDeltaAttention(
        heads=size("num_heads", "linear_num_heads", 32),
        head_dim=head_dim,
        gate_rank=head_dim,
        conv_kernel=size("short_conv_kernel_size", "linear_conv_kernel_dim", 4),
    )
    mixers: dict[str, AnyLayer] = {FULL: latent_attention(c), LINEAR: delta}
    first = c.count_or_zero("first_k_dense_replace", 1)
    layers = by_mlp_type(c, feedforward(c), shared_experts(c, default=1), first=first)
    return untied(decoder(c, by_kind(kimi_kinds(c, inner), mixers), layers))


def kimi_kinds(c: Config, inner: Config | None) -> list[str]:
    """As ``layer_types`` or the two lists of ``linear_attn_config``, from 1 up, have them."""
    count = number_of_layers(c)
    default = [FULL if i and i % 4 == 0 else LINEAR for i in range(count)]
    if inner is not None and inner.has("full_attn_layers") and inner.has("kda_layers"):
        full = inner.indices("full_attn_layers", count + 1)
        linear = inner.indices("kda_layers", count + 1)
        if full & linear or full | linear != set(range(1, count + 1)):
            raise inner.wrong(
                "kda_layers", f"with full_attn_layers, each layer from 1 to {count} once"
            )
        default = [FULL if i + 1 in full else LINEAR for i in range(count)]
    return layer_types(c, default.__getitem__, (FULL, LINEAR))


def untied(shape: ModelShape) -> ModelShape:
    """The same with a head of its own, whatever the config says: the class never ties it."""
    return shape.model_copy(update={"head": copy(shape.head, tied=False)})


def bailing_hybrid(c: Config) -> ModelShape:
    """BailingHybridConfig: Kimi delta attention, every sixth layer gated latent attention."""
    delta = KimiDeltaAttention(
        heads=c.count("linear_num_heads", c.count("num_attention_heads")),
        head_dim=c.count("linear_head_dim", c.count("head_dim", 128)),
        conv_kernel=c.count("linear_conv_kernel_dim", c.count("short_conv_kernel_size", 4)),
    )
    full = latent_attention(c, gate="head")
    kinds = layer_types(c, every(c.count("layer_group_size", 6), FULL, LINEAR), (FULL, LINEAR))
    sparse, first = shared_experts(c, default=1), c.count_or_zero("first_k_dense_replace", 2)
    layers = by_mlp_type(c, feedforward(c), sparse, first=first)
    mtp = mtp_blocks(c, full, sparse)
    return untied(decoder(c, by_kind(kinds, {FULL: full, LINEAR: delta}), layers, mtp=mtp))


# -- recurrence in depth ----------------------------------------------------------------------


def hrm_text(c: Config) -> ModelShape:
    """HrmTextConfig: a low stack that runs ``L_cycles`` times before a high one, and both again."""
    heads = c.count("num_attention_heads")
    mixer = attention(c, kv_heads=heads, head_dim=128, gate="value", norm="bare", **biases(c))
    dense = feedforward(c, bias=c.flag("mlp_bias", False), norm="bare")
    new, again = (mixer, dense), (copy(mixer, reused=True), copy(dense, reused=True))
    low, high = c.count("L_cycles", 3), c.count("H_cycles", 2)
    stack = hrm_stack(c, high * (low + 1))
    blocks = (
        (1, (copy(mixer, scalars=c.count("hidden_size")), dense)),  # the low stack's first state
        (stack - 1, new),
        (stack * (low - 1), again),
        (stack, new),
        (stack * (high - 1) * (low + 1), again),
    )
    shape = decoder(c, mixer, dense, norm="bare")
    return shape.model_copy(update={"blocks": tuple(block for block in blocks if block[0])})


def hrm_stack(c: Config, passes: int) -> int:
    """Blocks of one stack; where they have a key, ``num_hidden_layers`` counts every pass."""
    total = c.count("num_hidden_layers")
    stack = c.count("num_layers_per_stack", total)
    if c.get("num_layers_per_stack") is not None and total != stack * passes:
        raise c.wrong("num_hidden_layers", f"{passes} times num_layers_per_stack={stack}", total)
    return stack


_KIMI_NAMES: Final = {
    "num_experts_per_tok": ("num_experts_per_token",),
    "n_shared_experts": ("num_shared_experts",),
    "max_position_embeddings": ("model_max_length",),
}
_LFM_NAMES: Final = {"tie_word_embeddings": ("tie_embedding",)}

HYBRID: Final = {
    **DELTA,
    **INKLING,
    **QWEN4,
    **ZAYA,
    "bailing_hybrid": Family(
        ("BailingHybridForCausalLM", "BailingMoeV3ForCausalLM"),
        bailing_hybrid,
        {**_KIMI_NAMES, "num_nextn_predict_layers": ("num_mtp_layers",)},
    ),
    "hrm_text": Family(("HrmTextForCausalLM",), hrm_text),
    "kimi_linear": Family(("KimiLinearForCausalLM",), kimi_linear, _KIMI_NAMES),
    "lfm2": Family(
        ("Lfm2ForCausalLM", "LFM2ForCausalLM"),
        lfm2,
        {"intermediate_size": ("block_ff_dim",), **_LFM_NAMES},
    ),
    "lfm2_moe": Family(("Lfm2MoeForCausalLM",), lfm2_moe, _LFM_NAMES),
    "lfm3": Family(("Lfm3ForCausalLM",), lfm3),
    "minimax": Family(("MiniMaxForCausalLM",), minimax),
    "minimax_m1": Family(("MiniMaxM1ForCausalLM",), minimax_01),
    "minimax_text_01": Family(("MiniMaxText01ForCausalLM",), minimax_01),
}
