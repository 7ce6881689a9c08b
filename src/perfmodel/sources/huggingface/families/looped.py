"""Decoders that run some of their layers several times a token."""

from __future__ import annotations

from typing import Final

from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import MAX_LAYERS, Config
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Family,
    Row,
    attention,
    copy,
    every,
    feedforward,
    number_of_layers,
    runs,
)
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.shape import ModelShape


def dory(c: Config) -> ModelShape:
    """DoryConfig: input layers, layers that run ``n_recurrent_loops`` times, output layers.

    Bare norms before and after; learned scales for queries, gates, inner values and residuals, as
    scalars, and for each token's logit, as the head's bias. Each loop has a cache of its own.
    """
    if c.get("recurrent_kv_cache_mode") not in (None, "per_loop"):
        raise UnsupportedModelError("config.recurrent_kv_cache_mode: only per_loop is read")
    kinds, first, last = dory_layers(c)
    blocks = dory_blocks(c)
    rows, end = [blocks[kind] for kind in kinds], len(kinds) - last
    loop = [tuple(copy(layer, reused=True) for layer in row) for row in rows[first:end]]
    loops = c.count("n_recurrent_loops", 2)
    if loops * len(rows) > MAX_LAYERS:
        raise c.wrong("n_recurrent_loops", f"at most {MAX_LAYERS} layers in all loops")
    return ModelShape(
        hidden=c.count("hidden_size"),
        vocab=c.count("vocab_size"),
        blocks=runs([*rows[:end], *loop * (loops - 1), *rows[end:]]),
        embedding=Embedding(),
        head=Head(tied=c.flag("tie_word_embeddings", False), norm="bare", bias=True),
        max_context=c.optional_count("max_position_embeddings", None),
    )


def dory_layers(c: Config) -> tuple[list[str], int, int]:
    """Each layer's kind, and how many are input and output layers.

    Where ``layer_types`` lists feed-forward layers too, all counts are of single layers.
    """
    count = number_of_layers(c)
    kinds = c.kinds("layer_types", count, (FULL, SLIDING, "mlp"))
    ends = [c.count_or_zero(key, 8) for key in ("n_input_layers", "n_output_layers")]
    if kinds is None:
        kinds = [every(4, FULL, SLIDING)(i) for i in range(count)]
    elif "mlp" in kinds:
        if kinds[1::2] != ["mlp"] * (count // 2) or "mlp" in kinds[::2] or count % 2:
            raise c.wrong("layer_types", "an mlp after each attention")
        kinds, ends = kinds[::2], [end // 2 for end in ends]
    between = len(kinds) - sum(ends)
    stated = c.optional_count("n_recurrent_layers", None)
    if between < 0 or stated not in (None, between * count // len(kinds)):
        raise c.wrong("n_recurrent_layers", "what input and output layers leave of all", stated)
    return kinds, ends[0], ends[1]


def dory_blocks(c: Config) -> dict[str, Row]:
    """The block of each kind: gated attention with or without a window, and its feed-forward."""
    hidden, inner = c.count("hidden_size"), c.count("intermediate_size")
    mixer = attention(
        c,
        kv_heads=4,
        head_dim=256,
        norm="bare",
        post_norm="bare",
        qk_norm="bare",
        gate="value",
        output_bias=c.flag("attention_bias", False),
    )
    scales = 2 * mixer.heads * mixer.head_dim + hidden
    if c.flag("attention_bias", False):  # of queries, keys and values, not of the gate
        scales += (mixer.heads + 2 * mixer.kv_heads) * mixer.head_dim
    mixer = copy(mixer, scalars=scales)
    layer = feedforward(
        c,
        norm="bare",
        post_norm="bare",
        bias=c.flag("mlp_bias", False),
        scalars=2 * inner + hidden,
    )
    sliding = copy(mixer, window=c.optional_count("sliding_window", 1024))
    return {FULL: (mixer, layer), SLIDING: (sliding, layer)}


LOOPED: Final = {
    "dory": Family(("DoryForCausalLM",), dory),
}
