"""Parameters of vision towers that one family has, each from its own section."""

from __future__ import annotations

from typing import Final

from perfmodel.base.spec import whole
from perfmodel.sources.huggingface.config import MAX_LAYERS, Config
from perfmodel.sources.huggingface.families.parts import per_layer, scaled
from perfmodel.sources.huggingface.towers.parts import (
    Tower,
    attention,
    convolution,
    encoder,
    gated_mlp,
    grid,
    head_dim,
    linear,
    members,
    mlp,
    norm,
    patches,
    sides,
    sizes,
    timm,
)
from perfmodel.work.layers.layer import Norm


def pixtral(c: Config) -> int:
    """PixtralVisionConfig: rotary positions, RMSNorm, gated layers, no biases."""
    layers = encoder(c, kind="rms", gated=True, bias=False)
    return patches(c, bias=False) + norm(c.count("hidden_size"), "rms") + layers


def internvl(c: Config) -> int:
    """InternVLVisionConfig: a class token, scaled results, norms on queries and keys by flag."""
    width = c.count("hidden_size")
    kinds: dict[str, Norm] = {"layer_norm": "layer", "rms_norm": "rms"}
    kind = kinds[c.choice("norm_type", tuple(kinds), "layer_norm")]
    one = (
        attention(width, bias=c.flag("attention_bias"), output_bias=True)
        + mlp(width, c.count("intermediate_size"))
        + 2 * norm(width, kind)
        + 2 * width
        + (2 * norm(width, "rms") if c.flag("use_qk_norm", False) else 0)
    )
    tokens = 2 if c.flag("use_mask_token", False) else 1
    if c.flag("use_absolute_position_embeddings", True):
        tokens += grid(c) + 1
    last = 0 if c.flag("use_mean_pooling", True) else norm(width)
    return patches(c) + tokens * width + c.count("num_hidden_layers") * one + last


def janus(c: Config) -> int:
    """JanusVisionConfig: SigLIP's layers with a bias flag, and the matrices that align them."""
    width, out = c.count("hidden_size"), c.count("projection_dim", 2048)
    one = (
        attention(width, bias=c.flag("attention_bias", True), output_bias=True)
        + mlp(width, scaled(c, "mlp_ratio", c.factor("mlp_ratio", 4), width))
        + 2 * norm(width)
        + (2 * norm(width) if c.flag("use_qk_norm", False) else 0)
    )
    embeddings = patches(c) + grid(c) * width
    aligner = linear(width, out) + (c.count("depth", 2) - 1) * linear(out, out)
    return embeddings + c.count("num_hidden_layers") * one + norm(width) + aligner


def moonvit(c: Config) -> int:
    """Kimi_K25VisionConfig: a grid of learned positions, biases, a last norm."""
    width = c.count("hidden_size")
    positions = c.count("pos_emb_height", 64) * c.count("pos_emb_width", 64)
    return patches(c) + positions * width + encoder(c) + norm(width)


def llama4(c: Config) -> int:
    """Llama4VisionConfig: CLIP's ends, and a matrix pair after the pixel shuffle."""
    width, out = c.count("hidden_size"), c.count("projector_output_dim")
    embeddings = patches(c, bias=False) + width + (grid(c) + 1) * width
    adapter = linear(c.count("intermediate_size"), c.count("projector_input_dim"), bias=False)
    return embeddings + 2 * norm(width) + encoder(c) + adapter + linear(out, out, bias=False)


def mllama(c: Config) -> int:
    """MllamaVisionConfig: tables for each way to tile an image, gated global layers after."""
    width, positions = c.count("hidden_size"), grid(c) + 1
    ways = members(c, "supported_aspect_ratios", 8) + 1
    tiles = ways * c.count("max_num_tiles", 4)
    local = encoder(c, bias=False, mlp_bias=True)
    gated = c.count("num_global_layers", 8) * (local // c.count("num_hidden_layers") + 2)
    tables = (positions + tiles * positions + 2 * tiles) * width + 3
    return patches(c, bias=False) + width + 2 * norm(width) + tables + local + gated


def gemma4(c: Config) -> int:
    """Gemma4VisionConfig: Gemma's norms around every layer and on each head, two tables."""
    width, head = c.count("hidden_size"), c.count("head_dim")
    queries = c.count("num_attention_heads") * head
    keys = c.count("num_key_value_heads") * head
    one = (
        attention(width, queries=queries, keys=keys, bias=c.flag("attention_bias", False))
        + 2 * head
        + gated_mlp(width, c.count("intermediate_size"))
        + 4 * norm(width, "rms")
    )
    tables = 2 * c.count("position_embedding_size") * width
    return patches(c, bias=False) + tables + c.count("num_hidden_layers") * one


def gemma4_unified(c: Config) -> int:
    """Gemma4UnifiedVisionConfig: no layers; pooled patches, two tables, three norms."""
    width = c.count("mm_embed_dim")
    pixels = 3 * (c.count("patch_size") * c.count("pooling_kernel_size")) ** 2
    tables = 2 * c.count("mm_posemb_size") * width
    return norm(pixels) + linear(pixels, width) + 2 * norm(width) + tables


def minimax_m3(c: Config) -> int:
    """MiniMaxM3VLVisionConfig: CLIP's layers over frames, with rotary positions."""
    embeddings = patches(c, bias=False, frames=c.count("temporal_patch_size", 2))
    return embeddings + norm(c.count("hidden_size")) + encoder(c)


def ernie4_5_vl(c: Config) -> int:
    """Ernie4_5_VLMoeVisionConfig: rotary positions and a last norm."""
    return patches(c, bias=False) + encoder(c) + norm(c.count("hidden_size"))


def ovis2(c: Config) -> int:
    """Ovis2VisionConfig: RMSNorm, gated layers, and a head over a visual vocabulary."""
    width = c.count("hidden_size")
    bias, mlp_bias = c.flag("qkv_bias", False), c.flag("mlp_bias", False)
    layers = encoder(c, kind="rms", gated=True, bias=bias, mlp_bias=mlp_bias)
    words = c.count("vocab_size", 16384) - c.count("num_visual_indicator_tokens", 5)
    if words < 1:
        raise c.wrong("vocab_size", "more than num_visual_indicator_tokens")
    merged = width * c.count("hidden_stride", 1) ** 2
    head = linear(merged, words, bias=False) + norm(words)
    return patches(c) + grid(c) * width + 2 * norm(width, "rms") + layers + head


def step3p7(c: Config) -> int:
    """Step3p7VisionConfig: scaled results, two convolutions that double the width after."""
    width = c.count("hidden_size")
    layers = encoder(c, extra=2 * width)
    down = convolution(width, 2 * width, 3, 3) + convolution(2 * width, 4 * width, 3, 3)
    return patches(c, bias=False) + grid(c) * width + norm(width) + layers + down


def inkling2(c: Config) -> int:
    """Inkling2VisionConfig: a class token, scaled results, a merger onto the decoder's width."""
    width = c.count("hidden_size")
    tokens = c.count("posemb_grid_size", 32) ** 2 + 2
    merged = width * c.count("spatial_merge_size", 2) ** 2
    out, bias = c.count("text_hidden_size"), c.flag("projector_bias", False)
    merger = mlp(merged, c.count("projection_hidden_dim", 4096), out, bias=bias)
    layers = encoder(c, extra=2 * width)
    return patches(c, bias=False) + tokens * width + norm(width) + layers + merger


def muse(c: Config) -> int:
    """MuseGlimmerVisionConfig: patches over frames, a grid of positions, norms at both ends."""
    width = c.count("hidden_size")
    positions = c.count("pos_emb_height", 32) * c.count("pos_emb_width", 32)
    embeddings = patches(c, bias=False, frames=c.count("patch_temporal", 2)) + positions * width
    return embeddings + 2 * norm(width) + encoder(c)


def molmo2(c: Config) -> int:
    """Molmo2VisionConfig: heads of their own width, a table of positions."""
    width = c.count("hidden_size")
    one = _molmo2_attention(c, width) + mlp(width, c.count("intermediate_size")) + 2 * norm(width)
    positions = c.count("num_position_embeddings", 729) * width
    return patches(c) + positions + c.count("num_hidden_layers") * one


def molmo2_adapter(c: Config) -> int:
    """Molmo2AdapterConfig: attention that pools several layers' patches, then a gated layer."""
    width = c.count("hidden_size")
    pooled = width * members(c, "vision_feature_layer", 2)
    out, bias = c.count("text_hidden_size"), c.flag("mlp_bias", False)
    inner = c.count("intermediate_size")
    return _molmo2_attention(c, pooled) + gated_mlp(width, inner, out, bias=bias)


def _molmo2_attention(c: Config, inner: int) -> int:
    """From ``inner`` values onto the tower's width; the output always has a bias."""
    head, bias = c.count("head_dim", 72), c.flag("attention_bias", True)
    queries = c.count("num_attention_heads") * head
    keys = c.count("num_key_value_heads", 16) * head
    projected = linear(inner, queries, bias) + 2 * linear(inner, keys, bias)
    return projected + linear(queries, c.count("hidden_size"))


def minicpmv4_6(c: Config) -> int:
    """MiniCPMV4_6VisionConfig: SigLIP without a head; attention that merges windows within."""
    width = c.count("hidden_size")
    high, wide = sides(c, "window_kernel_size", 2)
    merged = width * high * wide
    inner = c.count("intermediate_size") * high * wide
    window = attention(width) + norm(width) + norm(merged) + mlp(merged, inner, width)
    return patches(c) + grid(c) * width + encoder(c) + norm(width) + window


def lfm3_vl(c: Config) -> int:
    """Lfm3VlVisionConfig: gated convolutions over the image, attention in some layers."""
    width, count = c.count("hidden_size"), c.count("num_hidden_layers")
    if count > 1000:
        raise c.wrong("num_hidden_layers", "at most 1000", count)
    kinds = c.kinds("layer_types", count, ("conv", "full_attention")) or []
    side = c.count("conv_kernel_size", 3)
    conv = linear(width, 3 * width, bias=False) + width * side**2 + linear(width, width, bias=False)
    head = head_dim(c)
    attend = attention(width, keys=c.count("num_key_value_heads", 8) * head, bias=False) + 2 * head
    full = kinds.count("full_attention") if kinds else sum(i % 2 for i in range(count))
    ends = patches(c, bias=False, frames=c.count("temporal_patch_size", 2)) + norm(width, "rms")
    shared = gated_mlp(width, c.count("intermediate_size")) + 2 * norm(width, "rms")
    return ends + count * shared + full * attend + (count - full) * conv


def hunyuan_vl(c: Config) -> int:
    """HunYuanVLVisionConfig: as many positions as the largest image has patches, and one more."""
    width, side = c.count("hidden_size"), c.count("max_image_size", 2048) // c.count("patch_size")
    keys = c.count("num_key_value_heads", 16) * head_dim(c)
    layer = attention(width, keys=keys) + mlp(width, c.count("intermediate_size")) + 2 * norm(width)
    return patches(c) + (side**2 + 1) * width + c.count("num_hidden_layers") * layer


def granite_docling(c: Config) -> int:
    """GraniteDoclingVisionConfig: SigLIP without a head; a coarse and a fine way to merge."""
    width, out = c.count("hidden_size"), c.count("out_hidden_size", 1024)
    deep, scale = members(c, "deepstack_visual_indexes", 3), c.count("scale_factor", 4)
    scales = [scale, scale // 2] if c.flag("use_fine_route", True) else [scale]
    ways = 0
    for merged in (width * side**2 for side in scales):
        ways += linear(merged, out, bias=False) + deep * (norm(merged) + mlp(merged, out, out))
    ends = norm(width) + 2 * norm(out) + linear(out, out, bias=False)
    return patches(c) + grid(c) * width + encoder(c) + norm(width) + ways + ends


def radio(c: Config) -> int:
    """RadioConfig: patches of images and of frames, tokens before them, scaled results."""
    width, patch = c.count("hidden_size"), c.count("patch_size")
    inner = scaled(c, "mlp_ratio", c.factor("mlp_ratio", 4), width)
    gated = c.flag("use_swiglu_ffn", False)
    heads = attention(width, bias=c.flag("qkv_bias", True), output_bias=True)
    dense = gated_mlp(width, inner, bias=True) if gated else mlp(width, inner)
    pixels = c.count("num_channels", 3) * patch**2
    frames = c.optional_count("video_temporal_patch_size", 2) or 0
    tokens = (c.count("max_img_size", 2048) // patch) ** 2
    tokens += c.count("num_cls_tokens", 3) + c.count_or_zero("num_registers", 7)
    layer = heads + dense + 2 * norm(width) + 2 * width
    return (1 + frames) * pixels * width + tokens * width + c.count("num_hidden_layers") * layer


def dots3_note(c: Config) -> int:
    """Dots3NoteVisionConfig: gated layers, in the later ones ever more experts; a merger."""
    width, count = c.count("hidden_size"), c.count("num_hidden_layers")
    head = 2 * head_dim(c)
    experts = _experts_by_layer(c, count)
    one = attention(width, bias=c.flag("attention_bias", False)) + head + 2 * norm(width, "rms")
    dense = gated_mlp(width, c.count("intermediate_size"), bias=c.flag("mlp_bias", False))
    expert = gated_mlp(width, c.count("moe_intermediate_size", 2112)) + width
    layers = count * one + experts.count(0) * dense + sum(experts) * expert
    merged = width * c.count("adapter_merge_size", 2) ** 2
    merger = norm(width) + mlp(merged, merged, c.count("adapter_out_dim", 5120))
    return patches(c) + 2 * norm(width, "rms") + layers + merger


def _experts_by_layer(c: Config, count: int) -> list[int]:
    """Experts of each layer, 0 for a dense one: listed, or by kind and as layers that differ."""
    if count > MAX_LAYERS:
        raise c.wrong("num_hidden_layers", f"at most {MAX_LAYERS}", count)
    kinds = c.kinds("mlp_layer_types", count, ("dense", "sparse"))
    pyramid = c.get("pyramid_num_routed")
    if kinds is None:
        pyramid = [*[-1] * 25, *range(4, 65, 4), 64] if pyramid is None else pyramid
        if not isinstance(pyramid, list) or len(pyramid) != count:
            raise c.wrong("pyramid_num_routed", f"a list of num_hidden_layers={count} numbers")
        return [whole(n, 1) if isinstance(n, int) and n > 0 else 0 for n in pyramid]
    told, usual = per_layer(c, count) or {}, c.count("num_local_experts", 64)
    each = [told[i].count("num_local_experts", usual) if i in told else usual for i in range(count)]
    return [0 if kind == "dense" else n for kind, n in zip(kinds, each, strict=True)]


def qformer(c: Config) -> int:
    """Blip2QFormerConfig: layers of queries, of which some attend what an encoder says."""
    width, outside = c.count("hidden_size"), c.count("encoder_hidden_size")
    inner, count = c.count("intermediate_size"), c.count("num_hidden_layers")
    crossing = -(-count // c.count("cross_attention_frequency", 2))
    itself = attention(width) + norm(width)
    cross = 2 * linear(width, width) + 2 * linear(outside, width) + norm(width)
    return norm(width) + count * (itself + mlp(width, inner) + norm(width)) + crossing * cross


def nothing(_c: Config) -> int:
    """Counted with what joins it."""
    return 0


def adaptor(c: Config) -> int:
    """FunAsrNanoAdaptorConfig: plain encoder layers."""
    return encoder(c)


PIXTRAL: Final = Tower(pixtral, sizes(1024, 4096, 24, 16, patch_size=16))
INTERNVL: Final = Tower(
    internvl, sizes(1024, 4096, 24, 16, image_size=448, patch_size=14, attention_bias=False)
)
QIANFAN: Final = Tower(internvl, {**INTERNVL.defaults, "attention_bias": True})
JANUS: Final = Tower(janus, sizes(1024, 4096, 24, 16, image_size=384, patch_size=16))
MOONVIT: Final = Tower(
    moonvit,
    sizes(1152, 4304, 27, 16, patch_size=14),
    {
        "hidden_size": ("vt_hidden_size",),
        "intermediate_size": ("vt_intermediate_size",),
        "num_hidden_layers": ("vt_num_hidden_layers",),
        "num_attention_heads": ("vt_num_attention_heads",),
        "pos_emb_height": ("init_pos_emb_height",),
        "pos_emb_width": ("init_pos_emb_width",),
    },
)
LLAMA4: Final = Tower(
    llama4,
    sizes(
        768, 5632, 34, 16, image_size=448, patch_size=14,
        projector_input_dim=4096, projector_output_dim=4096, vision_output_dim=7680,
    ),
)  # fmt: skip
MLLAMA: Final = Tower(
    mllama, sizes(1280, 5120, 32, 16, image_size=448, patch_size=14, vision_output_dim=7680)
)
GEMMA3N: Final = Tower(timm, {"architecture": "mobilenetv5_300m_enc", "hidden_size": 2048})
FAST_VLM: Final = Tower(timm, {"architecture": "fastvit_mci3", "hidden_size": 3072})
GEMMA4: Final = Tower(
    gemma4,
    sizes(
        768, 3072, 16, 12,
        num_key_value_heads=12, head_dim=64, patch_size=16, position_embedding_size=10240,
    ),
)  # fmt: skip
GEMMA4_UNIFIED: Final = Tower(
    gemma4_unified,
    {"patch_size": 16, "pooling_kernel_size": 3, "mm_embed_dim": 3840, "mm_posemb_size": 1120},
)
MINIMAX_M3: Final = Tower(minimax_m3, sizes(1280, 5120, 32, 16, patch_size=14))
ERNIE4_5_VL: Final = Tower(
    ernie4_5_vl,
    sizes(1280, 5120, 32, 16, patch_size=14),
    {
        "num_hidden_layers": ("depth",),
        "num_attention_heads": ("num_heads",),
        "num_channels": ("in_channels", "in_chans"),
    },
)
OVIS2: Final = Tower(ovis2, sizes(1024, 2816, 24, 8, image_size=224, patch_size=14))
STEP3P7: Final = Tower(step3p7, sizes(1536, 8960, 47, 16, image_size=728, patch_size=14))
INKLING2: Final = Tower(inkling2, sizes(1024, 4096, 23, 16, patch_size=20, text_hidden_size=4608))
MUSE: Final = Tower(muse, sizes(1536, 8960, 50, 16, patch_size=14))
MOLMO2: Final = Tower(molmo2, sizes(1152, 4304, 25, 16, patch_size=14))
MOLMO2_ADAPTER: Final = Tower(molmo2_adapter, sizes(1152, 18944, 1, 16, text_hidden_size=3584))
MINICPMV4_6: Final = Tower(minicpmv4_6, sizes(768, 3072, 12, 12, image_size=224, patch_size=16))
LFM3_VL: Final = Tower(
    lfm3_vl, sizes(1024, 2560, 14, 16, patch_size=16), {"num_channels": ("in_channels",)}
)
HUNYUAN_VL: Final = Tower(hunyuan_vl, sizes(1152, 4304, 27, 16, patch_size=16))
HY_V4_VL: Final = Tower(hunyuan_vl, sizes(1536, 6144, 40, 16, patch_size=16, out_hidden_size=6144))
GRANITE_DOCLING: Final = Tower(
    granite_docling, sizes(768, 3072, 12, 12, image_size=512, patch_size=16)
)
QFORMER: Final = Tower(qformer, sizes(768, 3072, 12, 12, encoder_hidden_size=1408))
PERCEIVER: Final = Tower(
    nothing,
    {
        "resampler_n_latents": 64,
        "resampler_depth": 3,
        "resampler_n_heads": 16,
        "resampler_head_dim": 96,
        "num_key_value_heads": 4,
    },
)
RADIO: Final = Tower(radio, sizes(1280, 5120, 32, 16, patch_size=16))
DOTS3_NOTE: Final = Tower(
    dots3_note,
    sizes(1536, 4224, 42, 24, patch_size=14),
    {
        "hidden_size": ("embed_dim",),
        "num_attention_heads": ("num_heads",),
        "attention_bias": ("use_bias",),
    },
)
ADAPTOR: Final = Tower(adaptor, sizes(1024, 256, 2, 8))
NO_TOWER: Final = Tower(nothing)
