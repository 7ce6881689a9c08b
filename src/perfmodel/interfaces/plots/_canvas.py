"""What all charts share: axes without pyplot, ink for a page light or dark, SI on the axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from perfmodel.base.errors import InvalidValueError, MissingExtraError, one_line
from perfmodel.base.spec import checked_choice, checked_kind
from perfmodel.base.units import si
from perfmodel.interfaces.plots._labels import Label, place

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Theme: TypeAlias = Literal["light", "dark"]

# Those of Okabe and Ito's colours that stand out on both papers: a contrast of 3 and more.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
STYLES: Final = ("-", "--", "-.", ":")
_MARKERS: Final = "osD^vP*X"
_INKS: Final = {"light": "#1a1a1a", "dark": "#e8e8e8"}
_PAPERS: Final = {"light": "#ffffff", "dark": "#1e2129"}
_MAX_NAME: Final = 70  # characters of a title or a label


def literal(text: str) -> str:
    """A text that Matplotlib writes as it is, of a length that fits: no name is a formula."""
    return one_line(text, _MAX_NAME).replace("$", r"\$")


def printed(value: float, unit: str) -> str:
    """A number as a tick shows it, without the zeros of a fixed length."""
    if unit in ("", "1", "1/s"):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    number, unit = si(value, unit, 4).split(" ", 1)
    return f"{float(number):g} {unit}"


def si_axis(axis: Axis, unit: str) -> None:
    """Print an axis in SI units."""
    axis.set_major_formatter(lambda value, _: printed(value, unit))


class Canvas:
    """Axes in the ink of a page, a new figure's where none are given.

    Raises
    ------
    MissingExtraError
        If Matplotlib is not installed.
    InvalidValueError
        If there is no such theme, or these are no axes.
    """

    def __init__(self, ax: Axes | None, theme: Theme, title: str) -> None:
        checked_choice("theme", theme, get_args(Theme))
        try:
            from matplotlib.axes import Axes
            from matplotlib.figure import Figure
        except ImportError:
            missing = 'plots need Matplotlib: pip install "perfmodel[plots]"'
            raise MissingExtraError(missing) from None
        ink, paper = self.ink, self.paper = _INKS[theme], _PAPERS[theme]
        if ax is None:
            ax = Figure(figsize=(7.2, 4.6), layout="constrained", facecolor=paper).add_subplot()
        checked_kind("ax", ax, Axes, "as from figure.add_subplot()")
        if ax.figure is None or ax.name != "rectilinear":
            raise InvalidValueError("ax: expected plane axes of a figure, got none or others")
        self.ax = ax
        ax.set_facecolor(paper)
        ax.set_title(literal(title), color=ink, loc="left", fontsize="medium")
        ax.tick_params(which="both", colors=ink)
        for axis in (ax.xaxis, ax.yaxis):
            axis.label.set_color(ink)
        for side, spine in ax.spines.items():
            spine.set(visible=side in ("left", "bottom"), color=ink)
        ax.grid(visible=True, color=ink, alpha=0.15, linewidth=0.6)
        ax.set_axisbelow(True)

    def log(self, which: Literal["x", "y"], unit: str, low: float, high: float) -> None:
        """A log axis from one end to the other; the fewer decades, the more ticks between."""
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

        self.ax.set(**{f"{which}scale": "log", f"{which}lim": (low, high)})
        axis = self.ax.xaxis if which == "x" else self.ax.yaxis
        several = LogLocator(subs=(1, 2, 5) if high < 2000 * low else (1,))
        axis.set_major_locator(several if high > 8 * low else MaxNLocator(6))
        axis.set_minor_formatter(NullFormatter())
        si_axis(axis, unit)

    def key(self, **where: Any) -> None:
        """A legend; its points are of one size."""
        from matplotlib.collections import PathCollection

        ink, paper = self.ink, self.paper
        found = self.ax.legend(
            labelcolor=ink, facecolor=paper, edgecolor="none", fontsize="small", **where
        )
        for handle in found.legend_handles:
            if isinstance(handle, PathCollection):
                handle.set_sizes([36])

    def full_from(self, size: int, what: str) -> None:
        """Hatch what the memory does not hold."""
        first, last = self.ax.get_xlim()
        told = f"memory is full: {what} {size:,}"
        look: dict[str, Any] = {"alpha": 0.4, "hatch": "//", "lw": 0, "label": told}
        self.ax.axvspan(max(size, first), last, facecolor="none", edgecolor=self.ink, **look)

    def points(
        self, marks: Iterable[tuple[float, float]], number: int, name: str, **look: Any
    ) -> None:
        """A series of points; each has its marker."""
        x, y = zip(*marks, strict=True)
        marker, label = _MARKERS[number % len(_MARKERS)], literal(name)
        label = " " * label.startswith("_") + label  # else no legend has it
        self.ax.scatter(x, y, marker=marker, label=label, zorder=3, **look)

    def write(self, labels: Iterable[Label]) -> None:
        """Write labels where they hide nothing, the first ones first."""
        told = [label._replace(text=literal(label.text)) for label in labels]
        place(self.ax, told, self.ink)
