"""Measurements in, an efficiency out: the same forms, fitted to what a user has seen."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfmodel.answers._asked import check_gpu
from perfmodel.answers.calibrating.kernel_fits import fit_kernels
from perfmodel.answers.calibrating.operations import measured_operations
from perfmodel.answers.calibrating.record import Calibration, Fit, LeftOut
from perfmodel.answers.calibrating.step_fits import fit_steps
from perfmodel.answers.calibrating.steps import Asked
from perfmodel.answers.calibrating.table import read_rows
from perfmodel.base._messages import did_you_mean, plain
from perfmodel.base.errors import ConfigError, InvalidValueError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import MAX_TEXT, Origin, Source, checked_choice, checked_kind, text
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

if TYPE_CHECKING:
    import pandas as pd

_SHAPES: Final = ("kind", "phase")  # the column that says which of the two tables it is


def calibrate(
    measurements: str | Path | pd.DataFrame,
    gpu: GpuSpec,
    *,
    model: ModelShape | None = None,
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
    base: EfficiencyLike = "auto",
    engine: str | None = None,
    source: str = "",
) -> Calibration:
    """Fit an efficiency to measurements of kernels, or of whole steps.

    Parameters
    ----------
    measurements : str or Path or pandas.DataFrame
        A CSV file or a table. With a column ``kind`` a row is one kernel, with ``phase`` one step;
        ``seconds`` is its time. The page "Calibrate" lists the columns of each [text].
    gpu : GpuSpec
        The chip they were measured on.
    model : ModelShape or None
        The model of steps that name none.
    precision : Precision or str or None
        Of rows that name none; None: the checkpoint's own, of kernels bf16.
    parallelism : Parallelism
        Of steps that name none; one stage and one replica.
    base : Efficiency or {"auto", "ideal"}
        What is expected where the rows say nothing: what is known of the chip, the roofs, or an
        efficiency of your own.
    engine : str or None
        Whose kernels and host the base has, of ``engines()``; instead of ``base``.
    source : str
        Where the measurements come from, in words; empty: the file's name [text].

    Returns
    -------
    Calibration
        The efficiency, its parameters, and its errors on rows that were held out by shape.

    Raises
    ------
    ConfigError
        If the table cannot be read, is neither of the two, or has an unknown column.
    InvalidValueError
        If a row is not what it should be, rows are too few, or times cannot be.
    UnknownKeyError
        If there is no preset or engine of that name.
    MissingExtraError
        If SciPy is not installed.

    Notes
    -----
    The loss is soft-L1 of log(predicted / measured), so that a few gross outliers do not decide.
    A parameter leaves the base's value only where the rows contradict it by three standard errors.
    No form expects less than the roof, whatever was measured.

    Examples
    --------
    A host that adds 2 ms a step to the kernels of a base, seen in eight steps:

    >>> import pandas as pd
    >>> from perfmodel import calibrate, decode, gpu, model
    >>> llama, h100 = model("llama-3.1-8b"), gpu("h100-sxm")
    >>> sizes = [(b, s) for b in (1, 8, 32, 64) for s in (512, 4096)]
    >>> seen = pd.DataFrame(
    ...     {"phase": "decode", "batch": b, "context": s, "seconds": 0.002
    ...      + decode(llama, h100, batch=b, context=s, efficiency="auto").time} for b, s in sizes
    ... )
    >>> found = calibrate(seen, h100, model=llama)
    >>> found.efficiency.host.constant
    0.002
    """
    check_gpu(gpu)
    if model is not None:
        checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    if not isinstance(base, Efficiency):
        checked_choice("base", base, ("auto", "ideal"))
    if engine is not None and base != "auto":
        raise InvalidValueError("base, engine: expected one of them, got both")
    known = resolve_efficiency(base, gpu, engine)
    rows = read_rows(measurements)
    name = _source(source, rows[0].file)
    columns = dict.fromkeys(column for row in rows for column in row.cells)
    shapes = [column for column in _SHAPES if column in columns]
    if len(shapes) != 1:
        got = "both" if shapes else f"neither; {did_you_mean(next(iter(columns), ''), _SHAPES)}"
        raise ConfigError(
            f"{rows[0].file}: expected a column kind (one kernel a row) or phase (one step a "
            f"row), got {got}"
        )
    if shapes == ["kind"]:
        usual = Precision.parse("bf16" if precision is None else precision)
        found, fits, left = fit_kernels(measured_operations(rows, gpu, usual), known, gpu)
    else:
        _check_sums(parallelism)
        asked = Asked(model, gpu, precision, parallelism, known)
        found, fits, left = fit_steps(rows, asked)
    origins = tuple(
        _origin(field, name, rows[0].file, fit, left) for fit in fits for field in _fields(fit)
    )
    replaced = {origin.field for origin in origins} - {"kernels"}
    before = tuple(origin for origin in known.origins if origin.field not in replaced)
    return Calibration(
        gpu=gpu,
        base=known,
        efficiency=found.model_copy(update={"known": "chip", "origins": (*before, *origins)}),
        fits=tuple(fits),
        left_out=tuple(left),
        source=name,
    )


def _source(given: Any, file: str) -> str:
    try:
        return text(given) or plain(Path(file).name, MAX_TEXT)
    except ValueError as error:
        raise InvalidValueError(f"source: {error}, got {plain(str(given))}") from None


def _check_sums(parallelism: Parallelism) -> None:
    """Refuse steps whose time is no sum of kernels."""
    checked_kind("parallelism", parallelism, Parallelism, "pm.Parallelism(tensor=8)")
    ways = parallelism
    if (ways.pipeline, ways.data) != (1, 1) or ways.communication == "overlapped":
        raise InvalidValueError(
            "parallelism: expected one stage, one replica and serial communication, whose steps "
            f"are sums of kernels, got {ways}"
        )


def _fields(fit: Fit) -> tuple[str, ...]:
    """What of an efficiency a fit says something about."""
    if fit.name != "steps":
        return (fit.name,)
    found = (_FIELDS[parameter.name] for parameter in fit.parameters if parameter.found)
    return tuple(dict.fromkeys((*found, "bands")))


_FIELDS: Final = {
    "constant": "host",
    "sequence": "host",
    "memory": "kernels",
    "compute": "kernels",
    "network": "collectives",
    "block": "block_overhead",
}


def _origin(field: str, source: str, file: str, fit: Fit, left: list[LeftOut]) -> Origin:
    after, before = fit.after, fit.before
    unused = sum(len(one.rows) for one in left)
    told = any(parameter.found for parameter in fit.parameters)
    what = "Fitted by perfmodel.calibrate to" if told else "The base's, which calibrate tested on"
    return Origin(
        field=field,
        kind="measured",
        source=Source(key=source, title=source),
        place=plain(Path(file).name, MAX_TEXT),
        date=date.today().isoformat(),
        note=(
            f"{what} {after.rows} rows, {unused} of the table left out; "
            f"on {fit.on} held out, errors of {after.mean:.1%} in the mean and {after.median:.1%} "
            f"at the median, where the base had {before.mean:.1%} and {before.median:.1%}."
        ),
    )
