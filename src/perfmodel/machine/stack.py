"""Several chips as one whose figures are arrays: a formula then answers for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from perfmodel.machine.hardware import GpuSpec, Link, PeakFlops

_SIZED: Final = ("mesh", "bridge")


class Stack:
    """Chips that are alike but for their figures."""

    def __init__(self, chips: Sequence[GpuSpec]) -> None:
        self.chips = tuple(chips)
        self._made: dict[int, GpuSpec] = {}

    def across(self, axes: int) -> GpuSpec:
        """One chip whose figures vary along a first axis, before so many others."""
        if axes not in self._made:
            self._made[axes] = _one(self.chips, axes)
        return self._made[axes]


def alike(gpu: GpuSpec, devices: int) -> tuple[str, int | None, bool] | None:
    """What chips of a stack have in common: how links join so many of them.

    Of a mesh or a bridge, what a group reaches depends on its size; of all others it does not.
    """
    if devices == 1:
        return None
    link = gpu.link_to(devices)
    first = gpu.link or link
    if first.topology in _SIZED:
        return first.topology, first.domain, link.reduces
    return "", None, link.reduces


def _one(chips: tuple[GpuSpec, ...], axes: int) -> GpuSpec:
    first = chips[0]
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
        "link": _link([chip.link or chip.host_link for chip in chips], axes),
        "host_link": _link([chip.host_link for chip in chips], axes),
    }
    return GpuSpec.trusted(**_fields(first) | figures)


def _link(links: Sequence[Link | None], axes: int) -> Link | None:
    """One link of all; None where one has none, for then it is not what joins them."""
    first = links[0]
    if first is None or None in links:
        return None
    figures: dict[str, Any] = {
        name: _figure([getattr(link, name) for link in links], axes)
        for name in ("bandwidth", "latency")
    }
    if first.topology not in _SIZED:
        figures["domain"] = None  # that it joins so many has been asked of each
    return Link.trusted(**_fields(first) | figures)


def _figure(values: Sequence[Any], axes: int) -> Any:
    """One figure of all chips, along a first axis; None where one has none."""
    import numpy as np

    if None in values:
        return None
    return np.array(values, dtype=np.float64).reshape(-1, *[1] * axes)


def _fields(spec: GpuSpec | Link) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).model_fields}
