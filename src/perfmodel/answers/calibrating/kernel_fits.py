"""The form of each kernel that was measured, fitted by itself; all others are the base's."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import perfmodel.answers.calibrating.kinds as kinds
from perfmodel.answers.calibrating.checks import usable
from perfmodel.answers.calibrating.fitting import (
    Array,
    Tested,
    folds,
    held_out,
    loss,
    settled,
    tested,
)
from perfmodel.answers.calibrating.operations import COLLECTIVES, Measured
from perfmodel.answers.calibrating.record import Fit, LeftOut, Parameter
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Spec
from perfmodel.machine.efficiency import (
    IDEAL,
    Band,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
    LinkEfficiency,
)
from perfmodel.machine.forms import AllReduceForm, KernelForm, PrefillForm
from perfmodel.machine.hardware import GpuSpec

ROWS_A_PARAMETER: Final = 4  # of different sizes
FEW_SHAPES: Final = 6  # fewer cannot be held out whole
FEW_ROWS: Final = 16  # fewer make no band of their own
_LAUNCH: Final = 1e-5  # s, of a kernel without a graph
_WORSE: Final = "the base's form: on held-out rows a fit was no better"


def fit_kernels(
    measured: Iterable[Measured], base: Efficiency, gpu: GpuSpec
) -> tuple[Efficiency, list[Fit], list[LeftOut]]:
    """An efficiency with a form of its own for each kernel that has rows enough.

    Raises
    ------
    InvalidValueError
        If no kernel has, or measured times cannot be.
    """
    kernels = {one.name: one for one in base.kernels}
    collectives = {one.kind: one for one in base.collectives}
    fits: list[Fit] = []
    left: list[LeftOut] = []
    short: list[str] = []
    for each in measured:
        keep, unused = usable(each.rows, each.sizes, each.floors, each.time(base), _LAUNCH)
        left += unused
        problem = _problem(each.name, base, gpu)
        have = len({size for size, kept in zip(each.sizes, keep, strict=True) if kept})
        need = ROWS_A_PARAMETER * len(problem.free)
        if have < need:
            short.append(f"{each.name}: expected at least {need} rows of different sizes for its "
                         f"{len(problem.free)} parameters, got {have}")  # fmt: skip
            numbers = tuple(row.number for row, kept in zip(each.rows, keep, strict=True) if kept)
            left.append(LeftOut(short[-1], numbers))
            continue
        fit, form = _fit(each, keep, problem, base)
        fits.append(fit)
        band = _band(fit, _known(each.name, base))
        if each.name in COLLECTIVES:
            one = CollectiveEfficiency(kind=each.name, form=form, band=band)
            collectives[each.name] = one
        else:
            kernels[each.name] = KernelEfficiency(name=each.name, form=form, band=band)
    if not fits:
        raise InvalidValueError(short[0])
    update = {"kernels": tuple(kernels.values()), "collectives": tuple(collectives.values())}
    return base.model_copy(update=update), fits, left


def _fit(each: Measured, keep: Array, problem: kinds.Problem, base: Efficiency) -> tuple[Fit, Any]:
    """What was found of one kernel, and its form."""
    import numpy as np

    seconds = np.array([row.seconds for row in each.rows])[keep]
    before = each.time(base)[keep]
    stand = _base_values(each.name, problem, base)

    def time(parameters: Mapping[str, float]) -> Array:
        return each.time(_only(each.name, problem.made({**stand, **parameters})))[keep]

    parts, on = parted(each.shapes, each.sizes, keep)
    found = settled(time, problem.free, stand, seconds)
    free = {name: problem.free[name] for name in found}
    after = held_out(time, free, seconds, parts)
    better = loss(after, seconds) < loss(before, seconds)
    values = {name: rounded(value) for name, value in found.items()} if better else {}
    fit = Fit(
        each.name,
        tuple(
            Parameter(name, values.get(name, stand[name]), stand[name], name in values)
            for name in problem.free
        ),
        tested(after if better else before, seconds, few=True),
        tested(before, seconds, few=True),
        on,
        "" if better else _WORSE,
    )
    known = _known(each.name, base)
    if not better:
        return fit, _stand_in(each.name, base) if known is None else known.form
    every = {**dict(problem.fixed), **stand, **values}
    return fit, problem.form(**{name: value for name, value in every.items() if value is not None})


def parted(shapes: Sequence[str], sizes: Sequence[str], keep: Array) -> tuple[Array, str]:
    """Which rows are held out together, and what they have in common."""
    few = len({shape for shape, kept in zip(shapes, keep, strict=True) if kept}) < FEW_SHAPES
    names = sizes if few else shapes
    used = [name for name, kept in zip(names, keep, strict=True) if kept]
    return folds(used), "sizes" if few else "shapes"


def rounded(value: float, digits: int = 4) -> float:
    """A number as a file shows it."""
    return float(f"{value:.{digits}g}")


# -- the base --------------------------------------------------------------------------------------


def _known(name: str, base: Efficiency) -> KernelEfficiency | CollectiveEfficiency | None:
    return base.collective(name) if name in COLLECTIVES else base.kernel(name)


def _stand_in(name: str, base: Efficiency) -> Any:
    """The form that does as the base does where it has none."""
    if name in COLLECTIVES:
        return base.link or LinkEfficiency()
    return KernelForm(
        compute=base.compute, memory=base.memory, launch=base.call_overhead, exponent=base.exponent
    )


def _problem(name: str, base: Efficiency, gpu: GpuSpec) -> kinds.Problem:
    """What is looked for: of an engine's own all-reduce, the form that it has."""
    kind, _, recipe = name.partition(".")
    known = _known(name, base)
    if known is not None and isinstance(known.form, AllReduceForm):
        return kinds.problem("own-all-reduce")
    found = kinds.problem(kind, recipe)
    if found.form is not PrefillForm:
        return found
    limit = kinds.per_clock(gpu)
    return found._replace(fixed={**found.fixed, "per_clock": None if math.isinf(limit) else limit})


def _base_values(name: str, problem: kinds.Problem, base: Efficiency) -> dict[str, float]:
    """What each parameter is where the rows do not tell it."""
    known = _known(name, base)
    form: Any = _stand_in(name, base) if known is None else known.form

    def value(parameter: str) -> float:
        found = getattr(form, parameter, None)
        if found is None and parameter == "activation":
            found = form.memory  # activations move as weights do
        default = problem.form.model_fields[parameter].default
        return float(default if found is None else found)

    return {parameter: value(parameter) for parameter in problem.free}


_IDEAL: Final = {name: getattr(IDEAL, name) for name in Efficiency.model_fields}


def _only(name: str, form: Spec) -> Efficiency:
    """An efficiency that knows one form; unchecked, for a fit makes many."""
    if name in COLLECTIVES:
        one = CollectiveEfficiency.trusted(kind=name, form=form, band=None)
        return Efficiency.trusted(**_IDEAL | {"collectives": (one,)})
    kernel = KernelEfficiency.trusted(name=name, form=form, band=None)
    return Efficiency.trusted(**_IDEAL | {"kernels": (kernel,)})


def _band(fit: Fit, known: KernelEfficiency | CollectiveEfficiency | None) -> Band:
    """The rows' own band; of few rows, with the base's."""
    return band_of(fit.after, () if known is None or known.band is None else (known.band,))


def band_of(found: Tested, known: Sequence[Band]) -> Band:
    """A band from held-out rows; from few of them, as wide as any that is known."""
    low, high = found.low, found.high
    if found.rows < FEW_ROWS:
        low = min([low, *(band.low for band in known)])
        high = max([high, *(band.high for band in known)])
    return Band(low=rounded(low, 3), high=rounded(high, 3))
