"""What the memory of a device holds, one bar a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from perfmodel.answers.holding.record import DeviceMemory
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import checked_kind, checked_list
from perfmodel.base.units import si
from perfmodel.interfaces.plots._canvas import COLOURS, Canvas, Theme, literal, si_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BARS: Final = 40  # more cannot be read


def memory(
    held: DeviceMemory | Iterable[DeviceMemory] | Mapping[str, DeviceMemory],
    *,
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw what one device holds as a stack: weights, KV, state, the rest, and what is free.

    Parameters
    ----------
    held : DeviceMemory or iterable of DeviceMemory or mapping of str to DeviceMemory
        Answers of ``memory``, with names if it is a mapping.
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        bytes [B], one bar an answer, the first on top; a line where the memory ends.

    Raises
    ------
    InvalidValueError
        If an argument is not what it should be, or there are more than 40 bars.

    Examples
    --------
    >>> import perfmodel as pm
    >>> model, h100 = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
    >>> bars = {f"batch {n}": pm.memory(model, h100, batch=n, context=8192) for n in (16, 64, 128)}
    >>> [text.get_text() for text in pm.plots.memory(bars).texts]
    ['51.7 GB free', '164 MB free', '68.6 GB too much']
    """
    if isinstance(held, Mapping):
        found, names = list(held.values()), [str(name) for name in held]
    else:
        found = checked_list("held", held, DeviceMemory)
        names = []
    if not 1 <= len(found) <= _BARS:
        raise InvalidValueError(f"held: expected from 1 to {_BARS} bars, got {len(found)}")
    for one in found:
        checked_kind("held", one, DeviceMemory, "an answer of pm.memory")
    names = names or [f"{one.precision}, {one.policy}" for one in found]

    page = Canvas(ax, theme, "memory of one device")
    ax, rows, start = page.ax, range(len(found)), [0.0] * len(found)
    colours, hatches = [*COLOURS, page.ink], ("", "//", "xx", "..", "--")
    for fc, hatch, (part, sizes) in zip(colours, hatches, _parts(found).items(), strict=True):
        if any(sizes):
            ax.barh(rows, sizes, 0.6, start, fc=fc, hatch=hatch, ec=page.paper, label=part)
            start = [a + b for a, b in zip(start, sizes, strict=True)]
    ends = [max(one.needed, one.limit or 0.0) for one in found]
    for row, (one, end) in enumerate(zip(found, ends, strict=True)):
        limit, needed = one.limit, one.needed
        if limit is not None:
            ax.plot([limit] * 2, [row - 0.4, row + 0.4], color=page.ink, lw=2.5)
            # What is free is dotted; what hangs over the edge has a frame.
            how: dict[str, Any] = {"ls": ":"} if needed <= limit else {"lw": 2.5}
            ax.barh(row, limit - needed, 0.6, needed, fill=False, ec=page.ink, **how)
        how = {"color": page.ink, "weight": "bold" if one.fits is False else "normal"}
        ax.text(end + max(ends) / 60, row, _left(one), va="center", fontsize=8, **how)
    ax.set(xlim=(0, 1.3 * max(ends)), ylim=(len(found) - 0.4, -0.6))
    ax.set_yticks(rows, [literal(name) for name in names])
    ax.grid(visible=False, axis="y")
    si_axis(ax.xaxis, "B")
    page.key(loc="lower right", bbox_to_anchor=(1, 1), ncols=5)
    return ax


def _parts(found: list[DeviceMemory]) -> dict[str, list[float]]:
    """The bytes of each part, bar by bar; blocks hold KV and states together."""
    paged = [one.paged is not None for one in found]
    return {
        "weights": [one.weights for one in found],
        "KV": [one.kv if one.paged is None else one.paged for one in found],
        "state": [0.0 if apart else one.state for one, apart in zip(found, paged, strict=True)],
        "activations": [one.activations for one in found],
        "reserve": [one.reserve for one in found],
    }


def _left(one: DeviceMemory) -> str:
    if one.free is None:
        return si(one.needed, "B")
    return f"{si(abs(one.free), 'B')} {'free' if one.free >= 0 else 'too much'}"
