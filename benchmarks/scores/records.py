"""A measurement restated in the library's own words, as one line of a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# A lone kernel, as the kernel tables have it.
KERNELS = (
    "matrix product",
    "prefill attention",
    "decode attention",
    "latent attention",
    "experts",
    "collective",
)
# A batch that starts together: its prefill alone, or all of it to the last token, as engines have
# published or as one study of many chips has; decode steps of one sequence; and the mean time a
# token while requests come and go.
STEPS = ("first token", "batch", "study", "single stream", "serving")
# Serving once more, with nothing that was fitted to a served model: no host.
HOSTLESS = "serving, no host"
FAMILIES = (*KERNELS, *STEPS, HOSTLESS)


class Record(NamedTuple):
    """One measurement. Its fields are the columns of the fixture."""

    family: str
    gpu: str  # key of the catalog
    model: str  # key of the catalog; of a lone kernel its sizes: "m=16 n=4096 k=4096"
    engine: str
    precision: str  # a preset, or a recipe of ``precisions``
    tensor: int
    pipeline: int
    expert: int
    batch: int  # sequences, or users
    prompt: int
    output: int
    measured: float  # s
    source: str

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel alone."""
        return self.family in KERNELS

    @property
    def sizes(self) -> dict[str, int]:
        """Of a lone kernel, its sizes by name."""
        pairs = (pair.split("=") for pair in self.model.split())
        return {name: int(value) for name, value in pairs}


class Left(NamedTuple):
    """A row that is not scored, why, and its record where one can be written."""

    family: str
    reason: str
    record: Record | None = None


_WHOLE = ("tensor", "pipeline", "expert", "batch", "prompt", "output")


def read(path: Path) -> list[Record]:
    """The records of a table."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [_record(line) for line in csv.DictReader(lines)]


def _record(line: dict[str, str]) -> Record:
    counts = {name: int(line[name]) for name in _WHOLE}
    return Record(**{**line, **counts, "measured": float(line["measured"])})  # type: ignore[arg-type]


def write(path: Path, records: Iterable[Record]) -> None:
    """Write a table."""
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(Record._fields)
        for record in records:
            lines.writerow(record._replace(measured=f"{record.measured:.5g}"))  # type: ignore[arg-type]


def rounded(record: Record) -> Record:
    """A record as its table has it."""
    return record._replace(measured=float(f"{record.measured:.5g}"))
