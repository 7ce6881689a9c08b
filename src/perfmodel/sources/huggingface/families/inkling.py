"""Decoders that convolve keys, values and the result of every layer: Inkling."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import MAX_LAYERS, Config
from perfmodel.sources.huggingface.families.parts import (
    Column,
    Family,
    Row,
    by_mlp_type,
    copy,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
    runs,
)
from perfmodel.work.layers import (
    DepthAttention,
    FeedForward,
    MessageGate,
    MixtureOfExperts,
    RelativeAttention,
    ResidualConvolution,
)
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.shape import Block, ModelShape

FULL: Final = "hybrid"
SLIDING: Final = "hybrid_sliding"


def relative_attention(c: Config, prefix: str = "", **fields: Any) -> RelativeAttention:
    """Attention from the keys that both kinds share; those of sliding layers have a prefix."""
    heads = c.count(f"{prefix}num_attention_heads")
    kv_heads = c.count(f"{prefix}num_key_value_heads")
    if heads % kv_heads:
        expected = f"a multiple of {prefix}num_key_value_heads={kv_heads}"
        raise c.wrong(f"{prefix}num_attention_heads", expected, heads)
    return RelativeAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=c.count(f"{prefix}head_dim"),
        profiles=c.count("d_rel", 16),
        conv_kernel=c.count("conv_kernel_size", 4),
        **fields,
    )


def both_attentions(c: Config) -> dict[str, RelativeAttention]:
    """Full attention, and one to a window, as far as which its bias reaches."""
    window = c.count("sliding_window_size")
    full = relative_attention(c, extent=c.count("rel_extent", 1024))
    return {FULL: full, SLIDING: relative_attention(c, "swa_", extent=window, window=window)}


def convolution(c: Config) -> ResidualConvolution:
    """The one behind a layer."""
    return ResidualConvolution(
        channels=c.count("hidden_size"), conv_kernel=c.count("conv_kernel_size", 4)
    )


# -- the first generation ---------------------------------------------------------------------


def inkling(c: Config) -> ModelShape:
    """InklingTextConfig: five windows to one full layer; QK-norm; experts, two of them shared."""
    behind, dense, sparse = convolution(c), inkling_dense(c), inkling_experts(c)
    mixers = {kind: copy(x, qk_norm="head") for kind, x in both_attentions(c).items()}
    layers = by_mlp_type(c, dense, sparse, first=c.count_or_zero("dense_mlp_idx", 0))
    kinds = inkling_kinds(c)
    rows: Column = [
        (mixers[kind], behind, dense if layer is dense else sparse, behind)
        for kind, layer in zip(kinds, layers, strict=True)
    ]
    mtp = inkling_mtp(c, mixers, (behind, dense, behind))
    shape = decoder(c, rows, None, embedding=Embedding(norm="rms"), mtp=mtp)
    return shape.model_copy(update={"head": Head()})


def inkling_kinds(c: Config) -> list[str]:
    """As ``layer_types`` or ``local_layer_ids`` list them, else five windows to one full layer."""
    local = c.indices("local_layer_ids", number_of_layers(c))
    listed = c.get("local_layer_ids") is not None
    rule = every(6, FULL, SLIDING)
    return layer_types(
        c, lambda i: (SLIDING if i in local else FULL) if listed else rule(i), (FULL, SLIDING)
    )


def inkling_dense(c: Config) -> FeedForward:
    """Of ``dense_intermediate_size`` where it has a key of its own; its result is scaled."""
    own = c.get("dense_intermediate_size") is not None
    return feedforward(c, "dense_intermediate_size" if own else "intermediate_size", scalars=1)


def inkling_experts(c: Config) -> MixtureOfExperts:
    """Whose router scores the shared ones too, by an output each."""
    own = c.get("dense_intermediate_size") is not None
    width = "intermediate_size" if own else "moe_intermediate_size"
    shared = c.count("n_shared_experts", 2)
    return experts(
        c,
        width=width,
        shared=shared * c.count(width),
        router_width=c.count("num_experts") + shared,
        scalars=1,
    )


def inkling_mtp(c: Config, mixers: dict[str, RelativeAttention], others: Row) -> tuple[Block, ...]:
    """Extra dense blocks, to a window where ``mtp_local_layer_ids`` says so; one norm for all."""
    count = c.count_or_zero("num_mtp_layers", 0)
    local = len(c.indices("mtp_local_layer_ids", count))
    chained = c.flag("chain_hidden_post_norm", False) and count > 0
    entry, last = MtpEntry(last_norm=False), MtpEntry()
    kind = FULL if local < count else SLIDING
    repeats = {FULL: count - local, SLIDING: local}
    blocks: list[Block] = []
    if chained:
        repeats[kind] -= 1
        blocks.append((1, (last, mixers[kind], *others)))
    blocks += [(n, (entry, mixers[k], *others)) for k, n in repeats.items() if n]
    return tuple(blocks)


# -- the second generation --------------------------------------------------------------------


def inkling2(c: Config) -> ModelShape:
    """Inkling2TextConfig: gates and sinks; what a layer reads is a mixture of earlier blocks."""
    rows = inkling2_rows(c)
    return inkling2_shape(c, rows, last_mixture(c, rows))


def last_mixture(c: Config, rows: list[Row]) -> DepthAttention:
    """What the head reads."""
    return DepthAttention(queries=1, states=ended(c, len(rows) - 1) + 1)


def inkling2_shape(c: Config, rows: list[Row], last: DepthAttention) -> ModelShape:
    """The rows between an embedding that is normed and a head that has fewer tokens."""
    padded, vocab = c.count("vocab_size"), c.count("unpadded_vocab_size", 200_058)
    if vocab > padded:
        raise c.wrong("unpadded_vocab_size", f"at most vocab_size={padded}", vocab)
    return ModelShape(
        hidden=c.count("hidden_size"),
        vocab=vocab,
        blocks=runs([*rows[:-1], (*rows[-1], last)]),
        embedding=Embedding(norm="rms", extra_rows=padded - vocab),
        head=Head(),
        max_context=c.optional_count("max_position_embeddings", None),
    )


def inkling2_rows(c: Config) -> list[Row]:
    """Every layer: its mixtures of earlier states, attention and experts, a convolution each."""
    hidden, behind = c.count("hidden_size"), convolution(c)
    sparse = experts(c)
    mixers = {
        kind: copy(
            mixer,
            gate="value",
            sinks=True,
            dynamic=kind == FULL,
            # Scales of queries and of what mixes the profiles; norms of keys' and values' inputs.
            scalars=mixer.heads * (mixer.head_dim + mixer.profiles) + 2 * hidden * (kind == FULL),
        )
        for kind, mixer in both_attentions(c).items()
    }
    rows: list[Row] = []
    for i, kind in enumerate(layer_types(c, every(6, FULL, SLIDING), (FULL, SLIDING))):
        queries = 3 if kind == FULL else 1
        before: Row = (DepthAttention(queries=queries, states=ended(c, i - 1) + 1),) if i else ()
        between = DepthAttention(queries=1, states=ended(c, i) + 1)
        rows.append((*before, mixers[kind], behind, between, sparse, behind))
    return rows


def ended(c: Config, layer: int) -> int:
    """Blocks of ``n_layers_per_attn_res_block`` layers that have begun with a layer."""
    return layer // c.count("n_layers_per_attn_res_block", 6) + 1


def inkling2_loop(c: Config) -> ModelShape:
    """Inkling2LoopTextConfig: some layers run three times, from the second on with messages."""
    rows = inkling2_rows(c)
    start, end, passes, rank = loop_sizes(c, len(rows))
    gate, blocks = MessageGate(rank=rank), ended(c, end - 1) - ended(c, start - 1)
    messages = DepthAttention(queries=4, states=blocks)
    second, later = [], []
    for row in rows[start:end]:
        before, mixer, after, between, *others = (copy(layer, reused=True) for layer in row)
        gates = (messages, before, gate, gate, gate, mixer, after, between, gate, *others)
        second.append(gates)
        later.append(tuple(copy(layer, reused=True) for layer in gates))
    last = last_mixture(c, rows)
    if passes == 1:  # what would pass on messages is there all the same
        hidden = c.count("hidden_size")
        last = copy(last, scalars=sum(layer.params(hidden) for row in second for layer in row))
        second = []
    run = [*rows[:end], *second, *(later * (passes - 2)), *rows[end:]]
    return inkling2_shape(c, run, last)


def loop_sizes(c: Config, count: int) -> tuple[int, int, int, int]:
    """First looped layer, the one after the last, passes, and the gates' rank."""
    inner = c.section("loop_config") if c.has_section("loop_config") else None

    def size(key: str, own: str, default: int) -> int:
        flat = c.count(own, default)
        return flat if inner is None else inner.count(key, flat)

    start = size("core_start", "loop_layer_index_start", 6)
    end = size("core_end", "loop_layer_index_end", 18)
    passes = size("num_passes", "loop_num_passes", 3)
    block = c.count("n_layers_per_attn_res_block", 6)
    if start % block or end % block or not start < end <= count:
        expected = f"a multiple of {block} above {start} and at most num_hidden_layers={count}"
        raise c.wrong("loop_layer_index_end", expected, end)
    if (end - start) * passes > MAX_LAYERS:
        raise c.wrong("loop_num_passes", f"at most {MAX_LAYERS} looped layers in all", passes)
    return start, end, passes, size("gate_rank", "loop_gate_rank", 64)


_NAMES: Final = {
    "conv_kernel_size": ("sconv_kernel_size",),
    "max_position_embeddings": ("model_max_length",),
    "sliding_window_size": ("sliding_window",),
}
_NAMES_2: Final = {**_NAMES, "moe_intermediate_size": ("intermediate_size",)}

INKLING: Final = {
    "inkling2_loop_text": Family(("Inkling2LoopForCausalLM",), inkling2_loop, _NAMES_2),
    "inkling2_text": Family(("Inkling2ForCausalLM",), inkling2, _NAMES_2),
    "inkling_text": Family(("InklingForCausalLM",), inkling, _NAMES),
}
