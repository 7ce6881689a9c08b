"""What engines add to the kernels of a step: fitted to served models, and tested on others.

``python -m calibration.serving FOLDER`` reads ``serving/open.csv`` of the reference data. Of each
engine it fits five numbers: time a step, time a sequence and the interference of prompts to the
mean time a token; steps and a delay before a first token is seen to the time to first token. It
prints how far a random half is from the fit to the other, the mean of several such halves, and each
model from the fit to the rest; at last the fit to all, which catalogs/engines.toml has.

The costs of all runs are stacked once: one evaluation of ``serve`` for all of them takes a few
milliseconds, so that a fit takes seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from scores.precisions import precision  # noqa: E402
from scores.steps import model  # noqa: E402
from serving import ROUNDS, Served, efficiency, parallelism, read  # noqa: E402

import perfmodel as pm  # noqa: E402
from perfmodel.answers.serving.costs import Costs, Server, costs_of, knots_up_to  # noqa: E402
from perfmodel.answers.serving.steady import Loop, State, burst, closed, state  # noqa: E402
from perfmodel.machine.forms import HostForm  # noqa: E402
from perfmodel.sources.efficiency import resolve_server  # noqa: E402

ENGINES = ("vllm", "sglang", "trtllm")
START = (0.3e-3, 5e-6, 1.0)  # s a step, s a sequence, interference
SCALE = np.array([1e-3, 1e-5, 1.0])
SEED = 1
HALVES = 10


class Runs(NamedTuple):
    """Measured runs and the stacked costs of their steps, without any host."""

    served: list[Served]
    costs: Costs
    users: Any  # [1]
    tokens: Any  # after the first [1]
    tpot: Any  # s
    ttft: Any  # s

    def of(self, chosen: Any) -> Runs:
        """Some of the runs."""
        costs = Costs(self.costs.knots, *(table[chosen] for table in self.costs[1:]))
        served = [one for one, wanted in zip(self.served, chosen, strict=True) if wanted]
        return Runs(served, costs, *(column[chosen] for column in self[2:]))


def runs_of(served: list[Served]) -> Runs:
    """The costs of each run on common knots."""
    knots = knots_up_to(1.1 * max(one.record.batch for one in served) + 9)
    tables = [costs_of(_server(one), one.workload, pm.Scheduler(), None, knots) for one in served]
    stacked = Costs(knots, *(np.stack(table) for table in list(zip(*tables, strict=True))[1:]))

    def column(values: list[float]) -> Any:
        return np.array(values)[:, None]

    return Runs(
        served,
        stacked,
        column([one.record.batch for one in served]),
        column([one.workload.decode_tokens for one in served]),
        column([one.tpot for one in served]),
        column([one.ttft for one in served]),
    )


def _server(one: Served) -> Server:
    """It launches prompts without a graph; what else its host adds is fitted."""
    shape, known = model(one.record.model), efficiency(one.record, host=True)
    assert known.host is not None
    bare = HostForm(launch_scale=known.host.launch_scale)
    return Server(
        shape,
        pm.gpu(one.record.gpu),
        shape.resolve_precision(precision(one.record.precision, shape)),
        known.model_copy(update={"host": bare}),
        parallelism(one.record),
        None,
    )


def answered(runs: Runs, host: Any, delays: tuple[float, float]) -> tuple[Any, Any]:
    """TPOT and TTFT of all runs with a host and a server's delays [s]."""
    constant, sequence, interference = host
    costs = with_host(runs.costs, constant, sequence)
    loop = Loop(runs.tokens, runs.tokens, runs.users, None, True, interference)

    def aside(others: Any, found: State) -> Any:
        late = delays[0] * found.iteration + delays[1] + found.met
        return late + burst(loop, costs, others, ROUNDS)

    others = closed(loop, costs, aside)
    found = state(loop, costs, others)
    return found.iteration, found.first + aside(others, found)


def with_host(costs: Costs, constant: float, sequence: float) -> Costs:
    """The costs where every step, and every sequence in it, takes some time more."""
    knots = costs.knots
    step = costs.step + (knots > 0) * (constant + sequence * knots)
    return costs._replace(
        step=step,
        one=costs.one + costs.chunks * (sequence + (knots == 0) * constant),
        two=costs.two + costs.chunks * (2 * sequence + (knots == 0) * constant),
        four=costs.four + costs.chunks * (4 * sequence + (knots == 0) * constant),
        read=costs.read + costs.chunks * (constant + sequence * (knots + 1)),
    )


def fitted(runs: Runs, host: Any = None) -> tuple[Any, tuple[float, float]]:
    """Host, unless given, and delays with the least mean error, each on its own figure.

    Of delays it is the error as it is judged; its logarithm lets the few far ones weigh more.
    """

    def off(x: Any) -> float:
        host = np.abs(x) * SCALE
        tpot, _ = answered(runs, host, (0.0, 0.0))
        return float(np.mean(np.abs(np.log(tpot / runs.tpot))))

    simplex = {"maxfev": 150, "xatol": 1e-3, "fatol": 1e-5}
    if host is None:
        found = minimize(off, START / SCALE, method="Nelder-Mead", options=simplex)
        host = np.abs(found.x) * SCALE

    def late(x: Any) -> float:
        _, ttft = answered(runs, host, (abs(x[0]), abs(x[1]) * 1e-2))
        return float(np.mean(np.abs(ttft / runs.ttft - 1)))

    delays = minimize(late, (2.0, 1.0), method="Nelder-Mead", options=simplex)
    return host, (abs(delays.x[0]), abs(delays.x[1]) * 1e-2)


class Fit(NamedTuple):
    """Of each engine."""

    hosts: dict[str, Any]
    delays: dict[str, tuple[float, float]]

    @classmethod
    def to(cls, runs: Runs, part: Any, *, shipped: bool = False) -> Fit:
        """Fit each engine to its runs of a part; the hosts as well, or only the delays."""
        hosts, delays = {}, {}
        for engine in ENGINES:
            chosen = part & of_engine(runs, engine)
            if chosen.any():
                host = _shipped(engine) if shipped else None
                hosts[engine], delays[engine] = fitted(runs.of(chosen), host)
        return cls(hosts, delays)

    def errors(self, runs: Runs) -> Any:
        """Signed errors of TPOT, throughput and TTFT, one row a run; NaN where not fitted."""
        found = np.full((len(runs.served), 3), np.nan)
        for engine, host in self.hosts.items():
            chosen = of_engine(runs, engine)
            own = runs.of(chosen)
            tpot, ttft = answered(own, host, self.delays[engine])
            cycle, seen = ttft + own.tokens * tpot, own.ttft + own.tokens * own.tpot
            ratios = (tpot / own.tpot, seen / cycle, ttft / own.ttft)
            found[chosen] = np.concatenate(ratios, axis=1) - 1
        return found


def _shipped(engine: str) -> Any:
    """The host and the interference of the catalog."""
    host = pm.efficiency(pm.gpu("h100-sxm"), engine=engine).host
    assert host is not None
    return np.array([host.constant, host.sequence, resolve_server(None, engine).interference])


def of_engine(runs: Runs, engine: str) -> Any:
    """Which runs are an engine's."""
    return np.array([one.record.engine == engine for one in runs.served])


def report(title: str, runs: Runs, errors: Any, part: Any) -> None:
    """Median and 90th percentile of the errors of some runs, by engine and model."""
    names = {"all": part}
    for engine in ENGINES:
        names[engine] = part & of_engine(runs, engine)
    for key in sorted({one.record.model for one in runs.served}):
        own = np.array([one.record.model == key for one in runs.served])
        names[key] = part & own
        for engine in ENGINES:
            names[f"{key}, {engine}"] = part & own & of_engine(runs, engine)
    print(f"\n{title}\n\n| runs | rows | time a token, % | throughput, % | first token, % |")
    print("|---|---|---|---|---|")
    for name, chosen in names.items():
        own = errors[chosen & ~np.isnan(errors[:, 0])]
        if len(own):
            print(f"| {name} | {len(own)} | {' | '.join(_cell(own[:, i]) for i in range(3))} |")


def _cell(signed: Any) -> str:
    median, ninetieth = np.percentile(np.abs(signed), (50, 90))
    return f"{100 * median:.1f} / {100 * ninetieth:.1f} ({100 * np.median(signed):+.0f})"


def half_of(runs: Runs, seed: int) -> Any:
    """A random half of the runs."""
    return np.random.default_rng(seed).random(len(runs.served)) < 0.5


def halves(runs: Runs) -> None:
    """Means over several random halves, each by a fit to the other half."""
    names = {engine: of_engine(runs, engine) for engine in ENGINES}
    names["all"] = np.ones(len(runs.served), bool)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for seed in range(HALVES):
        half = half_of(runs, seed)
        errors = np.abs(Fit.to(runs, half).errors(runs))
        for name, own in names.items():
            found[name].append(100 * np.percentile(errors[own & ~half], (50, 90), axis=0))
    print(f"\nmeans of {HALVES} halves: time a token, throughput, first token, %\n")
    for name, each in found.items():
        cells = (f"{median:.1f} / {ninetieth:.1f}" for median, ninetieth in np.mean(each, axis=0).T)
        print(f"| {name} | {' | '.join(cells)} |")


def main(folder: Path) -> None:
    """Fit, test, and print."""
    runs = runs_of(list(read(folder)))
    every = np.ones(len(runs.served), bool)
    half = half_of(runs, SEED)
    for title, shipped in (("hosts of the catalog, delays", True), ("hosts and delays", False)):
        found = Fit.to(runs, half, shipped=shipped).errors(runs)
        report(f"{title} fitted on a random half, the other half", runs, found, ~half)
    halves(runs)
    left_out = np.full((len(runs.served), 3), np.nan)
    for key in sorted({one.record.model for one in runs.served}):
        own = np.array([one.record.model == key for one in runs.served])
        left_out[own] = Fit.to(runs, ~own).errors(runs)[own]
    report("each model left out of the fit", runs, left_out, every)
    found = Fit.to(runs, every)
    for engine, host in found.hosts.items():
        print(engine, "host", host, "delays", found.delays[engine])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
