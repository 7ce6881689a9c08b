"""Decoders with multi-head latent attention, every one by the ``model_type`` of its configs."""

from __future__ import annotations

from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.hyper import HYPER
from perfmodel.sources.huggingface.families.latent_sparse import LATENT_SPARSE
from perfmodel.sources.huggingface.families.mla import (
    deepseek,
    deepseek_experts,
    latent_attention,
    mtp_blocks,
    sizes,
)
from perfmodel.sources.huggingface.families.parts import (
    Column,
    Family,
    attention,
    biases,
    decoder,
    divided,
    experts,
    feedforward,
    number_of_layers,
)
from perfmodel.sources.huggingface.families.sparse import dense_or_sparse
from perfmodel.work.shape import ModelShape


def deepseek_v3(c: Config) -> ModelShape:
    """DeepseekV3Config and its like: dense layers first, then experts; MTP blocks at the end."""
    return deepseek(c, latent_attention(c), deepseek_experts(c))


def deepseek_v2(c: Config) -> ModelShape:
    """DeepseekV2Config: no MTP; in small models ``use_mla`` may be false: plain attention."""
    bias = c.flag("mlp_bias", False)
    mla = c.flag("use_mla", True)
    mixer = latent_attention(c) if mla else attention(c, **biases(c))
    sparse = deepseek_experts(c, shared_bias=bias)
    return decoder(c, mixer, dense_or_sparse(c, feedforward(c, bias=bias), sparse))


def axk1(c: Config) -> ModelShape:
    """AXK1Config: DeepSeek V3 with a norm after the experts."""
    return deepseek(c, latent_attention(c), deepseek_experts(c, post_norm="rms"))


def minicpm3(c: Config) -> ModelShape:
    """MiniCPM3Config: dense; value heads default to hidden / heads wide; tied unless it says."""
    stated = c.get("v_head_dim") is not None
    width = c.count("v_head_dim") if stated else divided(c, "hidden_size", "num_attention_heads")
    mixer = latent_attention(c, value_dim=width)
    return decoder(c, mixer, feedforward(c, bias=c.flag("mlp_bias", False)), tied=True)


def youtu(c: Config) -> ModelShape:
    """YoutuConfig: dense; tied unless it says."""
    return decoder(c, latent_attention(c), feedforward(c), tied=True)


def longcat_flash(c: Config) -> ModelShape:
    """LongcatFlashConfig: each block has two of MLA and dense, and experts beside the first dense.

    The experts read what that layer's norm gives; ``zero_expert_num`` choices do nothing. MTP
    blocks are dense.
    """
    mixer, dense = latent_attention(c), feedforward(c)
    sparse = experts(
        c,
        norm=None,
        zero_experts=c.count_or_zero("zero_expert_num", 0),
        router_bias=c.flag("router_bias", False),
    )
    blocks: Column = [(mixer, dense, sparse, mixer, dense)] * number_of_layers(c)
    return decoder(c, blocks, None, mtp=mtp_blocks(c, mixer, dense))


_MISTRAL_SIZES: Final = sizes(
    131_072, 4096, 12_288, 36,
    latents={
        "heads": 32, "query_rank": 1024, "kv_rank": 256,
        "nope_dim": 64, "rope_dim": 64, "value_dim": 128,
    },
    moe_intermediate_size=2048, num_experts=128, num_experts_per_tok=4, n_shared_experts=1,
    first_k_dense_replace=0,
)  # fmt: skip
_RANK: Final = {"q_lora_rank": 1536}
_MTP_NAMES: Final = {"num_nextn_predict_layers": ("num_mtp_layers",)}
_LONGCAT_NAMES: Final = {
    "intermediate_size": ("ffn_hidden_size",),
    "moe_intermediate_size": ("expert_ffn_hidden_size",),
    "num_hidden_layers": ("num_layers",),
}
_YOUTU: Final = Family(("YoutuForCausalLM",), youtu, defaults=_RANK)

LATENT: Final = {
    **HYPER,
    **LATENT_SPARSE,
    "axk1": Family(("AXK1ForCausalLM",), axk1, defaults={**_RANK, "first_k_dense_replace": 1}),
    "deepseek_v2": Family(("DeepseekV2ForCausalLM",), deepseek_v2, defaults=_RANK),
    "deepseek_v3": Family(("DeepseekV3ForCausalLM",), deepseek_v3, _MTP_NAMES, _RANK),
    "glm4_moe_lite": Family(
        ("Glm4MoeLiteForCausalLM",),
        deepseek_v3,
        defaults={"q_lora_rank": 768, "first_k_dense_replace": 1},
    ),
    "kimi_k2": Family(
        ("DeepseekV3ForCausalLM", "KimiK2ForCausalLM"), deepseek_v3, _MTP_NAMES, _RANK
    ),
    "longcat_flash": Family(("LongcatFlashForCausalLM",), longcat_flash, _LONGCAT_NAMES, _RANK),
    "minicpm3": Family(("MiniCPM3ForCausalLM",), minicpm3, defaults={"q_lora_rank": 768}),
    "mistral4": Family(("Mistral4ForCausalLM",), deepseek_v3, defaults=_MISTRAL_SIZES),
    "sarvam_mla": Family(
        ("SarvamMLAForCausalLM", "DeepseekV3ForCausalLM"), deepseek_v3, _MTP_NAMES
    ),
    "youtu": _YOUTU,
    "youtu_llm": _YOUTU,
}
