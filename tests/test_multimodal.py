"""Models that see or hear: totals that their makers publish, and caches counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, PerfModelError, UnsupportedModelError
from perfmodel.sources.huggingface.families.decoders import DECODERS
from perfmodel.sources.huggingface.families.multimodal import MULTIMODAL
from perfmodel.sources.huggingface.families.section_texts import SECTION_TEXTS
from perfmodel.sources.huggingface.families.sections import SECTION_SIZES
from perfmodel.work.layers import AltUp, CrossAttention, ImageExperts, PerLayerInput, StreamEnd
from perfmodel.work.step import Group, Step


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A library writes to no stream, whatever it reads."""
    yield
    assert capfd.readouterr() == ("", "")


def sizes(
    hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocab: int, **keys: Any
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
    } | keys


# -- configs, as their makers wrote them, less what sizes nothing -----------------------------

SIGLIP: dict[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "vision_use_head": False,
}
CLIP: dict[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "image_size": 336,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
MOONVIT: dict[str, Any] = {
    "init_pos_emb_height": 64,
    "init_pos_emb_width": 64,
    "merge_kernel_size": [2, 2],
    "patch_size": 14,
    "vt_hidden_size": 1152,
    "vt_intermediate_size": 4304,
    "vt_num_attention_heads": 16,
    "vt_num_hidden_layers": 27,
}
QWEN_7B = sizes(3584, 18944, 28, 28, 4, 152064, tie_word_embeddings=False)

GEMMA3_27B: dict[str, Any] = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "head_dim": 128,
        "hidden_size": 5376,
        "intermediate_size": 21504,
        "num_attention_heads": 32,
        "num_hidden_layers": 62,
        "num_key_value_heads": 16,
        "sliding_window": 1024,
    },
    "vision_config": SIGLIP,
    "transformers_version": "4.50.0.dev0",
}
GEMMA3N_E2B: dict[str, Any] = {
    "model_type": "gemma3n",
    "text_config": sizes(
        2048, 8192, 30, 8, 2, 262400,
        model_type="gemma3n_text", head_dim=256, num_kv_shared_layers=10, sliding_window=512,
        altup_num_inputs=4, laurel_rank=64,
        hidden_size_per_layer_input=256, vocab_size_per_layer_input=262144,
    ),
    "vision_config": {"architecture": "mobilenetv5_300m_enc", "hidden_size": 2048},
    "audio_config": {"hidden_size": 1536, "conf_num_hidden_layers": 12},
}  # fmt: skip
GEMMA4_26B: dict[str, Any] = {
    "model_type": "gemma4",
    "tie_word_embeddings": True,
    "audio_config": None,
    "text_config": sizes(
        2816, 2112, 30, 16, 8, 262144,
        model_type="gemma4_text", head_dim=256, global_head_dim=512,
        num_global_key_value_heads=2, attention_k_eq_v=True, sliding_window=1024,
        enable_moe_block=True, num_experts=128, top_k_experts=8, moe_intermediate_size=704,
        hidden_size_per_layer_input=0, num_kv_shared_layers=0, tie_word_embeddings=True,
    ),
    "vision_config": {
        "model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304,
        "num_hidden_layers": 27, "num_attention_heads": 16, "num_key_value_heads": 16,
        "head_dim": 72, "patch_size": 16, "position_embedding_size": 10240,
    },
}  # fmt: skip
LLAMA_32_11B: dict[str, Any] = {
    "model_type": "mllama",
    "text_config": sizes(
        4096, 14336, 40, 32, 8, 128256,
        model_type="mllama_text_model", tie_word_embeddings=False,
        cross_attention_layers=[3, 8, 13, 18, 23, 28, 33, 38],
    ),
    "vision_config": {
        "hidden_size": 1280, "image_size": 560, "intermediate_size": 5120, "max_num_tiles": 4,
        "num_global_layers": 8, "num_hidden_layers": 32, "patch_size": 14,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
        "vision_output_dim": 7680,
    },
}  # fmt: skip
SCOUT: dict[str, Any] = {
    "model_type": "llama4",
    "text_config": sizes(
        5120, 8192, 48, 40, 8, 202048,
        model_type="llama4_text", head_dim=128, intermediate_size_mlp=16384,
        interleave_moe_layer_step=1, num_experts_per_tok=1, num_local_experts=16,
        attention_chunk_size=8192, attention_bias=False, use_qk_norm=True,
    ),
    "vision_config": {
        "hidden_size": 1408, "image_size": 336, "intermediate_size": 5632, "patch_size": 14,
        "num_attention_heads": 16, "num_hidden_layers": 34, "projector_input_dim": 4096,
        "projector_output_dim": 4096, "vision_output_dim": 4096,
    },
    "transformers_version": "4.51.0.dev0",
}  # fmt: skip
MISTRAL_SMALL: dict[str, Any] = {
    "model_type": "mistral3",
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "vision_feature_layer": -1,
    "text_config": sizes(
        5120, 32768, 40, 32, 8, 131072, model_type="mistral", head_dim=128, sliding_window=None
    ),
    "vision_config": {
        "model_type": "pixtral", "hidden_size": 1024, "image_size": 1540, "patch_size": 14,
        "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
    },
    "transformers_version": "4.50.0.dev0",
}  # fmt: skip
QWEN25_VL_7B: dict[str, Any] = QWEN_7B | {
    "model_type": "qwen2_5_vl",
    "vision_config": {
        "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16,
        "in_chans": 3, "out_hidden_size": 3584, "patch_size": 14, "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}  # fmt: skip
QWEN2_VL_2B: dict[str, Any] = sizes(1536, 8960, 28, 12, 2, 151936, tie_word_embeddings=True) | {
    "model_type": "qwen2_vl",
    "vision_config": {
        "depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "in_chans": 3,
        "hidden_size": 1536, "patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2,
    },
}  # fmt: skip
QWEN3_VL_30B: dict[str, Any] = {
    "model_type": "qwen3_vl_moe",
    "tie_word_embeddings": False,
    "text_config": sizes(
        2048, 6144, 48, 32, 4, 151936,
        model_type="qwen3_vl_moe_text", head_dim=128, moe_intermediate_size=768,
        num_experts=128, num_experts_per_tok=8, decoder_sparse_step=1, mlp_only_layers=[],
    ),
    "vision_config": {
        "depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "num_heads": 16,
        "in_channels": 3, "out_hidden_size": 2048, "num_position_embeddings": 2304,
        "patch_size": 16, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "deepstack_visual_indexes": [8, 16, 24],
    },
}  # fmt: skip
KIMI_K25: dict[str, Any] = {
    "model_type": "kimi_k25",
    "tie_word_embeddings": False,
    "text_config": sizes(
        7168, 18432, 61, 64, 64, 163840,
        model_type="kimi_k2", first_k_dense_replace=1, kv_lora_rank=512, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128, moe_intermediate_size=2048,
        n_routed_experts=384, n_shared_experts=1, num_experts_per_tok=8,
    ),
    "vision_config": MOONVIT,
}  # fmt: skip
VOXTRAL_3B: dict[str, Any] = {
    "model_type": "voxtral",
    "text_config": sizes(3072, 8192, 30, 32, 8, 131072, model_type="llama", head_dim=128),
    "audio_config": {
        "hidden_size": 1280, "intermediate_size": 5120, "max_source_positions": 1500,
        "num_attention_heads": 20, "num_hidden_layers": 32, "num_mel_bins": 128,
    },
}  # fmt: skip
LLAVA_7B: dict[str, Any] = {
    "model_type": "llava",
    "tie_word_embeddings": False,
    "text_config": {"model_type": "llama", "vocab_size": 32064},
    "vision_config": CLIP,
    "vision_feature_layer": -2,
}
PALIGEMMA_3B: dict[str, Any] = {
    "model_type": "paligemma",
    "projection_dim": 2048,
    "text_config": sizes(2048, 16384, 18, 8, 1, 257216, model_type="gemma"),
    "vision_config": SIGLIP | {"image_size": 224, "projection_dim": 2048},
}
INTERNVL3_8B: dict[str, Any] = {
    "model_type": "internvl_chat",
    "downsample_ratio": 0.5,
    "llm_config": QWEN_7B | {"model_type": "qwen2", "vocab_size": 151674},
    "vision_config": {
        "hidden_size": 1024, "image_size": 448, "intermediate_size": 4096, "patch_size": 14,
        "num_attention_heads": 16, "num_hidden_layers": 24, "qkv_bias": True,
        "qk_normalization": False, "norm_type": "layer_norm",
    },
}  # fmt: skip
MINICPM_V_26: dict[str, Any] = QWEN_7B | {
    "model_type": "minicpmv",
    "version": 2.6,
    "query_num": 64,
    "vocab_size": 151666,
    "vision_config": SIGLIP | {"image_size": 980},
}
PHI3_VISION: dict[str, Any] = sizes(3072, 8192, 32, 32, 32, 32064, tie_word_embeddings=False) | {
    "model_type": "phi3_v",
    "sliding_window": 131072,
    "img_processor": {
        "image_dim_out": 1024,
        "model_name": "openai/clip-vit-large-patch14-336",
        "name": "clip_vision_model",
    },
}
DEEPSEEK_OCR: dict[str, Any] = {
    "model_type": "deepseek_vl_v2",
    "language_config": sizes(
        1280, 6848, 12, 10, 10, 129280,
        first_k_dense_replace=1, kv_lora_rank=None, q_lora_rank=None, use_mla=False,
        moe_intermediate_size=896, n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6,
    ),
    "projector_config": {"n_embed": 1280, "projector_type": "linear"},
    "tile_tag": "2D",
    "vision_config": {"model_name": "deeplip_b_l"},
}  # fmt: skip


DEEPSEEK_VL2_TINY: dict[str, Any] = {
    "model_type": "deepseek_vl_v2",
    "language_config": DEEPSEEK_OCR["language_config"],
    "projector_config": {"model_type": "mlp_projector", "n_embed": 1280},
    "tile_tag": "2D",
    "vision_config": {"model_name": "siglip_so400m_patch14_384", "mlp_ratio": 3.7362},
}
EXAONE45_33B: dict[str, Any] = {
    "model_type": "exaone4_5",
    "tie_word_embeddings": False,
    "text_config": sizes(
        5120, 27392, 64, 40, 8, 153600,
        model_type="exaone4_5_text", num_nextn_predict_layers=1, sliding_window_pattern="LLLG",
    ),
    "vision_config": {
        "depth": 28, "hidden_size": 2048, "intermediate_size": 5120, "num_heads": 32,
        "num_key_value_heads": 8, "out_hidden_size": 5120, "patch_size": 14,
        "spatial_merge_size": 2, "temporal_patch_size": 2, "fullatt_block_indexes": [6, 13, 20, 27],
    },
}  # fmt: skip
PHI4_MULTIMODAL: dict[str, Any] = sizes(3072, 8192, 32, 24, 8, 200064, tie_word_embeddings=True) | {
    "model_type": "phi4mm",
    "architectures": ["Phi4MMForCausalLM"],
    "audio_processor": {
        "name": "cascades",
        "config": {
            "attention_dim": 1024, "attention_heads": 16, "linear_units": 1536, "num_blocks": 24,
            "depthwise_multiplier": 1, "depthwise_separable_out_channel": 1024, "kernel_size": 3,
            "ext_pw_out_channel": 1024, "time_reduction": 8,
            "nemo_conv_settings": {"conv_channels": 1024},
            "relative_attention_bias_args": {"type": "t5", "t5_bias_max_distance": 500},
        },
    },
    "vision_lora": {"r": 256, "lora_alpha": 512},
    "speech_lora": {"r": 320, "lora_alpha": 640},
}  # fmt: skip
GIT_BASE: dict[str, Any] = {
    "model_type": "git",
    "architectures": ["GitForCausalLM"],
    "tie_word_embeddings": False,
    "vision_config": {"model_type": "git_vision_model"},
}


class Known(NamedTuple):
    """A config, the elements of its published checkpoint, and those that are no parameter of it.

    The rest are buffers, or matrices that are stored and that nothing uses.
    """

    config: dict[str, Any]
    published: int
    rest: int = 0


KNOWN = {
    "DeepSeek-OCR": Known(DEEPSEEK_OCR, 3_336_106_240),
    "EXAONE-4.5-33B": Known(EXAONE45_33B, 34_350_097_664),
    "InternVL3-8B": Known(INTERNVL3_8B, 7_944_373_760),
    "Kimi-K2.5": Known(KIMI_K25, 1_026_879_376_368, rest=60 * 384),  # a router's correction bias
    "Llama-3.2-11B-Vision": Known(LLAMA_32_11B, 10_670_220_835),
    "Llama-4-Scout": Known(SCOUT, 108_641_793_536),
    "MiniCPM-V-2.6": Known(MINICPM_V_26, 8_099_175_152),
    "Mistral-Small-3.1": Known(MISTRAL_SMALL, 24_011_361_280),
    "Phi-3-vision": Known(PHI3_VISION, 4_146_621_440),
    # A mean and a deviation of each of 80 bands of sound.
    "Phi-4-multimodal": Known(PHI4_MULTIMODAL, 5_574_460_384, rest=2 * 80),
    "Qwen2-VL-2B": Known(QWEN2_VL_2B, 2_208_985_600),
    "Qwen2.5-VL-7B": Known(QWEN25_VL_7B, 8_292_166_656),
    "Qwen3-VL-30B-A3B": Known(QWEN3_VL_30B, 31_070_754_032),
    "Voxtral-Mini-3B": Known(VOXTRAL_3B, 4_676_271_104),
    "deepseek-vl2-tiny": Known(DEEPSEEK_VL2_TINY, 3_370_501_440),
    "gemma-3-27b-it": Known(GEMMA3_27B, 27_432_406_640),
    # Keys, values and their norms of the 10 layers that share those of others.
    "gemma-3n-E2B-it": Known(GEMMA3N_E2B, 5_439_438_272, rest=10 * (2 * 2 * 256 * 2048 + 256)),
    # A copy of the table, which is tied.
    "gemma-4-26B-A4B": Known(GEMMA4_26B, 26_544_131_376, rest=262_144 * 2816),
    "git-base": Known(GIT_BASE, 176_619_066),
    # Six frames, and the numbers of the positions, which are stored.
    "git-base-vatex": Known(
        GIT_BASE | {"num_image_with_embedding": 6}, 176_624_895, rest=1024 + 197
    ),
    "llava-1.5-7b-hf": Known(LLAVA_7B, 7_063_427_072),
    "paligemma-3b-pt-224": Known(PALIGEMMA_3B, 2_923_466_480),
}


# -- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_decoder_and_towers_make_what_is_published(name: str) -> None:
    known = KNOWN[name]
    shape = pm.read_hf(known.config)
    found = shape.params + shape.tower_params + shape.mtp_params
    assert found + known.rest == known.published


def test_what_stands_in_memory_includes_the_towers() -> None:
    shape = pm.read_hf(LLAVA_7B)
    assert shape.tower_params == 324_487_168  # CLIP's 303 507 456, then 1024 -> 4096 -> 4096
    assert shape.weight_bytes("bf16") == 2 * 7_063_427_072


def test_the_class_of_the_decoder_alone_has_no_towers() -> None:
    # Some files name it at the top, beside the sections of the whole.
    whole = pm.read_hf(GEMMA3_27B)
    alone = pm.read_hf(GEMMA3_27B | {"architectures": ["Gemma3ForCausalLM"]})
    assert (alone.params, alone.tower_params) == (whole.params, 0)
    assert whole.tower_params > 0


def test_llama4_scout_activates_17_billion() -> None:
    shape = pm.read_hf(SCOUT)
    # All but 15 of 16 experts in each of 48 layers.
    assert shape.params - shape.active_params == 48 * 15 * 3 * 5120 * 8192
    assert round(shape.active_params / 1e9) == 17


def test_without_a_section_no_tower_is_told() -> None:
    abbreviated = {key: value for key, value in SCOUT.items() if key != "vision_config"}
    whole = pm.read_hf(SCOUT)
    shape = pm.read_hf(abbreviated)
    assert shape.tower_params == 0
    assert shape.params == whole.params
    null = pm.read_hf(SCOUT | {"vision_config": None})
    assert null.tower_params == 0


def test_gemma3n_keeps_tables_apart_from_what_it_computes_with() -> None:
    shape = pm.read_hf(GEMMA3N_E2B)
    tables = 262_400 * 2048 + 30 * 262_144 * 256
    assert shape.params - shape.non_embedding_params == tables
    kinds = {type(layer) for _, layer in shape.distinct_layers}
    assert {AltUp, PerLayerInput, StreamEnd} <= kinds


def test_mllama_has_rows_for_its_own_tokens() -> None:
    shape = pm.read_hf(LLAMA_32_11B)
    assert shape.params - shape.non_embedding_params == (2 * 128_256 + 8) * 4096


# -- heads that are tied ----------------------------------------------------------------------


def tied(config: dict[str, Any]) -> bool:
    head = pm.read_hf(config).head
    assert head is not None
    return head.tied


@pytest.mark.parametrize(
    ("config", "top", "text", "version", "expected"),
    [
        # Transformers 4 asked the decoder, Transformers 5 the whole class, unless the top says.
        (MISTRAL_SMALL, None, None, "4.50.0", False),
        (MISTRAL_SMALL, None, True, "4.50.0", True),
        (MISTRAL_SMALL, None, None, "5.0.0", True),
        (MISTRAL_SMALL, False, True, "5.0.0", False),
        (MISTRAL_SMALL, True, False, "4.50.0", True),
        (GEMMA3_27B, None, None, "4.50.0", True),
        (GEMMA3_27B, False, None, "5.0.0", False),
        # LLaVA takes either's word.
        (LLAVA_7B, False, True, "5.0.0", True),
        (LLAVA_7B, None, None, "5.0.0", False),
        # Llama 4 holds a whole language model, Voxtral never ties.
        (SCOUT, True, None, "5.0.0", False),
        (SCOUT, None, True, "5.0.0", True),
        (VOXTRAL_3B, True, True, "5.0.0", False),
    ],
)
def test_who_decides_whether_the_head_is_tied(
    config: dict[str, Any], top: bool | None, text: bool | None, version: str, expected: bool
) -> None:
    section = config["text_config"] | ({} if text is None else {"tie_word_embeddings": text})
    whole = config | {"text_config": section, "transformers_version": version}
    whole.pop("tie_word_embeddings", None)
    whole |= {} if top is None else {"tie_word_embeddings": top}
    assert tied(whole) is expected


def test_a_tied_head_costs_no_second_table() -> None:
    apart = pm.read_hf(MISTRAL_SMALL | {"tie_word_embeddings": False})
    shared = pm.read_hf(MISTRAL_SMALL | {"tie_word_embeddings": True})
    assert apart.params - shared.params == 131_072 * 5120


# -- caches, by hand --------------------------------------------------------------------------


def test_gemma3_27b_slides_in_five_of_six_layers() -> None:
    # 62 layers: every sixth is full, so 10 of them; a token is 2 x 16 x 128 numbers of 2 bytes.
    shape = pm.read_hf(GEMMA3_27B)
    token = 2 * 16 * 128 * 2
    assert shape.kv_bytes_per_token("bf16", context=1024) == 62 * token
    assert shape.kv_bytes_per_token("bf16", context=1025) == 10 * token
    assert shape.cache_bytes(32_768, "bf16") == (52 * 1024 + 10 * 32_768) * token


def test_gemma3n_shares_the_cache_of_its_last_layers() -> None:
    # Of 30 layers 20 cache; of those every fifth is full. A token is 2 x 2 x 256 numbers.
    shape = pm.read_hf(GEMMA3N_E2B)
    token = 2 * 2 * 256 * 2
    assert shape.kv_bytes_per_token("bf16", context=512) == 20 * token
    assert shape.kv_bytes_per_token("bf16", context=513) == 4 * token
    # Those that share still attend: 30 layers of 8 heads of 256, one query on one key, twice.
    ops = pm.forward(shape, Step(groups=(Group(count=1, new=1),)), "bf16")
    attended = sum(op.flops * op.calls for op in ops if op.kind == "attention")
    assert attended == 30 * 2 * 2 * 8 * 256


def test_gemma4_caches_few_wide_heads_in_full_layers() -> None:
    # 25 layers of 8 heads of 256 within 1024 tokens, 5 of 2 heads of 512.
    shape = pm.read_hf(GEMMA4_26B)
    assert shape.kv_bytes_per_token("bf16", context=1) == 25 * 8192 + 5 * 4096
    assert shape.kv_bytes_per_token("bf16", context=5000) == 5 * 4096


def test_gemma4_reads_what_newer_files_say_layer_by_layer() -> None:
    text = dict(GEMMA4_26B["text_config"])
    del text["global_head_dim"], text["num_global_key_value_heads"]
    full = {f"{i:02}": {"head_dim": 512, "num_key_value_heads": 2} for i in range(5, 30, 6)}
    newer = GEMMA4_26B | {"text_config": text | {"per_layer_config": full}}
    assert pm.read_hf(newer).blocks == pm.read_hf(GEMMA4_26B).blocks


def test_gemma4_doubles_the_layers_that_share() -> None:
    text = sizes(
        256, 512, 6, 4, 1, 1000,
        model_type="gemma4_text", head_dim=64, global_head_dim=128, num_kv_shared_layers=2,
        use_double_wide_mlp=True, hidden_size_per_layer_input=32, vocab_size_per_layer_input=1000,
        layer_types=["sliding_attention", "full_attention"] * 3,
    )  # fmt: skip
    shape = pm.read_hf({"model_type": "gemma4", "text_config": text})
    layers = [layer for _, row in shape.blocks for layer in row]
    widths = {layer.width for layer in layers if layer.kind == "feedforward"}
    shares = [layer.shares_kv for layer in layers if layer.kind == "attention"]
    assert widths == {512, 1024}
    assert shares[-2:] == [True, True]
    assert not any(shares[:-2])
    # One sliding layer of 2 x 64 numbers, one full of 2 x 128, of each two that cache.
    assert shape.kv_bytes_per_token("bf16") == 2 * 2 * (64 + 128) * 2


def test_text_passes_layers_for_images_by() -> None:
    shape = pm.read_hf(LLAMA_32_11B)
    assert shape.kv_bytes_per_token("bf16") == 32 * 2 * 8 * 128 * 2
    cross = [layer for _, layer in shape.distinct_layers if isinstance(layer, CrossAttention)]
    assert len(cross) == 1
    step = Step(groups=(Group(count=1, new=1),))
    assert list(cross[0].operations(4096, step, pm.Precision.preset("bf16"), 8)) == []
    assert list(cross[0].small_steps(4096, 1, pm.Precision.preset("bf16"), 8)) == []
    ops = pm.forward(shape, step, "bf16")
    products = sum(op.flops * op.calls for op in ops if op.kind == "linear")
    layer = 2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336
    assert products == 2 * (32 * layer + 128_256 * 4096)


def test_ernie_sends_text_to_experts_of_its_own() -> None:
    config = {
        "model_type": "ernie4_5_vl_moe",
        "text_config": sizes(
            256, 512, 3, 4, 2, 1000,
            moe_num_experts=8, moe_k=2, moe_intermediate_size=[96, 32], moe_num_shared_experts=1,
        ),
    }  # fmt: skip
    shape = pm.read_hf(config)
    images = [layer for _, layer in shape.distinct_layers if isinstance(layer, ImageExperts)]
    assert [layer.width for layer in images] == [32]
    ops = pm.forward(shape, Step(groups=(Group(count=1, new=1),)), "bf16")
    routed = sum(op.flops * op.calls for op in ops if op.kind == "experts")
    assert routed == 2 * 2 * 2 * 3 * 256 * 96  # 2 layers, 2 experts, 3 matrices


def test_products_of_one_token_are_those_that_transformers_runs() -> None:
    # Counted there, on the modules themselves: the router of AltUp runs twice a layer.
    for config, counted in ((GEMMA3N_E2B, 4_843_311_808), (GEMMA4_26B, 4_788_912_128)):
        ops = pm.forward(pm.read_hf(config), Step(groups=(Group(count=1, new=1),)), "bf16")
        assert sum(op.flops * op.calls for op in ops if op.kind == "linear") == counted


def test_per_layer_inputs_are_looked_up() -> None:
    # A row of 256 numbers read and written in each of 30 layers, beside 2048 of the embedding.
    step = Step(groups=(Group(count=1, new=3),))
    ops = pm.forward(pm.read_hf(GEMMA3N_E2B), step, "bf16", small_steps="separate")
    looked_up = [op for op in ops if op.kind == "embedding"]
    assert all(op.flops == 0 for op in looked_up)
    assert sum(op.nbytes * op.calls for op in looked_up) == 3 * 2 * 2 * (2048 + 30 * 256)
    mixed = [op for op in ops if op.name == "altup"]
    assert [(op.calls, op.activation_bytes) for op in mixed] == [(30, 3 * 4 * 4 * 2048 * 2)]


# -- towers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "more"),
    [
        # A pooling head: a query, attention, a norm, a feed-forward layer.
        (
            {"vision_use_head": True},
            1152 + 4 * (1152 * 1152 + 1152) + 2 * 1152 + 2 * 1152 * 4304 + 4304 + 1152,
        ),
        ({"image_size": [896, 448]}, -32 * 64 * 1152),
        ({"num_hidden_layers": 28}, 15_239_504),
    ],
)
def test_each_part_of_a_tower_counts(keys: dict[str, Any], more: int) -> None:
    changed = pm.read_hf(GEMMA3_27B | {"vision_config": SIGLIP | keys})
    assert changed.tower_params - pm.read_hf(GEMMA3_27B).tower_params == more


def test_a_tower_takes_from_its_class_what_its_section_leaves_out() -> None:
    # CLIP's base model: 12 layers of 768 over patches of 32 pixels.
    config = LLAVA_7B | {"vision_config": {"model_type": "clip_vision_model"}}
    layers = 12 * (4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768)
    ends = 3 * 32 * 32 * 768 + 768 + 50 * 768 + 4 * 768
    joined = 768 * 4096 + 4096 + 4096 * 4096 + 4096
    assert pm.read_hf(config).tower_params == layers + ends + joined


def test_several_of_a_towers_layers_make_a_wider_matrix() -> None:
    one, three = pm.read_hf(LLAVA_7B), pm.read_hf(LLAVA_7B | {"vision_feature_layer": [-2, -5, 6]})
    assert three.tower_params - one.tower_params == 2 * 1024 * 4096


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (LLAVA_7B | {"vision_config": {"model_type": "dinov9"}}, "vision_config.model_type"),
        (GEMMA3N_E2B | {"vision_config": {"architecture": "resnet50"}}, "vision_config.arch"),
        (PHI3_VISION | {"img_processor": {"model_name": "a/b"}}, "model_name"),
        (DEEPSEEK_OCR | {"vision_config": {"model_name": "vit"}}, "model_name"),
        (LLAVA_7B | {"text_config": {"model_type": "bert"}}, "text_config.model_type"),
        (GEMMA3_27B | {"text_config": {"model_type": "llama"}}, "text_config.model_type"),
        (MINICPM_V_26 | {"version": 2.0}, "config.version"),
        (
            GEMMA4_26B
            | {"text_config": GEMMA4_26B["text_config"] | {"use_bidirectional_attention": "all"}},
            "use_bidirectional_attention",
        ),
    ],
)
def test_what_is_not_known_is_refused_by_name(config: dict[str, Any], word: str) -> None:
    with pytest.raises(UnsupportedModelError, match=word):
        pm.read_hf(config)


@pytest.mark.parametrize(
    ("config", "keys", "word"),
    [
        (GEMMA3N_E2B, {"num_kv_shared_layers": 30}, "num_kv_shared_layers"),
        (GEMMA3N_E2B, {"num_kv_shared_layers": 27}, "num_kv_shared_layers"),  # none full before
        (GEMMA3N_E2B, {"intermediate_size": [8192]}, "intermediate_size"),
        (GEMMA4_26B, {"num_global_key_value_heads": 3}, "num_key_value_heads"),
        (GEMMA4_26B, {"top_k_experts": 129}, "text_config.top_k_experts"),
        (GEMMA4_26B, {"per_layer_config": {"30": {}}}, "per_layer_config"),
        (GEMMA4_26B, {"per_layer_config": {"x": {}}}, "per_layer_config"),
        (GEMMA4_26B, {"per_layer_config": {"1": 2}}, "per_layer_config.1"),
        (GEMMA4_26B, {"layer_types": ["full_attention"]}, "layer_types"),
        (LLAMA_32_11B, {"cross_attention_layers": [40]}, "cross_attention_layers"),
        (LLAVA_7B, {"hidden_size": -1}, "text_config.hidden_size"),
    ],
)
def test_contradictions_name_the_key(
    config: dict[str, Any], keys: dict[str, Any], word: str
) -> None:
    with pytest.raises(InvalidValueError, match=word):
        pm.read_hf(config | {"text_config": config["text_config"] | keys})


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ({"patch_size": 0}, "vision_config.patch_size"),
        ({"patch_size": [14]}, "vision_config.patch_size"),
        ({"image_size": [0, 14]}, "vision_config.image_size"),
        ({"hidden_size": "wide"}, "vision_config.hidden_size"),
        ({"vision_use_head": 1}, "vision_config.vision_use_head"),
    ],
)
def test_a_towers_contradictions_name_the_key(keys: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidValueError, match=word):
        pm.read_hf(GEMMA3_27B | {"vision_config": SIGLIP | keys})


@pytest.mark.parametrize("junk", [None, 0, -1, "x", [], {}, True, 1e300, [None], {"a": {}}])
@pytest.mark.parametrize("name", KNOWN)
def test_junk_is_never_a_bare_error(name: str, junk: Any) -> None:
    config, told = KNOWN[name].config, [""]
    for key, value in config.items():
        inner = [value | {deep: junk} for deep in value] if isinstance(value, dict) else []
        for changed in [junk, *inner]:
            try:
                pm.read_hf(config | {key: changed})
            except PerfModelError as error:
                told.append(str(error))
    assert max(map(len, told)) < 2000


# -- the tables -------------------------------------------------------------------------------


def test_tables_know_each_other() -> None:
    assert not set(SECTION_TEXTS) & set(DECODERS)
    assert set(SECTION_SIZES) <= set(SECTION_TEXTS) | set(DECODERS)
    assert list(MULTIMODAL) == sorted(MULTIMODAL)
