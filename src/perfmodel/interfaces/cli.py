"""The command line: thin, every number comes from the library."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from perfmodel.answers.compare import compare as compare_steps
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode, prefill
from perfmodel.base.errors import (
    InvalidValueError,
    PerfModelError,
    UnknownKeyError,
    UnsupportedFormatError,
    did_you_mean,
    plain,
    shown,
)
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Spec
from perfmodel.base.units import si
from perfmodel.machine.hardware import GpuSpec, PeakFlops
from perfmodel.roofline import memory_time
from perfmodel.sources import catalog
from perfmodel.sources.huggingface import read_hf
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.shape import ModelShape

app = typer.Typer(
    name="perfmodel",
    help="How fast an LLM will go on a chip, what limits it, and what fits.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

# Typer names only this child of the class that all wrong command lines raise.
_UsageError: Any = typer.BadParameter.__base__

USUAL_CONTEXT: Final = 2048  # tokens
MAX_LINE: Final = 390  # characters of an error

Model = Annotated[str, typer.Argument(help="A catalog key, a config.json, or a folder with one.")]
Gpu = Annotated[str, typer.Option("--gpu", help="A catalog key or a TOML file.")]
Precisions = Annotated[
    str | None,
    typer.Option("--precision", help="One or more, as bf16,fp8,w4a16; default: the checkpoint's."),
]
Context = Annotated[
    int | None,
    typer.Option(
        help="Tokens that each new token attends; 2048, or as many as there are learned positions."
    ),
]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str or None
        What follows the program's name; None: what it was started with [text].

    Returns
    -------
    int
        Exit code: 0, or 2 for bad input, which is one line on stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names and µ, on an ASCII terminal
    try:
        app(args=None if arguments is None else list(arguments), standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _UsageError as error:
        return _refuse(error.format_message())
    except PerfModelError as error:
        return _refuse(str(error))
    except typer.Abort:
        return _refuse("aborted")
    except BrokenPipeError:
        # The reader of the pipe has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _refuse(f"cannot write: {error.strerror}")
    return 0


def _refuse(message: str) -> int:
    print("perfmodel: " + shorten(plain(message, 10_000), MAX_LINE), file=sys.stderr)
    return 2


def shorten(line: str, limit: int) -> str:
    """A line cut to a length."""
    return line if len(line) <= limit else line[: limit - 1] + "…"


@app.callback()
def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


# -- predict ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of a prediction; times in s, rates in tokens/s."""

    phase: str
    precision: str
    tokens: int
    context: int
    step_time: float | None = None
    weight_read: float | None = None
    kv_read: float | None = None
    math: float | None = None
    tokens_per_second: float | None = None
    tokens_per_second_per_user: float | None = None
    limit: str | None = None
    fits: bool | None = None
    note: str = ""

    @classmethod
    def of(cls, found: Estimate) -> Row:
        """The line of an estimate."""
        group, bandwidth = found.step.groups[0], found.gpu.memory_bandwidth
        note = found.memory.shortfall() if found.fits is False else ""
        return cls(
            phase=found.phase,
            precision=found.precision.name,
            tokens=found.step.tokens,
            context=group.context,
            step_time=found.time,
            weight_read=memory_time(nbytes=found.weight_traffic, bandwidth=bandwidth),
            kv_read=memory_time(nbytes=found.kv_traffic, bandwidth=bandwidth),
            math=found.compute_time,
            tokens_per_second=found.tokens_per_second,
            tokens_per_second_per_user=found.tokens_per_second / group.count,
            limit=found.bound,
            fits=found.fits,
            note=note,
        )


@app.command()
def predict(
    model: Model,
    gpu: Gpu,
    batch: Annotated[
        str, typer.Option(help="Sequences of a decode step, one or more.")
    ] = "1,8,64,256,512,1024",
    context: Context = None,
    prompt: Annotated[
        int | None, typer.Option(help="Tokens of the prompt, for prefill; default as --context.")
    ] = None,
    precision: Precisions = None,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Only the model's tables count.")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Each operation, both roofs, assumptions, sources.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="CSV instead of tables.")] = False,
) -> None:
    """Predict decode at several batch sizes, then prefill."""
    if as_json + as_csv + explain > 1:
        raise InvalidValueError("--json, --csv, --explain: expected one of them, got more")
    shape, chip = _model(model), _gpu(gpu)
    usual = min(USUAL_CONTEXT, shape.position_limit or USUAL_CONTEXT)
    context = usual if context is None else context
    prompt = usual if prompt is None else prompt
    batches = [_whole("batch", part) for part in _parts("batch", batch)]
    names = _parts("precision", precision) if precision is not None else [None]
    steps: list[Estimate | Row] = []
    for size in batches:
        steps += [
            _attempt("decode", shape, chip, name, weights_only, size, context) for name in names
        ]
    prompts = [_attempt("prefill", shape, chip, name, weights_only, 1, prompt) for name in names]
    found = [*steps, *prompts]
    rows = [item if isinstance(item, Row) else Row.of(item) for item in found]
    if as_json:
        _print_json(_subject(shape, chip) | {"rows": [asdict(row) for row in rows]})
    elif as_csv:
        _print_csv([asdict(row) for row in rows])
    elif explain:
        print("\n\n".join(i.note if isinstance(i, Row) else i.explain() for i in found))
    else:
        _print_tables(shape, chip, rows, context, len(names))


def _attempt(
    phase: str,
    shape: ModelShape,
    chip: GpuSpec,
    precision: str | None,
    weights_only: bool,
    batch: int,
    length: int,
) -> Estimate | Row:
    """An estimate, or the line that says which format the chip lacks."""
    try:
        if phase == "prefill":
            return prefill(
                shape, chip, prompt=length, precision=precision, weights_only=weights_only
            )
        return decode(
            shape, chip, batch=batch, context=length, precision=precision, weights_only=weights_only
        )
    except UnsupportedFormatError as error:
        name = shape.resolve_precision(precision).name
        tokens = length if phase == "prefill" else batch
        return Row(phase=phase, precision=name, tokens=tokens, context=length, note=str(error))


def _print_tables(
    shape: ModelShape, chip: GpuSpec, rows: list[Row], context: int, precisions: int
) -> None:
    names = ", ".join(dict.fromkeys(row.precision for row in rows))
    print(f"{shape.name} ({shape.params:,} parameters) on {chip.name}, {names}")
    decode_rows = [row for row in rows if row.phase == "decode"]
    prefill_rows = [row for row in rows if row.phase == "prefill"]
    _print_table(f"decode, {context:,} tokens of context", "batch", decode_rows, precisions)
    _print_table("prefill, one prompt", "prompt", prefill_rows, precisions)
    print("Lower bounds at the roofs: ideal efficiency, dense peaks. --explain says how.")


def _print_table(title: str, first: str, rows: list[Row], precisions: int) -> None:
    table = _table(title=title, title_justify="left", title_style="")
    for heading in (first, "precision", "step ms", "weights ms", "KV ms", "math ms"):
        table.add_column(heading, justify="left" if heading == "precision" else "right")
    for heading in ("tokens/s", "per user"):
        table.add_column(heading, justify="right")
    for heading in ("limit", ""):
        table.add_column(heading)
    for number, row in enumerate(rows, start=1):
        times = (row.step_time, row.weight_read, row.kv_read, row.math)
        rates = (row.tokens_per_second, row.tokens_per_second_per_user)
        table.add_row(
            f"{row.tokens:,}",
            row.precision,
            *("-" if time is None else f"{time * 1e3:,.2f}" for time in times),
            *("-" if rate is None else f"{rate:,.0f}" for rate in rates),
            row.limit or "-",
            row.note,
            end_section=precisions > 1 and number % precisions == 0,
        )
    _print_rich(table)


# -- compare ----------------------------------------------------------------------------------


@app.command()
def compare(
    models: Annotated[list[str], typer.Argument(help="Models: keys, configs or folders.")],
    gpu: Annotated[list[str], typer.Option("--gpu", help="A key or a TOML file; may repeat.")],
    batch: Annotated[int, typer.Option(help="Sequences of the decode step.")] = 64,
    context: Context = None,
    precision: Precisions = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Compare decode steps of models, chips and precisions side by side."""
    shapes = [_model(name) for name in models]
    limits = [shape.position_limit or USUAL_CONTEXT for shape in shapes]
    context = min(USUAL_CONTEXT, *limits) if context is None else context
    found = compare_steps(
        shapes,
        [_gpu(name) for name in gpu],
        batch=batch,
        context=context,
        precisions=_parts("precision", precision) if precision is not None else [None],
    )
    if as_json:
        _print_json(
            {"batch": batch, "context": context, "rows": [_compared(r) for r in found.rows]}
        )
        return
    table = _table("model", "chip", "precision")
    for heading in ("step ms", "tokens/s", "per user"):
        table.add_column(heading, justify="right")
    for heading in ("limit", ""):
        table.add_column(heading)
    for row in found.rows:
        names = (row.model, row.gpu, row.precision)
        step = row.estimate
        if step is None:
            table.add_row(*names, "-", "-", "-", "-", row.unsupported)
            continue
        note = step.memory.shortfall() if step.fits is False else ""
        rate = step.tokens_per_second
        numbers = (f"{step.time * 1e3:,.2f}", f"{rate:,.0f}", f"{rate / batch:,.0f}")
        table.add_row(*names, *numbers, step.bound, note)
    print(f"decode, batch {batch:,}, {context:,} tokens of context")
    _print_rich(table)


def _compared(row: Any) -> dict[str, Any]:
    line = asdict(Row.of(row.estimate)) if row.estimate is not None else {"note": row.unsupported}
    return {"model": row.model, "gpu": row.gpu, "precision": row.precision} | line


# -- the catalog ------------------------------------------------------------------------------


@app.command()
def gpus() -> None:
    """List the chips of the catalog."""
    table = _table("key", "name", "bandwidth", "bf16 dense", "ridge FLOP/B", "memory")
    for key in catalog.gpus():
        chip = catalog.gpu(key)
        peak = chip.peak_flops.bf16
        table.add_row(
            key,
            chip.name,
            si(chip.memory_bandwidth, "B/s"),
            "-" if peak is None else si(peak, "FLOP/s", 4),
            "-" if peak is None else f"{peak / chip.memory_bandwidth:.0f}",
            "-" if chip.capacity is None else si(chip.capacity, "B"),
        )
    _print_rich(table)


@app.command()
def models() -> None:
    """List the models of the catalog."""
    table = _table("key", "name", "parameters", "KV a token, bf16")
    for key in catalog.models():
        shape = catalog.model(key)
        kv = f"{shape.kv_bytes_per_token('bf16'):,.0f} B"
        table.add_row(key, shape.name, f"{shape.params:,}", kv)
    _print_rich(table)


@app.command()
def show(
    key: Annotated[str, typer.Argument(help="A key of a chip or a model, or a file of one.")],
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of text.")] = False,
) -> None:
    """Show a chip or a model, with the origin of each value."""
    spec = _anything(key)
    if as_json:
        print(spec.model_dump_json(indent=2))
        return
    print(spec.name)
    for field, value in _values(spec):
        origin = next((o for o in spec.origins if o.field == field), None)
        print(f"  {field} = {value}" + ("" if origin is None else f"\n      {origin}"))
    if isinstance(spec, ModelShape):
        fields: dict[str, list[str]] = {}
        for origin in spec.origins:
            fields.setdefault(str(origin), []).append(origin.field)
        for origin_text, names in fields.items():
            print(f"  {', '.join(names)}\n      {origin_text}")
    for source in dict.fromkeys(o.source for o in spec.origins if o.source is not None):
        print(f"source {source.key}: {source.title}, {source.publisher} {source.date} {source.url}")


def _values(spec: GpuSpec | ModelShape) -> Iterable[tuple[str, str]]:
    if isinstance(spec, ModelShape):
        yield "parameters", f"{spec.params:,}"
        yield "weights", f"{si(spec.weight_bytes(), 'B', 4)} in {spec.resolve_precision().name}"
        if spec.has_cache:
            yield "KV a token", f"{spec.kv_bytes_per_token():,.0f} B"
    for name, value in _fields(spec):
        if name in ("name", "origins"):
            continue
        if isinstance(value, PeakFlops):
            for part, number in _fields(value):
                yield f"{name}.{part}", si(number, "FLOP/s", 4)
        elif isinstance(value, float):
            unit = "B/s" if name == "memory_bandwidth" else "B"
            yield name, si(value, unit, 4)
        elif name == "blocks":
            for repeats, layers in value:
                for layer in layers:
                    yield f"{repeats} x {layer.kind}", _sizes(layer)
        else:
            shown_value = value.name if isinstance(value, Precision) else str(value)
            yield name, _sizes(value) if isinstance(value, Embedding | Head) else shown_value


def _fields(spec: Spec) -> list[tuple[str, Any]]:
    every = ((name, getattr(spec, name)) for name in type(spec).model_fields)
    return [(name, value) for name, value in every if value is not None]


def _sizes(spec: Spec) -> str:
    return ", ".join(f"{name}={value}" for name, value in _fields(spec) if name != "kind")


# -- what is asked for ------------------------------------------------------------------------


def _model(name: str) -> ModelShape:
    """A key of the catalog before a file of the same name: ``./gpt2`` means the file."""
    if name not in catalog.models() and _is_path(name, ".json"):
        return read_hf(name)
    return catalog.model(name)


def _gpu(name: str) -> GpuSpec:
    if name not in catalog.gpus() and _is_path(name, ".toml"):
        return catalog.read_gpu(name)
    return catalog.gpu(name)


def _anything(key: str) -> GpuSpec | ModelShape:
    if key in catalog.gpus() or key.endswith(".toml"):
        return _gpu(key)
    if key in catalog.models() or _is_path(key, ".json"):
        return _model(key)
    known = [*catalog.gpus(), *catalog.models()]
    raise UnknownKeyError(f"no chip or model {shown(key)}; {did_you_mean(key, known)}")


def _is_path(name: str, suffix: str) -> bool:
    try:
        there = Path(name).exists()
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        there = False
    return there or name.endswith(suffix) or os.sep in name


def _parts(name: str, text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise InvalidValueError(f"--{name}: expected a list such as a,b,c, got {shown(text)}")
    return parts


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise InvalidValueError(f"--{name}: expected whole numbers, got {shown(text)}")
    return int(text)


def _subject(shape: ModelShape, chip: GpuSpec) -> dict[str, Any]:
    return {"model": shape.name, "params": shape.params, "gpu": chip.name}


# -- printing ---------------------------------------------------------------------------------


def _table(*headings: str, **options: Any) -> Table:
    """A table whose cells are taken literally: a name is no markup."""
    table = Table(box=None, pad_edge=False, **options)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _print_rich(table: Table) -> None:
    """Print a table at its full width: a terminal wraps it, but nothing is cut."""
    console = Console(width=10_000, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(table)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _print_csv(rows: list[dict[str, Any]]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    print(text.getvalue(), end="")
