"""Parameters beside a decoder, family by family: its towers and what joins them to it.

Each function takes the whole config and the decoder's width. A section that is not there tells
of no tower; one that is there and of an unknown kind is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers import audio, own, pictures, vision, waves
from perfmodel.sources.huggingface.towers.parts import (
    Counted,
    Tower,
    attention,
    convolution,
    counted,
    found,
    gated_mlp,
    linear,
    members,
    mlp,
    norm,
    patches,
    several,
    sides,
)

Joint: TypeAlias = Callable[[Config, int], int]
Projector: TypeAlias = Callable[[Config, int, Counted], int]

VISION: Final = "vision_config"
AUDIO: Final = "audio_config"


def both(*joints: Joint) -> Joint:
    """Several towers."""
    return lambda c, hidden: sum(joint(c, hidden) for joint in joints)


def one(tower: Tower, projector: Projector, key: str = VISION) -> Joint:
    """A tower that its section can only mean, and what joins it."""

    def count(c: Config, hidden: int) -> int:
        if not c.has_section(key):
            return 0
        told = counted(c, key, tower)
        return told.params + projector(c, hidden, told)

    return count


def any_of(
    towers: Mapping[str, Tower], default: str, projector: Projector, key: str = VISION
) -> Joint:
    """A tower of the kind that its section names, by default of one, and what joins it."""

    def count(c: Config, hidden: int) -> int:
        if not c.has_section(key):
            return 0
        told = found(c, key, towers, default)
        return told.params + projector(c, hidden, told)

    return count


def nothing(_c: Config, _hidden: int, _tower: Counted) -> int:
    """The tower's last layer joins it already."""
    return 0


def matrix(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix with a bias."""
    return linear(tower.width, hidden)


def bare_matrix(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix without a bias."""
    return linear(tower.width, hidden, bias=False)


def two_matrices(_c: Config, hidden: int, tower: Counted) -> int:
    """Two matrices with biases."""
    return mlp(tower.width, hidden, hidden)


# -- LLaVA and its kin ------------------------------------------------------------------------


def _llava(c: Config, hidden: int, tower: Counted) -> int:
    """Two matrices, from one or several of the tower's layers."""
    inner = tower.width * members(c, "vision_feature_layer", 1)
    return mlp(inner, hidden, hidden, bias=c.flag("multimodal_projector_bias", True))


def _llava_next(c: Config, hidden: int, tower: Counted) -> int:
    """LLaVA's matrices and an embedding that ends a row of patches."""
    return _llava(c, hidden, tower) + hidden


def _video_llava(c: Config, hidden: int, tower: Counted) -> int:
    """LLaVA's matrices; a second tower of the same sizes for frames."""
    return _llava(c, hidden, tower) + tower.params


def _vipllava(c: Config, hidden: int, tower: Counted) -> int:
    """Five of the tower's layers, normed together."""
    inner = tower.width * members(c, "vision_feature_layer", 5)
    return norm(inner) + mlp(inner, hidden, hidden)


def _mistral3(c: Config, hidden: int, tower: Counted) -> int:
    """A norm, a matrix that merges patches, two more onto the decoder's width."""
    width, bias = tower.width, c.flag("multimodal_projector_bias", False)
    merged = width * c.count("spatial_merge_size", 2) ** 2
    inner = width * members(c, "vision_feature_layer", 1)
    merger = norm(width, "rms") + linear(merged, width, bias=False)
    return merger + mlp(inner, hidden, hidden, bias=bias)


def _internvl(c: Config, hidden: int, tower: Counted) -> int:
    """Patches shuffled into fewer, a norm, two matrices."""
    inner = tower.width * int(1 / c.factor("downsample_ratio", 0.5)) ** 2
    return norm(inner) + mlp(inner, hidden, hidden)


def _gemma3(_c: Config, hidden: int, tower: Counted) -> int:
    """A norm and one matrix."""
    return norm(tower.width, "rms") + linear(tower.width, hidden, bias=False)


def _paligemma(c: Config, hidden: int, tower: Counted) -> int:
    """One matrix onto ``projection_dim``, as the tower's section or the whole config says it."""
    out = tower.section.count("projection_dim", c.count("projection_dim", hidden))
    return linear(tower.width, out)


def _cohere2_vision(c: Config, hidden: int, tower: Counted) -> int:
    """Patches shuffled into fewer; two matrices, the first one gated."""
    return _gated_pair(c, hidden, tower, c.count("alignment_intermediate_size", 36864))


def _aya_vision(c: Config, hidden: int, tower: Counted) -> int:
    """Cohere's way with a norm before; as wide as the decoder unless said otherwise."""
    joined = tower.width * c.count("downsample_factor", 2) ** 2
    inner = c.count("alignment_intermediate_size", hidden)
    return norm(joined) + _gated_pair(c, hidden, tower, inner)


def _gated_pair(c: Config, hidden: int, tower: Counted, inner: int) -> int:
    joined = tower.width * c.count("downsample_factor", 2) ** 2
    return linear(joined, inner) + linear(inner // 2, hidden)


def _lfm2_vl(c: Config, hidden: int, tower: Counted) -> int:
    """Patches shuffled into fewer, perhaps a norm, two matrices."""
    inner = tower.width * c.count("downsample_factor", 2) ** 2
    normed = norm(inner) if c.flag("projector_use_layernorm", True) else 0
    between, bias = c.count("projector_hidden_size", 2560), c.flag("projector_bias", True)
    return normed + mlp(inner, between, hidden, bias=bias)


def _lfm3_vl(c: Config, hidden: int, tower: Counted) -> int:
    """A norm of one patch, two matrices over those that are merged."""
    merged = tower.width * tower.section.count("spatial_merge_size", 2) ** 2
    between, bias = c.count("projector_hidden_size", 4096), c.flag("projector_bias", True)
    return norm(tower.width) + mlp(merged, between, hidden, bias=bias)


def _aria(c: Config, hidden: int, tower: Counted) -> int:
    """Queries that attend the patches, then a feed-forward layer."""
    width = tower.width
    cross = 3 * width * width + attention(width) + linear(width, width) + 2 * norm(width)
    ends = norm(width) + mlp(width, hidden, hidden, bias=False)
    return _aria_queries(c) * width + cross + ends


def _aria_queries(c: Config) -> int:
    """As many queries as the largest image takes."""
    told = c.get("projector_patch_to_query_dict")
    if not isinstance(told, dict) or not told or len(told) > 100:
        return c.count("max_value_projector_patch_to_query_dict", 256)
    section = c.section("projector_patch_to_query_dict")
    return max(section.count(str(key)) for key in told)


def _idefics3(c: Config, hidden: int, tower: Counted) -> int:
    """Patches shuffled into fewer, and one matrix."""
    return linear(tower.width * c.count("scale_factor", 2) ** 2, hidden, bias=False)


def _paddleocr(_c: Config, hidden: int, tower: Counted) -> int:
    """A norm of one patch, two matrices over those that are merged."""
    merged = tower.width * tower.section.count("spatial_merge_size", 2) ** 2
    return norm(tower.width) + mlp(merged, merged, hidden)


def _cosmos3_edge(c: Config, hidden: int, tower: Counted) -> int:
    """A norm of one patch, two matrices over those that are merged."""
    merged = tower.width * tower.section.count("spatial_merge_size", 2) ** 2
    return norm(tower.width) + mlp(merged, c.count("projector_hidden_size", 11520), hidden)


fast_vlm: Final = any_of({"timm_wrapper": own.FAST_VLM}, "timm_wrapper", _llava)
llava: Final = any_of(vision.TOWERS, "clip_vision_model", _llava)
llava_next: Final = any_of(vision.TOWERS, "clip_vision_model", _llava_next)
llava_onevision: Final = any_of(vision.TOWERS, "siglip_vision_model", _llava_next)
video_llava: Final = any_of(vision.TOWERS, "clip_vision_model", _video_llava)
vipllava: Final = any_of(vision.TOWERS, "clip_vision_model", _vipllava)
mistral3: Final = any_of(vision.TOWERS, "pixtral", _mistral3)
internvl: Final = any_of(vision.TOWERS, "internvl_vision", _internvl)
qianfan_ocr: Final = one(own.QIANFAN, _internvl)
gemma3: Final = any_of(vision.TOWERS, "siglip_vision_model", _gemma3)
paligemma: Final = any_of(vision.TOWERS, "siglip_vision_model", _paligemma)
cohere2_vision: Final = any_of(vision.TOWERS, "siglip_vision_model", _cohere2_vision)
aya_vision: Final = any_of(vision.TOWERS, "siglip_vision_model", _aya_vision)
deepseek_vl: Final = any_of(vision.TOWERS, "siglip_vision_model", two_matrices)
lfm2_vl: Final = any_of(vision.TOWERS, "siglip2_vision_model", _lfm2_vl)
lfm3_vl: Final = one(own.LFM3_VL, _lfm3_vl)
aria: Final = any_of(vision.TOWERS, "idefics3_vision", _aria)
idefics3: Final = one(vision.IDEFICS3, _idefics3)
paddleocr_vl: Final = one(vision.PADDLEOCR, _paddleocr)
cosmos3_edge: Final = one(vision.SIGLIP2_HEADLESS, _cosmos3_edge)
video_llama_3: Final = one(vision.VIDEOLLAMA, two_matrices)

# -- towers that end at the decoder's width ---------------------------------------------------

qwen2_vl: Final = one(vision.QWEN2_VL, nothing)
qwen2_5_vl: Final = one(vision.QWEN2_5_VL, nothing)
qwen3_vl: Final = one(vision.QWEN3_VL, nothing)
qwen3_5: Final = one(vision.QWEN3_5, nothing)
exaone4_5: Final = one(vision.EXAONE4_5, nothing)
glm4v: Final = one(vision.GLM4V, nothing)
glm_ocr: Final = one(vision.GLM_OCR, nothing)
glm5_next: Final = one(vision.GLM5_NEXT, nothing)
inkling2: Final = one(own.INKLING2, nothing)
granite_docling: Final = one(own.GRANITE_DOCLING, nothing)


def _vision_projection(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix after the tower's own merger."""
    return linear(tower.section.count("out_hidden_size"), hidden)


hyperclovax_vision: Final = any_of(vision.TOWERS, "qwen2_5_vl_vision", _vision_projection)

# -- towers of one family ---------------------------------------------------------------------


def _idefics2(c: Config, hidden: int, tower: Counted) -> int:
    """A gated layer onto the decoder's width; a perceiver whose latents attend the patches."""
    inner = c.section("text_config").count("intermediate_size", 14336)
    p = counted(c, "perceiver_config", own.PERCEIVER, optional=True).section
    head = p.count("resampler_head_dim")
    queries, keys = p.count("resampler_n_heads") * head, p.count("num_key_value_heads") * head
    layer = (
        attention(hidden, queries=queries, keys=keys, bias=False)
        + gated_mlp(hidden, 4 * hidden)
        + 3 * norm(hidden, "rms")
    )
    latents = p.count("resampler_n_latents") * hidden
    perceiver = latents + p.count("resampler_depth") * layer + norm(hidden, "rms")
    return gated_mlp(tower.width, inner, hidden) + perceiver


def _git(c: Config, hidden: int, tower: Counted) -> int:
    """One matrix and a LayerNorm, and a row for each frame of a video."""
    frames = c.count_or_zero("num_image_with_embedding", 0)
    return linear(tower.width, hidden) + norm(hidden) + frames * tower.width


def _kimi_k25(c: Config, hidden: int, tower: Counted) -> int:
    """A norm of one patch, two matrices over those that are merged."""
    high, wide = sides(tower.section, "merge_kernel_size", 2)
    merged = tower.width * high * wide
    return norm(c.count("projection_hidden_size", tower.width)) + mlp(merged, merged, hidden)


def _llama4(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix after the tower's own adapter."""
    return linear(tower.section.count("vision_output_dim"), hidden, bias=False)


def _mllama(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix from the joined outputs of several layers."""
    return linear(tower.section.count("vision_output_dim"), hidden)


def _gemma3n(_c: Config, hidden: int, tower: Counted) -> int:
    """A small vocabulary, norms for it and for what the tower says, one matrix."""
    words = tower.section.count("vocab_size", 128) * tower.width
    return words + 2 * norm(tower.width, "rms") + linear(tower.width, hidden, bias=False)


def _gemma4_audio(_c: Config, hidden: int, tower: Counted) -> int:
    """A bare norm and one matrix."""
    return linear(tower.section.count("output_proj_dims", 1536), hidden, bias=False)


def gemma4_unified(c: Config, hidden: int) -> int:
    """Patches and sound projected onto the decoder's width, without layers of their own."""
    images = one(own.GEMMA4_UNIFIED, _gemma4_unified)(c, hidden)
    if not c.has_section(AUDIO):
        return images
    sound = c.section(AUDIO).count("audio_embed_dim", 640)
    return images + linear(sound, hidden, bias=False)


def _gemma4_unified(_c: Config, hidden: int, tower: Counted) -> int:
    return linear(tower.section.count("mm_embed_dim"), hidden, bias=False)


def _minimax_m3(c: Config, hidden: int, tower: Counted) -> int:
    """Two matrices for one patch, two more over those that are merged."""
    between = c.count("projector_hidden_size", hidden)
    side = tower.section.count("spatial_merge_size", 2)
    return mlp(tower.width, between, hidden) + mlp(hidden * side**2, between, hidden)


def _ernie4_5_vl(_c: Config, hidden: int, tower: Counted) -> int:
    """Patches merged across the image, then over frames, then onto the decoder's width."""
    merged = tower.width * tower.section.count("spatial_merge_size", 2) ** 2
    joined = merged * tower.section.count("temporal_merge_size", 2)
    across = mlp(merged, merged) + norm(merged)
    frames = mlp(joined, merged, merged) + norm(merged)
    return across + frames + linear(merged, hidden) + norm(hidden, "rms")


def _ovis2(c: Config, hidden: int, tower: Counted) -> int:
    """A table of visual words."""
    return tower.section.count("vocab_size", 16384) * c.count("hidden_size", hidden)


def nemotron_h_omni(c: Config, hidden: int) -> int:
    """RADIO; patches shuffled into fewer, a norm, two matrices. What hears is not read."""
    if c.has_section(AUDIO):
        found(c, AUDIO, {}, "parakeet_encoder")
    return one(own.RADIO, _nemotron_h_omni)(c, hidden)


def _nemotron_h_omni(c: Config, hidden: int, _tower: Counted) -> int:
    inner = c.count("vision_hidden_size", 1280)
    joined = inner * int(1 / c.factor("downsample_ratio", 0.5)) ** 2
    later = c.section("text_config").count_or_zero("num_nextn_predict_layers", 0) > 0
    last = norm(inner) if later else 0
    between = c.count("projector_hidden_size", 4096)
    return last + norm(joined, "rms") + mlp(joined, between, hidden, bias=False)


def _step3p7(c: Config, hidden: int, tower: Counted) -> int:
    """One matrix."""
    return linear(4 * tower.width, hidden, bias=c.flag("projector_bias", False))


def _muse(c: Config, hidden: int, _tower: Counted) -> int:
    """Three matrices over patches that are merged."""
    inner, between = c.count("out_hidden_size", 6144), c.count("projector_hidden_size", 4096)
    return mlp(inner, between, between, bias=False) + linear(between, hidden, bias=False)


def molmo2(c: Config, hidden: int) -> int:
    """The tower, and an adapter in a section of its own."""
    total = one(own.MOLMO2, nothing)(c, hidden)
    return total + one(own.MOLMO2_ADAPTER, nothing, "adapter_config")(c, hidden)


def _minicpmv4_6(c: Config, hidden: int, tower: Counted) -> int:
    """Mergers of four patches, the last one onto the decoder's width."""
    merged, times = 4 * tower.width, c.count("merger_times", 1)
    each = norm(merged) + linear(merged, merged)
    return times * each + (times - 1) * linear(merged, tower.width) + linear(merged, hidden)


def _got_ocr2(_c: Config, hidden: int, tower: Counted) -> int:
    """Two strided convolutions and one matrix."""
    return pictures.sam_down(tower.section, hidden) + linear(hidden, hidden)


def deepseek_vl_hybrid(c: Config, hidden: int) -> int:
    """SigLIP for the whole, SAM for details with a second neck, half the width from each."""
    if not (c.has_section(VISION) and c.has_section("high_res_vision_config")):
        return 0
    low = found(c, VISION, vision.TOWERS, "siglip_vision_model")
    high = counted(c, "high_res_vision_config", pictures.SAM)
    details = high.params + pictures.sam_neck(high.section) + pictures.sam_down(high.section) + 1
    channels = 4 * high.section.count("output_channels", 256)
    halves = linear(low.width, hidden // 2) + linear(channels, hidden // 2)
    return low.params + details + halves + linear(hidden, hidden)


def _hunyuan_vl(_c: Config, hidden: int, tower: Counted) -> int:
    """A merger with norms at both ends, and embeddings that frame an image and end its rows."""
    width, side = tower.width, tower.section.count("spatial_merge_size", 2)
    merged = convolution(width, 2 * width, side, side) + linear(2 * width, 4 * width)
    framed = linear(4 * width, hidden) + 4 * width + 3 * hidden
    return merged + framed + norm(width, "rms") + norm(hidden, "rms")


def _hy_v4_vl(_c: Config, _hidden: int, tower: Counted) -> int:
    """A shorter merger onto ``out_hidden_size``, with an embedding that ends a row."""
    width, side = tower.width, tower.section.count("spatial_merge_size", 2)
    inner, out = side**2 * width, tower.section.count("out_hidden_size")
    return convolution(width, inner, side, side) + linear(inner, out) + out + norm(width, "rms")


def granite4_vision(c: Config, hidden: int) -> int:
    """A tower, and queries that attend windows of it for some layers and for four offsets."""
    if not c.has_section(VISION):
        return 0
    tower = found(c, VISION, vision.TOWERS, "clip_vision_model")
    former = counted(c, "qformer_config", own.QFORMER, optional=True)
    query, window = _fraction(c, "downsample_rate")
    width = tower.width
    each = former.params + (query**2 + window**2) * width + norm(width) + linear(width, hidden)
    projectors = members(c, "deepstack_layer_map", 0) + 4
    return tower.params + hidden + projectors * each


def _fraction(c: Config, key: str) -> tuple[int, int]:
    """A text of two numbers, as 4/8."""
    parts = c.text(key).split("/")
    if len(parts) != 2 or not all(part.isdecimal() and len(part) < 6 for part in parts):
        raise c.wrong(key, "two numbers, as '4/8'")
    return int(parts[0]), int(parts[1])


def janus(c: Config, hidden: int) -> int:
    """A tower to see with, a codebook to draw with."""
    seen = one(own.JANUS, nothing)(c, hidden)
    return seen + one(pictures.JANUS_VQ, nothing, "vq_config")(c, hidden)


def unlimited_ocr(c: Config, hidden: int) -> int:
    """SAM, whose patches CLIP reads instead of its own; both together onto the decoder's width."""
    if not c.has_section(VISION):
        return 0
    towers = c.section(VISION)
    high = counted(towers, "sam_config", pictures.SAM, optional=True)
    low = counted(towers, "encoder_config", vision.CLIP_LARGE, optional=True)
    inner, total = high.section.count("output_channels", 256), high.params + low.params
    for outer in several(high.section, "downsample_channels", (512, 1024)):
        total += convolution(inner, outer, 3, 3, bias=False)
        inner = outer
    unused = patches(low.section, bias=False) + norm(low.width)
    return total - unused + linear(inner + low.width, hidden) + 2 * hidden


chameleon: Final = one(pictures.CHAMELEON_VQ, nothing, "vq_config")
emu3: Final = one(pictures.EMU3_VQ, nothing, "vq_config")
apertus1p5: Final = both(one(pictures.APERTUS_VQ, nothing), one(waves.WAVTOKENIZER, nothing, AUDIO))
idefics2: Final = one(vision.IDEFICS2, _idefics2)
git: Final = one(vision.GIT, _git)
kimi_k25: Final = one(own.MOONVIT, _kimi_k25)
llama4: Final = one(own.LLAMA4, _llama4)
mllama: Final = one(own.MLLAMA, _mllama)
gemma3n: Final = both(one(own.GEMMA3N, _gemma3n), one(audio.GEMMA3N, _gemma3n, AUDIO))
gemma4: Final = both(one(own.GEMMA4, bare_matrix), one(audio.GEMMA4, _gemma4_audio, AUDIO))
minimax_m3: Final = one(own.MINIMAX_M3, _minimax_m3)
ernie4_5_vl: Final = one(own.ERNIE4_5_VL, _ernie4_5_vl)
ovis2: Final = one(own.OVIS2, _ovis2)
step3p7: Final = one(own.STEP3P7, _step3p7)
hunyuan_vl: Final = one(own.HUNYUAN_VL, _hunyuan_vl)
hy_v4_vl: Final = one(own.HY_V4_VL, _hy_v4_vl)
muse_glimmer: Final = one(own.MUSE, _muse)
muse_spark: Final = both(muse_glimmer, one(waves.MUSE_SPARK, nothing, AUDIO))
minicpmv4_6: Final = one(own.MINICPMV4_6, _minicpmv4_6)
got_ocr2: Final = one(pictures.SAM, _got_ocr2)
