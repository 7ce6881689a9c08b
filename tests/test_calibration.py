"""Calibration: it finds what was put in, splits by shape, and never sees what is held out."""

from __future__ import annotations

import numpy as np
import pytest

pd = pytest.importorskip("pandas")
pytest.importorskip("scipy", reason="the extra calibration is not installed")
pytest.importorskip("pyarrow", reason="the extra calibration is not installed")

from calibration import fit, kinds, read  # noqa: E402
from perfmodel.answers.calibrating import fitting  # noqa: E402
from perfmodel.machine.forms import KernelForm  # noqa: E402


def products(form, noise, seed=1):
    """Products of random sizes on a chip of 1e15 FLOP/s and 3e12 B/s, as a form times them."""
    rng = np.random.default_rng(seed)
    m, n, k = (2.0 ** rng.uniform(low, 13, 3000) for low in (0, 10, 10))
    rows = pd.DataFrame(
        {
            "compute": 2 * m * n * k / 1e15,
            "memory": 2 * (m * n + m * k + n * k) / 3e12,
            "inner": k,
            "inputs": m * k / 3e12,
            "shape": [f"{a:.0f}" for a in n],
        }
    )
    exact = form.time(**{name: rows[name].to_numpy() for name in ("compute", "memory", "inner")})
    return rows.assign(measured=exact * np.exp(noise * rng.standard_normal(len(rows))))


def test_a_fit_finds_the_parameters_that_made_the_rows():
    made = {"compute": 0.72, "memory": 0.85, "launch": 3e-6}
    rows = products(KernelForm(**made, fill=2e-10, exponent=2), noise=0.05)
    # One row in twenty is three times too slow: a robust fit does not follow them.
    rows.loc[rows.index[::20], "measured"] *= 3
    found = kinds.KINDS["matrix"].problem("bf16").fit(rows)
    assert found == pytest.approx(made, rel=0.03)


def test_errors_are_those_of_predictions():
    measured = np.array([1.0, 1.0, 1.0, 1.0, 1.0])
    result = fitting.tested(np.array([0.5, 1.0, 1.0, 1.25, 2.0]), measured, few=False)
    # |-.5|, 0, 0, .25, 1 -> mean .35, median .25; measured over predicted: 2, 1, 1, .8, .5.
    assert (result.rows, result.mean, result.median) == (5, 0.35, 0.25)
    assert (result.low, result.high) == pytest.approx((0.62, 1.6))


def test_shapes_are_split_whole():
    rows = products(KernelForm(), noise=0)
    half = fit.halves(rows)
    assert 0.4 < half.mean() < 0.6
    assert not set(rows["shape"][half]) & set(rows["shape"][~half])


def test_rows_that_are_held_out_are_never_read():
    frame = pd.DataFrame({"m": [1, 2, 3], "n": [4, 4, 4], "latency": [1.0, 2.0, 3.0]})
    held = pd.DataFrame({"m": ["2", "9"], "n": ["4", "4"]})
    kept = read._without(frame, held, {"m": "m", "n": "n"})
    assert kept["m"].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("queries", "past", "window"), [(5, 0, 0), (4, 3, 0), (6, 2, 4), (3, 9, 4)]
)
def test_pairs_are_those_of_the_mask(queries, past, window):
    mask = [
        sum(1 for key in range(past + query + 1) if not window or key > past + query - window)
        for query in range(queries)
    ]
    found = read._pairs(*(np.array([float(x)]) for x in (queries, past, window)))
    assert found.tolist() == [sum(mask)]
