"""Mixtures of experts whose layers attend differently: in windows, in chunks, to a selection."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, Final

from perfmodel.sources.huggingface.config import MAX_LAYERS, REQUIRED, Config
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
    dense_first,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
    runs,
)
from perfmodel.sources.huggingface.families.sparse import (
    dense_or_sparse,
    shared_experts,
    sparse_where,
)
from perfmodel.sources.huggingface.families.windowed import exaone_rule, windows
from perfmodel.work.layers import (
    AnyLayer,
    Attention,
    FeedForward,
    MixtureOfExperts,
    MtpEntry,
)
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.layer import Norm
from perfmodel.work.shape import ModelShape

CHUNKED: Final = "chunked_attention"
SELECTED: Final = "minimax_m3_sparse"


# -- windows --------------------------------------------------------------------------------------


def gpt_oss(c: Config) -> ModelShape:
    """GptOssConfig: windows of 128 in every other layer, a sink a head, biases everywhere."""
    heads = c.count("num_attention_heads")
    bias = biases(c, default=True)
    mixer = attention(c, kv_heads=8, head_dim=64, scalars=heads, **bias)
    mixers = windows(c, mixer, every(2, SLIDING, FULL, offset=0), 128)
    moe = experts(c, width="intermediate_size", bias=True, router_bias=True)
    return decoder(c, mixers, moe)


def granitemoe_swa(c: Config) -> ModelShape:
    """GraniteMoeSWAConfig: one full layer to three windows of 128, a sink a head."""
    mixer = attention(c, scalars=c.count("num_attention_heads"), **biases(c))
    mixers = windows(c, mixer, every(4, FULL, SLIDING, offset=0), 128)
    shared = c.count_or_zero("shared_intermediate_size", 0)
    return decoder(c, mixers, experts(c, width="intermediate_size", shared=shared))


def dots1(c: Config) -> ModelShape:
    """Dots1Config: dense layers first, shared experts; a window from ``max_window_layers`` on."""
    mixer = attention(c, kv_heads=32, qk_norm="head", **biases(c))
    first_window = c.count_or_zero("max_window_layers", 62)
    mixers = windows(c, mixer, lambda i: SLIDING if i >= first_window else FULL, 4096)
    moe = shared_experts(c, default=REQUIRED)
    layers = dense_or_sparse(c, feedforward(c), moe, first=0)
    return decoder(c, mixers, layers)


def exaone_moe(c: Config) -> ModelShape:
    """ExaoneMoeConfig: three windows of 4096 to one full layer, one shared expert, no biases."""
    mixer = attention(c, kv_heads=32, qk_norm="head")
    mixers = windows(c, mixer, exaone_rule(c))
    dense = feedforward(c)
    layers = dense_or_sparse(c, dense, shared_experts(c, default=1), first=1)
    return decoder(c, mixers, layers, mtp=mtp_blocks(c, mixer, dense))


def afmoe(c: Config) -> ModelShape:
    """AfmoeConfig: a gated result, norms before and after, three windows to one full layer."""
    mixer = attention(
        c, head_dim=128, gate="value", gate_bias=False, qk_norm="head", post_norm="rms", **biases(c)
    )
    period = c.count("global_attn_every_n_layers", 4)
    mixers = windows(c, mixer, every(period, FULL, SLIDING), 1024)
    moe = shared_experts(c, default=2, router_bias=True, post_norm="rms")
    first = c.count_or_zero("num_dense_layers", 1)
    return decoder(c, mixers, dense_first(c, first, feedforward(c, post_norm="rms"), moe))


def cohere2_moe(c: Config) -> ModelShape:
    """Cohere2MoeConfig: attention and experts side by side behind one norm; tied."""
    norm: Norm = "layer-scale" if c.get("rms_norm_eps") is None else "rms"
    mixer = attention(c, head_dim=128, norm=norm, **biases(c))
    first = c.count_or_zero("first_k_dense_replace", 0)
    dense_rule = every(c.count("prefix_dense_sliding_window_pattern", 1), FULL, SLIDING)
    rule = every(c.count("sliding_window_pattern", 4), FULL, SLIDING)
    mixers = windows(c, mixer, lambda i: dense_rule(i) if i < first else rule(i - first), 4096)
    width = c.count("intermediate_size")
    dense = feedforward(c, "prefix_dense_intermediate_size", default=width, norm=None)
    moe = shared_experts(c, width="intermediate_size", norm=None)
    return decoder(c, mixers, dense_or_sparse(c, dense, moe, first=0), tied=True, norm=norm)


def laguna(c: Config) -> ModelShape:
    """LagunaConfig: a gated result, query heads by layer, a shared expert, a dense layer first."""
    gate = "head" if gates_by_head(c) else "value"
    mixer = attention(
        c, kv_heads=8, head_dim=128, gate=gate, gate_bias=False, qk_norm="head", **biases(c)
    )
    mixers = windows(c, mixer, every(1, FULL, SLIDING), 512)
    key = "num_attention_heads_per_layer"
    heads = c.counts(key, number_of_layers(c))
    if heads is not None:
        mixers = [with_heads(c, key, x, n) for x, n in zip(mixers, heads, strict=True)]
    shared = c.count("shared_expert_intermediate_size")
    moe = experts(c, shared=shared, router_bias=True)
    return decoder(c, mixers, dense_or_sparse(c, feedforward(c), moe, first=1))


def gates_by_head(c: Config) -> bool:
    """``gating`` is a word, or a flag, whose true means the same as ``per-head``."""
    if isinstance(c.get("gating"), str):
        return c.choice("gating", ("per-head", "per-element")) == "per-head"
    return c.flag("gating", True)


def with_heads(c: Config, key: str, mixer: Any, heads: int) -> Attention:
    """The same layer with so many query heads, as a key says."""
    if heads < 1 or heads % mixer.kv_heads:
        raise c.wrong(key, f"multiples of num_key_value_heads={mixer.kv_heads}", heads)
    return copy(mixer, heads=heads)  # type: ignore[no-any-return]


def mellum(c: Config) -> ModelShape:
    """MellumConfig: full attention and experts in every layer unless the config lists others."""
    mixer = attention(c, kv_heads=4, head_dim=128, qk_norm="head", **biases(c))
    mixers = windows(c, mixer, every(1, FULL, SLIDING), 1024)
    moe = experts(c)
    layers = dense_or_sparse(c, feedforward(c), moe, first=0)
    return decoder(c, mixers, layers, mtp=mtp_blocks(c, mixer, moe))


def beam(c: Config) -> ModelShape:
    """BeamConfig: a gated result, norms before and after, five windows of 512 to one full layer."""
    count = number_of_layers(c)
    mixer = attention(
        c,
        kv_heads=8,
        head_dim=128,
        gate="value",
        gate_bias=False,
        qk_norm="head",
        post_norm="rms",
        scalars=c.count("num_attention_heads"),
        **biases(c),
    )
    rule = every(6, FULL, SLIDING)
    mixers = windows(c, mixer, lambda i: FULL if i == count - 1 else rule(i), 512)
    dense = feedforward(c, post_norm="rms")
    layers = dense_or_sparse(c, dense, experts(c, post_norm="rms"), first=min(3, count))
    return decoder(c, mixers, layers)


def flint(c: Config) -> ModelShape:
    """FlintConfig: a sink a head, three windows of 513 to one full layer, two dense layers."""
    last = number_of_layers(c) - 1
    mixer = attention(
        c,
        kv_heads=4,
        head_dim=128,
        qk_norm="head",
        scalars=c.count("num_attention_heads"),
        **biases(c),
    )
    mixers = windows(c, mixer, lambda i: FULL if i < 2 or i % 4 == 1 or i == last else SLIDING, 513)
    moe = experts(c, shared=c.count("shared_expert_intermediate_size"))
    return decoder(c, mixers, sparse_where(c, moe, feedforward(c), first=2))


def kolibri1(c: Config) -> ModelShape:
    """Kolibri1Config: norms before and after, four windows of 513 to one full layer."""
    mixer = attention(c, kv_heads=4, head_dim=128, qk_norm="head", post_norm="rms")
    mixers = windows(c, mixer, every(5, FULL, SLIDING), 513)
    shared = c.count("shared_expert_intermediate_size")
    return decoder(c, mixers, experts(c, shared=shared, post_norm="rms"))


def mimo_v2_flash(c: Config) -> ModelShape:
    """MiMoV2FlashConfig: values 128 wide; windows have sinks and twice the KV heads.

    ``sliding_window_size`` tells the tokens before a query, ``sliding_window`` counts itself.
    """
    count, heads = number_of_layers(c), c.count("num_attention_heads")
    bias = c.flag("attention_bias", False)
    full = attention(
        c, kv_heads=4, head_dim=192, value_dim=c.count("v_head_dim", 128), qkv_bias=bias
    )
    before = c.optional_count("sliding_window_size", None)
    window = c.count("sliding_window", 129) if before is None else before + 1
    kv_heads = c.count("swa_num_key_value_heads", 2 * full.kv_heads)
    if heads % kv_heads:
        raise c.wrong(
            "swa_num_key_value_heads", f"a divisor of num_attention_heads={heads}", kv_heads
        )
    sliding = copy(full, kv_heads=kv_heads, window=window, scalars=heads)
    listed = c.counts("hybrid_layer_pattern", count)
    rule = every(6, FULL, SLIDING)
    kinds = layer_types(
        c, lambda i: (SLIDING if listed[i] else FULL) if listed else FULL if i == 0 else rule(i)
    )
    mixers = by_kind(kinds, {FULL: full, SLIDING: sliding})
    return decoder(c, mixers, by_frequency(c, feedforward(c), experts(c), first=1))


# -- chunks and selections ------------------------------------------------------------------------


def llama4_text(c: Config) -> ModelShape:
    """Llama4TextConfig: three layers of four attend in chunks of 8192; experts at intervals."""
    count = number_of_layers(c)
    mixer = attention(c, kv_heads=8, head_dim=128, **biases(c))
    chunk = c.optional_count("attention_chunk_size", 8192)
    listed = c.counts("no_rope_layers", count) if c.get("no_rope_layers") else None
    rotary = every(c.count("no_rope_layer_interval", 4), FULL, CHUNKED)
    kinds = layer_types(
        c,
        lambda i: rotary(i) if listed is None else CHUNKED if listed[i] else FULL,
        (FULL, CHUNKED),
    )
    mixers = by_kind(kinds, {FULL: mixer, CHUNKED: copy(mixer, chunk=chunk)})
    moe = experts(c, width="intermediate_size", shared=c.count("intermediate_size"))
    dense = feedforward(c, "intermediate_size_mlp", default=16384)
    step = c.count("interleave_moe_layer_step", 1)
    given = c.get("moe_layers") is not None
    sparse = c.indices("moe_layers", count) if given else range(step - 1, count, step)
    return decoder(c, mixers, [moe if i in sparse else dense for i in range(count)])


def minimax_m3_text(c: Config) -> ModelShape:
    """MiniMaxM3VLTextConfig: an indexer where a list says so, a shared expert of its own width."""
    full = attention(c, kv_heads=4, head_dim=128, qk_norm="head")
    older = older_names(c)
    count, key = number_of_layers(c), "sparse_attention_freq"
    listed = older.counts(key, count) if older.has(key) else None
    kinds = layer_types(
        c, lambda i: SELECTED if listed is not None and listed[i] else FULL, (FULL, SELECTED)
    )
    mixers = by_kind(kinds, {FULL: full, SELECTED: copy(full, indexer=block_indexer(c, older))})
    shared = c.count("shared_intermediate_size", 3072)
    moe = experts(c, width="intermediate_size", shared=shared)
    dense = feedforward(c, "dense_intermediate_size", default=12288)
    return decoder(c, mixers, by_frequency(c, dense, moe, first=0))


def older_names(c: Config) -> Config:
    """The section that an older config has for what selects; empty where there is none."""
    key = "sparse_attention_config"
    return c.section(key) if c.get(key) is not None else Config({})


def block_indexer(c: Config, older: Config) -> Indexer:
    """It picks whole blocks; an older section's sizes come before those at the top."""

    def size(key: str, old: str, default: int) -> int:
        return older.count(old) if older.has(old) else c.count(key, default)

    dim = size("index_head_dim", "sparse_index_dim", 128)
    block = size("index_block_size", "sparse_block_size", 128)
    return Indexer(
        heads=size("index_n_heads", "sparse_num_index_heads", 4),
        dim=dim,
        top_k=block * size("index_topk_blocks", "sparse_topk_blocks", 16),
        weighted=False,
        scalars=2 * dim,
    )


def by_frequency(c: Config, dense: FeedForward, sparse: MixtureOfExperts, *, first: int) -> Column:
    """As ``mlp_layer_types`` says, or ``moe_layer_freq``, which has a 1 where there are experts."""
    if c.get("mlp_layer_types") is not None or not isinstance(c.get("moe_layer_freq"), list):
        return dense_or_sparse(c, dense, sparse, first=first)
    listed = c.counts("moe_layer_freq", number_of_layers(c)) or []
    return [sparse if each else dense for each in listed]


# -- lists that go on past the last layer ---------------------------------------------------------


def step3p5(c: Config) -> ModelShape:
    """Step3p7TextConfig: a gate a head; windows have query heads of their own; three dense layers.

    Lists of kinds may go on for the blocks that predict further tokens.
    """
    full = attention(
        c, kv_heads=8, head_dim=128, gate="head", gate_bias=False, qk_norm="head", **biases(c)
    )
    other, heads = "num_sliding_attention_heads", full.heads
    if c.get("attention_other_setting") is not None:
        heads = c.section("attention_other_setting").count("num_attention_heads", heads)
    narrow = copy(full, window=c.optional_count("sliding_window", None))
    sliding = with_heads(c, other, narrow, c.count(other, heads))
    bias = c.flag("mlp_bias", False)
    moe = experts(c, shared=c.count("share_expert_dim"), shared_bias=bias)
    sparse = layers_of_experts(c)
    mixers: dict[str, AnyLayer] = {FULL: full, SLIDING: sliding}
    inner: dict[str, AnyLayer] = {"dense": feedforward(c, bias=bias), "sparse": moe}
    attends = kinds_past_the_last(c, "layer_types", list(mixers), every(1, FULL, SLIDING))
    holds = kinds_past_the_last(
        c, "mlp_layer_types", list(inner), lambda i: "sparse" if i in sparse else "dense"
    )
    count = number_of_layers(c)
    extra = zip(attends[count:], holds[count:], strict=True)
    return decoder(
        c,
        by_kind(attends[:count], mixers),
        by_kind(holds[:count], inner),
        mtp=runs([(MtpEntry(), mixers[mixer], inner[kind]) for mixer, kind in extra]),
    )


def kinds_past_the_last(
    c: Config, key: str, known: Sequence[str], rule: Callable[[int], str]
) -> list[str]:
    """A kind for each layer and then for each extra block, which may have a list of their own."""
    count, extra = number_of_layers(c), c.count_or_zero("num_nextn_predict_layers", 0)
    if extra > MAX_LAYERS:
        raise c.wrong("num_nextn_predict_layers", f"at most {MAX_LAYERS}")
    found = c.get(key)
    both = isinstance(found, list) and len(found) == count + extra
    listed = c.kinds(key, count + extra if both else count, known)
    if listed is None:
        listed = [rule(i) for i in range(count + extra)]
    more = c.kinds(f"mtp_{key}", extra, known)
    return listed[:count] + (more or listed[count:] or [rule(count + i) for i in range(extra)])


def layers_of_experts(c: Config) -> Container[int]:
    """``moe_layers_enum``: numbers in a list, or in a text with commas; else all from the third."""
    key, count = "moe_layers_enum", number_of_layers(c)
    found = c.get(key)
    if found is None:
        return range(3, count)
    numbers = found.split(",", MAX_LAYERS) if isinstance(found, str) else found
    texts = [str(x).strip() for x in numbers] if isinstance(numbers, list) else [key]
    if not all(x.isdecimal() and len(x) < 6 for x in texts):
        raise c.wrong(key, "numbers of layers, with commas")
    return frozenset(int(x) for x in texts)


MTP_NAMES: Final = {"num_nextn_predict_layers": ("num_mtp_layers",)}

MOE_WINDOWS: Final = {
    "afmoe": Family(("AfmoeForCausalLM",), afmoe),
    "beam": Family(("BeamForCausalLM",), beam),
    "cohere2_moe": Family(("Cohere2MoeForCausalLM",), cohere2_moe),
    "dots1": Family(("Dots1ForCausalLM",), dots1),
    "exaone_moe": Family(("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"), exaone_moe),
    "flint": Family(("FlintForCausalLM",), flint),
    "gpt_oss": Family(("GptOssForCausalLM",), gpt_oss),
    "granitemoe_swa": Family(("GraniteMoeSWAForCausalLM",), granitemoe_swa),
    "kolibri1": Family(("Kolibri1ForCausalLM",), kolibri1),
    "laguna": Family(("LagunaForCausalLM",), laguna),
    "llama4_text": Family(("Llama4ForCausalLM",), llama4_text),
    "mellum": Family(("MellumForCausalLM",), mellum, MTP_NAMES),
    "mimo_v2_flash": Family(("MiMoV2FlashForCausalLM",), mimo_v2_flash),
    "minimax_m3": Family(("MiniMaxM3ForCausalLM", "MiniMaxM3VLForCausalLM"), minimax_m3_text),
    "minimax_m3_vl_text": Family(("MiniMaxM3VLForCausalLM",), minimax_m3_text),
    "step3p5": Family(
        ("Step3p5ForCausalLM",),
        step3p5,
        {
            "num_key_value_heads": ("num_attention_groups",),
            "share_expert_dim": ("share_expert_dims",),
            **MTP_NAMES,
        },
    ),
}
