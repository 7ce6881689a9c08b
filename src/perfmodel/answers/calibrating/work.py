"""Measured work as arrays: all calls of a kernel in all rows, timed at once by an efficiency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perfmodel.answers.calibrating.fitting import Array
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import compute_time, memory_time, roofline_time
from perfmodel.work.operation import Operation


class Calls(NamedTuple):
    """All calls of one kernel: in which row, how many, and what ``kernel_time`` reads of each."""

    name: str
    row: Array
    times: Array
    arguments: dict[str, Array]


def gathered(works: Sequence[Iterable[Operation]], gpu: GpuSpec) -> tuple[Calls, ...]:
    """The operations of many rows, by kernel."""
    import numpy as np

    found: dict[str, list[tuple[int, float, dict[str, float]]]] = {}
    for row, work in enumerate(works):
        for op in work:
            one = found.setdefault(op.kernel.name, [])
            one.append((row, op.calls, _arguments(op, gpu)))
    return tuple(
        Calls(
            name,
            np.array([row for row, _, _ in calls]),
            np.array([times for _, times, _ in calls], float),
            {key: np.array([call[key] for _, _, call in calls], float) for key in calls[0][2]},
        )
        for name, calls in found.items()
    )


def _arguments(op: Operation, gpu: GpuSpec) -> dict[str, float]:
    bandwidth = gpu.memory_bandwidth
    return {
        "compute": compute_time(flops=op.flops, peak=gpu.peak(op.compute)),
        "memory": memory_time(nbytes=op.nbytes, bandwidth=bandwidth),
        "activations": memory_time(nbytes=op.activation_bytes, bandwidth=bandwidth),
        **op.sizes._asdict(),
    }


def kernel_times(calls: Iterable[Calls], efficiency: Efficiency, gpu: GpuSpec, rows: int) -> Array:
    """Time of all kernels of each row, one after another [s]."""
    import numpy as np

    total = np.zeros(rows)
    for one in calls:
        each = efficiency.kernel_time(one.name, gpu, **one.arguments)
        total += np.bincount(one.row, one.times * each, rows)
    return total


def floor(work: Iterable[Operation], gpu: GpuSpec) -> float:
    """What no honest cold run of lone kernels can beat: compulsory work, overlapped [s]."""
    compute, nbytes = 0.0, 0.0
    for op in work:
        compute += op.calls * compute_time(flops=op.flops, peak=gpu.peak(op.compute))
        nbytes += op.calls * (op.least_weight_bytes + op.kv_bytes)
    memory = memory_time(nbytes=nbytes, bandwidth=gpu.memory_bandwidth)
    return float(roofline_time(compute=compute, memory=memory))
