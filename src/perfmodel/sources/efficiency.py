"""Efficiencies by chip and engine: TOML files whose parameters were fitted to measured kernels."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal, TypeAlias

from perfmodel.base._data import catalogs, read_toml
from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import Origin, checked_choice, checked_flag, checked_kind
from perfmodel.machine.efficiency import (
    IDEAL,
    Band,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
    LinkEfficiency,
)
from perfmodel.machine.forms import (
    AllReduceForm,
    HostForm,
    KernelForm,
    PrefillForm,
    ServerForm,
)
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources._fits import read_fits
from perfmodel.sources.catalog import catalog_sources
from perfmodel.sources.streams import stream_efficiency, streams
from perfmodel.work.operation import SMALL

EfficiencyLike: TypeAlias = Efficiency | Literal["ideal", "auto"]

Known: TypeAlias = Literal["chip", "family", "unknown"]

POOLED: Final = "pooled"
_ALIASES: Final = {"tensorrt-llm": "trtllm"}
_PREFILL: Final = ("prefill-attention", "latent-prefill")
_OWN: Final = "own-all-reduce"  # of an engine, on the devices of a node
_COLLECTIVES: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def engines() -> tuple[str, ...]:
    """The engines whose kernels and host are known.

    Returns
    -------
    tuple of str
        Names for ``engine=``.

    Examples
    --------
    >>> "vllm" in engines()
    True
    """
    return tuple(sorted((*_engines()["engines"], *streams())))


def efficiency(gpu: GpuSpec, *, engine: str | None = None, graphs: bool = True) -> Efficiency:
    """What is known of how fast kernels run on a chip: fitted to it, to its family, or to others.

    Parameters
    ----------
    gpu : GpuSpec
        The chip; of the catalog, what was fitted to it.
    engine : str or None
        One of ``engines()``; None: kernels of all engines pooled, and no host [text].
    graphs : bool
        Whether it replays decode steps as graphs; otherwise its host launches each kernel by
        itself, as it does while prompts are read [flag].

    Returns
    -------
    Efficiency
        A form and a band for each kernel; ``known`` says whose they are.

    Raises
    ------
    UnknownKeyError
        If there is no such engine.

    Examples
    --------
    >>> from perfmodel import gpu
    >>> efficiency(gpu("h100-sxm"), engine="vllm").known
    'chip'
    """
    checked_kind("gpu", gpu, GpuSpec, "pm.gpu(key) or pm.read_gpu(path)")
    checked_flag("graphs", graphs)
    name = None if engine is None else _engine(engine)
    if name is not None and name in streams():
        found = stream_efficiency(gpu, name)
    else:
        found = _efficiency(gpu.key, name)
    return found if graphs else found.model_copy(update={"graphs": False})


def resolve_efficiency(given: EfficiencyLike, gpu: GpuSpec, engine: str | None) -> Efficiency:
    """The efficiency meant: as given, the ideal, or what is known of the chip.

    Raises
    ------
    UnknownKeyError
        If there is no such engine.
    InvalidValueError
        If it is neither an efficiency nor one of the two names, or not what an engine implies.
    """
    if not isinstance(given, Efficiency):
        checked_choice("efficiency", given, ("auto", "ideal"))
    if engine is not None:
        if given not in ("auto", IDEAL):  # which is also what is given where nothing is
            raise InvalidValueError(
                f"engine, efficiency: expected one of them, got {shown(engine)} and {shown(given)}"
            )
        return efficiency(gpu, engine=engine)
    if isinstance(given, Efficiency):
        return given
    return efficiency(gpu) if given == "auto" else IDEAL


def resolve_server(given: ServerForm | None, engine: str | None) -> ServerForm:
    """What a server adds to a request: as given, or what is known of the engine.

    Raises
    ------
    UnknownKeyError
        If there is no such engine.
    """
    if given is not None:
        return given
    row = {} if engine is None else _engines()["engines"].get(_engine(engine), {})
    return ServerForm(**row.get("server", {}))


def _engine(engine: str) -> str:
    known = [*engines(), *_ALIASES]
    if not isinstance(engine, str) or engine not in known:
        raise UnknownKeyError(f"engine: no engine {shown(engine)}; {did_you_mean(engine, known)}")
    return _ALIASES.get(engine, engine)


@cache
def _table(name: str) -> dict[str, Any]:
    table = read_fits(catalogs() / "efficiency" / f"{name}.toml")
    return table if "base" not in table else _relaunched(_table(table["base"]), table)


def _relaunched(base: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    """Kernels of other chips, each launched as slowly as whole steps of this one tell."""

    def slower(row: dict[str, Any]) -> dict[str, Any]:
        form = row["form"]
        return row | {"form": form | {"launch": table["launches"] * form["launch"]}}

    kernels = {
        kind: {
            recipe: {engine: slower(row) for engine, row in rows.items()}
            for recipe, rows in base[kind].items()
        }
        for kind in _kinds(base)
    }
    return {**base, **kernels, _OWN: {}, **table}


@cache
def _engines() -> dict[str, Any]:
    return read_toml(catalogs() / "engines.toml")


@cache
def _keys() -> frozenset[str]:
    return frozenset(path.stem for path in (catalogs() / "efficiency").glob("*.toml"))


def _tables(key: str) -> tuple[Known, list[dict[str, Any]]]:
    """Parameters of a chip, of its family, of all chips: the nearest first."""
    own = key in _keys() and key != "unknown"
    family = _table(key).get("family") if own else _engines()["families"].get(key)
    known: Known = "chip" if own else "unknown" if family is None else "family"
    names = dict.fromkeys([*([key] if own else []), *([family] if family else []), "unknown"])
    return known, [_table(name) for name in names]


def _kinds(table: dict[str, Any]) -> list[str]:
    """The kinds of kernel that a table knows."""
    others = ("origin", _OWN, *_COLLECTIVES)
    return [key for key, rows in table.items() if isinstance(rows, dict) and key not in others]


@cache
def _efficiency(key: str, engine: str | None) -> Efficiency:
    known, tables = _tables(key)
    nearest, small = tables[0], _engines()["small"]
    kernels = [
        _kernel(kind, recipe, _chosen(kind, recipe, engine, tables))
        for kind in _kinds(nearest)
        for recipe in nearest[kind]
    ]
    launch = nearest.get("launches", 1.0) * small["form"]["launch"]
    kernels.append(KernelEfficiency(name=SMALL, form=KernelForm(launch=launch)))
    own = nearest.get(_OWN, {}).get(engine)
    collectives = [
        _collective(kind, (own if kind == "all-reduce" else None) or nearest[kind][POOLED])
        for kind in _COLLECTIVES
        if kind in nearest
    ]
    origins = [_origin("kernels", nearest["origin"]), _origin("kernels.small", small["origin"])]
    host = {} if engine is None else _engines()["engines"][engine]
    if host:
        origins.append(_origin("host", _engines()["host"]))
        origins.append(_origin("host.launch_scale", _engines()["launches"]["origin"]))
    bands = _engines()["bands"]["engine" if host else POOLED]
    return Efficiency(
        kernels=tuple(kernels),
        collectives=tuple(collectives),
        host=HostForm(**host["host"], launch_scale=_engines()["launches"]["scale"])
        if host
        else None,
        decode_band=Band(**bands["decode"]),
        prefill_band=Band(**bands["prefill"]),
        engine=engine or "",
        known=known,
        origins=tuple(origins),
    )


def _chosen(
    kind: str, recipe: str, engine: str | None, tables: list[dict[str, Any]]
) -> dict[str, Any]:
    """The engine's own row; else its row on other chips, or that of all engines on this one."""
    here: dict[str, Any] = tables[0][kind][recipe]
    carried = _engines()["carried"]
    engine = _in_place(f"{kind}.{recipe}", engine, tables[0])
    near = tables if kind in carried or f"{kind}.{recipe}" in carried else tables[:1]
    rows = [table.get(kind, {}).get(recipe, {}).get(engine) for table in near]
    return next((row for row in rows if row), here[POOLED])


def _in_place(kernel: str, engine: str | None, table: dict[str, Any]) -> str | None:
    """Whose kernel an engine takes on a chip: its own, or one that stands for it there."""
    instead = _engines()["engines"].get(engine, {}).get("instead", {})
    row = instead.get(table.get("family", table["key"]), {})
    return row["engine"] if kernel in row.get("kernels", ()) else engine


def _kernel(kind: str, recipe: str, row: dict[str, Any]) -> KernelEfficiency:
    form = PrefillForm if kind in _PREFILL else KernelForm
    return KernelEfficiency(name=f"{kind}.{recipe}", form=form(**row["form"]), band=_band(row))


def _collective(kind: str, row: dict[str, Any]) -> CollectiveEfficiency:
    form = AllReduceForm if "second" in row["form"] else LinkEfficiency
    return CollectiveEfficiency(kind=kind, form=form(**row["form"]), band=_band(row))


def _band(row: dict[str, Any]) -> Band:
    return Band(low=row["tested"]["low"], high=row["tested"]["high"])


def _origin(field: str, fields: dict[str, Any]) -> Origin:
    source = catalog_sources()[fields["source"]]
    return Origin(field=field, **fields | {"source": source})
