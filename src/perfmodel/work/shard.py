"""What one device holds of a model, and what it does in a step: the operations and collectives."""

from __future__ import annotations

from collections.abc import Iterator

from perfmodel.base._num import Num, ceil_div, is_zero
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import checked_kind
from perfmodel.work.collective import Collective, CollectiveKind, all_reduce
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.layer import Layer
from perfmodel.work.layers.totals import Totals
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import Block, ModelShape
from perfmodel.work.step import Step


def shard(model: ModelShape, parallelism: Parallelism) -> tuple[ModelShape, ...]:
    """What one device of each stage holds.

    Parameters
    ----------
    model : ModelShape
        The model.
    parallelism : Parallelism
        Over how many devices each part is divided.

    Returns
    -------
    tuple of ModelShape
        One shape a stage, of the device that holds most: heads, widths, experts and rows of the
        vocabulary divided; norms, routers and latents held by every device.

    Raises
    ------
    InvalidValueError
        If a size cannot be divided, or stages do not add up to the blocks, or are more than they.

    Examples
    --------
    >>> whole = ModelShape.dense(layers=4, hidden=64, heads=8, kv_heads=2, ffn=256, vocab=1000)
    >>> first, last = shard(whole, Parallelism(tensor=4, pipeline=2))
    >>> first.layers, first.head, last.embedding
    (2, None, None)
    >>> whole.kv_bytes_per_token("bf16") / first.kv_bytes_per_token("bf16")  # 2 stages x 2 heads
    4.0
    """
    checked_kind("model", model, ModelShape)
    checked_kind("parallelism", parallelism, Parallelism)
    tensor, pipeline, expert = parallelism.tensor, parallelism.pipeline, parallelism.expert
    if parallelism.stages is not None:
        _counts(model.layers, parallelism)  # a wrong sum is wrong on one stage too
    if (tensor, pipeline, expert) == (1, 1, 1):
        return (model,)
    if pipeline > 1 and any(layer.reused for _, layer in model.distinct_layers):
        raise InvalidValueError(
            f"Parallelism.pipeline: expected 1, for blocks of {model.name} use weights of earlier "
            f"ones, got {pipeline}"
        )
    if any(isinstance(layer, Totals) for _, layer in model.distinct_layers):
        raise InvalidValueError(
            f"model: expected its layers to divide them over {parallelism.devices} devices; "
            f"{model.name} is a coarse shape of totals"
        )
    known = model._shards.get(parallelism)
    if known is None:
        known = model._shards[parallelism] = tuple(_shapes(model, parallelism))
    return known


def _shapes(model: ModelShape, parallelism: Parallelism) -> Iterator[ModelShape]:
    """One shape a stage; equal stages are the same object, so that each is counted once."""
    made: dict[tuple[tuple[Block, ...], bool, bool], ModelShape] = {}
    for index, blocks in enumerate(_staged(model, parallelism)):
        first, last = index == 0, index == parallelism.pipeline - 1
        if (blocks, first, last) not in made:
            made[blocks, first, last] = _stage(model, parallelism, blocks, first=first, last=last)
        yield made[blocks, first, last]


def _staged(model: ModelShape, parallelism: Parallelism) -> Iterator[tuple[Block, ...]]:
    """The blocks of each stage: neighbours, as many as it is given."""
    counts = _counts(model.layers, parallelism)
    rows = list(reversed(model.blocks))
    for count in counts:
        stage: list[Block] = []
        while count:
            repeats, layers = rows.pop()
            taken = min(count, repeats)
            stage.append((taken, layers))
            count -= taken
            if repeats > taken:
                rows.append((repeats - taken, layers))
        yield tuple(stage)


def _counts(blocks: int, parallelism: Parallelism) -> tuple[int, ...]:
    """Blocks of each stage; what is left over goes one each to the stages before the last."""
    pipeline = parallelism.pipeline
    if parallelism.stages is not None:
        if sum(parallelism.stages) != blocks:
            raise InvalidValueError(
                f"Parallelism.stages: expected {blocks} blocks in all, "
                f"got {sum(parallelism.stages)}"
            )
        return parallelism.stages
    if pipeline > blocks:
        raise InvalidValueError(
            f"Parallelism.pipeline: expected at most {blocks} stages, one a block, got {pipeline}"
        )
    each, over = divmod(blocks, pipeline)
    return tuple(each + (pipeline - 1 - over <= i < pipeline - 1) for i in range(pipeline))


def _stage(
    model: ModelShape,
    parallelism: Parallelism,
    blocks: tuple[Block, ...],
    *,
    first: bool,
    last: bool,
) -> ModelShape:
    shared: dict[Layer, Layer] = {}

    def share(layer: Layer) -> Layer:
        if layer not in shared:
            shared[layer] = layer.share(parallelism)
        return shared[layer]

    def divided(rows: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple((n, tuple(share(layer) for layer in layers)) for n, layers in rows)  # type: ignore[misc]

    tensor = parallelism.tensor
    fields = {name: getattr(model, name) for name in ModelShape.model_fields}
    vocab = None if model.vocab is None else ceil_div(model.vocab, tensor)
    return ModelShape.trusted(
        **fields
        | {
            "vocab": vocab,
            "blocks": divided(blocks),
            "mtp": divided(model.mtp) if last else (),
            "tower_params": model.tower_params if first else 0,
            "embedding": _embedding(model, tensor) if first else None,
            "head": _head(model, own_table=not first) if last else None,
        }
    )


def _embedding(model: ModelShape, tensor: int) -> Embedding | None:
    end = model.embedding
    if end is None or model.vocab is None:
        return end
    rows = ceil_div(model.vocab + end.extra_rows, tensor)
    return end.model_copy(update={"extra_rows": rows - ceil_div(model.vocab, tensor)})


def _head(model: ModelShape, *, own_table: bool) -> Head | None:
    """A tied head on a stage without the embedding holds a copy of the table."""
    end = model.head
    return end.model_copy(update={"tied": False}) if end is not None and own_table else end


def collectives(
    shape: ModelShape,
    step: Step,
    precision: Precision,
    parallelism: Parallelism,
    *,
    sends: bool,
) -> Iterator[Collective]:
    """What a device of one stage exchanges in a pass, in running order.

    Parameters
    ----------
    shape : ModelShape
        What it holds.
    step : Step
        What it sees: one micro-batch of one replica.
    precision : Precision
        What activations are moved in.
    parallelism : Parallelism
        Over how many devices each part is divided.
    sends : bool
        Whether another stage follows [flag].

    Yields
    ------
    Collective
        The sum of embedding rows, what layers ask for, the logits, the hand-over.
    """
    hidden, tokens, tensor = shape.hidden, step.tokens, parallelism.tensor
    values = precision.linear.outputs
    if tensor > 1 and shape.embedding is not None:
        width = hidden if shape.embedding.width is None else shape.embedding.width
        rows = values.nbytes(tokens * width, tokens)
        yield all_reduce("embedding sum", rows, tokens, 1, parallelism, avoidable=True)
    for count, layer in shape.distinct_layers:
        yield from layer.collectives(hidden, tokens, precision, count, parallelism)
    positions = step.logit_tokens
    if tensor > 1 and shape.head is not None and not is_zero(positions):
        logits = precision.head.outputs.nbytes(positions * shape.vocab * tensor, positions)
        yield _one("logits", "all-gather", logits, parallelism, tokens=positions)
    if sends:
        handed = values.nbytes(tokens * hidden * _streams(shape), tokens)
        yield _one("hand-over", "point-to-point", handed, parallelism, tokens=tokens)


def _streams(shape: ModelShape) -> int:
    """Copies of the residual stream between blocks."""
    return max(getattr(layer, "streams", 1) for _, layer in shape.distinct_layers)


def _one(
    name: str, kind: CollectiveKind, nbytes: Num, parallelism: Parallelism, *, tokens: Num
) -> Collective:
    """One exchange a pass. Only the hand-over cannot be avoided: tables may be held whole.

    Devices of a tensor group hold the same to hand over, of which each may send a part.
    """
    handed = kind == "point-to-point"
    return Collective.trusted(
        name=name,
        kind=kind,
        nbytes=nbytes,
        least_nbytes=nbytes / parallelism.tensor if handed else 0,
        group=2 if handed else parallelism.tensor,
        calls=1,
        algorithm="ring",
        tokens=tokens,
    )
