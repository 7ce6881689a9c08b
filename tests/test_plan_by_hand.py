"""Are plans what a calculator says, where one is enough?

A chip of 3.35 TB/s and 989 TFLOP/s, and 8e9 parameters in bf16: a step reads 16e9 B in 4.776 ms,
and a prompt of 1,000 tokens takes 16e12 / 989e12 s = 16.178 ms. Alone, a request of 1,000 + 200
tokens takes 16.178 + 199 x 4.776 = 966.6 ms.
"""

from __future__ import annotations

import math

import pytest

import perfmodel as pm

STEP, PROMPT = 16e9 / 3.35e12, 16e12 / 989e12
CYCLE = PROMPT + 199 * STEP
COARSE = pm.ModelShape.from_totals(params=8e9)
FIGURES = {
    "name": "mine",
    "memory_bandwidth": 3.35e12,
    "memory_capacity": 80e9,
    "peak_flops": {"bf16": 989e12},
    "power": 700,
}
CHIP = pm.GpuSpec(**FIGURES)
# A second user's prompt holds up tokens, so that 4.8 ms a token leave room for one user a chip.
ALONE = pm.Slo(ttft=0.1, tpot=4.8e-3)


def other(**figures: object) -> pm.GpuSpec:
    return pm.GpuSpec(**FIGURES | {"name": "other"} | figures)


def work(**load: float) -> pm.Workload:
    return pm.Workload(prompt=1000, output=200, **load)


def planned(model: pm.ModelShape = COARSE, **asked: object) -> pm.Plans:
    given = {"workload": work(concurrency=3), "slo": ALONE, "gpus": CHIP, "prices": {"mine": 3.6}}
    return pm.plan(model, **given | {"pools": "together"} | asked)


def test_three_users_that_each_have_a_chip():
    found = planned().best
    assert found.devices == 3
    assert found.ttft == pytest.approx(PROMPT)
    assert found.tpot == pytest.approx(STEP)
    # 3.60 USD an hour are a tenth of a cent a second; a request has a chip for 0.9666 s.
    assert found.cost_per_hour == pytest.approx(10.8)
    assert found.requests_per_second == pytest.approx(3 / CYCLE)
    assert found.cost_per_million_input == pytest.approx(PROMPT * 1e-3 / 1000 * 1e6)
    assert found.cost_per_million_output == pytest.approx(199 * STEP * 1e-3 / 200 * 1e6)
    assert found.cost_per_million == pytest.approx(CYCLE * 1e-3 / 1200 * 1e6)
    # 3 x 700 W, while 3 x 1,200 tokens pass in 0.9666 s.
    assert found.power == 2100
    assert found.energy_per_million == pytest.approx(2100 * CYCLE / 3600 * 1e6)
    # Of 4.8 ms 4.776 are used, of 100 ms 16.178: the first is tighter, and 0.498 % of it is left.
    assert found.binding == "tpot"
    assert found.headroom == pytest.approx(1 - STEP / 4.8e-3)
    assert dict(found.used)["ttft"] == pytest.approx(PROMPT / 0.1)


# A token of cache is 1 MB, and a sequence has 1,000 + 100 of them on average: 1.1 GB. Beside 16 GB
# of weights, 80 GB hold 64 / 1.1 = 58 sequences, and 160 GB hold 144 / 1.1 = 130.
CACHED = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e6)
ANY = pm.Slo(tpot=1.0)


@pytest.mark.parametrize(("users", "devices"), [(1, 1), (58, 1), (59, 2), (200, 4), (232, 4)])
def test_devices_for_so_many_users(users, devices):
    found = planned(CACHED, workload=work(concurrency=users), slo=ANY).best
    assert (found.devices, found.capacity) == (devices, 58 * devices)
    assert dict(found.used)["capacity"] == pytest.approx(users / devices / 58)


@pytest.mark.parametrize("devices", [1, 3, 7])
def test_users_for_so_many_devices(devices):
    found = pm.largest_load(
        CACHED, work(concurrency=1), slo=ANY, devices=devices, gpus=CHIP, pools="together"
    ).best
    assert found.workload.concurrency == 58 * devices
    assert found.binding == "capacity"


def test_the_price_at_which_more_memory_is_worth_it():
    # 200 users: four chips of 80 GB at 2 USD an hour, or two of 160 GB: as cheap at 4 USD.
    found = planned(
        CACHED,
        workload=work(concurrency=200),
        slo=ANY,
        gpus=[CHIP, other(memory_capacity=160e9)],
        prices={"mine": 2.0, "other": 5.0},
    )
    assert [plan.devices for plan in found.by_chip] == [4, 2]
    assert found.winning_price("other") == pytest.approx(4.0)
    assert found.winning_price("mine") == pytest.approx(2.5)  # 10 USD over four chips


def test_the_price_of_a_chip_that_writes_twice_as_fast():
    # One user each: a request takes 16.178 + 199 x 2.388 = 491.4 ms in place of 966.6.
    found = pm.largest_load(
        COARSE,
        work(concurrency=1),
        slo=pm.Slo(end_to_end=CYCLE * 1.000001),
        devices=1,
        gpus=[CHIP, other(memory_bandwidth=6.7e12, memory_capacity=16.1e9)],
        prices={"mine": 2.0, "other": 3.0},
        pools="together",
        scheduler=pm.Scheduler(sequences=1),
    )
    assert [plan.workload.concurrency for plan in found.by_chip] == [1, 1]
    fast = PROMPT + 199 * STEP / 2
    assert found.winning_price("other") == pytest.approx(2.0 * CYCLE / fast)
    assert found.winning_price("mine") == pytest.approx(3.0 * fast / CYCLE)


def test_the_bandwidth_at_which_a_slower_chip_is_as_good():
    # At the same price it must do with as many, one a user: 16 GB in 4.8 ms, 3.333 TB/s.
    found = planned(gpus=[CHIP, other(memory_bandwidth=1e12)], prices={"mine": 2.0, "other": 2.0})
    assert [plan.feasible for plan in found.by_chip] == [True, False]
    needed = found.winning_bandwidth("other")
    assert needed == pytest.approx(16e9 / 4.8e-3, rel=2e-3)
    assert needed >= 16e9 / 4.8e-3


# -- elasticities ----------------------------------------------------------------------------------


def users_within(target: float, bandwidth: float) -> float:
    """How many users have a token in time, by hand: whole or not.

    Of a cycle of 200 steps 199 decode. In each, nu / 199 prompts begin, like Poisson's number. One
    makes a step compute-bound: (1000 + b) 16e9 / 989e12 s in place of 16e9 / bandwidth; each
    further one adds 16.178 ms.
    """

    def token(users: float) -> float:
        others = (users - 1) * 199 / 200
        begun = others / 199
        one = PROMPT * (1 + (1 + others) / 1000) - 16e9 / bandwidth
        none = math.exp(-begun)
        return 16e9 / bandwidth + one * (1 - none) + PROMPT * (begun - 1 + none)

    low, high = 1.0, 1000.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if token(middle) <= target else (low, middle)
    return low


def test_what_bandwidth_buys_is_the_secant_by_hand():
    found = pm.largest_load(
        COARSE, work(concurrency=1), slo=pm.Slo(tpot=0.02), devices=1, gpus=CHIP, pools="together"
    ).best
    before, after = (users_within(0.02, 3.35e12 * more) for more in (1.0, 1.1))
    by_hand = math.log(after / before) / math.log(1.1)
    assert found.elasticities()["bandwidth"] == pytest.approx(by_hand, abs=0.01)


@pytest.mark.parametrize("figure", ["bandwidth", "compute"])
@pytest.mark.parametrize("model", [COARSE, pm.model("llama-3.1-8b")], ids=["coarse", "llama"])
def test_elasticities_are_those_of_a_chip_with_so_much_more(model, figure):
    def rate(more: float) -> pm.Plan:
        changed = {
            "bandwidth": {"memory_bandwidth": 3.35e12 * more},
            "compute": {"peak_flops": {"bf16": 989e12 * more}},
        }
        return pm.largest_load(
            model, work(rate=1.0), slo=pm.Slo(ttft=0.1, tpot=0.02), devices=4,
            gpus=other(**changed[figure]), parallelisms=pm.Parallelism(), pools="together",
        ).best  # fmt: skip

    plan = rate(1.0)
    bought = plan.elasticities()[figure]
    for more, close in ((1.1, 1e-4), (1.01, 0.1)):  # the secant itself; one per cent
        again = math.log(rate(more).workload.rate / plan.workload.rate) / math.log(more)
        assert bought == pytest.approx(again, abs=close), more


# -- words -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slo", "told"),
    [
        # 16,000 / 989 = 16.17796 ms; 16,000 / 3,350 = 4.776119 ms
        (pm.Slo(ttft=16.177e-3), "a first token takes 16.178 ms even if"),
        (pm.Slo(tpot=4.776e-3), "a token takes 4.7761 ms even alone, of 4.7760 ms"),
    ],
)
def test_a_target_that_is_all_but_met_is_told_with_as_many_digits_as_it_takes(slo, told):
    found = planned(slo=slo, workload=work(concurrency=1), parallelisms=pm.Parallelism())
    (plan,) = found.rows
    assert told in plan.reason


def test_the_command_line_tells_many_chips_by_the_limit_they_break(capsys):
    from perfmodel.interfaces import cli

    asked = "llama-3.1-70b --users 9 --prompt 4000 --output 100 --ttft 2 --tpot 0.03"
    asked = ["plan", *asked.split(" ")]
    few = [part for key in ("h100-sxm", "t4", "l4") for part in ("--gpu", key)]
    assert cli.run([*asked, *few]) == 0
    said = capsys.readouterr().out
    assert "\nt4: a device needs 142 GB for its weights" in said  # few: each with its reason
    many = [
        "t4", "l4", "rtx-3070", "rtx-4070", "rtx-3080-ti", "rtx-5080", "xeon-8480plus", "h100-sxm"
    ]  # fmt: skip
    assert cli.run([*asked, *[part for key in many for part in ("--gpu", key)]]) == 0
    said = capsys.readouterr().out
    assert "7 other chips will not do" in said
    assert "it does not fit the memory: " in said
    assert "\ntokens come too slowly: xeon-8480plus" in said
    assert "a device needs" not in said
