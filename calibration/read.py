"""Rows of the kernel tables as what the forms read: times at the roofs, and the time measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias
from zlib import crc32

import numpy as np
import pandas as pd

import perfmodel as pm
from calibration.tables import Tables
from perfmodel.answers.calibrating.kinds import per_clock

Array: TypeAlias = Any
SAMPLE: Final = 4000  # rows of one chip, engine and format; half of the shapes are kept for tests
# A version with fewer rows of a format is a supplement, not a campaign; where no version has as
# many, the newest with as many as the second is taken.
FEWEST: Final = (500, 300)
NODE: Final = 8  # devices of a server


class Format(NamedTuple):
    """What the tables' types mean: the preset's name, bytes of a weight and an input, the peak."""

    name: str
    weight: float
    input: float
    compute: str


FORMATS: Final = {
    "bfloat16": Format("bf16", 2, 2, "bf16"),
    "fp8": Format("fp8", 1, 1, "fp8"),
    "fp8_block": Format("fp8-block", 1, 1, "fp8"),
    "nvfp4": Format("nvfp4", 9 / 16, 9 / 16, "nvfp4"),
    "sq": Format("int8", 1, 1, "int8"),
    "int8_wo": Format("w8a16", 1, 2, "bf16"),
    "int4_wo": Format("w4a16", 0.515625, 2, "bf16"),
    "w4a16_mxfp4": Format("mxfp4a16", 17 / 32, 2, "bf16"),
    "w4a8_mxfp4_mxfp8": Format("mxfp4a8", 17 / 32, 33 / 32, "mxfp8"),
}


class Excluded(Counter[str]):
    """Rows left out, by reason."""

    def drop(self, frame: pd.DataFrame, rows: Array, reason: str) -> pd.DataFrame:
        """The frame without some rows."""
        self[reason] += int(rows.sum())
        return frame[~rows]


EXCLUDED: Final = Excluded()


@cache
def chip(key: str) -> pm.GpuSpec:
    """A chip of the catalog, read once."""
    return pm.gpu(key)


def clock_rate(spec: pm.GpuSpec) -> float:
    """Cycles of all multiprocessors together [1/s]."""
    clock = spec.matrix_clock or spec.boost_clock
    assert clock is not None
    return units(spec) * clock


def twice_cache(spec: pm.GpuSpec) -> float:
    """Bytes that the last cache cannot keep from one run of a benchmark to the next."""
    assert spec.last_level_cache is not None
    return 2 * spec.last_level_cache


def units(spec: pm.GpuSpec) -> int:
    """Multiprocessors."""
    assert spec.units is not None
    return spec.units


# -- matrix products -------------------------------------------------------------------------------


def matrix(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Dense products; the time of dynamic quantization is in those that have any."""
    keys = {"dtype": "gemm_dtype", "m": "m", "n": "n", "k": "k"}

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, engine: str) -> pd.DataFrame:
        eager = (frame.gemm_dtype == "fp8_block") & (engine == "vllm")
        frame = EXCLUDED.drop(frame, eager, "matrix: vLLM fp8-block, timed with its launch")
        wrong = (frame.gemm_dtype == "int8_wo") & (engine == "sglang")
        frame = EXCLUDED.drop(frame, wrong, "matrix: SGLang int8, another kernel")
        m, n, k = _columns(frame, "m n k")
        f = _formats(frame.gemm_dtype)
        nbytes = k * n * f.weight + m * k * f.input + 2 * m * n
        found = _common(frame, spec, f, flops=2 * m * n * k, nbytes=nbytes)
        found["inner"], found["inputs"] = k, m * k / spec.memory_bandwidth
        found["shape"] = [f"{a:.0f}x{b:.0f}" for a, b in zip(n, k, strict=True)]
        # What fits the cache stays there between the runs of the benchmark, not of a model.
        found["warm"] = nbytes < twice_cache(spec)
        found["large"] = (n >= 1024) & (k >= 1024)
        return found

    return _read(tables, held, "gemm_perf", "gemm_dtype", keys, rows)


# -- attention -------------------------------------------------------------------------------------

_ATTENTION: Final = {
    "batch_size": "batch_size",
    "q_len": "queries",
    "kv_len": "keys",
    "num_heads": "num_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "window_size": "window_size",
    "compute_dtype": "attn_dtype",
    "kv_dtype": "kv_cache_dtype",
}
_LATENT: Final = {
    name: {"attn_dtype": "mla_dtype"}.get(column, column)
    for name, column in _ATTENTION.items()
    if name not in ("num_kv_heads", "head_dim", "window_size")
}


def decode(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One new token a sequence against its cache; formats are those of the cache."""

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, engine: str) -> pd.DataFrame:
        group = frame.num_heads / frame.num_key_value_heads
        aliased = (group > 1) & (engine == "trtllm") & (spec.architecture == "Ampere")
        frame = EXCLUDED.drop(frame, aliased, "decode: TensorRT-LLM on A100, keys are values")
        many = group[frame.index] > 16
        frame = EXCLUDED.drop(frame, many, "decode: over 16 query heads a KV head, a fallback")
        b, n, g, d = _columns(frame, "batch_size num_heads num_key_value_heads head_dim")
        window, keys = _columns(frame, "window_size keys")
        read = np.where(window > 0, np.minimum(keys, window), keys)
        f = _formats(frame.kv_cache_dtype)
        cache = 2 * b * g * read * d * f.weight
        found = _common(
            frame, spec, f._replace(compute=np.full(len(b), "bf16")),
            flops=4 * b * n * d * read, nbytes=cache + 4 * b * n * d,
        )  # fmt: skip
        found["shape"] = [f"{x:.0f}/{y:.0f}x{z:.0f}" for x, y, z in zip(n, g, d, strict=True)]
        found["tiles"] = b * g / units(spec)
        found["cold"] = cache > twice_cache(spec)
        found["tiny"] = cache < 1e6
        return found

    return _read(
        tables, held, "generation_attention_perf", "kv_cache_dtype", _ATTENTION, rows, _decoding
    )


def prefill(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Whole prompts, causal; formats are those computed in."""

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, engine: str) -> pd.DataFrame:
        other = (frame.kv_cache_dtype == "fp8") & (frame.head_dim == 256)
        other &= (engine == "vllm") & ("Ultra" in spec.architecture)
        frame = EXCLUDED.drop(frame, other, "prefill: fp8 under a bf16 name")
        b, n, g, d = _columns(frame, "batch_size num_heads num_key_value_heads head_dim")
        window, q, past = _columns(frame, "window_size isl step")
        pairs = _pairs(q, past, window)
        stored = _formats(frame.kv_cache_dtype).weight
        new = 4 * n * q * d + 2 * g * q * d * (2 + stored)
        f = _formats(frame.attn_dtype)
        found = _common(
            frame, spec, f,
            flops=4 * b * n * d * pairs, nbytes=b * (new + 2 * g * past * d * stored),
        )  # fmt: skip
        found["exponentials"] = b * n * pairs / clock_rate(spec) / per_clock(spec)
        found["tiles"] = b * n * np.ceil(q / 128) / units(spec)
        found["shape"] = [f"{x:.0f}/{y:.0f}x{z:.0f}" for x, y, z in zip(n, g, d, strict=True)]
        return found

    return _read(tables, held, "context_attention_perf", "attn_dtype", _ATTENTION, rows, _filling)


def latent_decode(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One new token against a latent cache of 512 + 64, absorbed; formats are the cache's."""

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, _: str) -> pd.DataFrame:
        b, n, keys = _columns(frame, "batch_size num_heads keys")
        f = _formats(frame.kv_cache_dtype)
        cache = b * 576 * f.weight * keys
        found = _common(
            frame, spec, f._replace(compute=np.full(len(b), "bf16")),
            flops=2 * b * n * 1088 * keys, nbytes=cache + 2 * b * n * 1088,
        )  # fmt: skip
        found["shape"] = [f"{x:.0f}" for x in n]
        found["tiles"] = b / units(spec)
        found["cold"] = cache > twice_cache(spec)
        found["tiny"] = cache < 1e6
        return found

    return _read(tables, held, "generation_mla_perf", "kv_cache_dtype", _LATENT, rows, _decoding)


def latent_prefill(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Whole prompts through latent attention, 192 wide for keys and 128 for values."""

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, _: str) -> pd.DataFrame:
        b, n, q, past = _columns(frame, "batch_size num_heads isl step")
        f = _formats(frame.kv_cache_dtype)
        pairs = _pairs(q, past, 0 * q)
        found = _common(
            frame, spec, f._replace(compute=np.full(len(b), "bf16")),
            flops=2 * b * n * 320 * pairs,
            nbytes=b * q * (2 * n * (2 * 192 + 2 * 128) + 576 * f.weight),
        )  # fmt: skip
        found["exponentials"] = b * n * pairs / clock_rate(spec) / per_clock(spec)
        found["tiles"] = b * n * np.ceil(q / 128) / units(spec)
        found["shape"] = [f"{x:.0f}" for x in n]
        return found

    return _read(tables, held, "context_mla_perf", "kv_cache_dtype", _LATENT, rows, _filling)


def _decoding(frame: pd.DataFrame) -> pd.DataFrame:
    return _usual(_windowed(frame)).assign(queries=1, keys=frame.isl + frame.step)


def _usual(frame: pd.DataFrame) -> pd.DataFrame:
    """The kernel that an engine takes for most shapes of a format; others are for few."""
    if "head_dim" in frame:
        frame = EXCLUDED.drop(
            frame, frame.head_dim == 192, "attention: values narrower than stated"
        )
    types = [c for c in ("attn_dtype", "kv_cache_dtype", "moe_dtype") if c in frame]
    most = frame.groupby(types).kernel_source.transform(lambda kernels: kernels.mode()[0])
    return EXCLUDED.drop(
        frame, frame.kernel_source != most, "a kernel that the engine takes for few shapes"
    )


def _filling(frame: pd.DataFrame) -> pd.DataFrame:
    return _usual(_windowed(frame)).assign(queries=frame.isl, keys=frame.isl + frame.step)


def _windowed(frame: pd.DataFrame) -> pd.DataFrame:
    """Older tables know no windows."""
    return frame if "window_size" in frame else frame.assign(window_size=0)


def _pairs(queries: Array, past: Array, window: Array) -> Array:
    """Pairs of a causal mask of one sequence, within a window where it is above 0."""
    ramp = np.where(window > 0, np.clip(window - past, 0, queries), queries)
    return ramp * past + ramp * (ramp + 1) / 2 + (queries - ramp) * window


# -- experts ---------------------------------------------------------------------------------------


def experts(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The routed experts of one layer together, gated, tokens spread evenly."""
    keys = {
        "dtype": "moe_dtype",
        "num_tokens": "num_tokens",
        "hidden_size": "hidden_size",
        "inter_size": "inter_size",
        "topk": "topk",
        "num_experts": "num_experts",
        "moe_tp_size": "moe_tp_size",
        "moe_ep_size": "moe_ep_size",
        "distribution": "distribution",
    }

    def rows(frame: pd.DataFrame, spec: pm.GpuSpec, _: str) -> pd.DataFrame:
        tokens, h, i, k = _columns(frame, "num_tokens hidden_size inter_size topk")
        e, tp, ep = _columns(frame, "num_experts moe_tp_size moe_ep_size")
        f = _formats(frame.moe_dtype)
        passed, width = tokens * k / ep, i / tp
        weights = 3 * h * width * np.minimum(e / ep, passed) * f.weight
        # In and out of the gate and up products, then of the down product.
        activations = passed * ((h + width) * f.input + (2 * width + h) * 2)
        found = _common(frame, spec, f, flops=6 * passed * h * width, nbytes=weights + activations)
        found["activations"] = activations / spec.memory_bandwidth
        # Every choice of every token is sorted and summed, also those of other ranks' experts.
        found["inputs"] = tokens * k * h / spec.memory_bandwidth
        found["shape"] = [f"{a:.0f}x{b:.0f}" for a, b in zip(h, i, strict=True)]
        spread = zip(found["shape"], e, tp, ep, strict=True)
        found["finer"] = [f"{a}/{b:.0f}/{c:.0f}x{d:.0f}" for a, b, c, d in spread]
        found["warm"] = weights < twice_cache(spec)
        found["near"] = ep <= NODE  # the rest are for tests alone
        return found

    return _read(tables, held, "moe_perf", "moe_dtype", keys, rows, _even)


def _even(frame: pd.DataFrame) -> pd.DataFrame:
    source, deepseek = frame.kernel_source.astype(str), frame.hidden_size == 7168
    for odd, reason in (
        (frame.distribution != "balanced", "experts: routed unevenly"),
        (source.str.contains("nongated"), "experts: without a gate"),
        (
            source.str.contains("min_latency"),
            "experts: TensorRT-LLM in low latency, routed within groups",
        ),
        (
            deepseek & (frame.inter_size == 2048) & (frame.num_experts == 256),
            "experts: DeepSeek's shape, routed within groups",
        ),
    ):
        frame = EXCLUDED.drop(frame, odd[frame.index], reason)
    return _usual(frame)


# -- collectives -----------------------------------------------------------------------------------

OPS: Final = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}


def collectives(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """NCCL's; formats are the operations."""
    return _newest(tables, held, "nccl_perf")


def own_all_reduce(tables: Tables, held: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The engines' own all-reduce, in replayed graphs."""
    return _newest(tables, held, "custom_allreduce_perf")


def _newest(tables: Tables, held: dict[str, pd.DataFrame], table: str) -> pd.DataFrame:
    """All chips but Intel's, which has no table of the kind that others have."""
    found, seen = [], set()
    for path, key, engine, _ in tables.named(table):
        copied = engine == "trtllm" and table == "nccl_perf"
        if key == "arc-pro-b60" or (key, engine) in seen or copied:
            continue
        seen.add((key, engine))
        rows = _collective(tables.frame(path), chip(key), held.get(path))
        found.append(rows.assign(chip=key, engine=engine))
    return pd.concat(found, ignore_index=True)


def _collective(frame: pd.DataFrame, spec: pm.GpuSpec, held: pd.DataFrame | None) -> pd.DataFrame:
    types = frame.nccl_dtype if "nccl_dtype" in frame else frame.allreduce_dtype
    size = types.map({"half": 2, "int8": 1, "bfloat16": 2}).to_numpy(float)
    frame = frame.assign(types=types, message=size * frame.message_size)
    if "backend" in frame:
        eager = frame.backend.astype(str).str.endswith("eager")
        frame = EXCLUDED.drop(frame, eager, "collectives: timed with their launch")
    # Two of them reach 63 % of their links, four 17 and eight 4: that server's one path, not the
    # chip's.
    shared = (frame.num_gpus > 2) & (spec.key == "l40s")
    frame = EXCLUDED.drop(frame, shared, "collectives: L40S that share one path across sockets")
    frame = _without(
        frame, held,
        {"op": "op_name", "dtype": "types", "num_gpus": "num_gpus", "message_bytes": "message"},
    )  # fmt: skip
    frame = frame.drop_duplicates(["op_name", "types", "num_gpus", "message"])
    n, message = frame.num_gpus.to_numpy(float), frame.message.to_numpy(float)
    twice = np.where(frame.op_name == "all_reduce", 2, 1)
    link = spec.link or spec.host_link
    assert link is not None
    return pd.DataFrame(
        {
            "format": frame.op_name.map(OPS).to_numpy(),
            "measured": frame.latency.to_numpy(float) / 1e3,
            "wire": twice * message * (n - 1) / n,
            "others": n - 1,
            "bandwidth": link.bandwidth,
            "shape": [f"{x:.0f}" for x in message],
        }
    )


# -- what all share --------------------------------------------------------------------------------

_Rows: TypeAlias = Callable[[pd.DataFrame, pm.GpuSpec, str], pd.DataFrame]


def _read(
    tables: Tables,
    held: dict[str, pd.DataFrame],
    table: str,
    kind: str,
    keys: dict[str, str],
    rows: _Rows,
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame,
) -> pd.DataFrame:
    """All chips and engines: for each format the newest version that has enough of it."""
    found, seen = [], set()
    for fewest, (path, key, engine, _) in product(FEWEST, list(tables.named(table))):
        frame = prepare(tables.frame(path))
        enough = {
            name
            for name, count in frame[kind].value_counts().items()
            if count >= fewest and (key, engine, name) not in seen and name in FORMATS
        }
        seen |= {(key, engine, name) for name in enough}
        frame = _without(
            frame[frame[kind].isin(enough)].reset_index(drop=True), held.get(path), keys
        )
        if len(frame):
            found.append(_sampled(rows(frame, chip(key), engine)).assign(chip=key, engine=engine))
    return pd.concat(found, ignore_index=True)


def _sampled(rows: pd.DataFrame) -> pd.DataFrame:
    """A seeded sample of each format, several times what will be chosen of it."""
    parts = [
        part.sample(min(len(part), 4 * SAMPLE), random_state=crc32(str(name).encode()))
        for name, part in rows.groupby("format")
    ]
    return pd.concat(parts, ignore_index=True) if parts else rows


def _without(frame: pd.DataFrame, held: pd.DataFrame | None, keys: dict[str, str]) -> pd.DataFrame:
    """The frame without the rows whose shape is held out."""
    if held is None:
        return frame
    asked = {tuple(_plain(row[name]) for name in keys) for _, row in held.iterrows()}
    mine = zip(*(frame[column].tolist() for column in keys.values()), strict=True)
    rows = np.array([tuple(_plain(x) for x in row) in asked for row in mine], dtype=bool)
    return EXCLUDED.drop(frame, rows, "held out for tests")


def _plain(value: object) -> str:
    text = str(value)
    return text.removesuffix(".0")


def _columns(frame: pd.DataFrame, names: str) -> Iterator[Array]:
    return (frame[name].to_numpy(float) for name in names.split())


def _formats(types: pd.Series) -> Any:
    """The formats of many rows, one array a field."""
    return Format(*(types.map(lambda t, i=i: FORMATS[t][i]).to_numpy() for i in range(4)))


def _common(
    frame: pd.DataFrame, spec: pm.GpuSpec, formats: Any, *, flops: Array, nbytes: Array
) -> pd.DataFrame:
    peaks = {name: _peak(spec, name) for name in set(formats.compute)}
    peak = np.array([peaks[name] for name in formats.compute])
    return pd.DataFrame(
        {
            "format": formats.name,
            "measured": frame.latency.to_numpy(float) / 1e3,  # ms in the tables
            "compute": flops / peak,
            "memory": nbytes.astype(float) / spec.memory_bandwidth,
        }
    )


def _peak(spec: pm.GpuSpec, compute: str) -> float:
    """A peak of the chip; formats that it lacks are computed in bf16."""
    return spec.peak(compute if compute in spec.peak_flops.formats else "bf16")
