"""Models that see or hear: a text decoder in a section of its own, and towers counted apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from perfmodel.base._messages import shown
from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.decoders import DECODERS
from perfmodel.sources.huggingface.families.legacy import git
from perfmodel.sources.huggingface.families.parts import Family, copy
from perfmodel.sources.huggingface.families.section_texts import SECTION_TEXTS, chameleon
from perfmodel.sources.huggingface.families.sections import GIT, SECTION_SIZES
from perfmodel.sources.huggingface.towers import hearing, joints, remote
from perfmodel.sources.huggingface.towers.joints import Joint, both
from perfmodel.work.shape import ModelShape

Tie: TypeAlias = Literal["top", "either", "text", "never"]

_TEXT: Final[dict[str, Family]] = DECODERS | SECTION_TEXTS


def nested(
    *kinds: str,
    joint: Joint,
    tied: bool = False,
    tie: Tie = "top",
    any_text: bool = False,
    section: str = "text_config",
) -> Callable[[Config], ModelShape]:
    """A reader of models whose decoder is one of ``kinds``, the first by default.

    ``joint`` counts the parameters beside it; ``any_text`` means a decoder of any kind that is
    read; ``tied`` and ``tie`` are of the whole class, as ``_tied`` takes them. Without the
    section, as the first of these models were written, the decoder's sizes stand at the top.
    """

    def read(c: Config) -> ModelShape:
        if not c.has_section(section) and c.get("hidden_size") is not None:
            return beside(_TEXT[kinds[0]].read, joint)(c)
        text, family = _text(c, section, kinds, any_text)
        shape = family.read(text)
        head = shape.head and copy(shape.head, tied=_tied(c, shape.head.tied, tied, tie))
        towers = joint(c, text.count("hidden_size"))
        return shape.model_copy(update={"head": head, "tower_params": towers})

    return read


def beside(text: Callable[[Config], ModelShape], joint: Joint) -> Callable[[Config], ModelShape]:
    """A reader of models whose decoder's sizes stand at the top, beside sections of towers."""

    def read(c: Config) -> ModelShape:
        towers = joint(c, c.count("hidden_size"))
        return text(c).model_copy(update={"tower_params": towers})

    return read


def thinking(kind: str, *, joint: Joint) -> Callable[[Config], ModelShape]:
    """A reader of models that speak too: the thinker alone, for the talker is another model."""
    thinker = nested(kind, joint=joint)
    return lambda c: thinker(c.section("thinker_config"))


def minicpmv(c: Config) -> ModelShape:
    """MiniCPMVConfig: its ``version`` says what the decoder is."""
    decoders = {"2.6": "qwen2", "4.5": "qwen3"}
    version = shown(c.get("version"))
    if version not in decoders:
        raise UnsupportedModelError(
            f"config.version: {version} is not read here; expected {' or '.join(decoders)}"
        )
    return beside(_TEXT[decoders[version]].read, remote.minicpmv)(c)


def _text(c: Config, section: str, kinds: tuple[str, ...], any_text: bool) -> tuple[Config, Family]:
    """The section of the decoder, and how it is read."""
    kind = c.section(section).get("model_type")
    kind = kinds[0] if kind is None else kind
    if not isinstance(kind, str) or kind not in (_TEXT if any_text else kinds):
        expected = f"one of {len(_TEXT)} decoders" if any_text else " or ".join(kinds)
        raise UnsupportedModelError(
            f"config.{section}.model_type: {shown(kind)} is not read here; expected {expected}"
        )
    family = _TEXT[kind]
    sizes = {**SECTION_SIZES.get(kind, {}), **family.defaults}
    return c.section(section, family.names, sizes), family


def _tied(c: Config, text: bool, tied: bool, tie: Tie) -> bool:
    """Whether the head is tied, as the class of whoever wrote the file has it.

    The key at the top decides. Without it Transformers 4 asked the decoder, whose own word is
    ``text``; Transformers 5 takes ``tied``. Some classes take either's word for it (``either``),
    in some the decoder alone decides (``text``), and some never tie (``never``).
    """
    if tie in ("text", "never"):
        return text and tie == "text"
    stated = c.flag("tie_word_embeddings", _later(c) and tied)
    told = c.get("tie_word_embeddings") is not None or _later(c)
    return stated or (text and (tie == "either" or not told))


def _later(c: Config) -> bool:
    """Whether Transformers 5 wrote the file."""
    return c.text("transformers_version").startswith("5")


def generating(family: str, *kinds: str, joint: Joint, **fields: Any) -> Family:
    """The row of a family whose class is ``...ForConditionalGeneration``."""
    read = nested(*kinds, joint=joint, **fields)
    return Family((f"{family}ForConditionalGeneration",), read, _TEXT[kinds[0]].names)


MULTIMODAL: Final = {
    "apertus1p5": generating("Apertus1p5", "apertus1p5_text", joint=joints.apertus1p5),
    "aria": generating("Aria", "aria_text", joint=joints.aria),
    "aya_vision": generating(
        "AyaVision", "cohere2", joint=joints.aya_vision, tied=True, any_text=True
    ),
    "chameleon": Family(
        ("ChameleonForConditionalGeneration",), beside(chameleon, joints.chameleon)
    ),
    "cohere2_vision": generating(
        "Cohere2Vision", "cohere2", joint=joints.cohere2_vision, tied=True, any_text=True
    ),
    "cohere_compass": generating("CohereCompass", "cohere_compass_text", joint=joints.qwen3_vl),
    "cosmos3_edge": generating(
        "Cosmos3Edge", "cosmos3_edge_text", joint=joints.cosmos3_edge, tie="never"
    ),
    "cosmos3_omni": generating(
        "Cosmos3Omni", "qwen3_vl_text", joint=joints.qwen3_vl, any_text=True
    ),
    "deepseek_vl": generating(
        "DeepseekVL", "llama", joint=joints.deepseek_vl, tied=True, any_text=True
    ),
    "deepseek_vl_hybrid": generating(
        "DeepseekVLHybrid", "llama", joint=joints.deepseek_vl_hybrid, tied=True, any_text=True
    ),
    "deepseek_vl_v2": Family(
        ("DeepseekVLV2ForCausalLM", "DeepseekOCRForCausalLM"),
        nested("deepseek_v2", joint=remote.deepseek_vl_v2, tie="text", section="language_config"),
    ),
    "dots3_note": generating("Dots3Note", "dots3_note_text", joint=hearing.dots3_note),
    "emu3": generating("Emu3", "emu3_text_model", joint=joints.emu3),
    "ernie4_5_moe_vl": Family(
        ("Ernie4_5_VLMoeForConditionalGeneration",),
        nested("ernie4_5_vl_moe_text", joint=joints.ernie4_5_vl),
        _TEXT["ernie4_5_vl_moe_text"].names,
    ),
    "ernie4_5_vl_moe": generating(
        "Ernie4_5_VLMoe", "ernie4_5_vl_moe_text", joint=joints.ernie4_5_vl, tied=True
    ),
    "exaone4_5": generating("Exaone4_5_", "exaone4", joint=joints.exaone4_5, any_text=True),
    "fast_vlm": generating("FastVlm", "qwen2", joint=joints.fast_vlm, tie="either", any_text=True),
    "fun_asr_nano": generating(
        "FunAsrNano", "qwen3", joint=hearing.fun_asr_nano, tied=True, any_text=True
    ),
    "gemma3": generating("Gemma3", "gemma3_text", joint=joints.gemma3, tied=True),
    "gemma3n": generating("Gemma3n", "gemma3n_text", joint=joints.gemma3n, tied=True),
    "gemma4": generating("Gemma4", "gemma4_text", joint=joints.gemma4, tied=True),
    "gemma4_unified": generating(
        "Gemma4Unified", "gemma4_unified_text", joint=joints.gemma4_unified, tied=True
    ),
    "git": Family(("GitForCausalLM",), beside(git, joints.git), defaults=GIT),
    "glm46v": generating("Glm46V", "glm4v_text", joint=joints.glm4v, any_text=True),
    "glm4v": generating("Glm4v", "glm4v_text", joint=joints.glm4v, tie="either"),
    "glm4v_moe": generating("Glm4vMoe", "glm4v_moe_text", joint=joints.glm4v, tie="either"),
    "glm5_next": generating("Glm5Next", "glm5_next_text", joint=joints.glm5_next),
    "glm_ocr": generating("GlmOcr", "glm_ocr_text", joint=joints.glm_ocr, tie="either"),
    "glmasr": generating("GlmAsr", "llama", joint=hearing.glmasr, tied=True, any_text=True),
    "glmga": generating("Glm46V", "glm4v_text", joint=joints.glm4v, any_text=True),
    "got_ocr2": generating("GotOcr2", "qwen2", joint=joints.got_ocr2, tied=True, any_text=True),
    "granite4_vision": generating(
        "Granite4Vision", "granite4_vision_text", joint=joints.granite4_vision
    ),
    "granite_docling": generating(
        "GraniteDocling", "granite_docling_text", joint=joints.granite_docling, tied=True
    ),
    "granite_speech": generating(
        "GraniteSpeech", "granite", joint=hearing.granite_speech, tied=True, any_text=True
    ),
    "granite_speech_plus": generating(
        "GraniteSpeechPlus", "granite", joint=hearing.granite_speech, tied=True, any_text=True
    ),
    "hunyuan_vl": generating(
        "HunYuanVL", "hunyuan_vl_text", joint=joints.hunyuan_vl, tied=True, tie="either"
    ),
    "hy_v4_vl": generating("HYV4VL", "hy_v4_vl_text", joint=joints.hy_v4_vl),
    "hyperclovax_vision_v2": generating(
        "HyperCLOVAXVisionV2",
        "hyperclovax",
        joint=joints.hyperclovax_vision,
        tied=True,
        any_text=True,
    ),
    "idefics2": generating("Idefics2", "mistral", joint=joints.idefics2, any_text=True),
    "idefics3": generating("Idefics3", "llama", joint=joints.idefics3, any_text=True),
    "inkling2": generating("Inkling2", "inkling2_text", joint=joints.inkling2, tie="never"),
    "inkling2_loop": generating(
        "Inkling2Loop", "inkling2_loop_text", joint=joints.inkling2, tie="never"
    ),
    "inkling_mm_model": generating("Inkling", "inkling_text", joint=hearing.inkling, tie="never"),
    "internvl": generating("InternVL", "qwen2", joint=joints.internvl, tied=True, any_text=True),
    "internvl_chat": Family(
        ("InternVLChatModel",),
        nested(
            "qwen2", joint=remote.internvl_chat, tie="text", any_text=True, section="llm_config"
        ),
    ),
    "janus": generating("Janus", "llama", joint=joints.janus, tied=True, any_text=True),
    "kimi_k25": Family(
        ("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"),
        nested("deepseek_v3", joint=joints.kimi_k25, tied=True, any_text=True),
    ),
    "kimi_vl": Family(
        ("KimiVLForConditionalGeneration",),
        nested("deepseek_v3", joint=remote.kimi_vl, tie="text", any_text=True),
    ),
    "lfm2_vl": generating("Lfm2Vl", "lfm2", joint=joints.lfm2_vl, tied=True, any_text=True),
    "lfm3_vl": generating("Lfm3Vl", "lfm3", joint=joints.lfm3_vl, tied=True, any_text=True),
    "lighton_ocr": generating(
        "LightOnOcr", "qwen3", joint=joints.mistral3, tied=True, any_text=True
    ),
    "llama4": generating("Llama4", "llama4_text", joint=joints.llama4, tie="text"),
    "llava": Family(
        ("LlavaForConditionalGeneration", "LlavaLlamaForCausalLM"),
        nested("llama", joint=both(joints.llava, remote.llava), tie="either", any_text=True),
    ),
    "llava_next": generating("LlavaNext", "llama", joint=joints.llava_next, any_text=True),
    "llava_next_video": generating(
        "LlavaNextVideo", "llama", joint=joints.llava_next, tie="either", any_text=True
    ),
    "llava_onevision": generating(
        "LlavaOnevision", "qwen2", joint=joints.llava_onevision, tie="either", any_text=True
    ),
    "minicpm_ocr": generating(
        "MiniCPMOcr", "qwen3_5_text", joint=joints.minicpmv4_6, tied=True, any_text=True
    ),
    "minicpmv": Family(("MiniCPMV",), minicpmv),
    "minicpmv4_6": generating(
        "MiniCPMV4_6", "qwen3_5_text", joint=joints.minicpmv4_6, any_text=True
    ),
    "minicpmv4_7": generating(
        "MiniCPMV4_7", "qwen3_5_text", joint=joints.minicpmv4_6, any_text=True
    ),
    "minimax_m3_vl": Family(
        ("MiniMaxM3SparseForConditionalGeneration",),
        nested("minimax_m3_vl_text", "minimax_m3", joint=joints.minimax_m3, tie="either"),
    ),
    # Some files name the decoder's class at the top, beside the sections of the whole.
    "ministral3": Family(
        ("Ministral3ForCausalLM", "Mistral3ForConditionalGeneration"),
        nested("ministral3", joint=joints.mistral3, tied=True),
    ),
    "mistral3": generating("Mistral3", "mistral", joint=joints.mistral3, tied=True, any_text=True),
    "mistral_large4": generating("MistralLarge4", "mistral_large4_text", joint=joints.mistral3),
    "mllama": generating("Mllama", "mllama_text_model", joint=joints.mllama),
    "molmo2": generating("Molmo2", "molmo2_text", joint=joints.molmo2, tie="never"),
    "moss_transcribe_diarize": generating(
        "MossTranscribeDiarize", "qwen3", joint=hearing.moss, tied=True, any_text=True
    ),
    "multi_modality": Family(
        ("MultiModalityCausalLM",),
        nested("llama", joint=remote.multi_modality, tie="text", section="language_config"),
    ),
    "muse_glimmer": generating("MuseGlimmer", "muse_glimmer_text", joint=joints.muse_glimmer),
    "muse_spark": generating("MuseSpark", "muse_spark_text", joint=joints.muse_spark, tie="never"),
    "nemotron_h_omni": Family(
        ("NemotronH_Omni_Reasoning_V3",),
        nested("nemotron_h", joint=joints.nemotron_h_omni, tie="text", any_text=True),
        _TEXT["nemotron_h"].names,
    ),
    "omniasr": generating("OmniASR", "llama", joint=hearing.omniasr, tie="never", any_text=True),
    "ovis2": generating("Ovis2", "qwen2", joint=joints.ovis2, tied=True, any_text=True),
    "paddleocr_vl": generating(
        "PaddleOCRVL", "paddleocr_vl_text", joint=joints.paddleocr_vl, tied=True, tie="either"
    ),
    "paligemma": generating("PaliGemma", "gemma", joint=joints.paligemma, tied=True, any_text=True),
    "phi3_v": Family(("Phi3VForCausalLM",), beside(_TEXT["phi3"].read, remote.phi3_v)),
    "phi4_multimodal": Family(
        ("Phi4MultimodalForCausalLM",),
        beside(DECODERS["phi3"].read, hearing.phi4_multimodal),
    ),
    "phi4mm": Family(("Phi4MMForCausalLM",), beside(DECODERS["phi3"].read, remote.phi4mm)),
    "pp_chart2table": generating(
        "GotOcr2", "qwen2", joint=joints.got_ocr2, tied=True, any_text=True
    ),
    "qianfan_ocr": generating("QianfanOCR", "qwen3", joint=joints.qianfan_ocr, any_text=True),
    "qwen2_5_omni": Family(
        ("Qwen2_5OmniForConditionalGeneration", "Qwen2_5OmniModel"),
        thinking("qwen2_5_omni_text", joint=hearing.qwen2_5_omni),
    ),
    "qwen2_5_omni_thinker": generating(
        "Qwen2_5OmniThinker", "qwen2_5_omni_text", joint=hearing.qwen2_5_omni
    ),
    "qwen2_5_vl": generating(
        "Qwen2_5_VL", "qwen2_5_vl_text", joint=joints.qwen2_5_vl, tie="either"
    ),
    "qwen2_audio": generating(
        "Qwen2Audio", "qwen2", joint=hearing.qwen2_audio, tie="never", any_text=True
    ),
    "qwen2_vl": generating("Qwen2VL", "qwen2_vl_text", joint=joints.qwen2_vl, tie="either"),
    "qwen3_5": generating("Qwen3_5", "qwen3_5_text", joint=joints.qwen3_5),
    "qwen3_5_moe": generating("Qwen3_5Moe", "qwen3_5_moe_text", joint=joints.qwen3_5),
    "qwen3_asr": generating("Qwen3ASR", "qwen3", joint=hearing.qwen3_asr, tied=True, any_text=True),
    "qwen3_omni_moe": Family(
        ("Qwen3OmniMoeForConditionalGeneration",),
        thinking("qwen3_omni_moe_text", joint=hearing.qwen3_omni),
    ),
    "qwen3_omni_moe_thinker": generating(
        "Qwen3OmniMoeThinker", "qwen3_omni_moe_text", joint=hearing.qwen3_omni
    ),
    "qwen3_vl": generating("Qwen3VL", "qwen3_vl_text", joint=joints.qwen3_vl),
    "qwen3_vl_moe": generating("Qwen3VLMoe", "qwen3_vl_moe_text", joint=joints.qwen3_vl),
    "qwen4_exp": generating("Qwen4Exp", "qwen4_exp_text", joint=joints.qwen3_vl),
    "shieldgemma2": generating(
        "Gemma3", "gemma3_text", joint=joints.gemma3, tie="either", any_text=True
    ),
    "smolvlm": generating("SmolVLM", "llama", joint=joints.idefics3, any_text=True),
    "step3p7": Family(
        ("Step3p7ForConditionalGeneration", "Step3p7FlashForCausalLM"),
        nested("step3p5", joint=joints.step3p7),
        _TEXT["step3p5"].names,
    ),
    "unlimited_ocr": generating("UnlimitedOcr", "unlimited_ocr_text", joint=joints.unlimited_ocr),
    "vibevoice_asr": generating(
        "VibeVoiceAsr", "qwen2", joint=hearing.vibevoice_asr, tie="never", any_text=True
    ),
    "video_llama_3": generating(
        "VideoLlama3", "qwen2", joint=joints.video_llama_3, tie="either", any_text=True
    ),
    "video_llava": generating("VideoLlava", "llama", joint=joints.video_llava, any_text=True),
    "vipllava": generating("VipLlava", "llama", joint=joints.vipllava, any_text=True),
    "voxtral": generating("Voxtral", "llama", joint=hearing.voxtral, tie="never", any_text=True),
    "voxtral_realtime": generating(
        "VoxtralRealtime",
        "voxtral_realtime_text",
        joint=hearing.voxtral_realtime,
        tied=True,
        any_text=True,
    ),
}
