"""What the command line prints: rows of numbers, and tables, JSON and CSV made of them."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

from rich.console import Console
from rich.table import Table

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.planning.explained import LIMITS
from perfmodel.answers.planning.record import Plan
from perfmodel.answers.serving.record import Serving
from perfmodel.roofline import memory_time

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Row:
    """One step; names are those of ``Estimate``, times in s, rates in tokens/s.

    Where the chip lacks a format or a link there are no numbers, and ``note`` says so.
    """

    model: str
    gpu: str
    precision: str
    phase: str
    batch: int
    context: int
    time: float | None = None
    weight_time: float | None = None
    kv_time: float | None = None
    activation_time: float | None = None
    compute_time: float | None = None
    network_time: float | None = None
    floor: float | None = None
    ideal: float | None = None
    low: float | None = None
    high: float | None = None
    tokens_per_second: float | None = None
    tokens_per_second_per_user: float | None = None
    bound: str | None = None
    fits: bool | None = None
    note: str = ""

    @classmethod
    def of(cls, step: Estimate) -> Row:
        """The row of an estimate of one group of sequences."""
        group = step.step.groups[0]

        def at_bandwidth(nbytes: float) -> float:
            found: float = memory_time(nbytes=nbytes, bandwidth=step.gpu.memory_bandwidth)
            return found

        return cls(
            model=step.model.name,
            gpu=step.gpu.name,
            precision=step.precision.name,
            batch=group.count,
            context=group.context,
            weight_time=at_bandwidth(step.weight_traffic),
            kv_time=at_bandwidth(step.kv_traffic),
            activation_time=at_bandwidth(step.activation_traffic),
            tokens_per_second_per_user=step.tokens_per_second / group.count,
            note="; ".join(_notes(step)),
            **{name: getattr(step, name) for name in _SAME},
        )


# What an estimate calls by the same name.
_SAME = (
    "phase", "time", "compute_time", "network_time", "floor", "ideal", "low", "high",
    "tokens_per_second", "bound", "fits",
)  # fmt: skip


def _notes(step: Estimate) -> list[str]:
    notes = [f"does not fit: {step.memory.shortfall()}"] if step.fits is False else []
    made_for, context = step.model.max_context, step.step.groups[0].context
    if made_for is not None and context > made_for:
        notes.append(f"made for {made_for:,} tokens of context")
    return notes


_TIMES = {
    "step ms": "time",
    "weights ms": "weight_time",
    "KV ms": "kv_time",
    "act. ms": "activation_time",
    "math ms": "compute_time",
    "network ms": "network_time",
}
# Where an engine is asked about: what cannot be beaten, the roofs, and what is expected.
_EXPECTED = {
    "floor ms": "floor",
    "ideal ms": "ideal",
    "step ms": "time",
    "from": "low",
    "to": "high",
}
_RATES = {"tokens/s": "tokens_per_second", "per user": "tokens_per_second_per_user"}


def step_table(title: str, first: dict[str, str], rows: Sequence[Row]) -> Table:
    """Steps as a table: ``first``, heading and field of what tells them apart, then numbers."""
    table = plain_table(title)
    for heading in first:
        table.add_column(heading, justify="right" if heading in ("batch", "prompt") else "left")
    # One device has no network, and no column of zeros for it.
    talk = any(row.network_time for row in rows)
    expects = any(row.low is not None for row in rows)
    parts = {name: field for name, field in _TIMES.items() if talk or field != "network_time"}
    times = _EXPECTED if expects else parts
    _add_columns(table, (*times, *_RATES), "limit", "")
    for row in rows:
        table.add_row(
            *(_text(getattr(row, field), "{:,}") for field in first.values()),
            *(_text(getattr(row, field), "{:,.2f}", 1e3) for field in times.values()),
            *(_text(getattr(row, field), "{:,.0f}") for field in _RATES.values()),
            row.bound or "-",
            row.note,
        )
    return table


# Heading of each column: its field, how it is written, and in which unit.
Columns: TypeAlias = dict[str, tuple[str, str, float]]

_SERVED: Columns = {
    "users": ("users", "{:,.0f}", 1),
    "requests/s": ("requests_per_second", "{:,.3g}", 1),
    "first token ms": ("ttft", "{:,.1f}", 1e3),
    "a token ms": ("tpot", "{:,.2f}", 1e3),
    "in all s": ("end_to_end", "{:,.2f}", 1),
    "tokens/s": ("output_tokens_per_second", "{:,.0f}", 1),
    "a device": ("output_tokens_per_second_per_device", "{:,.0f}", 1),
    "a user": ("tokens_per_second_per_user", "{:,.1f}", 1),
    "together": ("together", "{:,.1f}", 1),
    "compute %": ("compute_utilization", "{:.0f}", 100),
    "memory %": ("memory_utilization", "{:.0f}", 100),
    "room %": ("kv_utilization", "{:.0f}", 100),
}
_ALSO_SERVED = (
    "total_tokens_per_second",
    "decoding",
    "waiting",
    "capacity",
    "interference",
    "load",
    "network_utilization",
    "bound",
)


def serving_row(found: Serving) -> dict[str, Any]:
    """A steady state as numbers with names; times in s, rates in 1/s."""
    names = [field for field, _, _ in _SERVED.values()]
    about = {
        "model": found.model.name,
        "gpu": found.gpu.name,
        "precision": found.precision.name,
        "devices": found.devices,
        "prompt": found.workload.prompt.mean,
        "output": found.workload.output.mean,
    }
    return about | {name: getattr(found, name) for name in (*names, *_ALSO_SERVED)}


def serving_table(found: Sequence[Serving]) -> Table:
    """Steady states as a table, a line each."""
    first = found[0]
    many = "" if first.devices == 1 else f"{first.devices} x "
    work = first.workload
    table = plain_table(
        f"{first.model.name} on {many}{first.gpu.name}, {first.precision.name}: "
        f"requests of {work.prompt.mean:,.6g} tokens and {work.output.mean:,.6g} out"
    )
    _add_columns(table, _SERVED, "limit")
    for one in found:
        table.add_row(*_cells(_SERVED, one), one.bound)
    return table


_FEW, _WIDTH = 5, 100  # chips that are told one by one; characters of a line
_PLANNED: Columns = {
    "devices": ("devices", "{:,}", 1),
    "first token ms": ("ttft", "{:,.0f}", 1e3),
    "a token ms": ("tpot", "{:,.1f}", 1e3),
    "users": ("users", "{:,.0f}", 1),
    "requests/s": ("requests_per_second", "{:,.3g}", 1),
    "tokens/s": ("output_tokens_per_second", "{:,.0f}", 1),
    "a device": ("output_tokens_per_second_per_device", "{:,.0f}", 1),
    "USD/h": ("cost_per_hour", "{:,.2f}", 1),
    "USD/M in": ("cost_per_million_input", "{:,.3f}", 1),
    "USD/M out": ("cost_per_million_output", "{:,.3f}", 1),
    "kW at most": ("power", "{:,.2f}", 1e-3),
    "left %": ("headroom", "{:.0f}", 100),
}


def plans_table(plans: Sequence[Plan]) -> Table:
    """Plans as a table, a line each; what will not do, with its reason instead of numbers."""
    demand, all_do = plans[0].demand, all(one.feasible for one in plans)
    table = plain_table(f"{str(demand)[1:-1]}; means, and prices as quoted, the lowest", "chip")
    _add_columns(table, _PLANNED, "divided", "precision", "limit", *[""] * (not all_do))
    for one in plans:
        table.add_row(
            one.gpu.key or one.gpu.name,
            *_cells(_PLANNED, one if one.feasible else None),
            *(one.division, one.precision.name, one.binding or "-", *[one.reason] * (not all_do)),
        )
    return table


def plans_refused(plans: Sequence[Plan]) -> str:
    """Chips that will not do: each with its reason, or many by the limit that they break."""
    if len(plans) <= _FEW:
        return "\n".join(f"{one.gpu.key or one.gpu.name}: {one.reason}" for one in plans)
    said = [f"{len(plans):,} other chips will not do (--all says of each how):"]
    for limit, words in LIMITS.items():
        names = [one.gpu.key or one.gpu.name for one in plans if one.broken == limit]
        if names:
            told = f"{words}: {', '.join(names)}"
            said.append(textwrap.fill(told, _WIDTH, subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(said)


def _add_columns(table: Table, numbers: Iterable[str], *words: str) -> None:
    for heading in numbers:
        table.add_column(heading, justify="right")
    for heading in words:
        table.add_column(heading)


def _cells(columns: Columns, of: Any) -> Iterator[str]:
    return (_text(getattr(of, name, None), form, by) for name, form, by in columns.values())


def _text(value: Any, form: str, scale: float = 1) -> str:
    if value is None or isinstance(value, str):
        return value or "-"
    return form.format(value * scale)


def plain_table(title: str = "", *headings: str) -> Table:
    """A table without rules; ``print_table`` takes its cells literally, never as markup."""
    table = Table(
        title=title or None, title_justify="left", title_style="", box=None, pad_edge=False
    )
    _add_columns(table, (), *headings)
    return table


def frame_table(frame: pd.DataFrame) -> Table:
    """A sweep with its units in ``attrs`` as a table: times in ms, names and counts as they are."""
    table = plain_table()
    units = frame.attrs["units"]
    texts = []
    for name in frame:
        unit = units[name]
        heading = str(name).replace("tokens_per_second", "tokens/s").replace("_", " ")
        told = {"s": " ms", "B": " GB", "FLOP": " GFLOP"}.get(unit, "")
        table.add_column(heading + told, justify="right" if unit else "left")
        scale = {"s": 1e3, "B": 1e-9, "FLOP": 1e-9}.get(unit, 1)
        form = "{:,.2f}" if told else "{:,.4g}" if unit in ("1", "FLOP/B") else "{:,.0f}"
        whole = frame[name].dtype.kind == "i"
        texts.append([_cell(value, "{:,}" if whole else form, scale) for value in frame[name]])
    for row in zip(*texts, strict=True):
        table.add_row(*row)
    return table


def frame_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain values, None where one is missing."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [dict(zip(map(str, plain), row, strict=True)) for row in plain.to_numpy().tolist()]


def _cell(value: Any, form: str, scale: float) -> str:
    if value is True or value is False:
        return "yes" if value else "no"
    missing = value is None or value != value
    return "-" if missing else _text(value, form, scale)


def print_table(table: Table) -> None:
    """Print a table at its full width: a terminal may wrap it, but nothing is cut."""
    for column in table.columns:
        column.no_wrap = True
    console = Console(width=10_000, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def print_json(value: Any) -> None:
    """Print JSON, indented; what is infinite or no number is null, for JSON has no words for it."""
    known = json.loads(json.dumps(value), parse_constant=lambda _: None)
    print(json.dumps(known, indent=2))


def print_csv(rows: Sequence[Row]) -> None:
    """Print rows as CSV with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    print(text.getvalue(), end="")
