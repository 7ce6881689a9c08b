"""Older decoders: counts that others published, and what is said of configs that contradict."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, PerfModelError, UnsupportedModelError
from perfmodel.sources.huggingface.families.legacy import LEGACY
from perfmodel.sources.huggingface.families.table import FAMILIES, NO_DECODERS
from perfmodel.work.step import Group, Step


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A library writes to no stream, whatever it reads."""
    yield
    assert capfd.readouterr() == ("", "")


class Known(NamedTuple):
    """A config, its parameters, and the bf16 cache of one token in bytes."""

    config: dict[str, Any]
    params: int
    kv: int


def gpt2(width: int, layers: int, heads: int, **keys: Any) -> dict[str, Any]:
    sizes = {"n_embd": width, "n_layer": layers, "n_head": heads, "vocab_size": 50257}
    return {"model_type": "gpt2", "n_positions": 1024} | sizes | keys


def opt(width: int, layers: int, heads: int, **keys: Any) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    inner = {"ffn_dim": 4 * width, "vocab_size": 50272, "max_position_embeddings": 2048}
    return {"model_type": "opt"} | sizes | inner | keys


def neox(width: int, layers: int, heads: int, vocab: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": "gpt_neox", "intermediate_size": 4 * width, "vocab_size": vocab} | sizes


def bloom(width: int, layers: int, heads: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "n_layer": layers, "num_attention_heads": heads}
    return {"model_type": "bloom", "vocab_size": 250880} | sizes


def falcon(width: int, layers: int, heads: int, **keys: Any) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    return {"model_type": "falcon", "vocab_size": 65024} | sizes | keys


def rwkv(width: int, layers: int) -> dict[str, Any]:
    sizes = {"hidden_size": width, "num_hidden_layers": layers, "vocab_size": 50277}
    return {"model_type": "rwkv", "context_length": 1024} | sizes


GPT_J = {
    "model_type": "gptj",
    "n_embd": 4096,
    "n_layer": 28,
    "n_head": 16,
    "n_positions": 2048,
    "rotary_dim": 64,
    "vocab_size": 50400,
    "tie_word_embeddings": False,
}
GPT_NEO = {
    "model_type": "gpt_neo",
    "hidden_size": 2048,
    "num_layers": 24,
    "num_heads": 16,
    "max_position_embeddings": 2048,
    "vocab_size": 50257,
    "window_size": 256,
    "attention_types": [[["global", "local"], 12]],
}
MPT = {
    "model_type": "mpt",
    "d_model": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "max_seq_len": 2048,
    "vocab_size": 50432,
    "expansion_ratio": 4,
    "no_bias": True,
    "learned_pos_emb": True,
    "attn_config": {"alibi": True, "attn_type": "multihead_attention", "qk_ln": False},
}
PERSIMMON = {
    "model_type": "persimmon",
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "vocab_size": 262144,
    "max_position_embeddings": 16384,
}
XLSTM = {
    "model_type": "xlstm",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_heads": 8,
    "vocab_size": 50304,
}

WITNESSES = {
    # keras-team/keras-hub, gpt2_presets.py: 1,557,611,200. Cache 2 x 48 x 1600 x 2 B.
    "GPT-2 XL": Known(gpt2(1600, 48, 25), 1_557_611_200, 307_200),
    # The checkpoint's total: 1,124,886,528. One KV head of 128:
    # 24 x (10 x 2048**2 + 2 x 128 x 2048 + 2048 + 256 + 2048 + 8192 + 2048 + 4 x 2048);
    # tables (49280 + 2048) x 2048, last norm 4096; cache 2 x 24 x 128 x 2 B.
    "SantaCoder": Known(
        gpt2(2048, 24, 16, model_type="gpt_bigcode", n_positions=2048, vocab_size=49280),
        1_124_886_528,
        12_288,
    ),
    # The count that evaluations of its fine-tunes list: 15,517,456,384. Cache 2 x 40 x 128 x 2 B.
    "StarCoder": Known(
        gpt2(6144, 40, 48, model_type="gpt_bigcode", n_positions=8192, vocab_size=49152),
        15_517_456_384,
        20_480,
    ),
    # 28 x (4 x 4096**2 + 2 x 4096 x 16384 + 16384 + 4096 + 2 x 4096) = 5,637,947,392: no biases in
    # attention, one norm a block; tables 2 x 50400 x 4096, head bias 50400, last norm 8192.
    "GPT-J-6B": Known(GPT_J, 6_050_882_784, 458_752),
    # 20 x (4 x 1024**2 + 8 x 1024**2 + 4096 + 1024 + 2048) = 251,801,600;
    # tables 2 x 51200 x 1024, head bias 51200, last norm 2048.
    "CodeGen-350M": Known(
        GPT_J | {"model_type": "codegen", "n_embd": 1024, "n_layer": 20, "vocab_size": 51200},
        356_712_448,
        81_920,
    ),
    # 24 x (12 x 2048**2 + (2048 + 8192 + 2048) biases + 4 x 2048) = 1,208,451,072;
    # tables (50257 + 2048) x 2048, last norm 4096. Cache of a short context, 2 x 24 x 2048 x 2 B.
    "GPT-Neo-1.3B": Known(GPT_NEO, 1_315_575_808, 196_608),
    # The model's card on the Hub: 20554567680. Cache 2 x 44 x 6144 x 2 B.
    "GPT-NeoX-20B": Known(neox(6144, 44, 64, 50432), 20_554_567_680, 1_081_344),
    # The model's card: 176,247,271,424, of which 3,596,615,680 in the table.
    "BLOOM": Known(bloom(14336, 70, 112), 176_247_271_424, 4_014_080),
    # What users print of the checkpoint: 7,069,016,064.
    "BLOOM-7B1": Known(bloom(4096, 30, 32), 7_069_016_064, 491_520),
    # keras-team/keras-hub, opt_presets.py: 125,237,760, without the two unused rows of 768.
    "OPT-125M": Known(opt(768, 12, 12), 125_237_760 + 2 * 768, 36_864),
    # keras-team/keras-hub, opt_presets.py: 1,315,753,984, without the two unused rows of 2048.
    "OPT-1.3B": Known(opt(2048, 24, 32), 1_315_753_984 + 2 * 2048, 196_608),
    # The fp16 checkpoint's tensors fill 662,392,832 bytes. Two projections of 512 x 1024, norms
    # after the layers and none at the end.
    "OPT-350M": Known(
        opt(1024, 24, 16, word_embed_proj_dim=512, do_layer_norm_before=False),
        662_392_832 // 2,
        98_304,
    ),
    # 32 x (12 x 4096**2 + (4 + 4 + 1) x 4096 + 4 x 4096) = 6,444,154,880;
    # tables (50272 + 2050) x 4096, last norm 8192.
    "OPT-6.7B": Known(opt(4096, 32, 32), 6_658_473_984, 524_288),
    # The checkpoint's total, 7,217,189,760, has a second table of 65024 x 4544 for the tied head.
    "Falcon-7B": Known(falcon(4544, 32, 71), 7_217_189_760 - 65024 * 4544, 8_192),
    # The checkpoint's total, 41,835,970,560, has a second table. Cache 2 x 60 x 8 x 64 x 2 B.
    "Falcon-40B": Known(
        falcon(8192, 60, 128, new_decoder_architecture=True, num_kv_heads=8),
        41_835_970_560 - 65024 * 8192,
        122_880,
    ),
    # The checkpoint's total, 179,522,565,120, has a second table.
    "Falcon-180B": Known(
        falcon(14848, 80, 232, new_decoder_architecture=True, num_kv_heads=8),
        179_522_565_120 - 65024 * 14848,
        163_840,
    ),
    # keras-team/keras-hub, falcon_presets.py: 1,311,625,216. ALiBi, biases, a KV head each.
    "Falcon-RW-1B": Known(
        falcon(
            2048,
            24,
            32,
            vocab_size=50304,
            alibi=True,
            bias=True,
            multi_query=False,
            parallel_attn=False,
        ),
        1_311_625_216,
        196_608,
    ),
    # 32 x (12 x 4096**2 + 2 x 4096), table 50432 x 4096, last norm 4096: scales alone.
    "MPT-7B": Known(MPT, 6_649_286_656, 524_288),
    # 36 x (12 x 4096**2 + (3 + 1 + 4 + 1) x 4096 + 4 x 4096 + 4 x 64) = 7,249,683,456;
    # tables 2 x 262144 x 4096, last norm 8192.
    "Persimmon-8B": Known(PERSIMMON, 9_397_175_296, 589_824),
    # 24 x (12 x 1024**2 + (4 + 4 + 1) x 1024 + 4 x 1024) = 302,309,376; one table 256008 x 1024;
    # last norm 2048; sinusoidal positions are computed.
    "XGLM-564M": Known(
        {
            "model_type": "xglm",
            "d_model": 1024,
            "ffn_dim": 4096,
            "num_layers": 24,
            "attention_heads": 16,
            "vocab_size": 256008,
            "max_position_embeddings": 2048,
        },
        564_463_616,
        98_304,
    ),
    # The same blocks, 302,309,376; tables (42384 + 1024 + 2) x 1024; last norm 2048.
    "BioGPT": Known(
        {
            "model_type": "biogpt",
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "vocab_size": 42384,
            "max_position_embeddings": 1024,
        },
        346_763_264,
        98_304,
    ),
    # 48 x (4 x 1280**2 + 2 x 1280 x 8192 + 4 x 1280 + 8192 + 1280 + 4 x 1280) = 1,322,151,936;
    # one table 246534 x 1280, a bias of 246534 on the tied head, last norm 2560.
    "CTRL": Known(
        {
            "model_type": "ctrl",
            "n_embd": 1280,
            "dff": 8192,
            "n_layer": 48,
            "n_head": 16,
            "n_positions": 256,
            "vocab_size": 246534,
        },
        1_637_964_550,
        245_760,
    ),
    # 12 x (12 x 768**2 + (4 + 4 + 1) x 768 + 4 x 768) = 85,054,464; tables (40478 + 512) x 768; no
    # last norm.
    "GPT": Known(
        gpt2(768, 12, 12, model_type="openai-gpt", n_positions=512, vocab_size=40478),
        116_534_784,
        36_864,
    ),
    # 32 x (12 x 2560**2 + 4 x 2560) + 2560, the one bias; table 32000 x 2560, last norm 5120.
    "GPT-NeoX-Japanese-2.7B": Known(
        neox(2560, 32, 32, 32000) | {"model_type": "gpt_neox_japanese"}, 2_598_837_760, 327_680
    ),
    # Peng et al., "RWKV", section 4: 2VD + 13 D**2 L + D (11 L + 4) parameters.
    "RWKV-4-169M": Known(
        rwkv(768, 12), 2 * 50277 * 768 + 13 * 768**2 * 12 + 768 * (11 * 12 + 4), 0
    ),
    "RWKV-4-14B": Known(
        rwkv(5120, 40), 2 * 50277 * 5120 + 13 * 5120**2 * 40 + 5120 * (11 * 40 + 4), 0
    ),
    # Beck et al., "xLSTM 7B", table 4: 6,865,424,896.
    "xLSTM-7B": Known(XLSTM, 6_865_424_896, 0),
}


@pytest.mark.parametrize("name", WITNESSES)
def test_counts_of_public_models(name: str) -> None:
    known = WITNESSES[name]
    shape = pm.read_hf(known.config)
    assert shape.params == shape.active_params == known.params
    assert shape.kv_bytes_per_token("bf16") == known.kv
    assert shape.weight_bytes("bf16") == 2 * known.params
    assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape


@pytest.mark.parametrize(
    ("width", "layers", "heads", "vocab", "non_embedding"),
    # The models' cards on the Hub (EleutherAI/pythia-*), "Non-Embedding Params".
    [
        (512, 6, 8, 50304, 18_915_328),
        (768, 12, 12, 50304, 85_056_000),
        (1024, 24, 16, 50304, 302_311_424),
        (2048, 16, 8, 50304, 805_736_448),
        (2048, 24, 16, 50304, 1_208_602_624),
        (2560, 32, 32, 50304, 2_517_652_480),
        (4096, 32, 32, 50432, 6_444_163_072),
        (5120, 36, 40, 50688, 11_327_027_200),
    ],
)
def test_pythia(width: int, layers: int, heads: int, vocab: int, non_embedding: int) -> None:
    shape = pm.read_hf(neox(width, layers, heads, vocab))
    assert shape.non_embedding_params == non_embedding
    assert shape.params == non_embedding + 2 * vocab * width


def test_bloom_has_so_many_embedding_parameters() -> None:
    shape = pm.read_hf(WITNESSES["BLOOM"].config)
    assert shape.params - shape.non_embedding_params == 3_596_615_680


def test_fuyu_is_a_persimmon_with_a_projection_of_patches() -> None:
    # 30 x 30 pixels of 3 colours onto 4096, with a bias: 11,063,296.
    flat = pm.read_hf(PERSIMMON | {"model_type": "fuyu", "patch_size": 30, "num_channels": 3})
    assert flat.params == WITNESSES["Persimmon-8B"].params
    assert flat.tower_params == 11_063_296
    # What text_config leaves out has the values of FuyuConfig.
    nested = pm.read_hf({"model_type": "fuyu", "text_config": {"qk_layernorm": True}})
    assert (nested.blocks, nested.params, nested.tower_params) == (
        flat.blocks,
        flat.params,
        flat.tower_params,
    )


# -- flags add exactly their tensors ----------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "change", "more"),
    [
        # one more table of 50257 x 1600
        ("GPT-2 XL", {"tie_word_embeddings": False}, 50257 * 1600),
        # an inner width of 1000, in 48 layers: 6400 - 1000 columns, rows and biases fewer
        ("GPT-2 XL", {"n_inner": 1000}, -48 * 5400 * (2 * 1600 + 1)),
        # 15 more heads of 128, keys and values, matrix and bias, in 24 layers
        ("SantaCoder", {"multi_query": False}, 24 * 2 * 15 * 128 * 2049),
        # no biases on QKV and output
        ("GPT-NeoX-20B", {"attention_bias": False}, -44 * 4 * 6144),
        ("GPT-J-6B", {"tie_word_embeddings": True}, -50400 * 4096),
        ("OPT-6.7B", {"enable_bias": False}, -32 * (4 + 4 + 1) * 4096),
        ("OPT-6.7B", {"layer_norm_elementwise_affine": False}, -32 * 4 * 4096 - 2 * 4096),
        ("OPT-6.7B", {"do_layer_norm_before": False}, -2 * 4096),
        ("OPT-6.7B", {"_remove_final_layer_norm": True}, -2 * 4096),
        # two projections of 4096 x 512, and a table that is 3584 narrower
        ("OPT-6.7B", {"word_embed_proj_dim": 512}, 2 * 512 * 4096 - 50272 * 3584),
        # QKV, output, up and down: 4544 + 2 x 64, 4544, 4 x 4544, 4544
        ("Falcon-7B", {"bias": True}, 32 * (7 * 4544 + 128)),
        ("Falcon-7B", {"multi_query": False}, 32 * 2 * 70 * 64 * 4544),
        ("Falcon-7B", {"num_kv_heads": 71}, 0),
        ("Falcon-7B", {"alibi": True}, 0),
        # the feed-forward layers get a norm of their own
        ("Falcon-7B", {"parallel_attn": False}, 32 * 2 * 4544),
        ("Falcon-40B", {"num_ln_in_parallel_attn": 1}, -60 * 2 * 8192),
        ("Falcon-40B", {"ffn_hidden_size": 8192}, -60 * 6 * 8192**2),
        ("Falcon-40B", {"num_kv_heads": 128}, 60 * 2 * 120 * 64 * 8192),
        # scales and shifts of 64 for queries and for keys
        ("Persimmon-8B", {"qk_layernorm": False}, -36 * 4 * 64),
        # LLM Foundry: biases, and shifts of both norms and the last
        ("MPT-7B", {"no_bias": False}, 32 * (9 + 2) * 4096 + 4096),
        ("MPT-7B", {"expansion_ratio": 2}, -32 * 2 * 2 * 4096**2),
        ("MPT-7B", {"attn_config": {"alibi": False}}, 2048 * 4096),
        ("MPT-7B", {"attn_config": {"alibi": False, "rope": True}}, 0),
        ("MPT-7B", {"attn_config": {"alibi": False}, "learned_pos_emb": False}, 0),
        ("MPT-7B", {"attn_config": {"attn_type": "multiquery_attention"}}, -32 * 62 * 128 * 4096),
        ("MPT-7B", {"attn_config": {"qk_ln": True}}, 32 * 2 * 4096),
        ("MPT-7B", {"ffn_config": {"ffn_type": "mptglu"}}, 32 * 4 * 4096**2),
        # a vector of 768 x 2 fewer channels in: decay and first weight, and four matrices
        ("RWKV-4-169M", {"attention_hidden_size": 384}, -12 * 384 * (4 * 768 + 2)),
        # gates have biases anyway; 2 x 2048 + 3 x 4096 + 4096, the feed-forward's, shifts of both
        # norms
        ("xLSTM-7B", {"use_bias": True}, 32 * (5 * 4096 + 4096 + 2 * 10944 + 2 * 4096)),
        ("xLSTM-7B", {"tie_word_embeddings": True}, 0),
    ],
)
def test_flags_add_exactly_their_tensors(name: str, change: dict[str, Any], more: int) -> None:
    known = WITNESSES[name]
    assert pm.read_hf(known.config | change).params == known.params + more


def test_grouped_mpt() -> None:
    # Krutrim-1 is one of LLM Foundry's: 8 KV heads of 96.
    config = MPT | {"d_model": 4608, "n_heads": 48}
    config["attn_config"] = {"attn_type": "grouped_query_attention", "kv_n_heads": 8}
    shape = pm.read_hf(config)
    assert shape.kv_bytes_per_token("bf16") == 2 * 32 * 8 * 96 * 2


def test_refined_web_is_a_falcon() -> None:
    sizes = {"n_embed": 8192, "n_layer": 60, "n_head": 128, "n_head_kv": 8, "vocab_size": 65024}
    old = pm.read_hf({"model_type": "RefinedWeb", "architectures": ["RWForCausalLM"]} | sizes)
    assert old.blocks == pm.read_hf(WITNESSES["Falcon-40B"].config).blocks
    sizes = {"hidden_size": 4544, "n_layer": 32, "n_head": 71, "vocab_size": 65024}
    old = pm.read_hf({"model_type": "RefinedWebModel"} | sizes)
    assert old.blocks == pm.read_hf(WITNESSES["Falcon-7B"].config).blocks


# -- positions, windows, states ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "limit", "made_for"),
    [
        ("GPT-2 XL", 1024, 1024),
        ("OPT-6.7B", 2048, 2048),
        ("BioGPT", 1024, 1024),
        ("GPT-Neo-1.3B", 2048, 2048),
        ("GPT", 512, 512),
        ("GPT-J-6B", None, 2048),
        ("XGLM-564M", None, 2048),
        ("MPT-7B", None, 2048),
        ("RWKV-4-169M", None, 1024),
        ("BLOOM", None, None),
    ],
)
def test_only_learned_positions_end(name: str, limit: int | None, made_for: int | None) -> None:
    shape = pm.read_hf(WITNESSES[name].config)
    assert (shape.position_limit, shape.max_context) == (limit, made_for)
    if limit is not None:
        assert shape.cache_bytes(limit, "bf16") > 0
        with pytest.raises(InvalidValueError, match=f"{limit} learned positions"):
            shape.cache_bytes(limit + 1, "bf16")


def test_every_second_layer_of_gpt_neo_is_local() -> None:
    shape = pm.read_hf(GPT_NEO)
    assert [row[0].window for _, row in shape.blocks] == [None, 256] * 12
    assert shape.kv_bytes_per_token("bf16", context=256) == 196_608
    assert shape.kv_bytes_per_token("bf16", context=257) == 98_304
    listed = {"attention_layers": ["global", "local"] * 12}
    without = {key: value for key, value in GPT_NEO.items() if key != "attention_types"}
    stale = {"attention_types": [[["global"], 2]]}  # the class looks at the list first
    for config in (GPT_NEO | listed, without | listed, without | listed | stale, without):
        assert pm.read_hf(config) == shape
    few = {"num_layers": 5, "attention_types": [[["global"], 2], [["local", "global", "local"], 1]]}
    blocks = pm.read_hf(GPT_NEO | few | {"window_size": 7}).blocks
    assert [(n, row[0].window) for n, row in blocks] == [(2, None), (1, 7), (1, None), (1, 7)]


def test_states_do_not_grow() -> None:
    # RWKV keeps the last token twice in bf16 and three sums in fp32: 12 x 768 x (2 x 2 + 3 x 4).
    shape = pm.read_hf(WITNESSES["RWKV-4-169M"].config)
    assert shape.state_bytes("bf16") == 147_456
    assert shape.kv_bytes_per_token("bf16", context=100_000) == 0
    # xLSTM: 32 x 8 heads, a memory of 256 x 512, 256 + 1 numbers beside it, in fp32.
    shape = pm.read_hf(XLSTM)
    assert shape.state_bytes("bf16") == 32 * 8 * (256 * 512 + 256 + 1) * 4


@pytest.mark.parametrize("name", ["RWKV-4-169M", "xLSTM-7B"])
def test_linear_flops_are_two_a_matrix_weight(name: str) -> None:
    shape = pm.read_hf(WITNESSES[name].config)
    step = Step(groups=(Group(count=1, new=1, past=9),))
    products = [op for op in pm.forward(shape, step, "bf16") if op.kind == "linear"]
    weights = sum(op.weights * op.calls for op in products)
    assert sum(op.flops * op.calls for op in products) == 2 * weights
    if name == "RWKV-4-169M":  # the same section: 2 (2VD + 13 D**2 L) a token, less the table
        assert weights == 50277 * 768 + 13 * 768**2 * 12


def test_the_one_bias_of_gpt_neox_japanese_is_the_last_layer_s() -> None:
    blocks = pm.read_hf(WITNESSES["GPT-NeoX-Japanese-2.7B"].config).blocks
    assert [(n, row[0].output_bias) for n, row in blocks] == [(31, False), (1, True)]


# -- bad input --------------------------------------------------------------------------------


def refused(config: dict[str, Any], error: type[PerfModelError], *words: str) -> None:
    with pytest.raises(error) as caught:
        pm.read_hf(config)
    message = str(caught.value)
    assert type(caught.value) is error
    assert message.isprintable()
    for word in words:
        assert word in message


REQUIRED = {
    "GPT-2 XL": ["n_embd", "n_layer", "n_head", "vocab_size"],
    "SantaCoder": ["n_embd", "n_layer", "n_head", "vocab_size"],
    "GPT-J-6B": ["n_embd", "n_layer", "n_head", "vocab_size"],
    "GPT-Neo-1.3B": [
        *["hidden_size", "num_layers", "num_heads", "vocab_size", "max_position_embeddings"],
    ],
    "GPT-NeoX-20B": [
        *["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
        "intermediate_size",
    ],
    "BLOOM": ["n_layer", "vocab_size"],
    "OPT-6.7B": [
        *["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "ffn_dim"],
        "max_position_embeddings",
    ],
    "MPT-7B": ["d_model", "n_layers", "n_heads", "vocab_size"],
    "Persimmon-8B": ["hidden_size", "num_hidden_layers", "intermediate_size", "vocab_size"],
    "XGLM-564M": ["d_model", "num_layers", "attention_heads", "ffn_dim", "vocab_size"],
    "BioGPT": ["hidden_size", "intermediate_size", "max_position_embeddings", "vocab_size"],
    "CTRL": ["n_embd", "n_layer", "n_head", "dff", "vocab_size"],
    "GPT": ["n_embd", "n_layer", "n_head", "vocab_size"],
    "RWKV-4-169M": ["hidden_size", "num_hidden_layers", "vocab_size"],
    "xLSTM-7B": ["num_heads", "vocab_size"],
}


@pytest.mark.parametrize(
    ("name", "key"), [(name, key) for name in REQUIRED for key in REQUIRED[name]]
)
def test_each_required_key(name: str, key: str) -> None:
    config = WITNESSES[name].config
    for missing in ({k: v for k, v in config.items() if k != key}, config | {key: None}):
        refused(missing, InvalidValueError, f"config.{key}:", "required, but missing")
    for value in (0, -1, 1.5, "8", True, [8], {}, float("nan"), 10**400):
        refused(config | {key: value}, InvalidValueError, f"config.{key}:", "whole number")


@pytest.mark.parametrize(
    ("name", "change", "place", "words"),
    [
        ("GPT-2 XL", {"n_head": 7}, "n_embd", "multiple of n_head=7"),
        ("GPT-2 XL", {"hidden_size": 8}, "hidden_size", "contradicts n_embd"),
        ("GPT-J-6B", {"n_head": 7}, "n_embd", "multiple of n_head=7"),
        ("GPT-Neo-1.3B", {"num_heads": 7}, "hidden_size", "multiple of num_heads=7"),
        ("GPT-Neo-1.3B", {"num_layers": 23}, "attention_types", "23 layers"),
        ("GPT-Neo-1.3B", {"num_layers": 25}, "attention_types", "25 layers"),
        ("GPT-Neo-1.3B", {"num_layers": 10**9}, "num_layers", "at most 10000"),
        ("GPT-Neo-1.3B", {"attention_types": "global"}, "attention_types", "list"),
        ("GPT-Neo-1.3B", {"attention_types": []}, "attention_types", "24 layers"),
        ("GPT-Neo-1.3B", {"attention_types": ["global"]}, "attention_types", "24 layers"),
        ("GPT-Neo-1.3B", {"attention_types": [[["x"], 24]]}, "attention_types", "global or local"),
        ("GPT-Neo-1.3B", {"attention_types": [[[[]], 24]]}, "attention_types", "global or local"),
        ("GPT-Neo-1.3B", {"attention_types": [[["local"], 10**12]]}, "attention_types", "24"),
        ("GPT-Neo-1.3B", {"attention_layers": ["local"]}, "attention_layers", "list of"),
        ("GPT-Neo-1.3B", {"attention_layers": ["l"] * 24}, "attention_layers", "is not read"),
        ("BLOOM", {"n_embed": 64}, "hidden_size", "contradicts n_embed"),
        ("BLOOM", {"n_head": 7}, "num_attention_heads", "contradicts n_head"),
        ("OPT-6.7B", {"num_attention_heads": 7}, "hidden_size", "num_attention_heads=7"),
        ("OPT-6.7B", {"word_embed_proj_dim": 0}, "word_embed_proj_dim", "whole number"),
        ("OPT-6.7B", {"do_layer_norm_before": 1}, "do_layer_norm_before", "true or false"),
        ("Falcon-7B", {"num_attention_heads": 70}, "hidden_size", "num_attention_heads=70"),
        ("Falcon-40B", {"num_kv_heads": 7}, "num_attention_heads", "num_kv_heads=7"),
        ("Falcon-40B", {"num_kv_heads": "8"}, "num_kv_heads", "whole number"),
        ("Falcon-40B", {"parallel_attn": "yes"}, "parallel_attn", "true or false"),
        ("Falcon-40B", {"num_ln_in_parallel_attn": 0}, "num_ln_in_parallel_attn", "whole number"),
        ("MPT-7B", {"expansion_ratio": 0.3}, "expansion_ratio", "whole number"),
        ("MPT-7B", {"expansion_ratio": -4}, "expansion_ratio", "a number from"),
        ("MPT-7B", {"attn_config": 5}, "attn_config", "a config of its own"),
        ("MPT-7B", {"attn_config": {"attn_type": "x"}}, "attn_config.attn_type", "is not read"),
        (
            "MPT-7B",
            {"attn_config": {"attn_type": "grouped_query_attention"}},
            "attn_config.kv_n_heads",
            "required, but missing",
        ),
        (
            "MPT-7B",
            {"attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 7}},
            "attn_config.kv_n_heads",
            "divisor of n_heads=32",
        ),
        (
            "MPT-7B",
            {"attn_config": {"sliding_window_size": 64}},
            "attn_config.sliding_window_size",
            "windows are not read",
        ),
        ("MPT-7B", {"norm_type": "batchnorm"}, "norm_type", "is not read"),
        ("MPT-7B", {"ffn_config": {"ffn_type": "te_ln_mlp"}}, "ffn_config.ffn_type", "is not read"),
        ("Persimmon-8B", {"qk_layernorm": "no"}, "qk_layernorm", "true or false"),
        ("xLSTM-7B", {"embedding_dim": 64}, "hidden_size", "contradicts embedding_dim"),
        ("xLSTM-7B", {"num_blocks": 6}, "num_hidden_layers", "contradicts num_blocks"),
        ("xLSTM-7B", {"num_heads": 7}, "qk_dim_factor", "multiple of num_heads=7"),
        ("xLSTM-7B", {"v_dim_factor": 1e-6}, "v_dim_factor", "multiple of num_heads=8"),
        ("xLSTM-7B", {"ffn_proj_factor": "2"}, "ffn_proj_factor", "a number from"),
    ],
)
def test_contradictions(name: str, change: dict[str, Any], place: str, words: str) -> None:
    refused(WITNESSES[name].config | change, InvalidValueError, f"config.{place}:", words)


def test_fuyu_wants_a_config_in_a_config() -> None:
    config = {"model_type": "fuyu", "text_config": [1]}
    refused(config, InvalidValueError, "config.text_config:", "a config of its own")
    config = {"model_type": "fuyu", "text_config": {"num_attention_heads": 7}}
    refused(config, InvalidValueError, "config.text_config.hidden_size:", "num_attention_heads=7")


@pytest.mark.parametrize("family", LEGACY)
def test_architectures_are_the_family_s(family: str) -> None:
    named = {"model_type": family, "architectures": ["BertModel"]}
    refused(named, UnsupportedModelError, "config.architectures:", LEGACY[family].architectures[0])


@pytest.mark.parametrize("name", WITNESSES)
@pytest.mark.parametrize("key", ["is_encoder_decoder", "add_cross_attention"])
def test_decoders_with_an_encoder_are_refused(name: str, key: str) -> None:
    config = WITNESSES[name].config
    refused(config | {key: True}, UnsupportedModelError, f"config.{key}:", "decoder-only")
    # is_decoder says nothing here: true and false are both written for decoders.
    assert pm.read_hf(config | {"is_decoder": True, key: False}) == pm.read_hf(config)


# -- what is no decoder -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        *[(kind, "encoder-only") for kind in ("bert", "roberta", "xlm-roberta", "deberta-v2")],
        *[(kind, "encoder-only") for kind in ("modernbert", "longformer", "big_bird", "electra")],
        *[(kind, "an encoder-decoder model") for kind in ("t5", "bart", "whisper", "mbart")],
        *[(kind, "an encoder-decoder model") for kind in ("bigbird_pegasus", "led", "nllb-moe")],
        *[(kind, "an image model") for kind in ("vit", "clip", "siglip", "dinov2", "sam", "detr")],
        *[(kind, "an audio model") for kind in ("wav2vec2", "hubert", "encodec", "bark")],
        *[(kind, "a time series model") for kind in ("timesfm", "patchtst")],
        ("reformer", "a model of hashed attention"),
        ("xlnet", "a model of permuted text"),
    ],
)
def test_other_models_are_refused_by_name(kind: str, what: str) -> None:
    words = ("config.model_type:", f"{kind} is {what}", "decoder-only")
    # A causal mask makes no decoder of an encoder's checkpoint.
    for more in ({}, {"is_decoder": True}, {"is_encoder_decoder": True}):
        refused({"model_type": kind} | more, UnsupportedModelError, *words)


def test_no_model_is_both_read_and_refused() -> None:
    assert not set(FAMILIES) & set(NO_DECODERS)
