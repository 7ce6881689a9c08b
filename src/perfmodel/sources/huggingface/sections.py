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
_GLM4: Final = _sizes(151552, 4096, 13696, 40, 32)
_GEMMA4: Final = _sizes(262144, 2304, 9216, 30, 8)
_QWEN3_MOE: Final = {"moe_intermediate_size": 768, "num_experts": 128, "num_experts_per_tok": 8}

SECTION_SIZES: Final[dict[str, dict[str, Any]]] = {
    "cohere": _COHERE,
    "cohere2": _COHERE,
    "deepseek_v3": _sizes(
        129280, 7168, 18432, 61, 128,
        moe_intermediate_size=2048, num_experts=256, num_experts_per_tok=8, n_shared_experts=1,
        first_k_dense_replace=3, kv_lora_rank=512, q_lora_rank=1536,
        qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128,
    ),
    "gemma": _sizes(256000, 3072, 24576, 28, 16),
    "gemma2": _sizes(256000, 2304, 9216, 26, 8),
    "gemma3_text": _sizes(262208, 2304, 9216, 26, 8),
    "gemma3n_text": _sizes(262400, 2048, 16384, 35, 8),
    "gemma4_text": _GEMMA4,
    "gemma4_unified_text": _GEMMA4,
    "glm4v_text": _GLM4,
    "granite": _LLAMA,
    "llama": _LLAMA,
    "mistral": _sizes(32000, 4096, 14336, 32, 32),
    "ministral3": _sizes(131072, 4096, 14336, 34, 32),
    "mllama_text_model": _sizes(128256, 4096, 14336, 40, 32, num_key_value_heads=8),
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
}  # fmt: skip
