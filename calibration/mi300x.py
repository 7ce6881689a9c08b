"""MI300X from whole steps: ``python -m calibration.mi300x`` writes its efficiency.

No kernel of it is in the tables. Two parameters are found from the published times of one engine's
batches: by how much its kernels are launched more slowly than those of other chips, and which share
of the links its all-reduce reaches. Both act on each layer, so that they carry over to models of
other depths, which so much a step and so much a sequence do not.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from scipy.optimize import least_squares

import perfmodel as pm
from calibration.report import DATE, number, row, shown
from perfmodel.answers.calibrating.fitting import SOFT, Tested, tested
from perfmodel.sources._fits import COLUMNS

ROOT: Final = Path(__file__).parents[1]
MODEL: Final = "llama-3.1-70b"


class Batch(NamedTuple):
    """A batch that starts together, on eight devices."""

    model: str
    precision: str
    batch: int
    prompt: int
    output: int
    measured: float  # s, to the last token


class Found(NamedTuple):
    """What is fitted."""

    launches: float  # times those of other chips
    share: float  # of the links


def fitted_rows() -> list[Batch]:
    """Half of the published shapes of one model; the others are for tests."""
    with (Path(__file__).parent / "mi300x.csv").open(newline="", encoding="utf-8") as lines:
        return [_batch(MODEL, row) for row in csv.DictReader(lines)]


def left_out_rows() -> list[Batch]:
    """Of the scorecard, rows of eight devices that were not fitted to, of other models as well."""
    path = ROOT / "tests" / "fixtures" / "scorecard.csv"
    with path.open(newline="", encoding="utf-8") as lines:
        found = [row for row in csv.DictReader(lines) if row["gpu"] == "mi300x"]
    alike = (row for row in found if row["family"] == "batch" and row["tensor"] == "8")
    return [_batch(row["model"], row) for row in alike]


def _batch(model: str, row: dict[str, str]) -> Batch:
    sizes = (int(row[name]) for name in ("batch", "prompt", "output"))
    return Batch(model, row["precision"], *sizes, float(row["measured"]))


def expected(row: Batch, efficiency: pm.Efficiency) -> float:
    """The prefill of all prompts, then steps as long as the one in the middle [s]."""
    model, chip = pm.model(row.model), pm.gpu("mi300x")
    asked: dict[str, Any] = {
        "batch": row.batch,
        "precision": row.precision,
        "parallelism": pm.Parallelism(tensor=8),
        "efficiency": efficiency,
    }
    first = pm.prefill(model, chip, prompt=row.prompt, **asked)
    step = pm.decode(model, chip, context=row.prompt + row.output // 2, **asked)
    return first.time + (row.output - 1) * step.time


def slowed(found: Found) -> pm.Efficiency:
    """What is known of chips in general, with both parameters."""
    base = pm.efficiency(pm.GpuSpec(**_unnamed()), engine="vllm")
    kernels = [
        _changed(known, form=_changed(known.form, launch=found.launches * known.form.launch))
        for known in base.kernels
    ]
    collectives = [
        _changed(known, form=_changed(known.form, share=found.share))
        if known.kind == "all-reduce"
        else known
        for known in base.collectives
    ]
    return _changed(base, kernels=tuple(kernels), collectives=tuple(collectives))


def _changed(spec: Any, **changes: Any) -> Any:
    return spec.model_copy(update=changes)


def _unnamed() -> dict[str, Any]:
    """The chip without its key, by which nothing is known of it."""
    return {**dict(pm.gpu("mi300x")), "key": ""}


def fit(rows: list[Batch]) -> Found:
    """Both parameters, of the least soft-L1 loss of log(expected / measured)."""
    measured = np.log([row.measured for row in rows])

    def missed(logs: Any) -> Any:
        efficiency = slowed(Found(*np.exp(logs)))
        return np.log([expected(row, efficiency) for row in rows]) - measured

    start, low, high = np.log([(1.5, 0.3), (0.5, 0.02), (5.0, 1.0)])
    found = least_squares(
        missed, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT, diff_step=1e-3
    )
    return Found(*np.exp(found.x).tolist())


def errors(rows: list[Batch], found: Found) -> Tested:
    """What the parameters miss."""
    efficiency = slowed(found)
    times = np.array([expected(row, efficiency) for row in rows])
    return tested(times, np.array([row.measured for row in rows]), few=False)


def main() -> None:
    """Fit, test, write."""
    found = fit(fitted_rows())
    left = left_out_rows()
    for name in sorted({one.model for one in left}):
        print(name, errors([one for one in left if one.model == name], found))
    path = ROOT / "catalogs" / "efficiency" / "mi300x.toml"
    path.write_text(_written(found, errors(left, found)), encoding="utf-8")


def _written(found: Found, result: Tested) -> str:
    form = slowed(found).collective("all-reduce")
    assert form is not None
    values = dict(sorted(form.form))
    columns = row(COLUMNS, [f'"{name}"' for name in values])
    pooled = row("pooled", [number(value) for value in values.values()] + shown(result))
    return f"""\
key = "mi300x"
base = "unknown" # the kernels of other chips,
launches = {number(found.launches)} # each launched so many times as slowly

[origin]
kind = "measured"
source = "rocm-vllm-docker"
place = "docs/dev-docker/README.md: Llama-3.1-70B on eight devices, vLLM 0.6.6 to 0.9.1"
date = "{DATE}"
note = "Two parameters fitted by calibration/ to half of the shapes; tested on others, and on 405B."

[all-reduce]
{columns}
{pooled}
"""


if __name__ == "__main__":
    main()
