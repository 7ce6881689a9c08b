"""Decoders whose residual stream has several copies, joined to each layer by hyper-connections."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import MAX_LAYERS, Config
from perfmodel.sources.huggingface.families.mla import (
    deepseek_experts,
    indexer,
    indexer_kinds,
    selecting,
    sizes,
    sparse_attention,
)
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    Row,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import dense_or_sparse
from perfmodel.work.layers import (
    AnyLayer,
    CompressedAttention,
    HyperConnection,
    KimiDeltaAttention,
)
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.shape import Block, ModelShape

INDEXED: Final = "indexed_attention"
LINEAR: Final = "linear_attention"
SELECTED: Final = "compressed_sparse_attention"
HEAVY: Final = "heavily_compressed_attention"


# -- the connections --------------------------------------------------------------------------


def mixed(c: Config) -> HyperConnection:
    """Weights to read the streams, to write them and to mix them, each kind with a scale."""
    streams = c.count("hc_mult", 4)
    return HyperConnection(streams=streams, outputs=(2 + streams) * streams, scalars=3)


def unmixed(c: Config) -> HyperConnection:
    """Weights to read the streams and to write them."""
    streams = c.count("hc_mult", 4)
    return HyperConnection(streams=streams, outputs=2 * streams, scalars=2)


def end_of_streams(c: Config) -> HyperConnection:
    """Weights to read the streams, for the last time."""
    streams = c.count("hc_mult", 4)
    return HyperConnection(streams=streams, outputs=streams, scalars=1)


def connected(each: HyperConnection, column: Column, *end: AnyLayer) -> Column:
    """A column with a hyper-connection before each item, and perhaps an end after the last."""
    rows: list[Row] = [
        (each, *(item if isinstance(item, tuple) else (item,))) for item in column if item
    ]
    rows[-1] = (*rows[-1], *end)
    return list(rows)


# -- DeepSeek V4 ------------------------------------------------------------------------------


def deepseek_v4(c: Config) -> ModelShape:
    """DeepseekV4Config: windows, and compressed entries behind them; experts in every layer.

    There is one shared expert, whatever ``n_shared_experts``. Layers that route by a fixed table of
    tokens have the router's weights all the same.
    """
    each, end = mixed(c), end_of_streams(c)
    shared = c.count("moe_intermediate_size")
    sparse = experts(c, shared=shared, shared_bias=c.flag("mlp_bias", False))
    *kinds, extra = deepseek_v4_kinds(c)
    made = {kind: deepseek_v4_mixer(c, kind) for kind in dict.fromkeys(kinds)}
    mixers = connected(each, [made[kind] for kind in kinds])
    layers = connected(each, [sparse] * len(kinds), end)
    count = c.count_or_zero("num_nextn_predict_layers", 0)
    row: Row = (MtpEntry(), each, deepseek_v4_mixer(c, extra), each, sparse, end)
    mtp: tuple[Block, ...] = ((count, row),) if count else ()
    return decoder(c, mixers, layers, mtp=mtp)


def deepseek_v4_kinds(c: Config) -> list[str]:
    """The kind of each layer, and that of MTP blocks: ``compress_ratios`` may end with it."""
    count, ratios = number_of_layers(c), c.get("compress_ratios")
    if ratios is None or c.get("layer_types") is not None:
        rule = every(2, SELECTED, HEAVY)
        kinds = layer_types(
            c, lambda i: HEAVY if i < 2 else rule(i - 2), (SELECTED, HEAVY, SLIDING)
        )
        return [*kinds, SLIDING]
    named = {0: SLIDING, 4: SELECTED, 128: HEAVY}
    whole = isinstance(ratios, list) and count <= len(ratios) <= MAX_LAYERS
    if not whole or any(type(ratio) is not int or ratio not in named for ratio in ratios):
        raise c.wrong("compress_ratios", f"num_hidden_layers={count} or more of 0, 4 and 128")
    return [named[ratio] for ratio in [*ratios, 0][: count + 1]]


def deepseek_v4_mixer(c: Config, kind: str) -> CompressedAttention:
    """A layer of some kind; a sink a head, in all of them."""
    heads, width = c.count("num_attention_heads"), c.count("head_dim")
    groups = c.count("o_groups")
    if heads * width % groups:
        raise c.wrong("o_groups", f"a divisor of num_attention_heads * head_dim={heads * width}")
    behind: dict[str, Any] = {}
    if kind != SLIDING:
        behind["ratio"] = compress_rate(c, kind)
    if kind == SELECTED:
        selection = Indexer(
            heads=c.count("index_n_heads"),
            dim=c.count("index_head_dim"),
            top_k=c.count("index_topk"),
        )
        behind |= {"overlap": True, "indexer": selection}
    return CompressedAttention(
        heads=heads,
        head_dim=width,
        query_rank=c.count("q_lora_rank"),
        window=c.count("sliding_window"),
        output_groups=groups,
        output_rank=c.count("o_lora_rank"),
        scalars=heads,
        **behind,
    )


def compress_rate(c: Config, kind: str) -> int:
    """Tokens of an entry: under a key of its own, in ``compress_rates``, or the class's."""
    key, rate = {SELECTED: ("compress_rate_csa", 4), HEAVY: ("compress_rate_hca", 128)}[kind]
    if c.get("compress_rates") is not None:
        rate = c.section("compress_rates").count(kind, rate)
    return c.count(key, rate)


# -- on latent attention ----------------------------------------------------------------------


def hy_v4(c: Config) -> ModelShape:
    """HYV4Config: a gate a value, a sink a head; the first layer and then one of four selects."""
    heads, count = c.count("num_attention_heads"), number_of_layers(c)
    mixer = sparse_attention(c, gate="value", scalars=heads)
    kinds = c.kinds("indexer_types", count, ("full", "shared"))
    if kinds is None:
        kinds = ["full" if i == 0 or i % 4 == 1 else "shared" for i in range(count)]
    each = unmixed(c)
    layers = dense_or_sparse(c, feedforward(c), deepseek_experts(c), first=1)
    return decoder(
        c,
        connected(each, [*selecting(c, mixer, kinds)]),
        connected(each, layers, end_of_streams(c)),
    )


def glm5_next(c: Config) -> ModelShape:
    """Glm5NextTextConfig: three Kimi delta layers to one of sparse MLA; the streams' mean at last.

    The indexer scores keys merged from ``index_kpool`` tokens, with learned biases by place.
    """
    pool, dim = c.count("index_kpool", 16), c.count("index_head_dim")
    mixer = sparse_attention(c, indexer=indexer(c, pool=pool, scalars=(2 + pool) * dim))
    indexed, delta = selecting(c, mixer, indexer_kinds(c)), glm5_delta(c)
    kinds = layer_types(c, every(4, INDEXED, LINEAR), (FULL, INDEXED, LINEAR))
    mixers: Column = [delta if kind == LINEAR else indexed[i] for i, kind in enumerate(kinds)]
    layers = dense_or_sparse(c, feedforward(c), deepseek_experts(c), first=3)
    each = mixed(c)
    return decoder(c, connected(each, mixers), connected(each, layers))


def glm5_delta(c: Config) -> KimiDeltaAttention:
    """Its sizes stand at the top or, in older files, in ``linear_attn_config``."""
    older = c.get("linear_attn_config") is not None
    inner = c.section("linear_attn_config") if older else None

    def size(key: str, short: str, default: int) -> int:
        found = c.count(key, default)
        return found if inner is None else inner.count(short, found)

    width = size("linear_head_dim", "head_dim", 128)
    return KimiDeltaAttention(
        heads=size("linear_num_heads", "num_heads", 64),
        head_dim=width,
        gate_rank=width,
        conv_kernel=size("linear_conv_kernel_dim", "short_conv_kernel_size", 4),
    )


_GLM_SIZES: Final = sizes(
    154_880, 4096, 12_288, 45,
    latents={
        "heads": 64, "query_rank": 1536, "kv_rank": 512,
        "nope_dim": 256, "rope_dim": 0, "value_dim": 256,
    },
    moe_intermediate_size=2048, num_experts=288, num_experts_per_tok=8, n_shared_experts=1,
    index_n_heads=32, index_head_dim=128, index_topk=2048,
)  # fmt: skip
_HY_SIZES: Final = sizes(
    120_832, 6144, 18_432, 78,
    latents={
        "heads": 64, "query_rank": 2048, "kv_rank": 512,
        "nope_dim": 192, "rope_dim": 64, "value_dim": 256,
    },
    moe_intermediate_size=2048, num_experts=256, num_experts_per_tok=8, n_shared_experts=1,
    index_n_heads=32, index_head_dim=128, index_topk=2048,
)  # fmt: skip
_V4: Final = Family(("DeepseekV4ForCausalLM",), deepseek_v4)

HYPER: Final = {
    "deepseek_ref": _V4,
    "deepseek_v4": _V4,
    "glm5_next_text": Family(("Glm5NextForCausalLM",), glm5_next, defaults=_GLM_SIZES),
    "hy_v4": Family(("HYV4ForCausalLM",), hy_v4),
    "hy_v4_vl_text": Family((), hy_v4, defaults=_HY_SIZES),
}
