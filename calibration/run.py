"""One command that re-creates catalogs/efficiency: ``python -m calibration.run [--wheel PATH]``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from calibration import read, report
from calibration.fit import Problem, halves, sample
from calibration.kinds import KINDS, Kind, balanced, constants
from calibration.tables import Tables, held_out
from perfmodel.answers.calibrating.fitting import Tested, tested

ROOT: Final = Path(__file__).parents[1]
EACH: Final = 1500  # rows of one chip, where chips are fitted together
FEWEST: Final = 16  # held-out rows; fewer say nothing

# Chips whose kernels behave alike, and what else belongs to them.
FAMILIES: Final[dict[str, tuple[str, ...]]] = {
    "ampere": ("a100-sxm-80gb",),
    "hopper": ("h100-sxm", "h200-sxm"),
    "blackwell": ("b200-sxm", "b300-sxm", "gb200", "gb300"),
    "gddr": ("l40s", "rtx-pro-6000-server"),
    "intel": ("arc-pro-b60",),
}
COLLECTIVE: Final = ("collective", "own-all-reduce")  # their formats are the operations
FAMILY: Final = {chip: family for family, chips in FAMILIES.items() for chip in chips}


class Fit(NamedTuple):
    """Parameters of one kind, format and engine, and what they miss."""

    level: str  # a chip, a family, or "unknown"
    kind: str
    format: str
    engine: str
    form: dict[str, float]
    tested: Tested
    basis: str  # which rows it was tested on
    among: Tested | None = None  # of these, those that a target speaks of
    elsewhere: Tested | None = None  # a fit of all other chips, tested on this one


def main() -> None:
    """Read, fit, test, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="of aiconfigurator-core; else the installed one")
    parser.add_argument("--reference", type=Path, help="a folder whose rows are held out")
    parser.add_argument("--only", nargs="*", default=list(KINDS), help="kinds")
    given = parser.parse_args()
    tables, held = Tables(given.wheel), held_out(given.reference)
    fits = [fit for name in given.only for fit in fitted(name, KINDS[name], tables, held)]
    report.write_catalog(ROOT / "catalogs" / "efficiency", fits, FAMILIES)
    report.write_results(ROOT / "calibration" / "results.md", fits, read.EXCLUDED, FAMILY)


def fitted(
    name: str, kind: Kind, tables: Tables, held: Mapping[str, pd.DataFrame]
) -> Iterator[Fit]:
    """All fits of one kind: of each chip, of each family, and of all chips but one family."""
    rows = kind.read(tables, dict(held))
    for written, of_format in rows.groupby("format"):
        problem = kind.problem(str(written))
        parts: dict[str, dict[str, pd.DataFrame]] = {}  # by engine, then chip
        for (chip, engine), part in of_format.groupby(["chip", "engine"]):
            parts.setdefault(str(engine), {})[str(chip)] = kind.chosen(part)
        if "nccl" in parts:
            parts = {"pooled": parts["nccl"]}
        elif name not in COLLECTIVE:
            parts = {"pooled": _pooled(parts), **parts}
        for engine, chips in parts.items():
            for found in _levels(problem, chips, kind.among):
                form = constants(name, str(written), found.chips) | found.parameters
                kind_of = str(written) if name == "collective" else name
                form_of = "" if name in COLLECTIVE else str(written)
                yield Fit(found.name, kind_of, form_of, engine, form, *found[3:])
        print(name, written, flush=True)


def _pooled(parts: Mapping[str, Mapping[str, pd.DataFrame]]) -> dict[str, pd.DataFrame]:
    """Rows of all engines together, as many of each."""
    chips = sorted({chip for of_engine in parts.values() for chip in of_engine})
    return {
        chip: pd.concat([part[chip] for part in parts.values() if chip in part], ignore_index=True)
        for chip in chips
    }


class Level(NamedTuple):
    """Parameters of a chip, a family or all, and their errors on rows that they have not seen."""

    name: str
    chips: tuple[str, ...]
    parameters: dict[str, float]
    tested: Tested
    basis: str
    among: Tested | None = None
    elsewhere: Tested | None = None


def _levels(problem: Problem, chips: Mapping[str, pd.DataFrame], among: str) -> Iterator[Level]:
    """Of each chip, of each family, and of every chip."""
    for chip, rows in chips.items():
        half = halves(rows)
        if half.sum() >= FEWEST and (~half).sum() >= FEWEST:
            own = problem.fit(sample(rows[~half], 6000))
            core = rows[among].to_numpy(bool) if among else np.ones(len(rows), dtype=bool)
            ratio = _left_out(problem, {**chips, chip: rows[core]}, (chip,))
            yield Level(
                chip,
                (chip,),
                own,
                _tested(problem, own, rows[half]),
                "other shapes",
                _tested(problem, own, rows[half & core]) if among and any(half & core) else None,
                _of([ratio]) if ratio else None,
            )
    linked = {chip: rows for chip, rows in chips.items() if _alike(problem, chip)}
    inside = {
        family: {chip: chips[chip] for chip in members if chip in chips}
        for family, members in FAMILIES.items()
    }
    alike = {
        family: [_left_out(problem, of_family, (chip,)) for chip in of_family]
        for family, of_family in inside.items()
        if len(of_family) > 1
    }
    for family, of_family in inside.items():
        # A family of one is as like its chip, for all that is known, as other families are alike.
        ratios = alike.get(family) or [pair for pairs in alike.values() for pair in pairs]
        if of_family and ratios:
            parameters = problem.fit(balanced(list(of_family.values()), EACH))
            basis = "other chips" if family in alike else "other families' chips"
            yield Level(family, tuple(of_family), parameters, _of(ratios), basis)
    away = {name: _left_out(problem, linked, members) for name, members in FAMILIES.items()}
    known = {chip: rows for chip, rows in linked.items() if FAMILY[chip] != "intel"}
    ratios = [pair for family, pair in away.items() if family != "intel" and pair]
    if ratios:
        parameters = problem.fit(balanced(list(known.values()), EACH))
        yield Level("unknown", tuple(known), parameters, _of(ratios), "other families")


def _alike(problem: Problem, chip: str) -> bool:
    """Whether a chip can stand for an unknown one: collectives over PCIe are another matter."""
    return "wire" not in problem.columns or read.chip(chip).link is not None


def _left_out(problem: Problem, chips: Mapping[str, pd.DataFrame], out: tuple[str, ...]) -> Any:
    """Predicted and measured of some chips, by a fit of the others."""
    rest = [rows for chip, rows in chips.items() if chip not in out and FAMILY[chip] != "intel"]
    asked = [sample(chips[chip], EACH) for chip in out if chip in chips]
    if not rest or not asked:
        return None
    parameters, rows = problem.fit(balanced(rest, EACH)), pd.concat(asked, ignore_index=True)
    return problem.time(parameters, rows), rows.measured.to_numpy(float)


def _of(pairs: list[Any]) -> Tested:
    predicted, measured = (np.concatenate([pair[i] for pair in pairs]) for i in range(2))
    return tested(predicted, measured, few=False)


def _tested(problem: Problem, parameters: Mapping[str, float], rows: pd.DataFrame) -> Tested:
    return tested(problem.time(parameters, rows), rows.measured.to_numpy(float), few=False)


if __name__ == "__main__":
    main()
