"""How long a plan takes, beside what is promised. See README.md.

python benchmarks/planning.py
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter, process_time

import perfmodel as pm

MODEL = pm.model("llama-3.1-70b")
WORK = pm.Workload(prompt=4000, output=1000, concurrency=80)
SLO = pm.Slo(ttft=2.0, tpot=0.030)
ROUNDS = 7


def timed(action: Callable[[], pm.Plans]) -> tuple[float, float, int]:
    """Median wall seconds, least CPU seconds, and how many candidates there are."""
    found = action()  # catalogs are read once
    wall, cpu = [], []
    for _ in range(ROUNDS):
        start, busy = perf_counter(), process_time()
        found = action()
        wall.append(perf_counter() - start)
        cpu.append(process_time() - busy)
    return statistics.median(wall), min(cpu), len(found)


def main() -> None:
    print("Llama-3.1-70B, 4,000 in, 1,000 out, first token within 2 s, 30 ms a token")
    print(f"  {'':<46}{'wall':>8}{'CPU':>8}{'candidates':>12}")
    for engine in (None, "vllm"):
        kernels = "ideal" if engine is None else engine
        for chips, where, goal in (("h100-sxm", "8 x H100", 0.3), (None, "124 chips", 2.0)):
            for title, action in (
                ("largest load", lambda c=chips, e=engine: pm.largest_load(
                    MODEL, WORK, slo=SLO, devices=8, gpus=c, engine=e)),
                ("plan for 80 users", lambda c=chips, e=engine: pm.plan(
                    MODEL, WORK, slo=SLO, gpus=c, engine=e)),
            ):  # fmt: skip
                wall, cpu, many = timed(action)
                name = f"{where}, {kernels}, {title} (goal: {goal:g} s)"
                print(f"  {name:<46}{wall:7.2f}s{cpu:7.2f}s{many:12,}")


if __name__ == "__main__":
    main()
