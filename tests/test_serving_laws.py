"""Laws that every steady state keeps, whatever is served where: tried on random servers."""

from __future__ import annotations

import itertools
import math
import random
import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from event_simulator import Rules, Run, Steps
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.answers.serving.costs import Costs
from perfmodel.answers.serving.steady import prompts_in_step

H100 = pm.GpuSpec(
    name="H100",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12},
    link={"bandwidth": 450e9, "domain": 8},
)
COARSE = pm.ModelShape.from_totals(params=8e9)
LLAMA = pm.model("llama-3.1-8b")
ROUNDING = 1e-5


class Case(NamedTuple):
    """A random workload on a random server."""

    model: pm.ModelShape
    gpu: pm.GpuSpec
    lengths: dict[str, Any]
    how: dict[str, Any]

    def serve(self, gpu: pm.GpuSpec | None = None, **asked: Any) -> pm.Serving:
        return pm.serve(
            self.model, gpu or self.gpu, pm.Workload(**self.lengths | asked), **self.how
        )


def schedulers(*kinds: str) -> st.SearchStrategy[Any]:
    sequences, reserves = st.sampled_from([None, 8, 200]), st.booleans()
    few = st.integers(1, 4)
    pools = st.builds(
        pm.Disaggregated, prefill=few, decode=few, transfer=st.sampled_from([None, 1e12]),
        sequences=sequences, reserves=reserves,
    )  # fmt: skip
    one = st.builds(
        pm.Scheduler, kind=st.sampled_from(kinds), budget=st.sampled_from([512, 2048, 8192]),
        sequences=sequences, reserves=reserves,
    )  # fmt: skip
    return one | pools


@st.composite
def cases(draw: Any, *kinds: str) -> Case:
    model = pm.model(draw(st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "mamba-1.4b"])))
    gpu = pm.gpu(draw(st.sampled_from(["h100-sxm", "b200-sxm", "a100-sxm-80gb"])))
    lengths = {"prompt": draw(st.integers(8, 6000)), "output": draw(st.integers(20, 600))}
    how = {
        "scheduler": draw(schedulers(*(kinds or ("chunked", "prefill-first")))),
        "engine": draw(st.sampled_from([None, "vllm"])),
        "parallelism": pm.Parallelism(data=draw(st.sampled_from([1, 3]))),
    }
    return Case(model, gpu, lengths, how)


few_examples = settings(max_examples=15, deadline=None, derandomize=True)
numbers_of_users = st.sampled_from([1, 2, 3, 7, 20, 64, 300, 5000])


@few_examples
@given(cases(), numbers_of_users)
def test_users_are_rate_times_time(one, users):
    found = one.serve(concurrency=users)
    assert found.requests_per_second * found.end_to_end == pytest.approx(users, rel=1e-9)
    assert found.decoding == pytest.approx(
        found.requests_per_second * (found.end_to_end - found.ttft), rel=1e-9
    )
    assert 1 - 1e-9 <= found.together <= users
    assert 0 <= found.load <= 1
    assert 0 <= found.interference < 1


@few_examples
@given(cases("prefill-first"), st.data())
def test_more_users_never_have_fewer_answers(one, data):
    # Beside tokens, too, but for a per cent where prompts all but fill the steps.
    rates = [one.serve(concurrency=users).requests_per_second for users in (1, 2, 5, 16, 64, 300)]
    assert all(b >= a * (1 - 1e-3) for a, b in itertools.pairwise(rates))


@few_examples
@given(cases(), numbers_of_users, st.sampled_from(["memory_bandwidth", "peak_flops"]))
def test_a_faster_chip_answers_no_fewer(one, users, figure):
    before = getattr(one.gpu, figure)
    if figure == "peak_flops":
        more: Any = before.model_copy(
            update={name: 1.3 * peak for name, peak in before.model_dump().items() if peak}
        )
    else:
        more = 1.3 * before
    faster = one.serve(one.gpu.model_copy(update={figure: more}), concurrency=users)
    usual = one.serve(concurrency=users)
    assert faster.requests_per_second >= usual.requests_per_second * (1 - ROUNDING)
    assert faster.end_to_end <= usual.end_to_end * (1 + ROUNDING)


@few_examples
@given(cases(), numbers_of_users)
def test_a_cached_prefix_never_delays_a_first_token(one, users):
    usual = one.serve(concurrency=users)
    cached = one.serve(concurrency=users, prefix=one.lengths["prompt"] // 2)
    assert cached.ttft <= usual.ttft * (1 + 1e-3)
    assert cached.requests_per_second >= usual.requests_per_second * (1 - 1e-3)


def largest(one: Case) -> float:
    with pytest.raises(
        pm.errors.InvalidValueError, match=r"less than [\d.e+]+ requests"
    ) as refused:
        one.serve(rate=1e9)
    found = re.search(r"less than ([\d.e+]+) ", str(refused.value))
    assert found is not None
    return float(found[1])


@settings(few_examples, max_examples=8)
@given(cases())
def test_the_largest_rate_that_is_named_can_be_answered_and_no_more(one):
    most = largest(one)
    found = one.serve(rate=most)
    assert found.requests_per_second == most
    assert found.end_to_end < 1e9
    with pytest.raises(pm.errors.InvalidValueError, match="less than"):
        one.serve(rate=1.001 * most)
    before = 0.0
    for share in (1e-4, 0.1, 0.5, 0.8, 0.95, 0.999):
        waited = one.serve(rate=share * most).end_to_end
        assert waited >= before * (1 - ROUNDING)
        before = waited


@few_examples
@given(cases("chunked", "prefill-first"))
def test_few_arrivals_are_as_many_users(one):
    # Where queues are short, it is one and the same whether users come back or come anew.
    found = one.serve(rate=0.2 * largest(one))
    if found.load < 0.2 and found.users > 3:
        again = one.serve(concurrency=found.users)
        assert again.requests_per_second == pytest.approx(found.requests_per_second, rel=0.08)
        assert again.tpot == pytest.approx(found.tpot, rel=0.08)


# -- what broke them -------------------------------------------------------------------------------


def test_many_users_of_prompts_that_come_first_are_what_a_simulation_shows():
    # A small budget cuts prompts, but holds none back: steps of tokens wait for all of them. Here
    # 39 others of 59 further tokens start 0.66 prompts a step, of five chunks each.
    chance, order = random.Random(3), pm.Scheduler(kind="prefill-first", budget=64)
    run = Run(
        Steps(LLAMA, H100),
        Rules(kind="prefill-first", budget=64),
        lambda: (320, chance.randint(20, 100)),
        users=40,
    )
    seen = run.until(1200, 300)
    work = pm.Workload(prompt=320, output=list(range(20, 101)), concurrency=40)
    found = pm.serve(LLAMA, H100, work, scheduler=order)
    assert found.load < 0.8
    assert found.requests_per_second == pytest.approx(seen.rate, rel=0.05)
    assert found.tpot == pytest.approx(seen.tpot, rel=0.05)
    assert found.ttft == pytest.approx(seen.ttft, rel=0.15)


@pytest.mark.parametrize(
    ("kind", "prompt", "outputs", "users"),
    [
        ("chunked", 60, (3, 7), 100),  # some 20 prompts a step: 1,200 tokens, bound by compute
        ("chunked", 30, (2, 6), 100),
        ("chunked", 100, (10, 20), 100),
        ("prefill-first", 60, (5, 12), 100),
    ],
)
def test_short_outputs_begin_many_prompts_a_step_as_in_a_simulation(kind, prompt, outputs, users):
    chance = random.Random(1)
    run = Run(
        Steps(LLAMA, H100),
        Rules(kind=kind),
        lambda: (prompt, chance.randint(*outputs)),
        users=users,
    )
    seen = run.until(12_000, 6_000)  # users begin one after another, over 300 steps
    each = list(range(outputs[0], outputs[1] + 1))
    work = pm.Workload(prompt=prompt, output=each, concurrency=users)
    found = pm.serve(LLAMA, H100, work, scheduler=pm.Scheduler(kind=kind))
    assert found.load < 0.8
    assert found.requests_per_second == pytest.approx(seen.rate, rel=0.05)
    assert found.tpot == pytest.approx(seen.tpot, rel=0.05)
    assert found.ttft == pytest.approx(seen.ttft, rel=0.15)


@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.3, 2.0, 7.5, 40.0])
def test_the_time_of_a_poisson_number_of_prompts_is_the_sum_over_all_numbers(mean):
    # 1, 2, 4, 8 and 16 prompts take 3, 4, 7, 15 and 47 s: straight between, and from there on.
    known = {0: 0.0, 1: 3.0, 2: 4.0, 4: 7.0, 8: 15.0, 16: 47.0, 1016: 4047.0}
    times = {"one": 3.0, "two": 4.0, "four": 7.0, "eight": 15.0, "sixteen": 47.0}
    others = dict.fromkeys(set(Costs._fields) - set(times), 0.0)
    chances = [math.exp(-mean)]
    for number in range(1, 200):
        chances.append(chances[-1] * mean / number)
    for begun in (0, 1):
        total = sum(
            chance * (np.interp(i + begun, [*known], [*known.values()]) - known[begun])
            for i, chance in enumerate(chances)
        )
        found = prompts_in_step(mean, Costs(**times, **others), begun)
        assert found == pytest.approx(total, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("users", [2, 3, 5, 20, 100])
def test_no_pool_reads_more_prompts_than_it_has_time_for_of_few_users(users):
    # 2 x 8e9 x 1000 FLOP at 989 TFLOP/s: 61.8 prompts a second, and one more token each.
    most = 989e12 / (2 * 8e9 * 1000)
    pools = pm.Disaggregated(prefill=1, decode=1, transfer=1e12)
    work = pm.Workload(prompt=1000, output=2, concurrency=users)
    found = pm.serve(COARSE, H100, work, scheduler=pools)
    assert 0.9 * most < found.requests_per_second <= most * (1 + 1e-9)
    assert found.load <= 1


def test_a_rate_past_the_budget_of_steps_is_refused():
    # A step has 64 tokens: 410 + 14 of a request leave 64 / 424 requests a step, and a step of
    # 64 tokens takes no less than its weights: 15.0 GB at 3.35 TB/s, so 4.48 ms.
    order = pm.Scheduler(budget=64)
    one = Case(LLAMA, H100, {"prompt": 410, "output": 15}, {"scheduler": order})
    assert largest(one) < 64 / 424 / 4.48e-3
    assert one.serve(rate=largest(one)).end_to_end < 1e9
