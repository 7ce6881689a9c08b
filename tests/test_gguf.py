"""File types of llama.cpp, against the sizes that it printed of files.

Sizes are those of all tensors. Llama-3.1's files hold 64 numbers in fp32 besides, which stretch
its rotary positions: they are added here, as in llama.cpp's own counts.
"""

from __future__ import annotations

from itertools import product

import pytest

import perfmodel as pm
from perfmodel.base.precision import FILE_TYPES
from perfmodel.work import gguf

GIB = 2**30
ROTARY = 64

# Bits a weight of Llama-3.1-8B: llama.cpp, tools/quantize/README.md.
BITS = {
    "q2_k": 3.1593,
    "q3_k_s": 3.6429,
    "q3_k_m": 3.9960,
    "q3_k_l": 4.2979,
    "q4_k_s": 4.6672,
    "q4_k_m": 4.8944,
    "q5_k_s": 5.5704,
    "q5_k_m": 5.7036,
    "q6_k": 6.5633,
    "q8_0": 8.5008,
    "iq3_s": 3.6606,
    "iq3_m": 3.7628,
    "iq4_nl": 4.6818,
    "iq4_xs": 4.4597,
}


@pytest.mark.parametrize("file_type", BITS)
def test_bits_a_weight_of_llama_3_1_8b(file_type):
    model = pm.model("llama-3.1-8b")
    held = model.weight_bytes(file_type) + 4 * ROTARY
    assert round(8 * held / (model.params + ROTARY), 4) == BITS[file_type]


# Bytes that llama-bench reports as model_size.
BYTES = [
    # lhl/strix-halo-testing, llm-bench at 5ee14b5b0ecf
    ("llama-2-7b", "q4_0", 3_825_065_984),
    ("llama-2-7b", "q4_k_m", 4_080_263_168),
    ("llama-3.1-8b", "q4_k_m", 4_912_898_304 - 4 * ROTARY),
    ("llama-3.3-70b", "q4_k_m", 42_512_531_712 - 4 * ROTARY),
    ("qwen3-32b", "q8_0", 34_811_744_256),
    # Qwen2.5-Coder-0.5B: rows of 896 hold no whole block of 256; tied
    ("qwen2.5-0.5b", "q4_k_m", 391_859_712),
]


@pytest.mark.parametrize(("key", "file_type", "held"), BYTES)
def test_bytes_of_a_file(key, file_type, held):
    assert pm.model(key).weight_bytes(file_type) == held


# What llama-bench prints: GiB to a hundredth, of Q4_K - Medium.
PRINTED = [
    ("qwen2.5-7b", 4.36),
    ("qwen3-8b", 4.68),
    ("llama-3.2-3b", 1.87),  # tied: one table, in q6_k
    ("qwen3-30b-a3b", 17.28),  # 128 experts
    ("mixtral-8x7b", 26.49),  # eight: keys and values in q8_0, attention's result in q5_k
]


@pytest.mark.parametrize(("key", "printed"), PRINTED)
def test_sizes_as_printed(key, printed):
    assert round(pm.model(key).weight_bytes("q4_k_m") / GIB, 2) == printed


def test_files_that_fuse_queries_keys_and_values_are_a_little_larger():
    """EN-069: Phi-3-mini, 2228.82 + 52.84 MiB. llama.cpp keeps a fused matrix in q5_k whole; three
    tensors, as here, come to 4 % less at most.
    """
    model, printed = pm.model("phi-3-mini-4k"), (2228.82 + 52.84) * 2**20
    held = model.weight_bytes("q4_k_m")
    assert 0.96 < held / printed < 1
    # 32 layers of 3072 x 3 x 3072, a third of them values, of which half are in q6_k
    weights = 32 * 3072 * 3 * 3072
    apart = weights * (5 / 6 * 144 + 1 / 6 * 210) / 256
    assert held - apart + weights * 176 / 256 == pytest.approx(printed, abs=0.01 * 2**20)


def test_llama_3_1_8b_by_hand():
    """q4_k_m: layers 0 to 3, 28 to 31, and 6, 9 ... 27 have more bits: 16 of 32."""
    found = pm.model("llama-3.1-8b").resolve_precision("q4_k_m")
    parts = {name: 8 * formats.weights.nbytes(2**20) / 2**20 for name, formats in found.parts}
    q4, q6 = 8 * 144 / 256, 8 * 210 / 256
    assert parts["feedforward.gate_up"] == parts["attention.output"] == q4
    assert parts["feedforward.down"] == (q4 + q6) / 2
    # 4096 queries and 1024 keys in q4_k; 1024 values, half of them in q6_k
    assert parts["attention.qkv"] == pytest.approx((5120 * q4 + 1024 * (q4 + q6) / 2) / 6144)
    assert (parts["embedding"], parts["head"]) == (q4, q6)
    # Norms are in fp32, the cache in fp16; products of quantized matrices are in int8.
    assert (found.rest.name, found.kv.name, found.attention) == ("fp32", "fp16", "fp16")
    assert found.linear.compute == dict(found.parts)["head"].compute == "int8"


def test_the_layers_with_more_bits():
    """Of 28 layers: 0 to 2, 25 to 27 and every third between would be wrong: 7 * 28 // 8 is 24."""
    at = [gguf._Place(layer, 28, 1, 1) for layer in range(28)]
    more = [place.layer for place in at if gguf._more_bits(place)]
    assert more == [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]


def test_a_step_reads_what_the_file_holds():
    # All but the token table: a lookup reads its rows. Norms are counted with the small steps.
    model, chip = pm.model("llama-2-7b"), pm.gpu("rtx-4090")
    step = pm.decode(model, chip, batch=1, context=512, precision="q4_0")
    table, norms = 32_000 * 4096 * 18 / 32, 65 * 4096 * 4
    assert step.weight_traffic == 3_825_065_984 - table - norms
    lookup = step.operations[0]
    assert lookup.activation_bytes == 4096 * 18 / 32 + 4096 * 4


def test_other_parts_stand_behind_a_file_type():
    model = pm.model("qwen3-8b")
    found = model.resolve_precision("q4_k_m+kvq8_0+compute16")
    assert found.name == "q4_k_m+kvq8_0+compute16"
    assert found.kv.name == "q8_0"
    assert {formats.compute for _, formats in found.parts} == {"bf16"}
    assert model.weight_bytes(found) == model.weight_bytes("q4_k_m")
    assert found is model.resolve_precision("q4_k_m+kvq8_0+compute16")
    assert model.resolve_precision("q8_0+kvfp16").name == "q8_0"


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_no_step_beats_its_floor(file_type):
    for key in ("qwen3-30b-a3b", "gemma-2-9b", "starcoder2-3b"):
        step = pm.decode(
            pm.model(key), pm.gpu("rtx-4090"), batch=64, context=512, precision=file_type
        )
        assert 0 < step.floor <= step.time


@pytest.mark.parametrize("file_type", FILE_TYPES)
def test_every_file_type_is_resolved(file_type):
    for key in ("opt-6.7b", "gpt2", "gemma-3-4b", "gpt-oss-20b", "llama-4-scout"):
        model = pm.model(key)
        base = gguf._MIXTURES[file_type].base
        bits = 8 * model.weight_bytes(file_type) / model.params
        least = 8 * gguf.format_named(base).nbytes(2**20) / 2**20
        assert least < bits < 16


def test_the_list_of_file_types_is_that_of_mixtures():
    assert tuple(gguf._MIXTURES) == FILE_TYPES
    for mixed, short in product(gguf._MIXTURES.values(), gguf._SHORT_ROWS.values()):
        assert gguf.format_named(mixed.base).block in (32, 256)
        assert gguf.format_named(short).block == 32


def test_rows_that_hold_no_block_stay_in_fp16():
    # 100 is no multiple of 32: q4_k falls back to q5_0, and that to fp16.
    odd = pm.ModelShape.dense(layers=2, hidden=100, heads=4, ffn=256, vocab=64)
    parts = dict(odd.resolve_precision("q4_k_m").parts)
    assert parts["feedforward.gate_up"].weights.name == "fp16"
    assert parts["feedforward.gate_up"].compute == "fp16"
    # The last of two layers has more bits.
    assert parts["feedforward.down"].weights.name == "q4_k+q6_k"


def test_file_types_need_a_model_of_known_layers():
    with pytest.raises(pm.errors.UnknownKeyError, match=r"'q4_k_m' is a type of GGUF files"):
        pm.Precision.preset("q4_k_m")
    with pytest.raises(pm.errors.InvalidValueError, match="DeepSeek-V3 has latent"):
        pm.model("deepseek-v3").weight_bytes("q4_k_m")
    with pytest.raises(pm.errors.InvalidValueError, match="has totals"):
        pm.ModelShape.from_totals(params=8e9).weight_bytes("q4_k_m")
    with pytest.raises(pm.errors.UnknownKeyError, match=r"no preset 'q4_k_x'; did you mean 'q4_k_"):
        pm.model("llama-2-7b").weight_bytes("q4_k_x")
