"""``perfmodel sweep``: any axes, one long table."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Final

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.cli import axes, given
from perfmodel.interfaces.cli.options import (
    USUAL,
    Expected,
    Gpus,
    Json,
    Models,
    Precisions,
    assumed,
    chips,
    load,
    printed,
)
from perfmodel.interfaces.cli.tables import frame_rows, frame_table, print_json, print_table
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

MAX_PRINTED: Final = 10_000  # rows


def sweep(
    models: Models,
    gpu: Gpus,
    tensor: Annotated[str, chips("Devices that share each matrix.", "AXIS")] = "1",
    pipeline: Annotated[str, chips("Stages that share the blocks.", "AXIS")] = "1",
    expert: Annotated[str, chips("Devices that share the experts.", "AXIS")] = "1",
    data: Annotated[str, chips("Replicas that share the sequences.", "AXIS")] = "1",
    batch: Annotated[str, load(f"Sequences: {axes.HOW}", "AXIS")] = "1..256",
    context: Annotated[
        str | None, load(f"Tokens that each new token attends: an axis. {USUAL}", "AXIS")
    ] = None,
    prompt: Annotated[str | None, load("Instead: tokens of prompts, for prefill.", "AXIS")] = None,
    precision: Precisions = None,
    engine: Annotated[
        str | None, assumed("One or more, as vllm,sglang; auto for any, ideal for none.", "NAMES")
    ] = None,
    efficiency: Expected = None,
    skip: Annotated[
        bool, printed("Leave out what cannot be, and say so at the end.", None, "--skip")
    ] = False,
    columns: Annotated[
        str | None, printed("Names of columns, as batch,time,low,high.", "NAMES")
    ] = None,
    out: Annotated[str | None, printed("Write to a Parquet file, of any length.", "FILE")] = None,
    progress: Annotated[
        bool, printed("Show how far a file is written.", None, "--progress")
    ] = False,
    as_json: Json = False,
) -> None:
    """Combine models, chips, precisions, devices, batches and lengths: one long table."""
    from perfmodel.interfaces.sweep import sweep as sweep_steps

    given.one_of(out=out, json=as_json)
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
    given.one_of(context=context, prompt=prompt)
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
    known = {"efficiency": "auto"} if "auto" in names else {}
    return {"engine": _one_or_all(engines)} | known
