"""Parameters of towers that read pictures at high resolution, or as tokens of a codebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers.parts import (
    Tower,
    attention,
    convolution,
    grid,
    head_dim,
    linear,
    mlp,
    norm,
    patches,
    several,
    sides,
    sizes,
)

# -- SAM --------------------------------------------------------------------------------------


def sam(c: Config) -> int:
    """SamVisionConfig: windows and some global layers, each with relative positions; a neck."""
    width, count = c.count("hidden_size"), c.count("num_hidden_layers")
    bias = c.flag("qkv_bias", True)
    one = (
        attention(width, bias=bias, output_bias=True)
        + mlp(width, c.count("mlp_dim", 4 * width))
        + 2 * norm(width)
    )
    positions = grid(c) * width if c.flag("use_abs_pos", True) else 0
    return patches(c) + positions + count * one + _relative_positions(c, count) + sam_neck(c)


def _relative_positions(c: Config, count: int) -> int:
    """Rows for each distance up and down, and across, within a window or the whole image."""
    if not c.flag("use_rel_pos", True):
        return 0
    told = c.get("global_attn_indexes") is not None
    globally = len(c.indices("global_attn_indexes", count)) if told else len({2, 5, 8, 11})
    high, wide = sides(c, "image_size")
    patch, window = c.count("patch_size"), c.count("window_size", 14)
    whole = 2 * (high // patch) - 1 + 2 * (wide // patch) - 1
    rows = globally * whole + (count - globally) * 2 * (2 * window - 1)
    return rows * head_dim(c)


def sam_neck(c: Config) -> int:
    """Two convolutions onto few channels, a norm after each."""
    channels = c.count("output_channels", 256)
    first = convolution(c.count("hidden_size"), channels, bias=False)
    return first + convolution(channels, channels, 3, 3, bias=False) + 2 * norm(channels)


def sam_down(c: Config, outer: int | None = None) -> int:
    """Two strided convolutions that double the channels each, or end at a width."""
    channels = c.count("output_channels", 256)
    first = convolution(channels, 2 * channels, 3, 3, bias=False)
    return first + convolution(2 * channels, outer or 4 * channels, 3, 3, bias=False)


# -- codebooks --------------------------------------------------------------------------------


def janus_vq(c: Config) -> int:
    """JanusVQVAEConfig: encoder, codebook and decoder, and what generates images with them."""
    code, words = c.count("embed_dim", 8), c.count("num_embeddings", 16384)
    latent, out = c.count("latent_channels", 256), c.count("projection_dim", 2048)
    levels = _levels(c)
    attending = {len(levels) - 1}
    quantized = convolution(latent, code) + convolution(code, latent)
    aligner = linear(code, out) + (c.count("num_hidden_layers", 2) - 1) * linear(out, out)
    head = linear(c.count("image_token_embed_dim", 2048), out) + linear(out, words)
    # One codebook to quantize with, another to embed what is generated.
    ends = quantized + 2 * words * code + aligner + head
    return _encoder(c, levels, attending) + _decoder(c, levels, attending) + ends


def chameleon_vq(c: Config) -> int:
    """ChameleonVQVAEConfig: encoder and codebook."""
    code, words = c.count("embed_dim", 256), c.count("num_embeddings", 8192)
    latent, levels = c.count("latent_channels", 256), _levels(c)
    vanilla = c.choice("attn_type", ("vanilla", "none"), "vanilla") == "vanilla"
    attending = _at_resolutions(c, levels) if vanilla else set()
    encoded = _encoder(c, levels, attending, middle=vanilla)
    return encoded + convolution(latent, code) + convolution(code, latent) + words * code


def apertus_vq(c: Config) -> int:
    """Apertus1p5VisionTokenizerConfig: encoder and codebook, without a way back."""
    code, latent = c.count("embed_dim", 256), c.count("latent_channels", 256)
    levels = _levels(c)
    encoded = _encoder(c, levels, _at_resolutions(c, levels, 16))
    return encoded + convolution(latent, code) + c.count("codebook_size", 131072) * code


def emu3_vq(c: Config) -> int:
    """Emu3VQVAEConfig: a codebook for frames; the way back norms by what the codebook said."""
    code, latent = c.count("embed_dim", 4), c.count("latent_channels", 4)
    levels = _levels(c, 1, 2, 2, 4)
    attending = c.indices("attn_resolutions", 100) if c.has("attn_resolutions") else {3}
    halvings = max(c.count("temporal_downsample_factor", 4).bit_length() - 1, 0)
    blocks = c.count("num_res_blocks", 2)
    stack = 2 * blocks * 2 * (norm(latent) + convolution(latent, latent, 3, 3, 3))
    frames = convolution(latent, latent, 4, 3, 3) + convolution(latent, latent, 3, 3, 3)

    def guided(width: int) -> int:
        return norm(width) + 2 * convolution(latent, width)

    ends = convolution(latent, code, 3) + convolution(code, latent, 3)
    words = c.count("codebook_size", 32768) * code
    way_back = _decoder(c, levels, set(attending), normed=guided)
    there = _encoder(c, levels, set(attending))
    return there + way_back + stack + halvings * frames + ends + words


def _levels(c: Config, *default: int) -> Sequence[int]:
    """How many times the base channels each level has."""
    return several(c, "channel_multiplier", default or (1, 1, 2, 2, 4))


def _at_resolutions(c: Config, levels: Sequence[int], *default: int) -> set[int]:
    """The levels whose side is one of ``attn_resolutions``."""
    sides_told = frozenset(default)
    if c.has("attn_resolutions"):
        sides_told = c.indices("attn_resolutions", 1_000_000)
    return {i for i in range(len(levels)) if c.count("resolution") >> i in sides_told}


def _encoder(c: Config, levels: Sequence[int], attending: set[int], *, middle: bool = True) -> int:
    """Residual blocks level by level, attention in some, a strided convolution between."""
    base, blocks = c.count("base_channels", 128), c.count("num_res_blocks", 2)
    total, inner = convolution(c.count("in_channels", 3), base, 3, 3), base
    for level, factor in enumerate(levels):
        outer, last = base * factor, level == len(levels) - 1
        attends = blocks * _attend(outer) if level in attending else 0
        total += _blocks(inner, outer, blocks) + attends
        total += 0 if last else convolution(outer, outer, 3, 3)
        inner = outer
    latent = c.count("latent_channels", 256) * (2 if c.flag("double_latent", False) else 1)
    return total + _middle(inner, middle) + norm(inner) + convolution(inner, latent, 3, 3)


def _decoder(
    c: Config,
    levels: Sequence[int],
    attending: set[int],
    *,
    normed: Callable[[int], int] = norm,
) -> int:
    """The encoder's way back, with a block more a level."""
    base, blocks = c.count("base_channels", 128), c.count("num_res_blocks", 2) + 1
    inner = base * levels[-1]
    total = convolution(c.count("latent_channels", 256), inner, 3, 3) + _middle(inner, True, normed)
    for level in reversed(range(len(levels))):
        outer = base * levels[level]
        attends = blocks * _attend(outer, normed) if level in attending else 0
        total += _blocks(inner, outer, blocks, normed) + attends
        total += convolution(outer, outer, 3, 3) if level else 0
        inner = outer
    return total + normed(inner) + convolution(inner, c.count("out_channels", 3), 3, 3)


def _blocks(inner: int, outer: int, count: int, normed: Callable[[int], int] = norm) -> int:
    return _residual(inner, outer, normed) + (count - 1) * _residual(outer, outer, normed)


def _residual(inner: int, outer: int, normed: Callable[[int], int] = norm) -> int:
    shortcut = convolution(inner, outer) if inner != outer else 0
    first = normed(inner) + convolution(inner, outer, 3, 3)
    return first + normed(outer) + convolution(outer, outer, 3, 3) + shortcut


def _attend(width: int, normed: Callable[[int], int] = norm) -> int:
    return normed(width) + attention(width)


def _middle(width: int, attends: bool = True, normed: Callable[[int], int] = norm) -> int:
    return 2 * _residual(width, width, normed) + (_attend(width, normed) if attends else 0)


SAM: Final = Tower(sam, sizes(768, 3072, 12, 12, image_size=1024, patch_size=16))
JANUS_VQ: Final = Tower(janus_vq)
CHAMELEON_VQ: Final = Tower(chameleon_vq, {"resolution": 512})
EMU3_VQ: Final = Tower(emu3_vq, {"base_channels": 256, "latent_channels": 4})
APERTUS_VQ: Final = Tower(
    apertus_vq,
    {"resolution": 256, "base_channels": 256, "num_res_blocks": 4},
)
