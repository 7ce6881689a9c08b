"""Chips and models by key: TOML files in which every value names its origin."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.errors import ConfigError, UnknownKeyError, did_you_mean, shown
from perfmodel.base.spec import Origin, Source, Spec
from perfmodel.machine.hardware import GpuSpec, PeakFlops
from perfmodel.sources.huggingface import read_hf
from perfmodel.work.shape import ModelShape


def gpu(key: str) -> GpuSpec:
    """A chip of the catalog.

    Parameters
    ----------
    key : str
        One of ``gpus()`` [text].

    Returns
    -------
    GpuSpec
        With the origin of each value in ``origins``.

    Raises
    ------
    UnknownKeyError
        If there is no such chip; the message names the nearest.

    Examples
    --------
    >>> gpu("h100-sxm").memory_bandwidth
    3350000000000.0
    """
    return _gpu(_known("gpu", key, gpus()))


def gpus() -> tuple[str, ...]:
    """The keys of all chips in the catalog, sorted.

    Returns
    -------
    tuple of str
        Keys for ``gpu``.

    Examples
    --------
    >>> "h100-sxm" in gpus()
    True
    """
    return _keys("gpus")


def model(key: str) -> ModelShape:
    """A model of the catalog.

    Parameters
    ----------
    key : str
        One of ``models()`` [text].

    Returns
    -------
    ModelShape
        With the origin of its sizes in ``origins``.

    Raises
    ------
    UnknownKeyError
        If there is no such model; the message names the nearest.

    Examples
    --------
    >>> model("llama-3.1-8b").params
    8030261248
    """
    return _model(_known("model", key, models()))


def models() -> tuple[str, ...]:
    """The keys of all models in the catalog, sorted.

    Returns
    -------
    tuple of str
        Keys for ``model``.

    Examples
    --------
    >>> "llama-3.1-8b" in models()
    True
    """
    return _keys("models")


def read_gpu(path: str | Path) -> GpuSpec:
    """A user's own chip from a TOML file in the catalog's form.

    Parameters
    ----------
    path : str or Path
        The file. A value is a bare number, or a table with ``value``, ``kind``, ``source``,
        ``place``, ``date``, ``note`` and ``unit`` [text].

    Returns
    -------
    GpuSpec
        A bare number has an origin of kind "user".

    Raises
    ------
    ConfigError
        If the file cannot be read or has a part that is not a value.
    InvalidValueError
        If a value is missing or out of range.
    """
    path = Path(path)
    return _read_gpu(path, sources={})


def _known(what: str, key: str, keys: tuple[str, ...]) -> str:
    if key not in keys:
        raise UnknownKeyError(f"{what}: no {what} {shown(key)}; {did_you_mean(key, keys)}")
    return key


@cache
def _keys(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (catalogs() / folder).glob("*.toml")))


@cache
def _sources() -> dict[str, Source]:
    table = read_toml(catalogs() / "sources.toml")
    return {key: Source(key=key, **fields) for key, fields in table.items()}


@cache
def _gpu(key: str) -> GpuSpec:
    return _read_gpu(catalogs() / "gpus" / f"{key}.toml", sources=_sources())


@cache
def _model(key: str) -> ModelShape:
    path = catalogs() / "models" / f"{key}.toml"
    table = read_toml(path)
    config, origin = table["config"], table["origin"]
    origins = tuple(_origin(path, field, origin, _sources()) for field in config)
    shape = read_hf(config)
    return shape.model_copy(update={"name": table["name"], "origins": origins})


def _read_gpu(path: Path, sources: dict[str, Source]) -> GpuSpec:
    table = read_toml(path)
    origins: list[Origin] = []
    peaks = table.pop("peak_flops", {})
    if not isinstance(peaks, dict):
        raise ConfigError(f"{path}: peak_flops: expected a table of formats, got {shown(peaks)}")
    fields = {"name": table.pop("name", path.stem)}
    fields |= {
        key: _value(path, key, GpuSpec, item, origins, sources) for key, item in table.items()
    }
    fields["peak_flops"] = {
        key: _value(path, f"peak_flops.{key}", PeakFlops, item, origins, sources)
        for key, item in peaks.items()
    }
    return GpuSpec(**fields, origins=tuple(origins))


def _value(
    path: Path,
    field: str,
    owner: type[Spec],
    item: Any,
    origins: list[Origin],
    sources: dict[str, Source],
) -> Any:
    """A field's value; its origin is added to ``origins``."""
    if not isinstance(item, dict):
        origins.append(Origin(field=field, kind="user", place=path.name))
        return item
    item = dict(item)
    if "value" not in item:
        raise ConfigError(f"{path}: {field}.value: required, but missing")
    value, unit = item.pop("value"), item.pop("unit", None)
    known = owner.model_fields.get(field.rpartition(".")[2])
    extra = known.json_schema_extra if known is not None else None
    expected = extra.get("unit") if isinstance(extra, dict) else None
    if unit is not None and unit != expected:
        raise ConfigError(f"{path}: {field}.unit: expected {expected!r}, got {shown(unit)}")
    origins.append(_origin(path, field, item, sources))
    return value


def _origin(path: Path, field: str, item: dict[str, Any], sources: dict[str, Source]) -> Origin:
    item = dict(item)
    key = item.pop("source", None)
    source = None
    if key is not None:
        # A user's file may name its source in words; the catalog's are keys of sources.toml.
        source = sources.get(key) or Source(key=str(key), title=str(key))
    if unknown := set(item) - set(Origin.model_fields):
        name = sorted(unknown)[0]
        known = did_you_mean(name, Origin.model_fields)
        raise ConfigError(f"{path}: {field}.{name}: unknown; {known}")
    return Origin(field=field, source=source, **{"kind": "user"} | item)
