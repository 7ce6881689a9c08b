"""Recorded requests: a table of prompt and output tokens, and perhaps of arrival times."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from perfmodel.answers.serving.lengths import tokens
from perfmodel.base._data import printable, reason, require_file
from perfmodel.base._messages import shown
from perfmodel.base.errors import ConfigError

MAX_ROWS: Final = 10_000_000
MAX_BYTES: Final = 2**30
MAX_LINE: Final = 2**20  # characters
_LATEST: Final = 1e11  # s: some 3,000 years
_BATCH: Final = 4096  # rows that are unpacked at once
_PAIRS: Final = 4096  # different pairs of lengths; more are gathered into classes
_SIDE: Final = 64  # classes of prompts, and of the outputs of each
# What tables call their columns, in small letters and without what is no letter. The first that a
# table has is meant: beside prompt_tokens, prompt is a text.
_USUAL: Final = {
    "prompt": (
        "prompttokens", "promptlength", "promptlen", "inputtokens", "inputlength", "inputlen",
        "contexttokens", "requesttokens", "isl", "numprefilltokens", "prompt", "input",
    ),
    "output": (
        "outputtokens", "outputlength", "outputlen", "generatedtokens", "completiontokens",
        "responsetokens", "osl", "numdecodetokens", "output",
    ),
    "arrival": ("arrival", "arrivaltime", "arrivedat", "timestamp", "time", "start"),
}  # fmt: skip


class Trace(NamedTuple):
    """What is kept of a trace: pairs of lengths, how often each came, and how many a second."""

    prompts: tuple[float, ...]
    """Tokens of prompts [1]."""
    outputs: tuple[float, ...]
    """Tokens of outputs [1]."""
    weights: tuple[float, ...]
    """Requests of each pair [1]."""
    rate: float | None
    """Requests a second; None where no times are recorded [1/s]."""


def read_trace(path: str | Path) -> Trace:
    """Read a trace.

    Raises
    ------
    ConfigError
        If the file cannot be read, has no such columns, is empty, or holds what is no length.
    """
    try:
        file = Path(path)
        require_file(file, MAX_BYTES)
    except TypeError:
        raise ConfigError(f"path: expected a CSV or Parquet file, got {shown(path)}") from None
    parquet = file.suffix.lower() in (".parquet", ".pq")
    prompts, outputs, arrivals = columns = tuple(array("d") for _ in _USUAL)
    try:
        for block in _parquet(file) if parquet else _csv(file):
            for what, column, values in zip(_USUAL, columns, block, strict=False):
                _append(file, what, column, values)
            if len(prompts) > MAX_ROWS:
                raise ConfigError(f"{printable(file)}: expected at most {MAX_ROWS:,} requests")
    except ConfigError:
        raise
    except ImportError:
        raise ConfigError(
            f"{printable(file)}: expected pyarrow to read Parquet, got none"
        ) from None
    except Exception as error:
        kind = "Parquet" if parquet else "CSV"
        why = shown(reason(error), 120)
        raise ConfigError(f"{printable(file)}: cannot be read as {kind} ({why})") from None
    if not prompts:
        raise ConfigError(f"{printable(file)}: expected at least one request, got an empty table")
    pairs = _gathered(prompts, outputs)
    return Trace(pairs[0], pairs[1], pairs[2], _rate(arrivals))


def _append(file: Path, what: str, column: array[float], values: Sequence[Any]) -> None:
    read, meant = (
        (_seconds, "seconds, at most 1e11, or an ISO date")
        if what == "arrival"
        else (_length, "a number of tokens from 1 to 1e8")
    )
    before = len(column)
    try:
        column.extend(map(read, values))
    except (ValueError, TypeError):
        raise ConfigError(
            f"{printable(file)}: {what} of request {len(column) + 1:,}: expected {meant}, "
            f"got {shown(values[len(column) - before])}"
        ) from None


def _csv(file: Path) -> Iterator[list[list[str]]]:
    """Columns of prompts, outputs and perhaps arrivals as written, so many rows at a time."""
    with file.open(encoding="utf-8-sig", newline="") as opened:
        # A line that is longer comes in parts, which are no rows of this table.
        lines = iter(partial(opened.readline, MAX_LINE), "")
        rows = filter(None, csv.reader(lines, strict=True))
        header = next(rows, [])
        places = _places(file, header)
        while block := list(islice(rows, _BATCH)):
            for row in block:
                if len(row) != len(header):
                    _fit(file, row, header)
            yield [[row[place] for row in block] for place in places]


def _fit(file: Path, row: list[str], header: list[str]) -> None:
    """Fill a row up; one that has more than the header, as of ``1,000`` tokens, is refused."""
    row += [""] * (len(header) - len(row))
    if any(row[len(header) :]):
        raise ConfigError(
            f"{printable(file)}: expected {len(header)} fields in a row, as the header has, "
            f"got {shown(row)}"
        )


def _parquet(file: Path) -> Iterator[list[list[Any]]]:
    """Columns of prompts, outputs and perhaps arrivals, so many rows at a time."""
    from pyarrow import parquet

    with parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        wanted = [names[place] for place in _places(file, names)]
        for batch in opened.iter_batches(_BATCH, columns=wanted):
            yield [batch[name].to_pylist() for name in wanted]


def _places(file: Path, names: Sequence[str]) -> list[int]:
    """Where prompts, outputs and, if there are any, arrivals stand."""
    plain = ["".join(filter(str.isalnum, name)).lower() for name in names]
    places = []
    for ours, usual in _USUAL.items():
        name = next((one for one in usual if one in plain), None)
        if name is not None:
            places.append(plain.index(name))
            if plain.count(name) > 1:
                raise ConfigError(
                    f"{printable(file)}: expected one column {shown(names[places[-1]])}, "
                    f"got {plain.count(name)}"
                )
        elif ours != "arrival":
            raise ConfigError(
                f"{printable(file)}: expected a column of {ours} tokens, as {ours}_tokens, "
                f"got {shown(list(names), 120)}"
            )
    return places


def _length(given: Any) -> float:
    return tokens(float(given) if isinstance(given, str) else given)


def _seconds(given: Any) -> float:
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            given = datetime.fromisoformat(given.strip())
    if isinstance(given, datetime):
        given = (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
    if not abs(given) <= _LATEST:  # NaN is not, nor are milliseconds since 1970
        raise ValueError
    return float(given)


def _rate(seconds: array[float]) -> float | None:
    """Requests a second between the first and the last."""
    span = max(seconds) - min(seconds) if seconds else 0.0
    return (len(seconds) - 1) / span if span > 0 else None


def _gathered(prompts: Any, outputs: Any) -> tuple[tuple[float, ...], ...]:
    """Pairs of lengths and how often each came; of many, classes with the mean of each."""
    import numpy as np

    prompts, outputs = np.array(prompts), np.array(outputs)
    pairs, counts = np.unique(np.stack([prompts, outputs], axis=1), axis=0, return_counts=True)
    if len(pairs) > _PAIRS:
        kind = _ranked(prompts, np.zeros(len(prompts)))
        kind = kind * _SIDE + _ranked(outputs, kind)
        _, kind, counts = np.unique(kind, return_inverse=True, return_counts=True)
        sums = (np.bincount(kind, weights=column) for column in (prompts, outputs))
        pairs = np.stack([total / counts for total in sums], axis=1)
    return tuple(pairs[:, 0].tolist()), tuple(pairs[:, 1].tolist()), tuple(map(float, counts))


def _ranked(values: Any, within: Any) -> Any:
    """Into which of 64 equal classes each value falls, among those of the same kind."""
    import numpy as np

    order = np.lexsort([values, within])
    kinds, first, counts = np.unique(within[order], return_index=True, return_counts=True)
    place = np.searchsorted(kinds, within[order])
    rank = (np.arange(len(values)) - first[place]) * _SIDE // counts[place]
    found = np.empty(len(values), dtype=np.int64)
    found[order] = rank
    return found
