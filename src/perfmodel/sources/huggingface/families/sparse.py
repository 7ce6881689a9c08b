"""What decoders with mixtures of experts share: which layers have them, what stands beside them."""

from __future__ import annotations

from typing import Any

from perfmodel.sources.huggingface.config import REQUIRED, Config
from perfmodel.sources.huggingface.families.parts import Column, Row, experts, number_of_layers
from perfmodel.work.layers import AnyLayer, FeedForward, MixtureOfExperts


def shared_experts(
    c: Config, *, default: Any = 0, width: str = "moe_intermediate_size", **fields: Any
) -> MixtureOfExperts:
    """Routed experts and ``n_shared_experts`` shared ones of the same width."""
    shared = c.count_or_zero("n_shared_experts", default) * c.count(width)
    return experts(c, width=width, shared=shared, **fields)


def sparse_where(c: Config, sparse: MixtureOfExperts, dense: FeedForward, first: int = 0) -> Column:
    """Qwen's rule: experts in every ``decoder_sparse_step``-th layer but ``mlp_only_layers``.

    ``first`` layers are dense where the config lists none.
    """
    count, step = number_of_layers(c), c.count("decoder_sparse_step", 1)
    listed = c.get("mlp_only_layers") is not None
    dense_layers = c.indices("mlp_only_layers", count) if listed else range(first)
    return [
        sparse if i not in dense_layers and (i + 1) % step == 0 else dense for i in range(count)
    ]


def dense_or_sparse(
    c: Config, dense: AnyLayer | Row, sparse: AnyLayer | Row, *, first: Any = REQUIRED
) -> Column:
    """As ``mlp_layer_types`` has them; else every ``moe_layer_freq``-th after the first is sparse.

    ``first`` is the class's default of ``first_k_dense_replace``.
    """
    count = number_of_layers(c)
    listed = c.kinds("mlp_layer_types", count, ("dense", "sparse"))
    if listed is not None:
        return [sparse if kind == "sparse" else dense for kind in listed]
    start, step = c.count_or_zero("first_k_dense_replace", first), c.count("moe_layer_freq", 1)
    return [sparse if i >= start and i % step == 0 else dense for i in range(count)]


def one_or_each(c: Config, key: str) -> list[int]:
    """A size that the config gives once for all layers, or in a list for each."""
    count = number_of_layers(c)
    listed = c.counts(key, count) if isinstance(c.get(key), list) else None
    return [c.count(key)] * count if listed is None else listed
