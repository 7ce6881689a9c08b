"""Lone kernels: matrix products, attention, experts.

Compulsory for a lone kernel is what it is for a step: its weights, of experts the fewest that
routing allows, and the keys and values of the past and of its own tokens. Inputs and outputs may
come from a cache and go to one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import perfmodel as pm
from floors.checks import Check, NoFloorError, Row, Unchecked, chip, fastest, rows
from perfmodel.base.precision import Precision
from perfmodel.roofline import compute_time, memory_time, roofline_time

FLAGS = ("l2_warm", "suspect", "eager_timing")
HALF = ("bf16", "fp16")
# The data's name of a format: the preset with these weights, and what its kernels may compute in.
FORMATS = {
    "bfloat16": ("bf16", HALF),
    "fp8": ("fp8", ("fp8", *HALF)),
    "fp8_block": ("fp8-block", ("fp8", *HALF)),
    "nvfp4": ("nvfp4", ("nvfp4",)),
    "int8_wo": ("w8a16", HALF),
    "int4_wo": ("w4a16", HALF),
    "sq": ("int8", ("int8",)),
    "w4a16_mxfp4": ("mxfp4a16", HALF),
    "w4a8_mxfp4_mxfp8": ("mxfp4a16", ("mxfp8", "fp8", *HALF)),
}
# DeepSeek's latent attention, which the data measures with a number of heads only.
LATENT = {"kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}


def kernel_checks(folder: Path) -> Iterator[Check | Unchecked]:
    """Every row of the three tables of kernels."""
    for name, operation in (("gemm", gemm), ("attention", attention), ("moe", experts)):
        for row in rows(folder / "kernels", f"reference_{name}"):
            try:
                yield check(name, row, operation(row, chip(row["system"])))
            except NoFloorError as lack:
                yield Unchecked(name, row["id"], str(lack))


def check(name: str, row: Row, ops: list[pm.Operation]) -> Check:
    """A kernel of one or more operations under the roof."""
    gpu = chip(row["system"])
    nbytes = sum(op.least_weight_bytes + op.kv_bytes for op in ops)
    compute = sum(compute_time(flops=op.flops, peak=gpu.peak(op.compute)) for op in ops)
    memory = memory_time(nbytes=nbytes, bandwidth=gpu.memory_bandwidth)
    return Check(
        file=name,
        row=row["id"],
        chip=gpu.name,
        measured=float(row["latency_us"]) * 1e-6,
        floor=roofline_time(compute=compute, memory=memory),
        working_set=sum(op.nbytes for op in ops),
        cache=gpu.last_level_cache or 0,
        excuse=next((flag for flag in FLAGS if row.get(flag) == "True"), ""),
    )


def computing(preset: str, compute: str) -> Precision:
    """A preset whose blocks compute in a given format."""
    found = Precision.preset(preset)
    linear = found.linear.model_copy(update={"compute": compute})
    return found.model_copy(update={"linear": linear, "name": f"{preset} in {compute}"})


def matrices(row: Row, gpu: pm.GpuSpec) -> Precision:
    """What the weights of a row are stored in, and the fastest that its kernel may compute in."""
    if row["dtype"] not in FORMATS:
        raise NoFloorError(f"weights are stored as {row['dtype']}")
    preset, formats = FORMATS[row["dtype"]]
    # What SGLang was measured with under this name quantizes its inputs too.
    if (row["dtype"], row["backend"]) == ("int8_wo", "sglang"):
        formats = ("int8", *HALF)
    return computing(preset, fastest(gpu, formats))


def gemm(row: Row, gpu: pm.GpuSpec) -> list[pm.Operation]:
    """One matrix product."""
    inner, outer, tokens = int(row["k"]), int(row["n"]), int(row["m"])
    precision = matrices(row, gpu)
    return [pm.gemm(inner=inner, outer=outer, tokens=tokens, precision=precision)]


def attention(row: Row, gpu: pm.GpuSpec) -> list[pm.Operation]:
    """The attention operation of a layer: no projections."""
    kv = "fp8" if row["kv_dtype"] == "fp8" else "bf16"
    # Over a cache in fp8 some kernels compute in fp8, whatever they say.
    compute = fastest(gpu, ("fp8", *HALF) if "fp8" in (kv, row["compute_dtype"]) else HALF)
    update = {"attention": compute, "name": f"attention in {compute}, {kv}"}
    precision = Precision.preset("bf16", kv=kv).model_copy(update=update)
    heads, new = int(row["num_heads"]), int(row["q_len"])
    layer: pm.LatentAttention | pm.Attention
    if row["attention_type"] == "mla":
        layer = pm.LatentAttention(heads=heads, **LATENT)
    else:
        layer = pm.Attention(
            heads=heads,
            kv_heads=int(row["num_kv_heads"]),
            head_dim=int(row["head_dim"]),
            window=int(row["window_size"]) or None,
        )
    past = int(row["kv_len"]) - new
    step = pm.Step(groups=(pm.Group(count=int(row["batch_size"]), new=new, past=past),))
    found = layer.operations(1024, step, precision, 1)
    return [op for op in found if op.kind == "attention"]


def experts(row: Row, gpu: pm.GpuSpec) -> list[pm.Operation]:
    """The experts that one device holds, and its share of the tokens."""
    devices, slices = int(row["moe_ep_size"]), int(row["moe_tp_size"])
    top_k, tokens = int(row["topk"]), int(row["num_tokens"])
    if tokens * top_k < devices:
        raise NoFloorError("fewer choices than devices: none may come here")
    layer = pm.MixtureOfExperts(
        experts=int(row["num_experts"]),
        top_k=top_k,
        width=int(row["inter_size"]) // slices,
        gated=row["gated"] == "True",
        spread=devices,
    )
    step = pm.Step(groups=(pm.Group(count=tokens, new=1),))
    found = layer.operations(int(row["hidden_size"]), step, matrices(row, gpu), 1)
    return [op for op in found if op.kind == "experts"]
