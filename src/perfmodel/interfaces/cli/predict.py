"""``perfmodel predict``: decode at several batch sizes, then prefill."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.memory import max_batch
from perfmodel.answers.steps import decode, prefill
from perfmodel.base.errors import (
    InvalidValueError,
    PerfModelError,
    UnsupportedFormatError,
    UnsupportedGroupError,
)
from perfmodel.base.precision import Precision
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import (
    USUAL,
    Context,
    Data,
    Engine,
    Expected,
    Expert,
    Gpus,
    Json,
    Model,
    Pipeline,
    Precisions,
    Tensor,
    assumed,
    load,
    printed,
)
from perfmodel.interfaces.cli.tables import Row, print_csv, print_json, print_table, step_table
from perfmodel.machine.hardware import GpuSpec
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape


def predict(
    model: Model,
    gpu: Gpus,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    batch: Annotated[
        str, load("Sequences of a decode step, one or more numbers.", "SEQUENCES")
    ] = "1,8,64,256,512,1024",
    context: Context = None,
    prompt: Annotated[
        str | None, load(f"Tokens of the prompt, for prefill. {USUAL}", "TOKENS")
    ] = None,
    precision: Precisions = None,
    engine: Engine = None,
    efficiency: Expected = None,
    weights_only: Annotated[
        bool, assumed("Count the weights alone: no KV, no activations.", None, "--weights-only")
    ] = False,
    explain: Annotated[
        bool, printed("Each operation, both roofs, assumptions, sources.", None, "--explain")
    ] = False,
    as_json: Json = False,
    as_csv: Annotated[bool, printed("CSV instead of tables.", None, "--csv")] = False,
) -> None:
    """Predict decode at several batch sizes, then prefill."""
    given.one_of(json=as_json, csv=as_csv, explain=explain)
    if len(gpu) > 1:
        raise InvalidValueError(
            f"--gpu: expected one, got {len(gpu)}; perfmodel compare takes several"
        )
    shape, chip = given.model(model), given.gpu(gpu[0])
    attended = given.length("context", context, [shape])
    read = given.length("prompt", prompt, [shape])
    names = given.precisions(precision)
    sizes = [given.count("batch", part) for part in given.parts("batch", batch)]
    asked = [("decode", size, attended, name) for size in sizes for name in names]
    asked += [("prefill", 1, read, name) for name in names]
    ways = given.parallelism(tensor, pipeline, expert, data)
    options: dict[str, Any] = {"weights_only": weights_only, "parallelism": ways}
    options |= given.efficiency(engine, efficiency)
    found = [_attempt(shape, chip, options, *step) for step in asked]
    rows = [item if isinstance(item, Row) else Row.of(item) for item in found]
    if as_json:
        print_json({"params": shape.params, "rows": [asdict(row) for row in rows]})
    elif as_csv:
        print_csv(rows)
    elif explain:
        print("\n\n".join(i.note if isinstance(i, Row) else i.explain() for i in found))
    else:
        _print_prediction(shape, chip, rows, attended, names, ways)


def _attempt(
    shape: ModelShape,
    chip: GpuSpec,
    options: dict[str, Any],
    phase: str,
    batch: int,
    length: int,
    precision: str | None,
) -> Estimate | Row:
    """An estimate, or the row that says what the chip lacks."""
    try:
        if phase == "prefill":
            return prefill(shape, chip, prompt=length, precision=precision, **options)
        return decode(shape, chip, batch=batch, context=length, precision=precision, **options)
    except (UnsupportedFormatError, UnsupportedGroupError) as error:
        name = shape.resolve_precision(precision).name
        names = (shape.name, chip.name, name, phase)
        return Row(*names, batch=batch, context=length, note=str(error))


def _print_prediction(
    shape: ModelShape,
    chip: GpuSpec,
    rows: list[Row],
    context: int,
    names: list[str | None],
    ways: Parallelism,
) -> None:
    # A checkpoint's own precision has a name that is no preset's.
    precisions = {found.name: found for found in map(shape.resolve_precision, names)}
    many = "" if ways.devices == 1 else f"{ways.devices} x "
    split = "" if ways.devices == 1 else f", {ways}"
    formats = ", ".join(precisions)
    print(f"{shape.name} ({shape.params:,} parameters) on {many}{chip.name}{split}, {formats}")
    decoded = [row for row in rows if row.phase == "decode"]
    first = {"batch": "batch", "precision": "precision"}
    print_table(step_table(f"decode, {context:,} tokens of context", first, decoded))
    for precision in precisions.values():
        print(_held(shape, chip, context, precision, ways))
    read = [row for row in rows if row.phase == "prefill"]
    first = {"prompt": "context", "precision": "precision"}
    print_table(step_table("prefill, one prompt", first, read))
    if any(row.low is not None for row in rows):
        print("Expected of this engine; eight of ten measured kernels lie within. --explain: how.")
    else:
        print("At the roofs, one operation after another: ideal, dense peaks. --explain says how.")


def _held(
    shape: ModelShape, chip: GpuSpec, context: int, precision: Precision, ways: Parallelism
) -> str:
    """How many sequences the memory holds, or why none."""
    try:
        size = max_batch(shape, chip, context=context, precision=precision, parallelism=ways)
    except PerfModelError as error:
        return f"memory, {precision.name}: {error}"
    return f"memory, {precision.name}: holds up to {size:,} sequences of {context:,} tokens"
