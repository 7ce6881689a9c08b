"""Mutates configs at random and reads them: ``python tests/fuzz.py CASES [SEED]``.

Every case must end in a shape that can be counted and written, or in one of perfmodel's own
errors, of one printable line. A case is told by its seed and its number, so that it can be run
again; the test suite runs the first 20,000.
"""

from __future__ import annotations

import copy
import json
import math
import random
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

import perfmodel as pm
from perfmodel.base._data import catalogs
from perfmodel.base.errors import PerfModelError

MAX_MESSAGE = 600  # characters
LEAVES = (
    *(0, -1, 1, 2, 3, 7, 8, 64, 10**15, 10**15 + 1, 2**63, 10**400, 0.0, 0.5, 3.0, 1e16, 1e308),
    *(float("nan"), float("inf"), float("-inf"), None, True, False),
    *("", "64", "\0", "\ud800", "a\nb"),
    *("auto", "float16", "full_attention", "sliding_attention", "linear_attention", "x" * 3000),
    *([], {}, [None], [[[[]]]], {"model_type": 1}, ["full_attention"] * 3, [1] * 200, {"": None}),
)  # fmt: skip
QUANTIZED = (
    {"quant_method": "fp8", "weight_block_size": [128, 128]},
    {"quant_method": "awq", "bits": 4, "group_size": 128, "modules_to_not_convert": ["lm_head"]},
    {"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:.*gate.*": {}}},
    {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    {"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["*layers.0*"]},
    {
        "quant_method": "compressed-tensors",
        "ignore": ["re:.*self_attn.*", "lm_head"],
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"},
                "input_activations": None,
            }
        },
    },
)


def configs() -> list[dict[str, Any]]:
    """What is mutated: every config of the catalog, so every family that is served."""
    found = []
    for path in sorted((catalogs() / "models").glob("*.toml")):
        found.append(tomllib.loads(path.read_text(encoding="utf-8"))["config"])
    return found


def places(value: Any, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a config."""
    if depth > 6:
        return
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner, depth + 1)


def mutated(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A config with one to four changes somewhere in it."""
    config = copy.deepcopy(config)
    if rng.random() < 0.3:
        config["quantization_config"] = copy.deepcopy(rng.choice(QUANTIZED))
    for _ in range(rng.randint(1, 4)):
        found = list(places(config))
        if not found:
            break
        owner, key = rng.choice(found)
        other, source = rng.choice(found)
        change = rng.random()
        if change < 0.45:
            owner[key] = copy.deepcopy(rng.choice(LEAVES))
        elif change < 0.65:
            owner[key] = rng.randint(1, 130)
        elif change < 0.8:
            owner.pop(key)
        elif change < 0.9 and isinstance(owner, dict):
            owner[f"{key}{rng.choice(('s', '_', 'x'))}"] = copy.deepcopy(rng.choice(LEAVES))
        else:
            taken = other[source] if not isinstance(other[source], dict | list) else 1
            owner[key] = taken
    return config


def check(config: Any, *, thorough: bool = True) -> str:
    """Read one config; the outcome in a word, or an AssertionError."""
    try:
        shape = pm.read_hf(config)
        if thorough:
            sound(shape)
    except PerfModelError as error:
        message = str(error)
        assert message, "an error says something"
        assert message.isprintable(), "a message is one line of text"
        assert len(message) <= MAX_MESSAGE, message
        return type(error).__name__
    return "read"


def sound(shape: pm.ModelShape) -> None:
    """The shape can be counted, described, and written and read again."""
    assert shape.params > 0
    assert shape.params >= shape.active_params > 0
    assert shape.weight_bytes() > 0
    assert shape.describe().splitlines()
    if shape.has_cache:
        assert shape.cache_bytes(1) >= 0
        assert shape.state_bytes() >= 0
    step = pm.Step(groups=(pm.Group(count=2, new=1, past=3), pm.Group(count=1, new=5)))
    for op in pm.forward(shape, step):
        assert 0 <= op.flops < math.inf
        assert 0 < op.nbytes < math.inf
    if shape.layers < 1000:
        assert pm.ModelShape.model_validate_json(shape.model_dump_json()) == shape


def run(cases: int, seed: int = 0) -> Counter[str]:
    """Read so many mutated configs; how often each outcome came."""
    base = configs()
    outcomes: Counter[str] = Counter()
    for case in range(cases):
        rng = random.Random(f"{seed}/{case}")
        config = mutated(rng.choice(base), rng)
        try:
            # Counting, writing and running take longer than reading: one case in eight.
            outcomes[check(config, thorough=case % 8 == 0)] += 1
        except Exception as error:
            told = json.dumps(config, default=repr)[:3000]
            raise AssertionError(f"case {case} of seed {seed}: {error!r}\n{told}") from error
    return outcomes


if __name__ == "__main__":
    counted = run(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    for outcome, count in counted.most_common():
        sys.stdout.write(f"{count:10,} {outcome}\n")
