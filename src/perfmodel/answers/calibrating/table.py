"""A user's table of measurements: text until it is asked for, and every error names its row."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from perfmodel.base._data import MAX_FILE_BYTES, printable, read_text, reason
from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import ConfigError, InvalidValueError, PerfModelError
from perfmodel.base.spec import positive, whole

MAX_ROWS: Final = 20_000  # a sample of so many says as much as all of them
_BLANK: Final = ("", "nan", "none", "null", "<na>")


class Row(NamedTuple):
    """One measurement: its place below the header, 1 the first, and what stands in its cells."""

    file: str
    number: int
    cells: dict[str, str]

    def has(self, name: str) -> bool:
        """Whether the cell holds anything."""
        return name in self.cells

    def text(self, name: str, default: str | None = None) -> str:
        """A cell as it is."""
        found = self.cells.get(name, default)
        if found is None:
            self.refuse(f"{name}: required, but missing")
        return found

    def count(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A cell as a whole number."""
        if default is not None and not self.has(name):
            return default
        try:
            return whole(float(self.text(name)), least)
        except PerfModelError:
            raise
        except ValueError:
            expected = f"expected a whole number from {least} to 1e15"
            self.refuse(f"{name}: {expected}, got {shown(self.cells[name])}")

    def key(self, names: Iterable[str]) -> str:
        """Some cells as one name: 8 and 8.0 are the same."""
        return "/".join(_plain(self.cells.get(name, "")) for name in names)

    @property
    def seconds(self) -> float:
        """The time that was measured [s]."""
        try:
            return positive(float(self.text("seconds")))
        except PerfModelError:
            raise
        except ValueError:
            self.refuse(
                "seconds: expected a positive number of seconds (a millisecond is 1e-3), "
                f"got {shown(self.cells['seconds'])}"
            )

    def choice(self, name: str, choices: Collection[str], default: str | None = None) -> str:
        """A cell as one of several words."""
        found = self.text(name, default)
        if found not in choices:
            self.refuse(f"{name}: no {name} {shown(found)}; {did_you_mean(found, choices)}")
        return found

    def only(self, names: Collection[str], what: str) -> None:
        """Refuse a cell that says something about another kind of measurement."""
        for name in self.cells:
            if name not in names:
                self.refuse(f"{name}: expected nothing of {what}, got {shown(self.cells[name])}")

    def refuse(self, message: str) -> NoReturn:
        """Raise an error that names the row.

        Raises
        ------
        InvalidValueError
            Always.
        """
        raise InvalidValueError(f"{self.file}: row {self.number}: {message}")

    def explain(self, error: PerfModelError) -> NoReturn:
        """Raise what a row led to, with the row's name before it.

        Raises
        ------
        InvalidValueError
            Always.
        """
        self.refuse(str(error).removeprefix(f"{self.file}: row {self.number}: "))


def _plain(cell: str) -> str:
    try:
        return f"{float(cell):.17g}"
    except ValueError:
        return cell


def read_rows(measurements: Any) -> list[Row]:
    """The rows of a CSV file, or of a pandas DataFrame.

    Raises
    ------
    ConfigError
        If it cannot be read, is no table, or is too large.
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(measurements, pandas.DataFrame):
        name, text = "measurements", _frame_text(measurements)
    elif isinstance(measurements, str | Path):
        path = Path(measurements)
        name, text = printable(path), read_text(path)
    else:
        raise ConfigError(
            "measurements: expected the path of a CSV file or a pandas DataFrame, "
            f"got {shown(measurements)}"
        )
    rows = list(_rows(name, text))
    if not rows:
        raise ConfigError(f"{name}: expected rows of measurements below a header, got none")
    return rows


def _frame_text(frame: Any) -> str:
    if len(frame) > MAX_ROWS:
        raise ConfigError(f"measurements: expected at most {MAX_ROWS:,} rows, got {len(frame):,}")
    try:
        text = str(frame.to_csv(index=False))
    except Exception:  # cells that cannot be written
        raise ConfigError(f"measurements: expected numbers and texts, got {shown(frame)}") from None
    if len(text) > MAX_FILE_BYTES:
        raise ConfigError(f"measurements: expected at most {MAX_FILE_BYTES} bytes as CSV, got more")
    return text


def _rows(file: str, text: str) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    try:
        header = _header(file, next(lines, []))
        number = 0
        for cells in lines:
            if not any(cells):
                continue  # a blank line
            number += 1
            if number > MAX_ROWS:
                raise ConfigError(f"{file}: expected at most {MAX_ROWS:,} rows, got more")
            if len(cells) > len(header):
                raise ConfigError(
                    f"{file}: row {number}: expected {len(header)} cells, got {len(cells)}"
                )
            named = zip(header, map(str.strip, cells), strict=False)
            kept = {name: cell for name, cell in named if cell.lower() not in _BLANK}
            yield Row(file, number, kept)
    except csv.Error as error:
        raise ConfigError(f"{file}: expected CSV ({reason(error)})") from None


def _header(file: str, cells: list[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    twice = next((name for name in names if names.count(name) > 1), None)
    if not any(names):
        raise ConfigError(f"{file}: expected a header that names the columns, got none")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t"):
        raise ConfigError(f"{file}: expected commas between columns, got {shown(cells[0])}")
    if len(names) > 100:
        raise ConfigError(f"{file}: expected at most 100 columns, got {len(names):,}")
    if twice is not None:
        raise ConfigError(f"{file}: expected each column once, got {plain(twice)} twice")
    return names


def check_columns(rows: Sequence[Row], known: Collection[str]) -> None:
    """Refuse a column that no measurement of the kind has.

    Raises
    ------
    ConfigError
        If there is one; the message names the nearest.
    """
    for name in dict.fromkeys(name for row in rows for name in row.cells):
        if name not in known:
            raise ConfigError(f"{rows[0].file}: {plain(name)}: unknown column; "
                              f"{did_you_mean(name, known)}")  # fmt: skip
