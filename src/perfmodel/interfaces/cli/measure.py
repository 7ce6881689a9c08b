"""``perfmodel measure``: this machine's roofs, jobs under them, and a real decoder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import positive
from perfmodel.base.units import GB
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import Json, assumed, chips, load, printed
from perfmodel.interfaces.cli.tables import print_json
from perfmodel.interfaces.measuring.decoder import check_supported
from perfmodel.interfaces.measuring.measure import measure as measure_machine
from perfmodel.interfaces.measuring.model import (
    MeasuredStep,
    Predictions,
    foretold,
    measure_model,
)
from perfmodel.interfaces.measuring.record import Measurement, Timed, Times


def measure(
    backend: Annotated[Any, chips("The library that is timed: numpy or torch.", "NAME")] = "numpy",
    device: Annotated[Any, chips("cpu; of torch also cuda or mps.", "NAME")] = "cpu",
    threads: Annotated[
        str | None, chips("Threads of its products. Default: as it likes.", "THREADS")
    ] = None,
    memory: Annotated[
        str | None, chips("Memory of all arrays. Default: half of what is free.", "GB")
    ] = None,
    seconds: Annotated[
        str, chips("Time to take; every job runs once, whatever that takes.", "SECONDS")
    ] = "60",
    model: Annotated[
        str | None, load("In place of the jobs: predict this model, then run it.", "MODEL")
    ] = None,
    batch: Annotated[str, load("Its sequences.", "SEQUENCES")] = "1",
    context: Annotated[str, load("Tokens that its decode step attends.", "TOKENS")] = "512",
    prompt: Annotated[str, load("Tokens that its prefill reads.", "TOKENS")] = "256",
    precision: Annotated[str, assumed("fp32; of torch also bf16 or fp16.", "NAME")] = "fp32",
    toml: Annotated[str | None, printed("Write the chip as measured, for --gpu.", "FILE")] = None,
    chart: Annotated[str | None, printed("Draw the roofline, as PNG, SVG or PDF.", "FILE")] = None,
    as_json: Json = False,
) -> None:
    """Measure this machine: its two roofs, and real jobs or a real decoder under them."""
    shape = None if model is None else given.model(model)
    lengths = {"batch": batch, "context": context, "prompt": prompt}
    sizes = {name: given.count(name, text) for name, text in lengths.items()}
    if shape is not None:
        check_supported(shape)
        shape.require_positions(max(sizes["context"], sizes["prompt"]))
    time = given.number("seconds", seconds, positive)
    room = None if memory is None else given.number("memory", memory, positive) * GB
    asked: dict[str, Any] = {"seconds": time if shape is None else time / 2, "memory": room}
    _check_files(toml, chart)
    with _bar() as tell:
        found = measure_machine(
            backend=backend,
            device=device,
            threads=None if threads is None else given.count("threads", threads),
            precision=precision,
            jobs=shape is None,
            progress=tell,
            **asked,
        )
    notes, steps = list(found.notes), []
    if not as_json:
        print(found.explain())
    if toml is not None:
        Path(toml).write_text(found.to_toml(), encoding="utf-8", newline="\n")
    if shape is not None:
        foretell = None if as_json else _foretell
        with _bar() as tell:
            run = measure_model(shape, found, predicted=foretell, progress=tell, **sizes, **asked)
        steps = [_times(step) | _predicted(step) for step in run.steps]
        notes += run.notes
        if not as_json:
            print("\nmeasured\n" + run.explain())
    if as_json:
        told = {name: getattr(found, name).model_dump(mode="json") for name in ("machine", "gpu")}
        told["roofs"] = [_times(one) | _work(one) for one in (*found.traffic, *found.products)]
        told["rows"] = [_times(one) | _work(one) | _share(found, one) for one in found.jobs]
        print_json(told | {"steps": steps, "notes": notes})
    if chart is not None:
        _draw(found, chart)


def _times(one: Times) -> dict[str, Any]:
    return one.model_dump(include={"name", "time", "fastest", "slowest", "repeats", "warmed"})


def _work(job: Timed) -> dict[str, Any]:
    op = job.operation
    return {"flops": op.flops, "bytes": op.nbytes, "rate": job.rate, "bandwidth": job.bandwidth}


def _share(found: Measurement, job: Timed) -> dict[str, float]:
    return {"intensity": job.intensity, "roof": found.roof(job), "share": found.share(job)}


def _predicted(step: MeasuredStep) -> dict[str, float]:
    return {"floor": step.predicted.floor, "ideal": step.predicted.time, "ratio": step.ratio}


def _foretell(steps: Predictions) -> None:
    print("\npredicted, before anything runs")
    print("\n".join(map(foretold, steps)), flush=True)


def _check_files(toml: str | None, chart: str | None) -> None:
    """Refuse what cannot be written before anything is measured."""
    if chart is not None:
        from perfmodel.interfaces.plots._canvas import Canvas

        if not chart.lower().endswith((".png", ".svg", ".pdf")):
            raise InvalidValueError(f"--chart: expected a PNG, SVG or PDF, got {shown(chart)}")
        Canvas(None, "light", "")  # which Matplotlib draws
    for name, file in (("toml", toml), ("chart", chart)):
        if file is not None:
            try:
                new = not Path(file).exists()
                Path(file).open("ab").close()
                if new:
                    Path(file).unlink()
            except (OSError, ValueError) as error:
                raise InvalidValueError(f"--{name}: cannot write: {error}") from None


def _draw(found: Measurement, path: str) -> None:
    plots = sys.modules["perfmodel"].plots  # no import points up
    plots.roofline(found.gpu, operations=found.jobs).figure.savefig(path, bbox_inches="tight")


@contextmanager
def _bar() -> Iterator[Any]:
    """A bar on a terminal; nothing in a pipe or a file."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("filling memory", total=1.0)
        yield lambda used, name: progress.update(task, completed=used, description=name)
