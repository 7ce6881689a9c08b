"""Layers of constant state: delta nets, lightning attention, convolutions, and their hybrids.

Sizes are written out by hand. Totals are those that the checkpoints' own shards add up to; what a
chunk costs is listed product by product from the papers. Nothing here was computed by perfmodel.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, UnsupportedModelError
from perfmodel.work.layers import (
    ConvolutionalAttention,
    GatedDeltaNet,
    GatedResidual,
    KimiDeltaAttention,
    LightningAttention,
    NetworkRoutedExperts,
    NGramEmbedding,
    RelativeAttention,
    ResidualConvolution,
    ShortConvolution,
)
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.step import Group, Step

CHIP = pm.GpuSpec(name="chip", memory_bandwidth=1e12, peak_flops={"bf16": 1e15})

QWEN3_NEXT: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}
QWEN3_5_35B: dict[str, Any] = QWEN3_NEXT | {
    "model_type": "qwen3_5_moe_text",
    "num_hidden_layers": 40,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "vocab_size": 248320,
    "mtp_num_hidden_layers": 1,
}
QWEN3_5_397B: dict[str, Any] = QWEN3_5_35B | {
    "hidden_size": 4096,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "linear_num_value_heads": 64,
    "moe_intermediate_size": 1024,
    "shared_expert_intermediate_size": 1024,
    "num_experts": 512,
    "num_experts_per_tok": 10,
}
QWEN3_6_27B: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "linear_num_value_heads": 48,
    "vocab_size": 248320,
    "mtp_num_hidden_layers": 1,
}
QWEN4_EXP: dict[str, Any] = QWEN3_NEXT | {
    "model_type": "qwen4_exp_text",
    "hidden_size": 2560,
    "num_attention_heads": 24,
    "linear_num_value_heads": 48,
    "moe_intermediate_size": 640,
    "shared_expert_intermediate_size": 640,
    "vocab_size": 248320,
    "ple_layer_ids": [2],
    "ple_embed_dim": 2560,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
    "mtp_num_hidden_layers": 1,
}
LFM2_1_2B: dict[str, Any] = {
    "model_type": "lfm2",
    "hidden_size": 2048,
    "block_ff_dim": 12288,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
    "conv_L_cache": 3,
    "vocab_size": 65536,
}
LFM2_8B_A1B: dict[str, Any] = {
    "model_type": "lfm2_moe",
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
    "layer_types": ["full_attention" if i in (2, 6, 10, 14, 18, 21) else "conv" for i in range(24)],
    "vocab_size": 65536,
}
MINIMAX_M1: dict[str, Any] = {
    "model_type": "minimax_m1",
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "attn_type_list": ([0] * 7 + [1]) * 10,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 0,
    "vocab_size": 200064,
}
KIMI_FULL = [4, 8, 12, 16, 20, 24, 27]
KIMI_LINEAR: dict[str, Any] = {
    "model_type": "kimi_linear",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "moe_intermediate_size": 1024,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
    "vocab_size": 163840,
    "linear_attn_config": {
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
        "full_attn_layers": KIMI_FULL,
        "kda_layers": [i for i in range(1, 28) if i not in KIMI_FULL],
    },
}
LING_3_TINY: dict[str, Any] = KIMI_LINEAR | {
    "model_type": "bailing_hybrid",
    "hidden_size": 1536,
    "intermediate_size": 4608,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "head_dim": 128,
    "q_lora_rank": 256,
    "layer_group_size": 4,
    "moe_intermediate_size": 512,
    "num_experts": 128,
    "vocab_size": 157184,
}
ZAYA1_8B: dict[str, Any] = {
    "model_type": "zaya",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "moe_intermediate_size": 2048,
    "num_experts": 16,
    "vocab_size": 262272,
}
HRM_TEXT_1B: dict[str, Any] = {
    "model_type": "hrm_text",
    "hidden_size": 1536,
    "intermediate_size": 4096,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "vocab_size": 151808,
}
LARA_MINI: dict[str, Any] = QWEN3_NEXT | {
    "model_type": "lara_mini",
    "hidden_size": 1024,
    "num_hidden_layers": 10,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 128,
    "num_experts_per_tok": 4,
}
HYBRIDS = {
    config["model_type"]: config
    for config in (
        QWEN3_NEXT, QWEN3_5_35B, QWEN3_6_27B, QWEN4_EXP, LFM2_1_2B, LFM2_8B_A1B, MINIMAX_M1,
        KIMI_LINEAR, LING_3_TINY, ZAYA1_8B, HRM_TEXT_1B, LARA_MINI,
    )
}  # fmt: skip


def operations(
    shape: pm.ModelShape, *, new: int, past: int = 0, batch: int = 1
) -> tuple[pm.Operation, ...]:
    group = Group(count=batch, new=new, past=past, logits=new)
    return pm.forward(shape, Step(groups=(group,)), "bf16")


def flops_of(shape: pm.ModelShape, name: str, **step: int) -> float:
    return sum(op.flops * op.calls for op in operations(shape, **step) if op.name == name)


def alone(layer: Any, hidden: int = 64) -> pm.ModelShape:
    return pm.ModelShape(hidden=hidden, blocks=((1, (layer,)),))


def chunked(shape: pm.ModelShape) -> pm.ModelShape:
    return shape.with_(scan="chunked")


# -- totals of checkpoints ------------------------------------------------------------------------


def test_qwen3_next_by_hand() -> None:
    # 16 query and key heads, 32 value heads of 128: 2 x 2048 + 4096 channels are convolved.
    # Queries, keys, values, gate  2048 x 12288  25,165,824    decay and rate  2048 x 64  131,072
    # convolution  8192 x 4  32,768    decay, bias  2 x 32    norm  128
    # out  4096 x 2048  8,388,608
    delta = 25_165_824 + 131_072 + 32_768 + 64 + 128 + 8_388_608
    # Queries with their gates  2048 x 8192, keys and values  2 x 2048 x 512, out, two norms of 256.
    attention = 16_777_216 + 2_097_152 + 8_388_608 + 512
    # Router  2048 x 512, 512 experts of  3 x 2048 x 512, a shared one, its gate.
    experts = 1_048_576 + 512 * 3_145_728 + 3_145_728 + 2_048
    ends = 2 * 151_936 * 2_048 + 2_048
    total = 36 * delta + 12 * attention + 48 * (experts + 2 * 2_048) + ends
    shape = pm.read_hf(QWEN3_NEXT)
    assert total == 79_674_391_296
    assert shape.params == total
    # 80 B, of which a token meets 3 B: 3,252,400,896, ends and the 97 norms apart.
    assert shape.active_params - 2 * 151_936 * 2_048 - 97 * 2_048 == 3_252_400_896


def test_qwen3_next_with_its_extra_block() -> None:
    # 162,649,725,440 bytes in the shards of Qwen3-Next-80B-A3B-Instruct, 2 each; the config does
    # not tell of the extra block, so the test does.
    shape = pm.read_hf(QWEN3_NEXT | {"mtp_num_hidden_layers": 1})
    assert shape.params == pm.read_hf(QWEN3_NEXT).params
    assert shape.params + shape.mtp_params == 162_649_725_440 // 2


@pytest.mark.parametrize(
    ("config", "tower", "published"),
    [
        # Qwen3.5-35B-A3B and Qwen3.5-397B-A17B as their pages count them, Qwen3.8-27B likewise.
        (QWEN3_5_35B, 446_571_248, 35_951_822_704),
        (QWEN3_5_397B, 456_010_480, 403_397_928_944),
        (QWEN3_6_27B, 460_730_096, 27_781_427_952),
        # Qwen's n-gram model: 359,999,963,128 bytes, 280 of them tables of hash constants.
        (QWEN4_EXP, 448_931_056, (359_999_963_128 - 280) // 2),
    ],
)
def test_qwen_checkpoints_are_decoder_tower_and_extra_block(
    config: dict[str, Any], tower: int, published: int
) -> None:
    shape = pm.read_hf(config)
    assert shape.params + shape.mtp_params + tower == published


def test_further_extra_blocks_share_the_entry() -> None:
    one = pm.read_hf(QWEN3_5_35B)
    two = pm.read_hf(QWEN3_5_35B | {"mtp_num_hidden_layers": 2})
    # The entry projects 2 x 2048 onto 2048 and has three norms.
    assert two.mtp_params - one.mtp_params == one.mtp_params - (2 * 2_048 * 2_048 + 3 * 2_048)


def test_lfm2_by_hand() -> None:
    # In  2048 x 6144, convolution  2048 x 3, out  2048 x 2048.
    convolution = 12_582_912 + 6_144 + 4_194_304
    # 32 query heads of 64, 8 key and value heads, two norms of 64.
    attention = 4_194_304 + 2 * 1_048_576 + 4_194_304 + 128
    # Two thirds of 12288 are 8192, a multiple of 256.
    feedforward = 3 * 2_048 * 8_192
    ends = 65_536 * 2_048 + 2_048  # tied
    total = 10 * convolution + 6 * attention + 16 * (feedforward + 2 * 2_048) + ends
    assert total == 1_170_340_608  # LFM2-1.2B
    assert pm.read_hf(LFM2_1_2B).params == total


@pytest.mark.parametrize(
    ("keys", "width"),
    [
        ({}, 8_192),
        ({"block_auto_adjust_ff_dim": False}, 12_288),
        ({"block_ffn_dim_multiplier": 1.3}, 10_752),  # 10649.6 rounded down, then up to x 256
        ({"block_ffn_dim_multiplier": 1.3, "block_multiple_of": 1}, 10_649),
        (
            {"block_ffn_dim_multiplier": None, "block_ff_dim": 1_000},
            666,
        ),  # neither scaled nor rounded
        ({"block_ff_dim": 1_000}, 768),
    ],
)
def test_width_of_lfm2_feedforward(keys: dict[str, Any], width: int) -> None:
    shape = pm.read_hf(LFM2_1_2B | keys)
    assert {layer.width for _, layer in shape.distinct_layers if layer.kind == "feedforward"} == {
        width
    }


def test_lfm2_attends_everywhere_without_a_list() -> None:
    config = {key: value for key, value in LFM2_1_2B.items() if key != "full_attn_idxs"}
    assert pm.read_hf(config).state_bytes("bf16") == 0
    listed = pm.read_hf(LFM2_1_2B)
    types = ["full_attention" if i in (2, 5, 8, 10, 12, 14) else "conv" for i in range(16)]
    assert pm.read_hf(config | {"layer_types": types}) == listed


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (LFM2_8B_A1B, 8_339_929_856),
        (MINIMAX_M1, 456_089_655_296),
        # The shards hold the 256 biases of each router's choice too, which are no parameters.
        (KIMI_LINEAR, 49_122_681_728 - 26 * 256),
    ],
)
def test_checkpoints_that_are_all_decoder(config: dict[str, Any], published: int) -> None:
    assert pm.read_hf(config).params == published


def test_what_papers_say_in_billions() -> None:
    # MiniMax-01: 456 B, 45.9 B of them active; ends apart.
    minimax = pm.read_hf(MINIMAX_M1)
    assert minimax.params / 1e9 == pytest.approx(456, abs=0.5)
    active = minimax.active_params - 2 * 200_064 * 6_144
    assert active / 1e9 == pytest.approx(45.9, abs=0.05)
    # Kimi Linear: 48 B and 3 B, ends apart.
    kimi = pm.read_hf(KIMI_LINEAR)
    assert kimi.non_embedding_params / 1e9 == pytest.approx(48, abs=0.5)
    assert (kimi.active_params - 2 * 163_840 * 2_304) / 1e9 == pytest.approx(3, abs=0.5)
    # Ling 3.0 tiny: 7.9 B. ZAYA1-8B: 760 M active, ends apart.
    assert pm.read_hf(LING_3_TINY).params / 1e9 == pytest.approx(7.9, abs=0.05)
    zaya = pm.read_hf(ZAYA1_8B)
    assert (zaya.active_params - 262_272 * 2_048) / 1e6 == pytest.approx(760, abs=10)


def test_minimax_by_hand() -> None:
    # Lightning: queries, keys, values, gate and out are 6144 x 8192 each; a norm of 8192.
    lightning = 5 * 50_331_648 + 8_192
    attention = 2 * 50_331_648 + 2 * 6_144 * 1_024
    experts = 32 * 3 * 6_144 * 9_216 + 32 * 6_144
    ends = 2 * 200_064 * 6_144 + 6_144
    total = 70 * lightning + 10 * attention + 80 * (experts + 2 * 6_144) + ends
    assert pm.read_hf(MINIMAX_M1).params == total
    # The converted checkpoint names the kinds; the released one numbers them.
    kinds = (["linear_attention"] * 7 + ["full_attention"]) * 10
    converted = {k: v for k, v in MINIMAX_M1.items() if k != "attn_type_list"}
    assert pm.read_hf(converted | {"model_type": "minimax", "layer_types": kinds}).params == total


def test_kimi_delta_attention_by_hand() -> None:
    # 32 heads of 128 over 2304: queries, keys, values, out  4 x 2304 x 4096; decay and gate
    # through 128  2 x (2304 x 128 + 128 x 4096); rate  2304 x 32; convolution  12288 x 4; a bias
    # of the decay a channel, its scale a head; a norm of 128.
    layer = KimiDeltaAttention(heads=32, head_dim=128, gate_rank=128, norm=None)
    matrices = 4 * 9_437_184 + 2 * (294_912 + 524_288) + 73_728
    assert layer.params(2_304) == matrices + 49_152 + 4_096 + 32 + 128
    full_rank = KimiDeltaAttention(heads=32, head_dim=128, norm=None)
    assert full_rank.params(2_304) - layer.params(2_304) == 2 * (9_437_184 - 294_912 - 524_288)


def test_ling_gates_its_latent_attention_head_by_head() -> None:
    # Ling 3.0 tiny has 16 gates of 1536 in each of its 6 layers of latent attention.
    layer = next(x for _, x in pm.read_hf(LING_3_TINY).distinct_layers if x.kind == "latent")
    assert layer.params(1_536) - layer.model_copy(update={"gate": None}).params(1_536) == 16 * 1_536


def test_convolutional_attention_by_hand() -> None:
    # 8 query heads and 2 key heads of 128: 1280 channels. First convolution  1280 x 2, second
    # 10 heads of  128 x 2 x 128, a bias a channel each; queries, keys, both halves of the values.
    layer = ConvolutionalAttention(
        heads=8, kv_heads=2, head_dim=128, channel_kernel=2, head_kernel=2, norm=None
    )
    qkv, out = 2_048 * (1_024 + 256 + 256), 1_024 * 2_048
    assert layer.params(2_048) == qkv + out + 2_560 + 327_680 + 2 * 1_280
    # Each convolution looks back one token; a value head's lagging half is that of 2 x 64 channels.
    assert alone(layer, 2_048).state_bytes("bf16") == 2 * (2 * 1_280 + 128)
    # One token: 2 FLOPs a weight of both convolutions.
    assert flops_of(alone(layer, 2_048), "convolution", new=1) == 2 * (2_560 + 327_680)


def test_network_router_by_hand() -> None:
    # Down  2048 x 256, two layers of  256 x 256, 17 outputs; three biases and a norm of 256, and
    # the scale of the router before.
    routed = NetworkRoutedExperts(
        experts=16, top_k=1, width=2_048, router_width=17, router_rank=256, norm=None
    )
    experts = 16 * 3 * 2_048 * 2_048
    router = 2_048 * 256 + 2 * 65_536 + 256 * 17 + 4 * 256
    assert routed.params(2_048) == experts + router
    carried = routed.model_copy(update={"carries_router": True})
    assert carried.params(2_048) == experts + router + 256


def test_gated_residual_and_n_grams_by_hand() -> None:
    # 4 streams of 2560: a norm, down to 320 and up again, 4 weights of the result.
    gate = GatedResidual(streams=4, rank=320)
    assert gate.params(2_560) == 10_240 + 2 * 10_240 * 320 + 10_240 * 4
    # 16 heads of 160: the next primes from 20,000,000 up add to 320,001,446 rows, which are padded
    # to a multiple of 128; a key for each stream, a value, three norms, a convolution over 4.
    table = next(x for _, x in pm.read_hf(QWEN4_EXP).distinct_layers if x.kind == "ngram")
    assert isinstance(table, NGramEmbedding)
    assert table.rows == 320_001_536
    others = 2_560 * (10_240 + 2_560) + 3 * 10_240 + 10_240 * 4
    assert table.params(2_560) == 320_001_536 * 160 + others
    # The convolution is dilated by 3 and keeps 9 columns; 2 tokens of 8 bytes are remembered.
    assert table.state_bytes(pm.Precision.preset("bf16")) == 9 * 10_240 * 2 + 2 * 8


def test_olmo_hybrid_by_hand() -> None:
    # 30 heads: keys of  3/4 x 3840 / 30 = 96, values twice as wide. Queries and keys
    # 3840 x 2880, values, gate and out  3840 x 5760, decay and rate  3840 x 30 each.
    delta = 2 * 11_059_200 + 3 * 22_118_400 + 2 * 115_200 + 11_520 * 4 + 2 * 30 + 192
    attention = 4 * 3_840 * 3_840 + 2 * 3_840  # norms over the full width
    feedforward = 3 * 3_840 * 11_008
    ends = 2 * 100_352 * 3_840 + 3_840
    shape = pm.read_hf(
        {
            "model_type": "olmo_hybrid",
            "hidden_size": 3840,
            "intermediate_size": 11008,
            "num_hidden_layers": 32,
            "num_attention_heads": 30,
            "vocab_size": 100352,
        }
    )
    assert shape.params == 24 * delta + 8 * attention + 32 * (feedforward + 2 * 3_840) + ends
    # Attention and the feed-forward behind it are normed after, delta nets and theirs before.
    norms = [[(layer.norm, layer.post_norm) for layer in layers] for _, layers in shape.blocks[:2]]
    assert norms == [[("rms", None)] * 2, [(None, "rms")] * 2]


def test_hrm_runs_what_it_holds_once() -> None:
    # Two stacks of 16 blocks: queries, keys, values, gate, out  5 x 1536 x 1536; a gated
    # feed-forward of 4096; norms have learned nothing. A first state, embedding and head.
    block = 5 * 1_536 * 1_536 + 3 * 1_536 * 4_096
    shape = pm.read_hf(HRM_TEXT_1B)
    assert shape.params == 32 * block + 1_536 + 2 * 151_808 * 1_536
    # The low stack runs 3 times before the high one, and all of it twice: 128 blocks, each with
    # its own cache, 3 GiB at a context of 4096.
    assert shape.layers == 128
    assert shape.cache_bytes(4_096, "bf16") == 3 * 2**30
    down = [op for op in operations(shape, new=1) if op.name == "down"]
    assert sum(op.calls for op in down) == 128


# -- which layer is what --------------------------------------------------------------------------

LFM3 = LFM2_1_2B | {"model_type": "lfm3", "intermediate_size": 7680}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (QWEN3_NEXT, "delta delta delta full delta delta delta full"),
        (QWEN3_NEXT | {"full_attention_interval": 2}, "delta full delta full"),
        (LARA_MINI, "delta window delta full window delta window delta full window"),
        (LFM3, "conv conv full conv window conv full conv window conv full conv"),
        (
            {k: v for k, v in MINIMAX_M1.items() if k != "attn_type_list"}
            | {"model_type": "minimax"},
            "full lightning full lightning",
        ),
        (
            {k: v for k, v in KIMI_LINEAR.items() if k != "linear_attn_config"},
            "kimi kimi kimi kimi latent kimi kimi kimi latent",
        ),
        (LING_3_TINY, "kimi kimi kimi latent kimi kimi kimi latent"),
    ],
)
def test_rules_where_nothing_is_listed(config: dict[str, Any], expected: str) -> None:
    words = {"kimi_delta": "kimi", "convolution": "conv"}
    found = []
    for repeats, (mixer, *_) in pm.read_hf(config).blocks:
        kind = "full" if mixer.kind == "attention" else words.get(mixer.kind, mixer.kind)
        found += [kind if getattr(mixer, "window", None) is None else "window"] * repeats
    assert " ".join(found).startswith(expected)


# -- caches and states --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "layers", "each"),
    [
        (QWEN3_NEXT, 12, 2 * 2 * 256 * 2),  # every fourth of 48
        (QWEN3_6_27B, 16, 2 * 4 * 256 * 2),
        (LFM2_1_2B, 6, 2 * 8 * 64 * 2),
        (MINIMAX_M1, 10, 2 * 8 * 128 * 2),
        (KIMI_LINEAR, 7, (512 + 64) * 2),
        (LING_3_TINY, 6, (512 + 64) * 2),
        (ZAYA1_8B, 40, 2 * 2 * 128 * 2),
        (QWEN4_EXP, 12, (2 * 2 * 256 + 128) * 2),  # and the key that selects
    ],
)
def test_only_attention_caches(config: dict[str, Any], layers: int, each: int) -> None:
    shape = pm.read_hf(config)
    assert shape.kv_bytes_per_token("bf16") == layers * each
    assert shape.kv_bytes_per_token("bf16", context=100_000) == layers * each


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        # 4 columns of 8192 channels in bf16; 32 heads of 128 x 128 in fp32.
        (QWEN3_NEXT, 36 * (8_192 * 4 * 2 + 32 * 128 * 128 * 4)),
        (QWEN3_6_27B, 48 * (10_240 * 4 * 2 + 48 * 128 * 128 * 4)),
        (LFM2_1_2B, 10 * 2_048 * 3 * 2),
        (MINIMAX_M1, 70 * 64 * 128 * 128 * 2),  # like activations
        (KIMI_LINEAR, 20 * (12_288 * 4 * 2 + 32 * 128 * 128 * 4)),
        (ZAYA1_8B, 40 * 2 * (2 * 1_280 + 128)),
    ],
)
def test_states_by_hand(config: dict[str, Any], expected: int) -> None:
    assert pm.read_hf(config).state_bytes("bf16") == expected


def test_engines_may_keep_a_column_less() -> None:
    shape = pm.read_hf(QWEN3_NEXT)
    less = shape.state_bytes("bf16") - shape.with_(conv_state=3).state_bytes("bf16")
    assert less == 36 * 8_192 * 2


@pytest.mark.parametrize("name", list(HYBRIDS))
def test_states_are_constant_and_caches_grow_no_faster(name: str) -> None:
    shape = pm.read_hf(HYBRIDS[name])
    held = [shape.cache_bytes(context, "bf16") for context in (0, 100, 200, 2_000, 4_000, 6_000)]
    per_token = [
        (held[1] - held[0]) / 100,
        (held[2] - held[1]) / 100,
        (held[3] - held[2]) / 1_800,
        (held[4] - held[3]) / 2_000,
        (held[5] - held[4]) / 2_000,
    ]
    assert held[0] == 0
    assert all(a >= b > 0 for a, b in pairwise(per_token))
    held_by_state = [
        pm.memory(shape, CHIP, batch=2, context=context, precision="bf16").state
        for context in (1, 10_000)
    ]
    assert held_by_state == [2 * shape.state_bytes("bf16")] * 2


@pytest.mark.parametrize("config", [QWEN3_NEXT, MINIMAX_M1, KIMI_LINEAR, LFM2_1_2B])
def test_each_step_reads_and_writes_the_state(config: dict[str, Any]) -> None:
    shape = pm.read_hf(config)
    # Of a convolution over k tokens, k - 1 are read, and each new one is written, up to as many.
    recurrent = [(n, x) for n, x in shape.distinct_layers if isinstance(x, Recurrent)]
    column = sum(n * 2 * x.conv_channels for n, x in recurrent)
    kernels = {x.conv_kernel for _, x in recurrent if x.conv_channels} or {1}
    (kernel,) = kernels
    state = shape.state_bytes("bf16") - kernel * column

    def moved(**step: int) -> float:
        return sum(op.calls * op.kv_bytes for op in operations(shape, **step) if op.kind == "scan")

    assert moved(new=1, past=1_000, batch=8) == 8 * (2 * state + kernel * column)
    assert moved(new=1, past=100_000, batch=8) == 8 * (2 * state + kernel * column)
    assert moved(new=500, past=1_000) == 2 * (state + (kernel - 1) * column)
    assert moved(new=500) == state + (kernel - 1) * column  # there is nothing to read yet


def test_a_state_does_not_grow_with_what_attention_grows_with() -> None:
    shape = pm.read_hf(KIMI_LINEAR)
    near, far = (
        pm.decode(shape, CHIP, batch=1, context=context, precision="bf16")
        for context in (1_000, 1_000_000)
    )
    scans = [{op.name: op for op in s.operations if op.kind == "scan"} for s in (near, far)]
    assert scans[0] == scans[1]


# -- FLOPs along the sequence -------------------------------------------------------------------


def product(rows: int, inner: int, columns: int) -> int:
    return 2 * rows * inner * columns


DELTA = GatedDeltaNet(key_heads=1, value_heads=2, key_dim=96, value_dim=192)
KIMI = KimiDeltaAttention(heads=3, head_dim=128)
LIGHTNING = LightningAttention(heads=5, head_dim=128)


def delta_chunk(c: int, k: int, v: int) -> int:
    # Gated Delta Networks, section 3.3: keys on keys, queries on keys; keys and queries on the
    # state; values by their scores; keys on values into the state.
    pairs = 2 * product(c, k, c) + product(c, c, v)
    return pairs + 2 * product(c, k, v) + product(k, c, v)


def kimi_chunk(c: int, d: int) -> int:
    # Kimi Linear, section 3.2: the solved system on values and on keys; keys and queries on the
    # state; values by their scores; keys on values into the state.
    return 3 * product(c, c, d) + 2 * product(c, d, d) + product(d, c, d)


def lightning_block(c: int, d: int) -> int:
    # Lightning Attention-2, algorithm 1: queries on keys, values by them; queries on the state;
    # keys on values into the state.
    return product(c, d, c) + product(c, c, d) + product(c, d, d) + product(d, c, d)


@pytest.mark.parametrize(
    ("layer", "heads", "state", "each"),
    [(DELTA, 2, 96 * 192, 7), (KIMI, 3, 128 * 128, 7), (LIGHTNING, 5, 128 * 128, 5)],
)
def test_token_by_token(layer: Any, heads: int, state: int, each: int) -> None:
    # Each number of the state: decay 1, the correction's inner product 2 (none in lightning
    # attention), its outer product 2, the query's inner product 2.
    shape = alone(layer)
    assert flops_of(shape, "scan", new=1, past=7) == heads * state * each
    assert flops_of(shape, "scan", new=100) == 100 * heads * state * each
    assert flops_of(shape, "scan", new=100, past=9, batch=4) == 400 * heads * state * each
    # One token is never run as a chunk.
    assert flops_of(chunked(shape), "scan", new=1, past=7) == heads * state * each


@pytest.mark.parametrize(("new", "chunks"), [(2, 1), (64, 1), (65, 2), (640, 10)])
def test_delta_nets_in_chunks(new: int, chunks: int) -> None:
    # The last chunk is filled up with nothing.
    delta, kimi = chunked(alone(DELTA)), chunked(alone(KIMI))
    assert flops_of(delta, "scan", new=new) == chunks * 2 * delta_chunk(64, 96, 192)
    assert flops_of(kimi, "scan", new=new) == chunks * 3 * kimi_chunk(64, 128)


@pytest.mark.parametrize(
    ("new", "blocks"), [(2, [2]), (256, [256]), (300, [256, 44]), (1024, [256] * 4)]
)
def test_lightning_attention_in_blocks(new: int, blocks: list[int]) -> None:
    # The last block is cut off.
    expected = 5 * sum(lightning_block(block, 128) for block in blocks)
    assert flops_of(chunked(alone(LIGHTNING)), "scan", new=new) == expected


@pytest.mark.parametrize(
    ("config", "new", "batch", "counted"),
    [
        # What the counter of PyTorch finds in the scans of Transformers 5.24.
        (QWEN3_NEXT, 32, 1, 10_871_635_968),
        (QWEN3_NEXT, 64, 2, 21_743_271_936),
        (QWEN3_6_27B, 32, 1, 21_743_271_936),
        (QWEN3_5_397B, 64, 2, 54_358_179_840),
    ],
)
def test_scans_as_they_are_counted_elsewhere(
    config: dict[str, Any], new: int, batch: int, counted: int
) -> None:
    assert flops_of(chunked(pm.read_hf(config)), "scan", new=new, batch=batch) == counted


def test_chunks_cost_more_flops_than_the_recurrence() -> None:
    # They buy matrix products with them. A block of lightning attention of less than a quarter of
    # a head's width is cheaper: its few pairs cost less than decaying the state each time.
    for layer in (DELTA, KIMI, LIGHTNING):
        shape = alone(layer)
        for new in (64, 256, 1_000):
            plain = flops_of(shape, "scan", new=new)
            assert flops_of(chunked(shape), "scan", new=new) > plain


def test_work_grows_with_the_prompt_alone() -> None:
    shape = alone(DELTA)
    assert flops_of(shape, "scan", new=1_000, past=0) == flops_of(
        shape, "scan", new=1_000, past=50_000
    )


def test_convolutions_cost_two_flops_a_weight() -> None:
    # 8192 channels over 4 tokens, in 36 layers.
    shape = pm.read_hf(QWEN3_NEXT)
    assert flops_of(shape, "convolution", new=32) == 36 * 32 * 2 * 8_192 * 4
    for layer, channels, kernel in (
        (ShortConvolution(channels=64, conv_kernel=3), 64, 3),
        (ResidualConvolution(channels=48, conv_kernel=4), 48, 4),
    ):
        assert flops_of(alone(layer), "convolution", new=10) == 10 * 2 * channels * kernel


def test_biases_of_a_short_convolution() -> None:
    plain = ShortConvolution(channels=64, conv_kernel=3)
    # One a channel, three in, one out.
    biased = plain.model_copy(update={"bias": True})
    assert biased.params(64) - plain.params(64) == 64 + 3 * 64 + 64


def test_relative_attention_by_hand() -> None:
    # Queries 4 x 32, keys and values 2 x 32 each, 16 numbers a head; 16 profiles over 100
    # distances; keys and values convolved over 4 tokens, whose last inputs stay in fp32.
    layer = RelativeAttention(heads=4, kv_heads=2, head_dim=32, profiles=16, extent=100, norm=None)
    assert layer.params(64) == 64 * (128 + 128 + 64) + 1_600 + 128 * 64 + 128 * 4
    assert alone(layer).state_bytes("bf16") == 128 * 4 * 4
    assert flops_of(alone(layer), "profiles", new=3) == 3 * 4 * 2 * 1_600
    # Per-token weights of both convolutions, a head and a tap each; a sink a head; gates.
    more = layer.model_copy(update={"dynamic": True, "sinks": True, "gate": "value"})
    assert more.params(64) - layer.params(64) == 64 * (2 * 2 * 4 + 4 + 128)


# -- contradictions -------------------------------------------------------------------------------


def kimi(**keys: Any) -> dict[str, Any]:
    return KIMI_LINEAR | {"linear_attn_config": KIMI_LINEAR["linear_attn_config"] | keys}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (QWEN3_NEXT | {"layer_types": ["full_attention"] * 47}, ["layer_types", "48"]),
        (QWEN3_NEXT | {"layer_types": ["mamba"] * 48}, ["layer_types", "'mamba'"]),
        (QWEN3_NEXT | {"linear_num_value_heads": 24}, ["linear_num_value_heads", "24", "16"]),
        (QWEN3_NEXT | {"num_experts_per_tok": 513}, ["num_experts_per_tok", "num_experts=512"]),
        (QWEN3_NEXT | {"full_attention_interval": 0}, ["full_attention_interval"]),
        (LFM2_1_2B | {"full_attn_idxs": [2, 16]}, ["full_attn_idxs", "16"]),
        (LFM2_1_2B | {"intermediate_size": 8192}, ["intermediate_size", "block_ff_dim"]),
        (LFM2_1_2B | {"layer_types": ["conv"] * 15 + ["linear_attention"]}, ["layer_types"]),
        (LFM2_8B_A1B | {"layer_types": None}, ["layer_types", "required"]),
        (MINIMAX_M1 | {"attn_type_list": None}, ["attn_type_list", "required"]),
        (MINIMAX_M1 | {"attn_type_list": [0] * 79}, ["attn_type_list", "80"]),
        (MINIMAX_M1 | {"attn_type_list": [0] * 79 + [2]}, ["attn_type_list", "0 and 1"]),
        (kimi(kda_layers=[1, 2, 3]), ["linear_attn_config.kda_layers", "27"]),
        (kimi(kda_layers=list(range(1, 28))), ["linear_attn_config.kda_layers", "once"]),
        (kimi(full_attn_layers=[28]), ["linear_attn_config.full_attn_layers", "28"]),
        (kimi(num_heads=0), ["linear_attn_config.num_heads"]),
        (ZAYA1_8B | {"num_experts_per_tok": 2}, ["num_experts_per_tok", "1"]),
        (ZAYA1_8B | {"layer_types": ["hybrid_sliding"] * 40}, ["sliding_window", "required"]),
        (HRM_TEXT_1B | {"num_layers_per_stack": 15}, ["num_hidden_layers", "15"]),
        (QWEN4_EXP | {"ple_layer_ids": [4]}, ["ple_layer_ids", "linear"]),
        (QWEN4_EXP | {"ple_layer_ids": [0]}, ["ple_layer_ids"]),
        (QWEN4_EXP | {"indexer_budget": 2047}, ["indexer_budget", "indexer_compress_ratio=4"]),
        (QWEN4_EXP | {"indexer_kv_heads": 2}, ["indexer_kv_heads", "1"]),
        (QWEN4_EXP | {"ple_embed_dim": 100}, ["ple_embed_dim", "16"]),
        (QWEN4_EXP | {"heads_per_ngram": 10**9}, ["heads_per_ngram"]),
    ],
)
def test_contradictions_are_refused(config: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        pm.read_hf(config)
    for word in words:
        assert word in str(caught.value)


def test_an_older_generation_of_the_same_type_is_refused() -> None:
    # Ling 2.5 shares the type, not the layers.
    with pytest.raises(UnsupportedModelError, match="architectures"):
        pm.read_hf(LING_3_TINY | {"architectures": ["BailingMoeV2_5ForCausalLM"]})


def test_value_heads_are_a_multiple_of_key_heads() -> None:
    with pytest.raises(InvalidValueError, match=r"value_heads: .* key_heads=4, got 6"):
        GatedDeltaNet(key_heads=4, value_heads=6, key_dim=8, value_dim=8)
