"""From a file, a folder or a dict to the shape of a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from perfmodel.base._data import printable, read_json, reason
from perfmodel.base._messages import plain, shown
from perfmodel.base.errors import (
    ConfigError,
    InvalidValueError,
    PerfModelError,
    UnsupportedModelError,
)
from perfmodel.base.precision import Precision
from perfmodel.base.spec import MAX_TEXT, Origin
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import Family
from perfmodel.sources.huggingface.families.table import FAMILIES, NO_DECODERS
from perfmodel.sources.huggingface.heads import end_of
from perfmodel.sources.huggingface.quantization import with_checkpoint_precision
from perfmodel.work.shape import ModelShape


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


def read_precision(source: str | Path | Mapping[str, Any]) -> Precision:
    """What a checkpoint is stored in, from its Hugging Face config.

    Parameters
    ----------
    source : str or Path or mapping
        A ``config.json``, a folder that holds one, or the config itself as a dict.

    Returns
    -------
    Precision
        That of ``quantization_config``: scales counted, modules that it leaves alone kept, its KV
        format; else the dtype's preset, or bf16 where the config states none.

    Raises
    ------
    ConfigError
        If there is no config, or it is not what a config should be.
    UnsupportedModelError
        If the family, the class or the quantization is not one that is read.
    InvalidValueError
        If a key is missing, out of range, or contradicts another.

    Examples
    --------
    >>> stored = read_precision({
    ...     "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    ...     "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    ...     "vocab_size": 128256, "torch_dtype": "float16", "quantization_config":
    ...     {"quant_method": "gptq", "bits": 4, "group_size": 128},
    ... })
    >>> stored.linear.weights.nbytes(128)  # 64 bytes, a 16-bit scale and a 4-bit zero point
    66.5
    """
    return read_hf(source).precision or Precision.preset("bf16")


def _read(values: Mapping[str, Any], name: str, where: str) -> ModelShape:
    family = _family(values)
    config = Config(values, family.names, family.defaults)
    end = end_of(config, family)
    _refuse_what_is_not_read(config)
    shape = end(config, family.read(config))
    _refuse_what_was_not_asked(config)
    _refuse_windows_without_a_size(config, shape)
    shape = with_checkpoint_precision(config, shape)
    used = sorted(config.asked & values.keys()) if where else []
    origins = [Origin(field=key, kind="user", place=where) for key in used]
    return shape.model_copy(
        update={
            "name": _text(values.get("_name_or_path")) or _text(name) or values["model_type"],
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
    values, beside = read_json(path), path.with_name("hf_quant_config.json")
    try:
        name = path.resolve().parent.name if path.stem == "config" else path.stem
        told = path.name == "config.json" and (beside.exists() or beside.is_symlink())
    except (OSError, RuntimeError) as error:  # a loop of links
        raise ConfigError(f"{printable(path)}: cannot be read ({reason(error)})") from None
    if told and not values.get("quantization_config"):
        # Modelopt may write what it quantized into a file of its own.
        quantization = read_json(beside).get("quantization")
        if not isinstance(quantization, dict):
            raise ConfigError(f"{printable(beside)}: expected a section quantization, found none")
        values = values | {"quantization_config": quantization}
    return values, name, printable(path)


def _family(values: Mapping[str, Any]) -> Family:
    kind = values.get("model_type")
    if kind is None:
        raise ConfigError("config.model_type: required, but missing: is this a model's config?")
    if not isinstance(kind, str) or kind not in FAMILIES:
        what = NO_DECODERS.get(kind) if isinstance(kind, str) else None
        raise UnsupportedModelError(
            f"config.model_type: {kind} is {what}; only decoder-only models are read"
            if what
            # No nearest choice: a mixtral read as a mistral would be another model.
            else f"config.model_type: {shown(kind)} is none of the {len(FAMILIES)} types that are "
            "read (the documentation's page on models lists them)"
        )
    return FAMILIES[kind]


def _refuse_what_is_not_read(config: Config) -> None:
    for key in ("is_encoder_decoder", "add_cross_attention"):
        if config.flag(key, False):
            raise UnsupportedModelError(f"config.{key}: only decoder-only models are read")


# Keys that only a model of another kind has: to pass over one would be to read another model.
_TELLING: Final = (
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
    "moe_num_experts",
    "kv_lora_rank",
    "index_topk",
    "linear_num_value_heads",
    "num_kv_shared_layers",
)


def _refuse_what_was_not_asked(config: Config) -> None:
    """An architecture that the family has not, told by a key that it did not ask for."""
    for path, values in config.told():
        for key in _TELLING:
            found = values.get(key)
            # None of them, or one, is what a dense model may say.
            nothing = found is None or (isinstance(found, int | float) and found in (0, 1))
            if nothing or f"{path}{key}" in config.asked:
                continue
            raise UnsupportedModelError(
                f"config.{path}{key}: {shown(found)} tells of another architecture than that of "
                f"model_type {config.text('model_type')}, which has no such key"
            )


def _refuse_windows_without_a_size(config: Config, shape: ModelShape) -> None:
    """Layers that are listed as sliding, where nothing says how far they see."""
    for path, values in config.told():
        kinds, on = values.get("layer_types"), values.get("use_sliding_window")
        listed = isinstance(kinds, list) and "sliding_attention" in kinds
        if listed and on is not False and not shape.clips:
            raise InvalidValueError(
                f"config.{path}sliding_window: required beside layer_types that slide, but missing"
            )
