"""Launches by the host itself, from first tokens: ``python -m calibration.launches``.

A short prompt is read in kernels of a few microseconds, and engines replay no graph for it. One
number says how much longer each launch takes than in a graph. It is fitted to one chip; the first
tokens of others, in the scorecard, are for tests.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from scipy.optimize import least_squares

import perfmodel as pm
from perfmodel.answers.calibrating.fitting import SOFT

ROOT: Final = Path(__file__).parents[1]
ENGINES: Final = ROOT / "catalogs" / "engines.toml"
SHORT: Final = 512  # tokens of a prompt whose kernels are over sooner than the next is launched


class FirstToken(NamedTuple):
    """Time to the first token of one prompt."""

    gpu: str
    model: str
    precision: str
    tensor: int
    prompt: int
    measured: float  # s


def rows(path: Path) -> list[FirstToken]:
    """The first tokens of single prompts in a table of restated measurements."""
    with path.open(newline="", encoding="utf-8") as lines:
        return [
            FirstToken(
                row["gpu"],
                row["model"],
                row["precision"],
                int(row["tensor"]),
                int(row["prompt"]),
                float(row["measured"]),
            )
            for row in csv.DictReader(lines)
            if row["family"] == "first token" and row["batch"] == "1" and "/" not in row["model"]
        ]


def expected(row: FirstToken, scale: float) -> float:
    """The prefill, with launches so many times as long as in a graph [s]."""
    known = pm.efficiency(pm.gpu(row.gpu), engine="trtllm")
    assert known.host is not None
    host = known.host.model_copy(update={"launch_scale": scale})
    return pm.prefill(
        pm.model(row.model),
        pm.gpu(row.gpu),
        prompt=row.prompt,
        precision=row.precision,
        parallelism=pm.Parallelism(tensor=row.tensor),
        efficiency=known.model_copy(update={"host": host}),
    ).time


def fit(found: list[FirstToken]) -> float:
    """The scale of the least soft-L1 loss of log(expected / measured)."""
    measured = np.log([row.measured for row in found])

    def missed(scale: np.ndarray) -> np.ndarray:
        return np.log([expected(row, float(scale[0])) for row in found]) - measured

    best = least_squares(missed, [2.0], bounds=(1, 50), loss="soft_l1", f_scale=SOFT)
    return float(best.x[0])


def errors(found: Iterable[FirstToken], scale: float) -> list[float]:
    """Shares by which short first tokens are missed."""
    return [abs(expected(row, scale) / row.measured - 1) for row in found if row.prompt < SHORT]


def main() -> None:
    """Fit, test, write."""
    scale = fit(rows(Path(__file__).parent / "launches.csv"))
    left = rows(ROOT / "tests" / "fixtures" / "scorecard.csv")
    print(f"{scale:.3f}")
    for gpu in sorted({row.gpu for row in left}):
        mine = [row for row in left if row.gpu == gpu and row.prompt < SHORT]
        if mine:
            before, after = (median(errors(mine, x)) for x in (1.0, scale))
            print(f"{gpu}: {len(mine)} rows, median {before:.1%} as in a graph, {after:.1%}")
    text = ENGINES.read_text(encoding="utf-8")
    text = re.sub(r"^scale = .*$", f"scale = {scale:.3f}", text, flags=re.MULTILINE)
    ENGINES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
