"""A model in words and in tables: the architecture line of its card, and every layer in a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import MAX_LIST, Spec
from perfmodel.work.layers import (
    Attention,
    FeedForward,
    LatentAttention,
    MixtureOfExperts,
)
from perfmodel.work.layers.layer import Layer
from perfmodel.work.shape import Block, ModelShape
from perfmodel.work.step import Group

if TYPE_CHECKING:
    import pandas as pd


def describe(model: ModelShape) -> str:
    """The architecture in a few lines."""
    return "\n".join([_headline(model), *(f"  {line}" for line in _parts(model))])


def _headline(model: ModelShape) -> str:
    active = model.active_params
    of_them = "" if active == model.params else f" ({active:,.0f} active)"
    width = "" if model.hidden is None else f" of width {model.hidden:,}"
    blocks = "block" if model.layers == 1 else "blocks"
    return f"{model.name}: {model.params:,} parameters{of_them}; {model.layers} {blocks}{width}"


def _parts(model: ModelShape) -> Iterator[str]:
    for count, layer in model.distinct_layers:
        sizes = ", ".join(_sizes(layer))
        yield f"{count} x {layer.title}" + (f": {sizes}" if sizes else "")
    ends = [name for name in ("embedding", "head") if getattr(model, name) is not None]
    if ends:
        tied = model.head is not None and model.head.tied
        both = "" if len(ends) == 1 else ", tied" if tied else ", untied"
        yield f"{' and '.join(ends)}: {model.vocab:,} tokens{both}"
    if model.embedding is not None and model.embedding.positions is not None:
        yield f"learned positions: {model.embedding.positions:,}"
    if model.mtp:
        yield f"extra prediction blocks, apart: {model.mtp_params:,} parameters"
    if model.tower_params:
        yield f"towers, apart: {model.tower_params:,} parameters"


def _sizes(layer: Layer) -> list[str]:
    """What a card tells of a layer: the sizes in its own words, else its fields."""
    if isinstance(layer, Attention):
        return _attention(layer)
    if isinstance(layer, LatentAttention):
        ranks = f"latent {layer.kv_rank} + {layer.rope_dim}"
        queries = [] if layer.query_rank is None else [f"queries through {layer.query_rank}"]
        widths = f"{layer.nope_dim} + {layer.rope_dim} for keys, {layer.value_dim} for values"
        window = [] if layer.window is None else [f"window {layer.window:,}"]
        told = [f"{layer.heads} heads of {widths}", ranks, *queries, *window, *_selection(layer)]
        return told + _flags(gated=layer.gate is not None, shares_kv=layer.shares_kv)
    if isinstance(layer, FeedForward):
        return [f"width {layer.width:,}", *_flags(gated=layer.gated, biases=layer.bias)]
    if isinstance(layer, MixtureOfExperts):
        shared = [f"shared width {layer.shared_width:,}"] if layer.shared_width else []
        each = f"{layer.experts} experts of width {layer.width:,}, {layer.top_k} a token"
        return [each, *shared, *_flags(gated=layer.gated, biases=layer.bias)]
    return fields_of(layer)


def _attention(layer: Attention) -> list[str]:
    """Heads, and what limits or adds to plain attention."""
    told = [f"{layer.heads} heads of {layer.head_dim}"]
    if layer.value_dim not in (None, layer.head_dim):
        told[0] += f" (values {layer.value_dim})"
    if layer.kv_heads != layer.heads:
        told.append(f"{layer.kv_heads} of them keys and values")
    if layer.window is not None:
        told.append(f"window {layer.window:,}")
    if layer.chunk is not None:
        told.append(f"chunks of {layer.chunk:,}")
    told += _selection(layer)
    return told + _flags(
        gated=layer.gate is not None,
        qk_norm=layer.qk_norm is not None,
        biases=layer.qkv_bias,
        shares_kv=layer.shares_kv,
    )


def _selection(layer: Attention | LatentAttention) -> list[str]:
    if layer.indexer is None:
        return []
    whose = " by an earlier layer" if layer.indexer.shared else ""
    return [f"at most {layer.indexer.top_k:,} tokens selected{whose}"]


def _flags(**flags: bool) -> list[str]:
    words = {"qk_norm": "QK-norm", "shares_kv": "keys and values of an earlier layer"}
    return [words.get(name, name) for name, on in flags.items() if on]


def fields_of(part: Spec) -> list[str]:
    """The fields of a part that say something: numbers, names, and flags that are on."""
    defaults = {name: field.default for name, field in type(part).model_fields.items()}
    every = ((name, getattr(part, name)) for name in defaults if name != "kind")
    told = [(name, value) for name, value in every if value != defaults[name]]
    return [
        name
        if value is True
        else f"{name} ({', '.join(fields_of(value))})"
        if isinstance(value, Spec)
        else f"{name} {value}"
        for name, value in told
    ]


def to_frame(model: ModelShape, precision: Precision) -> pd.DataFrame:
    """One row a layer, in running order, the ends included."""
    import pandas as pd

    if model.layers > MAX_LIST:
        raise InvalidValueError(
            f"to_frame: expected at most {MAX_LIST} blocks, one row a layer, got {model.layers}"
        )
    return pd.DataFrame(_rows(model, precision))


def _rows(model: ModelShape, precision: Precision) -> Iterator[dict[str, object]]:
    hidden, vocab = model.hidden, model.vocab

    def end(name: str) -> Iterator[dict[str, object]]:
        part = getattr(model, name)
        if part is not None:
            params = part.params(hidden, vocab)
            held = part.weight_bytes(hidden, vocab, precision)
            yield _row(None, name, params, params, held, 0.0, 0.0)

    yield from end("embedding")
    first = Group.trusted(count=1, new=1, past=0, logits=0, shared_past=0)
    for block, layers in enumerate(_each(model.blocks)):
        for layer in layers:
            yield _row(
                block,
                layer.title,
                layer.params(hidden),
                layer.active_params(hidden),
                layer.weight_bytes(hidden, precision),
                layer.cache_bytes(first, precision.kv),
                layer.state_bytes(precision),
            )
    yield from end("head")


def _row(
    block: int | None,
    layer: str,
    params: int,
    active: float,
    weights: float,
    cache: float,
    state: float,
) -> dict[str, object]:
    return {
        "block": block,
        "layer": layer,
        "params": params,
        "active_params": active,
        "weight_bytes": float(weights),
        "cache_bytes_per_token": float(cache),
        "state_bytes": float(state),
    }


def _each(blocks: tuple[Block, ...]) -> Iterator[tuple[Layer, ...]]:
    for repeats, layers in blocks:
        for _ in range(repeats):
            yield layers
