"""Recorded requests: a table of prompt and output tokens, and perhaps of arrival times."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfmodel.answers.serving.lengths import MAX_LENGTH
from perfmodel.base._data import printable, reason
from perfmodel.base._messages import shown
from perfmodel.base.errors import ConfigError

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS: Final = 10_000_000
MAX_BYTES: Final = 2**30
_PAIRS: Final = 4096  # different pairs of lengths; more are gathered into classes
_SIDE: Final = 64  # classes of prompts, and of the outputs of each
# What tables call their columns, in small letters and without what is no letter.
_PROMPT: Final = (
    "prompt", "prompttokens", "promptlength", "promptlen", "inputtokens", "inputlength", "inputlen",
    "input", "contexttokens", "requesttokens", "isl", "numprefilltokens",
)  # fmt: skip
_OUTPUT: Final = (
    "output", "outputtokens", "outputlength", "outputlen", "generatedtokens", "completiontokens",
    "responsetokens", "osl", "numdecodetokens",
)  # fmt: skip
_ARRIVAL: Final = ("arrival", "arrivaltime", "arrivedat", "timestamp", "time", "start")


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
        known = file.is_file()
    except (TypeError, ValueError, OSError):  # no path, or a NUL in it
        raise ConfigError(f"path: expected a CSV or Parquet file, got {shown(path)}") from None
    if not known:
        raise ConfigError(f"{printable(path)}: no such file")
    if file.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{printable(path)}: expected at most {MAX_BYTES} bytes, got more")
    table = _table(file)
    if len(table) > MAX_ROWS:
        raise ConfigError(f"{printable(path)}: expected at most {MAX_ROWS:,} requests, got more")
    if not len(table):
        raise ConfigError(f"{printable(path)}: expected at least one request, got an empty table")
    prompts, outputs = (_lengths(file, table[name], name) for name in ("prompt", "output"))
    rate = _rate(file, table["arrival"]) if "arrival" in table else None
    pairs = _gathered(prompts, outputs)
    return Trace(pairs[0], pairs[1], pairs[2], rate)


def _table(file: Path) -> pd.DataFrame:
    """The two or three columns that count, under their own names."""
    import pandas as pd

    parquet = file.suffix.lower() in (".parquet", ".pq")
    try:
        if parquet:
            from pyarrow import parquet as pq

            with pq.ParquetFile(file) as opened:
                names = _columns(file, opened.schema_arrow.names)
                if opened.metadata.num_rows > MAX_ROWS:
                    return pd.DataFrame(index=range(MAX_ROWS + 1))
                found = opened.read(columns=list(names)).to_pandas()
        else:
            head = pd.read_csv(file, nrows=0, compression=None)
            names = _columns(file, [str(name) for name in head.columns])
            found = pd.read_csv(
                file, usecols=list(names), nrows=MAX_ROWS + 1, compression=None, low_memory=False
            )
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
    renamed: pd.DataFrame = found.rename(columns=names)
    return renamed


def _columns(file: Path, names: Iterable[str]) -> dict[str, str]:
    """Which column is which: its name to ours."""
    known = {"".join(filter(str.isalnum, name)).lower(): name for name in names}
    found = {}
    for ours, usual in (("prompt", _PROMPT), ("output", _OUTPUT), ("arrival", _ARRIVAL)):
        name = next((known[one] for one in usual if one in known), None)
        if name is not None:
            found[name] = ours
        elif ours != "arrival":
            raise ConfigError(
                f"{printable(file)}: expected a column of {ours} tokens, as {ours}_tokens, "
                f"got {shown(list(known.values()), 120)}"
            )
    return found


def _lengths(file: Path, column: pd.Series[Any], name: str) -> Any:
    import numpy as np
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").to_numpy(dtype="float64", na_value=np.nan)
    wrong = ~((values >= 1) & (values <= MAX_LENGTH))  # NaN fails both
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(
            f"{printable(file)}: {name} tokens of request {row + 1:,}: expected from 1 to 1e8, "
            f"got {shown(column.iloc[[row]].tolist()[0])}"
        )
    return values


def _rate(file: Path, column: pd.Series[Any]) -> float | None:
    """Requests a second between the first and the last."""
    import numpy as np
    import pandas as pd

    try:
        if pd.api.types.is_numeric_dtype(column):
            seconds = column.to_numpy(dtype="float64", na_value=np.nan)
        else:
            since = pd.to_datetime(column, format="ISO8601", utc=True)
            seconds = (since - since.min()).dt.total_seconds().to_numpy()
    except Exception:
        raise ConfigError(
            f"{printable(file)}: expected arrivals in seconds or as ISO dates, "
            f"got {shown(column.iloc[0])}"
        ) from None
    if not np.isfinite(seconds).all():
        raise ConfigError(f"{printable(file)}: expected an arrival of every request, got gaps")
    span = float(seconds.max() - seconds.min())
    if len(seconds) < 2 or span <= 0:
        return None
    return (len(seconds) - 1) / span


def _gathered(prompts: Any, outputs: Any) -> tuple[tuple[float, ...], ...]:
    """Pairs of lengths and how often each came; of many, classes with the mean of each."""
    import numpy as np

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
