"""Is the best plan the cheapest that there is, and the front what no other beats?

Small questions, answered a second time by asking ``serve`` of every chip, division, precision and
number of replicas, one by one.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

import perfmodel as pm

WIDEST = 8  # devices in all
WAYS = [pm.Parallelism(), pm.Parallelism(tensor=2), pm.Parallelism(tensor=2, pipeline=2)]


class Question(NamedTuple):
    model: pm.ModelShape
    work: pm.Workload
    slo: pm.Slo
    chips: list[pm.GpuSpec]
    prices: dict[str, float]
    precisions: list[str]
    engine: str | None


class Found(NamedTuple):
    """The fewest replicas of a candidate that do, and what they cost and take."""

    chip: str
    ways: pm.Parallelism
    precision: str
    devices: int
    cost: float
    tpot: float
    ttft: float


def asked(seed: int) -> Question:
    draw = random.Random(seed)
    load = draw.choice([{"concurrency": draw.randint(2, 150)}, {"rate": draw.uniform(0.5, 20)}])
    work = pm.Workload(prompt=draw.randint(50, 4000), output=draw.randint(5, 400), **load)
    slo = pm.Slo(ttft=draw.uniform(0.1, 1.0), tpot=draw.uniform(0.004, 0.04))
    keys = draw.sample(["h100-sxm", "h200-sxm", "mi300x", "b200-sxm", "l40s", "h100-nvl"], 3)
    return Question(
        pm.model(draw.choice(["llama-3.1-8b", "gemma-2-9b", "mixtral-8x7b"])), work, slo,
        [pm.gpu(key) for key in keys], {key: draw.uniform(1, 8) for key in keys},
        draw.choice([["bf16"], ["bf16", "fp8"]]), draw.choice([None, "vllm"]),
    )  # fmt: skip


def smallest(one: Question, chip: pm.GpuSpec, ways: pm.Parallelism, precision: str) -> Found | None:
    """The fewest replicas within all targets, of which none waits for room."""
    for replicas in range(1, WIDEST // ways.devices + 1):
        try:
            full = pm.serve(
                one.model, chip, one.work, precision=precision, engine=one.engine,
                parallelism=ways.model_copy(update={"data": replicas}),
            )  # fmt: skip
        except pm.errors.PerfModelError:
            continue  # it does not fit, or there is no steady state
        room = full.capacity is None or full.users <= full.capacity * (1 + 1e-9)
        if room and not full.waiting and full.ttft <= one.slo.ttft and full.tpot <= one.slo.tpot:
            cost = full.devices * one.prices[chip.key]
            return Found(chip.key, ways, precision, full.devices, cost, full.tpot, full.ttft)
    return None


def beaten(one: Found, every: list[Found]) -> bool:
    """Whether another is nowhere worse and somewhere better; devices matter at the same cost."""

    def marks(found: Found) -> list[tuple[float, ...]]:
        return [(found.cost, found.devices), (found.tpot,), (found.ttft,)]

    mine = marks(one)
    return any(
        marks(other) != mine and all(a <= b for a, b in zip(marks(other), mine, strict=True))
        for other in every
    )


def every(one: Question) -> list[Found]:
    found = [
        smallest(one, chip, ways, precision)
        for chip in one.chips
        for ways in WAYS
        for precision in one.precisions
    ]
    return [candidate for candidate in found if candidate is not None]


@pytest.mark.parametrize("seed", range(12))
def test_the_best_and_the_front_are_those_of_every_server_asked_one_by_one(seed):
    one = asked(seed)
    found = pm.plan(
        one.model, one.work, slo=one.slo, gpus=one.chips, prices=one.prices, engine=one.engine,
        precisions=one.precisions, parallelisms=WAYS, max_devices=WIDEST, pools="together",
    )  # fmt: skip
    candidates = every(one)
    assert {place(plan) for plan in found.feasible} == {
        (c.chip, c.ways, c.precision, c.devices) for c in candidates
    }
    if not candidates:
        assert found.best is None
        return
    assert found.best.cost_per_hour == pytest.approx(min(c.cost for c in candidates))
    assert {place(plan) for plan in found.pareto} == {
        (c.chip, c.ways, c.precision, c.devices) for c in candidates if not beaten(c, candidates)
    }


def place(plan: pm.Plan) -> tuple[str, pm.Parallelism, str, int]:
    return plan.gpu.key, plan.parallelism, plan.precision.name, plan.devices


# -- divisions that are no powers of two -----------------------------------------------------------


@pytest.mark.parametrize(
    ("heads", "kv_heads", "does"),
    [
        (12, 12, {1, 2, 3, 4, 6}),
        (12, 6, {1, 2, 3, 6}),  # of six pairs of keys and values, four chips would share some
        (12, 3, {1, 3, 6}),  # six chips hold each of the three twice
        (6, 6, {1, 2, 3, 6}),
        (3, 3, {1, 3}),
    ],
)
def test_six_devices_share_what_six_divides(heads, kv_heads, does):
    attention = pm.Attention(heads=heads, kv_heads=kv_heads, head_dim=128)
    model = pm.ModelShape(
        name="small", hidden=1536, vocab=32_000, embedding=pm.Embedding(), head=pm.Head(),
        blocks=((24, (attention, pm.FeedForward(width=6144))),),
    )  # fmt: skip
    found = pm.plan(
        model, pm.Workload(prompt=1000, output=200, concurrency=50), slo=pm.Slo(tpot=0.02),
        gpus="h100-sxm", parallelisms=[pm.Parallelism(tensor=n) for n in (1, 2, 3, 4, 6)],
        max_devices=6, pools="together",
    )  # fmt: skip
    assert {plan.parallelism.tensor for plan in found.feasible} == does
    for plan in found.rows:
        if not plan.feasible:
            name = "heads" if heads % plan.parallelism.tensor else "kv_heads"
            assert plan.broken == "split"
            assert "Parallelism.tensor: expected a divisor" in plan.reason
            assert f"Attention.{name}={getattr(attention, name)}, as 3, got" in plan.reason
