"""An MkDocs hook: the arithmetic of the interactive page, printed from the library's own formulas.

A model of the catalog is asked for a step on symbols: sequences, tokens, bandwidth, peaks and
bytes a value. SymPy writes what comes back as one JavaScript function a model. Nothing here knows
a formula; chips, precisions and messages are data, taken from the library as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any, Final, NamedTuple

import sympy

import perfmodel as pm
from perfmodel import roofline
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.holding.record import memory_of
from perfmodel.answers.steps import estimate_unchecked
from perfmodel.base.errors import InvalidValueError, UnsupportedFormatError
from perfmodel.base.formats import Format
from perfmodel.base.precision import PRESETS, MatrixFormats, Precision
from perfmodel.base.spec import Spec
from perfmodel.interfaces.symbolic import any_gpu, bandwidth, batch, exact

SCRIPT: Final = "try/model.js"

# What a step is asked for, by the name of the property of ``Estimate`` that answers.
FIGURES: Final = (
    "time",
    "floor",
    "flops",
    "bytes",
    "intensity",
    "weight_traffic",
    "kv_traffic",
    "activation_traffic",
    "compute_time",
    "memory_time",
    "tokens_per_second",
)
TRAFFIC: Final = ("weight", "kv", "activation")
HELD: Final = ("weights", "kv", "state", "needed")
COSTS: Final = ("flops", "weight_bytes", "least_weight_bytes", "activation_bytes", "kv_bytes")
OF_ROW: Final = ("flops", "bytes", "compute_time", "memory_time", "time")

# Bytes of the matrices of a part: a weight, a row of weights, an input, an output.
NAMES: Final = {"linear": ("w", "r", "i", "o"), "head": ("hw", "hr", "hi", "ho")}

# What the cache may hold, and what may be computed in, instead of what a precision says.
CACHES: Final = ("bf16", "fp8", "int8", "nvfp4")
COMPUTES: Final = ("bf16", "fp16", "fp32", "fp8", "int8")

# New tokens of a sequence, and those before them. Names are JavaScript as they stand.
new: Final = sympy.Symbol("N", positive=True)
past: Final = sympy.Symbol("P", nonnegative=True)


# -- a step on symbols --------------------------------------------------------------------------


class AnyChip(pm.GpuSpec):
    """A chip whose peaks are symbols, one for each part of a precision and each format."""

    def peak(self, compute: str) -> Any:
        """The peak of what a part computes in, as ``F.linear`` [FLOP/s]."""
        return sympy.Symbol(f"F.{compute}", positive=True)


def any_precision() -> Precision:
    """A precision whose formats are symbols: bytes a value, and bytes a matrix row."""
    return Precision.trusted(
        name="any",
        linear=_any_formats("linear"),
        head=_any_formats("head"),
        kv=_any_format("kv"),
        attention="attention",
        state=_any_format("state"),
        parts=(),
    )


def _any_formats(part: str) -> MatrixFormats:
    weight, row, inputs, outputs = NAMES[part]
    return MatrixFormats.trusted(
        weights=_any_format(weight, row),
        inputs=_any_format(inputs),
        outputs=_any_format(outputs),
        compute=part,
    )


def _any_format(value: str, row: str | None = None) -> Format:
    """So many bytes a value, a block's share of its scale included; and perhaps some a row."""
    scale = 0 if row is None else 8 * _bytes(row)
    return Format.trusted(name=value, bits=8 * _bytes(value), scale_bits=scale, block=None)


def _bytes(name: str) -> sympy.Symbol:
    return sympy.Symbol(f"b.{name}", positive=True)


def bytes_of(precision: Precision) -> dict[str, float]:
    """The numbers that take the place of the symbols of ``any_precision`` [B]."""
    found = {"kv": precision.kv.nbytes(1), "state": precision.state.nbytes(1)}
    for part, formats in (("linear", precision.linear), ("head", precision.head)):
        weights, inputs, outputs = formats.weights, formats.inputs, formats.outputs
        values = (weights.nbytes(1), weights.nbytes(0, 1), inputs.nbytes(1), outputs.nbytes(1))
        found |= zip(NAMES[part], values, strict=True)
    return found


def computes_of(precision: Precision) -> dict[str, str]:
    """What each part of a precision computes in."""
    linear, head = precision.linear.compute, precision.head.compute
    return {"linear": linear, "head": head, "attention": precision.attention}


class Known(NamedTuple):
    """A layer of which nothing is known but its operations."""

    found: tuple[pm.Operation, ...]

    def operations(self, *_: Any) -> tuple[pm.Operation, ...]:
        """The operations, whatever the step."""
        return self.found


class Asked(NamedTuple):
    """A step on symbols: what its operations cost, their times, and what memory holds."""

    costs: dict[sympy.Symbol, Any]
    times: Estimate  # on the symbols of the costs
    memory: pm.DeviceMemory


def step_of(model: pm.ModelShape, precision: Precision | None) -> Asked:
    """A step of so many sequences of ``new`` tokens after ``past`` ones, all of them symbols.

    SymPy takes its time to compare long expressions, as a roof does. So the times are asked of a
    model whose operations cost one symbol each.
    """
    shape = exact(model)
    chip = AnyChip.trusted(**fields(any_gpu()))
    group = pm.Group.trusted(count=batch, new=new, past=past, logits=1, shared_past=0)
    step = pm.Step.trusted(groups=(group,))
    formats = shape.resolve_precision(precision)
    costs: dict[sympy.Symbol, Any] = {}
    operations = tuple(priced(one, costs) for one in pm.forward(shape, step, formats))
    alone = {"blocks": ((1, (Known(operations),)),), "embedding": None, "head": None}
    known = pm.ModelShape.trusted(**fields(shape) | alone)
    times = estimate_unchecked("step", known, chip, step.groups, precision=formats)
    return Asked(costs, times, memory_of(shape, chip, step, formats))


def priced(operation: pm.Operation, costs: dict[sympy.Symbol, Any]) -> pm.Operation:
    """An operation each of whose costs is a symbol, and ``costs`` says what it stands for."""
    symbols = {}
    for name in COSTS:
        cost = sympy.sympify(getattr(operation, name))
        if cost.is_zero:
            continue
        known = (symbol for symbol, other in costs.items() if other == cost)
        symbols[name] = next(known, sympy.Symbol(f"q{len(costs)}", positive=True))
        costs[symbols[name]] = cost
    return pm.Operation.trusted(**fields(operation) | symbols)


def fields(spec: Spec) -> dict[str, Any]:
    """The fields of a record, without what it has worked out since."""
    return {name: getattr(spec, name) for name in type(spec).model_fields}


# -- as JavaScript ------------------------------------------------------------------------------


def function(costs: dict[sympy.Symbol, Any], figures: dict[str, Any]) -> str:
    """A JavaScript function of the figures; what they share is worked out once.

    A figure is an expression, or rows of them.
    """
    flat: list[Any] = []
    for figure in figures.values():
        flat += [x for row in figure for x in row] if isinstance(figure, list) else [figure]
    parts, priced = common(costs.values(), "x")
    more, found = common(flat, "y")
    rest = iter(found)

    def printed(figure: Any) -> str:
        if not isinstance(figure, list):
            return code(next(rest))
        return (
            f"[{','.join('[' + ','.join(code(next(rest)) for _ in row) + ']' for row in figure)}]"
        )

    named = [*parts, *zip(costs, priced, strict=True), *more]
    constants = ",".join(f"{symbol}={code(part)}" for symbol, part in named)
    answers = ",".join(f"{figure}:{printed(value)}" for figure, value in figures.items())
    return f"(B,N,P,beta,F,b)=>{{\nconst {constants};\nreturn {{{answers}}};\n}}"


def common(expressions: Iterable[Any], letter: str) -> tuple[list[Any], list[Any]]:
    """What expressions share, by name, and what they are with it."""
    names = sympy.numbered_symbols(letter)
    return sympy.cse([sympy.sympify(x) for x in expressions], names, order="none")  # type: ignore[no-any-return]


def code(expression: Any) -> str:
    """An expression as JavaScript, without the blanks."""
    return str(sympy.jscode(expression)).replace(" ", "")


class Form(NamedTuple):
    """What a model does in a step: its figures as JavaScript, and what its operations are."""

    body: str
    operations: tuple[tuple[str, str, str], ...]  # name, kind, what it computes in


@cache
def form(model: pm.ModelShape, *, own: bool = False) -> Form:
    """The form of a model, in a precision of symbols or in that of its checkpoint."""
    costs, step, memory = step_of(model, None if own else any_precision())
    figures: dict[str, Any] = {name: getattr(step, name) for name in FIGURES}
    for name in TRAFFIC:
        traffic = getattr(step, f"{name}_traffic")
        figures[f"{name}_time"] = roofline.memory_time(nbytes=traffic, bandwidth=bandwidth)
    figures |= {name: getattr(memory, name) for name in HELD}
    rows = step.rows()
    figures["rows"] = [
        [getattr(row, name) for name in OF_ROW] + [row.operation.intensity] for row in rows
    ]
    kinds = [(row.operation.name, row.operation.kind, row.operation.compute) for row in rows]
    return Form(function(costs, figures), tuple(kinds))


class Numbered(dict[Any, int]):
    """Things by number, equal ones once."""

    def number(self, thing: Any) -> int:
        """The number of a thing."""
        return self.setdefault(thing, len(self))


def roofs() -> str:
    """The roof and the ridge of a chip, as functions."""
    peak, intensity = sympy.symbols("F I", positive=True)
    roof = roofline.attainable(intensity=intensity, peak=peak, bandwidth=bandwidth)
    ridge = roofline.ridge(peak=peak, bandwidth=bandwidth)
    return "\n".join(
        (
            f"const attainable=(I,F,beta)=>{code(roof)};",
            f"const ridge=(F,beta)=>{code(ridge)};",
        )
    )


# -- the catalog --------------------------------------------------------------------------------


def chips(refusals: Numbered) -> dict[str, dict[str, Any]]:
    """Every chip: what the roofs and the memory need, and what it says of formats it lacks."""
    found = {}
    for key in pm.gpus():
        gpu = pm.gpu(key)
        peaks = {name: getattr(gpu.peak_flops, name) for name in gpu.peak_flops.formats}
        lacking = [name for name in type(gpu.peak_flops).model_fields if name not in peaks]
        found[key] = {
            "name": gpu.name,
            "vendor": gpu.vendor or gpu.name.split()[0],
            "bandwidth": gpu.memory_bandwidth,
            "peaks": peaks,
            "capacity": gpu.capacity,
            "lacks": {name: refusals.number(refusal(gpu, name)) for name in lacking},
        }
    return found


def refusal(gpu: pm.GpuSpec, compute: str) -> str:
    """What a chip says of a format that it lacks, with gaps for what its data say."""
    try:
        gpu.peak(compute)
    except UnsupportedFormatError as error:
        has = ", ".join(gpu.peak_flops.formats)
        gaps = {gpu.name: "{chip}", f"no {compute} peak": "no {format} peak", has: "{formats}"}
        text = str(error)
        for said, gap in gaps.items():
            text = text.replace(said, gap, 1)
        return text
    raise AssertionError(f"{gpu.name} has a {compute} peak")


def precisions() -> dict[str, dict[str, Any]]:
    """Every preset as it is, and computed in each other format that is as wide or wider."""
    found = {}
    for preset in PRESETS:
        stored = Precision.preset(preset)
        ways = {"": {"suffix": "", **in_numbers(stored)}}
        for compute in COMPUTES:
            try:
                wider = stored.computing(compute)
            except InvalidValueError:  # narrower than all its parts
                continue
            if wider is not stored:
                ways[compute] = {"suffix": wider.name.removeprefix(preset), **in_numbers(wider)}
        found[preset] = ways
    return found


def in_numbers(precision: Precision) -> dict[str, Any]:
    """A precision: bytes of its formats, and what its parts compute in."""
    return {"bytes": bytes_of(precision), "computes": computes_of(precision)}


def caches() -> dict[str, dict[str, Any]]:
    """What a cache may be stored in: how that is written behind a preset, and its bytes."""
    found = {}
    for name in CACHES:
        other = Precision.preset("fp32", kv=name)
        suffix = other.name.removeprefix("fp32")
        found[name] = {"suffix": suffix, "bytes": other.kv.nbytes(1)}
    return found


def models(forms: Numbered, operations: Numbered) -> dict[str, dict[str, Any]]:
    """Every model: its form, its operations, where its context ends, how it was released."""

    def formed(shape: pm.ModelShape, *, own: bool = False) -> dict[str, int]:
        one = form(shape, own=own)
        return {"form": forms.number(one.body), "operations": operations.number(one.operations)}

    found = {}
    for key in pm.models():
        model = pm.model(key)
        # Equal shapes have equal forms, whatever they are called.
        shape = pm.ModelShape.trusted(**fields(model) | {"name": "", "origins": ()})
        found[key] = {"name": model.name, "family": key.partition("-")[0], **formed(shape)}
        if model.position_limit is not None:
            found[key]["positions"] = positions(model, model.position_limit)
        own = model.precision
        if own is not None and own.name in PRESETS:
            found[key]["preset"] = own.name
        elif own is not None:
            parts = formed(shape, own=True) if own.parts else {}
            found[key]["released"] = {"name": own.name, **in_numbers(own), **parts}
    return found


def positions(model: pm.ModelShape, limit: int) -> dict[str, Any]:
    """The learned positions of a model, and what it says of a longer context."""
    try:
        model.require_positions(limit + 1)
    except InvalidValueError as error:
        return {"limit": limit, "refusal": str(error).replace(str(limit + 1), "{context}")}
    raise AssertionError(f"{model.name} has no last position")


def script() -> str:
    """The whole file: the functions, and what they are handed."""
    forms, operations, refusals = Numbered(), Numbered(), Numbered()
    data = {
        "chips": chips(refusals),
        "precisions": precisions(),
        "caches": caches(),
        "models": models(forms, operations),
        "operations": list(operations),
        "refusals": list(refusals),
        "row": (*OF_ROW, "intensity"),
    }
    return "\n".join(
        (
            "// Generated by docs/_try.py from the formulas of perfmodel: not to be edited.",
            '"use strict";',
            "const perfmodel = (() => {",
            roofs(),
            "const forms=[",
            ",\n".join(forms),
            "];",
            f"const data={json.dumps(data, ensure_ascii=False, separators=(',', ':'))};",
            "return {attainable,ridge,forms,...data};",
            "})();",
            "",
        )
    )


# -- what MkDocs calls --------------------------------------------------------------------------


@cache
def built() -> str:
    """The script, written once, however often the pages are built again."""
    return script()


def on_files(files: Any, *, config: Any) -> Any:
    """Add the script to what is built."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, SCRIPT, content=built()))
    return files
