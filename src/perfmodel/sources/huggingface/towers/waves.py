"""Parameters of towers that hear with convolutions, each from its own section."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers.parts import (
    Tower,
    attention,
    convolution,
    linear,
    mlp,
    norm,
    several,
    sizes,
)


def muse_spark(c: Config) -> int:
    """MuseSparkAudioConfig: stages of depthwise convolutions that join frames before each."""
    joined, widths = several(c, "patch_sizes", (16, 6, 5, 4)), _widths(c)
    depths, side = several(c, "depths", (2, 2, 2, 2)), c.count("conv_kernel_size", 7)
    if not len(joined) == len(widths) == len(depths):
        raise c.wrong("depths", f"{len(widths)} numbers, as many as hidden_sizes")
    total, inner = 0, 1
    for patch, width, depth in zip(joined, widths, depths, strict=True):
        block = convolution(1, width, side) + norm(width, "rms") + mlp(width, 4 * width)
        total += linear(inner * patch, width) + norm(width, "rms") + depth * block
        inner = width
    out = c.count("out_hidden_size", 8192)
    return total + norm(inner, "rms") + linear(inner, out) + norm(out, "rms")


def _widths(c: Config) -> Sequence[int]:
    return several(c, "hidden_sizes", (256, 512, 1024, 2048))


def wavtokenizer(c: Config) -> int:
    """WavTokenizerEncoderConfig: convolutions that shorten the sound, and a recurrent network."""
    width, outer = c.count("num_filters", 32), c.count("hidden_size", 512)
    squeeze, side = c.count("compress", 2), c.count("residual_kernel_size", 3)
    repeats = c.count("num_residual_layers", 1)
    total = _normed(c.count("audio_channels", 1), width, c.count("kernel_size", 7))
    for ratio in reversed(several(c, "upsampling_ratios", (6, 5, 5, 4))):
        inner = max(width // squeeze, 1)
        one = _normed(width, inner, side) + _normed(inner, width, 1)
        one += _normed(width, width, 1) if c.flag("use_conv_shortcut", True) else 0
        total += repeats * one + _normed(width, 2 * width, 2 * ratio)
        width *= 2
    recurrent = 4 * (2 * width * width + 2 * width)
    total += c.count("num_lstm_layers", 2) * recurrent
    return total + _normed(width, outer, c.count("last_kernel_size", 7))


def _normed(inner: int, outer: int, side: int) -> int:
    """A convolution whose weights are a direction, and a length for each output."""
    return convolution(inner, outer, side) + outer


def wav2vec2(c: Config) -> int:
    """OmniASRAudioConfig: seven strided convolutions, a grouped one for positions, layers."""
    width = c.count("hidden_size", 1024)
    channels = several(c, "conv_dim", (512,) * 7)
    kernels = several(c, "conv_kernel", (10, 3, 3, 3, 3, 2, 2))
    if len(kernels) != len(channels):
        raise c.wrong("conv_dim", f"{len(kernels)} widths, as many as kernels")
    total, inner = 0, 1
    for outer, side in zip(channels, kernels, strict=True):
        total += convolution(inner, outer, side, bias=c.flag("conv_bias", True)) + norm(outer)
        inner = outer
    total += norm(inner) + linear(inner, width)
    groups = c.count("num_conv_pos_embedding_groups", 16)
    total += convolution(max(width // groups, 1), width, c.count("num_conv_pos_embeddings", 128))
    one = attention(width) + mlp(width, c.count("intermediate_size", 4096)) + 2 * norm(width)
    return total + c.count("num_hidden_layers", 24) * one + norm(width)


def vibevoice(c: Config) -> int:
    """VibeVoiceAcousticTokenizerEncoderConfig: stages of depthwise convolutions, ever wider."""
    width, side = c.count("num_filters", 32), c.count("kernel_size", 7)
    ratios = several(c, "downsampling_ratios", (2, 2, 4, 5, 5, 8))
    depths = several(c, "depths", (3, 3, 3, 3, 3, 3, 8))
    if len(depths) != len(ratios) + 1:
        raise c.wrong("depths", f"{len(ratios) + 1} numbers, one more than ratios")
    total = convolution(c.count("channels", 1), width, side) + depths[0] * _next(c, width)
    for ratio, depth in zip(ratios, depths[1:], strict=True):
        total += convolution(width, 2 * width, 2 * ratio) + depth * _next(c, 2 * width)
        width *= 2
    return total + convolution(width, c.count("hidden_size", 64), side)


def _next(c: Config, width: int) -> int:
    """A convolution for each channel and a feed-forward layer, normed before, scaled after."""
    along = convolution(1, width, c.count("kernel_size", 7))
    return (
        along + mlp(width, width * c.count("ffn_expansion", 4)) + 2 * width + 2 * norm(width, "rms")
    )


def fun_asr_nano(c: Config) -> int:
    """FunAsrNanoEncoderConfig: layers that remember values along the sound; two last norms."""
    width, read = c.count("hidden_size"), c.count("num_mel_bins", 80)
    read *= c.count("num_stacked_frames", 7)
    memory = width * c.count("fsmn_kernel_size", 11)
    one = attention(width) + mlp(width, c.count("intermediate_size")) + 2 * norm(width) + memory
    first = 3 * (read - width) * width + 2 * (read - width)
    count, later = (
        c.count("num_hidden_layers"),
        c.count_or_zero("num_timestamp_prediction_layers", 20),
    )
    return count * one + first + len({count - 1, count - later - 1}) * norm(width)


MUSE_SPARK: Final = Tower(muse_spark)
WAV2VEC2: Final = Tower(wav2vec2)
WAVTOKENIZER: Final = Tower(wavtokenizer)
VIBEVOICE: Final = Tower(vibevoice)
FUN_ASR_NANO: Final = Tower(fun_asr_nano, sizes(512, 2048, 70, 4))
