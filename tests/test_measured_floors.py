"""A bound is a bound: no honest measurement of the reference data beats its floor.

The readings are those of ``benchmarks/floors``: kernels under the floor of one operation, whole
steps and runs under the floors of their steps. A row may lie below where what it works on fits the
last-level cache, or where the data flags how it was timed; the documentation lists each that does.
"""

from __future__ import annotations

import importlib
import os
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.work.layers.experts import Touched
from perfmodel.work.layers.reach import Reach

FOLDER = os.environ.get("PERFMODEL_REFERENCE_DATA")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="PERFMODEL_REFERENCE_DATA names no folder of reference data"
)
ROOT = Path(__file__).parents[1]
DATA = Path(FOLDER or ".")
LISTED = ROOT / "docs" / "floors.md"
KERNELS = ("gemm", "attention", "moe")
EXPERTS = importlib.import_module("perfmodel.work.layers.experts")


@pytest.fixture(autouse=True)
def _find_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


@cache
def found() -> list[Any]:
    """Every row, checked or with the reason why not."""
    main = importlib.import_module("floors.__main__")
    return main.everything(DATA)  # type: ignore[no-any-return]


def checked() -> list[Any]:
    return [one for one in found() if hasattr(one, "floor")]


def test_no_measurement_beats_its_floor() -> None:
    beaten = [(one.row, one.ratio) for one in checked() if one.below and not one.why]
    assert not beaten


def test_the_documentation_lists_every_row_below_its_floor() -> None:
    told = LISTED.read_text(encoding="utf-8")
    if f"| all | {len(found())} |" not in told:
        pytest.skip("the folder holds other rows than the documentation tells of")
    assert importlib.import_module("floors.__main__").exceptions(found()) in told


def test_most_rows_are_checked() -> None:
    rows, floors = Counter(one.file for one in found()), Counter(one.file for one in checked())
    assert sum(floors.values()) / sum(rows.values()) > 0.9
    for name in KERNELS:
        assert floors[name] / rows[name] > 0.95


def test_floors_are_sharp_enough_to_be_beaten() -> None:
    """Roofs half as high would be seen: in each kind of data, and on many chips."""
    strict = [one for one in checked() if not one.why]
    seen = {one.file for one in strict if one.ratio < 2}
    assert {"gemm", "attention", "llamacpp_xiongjie", "trtllm_static_v05_v09"} <= seen
    assert len({one.chip for one in strict if one.ratio < 2}) > 20


def full_square(_: Reach, group: pm.Group) -> int:
    return 2 * group.new * (group.past + group.new)


def read_and_written_whole(_: Reach, group: pm.Group) -> int:
    return 2 * group.count * (group.past + group.new)


def every_expert(experts: int, top_k: int, tokens: int, *, choices: int, skew: float) -> Touched:
    return Touched(least=experts, expected=experts, most=experts)


@pytest.mark.parametrize(
    ("where", "name", "mistake"),
    [
        (Reach, "twice_pairs", full_square),
        (Reach, "moved", read_and_written_whole),
        (EXPERTS, "touched", every_expert),
    ],
)
def test_a_wrong_formula_would_be_seen(
    monkeypatch: pytest.MonkeyPatch, where: object, name: str, mistake: object
) -> None:
    """Causal attention as a square, a cache moved twice, all experts read: kernels beat it."""
    monkeypatch.setattr(where, name, mistake)
    kernels = importlib.import_module("floors.kernels")
    checks = [one for one in kernels.kernel_checks(DATA) if hasattr(one, "floor")]
    assert sum(one.below and not one.why for one in checks) > 2


def test_models_have_the_parameters_that_their_files_count() -> None:
    """GGUF files state their parameters; two scales of a rotary table may be among them."""
    checks = importlib.import_module("floors.checks")
    shapes = importlib.import_module("floors.shapes")
    agreed = set()
    for row in checks.rows(DATA / "measured", "llamacpp_strixhalo_lhl"):
        stated, shape = re.search(r"; params (\d+);", row["notes"]), shapes.model(row["model"])
        # The file of GLM-4.5-Air holds a prediction block with an embedding and a head of its own.
        if stated is None or row["model"] == "zai-org/GLM-4.5-Air":
            continue
        assert int(stated[1]) - shape.params in (0, 64), row["model"]
        agreed.add(row["model"])
    assert len(agreed) > 8
