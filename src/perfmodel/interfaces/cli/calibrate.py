"""``perfmodel calibrate``: measurements in, an efficiency out."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmodel.answers.calibrate import calibrate as calibrate_to
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import Engine, Tensor
from perfmodel.sources.efficiency_file import read_efficiency


def calibrate(
    measurements: Annotated[
        str,
        typer.Argument(help="A CSV of kernels or of steps, times in seconds.", metavar="FILE"),
    ],
    gpu: Annotated[str, typer.Option("--gpu", help="A catalog key or a TOML file.", metavar="GPU")],
    model: Annotated[
        str | None, typer.Option(help="Model of steps that name none.", metavar="MODEL")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of rows that name none.")] = None,
    tensor: Tensor = "1",
    engine: Engine = None,
    base: Annotated[
        str, typer.Option(help="What holds where rows say nothing: auto, ideal, or a TOML file.")
    ] = "auto",
    source: Annotated[
        str, typer.Option(help="Where the measurements come from, in words.", metavar="TEXT")
    ] = "",
    out: Annotated[
        str | None, typer.Option(help="Write the efficiency to this TOML file.", metavar="FILE")
    ] = None,
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
