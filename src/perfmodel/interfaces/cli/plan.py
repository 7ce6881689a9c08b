"""``perfmodel plan``: what to buy for a load, or what load so many devices bear."""

from __future__ import annotations

from typing import Annotated, Any

from perfmodel.answers.planning.demand import Slo
from perfmodel.answers.planning.plan import largest_load
from perfmodel.answers.planning.plan import plan as plan_chips
from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import positive
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import (
    Engine,
    Expected,
    Json,
    Model,
    Output,
    Precisions,
    Prefix,
    Prompt,
    Trace,
    assumed,
    chips,
    load,
    printed,
    targets,
)
from perfmodel.interfaces.cli.requests import workloads
from perfmodel.interfaces.cli.tables import plans_refused, plans_table, print_json, print_table
from perfmodel.sources import catalog
from perfmodel.sources.prices import prices


def plan(
    model: Model,
    gpu: Annotated[
        list[str] | None,
        chips("A key or a TOML file, once for each chip. Default: the whole catalog.", "GPU"),
    ] = None,
    devices: Annotated[
        str | None, chips("Instead of a load: the largest that so many bear.", "DEVICES")
    ] = None,
    max_devices: Annotated[str | None, chips("Devices in all, at most.", "DEVICES")] = None,
    price: Annotated[
        list[str] | None, chips("USD an hour of a device, once for each chip.", "GPU=USD")
    ] = None,
    users: Annotated[str | None, load("Users at once.", "USERS")] = None,
    rate: Annotated[
        str | None, load("Or requests a second; or neither with --devices.", "REQUESTS/S")
    ] = None,
    prompt: Prompt = None,
    output: Output = None,
    trace: Trace = None,
    prefix: Prefix = "0",
    ttft: Annotated[str | None, targets("First token within so many seconds.", "S")] = None,
    tpot: Annotated[str | None, targets("Seconds a token after that, at most.", "S")] = None,
    end_to_end: Annotated[str | None, targets("Seconds of a request, at most.", "S")] = None,
    precision: Precisions = None,
    pools: Annotated[
        str, assumed("Prompts beside tokens, or in a pool: together, apart or both.", "NAME")
    ] = "both",
    engine: Engine = None,
    efficiency: Expected = None,
    every: Annotated[
        bool, printed("Every candidate, not only the best of each chip.", None, "--all")
    ] = False,
    explain: Annotated[
        bool, printed("The best in a paragraph, and why others will not do.", None, "--explain")
    ] = False,
    as_json: Json = False,
) -> None:
    """Plan what to buy for a load and its targets, or what load so many devices bear."""
    given.one_of(json=as_json, explain=explain)
    given.one_of(devices=devices, max_devices=max_devices)
    if devices is not None:
        users = "1" if users is None and rate is None and trace is None else users
    work, *more = workloads(prompt, output, trace, prefix, users, rate, users="users")
    if more:
        raise InvalidValueError(f"--users, --rate: expected one number, got {len(more) + 1}")
    targets = {"ttft": ttft, "tpot": tpot, "end_to_end": end_to_end}
    options: dict[str, Any] = {
        "slo": Slo(
            **{n: given.number(n, x, positive) for n, x in targets.items() if x is not None}
        ),
        "gpus": None if not gpu else [given.gpu(name) for name in gpu],
        "precisions": given.precisions(precision),
        "prices": _prices(price, gpu),
        "pools": pools,
    } | given.efficiency(engine, efficiency)
    if devices is not None:
        found = largest_load(
            given.model(model), work, devices=given.count("devices", devices), **options
        )
    else:
        limit = None if max_devices is None else given.count("max-devices", max_devices)
        found = plan_chips(given.model(model), work, max_devices=limit, **options)
    rows = found.rows if every else found.by_chip
    if as_json:
        print_json({"rows": [one.row() for one in rows]})
    elif explain:
        print(found.explain())
    elif every:
        print_table(plans_table(rows))
    else:
        does = [one for one in rows if one.feasible]
        if does:
            print_table(plans_table(does))
        if len(does) < len(rows):
            print(plans_refused([one for one in rows if not one.feasible]))


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
        found[key] = given.number("price", per_hour, positive)
    return found
