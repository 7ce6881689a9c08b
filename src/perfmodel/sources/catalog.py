"""Chips and models by key: TOML files in which every value names its origin."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from perfmodel.base._data import catalogs, printable, read_toml
from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import ConfigError, InvalidValueError, UnknownKeyError
from perfmodel.base.spec import MAX_TEXT, Origin, Source, Spec
from perfmodel.machine.hardware import GpuSpec, Link, PeakFlops
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
        ``place``, ``date``, ``note`` and ``unit``. What a table does not say of these, the file's
        table ``origin`` does [text].

    Returns
    -------
    GpuSpec
        A bare number has an origin of kind "user", or that of the file.

    Raises
    ------
    ConfigError
        If the file cannot be read or has a part that is not a value.
    InvalidValueError
        If a value is missing or out of range.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"gpu: expected the path of a TOML file, got {shown(path)}")
    return _read_gpu(Path(path), sources=None)


def _known(what: str, key: str, keys: tuple[str, ...]) -> str:
    if isinstance(key, str) and key in keys:
        return key
    reader = {"gpu": "read_gpu for a TOML file", "model": "read_hf for a config.json"}[what]
    near = f"{did_you_mean(key, keys)}; {what}s() lists them; {reader}"
    raise UnknownKeyError(f"{what}: no {what} {shown(key)}; {near}")


@cache
def _keys(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (catalogs() / folder).glob("*.toml")))


@cache
def catalog_sources() -> dict[str, Source]:
    """What the catalog's values and prices refer to, by key."""
    table = read_toml(catalogs() / "sources.toml")
    return {key: Source(key=key, **fields) for key, fields in table.items()}


@cache
def _gpu(key: str) -> GpuSpec:
    return _read_gpu(catalogs() / "gpus" / f"{key}.toml", sources=catalog_sources(), key=key)


@cache
def _model(key: str) -> ModelShape:
    from perfmodel.sources.huggingface import read_hf  # many families: loaded when one is read

    path = catalogs() / "models" / f"{key}.toml"
    table = read_toml(path)
    # TOML has no null, and for some keys null is not the same as being absent.
    config = table["config"]
    for name in table.get("null", ()):
        *sections, field = name.split(".")
        section = config
        for part in sections:
            section = section[part]
        section[field] = None
    sources = catalog_sources()
    origin = _dated(table["origin"], sources)
    origins = tuple(_origin(path, field, origin, sources) for field in config)
    shape = read_hf(config)
    return shape.model_copy(update={"name": table["name"], "origins": origins})


def _read_gpu(path: Path, sources: dict[str, Source] | None, key: str = "") -> GpuSpec:
    """A chip from a file; with ``sources``, each source must be a key of them."""
    table = read_toml(path)
    parts: dict[str, type[Spec]] = {"peak_flops": PeakFlops, "link": Link, "host_link": Link}
    origins: list[Origin] = []
    sections = {}
    found = parts.keys() & table.keys()
    usual = table.pop("origin", {})
    if not isinstance(usual, dict):
        raise ConfigError(f"{printable(path)}: origin: expected a table, got {shown(usual)}")
    for part in parts:
        sections[part] = table.pop(part, {})
        if not isinstance(sections[part], dict):
            raise ConfigError(
                f"{printable(path)}: {part}: expected a table, got {shown(sections[part])}"
            )
    usual = _dated(usual, sources)

    def values(table: dict[str, Any], owner: type[Spec], prefix: str = "") -> dict[str, Any]:
        known = set(owner.model_fields) - {*parts, "key", "origins"}
        fields = {}
        for key, item in table.items():
            if key not in known:
                tables = () if prefix else parts
                near = did_you_mean(key, [*known, *tables])
                raise ConfigError(f"{printable(path)}: {prefix}{plain(key)}: unknown field; {near}")
            unit = (owner.model_fields[key].json_schema_extra or {}).get("unit")  # type: ignore[union-attr]
            if unit is None:  # a name or a flag, which has no unit and no origin
                fields[key] = iso_day(item)
                continue
            fields[key], origin = _value(path, f"{prefix}{key}", unit, item, usual, sources)
            origins.append(origin)
        return fields

    fields: dict[str, Any] = (
        {"name": plain(path.stem)} | ({"key": key} if key else {}) | values(table, GpuSpec)
    )
    for part, owner in parts.items():
        if part == "peak_flops" or part in found:
            fields[part] = values(sections[part], owner, f"{part}.")
    try:
        return GpuSpec(**fields, origins=tuple(origins))
    except InvalidValueError as error:
        raise InvalidValueError(f"{printable(path)}: {error}") from None


def _value(
    path: Path,
    field: str,
    unit: object,
    item: Any,
    usual: dict[str, Any],
    sources: dict[str, Source] | None,
) -> tuple[Any, Origin]:
    """A field's value and its origin; a bare number is the user's own, or as the file says."""
    if not isinstance(item, dict):
        whose = usual or {"kind": "user", "place": plain(path.name)}
        return item, _origin(path, field, whose, sources)
    if "value" not in item:
        raise ConfigError(f"{printable(path)}: {field}.value: required, but missing")
    if item.get("unit", unit) != unit:
        raise ConfigError(
            f"{printable(path)}: {field}.unit: expected {unit!r}, without a prefix, "
            f"got {shown(item['unit'])}"
        )
    rest = {key: text for key, text in item.items() if key not in ("value", "unit")}
    return item["value"], _origin(path, field, usual | _dated(rest, sources), sources)


def _dated(item: dict[str, Any], sources: dict[str, Source] | None) -> dict[str, Any]:
    """What names a source of the catalog and no day was read on the day of the source."""
    if sources is None or item.get("source") not in sources:
        return item
    return {"date": sources[item["source"]].date} | item


def _origin(
    path: Path, field: str, item: dict[str, Any], sources: dict[str, Source] | None
) -> Origin:
    known = set(Origin.model_fields) - {"field"}
    for key in item:
        if key not in known:
            raise ConfigError(
                f"{printable(path)}: {field}.{plain(key)}: unknown; {did_you_mean(key, known)}"
            )
    fields = {"kind": "user"} | item
    if (key := fields.pop("source", None)) is not None:
        fields["source"] = _source(path, field, key, sources)
    fields["date"] = iso_day(fields.get("date", ""))
    try:
        return Origin(field=field, **fields)
    except InvalidValueError as error:
        raise ConfigError(f"{printable(path)}: {field}: {error}") from None


def iso_day(value: Any) -> Any:
    """A date of TOML, which has dates of its own, as YYYY-MM-DD; anything else as it is."""
    return value.isoformat()[:10] if isinstance(value, date) else value


def _source(path: Path, field: str, key: Any, sources: dict[str, Source] | None) -> Source:
    if not isinstance(key, str):
        raise ConfigError(f"{printable(path)}: {field}.source: expected a text, got {shown(key)}")
    if sources is None:
        # A user names the source in words.
        return Source(key=plain(key, MAX_TEXT), title=plain(key, MAX_TEXT))
    if key not in sources:
        raise ConfigError(f"{printable(path)}: {field}.source: no source {key!r} in sources.toml")
    return sources[key]
