"""``perfmodel compare``: models, chips and precisions side by side."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from perfmodel.answers.compare import compare as compare_steps
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import (
    Context,
    Data,
    Expert,
    Gpus,
    Json,
    Models,
    Pipeline,
    Precisions,
    Tensor,
    load,
)
from perfmodel.interfaces.cli.tables import Row, print_json, print_table, step_table


def compare(
    models: Models,
    gpu: Gpus,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    batch: Annotated[str, load("Sequences of the decode step.", "SEQUENCES")] = "64",
    context: Context = None,
    precision: Precisions = None,
    as_json: Json = False,
) -> None:
    """Compare decode steps of models, chips and precisions."""
    shapes = [given.model(name) for name in models]
    size, attended = given.count("batch", batch), given.length("context", context, shapes)
    found = compare_steps(
        shapes,
        [given.gpu(name) for name in gpu],
        batch=size,
        context=attended,
        precisions=given.precisions(precision),
        parallelism=given.parallelism(tensor, pipeline, expert, data),
    )
    rows = [
        Row.of(row.estimate)
        if row.estimate is not None
        else Row(
            *(row.model, row.gpu, row.precision, "decode"),
            batch=size,
            context=attended,
            note=row.unsupported or "",
        )
        for row in found.rows
    ]
    if as_json:
        print_json({"rows": [asdict(row) for row in rows]})
        return
    title = f"decode, batch {size:,}, {attended:,} tokens of context"
    first = {"model": "model", "chip": "gpu", "precision": "precision"}
    print_table(step_table(title, first, rows))
