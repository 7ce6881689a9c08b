"""The outer axes of a sweep: which models, chips, precisions and divisions are combined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Final

from perfmodel.answers._asked import check_gpu, placed
from perfmodel.base.errors import InvalidValueError, PerfModelError, UnknownKeyError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Spec, checked_kind, checked_list
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

MAX_SETTINGS: Final = 100_000
AXES: Final = ("model", "gpu", "precision", "parallelism", "efficiency", "engine")


@dataclass(frozen=True)
class Setting:
    """One combination of the outer axes: all that a step needs but its sequences."""

    model: ModelShape
    """The model."""
    gpu: GpuSpec
    """The chip."""
    cluster: Cluster | None
    """How chips are joined; None: over the links of one node."""
    parallelism: Parallelism
    """How they share the work."""
    precision: Precision
    """What is stored, moved and computed in."""
    efficiency: Efficiency
    """How far below the roofs."""
    names: Mapping[str, str] = field(compare=False)
    """What each axis calls it in the table."""


@dataclass(frozen=True)
class Skipped:
    """A combination that cannot be, and why."""

    model: str
    """Name of the model."""
    gpu: str
    """Name of the chip, or of the cluster."""
    precision: str
    """Name of the precision, as far as it was given."""
    parallelism: str
    """How devices share the work."""
    engine: str
    """Whose kernels and host were meant, or the efficiency."""
    reason: str
    """What stands against it, in words."""

    def __str__(self) -> str:
        return f"{self.model}, {self.gpu}, {self.precision}, {self.parallelism}: {self.reason}"


class Asked:
    """The outer axes as they were given: one value each, or several."""

    def __init__(self, **given: Any) -> None:
        self.swept = tuple(name for name, value in given.items() if _is_several(value))
        """The axes with several values, each a column of the table."""
        self.values = {
            name: checked_list(name, value) if name in self.swept else [value]
            for name, value in given.items()
        }
        self._expected: dict[tuple[int, ...], Efficiency] = {}
        self._check()

    def __len__(self) -> int:
        return prod(map(len, self.values.values()))

    def __iter__(self) -> Iterator[dict[str, int]]:
        """Places of the values of each combination, the first axis slowest."""
        for places in product(*(range(len(values)) for values in self.values.values())):
            yield dict(zip(self.values, places, strict=True))

    def setting(self, at: Mapping[str, int]) -> Setting:
        """The combination of the values at these places.

        Raises
        ------
        PerfModelError
            If it cannot be.
        """
        model, gpu, precision, ways, way, engine = (self.values[name][at[name]] for name in AXES)
        place = placed(model, gpu, ways)
        resolved = model.resolve_precision(precision)
        key = (at["gpu"], at["efficiency"], at["engine"])
        if key not in self._expected:
            self._expected[key] = self._resolved(way, place.gpu, engine)
        return Setting(
            model=model,
            gpu=place.gpu,
            cluster=place.cluster,
            parallelism=place.parallelism,
            precision=resolved,
            efficiency=self._expected[key],
            names=self.names(at) | {"precision": resolved.name},
        )

    def _resolved(self, way: EfficiencyLike, gpu: GpuSpec, engine: str | None) -> Efficiency:
        """The efficiency meant; beside a list of engines, it is that of None among them."""
        beside = engine is not None and None in self.values["engine"]
        return resolve_efficiency("auto" if beside else way, gpu, engine)

    def names(self, at: Mapping[str, int]) -> dict[str, str]:
        """What each axis calls the values at these places."""
        model, gpu, precision, ways, way, engine = (self.values[name][at[name]] for name in AXES)
        own = model.resolve_precision() if precision is None else precision
        expected = _efficiency_name(way)
        return {
            "model": model.name,
            "gpu": _gpu_name(gpu),
            "precision": precision if isinstance(precision, str) else own.name,
            "parallelism": _division_name(ways),
            "efficiency": expected if engine is None else "auto",
            "engine": engine or expected,
        }

    def skipped(self, at: Mapping[str, int], error: PerfModelError) -> Skipped:
        """The record of a combination that cannot be."""
        names = self.names(at)
        told = {
            name: names[name] for name in ("model", "gpu", "precision", "parallelism", "engine")
        }
        return Skipped(**told, reason=str(error))

    def _check(self) -> None:
        """What no combination could have: things of another kind, names that nobody knows."""
        values = self.values
        if {"engine", "efficiency"} <= set(self.swept):
            raise InvalidValueError("engine, efficiency: expected one of them as a list, got both")
        if len(self) > MAX_SETTINGS:
            raise InvalidValueError(
                f"{', '.join(self.swept)}: expected at most {MAX_SETTINGS:,} combinations, "
                f"got {len(self):,}"
            )
        for model in values["model"]:
            checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
        for gpu in values["gpu"]:
            check_gpu(gpu.gpu if isinstance(gpu, Cluster) else gpu)
        for ways in values["parallelism"]:
            checked_kind("parallelism", ways, Parallelism, "pm.Parallelism(tensor=8)")
        first = values["gpu"][0]
        chip = first.gpu if isinstance(first, Cluster) else first
        for way, engine in product(values["efficiency"], values["engine"]):
            self._resolved(way, chip, engine)
        for precision in values["precision"]:
            if not isinstance(precision, str | Precision | None):
                values["model"][0].resolve_precision(precision)


def settings(asked: Asked, check: Any, skip: bool) -> tuple[list[Setting], list[Skipped]]:
    """Every combination that can be, and those that cannot.

    Parameters
    ----------
    asked : Asked
        The outer axes.
    check : callable
        Raises a ``PerfModelError`` for a setting that cannot be.
    skip : bool
        Leave out what cannot be, and say why [flag].

    Raises
    ------
    PerfModelError
        If a combination cannot be and none is to be left out, or none is left; or if two
        have the same names, so that their rows could not be told apart.
    """
    found: list[Setting] = []
    skipped: list[Skipped] = []
    first_of: dict[tuple[str, ...], tuple[Mapping[str, int], Setting]] = {}
    for at in asked:
        try:
            setting = asked.setting(at)
            check(setting)
        except UnknownKeyError:
            raise  # a slip, not a combination that cannot be
        except PerfModelError as error:
            record = asked.skipped(at, error)
            last_hope = len(skipped) + 1 == len(asked)
            if skip and not last_hope:
                skipped.append(record)
                continue
            if len(asked) == 1:
                raise
            raise type(error)(str(record)) from None
        names = tuple(setting.names[name] for name in AXES)
        before, same = first_of.setdefault(names, (at, setting))
        if before is not at:
            axes = [name for name in AXES if at[name] != before[name]]
            raise _twice(axes, [setting.names[name] for name in axes], differ=same != setting)
        found.append(setting)
    return found, skipped


def _twice(axes: list[str], names: list[str], differ: bool) -> InvalidValueError:
    """The error of two combinations that the table could not tell apart."""
    told = f"got {', '.join(names)} twice"
    if not differ:
        return InvalidValueError(f"{', '.join(axes)}: expected each once, {told}")
    return InvalidValueError(
        f"{', '.join(axes)}: expected different names of what differs, {told}; "
        "model_copy(update={'name': ...}) gives another"
    )


def _is_several(value: Any) -> bool:
    """Whether a value is a list of them: a record or a text is one, whatever it can iterate."""
    return isinstance(value, Iterable) and not isinstance(value, Spec | str | bytes | Mapping)


def _gpu_name(gpu: GpuSpec | Cluster) -> str:
    if isinstance(gpu, GpuSpec):
        return gpu.name
    return f"{gpu.nodes} x {gpu.per_node} {gpu.gpu.name}"


def _division_name(ways: Parallelism) -> str:
    """All that was chosen: two divisions over as many devices may differ in how they talk."""
    usual = Parallelism()
    told = ("micro_batches", "stages", "all_reduce", "communication")
    how = [
        f"{name.replace('_', ' ')} {getattr(ways, name)}"
        for name in told
        if getattr(ways, name) != getattr(usual, name)
    ]
    return ", ".join([str(ways), *how])


def _efficiency_name(way: Efficiency | str) -> str:
    if isinstance(way, str):
        return way
    if way == IDEAL:
        return "ideal"
    if way.engine:
        return way.engine
    plain = ("compute", "memory", "call_overhead", "step_overhead", "exponent")
    told = [f"{name} {getattr(way, name):g}" for name in plain]
    usual = [f"{name} {getattr(IDEAL, name):g}" for name in plain]
    return ", ".join(one for one, other in zip(told, usual, strict=True) if one != other) or "given"
