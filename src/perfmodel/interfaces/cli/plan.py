"""``perfmodel plan``: what to buy for a load, or what load so many devices bear."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from perfmodel.answers.planning.demand import Slo
from perfmodel.answers.planning.plan import largest_load
from perfmodel.answers.planning.plan import plan as plan_chips
from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import Engine, Expected, Model, Precisions
from perfmodel.interfaces.cli.requests import workloads
from perfmodel.interfaces.cli.tables import plans_table, print_json, print_table
from perfmodel.sources import catalog
from perfmodel.sources.prices import prices


def plan(
    model: Model,
    users: Annotated[str | None, typer.Option(help="Users at once.", metavar="N")] = None,
    rate: Annotated[
        str | None, typer.Option(help="Or requests a second; or neither with --devices.")
    ] = None,
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
    ttft: Annotated[
        str | None, typer.Option(help="First token within so many seconds.", metavar="S")
    ] = None,
    tpot: Annotated[
        str | None, typer.Option(help="Seconds a token after that, at most.", metavar="S")
    ] = None,
    end_to_end: Annotated[
        str | None, typer.Option(help="Seconds of a request, at most.", metavar="S")
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(help="A key or a TOML file, once for each chip. Default: the whole catalog."),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(help="Instead of a load: the largest that so many bear.")
    ] = None,
    max_devices: Annotated[str | None, typer.Option(help="Devices in all, at most.")] = None,
    price: Annotated[
        list[str] | None,
        typer.Option(help="USD an hour of a device, once for each chip.", metavar="GPU=USD"),
    ] = None,
    precision: Precisions = None,
    pools: Annotated[
        str, typer.Option(help="Prompts beside tokens, or in a pool: together, apart or both.")
    ] = "both",
    engine: Engine = None,
    efficiency: Expected = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every candidate, not only the best of each chip.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="The best in a paragraph, and why others will not do.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Plan what to buy for a load and its targets, or what load so many devices bear."""
    if as_json and explain:
        raise InvalidValueError("--json, --explain: expected one of them, got both")
    if devices is not None:
        if max_devices is not None:
            raise InvalidValueError("--devices, --max-devices: expected one of them, got both")
        users = "1" if users is None and rate is None and trace is None else users
    (work,) = workloads(prompt, output, trace, prefix, users, rate, users="users")
    targets = {"ttft": ttft, "tpot": tpot, "end_to_end": end_to_end}
    options: dict[str, Any] = {
        "slo": Slo(**{n: given.number(n, text) for n, text in targets.items() if text is not None}),
        "gpus": None if not gpu else [given.gpu(name) for name in gpu],
        "precisions": given.precisions(precision),
        "prices": _prices(price, gpu),
        "pools": pools,
    } | given.efficiency(engine, efficiency)
    if devices is not None:
        found = largest_load(
            given.model(model), work, devices=given.whole("devices", devices), **options
        )
    else:
        limit = None if max_devices is None else given.whole("max-devices", max_devices)
        found = plan_chips(given.model(model), work, max_devices=limit, **options)
    rows = found.rows if every else found.by_chip
    if as_json:
        print_json({"rows": [one.row() for one in rows]})
    elif explain:
        print(found.explain())
    else:
        print_table(plans_table(rows))


def _prices(texts: list[str] | None, gpus: list[str] | None) -> dict[str, Any] | None:
    """Prices as ``h100-sxm=2.5``, over the shipped ones."""
    if not texts:
        return None
    found: dict[str, Any] = dict(prices())
    for text in texts:
        name, _, per_hour = text.rpartition("=")
        if not name:
            raise InvalidValueError(
                f"--price: expected a chip and USD an hour, as h100-sxm=2.5, got {shown(text)}"
            )
        key = given.gpu(name).name if name in (gpus or ()) and name not in catalog.gpus() else name
        found[key] = given.number("price", per_hour)
    return found
