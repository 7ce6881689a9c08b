"""Parameters beside decoders of checkpoints that bring their own code, and their own keys."""

from __future__ import annotations

from typing import Final

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers import audio, own, pictures, vision
from perfmodel.sources.huggingface.towers.parts import (
    Tower,
    attention,
    counted,
    linear,
    mlp,
    norm,
    sizes,
)

NAMED: Final = {
    "openai/clip-vit-large-patch14": (
        vision.clip,
        sizes(1024, 4096, 24, 16, image_size=224, patch_size=14),
    ),
    "openai/clip-vit-large-patch14-336": (
        vision.clip,
        sizes(1024, 4096, 24, 16, image_size=336, patch_size=14),
    ),
}
"""Towers that a config names instead of giving their sizes."""


def named(c: Config, key: str) -> int:
    """The parameters of a tower that stands under a name."""
    name = c.get(key)
    if not isinstance(name, str) or name not in NAMED:
        raise UnsupportedModelError(
            f"config.{key}: {shown(name)} is no tower that is read; {did_you_mean(name, NAMED)}"
        )
    count, told = NAMED[name]
    return count(Config(told))


def llava(c: Config, hidden: int) -> int:
    """LLaVA before Transformers read it: a tower by name, and matrices that the name counts."""
    if c.get("mm_vision_tower") is None:
        return 0
    tower, width = named(c, "mm_vision_tower"), c.count("mm_hidden_size", 1024)
    kind = c.choice("mm_projector_type", ("linear", "mlp2x_gelu"), "linear")
    return tower + (linear(width, hidden) if kind == "linear" else mlp(width, hidden, hidden))


def phi3_v(c: Config, hidden: int) -> int:
    """Phi3VConfig: CLIP by name; four patches joined, two matrices, two that separate crops."""
    if not c.has_section("img_processor"):
        return 0
    section = c.section("img_processor")
    joined = 4 * section.count("image_dim_out", 1024)
    return named(section, "model_name") + mlp(joined, hidden, hidden) + 2 * joined


def phi4mm(c: Config, hidden: int) -> int:
    """Phi4MMConfig: SigLIP of 448 pixels, a conformer, and adapters of the decoder for each."""
    if not c.has_section("audio_processor"):
        return 0
    told = c.section("audio_processor").section("config", PHI4MM_NAMES)
    bias, stem = told.section("relative_attention_bias_args"), told.section("nemo_conv_settings")
    more = {"bias_max_distance": bias.count("t5_bias_max_distance", 1000)}
    more["nemo_conv_channels"] = stem.count("conv_channels", 1024)
    heard = audio.phi4_multimodal(
        c.section("audio_processor").section("config", PHI4MM_NAMES, more)
    ) + 2 * mlp(told.count("hidden_size", 1024), hidden, hidden)
    seen = vision.siglip(Config(vision.PHI4.defaults)) + mlp(1152, hidden, hidden) + 2 * 1152
    ranks = sum(c.section(key).count("r") for key in ("vision_lora", "speech_lora"))
    heads, groups = c.count("num_attention_heads"), c.count("num_key_value_heads")
    inner = c.count("intermediate_size")
    keys = 2 * groups * (hidden // heads)
    ends = (hidden + hidden + keys) + (hidden + hidden) + (hidden + 2 * inner) + (inner + hidden)
    return seen + heard + c.count("num_hidden_layers") * ranks * ends


def kimi_vl(c: Config, hidden: int) -> int:
    """KimiVLConfig: MoonViT; a norm of one patch, two matrices over four of them."""
    if not c.has_section("vision_config"):
        return 0
    tower = counted(c, "vision_config", own.MOONVIT)
    merged = 4 * tower.width
    return tower.params + norm(tower.width) + mlp(merged, merged, hidden)


def internvl_chat(c: Config, hidden: int) -> int:
    """InternVLChatConfig: InternViT; patches shuffled into fewer, a norm, two matrices."""
    if not c.has_section("vision_config"):
        return 0
    tower = counted(c, "vision_config", INTERN_VIT)
    joined = tower.width * int(1 / c.factor("downsample_ratio", 0.5)) ** 2
    return tower.params + norm(joined) + mlp(joined, hidden, hidden)


def minicpmv(c: Config, hidden: int) -> int:
    """MiniCPMVConfig: SigLIP without a head, and queries that attend its patches."""
    if not c.has_section("vision_config"):
        return 0
    tower = counted(c, "vision_config", MINICPMV)
    queries = c.count("query_num", 64) * hidden
    resampler = linear(tower.width, hidden, bias=False) + attention(hidden) + 3 * norm(hidden)
    return tower.params + queries + resampler + hidden * hidden


def multi_modality(c: Config, hidden: int) -> int:
    """Janus before Transformers read it: SigLIP by name, and a codebook to draw with."""
    if not c.has_section("vision_config"):
        return 0
    name = c.section("vision_config").section("params").get("model_name")
    if name != "siglip_large_patch16_384":
        raise UnsupportedModelError(
            f"config.vision_config.params.model_name: {shown(name)} is no tower that is read; "
            "expected siglip_large_patch16_384"
        )
    seen = vision.siglip(Config(sizes(1024, 4096, 24, 16, image_size=384, patch_size=16)))
    drawn = pictures.janus_vq(Config({"projection_dim": hidden, "image_token_embed_dim": hidden}))
    return seen + mlp(1024, hidden, hidden) + drawn


def deepseek_vl_v2(c: Config, hidden: int) -> int:
    """DeepseekVLV2Config: towers by name, a projector, an end of row and one between views."""
    if not c.has_section("vision_config"):
        return 0
    if c.has("tile_tag"):
        c.choice("tile_tag", ("2D",))
    seen, joined = c.section("vision_config"), c.section("projector_config")
    told = (seen.text("model_name"), joined.text("projector_type") or "downsample_mlp_gelu")
    known = {
        ("deeplip_b_l", "linear"): _deepseek_ocr,
        ("siglip_so400m_patch14_384", "downsample_mlp_gelu"): _deepseek_vl2,
    }
    if told not in known:
        raise UnsupportedModelError(
            f"config.vision_config.model_name: {shown(told[0])} with a projector {shown(told[1])} "
            "is no tower that is read; expected deeplip_b_l with linear, or "
            "siglip_so400m_patch14_384 with downsample_mlp_gelu"
        )
    return known[told](c, hidden) + 2 * hidden


def _deepseek_ocr(_c: Config, hidden: int) -> int:
    """SAM, its patches joined, CLIP without the last norm, one matrix."""
    high = Config(pictures.SAM.defaults)
    low = Config(vision.CLIP_LARGE.defaults)
    details = pictures.sam(high) + pictures.sam_down(high)
    return details + vision.clip(low) - norm(1024) + linear(2048, hidden)


def _deepseek_vl2(c: Config, hidden: int) -> int:
    """SigLIP with its head; four patches joined, as many matrices as ``depth`` says."""
    tower = vision.siglip(Config(sizes(1152, 4304, 27, 16, image_size=378, patch_size=14)))
    p = c.section("projector_config")
    inner, depth = hidden * p.count("mlp_ratio", 1), p.count("depth", 2)
    joined = 1152 * p.count("downsample_ratio", 2) ** 2
    if depth < 2:
        raise p.wrong("depth", "2 matrices or more", depth)
    return (
        tower + linear(joined, inner) + (depth - 2) * linear(inner, inner) + linear(inner, hidden)
    )


PHI4MM_NAMES: Final = {
    "hidden_size": ("attention_dim",),
    "num_attention_heads": ("attention_heads",),
    "intermediate_size": ("linear_units",),
}
INTERN_VIT: Final = Tower(
    own.internvl,
    sizes(3200, 12800, 45, 25, image_size=224, patch_size=14, attention_bias=True),
    {"attention_bias": ("qkv_bias",), "use_qk_norm": ("qk_normalization",)},
)
MINICPMV: Final = Tower(vision.idefics, sizes(1152, 4304, 27, 16, image_size=980, patch_size=14))
