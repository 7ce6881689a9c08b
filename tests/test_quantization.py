"""Quantized checkpoints: bytes with their scales, modules left alone, the cache's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, PerfModelError, UnsupportedModelError
from perfmodel.sources.huggingface.modules import Modules

# One block of width 256: attention 256 x (256 + 2 x 128) and 256 x 256, feed-forward 3 x 256 x 512.
DENSE: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}
ATTENTION = 256 * 512 + 256 * 256
FEEDFORWARD = 3 * 256 * 512
BLOCK = ATTENTION + FEEDFORWARD
ROWS = 512 + 256 + 2 * 512 + 256  # outputs of the four products
REST = 2 * (2 * 1000 * 256 + 5 * 256)  # embedding, head, five norms, 2 B each


def quantized(**config: Any) -> dict[str, Any]:
    return DENSE | {"quantization_config": config}


def group(weights: dict[str, Any], inputs: dict[str, Any] | None = None, **more: Any) -> Any:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
        },
        "ignore": ["lm_head"],
    } | more


EIGHT = {"num_bits": 8, "type": "float", "strategy": "channel"}
FOUR = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32, "symmetric": True}
TWO_BLOCKS = 2 * BLOCK
# method: (section, bytes of the two blocks' matrices, what inputs are, what is computed in)
METHODS: dict[str, tuple[dict[str, Any], float, str, str]] = {
    # a scale of 4 B for 128 x 128
    "fp8 blocks": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        TWO_BLOCKS * (1 + 4 / 16384), "fp8", "fp8",
    ),
    "fp8, one scale": (
        {"quant_method": "fp8", "weight_block_size": None}, TWO_BLOCKS, "fp8", "fp8"
    ),
    # a scale of 4 B for each output
    "fbgemm": ({"quant_method": "fbgemm_fp8"}, TWO_BLOCKS + 2 * 4 * ROWS, "fp8", "fp8"),
    # 4 bits, and for 128 of them a scale of 2 B and a zero point of half a byte
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
        TWO_BLOCKS * (64 + 2.5) / 128, "bf16", "bf16",
    ),
    "awq without zero points": (
        {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": False},
        TWO_BLOCKS * (32 + 2) / 64, "bf16", "bf16",
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True},
        TWO_BLOCKS * (64 + 2.5) / 128, "bf16", "bf16",
    ),
    "gptq of 8 bits, a scale a row": (
        {"quant_method": "gptq", "bits": 8, "group_size": -1},
        TWO_BLOCKS + 2 * 3 * ROWS, "bf16", "bf16",
    ),
    # 4 bits, and for 64 of them 4 B
    "nf4": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
        TWO_BLOCKS * (32 + 4) / 64, "bf16", "bf16",
    ),
    # the 4 B become 1 B, and 256 of those share 4 B
    "nf4, scales quantized": (
        {
            "quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_use_double_quant": True,
        },
        TWO_BLOCKS * (32 + 1 + 4 / 256) / 64, "bf16", "bf16",
    ),
    "llm.int8": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        TWO_BLOCKS + 2 * 4 * ROWS, "bf16", "int8",
    ),
    # 4 bits, and for 32 of them 1 B
    "mxfp4": ({"quant_method": "mxfp4"}, TWO_BLOCKS * 17 / 32, "bf16", "bf16"),
    # 4 bits, and for 16 of them 1 B
    "modelopt nvfp4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]},
        TWO_BLOCKS * 9 / 16, "nvfp4", "nvfp4",
    ),
    "modelopt fp8": (
        {"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ["lm_head"]},
        TWO_BLOCKS, "fp8", "fp8",
    ),
    "modelopt awq": (
        {"quant_algo": "W4A16_AWQ", "group_size": 128, "exclude_modules": ["lm_head"]},
        TWO_BLOCKS * 66 / 128, "bf16", "bf16",
    ),
    "compressed int4": (group(FOUR), TWO_BLOCKS * 18 / 32, "bf16", "bf16"),
    "compressed fp8": (
        group(EIGHT, {"num_bits": 8, "type": "float"}), TWO_BLOCKS + 2 * 2 * ROWS, "fp8", "fp8"
    ),
    "compressed int8": (
        group(EIGHT | {"type": "int"}, {"num_bits": 8, "type": "int"}),
        TWO_BLOCKS + 2 * 2 * ROWS, "int8", "int8",
    ),
    "compressed nvfp4": (
        group(
            {"num_bits": 4, "type": "float", "group_size": 16},
            {"num_bits": 4, "type": "float", "group_size": 16},
            format="nvfp4-pack-quantized",
        ),
        TWO_BLOCKS * 9 / 16, "nvfp4", "nvfp4",
    ),
    # 8 bits, and for 32 of them 1 B
    "compressed mxfp8": (
        group(EIGHT | {"strategy": "group", "group_size": 32}, {"num_bits": 8, "type": "float"}),
        TWO_BLOCKS * 33 / 32, "fp8", "fp8",
    ),
    "compressed fp8 blocks, as a text": (
        group(
            EIGHT | {"strategy": "block", "block_structure": "128x128"},
            {"num_bits": 8, "type": "float"},
        ),
        TWO_BLOCKS * (1 + 4 / 16384), "fp8", "fp8",
    ),
    "auto-round under its maker's name": (
        {"quant_method": "intel/auto-round", "bits": 4, "group_size": 128, "data_type": "int"},
        TWO_BLOCKS * (64 + 2.5) / 128, "bf16", "bf16",
    ),
    "compressed mxfp4": (
        group({"num_bits": 4, "type": "float", "group_size": 32}, format="mxfp4-pack-quantized"),
        TWO_BLOCKS * 17 / 32, "bf16", "bf16",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("section", "matrices", "inputs", "compute"), METHODS.values(), ids=METHODS
)
def test_bytes_with_their_scales(section, matrices, inputs, compute):
    config = DENSE | {"quantization_config": section}
    shape = pm.read_hf(config)
    assert shape.weight_bytes() == pytest.approx(matrices + REST, rel=1e-12)
    assert shape.params == TWO_BLOCKS + 2 * 1000 * 256 + 5 * 256
    stored = pm.read_precision(config)
    assert stored == shape.precision
    assert (stored.linear.inputs.name, stored.linear.compute) == (inputs, compute)
    assert stored.kv.name == "bf16"


def test_it_is_what_no_precision_means():
    shape = pm.read_hf(quantized(quant_method="fp8", weight_block_size=[128, 128]))
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14, "fp8": 2e14})
    step = pm.decode(shape, chip, batch=1, context=1)
    assert step.precision == shape.precision
    assert step.weight_traffic == TWO_BLOCKS * (1 + 4 / 16384) + 2 * 1000 * 256
    assert "checkpoint's own" in step.explain()
    again = pm.Estimate.model_validate_json(step.model_dump_json())
    assert again.time == step.time
    assert pm.decode(shape, chip, batch=1, context=1, precision="bf16").weight_traffic == (
        2 * TWO_BLOCKS + 2 * 1000 * 256
    )


def test_a_chip_without_the_format_is_told():
    shape = pm.read_hf(quantized(quant_method="fp8", weight_block_size=[128, 128]))
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
    with pytest.raises(pm.errors.UnsupportedFormatError, match="no fp8 peak"):
        pm.decode(shape, chip, batch=1, context=1)


def test_the_dtype_is_what_is_left_alone():
    half = DENSE | {"torch_dtype": "float16"}
    stored = pm.read_precision(half | {"quantization_config": {"quant_method": "mxfp4"}})
    assert (stored.head.weights.name, stored.kv.name, stored.attention) == ("fp16", "fp16", "fp16")
    assert pm.read_precision(half).name == "fp16"
    bare = {key: value for key, value in DENSE.items() if key != "torch_dtype"}
    assert pm.read_precision(bare).name == "bf16"


# -- modules left alone ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kept",
    [
        [f"model.layers.0.mlp.{name}_proj" for name in ("gate", "up", "down")],
        ["model.layers.0.mlp"],
        ["model.layers.0.mlp*"],
        ["layers.0.mlp.*"],
        ["re:.*layers\\.0\\.mlp\\.(gate|up|down)_proj"],
        ["re:model\\.layers\\.0\\.mlp.*"],
    ],
)  # fmt: skip
def test_one_block_is_left_alone(kept):
    section = {"quant_method": "fp8", "weight_block_size": None, "modules_to_not_convert": kept}
    shape = pm.read_hf(DENSE | {"quantization_config": section})
    assert shape.weight_bytes() == TWO_BLOCKS + FEEDFORWARD + REST
    assert shape.layers == 2
    assert shape.params == TWO_BLOCKS + 2 * 1000 * 256 + 5 * 256


@pytest.mark.parametrize(
    "kept", [["self_attn"], ["re:.*self_attn.*"], ["*.self_attn.*"], ["model.layers.*.self_attn"]]
)
def test_attention_is_left_alone(kept):
    section = {"quant_method": "mxfp4", "modules_to_not_convert": kept}
    shape = pm.read_hf(DENSE | {"quantization_config": section})
    expected = 2 * (FEEDFORWARD * 17 / 32 + ATTENTION * 2) + REST
    assert shape.weight_bytes() == pytest.approx(expected, rel=1e-12)


def test_a_group_with_named_modules_goes_before_one_for_all():
    section = group(FOUR)
    section["config_groups"]["group_1"] = {
        "targets": ["re:.*mlp\\.down_proj"],
        "weights": {"num_bits": 8, "type": "float", "strategy": "tensor"},
    }
    down = 256 * 512
    expected = 2 * ((BLOCK - down) * 18 / 32 + down) + REST
    found = pm.read_hf(DENSE | {"quantization_config": section}).weight_bytes()
    assert found == pytest.approx(expected, rel=1e-12)


def test_an_algorithm_for_each_module():
    layers = {
        f"model.layers.{i}.mlp.{x}_proj": {"quant_algo": "NVFP4", "group_size": 16}
        for i in range(2)
        for x in ("gate", "up", "down")
    } | {"model.layers.1.self_attn.o_proj": {"quant_algo": "FP8"}}
    section = {
        "quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers,
        "kv_cache_quant_algo": "FP8",
    }  # fmt: skip
    shape = pm.read_hf(DENSE | {"quantization_config": section})
    output = 256 * 256
    expected = 2 * FEEDFORWARD * 9 / 16 + (2 * ATTENTION - output) * 2 + output + REST
    assert shape.weight_bytes() == pytest.approx(expected, rel=1e-12)
    assert shape.precision.kv.name == "fp8"
    assert shape.kv_bytes_per_token() == 2 * 2 * 2 * 64 * 1


def test_gptq_changes_single_modules():
    section = {
        "quant_method": "gptq", "bits": 4, "group_size": 128,
        "dynamic": {"-:.*self_attn.*": {}, "+:.*layers\\.1\\.mlp.*": {"bits": 8}},
    }  # fmt: skip
    expected = 2 * 2 * ATTENTION + FEEDFORWARD * (66.5 + 128 + 3) / 128 + REST
    found = pm.read_hf(DENSE | {"quantization_config": section}).weight_bytes()
    assert found == pytest.approx(expected, rel=1e-12)


def test_auto_round_changes_single_modules():
    section = {
        "quant_method": "auto-round", "bits": 4, "group_size": 128, "data_type": "int",
        "extra_config": {
            "model.layers.1.mlp.down_proj": {"bits": 16, "data_type": "fp"},
            "model.layers.1.mlp.gate_proj": {"bits": 8},
            "model.layers.1.mlp.up_proj": {"bits": 8},
        },
    }  # fmt: skip
    down = 256 * 512
    expected = (2 * BLOCK - 3 * down) * 66.5 / 128 + 2 * down * (128 + 3) / 128 + 2 * down + REST
    found = pm.read_hf(DENSE | {"quantization_config": section}).weight_bytes()
    assert found == pytest.approx(expected, rel=1e-12)


def test_autofp8_has_names_of_its_own():
    # As neuralmagic/Meta-Llama-3-8B-Instruct-FP8-KV writes it.
    section = {
        "quant_method": "fp8", "activation_scheme": "static", "kv_cache_scheme": "static",
        "ignored_layers": ["lm_head", "model.layers.1.mlp.down_proj"],
    }  # fmt: skip
    shape = pm.read_hf(DENSE | {"quantization_config": section})
    assert shape.weight_bytes() == 2 * BLOCK + 256 * 512 + REST
    assert shape.precision.kv.name == "fp8"


@pytest.mark.parametrize(
    ("more", "kv"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "int"}}, "int8"),
        ({"kv_cache_scheme": None}, "bf16"),
    ],
)
def test_a_cache_format_in_the_checkpoint_is_kept(more, kv):
    shape = pm.read_hf(DENSE | {"quantization_config": group(FOUR) | more})
    assert shape.precision.kv.name == kv


def test_modelopt_may_write_a_file_of_its_own(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    told = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    told = {"producer": {"name": "modelopt"}, "quantization": told}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(told))
    shape = pm.read_hf(tmp_path)
    assert shape.weight_bytes() == TWO_BLOCKS + REST
    assert shape.precision.kv.name == "fp8"


# -- published checkpoints -------------------------------------------------------------------------


def test_gpt_oss_120b_is_as_large_as_its_files():
    """The model card: "fits into a single 80GB GPU"; its files hold 65.2e9 B.

    36 layers of 128 experts: 3 x 2880 x 2880 weights each at 17/32 B, biases of 3 x 2880; the
    rest in bf16: 2 x 201,088 x 2880 at the ends, 2880 x (4096 + 2 x 512) + 4096 x 2880 attention.
    """
    experts = 36 * 128 * (3 * 2880 * 2880 * 17 / 32 + 3 * 2880 * 2)
    attention = 36 * (2880 * 5120 + 4096 * 2880 + 5120 + 2880 + 64) * 2
    router = 36 * (2880 * 128 + 128) * 2
    ends = (2 * 201_088 * 2880 + (2 * 36 + 1) * 2880) * 2
    found = pm.model("gpt-oss-120b").weight_bytes()
    assert found == pytest.approx(experts + attention + router + ends, rel=1e-12)
    assert found == pytest.approx(65.25e9, rel=1e-4)


def test_minimax_m2_counts_its_scales():
    """Published: 228,703,644,928 numbers, of which 228,689,748,992 are the parameters and
    62 x 256 biases of the routers, which are no parameters. 13,880,064 are left: one scale
    for 128 x 128 of the quantized weights.
    """
    shape = pm.model("minimax-m2.5")
    assert shape.params == 228_689_748_992
    stored = shape.precision.linear.weights
    quantized = sum(
        count * matrix.copies * matrix.inner * matrix.outer
        for count, layer in shape.distinct_layers
        for matrix in layer.matrices(shape.hidden)
        if layer.formats_of(matrix, shape.precision).weights == stored
    )
    scales = 228_703_644_928 - shape.params - 62 * 256
    assert quantized / (128 * 128) == scales == 13_880_064
    assert stored.nbytes(quantized) == quantized + 4 * scales


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ("awq", ["quantization_config", "awq"]),
        ({"quant_method": "hqq"}, ["quant_method", "hqq", "gptq"]),
        ({"quant_method": 4}, ["quant_method", "4"]),
        ({"quant_method": "awq"}, ["bits", "required"]),
        ({"quant_method": "awq", "bits": 5}, ["bits", "2, 3, 4 or 8", "5"]),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, ["group_size", "0"]),
        ({"quant_method": "fp8", "weight_block_size": [0, 1]}, ["weight_block_size"]),
        ({"quant_method": "fp8", "weight_block_size": "128"}, ["weight_block_size"]),
        ({"quant_method": "fp8", "modules_to_not_convert": [1]}, ["modules_to_not_convert", "1"]),
        ({"quant_method": "fp8", "modules_to_not_convert": "x"}, ["modules_to_not_convert"]),
        ({"quant_method": "fp8", "ignored_layers": "x"}, ["ignored_layers"]),
        ({"quant_method": "fp8", "kv_cache_scheme": "dynamic"}, ["kv_cache_scheme", "static"]),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "mx_fp"}, ["data_type", "mx_fp"]),
        (
            {"quant_method": "auto-round", "bits": 4, "extra_config": {"x": {"bits": 5}}},
            ["bits", "5"],
        ),
        (group(EIGHT | {"strategy": "group", "group_size": 64}), ["group_size", "64", "32"]),
        (group(EIGHT | {"strategy": "block", "block_structure": "128"}), ["block_structure"]),
        ({"quant_method": "bitsandbytes"}, ["load_in_4bit"]),
        ({"quant_method": "modelopt", "quant_algo": "FP9"}, ["quant_algo", "FP9", "FP8"]),
        ({"quant_method": "modelopt"}, ["quant_algo", "required"]),
        ({"quant_method": "compressed-tensors"}, ["config_groups", "required"]),
        (group({"num_bits": 5, "type": "int"}), ["num_bits", "5"]),
        (group({"num_bits": 4, "type": "float", "group_size": 64}), ["group_size", "64"]),
        (group(FOUR, {"num_bits": 3, "type": "int"}), ["input_activations", "num_bits", "3"]),
        (group(FOUR) | {"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, ["kv_cache_scheme"]),
        (group(FOUR) | {"ignore": ["re:(a+)+$"]}, ["ignore", "simple"]),
        (group(FOUR) | {"ignore": ["re:" + "(a|b)" * 9]}, ["ignore", "alternatives"]),
        (group(FOUR) | {"ignore": ["re:x[0-9][a-z]"]}, ["ignore", "simple"]),
        (group(FOUR) | {"ignore": ["re:x[9-0]"]}, ["ignore", "simple"]),
        (group(FOUR) | {"ignore": ["re:(1[0-9]|[0-9][0-9])"]}, ["ignore", "alternatives"]),
    ],
)
def test_sections_that_are_not_read(section, words):
    with pytest.raises(PerfModelError) as caught:
        pm.read_hf(DENSE | {"quantization_config": section})
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert isinstance(caught.value, InvalidValueError | UnsupportedModelError)


def test_what_mlx_writes_is_not_taken_for_the_dtype():
    with pytest.raises(UnsupportedModelError, match="quant_method"):
        pm.read_hf(DENSE | {"quantization": {"bits": 4, "group_size": 64}})


HOSTILE_LISTS = {
    "stars": ["*a" * 140 + str(i) for i in range(2000)],
    "alternatives": [f"re:(a|b|c|d|e|f|g|h)(i|j|k|l|m|n|o|p)x{i}" for i in range(500)],
    "long expressions": ["re:" + "ab" * 140 + str(i) for i in range(2000)],
    "names": [f"m{i}" for i in range(60_000)],
    "brackets": ["model.layers.[0-9].mlp"],
    "any one": ["model.layers.?.mlp"],
}


@pytest.mark.parametrize("patterns", HOSTILE_LISTS.values(), ids=HOSTILE_LISTS)
def test_more_patterns_than_a_checkpoint_has_are_refused(patterns):
    section = {"quant_method": "fp8", "modules_to_not_convert": patterns}
    with pytest.raises(PerfModelError, match="modules_to_not_convert"):
        pm.read_hf(DENSE | {"quantization_config": section})


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (
            {"quant_method": "gptq", "bits": 4, "dynamic": {".*mlp.*": {"bits": 5}}},
            ["dynamic", "5"],
        ),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"a": {"group_size": 0}}}, ["group_size"]),
        ({"quant_method": "gptq", "bits": 4, "dynamic": [".*"]}, ["dynamic"]),
        (
            {"quant_method": "gptq", "bits": 4, "modules_in_block_to_quantize": [["q"]]},
            ["modules_in"],
        ),
        (group(FOUR) | {"kv_cache_scheme": ["fp8"]}, ["kv_cache_scheme"]),
        (group(FOUR, "fp8"), ["input_activations"]),  # type: ignore[arg-type]
        (group(FOUR | {"strategy": "nonsense"}), ["strategy", "nonsense"]),
        (
            group(FOUR) | {"config_groups": {"g": {"targets": ["Lineaer"], "weights": FOUR}}},
            ["targets", "Lineaer", "Linear"],
        ),
    ],
)
def test_contradictions_in_sections_are_refused(section, words):
    with pytest.raises(PerfModelError) as caught:
        pm.read_hf(DENSE | {"quantization_config": section})
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_one_digit_is_one_digit():
    ten = DENSE | {"num_hidden_layers": 12}
    section = {"quant_method": "fp8", "modules_to_not_convert": [r"re:.*layers\.[0-9]\.mlp.*"]}
    shape = pm.read_hf(ten | {"quantization_config": section})
    rest = 2 * (2 * 1000 * 256 + (2 * 12 + 1) * 256)
    assert shape.weight_bytes() == 12 * BLOCK + 10 * FEEDFORWARD + rest  # ten stay in two bytes


def test_two_words_for_the_dtype_must_agree():
    with pytest.raises(InvalidValueError, match="contradicts"):
        pm.read_hf(DENSE | {"dtype": "float32"})


def test_a_file_beside_the_config_that_says_nothing_is_an_error(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    (tmp_path / "hf_quant_config.json").write_text("{}")
    for source in (tmp_path, tmp_path / "config.json"):
        with pytest.raises(PerfModelError, match="hf_quant_config"):
            pm.read_hf(source)


def test_a_hostile_list_of_modules_takes_no_time():
    patterns = ["*a*a*a*a*a*a*a*a*b" for _ in range(400)] + [
        f"model.layers.{i}.x" for i in range(5000)
    ]
    section = {"quant_method": "fp8", "modules_to_not_convert": patterns}
    assert pm.read_hf(DENSE | {"quantization_config": section}).params


@pytest.mark.parametrize(
    ("pattern", "block", "name", "meant"),
    [
        ("model.layers.1.mlp", 1, "mlp.gate_proj", True),
        ("model.layers.1.mlp", 10, "mlp.gate_proj", False),
        ("model.layers.1.mlp.gate", 1, "mlp.gate_proj", False),
        ("model.layers.1*", 10, "mlp.gate_proj", True),  # as a glob has it
        ("model.layers.1.*", 10, "mlp.gate_proj", False),
        ("gate", 3, "mlp.gate", True),
        ("gate", 3, "mlp.gate_proj", False),
        ("re:.*mlp\\.(gate|up)_proj.*", 3, "mlp.up_proj", True),
        ("re:.*mlp\\.(gate|up)_proj.*", 3, "mlp.experts.0.up_proj", False),
        ("re:.*layers\\.(5[6-9]|6[0-3])\\.mlp\\.[gu].*", 57, "mlp.up_proj", True),
        ("re:.*layers\\.(5[6-9]|6[0-3])\\.mlp\\.[gu].*", 60, "mlp.gate_proj", True),
        ("re:.*layers\\.(5[6-9]|6[0-3])\\.mlp\\.[gu].*", 64, "mlp.gate_proj", False),
        ("re:.*layers\\.(5[6-9]|6[0-3])\\.mlp\\.[gu].*", 60, "mlp.down_proj", False),
        ("vision_tower.layers.1.mlp", 1, "mlp.gate_proj", False),
        ("model.visual.blocks.1*", 1, "mlp.gate_proj", False),
        ("mtp.layers.0*", 0, "mlp.gate_proj", False),
        ("lm_head", 0, "mlp.gate_proj", False),
    ],
)
def test_what_a_pattern_means(pattern, block, name, meant):
    assert Modules([pattern], "x").mean(block, (name,)) is meant
