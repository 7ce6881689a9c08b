"""Whether an engine's kernel on other chips stands for it, or other engines' on the chip.

``python -m calibration.carried [--wheel PATH] [--reference FOLDER]`` prints one line a kernel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd

from calibration.fit import Problem, sample
from calibration.kinds import KINDS
from calibration.run import COLLECTIVE, FAMILY
from calibration.tables import Tables, held_out

EACH = 1000  # rows of a chip and an engine


def main() -> None:
    """Leave out each kernel of an engine on a chip in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path, help="of aiconfigurator-core; else the installed one")
    parser.add_argument("--reference", type=Path, help="a folder whose rows are held out")
    given = parser.parse_args()
    tables, held = Tables(given.wheel), held_out(given.reference)
    for name, kind in KINDS.items():
        if name in COLLECTIVE:
            continue
        for written, rows in kind.read(tables, dict(held)).groupby("format"):
            known = rows[rows.chip.map(FAMILY) != "intel"]
            parts = {
                (str(chip), str(engine)): sample(kind.chosen(part), EACH)
                for (chip, engine), part in known.groupby(["chip", "engine"])
            }
            errors = list(_compared(kind.problem(str(written)), parts))
            if errors:
                here, elsewhere = (100 * median(e[i] for e in errors) for i in range(2))
                print(f"{name}.{written}: here {here:.1f}, elsewhere {elsewhere:.1f} %", flush=True)


def _compared(
    problem: Problem, parts: dict[tuple[str, str], pd.DataFrame]
) -> Iterable[tuple[float, float]]:
    """Mean errors of other engines here, and of the same engine elsewhere."""
    for (chip, engine), rows in parts.items():
        others = [part for (c, e), part in parts.items() if c == chip and e != engine]
        elsewhere = [part for (c, e), part in parts.items() if c != chip and e == engine]
        if others and elsewhere:
            yield _error(problem, others, rows), _error(problem, elsewhere, rows)


def _error(problem: Problem, fitted: list[pd.DataFrame], rows: pd.DataFrame) -> float:
    times = problem.time(problem.fit(pd.concat(fitted)), rows)
    return float(np.abs(times / rows.measured.to_numpy(float) - 1).mean())


if __name__ == "__main__":
    main()
