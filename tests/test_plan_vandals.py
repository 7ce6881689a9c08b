"""Whatever is asked of a plan: an answer, or one error that names the argument. Never a hang."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import perfmodel as pm

LLAMA, H100 = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
SLO = pm.Slo(ttft=0.5, tpot=0.02)
NO_NUMBERS: list[Any] = [
    math.nan, math.inf, -1, -1e-9, 1e300, 1e-300, 10**400, True, np.True_, np.float64("nan"),
    "1", b"1", 1j, [1], {}, np.array([1.0, 2.0]), np.array(1.0),
]  # fmt: skip
ONES = [1, 1.0, np.int64(1), np.float64(1.0), np.float32(1.0)]


def work(**load: float) -> pm.Workload:
    return pm.Workload(prompt=1000, output=200, **load or {"concurrency": 50})


def planned(**asked: Any) -> pm.Plans:
    given = {"slo": SLO, "gpus": H100, "parallelisms": pm.Parallelism()} | asked
    return pm.plan(given.pop("model", LLAMA), given.pop("workload", work()), **given)


def refused(name: str, ask: Any) -> None:
    with pytest.raises(pm.errors.PerfModelError, match=rf"^{re.escape(name)}\b") as told:
        ask()
    assert len(str(told.value)) < 400
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0], ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("target", ["ttft", "tpot", "end_to_end"])
def test_a_target_is_a_number(target, value):
    refused(f"Slo.{target}", lambda: pm.Slo(**{target: value}))


@pytest.mark.parametrize("value", [*NO_NUMBERS, 0, 1.5], ids=lambda value: repr(value)[:20])
def test_devices_are_counted(value):
    refused("max_devices", lambda: planned(max_devices=value))
    refused(
        "devices",
        lambda: pm.largest_load(LLAMA, work(), slo=SLO, gpus=H100, devices=value),
    )


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: repr(value)[:20])
def test_prices_are_numbers(value):
    if not (isinstance(value, float) and value == 1e-300):  # almost free
        refused("prices", lambda: planned(prices={"h100-sxm": value}))


@pytest.mark.parametrize("one", ONES, ids=lambda value: type(value).__name__)
def test_any_number_that_is_one_is_one(one):
    assert pm.Slo(ttft=one) == pm.Slo(ttft=1)
    assert planned(max_devices=one).devices == 1
    assert planned(prices={"h100-sxm": one}).best.cost_per_hour == 1


KINDS = (
    "model", "workload", "slo", "gpus", "precisions", "parallelisms", "pools", "prices",
    "scheduler", "efficiency", "engine", "server", "speculation", "policy",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_no_argument_takes_just_anything(name):
    for value in (math.nan, -1, True, b"1", {3: 2}, np.array([1.0, 2.0]), object(), lambda: 0):
        # Of several precisions, or of chips, one is wrong.
        told = name.removesuffix("s") if name == "precisions" else name
        refused_as(told, name, value)


def refused_as(told: str, name: str, value: Any) -> None:
    with pytest.raises(pm.errors.PerfModelError) as found:
        planned(**{name: value})
    assert str(found.value).startswith(told), (name, value)


@pytest.mark.parametrize("name", ["gpus", "precisions", "parallelisms"])
def test_an_empty_list_is_no_choice(name):
    refused(name, lambda: planned(**{name: []}))


@pytest.mark.parametrize("value", [*NO_NUMBERS, None, "h100"], ids=lambda value: repr(value)[:20])
def test_a_chip_that_wins_is_one_of_the_plans(value):
    found = planned()
    refused("gpu", lambda: found.winning_price(value))
    refused("gpu", lambda: found.winning_bandwidth(value))


def test_targets_that_contradict_each_other():
    refused("Slo.ttft", lambda: pm.Slo(ttft=2, end_to_end=1))
    # 199 tokens of 20 ms may take 3.98 s, but all of it 10 ms: no chip does.
    found = planned(slo=pm.Slo(tpot=0.02, end_to_end=0.01))
    assert {plan.broken for plan in found.rows} == {"end_to_end"}


@pytest.mark.parametrize("users", [500, 5000, 1e6, 1e12, 1e15])
def test_nobody_waits_for_ever_where_no_target_says_for_how_long(users):
    # A pool of one reader would leave all but a few in its queue, and those few quick.
    found = planned(workload=work(concurrency=users), slo=pm.Slo(tpot=0.02), pools="apart")
    plan = found.best
    assert plan.ttft < 1.0
    # Readers that are busy, at least: 7e9 weights without tables, 2 FLOPs each and token.
    read = plan.requests_per_second * 1000 * 2 * 6.98e9 / 989e12
    assert read < plan.prefill_replicas < 1.5 * read + 2


@pytest.mark.parametrize("load", [{"concurrency": 1e30}, {"rate": 1e15}, {"rate": 1e-9}], ids=str)
@pytest.mark.parametrize("pools", ["together", "apart"])
def test_absurd_loads_have_finite_answers(load, pools):
    for plan in planned(workload=work(**load), pools=pools).rows:
        times = [plan.ttft, plan.tpot, plan.end_to_end]
        assert all(time is None or 0 < time < 1e4 for time in times), plan
        assert plan.feasible or plan.reason
