"""Decoders with multi-head latent attention to the tokens that an indexer selects."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.mla import (
    LATENT_SIZES,
    deepseek,
    deepseek_experts,
    indexer,
    indexer_kinds,
    latent_attention,
    mtp_blocks,
    selecting,
    sizes,
    sparse_attention,
)
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    copy,
    decoder,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import dense_or_sparse
from perfmodel.work.layers import FeedForward, GatedNorm, LatentAttention, MixtureOfExperts
from perfmodel.work.shape import ModelShape

INDEXED: Final = "indexed_attention"


def deepseek_v32(c: Config) -> ModelShape:
    """DeepseekV32Config: every layer has an indexer."""
    return deepseek(c, sparse_attention(c), deepseek_experts(c))


def glm_moe_dsa(c: Config) -> ModelShape:
    """GlmMoeDsaConfig: as DeepSeek V3.2, but layers may share an earlier one's selection."""
    mixer = sparse_attention(c)
    mixers: Column = [*selecting(c, mixer, indexer_kinds(c))]
    return deepseek(c, mixer, deepseek_experts(c), mixers)


def axk2(c: Config) -> ModelShape:
    """AXK2Config: a gate projected with the queries; norms gated before attention and experts."""
    gated = GatedNorm(rank=c.count("gated_norm_rank", 16))
    mixer = (gated, sparse_attention(c, gate="query", norm=None))
    sparse = (gated, deepseek_experts(c, norm=None))
    mixers: Column = [mixer] * number_of_layers(c)
    layers = dense_or_sparse(c, feedforward(c), sparse)
    return decoder(c, mixers, layers, mtp=mtp_blocks(c, *mixer, *sparse))


# -- Mistral Large 4 --------------------------------------------------------------------------


def mistral_large4(c: Config) -> ModelShape:
    """MistralLarge4TextConfig: no latent of queries; heads scale scores, with a bias.

    The indexer's heads do so too; it norms its input. Rotary frequencies have learned scales.
    """
    count, heads, hidden = number_of_layers(c), c.count("index_n_heads"), c.count("hidden_size")
    mixer = latent_attention(
        c,
        query_rank=None,
        scalars=2 * c.count("num_attention_heads"),
        indexer=indexer(c, scalars=2 * (c.count("index_head_dim") + hidden + heads)),
    )
    mixers = selecting(c, mixer, indexer_kinds(c))
    rotary, sources = rotary_layers(c, count), latent_sources(c, count)
    wide = {"rope_dim": 0, "nope_dim": mixer.nope_dim + mixer.rope_dim}
    column: Column = [
        copy(one, shares_kv=sources[i] != i, **({} if rotary[i] else wide))
        for i, one in enumerate(mixers)
    ]
    # One scale a frequency, for all layers: it stands with the first feed-forward layer.
    frequencies = {"scalars": mixer.rope_dim // 2}
    first, *layers = dense_or_sparse(c, feedforward(c), deepseek_experts(c))
    return decoder(c, column, [copy(first, **frequencies), *layers])


def rotary_layers(c: Config, count: int) -> list[int]:
    """Which layers have a rotary part; those of 0 have as much more without positions."""
    interval = c.count("no_rope_layer_interval", 4)
    return c.counts("no_rope_layers", count) or [(i + 1) % interval for i in range(count)]


def latent_sources(c: Config, count: int) -> list[int]:
    """Whose latent each layer attends: its own, or that of an earlier one which has one."""
    sources = c.counts("kv_source_layers", count) or list(range(count))
    if any(source > i or sources[source] != source for i, source in enumerate(sources)):
        raise c.wrong("kv_source_layers", "earlier layers that have a latent of their own")
    return sources


# -- dots3 ------------------------------------------------------------------------------------


def dots3_note(c: Config) -> ModelShape:
    """Dots3NoteTextConfig: windows of MLA with sizes of their own; a gate a head; experts."""
    mixers: Column = [dots3_mixer(c, i, kind) for i, kind in enumerate(dots3_kinds(c))]
    width = c.count(
        "shared_experts_intermediate_size", c.count("moe_shared_expert_intermediate_size", 1536)
    )
    sparse = experts(c, shared=width * c.count("n_shared_experts", 1))
    return decoder(c, mixers, dots3_layers(c, feedforward(c), sparse))


def dots3_kinds(c: Config) -> list[str]:
    """``use_dsa`` renames full layers; published files say full where they mean indexed."""
    windows = c.flag("use_sliding_window", True)
    kinds = layer_types(
        c,
        lambda i: SLIDING if windows and i >= 2 and i % 4 != 1 else INDEXED,
        (FULL, INDEXED, SLIDING),
    )
    if c.get("use_dsa") is None and c.get("per_layer_config") is not None:
        return kinds
    other = INDEXED if c.flag("use_dsa", True) else FULL
    return [kind if kind == SLIDING else other for kind in kinds]


def dots3_mixer(c: Config, layer: int, kind: str) -> LatentAttention:
    """A layer whose sizes stand in ``per_layer_config`` or under keys with ``swa_``."""
    if c.get("per_layer_config") is not None:
        own = dots3_sizes(c, layer)
    else:
        own = dots3_windows(c) if kind == SLIDING else {}
    mixer = latent_attention(c, gate="head", **own)
    window = c.count("sliding_window", c.count("sliding_window_size", 512))
    return copy(  # type: ignore[no-any-return]
        mixer,
        scalars=mixer.rope_dim,  # the norm of the rotary key
        window=window if kind == SLIDING else None,
        indexer=indexer(c) if kind == INDEXED else None,
    )


def dots3_sizes(c: Config, layer: int) -> dict[str, Any]:
    """What ``per_layer_config`` says of a layer, whose number may be padded with zeros."""
    every_layer = c.section("per_layer_config")
    for name in (f"{layer}", f"{layer:02}", f"{layer:03}"):
        if every_layer.has_section(name):
            one = every_layer.section(name)
            return {field: one.count(key) for field, key in LATENT_SIZES.items() if one.has(key)}
    return {}


def dots3_windows(c: Config) -> dict[str, Any]:
    """The sizes of layers with a window, under keys with ``swa_``."""
    defaults = {"heads": 64, "query_rank": 1024, "kv_rank": 1024, "nope_dim": 192, "value_dim": 128}
    found = {field: c.count("swa_" + LATENT_SIZES[field], size) for field, size in defaults.items()}
    rest = c.count("swa_head_dim", 256) - found["nope_dim"]
    return {**found, "rope_dim": c.count("swa_qk_rope_head_dim", rest)}


def dots3_layers(c: Config, dense: FeedForward, sparse: MixtureOfExperts) -> Column:
    """``moe_layer_freq`` may be a list: 1 where a layer has experts."""
    if c.has("mlp_layer_types") or not isinstance(c.get("moe_layer_freq"), list):
        return dense_or_sparse(c, dense, sparse, first=1)
    first = c.count_or_zero("first_k_dense_replace", 1)
    flags = c.counts("moe_layer_freq", number_of_layers(c)) or []
    return [sparse if flag and i >= first else dense for i, flag in enumerate(flags)]


_DOTS3_SIZES: Final = sizes(
    152_064, 5120, 13_824, 46,
    latents={
        "heads": 128, "query_rank": 1024, "kv_rank": 512,
        "nope_dim": 128, "rope_dim": 64, "value_dim": 128,
    },
    moe_intermediate_size=1536, num_experts=256, num_experts_per_tok=8,
    index_n_heads=64, index_head_dim=128, index_topk=2048,
)  # fmt: skip
_MISTRAL_SIZES: Final = sizes(
    204_800, 6144, 24_576, 72,
    latents={"heads": 64, "kv_rank": 512, "nope_dim": 64, "rope_dim": 64, "value_dim": 128},
    moe_intermediate_size=6144, num_experts=128, num_experts_per_tok=4, n_shared_experts=1,
    first_k_dense_replace=1, index_n_heads=32, index_head_dim=128, index_topk=2048,
)  # fmt: skip

LATENT_SPARSE: Final = {
    "axk2": Family(("AXK2ForCausalLM",), axk2, defaults={"first_k_dense_replace": 1}),
    "deepseek_v32": Family(
        ("DeepseekV32ForCausalLM",), deepseek_v32, defaults={"first_k_dense_replace": 3}
    ),
    "dots3_note_text": Family(("Dots3NoteForCausalLM",), dots3_note, defaults=_DOTS3_SIZES),
    "glm_moe_dsa": Family(
        ("GlmMoeDsaForCausalLM",), glm_moe_dsa, defaults={"first_k_dense_replace": 3}
    ),
    "mistral_large4_text": Family((), mistral_large4, defaults=_MISTRAL_SIZES),
}
