"""Single streams: ``python -m calibration.stream`` re-creates their part of catalogs/engines.toml.

One user at a time reads all weights for every token. A step takes

    layers * block + weights / min(e_b BW, r units clock) + KV / (e_b BW) + fill * layers * context

with a smooth minimum, and a prompt its FLOPs at a share of the peak. A few numbers an engine and
vendor are fitted to published speeds; none belongs to a chip or to a model, so that chips and
models can be left out to see what they miss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

import perfmodel as pm
from perfmodel.answers.calibrating.fitting import SOFT, Free, Tested, tested
from perfmodel.base.formats import FORMATS, Format
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.machine.forms import StreamForm

Array: TypeAlias = Any
ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ROOT / "tests" / "fixtures" / "single_stream.csv"
CATALOG: Final = ROOT / "catalogs" / "engines.toml"
MARK: Final = "# Single streams."
LARGE: Final = 2e9  # bytes read a token: below, launches are most of a step
FEWEST: Final = 16  # rows of prompts, or of a band; fewer say nothing
OTHER: Final = "other"  # chips of a vendor without rows

# Weights that no preset has. ExLlamaV2 states the bits of a whole model.
STORED: Final = {
    "int4-g32": FORMATS["int4-g32"],
    "exl2-5.0": Format(name="exl2-5.0", bits=5),
    "exl2-4.0": Format(name="exl2-4.0", bits=4),
    "exl2-3.0": Format(name="exl2-3.0", bits=3),
    "exl2-2.5": Format(name="exl2-2.5", bits=2, scale_bits=1, block=2),
}
# Models that the catalog lacks: layers, hidden, heads, KV heads, inner width, vocabulary, gated.
SIZES: Final = {
    "codellama-34b": (48, 8192, 64, 8, 22016, 32000, True),
    "llama-30b": (60, 6656, 52, 52, 17920, 32000, True),
    "mpt-30b": (48, 7168, 64, 64, 28672, 50432, False),
    "mpt-7b": (32, 4096, 32, 32, 16384, 50432, False),
    "open-llama-3b": (26, 3200, 32, 32, 8640, 32000, True),
    "tinyllama-1.1b": (22, 2048, 32, 4, 5632, 32000, True),
}


# What is free: of a step, of a prompt. Only llama.cpp's rows tell of bandwidth and contexts.
STEP: Final = {
    "memory": Free(0.9, 0.3, 1.0),
    "block": Free(7e-5, 1e-6, 1e-3),
    "rate": Free(6.0, 2.0, 30.0),
    "fill": Free(8e-9, 1e-10, 1e-6),
}
PROMPT: Final = {
    "bf16": Free(0.4, 0.01, 2.0),
    "int8": Free(0.2, 0.01, 2.0),
    "attention": Free(0.1, 0.001, 2.0),
}


class Entry(NamedTuple):
    """An engine on chips of a vendor: what is free, what is taken from elsewhere."""

    engine: str
    vendor: str
    free: Sequence[str]
    source: str
    note: str = ""


ENTRIES: Final = (
    Entry("llama.cpp", "NVIDIA", ("memory", "block", "rate", "fill"), "gpu-benchmarks-llm",
          "Builds of 2023 to May 2024, without CUDA graphs; later ones are llama.cpp-graphs."),
    Entry("llama.cpp", "Apple", ("memory", "block", "fill"), "gpu-benchmarks-llm",
          "Metal; no clock is published, so that nothing but bandwidth limits it."),
    Entry("llama.cpp", "AMD", ("memory", "block", "fill"), "strix-halo-testing",
          "Medians over ROCm and Vulkan, with flash attention, of 2025 and 2026."),
    Entry("llama.cpp", OTHER, ("memory", "block", "fill"), "gpu-benchmarks-llm",
          "Chips of all vendors together, CPUs unseen; tested on vendors left out."),
    Entry("llama.cpp-graphs", "NVIDIA", ("block",), "llama-cpp-threads",
          "Builds since May 2024, graphs and flash attention; four rows."),
    Entry("exllamav2", "NVIDIA", ("block", "rate"), "exllamav2"),
    Entry("mlc", "NVIDIA", ("block", "rate"), "llm-perf-bench"),
    Entry("tinychat", "NVIDIA", ("block", "rate"), "tinychat",
          "No graphs: the time of a layer is the host processor's, and differs between hosts."),
    Entry("gpt-fast", "NVIDIA", ("block", "rate"), "gpt-fast",
          "Compiled PyTorch on one A100 held to 330 W."),
    Entry("pytorch", "NVIDIA", ("block", "rate"), "tinychat",
          "Plain PyTorch: Transformers and cuBLAS, in half precision."),
)  # fmt: skip
# How far rates of engines lie apart, as a soft prior: one GPU that its memory limits tells nothing
# of them. In logarithms, against errors of SOFT.
USUAL_RATE: Final = 7.0
APART: Final = 0.3


# -- rows as times at the roofs -------------------------------------------------------------------


def read(path: Path = ROWS) -> pd.DataFrame:
    """Every row with what its step or prompt reads and computes, counted by the library."""
    rows = pd.read_csv(path)
    work = [counted(*key) for key in rows[["phase", "chip", "model", "format", "tokens"]].values]
    rows = pd.concat([rows, pd.DataFrame(work)], axis=1)
    return rows.assign(seconds=rows.ms * 1e-3, vendor=[pm.gpu(key).vendor for key in rows.chip])


def counted(phase: str, chip: str, name: str, fmt: str, tokens: int) -> dict[str, float]:
    """One row at the roofs."""
    gpu, shape = pm.gpu(chip), model(name)
    stored = precision(fmt, gpu)
    if phase == "decode":
        found = pm.decode(shape, gpu, batch=1, context=tokens, precision=stored)
    else:
        found = pm.prefill(shape, gpu, prompt=tokens, precision=stored)
    products = [row for row in found.rows() if row.operation.kind != "attention"]
    attention = [row for row in found.rows() if row.operation.kind == "attention"]
    int8 = [row.operation.compute == "int8" for row in products]
    clock = gpu.boost_clock or 0
    return {
        "layers": shape.layers,
        "contexts": sum(row.operation.calls * row.operation.sizes.inner for row in attention),
        "weights": sum(row.memory_time for row in products) * gpu.memory_bandwidth,
        "cache": sum(row.memory_time for row in attention) * gpu.memory_bandwidth,
        "bandwidth": gpu.memory_bandwidth,
        "clocks": (gpu.units or 0) * clock,
        "bf16": sum(r.compute_time for r, low in zip(products, int8, strict=True) if not low),
        "int8": sum(r.compute_time for r, low in zip(products, int8, strict=True) if low),
        "attention": sum(row.compute_time for row in attention),
    }


@cache
def model(name: str) -> pm.ModelShape:
    """A model of the catalog, or of the few that are written out here."""
    if name not in SIZES:
        return pm.model(name)
    layers, hidden, heads, kv_heads, ffn, vocab, gated = SIZES[name]
    return pm.ModelShape.dense(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        vocab=vocab,
        gated=gated,
        tied=not gated,
        name=name,
    )


def precision(name: str, gpu: pm.GpuSpec) -> PrecisionLike:
    """A preset, or weights of so many bits computed in bf16; int8 where the chip has it."""
    if name in STORED:
        half = Precision.preset("bf16")
        formats = half.linear.model_copy(update={"weights": STORED[name]})
        return half.model_copy(update={"name": name, "linear": formats, "head": formats})
    plain = name.startswith("q") and "int8" not in gpu.peak_flops.formats
    return name + "+compute16" if plain else name


# -- fits -----------------------------------------------------------------------------------------


def step_time(found: Mapping[str, float], rows: pd.DataFrame) -> tuple[Array, Array]:
    """What launches of steps take, and what their kernels do [s]."""
    form = StreamForm.trusted(memory=found["memory"], rate=found["rate"], exponent=8.0)
    reached = found["memory"] * rows.bandwidth
    carried = form.bandwidth(
        rows.bandwidth, units=rows.clocks.where(rows.clocks > 0, 1e15), clock=1
    )
    kernels = rows.weights / carried + rows.cache / reached + found["fill"] * rows.contexts
    return found["block"] * rows.layers, kernels


def prompt_time(found: Mapping[str, float], rows: pd.DataFrame) -> tuple[Array, Array]:
    """What launches of prompts take, and what their kernels do [s]."""
    kernels = sum(rows[name] / found[name] for name in PROMPT)
    return found["block"] * rows.layers, kernels


Form = Callable[[Mapping[str, float], pd.DataFrame], tuple[Array, Array]]


def fitted(
    form: Form, free: Mapping[str, Free], known: Mapping[str, float], rows: pd.DataFrame
) -> dict[str, float]:
    """Parameters of the least soft-L1 loss of log(predicted / measured)."""
    start, low, high = (np.log([one[i] for one in free.values()]) for i in range(3))

    def residuals(logs: Array) -> Array:
        found = {**known, **dict(zip(free, np.exp(logs), strict=True))}
        errors = np.log(sum(form(found, rows)) / rows.seconds)
        usual = np.log(found["rate"] / USUAL_RATE) / APART * SOFT if "rate" in free else 0.0
        return np.append(errors, usual)

    best = least_squares(residuals, start, bounds=(low, high), loss="soft_l1", f_scale=SOFT)
    return {**known, **dict(zip(free, np.exp(best.x).tolist(), strict=True))}


def left_out(
    form: Form,
    free: Mapping[str, Free],
    known: Mapping[str, float],
    rows: pd.DataFrame,
    by: str,
) -> pd.DataFrame:
    """What fits without each chip, model or vendor expect of it: launches and kernels [s]."""
    parts = []
    for name in rows[by].unique():
        away = rows[by] == name
        if away.all():
            continue
        launches, kernels = form(fitted(form, free, known, rows[~away]), rows[away])
        parts.append(rows[away].assign(launches=launches, kernels=kernels))
    return pd.concat(parts) if parts else rows.iloc[:0]


class Fit(NamedTuple):
    """An entry, its parameters, and what it misses."""

    entry: Entry
    found: dict[str, float]
    away: pd.DataFrame  # what is expected of each chip left out (vendor, or model where one only)
    basis: str
    models: pd.DataFrame  # of each model left out
    prompts: pd.DataFrame


def fit(entry: Entry, rows: pd.DataFrame, known: Mapping[str, float]) -> Fit:
    """Fit one entry to all its rows, and test it on what is left out."""
    of_engine = rows[rows.engine == entry.engine]
    mine = of_engine if entry.vendor == OTHER else of_engine[of_engine.vendor == entry.vendor]
    steps = mine[mine.phase == "decode"]
    free = {name: STEP[name] for name in entry.free}
    found = fitted(step_time, free, known, steps)
    basis = "vendor" if entry.vendor == OTHER else "chip"
    away = left_out(step_time, free, known, steps, basis)
    models = left_out(step_time, free, known, steps, "model")
    if away.empty:
        away, basis = models, "model"
    prompts = mine[mine.phase == "prefill"]
    if len(prompts) >= FEWEST:
        free = {name: one for name, one in PROMPT.items() if (prompts[name] > 0).any()}
        shares = dict.fromkeys(PROMPT, 1.0) | {"block": found["block"]}
        shares = fitted(prompt_time, free, shares, prompts)
        found |= {name: shares[name] for name in free}
        prompts = left_out(prompt_time, free, shares, prompts, basis)
    else:
        prompts = prompts.iloc[:0]
    return Fit(entry, found, away, basis, models, prompts)


def everything(rows: pd.DataFrame) -> list[Fit]:
    """Every entry. Bandwidth and prompts of other engines on NVIDIA's are as llama.cpp has them."""
    unlimited = {"rate": 1e6, "fill": 0.0, "memory": 1.0, "block": 0.0}
    first = fit(ENTRIES[0], rows, unlimited)
    shares = {name: first.found[name] for name in PROMPT}
    shared = {**first.found, "fill": 0.0}
    return [first] + [
        fit(entry, rows, unlimited | shares if entry.engine == "llama.cpp" else shared)
        for entry in ENTRIES[1:]
    ]


# -- what they miss, and the file -----------------------------------------------------------------


def missed(away: pd.DataFrame) -> Tested:
    """Errors of whole steps; the band is of their kernels, to which the library applies it."""
    whole = tested(away.launches + away.kernels, away.seconds, few=False)
    kernels = (away.seconds - away.launches) / away.kernels
    low, high = np.percentile(kernels, [10, 90])
    return whole._replace(low=float(max(low, 0.05)), high=float(high))


def line(one: Fit, others: Tested) -> str:
    """The table of one entry; from few rows, with the band of all engines on NVIDIA's chips."""
    entry, found, errors = one.entry, one.found, missed(one.away)
    if errors.rows < FEWEST:
        errors = errors._replace(
            low=min(errors.low, others.low), high=max(errors.high, others.high)
        )
    stream = {"memory": found["memory"]}
    if found["rate"] < 1e5:
        stream["rate"] = found["rate"]
    shares = {name: found[name] for name in PROMPT if name in found}
    tests = {**errors._asdict(), "on": f"{one.basis}s left out"}
    if not one.prompts.empty:
        tests["prompts"] = missed(one.prompts).median
    values = {
        "source": entry.source,
        "note": entry.note,
        "block_overhead": found["block"],
        "context": found["fill"],
        "stream": stream,
        "compute": shares,
        "tested": tests,
    }
    body = "\n".join(f"{key} = {toml(value)}" for key, value in values.items() if value != "")
    return f'[streams."{entry.engine}".{entry.vendor}]\n{body}\n'


def toml(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + "}"
    return f'"{value}"' if isinstance(value, str) else f"{value:.4g}"


HEAD: Final = f"""{MARK} Written by calibration/stream.py from tests/fixtures/single_stream.csv.
# Engines that serve one user, by vendor of the chip. A layer's launches [s], an attention's time
# for each token of context [s], the share of the bandwidth and the bytes a clock of one
# multiprocessor, the shares of the peak that prompts reach.
[streams.origin]
kind = "measured"
date = "2026-11-30"

"""


def write(fits: Sequence[Fit]) -> None:
    """Put the tables of single streams at the end of the catalog's file."""
    before = CATALOG.read_text().partition(MARK)[0].rstrip()
    others = missed(pooled(fits, "chip"))
    CATALOG.write_text(before + "\n\n" + HEAD + "\n".join(line(one, others) for one in fits))


def pooled(fits: Sequence[Fit], basis: str) -> pd.DataFrame:
    """All rows of NVIDIA's chips, of chips or of models left out."""
    mine = [one for one in fits if one.entry.vendor == "NVIDIA"]
    if basis == "model":
        return pd.concat([one.models for one in mine])
    return pd.concat([one.away for one in mine if one.basis == "chip"])


def large(away: pd.DataFrame) -> pd.DataFrame:
    """Those that read so much a token that bandwidth, not launches, is most of a step."""
    return away[away.weights >= LARGE]


def report(fits: Sequence[Fit]) -> str:
    """Errors of what is left out, of models that read 2 GB a token and more."""
    lines = [
        "| engine | chips of | left out | rows | median, % | p90, % |",
        "|---|---|---|---|---|---|",
    ]
    for one in fits:
        name = (one.entry.engine, one.entry.vendor)
        if one.basis != "model":
            lines.append(told(*name, one.basis, large(one.away)))
        lines.append(told(*name, "model", large(one.models)))
        if not one.prompts.empty:
            lines.append(told(*name, one.basis + ", prompts", one.prompts))
    for basis in ("chip", "model"):
        lines.append(told("all", "NVIDIA", basis, large(pooled(fits, basis))))
    return "\n".join(lines)


def told(engine: str, vendor: str, basis: str, away: pd.DataFrame) -> str:
    """One line of the report."""
    errors = missed(away)
    figures = f"{errors.rows} | {100 * errors.median:.1f} | {100 * errors.p90:.1f}"
    return f"| {engine} | {vendor} | {basis} | {figures} |"


def main() -> None:
    """Fit, test, write."""
    fits = everything(read())
    write(fits)
    print(report(fits))


if __name__ == "__main__":
    main()
