"""Whatever a config holds, reading it ends in a shape or in one of perfmodel's own errors."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fuzz
import pytest
from fixtures.configs import KNOWN, MINIMAL
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.base.errors import PerfModelError

CASES = 20_000 if os.environ.get("CI") else 500
CONFIGS = [*MINIMAL.values(), *(known.config for known in KNOWN.values())]
READ_KEYS = sorted(
    {key for config in CONFIGS for key in config}
    | {"_name_or_path", "add_cross_attention", "dtype", "is_encoder_decoder", "layer_types"}
    | {"mlp_bias", "quantization_config"}
)


@pytest.fixture(autouse=True)
def silence(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """A library writes to no stream, whatever it reads."""
    yield
    assert capfd.readouterr() == ("", "")


def check(source: Any) -> None:
    """A shape that can be counted and written, or one readable error."""
    try:
        shape = pm.read_hf(source)
    except PerfModelError as error:
        message = str(error)
    else:
        sound(shape)
        return
    assert message
    assert message.isprintable()


def sound(shape: pm.ModelShape) -> None:
    assert type(shape) is pm.ModelShape
    assert type(shape.params) is int
    assert shape.params > 0
    assert shape.kv_bytes_per_token("bf16") > 0
    assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = [
    *[0, -1, 1, 2, 3, 32, 64, 10**15, 10**15 + 1, 2**63, 10**400, 10**5000, -(10**5000)],
    *[0.0, -0.0, 0.5, 3.0, 1e15, 1e16, 1e308, float("nan"), float("inf"), float("-inf")],
    *[None, True, False, "", "64", "\0", "\ud800", "a\nb", "x" * 5000, "auto", "bfloat16"],
    *[[], {}, [None], nested(20), nested(5000), ["full_attention"] * 3],
    *[["sliding_attention"] * 3, ["full_attention", "sliding_attention"] * 20, {"model_type": 1}],
    *MINIMAL,
]
LEAF = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5))
JSON = st.one_of(
    st.sampled_from(HOSTILE),
    LEAF,
    st.lists(LEAF, max_size=3),
    st.dictionaries(st.text(max_size=3), LEAF, max_size=2),
)
KEYS = st.sampled_from(READ_KEYS)
MUTATIONS = st.one_of(
    st.tuples(st.just("drop"), KEYS),
    st.tuples(st.just("put"), KEYS, JSON),
    st.tuples(st.just("put"), KEYS, st.integers(1, 130)),
    st.tuples(st.just("put"), st.text(max_size=5), JSON),
    st.tuples(st.just("swap"), KEYS, KEYS),
)


def mutated(config: dict[str, Any], mutations: list[Any]) -> dict[str, Any]:
    config = dict(config)
    for kind, key, *rest in mutations:
        if kind == "drop":
            config.pop(key, None)
        elif kind == "put":
            config[key] = rest[0]
        else:
            config[key], config[rest[0]] = config.get(rest[0]), config.get(key)
    return config


def test_seeded_mutations_of_every_config_of_the_catalog() -> None:
    """The first cases of ``python tests/fuzz.py 1000000``: every family that is served."""
    outcomes = fuzz.run(CASES)
    assert outcomes["read"] > CASES / 20
    assert outcomes["InvalidValueError"] > CASES / 20


@settings(max_examples=CASES // 4, deadline=None)
@given(st.sampled_from(CONFIGS), st.lists(MUTATIONS, max_size=4))
def test_mutated_configs(config: dict[str, Any], mutations: list[Any]) -> None:
    check(mutated(config, mutations))


@settings(max_examples=CASES // 10, deadline=None)
@given(JSON | st.dictionaries(KEYS, JSON, max_size=6))
def test_configs_of_nothing_but_junk(config: Any) -> None:
    if not isinstance(config, str):  # a string is a path, and may name a file that exists
        check(config)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "config.json"


FILES = [json.dumps(config, indent=2).encode() for config in CONFIGS]


@settings(max_examples=CASES // 10, deadline=None)
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=4),
    st.none() | st.integers(0, 600),
    st.tuples(st.integers(0, 600), st.binary(max_size=4)),
)
def test_damaged_files(
    file: Path,
    content: bytes,
    flips: list[tuple[int, int]],
    length: int | None,
    inserted: tuple[int, bytes],
) -> None:
    raw = bytearray(content)
    for place, mask in flips:
        raw[place % len(raw)] ^= mask
    place, more = inserted
    raw[place:place] = more
    file.write_bytes(raw[:length])
    check(file)


@settings(max_examples=CASES // 40, deadline=None)
@given(
    family=st.sampled_from(["llama", "mistral", "qwen2", "qwen3"]),
    layers=st.integers(1, 200),
    kv_heads=st.integers(1, 64),
    group=st.integers(1, 16),
    head_dim=st.integers(1, 512),
    hidden=st.integers(1, 10**5),
    inner=st.integers(1, 10**6),
    vocab=st.integers(1, 10**6),
    tied=st.booleans(),
    bias=st.booleans(),
    window=st.none() | st.integers(1, 10**6),
    first=st.integers(0, 200),
    name=st.text(min_size=1, max_size=9),
)
def test_sound_configs_are_read_counted_and_written(
    family: str,
    layers: int,
    kv_heads: int,
    group: int,
    head_dim: int,
    hidden: int,
    inner: int,
    vocab: int,
    tied: bool,
    bias: bool,
    window: int | None,
    first: int,
    name: str,
) -> None:
    shape = pm.read_hf(
        {
            "model_type": family,
            "num_hidden_layers": layers,
            "num_attention_heads": kv_heads * group,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "hidden_size": hidden,
            "intermediate_size": inner,
            "vocab_size": vocab,
            "tie_word_embeddings": tied,
            "attention_bias": bias,
            "use_sliding_window": window is not None,
            "sliding_window": window,
            "max_window_layers": first,
            "_name_or_path": name,
        }
    )
    # Tensor by tensor, as the class names them.
    q, kv = kv_heads * group * head_dim, kv_heads * head_dim
    qkv_bias = family == "qwen2" or (bias and family in ("llama", "qwen3"))
    o_bias = bias and family in ("llama", "qwen3")
    tensors = {
        "q_proj, k_proj, v_proj": hidden * q + 2 * hidden * kv,
        "their biases": (q + 2 * kv) * qkv_bias,
        "o_proj": q * hidden + hidden * o_bias,
        "q_norm, k_norm": 2 * head_dim * (family == "qwen3"),
        "gate_proj, up_proj, down_proj": 3 * hidden * inner,
        "input_layernorm, post_attention_layernorm": 2 * hidden,
    }
    tables = vocab * hidden * (1 if tied else 2)
    assert shape.params == layers * sum(tensors.values()) + tables + hidden
    assert shape.layers == layers
    # Past the window only the layers that do not slide still grow: 4 B a key and value element.
    sliding = 0
    if window is not None and family != "llama":
        sliding = layers if family == "mistral" else max(layers - first, 0)
    assert shape.kv_bytes_per_token("bf16") == 4 * layers * kv
    assert shape.kv_bytes_per_token("bf16", context=10**7) == 4 * (layers - sliding) * kv
    assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape
