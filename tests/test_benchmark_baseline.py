"""The benchmarks compare equal answers: the formula written out by hand agrees with the library."""

from __future__ import annotations

import importlib
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel as pm

REL = 1e-12
LLAMA = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
LLAMA |= {"ffn": 14336, "vocab": 128256}
SMALL = {"layers": 3, "hidden": 96, "heads": 6, "kv_heads": 2, "head_dim": 32}
SMALL |= {"ffn": 250, "vocab": 1001}
CHIP = {"bandwidth": 3.35e12, "peak": 989.4e12, "capacity": 80e9}
GPU = pm.GpuSpec(
    name="chip",
    memory_bandwidth=CHIP["bandwidth"],
    peak_flops={"bf16": CHIP["peak"]},
    memory_capacity=CHIP["capacity"],
)
ELSEWHERE = {"weights", "kv", "rows"}  # outputs that are not properties of an estimate


@pytest.fixture
def baseline(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("baseline")


@pytest.mark.parametrize("shape", [LLAMA, SMALL], ids=["llama", "small"])
@pytest.mark.parametrize(("batch", "context"), [(1, 1), (64, 4096), (1000, 131072)])
def test_one_step_agrees(baseline: Any, shape: dict[str, int], batch: int, context: int) -> None:
    est = pm.decode(pm.ModelShape.dense(**shape), GPU, batch=batch, context=context)
    hand = baseline.decode(baseline.Dense(**shape), baseline.Chip(**CHIP), batch, context)
    for name in set(hand._fields) - ELSEWHERE - {"bound", "fits"}:
        assert isclose(getattr(est, name), getattr(hand, name), rel_tol=REL), name
    assert (est.bound, est.fits) == (hand.bound, hand.fits)
    assert isclose(est.memory.weights, hand.weights, rel_tol=REL)
    assert isclose(est.memory.kv, hand.kv, rel_tol=REL)
    assert [row.operation.name for row in est.rows()] == [row.name for row in hand.rows]
    for ours, row in zip(est.rows(), hand.rows, strict=True):
        numbers = (ours.flops, ours.bytes, ours.compute_time, ours.memory_time)
        assert np.allclose(numbers, row[1:], rtol=REL, atol=0)


@pytest.mark.parametrize("shape", [LLAMA, SMALL], ids=["llama", "small"])
@pytest.mark.parametrize("grid", [True, False], ids=["grid", "pairs"])
def test_a_sweep_agrees(baseline: Any, shape: dict[str, int], grid: bool) -> None:
    batch, context = [1, 7, 64, 1000], [1, 512, 4096, 131072]
    table = pm.sweep(pm.ModelShape.dense(**shape), GPU, batch=batch, context=context, grid=grid)
    hand = baseline.sweep(baseline.Dense(**shape), baseline.Chip(**CHIP), batch, context, grid=grid)
    assert list(table.columns) == list(hand)
    for name, expected in hand.items():
        found = table.columns[name]
        if found.dtype.kind == "f":
            assert np.allclose(found, expected, rtol=REL, atol=0), name
        else:
            assert np.array_equal(found, expected), name
