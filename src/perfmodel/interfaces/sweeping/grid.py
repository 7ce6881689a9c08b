"""The points of a sweep, in an order and in parts that are the same wherever they are computed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np

from perfmodel.answers.estimate import Estimate, Phase
from perfmodel.answers.steps import estimate_unchecked
from perfmodel.base.errors import InvalidValueError
from perfmodel.interfaces.sweeping.columns import ASKED, BOUNDS, HELD, MORE, USUAL, Column
from perfmodel.interfaces.sweeping.settings import AXES, Setting
from perfmodel.work.step import Group, Step

BLOCK: Final = 2**15  # points that are computed at once: what arises on the way stays in the cache
PART: Final = 2**20  # points that are held at once: a row group, a task


class Piece(NamedTuple):
    """Points that are computed at once: neighbours in the table, all of one setting."""

    setting: int
    rows: slice
    across: slice
    points: int


@dataclass(frozen=True, eq=False)
class Grid:
    """Every setting with every batch and length, or with every pair of them."""

    settings: tuple[Setting, ...]
    """The outer axes, combined."""
    swept: tuple[str, ...]
    """Those of them that are columns of the table."""
    phase: Phase
    """``"decode"`` over contexts, or ``"prefill"`` over prompts."""
    batch: Any
    """Sequences, one a row, shape (n, 1)."""
    length: Any
    """Contexts or prompts, shape (1, m), or of pairs (n, 1)."""
    length_name: str | None
    """``"context"`` or ``"prompt"``; None where a shape without a cache has neither."""

    def __len__(self) -> int:
        return len(self.settings) * self.shape[0] * self.shape[1]

    @cached_property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of one setting's points."""
        rows, width = np.broadcast_shapes(self.batch.shape, self.length.shape)
        return rows, width

    # -- columns -----------------------------------------------------------------------------------

    @property
    def usual(self) -> tuple[str, ...]:
        """Names of the columns that a table has where none are chosen."""
        outer: list[str] = [name for name in AXES if name in self.swept]
        if "parallelism" in outer:
            outer.insert(outer.index("parallelism") + 1, "devices")
        lengths = [] if self.length_name is None else [self.length_name]
        known = any(setting.gpu.capacity is not None for setting in self.settings)
        outputs = [column.name for column in (*USUAL, *(HELD if known else ()))]
        return (*outer, "batch", *lengths, *outputs)

    @property
    def possible(self) -> tuple[str, ...]:
        """Names of all columns that a table may have."""
        absent = {"context", "prompt"} - {self.length_name}
        every = (column.name for column in (*ASKED, *USUAL, *HELD, *MORE))
        return tuple(name for name in every if name not in absent)

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """The different names of each axis, in the order of their first setting."""
        return {
            name: list(dict.fromkeys(setting.names[name] for setting in self.settings))
            for name in AXES
        }

    @cached_property
    def unknown_memory(self) -> bool:
        """Whether a chip's capacity is not known, so that the table lacks some flags."""
        return any(setting.gpu.capacity is None for setting in self.settings)

    # -- points ------------------------------------------------------------------------------------

    def pieces(self) -> Iterator[Piece]:
        """All points in the order of the table, a block at a time."""
        rows, width = self.shape
        across = min(width, BLOCK)
        down = max(1, BLOCK // across)
        for setting in range(len(self.settings)):
            for row in range(0, rows, down):
                for start in range(0, width, across):
                    high, wide = min(down, rows - row), min(across, width - start)
                    yield Piece(
                        setting, slice(row, row + high), slice(start, start + wide), high * wide
                    )

    def parts(self) -> Iterator[list[Piece]]:
        """The blocks, as many together as may be held at once."""
        part: list[Piece] = []
        points = 0
        for piece in self.pieces():
            if points + piece.points > PART:
                yield part
                part, points = [], 0
            part.append(piece)
            points += piece.points
        yield part

    def estimate(self, piece: Piece) -> Estimate:
        """The steps of a block, as one estimate whose numbers are arrays."""
        setting = self.settings[piece.setting]
        length = self.length[:, piece.across] if len(self.length) == 1 else self.length[piece.rows]
        return estimate_unchecked(
            self.phase,
            setting.model,
            setting.gpu,
            (self._group(self.batch[piece.rows], length),),
            precision=setting.precision,
            efficiency=setting.efficiency,
            parallelism=setting.parallelism,
            cluster=setting.cluster,
        )

    def _group(self, count: Any, length: Any) -> Group:
        new, past = (1, length - 1) if self.phase == "decode" else (length, 0)
        return Group.trusted(count=count, new=new, past=past, logits=1, shared_past=0)

    def check(self, setting: Setting) -> None:
        """Refuse a setting that cannot be.

        Raises
        ------
        PerfModelError
            If the chip lacks a format or a link, the model cannot be divided so, learned
            positions do not reach, or contexts and a cache do not belong together.
        """
        if self.length_name == "context":
            setting.model.require_cache()
        elif self.length_name is None and setting.model.has_cache:
            raise InvalidValueError("context: required for a model with a KV cache, but missing")
        setting.model.require_positions(self.length)
        first = Piece(0, slice(0, 1), slice(0, 1), 1)
        Grid((setting,), (), self.phase, self.batch, self.length, self.length_name).estimate(first)

    def assumptions(self) -> list[str]:
        """What the numbers of all settings take for granted, each line once."""
        count, length = int(self.batch.max()), int(self.length.max())
        found: dict[str, None] = {}
        for setting in self.settings:
            step = Estimate.trusted(
                phase=self.phase,
                model=setting.model,
                gpu=setting.gpu,
                precision=setting.precision,
                step=Step.trusted(groups=(self._group(count, length),)),
                efficiency=setting.efficiency,
                small_steps="fused",
                weights_only=False,
                parallelism=setting.parallelism,
                cluster=setting.cluster,
            )
            found |= dict.fromkeys(step.assumptions)
        return list(found)


def computed(grid: Grid, pieces: Sequence[Piece], columns: Iterable[Column]) -> dict[str, Any]:
    """The columns of neighbouring blocks, one element a point.

    Names are places in ``grid.labels``, or in ``BOUNDS``; a flag is 1, 0, or -1 where it is not
    known. This is all that a worker of a cluster does, and all that is done here without one.
    """
    columns = tuple(columns)
    total = sum(piece.points for piece in pieces)
    found = {column.name: np.empty(total, dtype=_STORED[column.kind]) for column in columns}
    start = 0
    for piece in pieces:
        shape = piece.rows.stop - piece.rows.start, piece.across.stop - piece.across.start
        step = grid.estimate(piece) if any(column.read for column in columns) else None
        for column in columns:
            part = found[column.name][start : start + piece.points].reshape(shape)
            part[...] = _value(grid, piece, column, step)
        start += piece.points
    return found


_STORED: Final = {
    "name": np.int32,
    "count": np.float64,  # so that no product of them wraps around
    "number": np.float64,
    "band": np.float64,
    "bound": np.int8,
    "flag": np.int8,
}


def _value(grid: Grid, piece: Piece, column: Column, step: Estimate | None) -> Any:
    if column.read is None or step is None:
        return _asked(grid, piece, column.name)
    value = column.read(step)
    if column.kind == "bound":
        names = np.asarray(value)
        found = names == BOUNDS[1]
        many = step.devices > 1
        return found + 2 * (names == BOUNDS[2]) if many else found
    missing = -1 if column.kind == "flag" else np.nan
    return missing if value is None else value


def _asked(grid: Grid, piece: Piece, name: str) -> Any:
    if name == "batch":
        return grid.batch[piece.rows]
    if name == grid.length_name:
        length = grid.length
        return length[:, piece.across] if len(length) == 1 else length[piece.rows]
    setting = grid.settings[piece.setting]
    if name == "devices":
        return setting.parallelism.devices
    return grid.labels[name].index(setting.names[name])
