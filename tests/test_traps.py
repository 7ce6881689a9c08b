"""Mistakes that real tools made about models, each with a test that fails if it is made here.

The numbers follow the list of traps that the project was founded on; the arithmetic is beside each.
"""

from __future__ import annotations

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, UnsupportedModelError

H100 = pm.GpuSpec(
    name="H100", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
)
# Llama-3.1-8B: 32 x (4096 x (4096 + 2 x 1024) + 4096 x 4096 + 3 x 4096 x 14336) matrix weights in
# the blocks, 128,256 x 4096 in the embedding and as many in the head, 65 norms of 4096.
BLOCKS = 32 * (4096 * 6144 + 4096 * 4096 + 3 * 4096 * 14336)
TABLE = 128_256 * 4096
LLAMA = pm.model("llama-3.1-8b")
V3 = pm.model("deepseek-v3")
MIXTRAL = pm.model("mixtral-8x7b")


def operations(model: pm.ModelShape, **group: int) -> dict[str, pm.Operation]:
    step = pm.Step(groups=(pm.Group(**group),))
    return {op.name: op for op in pm.forward(model, step, "bf16")}


def test_1_the_head_is_read_in_every_step_and_the_embedding_table_is_not():
    step = pm.decode(LLAMA, H100, batch=1, context=1, precision="bf16")
    assert step.weight_traffic == 2 * (BLOCKS + TABLE)
    assert LLAMA.weight_bytes("bf16") == 2 * (BLOCKS + 2 * TABLE + 65 * 4096)


def test_2_every_matrix_does_two_flops_a_weight_and_token():
    for op in operations(V3, count=4, new=8).values():
        if op.kind == "linear":
            tokens = 4 if op.name == "head" else 32
            assert op.flops == 2 * op.weights * tokens, op.name


def test_3_embedding_and_head_are_parameters():
    assert LLAMA.params == BLOCKS + 2 * TABLE + 65 * 4096 == 8_030_261_248


@pytest.mark.parametrize(
    ("key", "tied"),
    [
        ("qwen3-0.6b", True),
        ("llama-3.2-1b", True),
        ("gemma-3-27b", True),  # its class ties where the file says nothing
        ("llama-3.1-8b", False),
        ("qwen3-8b", False),
    ],
)
def test_4_ends_are_tied_where_the_config_or_its_class_says_so(key, tied):
    assert pm.model(key).head.tied is tied


def test_5_a_lookup_moves_rows_and_computes_nothing():
    lookup = operations(LLAMA, count=3, new=7)["embedding"]
    assert lookup.flops == 0
    assert lookup.weight_bytes == 0
    assert lookup.nbytes == 2 * 21 * 4096 * 2  # read and written, 2 B a number


def test_6_a_gated_layer_has_three_matrices():
    ops = operations(LLAMA, count=1, new=1)
    assert ops["gate_up"].weights + ops["down"].weights == 3 * 4096 * 14336


def test_7_gating_follows_the_class_not_a_ratio():
    # Llama-2-7B's ratio is 2.69 and GPT-2's is 4; one is gated, the other is not.
    assert pm.model("llama-2-7b").blocks[0][1][1].gated
    assert not pm.model("gpt2").blocks[0][1][1].gated


def test_8_the_width_of_a_head_is_its_own_number():
    # Qwen3-0.6B: 16 heads of 128 over a stream of 1024: 28 x 2 x 8 x 128 x 2 B.
    assert pm.model("qwen3-0.6b").kv_bytes_per_token("bf16") == 114_688


def test_9_grouped_queries_shrink_the_cache():
    assert LLAMA.kv_bytes_per_token("bf16") == 32 * 2 * 8 * 128 * 2
    assert LLAMA.with_(kv_heads=32).kv_bytes_per_token("bf16") == 4 * 131_072


def test_14_the_cache_of_latent_attention_is_the_latent():
    assert V3.kv_bytes_per_token("bf16") == 61 * (512 + 64) * 2 == 70_272


def test_15_time_and_capacity_see_the_same_cache():
    step = pm.decode(V3, H100, batch=1, context=1000, precision="bf16")
    assert step.kv_traffic == V3.cache_bytes(1000, "bf16") == 70_272_000
    for form in ("absorbed", "expanded"):
        other = pm.decode(V3.with_(form=form), H100, batch=1, context=1000, precision="bf16")
        assert other.kv_traffic == 70_272_000


def test_16_layers_of_constant_state_hold_no_cache():
    # Qwen3-Next-80B-A3B: 12 of 48 layers attend, with 2 heads of 256; 36 hold 32 x 128 x 128
    # numbers of 4 B, and 4 columns of 2 x 16 x 128 + 32 x 128 channels of 2 B.
    hybrid = pm.model("qwen3-next-80b-a3b")
    assert hybrid.kv_bytes_per_token("bf16") == 12 * 2 * 2 * 256 * 2
    assert hybrid.state_bytes("bf16") == 36 * (32 * 128 * 128 * 4 + 4 * 8192 * 2)
    short, long = (pm.memory(hybrid, H100, batch=1, context=c, precision="bf16") for c in (1, 9000))
    assert short.state == long.state == hybrid.state_bytes("bf16")


def test_17_a_window_clips_the_cache_and_the_inverse_is_found_by_search():
    # Gemma-3-27B: 10 of 62 layers attend everything, 52 the last 1024; 16 heads of 128.
    gemma, token = pm.model("gemma-3-27b"), 2 * 16 * 128 * 2
    assert gemma.kv_bytes_per_token("bf16", context=1) == 62 * token
    assert gemma.kv_bytes_per_token("bf16", context=1024) == 62 * token
    assert gemma.kv_bytes_per_token("bf16", context=1025) == 10 * token
    assert gemma.cache_bytes(131_072, "bf16") == (52 * 1024 + 10 * 131_072) * token
    free = 80e9 - gemma.weight_bytes("bf16")
    longest = pm.max_context(gemma, H100, batch=1, precision="bf16")
    assert longest == int((free / token - 52 * 1024) / 10)


def test_18_the_experts_that_a_step_reads_grow_with_its_tokens():
    one = 3 * 4096 * 14336 * 2  # bytes of an expert
    for tokens, experts in ((1, 2.0), (2, 3.5), (64, 8 * (1 - 0.75**64))):
        ops = operations(MIXTRAL, count=tokens, new=1)
        read = ops["experts_up"].weight_bytes + ops["experts_down"].weight_bytes
        assert read == pytest.approx(experts * one, rel=1e-12)
    # All 8 of 32 layers are 90.2e9 B: at batch 64, 27 ms at 3.35 TB/s and 46 ms at 2.039.
    a100 = pm.GpuSpec(name="A100", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12})
    assert pm.decode(MIXTRAL, a100, batch=64, context=1, precision="bf16").time > 45e-3


def test_19_expected_and_most_are_two_numbers():
    layer = pm.MixtureOfExperts(experts=128, top_k=8, width=768)
    least, expected, most = layer.touched(16)
    assert (least, most) == (8, 128)
    assert expected == pytest.approx(82.4, abs=0.05)


def test_20_each_token_multiplies_by_all_experts_that_it_is_sent_to():
    ops = operations(MIXTRAL, count=1, new=1)
    assert ops["experts_up"].flops + ops["experts_down"].flops == 2 * 2 * 3 * 4096 * 14336


def test_21_a_mixture_of_experts_never_becomes_dense():
    # 671 B in total, 37 B active: three layers are dense, one expert of 2048 is shared.
    assert V3.params == pytest.approx(671e9, rel=1e-3)
    assert V3.active_params == pytest.approx(37e9, rel=0.02)
    dense = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 32000,
    }  # fmt: skip
    for key, value in (("num_local_experts", 8), ("n_routed_experts", 64), ("kv_lora_rank", 512)):
        with pytest.raises(UnsupportedModelError, match=key):
            pm.read_hf(dense | {key: value})
    with pytest.raises(InvalidValueError, match="num_experts"):
        pm.read_hf(dense | {"model_type": "qwen3_moe", "moe_intermediate_size": 1, "head_dim": 128})


def test_22_memory_holds_all_experts():
    held = pm.memory(MIXTRAL, H100, batch=1, context=1, precision="bf16")
    assert held.weights == 2 * MIXTRAL.params == 2 * 46_702_792_704
    assert not held.fits


def test_32_scales_are_part_of_the_weights():
    # Of 128 weights in int4: 64 B, a 16-bit scale; with a zero point of 4 bits 66.5 B.
    dense = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 1, "num_attention_heads": 32, "vocab_size": 32000,
        "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128},
    }  # fmt: skip
    shape = pm.read_hf(dense)
    matrices = 4 * 4096 * 4096 + 3 * 4096 * 14336
    rest = 2 * 32000 * 4096 + 3 * 4096
    assert shape.weight_bytes() == matrices * 66.5 / 128 + 2 * rest


def test_towers_are_held_and_never_run():
    # Gemma-3-27B: 27,432,406,640 published, of which the tower and its joint are 423 M:
    # SigLIP of width 1152 (417 M) and one matrix of 1152 x 5376 behind a norm.
    gemma = pm.model("gemma-3-27b")
    assert gemma.params + gemma.tower_params == 27_432_406_640
    assert gemma.tower_params > 4.1e8
    assert gemma.weight_bytes("bf16") == 2 * 27_432_406_640
    step = pm.decode(gemma, H100, batch=1, context=1, precision="bf16")
    assert step.weight_traffic < 2 * gemma.params


def test_a_chunk_starts_anew_and_a_window_slides():
    # Chunks of 8: token 12 attends tokens 9 to 12; a window of 8 reaches from 5 to 12.
    layer = pm.Attention(heads=2, kv_heads=1, head_dim=4, chunk=8)
    chunked = pm.ModelShape(hidden=8, blocks=((1, (layer,)),))
    sliding = chunked.with_(chunk=None, window=8)
    for model, pairs in ((chunked, 4), (sliding, 8)):
        ops = operations(model, count=1, new=1, past=11)
        (attention,) = [op for op in ops.values() if op.kind == "attention"]
        assert attention.pairs == pairs
        assert attention.kv_bytes == pairs * 2 * 4 * 2
    # A prompt of 20: 8 x 9 / 2 pairs twice, and 4 x 5 / 2.
    ops = operations(chunked, count=1, new=20)
    assert ops["chunk attention"].pairs == 2 * 36 + 10
