"""Measure this machine: its memory roof, its compute roofs, and real jobs under them."""

from __future__ import annotations

from datetime import date
from math import isqrt
from typing import Final

from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import format_named
from perfmodel.base.spec import checked_choice, checked_count, checked_flag, checked_positive
from perfmodel.base.units import si
from perfmodel.interfaces.measuring import host
from perfmodel.interfaces.measuring.arrays import Arrays, Backend, Processor, arrays_of
from perfmodel.interfaces.measuring.jobs import Bench, Job, product_of
from perfmodel.interfaces.measuring.record import Machine, Measurement, Timed
from perfmodel.interfaces.measuring.sizing import SIDE, Sizes, sized
from perfmodel.interfaces.measuring.stopwatch import REPEATS, Call, Stopwatch, Tell, whom

_MOST_SIDE: Final = 16_384  # of the product that shows how fast arithmetic gets
_BUSY: Final = 0.5  # programs beside this one, from which times are worth a warning


def measure(
    *,
    seconds: float = 60.0,
    memory: float | None = None,
    backend: Backend = "numpy",
    device: Processor = "cpu",
    threads: int | None = None,
    precision: str = "fp32",
    jobs: bool = True,
    progress: Tell | None = None,
) -> Measurement:
    """Measure the two roofs of this machine, and how near to them real jobs come.

    Parameters
    ----------
    seconds : float
        Time to take; each job runs at least once, whatever that takes [s].
    memory : float or None
        Memory for all arrays; None: half of what is free. Little of it makes the jobs smaller [B].
    backend : {"numpy", "torch"}
        The library whose arithmetic is timed.
    device : {"cpu", "cuda", "mps"}
        Where it runs; the last two need PyTorch.
    threads : int or None
        Threads of its products; None: as many as it takes by itself [1].
    precision : {"fp32", "bf16", "fp16"}
        What the jobs store and compute in; NumPy computes in fp32 alone.
    jobs : bool
        Whether to time the real jobs too, not the roofs alone [flag].
    progress : callable or None
        Told the share of the time that is used, and the name of what runs.

    Returns
    -------
    Measurement
        The jobs with their times and shares; ``gpu`` is the chip that follows.

    Raises
    ------
    InvalidValueError
        If an argument is not what it should be, or the device is not there.
    DoesNotFitError
        If the memory does not hold twice the last-level cache: nothing would be read from memory.
    MissingExtraError
        If PyTorch is not installed, or threadpoolctl where threads are given.

    Notes
    -----
    The table is four times the last-level cache where memory allows. Calls run in rounds: all of
    them once to warm up, then up to seven times. Medians count.

    Examples
    --------
    >>> found = measure(seconds=30)  # doctest: +SKIP
    >>> print(found.explain())  # doctest: +SKIP
    """
    seconds = checked_positive("seconds", seconds)
    checked_flag("jobs", jobs)
    tell = whom("progress", progress)
    if threads is not None:
        threads, most = checked_count("threads", threads), host.cores()
        if threads > most:
            raise InvalidValueError(f"threads: expected at most the {most} cores, got {threads}")
    arrays = arrays_of(backend, device, threads)
    checked_choice("precision", precision, arrays.formats)
    load, cache = host.load(), arrays.cache or host.ASSUMED_CACHE
    sizes = sized(
        cache=cache,
        memory=memory_for(arrays, memory),
        width=format_named(precision).bits // 8,
        least=arrays.least,
        formats=len(arrays.formats),
    )
    with arrays.limited() as running:
        watch = Stopwatch.started(seconds, tell)
        bench = Bench.laid_out(arrays, precision, sizes)
        products = [_largest_product(arrays, form, sizes, watch) for form in arrays.formats]
        parts = [list(bench.traffic()), products, list(bench.real()) if jobs else []]
        every = [job for part in parts for job in part]
        timings = iter(watch.rounds([(job.name, _done(arrays, job)) for job in every]))
    traffic, products_timed, jobs_timed = (
        tuple(
            Timed.of(job.name, next(timings), operation=job.operation, counts=job.counts)
            for job in part
        )
        for part in parts
    )
    machine = Machine(
        name=arrays.name,
        device=device,
        backend=backend,
        version=arrays.version,
        blas=arrays.blas,
        threads=running,
        cores=host.cores(),
        cache=cache,
        caches=host.caches() if device == "cpu" else (),
        cache_assumed=not arrays.cache,
        memory=arrays.memory,
        load=load,
    )
    found = Measurement(
        machine=machine,
        date=date.today().isoformat(),
        precision=precision,
        traffic=traffic,
        products=products_timed,
        jobs=jobs_timed,
        seconds=seconds,
        took=watch.used,
        allocated=sizes.nbytes,
    )
    return found.model_copy(update={"notes": (sizes.note,) * bool(sizes.note) + _notes(found)})


def memory_for(arrays: Arrays, memory: float | None) -> float:
    """What the arrays may take: as asked, if there is so much, else half of what is free [B].

    Raises
    ------
    InvalidValueError
        If more is asked for than is free, or nothing tells how much that is.
    """
    if memory is None:
        if arrays.free is None:
            raise InvalidValueError("memory: required, for nothing tells how much is free")
        return arrays.free / 2
    memory = checked_positive("memory", memory)
    if arrays.free is not None and memory > arrays.free:
        free = si(arrays.free, "B")
        raise InvalidValueError(f"memory: expected at most the {free} free, got {si(memory, 'B')}")
    return memory


def _done(arrays: Arrays, job: Job) -> Call:
    def call() -> None:
        job.call()
        arrays.wait()

    return call


def _largest_product(arrays: Arrays, form: str, sizes: Sizes, watch: Stopwatch) -> Job:
    """The product of the largest matrices that take a small part of the time and the memory.

    Sides double; the next takes eight times as long.
    """
    several, width = len(arrays.formats), format_named(form).bits // 8
    side, most = SIDE, min(_MOST_SIDE, isqrt(sizes.spare // (3 * several * width)))
    while True:
        job = product_of(arrays, form, side)
        call = _done(arrays, job)
        call()
        took, side = watch.lap(job.name, call), 2 * side
        if 8 * took > watch.seconds / (15 * several) or side > most:
            return job


def _notes(found: Measurement) -> tuple[str, ...]:
    """What a reader should know."""
    notes, machine, seconds = [], found.machine, found.seconds
    done = (*found.traffic, *found.products, *found.jobs)
    if machine.cache_assumed:
        notes.append(f"nothing tells the last-level cache; {si(machine.cache, 'B')} assumed")
    if machine.device == "cpu" and machine.threads is None:
        notes.append('threads unknown; pip install "perfmodel[measure]" brings what asks')
    if machine.device == "cpu" and (machine.load or 0) > _BUSY:
        notes.append(
            f"other programs ran: a load of {machine.load:.1f} on {machine.cores} cores; "
            "a quiet machine is faster"
        )
    if (fewest := min(one.repeats for one in done)) < REPEATS:
        cold = sum(not one.warmed for one in done)
        notes.append(
            f"{seconds:g} s left {fewest} of {REPEATS} repeats to some jobs"
            + (f", and to {cold} no call to warm up" if cold else "")
        )
    if found.took > 1.1 * seconds:
        notes.append(f"took {found.took:.0f} s, not {seconds:g} s: each job runs at least once")
    return tuple(notes)
