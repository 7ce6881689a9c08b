"""Does the plan equal what ``serve`` says one by one, and do costs equal hand arithmetic?"""

from __future__ import annotations

import itertools

import pytest

import perfmodel as pm
from perfmodel.base.errors import PerfModelError

H100 = pm.GpuSpec(
    name="H100",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12, "fp8": 1979e12},
    link={"bandwidth": 450e9, "domain": 8},
    power=700,
)
L40S = pm.GpuSpec(
    name="L40S",
    memory_bandwidth=864e9,
    memory_capacity=48e9,
    peak_flops={"bf16": 362e12, "fp8": 733e12},
    host_link={"bandwidth": 32e9},
    power=350,
)
PRICES = {"H100": 2.5, "L40S": 0.8}
COARSE = pm.ModelShape.from_totals(params=8e9)
LLAMA = pm.model("llama-3.1-8b")
CHAT = pm.Workload(prompt=1000, output=200, concurrency=150)
TARGETS = pm.Slo(ttft=0.5, tpot=0.02)


# -- hand arithmetic -------------------------------------------------------------------------------


def test_what_a_million_tokens_cost():
    # One user: a prompt of 2,048 tokens takes 2 x 8e9 x 2048 / 989e12 s = 33.131 ms, and 255
    # tokens 16e9 / 3.35e12 s = 4.7761 ms each, 1.21791 s in all. At 3.60 USD an hour, 0.001 USD a
    # second: 1.251041 s cost 0.001251 USD, of which the prompt bears 33.131 us' worth.
    work = pm.Workload(prompt=2048, output=256, concurrency=1)
    slo = pm.Slo(tpot=0.01)
    found = pm.plan(COARSE, work, slo=slo, gpus=H100, prices={"H100": 3.6}, pools="together").best
    assert found.devices == 1
    assert found.cost_per_hour == pytest.approx(3.6)
    whole = 33.131e-3 + 255 * 4.77612e-3
    assert found.cost_per_million == pytest.approx(whole * 1e-3 / (2048 + 256) * 1e6, rel=1e-4)
    assert found.cost_per_million_input == pytest.approx(33.131e-6 / 2048 * 1e6, rel=1e-3)
    assert found.cost_per_million_output == pytest.approx(1.21791e-3 / 256 * 1e6, rel=1e-3)
    assert found.power == 700
    assert found.energy_per_million == pytest.approx(700 * whole / 2304 * 1e6, rel=1e-4)


@pytest.mark.parametrize("pools", ["together", "apart"])
def test_prompts_and_outputs_bear_all_of_the_cost(pools):
    found = pm.plan(LLAMA, CHAT, slo=TARGETS, gpus=H100, prices={"H100": 2.5}, pools=pools).best
    second = (
        found.cost_per_million_input * found.prompt_tokens_per_second
        + found.cost_per_million_output * found.output_tokens_per_second
    ) / 1e6
    assert second == pytest.approx(found.cost_per_hour / 3600, rel=1e-9)
    if pools == "apart":  # each pool bears what its devices cost
        whole = found.prefill_replicas + found.replicas
        assert found.prompt_share == pytest.approx(found.prefill_replicas / whole)


# -- brute force -----------------------------------------------------------------------------------


def kept(found: pm.Serving, slo: pm.Slo) -> bool:
    return all(getattr(found, name) <= target for name, target in slo.targets.items())


def served(model, chip, work, ways, replicas, **options) -> pm.Serving | None:
    """One steady state; None where there is none, or where some wait for room."""
    try:
        found = pm.serve(
            model, chip, work,
            parallelism=ways.model_copy(update={"data": replicas}), **options,
        )  # fmt: skip
    except PerfModelError:
        return None
    full = found.capacity is not None and found.users > found.capacity * (1 + 1e-9)
    return None if full or found.waiting else found


@pytest.mark.parametrize(
    ("slo", "work"),
    [
        (TARGETS, CHAT),
        (pm.Slo(ttft=0.1), CHAT),
        (pm.Slo(tpot=0.012), CHAT),
        (pm.Slo(end_to_end=5.0), CHAT),
        (TARGETS, pm.Workload(prompt=1000, output=200, rate=40.0)),
        (pm.Slo(ttft=0.08, tpot=0.015), pm.Workload(prompt=[200, 3000], output=150, rate=25.0)),
    ],
)
def test_the_best_is_the_best_of_all_that_serve_says_one_by_one(slo, work):
    options = {"slo": slo, "prices": PRICES, "pools": "together", "max_devices": 64}
    found = pm.plan(LLAMA, work, gpus=[H100, L40S], **options)
    cheapest = {}
    for chip, (tensor, pipeline) in itertools.product(
        (H100, L40S), itertools.product((1, 2, 4, 8), repeat=2)
    ):
        if tensor * pipeline > 8:
            continue
        ways = pm.Parallelism(tensor=tensor, pipeline=pipeline)
        for replicas in range(1, 64 // ways.devices + 1):
            one = served(LLAMA, chip, work, ways, replicas)
            if one is not None and kept(one, slo):
                cheapest[chip.name, ways] = one.devices * PRICES[chip.name]
                break
    assert cheapest
    assert found.best.cost_per_hour == pytest.approx(min(cheapest.values()))
    for plan in found.feasible:
        assert plan.cost_per_hour == pytest.approx(cheapest[plan.gpu.name, plan.parallelism])
    assert len(found.feasible) == len(cheapest)


def test_two_pools_are_those_that_serve_says_do():
    found = pm.plan(LLAMA, CHAT, slo=TARGETS, gpus=H100, prices={"H100": 2.5}, pools="apart")
    slo = TARGETS
    for plan in found.feasible:
        full = plan.serving()
        assert kept(full, slo)
        assert full.ttft == pytest.approx(plan.ttft, rel=1e-6)
        fewest = min(
            (reading + writing)
            for reading, writing in itertools.product(range(1, 9), repeat=2)
            if kept(
                pm.serve(
                    LLAMA, H100, CHAT, parallelism=plan.parallelism,
                    scheduler=pm.Disaggregated(prefill=reading, decode=writing),
                ),
                slo,
            )
        )  # fmt: skip
        assert plan.replicas + plan.prefill_replicas == fewest


@pytest.mark.parametrize(
    "work", [CHAT, pm.Workload(prompt=1000, output=200, rate=1.0)], ids=["users", "rate"]
)
@pytest.mark.parametrize("slo", [TARGETS, pm.Slo(ttft=0.1), pm.Slo(tpot=0.012)])
def test_one_user_more_breaks_a_limit(work, slo):
    found = pm.largest_load(
        LLAMA, work, slo=slo, devices=8, gpus=[H100, L40S], prices=PRICES, pools="together"
    )
    assert found.feasible
    for plan in found.feasible:
        there = plan.workload.concurrency or plan.workload.rate
        more = there + 1 if plan.workload.concurrency else there * (1 + 1e-5)
        for load, does in ((there, True), (more, False)):
            name = "concurrency" if plan.workload.concurrency else "rate"
            one = served(
                LLAMA, plan.gpu, work.model_copy(update={name: load}), plan.parallelism,
                plan.replicas,
            )  # fmt: skip
            assert (one is not None and kept(one, slo)) == does, (plan, load)
