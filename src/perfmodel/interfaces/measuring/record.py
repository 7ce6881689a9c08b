"""What was measured, as records: the machine, each job's time, the chip that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Self

from perfmodel.base.precision import ComputeFormat
from perfmodel.base.spec import (
    Capacity,
    Count,
    CountOrZero,
    Flag,
    Name,
    Origin,
    Quantity,
    QuantityOrZero,
    Spec,
    quantity,
)
from perfmodel.base.units import si
from perfmodel.interfaces.measuring.arrays import Backend, Processor
from perfmodel.interfaces.measuring.stopwatch import Timing
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import attainable
from perfmodel.work.operation import Operation


class Machine(Spec):
    """What was measured, and with what."""

    name: Name
    """The processor's or the device's own name."""
    device: Processor
    """Where it ran."""
    backend: Backend
    """The library whose arithmetic was timed."""
    version: Name
    """The library's version."""
    blas: Name = ""
    """What multiplies its matrices, where that is known."""
    threads: Count | None = quantity(
        "n_t", "1", "Threads of a matrix product; None: unknown", default=None
    )
    cores: Count = quantity("n_c", "1", "Logical processors that the process may run on")
    cache: Capacity = quantity("C_L", "B", "Last-level cache that the jobs exceed")
    caches: tuple[CountOrZero, ...] = ()
    """Data caches of each level, nearest first, all of a level together; empty: unknown [B]."""
    cache_assumed: Flag = False
    """Whether nothing told the cache, and it was assumed."""
    memory: Capacity | None = quantity("C", "B", "Memory; None: unknown", default=None)
    load: QuantityOrZero | None = quantity(
        "n_r", "1", "Programs that wanted to run in the minute before; None: unknown", default=None
    )

    @property
    def library(self) -> str:
        """The library's name and version."""
        return f"{'NumPy' if self.backend == 'numpy' else 'PyTorch'} {self.version}"

    def __str__(self) -> str:
        blas = f" ({self.blas})" if self.blas else ""
        count = "threads unknown" if self.threads is None else f"{self.threads} threads"
        threads = "1 thread" if self.threads == 1 else count
        return f"{self.name}, {self.library}{blas}, " + (
            threads if self.device == "cpu" else self.device
        )


class Times(Spec):
    """How long something took, in several repeats."""

    name: Name
    """What ran."""
    time: Quantity = quantity("t", "s", "Median of the repeats")
    fastest: Quantity = quantity("t_0", "s", "Shortest of them")
    slowest: Quantity = quantity("t_1", "s", "Longest of them")
    repeats: Count = quantity("n", "1", "Repeats")
    warmed: Flag = True
    """Whether an untimed call came first; else the budget held one call only."""

    @classmethod
    def of(cls, name: str, timing: Timing, **fields: Any) -> Self:
        """The record of a timing."""
        times = timing.times
        return cls(
            name=name,
            time=timing.median,
            fastest=min(times),
            slowest=max(times),
            repeats=len(times),
            warmed=timing.warmed,
            **fields,
        )

    @property
    def spread(self) -> str:
        """The times in words."""
        if self.repeats == 1:
            return f"{si(self.time, 's')}, once" + ("" if self.warmed else ", cold")
        low, high = si(self.fastest, "s"), si(self.slowest, "s")
        return f"{si(self.time, 's')}, median of {self.repeats} from {low} to {high}"


class Timed(Times):
    """A job and how long it took; its FLOPs and bytes are its operation's."""

    operation: Operation
    """What it computes and moves."""
    counts: Name = ""
    """Which bytes count, where there is a choice."""

    @property
    def intensity(self) -> float:
        """FLOPs a byte [FLOP/B]."""
        return self.operation.intensity

    @property
    def rate(self) -> float:
        """Arithmetic that was reached [FLOP/s]."""
        return self.operation.flops / self.time

    @property
    def bandwidth(self) -> float:
        """Counted bytes over the time [B/s]."""
        return self.operation.nbytes / self.time


class Measurement(Spec):
    """The roofs of a machine, and real jobs under them.

    The memory roof is the faster kind of reading, one token through the table or the dot product;
    a compute roof is the matrix product of its format. All are medians.
    """

    machine: Machine
    """The machine."""
    date: Name
    """The day, as YYYY-MM-DD."""
    precision: ComputeFormat
    """What the jobs store and compute in."""
    traffic: tuple[Timed, ...]
    """One token through the table, dot product, copy, triad."""
    products: tuple[Timed, ...]
    """The large matrix product of each format."""
    jobs: tuple[Timed, ...] = ()
    """Tokens through a table, users with their own KV, the addition of two lists."""
    seconds: Quantity = quantity("t_b", "s", "Time that it was given")
    took: Quantity = quantity("t_a", "s", "Time that it took")
    allocated: Capacity = quantity("C_a", "B", "Memory of all arrays")
    notes: tuple[Name, ...] = ()
    """What a reader should know."""

    def __repr__(self) -> str:
        peaks = (f"{si(one.rate, 'FLOP/s')} in {one.operation.compute}" for one in self.products)
        roofs = ", ".join((si(self.reading.bandwidth, "B/s"), *peaks))
        return f"<Measurement of {self.machine}: {roofs}; {len(self.jobs)} jobs>"

    __str__ = __repr__

    @property
    def reading(self) -> Timed:
        """The reading that sets the memory roof."""
        return max(self.traffic[:2], key=lambda one: one.bandwidth)

    @cached_property
    def gpu(self) -> GpuSpec:
        """The chip as measured: ``decode``, ``prefill`` and the rest take it at once."""
        reading, machine = self.reading, self.machine
        told = {"visible_capacity": machine.memory}
        told["last_level_cache"] = None if machine.cache_assumed else machine.cache
        told = {field: value for field, value in told.items() if value is not None}
        origins = [self._origin("memory_bandwidth", reading, reading.operation.nbytes, "B/s")]
        origins += [Origin(field=f, kind="device-reported", date=self.date) for f in told]
        for one in self.products:
            op = one.operation
            origins.append(self._origin(f"peak_flops.{op.compute}", one, op.flops, "FLOP/s"))
        return GpuSpec(
            name=f"{machine.name}, {machine.library}"[:200],
            memory_bandwidth=reading.bandwidth,
            peak_flops={one.operation.compute: one.rate for one in self.products},
            origins=tuple(origins),
            **told,
        )

    def _origin(self, field: str, one: Timed, amount: float, unit: str) -> Origin:
        low, high = si(amount / one.slowest, unit), si(amount / one.fastest, unit)
        note = f"median of {one.repeats}, from {low} to {high}; {self.machine}"
        return Origin(field=field, kind="measured", place=one.name, date=self.date, note=note)

    def roof(self, job: Timed) -> float:
        """The best speed at a job's intensity.

        Parameters
        ----------
        job : Timed
            The job.

        Returns
        -------
        float
            Speed [FLOP/s].
        """
        peak, bandwidth = self.gpu.peak(job.operation.compute), self.gpu.memory_bandwidth
        best: float = attainable(intensity=job.intensity, peak=peak, bandwidth=bandwidth)
        return best

    def share(self, job: Timed) -> float:
        """How much of its roof a job reaches.

        Parameters
        ----------
        job : Timed
            The job.

        Returns
        -------
        float
            Share; above 1 by noise, or where writing beside reading is faster than reading [1].
        """
        return job.rate / self.roof(job)

    def explain(self) -> str:
        """The measurement as text: the machine, the roofs, each job and its share of its roof.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        gpu, machine = self.gpu, self.machine
        assumed = " (assumed)" if machine.cache_assumed else ""
        caches = "".join(f"L{n} {si(size, 'B')}, " for n, size in enumerate(machine.caches[:-1], 1))
        yield f"{machine}; {self.date}"
        yield (
            f"{machine.cores} cores, {caches}last-level cache {si(machine.cache, 'B')}{assumed}; "
            f"arrays of {si(self.allocated, 'B')}; {self.took:.0f} s"
        )
        for one in self.traffic:
            yield f"  {one.name:<24}{one.bandwidth / 1e9:>9.2f} GB/s     {one.spread}"
            yield f"  {'':<24}  {one.counts}"
        for one in self.products:
            yield f"  {one.name:<24}{one.rate / 1e9:>9.1f} GFLOP/s  {one.spread}"
        yield f"memory roof {si(gpu.memory_bandwidth, 'B/s')}: {self.reading.name}"
        for form in gpu.peak_flops.formats:
            peak = gpu.peak(form)
            turn = f"ridge at {peak / gpu.memory_bandwidth:.1f} FLOP/B"
            yield f"compute roof {si(peak, 'FLOP/s')} in {form}; {turn}"
        if self.jobs:
            yield f"  {'operation':<24}{'FLOP/B':>9}{'GFLOP/s':>9}{'roof':>9}{'of roof':>9}"
        for job in self.jobs:
            rates = f"{job.rate / 1e9:>9.2f}{self.roof(job) / 1e9:>9.2f}{self.share(job):>9.0%}"
            yield f"  {job.name:<24}{job.intensity:>9.2f}{rates}  {job.spread}"
        yield from (f"note: {note}" for note in self.notes)

    def to_toml(self) -> str:
        """The chip as the text of a file that ``read_gpu`` and ``--gpu`` read.

        Returns
        -------
        str
            TOML; every value with its unit and its origin.
        """
        lines, figures = [f"name = {_text(self.gpu.name)}"], self.gpu.figures()
        for origin in self.gpu.origins:
            value, unit = figures[origin.field]
            lines += ["", f"[{origin.field}]", f"value = {value!r}", f"unit = {_text(unit)}"]
            told = origin.model_dump(include={"kind", "place", "date", "note"})
            lines += [f"{key} = {_text(text)}" for key, text in told.items() if text]
        return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)  # a basic string of TOML escapes as JSON does
