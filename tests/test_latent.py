"""Latent attention and its kin: published counts, hand arithmetic of both forms, invariants.

Totals are those of the published checkpoints, which hold more than the language model proper: the
extra prediction blocks, some with copies of both tables, and buffers, such as a bias a routed
expert. What is added to reach them is written out.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, UnsupportedModelError
from perfmodel.work.layers import Attention, CompressedAttention, HyperConnection, LatentAttention
from perfmodel.work.layers.entries import Entries
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.latent import Form
from perfmodel.work.operation import Operation
from perfmodel.work.step import Group, Step

BF16 = pm.Precision.preset("bf16")

V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "architectures": ["DeepseekV3ForCausalLM"],
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_layer_freq": 1,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
}
V2 = {
    **V3,
    "model_type": "deepseek_v2",
    "architectures": ["DeepseekV2ForCausalLM"],
    "vocab_size": 102400,
    "hidden_size": 5120,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 60,
    "n_shared_experts": 2,
    "n_routed_experts": 160,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
}
V2_LITE = {
    **V2,
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": 27,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "n_routed_experts": 64,
    "q_lora_rank": None,
}
KIMI_K2 = {
    **V3,
    "model_type": "kimi_k2",
    "vocab_size": 163840,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_routed_experts": 384,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 0,
}
V32 = {
    **V3,
    "model_type": "deepseek_v32",
    "architectures": ["DeepseekV32ForCausalLM"],
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
}
GLM_5_2 = {
    **V32,
    "model_type": "glm_moe_dsa",
    "architectures": ["GlmMoeDsaForCausalLM"],
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 192,  # of no use: keys are 192 + 64 wide
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "index_n_heads": 32,
    "index_topk_freq": 4,
    "index_skip_topk_offset": 3,
}
V4_FLASH: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "architectures": ["DeepseekV4ForCausalLM"],
    "vocab_size": 129280,
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 43,
    "num_nextn_predict_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "qk_rope_head_dim": 64,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 6,
    "num_hash_layers": 3,
    "hc_mult": 4,
    "tie_word_embeddings": False,
}
LONGCAT: dict[str, Any] = {
    "model_type": "longcat_flash",
    "architectures": ["LongcatFlashForCausalLM"],
    "vocab_size": 131072,
    "hidden_size": 6144,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "num_layers": 28,
    "num_attention_heads": 64,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
    "num_nextn_predict_layers": 1,
}


def read(config: dict[str, Any], **changes: Any) -> pm.ModelShape:
    return pm.read_hf({**config, **changes})


def cost(layer: Any, *groups: Group, hidden: int = 7168) -> dict[str, Operation]:
    step = Step(groups=groups)
    return {op.name: op for op in layer.operations(hidden, step, BF16, 1)}


# -- published totals -----------------------------------------------------------------------------


def test_deepseek_v3_is_counted_to_the_last_parameter():
    model = read(V3)
    assert model.params == 671_026_404_352
    assert model.params + 58 * 256 == 671_026_419_200  # with the biases of 58 layers' experts
    assert model.active_params == 37_552_282_624  # 37 B without the embedding:
    assert model.active_params - 129_280 * 7168 == 36_625_603_584


def test_a_changed_size_changes_in_the_mtp_block_too():
    """256 routed experts to 128: each has three matrices of 7,168 x 2,048 and a row of the router
    (its correction is a buffer).
    """
    v3 = pm.model("deepseek-v3")
    half = v3.with_(experts=128)
    each = 3 * 7168 * 2048 + 7168
    assert v3.mtp_params - half.mtp_params == 128 * each
    assert v3.params - half.params == 58 * 128 * each


def test_the_mtp_block_of_deepseek_v3_fills_up_the_published_total():
    # The checkpoint of DeepSeek-R1: 684,489,845,504 numbers, scales apart. Its 62nd layer is
    #   entry: 2 x 7168 x 7168, and three norms of 7168                            102,781,952
    #   latents: 7168 x 1536 + 1536 x 128 x 192 + 7168 x 576 + 512 x 128 x 256       69,664,768
    #   output: 128 x 128 x 7168, norms of 1536 and 512                            117,442,560
    #   257 experts of 3 x 7168 x 2048, router 7168 x 256, two norms             11,320,178,688
    mtp = 102_781_952 + 69_664_768 + 117_442_560 + 11_320_178_688
    model = read(V3)
    assert model.mtp_params == mtp == 11_610_067_968
    tables = 2 * 129_280 * 7168  # stored again
    assert model.params + mtp + tables + 59 * 256 == 684_489_845_504


def test_deepseek_v32_adds_an_indexer_a_layer():
    # The published 685,355,329,792 hold the extra layer, its tables, and 59 x 256 biases; each
    # indexer 1536 x 64 x 128 + 7168 x 128 + 7168 x 64 + 2 x 128.
    v3, model = read(V3), read(V32)
    indexer = 1536 * 64 * 128 + 7168 * 128 + 7168 * 64 + 2 * 128
    assert model.params - v3.params == 61 * indexer
    assert model.mtp_params - v3.mtp_params == indexer
    tables = 2 * 129_280 * 7168
    assert model.params + model.mtp_params + tables + 59 * 256 == 685_355_329_792


def test_quantization_spares_the_weights_of_an_indexers_heads():
    # DeepSeek-V3.2's index lists no scale beside indexer.weights_proj, but beside wq_b and wk.
    fp8, sparse = pm.Precision.preset("fp8"), Indexer(heads=64, dim=128, top_k=2048)
    grouped = Attention(heads=32, kv_heads=8, head_dim=128, indexer=sparse)
    for layer in (SPARSE, grouped):
        stored = {m.name: layer.formats_of(m, fp8).weights.name for m in layer.matrices(7168)}
        assert stored["indexer weights"] == "bf16"
        assert stored["indexer query"] == stored["indexer key"] == stored["output"] == "fp8"


def test_glm_5_2_selects_in_one_layer_of_four():
    # Published: 753,329,940,480, with the extra layer and 76 x 256 biases.
    model = read(GLM_5_2)
    assert model.params + model.mtp_params + 76 * 256 == 753_329_940_480
    # Layers 0, 1, 2 and then 6, 10 ... 74 have an indexer, so keys of 128 in the cache.
    assert model.kv_bytes_per_token("bf16") == (78 * (512 + 64) + 21 * 128) * 2 == 95_232


@pytest.mark.parametrize(
    ("config", "published", "active"),
    [
        (V2, 235_741_434_880, 21.4e9),  # card: 236 B, 21 B active
        (V2_LITE, 15_706_484_224, 2.66e9),  # card: 15.7 B, 2.4 B active without the embedding
        # Kimi-K2.5: 1,026,879,376,368 less its tower of 471,143,920 and 60 x 384 biases.
        (KIMI_K2, 1_026_879_376_368 - 471_143_920 - 60 * 384, 32.9e9),
    ],
)
def test_totals_of_published_checkpoints(config, published, active):
    model = read(config)
    assert model.params == published
    assert model.active_params == pytest.approx(active, rel=3e-3)
    assert model.mtp_params == 0


def test_longcat_flash_holds_no_weights_for_its_zero_experts():
    # Published: 561,862,880,256, with the extra layer, its table, and 28 x 768 biases.
    model = read(LONGCAT)
    table = 131_072 * 6144
    assert model.params + model.mtp_params + table + 28 * 768 == 561_862_880_256
    # 12 of 768 choices, of which 512 are experts: 8 on average; the paper says about 27 B.
    assert model.active_params == pytest.approx(27.9e9, rel=2e-3)
    assert model.kv_bytes_per_token("bf16") == 2 * 28 * 576 * 2  # two of attention in a block
    assert read(LONGCAT, zero_expert_num=0).active_params > model.active_params


def test_deepseek_v4_flash_is_counted_to_the_last_parameter():
    # Published: 290,944,616,402. Beside the language model an extra block of 6,610,048,635, a table
    # of 6 experts for each of 129,280 tokens in 3 layers, and biases of 40 + 1 layers' 256 experts.
    model = read(V4_FLASH)
    extra = 3 * 129_280 * 6 + 41 * 256
    assert model.params + model.mtp_params + extra == 290_944_616_402
    assert model.params == 284_332_230_231
    assert model.active_params == 13_799_622_231


# -- the cache ------------------------------------------------------------------------------------


def test_trap_14_the_cache_is_neither_that_of_heads_nor_twice_the_latent():
    model = read(V3)
    token = model.kv_bytes_per_token("bf16")
    assert token == 61 * (512 + 64) * 2 == 70_272
    assert token != 61 * 128 * (192 + 128) * 2  # keys and values of every head: 71 times as much
    assert token != 2 * 61 * 512 * 2  # a key and a value of the latent's width
    assert token != 2 * 61 * 2 * 128 * 2  # two grouped heads of 128
    for ignored in ({"num_key_value_heads": 1}, {"head_dim": 1000}):
        assert read(V3, **ignored).kv_bytes_per_token("bf16") == token


@pytest.mark.parametrize("form", ["auto", "absorbed", "expanded"])
def test_trap_15_a_step_moves_what_memory_holds_in_every_form(form: Form):
    model = read(V3).with_(form=form)
    step = Step(groups=(Group(count=4, new=1, past=999),))
    moved = sum(op.calls * op.kv_bytes for op in pm.forward(model, step, "bf16"))
    assert moved == 4 * model.cache_bytes(1000, "bf16") == 4 * 1000 * 70_272


def test_an_indexer_adds_its_key_to_every_token():
    assert read(V32).kv_bytes_per_token("bf16") == 61 * (512 + 64 + 128) * 2 == 85_888


def test_the_cache_of_deepseek_v4_is_a_window_entries_and_what_waits():
    # After 16 tokens each layer has 16 keys of 512. One of 21 layers: 16 / 4 = 4 entries of 512,
    # and of 128 for the indexer; at most 3 tokens wait, with 2 series and 2 gates of 512 + 128.
    # One of 20: no entry; all 16 wait, with a value and a gate of 512.
    model = read(V4_FLASH)
    selected = 4 * (512 + 128) + 3 * 2 * 2 * (512 + 128)
    heavy = 16 * 2 * 512
    assert model.cache_bytes(16, "bf16") == 2 * (43 * 16 * 512 + 21 * selected + 20 * heavy)
    # Past the window a token adds (512 + 128) / 4 numbers in 21 layers and 512 / 128 in 20.
    million = model.cache_bytes(10**6 + 128, "bf16") - model.cache_bytes(10**6, "bf16")
    assert million / 128 == 2 * (21 * 640 / 4 + 20 * 512 / 128) == 6880
    # Overlapping entries keep 4 tokens of a series, in bf16, and of their gates, in fp32.
    assert model.state_bytes("bf16") == 21 * 4 * (512 + 128) * (2 + 4) == 322_560


# -- both forms, by hand --------------------------------------------------------------------------

# Two heads; keys 4 + 1 wide, values 5; a latent of 3 numbers and 1 rotary. The up-projection has
# 3 x 2 x (4 + 5) = 54 weights. One sequence of 9 past tokens adds one: 10 pairs a head.
SMALL: dict[str, Any] = {"heads": 2, "kv_rank": 3, "nope_dim": 4, "rope_dim": 1, "value_dim": 5}
NEXT = Group(count=1, new=1, past=9)


def test_absorbed_by_hand():
    ops = cost(LatentAttention(form="absorbed", **SMALL), NEXT, hidden=8)
    assert list(ops) == ["query", "latent", "kv_up", "latent attention", "output"]
    up, attention = ops["kv_up"], ops["latent attention"]
    # The one query goes through the weights, not the context.
    assert (up.flops, up.weight_bytes, up.kv_bytes) == (2 * 54, 2 * 54, 0)
    # Per head 4 in and 3 out before attention, 3 in and 5 out after it.
    assert up.activation_bytes == 2 * 2 * (4 + 3 + 3 + 5)
    # Per pair and head: 3 + 1 products for the score, 3 for the value.
    assert attention.flops == 2 * 2 * (4 + 3) * 10
    assert attention.activation_bytes == 2 * 2 * (4 + 3)
    assert attention.kv_bytes == 2 * (3 + 1) * 10
    assert attention.pairs == 10


def test_expanded_by_hand():
    ops = cost(LatentAttention(form="expanded", **SMALL), NEXT, hidden=8)
    up, attention = ops["kv_up"], ops["latent attention"]
    # All ten tokens go through the weights; their latents come from the cache, but the new one's.
    assert up.flops == 2 * 54 * 10
    assert up.activation_bytes == 2 * (1 * 3 + 10 * 2 * (4 + 5))
    assert up.kv_bytes == 2 * 3 * 10
    # Per pair and head: 4 + 1 products for the score, 5 for the value.
    assert attention.flops == 2 * 2 * (5 + 5) * 10
    # The query and its result, and all keys and values again; the rotary key from the cache.
    assert attention.activation_bytes == 2 * (2 * (5 + 5) + 10 * 2 * (4 + 5))
    assert attention.kv_bytes == 2 * 1 * 10


def test_a_decode_step_is_absorbed_and_a_prompt_expanded():
    def chosen(**group: int) -> dict[str, Operation]:
        return cost(LatentAttention(**SMALL), Group(count=1, **group), hidden=8)

    def fixed(form: Form, **group: int) -> dict[str, Operation]:
        return cost(LatentAttention(form=form, **SMALL), Group(count=1, **group), hidden=8)

    assert chosen(new=1, past=9) == fixed("absorbed", new=1, past=9)
    assert chosen(new=1) == fixed("absorbed", new=1)  # a step of one token, whatever its context
    # Without a past both forms have as many rows; per pair 2 x (4 + 3) are fewer than 2 x (5 + 5).
    assert chosen(new=50) == fixed("absorbed", new=50)


LARGE: dict[str, Any] = {
    "heads": 128,
    "query_rank": 1536,
    "kv_rank": 512,
    "nope_dim": 128,
    "rope_dim": 64,
    "value_dim": 128,
}


@pytest.mark.parametrize(
    ("new", "past", "form"),
    [
        (4096, 0, "expanded"),  # 2 x 320 FLOPs a pair and head against 2 x 1088
        # Far into a context, each past token costs 2 x 512 x 256 to expand, or 2 x 768 more for
        # each query: 512 x 256 / 768 = 170.7 queries pay for it.
        (170, 10**6, "absorbed"),
        (171, 10**6, "expanded"),
        (4, 10_000, "absorbed"),  # a few drafted tokens
    ],
)
def test_a_longer_pass_takes_the_form_with_fewer_flops(new: int, past: int, form: Form):
    group = Group(count=2, new=new, past=past)
    assert cost(LatentAttention(**LARGE), group) == cost(LatentAttention(form=form, **LARGE), group)


def test_flops_of_transformers_which_expands_the_whole_context():
    # Counted by PyTorch's FlopCounterMode on the classes of Transformers 5.24 for a decode step of
    # one sequence, 33 tokens with the new one: products with weights, experts, attention's own.
    counted = {"linear": 99_581_165_568, "experts": 40_869_298_176, "attention": 198_143_616}
    step = Step(groups=(Group(count=1, new=1, past=32),))
    found = dict.fromkeys(counted, 0.0)
    for op in pm.forward(read(V32).with_(form="expanded"), step, "bf16"):
        if op.kind in found:
            found[op.kind] += op.flops * op.calls
    assert found == counted


def test_flops_of_transformers_for_deepseek_v4():
    # The same counter; there the grouped projection counts with attention. It does not count what
    # sums the indexer's 64 heads: 2 FLOPs for each of 8 entries in 21 layers.
    counted = 10_665_197_568 + 12_985_565_184 + 3_096_444_928
    step = Step(groups=(Group(count=1, new=1, past=32),))
    found = sum(op.flops * op.calls for op in pm.forward(read(V4_FLASH), step, "bf16"))
    assert found == counted + 21 * 8 * 2 * 64


# -- steps of several kinds -----------------------------------------------------------------------

FORMS = st.sampled_from(["auto", "absorbed", "expanded"])
WINDOW = LatentAttention(window=512, **LARGE)
SPARSE = LatentAttention(indexer=Indexer(heads=64, dim=128, top_k=2048), **LARGE)
V4_LAYER: dict[str, Any] = {
    "heads": 64, "head_dim": 512, "query_rank": 1024, "window": 128, "output_groups": 8,
    "output_rank": 1024,
}  # fmt: skip
LAYERS = [
    LatentAttention(**LARGE),
    WINDOW,
    SPARSE,
    LatentAttention(indexer=Indexer(heads=32, dim=128, top_k=2048, pool=16), **LARGE),
    CompressedAttention(**V4_LAYER),
    CompressedAttention(ratio=128, **V4_LAYER),
    CompressedAttention(
        ratio=4, overlap=True, indexer=Indexer(heads=64, dim=128, top_k=512), **V4_LAYER
    ),
]


def test_a_mixed_step_reads_the_weights_once_and_each_group_in_its_form():
    decoding, chunk = Group(count=8, new=1, past=4000), Group(count=1, new=2000, past=1000)
    layer = LatentAttention(**LARGE)
    both, one, other = cost(layer, decoding, chunk), cost(layer, decoding), cost(layer, chunk)
    for name, op in both.items():
        assert op.flops == one[name].flops + other[name].flops
        assert op.kv_bytes == one[name].kv_bytes + other[name].kv_bytes
        assert op.weight_bytes == one[name].weight_bytes == other[name].weight_bytes
    # The decode group is absorbed: 8 rows; the chunk expanded: all its 3000 tokens.
    assert both["kv_up"].tokens == 8 + 3000
    assert both["kv_up"].flops == 2 * 512 * 128 * 256 * 3008


def test_a_shared_past_is_read_and_expanded_once():
    group = Group(count=4, new=10, past=100, shared_past=80)
    absorbed = cost(LatentAttention(form="absorbed", **LARGE), group)["latent attention"]
    assert absorbed.kv_bytes == 2 * 576 * (80 + 4 * (20 + 10))
    expanded = cost(LatentAttention(form="expanded", **LARGE), group)
    assert expanded["kv_up"].tokens == 80 + 4 * (20 + 10)
    assert expanded["latent attention"].pairs == absorbed.pairs == 4 * (10 * 100 + 55)


def test_a_selection_bounds_attention_but_not_the_indexer():
    ops = cost(SPARSE, Group(count=1, new=1, past=9_999))
    attention, indexer = ops["sparse latent attention"], ops["indexer"]
    assert attention.pairs == 2048
    assert attention.kv_bytes == 2 * 576 * 2048
    assert indexer.pairs == 10_000
    # 2 FLOPs for each of 64 x 128 products of a pair, and 2 to weigh and add each of 64 scores.
    assert indexer.flops == 2 * 64 * (128 + 1) * 10_000
    assert indexer.kv_bytes == 2 * 128 * 10_000
    shared = SPARSE.model_copy(
        update={"indexer": Indexer(heads=64, dim=128, top_k=2048, shared=True)}
    )
    ops = cost(shared, Group(count=1, new=1, past=9_999))
    assert "indexer" not in ops
    assert ops["sparse latent attention"] == attention
    token = Group(count=1, new=1)
    assert shared.cache_bytes(token, BF16.kv) == SPARSE.cache_bytes(token, BF16.kv) - 2 * 128


def test_a_window_bounds_what_is_expanded_too():
    ops = cost(WINDOW.model_copy(update={"form": "expanded"}), Group(count=1, new=1, past=9_999))
    assert ops["kv_up"].tokens == 512
    ops = cost(WINDOW.model_copy(update={"form": "expanded"}), Group(count=1, new=700, past=9_999))
    assert ops["kv_up"].tokens == 511 + 700


def test_a_shared_latent_is_neither_projected_nor_held():
    layer = LatentAttention(shares_kv=True, **LARGE)
    own = LatentAttention(**LARGE)
    assert own.params(7168) - layer.params(7168) == 7168 * 576 + 512
    assert not layer.has_cache
    assert layer.cache_bytes(Group(count=1, new=9), BF16.kv) == 0
    group = Group(count=1, new=1, past=99)
    ours, theirs = (cost(x, group)["latent attention"] for x in (layer, own))
    assert ours.flops == theirs.flops
    assert (ours.kv_bytes, theirs.kv_bytes) == (99 * 576 * 2, 100 * 576 * 2)  # read, not written


@given(
    FORMS, st.integers(2, 5000), st.integers(0, 200_000), st.integers(1, 64), st.integers(1, 2048)
)
def test_auto_never_has_more_flops_than_either_form(form, new, past, heads, kv_rank):
    sizes = {**LARGE, "heads": heads, "kv_rank": kv_rank}
    group = Group(count=3, new=new, past=past)

    def flops(form: Form) -> float:
        return sum(op.flops for op in cost(LatentAttention(form=form, **sizes), group).values())

    assert flops("auto") <= flops(form)


@given(st.integers(1, 3000), st.integers(0, 100_000), st.integers(1, 8))
def test_both_forms_move_the_same_cache(new, past, count):
    group = Group(count=count, new=new, past=past, shared_past=past // 2)
    for layer in (LatentAttention(**LARGE), WINDOW):
        moved = {
            sum(op.kv_bytes for op in cost(layer.model_copy(update={"form": form}), group).values())
            for form in ("auto", "absorbed", "expanded")
        }
        assert len(moved) == 1


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
@given(cuts=st.lists(st.integers(1, 2999), max_size=4, unique=True))
def test_chunks_of_a_prompt_have_the_pairs_of_the_whole(layer, cuts):
    ends = [0, *sorted(cuts), 3000]
    whole = cost(layer, Group(count=1, new=3000))
    parts = [cost(layer, Group(count=1, new=b - a, past=a)) for a, b in pairwise(ends)]
    for name, op in whole.items():
        assert op.pairs == sum(part[name].pairs for part in parts)


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
def test_the_cache_never_shrinks(layer):
    held = [
        layer.cache_bytes(Group.trusted(count=2, new=n, past=0, logits=0, shared_past=0), BF16.kv)
        for n in range(600)
    ]
    assert held == sorted(held)


# -- numbers of any kind --------------------------------------------------------------------------

GRID = [(1, 0), (1, 1), (2, 0), (171, 10**6), (170, 10**6), (4096, 0), (5, 2047), (300, 129)]
FIELDS = ("flops", "weight_bytes", "activation_bytes", "kv_bytes", "tokens", "pairs")


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.title)
def test_arrays_and_symbols_have_the_numbers_of_single_steps(layer):
    new, past = (np.array([float(pair[i]) for pair in GRID]) for i in (0, 1))
    n, p = sympy.symbols("N P", positive=True)

    def operations(new: Any, past: Any) -> list[Operation]:
        group = Group.trusted(count=2, new=new, past=past, logits=1, shared_past=0)
        return list(layer.operations(7168, Step.trusted(groups=(group,)), BF16, 1))

    swept, closed = operations(new, past), operations(n, p)
    for i, (new_i, past_i) in enumerate(GRID):
        for one, many, symbol in zip(operations(new_i, past_i), swept, closed, strict=True):
            for field in FIELDS:
                exact = getattr(one, field)
                of_many = np.broadcast_to(getattr(many, field), new.shape)[i]
                of_symbol = sympy.sympify(getattr(symbol, field)).subs({n: new_i, p: past_i})
                assert of_many == pytest.approx(exact, rel=1e-12), (one.name, field)
                assert float(of_symbol) == pytest.approx(exact, rel=1e-9), (one.name, field)


def test_a_sweep_over_prompts_takes_each_form_where_a_single_prompt_does():
    h100 = pm.GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    prompts = [1, 2, 100, 1000, 10_000]
    swept = pm.sweep(read(V3), h100, batch=1, prompt=prompts, precision="bf16").time.ravel()
    single = [pm.prefill(read(V3), h100, prompt=n, precision="bf16").time for n in prompts]
    assert swept == pytest.approx(single, rel=1e-12)


@given(st.integers(1, 9), st.none() | st.integers(1, 9), st.integers(0, 60), st.integers(1, 60))
def test_pairs_with_entries_are_those_of_a_loop(ratio, most, past, new):
    entries = [(past + i) // ratio for i in range(1, new + 1)]
    seen = sum(n if most is None else min(n, most) for n in entries)
    assert Entries(ratio, most).twice_pairs(Group(count=1, new=new, past=past)) == 2 * seen


# -- the reader -----------------------------------------------------------------------------------


def test_queries_without_a_latent_where_the_rank_is_null():
    model = read(V3, q_lora_rank=None, num_nextn_predict_layers=0)
    # 7168 x 128 x 192 at once, for 7168 x 1536 + 1536 x 128 x 192 and a norm of 1536.
    more = 7168 * 24_576 - 1536 * (7168 + 24_576) - 1536
    assert model.params == read(V3).params + 61 * more
    absent = {key: value for key, value in V3.items() if key != "q_lora_rank"}
    assert pm.read_hf(absent).params == read(V3).params  # the class says 1536


def test_where_the_dense_layers_are():
    def dense(config: dict[str, Any], **changes: Any) -> list[int]:
        rows = [row for count, row in read(config, **changes).blocks for _ in range(count)]
        return [i for i, row in enumerate(rows) if row[-1].kind == "feedforward"]

    assert dense(V3) == [0, 1, 2]
    assert dense(V3, first_k_dense_replace=0) == []
    assert dense(V3, first_k_dense_replace=1, moe_layer_freq=30) == [
        i for i in range(61) if i not in (30, 60)
    ]
    kinds = ["sparse"] * 60 + ["dense"]
    assert dense(GLM_5_2, num_hidden_layers=61, mlp_layer_types=kinds) == [60]


def test_small_deepseek_v2_models_may_have_plain_attention():
    model = read(V2, use_mla=False, kv_lora_rank=None, q_lora_rank=None, v_head_dim=0)
    # 128 heads of 5120 / 128 = 40, as many of keys and of values.
    assert model.kv_bytes_per_token("bf16") == 60 * 2 * 5120 * 2


def test_deepseek_v4_by_kinds_or_by_ratios():
    named = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    kinds = [named.get(r, "heavily_compressed_attention") for r in V4_FLASH["compress_ratios"]]
    listed = read(V4_FLASH, compress_ratios=None, layer_types=kinds[:43])
    assert listed.params == read(V4_FLASH).params
    assert read({**V4_FLASH, "model_type": "deepseek_ref"}).params == listed.params
    rates = {"compressed_sparse_attention": 8, "heavily_compressed_attention": 256}
    slower = read(V4_FLASH, compress_rates=rates)
    span = slower.cache_bytes(100_256, "bf16") - slower.cache_bytes(100_000, "bf16")
    assert span / 256 == 6880 / 2
    streams = [layer for _, row in listed.blocks for layer in row if layer.kind == "hyper"]
    assert HyperConnection(streams=4, outputs=24, scalars=3) in streams


@pytest.mark.parametrize(
    ("config", "changes", "key"),
    [
        (V3, {"kv_lora_rank": None}, "kv_lora_rank"),
        (V3, {"qk_rope_head_dim": -1}, "qk_rope_head_dim"),
        (V3, {"num_experts_per_tok": 257}, "num_experts_per_tok"),
        (V3, {"num_experts": 128}, "num_experts"),
        (V3, {"mlp_layer_types": ["dense"]}, "mlp_layer_types"),
        (V3, {"mlp_layer_types": ["linear"] * 61}, "mlp_layer_types"),
        (V3, {"num_hidden_layers": 10**9}, "num_hidden_layers"),
        (V32, {"q_lora_rank": None}, "q_lora_rank"),
        (V32, {"index_topk": 0}, "index_topk"),
        (GLM_5_2, {"indexer_types": ["shared"] * 78}, "indexer_types"),
        (GLM_5_2, {"indexer_types": ["full"]}, "indexer_types"),
        (GLM_5_2, {"index_topk_pattern": "FX" * 39}, "index_topk_pattern"),
        (V4_FLASH, {"compress_ratios": [0] * 42}, "compress_ratios"),
        (V4_FLASH, {"compress_ratios": [5] * 43}, "compress_ratios"),
        (V4_FLASH, {"compress_ratios": "4"}, "compress_ratios"),
        (V4_FLASH, {"compress_rates": 4}, "compress_rates"),
        (V4_FLASH, {"o_groups": 7}, "o_groups"),
        (LONGCAT, {"num_layers": None}, "num_layers"),
    ],
)
def test_a_contradiction_is_an_error_that_names_the_key(config, changes, key):
    with pytest.raises(InvalidValueError, match=key):
        read(config, **changes)


def test_another_class_is_refused():
    with pytest.raises(UnsupportedModelError, match="architectures"):
        read(V3, architectures=["DeepseekV2ForCausalLM"])


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"window": 5, "indexer": Indexer(heads=1, dim=1, top_k=1)}, "window"),
        ({"gate": "query"}, "query_rank"),
    ],
)
def test_a_layer_that_contradicts_itself(fields, name):
    with pytest.raises(InvalidValueError, match=name):
        LatentAttention(**SMALL, **fields)


@pytest.mark.parametrize(
    ("fields", "name"),
    [({"output_groups": 7}, "output_groups"), ({"overlap": True}, "ratio")],
)
def test_a_compressed_layer_that_contradicts_itself(fields, name):
    with pytest.raises(InvalidValueError, match=name):
        CompressedAttention(**V4_LAYER | fields)
