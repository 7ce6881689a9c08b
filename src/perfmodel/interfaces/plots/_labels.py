"""Labels that hide neither each other nor what is drawn: each takes the first free place."""

from __future__ import annotations

from collections.abc import Sequence
from math import copysign
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Points to the right and up from what is labelled; the text goes on in the same direction.
Spots: TypeAlias = tuple[tuple[float, float], ...]


def _spots(ways: Sequence[tuple[int, int]], *away: float) -> Spots:
    return tuple((x * far, y * far) for far in away for x, y in ways)


_WAYS: Final = [(1, 0), (-1, 0), (1, -1), (-1, 1), (1, 1), (-1, -1)]
AROUND: Final = _spots(_WAYS, 7, 14, 26, 44, 70, 100)
ABOVE_LEFT: Final = _spots([(-1, 1)], 4, 12, 20, 30, 40)
ALONG: Final[Spots] = ((-3, 3), (-3, -3), (-3, 14), (-3, 25))
_FAR: Final = 20  # points from which on a line leads to the label


class Label(NamedTuple):
    """A text, what it belongs to, and where it may stand; without text, a mark to keep clear."""

    x: float
    y: float
    text: str
    spots: Spots = AROUND
    radius: float = 0.0
    """Of the mark, in points."""


def place(ax: Axes, labels: Sequence[Label], ink: str) -> None:
    """Write the labels, the first ones first; one without a free place is left out."""
    from matplotlib.transforms import Bbox

    if not labels or ax.figure is None:
        return
    figure = ax.figure.canvas.figure  # not a part of it
    figure.draw_without_rendering()  # the layout decides what is near what
    point, room, legend = figure.dpi / 72, ax.get_window_extent(), ax.get_legend()
    taken = [artist.get_window_extent() for artist in (*ax.texts, legend) if artist]
    lines = [line.get_transform().transform_path(line.get_path()) for line in ax.lines]
    for label in labels:
        x, y = ax.transData.transform((label.x, label.y))
        half = label.radius * point
        taken += [Bbox.from_extents(x - half, y - half, x + half, y + half)] * bool(half)

    def free(box: Bbox) -> bool:
        inside = room.x0 <= box.x0 < box.x1 <= room.x1 and room.y0 <= box.y0 < box.y1 <= room.y1
        hides = any(box.overlaps(other) for other in taken)
        return inside and not hides and not any(p.intersects_bbox(box, False) for p in lines)

    for at_x, at_y, text, spots, radius in labels:
        if not text:
            continue
        near: dict[str, Any] = {"xy": (at_x, at_y), "textcoords": "offset points"}
        note = ax.annotate(text, xytext=(0, 0), color=ink, fontsize=8, in_layout=False, **near)
        size = note.get_window_extent()
        x, y = ax.transData.transform((at_x, at_y)) / point
        wide, high = size.width / point, size.height / point
        for right, up in spots:
            left = right - wide / 2 + _sign(right) * (wide / 2 + radius)
            low = up - high / 2 + _sign(up) * high / 2
            box = Bbox.from_bounds((x + left) * point, (y + low) * point, size.width, size.height)
            if free(box):
                break
        else:
            note.remove()
            continue
        note.set(position=(left, low), ha="left", va="bottom")
        taken.append(box.padded(2 * point))
        if abs(right) > _FAR and spots is AROUND:
            ends = {"arrowstyle": "-", "color": ink, "alpha": 0.5, "shrinkA": 0}
            start = left + wide * (right < 0), low + high / 2
            ax.annotate("", xytext=start, arrowprops=ends, in_layout=False, **near)


def _sign(number: float) -> float:
    return copysign(1, number) if number else 0.0
