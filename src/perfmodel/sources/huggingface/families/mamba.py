"""Decoders with selective state spaces or gated recurrences, alone or among attention."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from perfmodel.sources.huggingface.config import MAX_LAYERS, Config
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    Column,
    Family,
    Row,
    attention,
    by_kind,
    copy,
    decoder,
    every,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
)
from perfmodel.work.layers import (
    AnyLayer,
    Attention,
    FeedForward,
    Mamba,
    Mamba2,
    MtpEntry,
    Projection,
    RgLru,
)
from perfmodel.work.shape import ModelShape

LINEAR: Final = "linear_attention"
HYBRID: Final = "hybrid"
SPARSE: Final = "moe"
DENSE: Final = "mlp"

# -- the state spaces ---------------------------------------------------------------------------


def selective_scan(c: Config, inner: int, **fields: Any) -> Mamba:
    """Mamba from Jamba's keys; time steps come from a latent of hidden / 16 numbers by default."""
    automatic = c.get("mamba_dt_rank") in (None, "auto")
    return Mamba(
        inner=inner,
        state=c.count("mamba_d_state"),
        dt_rank=-(-c.count("hidden_size") // 16) if automatic else c.count("mamba_dt_rank"),
        conv_kernel=c.count("mamba_d_conv"),
        conv_bias=c.flag("mamba_conv_bias", True),
        bias=c.flag("mamba_proj_bias", False),
        **fields,
    )


def scan_of_heads(c: Config, inner: int, **fields: Any) -> Mamba2:
    """Mamba-2 from Bamba's keys, its heads ``inner`` channels wide together."""
    heads, groups = c.count("mamba_n_heads"), c.count("mamba_n_groups")
    if heads % groups:
        raise c.wrong("mamba_n_heads", f"a multiple of mamba_n_groups={groups}", heads)
    automatic = c.get("mamba_d_head") in (None, "auto")
    width = inner // heads if automatic else c.count("mamba_d_head")
    if heads * width != inner:
        raise c.wrong("mamba_n_heads", f"heads that make {inner} channels", heads)
    return Mamba2(
        heads=heads,
        head_dim=width,
        groups=groups,
        state=c.count("mamba_d_state"),
        conv_kernel=c.count("mamba_d_conv"),
        conv_bias=c.flag("mamba_conv_bias", True),
        chunk_size=c.count("mamba_chunk_size", 256),
        **fields,
    )


def expanded(c: Config) -> int:
    """Channels of the state space: the width of the model times ``mamba_expand``."""
    return c.count("mamba_expand", 2) * c.count("hidden_size")


# -- which layer is what ------------------------------------------------------------------------

_LISTED: Final = {"layer_types": ("layers_block_type",)}
_WORDS: Final = {"mamba": LINEAR, "attention": FULL}  # before Transformers 5
_LETTERS: Final = {"M": LINEAR, "*": FULL, "E": SPARSE, "-": DENSE}


def block_types(
    c: Config, default: Callable[[int], str], known: tuple[str, ...] = (FULL, LINEAR)
) -> list[str]:
    """Each layer's kind: as listed, in the words of any version, else by the class's own rule."""
    return [_WORDS.get(x, x) for x in layer_types(c, default, (*known, *_WORDS))]


def periodic(c: Config, name: str, special: str, otherwise: str) -> Callable[[int], str]:
    """One special layer in each ``..._period``, at its ``..._offset``."""
    period, offset = c.count(f"{name}_period"), c.count_or_zero(f"{name}_offset")
    if offset >= period:
        raise c.wrong(f"{name}_offset", f"less than {name}_period={period}", offset)
    return every(period, special, otherwise, offset=offset)


def spelled(c: Config, key: str, letters: str, default: list[str] | None = None) -> list[str]:
    """A list of kinds that says by its length how many layers there are, or a text of letters."""
    found, text = c.get(key), c.get(letters)
    if found is None and isinstance(text, str):
        key, found = letters, [_LETTERS.get(x) for x in text[: MAX_LAYERS + 1]]
    if found is None and default is not None:
        return default
    good = isinstance(found, list) and 0 < len(found) <= MAX_LAYERS
    kinds = [_WORDS.get(x, x) if isinstance(x, str) else None for x in found] if good else []
    if not good or not all(x in _LETTERS.values() for x in kinds):
        raise c.wrong(key, f"kinds out of {', '.join(_LETTERS.values())}, or letters of M * E -")
    return [str(x) for x in kinds]


# -- Mamba --------------------------------------------------------------------------------------

_MAMBA: Final = {
    "mamba_conv_bias": ("use_conv_bias",),
    "mamba_d_conv": ("conv_kernel",),
    "mamba_d_state": ("state_size",),
    "mamba_dt_rank": ("time_step_rank",),
    "mamba_expand": ("expand",),
    "mamba_proj_bias": ("use_bias",),
}


def mamba(c: Config) -> ModelShape:
    """MambaConfig and FalconMambaConfig: nothing but Mamba; the latter's inner norms are bare."""
    inner = c.count("intermediate_size", expanded(c))
    return decoder(c, selective_scan(c, inner), None, tied=True)


def jamba(c: Config) -> ModelShape:
    """JambaConfig: in each period of layers one attention, in another one mixture of experts."""
    full, scan = attention(c, kv_heads=8), selective_scan(c, expanded(c), inner_norms=True)
    kinds = block_types(c, periodic(c, "attn_layer", FULL, LINEAR))
    dense = feedforward(c)
    sparse = experts(c, width="intermediate_size") if c.count("num_experts") > 1 else dense
    has = periodic(c, "expert_layer", SPARSE, DENSE)
    layers = by_kind(map(has, range(number_of_layers(c))), {SPARSE: sparse, DENSE: dense})
    return decoder(c, by_kind(kinds, {FULL: full, LINEAR: scan}), layers)


# -- Mamba-2 ------------------------------------------------------------------------------------

_MAMBA_2: Final = {
    **_MAMBA,
    "mamba_chunk_size": ("chunk_size",),
    "mamba_d_head": ("head_dim",),
    "mamba_n_groups": ("n_groups",),
    "mamba_n_heads": ("num_heads",),
}


def mamba2(c: Config) -> ModelShape:
    """Mamba2Config: nothing but Mamba-2."""
    bias = c.flag("mamba_proj_bias", False)
    return decoder(c, scan_of_heads(c, expanded(c), bias=bias, output_bias=bias), None)


def bamba(c: Config) -> ModelShape:
    """BambaConfig: attention in the layers of ``attn_layer_indices``, Mamba-2 in all others."""
    indices = c.indices("attn_layer_indices", number_of_layers(c))
    kinds = block_types(c, lambda i: FULL if i in indices else LINEAR)
    mixers = attention_or_scan(c, kinds, kv_heads=8)
    return decoder(c, mixers, feedforward(c, bias=c.flag("mlp_bias", False)))


def granite_hybrid(c: Config) -> ModelShape:
    """GraniteMoeHybridConfig: a shared feed-forward layer, beside experts unless there are none."""
    mixers = attention_or_scan(c, block_types(c, lambda _: LINEAR), kv_heads=None)
    shared = c.count("shared_intermediate_size")
    layer: AnyLayer = FeedForward(width=shared)
    if c.count_or_zero("num_local_experts"):
        layer = experts(c, width="intermediate_size", shared=shared)
    return decoder(c, mixers, layer)


def attention_or_scan(c: Config, kinds: list[str], kv_heads: int | None) -> Column:
    """Attention and Mamba-2 with the flags of BambaConfig."""
    bias, scan_bias = c.flag("attention_bias", False), c.flag("mamba_proj_bias", False)
    full = attention(c, kv_heads=kv_heads, qkv_bias=bias, output_bias=bias)
    if LINEAR not in kinds:
        return by_kind(kinds, {FULL: full})  # without a scan, none of its sizes need be told
    scan = scan_of_heads(c, expanded(c), bias=scan_bias, output_bias=scan_bias)
    return by_kind(kinds, {FULL: full, LINEAR: scan})


def falcon_h1(c: Config) -> ModelShape:
    """FalconH1Config: attention and Mamba-2 side by side in every block, behind one norm."""
    bias = c.flag("attention_bias", False)
    inner = c.optional_count("mamba_d_ssm", 1024) or expanded(c)
    scan = scan_of_heads(
        c,
        inner,
        norm=None,
        bias=c.flag("mamba_proj_bias", False),
        output_bias=c.flag("projectors_bias", False),
        gated_norm=c.flag("mamba_rms_norm", False),
    )
    both: Row = (attention(c, kv_heads=8, qkv_bias=bias, output_bias=bias), scan)
    layer = feedforward(c, bias=c.flag("mlp_bias", False))
    return decoder(c, [both] * number_of_layers(c), layer)


# -- one transformer block at several depths ----------------------------------------------------

_ZAMBA: Final = {**_LISTED, "head_dim": ("attention_head_dim",)}
_ZAMBA_2: Final = {
    **_ZAMBA,
    "mamba_chunk_size": ("chunk_size",),
    "mamba_d_head": ("mamba_headdim",),
    "mamba_n_groups": ("mamba_ngroups",),
    "mamba_n_heads": ("n_mamba_heads",),
}


def zamba(c: Config) -> ModelShape:
    """ZambaConfig: Mamba in every layer, and before it, in hybrid ones, the same one block.

    The block reads the hidden state beside the embedding; each depth projects its result anew.
    Untying the head unties the depths too.
    """
    tied = c.flag("tie_word_embeddings", True)
    groups = c.count("n_mamba_heads", 2)
    if expanded(c) % groups:
        raise c.wrong("n_mamba_heads", f"a divisor of {expanded(c)} channels", groups)
    scan = selective_scan(c, expanded(c), groups=groups)
    full, dense = wide_attention(c, 16), feedforward(c)

    def usual(i: int) -> str:
        first = (LINEAR, LINEAR, HYBRID)
        return first[i] if i < 3 else periodic(c, "attn_layer", HYBRID, LINEAR)(i - 3)

    def block(number: int) -> Row:
        again = tied and number > 0
        return copy(full, reused=again), copy(dense, reused=again), Projection(norm=None)

    kinds = block_types(c, usual, (HYBRID, LINEAR))
    return decoder(c, behind_blocks(kinds, block, scan), None, tied=True)


def zamba2(c: Config) -> ModelShape:
    """Zamba2Config: ``num_mem_blocks`` blocks take turns; adapters tell their depths apart.

    The convolution has a bias whatever ``use_conv_bias`` says; untying is as in Zamba.
    """
    tied = c.flag("tie_word_embeddings", True)
    hidden, bias = c.count("hidden_size"), c.flag("add_bias_linear", False)
    scan = scan_of_heads(c, expanded(c), bias=bias, output_bias=bias)
    full = wide_attention(c, None)
    dense = feedforward(c, default=4 * hidden, bias=bias)
    rank, blocks = c.count("adapter_rank", 128), c.count("num_mem_blocks", 1)
    wide = Projection(inputs=2 * hidden, outputs=2 * hidden, rank=rank, norm=None)
    of_attention = 3 * (wide,) if c.flag("use_shared_attention_adapter", False) else ()
    of_dense = Projection(outputs=dense.up_width, rank=rank, norm=None)

    def block(number: int) -> Row:
        again = tied and number >= blocks
        attend, feed = copy(full, reused=again), copy(dense, reused=again)
        return attend, *of_attention, feed, of_dense, Projection(norm=None)

    hybrids = c.indices("hybrid_layer_ids", number_of_layers(c))
    if not hybrids and c.get("layer_types") is None:
        raise c.wrong("layer_types", "a list of kinds")
    kinds = block_types(c, lambda i: HYBRID if i in hybrids else LINEAR, (HYBRID, LINEAR))
    return decoder(c, behind_blocks(kinds, block, scan), None, tied=True)


def wide_attention(c: Config, kv_heads: int | None) -> Attention:
    """Attention that reads two widths of the model, and splits both among its heads."""
    wide = 2 * c.count("hidden_size")
    if c.count("attention_hidden_size", wide) != wide:
        raise c.wrong("attention_hidden_size", f"{wide}, twice hidden_size")
    head = c.count("head_dim", wide // c.count("num_attention_heads"))
    return attention(c, kv_heads=kv_heads, head_dim=head, source=wide)


def behind_blocks(kinds: list[str], block: Callable[[int], Row], scan: AnyLayer) -> Column:
    """The scan in every layer; in a hybrid one behind the block of that number."""
    hybrids = itertools.count()
    return [(*block(next(hybrids)), scan) if kind == HYBRID else scan for kind in kinds]


# -- one layer a block --------------------------------------------------------------------------

_NEMOTRON: Final = {
    **_LISTED,
    "head_dim": ("attention_head_dim",),
    "mamba_chunk_size": ("chunk_size",),
    "mamba_conv_bias": ("use_conv_bias",),
    "mamba_d_conv": ("conv_kernel",),
    "mamba_d_head": ("mamba_head_dim",),
    "mamba_d_state": ("ssm_state_size",),
    "mamba_n_groups": ("n_groups",),
    "mamba_n_heads": ("mamba_num_heads",),
}


_MTP: Final = ("mtp_layers_block_type", "mtp_hybrid_override_pattern")


def nemotron_h(c: Config) -> ModelShape:
    """NemotronHConfig: each block is one layer of four kinds, listed or spelled in letters.

    Embedding and head are two tables whatever ``tie_word_embeddings`` says.
    """
    kinds = spelled(c, "layer_types", "hybrid_override_pattern")
    count = c.count("num_hidden_layers", len(kinds))
    if count != len(kinds):
        raise c.wrong("num_hidden_layers", f"as many as kinds are listed, {len(kinds)}", count)
    c.get("num_experts")  # configs state it even where no layer has experts
    steps = c.count_or_zero("num_nextn_predict_layers", 0)
    extra = spelled(c, *_MTP, default=[FULL, SPARSE]) if steps else []
    layers = {kind: nemotron_layer(c, kind) for kind in dict.fromkeys(kinds + extra)}
    mtp = ((steps, (MtpEntry(), *(layers[kind] for kind in extra))),) if steps else ()
    shape = decoder(c, by_kind(kinds, layers), None, mtp=mtp, layers=len(kinds))
    return shape.model_copy(update={"head": copy(shape.head, tied=False)})


def nemotron_layer(c: Config, kind: str) -> AnyLayer:
    """Attention without biases, Mamba-2, or an ungated feed-forward layer, dense or of experts."""
    if kind == FULL:
        return attention(c, kv_heads=8, head_dim=128)
    if kind == LINEAR:
        inner = c.count("mamba_n_heads") * c.count("mamba_d_head")
        bias = c.flag("use_bias", False)
        return scan_of_heads(c, inner, bias=bias, output_bias=bias)
    bias = c.flag("mlp_bias", False)
    if kind == DENSE:
        return feedforward(c, gated=False, bias=bias)
    shared = c.count("moe_shared_expert_intermediate_size")
    latent = c.optional_count("moe_latent_size", None)
    biases = shared + c.count("hidden_size")  # experts themselves have none
    if latent is not None:
        biases += latent + c.count("hidden_size")
    return experts(c, shared=shared, gated=False, latent=latent, scalars=biases if bias else 0)


# -- gated recurrences --------------------------------------------------------------------------

_GRIFFIN: Final = {"sliding_window": ("attention_window_size",)}


def recurrent_gemma(c: Config) -> ModelShape:
    """RecurrentGemmaConfig: two gated recurrences to one attention in a window of 2048.

    ``intermediate_size`` counts gate and up projection together.
    """
    bias = c.flag("attention_bias", False)
    window = c.count("sliding_window", 2048)
    local = attention(c, window=window, qkv_bias=bias, output_bias=True)
    width, heads = c.count("lru_width", c.count("hidden_size")), c.count("num_attention_heads")
    if width % heads:
        raise c.wrong("lru_width", f"a multiple of num_attention_heads={heads}", width)
    kernel = c.count("conv1d_width", 4)
    recurrent = RgLru(channels=width, gate_blocks=heads, conv_kernel=kernel, conv_state=kernel - 1)
    layers: dict[str, AnyLayer] = {"recurrent": recurrent, "attention": local}
    kinds = repeated(c, "block_types", ["recurrent", "recurrent", "attention"])
    inner = c.count("intermediate_size") // 2
    dense = FeedForward(width=inner, bias=True)
    return decoder(c, by_kind(kinds, layers), dense, tied=True)


def repeated(c: Config, key: str, default: list[str]) -> list[str]:
    """A list of kinds, none but those of the default, again and again through all layers."""
    found = default if c.get(key) is None else c.get(key)
    good = isinstance(found, list) and 0 < len(found) <= MAX_LAYERS
    if not good or not all(kind in default for kind in found):
        raise c.wrong(key, f"a list of {' and '.join(dict.fromkeys(default))}")
    return [found[i % len(found)] for i in range(number_of_layers(c))]


MAMBA: Final = {
    "bamba": Family(("BambaForCausalLM",), bamba),
    "falcon_h1": Family(("FalconH1ForCausalLM",), falcon_h1),
    "falcon_mamba": Family(("FalconMambaForCausalLM",), mamba, _MAMBA),
    "granitemoehybrid": Family(("GraniteMoeHybridForCausalLM",), granite_hybrid, _LISTED),
    "jamba": Family(("JambaForCausalLM",), jamba, _LISTED),
    "mamba": Family(("MambaForCausalLM",), mamba, _MAMBA),
    "mamba2": Family(("Mamba2ForCausalLM",), mamba2, _MAMBA_2),
    "nemotron_h": Family(("NemotronHForCausalLM",), nemotron_h, _NEMOTRON),
    "recurrent_gemma": Family(("RecurrentGemmaForCausalLM",), recurrent_gemma, _GRIFFIN),
    "zamba": Family(("ZambaForCausalLM",), zamba, _ZAMBA),
    "zamba2": Family(("Zamba2ForCausalLM",), zamba2, _ZAMBA_2),
}
