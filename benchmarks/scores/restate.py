"""The reference data in the library's own words: records, and rows left out with the reason."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from floors.checks import NoFloorError, Row, rows
from floors.names import CHIPS, MODELS
from floors.runs import SERVED, ends_early, read, refuse

import perfmodel as pm
from perfmodel.base.errors import PerfModelError
from perfmodel.base.precision import FILE_TYPES, Precision
from scores.records import Left, Record
from scores.records import read as read_records
from scores.steps import fits, pooled

KERNEL_SOURCE = "aiconfigurator-core 0.12.0"


class LeftOutError(Exception):
    """Why a row is not scored, and its record where there is one."""

    def __init__(self, reason: str, record: Record | None = None) -> None:
        super().__init__(reason)
        self.record = record


def restated(folder: Path) -> Iterator[Record | Left]:
    """Every row of the tables that are scored."""
    for name, reading in (("gemm", _matrix), ("attention", _attention), ("moe", _experts)):
        yield from _each(rows(folder / "kernels", f"reference_{name}"), name, reading)
    yield from _each(rows(folder / "kernels", "reference_collective"), "collective", _collective)
    for name in (*_BATCHES, *_STREAMS):
        family = "batch" if name in _BATCHES else "single stream"
        yield from _each(rows(folder / "measured", name), family, partial(_run, name))
    yield from _each(rows(folder / "serving", "open"), "serving", served)


def chosen(records: Iterable[Record], most: dict[str, int]) -> list[Record]:
    """Of each family at most so many, evenly along the tables, whatever came out."""
    groups: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        groups[record.family].append(record)
    return [
        record
        for family, found in groups.items()
        for record in found[:: -(-len(found) // most[family])]
    ]


def _each(
    table: Iterable[Row], family: str, reading: Callable[[Row], Record]
) -> Iterator[Record | Left]:
    for row in table:
        try:
            yield reading(row)
        except LeftOutError as why:
            yield Left(family, str(why), why.record)
        except (NoFloorError, PerfModelError) as why:
            yield Left(family, str(why).partition(";")[0][:90])


def _record(family: str, **given: Any) -> Record:
    plain = {
        "engine": "", "precision": "bf16", "tensor": 1, "pipeline": 1, "expert": 1, "batch": 1,
        "prompt": 0, "output": 0,
    }  # fmt: skip
    return Record(family, **{**plain, **given})


# -- kernels ---------------------------------------------------------------------------------------

# The data's name of a format: a precision whose kernels are those.
_FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8-channel",
    "fp8_block": "fp8-block",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4a16",
    "int4_wo": "w4a16",
}
_GDDR = ("l40s", "rtx_pro_6000_server")
_COLLECTIVES = {
    "alltoall": "all-to-all",
    "all_reduce": "all-reduce",
    "reduce_scatter": "reduce-scatter",
    "all_gather": "all-gather",
}


def _timed(row: Row) -> dict[str, str]:
    """Chip and engine of a kernel's row, if its time is that of the kernel."""
    if row.get("eager_timing") == "True":
        raise LeftOutError("timed with its launch by the host")
    if row["system"] in _GDDR and row.get("l2_warm") == "True":
        raise LeftOutError("fits a cache of 96 or 128 MB, which the benchmark does not empty")
    return {"gpu": CHIPS[row["system"]], "engine": row["backend"]}


def _format(row: Row) -> str:
    if row["dtype"] not in _FORMATS or (row["dtype"], row["backend"]) == ("int8_wo", "sglang"):
        raise LeftOutError(f"no form for {row['dtype']}")
    return _FORMATS[row["dtype"]]


def _seconds(row: Row) -> dict[str, float | str]:
    return {"measured": float(row["latency_us"]) * 1e-6, "source": KERNEL_SOURCE}


def _matrix(row: Row) -> Record:
    where, precision = _timed(row), _format(row)
    if Precision.parse(precision).linear.compute not in pm.gpu(where["gpu"]).peak_flops.formats:
        raise LeftOutError("the chip has no units for the format")
    sizes = " ".join(f"{name}={row[name]}" for name in "mnk")
    return _record("matrix product", model=sizes, precision=precision, **where, **_seconds(row))


def _attention(row: Row) -> Record:
    if row["head_dim"] == "192":
        raise LeftOutError("heads of 192, of which values may be 128")
    latent = row["attention_type"] == "mla"
    shared = int(row["num_heads"]) / int(row["num_kv_heads"])
    if not latent and row["phase"] == "decode" and shared > 16:
        raise LeftOutError("over 16 query heads a KV head: a fallback, left out of the fit")
    family = "latent attention" if latent else f"{row['phase']} attention"
    sizes = f"new={row['q_len']} heads={row['num_heads']}"
    if not latent:
        sizes += f" kv_heads={row['num_kv_heads']} size={row['head_dim']}"
        sizes += f" window={row['window_size']}"
    if row["phase"] == "prefill" and row["compute_dtype"] == "fp8":
        sizes += " bits=8"
    return _record(
        family,
        model=sizes,
        precision="bf16+kv8" if row["kv_dtype"] == "fp8" else "bf16",
        batch=int(row["batch_size"]),
        prompt=int(row["kv_len"]),
        **_timed(row),
        **_seconds(row),
    )


def _experts(row: Row) -> Record:
    if row["distribution"] != "balanced":
        raise LeftOutError("routing is skewed")
    if row["gated"] != "True" or row["suspect"] == "True":
        raise LeftOutError("not gated, or said to be suspect")
    sizes = {
        "hidden": "hidden_size",
        "width": "inter_size",
        "top_k": "topk",
        "experts": "num_experts",
    }
    return _record(
        "experts",
        model=" ".join(f"{name}={row[column]}" for name, column in sizes.items()),
        precision=_format(row),
        tensor=int(row["moe_tp_size"]),
        expert=int(row["moe_ep_size"]),
        batch=int(row["num_tokens"]),
        **_timed(row),
        **_seconds(row),
    )


def _collective(row: Row) -> Record:
    if row["op"] not in _COLLECTIVES:
        raise LeftOutError("DeepEP: no form for its dispatch and combine")
    if row["library"] != "NCCL" and "graph" not in row["kernel_source"]:
        raise LeftOutError("timed with its launch by the host")
    engine = "" if row["library"] == "NCCL" else row["backend"]
    record = _record(
        "collective",
        model=f"{_COLLECTIVES[row['op']]} wire={round(float(row['wire_bytes']))}",
        tensor=int(row["num_gpus"]),
        **{**_timed(row), "engine": engine},
        **_seconds(row),
    )
    if record.gpu == "l40s" and record.tensor > 2:
        raise LeftOutError("L40S that share one path across sockets", record)
    return record


# -- batches and single streams --------------------------------------------------------------------

_BATCHES = (
    "trtllm_static_v05_v09", "trtllm_blogs_2023", "lmdeploy_a100", "rocm_vllm_docker",
    "dstack_405b", "argonne_llm_inference_bench",
)  # fmt: skip
# One study of eight chips with engines of 2024, whose versions and options it does not state.
_STUDY = "argonne_llm_inference_bench"
_STREAMS = (
    "llamacpp_xiongjie", "llamacpp_excerpts", "exllama", "gptfast", "mlc_llm_perf_bench",
    "tinychat_awq", "lmdeploy_w4a16",
)  # fmt: skip
_ENGINES = {
    "TensorRT-LLM": "trtllm",
    "vLLM": "vllm",
    "vLLM (ROCm fork)": "vllm",
    "LMDeploy TurboMind": "lmdeploy",
    "llama.cpp": "llama.cpp",
    "ExLlamaV2": "exllamav2",
    "MLC-LLM": "mlc",
    "gpt-fast": "gpt-fast",
    "TinyChat": "tinychat",
    "HF transformers": "transformers",
}
_WEIGHTS = {
    "fp16": "fp16",
    "f16": "fp16",
    "bf16": "bf16",
    "fp8": "fp8",
    "int8": "w8a16",
    "int4-g32": "w4a16",
    "int4-awq-g128": "w4a16",
    "int4 (GPTQ g128)": "w4a16",
    "int4 (q4f16_1)": "w4a16",
    "q4_0": "q4_0",
    "q4_k_m": "q4_k_m",
    "q8_0": "q8_0",
}
_HOPPER = ("h100-sxm", "h200-sxm")


def _run(file: str, row: Row) -> Record:
    """A batch at once, or one stream."""
    refuse(row)
    if row["engine"] not in _ENGINES:
        raise LeftOutError(f"no engine {row['engine']}")
    if row["weight_dtype"] not in _WEIGHTS:
        raise LeftOutError(f"weights as {row['weight_dtype'] or 'is not stated'}")
    run = read(file, row)
    if run.batch is None:
        raise LeftOutError("the batch is not stated")
    if run.devices > 1 and run.ways is None:
        raise LeftOutError("how the devices share the work is not stated")
    if ends_early(row, run):
        raise LeftOutError("vLLM ends sequences at the model's positions")
    family, measured = _measured(file, row, run.batch, run.output or 0)
    cached = "+kv8" if row["kv_dtype"].startswith("fp8") else ""
    stored = _WEIGHTS[row["weight_dtype"]]
    # llama.cpp computes in int8 where a chip has units for it.
    wide = stored in FILE_TYPES and "int8" not in run.gpu.peak_flops.formats
    record = _record(
        family,
        gpu=CHIPS[row["gpu"]],
        model=MODELS.get(row["model"], row["model"]),
        measured=measured,
        source=_source(file, row),
        engine=_ENGINES[row["engine"]],
        precision=stored + cached + ("+compute16" if wide else ""),
        tensor=run.ways.tensor if run.ways else 1,
        pipeline=run.ways.pipeline if run.ways else 1,
        batch=run.batch,
        prompt=run.prompt,
        output=run.output or 0,
    )
    _plain(file, row, record)
    return record


def _measured(file: str, row: Row, batch: int, output: int) -> tuple[str, float]:
    """Family and seconds of a row's metric."""
    metric, value = row["metric"], float(row["value"])
    if file in _STREAMS:
        if batch != 1 or row["n_gpu"] != "1":
            raise LeftOutError("no single stream on one device")
        if metric == "decode_tok_s_per_user":
            return "single stream", 1 / value
        if metric == "tpot_ms":
            return "single stream", value * 1e-3
        raise LeftOutError(f"{metric} of a single stream")
    if metric == "e2e_latency_ms":
        return "study" if file == _STUDY else "batch", value * 1e-3
    if metric == "output_tok_s_total":
        return "batch", batch * output / value
    if metric == "output_tok_s_per_gpu":
        return "batch", batch * output / value / int(row["n_gpu"])
    if metric == "ttft_ms" and file not in SERVED:
        return "study" if file == _STUDY else "first token", value * 1e-3
    raise LeftOutError(f"{metric} as a percentile, or to the nearest millisecond")


def _plain(file: str, row: Row, record: Record) -> None:
    """Leave out rows that do not say what was timed, or that no single step can explain."""
    if record.engine == "llama.cpp" and file == _STUDY:
        raise LeftOutError("llama.cpp, batches and many devices: made for single streams")
    if record.pipeline > 1:
        raise LeftOutError("pipeline: how batches are cut is not stated", record)
    if row["metric"] == "output_tok_s_total" and file == "rocm_vllm_docker":
        raise LeftOutError("prompt tokens counted or not: not stated", record)
    early = row["engine_version"] in ("v0.5", "v0.5.0", "v0.6")
    per_device = row["metric"] == "output_tok_s_total" and row["engine_version"] == "v0.6"
    if file == "trtllm_static_v05_v09" and per_device and record.tensor > 1:
        raise LeftOutError("TensorRT-LLM 0.6: labelled total, but per device", record)
    if file.startswith("trtllm") and early and "70b" in record.model:
        raise LeftOutError("TensorRT-LLM 0.5 and 0.6: 70B is slower than later", record)
    if record.engine == "trtllm" and record.model == "falcon-180b" and record.output > 1:
        raise LeftOutError("29 query heads a KV head: early kernels read it for each", record)
    if file.startswith("trtllm") and "istral" in record.model and record.gpu in _HOPPER:
        raise LeftOutError("Mistral by early TensorRT-LLM on Hopper, slow: not explained", record)
    if file == "dstack_405b" and record.gpu == "mi300x" and "FP8-KV" not in row["model"]:
        raise LeftOutError("a checkpoint for other chips, converted as it runs", record)
    if file == "dstack_405b" and not pooled(record):
        raise LeftOutError("past the pool of an engine that reads prompts whole: waves", record)
    if (_source(file, row)[-12:], record.batch, record.prompt) in _fitted():
        raise LeftOutError("what is expected of MI300X was fitted to them", record)
    if record.family == "first token" and record in _launched():
        raise LeftOutError("what launches by the host take was fitted to them", record)
    if record.family in ("batch", "study") and not fits(record):
        raise LeftOutError("the batch does not fit the memory: runs in waves", record)


@cache
def _fitted() -> frozenset[tuple[str, int, int]]:
    """Revision, batch and prompt of the whole steps that parameters were fitted to."""
    path = Path(__file__).parents[2] / "calibration" / "mi300x.csv"
    with path.open(newline="", encoding="utf-8") as lines:
        found = csv.DictReader(lines)
        return frozenset((r["revision"], int(r["batch"]), int(r["prompt"])) for r in found)


@cache
def _launched() -> frozenset[Record]:
    """First tokens that the time of a launch was fitted to."""
    return frozenset(read_records(Path(__file__).parents[2] / "calibration" / "launches.csv"))


def _source(file: str, row: Row) -> str:
    """Where a row was published, short."""
    return row["source"].removeprefix("github:").partition(" (via")[0] or file


# -- serving ---------------------------------------------------------------------------------------

_SERVED = {
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "openai/gpt-oss-120b": "gpt-oss-120b",
    "deepseek-ai/DeepSeek-R1": "deepseek-r1",
}


def served(row: Row) -> Record:
    """Mean time a token at so many users; what the data does not state is taken as it is said."""
    if row["mode"] != "agg":
        raise LeftOutError("prefill and decode on devices of their own")
    if row["clean"] != "yes":
        raise LeftOutError("not clean: duplicates, labels, likely speculative, queues")
    if int(float(row["attention_dp_size"] or 1)) > 1:
        raise LeftOutError("attention by data parallel")
    model = _SERVED[row["model_path"]]
    # Lengths are drawn from 80 to 100 % of what is named, but for 8B.
    drawn = 1 if model == "llama-3.1-8b" else 0.9
    stages = int(float(row["pp_size"] or 1))
    tensor = int(float(row["gpus"])) // stages
    return _record(
        "serving",
        gpu=CHIPS[row["system"]],
        model=model,
        measured=float(row["silicon_tpot_ms"]) * 1e-3,
        source="aiconfigurator 0.12.0, silicon_sample.csv",
        engine=row["backend"],
        precision=_served_precision(model, row),
        tensor=tensor,
        pipeline=stages,
        expert=min(int(float(row["moe_ep_size"] or 1)), tensor),
        batch=int(float(row["concurrency"] or row["batch_size"])),
        prompt=int(float(row["isl"]) * drawn),
        output=int(float(row["osl"]) * drawn),
    )


def _served_precision(model: str, row: Row) -> str:
    blackwell, trtllm = row["system"].startswith("b"), row["backend"] == "trtllm"
    nvfp4 = row["gemm_quant_mode"] == "nvfp4"
    cached = "+kv8" if blackwell or trtllm else ""
    # Checkpoints that are named are in 16 bits: vLLM quantizes them as it loads, and inputs as it
    # runs. TensorRT-LLM reads only ones with scales of their own.
    fp8 = "fp8-channel" if row["backend"] == "vllm" else "fp8"
    dense = {"": "bf16", "fp8": fp8, "fp8_block": "fp8-block", "nvfp4": "nvfp4"}
    if model == "llama-3.1-8b":
        return dense[row["gemm_quant_mode"]]
    if model == "llama-3.1-70b":
        return f"{dense[row['gemm_quant_mode']]}+kv8"
    if model == "gpt-oss-120b":
        return ("own-a8" if blackwell else "own") + cached
    return "nvfp4-experts+kv8" if nvfp4 else "fp8-block" + cached
