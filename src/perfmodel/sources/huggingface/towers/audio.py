"""Parameters of audio towers, each from its own section."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import pair
from perfmodel.sources.huggingface.towers.parts import (
    Tower,
    attention,
    convolution,
    gated_mlp,
    head_dim,
    linear,
    mlp,
    norm,
)


def whisper(c: Config) -> int:
    """WhisperConfig's encoder: two convolutions, positions, layers whose keys have no bias."""
    return _whisper_without_positions(c) + c.count("max_source_positions", 1500) * c.count(
        "d_model"
    )


def qwen2_5_omni(c: Config) -> int:
    """Qwen2_5OmniAudioEncoderConfig: fixed positions, two marks, a projection onto the decoder."""
    width, out = c.count("d_model"), c.count("output_dim")
    return _whisper_without_positions(c) + 2 * out + linear(width, out)


def _whisper_without_positions(c: Config) -> int:
    width = c.count("d_model")
    stem = convolution(c.count("num_mel_bins"), width, 3) + convolution(width, width, 3)
    layers = c.count("encoder_layers") * (_layer(c) - width)
    return stem + layers + norm(width)


def _layer(c: Config) -> int:
    width = c.count("d_model")
    return attention(width) + mlp(width, c.count("encoder_ffn_dim")) + 2 * norm(width)


def qwen3_omni(c: Config) -> int:
    """Qwen3OmniMoeAudioEncoderConfig: three convolutions halve time and tone; two projections."""
    width = c.count("d_model")
    return qwen3_asr(c) + mlp(width, width, c.count("output_dim"))


def qwen3_asr(c: Config) -> int:
    """Qwen3ASREncoderConfig: Qwen3-Omni's audio tower without the projections after it."""
    width, channels = c.count("d_model"), c.count("downsample_hidden_size")
    tones = c.count("num_mel_bins")
    for _ in range(3):
        tones = (tones + 1) // 2
    stem = convolution(1, channels, 3, 3) + 2 * convolution(channels, channels, 3, 3)
    joined = linear(channels * tones, width, bias=False)
    return stem + joined + c.count("encoder_layers") * _layer(c) + norm(width)


def gemma3n(c: Config) -> int:
    """Gemma3nAudioConfig: a conformer behind two strided convolutions."""
    kernels, strides = c.get("sscp_conv_kernel_size"), c.get("sscp_conv_stride_size")
    first, second = pair(c, "sscp_conv_channel_size", (128, 32))
    if not (_three_by_three(kernels, 3) and _three_by_three(strides, 2)):
        raise c.wrong("sscp_conv_kernel_size", "two kernels of 3 x 3 with strides of 2")
    tones = c.count("input_feat_size", 128)
    for _ in range(2):
        tones = (tones + 2 - 3) // 2 + 1
    width = c.count("hidden_size")
    return _subsampled(first, second, tones, width) + c.count(
        "conf_num_hidden_layers", 12
    ) * conformer(
        width, head_dim(c, heads="conf_num_attention_heads"), c.count("conf_conv_kernel_size", 5)
    )


def gemma4(c: Config) -> int:
    """Gemma4AudioConfig: Gemma 3n's conformer, and a projection with a bias after it."""
    first, second = pair(c, "subsampling_conv_channels", (128, 32))
    width = c.count("hidden_size")
    layers = c.count("num_hidden_layers") * conformer(
        width, head_dim(c), c.count("conv_kernel_size", 5)
    )
    return (
        _subsampled(first, second, first // 4, width)
        + layers
        + linear(width, c.count("output_proj_dims", 1536))
    )


def conformer(width: int, head: int, kernel: int) -> int:
    """Two half feed-forward layers around attention with relative positions and a convolution."""
    feedforward = mlp(width, 4 * width, bias=False) + 2 * norm(width, "rms")
    attend = attention(width, bias=False) + width * width + head + 2 * norm(width, "rms")
    along = linear(width, 2 * width, bias=False) + linear(width, width, bias=False)
    return 2 * feedforward + attend + along + kernel * width + 3 * norm(width, "rms")


def _subsampled(first: int, second: int, tones: int, width: int) -> int:
    convolutions = convolution(1, first, 3, 3, bias=False) + convolution(
        first, second, 3, 3, bias=False
    )
    return convolutions + first + second + linear(second * tones, width, bias=False)


def _three_by_three(found: object, side: int) -> bool:
    return found is None or found == [[side, side], [side, side]]


def glmasr(c: Config) -> int:
    """GlmAsrEncoderConfig: Whisper's encoder with rotary positions."""
    return _whisper_without_positions(c)


def voxtral_realtime(c: Config) -> int:
    """VoxtralRealtimeEncoderConfig: RMSNorm, gated layers with one bias, Whisper's stem."""
    width, inner = c.count("d_model"), c.count("encoder_ffn_dim")
    queries = c.count("encoder_attention_heads") * c.count("head_dim", 64)
    one = attention(width, queries=queries) - queries + 2 * norm(width, "rms")
    one += gated_mlp(width, inner) + width
    stem = convolution(c.count("num_mel_bins"), width, 3) + convolution(width, width, 3)
    return stem + c.count("encoder_layers") * one + norm(width, "rms")


def dots3_note(c: Config) -> int:
    """Dots3NoteAudioConfig: strided convolutions, gated layers without bias on keys, an adapter."""
    width, channels = c.count("hidden_size", 1280), c.count("downsample_hidden_size", 480)
    head, bias = c.count("head_dim", 64), c.flag("attention_bias", True)
    queries = c.count("num_attention_heads", 20) * head
    values = c.count("num_key_value_heads", 20) * head
    attend = linear(width, queries, bias) + width * width + linear(width, values, bias)
    attend += linear(queries, width, bias)
    dense = gated_mlp(width, c.count("intermediate_size", 5120), bias=True)
    stem = convolution(1, channels, 3, 3) + 2 * convolution(channels, channels, 3, 3)
    stem += linear(c.count("conv_output_size", 7680), width, bias=False)
    layers = c.count("num_hidden_layers", 32) * (attend + dense + 2 * norm(width, "rms"))
    inner, out = c.count("adapter_input_size", 1280), c.count("adapter_out_dim", 5120)
    return stem + layers + norm(width, "rms") + norm(inner) + mlp(inner, out, out)


def granite_speech(c: Config) -> int:
    """GraniteSpeechEncoderConfig: a conformer that predicts characters halfway and at its end."""
    width, out = c.count("hidden_dim", 1024), c.count("output_dim", 42)
    head, heads = c.count("dim_head", 128), c.count("num_heads", 8)
    feedforward = norm(width) + mlp(width, width * c.count("feedforward_mult", 4))
    positions = (2 * c.count("max_pos_emb", 512) + 1) * head
    attend = norm(width) + positions
    attend += attention(width, queries=heads * head, bias=False, output_bias=True)
    inner = width * c.count("conv_expansion_factor", 2)
    along = norm(width) + linear(width, 2 * inner) + inner * c.count("conv_kernel_size", 15)
    along += 2 * inner + linear(inner, width)
    one = 2 * feedforward + attend + along + norm(width)
    ends = linear(c.count("input_dim", 160), width) + linear(width, out) + linear(out, width)
    return ends + c.count("num_layers", 10) * one


def phi4_multimodal(c: Config) -> int:
    """Phi4MultimodalAudioConfig: a conformer with gated halves behind separable convolutions."""
    width, channels = c.count("hidden_size", 1024), c.count("nemo_conv_channels", 1024)
    halvings = c.count("time_reduction", 8).bit_length() - 1
    stem = convolution(1, channels, 3, 3) + linear(channels * c.count("nemo_final_size", 10), width)
    stem += max(halvings - 1, 0) * (convolution(1, channels, 3, 3) + linear(channels, channels))
    buckets = c.count("bias_max_distance", 1000) * (1 if c.flag("bias_symmetric", False) else 2)
    feedforward = norm(width) + gated_mlp(width, c.count("intermediate_size", 1536), bias=True)
    outer, deep = c.count("ext_pw_out_channel", 1024), c.count("depthwise_multiplier", 1) * width
    along = norm(width) + linear(width, 2 * outer) + 2 * outer + linear(width, outer)
    along += convolution(1, deep, c.count("kernel_size", 3))
    along += linear(deep, c.count("depthwise_separable_out_channel", 1024))
    one = 2 * feedforward + attention(width) + along + 2 * norm(width)
    return stem + buckets * c.count("num_attention_heads", 16) + c.count("num_blocks", 24) * one


_WHISPER_NAMES: Final = {
    "d_model": ("hidden_size",),
    "encoder_layers": ("num_hidden_layers",),
    "encoder_attention_heads": ("num_attention_heads",),
    "encoder_ffn_dim": ("intermediate_size",),
}
_WHISPER: Final = {
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "num_mel_bins": 128,
}

WHISPER: Final = Tower(whisper, _WHISPER, _WHISPER_NAMES)
QWEN2_5_OMNI: Final = Tower(qwen2_5_omni, _WHISPER | {"output_dim": 3584}, _WHISPER_NAMES)
QWEN3_OMNI: Final = Tower(
    qwen3_omni, _WHISPER | {"output_dim": 3584, "downsample_hidden_size": 480}, _WHISPER_NAMES
)
GEMMA3N: Final = Tower(gemma3n, {"hidden_size": 1536, "conf_num_attention_heads": 8})
GEMMA4: Final = Tower(
    gemma4, {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8}
)

QWEN3_ASR: Final = Tower(
    qwen3_asr,
    {
        "d_model": 1024,
        "encoder_layers": 24,
        "encoder_ffn_dim": 4096,
        "num_mel_bins": 128,
        "downsample_hidden_size": 480,
    },
    _WHISPER_NAMES,
)
GLMASR: Final = Tower(glmasr, _WHISPER, _WHISPER_NAMES)
MOSS: Final = Tower(
    whisper,
    {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 4096, "num_mel_bins": 80},
    _WHISPER_NAMES,
)
VOXTRAL_REALTIME: Final = Tower(
    voxtral_realtime, _WHISPER | {"encoder_attention_heads": 32}, _WHISPER_NAMES
)
GRANITE_SPEECH: Final = Tower(granite_speech)
PHI4: Final = Tower(phi4_multimodal)
DOTS3_NOTE: Final = Tower(dots3_note)
