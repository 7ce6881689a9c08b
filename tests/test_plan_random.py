"""Do plans of any question say what ``serve`` says of them?"""

from __future__ import annotations

import random

import pytest

import perfmodel as pm

CHIPS = ["h100-sxm", "h200-sxm", "mi300x", "l40s", "a100-sxm-80gb", "b200-sxm", "h100-nvl", "l4"]
MODELS = ["llama-3.1-8b", "gpt-oss-20b", "mixtral-8x7b", "gemma-2-9b"]


def asked(draw: random.Random) -> tuple[pm.Workload, pm.Slo]:
    def lengths(low: int, high: int) -> int | list[int]:
        few = [draw.randint(low, high) for _ in range(3)]
        return draw.choice([few[0], few])

    load = draw.choice([{"concurrency": draw.randint(1, 500)}, {"rate": 10 ** draw.uniform(-1, 2)}])
    work = pm.Workload(prompt=lengths(10, 8000), output=lengths(2, 1500), **load)
    slo = pm.Slo(ttft=10 ** draw.uniform(-1, 1), tpot=10 ** draw.uniform(-2, -0.7))
    return work, slo


@pytest.mark.parametrize("seed", range(24))
def test_a_plan_of_any_question_is_what_serve_says(seed):
    draw = random.Random(seed)
    (work, slo), model = asked(draw), pm.model(draw.choice(MODELS))
    options = {
        "slo": slo,
        "gpus": draw.sample(CHIPS, 2),
        "engine": draw.choice([None, "vllm"]),
        "scheduler": pm.Scheduler(budget=draw.choice([512, 8192])),
    }
    if draw.random() < 0.6:
        found = pm.plan(model, work, max_devices=256, **options)
    else:
        found = pm.largest_load(model, work, devices=draw.choice([1, 3, 8]), **options)
    every = found.feasible
    for plan in draw.sample(every, min(4, len(every))):
        full = plan.serving()
        for name, target in slo.targets.items():
            assert getattr(full, name) == pytest.approx(getattr(plan, name), rel=1e-6), plan
            assert getattr(full, name) <= target * (1 + 1e-6), plan
        if found.by == "hour" and plan.replicas > 1 and plan.parallelism.data == 1:
            assert not _does_with_one_less(model, plan, options, slo), plan


def _does_with_one_less(model, plan, options, slo) -> bool:
    if plan.prefill_replicas:
        return False  # two pools are searched one after the other
    less = plan.replicas - 1
    try:
        full = pm.serve(
            model, plan.gpu, plan.workload, precision=plan.precision,
            parallelism=plan.parallelism.model_copy(update={"data": less}),
            engine=options["engine"], scheduler=options["scheduler"],
        )  # fmt: skip
    except pm.errors.PerfModelError:
        return False
    room = None if full.capacity is None else full.capacity // less * less  # dealt evenly
    held = not full.waiting and (room is None or full.users <= room)
    return held and all(getattr(full, name) <= target for name, target in slo.targets.items())
