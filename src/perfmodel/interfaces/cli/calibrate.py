"""``perfmodel calibrate``: measurements in, an efficiency out."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmodel.answers.calibrate import calibrate as calibrate_to
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import Engine, Gpu, Tensor, assumed, printed
from perfmodel.sources.efficiency_file import read_efficiency


def calibrate(
    measurements: Annotated[
        str,
        typer.Argument(help="A CSV of kernels or of steps, times in seconds.", metavar="FILE"),
    ],
    gpu: Gpu,
    tensor: Tensor = "1",
    model: Annotated[str | None, assumed("Model of steps that name none.", "MODEL")] = None,
    precision: Annotated[str | None, assumed("Precision of rows that name none.", "NAME")] = None,
    engine: Engine = None,
    base: Annotated[
        str, assumed("What holds where rows say nothing: auto, ideal, or a TOML file.", "FILE")
    ] = "auto",
    source: Annotated[str, printed("Where the measurements come from, in words.", "TEXT")] = "",
    out: Annotated[str | None, printed("Write the efficiency to this TOML file.", "FILE")] = None,
) -> None:
    """Fit what is expected to measurements of your own, and say what it misses."""
    found = calibrate_to(
        measurements,
        given.gpu(gpu),
        model=None if model is None else given.model(model),
        precision=precision,
        parallelism=given.parallelism(tensor, "1", "1", "1"),
        base=base if base in ("auto", "ideal") else read_efficiency(base),  # type: ignore[arg-type]
        engine=None if engine == "auto" else engine,
        source=source,
    )
    print(found.explain())
    if out is not None:
        found.write(out)
        print(f"written: {out}; perfmodel predict ... --efficiency {out}")
