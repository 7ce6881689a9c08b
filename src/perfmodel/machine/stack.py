"""Several chips as one whose figures are arrays: a formula then answers for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perfmodel.machine.hardware import GpuSpec, Link, PeakFlops


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


def alike(gpu: GpuSpec, devices: int) -> tuple[Any, ...]:
    """What chips of a stack have in common: which figures there are, and how links join so many.

    A peak that one of them lacks, the stack lacks.
    """
    clock = gpu.matrix_clock or gpu.boost_clock
    return gpu.units is None, clock is None, _joined(gpu, devices)


def _joined(gpu: GpuSpec, devices: int) -> tuple[Any, ...] | None:
    if devices == 1:
        return None
    link = gpu.link_to(devices)
    return link is gpu.link, link.domain, link.topology, link.reduces


def _one(chips: tuple[GpuSpec, ...], axes: int) -> GpuSpec:
    first = chips[0]
    clocks = [chip.matrix_clock or chip.boost_clock for chip in chips]
    peaks = [chip.peak_flops for chip in chips]
    figures = {
        "memory_bandwidth": _figure([chip.memory_bandwidth for chip in chips], axes),
        "units": _figure([chip.units for chip in chips], axes),
        "matrix_clock": None,
        "boost_clock": _figure(clocks, axes),
        "peak_flops": PeakFlops.trusted(
            **{
                name: _figure([getattr(peak, name) for peak in peaks], axes)
                for name in PeakFlops.model_fields
            }
        ),
        "link": _link([chip.link for chip in chips], axes),
        "host_link": _link([chip.host_link for chip in chips], axes),
    }
    return GpuSpec.trusted(**_fields(first) | figures)


def _link(links: Sequence[Link | None], axes: int) -> Link | None:
    """One link of all; None where one has none, for then it is not what joins them."""
    if None in links or not links[0]:
        return None
    figures = {
        name: _figure([getattr(link, name) for link in links], axes)
        for name in ("bandwidth", "latency")
    }
    return Link.trusted(**_fields(links[0]) | figures)


def _figure(values: Sequence[Any], axes: int) -> Any:
    """One figure of all chips, along a first axis; None where one has none."""
    import numpy as np

    if None in values:
        return None
    return np.array(values, dtype=np.float64).reshape(-1, *[1] * axes)


def _fields(spec: GpuSpec | Link) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in type(spec).model_fields}
