"""The config reader against other counts, and what it says to a config that it cannot read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.configs import KNOWN, MINIMAL

import perfmodel as pm
from perfmodel.base.errors import (
    ConfigError,
    InvalidValueError,
    PerfModelError,
    UnsupportedModelError,
)
from perfmodel.sources.huggingface.families.table import FAMILIES
from perfmodel.work.step import Group, Step

BF16 = pm.Precision.preset("bf16")
LLAMA, QWEN3 = MINIMAL["llama"], MINIMAL["qwen3"]


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A library writes to no stream, whatever it reads."""
    yield
    assert capfd.readouterr() == ("", "")


# -- witnesses: public counts -----------------------------------------------------------------


@pytest.mark.parametrize("name", KNOWN)
def test_counts_of_public_models(name: str) -> None:
    known = KNOWN[name]
    shape = pm.read_hf(known.config)
    assert shape.params == known.params
    assert shape.kv_bytes_per_token("bf16") == known.kv
    assert shape.weight_bytes("bf16") == 2 * known.params
    assert shape.head is not None
    assert shape.head.tied is known.tied


def test_mistral_7b_v01_slides_in_every_layer() -> None:
    shape = pm.read_hf(KNOWN["Mistral-7B-v0.1"].config)
    assert shape.kv_bytes_per_token("bf16", context=4096) == 131_072
    assert shape.kv_bytes_per_token("bf16", context=4097) == 0
    assert shape.cache_bytes(100_000, "bf16") == 4096 * 131_072


def test_qwen2_ignores_a_window_that_is_switched_off() -> None:
    shape = pm.read_hf(KNOWN["Qwen1.5-4B"].config)
    assert shape.kv_bytes_per_token("bf16", context=100_000) == 409_600


def test_qwen2_slides_from_max_window_layers_on() -> None:
    # 40 layers, the first 21 full: past the window 21 of 40 grow, 21 x 2 x 20 x 128 x 2 B.
    config = KNOWN["Qwen1.5-4B"].config | {"use_sliding_window": True}
    shape = pm.read_hf(config)
    assert [(repeats, row[0].window) for repeats, row in shape.blocks] == [(21, None), (19, 32768)]
    assert shape.kv_bytes_per_token("bf16", context=32768) == 409_600
    assert shape.kv_bytes_per_token("bf16", context=32769) == 215_040
    assert shape.params == 3_950_369_280


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_layer_types_say_which_layers_slide(family: str) -> None:
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    on = {"use_sliding_window": True, "sliding_window": 7, "layer_types": kinds}
    shape = pm.read_hf(MINIMAL[family] | on)
    assert [row[0].window for _, row in shape.blocks] == [7, None, 7]
    off = pm.read_hf(MINIMAL[family] | on | {"use_sliding_window": False})
    assert [(repeats, row[0].window) for repeats, row in off.blocks] == [(3, None)]


@pytest.mark.parametrize(
    ("name", "flag", "more"),
    [
        # 16 x (q 2048 + k 512 + v 512 + output 2048)
        ("Llama-3.2-1B", "attention_bias", 81_920),
        # 16 x (gate 8192 + up 8192 + down 2048)
        ("Llama-3.2-1B", "mlp_bias", 294_912),
        # 28 x (q 2048 + k 1024 + v 1024 + output 1024)
        ("Qwen3-0.6B", "attention_bias", 143_360),
        # one more table of 151936 x 1024: the total that is published
        ("Qwen3-0.6B", "untied", 751_632_384 - 596_049_920),
    ],
)
def test_flags_add_exactly_their_tensors(name: str, flag: str, more: int) -> None:
    change = {"tie_word_embeddings": False} if flag == "untied" else {flag: True}
    assert pm.read_hf(KNOWN[name].config | change).params == KNOWN[name].params + more


@pytest.mark.parametrize(
    ("family", "absent", "null"),
    # Each class: absent takes its default (heads themselves for LlamaConfig); null means heads.
    [("llama", 64, 64), ("mistral", 8, 64), ("qwen2", 32, 64), ("qwen3", 32, 64)],
)
def test_default_number_of_kv_heads(family: str, absent: int, null: int) -> None:
    config = MINIMAL[family] | {"num_attention_heads": 64}
    assert pm.read_hf(config).blocks[0][1][0].kv_heads == absent
    config |= {"num_key_value_heads": None}
    assert pm.read_hf(config).blocks[0][1][0].kv_heads == null


@pytest.mark.parametrize(
    ("family", "key", "width"), [("llama", "head_dim", 2), ("qwen3", "head_dim", 128)]
)
def test_default_width_of_a_head(family: str, key: str, width: int) -> None:
    # 64 / 32 where the class divides; 128 where the class says 128.
    assert pm.read_hf(MINIMAL[family]).blocks[0][1][0].head_dim == width
    assert pm.read_hf(MINIMAL[family] | {key: 6}).blocks[0][1][0].head_dim == 6


def test_mistral_config_without_a_window_key_has_the_class_default() -> None:
    assert pm.read_hf(MINIMAL["mistral"]).blocks[0][1][0].window == 4096
    assert pm.read_hf(MINIMAL["mistral"] | {"sliding_window": None}).blocks[0][1][0].window is None


def test_gpt2_inner_width_and_positions() -> None:
    shape = pm.read_hf(MINIMAL["gpt2"])
    assert (shape.blocks[0][1][1].width, shape.position_limit) == (4 * 64, 1024)
    shape = pm.read_hf(MINIMAL["gpt2"] | {"n_inner": 100, "n_positions": 50})
    assert (shape.blocks[0][1][1].width, shape.position_limit) == (100, 50)


def test_gpt2_positions_do_not_come_from_n_ctx() -> None:
    # GPT2Config sizes the table by n_positions alone, 1024 unless stated.
    assert pm.read_hf(MINIMAL["gpt2"] | {"n_ctx": 4096}).position_limit == 1024


@pytest.mark.parametrize(
    ("keys", "precision"),
    [
        ({}, None),
        ({"torch_dtype": None}, None),
        ({"dtype": "auto"}, None),
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"torch_dtype": "torch.float16"}, "fp16"),
        ({"dtype": "float32"}, "fp32"),
        ({"dtype": "float32", "torch_dtype": "float32"}, "fp32"),
    ],
)
def test_the_checkpoint_states_its_precision(keys: dict[str, Any], precision: str | None) -> None:
    read = pm.read_hf(LLAMA | keys).precision
    assert (read and read.name) == precision


def test_dict_file_and_folder_are_the_same_model(tmp_path: Path) -> None:
    config = KNOWN["Llama-3.2-1B"].config
    folder = tmp_path / "tiny-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "other.json").write_text(json.dumps(config | {"_name_or_path": "who/what"}))
    shapes = [pm.read_hf(s) for s in (config, folder, str(folder), folder / "config.json")]
    assert [s.name for s in shapes] == ["llama", "tiny-llama", "tiny-llama", "tiny-llama"]
    assert pm.read_hf(folder / "other.json").name == "who/what"
    assert len({s.with_(name="same").model_dump_json() for s in shapes}) == 1


def test_a_name_that_is_no_text_leaves_a_shape_that_can_be_written() -> None:
    # Valid JSON can escape half a surrogate pair, which UTF-8 cannot write.
    shape = pm.read_hf(json.loads(json.dumps(LLAMA | {"_name_or_path": "half \ud800"})))
    assert shape.name.isprintable()
    assert "half" in shape.name
    assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape


def test_unread_keys_may_hold_anything(tmp_path: Path) -> None:
    # Python, and so Transformers, writes infinities that strict JSON does not know.
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"limits": [0.0, float("inf"), float("nan")]}))
    assert pm.read_hf(path).params == pm.read_hf(LLAMA).params


# -- errors: one sentence that names the key, the value and the remedy ------------------------


def refused(source: Any, kind: type[PerfModelError], *words: str) -> None:
    with pytest.raises(kind) as caught:
        pm.read_hf(source)
    message = str(caught.value)
    assert all(word in message for word in words), message
    assert message.isprintable(), "a message is one line of text"
    assert len(message) < 600
    # One error: whatever Python said first is folded into the sentence.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


FILES = {
    "empty": (b"", ["expected JSON", "line 1"]),
    "blank": (b"   \n", ["expected JSON"]),
    "truncated": (b'{"model_type": "llama", "hidden_size": ', ["expected JSON", "line 1"]),
    "a list": (b'[{"model_type": "llama"}]', ["expected a JSON object", "got [{"]),
    "null": (b"null", ["expected a JSON object", "got None"]),
    "two objects": (b'{"model_type": "llama"} {}', ["expected JSON", "Extra data"]),
    "deep": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, ["expected JSON", "nested too deeply"]),
    "digits": (b'{"hidden_size": ' + b"9" * 10_000 + b"}", ["expected JSON", "10000 digits"]),
    "large": (b'{"pad": "' + b"x" * 5_000_000 + b'"}', ["at most 4194304 bytes"]),
    "binary": (bytes(range(256)), ["expected UTF-8 text"]),
    "UTF-16": ('{"model_type": "llama"}'.encode("utf-16"), ["expected UTF-8 text"]),
}


@pytest.mark.parametrize(("content", "words"), FILES.values(), ids=FILES)
def test_files_that_hold_no_config(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    refused(path, ConfigError, str(path), *words)
    refused(tmp_path, ConfigError, str(path), *words)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_files_with_a_number_that_is_none(tmp_path: Path, constant: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA).replace('"vocab_size": 100', f'"vocab_size": {constant}'))
    got = "nan" if constant == "NaN" else "inf"
    refused(path, InvalidValueError, "config.vocab_size", "whole number", got)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    refused(tmp_path, ConfigError, str(tmp_path), "config.json")
    refused(tmp_path / "none.json", ConfigError, "none.json", "no such file")
    refused(str(tmp_path / "none.json"), ConfigError, "none.json", "no such file")
    refused(f"{tmp_path}/nul\0.json", ConfigError, r"nul\x00.json")
    refused(f"{tmp_path}/two\nlines", ConfigError, r"two\nlines", "no such file")
    refused("x" * 5000, ConfigError, "xxx")
    (tmp_path / "config.json").mkdir()
    refused(tmp_path, ConfigError, str(tmp_path), "config.json")


@pytest.mark.parametrize("source", [None, 7, b"config.json", ["config.json"], 1.5])
def test_sources_that_are_neither_path_nor_dict(source: Any) -> None:
    refused(source, ConfigError, "expected a path or a dict", repr(source))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("lama", ["'lama'"]),
        ("mixtrall", ["'mixtrall'"]),
        ("LLaMA", ["'LLaMA'"]),
        ("", ["''"]),
        (7, ["7"]),
        (["llama"], ["['llama']"]),
        ({}, ["{}"]),
        ("x" * 100_000, ["xxx"]),
        (10**5000, ["int"]),
        ("\0\n\ud800", [r"\x00\n\ud800"]),
    ],
    ids=range(10),
)
def test_unknown_families(kind: Any, words: list[str]) -> None:
    refused(
        LLAMA | {"model_type": kind}, UnsupportedModelError, "config.model_type", "none of", *words
    )


def test_missing_family() -> None:
    for config in ({}, {"model_type": None}, {"hidden_size": 8}):
        refused(config, ConfigError, "config.model_type", "required")


@pytest.mark.parametrize(
    ("family", "key"),
    [(family, key) for family, config in MINIMAL.items() for key in config if key != "model_type"],
)
def test_each_required_key(family: str, key: str) -> None:
    config = MINIMAL[family]
    for missing in ({k: v for k, v in config.items() if k != key}, config | {key: None}):
        refused(missing, InvalidValueError, f"config.{key}:", "required, but missing")


GPT2_KEYS = ["n_embd", "n_layer", "n_head", "vocab_size", "n_inner", "n_positions"]
ROTARY_KEYS = [
    *[key for key in LLAMA if key != "model_type"],
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
]
COUNTS = [
    *[("gpt2", key) for key in GPT2_KEYS],
    *[(family, key) for family in MINIMAL if family != "gpt2" for key in ROTARY_KEYS],
    *[(family, "sliding_window") for family in ("mistral", "qwen2", "qwen3")],
]
NO_COUNTS = [0, -1, 1.5, -0.0, "32", True, False, float("nan"), float("inf"), 10**15 + 1, 1e300]
NO_COUNTS += [10**400, 10**5000, [32], {"n": 32}]


@pytest.mark.parametrize(("family", "key"), COUNTS)
def test_counts_are_positive_whole_numbers(family: str, key: str) -> None:
    config = MINIMAL[family] | {"use_sliding_window": True}
    assert pm.read_hf(config | {key: 32}) == pm.read_hf(config | {key: 32.0})
    for value in NO_COUNTS:
        got = "int" if value == 10**5000 else repr(value)[:50]
        refused(config | {key: value}, InvalidValueError, f"config.{key}:", "whole number", got)


def test_first_sliding_layer() -> None:
    config = QWEN3 | {"use_sliding_window": True, "num_hidden_layers": 30}
    # Qwen2Config and Qwen3Config: the first 28 do not slide unless max_window_layers says so.
    assert [repeats for repeats, _ in pm.read_hf(config).blocks] == [28, 2]
    assert pm.read_hf(config | {"max_window_layers": 0}).blocks[0][1][0].window == 4096
    for value in (-1, 0.5, "1", True, [0]):
        refused(
            config | {"max_window_layers": value},
            InvalidValueError,
            "config.max_window_layers:",
            "whole number",
            repr(value),
        )


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "qwen3"])
def test_heads_divide(family: str) -> None:
    refused(
        MINIMAL[family] | {"num_key_value_heads": 5},
        InvalidValueError,
        "config.num_attention_heads:",
        "multiple of num_key_value_heads=5",
        "got 32",
    )
    if family != "qwen3":  # its heads are 128 wide whatever the hidden width
        refused(
            MINIMAL[family] | {"hidden_size": 65},
            InvalidValueError,
            "config.hidden_size:",
            "multiple of num_attention_heads=32",
            "got 65",
        )


def test_gpt2_heads_divide() -> None:
    refused(
        MINIMAL["gpt2"] | {"n_head": 7},
        InvalidValueError,
        "config.n_embd:",
        "multiple of n_head=7",
        "got 64",
    )


FLAGS = [
    *[(family, "tie_word_embeddings") for family in MINIMAL],
    *[(family, "is_encoder_decoder") for family in MINIMAL],
    *[("llama", "attention_bias"), ("llama", "mlp_bias"), ("qwen3", "attention_bias")],
    *[("qwen2", "use_sliding_window"), ("qwen3", "use_sliding_window")],
    ("gpt2", "add_cross_attention"),
]


@pytest.mark.parametrize(("family", "key"), FLAGS)
def test_flags_are_true_or_false(family: str, key: str) -> None:
    assert pm.read_hf(MINIMAL[family] | {key: None}) == pm.read_hf(MINIMAL[family])
    for value in (1, 0, "true", [], {}, 0.0):
        refused(
            MINIMAL[family] | {key: value},
            InvalidValueError,
            f"config.{key}:",
            "true or false",
            repr(value),
        )


@pytest.mark.parametrize("key", ["is_encoder_decoder", "add_cross_attention"])
def test_decoders_only(key: str) -> None:
    refused(LLAMA | {key: True}, UnsupportedModelError, f"config.{key}:", "decoder-only")


@pytest.mark.parametrize(
    "named",
    [["MistralForCausalLM"], ["LlamaForQuestionAnswering"], "MistralModel", [7], {"a": 1}, 7],
    ids=str,
)
def test_architecture_is_the_family_s(named: Any) -> None:
    refused(
        LLAMA | {"architectures": named},
        UnsupportedModelError,
        "config.architectures:",
        "expected LlamaForCausalLM",
        repr(named),
    )


def test_architecture_may_be_absent() -> None:
    for named in (None, [], "LlamaForCausalLM", ["LlamaForCausalLM"]):
        assert pm.read_hf(LLAMA | {"architectures": named}) == pm.read_hf(LLAMA)


def heads(shape: pm.ModelShape) -> list[Any]:
    """What the output heads of a step of one token compute."""
    step = Step(groups=(Group(count=1, new=1),))
    return [op.flops for op in pm.forward(shape, step, "bf16") if op.name == "head"]


def test_a_class_without_a_head() -> None:
    # intfloat/e5-mistral-7b-instruct: 7,110,660,096 elements on the Hub, Mistral less its head.
    whole = KNOWN["Mistral-7B-v0.1"]
    bare = pm.read_hf(whole.config | {"architectures": ["MistralModel"]})
    assert bare.params == 7_110_660_096 == whole.params - 32_000 * 4096
    assert bare.head is None
    assert bare.kv_bytes_per_token("bf16") == whole.kv
    assert bare.weight_bytes("bf16") == 2 * bare.params


def test_a_tied_head_takes_no_table_with_it() -> None:
    tied = LLAMA | {"tie_word_embeddings": True}
    bare = pm.read_hf(tied | {"architectures": ["LlamaModel"]})
    assert bare.params == pm.read_hf(tied).params
    assert heads(bare) == []


@pytest.mark.parametrize(
    ("more", "rows"), [({}, 2), ({"id2label": {"0": "LABEL_0"}}, 1), ({"num_labels": 5}, 5)]
)
def test_a_class_with_labels(more: dict[str, Any], rows: int) -> None:
    named = {"architectures": ["LlamaForSequenceClassification"]}
    bare, scoring = pm.read_hf(LLAMA | {"architectures": ["LlamaModel"]}), LLAMA | named | more
    shape = pm.read_hf(scoring)
    assert shape.params == bare.params + rows * LLAMA["hidden_size"]
    assert heads(shape) == [2 * rows * LLAMA["hidden_size"]]


def test_more_labels_than_tokens() -> None:
    named = {"architectures": ["LlamaForSequenceClassification"], "num_labels": 10**9}
    refused(LLAMA | named, UnsupportedModelError, "config.num_labels:", "more than")


def test_a_reward_is_one_row_where_the_class_has_no_more() -> None:
    config = LLAMA | {"model_type": "internlm2", "architectures": ["InternLM2ForRewardModel"]}
    whole = pm.read_hf(config | {"architectures": ["InternLM2ForCausalLM"]})
    assert pm.read_hf(config).params == whole.params - 99 * 64
    qwen = MINIMAL["qwen2"] | {"architectures": ["Qwen2ForRewardModel"]}
    refused(qwen, UnsupportedModelError, "config.architectures:", "Qwen2ForRewardModel")


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])
@pytest.mark.parametrize("value", ["float8_e4m3fn", "bfloat", "", 16, ["bfloat16"], {}, True])
def test_unknown_dtypes(key: str, value: Any) -> None:
    refused(LLAMA | {key: value}, UnsupportedModelError, f"config.{key}:", repr(value), "bfloat16")


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
@pytest.mark.parametrize("slides", [True, False])
@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (["full_attention"] * 2, ["list of", "3", "['full_attention', 'full_attention']"]),
        (["full_attention"] * 4, ["list of", "3"]),
        ([], ["list of", "3", "[]"]),
        ("full_attention", ["list of", "3", "'full_attention'"]),
        ({"0": "full_attention"}, ["list of", "3"]),
        (["full_attention"] * 2 + ["linear_attention"], ["'linear_attention'"]),
        (["full_attention", "slide_attention", "full_attention"], ["did you mean 'sliding_"]),
        (["full_attention", 7, "full_attention"], ["7 is not read", "sliding_attention"]),
        (["full_attention", None, "full_attention"], ["None is not read"]),
        (["full_attention", ["full_attention"], "full_attention"], ["['full_attention']"]),
    ],
    ids=range(10),
)
def test_layer_types_that_contradict(
    family: str, slides: bool, kinds: Any, words: list[str]
) -> None:
    config = MINIMAL[family] | {"layer_types": kinds, "use_sliding_window": slides}
    refused(config, InvalidValueError, "config.layer_types:", *words)


def test_more_layers_than_a_list_can_sensibly_hold() -> None:
    config = QWEN3 | {"use_sliding_window": True, "num_hidden_layers": 10**15}
    refused(config, InvalidValueError, "config.num_hidden_layers:", "at most 10000", "got 1000")


def test_a_window_is_off_unless_it_is_switched_on() -> None:
    shape = pm.read_hf(QWEN3 | {"sliding_window": 64, "max_window_layers": 0})
    assert shape.kv_bytes_per_token("bf16", context=1000) == shape.kv_bytes_per_token("bf16")


def test_no_family_is_suggested_in_place_of_another() -> None:
    # A mixtral read as the "nearest" mistral would be a dense model of 7 B.
    with pytest.raises(UnsupportedModelError) as caught:
        pm.read_hf(LLAMA | {"model_type": "mixtrall"})
    assert "did you mean" not in str(caught.value)


def test_a_file_is_named_in_its_errors_and_its_origins(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8")
    shape = pm.read_hf(path)
    assert {origin.place for origin in shape.origins} == {str(path)}
    assert "hidden_size" in {origin.field for origin in shape.origins}
    path.write_text(json.dumps(LLAMA | {"hidden_size": 0}), encoding="utf-8")
    with pytest.raises(InvalidValueError, match=r"mine\.json: config\.hidden_size"):
        pm.read_hf(path)


def test_the_documentation_lists_the_families() -> None:
    page = Path(__file__).parents[1] / "docs" / "models.md"
    text = page.read_text(encoding="utf-8")
    listed = set(re.findall(r"`([^`]+)`", text[text.index("## Families") :])) - {"model_type"}
    assert listed == set(FAMILIES)


def test_layers_that_slide_need_a_window() -> None:
    config = MINIMAL["mistral"] | {"sliding_window": None}
    count = config["num_hidden_layers"]
    refused(
        config | {"layer_types": ["sliding_attention"] * count},
        InvalidValueError,
        "config.sliding_window",
        "required",
    )


@pytest.mark.parametrize("value", [8, 8.0, "8", [8], float("nan")])
def test_keys_of_another_architecture_count_whatever_their_type(value: Any) -> None:
    refused(LLAMA | {"num_experts": value}, UnsupportedModelError, "config.num_experts")


@pytest.mark.parametrize("value", [None, 0, 1, False])
def test_no_experts_are_none(value: Any) -> None:
    assert pm.read_hf(LLAMA | {"num_experts": value}).params == pm.read_hf(LLAMA).params
