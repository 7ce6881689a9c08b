"""The command line: thin, every number comes from the library."""

from __future__ import annotations

import io
import os
import re
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from perfmodel.answers.calibrate import calibrate as calibrate_to
from perfmodel.answers.compare import compare as compare_steps
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.memory import max_batch
from perfmodel.answers.planning.demand import Slo
from perfmodel.answers.planning.plan import largest_load
from perfmodel.answers.planning.plan import plan as plan_chips
from perfmodel.answers.ridges import ridge_intensity
from perfmodel.answers.serving.serve import serve as serve_requests
from perfmodel.answers.serving.workload import Workload
from perfmodel.answers.steps import decode, prefill
from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import (
    InvalidValueError,
    PerfModelError,
    UnknownKeyError,
    UnsupportedFormatError,
    UnsupportedGroupError,
    one_line,
)
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Origin
from perfmodel.base.units import si
from perfmodel.interfaces import _axes
from perfmodel.interfaces._tables import (
    Row,
    frame_rows,
    frame_table,
    plain_table,
    plans_table,
    print_csv,
    print_json,
    print_table,
    serving_row,
    serving_table,
    step_table,
)
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources import catalog
from perfmodel.sources.efficiency_file import read_efficiency
from perfmodel.sources.huggingface import read_hf
from perfmodel.sources.prices import prices
from perfmodel.work.parallel import Parallelism
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
_USUAL: Final = f"Default: {USUAL_CONTEXT}, or as many as there are learned positions."

Model = Annotated[
    str,
    typer.Argument(help="A catalog key, a config.json, or a folder with one.", metavar="MODEL"),
]
Gpus = Annotated[
    list[str], typer.Option("--gpu", help="A catalog key or a TOML file.", metavar="GPU")
]
Precisions = Annotated[
    str | None,
    typer.Option(help="One or more, as bf16,fp8,w4a16. Default: the checkpoint's own, else bf16."),
]
Engine = Annotated[
    str | None,
    typer.Option(help="Expect what this engine reaches: vllm, sglang, trtllm, or auto for any."),
]
Expected = Annotated[
    str | None,
    typer.Option(
        "--efficiency",
        help="Expect what a TOML file says, as perfmodel calibrate writes it; or auto, or ideal.",
        metavar="FILE",
    ),
]
Tensor = Annotated[str, typer.Option(help="Devices that share each matrix.", metavar="N")]
Pipeline = Annotated[str, typer.Option(help="Stages that share the blocks.", metavar="N")]
Expert = Annotated[str, typer.Option(help="Devices that share the experts.", metavar="N")]
Data = Annotated[str, typer.Option(help="Replicas that share the sequences.", metavar="N")]
Context = Annotated[
    str | None,
    typer.Option(help=f"Tokens that each new token attends. {_USUAL}", metavar="TOKENS"),
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
    print("perfmodel: " + one_line(message), file=sys.stderr)
    return 2


@app.callback()
def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(sys.modules["perfmodel"].__version__)  # no import points up
    elif context.invoked_subcommand is None:
        print(context.get_help())


# -- predict ----------------------------------------------------------------------------------


@app.command()
def predict(
    model: Model,
    gpu: Gpus,
    batch: Annotated[
        str, typer.Option(help="Sequences of a decode step, one or more.")
    ] = "1,8,64,256,512,1024",
    context: Context = None,
    prompt: Annotated[
        str | None,
        typer.Option(help=f"Tokens of the prompt, for prefill. {_USUAL}", metavar="TOKENS"),
    ] = None,
    precision: Precisions = None,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    engine: Engine = None,
    efficiency: Expected = None,
    weights_only: Annotated[
        bool, typer.Option("--weights-only", help="Count the weights alone: no KV, no activations.")
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
    if len(gpu) > 1:
        raise InvalidValueError(
            f"--gpu: expected one, got {len(gpu)}; perfmodel compare takes several"
        )
    shape, chip = _model(model), _gpu(gpu[0])
    attended = _length("context", context, [shape])
    read = _length("prompt", prompt, [shape])
    names = _precisions(precision)
    sizes = [_whole("batch", part) for part in _parts("batch", batch)]
    asked = [("decode", size, attended, name) for size in sizes for name in names]
    asked += [("prefill", 1, read, name) for name in names]
    ways = _parallelism(tensor, pipeline, expert, data)
    options: dict[str, Any] = {"weights_only": weights_only, "parallelism": ways}
    options |= _expecting(engine, efficiency)
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


# -- compare ----------------------------------------------------------------------------------


@app.command()
def compare(
    models: Annotated[
        list[str],
        typer.Argument(help="Catalog keys, config.json files or folders.", metavar="MODEL..."),
    ],
    gpu: Annotated[
        list[str],
        typer.Option(help="A catalog key or a TOML file; once for each chip.", metavar="GPU"),
    ],
    batch: Annotated[
        str, typer.Option(help="Sequences of the decode step.", metavar="SEQUENCES")
    ] = "64",
    context: Context = None,
    precision: Precisions = None,
    tensor: Tensor = "1",
    pipeline: Pipeline = "1",
    expert: Expert = "1",
    data: Data = "1",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Compare decode steps of models, chips and precisions."""
    shapes = [_model(name) for name in models]
    size, attended = _whole("batch", batch), _length("context", context, shapes)
    found = compare_steps(
        shapes,
        [_gpu(name) for name in gpu],
        batch=size,
        context=attended,
        precisions=_precisions(precision),
        parallelism=_parallelism(tensor, pipeline, expert, data),
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


# -- calibrate --------------------------------------------------------------------------------


@app.command()
def calibrate(
    measurements: Annotated[
        str,
        typer.Argument(help="A CSV of kernels or of steps, times in seconds.", metavar="FILE"),
    ],
    gpu: Annotated[str, typer.Option("--gpu", help="A catalog key or a TOML file.", metavar="GPU")],
    model: Annotated[
        str | None, typer.Option(help="Model of steps that name none.", metavar="MODEL")
    ] = None,
    precision: Annotated[str | None, typer.Option(help="Precision of rows that name none.")] = None,
    tensor: Tensor = "1",
    engine: Engine = None,
    base: Annotated[
        str, typer.Option(help="What holds where rows say nothing: auto, ideal, or a TOML file.")
    ] = "auto",
    source: Annotated[
        str, typer.Option(help="Where the measurements come from, in words.", metavar="TEXT")
    ] = "",
    out: Annotated[
        str | None, typer.Option(help="Write the efficiency to this TOML file.", metavar="FILE")
    ] = None,
) -> None:
    """Fit what is expected to measurements of your own, and say what it misses."""
    found = calibrate_to(
        measurements,
        _gpu(gpu),
        model=None if model is None else _model(model),
        precision=precision,
        parallelism=_parallelism(tensor, "1", "1", "1"),
        base=base if base in ("auto", "ideal") else read_efficiency(base),  # type: ignore[arg-type]
        engine=None if engine == "auto" else engine,
        source=source,
    )
    print(found.explain())
    if out is not None:
        found.write(out)
        print(f"written: {out}; perfmodel predict ... --efficiency {out}")


# -- serve ------------------------------------------------------------------------------------


@app.command()
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
    asked = _workloads(prompt, output, trace, prefix, concurrency, rate)
    found = [
        serve_requests(
            _model(model),
            _gpu(gpu[0]),
            workload,
            precision=precision,
            scheduler=scheduler,
            parallelism=_parallelism(tensor, pipeline, expert, data),
            **_expecting(engine, efficiency),
        )
        for workload in asked
    ]
    if as_json:
        print_json({"rows": [serving_row(one) for one in found]})
    elif explain:
        print("\n\n".join(one.explain() for one in found))
    else:
        print_table(serving_table(found))


def _workloads(
    prompt: str | None,
    output: str | None,
    trace: str | None,
    prefix: str,
    concurrency: str | None,
    rate: str | None,
    *,
    users: str = "concurrency",
) -> list[Workload]:
    """One workload for each number of users or rate that was asked for; an option's name."""
    if concurrency is not None and rate is not None:
        raise InvalidValueError(f"--{users}, --rate: expected one of them, got both")
    name, text = ("rate", rate) if concurrency is None else ("concurrency", concurrency)
    asked = "rate" if name == "rate" else users
    many = [None] if text is None else [_number(asked, part) for part in _parts(asked, text)]
    cached = _whole("prefix", prefix)
    if trace is not None:
        if prompt is not None or output is not None:
            raise InvalidValueError("--trace: expected it or --prompt and --output, got both")
        return [Workload.from_trace(trace, prefix=cached, **{name: one}) for one in many]
    if prompt is None or output is None:
        raise InvalidValueError("--prompt, --output: expected both, or --trace, got less")
    if text is None:
        raise InvalidValueError(f"--{users}: expected it, --rate or --trace, got none")
    lengths = {"prompt": _whole("prompt", prompt), "output": _whole("output", output)}
    return [Workload(**lengths, prefix=cached, **{name: one}) for one in many]


# -- sweep ------------------------------------------------------------------------------------

MAX_PRINTED: Final = 10_000  # rows


@app.command()
def sweep(
    models: Annotated[
        list[str],
        typer.Argument(help="Catalog keys, config.json files or folders.", metavar="MODEL..."),
    ],
    gpu: Annotated[
        list[str],
        typer.Option(help="A catalog key or a TOML file; once for each chip.", metavar="GPU"),
    ],
    batch: Annotated[str, typer.Option(help=f"Sequences: {_axes.HOW}", metavar="AXIS")] = "1..256",
    context: Annotated[
        str | None,
        typer.Option(help=f"Tokens that each new token attends: an axis. {_USUAL}", metavar="AXIS"),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="Instead: tokens of prompts, for prefill.", metavar="AXIS")
    ] = None,
    precision: Precisions = None,
    tensor: Annotated[
        str, typer.Option(help="Devices that share each matrix.", metavar="AXIS")
    ] = "1",
    pipeline: Annotated[
        str, typer.Option(help="Stages that share the blocks.", metavar="AXIS")
    ] = "1",
    expert: Annotated[
        str, typer.Option(help="Devices that share the experts.", metavar="AXIS")
    ] = "1",
    data: Annotated[
        str, typer.Option(help="Replicas that share the sequences.", metavar="AXIS")
    ] = "1",
    engine: Annotated[
        str | None, typer.Option(help="One or more, as vllm,sglang; auto for any, ideal for none.")
    ] = None,
    efficiency: Expected = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave out what cannot be, and say so at the end.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="Names of columns, as batch,time,low,high.", metavar="NAMES")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write to a Parquet file, of any length.", metavar="FILE")
    ] = None,
    progress: Annotated[
        bool, typer.Option("--progress", help="Show how far a file is written.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Combine models, chips, precisions, devices, batches and lengths: one long table."""
    from perfmodel.interfaces.sweep import sweep as sweep_steps

    if out is not None and as_json:
        raise InvalidValueError("--out, --json: expected one of them, got both")
    if progress and out is None:
        raise InvalidValueError("--progress: expected only with --out")
    shapes = [_model(name) for name in models]
    ways, wrong = _divisions(tensor, pipeline, expert, data, skip)
    table = sweep_steps(
        _one_or_all(shapes),
        _one_or_all([_gpu(name) for name in gpu]),
        batch=_axes.numbers("batch", batch),
        **_lengths(context, prompt, shapes),
        precision=_one_or_all(_precisions(precision)),
        parallelism=_one_or_all(ways),
        **_several_engines(engine, efficiency),
        skip=skip,
    )
    names = None if columns is None else _parts("columns", columns)
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
    if context is not None and prompt is not None:
        raise InvalidValueError("--context, --prompt: expected one of them, got both")
    if prompt is not None:
        return {"prompt": _axes.numbers("prompt", prompt)}
    usual = _length("context", None, shapes)
    return {"context": [usual] if context is None else _axes.numbers("context", context)}


def _divisions(
    tensor: str, pipeline: str, expert: str, data: str, skip: bool
) -> tuple[list[Parallelism], list[str]]:
    """Every combination of these sizes that is a division, and why others are none."""
    given = {"tensor": tensor, "pipeline": pipeline, "expert": expert, "data": data}
    axes = {name: _axes.numbers(name, text) for name, text in given.items()}
    found: list[Parallelism] = []
    wrong: list[str] = []
    for sizes in product(*axes.values()):
        try:
            found.append(Parallelism(**dict(zip(axes, sizes, strict=True))))
        except InvalidValueError as error:
            if not skip:
                raise
            wrong.append(str(error))
    if not found:
        raise InvalidValueError(wrong[0])
    return found, wrong


def _several_engines(text: str | None, efficiency: str | None) -> dict[str, Any]:
    if text is None or efficiency is not None:
        return _expecting(text, efficiency)
    names = _parts("engine", text)
    if {"auto", "ideal"} <= set(names):
        raise InvalidValueError(f"--engine: expected auto or ideal, got both in {shown(text)}")
    engines = [None if name in ("auto", "ideal") else name for name in names]
    known = "auto" if "auto" in names else "ideal"
    return {"engine": _one_or_all(engines), "efficiency": known}


# -- plan -------------------------------------------------------------------------------------


@app.command()
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
    (work,) = _workloads(prompt, output, trace, prefix, users, rate, users="users")
    targets = {"ttft": ttft, "tpot": tpot, "end_to_end": end_to_end}
    options: dict[str, Any] = {
        "slo": Slo(**{n: _number(n, text) for n, text in targets.items() if text is not None}),
        "gpus": None if not gpu else [_gpu(name) for name in gpu],
        "precisions": _precisions(precision),
        "prices": _prices(price, gpu),
        "pools": pools,
    } | _expecting(engine, efficiency)
    if devices is not None:
        found = largest_load(_model(model), work, devices=_whole("devices", devices), **options)
    else:
        limit = None if max_devices is None else _whole("max-devices", max_devices)
        found = plan_chips(_model(model), work, max_devices=limit, **options)
    rows = found.rows if every else found.by_chip
    if as_json:
        print_json({"rows": [one.row() for one in rows]})
    elif explain:
        print(found.explain())
    else:
        print_table(plans_table(rows))


def _prices(given: list[str] | None, gpus: list[str] | None) -> dict[str, Any] | None:
    """Prices as ``h100-sxm=2.5``, over the shipped ones."""
    if not given:
        return None
    found: dict[str, Any] = dict(prices())
    for text in given:
        name, _, per_hour = text.rpartition("=")
        if not name:
            raise InvalidValueError(
                f"--price: expected a chip and USD an hour, as h100-sxm=2.5, got {shown(text)}"
            )
        key = _gpu(name).name if name in (gpus or ()) and name not in catalog.gpus() else name
        found[key] = _number("price", per_hour)
    return found


# -- the catalog ------------------------------------------------------------------------------


@app.command()
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


@app.command()
def models() -> None:
    """List the models of the catalog."""
    table = plain_table("", "key", "name", "parameters", "KV a token, bf16")
    for key in catalog.models():
        shape = catalog.model(key)
        kv = f"{shape.kv_bytes_per_token('bf16'):,.0f} B"
        table.add_row(key, shape.name, f"{shape.params:,}", kv)
    print_table(table)


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


def _precisions(text: str | None) -> list[str | None]:
    return [None] if text is None else list(_parts("precision", text))


def _expecting(engine: str | None, efficiency: str | None) -> dict[str, Any]:
    if efficiency is not None:
        if engine is not None:
            raise InvalidValueError("--engine, --efficiency: expected one of them, got both")
        named = efficiency in ("auto", "ideal")
        return {"efficiency": efficiency if named else read_efficiency(efficiency)}
    if engine is None:
        return {}
    return {"efficiency": "auto"} if engine == "auto" else {"engine": engine}


def _parallelism(tensor: str, pipeline: str, expert: str, data: str) -> Parallelism:
    return Parallelism(
        tensor=_whole("tensor", tensor),
        pipeline=_whole("pipeline", pipeline),
        expert=_whole("expert", expert),
        data=_whole("data", data),
    )


def _length(name: str, text: str | None, shapes: list[ModelShape]) -> int:
    """A length as given, else the usual one, as far as learned positions reach."""
    if text is not None:
        return _whole(name, text)
    return min(USUAL_CONTEXT, *(shape.position_limit or USUAL_CONTEXT for shape in shapes))


def _number(name: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", text):
        raise InvalidValueError(f"--{name}: expected numbers, got {shown(text)}")
    return float(text)


def _whole(name: str, text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise InvalidValueError(f"--{name}: expected whole numbers, got {shown(text)}")
    return int(text)
