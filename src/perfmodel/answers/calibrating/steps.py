"""Whole steps as a table has them: each row becomes the estimate of a base."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from perfmodel.answers.calibrating.fitting import Array
from perfmodel.answers.calibrating.table import Row, check_columns
from perfmodel.answers.calibrating.work import Calls, gathered
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode, prefill
from perfmodel.base.errors import PerfModelError
from perfmodel.base.precision import PrecisionLike
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources.catalog import model as catalog_model
from perfmodel.work.operation import SMALL
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

PHASES: Final = {"decode": ("context",), "prefill": ("prompt", "past")}
_COMMON: Final = ("phase", "batch", "model", "precision", "tensor", "expert", "seconds", "note")


class Asked(NamedTuple):
    """What holds for rows that say nothing else."""

    model: ModelShape | None
    gpu: GpuSpec
    precision: PrecisionLike
    parallelism: Parallelism
    base: Efficiency


class Steps(NamedTuple):
    """All rows, what the base expects of each, and the kernels that it ran."""

    rows: Sequence[Row]
    estimates: Sequence[Estimate]
    calls: tuple[Calls, ...]
    sequences: Array
    layers: Array
    shapes: list[str]  # model, precision and devices: what is held out whole
    sizes: list[str]


def read_steps(rows: Sequence[Row], asked: Asked) -> Steps:
    """The estimate of each row by the base, and the calls of its kernels.

    Raises
    ------
    ConfigError
        If there is a column that no step has.
    InvalidValueError
        If a row is no step, or cannot be estimated.
    """
    import numpy as np

    columns = {*_COMMON, *(name for names in PHASES.values() for name in names)}
    check_columns(rows, columns)
    estimates = [_estimate(row, asked) for row in rows]
    return Steps(
        rows,
        estimates,
        gathered([step.operations for step in estimates], asked.gpu),
        np.array([step.step.sequences for step in estimates], float),
        np.array([step.model.layers for step in estimates], float),
        [f"{step.model.name}/{step.precision.name}/{step.parallelism}" for step in estimates],
        [row.key(sorted(columns - {"seconds", "note"})) for row in rows],
    )


def _estimate(row: Row, asked: Asked) -> Estimate:
    phase = row.choice("phase", PHASES)
    row.only((*PHASES[phase], *_COMMON), phase)
    try:
        row.seconds  # noqa: B018  an error now, while the row is known
        model, batch = _model(row, asked), row.count("batch", 1)
        options: dict[str, Any] = {
            "precision": row.cells.get("precision", asked.precision),
            "parallelism": _ways(row, asked.parallelism),
            "efficiency": asked.base,
            # Where they are known to take time, they are kernels as others are.
            "small_steps": "fused" if asked.base.kernel(SMALL) is None else "separate",
        }
        if phase == "decode":
            context = row.count("context") if model.has_cache or row.has("context") else None
            return decode(model, asked.gpu, batch=batch, context=context, **options)
        prompt, past = row.count("prompt"), row.count("past", 0, least=0)
        return prefill(model, asked.gpu, batch=batch, prompt=prompt, past=past, **options)
    except PerfModelError as error:
        row.explain(error)


def _model(row: Row, asked: Asked) -> ModelShape:
    name = row.cells.get("model")
    if name is not None and (asked.model is None or name != asked.model.name):
        return catalog_model(name)
    if asked.model is None:
        row.refuse("model: required, as a column or as model=, but missing")
    return asked.model


def _ways(row: Row, usual: Parallelism) -> Parallelism:
    tensor, expert = row.count("tensor", usual.tensor), row.count("expert", usual.expert)
    if (tensor, expert) == (usual.tensor, usual.expert):
        return usual
    return _divided(usual, tensor, expert)


@lru_cache(maxsize=64)
def _divided(usual: Parallelism, tensor: int, expert: int) -> Parallelism:
    found = usual.model_copy(update={"tensor": tensor, "expert": expert})
    return SINGLE if found == SINGLE else found
