"""Mixtures of experts against arithmetic done by hand, by enumeration and by drawing lots."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction
from itertools import combinations, pairwise, product
from typing import Any

import numpy as np
import pytest
import sympy

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError
from perfmodel.work.layers import FeedForward, MixtureOfExperts, MixtureOfHeads

BF16 = pm.Precision.preset("bf16")
SIZES = [(8, 2), (128, 8), (256, 8), (60, 4), (160, 6), (384, 10), (16, 1), (8, 8), (768, 12)]
H100 = pm.GpuSpec(
    name="H100", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
)


def layer(experts: int = 8, top_k: int = 2, **fields: Any) -> MixtureOfExperts:
    return MixtureOfExperts(**{"experts": experts, "top_k": top_k, "width": 48} | fields)


def model(*layers: Any, hidden: int = 32) -> pm.ModelShape:
    return pm.ModelShape(hidden=hidden, blocks=((1, layers),))


def run(shape: pm.ModelShape, tokens: int) -> list[pm.Operation]:
    """The operations of so many sequences, each with one token and no past."""
    return list(pm.forward(shape, pm.Step(groups=(pm.Group(count=tokens, new=1),)), "bf16"))


# -- how many experts a step touches ----------------------------------------------------------


@pytest.mark.parametrize(
    ("experts", "top_k", "tokens", "expected"),
    [
        # 8 (1 - (3/4)^4) = 8 (256 - 81) / 256 = 1400 / 256
        (8, 2, 4, 5.46875),
        # 128 (1 - (15/16)^16): ln(15/16) x 16 = -1.0326, its exponential 0.3561
        (128, 8, 16, 82.4),
        # 256 (1 - (31/32)^64): ln(31/32) x 64 = -2.0319, its exponential 0.1311
        (256, 8, 64, 222.4),
    ],
)
def test_expected_experts(experts: int, top_k: int, tokens: int, expected: float) -> None:
    found = layer(experts, top_k).touched(tokens).expected
    assert found == pytest.approx(expected, abs=0.05)
    exact = experts * (1 - (1 - Fraction(top_k, experts)) ** tokens)
    assert found == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(4, 2, 2), (5, 2, 3), (4, 3, 2)])
def test_the_mean_and_the_bounds_of_all_ways_to_choose(
    experts: int, top_k: int, tokens: int
) -> None:
    choices = list(combinations(range(experts), top_k))
    counts = [len(set().union(*each)) for each in product(choices, repeat=tokens)]
    found = layer(experts, top_k).touched(tokens)
    assert found.expected == pytest.approx(float(Fraction(sum(counts), len(counts))), rel=1e-14)
    assert (found.least, found.most) == (min(counts), max(counts))


@pytest.mark.parametrize(("experts", "top_k", "tokens"), [(8, 2, 4), (128, 8, 16), (60, 4, 9)])
def test_the_mean_of_lots_drawn(experts: int, top_k: int, tokens: int) -> None:
    lots, times = random.Random(20), 2000
    counts = [
        len({x for _ in range(tokens) for x in lots.sample(range(experts), top_k)})
        for _ in range(times)
    ]
    mean = sum(counts) / times
    error = (sum((x - mean) ** 2 for x in counts) / times**2) ** 0.5
    assert abs(layer(experts, top_k).touched(tokens).expected - mean) < 4 * error


@pytest.mark.parametrize(("experts", "top_k"), SIZES)
def test_bounds_of_any_number_of_tokens(experts: int, top_k: int) -> None:
    for tokens in (1, 2, 3, 10, 100, 10**4, 10**9):
        found = layer(experts, top_k).touched(tokens)
        assert found.least == top_k
        assert found.most == min(experts, top_k * tokens)
        assert found.least <= found.expected <= found.most


@pytest.mark.parametrize(("experts", "top_k"), SIZES)
def test_expected_experts_grow_ever_more_slowly_and_up_to_all(experts: int, top_k: int) -> None:
    counts = [layer(experts, top_k).touched(tokens).expected for tokens in range(1, 200)]
    steps = [after - before for before, after in pairwise(counts)]
    assert all(step >= 0 for step in steps)
    assert all(after <= before + 1e-12 * experts for before, after in pairwise(steps))
    assert layer(experts, top_k).touched(10**7).expected == experts


@pytest.mark.parametrize(("experts", "top_k"), SIZES)
def test_one_token_is_sent_to_exactly_its_experts(experts: int, top_k: int) -> None:
    # 60 (1 - 56/60) is 3.999... in floats, which would be below the least.
    assert layer(experts, top_k).touched(1).expected == top_k


def test_arrays_and_symbols_follow_the_same_formula() -> None:
    moe, counts = layer(128, 8), [1.0, 2.0, 7.0, 64.0, 4096.0]
    each = moe.touched(np.array(counts))
    total = sympy.Symbol("T", positive=True)
    symbolic = moe.touched(total)
    for i, tokens in enumerate(counts):
        found = moe.touched(tokens)
        assert each.expected[i] == pytest.approx(found.expected, rel=1e-14)
        assert each.most[i] == found.most
        assert float(symbolic.expected.subs(total, tokens)) == pytest.approx(found.expected)
        assert float(symbolic.most.subs(total, tokens)) == found.most
    size, some = sympy.symbols("E k", positive=True)
    twin = MixtureOfExperts.trusted(
        experts=size, top_k=some, zero_experts=0, spread=1, gathered=1, skew=0
    )
    closed = size * (1 - (1 - some / size) ** total)
    assert sympy.simplify(twin.touched(total).expected - closed) == 0


@pytest.mark.parametrize(
    ("experts", "top_k", "skew", "tokens", "expected"),
    [
        # 2/3 and 1/3: both are missed with (1/3)^2 and (2/3)^2.
        (2, 1, 1.0, 2, 2 - Fraction(1, 9) - Fraction(4, 9)),
        # Chosen as 1, 1/4, 1/9 of 49/36: twice 36/49 is more than a token can choose it, so it is
        # always, and the rest shares one choice as 9/13 and 4/13.
        (3, 2, 2.0, 3, 3 - Fraction(4, 13) ** 3 - Fraction(9, 13) ** 3),
    ],
)
def test_skewed_choices_by_hand(
    experts: int, top_k: int, skew: float, tokens: int, expected: Fraction
) -> None:
    found = layer(experts, top_k, skew=skew).touched(tokens).expected
    assert math.isclose(found, expected, rel_tol=1e-12)


@pytest.mark.parametrize("skew", [0.5, 1.0, 1.2])
def test_the_mean_of_skewed_lots_drawn(skew: float) -> None:
    # Systematic lots: k points a whole unit apart on a line where each expert has its chance.
    experts, top_k, tokens = 32, 4, 12
    weights = [n**-skew for n in range(1, experts + 1)]
    chances = [top_k * w / sum(weights) for w in weights]
    while max(chances) > 1:
        sure = [c >= 1 for c in chances]
        rest = sum(w for w, s in zip(weights, sure, strict=True) if not s)
        left = top_k - sum(sure)
        chances = [1 if s else left * w / rest for w, s in zip(weights, sure, strict=True)]
    lots = random.Random(5)

    def drawn() -> set[int]:
        order = lots.sample(range(experts), experts)
        point, end, found = lots.random(), 0.0, set()
        for expert in order:
            end += chances[expert]
            if end > point:
                found.add(expert)
                point += 1
        return found

    counts = [len(set().union(*(drawn() for _ in range(tokens)))) for _ in range(2000)]
    error = statistics.stdev(counts) / math.sqrt(len(counts))
    found = layer(experts, top_k, skew=skew).touched(tokens).expected
    assert abs(found - statistics.fmean(counts)) < 4 * error


def test_skewed_choices_read_fewer_experts_and_never_fewer_than_one_token() -> None:
    for skew in (0.3, 1.0, 3.0, 10.0):
        skewed = layer(16, 4, skew=skew)
        assert math.isclose(skewed.touched(1).expected, 4, rel_tol=1e-9)
        for tokens in (2, 8, 64):
            assert 4 < skewed.touched(tokens).expected < layer(16, 4).touched(tokens).expected
    with pytest.raises(InvalidValueError, match=r"MixtureOfExperts\.skew: expected at most 10"):
        layer(skew=11.0)


def test_choices_that_do_nothing_leave_fewer_experts() -> None:
    # 3 of 4 + 2 choices a token: 3 x 4/6 = 2 experts; 4 (1 - (1/2)^2) = 3 of two tokens.
    moe = layer(4, 3, zero_experts=2)
    assert moe.chosen == 2
    assert moe.touched(1).expected == 2
    assert moe.touched(2).expected == 3
    assert moe.touched(2).least == 1  # two of the three choices may be those that do nothing


# -- what they cost ---------------------------------------------------------------------------


@pytest.mark.parametrize(("experts", "top_k"), SIZES)
def test_one_token_reads_the_weights_of_its_experts_alone(experts: int, top_k: int) -> None:
    routed = [op for op in run(model(layer(experts, top_k)), 1) if op.kind == "experts"]
    assert sum(op.weight_bytes for op in routed) == top_k * 3 * 32 * 48 * 2
    assert sum(op.least_weight_bytes for op in routed) == top_k * 3 * 32 * 48 * 2


@pytest.mark.parametrize("tokens", [1, 4, 100])
def test_a_step_reads_the_expected_experts_and_its_floor_the_fewest(tokens: int) -> None:
    shape = model(layer())
    for op in run(shape, tokens):
        if op.kind == "experts":
            one = op.weight_bytes / layer().touched(tokens).expected
            assert one in (2 * 32 * 96, 2 * 48 * 32)
            assert op.least_weight_bytes == 2 * one
        else:
            assert op.weight_bytes == op.least_weight_bytes == 2 * 32 * 8  # the router
    found = pm.estimate(shape, H100, pm.Step(groups=(pm.Group(count=tokens, new=1),)))
    assert found.floor <= found.time


@pytest.mark.parametrize("tokens", [1, 3, 64])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"gated": False},
        {"shared_width": 16, "shared_gate": True},
        {"latent": 8},
        {"bias": True, "router_bias": True},
    ],
    ids=str,
)
def test_every_token_does_two_flops_with_each_weight_it_meets(
    fields: dict[str, Any], tokens: int
) -> None:
    moe = layer(16, 3, norm=None, **fields)
    shape = model(moe)
    up = 48 if fields.get("gated") is False else 96
    inner = fields.get("latent", 32)
    weights = 32 * 16 + 3 * (inner * up + 48 * inner)
    if "latent" in fields:
        weights += 2 * 32 * 8
    if "shared_width" in fields:
        weights += 3 * 32 * 16 + 32
    assert sum(op.flops for op in run(shape, tokens)) == 2 * weights * tokens
    vectors = 16 + 3 * (96 + 32) if fields.get("bias") else 0
    assert shape.active_params == weights + vectors


def test_parameters_by_hand() -> None:
    # hidden 10, 4 experts of width 6, 1 a token, shared width 5 behind a gate, all biases:
    #   norm 10; router 10 x 4 + 4; shared 3 x 10 x 5 + (2 x 5 + 10) + 10 x 1
    #   an expert 3 x 10 x 6 + (2 x 6 + 10) = 202; 4 x 202 = 808
    shape = model(
        layer(
            4,
            1,
            width=6,
            shared_width=5,
            shared_gate=True,
            router_bias=True,
            bias=True,
            shared_bias=True,
        ),
        hidden=10,
    )
    assert shape.params == 10 + 44 + 180 + 808 == 1042
    assert shape.active_params == 1042 - 3 * 202 == 436
    assert shape.weight_bytes("bf16") == 2 * 1042


def test_shared_experts_are_for_every_token() -> None:
    ops = {op.name: op for op in run(model(layer(shared_width=16, shared_gate=True)), 7)}
    assert ops["shared_up"].flops == 2 * 7 * 32 * 32
    assert ops["shared_down"].flops == 2 * 7 * 16 * 32
    assert ops["shared_gate"].flops == 2 * 7 * 32
    assert all(ops[x].kind == "linear" for x in ("shared_up", "shared_down", "shared_gate"))


def test_more_experts_chosen_than_there_are_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="top_k: expected at most experts=8, got 9"):
        layer(8, 9)


# -- a mixture of attention heads -------------------------------------------------------------


def heads(**fields: Any) -> MixtureOfHeads:
    sizes = {"heads": 6, "kv_heads": 2, "head_dim": 5, "experts": 4, "top_k": 3}
    return MixtureOfHeads(**sizes | fields)


def test_a_mixture_of_heads_by_hand() -> None:
    # hidden 32; router 32 x 4; keys and values 32 x 20; an expert 32 x 10 + 10 x 32 = 640;
    # a bias of 32 and a norm of 32
    shape = model(heads(output_bias=True))
    assert shape.params == 128 + 640 + 4 * 640 + 64
    assert shape.active_params == 128 + 640 + 3 * 640 + 64
    assert shape.kv_bytes_per_token("bf16") == 2 * 20
    ops = run(shape, 1)
    assert [op.name for op in ops] == [
        "router", "kv", "experts_query", "attention", "experts_output",
    ]  # fmt: skip
    by_weights = sum(op.flops for op in ops if op.kind != "attention")
    assert by_weights == 2 * (128 + 640 + 3 * 640)
    assert ops[3].flops == 4 * 6 * 5  # a query, itself, six heads
    assert ops[2].weight_bytes == 3 * 320 * 2
    assert run(shape, 100)[2].weight_bytes == pytest.approx(4 * 320 * 2)


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"top_k": 5, "heads": 10}, "at most experts=4"), ({"heads": 4}, r"top_k \* kv_heads=6")],
)
def test_a_mixture_of_heads_that_contradicts_itself_is_refused(
    fields: dict[str, int], words: str
) -> None:
    with pytest.raises(InvalidValueError, match=words):
        heads(**fields)


# -- Mixtral-8x7B by hand ---------------------------------------------------------------------

MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
ATTENTION = 4096 * (32 + 2 * 8) * 128 + 4096 * 4096  # 25,165,824 + 16,777,216
EXPERT = 3 * 4096 * 14336  # 176,160,768
ROUTER = 4096 * 8  # 32,768
TABLE = 32000 * 4096  # 131,072,000
NORMS = (2 * 32 + 1) * 4096  # 266,240


def test_mixtral_by_hand() -> None:
    shape = pm.read_hf(MIXTRAL)
    # 32 (41,943,040 + 32,768 + 8 x 176,160,768) = 46,440,382,464
    assert shape.params == 32 * (ATTENTION + ROUTER + 8 * EXPERT) + 2 * TABLE + NORMS
    assert shape.params == 46_702_792_704
    # without 32 x 6 x 176,160,768 = 33,822,867,456
    assert shape.active_params == 32 * (ATTENTION + ROUTER + 2 * EXPERT) + 2 * TABLE + NORMS
    assert shape.active_params == 12_879_925_248
    assert shape.kv_bytes_per_token("bf16") == 2 * 32 * 8 * 128 * 2


def test_a_decode_step_of_mixtral_by_hand() -> None:
    # 4 sequences, the 1000th token of each.
    shape, chip = pm.read_hf(MIXTRAL), H100.model_copy(update={"memory_capacity": 640e9})
    step = pm.decode(shape, chip, batch=4, context=1000, precision="bf16")
    dense = 32 * (ATTENTION + ROUTER) + TABLE  # 1,343,225,856 + 131,072,000: the head is read
    assert dense == 1_474_297_856
    # Of each layer's 8 experts 5.46875 are expected, 2 are the fewest.
    assert step.weight_traffic == 2 * (dense + 32 * 5.46875 * EXPERT)  # 64.6 GB of 93.4
    ops = step.operations
    assert sum(op.calls * op.least_weight_bytes for op in ops) == 2 * (dense + 64 * EXPERT)
    # 2 FLOPs a weight and token, 4 a pair, query head and number of a head
    flops = 2 * 4 * (dense + 64 * EXPERT) + 4 * 32 * 4 * 32 * 128 * 1000
    assert sum(op.calls * op.flops for op in ops) == flops
    # 999 tokens read and one written, 131,072 B each
    assert step.kv_traffic == 4 * 1000 * 131_072


# -- which layers have experts ----------------------------------------------------------------

SMALL: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "moe_intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 6,
    "vocab_size": 128,
    "tie_word_embeddings": False,
}


def read(kind: str, **keys: Any) -> pm.ModelShape:
    given = SMALL | {"model_type": kind} | keys
    return pm.read_hf({key: value for key, value in given.items() if value is not ...})


def inner(shape: pm.ModelShape) -> str:
    """S for a block with experts, D for one without."""
    kinds = [(n, isinstance(row[-1], MixtureOfExperts)) for n, row in shape.blocks]
    return "".join(n * ("S" if sparse else "D") for n, sparse in kinds)


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("qwen3_moe", {}, "SSSSSS"),
        ("qwen3_moe", {"decoder_sparse_step": 2}, "DSDSDS"),
        ("qwen3_moe", {"decoder_sparse_step": 2, "mlp_only_layers": [3]}, "DSDDDS"),
        ("qwen3_moe", {"mlp_only_layers": [0, 5]}, "DSSSSD"),
        ("glm4_moe", {"first_k_dense_replace": 2}, "DDSSSS"),
        ("glm4_moe", {"first_k_dense_replace": 0}, "SSSSSS"),
        ("ernie4_5_moe", {"moe_layer_start_index": 1, "moe_layer_end_index": -1}, "DSSSSS"),
        ("ernie4_5_moe", {"moe_layer_interval": 2, "moe_layer_end_index": 3}, "DSDSDD"),
        ("llama4_text", {"interleave_moe_layer_step": 2}, "DSDSDS"),
        ("llama4_text", {"interleave_moe_layer_step": 2, "moe_layers": [0]}, "SDDDDD"),
        ("hy_v3", {"mlp_layer_types": ["dense", "sparse"] * 3}, "DSDSDS"),
        ("mimo_v2_flash", {"moe_layer_freq": [0, 0, 1, 1, 0, 1]}, "DDSSDS"),
        ("afmoe", {"num_dense_layers": 3}, "DDDSSS"),
        ("deepseek", {"first_k_dense_replace": 1, "moe_layer_freq": 2}, "DDSDSD"),
    ],
)
def test_which_layers_have_experts(kind: str, keys: dict[str, Any], expected: str) -> None:
    assert inner(read(kind, **keys)) == expected


SLIDING = {"use_sliding_window": True}


def reach(shape: pm.ModelShape) -> list[int | None]:
    """The window or chunk of each block."""
    found = [(n, row[0].window or row[0].chunk) for n, row in shape.blocks]
    return [limit for n, limit in found for _ in range(n)]


@pytest.mark.parametrize(
    ("kind", "keys", "expected"),
    [
        ("gpt_oss", {"sliding_window": 9}, [9, None] * 3),
        ("llama4_text", {"attention_chunk_size": 9}, [9, 9, 9, None, 9, 9]),
        ("llama4_text", {"no_rope_layers": [0, 1] * 3}, [None, 8192] * 3),
        # The tokens before a query, which attends itself, too.
        ("mimo_v2_flash", {"sliding_window_size": 8}, [None, 9, 9, 9, 9, None]),
        ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1, 0, 1, 0, 1]}, [None, 129] * 3),
        ("afmoe", {"sliding_window": 9}, [9, 9, 9, None, 9, 9]),
        ("qwen2_moe", SLIDING | {"max_window_layers": 3}, [4096, None] * 2 + [None] * 2),
        ("qwen3_moe", SLIDING | {"sliding_window": 9}, [9] * 6),
        ("flint", {"sliding_window": 9}, [None, None, 9, 9, 9, None]),
    ],
)  # fmt: skip
def test_which_layers_attend_how_far(
    kind: str, keys: dict[str, Any], expected: list[int | None]
) -> None:
    more = {"shared_expert_intermediate_size": 24} if kind in ("flint", "qwen2_moe") else {}
    assert reach(read(kind, **more, **keys)) == expected


def test_values_narrower_than_keys_and_windows_with_heads_of_their_own() -> None:
    shape = read("mimo_v2_flash", v_head_dim=8, sliding_window_size=8)
    full, sliding = shape.blocks[0][1][0], shape.blocks[1][1][0]
    assert (full.kv_heads, sliding.kv_heads, sliding.scalars) == (2, 4, 4)
    # 2 full layers of 2 x (16 + 8) numbers, 4 windows of 4 x (16 + 8), 2 B each
    assert shape.kv_bytes_per_token("bf16") == 2 * 48 * 2 + 4 * 96 * 2
    assert shape.cache_bytes(1000, "bf16") == 2 * 48 * 2 * 1000 + 4 * 96 * 2 * 9


@pytest.mark.parametrize(
    ("kind", "keys", "shared"),
    [
        ("glm4_moe", {"n_shared_experts": 2}, 2 * 16),
        ("sarvam_moe", {"num_shared_experts": 3}, 3 * 16),
        ("ernie4_5_moe", {"moe_num_shared_experts": 0}, 0),
        ("qwen2_moe", {"shared_expert_intermediate_size": 24}, 24),
        ("granitemoeshared", {"shared_intermediate_size": 40}, 40),
        ("aria_text", {"moe_num_shared_experts": 2}, 2 * 96),
        ("hunyuan_v1_moe", {}, 96),
        ("llama4_text", {}, 96),
    ],
)
def test_shared_experts(kind: str, keys: dict[str, Any], shared: int) -> None:
    last = read(kind, **keys).blocks[-1][1][-1]
    assert last.shared_width == shared
    assert last.shared_gate is (kind == "qwen2_moe")


def test_a_dense_layer_beside_the_experts() -> None:
    shape = read("arctic", parallel_attn_mlp_res=True, moe_layer_frequency=2)
    (_, dense), (_, sparse) = shape.blocks[:2]
    assert [type(x) for x in dense[1:]] == [FeedForward]
    assert [type(x) for x in sparse[1:]] == [FeedForward, MixtureOfExperts]
    assert (dense[1].width, sparse[1].width) == (96, 64)


def test_top_k_by_layer() -> None:
    shape = read("hunyuan_v1_moe", num_experts_per_tok=..., moe_topk=[1, 2, 2, 2, 3, 8])
    assert [(n, row[-1].top_k) for n, row in shape.blocks] == [(1, 1), (3, 2), (1, 3), (1, 8)]


# Totals that the checkpoints' own safetensors headers state, of classes that come with them.
PUBLISHED = {
    # Databricks DBRX
    131_596_523_520: {
        "model_type": "dbrx",
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
    },
    # DeepSeek-MoE 16B
    16_375_728_128: {
        "model_type": "deepseek",
        "hidden_size": 2048,
        "intermediate_size": 10944,
        "moe_intermediate_size": 1408,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "moe_layer_freq": 1,
        "vocab_size": 102400,
    },
}


@pytest.mark.parametrize(("total", "config"), PUBLISHED.items())
def test_published_totals(total: int, config: dict[str, Any]) -> None:
    assert pm.read_hf(config).params == total


# -- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "keys", "words"),
    [
        ("mixtral", {"num_experts_per_tok": 9}, "per_tok: expected at most num_experts=8"),
        ("qwen3_moe", {"num_local_experts": 4}, "num_experts: 8 contradicts num_local_experts"),
        ("qwen3_moe", {"mlp_only_layers": [6]}, "mlp_only_layers: expected layer numbers below 6"),
        ("qwen3_moe", {"mlp_only_layers": 3}, "mlp_only_layers: expected a list"),
        ("qwen3_moe", {"num_experts": 0}, "num_experts"),
        ("qwen3_moe", {"num_experts": ...}, "num_experts: required"),
        ("hy_v3", {"mlp_layer_types": ["sparse"] * 5}, "mlp_layer_types: expected a list"),
        ("hy_v3", {"mlp_layer_types": ["sparse"] * 5 + ["other"]}, "mlp_layer_types: 'other'"),
        ("gpt_oss", {"layer_types": ["chunked_attention"] * 6}, "layer_types: 'chunked_attention'"),
        ("llama4_text", {"layer_types": ["sliding_attention"] * 6}, "'sliding_attention' is not"),
        ("llama4_text", {"moe_layers": [7]}, "moe_layers: expected layer numbers below 6"),
        ("llama4_text", {"no_rope_layers": [1, 0]}, "no_rope_layers: expected a list"),
        ("mixtral", {"num_key_value_heads": 3}, "multiple of num_key_value_heads=3"),
        ("laguna", {"num_attention_heads_per_layer": [4] * 5 + [3]}, "heads_per_layer"),
        ("laguna", {"gating": "per-layer"}, "gating: 'per-layer' is not read"),
        ("hunyuan_v1_moe", {"num_experts_per_tok": [1] * 5 + [9]}, "from 1 to num_experts=8"),
        ("mimo_v2_flash", {"swa_num_key_value_heads": 3}, "heads: expected a divisor"),
        ("step3p5", {"moe_layers_enum": "1,two"}, "moe_layers_enum: expected numbers of layers"),
        ("minimax_m3", {"sparse_attention_config": 7}, "sparse_attention_config: expected"),
        ("jetmoe", {"num_experts_per_tok": 9}, "num_experts_per_tok"),
        ("dbrx", {"attn_config": {"kv_n_heads": 3}}, "attn_config.kv_n_heads: expected a divisor"),
    ],
)  # fmt: skip
def test_contradictions_are_refused_by_the_name_of_the_key(
    kind: str, keys: dict[str, Any], words: str
) -> None:
    more = {"shared_expert_intermediate_size": 24, "share_expert_dim": 24}
    with pytest.raises(InvalidValueError, match=words):
        read(kind, **more, **keys)
