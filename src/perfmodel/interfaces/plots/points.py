"""Jobs as points of the roofline chart: of an estimate, or measured."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from perfmodel.answers._device import OperationTime
from perfmodel.answers.estimate import Estimate
from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import ComputeFormat
from perfmodel.base.spec import checked_list, checked_positive
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import compute_time, memory_time, roofline_time
from perfmodel.work.operation import Operation

_NEAR: Final = 1.5  # ratio of intensities below which operations of a kind are one point


class Point(NamedTuple):
    """A job on the roofline chart. Whatever has these four fields can be drawn as one."""

    name: str
    """What to call it."""
    intensity: float
    """FLOPs for each byte that it moves [FLOP/B]."""
    rate: float
    """Speed that it reaches [FLOP/s]."""
    time: float
    """How long it takes, all calls together [s]."""


Jobs: TypeAlias = Estimate | Iterable[Estimate | Operation | Point]


class Series(NamedTuple):
    """Points that belong together."""

    name: str
    points: list[Point]
    formats: set[ComputeFormat]  # that they compute in, where that is known


def series_of(gpu: GpuSpec, jobs: Jobs) -> list[Series]:
    """The points of each estimate, of the operations and of the measurements.

    Raises
    ------
    InvalidValueError
        If one is none of these, or an estimate is that of another chip.
    """
    if isinstance(jobs, tuple) and not jobs:
        return []
    found: list[Series] = []
    loose: list[OperationTime] = []
    measured: list[Point] = []
    for job in checked_list("operations", jobs, Estimate):
        if isinstance(job, Estimate):
            if job.gpu != gpu:
                raise InvalidValueError(
                    f"operations: expected estimates of {gpu.name}, got one of {job.gpu.name}"
                )
            group = job.step.groups[0]
            told = f"{job.phase}, {job.precision.name}, {group.count:,} x {group.context:,} tokens"
            found.append(_series(told, job.rows()))
        elif isinstance(job, Operation):
            loose.append(_at_its_roof(job, gpu))
        else:
            measured.append(_measured(job))
    if loose:
        found.append(_series("at their roofs", loose))
    if measured:
        found.append(Series("measured", measured, set()))
    return found


def _at_its_roof(operation: Operation, gpu: GpuSpec) -> OperationTime:
    calls = operation.calls
    compute = calls * compute_time(flops=operation.flops, peak=gpu.peak(operation.compute))
    memory = calls * memory_time(nbytes=operation.nbytes, bandwidth=gpu.memory_bandwidth)
    return OperationTime(operation, compute, memory, roofline_time(compute=compute, memory=memory))


def _measured(job: Any) -> Point:
    try:
        point = Point(job.name, job.intensity, job.rate, job.time)
    except Exception:  # whatever it is
        expected = "operations: expected estimates, operations, or points as of pm.plots.Point"
        raise InvalidValueError(f"{expected}, got {shown(job)}") from None
    if not isinstance(point.name, str):
        raise InvalidValueError(f"name: expected a text, got {shown(point.name)}")
    named = zip(Point._fields[1:], point[1:], strict=True)
    return Point(point.name, *(checked_positive(name, value) for name, value in named))


def _series(name: str, rows: list[OperationTime]) -> Series:
    # What computes nothing, as a lookup, has no place on a log axis.
    working = [row for row in rows if row.flops]
    formats = {row.operation.compute for row in working}
    return Series(name, [_together(rows) for rows in _alike(working)], formats)


def _alike(rows: list[OperationTime]) -> list[list[OperationTime]]:
    """Rows of one kind and format, and of nearly one intensity."""
    found: list[list[OperationTime]] = []
    for row in sorted(rows, key=lambda row: (*_kind(row), row.operation.intensity)):
        first = found[-1][0] if found else row
        near = row.operation.intensity <= _NEAR * first.operation.intensity
        if found and near and _kind(row) == _kind(first):
            found[-1].append(row)
        else:
            found.append([row])
    return found


def _kind(row: OperationTime) -> tuple[str, str]:
    return row.operation.kind, row.operation.compute


def _together(rows: list[OperationTime]) -> Point:
    time = sum(row.time for row in rows)
    flops, moved = sum(row.flops for row in rows), sum(row.bytes for row in rows)
    longest = sorted(rows, key=lambda row: -row.time)
    name = listed(row.operation.name for row in longest)
    return Point(name, flops / moved, flops / time, time)


def listed(names: Iterable[str]) -> str:
    """The first two of several names, and how many more there are."""
    first, more = (every := list(dict.fromkeys(names)))[:2], len(every) - 2
    return ", ".join(first) + (f" and {more} more" if more > 0 else "")
