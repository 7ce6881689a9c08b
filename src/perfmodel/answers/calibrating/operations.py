"""Lone kernels as a table has them: each row becomes the library's own operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from perfmodel.answers.calibrating.fitting import Array
from perfmodel.answers.calibrating.table import Row, check_columns
from perfmodel.answers.calibrating.work import floor, gathered, kernel_times
from perfmodel.base.errors import PerfModelError
from perfmodel.base.precision import Precision
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import network_time
from perfmodel.work.collective import Collective
from perfmodel.work.layers import Attention, LatentAttention, MixtureOfExperts
from perfmodel.work.operation import Operation, gemm
from perfmodel.work.step import Group, Step


class Columns(NamedTuple):
    """What a row of one kind says."""

    shape: tuple[str, ...]  # what is held out whole
    sizes: tuple[str, ...]
    options: tuple[str, ...] = ()

    @property
    def every(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.shape, *self.sizes, *self.options)


_HEADS: Final = ("heads", "kv_heads", "head_dim")
_LATENT: Final = {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}  # DeepSeek's
COLLECTIVES: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
KINDS: Final[Mapping[str, Columns]] = {
    "matrix": Columns(("inner", "outer"), ("tokens",)),
    "decode-attention": Columns(_HEADS, ("batch", "context"), ("window",)),
    "prefill-attention": Columns(_HEADS, ("batch", "prompt"), ("past", "window", "attention")),
    "latent-decode": Columns(("heads",), ("batch", "context"), tuple(_LATENT)),
    "latent-prefill": Columns(("heads",), ("batch", "prompt"), ("past", *_LATENT)),
    "experts": Columns(("hidden", "width"), ("experts", "top_k", "tokens"), ("tensor", "expert")),
    **dict.fromkeys(COLLECTIVES, Columns(("bytes",), ("devices",))),
}
_COMMON: Final = ("kind", "precision", "seconds", "note")


class Measured(NamedTuple):
    """All rows of one kernel or collective."""

    name: str  # "matrix.bf16", "all-reduce"
    rows: Sequence[Row]
    shapes: Sequence[str]
    sizes: Sequence[str]
    floors: Array  # s
    time: Callable[[Efficiency], Array]  # of each row [s]


def measured_operations(rows: Sequence[Row], gpu: GpuSpec, precision: Precision) -> list[Measured]:
    """The rows of each kernel and collective.

    Raises
    ------
    ConfigError
        If there is a column that no kind has.
    InvalidValueError
        If a row is of no kind, or its sizes are none, or the chip cannot do it.
    """
    check_columns(rows, {name for one in KINDS.values() for name in one.every} | set(_COMMON))
    kernels: dict[str, list[tuple[Row, list[Operation]]]] = {}
    exchanges: dict[str, list[tuple[Row, Collective]]] = {}
    for row in rows:
        kind = row.choice("kind", KINDS)
        row.only((*KINDS[kind].every, *_COMMON), kind)
        try:
            row.seconds  # noqa: B018  an error now, while the row is known
            if kind in COLLECTIVES:
                exchanges.setdefault(kind, []).append((row, _collective(row, kind)))
            else:
                work = _OPERATIONS[kind](row, _precision(row, precision))
                floor(work, gpu)
                kernels.setdefault(work[0].kernel.name, []).append((row, work))
        except PerfModelError as error:
            row.explain(error)
    found = [_of_kernel(name, pairs, gpu) for name, pairs in kernels.items()]
    return found + [_of_collective(kind, pairs, gpu) for kind, pairs in exchanges.items()]


def _keys(rows: Sequence[Row], columns: Callable[[Columns], Sequence[str]]) -> list[str]:
    """A name for the sizes of each row."""
    return [row.key(columns(KINDS[row.text("kind")])) for row in rows]


# -- kernels ---------------------------------------------------------------------------------------


def _of_kernel(name: str, pairs: Sequence[tuple[Row, list[Operation]]], gpu: GpuSpec) -> Measured:
    import numpy as np

    rows, works = [row for row, _ in pairs], [work for _, work in pairs]
    calls = gathered(works, gpu)
    return Measured(
        name,
        rows,
        _keys(rows, lambda of: of.shape),
        _keys(rows, lambda of: of.every),
        np.array([floor(work, gpu) for work in works]),
        lambda efficiency: kernel_times(calls, efficiency, gpu, len(rows)),
    )


def _precision(row: Row, usual: Precision) -> Precision:
    precision = Precision.parse(row.text("precision")) if row.has("precision") else usual
    if not row.has("attention"):
        return precision
    return _attending(precision, row.choice("attention", ("bf16", "fp8")))


@lru_cache(maxsize=64)
def _attending(precision: Precision, compute: str) -> Precision:
    name = f"{precision.name}, attention in {compute}"
    return precision.model_copy(update={"name": name, "attention": compute})


def _matrix(row: Row, precision: Precision) -> list[Operation]:
    sizes = {name: row.count(name) for name in ("inner", "outer", "tokens")}
    return [gemm(**sizes, precision=precision)]


def _attention(row: Row, precision: Precision) -> list[Operation]:
    window = row.count("window", 0, least=0)
    layer = Attention(**{name: row.count(name) for name in _HEADS}, window=window or None)
    return _attended(layer, row, precision)


def _latent(row: Row, precision: Precision) -> list[Operation]:
    sizes = {name: row.count(name, usual, least=0) for name, usual in _LATENT.items()}
    return _attended(LatentAttention(heads=row.count("heads"), **sizes), row, precision)


def _attended(
    layer: Attention | LatentAttention, row: Row, precision: Precision
) -> list[Operation]:
    if "context" in KINDS[row.text("kind")].sizes:
        new, past = 1, row.count("context") - 1
    else:
        # One token is decode, and another kernel.
        new, past = row.count("prompt", least=2), row.count("past", 0, least=0)
    step = Step(groups=(Group(count=row.count("batch"), new=new, past=past),))
    found = layer.operations(_ANY_WIDTH, step, precision, 1)
    return [op for op in found if op.kind == "attention"]


_ANY_WIDTH: Final = 1024  # of the residual stream, which attention itself does not see


def _experts(row: Row, precision: Precision) -> list[Operation]:
    tensor = row.count("tensor", 1)
    width = row.count("width")
    if width % tensor:
        row.refuse(f"tensor: expected a divisor of width={width}, got {tensor}")
    layer = MixtureOfExperts(
        experts=row.count("experts"),
        top_k=row.count("top_k"),
        width=width // tensor,
        spread=row.count("expert", 1),
    )
    step = Step(groups=(Group(count=row.count("tokens"), new=1),))
    found = layer.operations(row.count("hidden"), step, precision, 1)
    return [op for op in found if op.kind == "experts"]


_OPERATIONS: Final[Mapping[str, Callable[[Row, Precision], list[Operation]]]] = {
    "matrix": _matrix,
    "decode-attention": _attention,
    "prefill-attention": _attention,
    "latent-decode": _latent,
    "latent-prefill": _latent,
    "experts": _experts,
}


# -- collectives -----------------------------------------------------------------------------------


def _collective(row: Row, kind: str) -> Collective:
    size = row.count("bytes")
    return Collective(
        name=kind, kind=kind, nbytes=float(size), least_nbytes=float(size),
        group=row.count("devices", least=2), calls=1, tokens=1,
    )  # fmt: skip


def _of_collective(kind: str, pairs: Sequence[tuple[Row, Collective]], gpu: GpuSpec) -> Measured:
    """One a call, between devices of one node, around a ring."""
    import numpy as np

    rows = [row for row, _ in pairs]
    wire, others, bandwidth, waits, floors = np.array([_wired(*pair, gpu) for pair in pairs]).T

    def time(efficiency: Efficiency) -> Array:
        return waits + efficiency.collective_time(
            kind, wire=wire, others=others, bandwidth=bandwidth
        )

    sizes = _keys(rows, lambda of: of.every)
    return Measured(kind, rows, _keys(rows, lambda of: of.shape), sizes, floors, time)


def _wired(row: Row, one: Collective, gpu: GpuSpec) -> tuple[float, ...]:
    try:
        link = gpu.link_to(one.group)
    except PerfModelError as error:
        row.explain(error)
    inside, _ = one.legs(one.group)
    least, _ = one.least_legs(one.group)
    bandwidth = link.among(one.group)
    waits = network_time(wire=0, bandwidth=bandwidth, hops=inside.hops, latency=link.latency)
    floor = network_time(wire=least, bandwidth=link.bandwidth)
    return inside.wire, one.group - 1, bandwidth, waits, floor
