"""Older decoders: learned positions or ALiBi, LayerNorm, biases, ungated feed-forward layers."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import (
    Column,
    Family,
    by_kind,
    copy,
    decoder,
    divided,
    number_of_layers,
    scaled,
)
from perfmodel.work.layers import Attention, ChannelMix, FeedForward, MatrixMemory, TimeMix
from perfmodel.work.layers.embedding import Embedding
from perfmodel.work.layers.layer import Norm
from perfmodel.work.shape import ModelShape

GPT_NAMES: Final = {
    "hidden_size": ("n_embd",),
    "max_position_embeddings": ("n_positions",),
    "num_attention_heads": ("n_head",),
    "num_hidden_layers": ("n_layer",),
}
GPT_NEO_NAMES: Final = {
    "num_attention_heads": ("num_heads",),
    "num_hidden_layers": ("num_layers",),
}
BLOOM_NAMES: Final = {
    "hidden_size": ("n_embed",),
    "max_position_embeddings": ("seq_length",),
    "num_attention_heads": ("n_head",),
    "num_hidden_layers": ("n_layer",),
}
FALCON_NAMES: Final = BLOOM_NAMES | {
    "max_position_embeddings": (),
    "num_kv_heads": ("n_head_kv",),
}
MPT_NAMES: Final = {
    "hidden_size": ("d_model",),
    "max_position_embeddings": ("max_seq_len",),
    "num_attention_heads": ("n_heads",),
    "num_hidden_layers": ("n_layers",),
}
XGLM_NAMES: Final = {
    "hidden_size": ("d_model",),
    "num_attention_heads": ("attention_heads",),
    "num_hidden_layers": ("num_layers",),
}
XLSTM_NAMES: Final = {
    "hidden_size": ("embedding_dim",),
    "num_hidden_layers": ("num_blocks",),
}

GLOBAL: Final = "global"
LOCAL: Final = "local"


def multihead(c: Config, *, bias: bool = True, **fields: Any) -> Attention:
    """As many KV heads as heads, hidden / heads wide, behind a LayerNorm."""
    heads = c.count("num_attention_heads")
    width = divided(c, "hidden_size", "num_attention_heads")
    plain = {"kv_heads": heads, "qkv_bias": bias, "output_bias": bias, "norm": "layer"}
    return Attention(heads=heads, head_dim=width, **(plain | fields))


def plain(width: int, *, bias: bool = True, **fields: Any) -> FeedForward:
    """Up and down without a gate, with biases, behind a LayerNorm."""
    return FeedForward(width=width, gated=False, bias=bias, **({"norm": "layer"} | fields))


def four_times(c: Config, key: str) -> int:
    """An inner width that is four times the model's unless the config says another."""
    return c.count(key, 4 * c.count("hidden_size"))


# -- learned positions ------------------------------------------------------------------------


def gpt2(c: Config) -> ModelShape:
    """GPT2Config: 1024 positions, inner width 4 x hidden, a tied head."""
    positions = Embedding(positions=c.count("max_position_embeddings", 1024))
    inner = plain(four_times(c, "n_inner"))
    return decoder(c, multihead(c), inner, tied=True, norm="layer", embedding=positions)


def gpt_bigcode(c: Config) -> ModelShape:
    """GPTBigCodeConfig: GPT-2 with one KV head unless ``multi_query`` is off."""
    kv_heads = 1 if c.flag("multi_query", True) else c.count("num_attention_heads")
    positions = Embedding(positions=c.count("max_position_embeddings", 1024))
    mixer, inner = multihead(c, kv_heads=kv_heads), plain(four_times(c, "n_inner"))
    return decoder(c, mixer, inner, tied=True, norm="layer", embedding=positions)


def gpt_neo(c: Config) -> ModelShape:
    """GPTNeoConfig: full layers and windows of 256 in turn; no bias on queries, keys, values."""
    mixer = multihead(c, qkv_bias=False)
    local = copy(mixer, window=c.count("window_size", 256))
    mixers = by_kind(gpt_neo_kinds(c), {GLOBAL: mixer, LOCAL: local})
    positions = Embedding(positions=c.count("max_position_embeddings"))
    inner = plain(four_times(c, "intermediate_size"))
    return decoder(c, mixers, inner, tied=True, norm="layer", embedding=positions)


def gpt_neo_kinds(c: Config) -> list[str]:
    """As ``attention_layers`` lists them, else by ``attention_types``: patterns and repeats."""
    count = number_of_layers(c)
    listed = c.kinds("attention_layers", count, (GLOBAL, LOCAL))
    if listed is not None:
        return listed
    types = c.get("attention_types")
    if not isinstance(types, list | None):
        raise c.wrong("attention_types", "a list of patterns and repeats")
    kinds: list[str] = []
    for item in [[[GLOBAL, LOCAL], 12]] if types is None else types:
        match item:
            case [[*pattern], int(times)] if len(pattern) * times <= count - len(kinds):
                kinds += [*pattern] * times
            case _:
                raise c.wrong("attention_types", f"patterns and repeats of {count} layers")
    if len(kinds) != count or any(kind not in (GLOBAL, LOCAL) for kind in kinds):
        raise c.wrong("attention_types", f"global or local for each of {count} layers")
    return kinds


def opt(c: Config) -> ModelShape:
    """OPTConfig: two unused positions, ReLU, biases, norms before; each of these is a flag.

    With norms after (the 350m model) there is none before the head; a table that is narrower than
    the model has a projection on either side.
    """
    bias = c.flag("enable_bias", True)
    before = c.flag("do_layer_norm_before", True)
    norm: Norm = "layer" if c.flag("layer_norm_elementwise_affine", True) else "bare"
    around: dict[str, Any] = {"norm": norm} if before else {"norm": None, "post_norm": norm}
    hidden, width = c.count("hidden_size"), c.count("word_embed_proj_dim", c.count("hidden_size"))
    narrow = None if width == hidden else width
    positions = c.count("max_position_embeddings")
    return decoder(
        c,
        multihead(c, bias=bias, **around),
        plain(c.count("ffn_dim"), bias=bias, **around),
        tied=True,
        norm=norm if before and not c.flag("_remove_final_layer_norm", False) else None,
        embedding=Embedding(positions=positions, unused_positions=2, width=narrow),
        head_width=narrow,
    )


def biogpt(c: Config) -> ModelShape:
    """BioGptConfig: two unused positions, biases, norms before, a tied head."""
    table = Embedding(positions=c.count("max_position_embeddings"), unused_positions=2)
    inner = plain(c.count("intermediate_size"))
    return decoder(c, multihead(c), inner, tied=True, norm="layer", embedding=table)


def openai_gpt(c: Config) -> ModelShape:
    """OpenAIGPTConfig: 512 positions, norms after each layer, none before the tied head."""
    after: dict[str, Any] = {"norm": None, "post_norm": "layer"}
    positions = Embedding(positions=c.count("max_position_embeddings", 512))
    inner = plain(4 * c.count("hidden_size"), **after)
    return decoder(c, multihead(c, **after), inner, tied=True, norm=None, embedding=positions)


def git(c: Config) -> ModelShape:
    """GitConfig: BERT's layers, causal: norms after each and after the table of 1024 positions."""
    after: dict[str, Any] = {"norm": None, "post_norm": "layer"}
    table = Embedding(positions=c.count("max_position_embeddings", 1024), norm="layer")
    return decoder(
        c,
        multihead(c, **after),
        plain(c.count("intermediate_size"), **after),
        norm=None,
        embedding=table,
        head_bias=True,
    )


# -- positions that are computed --------------------------------------------------------------


def xglm(c: Config) -> ModelShape:
    """XGLMConfig: sinusoidal positions, biases, a tied head."""
    return decoder(c, multihead(c), plain(c.count("ffn_dim")), tied=True, norm="layer")


def ctrl(c: Config) -> ModelShape:
    """CTRLConfig: sinusoidal positions, biases, and one on the tied head, too."""
    inner = plain(c.count("dff"))
    return decoder(c, multihead(c), inner, tied=True, norm="layer", head_bias=True)


def gptj(c: Config) -> ModelShape:
    """GPTJConfig, CodeGenConfig: both halves of a block share a norm; no biases in attention."""
    inner = plain(four_times(c, "n_inner"), norm=None)
    return decoder(c, multihead(c, bias=False), inner, norm="layer", head_bias=True)


def gpt_neox(c: Config) -> ModelShape:
    """GPTNeoXConfig: two norms a block, parallel or not; ``attention_bias`` is on."""
    mixer = multihead(c, bias=c.flag("attention_bias", True))
    return decoder(c, mixer, plain(c.count("intermediate_size")), norm="layer")


def gpt_neox_japanese(c: Config) -> ModelShape:
    """GPTNeoXJapaneseConfig: no biases but one, on the output of the last layer's attention."""
    mixer = multihead(c, bias=False)
    last = copy(mixer, output_bias=True)
    mixers: Column = [*[mixer] * (number_of_layers(c) - 1), last]
    inner = plain(c.count("intermediate_multiple_size", 4) * c.count("hidden_size"), bias=False)
    return decoder(c, mixers, inner, tied=True, norm="layer")


def persimmon(c: Config) -> ModelShape:
    """PersimmonConfig: biases, squared ReLU, a LayerNorm on each query and key head."""
    normed = c.flag("qk_layernorm", True)
    mixer = multihead(c, qk_norm="head" if normed else None, qk_shift=normed)
    return decoder(c, mixer, plain(c.count("intermediate_size")), norm="layer")


# PersimmonConfig, as FuyuConfig makes it of a text_config that leaves these out.
FUYU_TEXT: Final = {
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "max_position_embeddings": 16384,
    "num_attention_heads": 64,
    "num_hidden_layers": 36,
    "vocab_size": 262144,
}


def fuyu(c: Config) -> ModelShape:
    """FuyuConfig: a Persimmon, flat or in ``text_config``; patches enter by one projection."""
    flat = c.get("text_config") is None
    shape = persimmon(c if flat else c.section("text_config", defaults=FUYU_TEXT))
    head = copy(shape.head, tied=c.flag("tie_word_embeddings", False))
    patch = c.count("num_channels", 3) * c.count("patch_size", 30) ** 2
    towers = (patch + 1) * shape.hidden  # type: ignore[operator]
    return shape.model_copy(update={"head": head, "tower_params": towers})


# -- ALiBi ------------------------------------------------------------------------------------


def bloom(c: Config) -> ModelShape:
    """BloomConfig: a norm after the embedding, inner width 4 x hidden, a tied head."""
    inner = plain(4 * c.count("hidden_size"))
    normed = Embedding(norm="layer")
    return decoder(c, multihead(c), inner, tied=True, norm="layer", embedding=normed)


def falcon(c: Config) -> ModelShape:
    """FalconConfig: one KV head, parallel halves that share a norm, no biases, a tied head.

    ``num_kv_heads`` counts only in the new architecture, whose parallel halves have a norm each
    unless ``num_ln_in_parallel_attn`` says one. Rotary or ALiBi, positions are computed.
    """
    heads, bias = c.count("num_attention_heads"), c.flag("bias", False)
    new = c.flag("new_decoder_architecture", False)
    if new:
        kv_heads = c.count("num_kv_heads", heads)
    else:
        kv_heads = 1 if c.flag("multi_query", True) else heads
    if heads % kv_heads:
        raise c.wrong("num_attention_heads", f"a multiple of num_kv_heads={kv_heads}", heads)
    norms = c.count("num_ln_in_parallel_attn", 2 if new else 1)
    shared = c.flag("parallel_attn", True) and norms != 2
    inner = plain(four_times(c, "ffn_hidden_size"), bias=bias, norm=None if shared else "layer")
    mixer = multihead(c, bias=bias, kv_heads=kv_heads)
    return decoder(c, mixer, inner, tied=True, norm="layer")


def mpt(c: Config) -> ModelShape:
    """MptConfig: no biases, not even in norms, inner width 4 x hidden, ALiBi, a tied head.

    Transformers' own class has no other kind. Checkpoints of LLM Foundry, which has the same
    ``model_type``, differ in more, and say so in keys that only its MPTConfig reads.
    """
    attn, inner = optional_section(c, "attn_config"), optional_section(c, "ffn_config")
    if attn.get("sliding_window_size") not in (None, -1):
        raise attn.wrong("sliding_window_size", "-1, for windows are not read here")
    bias = not c.flag("no_bias", True)
    rms = "rms" in c.choice("norm_type", MPT_NORMS, MPT_NORMS[0])
    norm: Norm = "rms" if rms else "layer" if bias else "layer-scale"
    mixer = multihead(
        c,
        bias=bias,
        norm=norm,
        kv_heads=mpt_kv_heads(c, attn),
        qk_norm="full" if attn.flag("qk_ln", False) else None,
        qk_shift=norm == "layer",
    )
    width = scaled(c, "expansion_ratio", c.factor("expansion_ratio", 4), c.count("hidden_size"))
    feedforward = FeedForward(
        width=inner.count("ffn_hidden_size", width),
        gated=inner.choice("ffn_type", ("mptmlp", "mptglu"), "mptmlp") == "mptglu",
        bias=bias,
        norm=norm,
    )
    computed = attn.flag("alibi", True) or attn.flag("rope", False)
    learned = c.flag("learned_pos_emb", True) and not computed
    table = Embedding(positions=c.count("max_position_embeddings") if learned else None)
    return decoder(c, mixer, feedforward, tied=True, norm=norm, embedding=table)


MPT_NORMS: Final = ("low_precision_layernorm", "layernorm", "low_precision_rmsnorm", "rmsnorm")


def mpt_kv_heads(c: Config, attn: Config) -> int:
    """By the name of the attention; a grouped one says how many."""
    heads = c.count("num_attention_heads")
    kinds = ("multihead_attention", "multiquery_attention", "grouped_query_attention")
    kind = attn.choice("attn_type", kinds, kinds[0])
    if kind != kinds[2]:
        return heads if kind == kinds[0] else 1
    kv_heads = attn.count("kv_n_heads")
    if heads % kv_heads:
        raise attn.wrong("kv_n_heads", f"a divisor of n_heads={heads}")
    return kv_heads


def optional_section(c: Config, key: str) -> Config:
    """A section whose keys all have defaults, so that it may be absent."""
    return Config({}) if c.get(key) is None else c.section(key)


# -- recurrences ------------------------------------------------------------------------------


def rwkv(c: Config) -> ModelShape:
    """RwkvConfig: RWKV-4, LayerNorms, one more after the embedding; inner width 4 x hidden."""
    hidden = c.count("hidden_size")
    inner = c.count("attention_hidden_size", hidden)
    mixer = TimeMix(inner=inner, shifted=hidden, norm="layer")
    channels = ChannelMix(width=four_times(c, "intermediate_size"), shifted=hidden, norm="layer")
    return decoder(c, mixer, channels, norm="layer", embedding=Embedding(norm="layer"))


def xlstm(c: Config) -> ModelShape:
    """xLSTMConfig: keys half as wide as values, inner width 2.667 x hidden, rounded up to 64s."""
    hidden, bias = c.count("hidden_size"), c.flag("use_bias", False)
    shift = hidden if bias else 0  # RMSNorms that shift, too
    mixer = MatrixMemory(
        heads=c.count("num_heads"),
        key_dim=xlstm_head(c, "qk_dim_factor", 0.5),
        value_dim=xlstm_head(c, "v_dim_factor", 1.0),
        chunk_size=c.count("chunk_size", 64),
        bias=bias,
        scalars=shift,
    )
    step = c.count("ffn_round_up_to_multiple_of", 64)
    width = -(-int(hidden * c.factor("ffn_proj_factor", 2.667)) // step) * step
    shape = decoder(c, mixer, FeedForward(width=width, bias=bias, scalars=shift))
    # The class ties nothing, whatever tie_word_embeddings says.
    return shape.model_copy(update={"head": copy(shape.head, tied=False)})


def xlstm_head(c: Config, key: str, default: float) -> int:
    """A width that is a factor of the model's, rounded down, of one head."""
    width, heads = int(c.count("hidden_size") * c.factor(key, default)), c.count("num_heads")
    if width < heads or width % heads:
        raise c.wrong(key, f"a factor that makes a multiple of num_heads={heads}", width)
    return width // heads


LEGACY: Final = {
    "RefinedWeb": Family(
        ("RWForCausalLM",),
        falcon,
        FALCON_NAMES,
        # RWConfig of tiiuae/falcon-40b: what FalconConfig calls the new architecture.
        defaults={"new_decoder_architecture": True},
    ),
    "RefinedWebModel": Family(("RWForCausalLM",), falcon, FALCON_NAMES),
    "biogpt": Family(("BioGptForCausalLM",), biogpt),
    "bloom": Family(("BloomForCausalLM", "BloomModel"), bloom, BLOOM_NAMES),
    "codegen": Family(("CodeGenForCausalLM",), gptj, GPT_NAMES),
    "ctrl": Family(("CTRLLMHeadModel",), ctrl, GPT_NAMES),
    "falcon": Family(("FalconForCausalLM", "RWForCausalLM"), falcon, FALCON_NAMES),
    "fuyu": Family(("FuyuForCausalLM",), fuyu),
    "gpt-sw3": Family(("GPT2LMHeadModel",), gpt2, GPT_NAMES),
    "gpt2": Family(("GPT2LMHeadModel", "GPT2DoubleHeadsModel", "GPT2Model"), gpt2, GPT_NAMES),
    "gpt_bigcode": Family(("GPTBigCodeForCausalLM",), gpt_bigcode, GPT_NAMES),
    "gpt_neo": Family(("GPTNeoForCausalLM",), gpt_neo, GPT_NEO_NAMES),
    "gpt_neox": Family(("GPTNeoXForCausalLM",), gpt_neox),
    "gpt_neox_japanese": Family(("GPTNeoXJapaneseForCausalLM",), gpt_neox_japanese),
    "gptj": Family(("GPTJForCausalLM",), gptj, GPT_NAMES),
    "mpt": Family(("MptForCausalLM", "MPTForCausalLM"), mpt, MPT_NAMES),
    "openai-gpt": Family(("OpenAIGPTLMHeadModel",), openai_gpt, GPT_NAMES),
    "opt": Family(("OPTForCausalLM",), opt),
    "persimmon": Family(("PersimmonForCausalLM",), persimmon),
    "rwkv": Family(("RwkvForCausalLM",), rwkv, {"max_position_embeddings": ("context_length",)}),
    "xglm": Family(("XGLMForCausalLM",), xglm, XGLM_NAMES),
    "xlstm": Family(("xLSTMForCausalLM",), xlstm, XLSTM_NAMES),
}
