"""An efficiency as a TOML file: what a calibration writes, and a user may write by hand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, get_args

from perfmodel.base._data import printable, read_toml, reason
from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import ConfigError, InvalidValueError
from perfmodel.base.spec import MAX_TEXT, Origin, Source, Spec
from perfmodel.machine.efficiency import (
    Band,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
    LinkEfficiency,
)
from perfmodel.machine.forms import AllReduceForm, HostForm, KernelForm, PrefillForm
from perfmodel.sources.catalog import iso_day
from perfmodel.work.collective import CollectiveKind
from perfmodel.work.operation import SMALL

_FORMS: Final[Mapping[str, Mapping[str, type[Spec]]]] = {
    "kernels": {"kernel": KernelForm, "prefill": PrefillForm},
    "collectives": {"link": LinkEfficiency, "all-reduce": AllReduceForm},
}
_PARTS: Final[Mapping[str, type[Spec]]] = {
    "link": LinkEfficiency,
    "host": HostForm,
    "decode_band": Band,
    "prefill_band": Band,
}
_ATTENTION: Final = ("decode-attention", "prefill-attention", "latent-decode", "latent-prefill")
_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kernels": ("matrix", "experts", *_ATTENTION, SMALL),
    "collectives": get_args(CollectiveKind),
}
_PLAIN: Final = tuple(
    name for name in Efficiency.model_fields if name not in (*_FORMS, *_PARTS, "origins")
)
_NOTES: Final = ("gpu", "tested")  # for people: they change nothing


def read_efficiency(path: str | Path) -> Efficiency:
    """An efficiency from a TOML file, as ``Calibration.write`` writes it.

    Parameters
    ----------
    path : str or Path
        The file: shares and overheads by name, ``[kernels."matrix.bf16"]`` with a ``form`` and its
        parameters and perhaps a ``band``, ``[collectives.all-reduce]`` likewise, ``[host]``,
        ``[link]``, ``[decode_band]``, ``[prefill_band]``, ``[[origins]]`` [text].

    Returns
    -------
    Efficiency
        Without an origin in the file, the file is the origin.

    Raises
    ------
    ConfigError
        If the file cannot be read or has a part that belongs to no efficiency.
    InvalidValueError
        If a value is out of range.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"efficiency: expected the path of a TOML file, got {shown(path)}")
    path = Path(path)
    table, where = read_toml(path), printable(path)
    known = (*_PLAIN, *_PARTS, *_FORMS, *_NOTES, "origins")
    _check(where, "", table, known)
    fields = {name: table[name] for name in _PLAIN if name in table}
    try:
        for name, kind in _PARTS.items():
            if name in table:
                values = _table(where, name, table[name])
                _check(where, f"{name}.", values, kind.model_fields)
                fields[name] = kind(**values)
        fields["kernels"] = tuple(
            KernelEfficiency(name=name, form=form, band=band)
            for name, form, band in _known(where, "kernels", table)
        )
        fields["collectives"] = tuple(
            CollectiveEfficiency(kind=name, form=form, band=band)
            for name, form, band in _known(where, "collectives", table)
        )
        mine = Origin(field="efficiency", kind="user", place=plain(path.name))
        fields["origins"] = tuple(_origins(where, table)) or (mine,)
        return Efficiency(**fields)
    except InvalidValueError as error:
        raise InvalidValueError(f"{where}: {error}") from None


def _check(where: str, prefix: str, table: Mapping[str, Any], known: Collection[str]) -> None:
    for key in table:
        if key not in known:
            near = did_you_mean(key, known)
            raise ConfigError(f"{where}: {prefix}{plain(key)}: unknown; {near}")


def _table(where: str, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: {name}: expected a table, got {shown(value)}")
    return value


def _known(
    where: str, part: str, table: Mapping[str, Any]
) -> Iterator[tuple[str, Spec, Band | None]]:
    """Name, form and band of each kernel or collective."""
    forms = _FORMS[part]
    for name, item in _table(where, part, table.get(part, {})).items():
        field = f"{part}.{plain(name)}"
        # Another kind would be of no kernel, and change nothing.
        kind = name.partition(".")[0] if part == "kernels" else name
        if kind not in _KINDS[part]:
            near = did_you_mean(kind, _KINDS[part])
            raise ConfigError(f"{where}: {field}: no kind {shown(kind)}; {near}")
        values = dict(_table(where, field, item))
        band, _ = values.pop("band", None), values.pop("tested", None)
        form = values.pop("form", next(iter(forms)))
        if not isinstance(form, str) or form not in forms:
            near = did_you_mean(form, forms)
            raise ConfigError(f"{where}: {field}.form: no form {shown(form)}; {near}")
        _check(where, f"{field}.", values, (*forms[form].model_fields, "form", "band", "tested"))
        if band is not None:
            _check(where, f"{field}.band.", _table(where, f"{field}.band", band), Band.model_fields)
        yield name, forms[form](**values), None if band is None else Band(**band)


def _origins(where: str, table: Mapping[str, Any]) -> Iterator[Origin]:
    given = table.get("origins", [])
    if not isinstance(given, list):
        raise ConfigError(f"{where}: origins: expected [[origins]], got {shown(given)}")
    for item in given:
        fields = dict(_table(where, "origins", item))
        _check(where, "origins.", fields, Origin.model_fields)
        if "source" in fields:
            fields["source"] = _source(where, fields["source"])
        yield Origin(**fields | {"date": iso_day(fields.get("date", ""))})


def _source(where: str, given: Any) -> Source:
    if isinstance(given, str):  # in words
        return Source(key=plain(given, MAX_TEXT), title=plain(given, MAX_TEXT))
    fields = _table(where, "origins.source", given)
    _check(where, "origins.source.", fields, Source.model_fields)
    return Source(**fields | {"date": iso_day(fields.get("date", ""))})


# -- writing ---------------------------------------------------------------------------------------


def write_efficiency(
    path: str | Path, efficiency: Efficiency, *, gpu: str, tested: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write what ``read_efficiency`` reads.

    Raises
    ------
    ConfigError
        If the file cannot be written.
    """
    if not isinstance(path, str | Path):
        raise ConfigError(f"path: expected the path of a file, got {shown(path)}")
    text = "\n".join(_lines(efficiency, gpu, tested)) + "\n"
    try:
        Path(path).write_text(text, encoding="utf-8", newline="\n")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{printable(path)}: cannot be written ({reason(error)})") from None


def _lines(
    efficiency: Efficiency, gpu: str, tested: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    yield f"gpu = {_text(gpu)}"
    yield from _values(efficiency, _PLAIN)
    if "steps" in tested:
        yield f"tested = {_inline(tested['steps'])}"
    for name in _PARTS:
        if (part := getattr(efficiency, name)) is not None:
            yield from ("", f"[{name}]", *_values(part, type(part).model_fields))
    for kernel in efficiency.kernels:
        yield from _form("kernels", kernel.name, kernel.form, kernel.band, tested)
    for one in efficiency.collectives:
        yield from _form("collectives", one.kind, one.form, one.band, tested)
    for origin in efficiency.origins:
        yield from ("", "[[origins]]", *_values(origin, ("field", "kind")))
        if origin.source is not None:
            given = {key: text for key, text in origin.source.model_dump().items() if text}
            yield f"source = {_inline(given)}"
        yield from _values(origin, ("place", "date", "note"))


def _form(
    part: str, name: str, form: Spec, band: Band | None, tested: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    kind = next(key for key, one in _FORMS[part].items() if one is type(form))
    yield from ("", f"[{part}.{_text(name)}]", f"form = {_text(kind)}")
    yield from _values(form, type(form).model_fields)
    if band is not None:
        yield f"band = {_inline({'low': band.low, 'high': band.high})}"
    if name in tested:
        yield f"tested = {_inline(tested[name])}"


def _values(part: Spec, names: Collection[str]) -> Iterator[str]:
    """Those that are not the default."""
    for name in names:
        value, field = getattr(part, name), type(part).model_fields[name]
        if value is not None and (field.is_required() or value != field.default):
            yield f"{name} = {_value(value)}"


def _inline(values: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {_value(value)}" for key, value in values.items()) + "}"


def _value(value: Any) -> str:
    return _text(value) if isinstance(value, str) else repr(value)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a basic string of TOML escapes as JSON does
