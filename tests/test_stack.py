"""Do several chips at once say what each says by itself?"""

from __future__ import annotations

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.answers.serving.costs import Server, costs_of, knots_up_to
from perfmodel.base.errors import UnsupportedGroupError
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.stack import Stack, alike

KNOTS = knots_up_to(40)
WORK = pm.Workload(prompt=[4000, 500, 9000], output=[1000, 20], concurrency=30)


def groups(ways: pm.Parallelism) -> list[list[pm.GpuSpec]]:
    found: dict[object, list[pm.GpuSpec]] = {}
    for key in pm.gpus():
        chip = pm.gpu(key)
        if chip.peak_flops.bf16 is None:
            continue
        try:
            found.setdefault(alike(chip, ways.devices), []).append(chip)
        except UnsupportedGroupError:
            continue
    return list(found.values())


@pytest.mark.parametrize("ways", [
    pm.Parallelism(), pm.Parallelism(tensor=2), pm.Parallelism(tensor=2, pipeline=2),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("model", ["llama-3.1-8b", "gpt-oss-20b"])
@pytest.mark.parametrize("known", ["ideal", "vllm"])
def test_a_stack_says_what_each_chip_says(ways, model, known):
    shape = pm.model(model)
    precision = shape.resolve_precision("bf16")
    efficiency = IDEAL if known == "ideal" else pm.efficiency(pm.gpu("h100-sxm"), engine=known)
    chips = 0
    for group in groups(ways):
        every = costs_of(
            Server(shape, Stack(group), precision, efficiency, ways, None), WORK, pm.Scheduler(),
            None, KNOTS,
        )  # fmt: skip
        for i, chip in enumerate(group):
            chips += 1
            if i % 5:
                continue  # each fifth stands for the others
            alone = costs_of(
                Server(shape, chip, precision, efficiency, ways, None), WORK, pm.Scheduler(),
                None, KNOTS,
            )  # fmt: skip
            for name, table in alone._asdict().items():
                rows = getattr(every, name)
                own = rows[i] if rows.ndim > 1 else rows
                np.testing.assert_allclose(own, table, rtol=1e-13, err_msg=f"{chip.key} {name}")
    assert chips > 50
