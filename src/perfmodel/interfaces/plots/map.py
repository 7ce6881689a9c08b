"""A sweep as a map: one number over two axes, what binds, and where memory ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import checked_kind
from perfmodel.interfaces.plots._canvas import Canvas, Theme, literal, printed
from perfmodel.interfaces.sweep import Sweep

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

_CELLS: Final = 40_000
_TICKS: Final = 10


def heatmap(
    table: Sweep,
    *,
    x: str,
    y: str,
    value: str,
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw a column of a sweep over two others, with lines where another roof binds.

    Parameters
    ----------
    table : Sweep
        What ``sweep`` answered: one configuration for each x and y.
    x, y : str
        Columns that were swept, as ``"batch"`` and ``"context"`` [text].
    value : str
        A column of numbers, as ``"time"`` [text].
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        cells in the order of the values, a colour bar beside them. White and black lines
        part what different roofs bind; what does not fit the memory is hatched.

    Raises
    ------
    UnknownKeyError
        If there is no such column.
    InvalidValueError
        If an argument is not what it should be, there are several configurations for an x and y,
        or more than 40,000 cells.

    Examples
    --------
    >>> import perfmodel as pm
    >>> table = pm.sweep(
    ...     pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), batch=[1, 8, 64], context=[64, 4096]
    ... )
    >>> ax = pm.plots.heatmap(table, x="batch", y="context", value="time")
    >>> [text.get_text() for text in ax.get_xticklabels()]
    ['1', '8', '64']
    """
    checked_kind("table", table, Sweep, "pm.sweep(...)")
    if len(table) > _CELLS:
        raise InvalidValueError(f"table: expected at most {_CELLS:,} cells, got {len(table):,}")
    frame = _frame(table, x, y, value)
    grids = {
        name: frame.pivot(index=y, columns=x, values=name).sort_index().sort_index(axis=1)
        for name in frame.columns.difference([x, y])
    }
    drawn, bound = grids[value], grids["bound"].to_numpy(str)

    from matplotlib.colors import ListedColormap, LogNorm

    page = Canvas(ax, theme, value.replace("_", " "))
    ax, unit = page.ax, frame.attrs["units"][value]
    numbers = drawn.to_numpy(float)
    low, high = np.nanmin(numbers), np.nanmax(numbers)
    decades = LogNorm(low, high) if 0 < 30 * low < high else None
    mesh = ax.pcolormesh(numbers, cmap="cividis", norm=decades)
    bar = ax.figure.colorbar(mesh, ax=ax)
    bar.ax.yaxis.set_major_formatter(lambda number, _: printed(number, unit))
    bar.ax.tick_params(which="both", colors=page.ink)
    bar.minorticks_off()
    bar.outline.set_visible(False)
    for axis, name, names in ((ax.xaxis, x, drawn.columns), (ax.yaxis, y, drawn.index)):
        every = -(-len(names) // _TICKS)
        told = [f"{n:,}" if isinstance(n, int) else literal(str(n)) for n in names.tolist()]
        axis.set_ticks([n + 0.5 for n in range(len(names))][::every], told[::every])
        axis.set_label_text(name)
    ax.grid(visible=False)
    if "fits" in grids:
        full = ~grids["fits"].to_numpy(bool)
        faded = np.ma.masked_where(~full, np.zeros(full.shape))
        ax.pcolormesh(faded, cmap=ListedColormap([page.paper]), alpha=0.6)
        _part(ax, full, ":")
        bound = np.where(full, "does not fit", bound)
    _part(ax, grids["bound"].to_numpy(str), "-")
    for word in np.unique(bound):
        _name(ax, word, bound == word)
    return ax


def _frame(table: Sweep, x: Any, y: Any, value: Any) -> pd.DataFrame:
    """The columns that are drawn, each x and y once."""
    for name, column in {"x": x, "y": y, "value": value}.items():
        checked_kind(name, column, str, "the name of a column")
    if x == y:
        raise InvalidValueError(f"x, y: expected two columns, got {shown(x)} twice")
    if both := {x, y} & {value, "bound", "fits"}:
        raise InvalidValueError(f"x, y: expected what was swept, got {shown(both.pop())}")
    names = list(dict.fromkeys((x, y, value, "bound")))
    try:
        frame = table.to_frame([*names, "fits"])
    except UnknownKeyError:  # of a chip without a capacity
        frame = table.to_frame(names)
    else:
        frame["fits"] = frame["fits"].fillna(True).astype(bool)
    if frame[value].dtype.kind not in "if":
        raise InvalidValueError(f"value: expected a column of numbers, got {shown(value)}")
    if frame.duplicated([x, y]).any():
        raise InvalidValueError(
            f"table: expected one configuration for each {x} and {y}, got several; sweep over "
            "these two alone"
        )
    return frame


def _stroke(width: float) -> list[Any]:
    """White stands out on any colour with black around it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=width, foreground="black")]


def _part(ax: Axes, kinds: Any, style: str) -> None:
    """A line between neighbours of different kinds."""
    from matplotlib.collections import LineCollection

    beside = np.argwhere(kinds[:, 1:] != kinds[:, :-1])
    below = np.argwhere(kinds[1:] != kinds[:-1])
    edges = [((j + 1, i), (j + 1, i + 1)) for i, j in beside]
    edges += [((j, i + 1), (j + 1, i + 1)) for i, j in below]
    look: dict[str, Any] = {"colors": "white", "linestyles": style, "path_effects": _stroke(3.4)}
    ax.add_collection(LineCollection(edges, linewidths=1.6, **look))


def _name(ax: Axes, word: str, where: Any) -> None:
    """Write what binds into the cell that is nearest to the middle of its region."""
    cells = np.argwhere(where)
    row, column = cells[np.argmin(((cells - cells.mean(axis=0)) ** 2).sum(axis=1))]
    text = word if " " in word else f"{word}-bound"
    side = ("left", "center", "right")[int(3 * column / where.shape[1])]
    look: dict[str, Any] = {"ha": side, "va": "center", "path_effects": _stroke(2.5)}
    ax.text(column + 0.5, row + 0.5, text, color="white", fontsize=8, **look)
