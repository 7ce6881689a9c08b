"""What is expected of a lone kernel: the operation of a layer, by the form of its name."""

from __future__ import annotations

from typing import NamedTuple

from floors.kernels import LATENT

import perfmodel as pm
from perfmodel.base.precision import Precision
from perfmodel.roofline import compute_time, memory_time
from scores.records import Record


class Expected(NamedTuple):
    """An expectation and its band [s], and what is known of the chip."""

    time: float
    low: float
    high: float
    known: str


def engine_of(record: Record) -> str | None:
    """The record's engine, where the library knows it; else all engines are pooled."""
    return record.engine if record.engine in pm.engines() else None


def kernel(record: Record) -> Expected:
    """What is expected of a record of a lone kernel."""
    gpu = pm.gpu(record.gpu)
    known = pm.efficiency(gpu, engine=engine_of(record))
    if record.family == "collective":
        return _collective(record, gpu, known)
    op = _operation(record)
    found = known.kernel(op.kernel.name)
    assert found is not None
    time = known.kernel_time(
        op.kernel.name,
        gpu,
        compute=compute_time(flops=op.flops, peak=gpu.peak(op.compute)),
        memory=memory_time(nbytes=op.nbytes, bandwidth=gpu.memory_bandwidth),
        activations=memory_time(nbytes=op.activation_bytes, bandwidth=gpu.memory_bandwidth),
        **op.sizes._replace(launches=1)._asdict(),
    )
    return _within(float(time), found.band, known.known)


def _within(time: float, band: pm.Band | None, known: str) -> Expected:
    assert band is not None
    return Expected(time, time * band.low, time * band.high, known)


def _collective(record: Record, gpu: pm.GpuSpec, known: pm.Efficiency) -> Expected:
    link = gpu.link_to(record.tensor)
    kind = record.model.partition(" ")[0]
    wire = int(record.model.partition("=")[2])
    time = known.collective_time(
        kind, wire=wire, others=record.tensor - 1, bandwidth=link.among(record.tensor)
    )
    found = known.collective(kind)
    assert found is not None
    return _within(float(time), found.band, known.known)


def _operation(record: Record) -> pm.Operation:
    """The kernel as the library counts it."""
    sizes, precision = record.sizes, Precision.parse(record.precision)
    if record.family == "matrix product":
        return pm.gemm(inner=sizes["k"], outer=sizes["n"], tokens=sizes["m"], precision=precision)
    if record.family == "experts":
        return _experts(record, precision)
    if sizes.get("bits") == 8:  # computed in fp8
        precision = precision.model_copy(update={"attention": "fp8", "name": "attention in fp8"})
    layer: pm.LatentAttention | pm.Attention
    if record.family == "latent attention":
        layer = pm.LatentAttention(heads=sizes["heads"], **LATENT)
    else:
        layer = pm.Attention(
            heads=sizes["heads"],
            kv_heads=sizes["kv_heads"],
            head_dim=sizes["size"],
            window=sizes["window"] or None,
        )
    group = pm.Group(count=record.batch, new=sizes["new"], past=record.prompt - sizes["new"])
    step = pm.Step(groups=(group,))
    found = layer.operations(1024, step, precision, 1)
    return next(op for op in found if op.kind == "attention")


def _experts(record: Record, precision: Precision) -> pm.Operation:
    """Both products of the experts that one device holds, for its share of the tokens."""
    sizes = record.sizes
    layer = pm.MixtureOfExperts(
        experts=sizes["experts"],
        top_k=sizes["top_k"],
        width=sizes["width"] // record.tensor,
        spread=record.expert,
    )
    step = pm.Step(groups=(pm.Group(count=record.batch, new=1),))
    up, down = [
        op for op in layer.operations(sizes["hidden"], step, precision, 1) if op.kind == "experts"
    ]
    return up.model_copy(
        update={
            name: getattr(up, name) + getattr(down, name)
            for name in ("flops", "weight_bytes", "activation_bytes")
        }
    )
