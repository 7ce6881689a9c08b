"""Do several chips at once say what each says by itself?"""

from __future__ import annotations

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.serving.costs import Server, costs_of, knots_up_to
from perfmodel.base.errors import UnsupportedGroupError
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.stack import Stack, alike
from perfmodel.sources.efficiency import resolve_efficiency

KNOTS = knots_up_to(40)
WORK = pm.Workload(prompt=[4000, 500, 9000], output=[1000, 20], concurrency=30)


def joined(ways: pm.Parallelism) -> list[pm.GpuSpec]:
    """All chips of the catalog that so many of can be joined, however they are."""
    found = []
    for key in pm.gpus():
        chip = pm.gpu(key)
        if chip.peak_flops.bf16 is None:
            continue
        try:
            chip.link_to(ways.devices)
        except UnsupportedGroupError:
            if ways.devices > 1:
                continue
        found.append(chip)
    return found


@pytest.mark.parametrize("ways", [
    pm.Parallelism(), pm.Parallelism(tensor=2), pm.Parallelism(tensor=2, pipeline=2),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
@pytest.mark.parametrize("engine", [None, "vllm", "llama.cpp"])
def test_a_stack_says_what_each_chip_says(ways, model, engine):
    shape = pm.model(model)
    precision = shape.resolve_precision("bf16")
    expected = "auto" if engine else "ideal"
    chips = joined(ways)
    assert len(chips) > 50
    known = alike([resolve_efficiency(expected, chip, engine) for chip in chips])
    groups: dict[str, list[tuple[pm.GpuSpec, pm.Efficiency]]] = {}
    for chip, (efficiency, form) in zip(chips, known, strict=True):
        groups.setdefault(form, []).append((chip, efficiency))
    assert len(groups) <= 3  # and not one of each chip
    for group in groups.values():
        stack = Stack([chip for chip, _ in group], [efficiency for _, efficiency in group])
        every = costs_of(
            Server(shape, stack, precision, None, ways, None), WORK, pm.Scheduler(), None, KNOTS
        )
        for i, (chip, _) in enumerate(group):
            if i % 5:
                continue  # each fifth stands for the others
            own = resolve_efficiency(expected, chip, engine)
            alone = costs_of(
                Server(shape, chip, precision, own, ways, None), WORK, pm.Scheduler(), None, KNOTS
            )
            for name, table in alone._asdict().items():
                rows = getattr(every, name)
                row = rows[i] if rows.ndim > 1 else rows
                np.testing.assert_allclose(row, table, rtol=1e-13, err_msg=f"{chip.key} {name}")


def test_a_mesh_a_bridge_and_a_switch_are_stacked_as_each_is():
    chips = [pm.gpu(key) for key in ("mi300x", "h100-nvl", "h100-sxm")]
    one, _ = Stack(chips, [IDEAL] * 3).across(0)
    for devices in (2, 4, 8):
        link = one.link_to(devices)
        for i, chip in enumerate(chips):
            own = chip.link_to(devices)
            assert (link.latency[i], link.among(devices)[i]) == (own.latency, own.among(devices))
