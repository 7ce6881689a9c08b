"""What a ``quantization_config`` says: rules for modules, and modules that stay as they were."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnsupportedModelError
from perfmodel.base.formats import FORMATS, Format, format_named
from perfmodel.base.precision import MatrixFormats
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.modules import MAX_PATTERNS, Modules, names_of

_EXPERTS: Final = ("moe.experts_up", "moe.experts_down")
MAX_FORMATS: Final = 16  # in one checkpoint


class Rule(NamedTuple):
    """Formats, and the modules that have them; None for all matrices of the blocks."""

    formats: MatrixFormats
    modules: Modules | None = None


class Scheme(NamedTuple):
    """How a checkpoint is quantized."""

    rules: tuple[Rule, ...]
    """The first that holds for a module decides."""
    kept: Modules
    """Modules that stay in the checkpoint's dtype."""
    kv: str | None = None
    """What the cache is stored in; None: like the activations."""
    head: bool = False
    """Whether the output head is quantized unless it is kept."""


def scheme_of(c: Config, config: Config, half: str) -> Scheme:
    """The scheme that a section tells, beside what the whole config says of its experts."""
    method = _method(c)
    if method not in _METHODS:
        raise UnsupportedModelError(
            f"config.quantization_config.quant_method: {shown(c.get('quant_method'))} is not read; "
            f"{did_you_mean(method, _METHODS)}"
        )
    scheme = _METHODS[method](c, half)
    if config.get("expert_dtype") == "fp4" and not _names_experts(scheme):
        # DeepSeek-V4 stores its experts in four bits beside matrices in eight.
        stored = formats_in("mxfp4", half, inputs="fp8", compute="fp8")
        experts = Rule(stored, Modules(["experts"], "config.expert_dtype"))
        scheme = scheme._replace(rules=(*scheme.rules[:1], experts, *scheme.rules[1:]))
    return scheme


def _names_experts(scheme: Scheme) -> bool:
    return any(
        modules is not None and modules.mean(0, names_of(part))
        for _, modules in scheme.rules
        for part in _EXPERTS
    )


def _method(c: Config) -> str | None:
    """The method by name; what modelopt writes may tell only the algorithm."""
    stated = c.get("quant_method")
    if stated is None and c.get("quant_algo") is not None:
        return "modelopt"
    return stated.lower() if isinstance(stated, str) else None


def _fp8(c: Config, half: str) -> Scheme:
    """Eight-bit floats, a scale a block of ``weight_block_size``, or one for a whole matrix."""
    block = c.get("weight_block_size")
    stored = format_named("fp8") if block is None else _fp8_blocks(c, "weight_block_size")
    rules = [Rule(formats_in(stored, half, inputs="fp8", compute="fp8"))]
    if c.optional_section("quantized_layers") is not None:
        rules += _layer_by_layer(c, half)
    # AutoFP8 writes other names, and one word for a cache of eight bits.
    ignored = "ignored_layers" if c.get("ignored_layers") is not None else "modules_to_not_convert"
    return Scheme(tuple(rules), _modules(c, ignored), _cache_format(c))


def _fp8_blocks(c: Config, key: str) -> Format:
    """A scale for so many rows and columns: a list of the two, or a text such as 128x128."""
    block = c.get(key)
    if isinstance(block, str) and re.fullmatch(r"[0-9]{1,5}x[0-9]{1,5}", block):
        block = [int(size) for size in block.split("x")]
    good = isinstance(block, list) and len(block) == 2
    if not (good and all(type(x) is int and 1 <= x <= 2**16 for x in block)):
        raise c.wrong(key, "two sizes of a block")
    rows, columns = block
    return Format(name=f"fp8-{rows}x{columns}", bits=8, scale_bits=32, block=rows * columns)


def _fbgemm(c: Config, half: str) -> Scheme:
    """Eight-bit floats with a scale a row."""
    stored = formats_in("fp8-row", half, inputs="fp8", compute="fp8")
    return Scheme((Rule(stored),), _modules(c, "modules_to_not_convert"))


def _awq(c: Config, half: str) -> Scheme:
    """Integers with a 16-bit scale a group, and a zero point of the weights' bits."""
    bits = _bits(c, "bits", "w_bit")
    zero = c.flag("zero_point", True)
    stored = _grouped(c, bits, zero=zero, keys=("group_size", "q_group_size"))
    return Scheme((Rule(formats_in(stored, half)),), _modules(c, "modules_to_not_convert"))


def _gptq(c: Config, half: str) -> Scheme:
    """Integers with a 16-bit scale and a zero point a group; ``dynamic`` changes single modules."""
    stored = _grouped(c, _bits(c, "bits"), zero=True, keys=("group_size",))
    if c.get("modules_in_block_to_quantize") is not None:
        raise UnsupportedModelError(
            "config.quantization_config.modules_in_block_to_quantize: only whole blocks, or "
            "modules that dynamic names, are read"
        )
    kept, changed = [], []
    if c.get("dynamic") is not None:
        for pattern, value in _items(c, "dynamic"):
            sign, _, expression = pattern.partition(":")
            if sign == "-":
                kept.append(f"re:{expression}")
            else:
                name = expression if sign == "+" else pattern
                path = f"config.quantization_config.dynamic.{pattern[:40]}"
                changed.append((f"re:{name}", _changed(c, Config(value, path=path))))
    path = "config.quantization_config.dynamic"
    rules = (Rule(formats_in(stored, half)), *_by_format(changed, half, path))
    return Scheme(rules, Modules(kept, path), head=c.flag("lm_head", False))


def _changed(c: Config, part: Config) -> Format:
    """The format of modules that change some of what the whole section says."""
    sizes = {key: c.get(key) if part.get(key) is None else part.get(key) for key in _SIZES}
    both = Config(sizes, path=part.path)
    return _grouped(both, _bits(both, "bits"), zero=True, keys=("group_size",))


_SIZES: Final = ("bits", "group_size")


def _by_format(modules: list[tuple[str, Format]], half: str, path: str) -> tuple[Rule, ...]:
    """One rule for all modules of a format."""
    found: dict[Format, list[str]] = {}
    for name, stored in modules:
        found.setdefault(stored, []).append(name)
    if len(found) > MAX_FORMATS:
        raise UnsupportedModelError(f"{path}: more than {MAX_FORMATS} different formats")
    return tuple(Rule(formats_in(f, half), Modules(names, path)) for f, names in found.items())


def _auto_round(c: Config, half: str) -> Scheme:
    """As GPTQ stores it; ``extra_config`` changes single modules, or leaves those of 16 bits."""
    c.choice("data_type", ("int",), "int")
    path = "config.quantization_config.extra_config"
    kept, changed = [], []
    if c.get("extra_config") is not None:
        for name, value in _items(c, "extra_config"):
            part = Config(value, path=f"{path}.{name[:40]}")
            if part.count("bits", c.count("bits")) >= 16:
                kept.append(name)
            else:
                changed.append((name, _changed(c, part)))
    rules = (*_gptq(c, half).rules, *_by_format(changed, half, path))
    return Scheme(rules, Modules(kept, path), head=c.flag("lm_head", False))


def _bitsandbytes(c: Config, half: str) -> Scheme:
    """NF4 or FP4 with a scale for 64 weights, itself perhaps quantized; or int8 with one a row."""
    four = c.flag("load_in_4bit", c.flag("_load_in_4bit", False))
    eight = c.flag("load_in_8bit", c.flag("_load_in_8bit", False))
    if four == eight:
        raise c.wrong("load_in_4bit", "either it or load_in_8bit", four)
    kept = _modules(c, "llm_int8_skip_modules")
    if eight:
        stored = Format(name="int8-row32", bits=8, scale_bits=32)
        return Scheme((Rule(formats_in(stored, half, compute="int8")),), kept)
    kind = c.choice("bnb_4bit_quant_type", ("nf4", "fp4"), "fp4")
    if c.flag("bnb_4bit_use_double_quant", False):
        # 256 scales of 8 bits share one of 32.
        stored = Format(name=f"{kind}-double", bits=4, scale_bits=256 * 8 + 32, block=256 * 64)
    else:
        stored = Format(name=kind, bits=4, scale_bits=32, block=64)
    return Scheme((Rule(formats_in(stored, half)),), kept)


def _mxfp4(c: Config, half: str) -> Scheme:
    """Four-bit floats with an 8-bit scale for 32; multiplied in the activations' format."""
    return Scheme((Rule(formats_in("mxfp4", half)),), _modules(c, "modules_to_not_convert"))


def _compressed_tensors(c: Config, half: str) -> Scheme:
    """Groups of modules, each with formats of its weights and inputs."""
    kept = _modules(c, "ignore")
    return Scheme(_groups(c, half), kept, _cache_format(c), head=True)


def _modelopt(c: Config, half: str) -> Scheme:
    """One algorithm for all, groups of modules, or an algorithm for each module by name."""
    ignored = "ignore" if c.get("ignore") is not None else "exclude_modules"
    kept = _modules(c, ignored)
    kv = _modelopt_cache(c)
    if c.optional_section("quantized_layers") is not None:
        return Scheme(_layer_by_layer(c, half), kept, kv)
    if c.optional_section("config_groups") is not None:
        return Scheme(_groups(c, half), kept, kv, head=True)
    return Scheme((Rule(_algorithm(c, half)),), kept, kv, head=True)


_METHODS: Final = {
    "auto-round": _auto_round,
    "awq": _awq,
    "bitsandbytes": _bitsandbytes,
    "compressed-tensors": _compressed_tensors,
    "fbgemm_fp8": _fbgemm,
    "fp8": _fp8,
    "gptq": _gptq,
    "intel/auto-round": _auto_round,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "mxfp4": _mxfp4,
}


# -- pieces of schemes ------------------------------------------------------------------------


def formats_in(
    weights: str | Format, half: str, *, inputs: str | None = None, compute: str | None = None
) -> MatrixFormats:
    """Weights in one format; inputs and arithmetic in the checkpoint's dtype unless told."""
    return MatrixFormats(
        weights=weights if isinstance(weights, Format) else format_named(weights),
        inputs=format_named(half if inputs is None else inputs),
        outputs=format_named(half),
        compute=half if compute is None else compute,
    )


def _modules(c: Config, key: str) -> Modules:
    """The modules under a key; none where it is absent or null."""
    found = c.get(key)
    if found is None:
        found = []
    if not isinstance(found, list) or len(found) > MAX_PATTERNS:
        raise c.wrong(key, "a list of modules")
    return Modules(found, f"config.quantization_config.{key}")


def _items(c: Config, key: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Names and sections under a key."""
    found = c.get(key)
    if not isinstance(found, Mapping) or len(found) > MAX_PATTERNS:
        raise c.wrong(key, "a section")
    for name, value in found.items():
        if not isinstance(name, str) or not isinstance(value, Mapping):
            raise c.wrong(key, "sections by name", value)
    return list(found.items())


def _bits(c: Config, *keys: str) -> int:
    key = next((key for key in keys if c.get(key) is not None), keys[0])
    bits = c.count(key)
    if bits not in (2, 3, 4, 8):
        raise c.wrong(key, "2, 3, 4 or 8", bits)
    return bits


def _grouped(c: Config, bits: int, *, zero: bool, keys: tuple[str, ...]) -> Format:
    """Integers with a 16-bit scale for each group of a row, or one for the row (-1)."""
    key = next((key for key in keys if c.get(key) is not None), keys[0])
    scale = 16 + (bits if zero else 0)
    if c.get(key) == -1:
        return Format(name=f"int{bits}-row{scale}", bits=bits, scale_bits=scale)
    group = c.count(key, 128)
    name = f"int{bits}-g{group}" + ("z" if zero else "")
    known = FORMATS.get(name)
    return known or Format(name=name, bits=bits, scale_bits=scale, block=group)


def _groups(c: Config, half: str) -> tuple[Rule, ...]:
    """The groups of ``config_groups``: those with named modules before those for all."""
    rules = []
    for name, value in _items(c, "config_groups"):
        group = Config(value, path=f"config.quantization_config.config_groups.{name[:40]}")
        targets = group.get("targets")
        if targets is not None and not (isinstance(targets, list) and targets):
            raise group.wrong("targets", "a list of modules or classes")
        everything = targets is None or any(_is_class(group, target) for target in targets)
        modules = None if everything else Modules(targets or (), group.path + ".targets")
        stored = group.get("format")
        packed = stored if isinstance(stored, str) else c.text("format")
        rules.append(Rule(_group_formats(group, packed, half), modules))
    if not 1 <= len(rules) <= MAX_FORMATS:
        raise c.wrong("config_groups", f"from 1 to {MAX_FORMATS} groups")
    return tuple(sorted(rules, key=lambda rule: rule.modules is None))


def _is_class(group: Config, target: object) -> bool:
    """Whether a target is the class of all matrices, and not a module by its name."""
    if target == "Linear":
        return True
    if isinstance(target, str) and target[:1].isupper() and target.isalnum():
        raise UnsupportedModelError(
            f"{group.path}.targets: {shown(target)} is no class that is read; expected Linear, or "
            "modules by name"
        )
    return False


def _group_formats(group: Config, packed: str, half: str) -> MatrixFormats:
    weights = group.section("weights")
    inputs = group.optional_section("input_activations")
    bits, kind = weights.count("num_bits"), weights.choice("type", ("int", "float"))
    stored = _tensor_format(weights, bits, kind, packed)
    if inputs is None:
        return formats_in(stored, half)
    name = _input_format(inputs, stored)
    return formats_in(stored, half, inputs=name, compute=name)


def _tensor_format(weights: Config, bits: int, kind: str, packed: str) -> Format:
    if weights.get("strategy") is not None:
        weights.choice("strategy", _STRATEGIES)
    if kind == "float" and bits == 8:
        strategy = weights.get("strategy")
        if strategy == "block":
            return _fp8_blocks(weights, "block_structure")
        if strategy == "group":
            return _mxfp8(weights)
        return format_named("fp8-row16" if strategy == "channel" else "fp8")
    if kind == "float" and bits == 4:
        group = weights.count("group_size")
        if "mxfp4" in packed or group == 32:
            return format_named("mxfp4")
        if group == 16:
            return format_named("nvfp4")
        raise weights.wrong("group_size", "16 (nvfp4) or 32 (mxfp4)", group)
    if kind == "int" and bits in (2, 3, 4, 8):
        zero = not weights.flag("symmetric", True)
        if weights.get("strategy") in ("channel", "tensor") or weights.get("group_size") in (
            None,
            -1,
        ):
            return (
                format_named("int8-row")
                if bits == 8
                else Format(name=f"int{bits}-row16", bits=bits, scale_bits=16)
            )
        return _grouped(weights, bits, zero=zero, keys=("group_size",))
    raise weights.wrong("num_bits", "8 or 4 bits of type float, or 2, 3, 4, 8 of type int", bits)


_STRATEGIES: Final = ("tensor", "channel", "group", "block", "token", "tensor_group")


def _mxfp8(weights: Config) -> Format:
    group = weights.count("group_size")
    if group != 32:
        raise weights.wrong("group_size", "32 (mxfp8) beside 8 bits of type float", group)
    return format_named("mxfp8")


def _input_format(inputs: Config, stored: Format) -> str:
    """Inputs of four bits are like the weights; of eight, floats or integers."""
    bits, kind = inputs.count("num_bits"), inputs.choice("type", ("int", "float"))
    if kind == "float" and bits == 4 and stored.name == "nvfp4":
        return "nvfp4"
    if bits == 8:
        return "fp8" if kind == "float" else "int8"
    raise inputs.wrong("num_bits", "8, or 4 beside nvfp4 weights", bits)


def _cache_format(c: Config) -> str | None:
    """What ``kv_cache_scheme`` says: a section, or one word for eight-bit floats."""
    if isinstance(c.get("kv_cache_scheme"), str):
        c.choice("kv_cache_scheme", ("static", "FP8", "fp8"))
        return "fp8"
    scheme = c.optional_section("kv_cache_scheme")
    if scheme is None:
        return None
    bits, kind = scheme.count("num_bits"), scheme.choice("type", ("int", "float"))
    if bits != 8:
        raise scheme.wrong("num_bits", "8", bits)
    return "fp8" if kind == "float" else "int8"


_CACHES: Final = {"FP8": "fp8", "INT8": "int8", "NVFP4": "nvfp4"}


def _modelopt_cache(c: Config) -> str | None:
    if c.get("kv_cache_scheme") is not None:
        return _cache_format(c)
    found = c.get("kv_cache_quant_algo")
    return None if found is None else _CACHES[c.choice("kv_cache_quant_algo", tuple(_CACHES))]


_ALGORITHMS: Final = (
    "FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4", "NVFP4_AWQ", "W4A16_NVFP4",
    "W4A16_AWQ", "W4A8_AWQ", "W8A16", "MXFP4", "MXFP8", "W8A8_SQ_PER_CHANNEL",
)  # fmt: skip


def _algorithm(c: Config, half: str) -> MatrixFormats:
    """What modelopt calls an algorithm, as formats."""
    algorithm = c.choice("quant_algo", _ALGORITHMS)
    if algorithm in ("NVFP4", "NVFP4_AWQ"):
        return formats_in("nvfp4", half, inputs="nvfp4", compute="nvfp4")
    if algorithm == "W4A16_NVFP4":
        return formats_in("nvfp4", half)
    if algorithm == "MXFP4":
        return formats_in("mxfp4", half)
    if algorithm == "MXFP8":
        return formats_in("mxfp8", half, inputs="fp8", compute="fp8")
    if algorithm == "FP8":
        return formats_in("fp8", half, inputs="fp8", compute="fp8")
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return formats_in("fp8-row", half, inputs="fp8", compute="fp8")
    if algorithm == "FP8_PB_WO":
        return formats_in("fp8-128x128", half)
    if algorithm == "W8A16":
        return formats_in("int8-row", half)
    if algorithm == "W8A8_SQ_PER_CHANNEL":
        return formats_in("int8-row", half, inputs="int8", compute="int8")
    stored = _grouped(c, 4, zero=False, keys=("group_size",))
    if algorithm == "W4A8_AWQ":
        return formats_in(stored, half, inputs="fp8", compute="fp8")
    return formats_in(stored, half)


def _layer_by_layer(c: Config, half: str) -> tuple[Rule, ...]:
    """An algorithm for each module by name: one rule for all that agree."""
    modules: dict[MatrixFormats, list[str]] = {}
    known: dict[str, MatrixFormats] = {}
    for name, value in _items(c, "quantized_layers"):
        path = f"config.quantization_config.quantized_layers.{name[:60]}"
        try:
            key = repr(sorted(value.items(), key=repr))[:200]
            if key not in known:
                known[key] = _algorithm(Config(value, path=path), half)
        except RecursionError:
            raise InvalidValueError(f"{path}: nested too deeply") from None
        modules.setdefault(known[key], []).append(name)
    if not 1 <= len(modules) <= MAX_FORMATS:
        raise c.wrong("quantized_layers", f"modules of 1 to {MAX_FORMATS} different formats")
    where = "config.quantization_config.quantized_layers"
    return tuple(Rule(stored, Modules(names, where)) for stored, names in modules.items())
