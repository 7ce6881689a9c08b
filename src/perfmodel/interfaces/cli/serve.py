"""``perfmodel serve``: requests to a server, in its steady state."""

from __future__ import annotations

from typing import Annotated

import typer

from perfmodel.answers.serving.serve import serve as serve_requests
from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import (
    Data,
    Engine,
    Expected,
    Expert,
    Gpus,
    Model,
    Pipeline,
    Tensor,
)
from perfmodel.interfaces.cli.requests import workloads
from perfmodel.interfaces.cli.tables import print_json, print_table, serving_row, serving_table


def serve(
    model: Model,
    gpu: Gpus,
    prompt: Annotated[
        str | None, typer.Option(help="Tokens of a prompt.", metavar="TOKENS")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Tokens of an output.", metavar="TOKENS")
    ] = None,
    trace: Annotated[
        str | None,
        typer.Option(help="Instead of both: a CSV or Parquet file of requests.", metavar="FILE"),
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Tokens of each prompt that are cached.", metavar="TOKENS")
    ] = "0",
    concurrency: Annotated[
        str | None, typer.Option(help="Users at once, one or more numbers.", metavar="N")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Or requests a second, one or more numbers.", metavar="X")
    ] = None,
    scheduler: Annotated[
        str, typer.Option(help="chunked, prefill-first or disaggregated.")
    ] = "chunked",
    precision: Annotated[
        str | None, typer.Option(help="As bf16. Default: the checkpoint's own, else bf16.")
    ] = None,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    engine: Engine = None,
    efficiency: Expected = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="What the numbers consist of, and assume.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Serve requests: time to first token, time a token, throughput, and what limits them."""
    if as_json and explain:
        raise InvalidValueError("--json, --explain: expected one of them, got both")
    if len(gpu) > 1:
        raise InvalidValueError(f"--gpu: expected one, got {len(gpu)}")
    asked = workloads(prompt, output, trace, prefix, concurrency, rate)
    found = [
        serve_requests(
            given.model(model),
            given.gpu(gpu[0]),
            workload,
            precision=precision,
            scheduler=scheduler,
            parallelism=given.parallelism(tensor, pipeline, expert, data),
            **given.efficiency(engine, efficiency),
        )
        for workload in asked
    ]
    if as_json:
        print_json({"rows": [serving_row(one) for one in found]})
    elif explain:
        print("\n\n".join(one.explain() for one in found))
    else:
        print_table(serving_table(found))
