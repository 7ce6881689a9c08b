"""Does the plan equal what ``serve`` says one by one, and do costs equal hand arithmetic?"""

from __future__ import annotations

import itertools
import json
import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError, PerfModelError

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


def test_tokens_share_their_steps_and_prompts_do_not():
    # 64 users, b of whom decode together: a token takes a b-th of 4.776 ms; a prompt makes the step
    # that reads it compute-bound, (2048 + b - 1) 16e9 / 989e12 s in place of 4.776 ms.
    work = pm.Workload(prompt=2048, output=256, concurrency=64)
    slo = pm.Slo(tpot=0.05)
    found = pm.plan(COARSE, work, slo=slo, gpus=H100, prices={"H100": 3.6}, pools="together").best
    prompt = (2048 + found.batch - 1) * 16e9 / 989e12 - 4.77612e-3
    tokens = 255 * 4.77612e-3 / found.batch
    assert found.batch > 50
    assert found.prompt_share == pytest.approx(prompt / (prompt + tokens), rel=1e-3)
    ratio = found.cost_per_million_output / found.cost_per_million_input
    assert ratio == pytest.approx(tokens / 256 / (prompt / 2048), rel=1e-3)


def test_how_many_users_a_token_has_time_for():
    # 20 ms a token, on 8e9 parameters: a step of b tokens reads 16e9 B in 4.776 ms, and 1,000 more
    # tokens take (1000 + b) 16e9 / 989e12 s. In a step, one of nu others ends with chance 1 / 199;
    # as many prompts begin, a number A like Poisson's. One makes the step longer by
    # 16.18 + 0.01618 b - 4.776 ms, each further one by 16.18 ms:
    # t = 4.776 + (11.40 + 0.01618 b)(1 - exp(-a)) + 16.18 (a - 1 + exp(-a)), a = nu / 199.
    # The number beside a token scatters, but t is all but straight in it.
    def token(users: float) -> float:
        # Of a user's cycle, 199 steps decode and one reads the prompt.
        others = (users - 1) * 199 / 200
        begun = others / 199
        none = math.exp(-begun)
        longer = 16.178e-3 + 16.178e-6 * (1 + others) - 4.776e-3
        return 4.776e-3 + longer * (1 - none) + 16.178e-3 * (begun - 1 + none)

    found = pm.largest_load(
        COARSE, pm.Workload(prompt=1000, output=200, concurrency=1), slo=pm.Slo(tpot=0.02),
        devices=1, gpus=H100, pools="together",
    )  # fmt: skip
    most = max(users for users in range(1, 400) if token(users) <= 0.02)
    assert found.best.workload.concurrency == pytest.approx(most, abs=2)


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


# -- what must hold for any question ---------------------------------------------------------------

SHIPPED = ["h100-sxm", "h200-sxm", "a100-sxm-80gb", "l40s", "mi300x"]


def bought(**options) -> pm.Plans:
    given = {"slo": TARGETS, "gpus": SHIPPED, "engine": "vllm"} | options
    return pm.plan(LLAMA, given.pop("work", CHAT), **given)


@settings(max_examples=8, deadline=None)
@given(
    ttft=st.floats(0.05, 2.0), tpot=st.floats(0.005, 0.1), users=st.integers(1, 400),
    looser=st.floats(1.0, 3.0),
)  # fmt: skip
def test_looser_targets_never_cost_more(ttft, tpot, users, looser):
    work = CHAT.model_copy(update={"concurrency": users})
    tight = bought(work=work, slo=pm.Slo(ttft=ttft, tpot=tpot))
    loose = bought(work=work, slo=pm.Slo(ttft=ttft * looser, tpot=tpot * looser))
    if tight.best is not None:
        assert loose.best is not None
        assert loose.best.cost_per_hour <= tight.best.cost_per_hour * (1 + 1e-9)


@settings(max_examples=8, deadline=None)
@given(tpot=st.floats(0.005, 0.05), devices=st.integers(1, 16), more=st.integers(1, 8))
def test_more_devices_never_serve_fewer(tpot, devices, more):
    def users(there: int) -> dict[tuple[str, pm.Parallelism], float]:
        found = pm.largest_load(
            LLAMA, CHAT, slo=pm.Slo(ttft=1.0, tpot=tpot), devices=there, gpus=SHIPPED,
            pools="together",
        )  # fmt: skip
        return {(p.gpu.key, p.parallelism): p.workload.concurrency for p in found.feasible}

    few, many = users(devices), users(devices + more)
    assert all(many[key] >= load for key, load in few.items())


@pytest.mark.parametrize("cheaper", [0.9, 0.5, 0.1])
def test_a_lower_price_never_loses(cheaper):
    prices = dict.fromkeys(SHIPPED, 3.0)
    before = [plan.gpu.key for plan in bought(prices=prices).by_chip if plan.feasible]
    for key in SHIPPED:
        after = bought(prices=prices | {key: 3.0 * cheaper})
        keys = [plan.gpu.key for plan in after.by_chip if plan.feasible]
        assert keys.index(key) <= before.index(key)


@pytest.mark.parametrize("pools", ["together", "apart", "both"])
def test_the_best_is_on_the_front_and_nothing_beats_the_front(pools):
    found = bought(pools=pools)
    assert found.best in found.pareto
    for one in found.pareto:
        for other in found.feasible:
            if other.price is not None:
                better = (
                    other.cost_per_hour <= one.cost_per_hour,
                    other.tpot <= one.tpot,
                    other.ttft <= one.ttft,
                )
                same = (other.cost_per_hour, other.tpot, other.ttft) == (
                    one.cost_per_hour, one.tpot, one.ttft,
                )  # fmt: skip
                assert not all(better) or same


@pytest.mark.parametrize("ask", ["hour", "token"])
def test_of_free_chips_as_few_are_taken_as_do(ask):
    if ask == "hour":
        found = bought(prices=dict.fromkeys(SHIPPED, 0.0), pools="together")
        spent = {plan: plan.devices for plan in found.feasible}
    else:  # a load is sought: as few for each token
        found = pm.largest_load(
            LLAMA, CHAT, slo=TARGETS, devices=4, gpus=SHIPPED, pools="together",
            prices=dict.fromkeys(SHIPPED, 0.0),
        )  # fmt: skip
        spent = {p: p.devices / p.output_tokens_per_second for p in found.feasible}
    assert found.by == ask
    assert found.best.cost_per_hour == 0
    assert spent[found.best] == min(spent.values())
    same = [plan for plan in found.feasible if spent[plan] == spent[found.best]]
    assert found.best.tpot == min(plan.tpot for plan in same)
    assert found.best in found.pareto


def test_users_and_devices_are_inverse():
    found = bought(pools="together")
    for plan in found.feasible:
        back = pm.largest_load(
            LLAMA, CHAT, slo=TARGETS, devices=plan.devices, gpus=plan.gpu, engine="vllm",
            parallelisms=plan.parallelism, pools="together",
        ).best  # fmt: skip
        assert back.workload.concurrency >= CHAT.concurrency
        if plan.replicas > 1:
            less = pm.largest_load(
                LLAMA, CHAT, slo=TARGETS, devices=plan.devices - plan.parallelism.devices,
                gpus=plan.gpu, engine="vllm", parallelisms=plan.parallelism, pools="together",
            ).best  # fmt: skip
            assert less is None or less.workload.concurrency < CHAT.concurrency


def test_a_plan_is_what_serve_says():
    found = bought(work=pm.Workload(prompt=[200, 3000], output=150, concurrency=90))
    for plan in found.feasible:
        full = plan.serving()
        for name in ("ttft", "tpot", "requests_per_second"):
            assert getattr(full, name) == pytest.approx(getattr(plan, name), rel=1e-6), plan
        assert full.devices == plan.devices
        assert full.output_tokens_per_second == pytest.approx(plan.output_tokens_per_second)


# -- what would change it --------------------------------------------------------------------------


def test_elasticities_of_one_roof():
    # Nothing but weights and compute, one device: a token in time for more users only if the
    # prompts of others are read faster, which is compute, or the weights, which is bandwidth.
    found = pm.largest_load(
        COARSE, pm.Workload(prompt=1000, output=200, concurrency=1), slo=pm.Slo(tpot=0.02),
        devices=1, gpus=H100, pools="together",
    )  # fmt: skip
    bought = found.best.elasticities()
    assert bought["compute"] > 0.5 > bought["bandwidth"] > 0
    assert bought["link"] == pytest.approx(0, abs=1e-6)
    assert bought["memory"] == pytest.approx(0, abs=1e-6)


def test_memory_is_all_that_limits_those_who_wait_for_it():
    # 64 GB beside 16 GB of weights, 131,072 B a token: ten per cent of 80 GB are 12.5 % more room.
    found = pm.largest_load(
        LLAMA, pm.Workload(prompt=8000, output=1000, concurrency=1), slo=pm.Slo(tpot=1.0),
        devices=1, gpus=H100, pools="together",
    )  # fmt: skip
    room = (80e9 - LLAMA.weight_bytes()) // (131072 * 8500)
    more = (88e9 - LLAMA.weight_bytes()) // (131072 * 8500)
    assert found.best.workload.concurrency == room
    assert found.best.binding == "capacity"
    bought = found.best.elasticities()
    assert bought["memory"] == pytest.approx(math.log(more / room) / math.log(1.1))
    assert bought["bandwidth"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("ask", ["plan", "load"])
def test_at_the_winning_price_a_chip_costs_what_the_best_other_does(ask):
    def asked(prices):
        options = {"slo": TARGETS, "gpus": SHIPPED, "prices": prices, "pools": "together"}
        if ask == "plan":
            return pm.plan(LLAMA, CHAT, **options)
        return pm.largest_load(LLAMA, CHAT, devices=4, **options)

    prices = dict.fromkeys(SHIPPED, 3.0)
    found = asked(prices)
    for key in SHIPPED:
        price = found.winning_price(key)
        if price is None:
            continue
        for factor, wins in ((0.999, True), (1.001, False)):
            best = asked(prices | {key: price * factor}).best
            assert (best.gpu.key == key) == wins, (key, price)


def test_with_the_winning_bandwidth_a_chip_wins():
    # The same chip but for its bandwidth and a lower price: at some bandwidth below the other's
    # it takes as few devices, or at least not so many more that the price does not make up for it.
    slow = H100.model_copy(update={"name": "slow", "memory_bandwidth": 1e12})
    prices = {"H100": 2.5, "slow": 2.0}
    options = {"slo": pm.Slo(ttft=0.5, tpot=0.03), "pools": "together"}
    found = pm.plan(LLAMA, CHAT, gpus=[H100, slow], prices=prices, **options)
    assert found.best.gpu.name == "H100"
    needed = found.winning_bandwidth("slow")
    assert 1e12 < needed < H100.memory_bandwidth
    for factor, wins in ((1.002, True), (0.998, False)):
        faster = slow.model_copy(update={"memory_bandwidth": needed * factor})
        own = pm.plan(LLAMA, CHAT, gpus=faster, prices={"slow": 2.0}, **options).best
        assert (own.cost_per_hour <= found.best.cost_per_hour) == wins
    assert found.winning_bandwidth(H100) == H100.memory_bandwidth


# -- what will not do ------------------------------------------------------------------------------


def chip(**changes) -> pm.GpuSpec:
    return H100.model_copy(update=changes)


@pytest.mark.parametrize(
    ("options", "limit", "said"),
    [
        ({"gpus": chip(memory_capacity=10e9)}, "memory", "needs 16.2 GB for its weights"),
        ({"gpus": chip(memory_capacity=None)}, "memory", "H100 does not state it"),
        ({"gpus": chip(peak_flops={"fp16": 1e15})}, "format", "H100 has no bf16 peak"),
        ({"gpus": chip(link=None), "parallelisms": pm.Parallelism(tensor=2)}, "link", "link:"),
        ({"parallelisms": pm.Parallelism(tensor=16)}, "link", "at most 8 devices"),
        (
            {"gpus": chip(link={"bandwidth": 1e11}), "parallelisms": pm.Parallelism(pipeline=64)},
            "split",
            "at most 32 stages",
        ),
        ({"slo": pm.Slo(tpot=0.001)}, "tpot", "4.53 ms even alone, of 1.00 ms"),
        ({"slo": pm.Slo(ttft=0.001)}, "ttft", "a first token takes"),
        ({"slo": pm.Slo(end_to_end=0.5)}, "end_to_end", "a request takes"),
        ({"max_devices": 1, "slo": pm.Slo(tpot=0.006)}, "devices", "devices, of 1"),
    ],
)
def test_what_will_not_do_says_which_limit_it_breaks(options, limit, said):
    one = {"parallelisms": pm.Parallelism(), "slo": TARGETS, "gpus": H100, "pools": "together"}
    found = pm.plan(LLAMA, CHAT, **one | options)
    (plan,) = found.rows
    assert (plan.broken, plan.feasible, plan.binding) == (limit, False, limit)
    assert said in plan.reason
    assert found.best is None
    assert found.pareto == ()
    told = " ".join(found.explain().split())
    assert "None of 1 candidates will do." in told
    assert " ".join(plan.reason.split()) in told
    with pytest.raises(InvalidValueError, match="keeps its limits"):
        plan.elasticities()


@pytest.mark.parametrize("pools", ["together", "apart"])
def test_chips_that_a_bridge_or_the_host_joins_are_what_serve_says(pools):
    found = pm.plan(
        LLAMA, CHAT, slo=pm.Slo(ttft=1.0, tpot=0.03),
        gpus=["l40s", "a10", "a100-pcie-80gb", "mi210"], pools=pools,
    )  # fmt: skip
    assert len({plan.gpu.key for plan in found.feasible}) > 2
    for plan in found.feasible:
        assert plan.serving().tpot == pytest.approx(plan.tpot, rel=1e-6), plan


def test_pools_that_no_link_joins_say_so():
    found = pm.plan(LLAMA, CHAT, slo=TARGETS, gpus=chip(link=None), pools="apart")
    assert {plan.broken for plan in found.rows} == {"link"}


def test_a_chip_without_a_price_comes_after_those_with_one():
    found = bought(prices={"l40s": 100.0})
    assert found.best.gpu.key == "l40s"
    assert {plan.gpu.key for plan in found.pareto} == {"l40s"}
    other = next(plan for plan in found.feasible if plan.gpu.key != "l40s")
    assert (other.price, other.cost_per_hour, other.cost_per_million) == (None, None, None)
    assert "no cost" in other.explain()
    assert bought(prices={}).best.devices == min(plan.devices for plan in found.feasible)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"gpus": "h100-smx"}, "h100-sxm"),
        ({"gpus": []}, "gpus: expected from 1 to"),
        ({"gpus": [7]}, "gpus: expected keys, GpuSpec or Cluster"),
        ({"gpus": ["l4", "a10", "l4"]}, "gpus: expected each once, got l4 twice"),
        ({"gpus": [H100, chip(memory_bandwidth=1e12)]}, "got H100 twice; model_copy(update="),
        ({"precisions": ["fp8", "bf16", "fp8"]}, "precisions: expected each once, got fp8 twice"),
        ({"precisions": [None, "bf16"]}, "precisions: expected each once, got bf16 twice"),
        ({"parallelisms": [pm.Parallelism(), pm.Parallelism()]}, "parallelisms: expected each"),
        ({"prices": {3: 2}}, "prices: expected keys or names of chips, as 'h100-sxm', got 3"),
        ({"prices": {"h100": 2}}, "did you mean 'h100-nvl'"),
        ({"prices": {"h100-sxm": -2}}, "prices: expected USD an hour of one h100-sxm"),
        ({"prices": 2.5}, "prices: expected Mapping"),
        ({"max_devices": 0}, "max_devices: expected a whole number from 1"),
        ({"pools": "some"}, "pools: expected one of together, apart, both"),
        ({"precisions": ["fp9"]}, "fp8"),
        ({"engine": "vlm"}, "vllm"),
        ({"engine": None, "efficiency": "best"}, "auto, ideal"),
        ({"slo": 0.04}, "slo: expected Slo"),
        ({"work": 3}, "workload: expected Workload"),
        ({"scheduler": "chunked"}, "scheduler: expected Scheduler"),
        ({"parallelisms": pm.Parallelism(data=2)}, "data=1, for the plan counts replicas"),
        ({"parallelisms": 8}, "parallelisms: expected a list"),
        ({"policy": "vlm"}, "vllm"),
    ],
)
def test_a_wrong_argument_is_named(options, told):
    with pytest.raises(PerfModelError, match=re.escape(told)):
        bought(**options)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "expected ttft, tpot or end_to_end"),
        ({"tpot": -1}, "Slo.tpot: expected a positive"),
        ({"ttft": math.nan}, "Slo.ttft"),
        ({"ttft": 3, "end_to_end": 2}, "Slo.ttft: expected at most end_to_end"),
        ({"tpott": 1}, "did you mean 'tpot'"),
    ],
)
def test_a_wrong_target_is_named(fields, told):
    with pytest.raises(PerfModelError, match=re.escape(told)):
        pm.Slo(**fields)


@pytest.mark.parametrize(
    ("devices", "told"), [(0, "a whole number from 1"), (10**15, "at most 1,000,000,000")]
)
def test_too_few_and_too_many_devices_are_named(devices, told):
    with pytest.raises(InvalidValueError, match=f"devices: expected {told}"):
        pm.largest_load(LLAMA, CHAT, slo=TARGETS, devices=devices, gpus=H100)


@pytest.mark.parametrize(
    "work",
    [
        pm.Workload(prompt=100, output=100, concurrency=1e12),
        pm.Workload(prompt=100, output=100, rate=1e9),
        pm.Workload(prompt=100, output=100, rate=1e-9),
        pm.Workload(prompt=1e8, output=100, concurrency=3),
        pm.Workload(prompt=1, output=1.5, concurrency=1.5),
        pm.Workload(prompt=[1, 100], output={2: 3, 900: 1}, concurrency=30, rounds=2),
    ],
    ids=str,
)
def test_extreme_loads_are_planned_or_refused(work):
    found = pm.plan(LLAMA, work, slo=TARGETS, gpus=[H100, L40S], prices=PRICES)
    assert "best" in repr(found)
    for plan in found.rows:
        assert plan.feasible or plan.reason
        assert plan.feasible <= (plan.headroom is not None and plan.headroom >= -1e-9)


# -- tables and words ------------------------------------------------------------------------------


def test_a_table_has_a_row_a_plan():
    found = bought()
    frame = found.to_frame()
    assert len(frame) == len(found) == len(found.rows)
    assert frame["cost_per_hour"].iloc[0] == found.best.cost_per_hour
    assert set(frame["broken"].dropna()) <= {plan.broken for plan in found.rows}


def test_the_paragraph_tells_the_numbers():
    found = bought()
    best, told = found.best, " ".join(found.explain().split())
    for figure in (
        best.gpu.name,
        f"{best.cost_per_hour:,.2f} USD an hour",
        f"{best.cost_per_million_output:,.3f} USD a million written",
        f"{best.headroom:.0%} is left",
        f"The tightest limit is {best.binding}",
    ):
        assert figure in told


def test_a_cluster_is_planned_across_its_nodes():
    nodes = pm.Cluster(gpu=H100, per_node=8, nodes=4, link={"bandwidth": 50e9})
    found = pm.plan(
        pm.model("llama-3.1-70b"), CHAT, slo=pm.Slo(tpot=0.02), gpus=nodes, pools="together",
        parallelisms=[pm.Parallelism(tensor=8), pm.Parallelism(tensor=8, pipeline=2)],
    )  # fmt: skip
    two = next(plan for plan in found.feasible if plan.parallelism.pipeline == 2)
    assert two.cluster == nodes
    assert two.serving().tpot == pytest.approx(two.tpot, rel=1e-6)


def test_experts_over_replicas_are_tried():
    found = pm.largest_load(
        pm.model("deepseek-v3"), pm.Workload(prompt=2000, output=500, concurrency=1),
        slo=pm.Slo(ttft=3, tpot=0.05), devices=16, gpus="h200-sxm", precisions="fp8",
        parallelisms=[pm.Parallelism(tensor=8), pm.Parallelism(data=8, expert=8)], pools="together",
    )  # fmt: skip
    wide = next(plan for plan in found.rows if plan.parallelism.expert == 8)
    assert wide.devices == 16
    full = wide.serving()
    assert full.tpot == pytest.approx(wide.tpot, rel=1e-6)


def test_the_command_line_says_what_the_library_says(capsys):
    from perfmodel.interfaces import cli

    asked = "plan llama-3.1-8b --users 150 --prompt 1000 --output 200 --ttft 0.5 --tpot 0.02"
    assert cli.run([*asked.split(), "--gpu", "h100-sxm", "--gpu", "l4", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = pm.plan(LLAMA, CHAT, slo=TARGETS, gpus=["h100-sxm", "l4"])
    assert rows == json.loads(json.dumps([plan.row() for plan in found.by_chip]))
    assert cli.run([*asked.split(), "--gpu", "h100-sxm", "--explain"]) == 0
    assert "The tightest limit is" in " ".join(capsys.readouterr().out.split())
    assert (
        cli.run([*asked.split(), "--gpu", "h100-sxm", "--devices", "4", "--price", "h100-sxm=2"])
        == 0
    )
    assert "h100-sxm" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("--users 3", "expected ttft, tpot or end_to_end"),
        ("--tpot 1", "--users: expected it, --rate or --trace"),
        ("--users 1,2,3 --tpot 1", "--users, --rate: expected one number, got 3"),
        ("--users 3 --rate 2 --tpot 1", "--users, --rate: expected one of them"),
        (
            "--users 3 --tpot -1",
            "--tpot: expected a positive, finite number (1e-9 to 1e30), got '-1'",
        ),
        ("--users nan --tpot 1", "--users: expected a positive, finite number"),
        ("--users 3 --tpot 1 --devices 2 --max-devices 2", "--devices, --max-devices"),
        ("--users 3 --tpot 1 --price 2", "--price: expected a chip and USD an hour"),
        ("--users 3 --tpot 1 --json --explain", "--json, --explain"),
    ],
)
def test_the_command_line_refuses_in_one_line(capsys, more, told):
    from perfmodel.interfaces import cli

    asked = "plan llama-3.1-8b --prompt 1000 --output 200 --gpu h100-sxm"
    assert cli.run([*asked.split(), *more.split()]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert said.count("\n") == 1


def test_a_billion_devices_bear_what_one_does_a_billion_times() -> None:
    """Replicas do not know of each other."""
    llama = pm.model("llama-3.1-8b")
    asked = pm.Workload(prompt=1000, output=200, concurrency=1)
    targets = pm.Slo(ttft=1, tpot=0.05)
    for devices in (1, 10**9):
        found = pm.largest_load(
            llama, asked, slo=targets, gpus="h100-sxm", devices=devices, pools="together"
        )
        assert found.best is not None
        each = found.best.workload.concurrency / devices
        assert 385 <= each < 386
