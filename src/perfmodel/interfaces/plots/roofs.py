"""The roofline chart: two roofs, where they meet, and what lies below them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from perfmodel.answers._asked import check_gpu
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import checked_list
from perfmodel.base.units import si
from perfmodel.interfaces.plots._canvas import COLOURS, STYLES, Canvas, Theme, printed
from perfmodel.interfaces.plots._labels import ABOVE_LEFT, ALONG, Label
from perfmodel.interfaces.plots.points import Jobs, Series, listed, series_of
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import attainable, ridge

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LABELS: Final = 24  # of the points that take longest


def roofline(
    gpu: GpuSpec,
    *,
    operations: Jobs = (),
    precisions: Iterable[PrecisionLike] | None = None,
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw the roofs of a chip, the ridge of each format, and jobs below them.

    Parameters
    ----------
    gpu : GpuSpec
        The chip.
    operations : Estimate or iterable of Estimate, Operation or Point
        What to place: whole estimates, each operation as fast as the estimate expects; operations
        by themselves, at their roofs; or measured points, anything with the four fields of
        ``Point``. Operations of a kind and nearly one intensity are one point.
    precisions : iterable of Precision or str or None
        Formats or precisions whose peaks are drawn; None: those that the operations compute in,
        else all that the chip has.
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        intensity [FLOP/B] against speed [FLOP/s], both log; a point's area grows with
        its time.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be, or an estimate is that of another chip.
    UnsupportedFormatError
        If the chip has no peak for a format.

    Examples
    --------
    >>> import perfmodel as pm
    >>> h100 = pm.gpu("h100-sxm")
    >>> step = pm.decode(pm.model("llama-3.1-8b"), h100, batch=64, context=4096)
    >>> ax = pm.plots.roofline(h100, operations=step)
    >>> ax.get_xlabel(), ax.get_title(loc="left")
    ('intensity [FLOP/B]', 'NVIDIA H100 SXM 80 GB')
    """
    check_gpu(gpu)
    found = series_of(gpu, operations)
    peaks = _peaks(gpu, precisions, found)
    points = [point for series in found for point in series.points]
    beta, top = gpu.memory_bandwidth, max(peaks)
    turns = {peak: ridge(peak=peak, bandwidth=beta) for peak in peaks}
    left = min([1.0, min(turns.values()) / 10, *(point.intensity / 2 for point in points)])
    right = max([turns[top] * 80, *(point.intensity * 4 for point in points)])
    slope = [(x, attainable(intensity=x, peak=top, bandwidth=beta)) for x in (left, turns[top])]
    low = min([slope[0][1], *(point.rate / 2 for point in points)])
    high = 2.5 * max([top, *(point.rate for point in points)])

    page = Canvas(ax, theme, gpu.name)
    page.log("x", "", left, right)
    page.log("y", "FLOP/s", low, high)
    page.ax.set(xlabel="intensity [FLOP/B]", ylabel="speed")
    page.ax.plot(*zip(*slope, strict=True), color=page.ink, lw=1.8)
    middle = (left * turns[min(peaks)]) ** 0.5
    height = attainable(intensity=middle, peak=top, bandwidth=beta)
    labels = [Label(middle, height, f"memory: {si(beta, 'B/s')}", ABOVE_LEFT)]
    for number, (peak, names) in enumerate(peaks.items()):
        colour, at = COLOURS[number % 4], (turns[peak], peak)
        page.ax.plot([at[0], right], [peak, peak], STYLES[number % 4], color=colour, lw=1.8)
        page.ax.plot(*at, "o", color=colour, markerfacecolor=page.paper)
        labels.append(Label(right, peak, f"{listed(names)}: {si(peak, 'FLOP/s')}", ALONG))
        labels.append(Label(*at, f"{printed(at[0], '')} FLOP/B", ABOVE_LEFT, 4))
    page.write(labels + _drawn(page, found))
    return page.ax


def _peaks(
    gpu: GpuSpec, precisions: Iterable[PrecisionLike] | None, found: Iterable[Series]
) -> dict[float, list[str]]:
    """The formats of each peak that is drawn, the highest first."""
    known = gpu.peak_flops.formats
    if precisions is None:
        used = {compute for series in found for compute in series.formats}
        formats = [compute for compute in known if not used or compute in used]
    else:
        formats = [
            one if one in known else Precision.parse("bf16" if one is None else one).linear.compute
            for one in checked_list("precisions", precisions, Precision)
        ]
    peaks: dict[float, list[str]] = {}
    for compute in dict.fromkeys(formats):
        peaks.setdefault(gpu.peak(compute), []).append(compute)
    return dict(sorted(peaks.items(), reverse=True))


def _drawn(page: Canvas, found: list[Series]) -> list[Label]:
    """Draw the points; their labels, the longest first."""
    whole = sum(point.time for series in found for point in series.points)
    labels: list[tuple[float, Label]] = []
    for number, (name, points, _) in enumerate(found):
        colour = COLOURS[(number + 1) % 4]  # another than that of the first roof
        areas = [20 + 480 * point.time / whole for point in points]
        marks = (point[1:3] for point in points)
        page.points(marks, number, name, s=areas, color=colour, edgecolor=page.paper)
        for point, area in zip(points, areas, strict=True):
            told = f"{point.name}, {si(point.time, 's')}"
            labels.append((point.time, Label(*point[1:3], told, radius=area**0.5 / 2)))
    if found:
        page.key(loc="lower right")
    return [label for _, label in sorted(labels, key=lambda item: -item[0])[:_LABELS]]
