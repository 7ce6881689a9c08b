"""The conventions of the physics, one by one, with the arithmetic written out.

What the conventions page says is what a test here would notice if it were otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import date

import pytest

import perfmodel as pm
from perfmodel import symbolic
from perfmodel.base import precision
from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.formats import FORMATS, Format

H100 = pm.GpuSpec(
    name="H100",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12, "fp8": 1978e12, "int8": 1978e12, "nvfp4": 3956e12},
)
# The sizes of Qwen3-0.6B: norms on queries and keys, tied ends, heads wider than hidden / heads.
QWEN3 = pm.read_hf(
    {
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
)
GPT2 = pm.read_hf(
    {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "n_positions": 1024,
        "vocab_size": 50257,
    }
)


def operation(step: pm.Estimate, name: str) -> pm.Operation:
    return next(op for op in step.operations if op.name == name)


# -- precision ----------------------------------------------------------------------------------

PRESETS = {
    # preset: linears' weights, inputs, outputs; head and the rest; KV; linears, head, attention
    "bf16": ("bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    "fp16": ("fp16", "fp16", "fp16", "fp16", "fp16", "fp16", "fp16", "fp16"),
    "fp32": ("fp32", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32", "fp32"),
    "tf32": ("fp32", "fp32", "fp32", "fp32", "fp32", "tf32", "tf32", "tf32"),
    "fp8": ("fp8", "fp8", "bf16", "bf16", "bf16", "fp8", "bf16", "bf16"),
    "fp8-channel": ("fp8-row", "fp8", "bf16", "bf16", "bf16", "fp8", "bf16", "bf16"),
    "fp8-block": ("fp8-128x128", "fp8", "bf16", "bf16", "bf16", "fp8", "bf16", "bf16"),
    "int8": ("int8", "int8", "bf16", "bf16", "bf16", "int8", "bf16", "bf16"),
    "w8a16": ("int8-row", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    "w4a16": ("int4-g128", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    # vLLM's names: W4A8 (int8 inputs), W4AFP8, MXFP4A16, NVFP4A16
    "w4a8": ("int4-g128", "int8", "bf16", "bf16", "bf16", "int8", "bf16", "bf16"),
    "w4afp8": ("int4-g128", "fp8", "bf16", "bf16", "bf16", "fp8", "bf16", "bf16"),
    # compressed-tensors' names: W4A4, MXFP8A16, MXFP8, MXFP4; mxfp6 is AMD Quark's.
    "w4a4": ("int4-g128", "int4", "bf16", "bf16", "bf16", "int4", "bf16", "bf16"),
    "mxfp8a16": ("mxfp8", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    "mxfp8": ("mxfp8", "mxfp8", "bf16", "bf16", "bf16", "mxfp8", "bf16", "bf16"),
    "mxfp6": ("mxfp6", "mxfp6", "bf16", "bf16", "bf16", "mxfp6", "bf16", "bf16"),
    "mxfp4": ("mxfp4", "mxfp4", "bf16", "bf16", "bf16", "mxfp4", "bf16", "bf16"),
    "mxfp4a16": ("mxfp4", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    "nvfp4a16": ("nvfp4", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16", "bf16"),
    "nvfp4": ("nvfp4", "nvfp4", "bf16", "bf16", "bf16", "nvfp4", "bf16", "bf16"),
}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_those_of_the_table(name):
    p = pm.Precision.preset(name)
    stored = (p.linear.weights, p.linear.inputs, p.linear.outputs, p.rest, p.kv)
    computed = (p.linear.compute, p.head.compute, p.attention)
    assert tuple(f.name for f in stored) + computed == PRESETS[name]
    assert p.head.inputs == p.head.outputs == p.head.weights


def test_no_preset_is_missing_from_the_table():
    assert set(PRESETS) == set(precision.PRESETS)


BITS = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "int4": 4}
# One 16-bit scale in 32, 64 or 128 numbers; with a 4-bit zero point 20 bits in 128.
BITS |= {"int4-g32": 4.5, "int4-g64": 4.25, "int4-g128": 4.125, "int4-g128z": 4.15625}
# A 32-bit scale for 128 x 128 numbers is 1/512 of a bit each.
BITS |= {"fp8-128x128": 8 + 1 / 512}
# OCP Microscaling formats 1.0, table 1: 8 bits of scale for 32 elements. NVFP4: 8 bits for 16.
BITS |= {"mxfp8": 8.25, "mxfp6": 6.25, "mxfp4": 4.25, "nvfp4": 4.5}

# Bytes of a block, as ggml's header asserts them of its structs: so many bytes for so many numbers.
BLOCKS = {"q4_0": (18, 32), "q4_1": (20, 32), "q5_0": (22, 32), "q5_1": (24, 32), "q8_0": (34, 32)}
BLOCKS |= {"q8_1": (36, 32)}
BLOCKS |= {"q2_k": (84, 256), "q3_k": (110, 256), "q4_k": (144, 256), "q5_k": (176, 256)}
BLOCKS |= {"q6_k": (210, 256), "iq4_nl": (18, 32), "iq4_xs": (136, 256), "iq3_s": (110, 256)}
BLOCKS |= {"iq3_xxs": (98, 256), "iq2_s": (82, 256), "iq2_xs": (74, 256), "iq2_xxs": (66, 256)}
BLOCKS |= {"iq1_m": (56, 256), "iq1_s": (50, 256)}
BITS |= {name: 8 * size / numbers for name, (size, numbers) in BLOCKS.items()}

# Bits of the scale that each row of a matrix has besides.
ROWS = {"int8-row": 16, "fp8-row": 32, "fp8-row16": 16}


@pytest.mark.parametrize("name", BITS)
def test_bits_of_a_number_with_its_scale(name):
    found = pm.Precision.preset("bf16", kv=name).kv
    assert found == FORMATS[name]
    assert 8 * found.nbytes(2**20) / 2**20 == BITS[name]


@pytest.mark.parametrize("name", ROWS)
def test_bytes_of_a_matrix_with_a_scale_a_row(name):
    assert FORMATS[name].nbytes(1000 * 10, rows=10) == 10_000 + 10 * ROWS[name] / 8


def test_every_format_has_a_witness():
    assert set(BITS) | set(ROWS) == set(FORMATS)
    assert len(FORMATS) == len(set(FORMATS))


@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_valid_records(name):
    found = FORMATS[name]
    again = Format(**found.model_dump())
    assert (found, found.model_dump_json()) == (again, again.model_dump_json())
    assert found.name == name


def test_every_row_of_the_catalog_of_formats_has_a_source():
    sources = read_toml(catalogs() / "formats.toml")["source"]
    rows = [name for source in sources for name in source["formats"]]
    assert len(rows) == len(set(rows))
    assert set(FORMATS) - set(rows) == {"fp32", "fp16", "bf16", "fp8", "int8", "int4"}
    for source in sources:
        assert source["title"]
        assert source["publisher"]
        assert source["place"]
        assert date.fromisoformat(source["date"])


def test_a_format_of_the_users_own():
    # 3 bits, and a scale of 16 for 64: 3.25 bits a number. 2 * 4096 * 14336 numbers, gate and up.
    mine = Format(name="int3-g64", bits=3, scale_bits=16, block=64)
    half = pm.Precision.preset("bf16")
    linear = half.linear.model_copy(update={"weights": mine})
    weights = half.model_copy(update={"name": "mine", "linear": linear})
    up = operation(
        pm.decode(pm.model("llama-3.1-8b"), H100, batch=1, context=8, precision=weights), "gate_up"
    )
    assert up.weight_bytes == 2 * 4096 * 14336 * 3.25 / 8


def test_common_precisions_need_no_file():
    code = (
        "import sys, perfmodel as pm\n"
        "pm.Precision.parse('fp8+kv8+state16+compute16')\n"
        "assert 'tomllib' not in sys.modules\n"
        "assert pm.Precision.parse('w4a16').linear.weights.block == 128\n"
        "assert 'tomllib' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_attention_moves_queries_and_results_in_the_linears_output_format():
    # fp8 linears write bf16: queries in, result out, 2 x 2 B x 16 heads x 128, of 64 tokens.
    step = pm.decode(QWEN3, H100, batch=64, context=8, precision="fp8")
    assert operation(step, "attention").activation_bytes == 64 * 2 * 2 * 16 * 128
    # QKV reads 1,024 numbers of 1 B and writes 4,096 of 2 B.
    assert operation(step, "qkv").activation_bytes == 64 * (1024 + 2 * 4096)


def test_w4a16_moves_a_quarter_and_computes_in_bf16():
    step = pm.decode(QWEN3, H100, batch=1, context=8, precision="w4a16")
    up = operation(step, "gate_up")
    assert up.weight_bytes == 1024 * 6144 * 4.125 / 8
    assert up.compute == "bf16"


A100 = pm.GpuSpec(
    name="A100", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12, "int8": 624e12}
)


def test_computing_wider_is_asked_for():
    with pytest.raises(pm.errors.UnsupportedFormatError, match=r"A100 has no fp8 peak.*compute16"):
        pm.decode(QWEN3, A100, batch=64, context=8, precision="fp8")
    step = pm.decode(QWEN3, A100, batch=64, context=8, precision="fp8+compute16")
    narrow = pm.decode(QWEN3, H100, batch=64, context=8, precision="fp8")
    down = operation(step, "down")
    # The weights of 1 B each, and 64 rows of 3,072 numbers in and 1,024 out, now of 2 B each.
    assert down.compute == "bf16"
    assert down.weight_bytes == operation(narrow, "down").weight_bytes == 3072 * 1024
    assert down.activation_bytes == 64 * (2 * 3072 + 2 * 1024)
    assert operation(narrow, "down").activation_bytes == 64 * (3072 + 2 * 1024)


def test_wider_nvfp4_is_nvfp4_weights_alone():
    wider, alone = pm.Precision.parse("nvfp4+compute16"), pm.Precision.preset("nvfp4a16")
    assert wider == pm.Precision.preset("nvfp4", compute="bf16")
    assert wider.name == "nvfp4+compute16"
    for field in ("linear", "head", "kv", "attention", "state"):
        assert getattr(wider, field) == getattr(alone, field)


@pytest.mark.parametrize(
    ("text", "computes"),
    [
        # linears, head, attention: what is wider stays
        ("fp8+kv8+state16+compute16", ("bf16", "bf16", "bf16")),
        ("fp8+computefp32", ("fp32", "fp32", "fp32")),
        ("nvfp4+compute8", ("fp8", "bf16", "bf16")),
        ("uniform-fp8+compute16", ("bf16", "bf16", "bf16")),
        ("w4a8+computefp16", ("fp16", "fp16", "fp16")),
        ("w4a8+compute8", ("fp8", "bf16", "bf16")),
        ("mxfp4+computefp32", ("fp32", "fp32", "fp32")),
        ("tf32+computefp32", ("fp32", "fp32", "fp32")),
        ("fp16+compute16", ("bf16", "bf16", "bf16")),
        ("fp16+computefp16_acc16", ("fp16_acc16", "fp16_acc16", "fp16_acc16")),
        ("fp8+computefp8_acc16", ("fp8_acc16", "bf16", "bf16")),
        ("bf16+computetf32", ("tf32", "tf32", "tf32")),
    ],
)
def test_what_computes_wider(text, computes):
    found = pm.Precision.parse(text)
    assert (found.linear.compute, found.head.compute, found.attention) == computes
    assert found.name == text
    stored = pm.Precision.parse(text.partition("+compute")[0])
    for part in ("linear", "head"):
        assert getattr(found, part).weights == getattr(stored, part).weights
        assert getattr(found, part).outputs == getattr(stored, part).outputs
    assert (found.kv, found.state) == (stored.kv, stored.state)


def test_asking_twice_is_asking_once_for_the_wider():
    twice = pm.Precision.parse("nvfp4+compute8").computing("bf16")
    assert twice == pm.Precision.parse("nvfp4+compute16")


@pytest.mark.parametrize(
    "text", ["bf16+compute8", "bf16+computefp8_acc16", "fp32+compute16", "fp32+computetf32"]
)
def test_what_is_narrower_is_refused(text):
    with pytest.raises(pm.errors.InvalidValueError, match="compute: expected a format as wide as"):
        pm.Precision.parse(text)


@pytest.mark.parametrize("name", sorted(set(PRESETS) - {"fp32", "tf32"}))
def test_every_preset_of_16_bits_or_fewer_computes_in_bf16_if_asked(name):
    found, stored = pm.Precision.preset(name, compute="bf16"), pm.Precision.preset(name)
    assert {found.linear.compute, found.head.compute, found.attention} == {"bf16"}
    assert found.linear.weights == stored.linear.weights
    assert found.linear.inputs.bits == 16


def test_what_computes_so_already_keeps_its_name():
    assert pm.Precision.parse("bf16+compute16") is pm.Precision.parse("bf16")
    assert pm.Precision.preset("w4a16", compute="bf16") == pm.Precision.preset("w4a16")


def test_summing_in_16_bits_is_asked_for():
    """An RTX 4090: 165.2 TFLOP/s of fp16 with sums in fp32, 330.3 with sums in fp16 (Ada paper)."""
    ada = pm.GpuSpec(
        name="Ada",
        memory_bandwidth=1.008e12,
        peak_flops={"fp16": 165.2e12, "fp16_acc16": 330.3e12},
    )
    usual, fast = (
        pm.prefill(QWEN3, ada, prompt=4096, precision=text)
        for text in ("fp16", "fp16+computefp16_acc16")
    )
    assert usual.flops == fast.flops
    assert usual.bytes == fast.bytes
    assert usual.compute_time / fast.compute_time == pytest.approx(330.3 / 165.2)
    with pytest.raises(pm.errors.UnsupportedFormatError, match="no fp16_acc16 peak"):
        pm.decode(QWEN3, H100, batch=1, context=8, precision="fp16+computefp16_acc16")


def test_mxfp4_of_gpt_oss_only_stores():
    # vLLM widens it on Hopper (Marlin); the preset mxfp4 computes in it, as in compressed-tensors.
    stored = pm.model("gpt-oss-120b").precision
    assert stored.linear.weights.name == "mxfp4"
    assert (stored.linear.inputs.name, stored.linear.compute) == ("bf16", "bf16")
    with pytest.raises(pm.errors.UnsupportedFormatError, match="H100 has no mxfp4 peak"):
        pm.decode(pm.model("gpt-oss-120b"), H100, batch=1, context=8, precision="mxfp4")


INSTEAD = [
    # what is asked for, what the chip has, what the message advises
    ("mxfp4", ("fp16", "bf16", "fp8"), '"+compute16" behind a precision computes in bf16'),
    ("int4", ("fp16",), '"+computefp16" behind a precision computes in fp16'),
    ("mxfp8", ("fp32",), '"+computefp32" behind a precision computes in fp32'),
    ("bf16", ("fp16", "int8"), '"+computefp16" behind a precision computes in fp16'),
    ("fp16_acc16", ("fp16", "bf16"), '"+computefp16", in place of what it has, sums in fp32'),
    ("fp8_acc16", ("bf16", "fp8"), '"+compute8", in place of what it has, sums in fp32'),
    ("tf32", ("fp32",), '"+computefp32" behind a precision computes in fp32'),
    ("fp32", ("bf16",), None),
    ("fp16", ("int8",), None),
    ("fp61", ("bf16",), None),
]


@pytest.mark.parametrize(("wanted", "has", "advice"), INSTEAD)
def test_a_chip_that_lacks_a_format_names_the_nearest(wanted, has, advice):
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops=dict.fromkeys(has, 1e14))
    with pytest.raises(pm.errors.UnsupportedFormatError) as caught:
        chip.peak(wanted)
    # What it has, in the order of PeakFlops: wide to narrow.
    stated = str(caught.value)
    assert "it has: " + ", ".join(has) in stated
    assert stated.partition(". ")[2] == (advice or "")


@pytest.mark.parametrize("name", ["nvfp4", "bf61", 16, None, ["bf16"]])
def test_formats_that_nothing_widens_to(name):
    with pytest.raises(pm.errors.UnknownKeyError, match="compute: no format"):
        pm.Precision.preset("nvfp4").computing(name)


def test_a_checkpoints_own_precision_computes_wider():
    """DeepSeek-V3 is stored in fp8 blocks; an A100 has no fp8."""
    v3 = pm.model("deepseek-v3")
    wider = v3.precision.computing("bf16")
    assert wider.name == "checkpoint-fp8-128x128+compute16"
    step = pm.decode(v3, A100, batch=1, context=8, precision=wider)
    assert {op.compute for op in step.operations} == {"bf16"}
    # A multiply-add is two FLOPs in any format, and the checkpoint's bytes are what is read.
    own = pm.decode(v3, H100, batch=1, context=8)
    assert (step.flops, step.weight_traffic) == (own.flops, own.weight_traffic)


def test_parts_of_a_checkpoint_that_are_wide_already_stay():
    """gpt-oss: experts in mxfp4 that compute in bf16, attention in bf16."""
    own = pm.model("gpt-oss-120b").precision
    assert own.computing("bf16") is own
    with pytest.raises(pm.errors.InvalidValueError, match=r"checkpoint-mxfp4 computes in .bf16"):
        own.computing("fp8")
    assert {formats.compute for _, formats in own.computing("tf32").parts} == {"tf32"}


# -- operations ---------------------------------------------------------------------------------


def test_the_default_list_of_operations():
    step = pm.decode(QWEN3, H100, batch=1, context=8)
    names = [op.name for op in step.operations]
    assert names == ["embedding", "qkv", "attention", "output", "gate_up", "down", "head"]
    assert [op.calls for op in step.operations] == [1, 28, 28, 28, 28, 28, 1]


def test_a_lookup_moves_the_rows_used():
    # GPT-2: a token row and a position row read, the hidden state written; 768 numbers of 2 B.
    step = pm.decode(GPT2, H100, batch=5, context=8, precision="bf16")
    lookup = operation(step, "embedding")
    assert lookup.activation_bytes == 5 * 3 * 768 * 2
    assert (lookup.flops, lookup.weight_bytes, lookup.kv_bytes) == (0, 0, 0)


def test_small_steps_of_qwen3():
    step = pm.prefill(QWEN3, H100, prompt=10, small_steps="separate")
    small = [op for op in step.operations if op.kind == "small"]
    values = {  # numbers that one token moves
        "norm": 2 * 1024,
        "qk norm": 2 * (16 + 8) * 128,
        "residual": 3 * 1024,
        "activation": (2 + 1) * 3072,
        "last norm": 2 * 1024,
    }
    assert [op.name for op in small] == [
        *("norm", "qk norm", "residual", "norm", "activation", "residual", "last norm")
    ]
    for op in small:
        assert op.activation_bytes == 10 * 2 * values[op.name], op.name
        assert op.calls == (1 if op.name == "last norm" else 28)


def test_nominal_flops_of_small_steps():
    flops = {"norm": 4 * 1024, "qk norm": 4 * 24 * 128, "residual": 1024, "activation": 5 * 3072}
    for op in pm.prefill(QWEN3, H100, prompt=10, small_steps="separate").operations:
        if op.name in flops:
            assert op.flops == 10 * flops[op.name], op.name
    plain = {"norm": 7 * 768, "activation": 8 * 3072}
    for op in pm.prefill(GPT2, H100, prompt=10, small_steps="separate").operations:
        if op.name in plain:
            assert op.flops == 10 * plain[op.name], op.name


def test_small_steps_leave_the_floor_alone():
    fused, separate = (
        pm.prefill(QWEN3, H100, prompt=512, small_steps=way) for way in ("fused", "separate")
    )
    assert fused.floor == separate.floor
    assert fused.time < separate.time


# -- limits -------------------------------------------------------------------------------------


def test_a_tie_is_memory():
    # 16 B of weights and T tokens of 16 FLOPs: equal at T = 5 where the chip does 5 FLOP a byte.
    chip = pm.GpuSpec(name="tie", memory_bandwidth=1e9, peak_flops={"bf16": 5e9})
    shape = pm.ModelShape.from_totals(params=8)
    bounds = {batch: pm.decode(shape, chip, batch=batch).bound for batch in (4, 5, 6)}
    assert bounds == {4: "memory", 5: "memory", 6: "compute"}
    (row,) = pm.decode(shape, chip, batch=5).rows()
    assert row.bound == "memory"


# -- windows and shared prefixes ----------------------------------------------------------------


def kv_tokens(**group: int) -> tuple[float, float]:
    """Tokens of KV that a group moves and then holds in one layer with a window of 64."""
    layer = pm.Attention(heads=1, kv_heads=1, head_dim=1, window=64)
    shape = pm.ModelShape(hidden=1, blocks=((1, (layer,)),))
    step = pm.estimate(shape, H100, pm.Step(groups=(pm.Group(**group),)), precision="bf16")
    per_token = 2 * 2  # a key and a value of one number, 2 B
    return step.kv_traffic / per_token, step.memory.kv / per_token


def test_a_window_reaches_into_a_shared_prefix():
    # Tokens 36 to 99 are visible: 54 of the shared 90, and 9 own ones; the new one makes ten.
    assert kv_tokens(count=8, new=1, past=99, shared_past=90) == (54 + 8 * 10, 54 + 8 * 10)


def test_a_window_that_has_left_the_prefix_behind():
    assert kv_tokens(count=8, new=1, past=199, shared_past=90) == (8 * 64, 8 * 64)


def test_a_long_prompt_keeps_no_more_than_the_window():
    assert kv_tokens(count=2, new=100) == (2 * 64, 2 * 64)
    # A chunk reads the 63 past tokens that its first query sees, and keeps its own last 64.
    assert kv_tokens(count=2, new=100, past=500) == (2 * (63 + 64), 2 * 64)


# -- ridges -------------------------------------------------------------------------------------

MIXED = pm.ModelShape(  # two full blocks, two with a window of 32
    hidden=64,
    blocks=(
        (2, (pm.Attention(heads=4, kv_heads=4, head_dim=16), pm.FeedForward(width=256))),
        (2, (pm.Attention(heads=4, kv_heads=4, head_dim=16, window=32), pm.FeedForward(width=256))),
    ),
)


def test_critical_context_behind_windows_by_brute_force():
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e9, peak_flops={"bf16": 8e9})
    weights = 4 * (64 * 192 + 64 * 64 + 3 * 64 * 256)

    def still_has_a_ridge(context: int) -> bool:
        attended = 2 * context + 2 * min(context, 32)
        compute = (2 * weights + 4 * 4 * 16 * attended) / 8e9
        return compute > attended * 2 * 64 * 2 / 1e9

    longest = max(context for context in range(1, 2000) if still_has_a_ridge(context))
    assert 32 < longest < 1999
    assert pm.critical_context(MIXED, chip, precision="bf16") == longest


def test_windows_everywhere_may_leave_a_ridge_at_every_context():
    windowed = QWEN3.with_(window=16)
    with pytest.raises(pm.errors.NoRidgeError, match="every context has a ridge"):
        pm.critical_context(windowed, H100)
    assert pm.step_ridge_batch(windowed, H100, context=100_000) > 0


def test_a_chip_on_which_no_context_has_a_ridge():
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e9, peak_flops={"bf16": 1e15})
    tiny = pm.ModelShape.dense(layers=1, hidden=8, heads=8, ffn=8)
    with pytest.raises(pm.errors.NoRidgeError, match="not even a context of one token"):
        pm.critical_context(tiny, chip)
    with pytest.raises(pm.errors.NoRidgeError, match="memory-bound"):
        pm.step_ridge_batch(tiny, chip, context=1)


# -- closed forms -------------------------------------------------------------------------------


def test_closed_forms_take_the_checkpoints_precision_as_the_floats_do():
    fp32 = QWEN3.model_copy(update={"precision": pm.Precision.preset("fp32")})
    chip = H100.model_copy(update={"peak_flops": {"fp32": 67e12}})
    expected = pm.decode(fp32, chip, batch=1, context=1).time
    assert symbolic.step_time(model=fp32, gpu=chip)(B=1, S=1) == pytest.approx(expected, rel=1e-12)


def test_no_batch_meets_a_time_that_the_weights_alone_exceed():
    form = symbolic.max_batch_for_time(model=pm.ModelShape.from_totals(params=8e9), gpu=H100)
    assert form(t=0.01) == pytest.approx(989e12 * 0.01 / 16e9)
    with pytest.raises(pm.errors.NoRidgeError, match="weights alone"):
        form(t=0.004)  # 16e9 / 3.35e12 is 4.776 ms


def test_learned_positions_end_the_longest_context():
    form = symbolic.max_context_for_capacity(model=GPT2, gpu=H100)
    assert form(B=7) == pm.max_context(GPT2, H100, batch=7) == 1024


# -- units --------------------------------------------------------------------------------------


def test_multipliers_are_those_of_the_si():
    u = pm.units
    assert (u.KB, u.MB, u.GB, u.TB) == (10**3, 10**6, 10**9, 10**12)
    assert (u.KiB, u.MiB, u.GiB) == (1024, 1024**2, 1024**3)
    assert (u.GFLOPS, u.TFLOPS) == (10**9, 10**12)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1e18, "1.00 EB"),
        (2.5e15, "2.50 PB"),
        (1.234e12, "1.23 TB"),
        (85e9, "85.0 GB"),
        (1e6, "1.00 MB"),
        (1500, "1.50 kB"),
        (999.9996, "1.00 kB"),
        (1, "1.00 B"),
        (2e-3, "2.00 mB"),
        (3e-6, "3.00 µB"),
        (4e-9, "4.00 nB"),
        (5e-12, "5.00 pB"),
        (0, "0 B"),
        (-1500, "-1.50 kB"),
    ],
)
def test_prefixes(value, text):
    assert pm.units.si(value, "B") == text
