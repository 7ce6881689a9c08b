"""What text classes say of sizes that sections leave out: they are written as differences."""

from __future__ import annotations

from typing import Any, Final


def _sizes(
    vocab: int, hidden: int, inner: int, layers: int, heads: int, **more: Any
) -> dict[str, Any]:
    return {
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        **more,
    }


_LLAMA: Final = _sizes(32000, 4096, 11008, 32, 32)
_QWEN: Final = _sizes(151936, 4096, 22016, 32, 32)
_QWEN2_VL: Final = _sizes(152064, 8192, 29568, 80, 64, num_key_value_heads=8)
_COHERE: Final = _sizes(256000, 8192, 22528, 40, 64)
_EXAONE4: Final = _sizes(102400, 4096, 16384, 32, 32)
_GEMMA4: Final = _sizes(262144, 2304, 9216, 30, 8)
_QWEN3_MOE: Final = {"moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}

GIT: Final = _sizes(30522, 768, 3072, 6, 12)

SECTION_SIZES: Final[dict[str, dict[str, Any]]] = {
    "apertus1p5_text": _sizes(266752, 4096, 14336, 32, 32),
    "aria_text": _sizes(32000, 4096, 4096, 32, 32, num_experts=8, num_experts_per_tok=2),
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "cohere_compass_text": _COHERE,
    "cosmos3_edge_text": _sizes(131072, 2048, 9216, 28, 16),
    "deepseek_v3": _sizes(
        129280, 7168, 18432, 61, 128,
        moe_intermediate_size=2048, num_experts=256, num_experts_per_tok=8, n_shared_experts=1,
        first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    ),
    "emu3_text_model": _sizes(184622, 4096, 14336, 32, 32, num_key_value_heads=8),
    "ernie4_5_vl_moe_text": _sizes(
        103424, 2560, 12288, 28, 20, num_experts=64, num_experts_per_tok=6
    ),
    "exaone4": _EXAONE4,
    "exaone4_5_text": _EXAONE4,
    "gemma": _sizes(256000, 3072, 24576, 28, 16),
    "gemma2": _sizes(256000, 2304, 9216, 26, 8),
    "gemma3_text": _sizes(262208, 2304, 9216, 26, 8),
    "gemma3n_text": _sizes(262400, 2048, 16384, 35, 8),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "glm4v_moe_text": _sizes(
        151424, 4096, 10944, 46, 96,
        attention_bias=True, moe_intermediate_size=1408, num_experts=128, num_experts_per_tok=8,
    ),
    "glm4v_text": _sizes(151552, 4096, 13696, 40, 32),
    "glm_ocr_text": _sizes(59392, 1024, 4096, 16, 16),
    "granite": _LLAMA,
    "granite4_vision_text": _LLAMA,
    "granite_docling_text": _sizes(133800, 1024, 2048, 28, 16, num_key_value_heads=4),
    "hunyuan_vl_text": _sizes(290943, 4096, 11008, 32, 32),
    "hyperclovax": _LLAMA,
    "lfm2": _sizes(65536, 2560, 12288, 32, 32),
    "lfm3": _sizes(128000, 2048, 7680, 24, 16),
    "llama": _LLAMA,
    "llama4_text": _sizes(
        202048, 5120, 8192, 48, 40,
        intermediate_size_mlp=16384, num_experts=16, num_experts_per_tok=1,
    ),
    "ministral3": _sizes(131072, 4096, 14336, 34, 32),
    "mistral": _sizes(32000, 4096, 14336, 32, 32),
    "mllama_text_model": _sizes(128256, 4096, 14336, 40, 32, num_key_value_heads=8),
    "molmo2_text": _sizes(151936, 4096, 12288, 36, 32),
    "muse_glimmer_text": _sizes(202048, 6656, 19968, 52, 32),
    "muse_spark_text": _sizes(
        202048, 8192, 16384, 62, 128,
        moe_intermediate_size=4096, num_experts=256, num_experts_per_tok=8,
    ),
    "paddleocr_vl_text": _sizes(103424, 1024, 3072, 18, 16),
    "phi3": _sizes(32064, 3072, 8192, 32, 32),
    "qwen2": _QWEN,
    "qwen2_5_omni_text": _sizes(152064, 3584, 18944, 28, 28, num_key_value_heads=4),
    "qwen2_5_vl_text": _QWEN2_VL,
    "qwen2_vl_text": _QWEN2_VL,
    "qwen3": _QWEN,
    "qwen3_5_moe_text": _sizes(
        248320, 2048, 2048, 40, 16,
        moe_intermediate_size=512, num_experts=256, num_experts_per_tok=8,
        shared_expert_intermediate_size=512,
    ),
    "qwen3_5_text": _sizes(248320, 4096, 12288, 32, 16),
    "qwen3_moe": _sizes(151936, 2048, 6144, 24, 32, **_QWEN3_MOE),
    "qwen3_omni_moe_text": _sizes(3584, 2048, 18944, 28, 28, **_QWEN3_MOE),
    "qwen3_vl_moe_text": _sizes(
        151936, 2048, 5632, 24, 16,
        num_key_value_heads=16, moe_intermediate_size=1408, num_experts=60, num_experts_per_tok=4,
    ),
    "qwen3_vl_text": _QWEN,
    "unlimited_ocr_text": _sizes(
        129280, 1280, 6848, 12, 10,
        moe_intermediate_size=896, num_experts=64, num_experts_per_tok=6,
    ),
    "voxtral_realtime_text": _sizes(32000, 4096, 14336, 32, 32),
}  # fmt: skip
