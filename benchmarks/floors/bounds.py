"""The least time of a run: its prefill, its decode steps, or its share of an endless batch.

Where a row says how its devices share the work, and the library can divide the model so, the floor
is that of the division. Else all devices count as one with their roofs: no split is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision

SINGLE = pm.Parallelism()
PIECES = 16  # of an output, each at its own shortest context
MANY = 2**20  # sequences that share the weights, so that reading them weighs nothing


class Run(NamedTuple):
    """What was run, in numbers."""

    shape: pm.ModelShape
    gpu: pm.GpuSpec
    stored: Precision
    devices: float
    ways: pm.Parallelism | None  # how they share the work; None: not stated, or one device
    at_once: bool  # whether the batch starts together; else requests come and go
    batch: int | None  # or the most that run together; None: not stated
    prompt: int
    output: int | None

    @property
    def working_set(self) -> float:
        """What would have to stay in the caches for a step to read nothing [B]."""
        return float(self.shape.weight_bytes(self.stored))

    @property
    def cache(self) -> float:
        """Last-level caches of all devices [B]."""
        return (self.gpu.last_level_cache or 0) * self.devices


def whole(run: Run, batch: int) -> float:
    """Prefill of a batch, then its decode steps [s]."""
    return prefilled(run, batch) + decoded(run, batch, run.output or 1)


def prefilled(run: Run, batch: int) -> float:
    """The pass over the prompts of a batch [s]."""
    return _placed(_prefill, run, batch, max(run.prompt, 1))


def decoded(run: Run, batch: int, output: int) -> float:
    """The decode steps after the first token [s]."""
    return _placed(_decode, run, batch, run.prompt, output - 1)


def flowing(run: Run, output: int) -> float:
    """Prefill and decode steps of one request, when any number shares the weights [s]."""
    return _placed(_flow, run, max(run.prompt, 1), output - 1)


def _placed(floor: Callable[..., float], run: Run, *sizes: int) -> float:
    """A floor on the devices as they share the work, or as one."""
    together = floor(run.shape, joined(run.gpu, run.devices), run.stored, SINGLE, *sizes)
    if run.ways is None:
        return together
    try:
        return max(together, floor(run.shape, run.gpu, run.stored, run.ways, *sizes))
    except InvalidValueError:  # the library cannot divide the model so
        return together


@cache
def joined(gpu: pm.GpuSpec, devices: float) -> pm.GpuSpec:
    """Devices as one."""
    if devices == 1:
        return gpu
    return pm.GpuSpec(
        name=f"{devices} x {gpu.name}",
        memory_bandwidth=gpu.memory_bandwidth * devices,
        peak_flops={name: gpu.peak(name) * devices for name in gpu.peak_flops.formats},
    )


@cache
def _prefill(
    shape: pm.ModelShape,
    gpu: pm.GpuSpec,
    stored: Precision,
    ways: pm.Parallelism,
    batch: int,
    prompt: int,
) -> float:
    found = pm.prefill(shape, gpu, prompt=prompt, batch=batch, precision=stored, parallelism=ways)
    return found.floor


@cache
def _decode(
    shape: pm.ModelShape,
    gpu: pm.GpuSpec,
    stored: Precision,
    ways: pm.Parallelism,
    batch: int,
    prompt: int,
    steps: int,
) -> float:
    pieces = _pieces(prompt + 1, steps)
    if not pieces:
        return 0.0
    contexts = [context for context, _ in pieces]
    found = pm.sweep(shape, gpu, batch=batch, context=contexts, precision=stored, parallelism=ways)
    return float(sum(n * floor for (_, n), floor in zip(pieces, found.floor, strict=True)))


@cache
def _flow(
    shape: pm.ModelShape,
    gpu: pm.GpuSpec,
    stored: Precision,
    ways: pm.Parallelism,
    prompt: int,
    steps: int,
) -> float:
    groups = [pm.Group(count=MANY, new=prompt)]
    for context, n in _pieces(prompt + 1, steps):
        groups.append(pm.Group(count=MANY * n, new=1, past=context - 1))
    step = pm.Step(groups=tuple(groups))
    return pm.estimate(shape, gpu, step, precision=stored, parallelism=ways).floor / MANY


def _pieces(first: int, steps: int) -> list[tuple[int, int]]:
    """Decode steps as (context, how many): those of a piece all at its shortest context."""
    starts = [first + steps * piece // PIECES for piece in range(PIECES + 1)]
    return [(start, end - start) for start, end in pairwise(starts) if end > start]
