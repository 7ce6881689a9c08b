"""Parameters beside decoders of families that hear, some of which see too."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.towers import audio, folding, own, vision, waves
from perfmodel.sources.huggingface.towers.joints import (
    AUDIO,
    VISION,
    both,
    matrix,
    nothing,
    one,
    qwen2_5_vl,
    qwen3_vl,
)
from perfmodel.sources.huggingface.towers.parts import Counted, counted, linear, mlp, norm


def _voxtral(_c: Config, hidden: int, tower: Counted) -> int:
    """Four frames joined, two matrices without biases."""
    return mlp(tower.section.count("encoder_ffn_dim"), hidden, hidden, bias=False)


def _voxtral_realtime(c: Config, hidden: int, tower: Counted) -> int:
    """Some frames joined, two matrices without biases."""
    joined = tower.section.count("d_model") * c.count("downsample_factor", 4)
    return mlp(joined, hidden, hidden, bias=False)


def _qwen2_audio(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix."""
    return linear(tower.section.count("d_model"), hidden)


def _qwen3_asr(_c: Config, _hidden: int, tower: Counted) -> int:
    """Two matrices onto ``output_dim``."""
    width = tower.section.count("d_model")
    return mlp(width, width, tower.section.count("output_dim", 3584))


def _glmasr(_c: Config, hidden: int, tower: Counted) -> int:
    """Four frames joined, two matrices."""
    return mlp(tower.section.count("encoder_ffn_dim"), 2 * hidden, hidden)


def _moss(c: Config, hidden: int, tower: Counted) -> int:
    """Some frames joined, two matrices, a norm."""
    joined = tower.section.count("d_model") * c.count("audio_merge_size", 4)
    return mlp(joined, hidden, hidden, bias=c.flag("projector_bias", True)) + norm(hidden)


def fun_asr_nano(c: Config, _hidden: int) -> int:
    """A tower, two matrices, and a few layers in a section of their own."""
    if not c.has_section(AUDIO):
        return 0
    tower = counted(c, AUDIO, waves.FUN_ASR_NANO)
    adaptor = counted(c, "adaptor_config", own.ADAPTOR, optional=True)
    between = adaptor.section.count("projector_hidden_size", 2048)
    return tower.params + mlp(tower.width, between, adaptor.width) + adaptor.params


def vibevoice_asr(c: Config, hidden: int) -> int:
    """One tower for how it sounds, one for what is said; two matrices and a norm after each."""
    total = 0
    for name, out in (("acoustic", 64), ("semantic", 128)):
        key = f"{name}_tokenizer_encoder_config"
        if c.has_section(key):
            tower = counted(c, key, waves.VIBEVOICE)
            said = tower.section.count("hidden_size", out)
            total += tower.params + mlp(said, hidden, hidden) + norm(hidden, "rms")
    return total


def _inkling_vision(c: Config, hidden: int) -> int:
    """Patches folded layer by layer until they are as wide as the decoder."""
    if not c.has_section(VISION):
        return 0
    return folding.inkling(c.section(VISION, {"num_hidden_layers": ("n_layers",)}), hidden)


def _inkling_audio(_c: Config, hidden: int, tower: Counted) -> int:
    """No tower: a row for each sound of each frequency."""
    words = tower.section.count("n_mel_bins", 80) * tower.section.count("mel_vocab_size", 256)
    return words * hidden + norm(hidden, "rms")


def granite_speech(c: Config, hidden: int) -> int:
    """A conformer, queries that attend what it says, one matrix."""
    if not c.has_section("encoder_config"):
        return 0
    tower = counted(c, "encoder_config", audio.GRANITE_SPEECH)
    between = counted(c, "projector_config", own.QFORMER, optional=True)
    queries = c.count("window_size", 15) // c.count("downsample_rate", 5)
    return tower.params + queries * between.width + between.params + matrix(c, hidden, between)


def _phi4_vision(_c: Config, hidden: int, tower: Counted) -> int:
    """Two matrices and two embeddings that separate crops."""
    return 2 * tower.width + mlp(tower.width, hidden, hidden)


def _phi4_audio(_c: Config, hidden: int, tower: Counted) -> int:
    """Two matrices for sound alone, and two for sound beside images."""
    width = tower.section.count("hidden_size", 1024) * tower.section.count("downsample_rate", 1)
    return 2 * mlp(width, hidden, hidden)


def _omniasr(_c: Config, hidden: int, tower: Counted) -> int:
    """One matrix."""
    return linear(tower.section.count("hidden_size", 1024), hidden)


inkling: Final = both(_inkling_vision, one(own.NO_TOWER, _inkling_audio, AUDIO))
dots3_note: Final = both(one(own.DOTS3_NOTE, nothing), one(audio.DOTS3_NOTE, nothing, AUDIO))
voxtral: Final = one(audio.WHISPER, _voxtral, AUDIO)
voxtral_realtime: Final = one(audio.VOXTRAL_REALTIME, _voxtral_realtime, AUDIO)
qwen2_audio: Final = one(audio.WHISPER, _qwen2_audio, AUDIO)
qwen3_asr: Final = one(audio.QWEN3_ASR, _qwen3_asr, AUDIO)
glmasr: Final = one(audio.GLMASR, _glmasr, AUDIO)
moss: Final = one(audio.MOSS, _moss, AUDIO)
omniasr: Final = one(waves.WAV2VEC2, _omniasr, AUDIO)
phi4_multimodal: Final = both(one(vision.PHI4, _phi4_vision), one(audio.PHI4, _phi4_audio, AUDIO))
qwen2_5_omni: Final = both(qwen2_5_vl, one(audio.QWEN2_5_OMNI, nothing, AUDIO))
qwen3_omni: Final = both(qwen3_vl, one(audio.QWEN3_OMNI, nothing, AUDIO))
