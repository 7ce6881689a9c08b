"""The parts of multi-head latent attention (MLA) and of what stands around it."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import (
    Column,
    copy,
    decoder,
    experts,
    feedforward,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import dense_or_sparse
from perfmodel.work.layers import LatentAttention, MixtureOfExperts
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.shape import Block, ModelShape

LATENT_SIZES: Final = {
    "heads": "num_attention_heads",
    "query_rank": "q_lora_rank",
    "kv_rank": "kv_lora_rank",
    "nope_dim": "qk_nope_head_dim",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
}


def latent_attention(c: Config, **fields: Any) -> LatentAttention:
    """MLA from the keys that its classes share; ``fields`` are those that differ.

    Where ``q_lora_rank`` is null, queries have no latent; where it is absent, the class's word
    counts. ``head_dim`` and ``num_key_value_heads`` say nothing here.
    """
    bias = c.flag("attention_bias", False)
    fields = {"down_bias": bias, "output_bias": bias, **fields}
    if "query_rank" not in fields:
        fields["query_rank"] = c.optional_count("q_lora_rank", None)
    if "rope_dim" not in fields:
        fields["rope_dim"] = c.count_or_zero("qk_rope_head_dim")
    for field, key in LATENT_SIZES.items():
        if field not in fields:
            fields[field] = c.count(key)
    return LatentAttention(**fields)


# -- what follows it --------------------------------------------------------------------------


def deepseek_experts(c: Config, **fields: Any) -> MixtureOfExperts:
    """Routed experts and ``n_shared_experts`` shared ones of the same width."""
    shared = c.count_or_zero("n_shared_experts", 0) * c.count("moe_intermediate_size")
    return experts(c, shared=shared, **fields)


def mtp_blocks(c: Config, *layers: Any, key: str = "num_nextn_predict_layers") -> tuple[Block, ...]:
    """Extra blocks, each entered by a projection of the last hidden state and a new embedding."""
    count = c.count_or_zero(key, 0)
    return ((count, (MtpEntry(), *layers)),) if count else ()


def deepseek(
    c: Config, mixer: LatentAttention, sparse: MixtureOfExperts, mixers: Column | None = None
) -> ModelShape:
    """DeepSeek's frame; ``mixers`` where not every layer has the one of the MTP blocks."""
    layers = dense_or_sparse(c, feedforward(c), sparse)
    return decoder(c, mixers or mixer, layers, mtp=mtp_blocks(c, mixer, sparse))


def sizes(
    vocab: int, hidden: int, inner: int, layers: int, *, latents: dict[str, int], **more: int
) -> dict[str, int]:
    """What a class says of its sizes; ``latents`` by the fields of ``LatentAttention``."""
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        **{LATENT_SIZES[field]: size for field, size in latents.items()},
        **more,
    }


# -- the selection of tokens ------------------------------------------------------------------


def sparse_attention(c: Config, **fields: Any) -> LatentAttention:
    """MLA to the tokens that an indexer selects; it reads the queries' latent."""
    fields = {"query_rank": c.count("q_lora_rank"), "indexer": indexer(c), **fields}
    return latent_attention(c, **fields)


def indexer(c: Config, **fields: Any) -> Indexer:
    """What selects tokens, from the keys that its classes share; its key has a LayerNorm."""
    dim = c.count("index_head_dim")
    fields = {"scalars": 2 * dim, **fields}
    return Indexer(heads=c.count("index_n_heads"), dim=dim, top_k=c.count("index_topk"), **fields)


def indexer_kinds(c: Config) -> list[str]:
    """Which layers select tokens (full) and which take an earlier one's selection (shared).

    ``indexer_types`` lists them, or ``index_topk_pattern``; else one of ``index_topk_freq`` layers
    selects, from ``index_skip_topk_offset`` on, and all before.
    """
    count, known = number_of_layers(c), ("full", "shared")
    pattern, kinds = c.get("index_topk_pattern"), c.kinds("indexer_types", count, known)
    if kinds is None and isinstance(pattern, str):
        if len(pattern) != count or set(pattern) - set("FS"):
            raise c.wrong("index_topk_pattern", f"num_hidden_layers={count} letters, each F or S")
        kinds = ["full" if letter == "F" else "shared" for letter in pattern]
    if kinds is None:
        kinds = c.kinds("index_topk_pattern", count, known)
    if kinds is not None:
        return kinds
    step = max(c.count_or_zero("index_topk_freq", 1), 1)
    start = c.count_or_zero("index_skip_topk_offset", 2) - 1
    return ["full" if max(i - start, 0) % step == 0 else "shared" for i in range(count)]


def selecting(c: Config, mixer: LatentAttention, kinds: list[str]) -> list[LatentAttention]:
    """A sparse layer for each kind of indexer."""
    if kinds[0] == "shared":
        raise c.wrong("indexer_types", "a first layer that selects for itself", kinds[0])
    shared = copy(mixer, indexer=copy(mixer.indexer, shared=True))
    return [shared if kind == "shared" else mixer for kind in kinds]
