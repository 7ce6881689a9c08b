"""``perfmodel gpus``, ``models`` and ``show``: what the catalog holds, and from where."""

from __future__ import annotations

import textwrap
from typing import Annotated

import typer

from perfmodel.answers.ridges import ridge_intensity
from perfmodel.base.spec import Origin
from perfmodel.base.units import si
from perfmodel.interfaces.cli import given
from perfmodel.interfaces.cli.options import Json
from perfmodel.interfaces.cli.tables import plain_table, print_table
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources import catalog
from perfmodel.work.shape import ModelShape


def gpus() -> None:
    """List the chips of the catalog."""
    table = plain_table("", "key", "name", "bandwidth", "bf16 dense", "ridge FLOP/B", "memory")
    for key in catalog.gpus():
        chip = catalog.gpu(key)
        peak = chip.peak_flops.bf16
        table.add_row(
            key,
            chip.name,
            si(chip.memory_bandwidth, "B/s"),
            "-" if peak is None else si(peak, "FLOP/s", 4),
            "-" if peak is None else f"{ridge_intensity(chip, precision='bf16'):.0f}",
            "-" if chip.capacity is None else f"{si(chip.capacity, 'B')} {chip.capacity_kind}",
        )
    print_table(table)


def models() -> None:
    """List the models of the catalog."""
    table = plain_table("", "key", "name", "parameters", "KV a token, bf16")
    for key in catalog.models():
        shape = catalog.model(key)
        kv = f"{shape.kv_bytes_per_token('bf16'):,.0f} B"
        table.add_row(key, shape.name, f"{shape.params:,}", kv)
    print_table(table)


def show(
    key: Annotated[str, typer.Argument(help="A key of a chip or a model, or a file of one.")],
    as_json: Json = False,
) -> None:
    """Show a chip or a model, with the origin of each value."""
    spec = given.anything(key)
    if as_json:
        print(spec.model_dump_json(indent=2))
        return
    if isinstance(spec, GpuSpec):
        _show_gpu(spec)
    else:
        _show_model(spec)
    named = dict.fromkeys(o.source for o in spec.origins if o.source is not None)
    print("sources" if named else "sources: none named")
    for source in named:
        print(f"  {', '.join(filter(None, (source.title, source.publisher, source.date)))}")
        if source.url:
            print(f"    {source.url}")


def _show_gpu(spec: GpuSpec) -> None:
    print(spec.name)
    if about := [part for part in (spec.vendor, spec.architecture, spec.released) if part]:
        print(f"  {', '.join(about)}")
    origins = {origin.field: origin for origin in spec.origins}
    for field, (value, unit) in spec.figures().items():
        print(f"  {field} = {value:,}" if unit == "1" else f"  {field} = {si(value, unit, 4)}")
        if field in origins:
            _show_origin(origins[field])
    for what, link in (("link", spec.link), ("host_link", spec.host_link)):
        if link is not None:
            reduces = "adds up in its switch" if link.reduces else ""
            print(f"  {what}: {', '.join(filter(None, (link.name, link.layout, reduces)))}")


def _show_model(spec: ModelShape) -> None:
    print(spec.describe())
    print(f"  weights {si(spec.weight_bytes(), 'B', 4)} in {spec.resolve_precision().name}")
    if spec.has_cache:
        print(f"  KV {spec.kv_bytes_per_token():,.0f} B a token")
        if state := spec.state_bytes():
            print(f"  state {si(state, 'B', 4)} a sequence")
    if spec.max_context is not None:
        print(f"  made for {spec.max_context:,} tokens of context")
    fields: dict[Origin, list[str]] = {}
    for origin in spec.origins:
        common = origin.model_copy(update={"field": "*"})
        fields.setdefault(common, []).append(origin.field)
    for origin, names in fields.items():
        print(textwrap.fill(", ".join(names), 96, initial_indent="  ", subsequent_indent="  "))
        _show_origin(origin)


def _show_origin(origin: Origin) -> None:
    """Kind, source, place and date in a line; the note, wrapped, below."""
    title = origin.source.title if origin.source is not None else ""
    print(f"      {origin.kind}: {'; '.join(filter(None, (title, origin.place, origin.date)))}")
    if origin.note:
        indent = " " * 6
        print(textwrap.fill(origin.note, 96, initial_indent=indent, subsequent_indent=indent))
