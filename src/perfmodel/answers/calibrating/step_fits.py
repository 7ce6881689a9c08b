"""What whole steps tell: their kernels are the base's, the host and two shares are their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Final

from perfmodel.answers.calibrating.checks import usable
from perfmodel.answers.calibrating.fitting import (
    Array,
    Free,
    Times,
    fitted,
    held_out,
    loss,
    sure,
    tested,
)
from perfmodel.answers.calibrating.kernel_fits import FEW_ROWS, band_of, parted, rounded
from perfmodel.answers.calibrating.record import Fit, LeftOut, Parameter
from perfmodel.answers.calibrating.scaling import recast, scaled
from perfmodel.answers.calibrating.steps import PHASES, Asked, Steps, read_steps
from perfmodel.answers.calibrating.table import Row
from perfmodel.answers.calibrating.work import kernel_times
from perfmodel.answers.estimate import Estimate
from perfmodel.base.errors import InvalidValueError
from perfmodel.machine.efficiency import Band, Efficiency
from perfmodel.machine.forms import HostForm

# What whole steps can tell, in the order in which it is believed: the host's time a step and a
# sequence, then how much faster or slower memory and arithmetic are than in the base, how much
# longer collectives take, then the small kernels of a block.
FREE: Final[Mapping[str, Free]] = {
    "constant": Free(3e-4, 1e-8, 1.0),
    "sequence": Free(1e-5, 1e-9, 0.1),
    "memory": Free(0.8, 0.1, 4.0),
    "compute": Free(0.8, 0.1, 4.0),
    "network": Free(1.5, 0.1, 20.0),
    "block": Free(1e-5, 1e-9, 0.1),
}
RATIOS: Final = {"memory": 0.5, "compute": 0.5, "network": 2.0}  # to the base's; twice as slow
FELT: Final = 0.1  # by how much some step must grow where one of them is so
MARGIN: Final = 0.9  # of the held-out error: each further parameter must bring it below this
SAMPLE: Final = 2_000
ROWS_A_PARAMETER: Final = 3  # of different sizes: there are few parameters, and few steps
_AGAINST: Final = (
    "against the base: memory and compute its shares, network the time of its collectives"
)
_HOST: Final = 1e-3  # s, of a step without a graph
_TIE: Final = 1.05  # within which what is believed first is taken


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

    steps = read_steps(rows, asked)
    expected = np.array([step.time for step in steps.estimates])
    floors = np.array([step.floor for step in steps.estimates])
    keep, left = usable(rows, steps.sizes, floors, expected, _HOST)
    have = len({size for size, kept in zip(steps.sizes, keep, strict=True) if kept})
    if have < ROWS_A_PARAMETER:
        raise InvalidValueError(
            f"{rows[0].file}: expected at least {ROWS_A_PARAMETER} steps of different sizes for "
            f"each parameter, got {have} that can be used"
        )
    return *_fit(steps, keep, asked, have // ROWS_A_PARAMETER), list(left)


class _Times:
    """The time of each row, as what can be told makes it."""

    def __init__(self, steps: Steps, asked: Asked) -> None:
        import numpy as np

        self._steps, self._gpu, self._known = steps, asked.gpu, asked.base
        host = asked.base.host or HostForm()
        self.base = {
            "constant": host.constant,
            "sequence": host.sequence,
            "memory": 1.0,
            "compute": 1.0,
            "network": 1.0,
            "block": asked.base.block_overhead,
        }
        self._kernels = lru_cache(maxsize=16)(self._kernels_at)
        self._network = np.array([step.network_time for step in steps.estimates])
        whole = np.array([step.time for step in steps.estimates])
        # What each step adds whatever its size, as in the base.
        self._rest = whole - self._kernels(1.0, 1.0) - self._added(self.base)

    def _kernels_at(self, memory: float, compute: float) -> Array:
        expected = scaled(self._known, memory, compute)
        return kernel_times(self._steps.calls, expected, self._gpu, len(self._steps.rows))

    def _added(self, every: Mapping[str, float]) -> Array:
        """What the host, the links and the small kernels add."""
        host = HostForm.trusted(
            constant=every["constant"], sequence=every["sequence"], launch_scale=1.0
        )
        added: Array = host.time(sequences=self._steps.sequences)
        return added + every["network"] * self._network + every["block"] * self._steps.layers

    def __call__(self, some: Mapping[str, float]) -> Array:
        """Of all rows; what is not given is as in the base [s]."""
        every = {**self.base, **some}
        kernels = self._kernels(float(every["memory"]), float(every["compute"]))
        return self._rest + kernels + self._added(every)


def _fit(steps: Steps, keep: Array, asked: Asked, most: int) -> tuple[Efficiency, list[Fit]]:
    """What the rows to keep tell, and the efficiency that says so."""
    import numpy as np

    times = _Times(steps, asked)
    seconds = np.array([row.seconds for row in steps.rows])[keep]

    def time(some: Mapping[str, float]) -> Array:
        return times(some)[keep]

    away, on = parted(steps.shapes, steps.sizes, keep)
    # Which parameters: a sample tells that as well as all rows do.
    few = np.linspace(0, len(seconds) - 1, min(len(seconds), SAMPLE)).astype(int)
    names = _possible(steps, time)
    chosen = _chosen(lambda some: time(some)[few], names, times.base, seconds[few], away[few], most)
    free = {name: FREE[name] for name in chosen}
    found = fitted(time, free, seconds).values if free else {}
    values = {**times.base, **{name: rounded(value) for name, value in found.items()}}
    after = held_out(time, free, seconds, away)
    fit = Fit(
        "steps",
        tuple(Parameter(name, values[name], times.base[name], name in found) for name in FREE),
        tested(after, seconds, few=True),
        tested(time({}), seconds, few=True),
        on,
        _AGAINST if set(RATIOS) & set(found) else "",
    )
    used = [step for step, kept in zip(steps.estimates, keep, strict=True) if kept]
    return recast(asked.base, values, _bands(used, after, seconds, asked.base)), [fit]


def _bands(
    steps: Sequence[Estimate], predicted: Array, seconds: Array, base: Efficiency
) -> dict[str, Band]:
    """The band of each phase, from few rows as wide as the base has it for such steps.

    A phase without rows has all the doubt of the other, and of the base's kernels.
    """
    import numpy as np

    found = {}
    for phase in PHASES:
        mine = np.array([step.phase == phase for step in steps])
        if mine.any():
            few = [step for step in steps if step.phase == phase][:FEW_ROWS]
            missed = tested(predicted[mine], seconds[mine], few=True)
            found[phase] = band_of(missed, [band for step in few for band in _own_band(step)])
    every = [*found.values(), *(one.band for one in base.kernels if one.band is not None)]
    low, high = min(band.low for band in every), max(band.high for band in every)
    return {phase: found.get(phase, Band(low=low, high=high)) for phase in PHASES}


def _own_band(step: Estimate) -> Iterator[Band]:
    if step.low is not None and step.high is not None:
        yield Band(low=step.low / step.time, high=step.high / step.time)


def _chosen(
    time: Times,
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


def _possible(steps: Steps, time: Times) -> list[str]:
    """What the rows could tell.

    A ratio is asked for only where the base's own steps feel it: slow arithmetic explains no
    memory-bound step, and slow links none of one device. The small kernels of a block are told from
    the host by models that have not as many blocks.
    """
    names = [name for name in FREE if name not in RATIOS or _felt(time, name)]
    return names if len(set(steps.layers.tolist())) > 1 else [n for n in names if n != "block"]


def _felt(time: Times, ratio: str) -> bool:
    return float((time({ratio: RATIOS[ratio]}) / time({})).max()) >= 1 + FELT


def _inside(values: Mapping[str, float]) -> bool:
    """Whether no ratio has run into its bounds: then it stands for something else."""
    ratios = [(values[name], FREE[name]) for name in RATIOS if name in values]
    return all(1.01 * free.low < value < 0.99 * free.high for value, free in ratios)
