"""Two curves of decode: a step against its batch, and KV against the context."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from perfmodel.answers._asked import check_gpu, check_subjects
from perfmodel.answers.growth import kv_growth as growth_of
from perfmodel.answers.memory import max_batch, max_context
from perfmodel.answers.ridges import ridge_batch, step_ridge_batch
from perfmodel.base.errors import DoesNotFitError, NoRidgeError, UnboundedError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import checked_list
from perfmodel.interfaces.plots._canvas import COLOURS, STYLES, Canvas, Theme
from perfmodel.interfaces.plots._labels import Label
from perfmodel.interfaces.sweep import sweep
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import memory_time
from perfmodel.work.shape import ModelShape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_FEW: Final = 12  # points that are marked one by one
_MOST_SEQUENCES: Final = 10**6
_LONG: Final = 131_072  # tokens, where no KV overtakes the weights


def step_time(
    model: ModelShape,
    gpu: GpuSpec,
    *,
    context: int | None,
    batches: Iterable[int] | None = None,
    precision: PrecisionLike = None,
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw the time of a decode step against its batch, and where batching ceases to pay.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec
        The chip.
    context : int or None
        Tokens that each new token attends, itself included; None only without a cache [1].
    batches : iterable of int or None
        Sequences of each step; None: from one to past the ridge and the end of memory [1].
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        Sequences [1] against time [s], both log: the step, and what its weights, its KV and its
        arithmetic take alone; the ridge of ``step_ridge_batch``, the end of memory of
        ``max_batch``, where there are such.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> import perfmodel as pm
    >>> ax = pm.plots.step_time(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), context=256)
    >>> [line.get_label() for line in ax.lines[:4]]
    ['step', 'weights', 'KV', 'arithmetic']
    """
    check_subjects(model, gpu)
    formats = model.resolve_precision(precision)
    turn = full = None
    if context is None:
        turn = ridge_batch(model, gpu, precision=formats)
    else:
        with suppress(NoRidgeError):
            turn = step_ridge_batch(model, gpu, context=context, precision=formats)
        full = _most(partial(max_batch, model, gpu, context=context, precision=formats), gpu)
    if batches is None:
        batches = _spread(1, min(_MOST_SEQUENCES, 3 * max(64, round(turn or 0), full or 0)))
    table = sweep(model, gpu, batch=batches, context=context, precision=formats)
    frame = table.to_frame(["batch", "time", "weight_traffic", "kv_traffic", "compute_time"])
    batch, time, weights, kv, arithmetic = frame.sort_values("batch").to_numpy().T
    beta = gpu.memory_bandwidth
    lines = {
        "step": time,
        "weights": memory_time(nbytes=weights, bandwidth=beta),
        "KV": memory_time(nbytes=kv, bandwidth=beta),
        "arithmetic": arithmetic,
    }

    page = Canvas(ax, theme, f"decode of {model.name} on {gpu.name}, {formats.name}")
    first, last = batch[0], batch[-1]
    page.log("x", "", first / 1.1, last * 1.1)
    page.log("y", "s", time[0] / 100, time[-1] * 2)
    told = "" if context is None else f", {context:,} tokens of context each"
    page.ax.set(xlabel=f"batch [sequences]{told}", ylabel="time of a step")
    for colour, style, name in zip([page.ink, *COLOURS], STYLES, lines, strict=False):
        marker, wide = "." * (len(batch) <= _FEW), 2.4 if name == "step" else 1.4
        page.ax.plot(batch, lines[name], style, marker=marker, color=colour, lw=wide, label=name)
    if turn is not None and first <= turn <= last:
        told = f"ridge: batch {turn:,.0f}"
        page.ax.axvline(turn, color=page.ink, lw=1, ls=(0, (1, 3)), label=told)
    if full is not None and full <= last:
        page.full_from(full, "batch")
    page.key(loc="upper left")
    return page.ax


def kv_growth(
    model: ModelShape,
    gpu: GpuSpec | None = None,
    *,
    contexts: Iterable[int] | None = None,
    batch: int = 1,
    precision: PrecisionLike = None,
    ax: Axes | None = None,
    theme: Theme = "light",
) -> Axes:
    """Draw the KV cache of a batch against the weights as the context grows.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or None
        A chip, to mark the context at which its memory is full.
    contexts : iterable of int or None
        Tokens of each sequence; None: to past where the KV exceeds the weights [1].
    batch : int
        Sequences [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    ax : Axes or None
        Where to draw; None: on a new figure.
    theme : {"light", "dark"}
        The page it is for.

    Returns
    -------
    Axes
        Tokens [1] against bytes [B], both log; a mark where the KV overtakes the weights.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> import perfmodel as pm
    >>> ax = pm.plots.kv_growth(pm.model("llama-3.1-8b"), batch=64)
    >>> [text.get_text() for text in ax.texts]
    ['more KV than weights from 1,915 tokens on']
    """
    lengths = [1] if contexts is None else checked_list("contexts", contexts)
    found = growth_of(model, contexts=lengths, batch=batch, precision=precision)
    full = None
    if gpu is not None:
        check_gpu(gpu)
        full = _most(partial(max_context, model, gpu, batch=batch, precision=precision), gpu)
    if contexts is None:
        top = 4 * max(found.overtakes or _LONG, full or 1)
        lengths = _spread(16, min(top, model.position_limit or top))
    lengths = sorted(lengths)
    found = growth_of(model, contexts=lengths, batch=batch, precision=precision)

    weights, kv = found.weights, found.kv
    each = f", {found.batch:,} sequences" if found.batch > 1 else ""
    page = Canvas(ax, theme, f"{model.name}, {found.precision}{each}")
    first, last = found.contexts[0], found.contexts[-1]
    page.log("x", "", first / 1.1, last * 1.1)
    page.log("y", "B", min([weights, *filter(None, kv)]) / 2, 2 * max([weights, *kv]))
    page.ax.set(xlabel="context of each [tokens]", ylabel="memory")
    page.ax.plot(lengths, kv, "-", color=COLOURS[1], lw=2, label="KV")
    page.ax.axhline(weights, color=COLOURS[0], ls="--", lw=2, label="weights")
    label = []
    if found.overtakes is not None and first <= found.overtakes <= last:
        at = found.overtakes, weights
        page.ax.plot(*at, "o", color=page.ink, markerfacecolor=page.paper)
        told = f"more KV than weights from {at[0]:,} tokens on"
        label = [Label(*at, told, radius=4)]
    if full is not None and full <= last:
        page.full_from(full, "context")
    page.key(loc="lower right")
    page.write(label)
    return page.ax


def _most(ask: Callable[[], int], gpu: GpuSpec) -> int | None:
    """The most that fits; 0 where nothing does, None where nothing limits it."""
    try:
        return ask() if gpu.capacity else None
    except DoesNotFitError:
        return 0
    except UnboundedError:
        return None


def _spread(first: int, last: int) -> list[int]:
    """Whole numbers from one to the other, evenly on a log axis."""
    ratio = max(last / first, 1.0)
    return sorted({round(first * ratio ** (part / 96)) for part in range(97)})
