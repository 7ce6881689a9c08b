"""Text decoders that stand in sections only, of models that see or hear."""

from __future__ import annotations

from typing import Any, Final

from perfmodel.sources.huggingface.config import REQUIRED, Config
from perfmodel.sources.huggingface.families.decoders import DECODERS
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    SLIDING,
    Column,
    Family,
    PerLayer,
    attention,
    biases,
    by_kind,
    copy,
    decoder,
    divided,
    experts,
    feedforward,
    layer_types,
    number_of_layers,
    pair,
)
from perfmodel.sources.huggingface.families.sparse import dense_or_sparse, sparse_where
from perfmodel.work.layers import Attention, CrossAttention, ImageExperts, MixtureOfExperts
from perfmodel.work.layers.embedding import Embedding
from perfmodel.work.shape import ModelShape

REFERENCE: Final = "reference_sliding_attention"


def mllama_text(c: Config) -> ModelShape:
    """MllamaTextConfig: Llama's layers, and some that attend an image; 8 rows for its tokens."""
    mixer, dense = attention(c, kv_heads=8), feedforward(c)
    cross = CrossAttention(
        heads=mixer.heads, kv_heads=mixer.kv_heads, head_dim=mixer.head_dim, width=dense.width
    )
    count = number_of_layers(c)
    told = c.get("cross_attention_layers") is not None
    where = c.indices("cross_attention_layers", count) if told else range(3, count, 5)
    first: Column = [cross if i in where else mixer for i in range(count)]
    second: Column = [None if i in where else dense for i in range(count)]
    return decoder(c, first, second, embedding=Embedding(extra_rows=8))


def chameleon(c: Config) -> ModelShape:
    """ChameleonConfig: a scale and a shift of its own for each query and key head."""
    mixer = attention(c, kv_heads=32, qk_norm="full", qk_shift=True, **biases(c))
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False)))


def cosmos3_edge_text(c: Config) -> ModelShape:
    """Cosmos3EdgeTextConfig: Llama with an ungated feed-forward layer, heads 128 wide."""
    mixer = attention(c, kv_heads=8, head_dim=128, **biases(c))
    return decoder(c, mixer, feedforward(c, gated=False, bias=c.flag("mlp_bias", False)))


def glm4v_text(c: Config) -> ModelShape:
    """Glm4vTextConfig: GLM-4 with heads of hidden / heads and biases on queries, keys, values."""
    mixer = attention(c, kv_heads=2, qkv_bias=True, post_norm="rms")
    wide = divided(c, "hidden_size", "num_attention_heads")
    return decoder(c, copy(mixer, head_dim=wide), feedforward(c, post_norm="rms"))


def glm_ocr_text(c: Config) -> ModelShape:
    """GlmOcrTextConfig: GLM-4V without biases."""
    mixer = attention(c, kv_heads=8, post_norm="rms")
    return decoder(c, mixer, feedforward(c, post_norm="rms"))


def ernie4_5_vl_moe_text(c: Config) -> ModelShape:
    """Ernie4_5_VLMoeTextConfig: experts for text, and as many for images of a width of their own.

    ``moe_intermediate_size`` lists both widths; shared experts are as wide as those for text.
    """
    text, image = pair(c, "moe_intermediate_size", (1536, 512))
    number, chosen = _of_both(c, "num_experts"), c.count("num_experts_per_tok")
    if chosen > number:
        raise c.wrong("num_experts_per_tok", f"at most num_experts={number}", chosen)
    bias = c.flag("use_bias", False)
    mixer = attention(c, kv_heads=4, **biases(c, "use_bias"))
    moe = MixtureOfExperts(
        experts=number,
        top_k=chosen,
        width=text,
        shared_width=c.count_or_zero("n_shared_experts", 2) * text,
        router_bias=True,
        shared_bias=bias,
    )
    images = ImageExperts(experts=number, top_k=chosen, width=image, router_bias=True, norm=None)
    first = _of_both(c, "moe_layer_start_index", 1)
    layers = dense_or_sparse(c, feedforward(c, bias=bias), (moe, images), first=first)
    return decoder(c, mixer, layers, tied=True)


def _of_both(c: Config, key: str, default: Any = REQUIRED) -> int:
    """A number for both kinds of experts, or a list of the two, which must agree."""
    if not isinstance(c.get(key), list):
        return c.count(key, default)
    text, image = pair(c, key, (1, 1))
    if text != image:
        raise c.wrong(key, "the same number for text and for images")
    return text


def molmo2_text(c: Config) -> ModelShape:
    """Molmo2TextConfig: norms after instead of before by a flag; rows for tokens of images."""
    after = c.flag("norm_after", False)
    norms: dict[str, Any] = {"norm": None, "post_norm": "rms"} if after else {}
    kind = c.choice("qk_norm_type", ("qwen3", "olmo"), "qwen3")
    mixer = attention(
        c,
        kv_heads=8,
        head_dim=128,
        qkv_bias=c.flag("attention_bias", False),
        qk_norm="head" if kind == "qwen3" else "full",
        **norms,
    )
    rows = Embedding(extra_rows=c.count_or_zero("additional_vocab_size", 128))
    return decoder(c, mixer, feedforward(c, **norms), embedding=rows)


def unlimited_ocr_text(c: Config) -> ModelShape:
    """UnlimitedOcrTextConfig: windows of 128 in every layer, beside what an image gives."""
    window = c.optional_count("sliding_window", 128)
    kinds = layer_types(c, lambda _: REFERENCE if window else FULL, (FULL, REFERENCE))
    full = _plain_attention(c)
    mixers = by_kind(kinds, {FULL: full, REFERENCE: copy(full, window=window)})
    return _deepseek_ocr(c, mixers)


def deepseek_ocr2_text(c: Config) -> ModelShape:
    """DeepseekOcr2TextConfig: full attention; without ``mlp_layer_types`` one dense layer first."""
    return _deepseek_ocr(c, _plain_attention(c))


def _plain_attention(c: Config) -> Attention:
    """Heads of hidden / heads, whatever ``head_dim`` says."""
    wide = divided(c, "hidden_size", "num_attention_heads")
    return copy(attention(c, **biases(c)), head_dim=wide)  # type: ignore[no-any-return]


def _deepseek_ocr(c: Config, mixers: PerLayer) -> ModelShape:
    """DeepSeek's experts behind plain attention."""
    width = c.count("moe_intermediate_size")
    shared, bias = c.count_or_zero("n_shared_experts", 2) * width, c.flag("mlp_bias", False)
    moe, dense = experts(c, shared=shared, shared_bias=bias), feedforward(c, bias=bias)
    return decoder(c, mixers, dense_or_sparse(c, dense, moe, first=1))


def qwen3_omni_moe_text(c: Config) -> ModelShape:
    """Qwen3OmniMoeTextConfig: Qwen3-MoE; without ``head_dim`` it is hidden / heads, downwards."""
    wide = max(c.count("hidden_size") // c.count("num_attention_heads"), 1)
    mixer = attention(c, kv_heads=4, head_dim=wide, qk_norm="head", **biases(c))
    return decoder(c, mixer, sparse_where(c, experts(c), feedforward(c)))


def muse_glimmer_text(c: Config) -> ModelShape:
    """MuseGlimmerTextConfig: three windows of 2048 to one full layer at the end; gated."""
    mixers = _muse_mixers(c, kv_heads=2, head_dim=128, post_norm="rms")
    return decoder(c, mixers, feedforward(c, post_norm="rms"), embedding=Embedding(norm="bare"))


def muse_spark_text(c: Config) -> ModelShape:
    """MuseSparkTextConfig: experts in a latent, normed before and after; gated residuals."""
    hidden, latent = c.count("hidden_size"), c.count("moe_hidden_size", 4096)
    mixers = _muse_mixers(c, kv_heads=16, head_dim=64, post_norm="bare", scalars=hidden)
    moe = experts(c, latent=latent, post_norm="rms", scalars=hidden + 2 * latent)
    dense = feedforward(c, post_norm="rms", scalars=hidden)
    count = number_of_layers(c)
    kinds = c.kinds("mlp_layer_types", count, ("dense", "sparse")) or ["sparse"] * count
    seconds = by_kind(kinds, {"sparse": moe, "dense": dense})
    return decoder(c, mixers, seconds, embedding=Embedding(norm="bare"))


def _muse_mixers(c: Config, *, kv_heads: int, head_dim: int, **fields: Any) -> Column:
    mixer = attention(
        c,
        kv_heads=kv_heads,
        head_dim=head_dim,
        gate="value",
        gate_bias=False,
        qk_norm="bare",
        **biases(c),
        **fields,
    )
    sliding = copy(mixer, window=c.optional_count("sliding_window", 2048))
    last = number_of_layers(c) - 1
    kinds = layer_types(c, lambda i: FULL if (last - i) % 4 == 0 else SLIDING)
    return by_kind(kinds, {FULL: mixer, SLIDING: sliding})


def voxtral_realtime_text(c: Config) -> ModelShape:
    """VoxtralRealtimeTextConfig: Mistral with norms that follow the delay, by 32 numbers."""
    mixer = attention(c, kv_heads=8, window=c.optional_count("sliding_window", 8192))
    adapted = 2 * 32 * c.count("hidden_size")
    return decoder(c, mixer, feedforward(c, scalars=adapted), tied=True)


def alike(kind: str) -> Family:
    """A text class that reads as another does, under no class of its own."""
    return DECODERS[kind]._replace(architectures=())


SECTION_TEXTS: Final[dict[str, Family]] = {
    "cosmos3_edge_text": Family((), cosmos3_edge_text),
    "deepseek_ocr2_text": Family((), deepseek_ocr2_text),
    "emu3_text_model": alike("llama"),
    "ernie4_5_vl_moe_text": Family((), ernie4_5_vl_moe_text),
    "exaone4_5_text": alike("exaone4"),
    "glm4v_moe_text": alike("glm4_moe"),
    "glm4v_text": Family((), glm4v_text),
    "glm_ocr_text": Family((), glm_ocr_text),
    "granite4_vision_text": alike("granite"),
    "granite_docling_text": alike("granite"),
    "hunyuan_vl_text": alike("hunyuan_v1_dense"),
    "mllama_text_model": Family((), mllama_text),
    "muse_glimmer_text": Family((), muse_glimmer_text),
    "muse_spark_text": Family((), muse_spark_text),
    "molmo2_text": Family((), molmo2_text, {"attention_bias": ("qkv_bias",)}),
    "paddleocr_vl_text": alike("ernie4_5"),
    "qwen2_5_omni_text": alike("qwen2"),
    "qwen2_5_vl_text": alike("qwen2"),
    "qwen2_vl_text": alike("qwen2"),
    "qwen3_omni_moe_text": Family((), qwen3_omni_moe_text),
    "qwen3_vl_moe_text": alike("qwen3_moe"),
    "qwen3_vl_text": alike("qwen3"),
    "unlimited_ocr_text": Family((), unlimited_ocr_text),
    "voxtral_realtime_text": Family((), voxtral_realtime_text),
}
