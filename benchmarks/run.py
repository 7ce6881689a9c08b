"""How much perfmodel costs beside the same formula written out by hand. See README.md.

python benchmarks/run.py [decode] [sweep] [stream] [import] [models] [devices]
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from functools import partial
from math import isclose
from time import perf_counter, process_time
from typing import Any

import baseline
import numpy as np

import perfmodel as pm
from perfmodel.base._data import catalogs

SHAPE = baseline.Dense(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336, vocab=128256
)
CHIP = baseline.Chip(bandwidth=3.35e12, peak=989.4e12, capacity=80e9)
MODEL = pm.ModelShape.dense(**SHAPE._asdict())
GPU = pm.GpuSpec(
    name="H100 SXM",
    memory_bandwidth=CHIP.bandwidth,
    peak_flops={"bf16": CHIP.peak},
    memory_capacity=CHIP.capacity,
)
REL = 1e-12

Action = Callable[[], Any]


# -- one estimate ----------------------------------------------------------------------------------


def read(est: pm.Estimate) -> tuple[Any, ...]:
    """Every output of an estimate, in the order of ``baseline.Decode``."""
    return (
        est.time,
        est.floor,
        est.bound,
        est.flops,
        est.bytes,
        est.weight_traffic,
        est.kv_traffic,
        est.activation_traffic,
        est.compute_time,
        est.memory_time,
        est.network_time,
        est.intensity,
        est.compute_utilization,
        est.memory_utilization,
        est.tokens_per_second,
        est.memory.weights,
        est.memory.kv,
        est.fits,
        [
            (row.operation.name, row.flops, row.bytes, row.compute_time, row.memory_time)
            for row in est.rows()
        ],
    )


def same(ours: Any, theirs: Any) -> bool:
    """Equal: names and flags exactly, numbers but for rounding."""
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, (str, bool)):
        return ours == theirs
    return isclose(ours, theirs, rel_tol=REL)


def best_times(actions: dict[str, Action], rounds: int = 300, loops: int = 20) -> dict[str, float]:
    """The least CPU seconds of each action, taken in turns: what a busy machine adds falls away."""
    best = dict.fromkeys(actions, float("inf"))
    for _ in range(rounds):
        for name, action in actions.items():
            start = process_time()
            for _ in range(loops):
                action()
            best[name] = min(best[name], (process_time() - start) / loops)
    return best


def run_decode() -> None:
    for batch, context in ((1, 1), (64, 4096), (512, 131072)):
        ours = read(pm.decode(MODEL, GPU, batch=batch, context=context))
        assert same(ours, baseline.decode(SHAPE, CHIP, batch, context)), (batch, context)
    known = pm.gpu("h100-sxm")
    times = best_times(
        {
            "baseline": lambda: baseline.decode(SHAPE, CHIP, 64, 4096),
            "decode(), every output read": lambda: read(
                pm.decode(MODEL, GPU, batch=64, context=4096)
            ),
            "decode(), nothing read": lambda: pm.decode(MODEL, GPU, batch=64, context=4096),
            "expected, every output read": lambda: read(
                pm.decode(MODEL, known, batch=64, context=4096, efficiency="auto")
            ),
        }
    )
    print("one decode step (best CPU time; goal with every output: 40x, 20,000/s)")
    for name, seconds in times.items():
        ratio = seconds / times["baseline"]
        print(f"  {name:<34}{seconds * 1e6:9.1f} us{1 / seconds:12,.0f}/s{ratio:9.2f}x")
    ratio = times["expected, every output read"] / times["decode(), every output read"]
    print(f"  expected over ideal (goal: 2x) {ratio:35.2f}x")


# -- a million -------------------------------------------------------------------------------------


def median_times(actions: dict[str, Action], rounds: int = 15) -> dict[str, float]:
    """Median wall seconds of each action, taken in turns."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            start = perf_counter()
            result = action()
            taken[name].append(perf_counter() - start)
            del result
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def run_sweep() -> None:
    batch = np.arange(1, 1001)
    context = np.linspace(128, 131072, 1000).astype(np.int64)
    print("one million decode steps (median wall time; goal: 2x)")
    for title, grid, batches, contexts in (
        ("grid 1000 x 1000", True, batch, context),
        ("1e6 pairs", False, np.repeat(batch, 1000), np.tile(context, 1000)),
    ):
        _compare_sweep(title, grid, batches, contexts)


def _compare_sweep(title: str, grid: bool, batch: Any, context: Any) -> None:
    def ours() -> pm.Sweep:
        table = pm.sweep(MODEL, GPU, batch=batch, context=context, grid=grid)
        table.columns  # noqa: B018  nothing is computed before it is looked at
        return table

    def theirs() -> dict[str, Any]:
        return baseline.sweep(SHAPE, CHIP, batch, context, grid=grid)

    table = ours()
    for name, expected in theirs().items():
        found = table.columns[name]
        if found.dtype.kind == "f":
            assert np.allclose(found, expected, rtol=REL, atol=0), name
        else:
            assert np.array_equal(found, expected), name
    times = median_times({"baseline": theirs, "sweep()": ours, "to_frame() of it": table.to_frame})
    for name, seconds in times.items():
        ratio = seconds / times["baseline"]
        print(f"  {title + ', ' + name:<34}{seconds * 1e3:9.1f} ms{ratio:23.2f}x")


# -- ten million, to a file ------------------------------------------------------------------------

STREAM = """
import resource, sys
from time import perf_counter, process_time
import perfmodel as pm

model, gpu = pm.model(sys.argv[1]), pm.gpu("h100-sxm")
grid = {"batch": range(1, 1001), "context": range(16, 160_001, 16)}
pm.sweep(model, gpu, batch=1, context=1).to_parquet(sys.argv[2])  # loads what is needed
start, cpu = perf_counter(), process_time()
table = pm.sweep(model, gpu, **grid, precision="bf16")
table.to_parquet(sys.argv[2])
wall, cpu = perf_counter() - start, process_time() - cpu
print(len(table), wall, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def run_stream() -> None:
    """The whole program's peak memory, and points a second with all usual columns written."""
    print("ten million decode steps to Parquet (goal, dense: 3,000,000/s, 1 GB)")
    for name in ("llama-3.1-8b", "deepseek-v3"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.parquet")
            tries = [
                subprocess.run(
                    [sys.executable, "-c", STREAM, name, path],
                    capture_output=True, text=True, check=True,
                ).stdout.split()
                for _ in range(3)
            ]  # fmt: skip
            size = os.path.getsize(path)
        points = int(tries[0][0])
        wall, cpu = (min(float(found[at]) for found in tries) for at in (1, 2))
        unit = 1 if sys.platform == "darwin" else 1024
        peak = max(int(found[3]) for found in tries) * unit
        print(
            f"  {name:<34}{points / wall:12,.0f}/s wall{points / cpu:12,.0f}/s CPU"
            f"{peak / 1e6:8.0f} MB peak{size / 1e6:8.0f} MB file"
        )


# -- import ----------------------------------------------------------------------------------------


def run_import() -> None:
    """Both with byte code, as installed packages have it, in a place of its own."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)

        def fresh(code: str) -> Action:
            return lambda: subprocess.run([sys.executable, "-c", code], env=environment, check=True)

        actions = {
            "python alone": fresh("pass"),
            "from pydantic import BaseModel": fresh("from pydantic import BaseModel"),
            "import perfmodel": fresh("import perfmodel"),
        }
        for action in actions.values():  # compiles
            action()
        heavy = ("numpy", "sympy", "pandas", "matplotlib", "typer", "rich")
        fresh(f"import sys, perfmodel; assert not sys.modules.keys() & set({heavy})")()
        times = median_times(actions, rounds=21)
    print("import in a fresh process (median wall time; goal: 2x of Pydantic)")
    for name, seconds in times.items():
        ratio = seconds / times["from pydantic import BaseModel"]
        print(f"  {name:<34}{seconds * 1e3:9.1f} ms{ratio:23.2f}x")


# -- other models ----------------------------------------------------------------------------------


def _columns(*args: Any, **kwargs: Any) -> Any:
    return pm.sweep(*args, **kwargs).columns


def run_models() -> None:
    """Cost follows distinct layers, not layers; reading a config takes milliseconds."""
    gpu, dense = pm.gpu("b200-sxm"), pm.model("llama-3.1-8b")
    others = {key: pm.model(key) for key in ("deepseek-v3", "gpt-oss-120b", "qwen3-next-80b-a3b")}
    steps = {
        name: partial(pm.decode, model, gpu, batch=64, context=4096, precision="bf16")
        for name, model in {"llama-3.1-8b": dense, **others}.items()
    }
    print("one decode step (best CPU time; goal: 3x of llama-3.1-8b)")
    times = best_times(steps)
    for name, seconds in times.items():
        ratio = seconds / times["llama-3.1-8b"]
        print(f"  {name:<34}{seconds * 1e6:9.1f} us{ratio:23.2f}x")
    grid = {"batch": range(1, 1001), "context": range(128, 128_128, 128), "precision": "bf16"}
    sweeps = {
        name: partial(_columns, pm.model(name), gpu, **grid)
        for name in ("llama-3.1-8b", "mixtral-8x7b", "deepseek-v3")
    }
    print("one million of them (median wall time; goal for experts: 3x)")
    times = median_times(sweeps, rounds=5)
    for name, seconds in times.items():
        ratio = seconds / times["llama-3.1-8b"]
        print(f"  {name:<34}{seconds * 1e3:9.1f} ms{ratio:23.2f}x")
    files = sorted((catalogs() / "models").glob("*.toml"))
    configs = {
        path.stem: partial(pm.read_hf, tomllib.loads(path.read_text(encoding="utf-8"))["config"])
        for path in files
    }
    reading = best_times(configs, rounds=5, loops=2)
    slowest = max(reading, key=lambda name: reading[name])
    print(f"reading the config of {len(files)} models (best CPU time; goal: 5 ms)")
    print(f"  {'median':<34}{statistics.median(reading.values()) * 1e3:9.2f} ms")
    print(f"  {'slowest, ' + slowest:<34}{reading[slowest] * 1e3:9.2f} ms")


# -- many devices ----------------------------------------------------------------------------------


def run_devices() -> None:
    """Every way to share a model of 70 billion parameters among eight devices."""
    model, gpu = pm.model("llama-3.1-70b"), pm.gpu("h100-sxm")
    splits = [
        pm.Parallelism(tensor=t, pipeline=p, data=8 // (t * p))
        for t in (1, 2, 4, 8)
        for p in (1, 2, 4, 8)
        if 8 % (t * p) == 0
    ]

    def every() -> None:
        for ways in splits:
            read(pm.decode(model, gpu, batch=64, context=4096, parallelism=ways))

    seconds = best_times({"all": every}, rounds=30, loops=1)["all"]
    title = f"all {len(splits)} splits of 8 devices"
    print("decode steps with every output read (best CPU time; goal: 20 ms in all)")
    print(f"  {title:<34}{seconds * 1e3:9.2f} ms")


PARTS: dict[str, Action] = {
    "decode": run_decode,
    "sweep": run_sweep,
    "stream": run_stream,
    "import": run_import,
    "models": run_models,
    "devices": run_devices,
}


def main() -> None:
    asked = sys.argv[1:] or list(PARTS)
    if unknown := set(asked) - set(PARTS):
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    print(
        f"perfmodel {pm.__version__}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"{platform.machine()}, {os.cpu_count()} CPUs"
    )
    for part in asked:
        PARTS[part]()


if __name__ == "__main__":
    main()
