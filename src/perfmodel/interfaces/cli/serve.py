"""``perfmodel serve``: requests to a server, in its steady state."""

from __future__ import annotations

from typing import Annotated

from perfmodel.answers.serving.serve import serve as serve_requests
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import (
    Data,
    Engine,
    Expected,
    Expert,
    Gpu,
    Json,
    Model,
    Output,
    Pipeline,
    Precision,
    Prefix,
    Prompt,
    Tensor,
    Trace,
    assumed,
    load,
    printed,
)
from perfmodel.interfaces.cli.requests import workloads
from perfmodel.interfaces.cli.tables import print_json, print_table, serving_row, serving_table


def serve(
    model: Model,
    gpu: Gpu,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    prompt: Prompt = None,
    output: Output = None,
    trace: Trace = None,
    prefix: Prefix = "0",
    concurrency: Annotated[str | None, load("Users at once, one or more numbers.", "USERS")] = None,
    rate: Annotated[
        str | None, load("Or requests a second, one or more numbers.", "REQUESTS/S")
    ] = None,
    precision: Precision = None,
    scheduler: Annotated[
        str, assumed("chunked, prefill-first or disaggregated.", "NAME")
    ] = "chunked",
    engine: Engine = None,
    efficiency: Expected = None,
    explain: Annotated[
        bool, printed("What the numbers consist of, and assume.", None, "--explain")
    ] = False,
    as_json: Json = False,
) -> None:
    """Serve requests: time to first token, time a token, throughput, and what limits them."""
    given.one_of(json=as_json, explain=explain)
    asked = workloads(prompt, output, trace, prefix, concurrency, rate)
    found = [
        serve_requests(
            given.model(model),
            given.gpu(gpu),
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
