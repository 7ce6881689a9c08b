"""vLLM's 4-bit experts on Hopper: ``python -m calibration.marlin [FOLDER]``.

The tables' vLLM 0.24 takes Triton's kernel for gpt-oss there. The benchmark that the reference
data's runs are of asks for Marlin's (``VLLM_MXFP4_USE_MARLIN=1`` in its scripts of 2026, not in
those of 2025); that versions up to 0.19 take it unasked is an assumption (vllm-project/vllm, pull
requests 27523 and 30598). It turns weights into 16 bits as it goes, and takes more than twice as
long for many tokens.

The tables have Marlin on Hopper for 384 experts in int4 and 896 in mxfp4. What it adds to each
launch grows with the experts among which it sorts, so that it is taken from gpt-oss's 128 on the
L40S, where vLLM's kernel for them is Marlin's; the rest is fitted.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from calibration import read, report
from calibration.fit import halves
from calibration.kinds import KINDS
from calibration.tables import Tables, held_out
from perfmodel.answers.calibrating.fitting import Tested, fitted, tested
from perfmodel.base._data import read_toml
from perfmodel.sources._fits import COLUMNS, read_fits

FOLDER: Final = Path(__file__).parents[1] / "catalogs" / "efficiency"
CHIPS: Final = ("h100-sxm", "h200-sxm")
FORMAT: Final = "mxfp4a16"
PROBLEM: Final = KINDS["experts"].problem(FORMAT)


class Marlin(Tables):
    """The tables of vLLM 0.24 on Hopper, of which only Marlin's rows are left."""

    def __init__(self, tables: Tables) -> None:
        """Of some tables."""
        self._read = tables._read
        self.paths = [
            path for path in tables.paths if re.search(r"/h[12]00_sxm/moe/vllm/0\.24", path)
        ]

    def frame(self, path: str) -> pd.DataFrame:
        """One table."""
        frame = super().frame(path)
        return frame[frame.kernel_source.astype(str).str.contains("marlin")]


def launch() -> float:
    """What a layer of 128 experts adds [s]."""
    l40s = read_fits(FOLDER / "l40s.toml")
    found: float = l40s["experts"][FORMAT]["vllm"]["form"]["launch"]
    return found


def fit(rows: pd.DataFrame) -> dict[str, float]:
    """Everything but the launch."""
    rows = rows[rows.near]
    free = {name: found for name, found in PROBLEM.free.items() if name != "launch"}
    added = {"launch": launch()}
    measured = rows.measured.to_numpy(float)
    found = fitted(lambda some: PROBLEM.time({**some, **added}, rows), free, measured)
    return {**PROBLEM.asked.fixed, **found.values, **added}


def errors(form: dict[str, Any], rows: pd.DataFrame) -> Tested:
    """Of rows that were not fitted to."""
    return tested(PROBLEM.time(form, rows), rows.measured.to_numpy(float), few=False)


def write(level: str, form: dict[str, float], found: Tested) -> None:
    """A row of a catalog file, in place of an older one."""
    path, key = FOLDER / f"{level}.toml", f"{FORMAT}.marlin"
    columns = read_toml(path)["experts"][COLUMNS]
    numbers = [report.number(form[name]) for name in columns] + report.shown(found)
    row = report.row(key, numbers)
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if key not in line]
    first = next(i for i, line in enumerate(lines) if line.startswith(f"{FORMAT}."))
    path.write_text("\n".join([*lines[:first], row, *lines[first:]]) + "\n", encoding="utf-8")
    print(level, row)


def main(reference: Path | None) -> None:
    """Fit each chip to half of the rows, and test a chip by a fit to the other."""
    rows = read.experts(Marlin(Tables()), held_out(reference))
    parts = {chip: rows[rows.chip == chip] for chip in CHIPS}
    for chip, part in parts.items():
        half = halves(part)
        form = fit(part[~half])
        write(chip, form, errors(form, part[half]))
    form = fit(rows)
    other = [
        PROBLEM.time(fit(parts[a]), parts[b]) / parts[b].measured.to_numpy(float)
        for a, b in (CHIPS, CHIPS[::-1])
    ]
    ratios = np.concatenate(other)
    write("hopper", form, tested(ratios, np.ones(len(ratios)), few=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
