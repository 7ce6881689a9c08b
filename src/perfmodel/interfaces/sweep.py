"""Arrays in, table out: the same formulas over a whole grid of configurations at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfmodel.base._messages import shown
from perfmodel.base._num import as_array
from perfmodel.base.errors import InvalidValueError, MissingExtraError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import MAX_COUNT, checked_flag
from perfmodel.interfaces.sweeping.about import about
from perfmodel.interfaces.sweeping.columns import Column, chosen
from perfmodel.interfaces.sweeping.frame import array_of, frame_of
from perfmodel.interfaces.sweeping.grid import Grid, computed
from perfmodel.interfaces.sweeping.settings import Asked, Skipped, settings
from perfmodel.interfaces.sweeping.workers import checked_client, parts_on
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

MAX_POINTS: Final = 10_000_000
MAX_STREAMED: Final = 10**12


@dataclass(frozen=True, eq=False, repr=False)
class Sweep:
    """One array a quantity, one element a configuration; the order is that of the table.

    Nothing is computed before it is looked at. ``columns``, and each as an attribute, hold up to
    ten million points; ``blocks()`` and ``to_parquet()`` take any number, some at a time.
    """

    _grid: Grid
    _skipped: tuple[Skipped, ...] = ()
    _client: Any = None

    def __repr__(self) -> str:
        names = ", ".join(self._grid.usual)
        precisions = ", ".join(self._grid.labels["precision"])
        return f"<Sweep of {len(self):,} steps, {precisions}: {names}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows of the table."""
        from perfmodel.base._html import table, told

        picked = self._chosen(None)
        first = computed(self._grid, [next(iter(self._grid.pieces()))], picked)
        frame = frame_of(self._grid, picked, first, {}).head(50).astype(object)
        units = [column.unit for column in picked]
        rows = (map(told, row, units) for row in frame.to_numpy())
        return table(repr(self)[1:-1], [column.name for column in picked], rows, len(self))

    def __getattr__(self, name: str) -> Any:
        if name in self._grid.usual:
            return self.columns[name]
        raise AttributeError(f"a sweep has no column {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return Sweep, (self._grid, self._skipped)

    def __len__(self) -> int:
        return len(self._grid)

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """The combinations that cannot be, each with the reason; only of ``skip=True``."""
        return self._skipped

    @property
    def precision(self) -> Any:
        """Name of the precision; of several, the column of names."""
        if "precision" in self._grid.usual:
            return self.columns["precision"]
        return self._grid.labels["precision"][0]

    @cached_property
    def columns(self) -> Mapping[str, Any]:
        """The arrays by name; each is an attribute too."""
        found = {
            column.name: array_of(self._grid, column, self._values[column.name])
            for column in self._chosen(None)
        }
        for array in found.values():
            array.setflags(write=False)
        return MappingProxyType(found)

    def to_frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """One row a configuration.

        Parameters
        ----------
        columns : sequence of str or None
            Names of the columns; None: what was swept, and the usual ones [text].

        Returns
        -------
        pandas.DataFrame
            Counts [1], times [s], tokens/s [1/s], FLOPs [FLOP], bytes [B], and what binds; names
            are categories. ``attrs["units"]`` has the unit of each column.
        """
        picked = self._chosen(columns)
        values = self._values if columns is None else self._all(picked)
        return frame_of(self._grid, picked, values, self._about(picked))

    def blocks(self, columns: Sequence[str] | None = None) -> Iterator[pd.DataFrame]:
        """The table in parts of up to a million rows, each computed when it is asked for.

        Parameters
        ----------
        columns : sequence of str or None
            Names of the columns; None: what was swept, and the usual ones [text].

        Returns
        -------
        iterator of pandas.DataFrame
            One after another they are the rows of ``to_frame()``.
        """
        picked = self._chosen(columns)
        told = self._about(picked)
        return (frame_of(self._grid, picked, part, told) for part in self._parts(picked))

    def to_parquet(
        self,
        path: str | PathLike[str],
        *,
        columns: Sequence[str] | None = None,
        progress: bool = False,
    ) -> None:
        """Write the table to one Parquet file, in memory that does not grow with it.

        Parameters
        ----------
        path : str or path
            The file; it appears when it is whole, in place of one of that name [text].
        columns : sequence of str or None
            Names of the columns; None: what was swept, and the usual ones [text].
        progress : bool
            Show a bar, with tqdm [flag].

        Raises
        ------
        UnknownKeyError
            If there is no such column.
        InvalidValueError
            If there can be no such file, or a client's cluster does not compute it.
        MissingExtraError
            If pyarrow is not installed, or tqdm where a bar is wanted.

        Notes
        -----
        A part of up to 2^20 rows is a row group. Units, meanings, assumptions and the version are
        in the metadata of the schema, as JSON of the key ``perfmodel``; unit and meaning of each
        column in that of its field; pandas shows them in ``attrs``.
        """
        from perfmodel.interfaces.sweeping.parquet import write

        checked_flag("progress", progress)
        picked = self._chosen(columns)
        parts = self._parts(picked)
        if progress:
            parts = _with_bar(parts, len(self))
        write(_path(path), self._grid, picked, parts, self._about(picked))

    def _chosen(self, columns: Sequence[str] | None) -> tuple[Column, ...]:
        return chosen(self._grid.usual if columns is None else columns, self._grid.possible)

    def _about(self, columns: Sequence[Column]) -> dict[str, Any]:
        return about(self._grid, columns, self._skipped)

    @cached_property
    def _values(self) -> Mapping[str, Any]:
        return self._all(self._chosen(None))

    def _all(self, columns: Sequence[Column]) -> Mapping[str, Any]:
        if len(self) > MAX_POINTS:
            raise InvalidValueError(
                f"sweep: expected at most {MAX_POINTS:,} configurations in memory, "
                f"got {len(self):,}; blocks() and to_parquet() take them a part at a time"
            )
        if self._client is None:
            return computed(self._grid, list(self._grid.pieces()), columns)
        parts = list(self._parts(columns))
        return {c.name: np.concatenate([part[c.name] for part in parts]) for c in columns}

    def _parts(self, columns: Sequence[Column]) -> Iterator[dict[str, Any]]:
        if self._client is not None:
            return parts_on(self._client, self._grid, columns)
        return (computed(self._grid, part, columns) for part in self._grid.parts())


def sweep(
    model: ModelShape | Iterable[ModelShape],
    gpu: GpuSpec | Cluster | Iterable[GpuSpec | Cluster],
    *,
    batch: Iterable[int] | int,
    context: Iterable[int] | int | None = None,
    prompt: Iterable[int] | int | None = None,
    grid: bool = True,
    precision: PrecisionLike | Iterable[PrecisionLike] = None,
    efficiency: EfficiencyLike | Iterable[EfficiencyLike] = IDEAL,
    engine: str | Iterable[str | None] | None = None,
    parallelism: Parallelism | Iterable[Parallelism] = SINGLE,
    skip: bool = False,
    client: Client | None = None,
) -> Sweep:
    """Estimate many steps at once: decode over contexts, or prefill over prompts.

    Each of the other arguments may be a list as well, of things that differ: every combination of
    them, models slowest, then chips, precisions, divisions and engines, has all batches and
    lengths. Those are arrays, and may repeat.

    Parameters
    ----------
    model : ModelShape or iterable of ModelShape
        The models.
    gpu : GpuSpec or Cluster or iterable of them
        The chips, or many of them and the network between their nodes.
    batch : int or iterable of int
        Sequences, shape (n,) [1].
    context : int or iterable of int or None
        Tokens that each new token attends, itself included, shape (m,); not for a shape without
        a cache [1].
    prompt : int or iterable of int or None
        Instead of contexts: new tokens of each sequence, for prefill, shape (m,) [1].
    grid : bool
        Every batch with every context, batches slowest; False pairs them one to one [flag].
    precision : Precision or str or None, or iterable of them
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}, or iterable of them
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None, or iterable of them
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    parallelism : Parallelism or iterable of Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    skip : bool
        Leave out combinations that cannot be, as ``Sweep.skipped`` tells, rather than raise [flag].
    client : dask.distributed.Client or None
        A cluster of workers that computes the parts; None: this process does.

    Returns
    -------
    Sweep
        Columns as attributes, shape (n * m,) or (n,) for each combination; ``to_frame()`` gives
        the table, ``to_parquet()`` writes it. They are the same, to the bit, with a client.

    Raises
    ------
    UnknownKeyError
        If there is no preset or engine of that name.
    InvalidValueError
        If a number is not a positive whole number, lengths differ, a combination cannot be, two
        have the same names, there are more than 10^12 points, or not exactly one of
        ``context`` and ``prompt`` is given for a shape with a cache.
    NoCacheError
        If contexts are given for a shape without a cache.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.
    MissingExtraError
        If a client is given where Dask is not installed.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, sweep
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> shape = ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072)
    >>> table = sweep(shape, h100, batch=[1, 64], context=range(1024, 4097, 1024))
    >>> len(table), float(table.time[0]) > 4.7e-3
    (8, True)

    Several precisions; the chip lacks one of them:

    >>> table = sweep(
    ...     shape, h100, batch=[1, 64], context=4096, precision=["bf16", "w4a16", "fp8"], skip=True
    ... )
    >>> table.to_frame(["precision", "batch", "bound"]).values.tolist()
    [['bf16', 1, 'memory'], ['bf16', 64, 'memory'], ['w4a16', 1, 'memory'], ['w4a16', 64, 'memory']]
    >>> [one.precision for one in table.skipped]
    ['fp8']
    """
    asked = Asked(
        model=model,
        gpu=gpu,
        precision=precision,
        parallelism=parallelism,
        efficiency=efficiency,
        engine=engine,
    )
    checked_flag("grid", grid)
    checked_flag("skip", skip)
    client = checked_client(client)
    if context is not None and prompt is not None:
        raise InvalidValueError("context, prompt: expected one of them, got both")
    points = _points(batch, context, prompt, grid)
    found, skipped = settings(asked, points.check, skip)
    swept = asked.swept
    if len({setting.precision.name for setting in found}) > 1:
        swept = (*swept, "precision")  # each checkpoint's own
    whole = replace(points, settings=tuple(found), swept=swept)
    if len(whole) > MAX_STREAMED:
        raise InvalidValueError(
            f"batch, {whole.length_name}: expected at most {MAX_STREAMED:,} configurations, "
            f"got {len(whole):,}"
        )
    return Sweep(whole, tuple(skipped), client)


def _points(batch: Any, context: Any, prompt: Any, grid: bool) -> Grid:
    """The inner axes, checked, with no settings yet."""
    count = _counts("batch", batch)
    name, given = ("prompt", prompt) if context is None else ("context", context)
    length = np.ones(1 if grid else len(count)) if given is None else _counts(name, given)
    if not grid and count.shape != length.shape:
        raise InvalidValueError(
            f"{name}: expected as many as batch has ({len(count)}), got {len(length)}"
        )
    return Grid(
        settings=(),
        swept=(),
        phase="decode" if prompt is None else "prefill",
        # One row a batch; pairs are rows of one configuration.
        batch=count[:, None],
        length=length[None, :] if grid else length[:, None],
        length_name=None if given is None else name,
    )


def _path(path: Any) -> Path:
    try:
        return Path(fspath(path))
    except TypeError:
        raise InvalidValueError(f"path: expected a file, got {shown(path)}") from None


def _with_bar(parts: Iterable[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    """The same parts, counted on a bar as they are taken."""
    try:
        from tqdm import tqdm
    except ImportError:
        raise MissingExtraError('progress needs tqdm: pip install "perfmodel[sweep]"') from None

    def shown_parts() -> Iterator[dict[str, Any]]:
        with tqdm(total=total, unit=" points", unit_scale=True) as bar:
            for part in parts:
                yield part
                bar.update(len(next(iter(part.values()))))

    return shown_parts()


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
    return array.copy()  # computed later: what the caller does to its own must not matter
