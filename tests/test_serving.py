"""Does the steady state hold against a simulator that hands out every token by itself?

The simulator of ``event_simulator.py`` shares nothing with ``serve`` but the estimates of single
steps: schedules, queues, lengths and arrivals are played out. At one user everything is arithmetic,
written out here.
"""

from __future__ import annotations

import importlib
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from event_simulator import Means, Rules, Run, Steps, two_pools

import perfmodel as pm
from perfmodel.answers.serving import steady
from perfmodel.answers.serving.costs import Costs, Server, costs_of, knots_up_to
from perfmodel.answers.serving.pools import waiting
from perfmodel.answers.serving.steady import Loop, closed, state
from perfmodel.base.errors import InvalidValueError

H100 = pm.GpuSpec(
    name="H100", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
)
COARSE = pm.ModelShape.from_totals(params=8e9)
LLAMA = pm.model("llama-3.1-8b")


# -- one user: hand arithmetic ---------------------------------------------------------------------


def test_one_user_waits_for_a_prefill_and_then_for_steps():
    # 8e9 parameters in bf16: a step reads 16e9 B in 16 / 3350 s = 4.776 ms, and is memory-bound up
    # to 295 tokens; 2,048 tokens take 2 x 8e9 x 2048 / 989e12 s = 33.13 ms. 255 further tokens.
    found = pm.serve(COARSE, H100, pm.Workload(prompt=2048, output=256, concurrency=1))
    assert found.ttft == pytest.approx(2 * 8e9 * 2048 / 989e12, rel=1e-9)
    assert found.tpot == pytest.approx(16e9 / 3.35e12, rel=1e-9)
    whole = 33.131e-3 + 255 * 4.7761e-3
    assert found.end_to_end == pytest.approx(whole, rel=1e-4)
    assert found.requests_per_second == pytest.approx(1 / whole, rel=1e-4)
    assert found.output_tokens_per_second == pytest.approx(256 / whole, rel=1e-4)
    assert found.decoding == pytest.approx(255 * 4.7761e-3 / whole, rel=1e-4)
    assert found.interference == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("engine", [None, "vllm", "trtllm"])
@pytest.mark.parametrize("scheduler", ["chunked", "prefill-first"])
def test_one_user_is_a_generation(scheduler, engine):
    # Contexts grow from 1,001 to 1,199: the sum over them, not the step at one of them. Its prompt
    # is launched without a graph, whoever asks.
    alone = pm.generate(LLAMA, H100, prompt=1000, output=200, engine=engine)
    found = pm.serve(
        LLAMA, H100, pm.Workload(prompt=1000, output=200, concurrency=1),
        scheduler=scheduler, engine=engine, server=pm.ServerForm(),
    )  # fmt: skip
    assert found.ttft == pytest.approx(alone.ttft, rel=1e-6)
    assert found.tpot == pytest.approx(alone.tpot, rel=1e-6)


def test_growth_past_a_window_is_summed():
    # gpt-oss has windows of 128 tokens, which outputs from a short prompt outgrow.
    model, chip = pm.model("gpt-oss-20b"), pm.gpu("h100-sxm")
    alone = pm.generate(model, chip, prompt=16, output=600)
    found = pm.serve(model, chip, pm.Workload(prompt=16, output=600, concurrency=1))
    assert found.tpot == pytest.approx(alone.tpot, rel=1e-4)


def test_a_prompt_in_chunks_takes_the_sum_of_its_chunks():
    # 4,096 tokens by 1,024: each chunk attends those before it.
    found = pm.serve(
        LLAMA,
        H100,
        pm.Workload(prompt=4096, output=10, concurrency=1),
        scheduler=pm.Scheduler(budget=1024),
    )
    chunks = [
        pm.prefill(LLAMA, H100, prompt=1024, past=past, logits="last").time
        for past in (0, 1024, 2048, 3072)
    ]
    assert found.ttft == pytest.approx(sum(chunks), rel=2e-3)


def test_two_users_by_hand():
    # Matrices only, so that every number is exact. Two users of 512 + 100 tokens: a cycle is one
    # step of the prefill and 99 of decoding, and in one of the user's 99 steps of decoding, but for
    # the hundredth of the cycles in which both begin together, the other's prompt is read.
    found = pm.serve(COARSE, H100, pm.Workload(prompt=512, output=100, concurrency=2))
    step, prefill = 16e9 / 3.35e12, 2 * 8e9 * 513 / 989e12
    longer = prefill - step
    tpot = step + longer / 100
    assert found.tpot == pytest.approx(tpot, rel=2e-3)
    assert found.requests_per_second == pytest.approx(2 / (prefill + 99 * tpot), rel=5e-3)


def test_definitions_are_those_of_serving_benchmarks():
    # TPOT = (end to end - TTFT) / (O - 1); throughput counts all output tokens.
    found = pm.serve(LLAMA, H100, pm.Workload(prompt=500, output=300, concurrency=16))
    assert found.tpot == pytest.approx((found.end_to_end - found.ttft) / 299)
    assert found.requests_per_second == pytest.approx(16 / found.end_to_end)  # Little's law
    assert found.output_tokens_per_second == pytest.approx(300 * found.requests_per_second)
    assert found.users == pytest.approx(16)


# -- many users: the simulator ---------------------------------------------------------------------

CHIPS = [
    ("llama-3.1-8b", "h100-sxm", 1, "bf16"),
    ("llama-3.1-8b", "l4", 1, "fp8"),
    ("llama-3.1-70b", "h200-sxm", 4, "fp8"),
    ("gpt-oss-20b", "h100-sxm", 1, None),
    ("qwen3-30b-a3b", "b200-sxm", 1, "fp8"),
    ("deepseek-r1", "b200-sxm", 8, "fp8-block"),
]


class Case(NamedTuple):
    """A random workload on a random server."""

    model: pm.ModelShape
    gpu: pm.GpuSpec
    how: dict[str, Any]
    prompt: int
    output: int
    spread: float
    users: int
    scheduler: pm.Scheduler
    chance: random.Random

    def lengths(self) -> tuple[int, int]:
        low, high = 1 - self.spread, 1 + self.spread
        drawn = (mean * self.chance.uniform(low, high) for mean in (self.prompt, self.output))
        prompt, output = (max(2, round(length)) for length in drawn)
        return prompt, output

    def workload(self, **how_many: float) -> pm.Workload:
        values = [1 - self.spread + 2 * self.spread * (i + 0.5) / 20 for i in range(20)]
        prompt, output = ([mean * x for x in values] for mean in (self.prompt, self.output))
        return pm.Workload(prompt=prompt, output=output, **how_many)

    def serve(self, **how_many: float) -> pm.Serving:
        return pm.serve(
            self.model,
            self.gpu,
            self.workload(**how_many),
            scheduler=self.scheduler,
            server=pm.ServerForm(),
            **self.how,
        )

    def run(self, **how: Any) -> Run:
        rules = Rules(kind=self.scheduler.kind, budget=self.scheduler.budget)
        return Run(Steps(self.model, self.gpu, **self.how), rules, self.lengths, **how)


def case(number: int, kind: str) -> Case:
    chance = random.Random(number)
    key, chip, tensor, precision = chance.choice(CHIPS)
    prompt, output = int(10 ** chance.uniform(2, 3.9)), int(10 ** chance.uniform(1.6, 2.7))
    users = int(10 ** chance.uniform(0.3, 2.0))
    spread, budget = chance.choice([0.2, 0.5, 0.9]), chance.choice([1024, 2048, 8192])
    how = {
        "precision": precision,
        "parallelism": pm.Parallelism(tensor=tensor),
        "engine": chance.choice([None, "vllm"]),
    }
    scheduler = pm.Scheduler(kind=kind, budget=budget)
    model, gpu = pm.model(key), pm.gpu(chip)
    return Case(model, gpu, how, prompt, output, spread, users, scheduler, chance)


def busy(found: pm.Serving) -> float:
    """The busiest of what a server has: room for prompts in steps, and for sequences."""
    return max(found.load, found.kv_utilization or 0.0)


def check(found: pm.Serving, seen: Means, ttft: float = 0.15) -> None:
    assert found.tpot == pytest.approx(seen.tpot, rel=0.05)
    assert found.requests_per_second == pytest.approx(seen.rate, rel=0.05)
    assert found.ttft == pytest.approx(seen.ttft, rel=ttft)


CLOSED = [(i, ("chunked", "prefill-first")[i % 2]) for i in range(48)]


@pytest.mark.parametrize(("number", "kind"), CLOSED)
def test_a_closed_loop_is_what_a_simulation_shows(number, kind):
    one = case(number, kind)
    while busy(found := one.serve(concurrency=one.users)) > 0.8:
        one = one._replace(users=one.users // 2)
    skip = 3 * one.users
    check(found, one.run(users=one.users).until(skip + max(400, 8 * one.users), skip))


def poisson(chance: random.Random, rate: float) -> Iterator[float]:
    now = 0.0
    while True:
        now += chance.expovariate(rate)
        yield now


OPEN = [(i, kind) for kind in ("chunked", "prefill-first") for i in (4, 13, 16, 17, 20, 22, 29, 35)]


@pytest.mark.parametrize(("number", "kind"), OPEN)
def test_random_arrivals_are_what_a_simulation_shows(number, kind):
    one = case(number, kind)
    rate = 0.8 * one.serve(concurrency=one.users).requests_per_second
    run = one.run(arrivals=poisson(one.chance, rate))
    seen = run.until(1500, 200)
    # At the rate that came: of so few random arrivals, it is off by some per cent.
    came = sorted(request.came for request in run.done)
    found = one.serve(rate=(len(came) - 1) / (came[-1] - came[0]))
    assert busy(found) < 0.8
    check(found, seen)


@pytest.mark.parametrize("kind", ["chunked", "prefill-first"])
def test_who_comes_while_a_prompt_is_read_holds_up_its_tokens(kind):
    # Long prompts and short outputs: what comes during a prefill is much of what a token waits for.
    chance = random.Random(13)
    rules, order = Rules(kind=kind), pm.Scheduler(kind=kind)
    run = Run(Steps(LLAMA, H100), rules, lambda: (6000, 20), arrivals=poisson(chance, 4.5))
    seen = run.until(3000, 100)
    came = [request.came for request in run.done]
    rate = (len(came) - 1) / (max(came) - min(came))
    found = pm.serve(LLAMA, H100, pm.Workload(prompt=6000, output=20, rate=rate), scheduler=order)
    assert busy(found) < 0.8
    check(found, seen)


# -- overload --------------------------------------------------------------------------------------


def test_users_past_the_room_wait_for_it():
    # Room for some 20 sequences, 60 users: the simulator admits who fits, whole outputs reserved.
    chip = H100.model_copy(update={"memory_capacity": 16.06e9 + 22 * 1100 * 131072})
    work = pm.Workload(prompt=1000, output=100, concurrency=60)
    found = pm.serve(LLAMA, chip, work, scheduler=pm.Scheduler(reserves=True))
    room = (chip.memory_capacity - LLAMA.weight_bytes("bf16")) / 131072
    assert found.capacity == int(room // 1100)
    assert found.bound == "capacity"
    run = Run(Steps(LLAMA, chip), Rules(room=room), lambda: (1000, 100), users=60)
    seen = run.until(1500, 300)
    assert found.requests_per_second == pytest.approx(seen.rate, rel=0.05)
    assert found.tpot == pytest.approx(seen.tpot, rel=0.05)
    assert found.ttft == pytest.approx(seen.ttft, rel=0.15)
    # Waiting costs the users, and yields nothing.
    most = pm.serve(LLAMA, chip, work.model_copy(update={"concurrency": found.capacity}),
                    scheduler=pm.Scheduler(reserves=True))  # fmt: skip
    assert found.requests_per_second == pytest.approx(most.requests_per_second, rel=1e-6)
    late = (60 - found.capacity) / found.requests_per_second
    assert found.ttft == pytest.approx(most.ttft + late, rel=1e-6)


def test_requests_that_come_too_fast_are_refused_with_the_most_that_does_not():
    chip = H100.model_copy(update={"memory_capacity": 16.06e9 + 40 * 1050 * 131072})
    work = pm.Workload(prompt=1000, output=100, rate=1e4)
    with pytest.raises(pm.errors.InvalidValueError, match=r"less than [\d.]+ req") as refused:
        pm.serve(LLAMA, chip, work)
    most = float(str(refused.value).split("less than ")[1].split()[0])
    below = pm.serve(LLAMA, chip, work.model_copy(update={"rate": 0.99 * most}))
    assert below.kv_utilization > 0.9
    # All room in use gives that rate: as many users as there is room for.
    full = work.model_copy(update={"rate": None, "concurrency": below.capacity})
    assert pm.serve(LLAMA, chip, full).requests_per_second == pytest.approx(most, rel=1e-3)


def test_pools_without_room_for_more_are_full():
    # 10 sequences decode at a time, whoever waits: their steps give the rate.
    apart = pm.Disaggregated(prefill=4, decode=1, transfer=1e12, sequences=10)
    work = pm.Workload(prompt=1000, output=101, concurrency=200)
    found = pm.serve(LLAMA, H100, work, scheduler=apart)
    step = pm.decode(LLAMA, H100, batch=10, context=1050).time
    assert found.tpot == pytest.approx(step, rel=1e-2)
    assert found.requests_per_second == pytest.approx(10 / (100 * step), rel=1e-2)
    assert found.end_to_end * found.requests_per_second == pytest.approx(200)
    assert found.bound == "capacity"


# -- prefixes, drafts, pools -----------------------------------------------------------------------


def test_a_cached_prefix_cuts_new_tokens_and_not_the_context():
    whole = pm.Workload(prompt=4000, output=100, concurrency=1)
    cached = whole.model_copy(update={"prefix": 3000})
    found = pm.serve(LLAMA, H100, cached)
    assert found.tpot == pytest.approx(pm.serve(LLAMA, H100, whole).tpot, rel=1e-9)
    assert found.ttft == pytest.approx(pm.prefill(LLAMA, H100, prompt=1000, past=3000).time)


def test_a_cached_prefix_is_what_a_simulation_shows():
    work = pm.Workload(prompt=3000, output=120, prefix=2000, concurrency=24)
    chance = random.Random(7)
    run = Run(
        Steps(LLAMA, H100),
        Rules(prefix=2000),
        lambda: (3000, chance.randint(60, 180)),
        users=24,
    )
    spread = work.model_copy(update={"output": pm.Lengths(values=tuple(range(60, 181)))})
    check(pm.serve(LLAMA, H100, spread), run.until(800, 100))


def test_drafts_by_hand():
    # Three guesses, each right with 0.7: 1 + 0.7 + 0.49 + 0.343 = 2.533 tokens a step of four
    # tokens a sequence; the draft of 1e9 parameters reads 2e9 B three times before.
    draft = pm.ModelShape.from_totals(params=1e9)
    guess = pm.Speculation(tokens=3, acceptance=0.7, draft=draft)
    work = pm.Workload(prompt=500, output=1000, concurrency=1)
    found = pm.serve(COARSE, H100, work, speculation=guess)
    step = (16e9 + 3 * 2e9) / 3.35e12
    assert found.tpot == pytest.approx(step / 2.533, rel=1e-6)
    # It pays where 1 + a + a^2 + a^3 > 22 / 16 = 1.375: 1 + 0.28 + 0.0784 + 0.02195 = 1.380.
    assert 0.27 < found.breakeven_acceptance < 0.28


def test_breakeven_of_one_guess_is_the_extra_cost():
    # 1 + a = cost
    guess = pm.Speculation(tokens=1, acceptance=0.5)
    assert guess.breakeven_acceptance(1.3) == pytest.approx(0.3)
    # 1 + a + a^2 = cost: a = (sqrt(4 cost - 3) - 1) / 2
    guess = pm.Speculation(tokens=2, acceptance=0.5)
    assert guess.breakeven_acceptance(1.75) == pytest.approx(0.5)
    assert guess.breakeven_acceptance(9.0) == pytest.approx(1.0)


def test_drafts_are_what_a_simulation_shows():
    guess = pm.Speculation(tokens=2, acceptance=0.6)
    chance = random.Random(3)
    run = Run(
        Steps(LLAMA, H100, width=3),
        Rules(drafts=2, acceptance=0.6),
        lambda: (800, chance.randint(100, 300)),
        users=16,
    )
    work = pm.Workload(prompt=800, output=list(range(100, 301)), concurrency=16)
    check(pm.serve(LLAMA, H100, work, speculation=guess), run.until(800, 80))


@pytest.mark.parametrize("pools", [(1, 1), (1, 2), (3, 2)])
def test_pools_are_what_a_simulation_shows(pools):
    chance = random.Random(11)
    apart = pm.Disaggregated(prefill=pools[0], decode=pools[1], transfer=25e9)
    most = 0.7 * pools[0] / pm.prefill(LLAMA, H100, prompt=2000).time
    arrivals = list(zip(range(3000), poisson(chance, most), strict=False))
    times = [at for _, at in arrivals]
    rate = len(times) / times[-1]
    work = pm.Workload(prompt=list(range(1000, 3001, 50)), output=list(range(50, 151)), rate=rate)
    found = pm.serve(LLAMA, H100, work, scheduler=apart)
    transfer = 2000 * 131072 / 25e9
    assert found.transfer == pytest.approx(transfer)
    seen = two_pools(
        lambda prompt: pm.prefill(LLAMA, H100, prompt=prompt).time,
        Steps(LLAMA, H100),
        lambda: (chance.randrange(1000, 3001, 50), chance.randint(50, 150)),
        pools=pools,
        transfer=transfer,
        arrivals=iter(times),
        requests=3000,
        skip=100,
    )
    check(found, seen)
    assert found.devices == sum(pools)


def test_balanced_pools_are_equally_busy():
    work = pm.Workload(prompt=2000, output=300, concurrency=64)
    found = pm.serve(LLAMA, H100, work, scheduler=pm.Disaggregated(transfer=100e9))
    prefill, decode = found.pools
    assert prefill == pytest.approx(pm.prefill(LLAMA, H100, prompt=2000).time)
    assert found.balanced_pools == pytest.approx(prefill / decode)


def test_waiting_for_one_server_is_pollaczek_khinchine():
    # Service of 2 s, always alike, half of the time busy: 2 x 0.5 / (2 x 0.5) = 1 s.
    assert waiting(2.0, 1.0, 0.5, 1) == pytest.approx(1.0)
    # Erlang's C of two servers at 0.5: 1/3; a wait of 1/3 x 1 / (2 x 0.5) s; approximated to 10 %.
    assert waiting(1.0, 2.0, 0.5, 2) == pytest.approx(1 / 3, rel=0.1)


# -- replicas, delays, a common start --------------------------------------------------------------


def test_replicas_share_the_users():
    four = pm.Parallelism(data=4)
    work = pm.Workload(prompt=1000, output=100, concurrency=64)
    quarter = pm.serve(LLAMA, H100, work.model_copy(update={"concurrency": 16}))
    found = pm.serve(LLAMA, H100, work, parallelism=four)
    assert found.tpot == pytest.approx(quarter.tpot)
    assert found.requests_per_second == pytest.approx(4 * quarter.requests_per_second)
    assert found.devices == 4


def test_a_server_s_delays_only_come_before_the_first_token():
    work = pm.Workload(prompt=1000, output=100, concurrency=1)
    plain = pm.serve(LLAMA, H100, work)
    late = pm.serve(LLAMA, H100, work, server=pm.ServerForm(steps=3, delay=0.01))
    assert late.ttft == pytest.approx(plain.ttft + 3 * plain.tpot + 0.01)
    assert late.tpot == pytest.approx(plain.tpot)


def test_a_request_on_its_way_comes_at_any_time_of_a_step():
    # Of 16 users each next request takes 30 ms to come: it finds a step running, and rather a long
    # one, that reads a prompt, than a short one.
    chance = random.Random(7)
    run = Run(
        Steps(LLAMA, H100), Rules(), lambda: (7000, chance.randint(50, 150)), users=16, delay=0.03
    )
    seen = run.until(700, skip=100)
    work = pm.Workload(prompt=7000, output=list(range(50, 151)), concurrency=16)
    found = pm.serve(LLAMA, H100, work, server=pm.ServerForm(delay=0.03))
    assert found.ttft == pytest.approx(seen.ttft, rel=0.05)
    assert found.tpot == pytest.approx(seen.tpot, rel=0.03)


def test_a_common_start_is_what_a_simulation_shows():
    # 32 users begin at once; of their first five requests the first waits for the others' prompts.
    chance = random.Random(5)
    run = Run(
        Steps(LLAMA, H100), Rules(), lambda: (2000, chance.randint(100, 300)), users=32,
        stagger=False,
    )  # fmt: skip
    seen = run.until(5 * 32)
    work = pm.Workload(prompt=2000, output=list(range(100, 301)), concurrency=32, rounds=5)
    found = pm.serve(LLAMA, H100, work)
    assert found.ttft == pytest.approx(seen.ttft, rel=0.15)
    steady = pm.serve(LLAMA, H100, work.model_copy(update={"rounds": None}))
    assert steady.ttft < 0.8 * seen.ttft


# -- invariants ------------------------------------------------------------------------------------


def test_more_users_never_answer_less_and_never_wait_less():
    before = None
    for users in (1, 2, 3, 5, 8, 16, 40, 100, 250, 500):
        work = pm.Workload(prompt=700, output=150, concurrency=users)
        found = pm.serve(LLAMA, H100, work, efficiency="auto")
        if before is not None:
            assert found.requests_per_second >= before.requests_per_second * (1 - 1e-6)
            assert found.tpot >= before.tpot
            assert found.ttft >= before.ttft
        before = found


def test_an_open_loop_at_the_rate_of_a_closed_one_has_about_its_tokens():
    shut = pm.serve(LLAMA, H100, pm.Workload(prompt=500, output=400, concurrency=40))
    rate = shut.requests_per_second
    free = pm.serve(LLAMA, H100, pm.Workload(prompt=500, output=400, rate=rate))
    assert free.tpot == pytest.approx(shut.tpot, rel=0.05)
    assert free.users == pytest.approx(40, rel=0.06)


def test_a_record_survives_json_and_explains_itself():
    work = pm.Workload(prompt=[500, 1500], output={100: 3, 500: 1}, concurrency=20)
    found = pm.serve(LLAMA, H100, work, engine="vllm")
    again = pm.Serving.model_validate_json(found.model_dump_json())
    assert again == found
    assert again.tpot == found.tpot
    text = found.explain()
    for wanted in ("first token", "limit:", "assumptions", "8,192 tokens"):
        assert wanted in text


# -- many candidates at once -----------------------------------------------------------------------


def test_candidates_as_arrays_are_those_one_by_one():
    """Stacked costs, and users as an array: what a planner will ask."""
    users = np.array([[1.0], [7.0], [60.0], [200.0]])
    work = pm.Workload(prompt=900, output=150, concurrency=1)
    knots = knots_up_to(300)
    chips = ["h100-sxm", "h200-sxm", "b200-sxm", "a100-sxm-80gb"]
    tables = [
        costs_of(
            Server(LLAMA, pm.gpu(key), LLAMA.resolve_precision(None), pm.efficiency(pm.gpu(key)),
                   pm.Parallelism(), None),
            work, pm.Scheduler(), None, knots,
        )
        for key in chips
    ]  # fmt: skip
    stacked = Costs(knots, *(np.stack(table) for table in list(zip(*tables, strict=True))[1:]))
    loop = Loop(149.0, 149.0, users, None, True, 1.0)
    others = closed(loop, stacked, lambda others, found: 0.0)
    found = state(loop, stacked, others)
    for i, key in enumerate(chips):
        asked = work.model_copy(update={"concurrency": float(users[i, 0])})
        alone = pm.serve(LLAMA, pm.gpu(key), asked, efficiency="auto")
        assert found.iteration[i, 0] == pytest.approx(alone.tpot, rel=1e-3)
        assert found.first[i, 0] == pytest.approx(alone.ttft, rel=1e-3)


def test_a_search_that_has_not_settled_says_so(monkeypatch):
    # Its interval is halved every third round, so that it always does; but it does not trust that.
    monkeypatch.setattr(steady, "_ROUNDS", 2)
    with pytest.raises(pm.errors.InvalidValueError, match="a steady state within 2 rounds"):
        steady.crossing(lambda x: x**3 - 0.2, np.array([0.0, 1.0]), np.array([1.0]))


@pytest.mark.parametrize(
    ("excess", "root"),
    [
        (lambda x: x**3 - 0.2, 0.2 ** (1 / 3)),
        (lambda x: np.where(x < 0.7, 1e-6 * (x - 0.8), 1e6), 0.7),  # it jumps
        (lambda x: 1e9 * x**41 - 1, 1e-9 ** (1 / 41)),  # it bends
        (lambda x: x + 1.0, 0.0),  # nowhere negative
        (lambda x: x - 5.0, 2.0),  # nowhere positive up to the most
    ],
)
def test_a_search_finds_where_a_function_turns_positive(excess, root):
    found = steady.crossing(excess, np.array([0.0, 0.5, 1.0, 2.0, 4.0]), np.array([2.0]))
    assert found == pytest.approx([root], abs=1e-8)


# -- measured runs ---------------------------------------------------------------------------------

FOLDER = os.environ.get("PERFMODEL_REFERENCE_DATA")


@pytest.mark.skipif(not FOLDER, reason="PERFMODEL_REFERENCE_DATA names no folder of reference data")
def test_measured_runs_are_met_with_nothing_fitted_to_any(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    serving = importlib.import_module("serving")
    runs = list(serving.read(Path(FOLDER or "")))
    assert len(runs) > 1100
    errors = [serving.expected(run, host=False) for run in runs[::8]]
    tpot = sorted(abs(one.tpot) for one in errors)
    rate = sorted(abs(one.rate) for one in errors)
    assert tpot[len(tpot) // 2] < 0.14
    assert tpot[int(0.9 * len(tpot))] < 0.40
    assert rate[len(rate) // 2] < 0.17


def test_wrong_questions_are_refused():
    work = pm.Workload(prompt=100, output=100, concurrency=1)
    with pytest.raises(pm.errors.InvalidValueError, match="workload: expected Workload"):
        pm.serve(LLAMA, H100, 5)  # type: ignore[arg-type]
    with pytest.raises(pm.errors.InvalidValueError, match="scheduler: expected one of chunked"):
        pm.serve(LLAMA, H100, work, scheduler="fastest")
    with pytest.raises(pm.errors.DoesNotFitError):
        pm.serve(pm.model("llama-3.1-405b"), H100, work)
    with pytest.raises(pm.errors.InvalidValueError, match=r"Disaggregated\.transfer: required"):
        pm.serve(LLAMA, H100, work, scheduler="disaggregated")
    with pytest.raises(pm.errors.InvalidValueError, match="learned positions"):
        pm.serve(pm.model("gpt2"), H100, work.model_copy(update={"prompt": pm.Lengths(values=(1000,))}))  # noqa: E501  # fmt: skip


def test_more_guesses_than_a_step_can_check_are_refused():
    with pytest.raises(InvalidValueError, match=r"^Speculation\.tokens: "):
        pm.Speculation(tokens=10**14, acceptance=0.5)


@pytest.mark.parametrize("users", [1e4, 1e7, 1e12])
def test_no_pool_reads_more_prompts_than_it_has_time_for(users: float) -> None:
    """Users in a loop wait until the rate is one that the pool bears: c replicas, c / s a second.

    By hand: 16 GFLOP a token, 1,000 of them at 989 TFLOP/s take 16.2 ms, so that a replica reads
    at most 61.8 prompts a second, of however many users and replicas.
    """
    chip = pm.GpuSpec(
        name="one",
        memory_bandwidth=3.35e12,
        memory_capacity=80e9,
        peak_flops={"bf16": 989e12},
    )
    model = pm.ModelShape.from_totals(params=8e9)
    most = 989e12 / (2 * 8e9 * 1000)
    replicas = int(users / 1000)
    pools = pm.Disaggregated(prefill=replicas, decode=replicas, transfer=1e12)
    work = pm.Workload(prompt=1000, output=200, concurrency=users)
    found = pm.serve(model, chip, work, scheduler=pools)
    assert 0.99 * most < found.requests_per_second / replicas < 1.001 * most
    with pytest.raises(pm.errors.InvalidValueError, match="requests a second"):
        pm.serve(
            model,
            chip,
            pm.Workload(prompt=1000, output=200, rate=1.01 * most * replicas),
            scheduler=pools,
        )
    below = pm.Workload(prompt=1000, output=200, rate=0.99 * most * replicas)
    assert pm.serve(model, chip, below, scheduler=pools).requests_per_second == below.rate
