"""Dense decoders: counts that others published, what flags add, and which layers slide."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, PerfModelError, UnsupportedModelError
from perfmodel.work.layers import Attention, FeedForward, MixtureOfExperts, Projection
from perfmodel.work.step import Group, Step


def sizes(
    kind: str, width: int, inner: int, layers: int, heads: int, vocab: int, **keys: Any
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": vocab,
    } | keys


class Known(NamedTuple):
    """A config, its parameters as the Hub's metadata of the weights count them, bytes a token."""

    config: dict[str, Any]
    params: int
    kv: int
    apart: int = 0


OPENELM = {
    "model_type": "openelm",
    "model_dim": 1280,
    "head_dim": 64,
    "num_transformer_layers": 16,
    "num_query_heads": [12] * 5 + [16] * 7 + [20] * 4,
    "num_kv_heads": [3] * 5 + [4] * 7 + [5] * 4,
    "ffn_multipliers": [
        *[0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13],
        *[2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0],
    ],
    "vocab_size": 32000,
    "share_input_output_layers": True,
}
PHI_3_VISION = sizes(
    *("phi3_v", 3072, 8192, 32, 32, 32064),
    num_key_value_heads=32,
    sliding_window=131072,
    img_processor={
        "name": "clip_vision_model",
        "model_name": "openai/clip-vit-large-patch14-336",
        "image_dim_out": 1024,
    },
    embd_layer={
        "projection_cls": "mlp",
        "use_hd_transform": True,
        "with_learnable_separator": True,
    },
)
GLM_4 = {
    "model_type": "chatglm",
    "add_bias_linear": False,
    "add_qkv_bias": True,
    "ffn_hidden_size": 13696,
    "hidden_size": 4096,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "num_attention_heads": 32,
    "num_layers": 40,
    "padded_vocab_size": 151552,
    "tie_word_embeddings": False,
}
SMALL = {"ff_intermediate_size": 14336, "num_key_value_heads": 8}

WITNESSES = {
    "Qwen-7B": Known(
        sizes("qwen", 4096, 22016, 32, 32, 151936, kv_channels=128, tie_word_embeddings=False),
        7_721_324_544,
        2 * 32 * 4096 * 2,
    ),
    "GLM-4-9B": Known(GLM_4, 9_399_951_360, 2 * 40 * 2 * 128 * 2),
    "Phi-2": Known(sizes("phi", 2560, 10240, 32, 32, 51200), 2_779_683_840, 2 * 32 * 2560 * 2),
    # The same in the words of its first checkpoints.
    "Phi-2 (2023)": Known(
        {
            "model_type": "phi-msft",
            "n_embd": 2560,
            "n_head": 32,
            "n_head_kv": None,
            "n_inner": None,
            "n_layer": 32,
            "vocab_size": 51200,
        },
        2_779_683_840,
        2 * 32 * 2560 * 2,
    ),
    # Published with 64 frequencies a layer, which are no parameters: 7,392,274,432.
    "Phi-3-small": Known(
        sizes("phi3small", 4096, 1, 32, 32, 100352, **SMALL), 7_392_272_384, 2 * 32 * 1024 * 2
    ),
    "Phi-3-vision": Known(PHI_3_VISION, 4_146_621_440, 2 * 32 * 3072 * 2, 325_541_888),
    "OpenELM-270M": Known(OPENELM, 271_527_168, 2 * 64 * (15 + 28 + 20) * 2),
    "MiMo-7B": Known(
        sizes(
            *("mimo", 4096, 11008, 36, 32, 151680),
            num_key_value_heads=8,
            head_dim=128,
            attention_bias=True,
            num_nextn_predict_layers=1,
        ),
        7_833_409_536,
        2 * 36 * 1024 * 2,
        # a block like the others (its QKV biases are 6144), two inputs onto one, three norms
        4096 * (2 * 4096 + 2 * 1024 + 3 * 11008) + 6144 + 2 * 4096 + 2 * 4096**2 + 3 * 4096,
    ),
    "StableLM-3B-4E1T": Known(
        sizes("stablelm", 2560, 6912, 32, 32, 50304), 2_795_443_200, 2 * 32 * 2560 * 2
    ),
    "Gemma 2 27B": Known(
        sizes("gemma2", 4608, 36864, 46, 32, 256000, num_key_value_heads=16, head_dim=128),
        27_227_128_320,
        2 * 46 * 2048 * 2,
    ),
    "Command R": Known(
        sizes("cohere", 8192, 22528, 40, 64, 256000), 34_980_831_232, 2 * 40 * 8192 * 2
    ),
    "EXAONE 4.0 32B": Known(
        sizes(
            *("exaone4", 5120, 27392, 64, 40, 102400),
            num_key_value_heads=8,
            head_dim=128,
            sliding_window_pattern="LLLG",
        ),
        32_003_216_384,
        2 * 64 * 1024 * 2,
    ),
    "OLMo 2 1B": Known(
        sizes("olmo2", 2048, 8192, 16, 16, 100352), 1_484_916_736, 2 * 16 * 2048 * 2
    ),
    "Apertus 8B": Known(
        sizes("apertus", 4096, 21504, 32, 32, 131072, num_key_value_heads=8),
        8_053_338_176,
        2 * 32 * 1024 * 2,
    ),
    "SmolLM3 3B": Known(
        sizes("smollm3", 2048, 11008, 36, 16, 128256), 3_075_098_624, 2 * 36 * 512 * 2
    ),
    "StarCoder2 3B": Known(
        sizes("starcoder2", 3072, 12288, 30, 24, 49152), 3_030_371_328, 2 * 30 * 256 * 2
    ),
    "GLM-4-32B": Known(
        sizes("glm4", 6144, 23040, 61, 48, 151552, attention_bias=False),
        32_566_081_536,
        2 * 61 * 256 * 2,
    ),
}


@pytest.mark.parametrize("name", WITNESSES)
def test_counts_of_public_models(name: str) -> None:
    known = WITNESSES[name]
    shape = pm.read_hf(known.config)
    assert shape.params + shape.tower_params + shape.mtp_params == known.params
    assert shape.tower_params + shape.mtp_params == known.apart
    assert shape.kv_bytes_per_token("bf16") == known.kv
    assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape


# -- flags add exactly their tensors ----------------------------------------------------------

TINY = {"num_key_value_heads": 2, "max_position_embeddings": 64}


def tiny(kind: str, **keys: Any) -> dict[str, Any]:
    """Four layers 64 wide, with 4 heads of 16 and 2 of keys and values, inner width 128."""
    return sizes(kind, 64, 128, 4, 4, 1000, **TINY) | keys


QKV = 64 + 2 * 32
MLP = 2 * 128 + 64


@pytest.mark.parametrize(
    ("kind", "change", "more"),
    [
        ("llama", {"attention_bias": True}, 4 * (QKV + 64)),
        ("llama", {"mlp_bias": True}, 4 * MLP),
        ("llama", {"head_dim": 32}, 4 * 64 * (QKV + 64)),
        ("ernie4_5", {"use_bias": True, "head_dim": 16}, None),
        ("glm", {"attention_bias": False}, -4 * (64 + 2 * 32) * 8),  # heads 128 wide
        ("glm4", {"attention_bias": False}, -4 * (64 + 2 * 32) * 8),
        ("seed_oss", {"attention_out_bias": True}, 4 * 64),
        ("hyperclovax", {"use_post_norm": False}, -4 * 2 * 64),
        ("cohere", {"use_qk_norm": True}, 4 * (64 + 32)),
        ("phi", {"qk_layernorm": True}, 4 * 2 * 2 * 16),
        ("stablelm", {"qk_layernorm": True}, 4 * (64 + 32)),
        ("stablelm", {"use_parallel_residual": True}, -4 * 2 * 64),
        ("stablelm", {"use_qkv_bias": True}, 4 * QKV),
        ("starcoder2", {"use_bias": False}, -4 * (QKV + 64 + 128 + 64)),
        ("apertus", {"hidden_act": "silu"}, -4 * 2),
        ("apertus1p5_text", {"output_vocab_size": 600}, -400 * 64),
        ("internlm2", {"bias": False}, -4 * (QKV + 64)),
        ("internlm3", {"qkv_bias": True, "bias": True, "head_dim": None}, None),
        ("qwen", {"no_bias": False}, 4 * (64 + 2 * 64 + 64)),
        ("modernbert-decoder", {"norm_bias": True}, 64 * (1 + 3 + 4 + 1 + 1)),
        ("modernbert-decoder", {"classifier_bias": True}, 64),
        ("modernbert-decoder", {"decoder_bias": False}, -1000),
        ("doge", {"attention_bias": True}, 4 * (QKV + 64 + 2)),
        # a row's and a column's score of 16 x 16 experts, which read and write 64 numbers each
        ("doge", {"is_moe": True, "num_experts": 256}, 4 * (2 * 16 * 64 + 2 * 256 * 64)),
        ("minicpm", {"num_experts": 8, "num_experts_per_tok": 2}, 4 * (7 * 3 * 64 * 128 + 8 * 64)),
        ("dory", {"attention_bias": True, "head_dim": 16}, None),
    ],
)
def test_flags_add_exactly_their_tensors(
    kind: str, change: dict[str, Any], more: int | None
) -> None:
    ends = {"n_input_layers": 1, "n_output_layers": 1} if kind == "dory" else {}
    same = {"head_dim": 16} if "head_dim" in change and more is None else {}
    before = pm.read_hf(tiny(kind, **ends, **same)).params
    after = pm.read_hf(tiny(kind, **ends) | change).params
    biases = {"ernie4_5": QKV + 64 + MLP, "internlm3": QKV + 64 + MLP, "dory": QKV + 64}
    assert after - before == (4 * biases[kind] if more is None else more)


def test_head_width_null_is_hidden_over_heads() -> None:
    # Absent, heads are 128 wide.
    absent, null = pm.read_hf(tiny("qwen3")), pm.read_hf(tiny("qwen3", head_dim=None))
    assert [shape.blocks[0][1][0].head_dim for shape in (absent, null)] == [128, 16]


# -- which layers slide -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys", "windows"),
    [
        ("cohere2", {}, [4096, 4096, 4096, None]),
        ("cohere2", {"sliding_window_pattern": 2}, [4096, None, 4096, None]),
        ("cohere_compass_text", {}, [None] * 4),
        ("exaone4", {"sliding_window": None}, [None] * 4),
        ("exaone4", {"sliding_window_pattern": "LG", "sliding_window": 8}, [8, None, 8, None]),
        ("exaone4", {"sliding_window_pattern": 3}, [4096, 4096, None, 4096]),
        ("gemma2", {}, [4096, None, 4096, None]),
        ("gemma3_text", {"sliding_window_pattern": 2}, [4096, None, 4096, None]),
        ("olmo3", {"sliding_window": 9}, [9, 9, 9, None]),
        ("cwm", {}, [None, 8192, 8192, 8192]),
        ("granite_swa", {}, [None, 128, 128, 128]),
        ("mistral", {}, [4096] * 4),
        ("mistral", {"sliding_window": None}, [None] * 4),
        ("smollm3", {"sliding_window": 7}, [None] * 4),
        ("smollm3", {"sliding_window": 7, "use_sliding_window": True}, [None] * 3 + [7]),
        (
            "smollm3",
            {"sliding_window": 7, "use_sliding_window": True, "no_rope_layers": [0, 1, 1, 0]},
            [7, None, None, 7],
        ),
        ("modernbert-decoder", {}, [None, 64, 64, None]),
        ("phi3", {"sliding_window": 2047}, [2047] * 4),
    ],
)
def test_windows(kind: str, keys: dict[str, Any], windows: list[int | None]) -> None:
    shape = pm.read_hf(tiny(kind) | keys)
    found = [row[0].window for repeats, row in shape.blocks for _ in range(repeats)]
    assert found == windows
    if kind not in ("phi3", "modernbert-decoder"):  # which knows no such list, or halves its width
        listed = ["full_attention", "sliding_attention"] * 2
        told = pm.read_hf(tiny(kind) | keys | {"layer_types": listed, "sliding_window": 5})
        assert [row[0].window for _, row in told.blocks] == [None, 5, None, 5]


# -- blocks that differ -----------------------------------------------------------------------


def test_blocks_from_a_search() -> None:
    none = {"n_heads_in_group": None, "no_op": True}
    matrix = {"n_heads_in_group": None, "replace_with_linear": True}
    blocks = [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 5.25}},
        {"attention": none, "ffn": {"ffn_mult": 1.3}},
        {"attention": matrix, "ffn": {"no_op": True}},
        {"attention": {"n_heads_in_group": 2, "window_length": 8}, "ffn": matrix},
    ]
    keys = {"num_key_value_heads": None, "intermediate_size": None, "block_configs": blocks}
    shape = pm.read_hf(sizes("nemotron-nas", 1024, 1, 4, 8, 1000) | keys)
    assert [row for _, row in shape.blocks] == [
        # two thirds of 5.25 x 1024 are 3584; of 1.3 x 1024, 887.5, and the next multiple of 256
        (Attention(heads=8, kv_heads=2, head_dim=128), FeedForward(width=3584)),
        (FeedForward(width=1024),),
        (Projection(),),
        (Attention(heads=8, kv_heads=4, head_dim=128, window=8), Projection()),
    ]


def test_key_value_heads_of_each_layer() -> None:
    shape = pm.read_hf(tiny("deci", num_key_value_heads_per_layer=[4, 2, 2, 1]))
    assert [(n, row[0].kv_heads) for n, row in shape.blocks] == [(1, 4), (2, 2), (1, 1)]


def test_layers_that_run_again_are_held_once() -> None:
    ends = {"n_input_layers": 1, "n_output_layers": 1, "head_dim": 16}
    once = pm.read_hf(tiny("dory", n_recurrent_loops=1, **ends))
    twice = pm.read_hf(tiny("dory", **ends))
    assert (once.layers, twice.layers) == (4, 6)
    assert twice.params == once.params
    assert twice.weight_bytes("bf16") == once.weight_bytes("bf16")
    assert twice.kv_bytes_per_token("bf16") == 6 / 4 * once.kv_bytes_per_token("bf16")
    # The same as its files list it: each layer's two halves.
    kinds = ["sliding_attention", "mlp"] * 3 + ["full_attention", "mlp"]
    listed = {"layer_types": kinds, "num_hidden_layers": 8, "head_dim": 16}
    halves = {"n_input_layers": 2, "n_recurrent_layers": 4, "n_output_layers": 2}
    assert pm.read_hf(tiny("dory") | listed | halves) == twice


def test_differences_of_attentions_take_two_passes() -> None:
    step = Step(groups=(Group(count=1, new=1, past=9),))
    flops = [
        sum(op.flops * op.calls for op in pm.forward(shape, step, "bf16") if op.kind == "attention")
        for shape in (pm.read_hf(tiny("llama")), pm.read_hf(tiny("diffllama")))
    ]
    assert flops[1] == 2 * flops[0]


def test_experts_of_one_number_stand_beside_the_dense_layer() -> None:
    shape = pm.read_hf(tiny("doge", is_moe=True, num_experts=300, num_experts_per_tok=16))
    _, dense, sparse = shape.blocks[0][1]
    assert isinstance(dense, FeedForward)
    assert isinstance(sparse, MixtureOfExperts)
    assert (sparse.experts, sparse.width, sparse.router_width) == (300, 1, 34)
    # of 300, 284 are idle
    assert shape.params - shape.active_params == 4 * 284 * 2 * 64


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (tiny("llama", num_attention_heads=3), InvalidValueError, "num_attention_heads"),
        (tiny("helium", head_dim=32), InvalidValueError, "head_dim"),
        (tiny("internlm3", qkv_bias=True), InvalidValueError, "bias"),
        (tiny("diffllama", num_key_value_heads=1), InvalidValueError, "an even number"),
        (tiny("apertus1p5_text", output_vocab_size=1001), InvalidValueError, "at most"),
        (tiny("qwen", intermediate_size=129), InvalidValueError, "an even number"),
        (tiny("doge", num_experts=4), InvalidValueError, "num_experts_per_tok"),
        (tiny("gemma2", layer_types=["x"] * 4), InvalidValueError, "layer_types"),
        (tiny("gemma2", layer_types=["full_attention"]), InvalidValueError, "layer_types"),
        (tiny("exaone4", sliding_window_pattern="LX"), InvalidValueError, "whole number"),
        (tiny("smollm3", no_rope_layers=[1]), InvalidValueError, "no_rope_layers"),
        (tiny("deci", num_key_value_heads_per_layer=[4, 2, 2, 3]), InvalidValueError, "divisors"),
        (tiny("nemotron-nas"), InvalidValueError, "block_configs"),
        (tiny("nemotron-nas", block_configs=[1] * 4), InvalidValueError, "block_configs[0]"),
        (OPENELM | {"ffn_multipliers": [0] * 16}, InvalidValueError, "ffn_multipliers[0]"),
        (OPENELM | {"num_kv_heads": [5] * 16}, InvalidValueError, "num_kv_heads"),
        (GLM_4 | {"multi_query_group_num": 3}, InvalidValueError, "multi_query_group_num=3"),
        (GLM_4 | {"vision_config": {"a": 1}}, UnsupportedModelError, "vision_config"),
        (tiny("minicpm", sparse_config={"topk": 64}), UnsupportedModelError, "sparse_config"),
        (tiny("xverse", num_experts=64), UnsupportedModelError, "num_experts"),
        (tiny("gemma3_text", use_bidirectional_attention=True), UnsupportedModelError, "decoder"),
        (tiny("dory", recurrent_kv_cache_mode="last_loop"), UnsupportedModelError, "per_loop"),
        (tiny("dory"), InvalidValueError, "n_recurrent_layers"),
        (
            tiny("dory", layer_types=["mlp", "full_attention"] * 2),
            InvalidValueError,
            "an mlp after each attention",
        ),
    ],
)
def test_contradictions_and_what_is_not_read(
    config: dict[str, Any], error: type[PerfModelError], words: str
) -> None:
    with pytest.raises(error) as caught:
        pm.read_hf(config)
    assert type(caught.value) is error
    assert words in str(caught.value)
