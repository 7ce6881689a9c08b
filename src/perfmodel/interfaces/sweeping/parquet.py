"""A table of any length to a Parquet file, one row group at a time."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError, MissingExtraError
from perfmodel.interfaces.sweeping.columns import BOUNDS, Column
from perfmodel.interfaces.sweeping.grid import Grid

if TYPE_CHECKING:
    import pyarrow as pa


def write(
    path: Path,
    grid: Grid,
    columns: Sequence[Column],
    parts: Iterable[Mapping[str, Any]],
    attributes: Mapping[str, Any],
) -> None:
    """Write parts of a table, each as a row group; the file is there when it is whole.

    Raises
    ------
    MissingExtraError
        If pyarrow is not installed.
    InvalidValueError
        If there can be no such file.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError(
            'to_parquet needs pyarrow: pip install "perfmodel[sweep]"'
        ) from None
    schema = _schema(columns, attributes)
    # Few values, often repeated, are kept as places in a list; figures byte by byte, since
    # neighbours share their first ones.
    figures = [column.name for column in columns if column.kind in ("number", "band")]
    repeated = [column.name for column in columns if column.name not in figures]
    with _whole(path) as file:
        writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=repeated,
            use_byte_stream_split=figures or False,
        )
        with writer:
            for part in parts:
                arrays = [_arrow(grid, column, part[column.name]) for column in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file beside the one that is meant, which takes its place at the end, or goes."""
    beside = path.parent / f".{path.name[:100]}.{secrets.token_hex(4)}.part"
    try:
        if path.exists() and not path.is_file():
            raise OSError(None, "it is a folder" if path.is_dir() else "it is no file")
        file = beside.open("xb")
    except (OSError, ValueError) as error:
        raise _refused(path, "a file in a folder that is there", error) from None
    try:
        with file:
            yield file
        os.replace(beside, path)
    except BaseException as error:
        # Interrupted or out of space: nobody shall take half a table for a whole one.
        beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _refused(path, "room for a file", error) from error
        raise


def _refused(path: Path, expected: str, error: Exception) -> InvalidValueError:
    why = getattr(error, "strerror", None) or str(error)
    return InvalidValueError(f"path: expected {expected}, got {shown(str(path))} ({why})")


def _schema(columns: Sequence[Column], attributes: Mapping[str, Any]) -> pa.Schema:
    """Types, and what the table says of itself: of each field, and of all of them.

    pandas reads its own entry into ``DataFrame.attrs``.
    """
    import pyarrow as pa

    types = {
        "name": pa.dictionary(pa.int32(), pa.string()),
        "bound": pa.dictionary(pa.int8(), pa.string()),
        "count": pa.int64(),
        "flag": pa.bool_(),
        "number": pa.float64(),
        "band": pa.float64(),
    }
    told = json.dumps(attributes)
    fields = [
        pa.field(c.name, types[c.kind], metadata={"unit": c.unit, "meaning": c.meaning})
        for c in columns
    ]
    return pa.schema(fields, metadata={"perfmodel": told, "PANDAS_ATTRS": told})


def _arrow(grid: Grid, column: Column, values: Any) -> pa.Array:
    import pyarrow as pa

    if column.kind in ("name", "bound"):
        names = BOUNDS if column.kind == "bound" else grid.labels[column.name]
        return pa.DictionaryArray.from_arrays(pa.array(values), pa.array(names, pa.string()))
    if column.kind == "count":
        return pa.array(values.astype(np.int64))
    if column.kind == "flag":
        return pa.array(values > 0, mask=values < 0)
    return pa.array(values, from_pandas=column.kind == "band")  # NaN is none
