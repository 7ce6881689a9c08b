"""``perfmodel sweep``: any axes, one long table."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Final

import typer

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.cli import axes, given
from perfmodel.interfaces.cli.options import USUAL, Expected, Precisions
from perfmodel.interfaces.cli.tables import frame_rows, frame_table, print_json, print_table
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

MAX_PRINTED: Final = 10_000  # rows


def sweep(
    models: Annotated[
        list[str],
        typer.Argument(help="Catalog keys, config.json files or folders.", metavar="MODEL..."),
    ],
    gpu: Annotated[
        list[str],
        typer.Option(help="A catalog key or a TOML file; once for each chip.", metavar="GPU"),
    ],
    batch: Annotated[str, typer.Option(help=f"Sequences: {axes.HOW}", metavar="AXIS")] = "1..256",
    context: Annotated[
        str | None,
        typer.Option(help=f"Tokens that each new token attends: an axis. {USUAL}", metavar="AXIS"),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Instead: tokens of prompts, for prefill.", metavar="AXIS")
    ] = None,
    precision: Precisions = None,
    tensor: Annotated[
        str, typer.Option(help="Devices that share each matrix.", metavar="AXIS")
    ] = "1",
    pipeline: Annotated[
        str, typer.Option(help="Stages that share the blocks.", metavar="AXIS")
    ] = "1",
    expert: Annotated[
        str, typer.Option(help="Devices that share the experts.", metavar="AXIS")
    ] = "1",
    data: Annotated[
        str, typer.Option(help="Replicas that share the sequences.", metavar="AXIS")
    ] = "1",
    engine: Annotated[
        str | None, typer.Option(help="One or more, as vllm,sglang; auto for any, ideal for none.")
    ] = None,
    efficiency: Expected = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out what cannot be, and say so at the end.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="Names of columns, as batch,time,low,high.", metavar="NAMES")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write to a Parquet file, of any length.", metavar="FILE")
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Show how far a file is written.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Combine models, chips, precisions, devices, batches and lengths: one long table."""
    from perfmodel.interfaces.sweep import sweep as sweep_steps

    if out is not None and as_json:
        raise InvalidValueError("--out, --json: expected one of them, got both")
    if progress and out is None:
        raise InvalidValueError("--progress: expected only with --out")
    shapes = [given.model(name) for name in models]
    ways, wrong = _divisions(tensor, pipeline, expert, data, skip)
    table = sweep_steps(
        _one_or_all(shapes),
        _one_or_all([given.gpu(name) for name in gpu]),
        batch=axes.numbers("batch", batch),
        **_lengths(context, prompt, shapes),
        precision=_one_or_all(given.precisions(precision)),
        parallelism=_one_or_all(ways),
        **_several_engines(engine, efficiency),
        skip=skip,
    )
    names = None if columns is None else given.parts("columns", columns)
    if out is not None:
        table.to_parquet(out, columns=names, progress=progress)
        print(f"{len(table):,} rows in {out}")
    elif len(table) > MAX_PRINTED:
        raise InvalidValueError(
            f"sweep: expected at most {MAX_PRINTED:,} rows to print, got {len(table):,}; "
            "--out FILE.parquet takes any number"
        )
    elif as_json:
        frame = table.to_frame(names)
        skipped = [*({"reason": reason} for reason in wrong), *frame.attrs["skipped"]]
        print_json(frame.attrs | {"skipped": skipped, "rows": frame_rows(frame)})
        return
    else:
        print_table(frame_table(table.to_frame(names)))
    for one in dict.fromkeys([*wrong, *map(str, table.skipped)]):
        print(f"left out: {one}")


def _one_or_all(values: list[Any]) -> Any:
    """One value alone is no axis of the table."""
    return values[0] if len(values) == 1 else values


def _lengths(context: str | None, prompt: str | None, shapes: list[ModelShape]) -> dict[str, Any]:
    if context is not None and prompt is not None:
        raise InvalidValueError("--context, --prompt: expected one of them, got both")
    if prompt is not None:
        return {"prompt": axes.numbers("prompt", prompt)}
    usual = given.length("context", None, shapes)
    return {"context": [usual] if context is None else axes.numbers("context", context)}


def _divisions(
    tensor: str, pipeline: str, expert: str, data: str, skip: bool
) -> tuple[list[Parallelism], list[str]]:
    """Every combination of these sizes that is a division, and why others are none."""
    texts = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "data": data}
    every = {name: axes.numbers(name, text) for name, text in texts.items()}
    found: list[Parallelism] = []
    wrong: list[str] = []
    for sizes in product(*every.values()):
        try:
            found.append(Parallelism(**dict(zip(every, sizes, strict=True))))
        except InvalidValueError as error:
            if not skip:
                raise
            wrong.append(str(error))
    if not found:
        raise InvalidValueError(wrong[0])
    return found, wrong


def _several_engines(text: str | None, efficiency: str | None) -> dict[str, Any]:
    if text is None or efficiency is not None:
        return given.efficiency(text, efficiency)
    names = given.parts("engine", text)
    if {"auto", "ideal"} <= set(names):
        raise InvalidValueError(f"--engine: expected auto or ideal, got both in {shown(text)}")
    engines = [None if name in ("auto", "ideal") else name for name in names]
    known = "auto" if "auto" in names else "ideal"
    return {"engine": _one_or_all(engines), "efficiency": known}
