"""What is compared: one measurement, its floor, and why it may lie below it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import perfmodel as pm
from floors.names import CHIPS

Row = dict[str, str]


@dataclass(frozen=True)
class Check:
    """One measurement against the least time that the library allows it."""

    file: str
    row: str
    chip: str
    measured: float  # s
    floor: float  # s
    working_set: float  # B that would have to stay in the cache for it to read nothing
    cache: float  # B of the last-level caches of all devices together
    excuse: str = ""  # why the row may lie below: a flag of the data, or of the run

    @property
    def below(self) -> bool:
        """Whether the measurement beats its floor."""
        return self.measured < self.floor

    @property
    def ratio(self) -> float:
        """Measured over floor: below 1 it is beaten."""
        return self.measured / self.floor

    @property
    def cached(self) -> bool:
        """Whether what it works on may stay in the cache."""
        return self.working_set <= self.cache

    @property
    def why(self) -> str:
        """Why it may lie below; empty where it may not."""
        return self.excuse or ("fits the cache" if self.cached else "")


@dataclass(frozen=True)
class Unchecked:
    """A row without a floor, and why."""

    file: str
    row: str
    reason: str


class NoFloorError(Exception):
    """The row says too little, or the library lacks its chip, its model or its format."""


def rows(folder: Path, name: str) -> list[Row]:
    """The rows of one file of the reference data."""
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def chip(name: str) -> pm.GpuSpec:
    """The catalog's chip of a name of the data."""
    key = CHIPS.get(name)
    if key is None or key not in pm.gpus():
        raise NoFloorError(f"no chip {name} in the catalog")
    return pm.gpu(key)


def fastest(gpu: pm.GpuSpec, formats: tuple[str, ...]) -> str:
    """Of formats that a kernel may compute in, the one with the highest peak."""
    known = [name for name in formats if name in gpu.peak_flops.formats]
    if not known:
        raise NoFloorError(f"no peak of {gpu.name} for {formats[0]}")
    return max(known, key=gpu.peak)
