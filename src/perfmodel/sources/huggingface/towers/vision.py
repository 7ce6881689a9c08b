"""Parameters of vision towers, each from its own section."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import scaled
from perfmodel.sources.huggingface.towers import own
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
    sizes,
)

# -- contrastive towers -----------------------------------------------------------------------


def clip(c: Config) -> int:
    """CLIPVisionConfig: a class token, positions, norms before and after the layers."""
    width = c.count("hidden_size")
    embeddings = patches(c, bias=False) + width + (grid(c) + 1) * width
    return embeddings + norm(width) + encoder(c) + norm(width)


def siglip(c: Config) -> int:
    """SiglipVisionConfig: positions, a last norm; a pooling head unless it is switched off."""
    head = pooling_head(c) if c.flag("vision_use_head", True) else 0
    return idefics(c) + head


def idefics(c: Config) -> int:
    """Idefics2VisionConfig and Idefics3VisionConfig: SigLIP without a head."""
    width = c.count("hidden_size")
    return patches(c) + grid(c) * width + encoder(c) + norm(width)


def siglip2(c: Config) -> int:
    """Siglip2VisionConfig: as many positions as ``num_patches``, and SigLIP's head."""
    width = c.count("hidden_size")
    head = pooling_head(c) if c.flag("vision_use_head", True) else 0
    return patches(c) + c.count("num_patches") * width + encoder(c) + norm(width) + head


def pooling_head(c: Config) -> int:
    """One query that attends all patches, a norm and a feed-forward layer."""
    width = c.count("hidden_size")
    return width + attention(width) + norm(width) + mlp(width, c.count("intermediate_size"))


def videollama(c: Config) -> int:
    """VideoLlama3VisionConfig: SigLIP's layers with rotary positions."""
    return patches(c) + encoder(c) + norm(c.count("hidden_size"))


# -- Qwen's towers ----------------------------------------------------------------------------


def qwen2_vl(c: Config) -> int:
    """Qwen2VLVisionConfig: ``embed_dim`` wide inside; ``hidden_size`` is that of the decoder."""
    width = c.count("embed_dim")
    inner = scaled(c, "mlp_ratio", c.factor("mlp_ratio", 4), width)
    merged = width * c.count("spatial_merge_size", 2) ** 2
    one = attention(width) + mlp(width, inner) + 2 * norm(width)
    embeddings = patches(c, bias=False, frames=c.count("temporal_patch_size", 2), width="embed_dim")
    last = norm(width) + mlp(merged, merged, c.count("hidden_size"))
    return embeddings + c.count("num_hidden_layers") * one + last


def qwen2_5_vl(c: Config) -> int:
    """Qwen2_5_VLVisionConfig: RMSNorm, gated feed-forward layers, biases."""
    last = norm(c.count("hidden_size"), "rms")
    return frames(c) + encoder(c, kind="rms", gated=True) + merger(c, last)


def exaone4_5(c: Config) -> int:
    """Exaone4_5_VisionConfig: Qwen 2.5's tower with fewer key and value heads."""
    width, kv_heads = c.count("hidden_size"), c.count("num_key_value_heads", 8)
    keys = kv_heads * head_dim(c)
    one = (
        attention(width, keys=keys)
        + gated_mlp(width, c.count("intermediate_size"), bias=True)
        + 2 * norm(width, "rms")
    )
    return frames(c) + c.count("num_hidden_layers") * one + merger(c, norm(width, "rms"))


def qwen3_vl(c: Config) -> int:
    """Qwen3VLVisionConfig: learned positions, mergers for deeper layers of the decoder too."""
    deep = members(c, "deepstack_visual_indexes", 3)
    return qwen3_5(c) + deep * merger(c, norm(_merged(c)))


def qwen3_5(c: Config) -> int:
    """Qwen3_5VisionConfig: learned positions and one merger."""
    width = c.count("hidden_size")
    positions = c.count("num_position_embeddings") * width
    return frames(c, bias=True) + positions + encoder(c) + merger(c, norm(width))


def frames(c: Config, bias: bool = False) -> int:
    """Patches over ``temporal_patch_size`` frames."""
    return patches(c, bias=bias, frames=c.count("temporal_patch_size", 2))


def merger(c: Config, normed: int) -> int:
    """A norm and two matrices that make one token of ``spatial_merge_size`` squared patches."""
    merged = _merged(c)
    return normed + mlp(merged, merged, c.count("out_hidden_size"))


def _merged(c: Config) -> int:
    return c.count("hidden_size") * c.count("spatial_merge_size", 2) ** 2


# -- GLM's towers -----------------------------------------------------------------------------


def glm4v(c: Config) -> int:
    """Glm4vVisionConfig: its layers are as wide inside as what comes out of the merger."""
    width, out = c.count("hidden_size"), c.count("out_hidden_size")
    bias = c.flag("attention_bias", False)
    one = (
        attention(width, bias=bias, output_bias=False)
        + gated_mlp(width, out)
        + 2 * norm(width, "rms")
    )
    ends = frames(c, bias=True) + grid(c) * width + 2 * norm(width, "rms")
    return ends + c.count("num_hidden_layers") * one + glm_merger(c, c.count("intermediate_size"))


def glm_ocr(c: Config) -> int:
    """GlmOcrVisionConfig: rotary positions, a norm on each head, one bias flag for all."""
    return _glm_later(c, c.count("out_hidden_size") * c.count("num_channels", 3))


def glm5_next(c: Config) -> int:
    """Glm5NextVisionConfig: GLM-OCR's tower with a merger of its own width."""
    return _glm_later(c, c.count("projection_intermediate_size", 10240))


def _glm_later(c: Config, inner: int) -> int:
    heads = 2 * head_dim(c)
    layers = encoder(c, kind="rms", gated=True, bias=c.flag("attention_bias", True), extra=heads)
    return (
        frames(c, bias=True) + layers + norm(c.count("hidden_size"), "rms") + glm_merger(c, inner)
    )


def glm_merger(c: Config, inner: int) -> int:
    """A convolution over the patches to merge, then a projection and a gated layer."""
    out, side = c.count("out_hidden_size"), c.count("spatial_merge_size", 2)
    joined = convolution(c.count("hidden_size"), out, side, side)
    return joined + linear(out, out, bias=False) + norm(out) + gated_mlp(out, inner)


# -- the tables -------------------------------------------------------------------------------

QWEN_NAMES: Final = {
    "num_hidden_layers": ("depth",),
    "num_attention_heads": ("num_heads",),
    "num_channels": ("in_channels", "in_chans"),
}

CLIP: Final = Tower(clip, sizes(768, 3072, 12, 12, image_size=224, patch_size=32))
CLIP_LARGE: Final = Tower(clip, sizes(1024, 4096, 24, 16, image_size=224, patch_size=14))
GIT: Final = Tower(clip, sizes(768, 3072, 12, 12, image_size=224, patch_size=16))
SIGLIP: Final = Tower(siglip, sizes(768, 3072, 12, 12, image_size=224, patch_size=16))
SIGLIP2: Final = Tower(siglip2, sizes(768, 3072, 12, 12, num_patches=256, patch_size=16))
SIGLIP2_HEADLESS: Final = Tower(
    siglip2,
    sizes(1152, 4304, 27, 16, num_patches=256, patch_size=16, vision_use_head=False),
)
IDEFICS2: Final = Tower(idefics, sizes(768, 3072, 12, 12, image_size=224, patch_size=32))
IDEFICS3: Final = Tower(idefics, sizes(1152, 3072, 12, 16, image_size=224, patch_size=32))
PHI4: Final = Tower(siglip, sizes(1152, 4304, 27, 16, image_size=448, patch_size=14))
PADDLEOCR: Final = Tower(idefics, sizes(1152, 4304, 27, 16, image_size=384, patch_size=14))
VIDEOLLAMA: Final = Tower(videollama, sizes(768, 3072, 12, 12, patch_size=16))
QWEN2_VL: Final = Tower(
    qwen2_vl,
    {"embed_dim": 1280, "hidden_size": 3584, "num_hidden_layers": 32, "patch_size": 14},
    QWEN_NAMES,
)
QWEN2_5_VL: Final = Tower(
    qwen2_5_vl, sizes(3584, 3420, 32, 16, patch_size=14, out_hidden_size=3584), QWEN_NAMES
)
EXAONE4_5: Final = Tower(exaone4_5, QWEN2_5_VL.defaults, QWEN_NAMES)
_QWEN3: Final = sizes(
    1152, 4304, 27, 16, patch_size=16, out_hidden_size=3584, num_position_embeddings=2304
)
QWEN3_VL: Final = Tower(qwen3_vl, _QWEN3, QWEN_NAMES)
QWEN3_5: Final = Tower(qwen3_5, _QWEN3, QWEN_NAMES)
GLM4V: Final = Tower(
    glm4v,
    sizes(1536, 13696, 24, 12, image_size=336, patch_size=14, out_hidden_size=4096),
    QWEN_NAMES,
)
_GLM_LATER: Final = sizes(1024, 4096, 24, 16, patch_size=14, out_hidden_size=1536)
GLM_OCR: Final = Tower(glm_ocr, _GLM_LATER, QWEN_NAMES)
GLM5_NEXT: Final = Tower(glm5_next, _GLM_LATER, QWEN_NAMES)

TOWERS: Final = {
    "clip_vision_model": CLIP,
    "gemma4_vision": own.GEMMA4,
    "idefics2_vision": IDEFICS2,
    "idefics3_vision": IDEFICS3,
    "internvl_vision": own.INTERNVL,
    "pixtral": own.PIXTRAL,
    "qwen2_5_vl_vision": QWEN2_5_VL,
    "qwen2_vl_vision": QWEN2_VL,
    "siglip2_vision_model": SIGLIP2,
    "siglip_vision_model": SIGLIP,
}
