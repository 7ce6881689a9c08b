"""What a table of steps may have for columns: names, units and meanings, and how each is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

from perfmodel.answers.estimate import Estimate
from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError

_Kind: TypeAlias = Literal["name", "count", "number", "band", "bound", "flag"]


@dataclass(frozen=True)
class Column:
    """One column: what it is called, in which unit, and what it means."""

    name: str
    """Its name in the table."""
    unit: str
    """Its unit; empty for names and flags."""
    meaning: str
    """What it says of the step in its row."""
    kind: _Kind = "number"
    """How it is stored: names by their place in a list, counts as integers, numbers as floats;
    a band as one that may be missing."""
    read: Callable[[Estimate], Any] | None = None
    """Where an estimate has it; None for what was asked."""


def _output(name: str, unit: str, meaning: str, kind: _Kind = "number", path: str = "") -> Column:
    return Column(name, unit, meaning, kind, attrgetter(path or name))


BOUNDS: Final = ("memory", "compute", "network")

# What was asked: the same for all steps of a setting, but for the last three.
ASKED: Final = (
    Column("model", "", "Name of the model", "name"),
    Column("gpu", "", "Name of the chip, or of the cluster", "name"),
    Column("precision", "", "Name of the precision", "name"),
    Column("parallelism", "", "How devices share the work", "name"),
    Column("devices", "1", "Devices in all", "count"),
    Column("efficiency", "", "How far below the roofs", "name"),
    Column("engine", "", "Whose kernels and host are meant", "name"),
    Column("batch", "1", "Sequences of the step", "count"),
    Column("context", "1", "Tokens that each new token attends, itself included", "count"),
    Column("prompt", "1", "New tokens of each sequence", "count"),
)
USUAL: Final = (
    _output("time", "s", "Operations one after another, each at its own roof"),
    _output("floor", "s", "What no honest cold run can beat"),
    _output("bound", "", "Which total time is the largest", "bound"),
    _output("tokens_per_second", "1/s", "Tokens of the step over its time"),
    _output("flops", "FLOP", "Floating-point operations of the step"),
    _output("bytes", "B", "Bytes that the step moves"),
)
HELD: Final = (
    _output("needed", "B", "What memory must hold: weights and KV cache", path="memory.needed"),
    _output("fits", "", "Whether memory holds them; missing where unknown", "flag", "memory.fits"),
)
MORE: Final = (
    _output("low", "s", "What nine of ten measurements exceed; missing without bands", "band"),
    _output("high", "s", "What nine of ten stay below; missing without bands", "band"),
    _output("ideal", "s", "What the same step takes at the roofs themselves"),
    _output("compute_time", "s", "All FLOPs, each at its format's peak"),
    _output("memory_time", "s", "All bytes at the bandwidth"),
    _output("network_time", "s", "Bytes between devices, each at its link"),
    _output("weight_traffic", "B", "Weights that the step reads"),
    _output("kv_traffic", "B", "KV cache and state that the step reads and writes"),
    _output("activation_traffic", "B", "Inputs and outputs of the operations"),
    _output("intensity", "FLOP/B", "Arithmetic intensity of the whole step"),
    _output("compute_utilization", "1", "Share of the time that the compute roof is busy"),
    _output("memory_utilization", "1", "Share of the time that the memory roof is busy"),
)
KNOWN: Final = {column.name: column for column in (*ASKED, *USUAL, *HELD, *MORE)}


def chosen(columns: Any, possible: Iterable[str]) -> tuple[Column, ...]:
    """The columns of these names, each once.

    Raises
    ------
    UnknownKeyError
        If there is no such column in the table.
    InvalidValueError
        If it is no list of names, or empty.
    """
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidValueError(f"columns: expected a list of names, got {shown(columns)}")
    names = list(dict.fromkeys(columns)) if isinstance(columns, list | tuple) else list(columns)
    if not names:
        raise InvalidValueError("columns: expected at least one name, got none")
    known = set(possible)
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise UnknownKeyError(f"columns: no column {shown(name)}; {did_you_mean(name, known)}")
    return tuple(KNOWN[name] for name in dict.fromkeys(names))
