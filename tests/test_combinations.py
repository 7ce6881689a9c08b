"""Any model on any chip, divided and stored in any way: an error that says why, or sound numbers.

A case is told by its number, so that it can be run again.
"""

from __future__ import annotations

import math
import random
from typing import Any

import pytest

import perfmodel as pm
from perfmodel.answers.holding.policies import POLICIES
from perfmodel.base.precision import FILE_TYPES, PRESETS

CASES = 300
SIZES = (1, 1, 1, 2, 2, 3, 4, 8, 16)
PRECISIONS = (None, *PRESETS, *FILE_TYPES)
BEHIND = ("", "", "+kv8", "+compute16", "+kv8+compute16")
NODES = (None, None, (8, 64), (4, 1000), (2, 1000), (1, 10**6), (3, 700))
NETWORK = pm.Link(name="network", bandwidth=5e10, latency=2e-6)


def division(rng: random.Random) -> pm.Parallelism:
    tensor, data = rng.choice(SIZES), rng.choice(SIZES)
    return pm.Parallelism(
        tensor=tensor,
        pipeline=rng.choice((1, 1, 1, 2, 3, 8)),
        expert=rng.choice((1, 1, tensor, tensor * data, 2, 5)),
        data=data,
        micro_batches=rng.choice((None, None, 1, 7, 100)),
        all_reduce=rng.choice(("ring", "ring", "one-shot", "in-switch")),
        communication=rng.choice(("serial", "overlapped", "ignored")),
    )


def asked(found: Any) -> Any:
    """An answer, or None where it is refused in one line."""
    try:
        return found()
    except pm.errors.PerfModelError as error:
        message = str(error)
        assert message
        assert message.isprintable()
        assert len(message) < 400
        return None


def sound(step: pm.Estimate) -> None:
    for name in ("time", "floor", "flops", "bytes", "compute_time", "memory_time"):
        assert 0 < getattr(step, name) < math.inf, name
    for name in ("network_time", "kv_traffic", "weight_traffic", "activation_traffic"):
        assert 0 <= getattr(step, name) < math.inf, name
    assert step.floor <= step.time * (1 + 1e-9)
    if step.parallelism.pipeline == 1:
        assert max(step.compute_utilization, step.memory_utilization) <= 1 + 1e-9
    assert step.memory.needed > 0
    assert step.explain()


def case(number: int) -> int:
    """Try one case; how many answers were given."""
    rng = random.Random(number)
    model, chip = pm.model(rng.choice(pm.models())), pm.gpu(rng.choice(pm.gpus()))
    nodes, precision = rng.choice(NODES), rng.choice(PRECISIONS)
    batch, context = rng.choice((1, 2, 7, 64, 10**6)), rng.choice((1, 100, 1024, 5000, 10**7))
    ways = asked(lambda: division(rng))
    gpu = chip
    if nodes is not None:
        per_node, count = nodes
        gpu = asked(lambda: pm.Cluster(gpu=chip, per_node=per_node, nodes=count, link=NETWORK))
    if ways is None or gpu is None:
        return 0
    how = {
        "precision": None if precision is None else precision + rng.choice(BEHIND),
        "parallelism": ways,
    }
    given = 0
    for ask in (
        lambda: pm.decode(model, gpu, batch=batch, context=context, **how),
        lambda: pm.prefill(model, gpu, prompt=min(context, 10**5), batch=min(batch, 64), **how),
    ):
        step = asked(ask)
        if step is not None:
            sound(step)
            given += 1
    how |= {"policy": rng.choice(POLICIES), "mtp": bool(model.mtp) and rng.random() < 0.5}
    how["draft"] = pm.model(rng.choice(pm.models())) if rng.random() < 0.2 else None
    held = asked(lambda: pm.memory(model, gpu, batch=batch, context=context, **how))
    if held is not None:
        remembers(held, model, gpu, batch, context, how)
        given += 1
    return given


def remembers(
    held: pm.DeviceMemory,
    model: pm.ModelShape,
    gpu: pm.GpuSpec | pm.Cluster,
    batch: int,
    context: int,
    how: dict[str, Any],
) -> None:
    """Each question about memory agrees with the others."""
    assert 0 < held.weights <= held.needed < math.inf
    least = asked(lambda: pm.min_capacity(model, batch=batch, context=context, **how))
    assert least is not None
    if held.capacity is None or abs(least / held.capacity - 1) < 1e-6:
        return
    assert held.fits == (least < held.capacity)
    most = asked(lambda: pm.max_batch(model, gpu, context=context, **how))
    if most is not None:
        assert held.fits == (batch <= most)
    pool = asked(lambda: pm.kv_pool(model, gpu, max_len=min(context, 10**5), **how))
    if pool is not None:
        assert 0 <= pool.allocated <= pool.available * (1 + 1e-9)
    if held.fits:
        fewest = asked(lambda: pm.min_devices(model, gpu, batch=batch, context=context, **how))
        assert fewest == how["parallelism"].tensor


@pytest.mark.parametrize("start", range(0, CASES, 50))
def test_any_combination_is_refused_or_sound(start):
    given = sum(case(number) for number in range(start, start + 50))
    assert given > 10  # and not all are refused
