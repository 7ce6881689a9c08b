"""A decode step of a dense model, written out by hand: what a notebook would do without a library.

Plain floats for one configuration, NumPy for many; no layers, no formats, no checks. Both return
what ``perfmodel`` returns, so that a ratio of run times compares equal answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Dense(NamedTuple):
    """A dense transformer with grouped queries, a gated feed-forward and an untied head."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int


class Chip(NamedTuple):
    bandwidth: float  # B/s
    peak: float  # FLOP/s
    capacity: float  # B


class Row(NamedTuple):
    """All calls of one operation."""

    name: str
    flops: float
    bytes: float
    compute_time: float
    memory_time: float


class Decode(NamedTuple):
    time: float
    floor: float
    bound: str
    flops: float
    bytes: float
    weight_traffic: float
    kv_traffic: float
    activation_traffic: float
    compute_time: float
    memory_time: float
    network_time: float
    intensity: float
    compute_utilization: float
    memory_utilization: float
    tokens_per_second: float
    weights: float
    kv: float
    fits: bool
    rows: list[Row]


def decode(model: Dense, chip: Chip, batch: int, context: int, width: int = 2) -> Decode:
    """One decode step of ``batch`` sequences at ``context`` tokens, ``width`` bytes a number."""
    layers, d, heads, kv_heads, head_dim, ffn, vocab = model
    bandwidth, peak, capacity = chip
    queries = heads * head_dim
    keys_and_values = 2 * kv_heads * head_dim

    # name, calls, FLOPs, weight bytes, activation bytes, KV bytes of one call
    work = [("embedding", 1, 0, 0, 2 * batch * d * width, 0)]
    for name, calls, k, n in (
        ("qkv", layers, d, queries + keys_and_values),
        ("output", layers, queries, d),
        ("gate_up", layers, d, 2 * ffn),
        ("down", layers, ffn, d),
        ("head", 1, d, vocab),
    ):
        work.append((name, calls, 2 * batch * k * n, k * n * width, batch * (k + n) * width, 0))
    attention_flops = 4 * batch * context * queries
    attention_io = 2 * batch * queries * width
    cache_read = batch * context * keys_and_values * width
    work.insert(2, ("attention", layers, attention_flops, 0, attention_io, cache_read))

    time = compute_time = 0.0
    flops = weight_traffic = activation_traffic = kv_traffic = 0
    rows = []
    for name, calls, op_flops, weight, activation, kv in work:
        op_flops *= calls
        weight, activation, kv = calls * weight, calls * activation, calls * kv
        moved = weight + activation + kv
        at_compute = op_flops / peak
        at_memory = moved / bandwidth
        time += max(at_compute, at_memory)
        compute_time += at_compute
        flops += op_flops
        weight_traffic += weight
        activation_traffic += activation
        kv_traffic += kv
        rows.append(Row(name, op_flops, moved, at_compute, at_memory))

    moved = weight_traffic + activation_traffic + kv_traffic
    memory_time = moved / bandwidth
    # Resident beside what is read: the embedding table, and the norms.
    weights = weight_traffic + (vocab * d + (2 * layers + 1) * d) * width
    return Decode(
        time=time,
        floor=max(compute_time, (weight_traffic + kv_traffic) / bandwidth),
        bound="compute" if compute_time > memory_time else "memory",
        flops=flops,
        bytes=moved,
        weight_traffic=weight_traffic,
        kv_traffic=kv_traffic,
        activation_traffic=activation_traffic,
        compute_time=compute_time,
        memory_time=memory_time,
        network_time=0.0,
        intensity=flops / moved,
        compute_utilization=compute_time / time,
        memory_utilization=memory_time / time,
        tokens_per_second=batch / time,
        weights=weights,
        kv=kv_traffic,
        fits=weights + kv_traffic <= capacity,
        rows=rows,
    )


def sweep(
    model: Dense, chip: Chip, batch: Any, context: Any, *, grid: bool = True, width: int = 2
) -> dict[str, Any]:
    """The columns of a sweep, one element a configuration, batches slowest."""
    layers, d, heads, kv_heads, head_dim, ffn, vocab = model
    queries = heads * head_dim
    keys_and_values = 2 * kv_heads * head_dim
    batch = np.asarray(batch, dtype=np.float64)
    context = np.asarray(context, dtype=np.float64)
    if grid:
        batch, context = batch[:, None], context[None, :]

    # Linears depend on the batch alone.
    time = 2 * batch * d * width / chip.bandwidth
    flops = weight_traffic = 0
    activations = 2 * batch * d * width
    for calls, k, n in (
        (layers, d, queries + keys_and_values),
        (layers, queries, d),
        (layers, d, 2 * ffn),
        (layers, ffn, d),
        (1, d, vocab),
    ):
        op_flops = calls * 2 * k * n * batch
        weight = calls * k * n * width
        activation = calls * (k + n) * width * batch
        time = time + np.maximum(op_flops / chip.peak, (weight + activation) / chip.bandwidth)
        flops = flops + op_flops
        weight_traffic += weight
        activations = activations + activation

    # Attention depends on both.
    tokens = batch * context
    attention_flops = layers * 4 * queries * tokens
    attention_io = layers * 2 * queries * width * batch
    kv = layers * keys_and_values * width * tokens
    time = time + np.maximum(attention_flops / chip.peak, (attention_io + kv) / chip.bandwidth)
    flops = flops + attention_flops
    moved = weight_traffic + activations + attention_io + kv

    compute_time = flops / chip.peak
    needed = weight_traffic + (vocab * d + (2 * layers + 1) * d) * width + kv
    columns = {
        "batch": batch,
        "context": context,
        "time": time,
        "floor": np.maximum(compute_time, (weight_traffic + kv) / chip.bandwidth),
        "bound": np.where(compute_time > moved / chip.bandwidth, "compute", "memory"),
        "tokens_per_second": batch / time,
        "flops": flops,
        "bytes": moved,
        "needed": needed,
        "fits": needed <= chip.capacity,
    }
    shape = np.broadcast_shapes(batch.shape, context.shape)
    return {name: np.broadcast_to(column, shape).ravel() for name, column in columns.items()}
