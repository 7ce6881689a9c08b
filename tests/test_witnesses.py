"""Numbers from outside: each compares an answer with something perfmodel did not compute.

Two articles are the main witnesses. F is the one that explains inference as a factory (its
scripts roofline.py and predict.py); B is the roofline chapter of a book that builds an engine
called forge. The chips are those they state, not the catalog's.
"""

from __future__ import annotations

import pytest

import perfmodel as pm

CPU = pm.GpuSpec(name="CPU of F", memory_bandwidth=15.0e9, peak_flops={"fp32": 164.3e9})
CPU_BEFORE = pm.GpuSpec(name="CPU of F, part 3", memory_bandwidth=12e9, peak_flops={"fp32": 121e9})
H100 = pm.GpuSpec(
    name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12, "fp8": 1978e12}
)
B200 = pm.GpuSpec(name="B200", memory_bandwidth=8e12, peak_flops={"bf16": 2250e12})
A100 = pm.GpuSpec(
    name="A100", memory_bandwidth=2.039e12, memory_capacity=80e9, peak_flops={"bf16": 312e12}
)
EIGHT_BILLION = pm.ModelShape.from_totals(params=8e9)


# -- 1. the CPU of article F --------------------------------------------------------------------

TOKENS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
INTENSITY = [0.50, 1.00, 2.00, 3.99, 7.97, 15.90, 31.60, 62.40, 121.77, 232.22]
ROOF = [7.5, 15.0, 29.9, 59.7, 119.3, 164.3, 164.3, 164.3, 164.3, 164.3]


def table_operation(tokens: int) -> pm.Operation:
    return pm.gemm(inner=10_000, outer=10_000, tokens=tokens, precision="fp32")


def test_ridge_of_the_cpu():
    assert pm.ridge_intensity(CPU, precision="fp32") == pytest.approx(10.95, abs=0.005)


@pytest.mark.parametrize(("tokens", "published"), list(zip(TOKENS, INTENSITY, strict=True)))
def test_intensity_of_a_table(tokens, published):
    assert table_operation(tokens).intensity == pytest.approx(published, abs=0.005)


@pytest.mark.parametrize(("tokens", "published"), list(zip(TOKENS, ROOF, strict=True)))
def test_roof_over_a_table(tokens, published):
    roof = pm.roof(CPU, intensity=table_operation(tokens).intensity, precision="fp32")
    assert roof / 1e9 == pytest.approx(published, rel=0.005)


def test_adding_two_lists_lies_in_the_basement():
    # Read two float32 numbers, write one: 12 bytes for 1 FLOP.
    assert pm.roof(CPU, intensity=1 / 12, precision="fp32") == pytest.approx(1.25e9, rel=1e-12)


@pytest.mark.parametrize("users", [1, 16, 64])
def test_reading_ones_own_cache_does_not_climb_with_users(users):
    # One query head, one KV head: 4 FLOPs a pair and number, 2 x 4 bytes of key and value.
    shape = pm.ModelShape.dense(layers=1, hidden=64, heads=1, ffn=64)
    step = pm.decode(shape, CPU, batch=users, context=100_000, precision="fp32")
    attention = next(op for op in step.operations if op.kind == "attention")
    assert attention.flops / attention.kv_bytes == 0.5
    grouped = shape.with_(heads=8, kv_heads=2)
    step = pm.decode(grouped, CPU, batch=users, context=100_000, precision="fp32")
    attention = next(op for op in step.operations if op.kind == "attention")
    assert attention.flops / attention.kv_bytes == 0.5 * 8 / 2


def test_a_step_of_norms_and_additions_lies_near_a_tenth():
    # F: small steps do about 0.1 FLOP a byte in float32; a residual addition is 1 in 12.
    shape = pm.ModelShape.dense(layers=1, hidden=64, heads=1, ffn=64)
    step = pm.decode(shape, CPU, batch=1, context=1, precision="fp32", small_steps="separate")
    residual = next(op for op in step.operations if op.name == "residual")
    assert residual.intensity == pytest.approx(1 / 12)


# -- 2. ridges ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "precision", "published"),
    [
        (H100, "bf16", "295"),
        (B200, "bf16", "281"),
        (A100, "bf16", "153.0"),
        (CPU_BEFORE, "fp32", "10.1"),
        (CPU, "fp32", "11.0"),
    ],
)
def test_ridges(gpu, precision, published):
    digits = len(published.partition(".")[2])
    ridge = pm.ridge_intensity(gpu, precision=precision)
    assert f"{ridge:.{digits}f}" == published


def test_h100_against_the_cpu():
    # F: bandwidth about 220 times, math about 6,000 times, ridge 27 times.
    assert round(H100.memory_bandwidth / CPU.memory_bandwidth) == 223
    assert int(H100.peak("bf16") / CPU.peak("fp32")) == 6019
    ridges = pm.ridge_intensity(H100) / pm.ridge_intensity(CPU, precision="fp32")
    assert round(ridges) == 27


# -- 3. and 4. eight billion parameters on an H100 (F, predict.py) ------------------------------

PREDICTED = [  # tokens, math ms, step ms, tokens/s, limit; fetching takes 4.78 ms throughout
    (1, "0.02", "4.78", "209", "memory"),
    (8, "0.13", "4.78", "1,675", "memory"),
    (64, "1.04", "4.78", "13,400", "memory"),
    (256, "4.14", "4.78", "53,600", "memory"),
    (512, "8.28", "8.28", "61,812", "compute"),
    (1024, "16.57", "16.57", "61,812", "compute"),
]


@pytest.mark.parametrize(("tokens", "math", "step", "rate", "limit"), PREDICTED)
def test_the_table_of_predict(tokens, math, step, rate, limit):
    found = pm.decode(EIGHT_BILLION, H100, batch=tokens)
    assert f"{found.memory_time * 1e3:.2f}" == "4.78"
    assert f"{found.compute_time * 1e3:.2f}" == math
    assert f"{found.time * 1e3:.2f}" == step
    assert f"{found.tokens_per_second:,.0f}" == rate
    assert found.bound == limit


def test_fp8_everywhere_halves_the_step_and_keeps_the_ridge():
    fp8 = pm.Precision.uniform("fp8")
    found = pm.decode(EIGHT_BILLION, H100, batch=1, precision=fp8)
    assert f"{found.time * 1e3:.2f}" == "2.39"
    assert f"{found.tokens_per_second:.0f}" == "419"
    assert f"{pm.ridge_batch(EIGHT_BILLION, H100, precision=fp8):.0f}" == "295"
    assert f"{pm.ridge_batch(EIGHT_BILLION, H100, precision='bf16'):.0f}" == "295"


# -- 5. the tiny factory (F) --------------------------------------------------------------------

TINY = pm.ModelShape.dense(layers=12, hidden=768, heads=12, ffn=3072, gated=False, norm=None)


def test_bytes_of_the_tiny_factory():
    # Tables: 12 (4 x 768^2 + 2 x 768 x 3072) x 4 B; KV: 512 x 12 x 2 x 768 x 4 B.
    step = pm.decode(TINY, CPU_BEFORE, batch=1, context=512, precision="fp32")
    assert f"{step.weight_traffic / 1e6:.1f}" == "339.7"
    assert f"{step.kv_traffic / 1e6:.1f}" == "37.7"
    assert f"{(step.weight_traffic + step.kv_traffic) / 1e6:.1f}" == "377.5"
    assert f"{step.floor * 1e3:.1f}" == "31.5"
    assert step.floor / 37.5e-3 == pytest.approx(0.84, abs=0.005)  # 37.5 ms was measured


def test_64_notebooks_are_seven_times_the_tables():
    growth = pm.kv_growth(TINY, contexts=[512], batch=64, precision="fp32")
    assert growth.kv[0] / growth.weights == pytest.approx(7.1, abs=0.05)


# -- 6. Qwen3-0.6B on an A100 (B) ---------------------------------------------------------------

QWEN3_600M = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}


def test_sizes_of_qwen3_600m():
    shape = pm.read_hf(QWEN3_600M)
    assert shape.params == 596_049_920
    assert f"{shape.weight_bytes('bf16') / 1e9:.3f}" == "1.192"
    assert shape.kv_bytes_per_token("bf16") == 114_688


def test_forge_estimate_of_a_decode_step():
    coarse = pm.ModelShape.from_totals(params=596_049_920, layers=28, kv_heads=8, head_dim=128)
    step = pm.decode(coarse, A100, batch=1, context=4096)
    assert f"{step.bytes / 1e9:.3f}" == "1.662"
    assert f"{step.time * 1e3:.3f}" == "0.815"
    assert f"{step.tokens_per_second:,.0f}" == "1,227"
    assert f"{step.compute_time * 1e6:.1f}" == "3.8"
    assert f"{step.intensity:.2f}" == "0.72"
    assert f"{step.compute_utilization:.1%}" == "0.5%"
    assert step.bound == "memory"


def test_forge_prefill_over_the_weights_alone():
    coarse = pm.ModelShape.from_totals(params=596_049_920)
    step = pm.prefill(coarse, A100, prompt=512)
    assert step.intensity == 512
    assert step.bound == "compute"


def test_attention_flops_lift_the_intensity_of_qwen3_600m():
    # Attention: 28 layers x 4 FLOPs x 16 heads x 128 x 4096 tokens = 0.940 GFLOP, nearly as much
    # as the 2 x 0.596 G = 1.192 GFLOP of the matrices; bytes grow by activations only:
    # (0.940 + 1.192) / 1.665 = 1.28.
    step = pm.decode(pm.read_hf(QWEN3_600M), A100, batch=1, context=4096)
    attention = next(op for op in step.operations if op.kind == "attention")
    assert attention.calls * attention.flops == 28 * 4 * 16 * 128 * 4096
    assert step.intensity == pytest.approx(1.28, abs=0.005)


# -- 7. and 8. Llama 3.1 ------------------------------------------------------------------------

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
LLAMA_70B = LLAMA_8B | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
}


@pytest.mark.parametrize(
    ("config", "params", "kv"),
    [(LLAMA_8B, 8_030_261_248, 131_072), (LLAMA_70B, 70_553_706_496, 327_680)],
)
def test_sizes_of_llama(config, params, kv):
    shape = pm.read_hf(config)
    assert shape.params == params
    assert shape.kv_bytes_per_token("bf16") == kv


@pytest.mark.parametrize(("batch", "published"), [(1, "7.495"), (64, "15.95")])
def test_llama_8b_decode_on_an_a100(batch, published):
    # An independent roofline tool says 7.498 and 16.100 ms for the same cases.
    step = pm.decode(pm.read_hf(LLAMA_8B), A100, batch=batch, context=2048)
    digits = len(published.partition(".")[2])
    assert f"{step.time * 1e3:.{digits}f}" == published


def test_llama_8b_prefill_flops():
    step = pm.prefill(pm.read_hf(LLAMA_8B), A100, prompt=2048)
    assert f"{step.flops / 1e12:.2f}" == "29.69"


def test_decode_reads_all_weights_but_the_embedding():
    # traps: a head left out of the step is 1.05 GB; a table read whole is as much too many.
    shape = pm.read_hf(LLAMA_8B)
    step = pm.decode(shape, A100, batch=1, context=1)
    norms, embedding = 65 * 4096, 128256 * 4096
    assert step.weight_traffic == 2 * (shape.params - norms - embedding)


def test_critical_context_of_llama_8b():
    assert f"{pm.critical_context(pm.read_hf(LLAMA_8B), H100):.0f}" == "393"


def test_what_fp8_and_w8a16_gain_on_llama_8b():
    # The head stays bf16, so a step gains less than 2 and the ridge halves not quite.
    shape = pm.read_hf(LLAMA_8B)
    for context, gain in ((1, "1.87"), (2048, "1.84")):
        times = [
            pm.decode(shape, H100, batch=1, context=context, precision=p).time
            for p in ("bf16", "fp8")
        ]
        assert f"{times[0] / times[1]:.2f}" == gain
    ridges = [pm.ridge_batch(shape, H100, precision=p) for p in ("bf16", "w8a16")]
    assert f"{ridges[1] / ridges[0]:.3f}" == "0.535"


# -- other witnesses ----------------------------------------------------------------------------


def test_intensity_of_a_gemm_is_the_scaling_books():
    """How To Scale Your Model, 'Rooflines': BDF / (BD + DF + BF) for bf16 [B, D] x [D, F]."""
    b, d, f = 7, 300, 1100
    op = pm.gemm(inner=d, outer=f, tokens=b, precision="bf16")
    assert op.intensity == pytest.approx(b * d * f / (b * d + d * f + b * f), rel=1e-15)


@pytest.mark.parametrize(("batch", "published"), [(4, 2.5e-3), (256, 21e-3)])
def test_scaling_book_quiz(batch, published):
    """The same book, 'Inference', quiz: 30 B int8 weights, bf16 math, 16 TPU v5e, 819 MB of KV."""
    chips = pm.GpuSpec(
        name="TPU v5e x 16", memory_bandwidth=16 * 8.1e11, peak_flops={"bf16": 16 * 1.97e14}
    )
    shape = pm.ModelShape.from_totals(params=30e9, kv_bytes_per_token=100e3)
    step = pm.decode(shape, chips, batch=batch, context=8192, precision="w8a16")
    assert step.time == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("precision", "bits"),
    [("w4a16", 4.125), ("nvfp4", 4.5), ("w8a16", 8.0), ("fp8", 8.0), ("bf16", 16.0)],
)
def test_bits_a_weight_with_scales(precision, bits):
    # int4 in groups of 128 with a 16-bit scale: 4 + 16/128; nvfp4 in blocks of 16 with 8: 4 + 8/16.
    stored = pm.Precision.preset(precision).linear.weights
    assert 8 * stored.nbytes(2**20) / 2**20 == bits


def test_a_row_of_int8_weights_has_one_16_bit_scale():
    stored = pm.Precision.preset("w8a16").linear.weights
    assert stored.nbytes(1000 * 10, rows=10) == 10_000 + 10 * 2


def test_windowed_attention_by_hand():
    # Three new queries after one cached token, window 3: 2 + 3 + 3 pairs; one query head of width
    # 2 does 4 x 2 FLOPs a pair. KV: the past token and three new ones, 2 x 2 numbers, 2 bytes.
    layer = pm.Attention(heads=1, kv_heads=1, head_dim=2, window=3)
    shape = pm.ModelShape(hidden=2, blocks=((1, (layer,)),))
    step = pm.prefill(shape, H100, prompt=3, past=1, precision="bf16")
    attention = next(op for op in step.operations if op.kind == "attention")
    assert attention.flops == 8 * (2 + 3 + 3)
    assert attention.kv_bytes == (1 + 3) * 4 * 2


def test_a_shared_prefix_is_read_once_by_hand():
    # 8 users, 100 tokens each, of which 90 are one prefix: 90 + 8 x 10 tokens of 131,072 B.
    shape = pm.read_hf(LLAMA_8B)
    step = pm.decode(shape, A100, batch=8, context=100, shared_past=90)
    assert step.kv_traffic == (90 + 8 * 10) * 131_072
    assert step.memory.kv == (90 + 8 * 10) * 131_072


def test_memory_by_hand():
    # 16.06 GB of weights beside 64 x 4,096 x 131,072 B of KV, on 80 GB.
    held = pm.memory(pm.read_hf(LLAMA_8B), A100, batch=64, context=4096)
    assert held.weights == 2 * 8_030_261_248
    assert held.kv == 64 * 4096 * 131_072
    assert held.free == 80e9 - held.weights - held.kv
    assert held.fits
    # (80e9 - 16,060,522,496) / (4,096 x 131,072) = 119.1
    assert pm.max_batch(pm.read_hf(LLAMA_8B), A100, context=4096) == 119
    # (80e9 - 16,060,522,496) / 131,072 = 487,819.5
    assert pm.max_context(pm.read_hf(LLAMA_8B), A100, batch=1) == 487_819


def test_generation_by_hand():
    # 8e9 parameters, no cache: 512 tokens of prompt at 989 TFLOP/s, then 9 steps of 16e9 / 3.35e12.
    run = pm.generate(EIGHT_BILLION, H100, prompt=512, output=10)
    assert run.ttft == pytest.approx(2 * 8e9 * 512 / 989e12)
    assert run.tpot == pytest.approx(16e9 / 3.35e12)
    assert run.total == pytest.approx(run.ttft + 9 * 16e9 / 3.35e12)
    alone = pm.generate(EIGHT_BILLION, H100, prompt=512, output=1)
    assert alone.tpot is None
    assert alone.total == alone.ttft


def test_efficiency_by_hand():
    # 80 % of the bandwidth and 1 ms a step: 16e9 / (0.8 x 3.35e12) + 1e-3.
    slower = pm.Efficiency(memory=0.8, step_overhead=1e-3)
    step = pm.decode(EIGHT_BILLION, H100, batch=1, efficiency=slower)
    assert step.time == pytest.approx(16e9 / (0.8 * 3.35e12) + 1e-3)
    # p = 2 joins 3 and 4 to 5.
    assert pm.Efficiency(exponent=2).time(compute=3.0, memory=4.0) == pytest.approx(5.0)
    assert step.floor == pytest.approx(16e9 / 3.35e12)
