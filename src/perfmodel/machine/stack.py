"""Chips as one whose figures are arrays: a formula then answers for all of them.

So are their efficiencies, where their kernels have the same forms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from perfmodel.base._num import is_plain
from perfmodel.base.spec import Spec
from perfmodel.machine.efficiency import (
    NEAREST,
    CollectiveEfficiency,
    Efficiency,
    KernelEfficiency,
)
from perfmodel.machine.hardware import GpuSpec, Link, PeakFlops

# By these formulas branch: of the first it must be the same, of the second whether it is 0.
_SAME: Final = "exponent"
_OR_NONE: Final = "tile"


class _Links(Link):
    """Links of several chips."""

    links: tuple[Link, ...]
    axes: int

    def among(self, devices: int) -> Any:
        """Bandwidth of each, towards the others of such a group [B/s]."""
        return _figure([link.among(devices) for link in self.links], self.axes)


class _Chips(GpuSpec):
    """Several chips."""

    chips: tuple[GpuSpec, ...]
    axes: int

    def link_to(self, devices: int) -> Any:
        """What so many devices of each reach each other over."""
        return _links([chip.link_to(devices) for chip in self.chips], self.axes)


class _Kernels(Efficiency):
    """How far several chips stay below their roofs: forms are stacked as they are asked for."""

    each: tuple[Efficiency, ...]
    at: tuple[int, ...]
    axes: int

    def kernel(self, name: str) -> Any:
        """What is known of a kernel, of each."""
        return self._of([one.kernel(name) for one in self.each], name)

    def collective(self, kind: str) -> Any:
        """What is known of a collective, of each."""
        return self._of([one.collective(kind) for one in self.each], kind)

    def _of(self, known: list[Any], name: str) -> Any:
        made = self._made.get(name, self)
        if made is self:
            made = None if None in known else _stacked(known, self.at, self.axes)
            self._made[name] = made
        return made

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}


class Stack:
    """Chips that are alike but for their figures, and how far each stays below its roofs."""

    def __init__(self, chips: Sequence[GpuSpec], efficiencies: Sequence[Efficiency]) -> None:
        self.chips, self.efficiencies = tuple(chips), tuple(efficiencies)
        self._made: dict[int, tuple[GpuSpec, Efficiency]] = {}

    @property
    def without_graphs(self) -> Stack:
        """The same where no step is replayed."""
        made: dict[int, Efficiency] = {}
        for one in self.efficiencies:
            if one.host is not None and id(one) not in made:
                made[id(one)] = one.model_copy(update={"graphs": False})
        if not made:
            return self
        return Stack(self.chips, [made.get(id(one), one) for one in self.efficiencies])

    def across(self, axes: int) -> tuple[GpuSpec, Efficiency]:
        """One chip whose figures vary along a first axis, before so many others."""
        if axes not in self._made:
            self._made[axes] = _chips(self.chips, axes), _efficiency(self.efficiencies, axes)
        return self._made[axes]


def alike(efficiencies: Sequence[Efficiency]) -> list[tuple[Efficiency, str]]:
    """Each efficiency, equal ones as one, and what those have in common that can be stacked.

    That are the forms of all of their kernels, be they those of the nearest that is known.
    """
    same: dict[Efficiency, Efficiency] = {}
    found = [same.setdefault(one, one) for one in efficiencies]
    names = {kernel.name for one in same for kernel in one.kernels}
    kinds = {name.partition(".")[0] for name in names if "." in name}
    names |= {f"{kind}.{recipe}" for kind in kinds for recipe in NEAREST}
    collectives = {known.kind for one in same for known in one.collectives}
    forms = {
        id(one): repr((
            [_form(one.kernel(name)) for name in sorted(names)],
            [_form(one.collective(kind)) for kind in sorted(collectives)],
            _form(one.link), one.exponent, one.host is None,
        ))
        for one in same
    }  # fmt: skip
    return [(one, forms[id(one)]) for one in found]


# -- chips -----------------------------------------------------------------------------------------


def _chips(chips: tuple[GpuSpec, ...], axes: int) -> GpuSpec:
    peaks = [chip.peak_flops for chip in chips]
    figures = {
        "memory_bandwidth": _figure([chip.memory_bandwidth for chip in chips], axes),
        # Where a vendor names none, their number, or their clock, limits nothing.
        "units": _figure([chip.units or math.inf for chip in chips], axes),
        "matrix_clock": None,
        "boost_clock": _figure(
            [chip.matrix_clock or chip.boost_clock or math.inf for chip in chips], axes
        ),
        # A peak that one of them lacks, the stack lacks.
        "peak_flops": PeakFlops.trusted(
            **{
                name: _figure([getattr(peak, name) for peak in peaks], axes)
                for name in PeakFlops.model_fields
            }
        ),
        "link": _links([chip.link or chip.host_link for chip in chips], axes),
        "host_link": None,
    }
    return _Chips.trusted(**_fields(chips[0]) | figures, chips=chips, axes=axes)


def _links(links: Sequence[Link | None], axes: int) -> Any:
    """One link of all; None where one has none."""
    first, known = links[0], [link for link in links if link is not None]
    if first is None or len(known) < len(links):
        return None
    figures: dict[str, Any] = {
        name: _figure([getattr(link, name) for link in known], axes)
        for name in ("bandwidth", "latency")
    }
    figures["reduces"] = all(link.reduces for link in known)
    return _Links.trusted(**_fields(first) | figures, links=tuple(known), axes=axes)


# -- efficiencies ----------------------------------------------------------------------------------


def _efficiency(every: tuple[Efficiency, ...], axes: int) -> Efficiency:
    each = tuple({id(one): one for one in every}.values())
    if len(each) == 1:
        return each[0]
    places = {id(one): i for i, one in enumerate(each)}
    at = tuple(places[id(one)] for one in every)
    plain = {
        name: _stacked([getattr(one, name) for one in each], at, axes)
        for name in (
            "compute",
            "memory",
            "call_overhead",
            "step_overhead",
            "block_overhead",
            "link",
        )
    }
    plain["host"] = _stacked([one.host for one in each], at, axes)
    return _Kernels.trusted(**_fields(each[0]) | plain, each=each, at=at, axes=axes)


def _form(value: Any, name: str = "") -> Any:
    """What it is but for its figures; of some figures it matters whether they are 0."""
    if isinstance(value, KernelEfficiency | CollectiveEfficiency):
        return _form(value.form)
    if isinstance(value, Spec):
        return type(value).__name__, [_form(part, n) for n, part in _fields(value).items()]
    if is_plain(value) and name != _SAME:
        return name != _OR_NONE or value > 0
    return value


def _stacked(values: Sequence[Any], at: Sequence[int], axes: int) -> Any:
    """Values of one form as one, whose figures are arrays: the value of each place."""
    import numpy as np

    first = values[0]
    if isinstance(first, Spec):
        parts = {name: [getattr(value, name) for value in values] for name in _fields(first)}
        parts.pop("band", None)
        made = {name: _stacked(part, at, axes) for name, part in parts.items()}
        return type(first).trusted(**_fields(first) | made)
    if is_plain(first) and any(value != first for value in values):
        return np.array(values)[np.array(at)].reshape(-1, *[1] * axes)
    return first


def _figure(values: Sequence[Any], axes: int) -> Any:
    """One figure of all chips, along a first axis; None where one has none."""
    import numpy as np

    if None in values:
        return None
    return np.array(values, dtype=np.float64).reshape(-1, *[1] * axes)


def _fields(spec: Spec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).model_fields}
