"""What a calibration found: parameters, what they miss, what was left out, and the efficiency."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perfmodel.answers.calibrating.fitting import Tested
from perfmodel.base.spec import Name, Spec
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources.efficiency_file import write_efficiency

if TYPE_CHECKING:
    import pandas as pd


class Parameter(NamedTuple):
    """One parameter of a fit."""

    name: str
    """As the form names it."""
    value: float
    """What is expected now, in the form's unit."""
    base: float
    """What the base says, in the form's unit."""
    found: bool
    """Whether the rows tell it; if not, it is the base's."""


class Fit(NamedTuple):
    """What was found of one kernel or collective, or of whole steps."""

    name: str
    """As ``"matrix.bf16"``; ``"steps"``."""
    parameters: tuple[Parameter, ...]
    """What was looked for."""
    after: Tested
    """Errors on rows that were held out, each by a fit that had not seen its shape."""
    before: Tested
    """Errors of the base on the same rows."""
    on: str
    """What was held out at a time: ``"shapes"``, or ``"sizes"`` where there are few shapes."""
    note: str = ""
    """What else one should know."""


class LeftOut(NamedTuple):
    """Rows that were not used."""

    reason: str
    """Why."""
    rows: tuple[int, ...]
    """Which: 1 is the first below the header [1]."""


class Calibration(Spec):
    """An efficiency that was fitted to measurements, and how far it misses what it has not seen."""

    gpu: GpuSpec
    """The chip."""
    base: Efficiency
    """What was known before, and still stands where the rows say nothing."""
    efficiency: Efficiency
    """What is expected now, with bands and origins: for ``efficiency=`` of any estimate."""
    fits: tuple[Fit, ...]
    """What was found, one a kernel or collective, or one of whole steps."""
    left_out: tuple[LeftOut, ...]
    """Rows that were not used, by reason."""
    source: Name
    """Where the measurements come from."""

    def __repr__(self) -> str:
        rows = sum(fit.after.rows for fit in self.fits)
        names = ", ".join(fit.name for fit in self.fits)
        return f"<Calibration of {self.gpu.name} from {rows:,} rows: {names}>"

    def __str__(self) -> str:
        return self.explain()

    def write(self, path: str | Path) -> None:
        """Write the efficiency, its origin and its errors to a TOML file.

        Parameters
        ----------
        path : str or Path
            The file; ``read_efficiency`` reads it [text].

        Raises
        ------
        ConfigError
            If it cannot be written.
        """
        tested = {
            fit.name: {"rows": fit.after.rows, "on": fit.on, "mean": fit.after.mean,
                       "median": fit.after.median, "p90": fit.after.p90, "bias": fit.after.bias,
                       "before": fit.before.mean}
            for fit in self.fits
        }  # fmt: skip
        write_efficiency(path, self.efficiency, gpu=self.gpu.key or self.gpu.name, tested=tested)

    def to_frame(self) -> pd.DataFrame:
        """The errors as a table.

        Returns
        -------
        pandas.DataFrame
            One row a fit: held-out rows [1]; errors, bias and band as shares of the time [1];
            the base's as ``before_mean`` and so on [1].
        """
        import pandas as pd

        def line(fit: Fit) -> dict[str, object]:
            after, before = fit.after._asdict(), fit.before._asdict()
            del before["rows"]
            known = {f"before_{name}": value for name, value in before.items()}
            return {"name": fit.name, "held_out": fit.on, **after, **known}

        return pd.DataFrame([line(fit) for fit in self.fits])

    def explain(self) -> str:
        """The calibration as text: errors before and after, parameters, rows left out.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        lines = [f"{self.gpu.name}, from {self.source}", ""]
        lines.append(_HEAD)
        lines += [_line(fit) for fit in self.fits]
        lines += ["", "errors on rows whose shape or size a fit has not seen, in %; band: measured"]
        lines += ["over expected, eight of ten. Parameters, and the base's in brackets:", ""]
        for fit in self.fits:
            lines += _parameters(fit)
        for left in self.left_out:
            few = ", ".join(map(str, left.rows[:5])) + (", ..." if len(left.rows) > 5 else "")
            lines.append(f"left out: {len(left.rows):,} rows ({few}): {left.reason}")
        return "\n".join(lines).rstrip()


_WIDTH = 24
_HEAD = (
    f"{'':{_WIDTH}}{'rows':>7}{'median':>8}{'mean':>7}{'p90':>7}{'bias':>7}   {'band':14}"
    f"{'base: median':>12}{'mean':>7}{'p90':>7}"
)


def _line(fit: Fit) -> str:
    after, before = fit.after, fit.before
    band = f"{after.low:.2f} to {after.high:.2f}"
    return (
        f"{fit.name:{_WIDTH}}{after.rows:>7,}{100 * after.median:>8.1f}{100 * after.mean:>7.1f}"
        f"{100 * after.p90:>7.1f}{100 * after.bias:>7.1f}   {band:14}"
        f"{100 * before.median:>12.1f}{100 * before.mean:>7.1f}{100 * before.p90:>7.1f}"
    )


def _parameters(fit: Fit) -> list[str]:
    found = [f"{p.name} {p.value:.4g} ({p.base:.4g})" for p in fit.parameters if p.found]
    stay = [f"{p.name} ({p.base:.4g})" for p in fit.parameters if not p.found]
    lines = [f"{fit.name}: {', '.join(found) or 'all as in the base'}"]
    if stay and found:
        lines.append(f"  the base's, for the rows do not tell better: {', '.join(stay)}")
    return lines + ([f"  {fit.note}"] if fit.note else [])
