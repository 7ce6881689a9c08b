"""Dense decoders whose classes come with their checkpoints, each with keys of its own."""

from __future__ import annotations

from typing import Final

from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.dense import phi3, phi_like, stablelm
from perfmodel.sources.huggingface.families.mla import mtp_blocks
from perfmodel.sources.huggingface.families.parts import (
    Column,
    Family,
    attention,
    biases,
    copy,
    decoder,
    experts,
    feedforward,
    number_of_layers,
)
from perfmodel.sources.huggingface.towers import vision
from perfmodel.work.layers import Attention, FeedForward, Projection
from perfmodel.work.layers.layer import Norm
from perfmodel.work.shape import ModelShape

# -- Llama in all but the name ----------------------------------------------------------------


def plain(c: Config) -> ModelShape:
    """Baichuan, Yi, Aquila, Skywork: Llama without biases; positions may be ALiBi's."""
    return decoder(c, attention(c), feedforward(c))


def xverse(c: Config) -> ModelShape:
    """XverseConfig: Llama without biases; the classes with experts are not read."""
    if c.get("num_experts"):
        raise UnsupportedModelError("config.num_experts: XVERSE with experts is not read")
    return plain(c)


def internlm(c: Config) -> ModelShape:
    """InternLMConfig, InternLM2Config: ``bias`` is that of all four projections of attention."""
    return decoder(c, attention(c, **biases(c, "bias", True)), feedforward(c))


def orion(c: Config) -> ModelShape:
    """OrionConfig: Llama with LayerNorms."""
    return decoder(c, attention(c, norm="layer"), feedforward(c, norm="layer"), norm="layer")


def minicpm(c: Config) -> ModelShape:
    """MiniCPMConfig: a tied head; mixtures of experts where ``num_experts`` is not 0."""
    if c.get("sparse_config") is not None:
        raise UnsupportedModelError("config.sparse_config: sparse attention is not read here")
    routed = c.count_or_zero("num_experts", 0)
    layers = experts(c, width="intermediate_size") if routed else feedforward(c)
    return decoder(c, attention(c), layers, tied=True)


def mimo(c: Config) -> ModelShape:
    """MiMoConfig: Qwen2 without windows, and extra blocks that predict further tokens."""
    mixer, inner = attention(c, qkv_bias=True), feedforward(c)
    if c.flag("use_sliding_window", False):
        raise c.wrong("use_sliding_window", "false")
    return decoder(c, mixer, inner, mtp=mtp_blocks(c, mixer, inner))


# -- keys of their own ------------------------------------------------------------------------

MIXFORMER_NAMES: Final = {
    "hidden_size": ("n_embd",),
    "intermediate_size": ("n_inner",),
    "max_position_embeddings": ("n_positions",),
    "num_attention_heads": ("n_head",),
    "num_hidden_layers": ("n_layer",),
    "num_key_value_heads": ("n_head_kv",),
}


def mixformer(c: Config) -> ModelShape:
    """PhiConfig of Phi's first checkpoints: inner width 4 x hidden unless the config says."""
    return phi_like(c, inner=4 * c.count("hidden_size"))


def qwen(c: Config) -> ModelShape:
    """QWenConfig: ``intermediate_size`` is that of gate and up together; ``no_bias`` but on QKV."""
    both, bias = c.count("intermediate_size"), not c.flag("no_bias", True)
    if both % 2:
        raise c.wrong("intermediate_size", "an even number")
    mixer = attention(c, qkv_bias=True, output_bias=bias)
    return decoder(c, mixer, FeedForward(width=both // 2, bias=bias))


CLIP_LARGE_336: Final = {
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 24,
    "patch_size": 14,
}

CHATGLM_NAMES: Final = {
    "head_dim": ("kv_channels",),
    "intermediate_size": ("ffn_hidden_size",),
    "max_position_embeddings": ("seq_length",),
    "num_hidden_layers": ("num_layers",),
    "vocab_size": ("padded_vocab_size",),
}


def chatglm(c: Config) -> ModelShape:
    """ChatGLMConfig from ChatGLM2 to GLM-4: biases, kind of norm and KV groups are flags."""
    if c.has_section("vision_config"):
        raise UnsupportedModelError("config.vision_config: GLM-4V is not read")
    norm: Norm = "rms" if c.flag("rmsnorm", True) else "layer"
    bias = c.flag("add_bias_linear", False)
    heads = c.count("num_attention_heads")
    grouped = c.flag("multi_query_attention", False)
    groups = c.count("multi_query_group_num", 1) if grouped else heads
    if heads % groups:
        raise c.wrong("num_attention_heads", f"a multiple of multi_query_group_num={groups}")
    mixer = attention(
        c,
        kv_heads=groups,
        norm=norm,
        qkv_bias=bias or c.flag("add_qkv_bias", False),
        output_bias=bias,
    )
    last = norm if c.flag("post_layer_norm", True) else None
    return decoder(c, mixer, feedforward(c, norm=norm, bias=bias), norm=last)


def phi3_v(c: Config) -> ModelShape:
    """Phi3VConfig: Phi-3 and, where ``img_processor`` names it, CLIP's large tower of 336 pixels.

    Two matrices join it to the decoder, after rows that separate the parts of an image.
    """
    shape = phi3(c)
    if not c.has_section("img_processor"):
        return shape
    tower, joint = c.section("img_processor"), c.section("embd_layer")
    tower.choice("name", ("clip_vision_model",))
    joint.choice("projection_cls", ("mlp",))
    width = tower.count("image_dim_out", 1024)
    seen = 4 * width if joint.flag("use_hd_transform", True) else width
    separators = 2 * seen if joint.flag("with_learnable_separator", True) else 0
    hidden = c.count("hidden_size")
    projection = (seen + 1) * hidden + (hidden + 1) * hidden
    params = vision.clip(Config(CLIP_LARGE_336)) + projection + separators
    return copy(shape, tower_params=params)  # type: ignore[no-any-return]


def phi3small(c: Config) -> ModelShape:
    """Phi3SmallConfig: LayerNorms and biases, a tied head.

    Its block-sparse layers are counted as full ones, which they are in their first 1024 tokens.
    """
    mixer = attention(c, norm="layer", qkv_bias=True, output_bias=True)
    inner = feedforward(c, "ff_intermediate_size", norm="layer", bias=True)
    return decoder(c, mixer, inner, tied=True, norm="layer")


# -- layers that differ by more than a window -------------------------------------------------


def deci(c: Config) -> ModelShape:
    """DeciLMConfig of DeciLM-7B: ``num_key_value_heads_per_layer`` lists each layer's KV heads."""
    mixer = attention(c)
    listed = c.counts("num_key_value_heads_per_layer", number_of_layers(c))
    if listed is None:
        return decoder(c, mixer, feedforward(c))
    if any(n == 0 or mixer.heads % n for n in listed):
        raise c.wrong("num_key_value_heads_per_layer", f"divisors of {mixer.heads} heads")
    return decoder(c, [copy(mixer, kv_heads=n) for n in listed], feedforward(c))


def nemotron_nas(c: Config) -> ModelShape:
    """DeciLMConfig of the Nemotron models from a search: ``block_configs`` tells each block."""
    blocks = [items.section(key) for items, key in each(c, "block_configs")]
    mixers: Column = [searched_attention(c, block.section("attention")) for block in blocks]
    feedforwards: Column = [searched_feedforward(c, block.section("ffn")) for block in blocks]
    return decoder(c, mixers, feedforwards)


def each(c: Config, key: str) -> list[tuple[Config, str]]:
    """The items of a list, one a layer: where to ask for each, and under which key."""
    listed, count = c.get(key), number_of_layers(c)
    if not isinstance(listed, list) or len(listed) != count:
        raise c.wrong(key, f"a list of num_hidden_layers={count} items")
    items = Config({f"{key}[{i}]": item for i, item in enumerate(listed)})
    return [(items, f"{key}[{i}]") for i in range(count)]


def searched_attention(c: Config, block: Config) -> Attention | Projection | None:
    """Attention with KV heads of its own, a matrix in its place, or nothing."""
    if block.flag("no_op", False):
        return None
    mixer = attention(c, **biases(c))
    if block.flag("replace_with_linear", False):
        return Projection(bias=mixer.output_bias)
    for key in ("sparsify", "num_sink_tokens"):
        if block.get(key) is not None:
            raise block.wrong(key, "null")
    group = block.count("n_heads_in_group")
    if mixer.heads % group:
        raise block.wrong("n_heads_in_group", f"a divisor of {mixer.heads} heads")
    window = block.optional_count("window_length", None)
    return copy(mixer, kv_heads=mixer.heads // group, window=window)  # type: ignore[no-any-return]


def searched_feedforward(c: Config, block: Config) -> FeedForward | Projection | None:
    """A width that is two thirds of ``ffn_mult`` x hidden, rounded up; a matrix; or nothing."""
    if block.flag("no_op", False):
        return None
    bias = c.flag("mlp_bias", False)
    if block.flag("replace_with_linear", False):
        return Projection(bias=bias)
    if block.get("sparsify") is not None:
        raise block.wrong("sparsify", "null")
    width = block.optional_count("intermediate_size", None)
    if width is None:
        exact = int(2 * block.factor("ffn_mult") * c.count("hidden_size") / 3)
        width = -(-exact // 256) * 256
    return FeedForward(width=width, bias=bias)


OPENELM_NAMES: Final = {
    "hidden_size": ("model_dim",),
    "max_position_embeddings": ("max_context_length",),
    "num_hidden_layers": ("num_transformer_layers",),
    "tie_word_embeddings": ("share_input_output_layers",),
}


def openelm(c: Config) -> ModelShape:
    """OpenELMConfig: each layer's heads and inner width are listed; a tied head."""
    queries = [items.count(key) for items, key in each(c, "num_query_heads")]
    keys = [items.count(key) for items, key in each(c, "num_kv_heads")]
    factors = [items.factor(key) for items, key in each(c, "ffn_multipliers")]
    if any(heads % kv_heads for heads, kv_heads in zip(queries, keys, strict=True)):
        raise c.wrong("num_kv_heads", "divisors of num_query_heads")
    mixer = Attention(
        heads=1,
        kv_heads=1,
        head_dim=c.count("head_dim"),
        qk_norm="head" if c.flag("normalize_qk_projections", True) else None,
    )
    inner = FeedForward(width=1, gated=c.flag("ffn_with_glu", True))
    widths = [openelm_width(c, factor) for factor in factors]
    pairs = zip(queries, keys, strict=True)
    mixers: Column = [copy(mixer, heads=heads, kv_heads=kv_heads) for heads, kv_heads in pairs]
    return decoder(c, mixers, [copy(inner, width=width) for width in widths], tied=True)


def openelm_width(c: Config, factor: float) -> int:
    """A multiple of ``ffn_dim_divisor``: the nearest, unless it loses more than a tenth."""
    exact, step = factor * c.count("hidden_size"), c.count("ffn_dim_divisor", 256)
    width = max(step, int(exact + step / 2) // step * step)
    return width if width >= 0.9 * exact else width + step


REMOTE_CODE: Final = {
    "Yi": Family(("YiForCausalLM",), plain),
    "aquila": Family(("AquilaForCausalLM",), plain),
    "baichuan": Family(("BaichuanForCausalLM", "BaiChuanForCausalLM"), plain),
    "chatglm": Family(("ChatGLMModel", "ChatGLMForConditionalGeneration"), chatglm, CHATGLM_NAMES),
    "deci": Family(("DeciLMForCausalLM",), deci),
    "internlm": Family(("InternLMForCausalLM",), internlm),
    "internlm2": Family(("InternLM2ForCausalLM",), internlm),
    "mimo": Family(("MiMoForCausalLM",), mimo),
    "minicpm": Family(("MiniCPMForCausalLM",), minicpm),
    "mixformer-sequential": Family(("MixFormerSequentialForCausalLM",), mixformer, MIXFORMER_NAMES),
    "nemotron-nas": Family(("DeciLMForCausalLM",), nemotron_nas),
    "openelm": Family(("OpenELMForCausalLM",), openelm, OPENELM_NAMES),
    "orion": Family(("OrionForCausalLM",), orion),
    "phi-msft": Family(("PhiForCausalLM",), mixformer, MIXFORMER_NAMES),
    "phi3_v": Family(("Phi3VForCausalLM",), phi3_v),
    "phi3small": Family(("Phi3SmallForCausalLM",), phi3small),
    "qwen": Family(("QWenLMHeadModel",), qwen, {"head_dim": ("kv_channels",)}),
    "skywork": Family(("SkyworkForCausalLM",), plain),
    "stablelm_epoch": Family(("StableLMEpochForCausalLM",), stablelm),
    "xverse": Family(("XverseForCausalLM",), xverse),
}
