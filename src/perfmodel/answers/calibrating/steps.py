"""Whole steps: the kernels are the base's; what the host adds, and two shares, can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, Final, NamedTuple

from perfmodel.answers.calibrating.checks import usable
from perfmodel.answers.calibrating.fitting import (
    Array,
    Free,
    Tested,
    fitted,
    held_out,
    loss,
    sure,
    tested,
)
from perfmodel.answers.calibrating.kernels import band_of, parted, rounded
from perfmodel.answers.calibrating.record import Fit, LeftOut, Parameter
from perfmodel.answers.calibrating.table import Row, check_columns
from perfmodel.answers.calibrating.work import Calls, gathered, kernel_times
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode, prefill
from perfmodel.base.errors import InvalidValueError, PerfModelError
from perfmodel.base.precision import PrecisionLike
from perfmodel.machine.efficiency import Efficiency, KernelEfficiency
from perfmodel.machine.forms import HostForm, KernelForm, PrefillForm
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources.catalog import model as catalog_model
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

# What whole steps can tell, in the order in which it is believed: the host's time a step and a
# sequence, then how much faster or slower memory and arithmetic are than in the base, then the
# small kernels of a block.
FREE: Final[Mapping[str, Free]] = {
    "constant": Free(3e-4, 1e-8, 1.0),
    "sequence": Free(1e-5, 1e-9, 0.1),
    "memory": Free(0.8, 0.1, 4.0),
    "compute": Free(0.8, 0.1, 4.0),
    "block": Free(1e-5, 1e-9, 0.1),
}
SHARES: Final = ("memory", "compute")  # against the base's: 1 is as there
FELT: Final = 0.1  # by how much some step must grow where a share is half of the base's
MARGIN: Final = 0.9  # of the held-out error: each further parameter must bring it below this
SAMPLE: Final = 2_000
ROWS_A_PARAMETER: Final = 3  # of different sizes: there are few parameters, and few steps
_TIE: Final = 1.05  # within which what is believed first is taken

_PHASES: Final = {"decode": ("context",), "prefill": ("prompt", "past")}
_COMMON: Final = ("phase", "batch", "model", "precision", "tensor", "expert", "seconds", "note")


class Asked(NamedTuple):
    """What holds for rows that say nothing else."""

    model: ModelShape | None
    gpu: GpuSpec
    precision: PrecisionLike
    parallelism: Parallelism
    base: Efficiency


class Steps(NamedTuple):
    """All rows, with the time of their kernels as a function of the efficiency."""

    rows: Sequence[Row]
    estimates: Sequence[Estimate]
    calls: tuple[Calls, ...]
    sequences: Array
    layers: Array
    shapes: list[str]
    sizes: list[str]


def fit_steps(rows: Sequence[Row], asked: Asked) -> tuple[Efficiency, list[Fit], list[LeftOut]]:
    """An efficiency whose host, shares and block overhead are those of the steps.

    Raises
    ------
    ConfigError
        If there is a column that no step has.
    InvalidValueError
        If a row is no step, there are too few, or measured times cannot be.
    """
    import numpy as np

    steps = _read(rows, asked)
    expected = np.array([step.time for step in steps.estimates])
    floors = np.array([step.floor for step in steps.estimates])
    keep, left = usable(rows, steps.sizes, floors, expected)
    have = len({size for size, kept in zip(steps.sizes, keep, strict=True) if kept})
    if have < ROWS_A_PARAMETER:
        raise InvalidValueError(
            f"{rows[0].file}: expected at least {ROWS_A_PARAMETER} steps of different sizes for "
            f"each parameter, got {have} that can be used"
        )
    return *_fit(steps, keep, asked, have // ROWS_A_PARAMETER), list(left)


# -- rows ------------------------------------------------------------------------------------------


def _read(rows: Sequence[Row], asked: Asked) -> Steps:
    import numpy as np

    columns = {*_COMMON, *(name for names in _PHASES.values() for name in names)}
    check_columns(rows, columns)
    estimates = [_estimate(row, asked) for row in rows]
    return Steps(
        rows,
        estimates,
        gathered([step.operations for step in estimates], asked.gpu),
        np.array([step.step.sequences for step in estimates], float),
        np.array([step.model.layers for step in estimates], float),
        [f"{step.model.name}/{step.precision.name}/{step.parallelism}" for step in estimates],
        ["/".join(row.text(name, "") for name in sorted(columns - _NO_SIZES)) for row in rows],
    )


_NO_SIZES: Final = {"seconds", "note"}


def _estimate(row: Row, asked: Asked) -> Estimate:
    phase = row.choice("phase", _PHASES)
    row.only((*_PHASES[phase], *_COMMON), phase)
    try:
        row.seconds  # noqa: B018  an error now, while the row is known
        model, batch = _model(row, asked), row.count("batch", 1)
        options: dict[str, Any] = {
            "precision": row.cells.get("precision", asked.precision),
            "parallelism": _ways(row, asked.parallelism),
            "efficiency": asked.base,
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


# -- fits ------------------------------------------------------------------------------------------


class _Parts:
    """The time of each row, as what can be told makes it."""

    def __init__(self, steps: Steps, asked: Asked) -> None:
        import numpy as np

        self._steps, self._asked = steps, asked
        base, host = asked.base, asked.base.host or HostForm()
        self.base = {
            "constant": host.constant,
            "sequence": host.sequence,
            "memory": 1.0,
            "compute": 1.0,
            "block": base.block_overhead,
        }
        self._kernels = lru_cache(maxsize=16)(self._kernels_at)
        whole = np.array([step.time for step in steps.estimates])
        # Collectives, and what each step adds whatever its size: as in the base.
        self._rest = whole - self._kernels(1.0, 1.0) - self._added(self.base)

    def _kernels_at(self, memory: float, compute: float) -> Array:
        asked, calls = self._asked, self._steps.calls
        expected = scaled(asked.base, memory, compute)
        return kernel_times(calls, expected, asked.gpu, len(self._steps.rows))

    def _added(self, all_: Mapping[str, float]) -> Array:
        """What the host and the small kernels add."""
        host = HostForm.trusted(
            constant=all_["constant"], sequence=all_["sequence"], launch_scale=1.0
        )
        added: Array = host.time(kernels=0, sequences=self._steps.sequences)
        return added + all_["block"] * self._steps.layers

    def time(self, some: Mapping[str, float]) -> Array:
        """Of all rows; what is not given is as in the base [s]."""
        every = {**self.base, **some}
        kernels = self._kernels(float(every["memory"]), float(every["compute"]))
        return self._rest + kernels + self._added(every)

    def banded(self, some: Mapping[str, float]) -> Array:
        """The part of it to which bands apply: kernels with a name, and collectives [s]."""
        import numpy as np

        every = {**self.base, **some}
        named = [one for one in self._steps.calls if one.name]
        expected = scaled(self._asked.base, every["memory"], every["compute"])
        found = kernel_times(named, expected, self._asked.gpu, len(self._steps.rows))
        if not self._asked.base.collectives:
            return found
        return found + np.array([step.network_time for step in self._steps.estimates])


def _fit(steps: Steps, keep: Array, asked: Asked, most: int) -> tuple[Efficiency, list[Fit]]:
    import numpy as np

    parts = _Parts(steps, asked)
    seconds = np.array([row.seconds for row in steps.rows])[keep]

    def time(some: Mapping[str, float]) -> Array:
        return parts.time(some)[keep]

    away, on = parted(steps.shapes, steps.sizes, keep)
    # Which parameters: a sample tells that as well as all rows do.
    some = np.linspace(0, len(seconds) - 1, min(len(seconds), SAMPLE)).astype(int)
    chosen = _chosen(
        lambda values: time(values)[some],
        _asked(steps, time),
        parts.base,
        seconds[some],
        away[some],
        most,
    )
    free = {name: FREE[name] for name in chosen}
    values = fitted(time, free, seconds).values if free else {}
    values = {name: rounded(value) for name, value in values.items()}
    before, after = time({}), held_out(time, free, seconds, away)
    fit = Fit(
        "steps",
        tuple(
            Parameter(name, values.get(name, parts.base[name]), parts.base[name], name in values)
            for name in FREE
        ),
        tested(after, seconds),
        tested(before, seconds),
        on,
        "memory and compute: against the base's shares" if set(SHARES) & set(values) else "",
    )
    kernels = parts.banded(values)[keep]
    inner = None
    if kernels.all():
        # All that steps miss is taken for the kernels', which is where bands apply.
        inner = tested(kernels, np.maximum(seconds - after + kernels, 0.05 * kernels))
    return _efficiency(steps, asked, {**parts.base, **values}, fit, inner), [fit]


def _chosen(
    time: Any,
    names: Sequence[str],
    base: Mapping[str, float],
    seconds: Array,
    away: Array,
    most: int,
) -> tuple[str, ...]:
    """The smallest set of parameters that no larger one beats by the margin, on held-out rows.

    A set counts only if the rows tell each of its parameters from the others.
    """
    chosen: tuple[str, ...] = ()
    now = loss(time({}), seconds)
    for size in range(1, 1 + min(most, len(names))):
        trials = {}
        for some in combinations(names, size):
            free = {name: FREE[name] for name in some}
            found = fitted(time, free, seconds)
            if sure(found, base) and _inside(found.values):
                trials[some] = loss(held_out(time, free, seconds, away), seconds)
        least = min(trials.values(), default=now)
        if least < now * MARGIN ** (size - len(chosen)):
            # Of sets that do as well, the one that is believed first.
            chosen = next(some for some in trials if trials[some] <= _TIE * least)
            now = trials[chosen]
    return chosen


def _asked(steps: Steps, time: Any) -> list[str]:
    """What the rows could tell.

    A share is asked for only where the base's own kernels feel it: slow arithmetic explains no
    memory-bound step. The small kernels of a block are told from the host by models that have not
    as many blocks.
    """
    names = [name for name in FREE if name not in SHARES or _felt(time, name)]
    return names if len(set(steps.layers.tolist())) > 1 else [n for n in names if n != "block"]


def _felt(time: Any, share: str) -> bool:
    return float((time({share: 0.5}) / time({})).max()) >= 1 + FELT


def _inside(values: Mapping[str, float]) -> bool:
    """Whether no share has run into its bounds: then it stands for something else."""
    shares = [(values[name], FREE[name]) for name in SHARES if name in values]
    return all(1.01 * free.low < value < 0.99 * free.high for value, free in shares)


def scaled(base: Efficiency, memory: float, compute: float) -> Efficiency:
    """The base with all shares of bandwidth and of peaks so much larger; unchecked."""
    if memory == compute == 1:
        return base
    kernels = tuple(
        KernelEfficiency.trusted(
            name=one.name, form=_scaled_form(one.form, memory, compute), band=one.band
        )
        for one in base.kernels
    )
    fields = {name: getattr(base, name) for name in Efficiency.model_fields}
    return Efficiency.trusted(
        **fields
        | {
            "kernels": kernels,
            "memory": min(1.0, base.memory * memory),
            "compute": min(1.0, base.compute * compute),
        }
    )


def _scaled_form(form: KernelForm | PrefillForm, memory: float, compute: float) -> Any:
    fields = {name: getattr(form, name) for name in type(form).model_fields}
    fields["memory"] = min(1.0, form.memory * memory)
    fields["compute"] = form.compute * compute
    if fields.get("activation") is not None:
        fields["activation"] = min(1.0, fields["activation"] * memory)
    return type(form).trusted(**fields)


def _efficiency(
    steps: Steps, asked: Asked, values: Mapping[str, float], fit: Fit, inner: Tested | None
) -> Efficiency:
    """The base with what was found; its kernels that the steps ran have the steps' band."""
    base, expected = asked.base, scaled(asked.base, values["memory"], values["compute"])
    names = [one.name for one in steps.calls if one.name]
    forms = {one.name: one for one in expected.kernels}
    for name in names:
        if base.kernel(name) is None:
            forms[name] = KernelEfficiency(name=name, form=KernelForm(
                compute=expected.compute, memory=expected.memory,
                launch=base.call_overhead, exponent=base.exponent,
            ))  # fmt: skip
    ran = {known.name for name in names if (known := base.kernel(name)) is not None} | set(names)
    bands = [one.band for one in base.kernels if one.name in ran and one.band is not None]
    band = None if inner is None else band_of(inner, bands)
    host = base.host or HostForm()
    host = host.model_copy(update={name: values[name] for name in ("constant", "sequence")})
    told = {parameter.name for parameter in fit.parameters if parameter.found}
    return base.model_copy(
        update={
            "kernels": tuple(
                KernelEfficiency(
                    name=one.name,
                    form=type(one.form)(**_four_digits(one.form)),
                    band=band if one.name in ran else one.band,
                )
                for one in forms.values()
            ),
            "collectives": tuple(one.model_copy(update={"band": band}) for one in base.collectives),
            "memory": rounded(expected.memory),
            "compute": rounded(expected.compute),
            "block_overhead": values["block"],
            "host": host if told & {"constant", "sequence"} else base.host,
        }
    )


def _four_digits(form: KernelForm | PrefillForm) -> dict[str, Any]:
    fields = {name: getattr(form, name) for name in type(form).model_fields}
    for name in ("compute", "memory", "activation"):
        if fields.get(name) is not None:
            fields[name] = rounded(fields[name])
    return fields
