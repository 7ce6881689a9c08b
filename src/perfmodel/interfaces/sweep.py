"""Arrays in, table out: the same formulas over a whole grid of configurations at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfmodel.answers._asked import placed
from perfmodel.answers.estimate import Phase
from perfmodel.answers.steps import estimate_unchecked
from perfmodel.base._messages import shown
from perfmodel.base._num import as_array
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import MAX_COUNT, checked_flag
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group

if TYPE_CHECKING:
    import pandas as pd

MAX_POINTS: Final = 10_000_000
_BLOCK: Final = 2**15  # configurations that are computed at once
_COLUMNS: Final = ("time", "floor", "bound", "tokens_per_second", "flops", "bytes")


@dataclass(frozen=True, eq=False)
class Sweep:
    """One array a quantity, one element a configuration; the order is that of the table."""

    columns: Mapping[str, Any]
    """The arrays by name; each is an attribute too."""
    precision: str
    """Name of the precision."""

    def __repr__(self) -> str:
        return f"<Sweep of {len(self):,} steps, {self.precision}: {', '.join(self.columns)}>"

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["columns"][name]
        except KeyError:
            raise AttributeError(f"a sweep has no column {name!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return _frozen, (dict(self.columns), self.precision)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def to_frame(self) -> pd.DataFrame:
        """One row a configuration.

        Returns
        -------
        pandas.DataFrame
            Counts [1], times [s], tokens/s [1/s], FLOPs [FLOP], bytes [B], and what binds.
        """
        import pandas as pd

        counts = {key: "int64" for key in ("batch", "context", "prompt") if key in self.columns}
        return pd.DataFrame(dict(self.columns)).astype(counts)


def sweep(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: Iterable[int] | int,
    context: Iterable[int] | int | None = None,
    prompt: Iterable[int] | int | None = None,
    grid: bool = True,
    precision: PrecisionLike = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    parallelism: Parallelism = SINGLE,
) -> Sweep:
    """Estimate many steps at once: decode over contexts, or prefill over prompts.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    batch : int or iterable of int
        Sequences, shape (n,) [1].
    context : int or iterable of int or None
        Tokens that each new token attends, itself included, shape (m,); not for a shape without
        a cache [1].
    prompt : int or iterable of int or None
        Instead of contexts: new tokens of each sequence, for prefill, shape (m,) [1].
    grid : bool
        Every batch with every context, batches slowest; False pairs them one to one [flag].
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Sweep
        Columns as attributes, shape (n * m,) or (n,); ``to_frame()`` gives the table.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If a number is not a positive whole number, lengths differ, or not exactly one of
        ``context`` and ``prompt`` is given for a shape with a cache.
    NoCacheError
        If contexts are given for a shape without a cache.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, sweep
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> shape = ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072)
    >>> table = sweep(shape, h100, batch=[1, 64], context=range(1024, 4097, 1024))
    >>> len(table), float(table.time[0]) > 4.7e-3
    (8, True)
    """
    chip, cluster, parallelism = placed(model, gpu, parallelism)
    checked_flag("grid", grid)
    if context is not None and prompt is not None:
        raise InvalidValueError("context, prompt: expected one of them, got both")
    if context is not None:
        model.require_cache()
    elif prompt is None and model.has_cache:
        raise InvalidValueError("context: required for a model with a KV cache, but missing")
    count = _counts("batch", batch)
    name, given = ("prompt", prompt) if context is None else ("context", context)
    length = np.ones(1 if grid else len(count)) if given is None else _counts(name, given)
    if not grid and count.shape != length.shape:
        raise InvalidValueError(
            f"{name}: expected as many as batch has ({len(count)}), got {len(length)}"
        )
    model.require_positions(length)
    # One row a batch; pairs are rows of one configuration.
    count, length = count[:, None], length[None, :] if grid else length[:, None]
    shape = np.broadcast_shapes(count.shape, length.shape)
    if shape[0] * shape[1] > MAX_POINTS:
        raise InvalidValueError(
            f"batch, {name}: expected at most {MAX_POINTS:,} configurations, "
            f"got {shape[0]:,} x {shape[1]:,}"
        )
    phase: Phase = "decode" if prompt is None else "prefill"
    expected = resolve_efficiency(efficiency, chip, engine)
    columns: dict[str, Any] = {}
    for rows, row in _blocks(shape):
        part = length[:, row] if grid else length[rows]
        new, past = (1, part - 1) if prompt is None else (part, 0)
        group = Group.trusted(count=count[rows], new=new, past=past, logits=1, shared_past=0)
        found = estimate_unchecked(
            phase,
            model,
            chip,
            (group,),
            precision=precision,
            efficiency=expected,
            parallelism=parallelism,
            cluster=cluster,
        )
        values = {"batch": count[rows]} | ({} if given is None else {name: part})
        values |= {key: getattr(found, key) for key in _COLUMNS}
        if chip.capacity is not None:
            values |= {"needed": found.memory.needed, "fits": found.memory.fits}
        for key, value in values.items():
            if key not in columns:
                columns[key] = np.empty(shape, dtype=np.asarray(value).dtype)
            columns[key][rows, row] = value
    columns = {key: value.ravel() for key, value in columns.items()}
    return _frozen(columns, found.precision.name)


def _frozen(columns: dict[str, Any], precision: str) -> Sweep:
    for column in columns.values():
        column.setflags(write=False)
    return Sweep(columns=MappingProxyType(columns), precision=precision)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, slice]]:
    """Parts of a table small enough that what is computed on the way stays in the cache."""
    rows, width = shape
    across = min(width, _BLOCK)
    down = max(1, _BLOCK // across)
    for row in range(0, rows, down):
        for start in range(0, width, across):
            yield slice(row, row + down), slice(start, start + across)


def _counts(name: str, values: Any) -> Any:
    """Positive whole numbers as float64, so that no product of them wraps around."""
    try:
        if isinstance(values, int | float) and not isinstance(values, bool):
            values = [values]
        if isinstance(values, str | bytes | bytearray | memoryview | dict | set):
            raise TypeError
        if isinstance(values, Sized) and len(values) > MAX_POINTS:
            raise OverflowError
        if not isinstance(values, np.ndarray):
            values = list(islice(values, MAX_POINTS + 1))
            if any(isinstance(value, bool | np.bool_) for value in values):
                raise TypeError
        numbers = np.asarray(values)
        if numbers.dtype.kind not in "iuf":
            raise TypeError
        array = as_array(numbers)
    except Exception:  # no numbers, too many of them, or an iterator that fails
        expected = f"{name}: expected a sequence of positive whole numbers"
        raise InvalidValueError(f"{expected}, got {shown(values)}") from None
    if array.ndim != 1 or not array.size:
        raise InvalidValueError(
            f"{name}: expected at least one number in a row, got {shown(values)}"
        )
    # NaN fails the first comparison.
    wrong = ~((array >= 1) & (array <= MAX_COUNT) & (array == np.floor(array)))
    if wrong.any():
        first = array[int(np.argmax(wrong))]
        raise InvalidValueError(f"{name}: expected whole numbers from 1 to 1e15, got {first:g}")
    return array
