"""Reads a Hugging Face ``config.json``: one table a family, from its keys to layers.

A family that is not listed is refused by name; a default is the one of the class that the
config is made for, named beside it. Nothing is guessed, and no code of a checkpoint runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from perfmodel.base._data import printable, read_json, reason
from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import (
    ConfigError,
    InvalidValueError,
    PerfModelError,
    UnsupportedModelError,
)
from perfmodel.base.precision import Precision
from perfmodel.base.spec import MAX_TEXT, Origin, whole
from perfmodel.work.layers import Attention, FeedForward
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.shape import Block, ModelShape

_REQUIRED: Final = object()
MAX_LAYERS: Final = 10_000  # a list of layer kinds is walked once
_LAYER_KINDS: Final = ("full_attention", "sliding_attention")


class Config:
    """A config as questions: each key is asked for with its kind and its default."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self.asked: set[str] = set()

    def count(self, key: str, default: Any = _REQUIRED) -> int:
        """A positive whole number; null means the default."""
        found = self._found(key, default)
        try:
            return whole(found)
        except ValueError as error:
            raise InvalidValueError(f"config.{key}: {error}, got {shown(found)}") from None

    def optional_count(self, key: str, default: int | None) -> int | None:
        """A positive whole number, or null, which is not the same as being absent."""
        if key in self._values and self._values[key] is None:
            return None
        return default if key not in self._values and default is None else self.count(key, default)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self._found(key, default)
        if not isinstance(found, bool):
            raise InvalidValueError(f"config.{key}: expected true or false, got {shown(found)}")
        return found

    def get(self, key: str) -> Any:
        """Whatever is there, or None."""
        self.asked.add(key)
        return self._values.get(key)

    def _found(self, key: str, default: Any) -> Any:
        found = self.get(key)
        if found is not None:
            return found
        if default is _REQUIRED:
            raise InvalidValueError(f"config.{key}: required, but missing")
        return default


def read_hf(source: str | Path | Mapping[str, Any]) -> ModelShape:
    """The shape of a model from its Hugging Face config.

    Parameters
    ----------
    source : str or Path or mapping
        A ``config.json``, a folder that holds one, or the config itself as a dict.

    Returns
    -------
    ModelShape
        With the checkpoint's own precision where the config states a dtype.

    Raises
    ------
    ConfigError
        If there is no config, or it is not what a config should be.
    UnsupportedModelError
        If the family, the class or the quantization is not one that is read.
    InvalidValueError
        If a key is missing, out of range, or contradicts another.

    References
    ----------
    The defaults are those of the configuration classes of Hugging Face Transformers 4 and 5.

    Examples
    --------
    >>> shape = read_hf({
    ...     "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
    ...     "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
    ...     "head_dim": 128, "vocab_size": 151936, "tie_word_embeddings": True,
    ... })
    >>> shape.params
    596049920
    """
    values, name, where = _load(source)
    try:
        return _read(values, name, where)
    except PerfModelError as error:
        if where:
            raise type(error)(f"{where}: {error}") from None
        raise


def _read(values: Mapping[str, Any], name: str, where: str) -> ModelShape:
    family = _family(values)
    config = Config(values)
    _refuse_what_is_not_read(config, family)
    shape = family.read(config)
    precision = _checkpoint_precision(config)
    used = sorted(config.asked & values.keys()) if where else []
    origins = [Origin(field=key, kind="user", place=where) for key in used]
    return shape.model_copy(
        update={
            "name": _text(values.get("_name_or_path")) or _text(name) or values["model_type"],
            "precision": precision,
            "origins": tuple(origins),
        }
    )


def _text(name: object) -> str:
    """A name that can be printed and written, whatever escapes or bytes it came from."""
    return plain(name, MAX_TEXT) if isinstance(name, str) else ""


def _load(source: str | Path | Mapping[str, Any]) -> tuple[Mapping[str, Any], str, str]:
    """The config, a name for the model, and the file it stands in, if it does."""
    if isinstance(source, Mapping):
        return source, "", ""
    if not isinstance(source, str | Path):
        raise ConfigError(f"config: expected a path or a dict, got {shown(source)}")
    path = Path(source)
    try:
        is_folder = path.is_dir()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{printable(source)}: cannot be read ({reason(error)})") from None
    if is_folder:
        if not (path / "config.json").is_file():
            raise ConfigError(
                f"{printable(path)}: expected a folder with a config.json, found none in it"
            )
        path = path / "config.json"
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    return read_json(path), name, printable(path)


# -- families ---------------------------------------------------------------------------------


class Family(NamedTuple):
    """How one ``model_type`` is read, and the class whose weights it describes."""

    architecture: str
    read: Callable[[Config], ModelShape]


def _family(values: Mapping[str, Any]) -> Family:
    kind = values.get("model_type")
    if kind is None:
        raise ConfigError("config.model_type: required, but missing: is this a model's config?")
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise UnsupportedModelError(
            # No nearest choice: a mixtral read as a mistral would be another model.
            f"config.model_type: {shown(kind)} is not read; it reads {', '.join(FAMILIES)}"
        )
    return FAMILIES[kind]


def _refuse_what_is_not_read(config: Config, family: Family) -> None:
    named = config.get("architectures")
    listed = named if isinstance(named, list) else [named]
    if named is not None and listed and not any(_text(x) == family.architecture for x in listed):
        raise UnsupportedModelError(
            f"config.architectures: expected {family.architecture}, got {shown(named)}"
        )
    for key in ("is_encoder_decoder", "add_cross_attention"):
        if config.flag(key, False):
            raise UnsupportedModelError(f"config.{key}: only decoder-only models are read")
    quantization = config.get("quantization_config")
    if quantization is not None and not (isinstance(quantization, dict) and not quantization):
        stated = isinstance(quantization, dict)
        method = quantization.get("quant_method") if stated else quantization
        raise UnsupportedModelError(
            f"config.quantization_config: checkpoints quantized with {shown(method)} are not read "
            "yet; remove the key and choose a precision yourself"
        )


def _llama(config: Config) -> ModelShape:
    """LlamaConfig: biases are flags, heads default to hidden / heads wide."""
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=config.count("num_attention_heads"),
        kv_heads=_kv_heads(config, None),
        head_dim=_head_dim(config),
        qkv_bias=bias,
        output_bias=bias,
    )
    return _rms_decoder(config, attention, mlp_bias=config.flag("mlp_bias", False))


def _mistral(config: Config) -> ModelShape:
    """MistralConfig: 8 KV heads and a window of 4096 in every layer unless the config says not."""
    attention = Attention(
        heads=config.count("num_attention_heads"),
        kv_heads=_kv_heads(config, 8),
        head_dim=_head_dim(config),
        window=config.optional_count("sliding_window", 4096),
    )
    return _rms_decoder(config, attention)


def _qwen2(config: Config) -> ModelShape:
    """Qwen2Config: biases on queries, keys and values; a window only where it is switched on."""
    attention = Attention(
        heads=config.count("num_attention_heads"),
        kv_heads=_kv_heads(config, 32),
        head_dim=_head_dim(config),
        qkv_bias=True,
    )
    return _rms_decoder(config, attention, windows=_qwen_windows(config))


def _qwen3(config: Config) -> ModelShape:
    """Qwen3Config: heads 128 wide, a norm on each query and key head."""
    bias = config.flag("attention_bias", False)
    attention = Attention(
        heads=config.count("num_attention_heads"),
        kv_heads=_kv_heads(config, 32),
        head_dim=config.count("head_dim", 128),
        qkv_bias=bias,
        output_bias=bias,
        qk_norm=True,
    )
    return _rms_decoder(config, attention, windows=_qwen_windows(config))


def _gpt2(config: Config) -> ModelShape:
    """GPT2Config: learned positions, LayerNorm, biases everywhere, an ungated feed-forward."""
    hidden, heads = config.count("n_embd"), config.count("n_head")
    attention = Attention(
        heads=heads,
        kv_heads=heads,
        head_dim=_divided(hidden, heads, "n_embd", "n_head"),
        qkv_bias=True,
        output_bias=True,
        norm="layer",
    )
    inner = config.count("n_inner", 4 * hidden)
    feedforward = FeedForward(width=inner, gated=False, bias=True, norm="layer")
    return ModelShape(
        hidden=hidden,
        vocab=config.count("vocab_size"),
        blocks=((config.count("n_layer"), (attention, feedforward)),),
        embedding=Embedding(positions=config.count("n_positions", 1024)),
        head=Head(tied=config.flag("tie_word_embeddings", True), norm="layer"),
    )


FAMILIES: Final[dict[str, Family]] = {
    "gpt2": Family("GPT2LMHeadModel", _gpt2),
    "llama": Family("LlamaForCausalLM", _llama),
    "mistral": Family("MistralForCausalLM", _mistral),
    "qwen2": Family("Qwen2ForCausalLM", _qwen2),
    "qwen3": Family("Qwen3ForCausalLM", _qwen3),
}


# -- what families share ----------------------------------------------------------------------


def _rms_decoder(
    config: Config,
    attention: Attention,
    *,
    windows: list[int | None] | None = None,
    mlp_bias: bool = False,
) -> ModelShape:
    """RMSNorm, rotary positions, a gated feed-forward; all these families leave ends untied."""
    feedforward = FeedForward(width=config.count("intermediate_size"), bias=mlp_bias)
    count = config.count("num_hidden_layers")
    if windows is None:
        blocks: tuple[Block, ...] = ((count, (attention, feedforward)),)
    else:
        blocks = tuple(
            (run, (attention.model_copy(update={"window": window}), feedforward))
            for run, window in _runs(windows)
        )
    return ModelShape(
        hidden=config.count("hidden_size"),
        vocab=config.count("vocab_size"),
        blocks=blocks,
        embedding=Embedding(),
        head=Head(tied=config.flag("tie_word_embeddings", False)),
        max_context=config.optional_count("max_position_embeddings", None),
    )


def _runs(windows: list[int | None]) -> list[tuple[int, int | None]]:
    """Equal neighbours, counted: blocks are written once however often they repeat."""
    runs: list[tuple[int, int | None]] = []
    for window in windows:
        if runs and runs[-1][1] == window:
            runs[-1] = (runs[-1][0] + 1, window)
        else:
            runs.append((1, window))
    return runs


def _head_dim(config: Config) -> int:
    """``head_dim`` is its own number; only where the config says nothing is it hidden / heads."""
    if config.get("head_dim") is not None:
        return config.count("head_dim")
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    return _divided(hidden, heads, "hidden_size", "num_attention_heads")


def _divided(whole_width: int, parts: int, whole_key: str, parts_key: str) -> int:
    if whole_width % parts:
        raise InvalidValueError(
            f"config.{whole_key}: expected a multiple of {parts_key}={parts}, got {whole_width}"
        )
    return whole_width // parts


def _kv_heads(config: Config, default: int | None) -> int:
    """Absent means the class's default; null, in every family, as many as query heads."""
    heads = config.count("num_attention_heads")
    kv_heads = config.optional_count("num_key_value_heads", default) or heads
    if heads % kv_heads:
        raise InvalidValueError(
            f"config.num_attention_heads: expected a multiple of num_key_value_heads={kv_heads}, "
            f"got {heads}"
        )
    return kv_heads


def _qwen_windows(config: Config) -> list[int | None] | None:
    """Each layer's window, or None for all without: on only by ``use_sliding_window``.

    Layers from ``max_window_layers`` on slide (the class default is 28), unless ``layer_types``
    lists each.
    """
    slides = config.flag("use_sliding_window", False)
    kinds = config.get("layer_types")
    if kinds is not None:
        _check_kinds(kinds, config.count("num_hidden_layers"))
    if not slides:
        return None
    window = config.optional_count("sliding_window", 4096)
    count = config.count("num_hidden_layers")
    if count > MAX_LAYERS:
        raise InvalidValueError(
            f"config.num_hidden_layers: expected at most {MAX_LAYERS} with windows, got {count}"
        )
    if kinds is None:
        first = _first_window_layer(config)
        return [window if i >= first else None for i in range(count)]
    return [window if kind == "sliding_attention" else None for kind in kinds]


def _check_kinds(kinds: Any, count: int) -> None:
    if not isinstance(kinds, list) or len(kinds) != count:
        raise InvalidValueError(
            f"config.layer_types: expected a list of num_hidden_layers={count} kinds, "
            f"got {shown(kinds)}"
        )
    for kind in kinds:
        if not isinstance(kind, str) or kind not in _LAYER_KINDS:
            known = did_you_mean(kind, _LAYER_KINDS)
            raise InvalidValueError(f"config.layer_types: {shown(kind)} is not read; {known}")


def _first_window_layer(config: Config) -> int:
    found = config.get("max_window_layers")
    try:
        return 28 if found is None else whole(found, 0)
    except ValueError as error:
        raise InvalidValueError(f"config.max_window_layers: {error}, got {shown(found)}") from None


_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def _checkpoint_precision(config: Config) -> Precision | None:
    """What the weights are stored in: ``dtype`` (``torch_dtype`` before Transformers 5)."""
    for key in ("dtype", "torch_dtype"):
        found = config.get(key)
        if found is None or (isinstance(found, str) and found == "auto"):
            continue
        name = found.removeprefix("torch.") if isinstance(found, str) else None
        if name not in _DTYPES:
            known = did_you_mean(name, _DTYPES)
            raise UnsupportedModelError(f"config.{key}: {shown(found)} is not read; {known}")
        return Precision.preset(_DTYPES[name])
    return None
