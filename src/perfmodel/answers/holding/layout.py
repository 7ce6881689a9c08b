"""What an engine's cache looks like for so many sequences, kind by kind of layer."""

from __future__ import annotations

from perfmodel.answers._asked import require_positions
from perfmodel.answers.holding.policies import PolicyLike, resolve_policy
from perfmodel.answers.holding.stages import stages_of
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import (
    Amount,
    Count,
    Name,
    NonNegative,
    Spec,
    checked_count,
    checked_kind,
    quantity,
)
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape


class CacheRows(Spec):
    """Keys and values of all layers of one kind."""

    kind: Name
    """What a table calls the layers."""
    layers: Count = quantity("L", "1", "Layers of the kind")
    rows: Count = quantity("n_r", "1", "Rows of cells: one a sequence, or one for all")
    cells: Amount = quantity("n_c", "1", "Cells of each row, each for one token")
    keys: NonNegative = quantity("M_k", "B", "Keys, or latents")
    values: NonNegative = quantity("M_v", "B", "Values")


class StateSlots(Spec):
    """Constant states of all layers of one kind that are held apart from a pool of blocks."""

    kind: Name
    """What a table calls the layers."""
    layers: Count = quantity("L", "1", "Layers of the kind")
    slots: Amount = quantity("n_s", "1", "States of each layer")
    conv: NonNegative = quantity("M_{cv}", "B", "The last inputs of convolutions")
    scan: NonNegative = quantity("M_{sc}", "B", "States of recurrences")


class KvLayout(Spec):
    """What one device holds for so many sequences under a policy, kind by kind of layer."""

    policy: Name
    """Name of the policy."""
    precision: Name
    """Name of the precision."""
    caches: tuple[CacheRows, ...]
    """What grows with the tokens."""
    states: tuple[StateSlots, ...]
    """What does not, unless it takes blocks of the pool."""
    paged: NonNegative = quantity("M_p", "B", "All of it, padding of blocks and groups included")


def kv_layout(
    model: ModelShape,
    *,
    batch: int,
    context: int,
    policy: PolicyLike,
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
    stage: int = 0,
) -> KvLayout:
    """What an engine's cache holds for so many sequences, kind by kind, as its log reports it.

    Parameters
    ----------
    model : ModelShape
        The model.
    batch : int
        Sequences of all devices together [1].
    context : int
        Tokens of each [1].
    policy : MemoryPolicy or str
        How the engine lays the cache out.
    precision : Precision or str or None
        What KV and states are stored in; None: the checkpoint's own, else bf16.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its cache counts too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].
    stage : int
        Which stage of a pipeline, from 0 [1].

    Returns
    -------
    KvLayout
        Keys and values, convolutions and states of each kind of layer on one device [B].

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be.

    Examples
    --------
    A window of 128 and a step of 512 tokens, in cells by 256: 768 of them.

    >>> from perfmodel import kv_layout, model
    >>> held = kv_layout(model("gpt-oss-20b"), batch=1, context=131072, policy="llama.cpp")
    >>> [(rows.kind, rows.layers, rows.cells, rows.keys / 2**20) for rows in held.caches]
    [('window attention', 12, 768, 9.0), ('attention', 12, 131072, 1536.0)]
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    model.require_cache()
    count, length = checked_count("batch", batch), checked_count("context", context)
    stages = stages_of(
        model,
        precision=precision,
        policy=resolve_policy(policy),
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    require_positions(length, model, draft)
    number = checked_count("stage", stage, 0)
    if number >= len(stages):
        raise InvalidValueError(f"stage: expected less than {len(stages)} stages, got {number}")
    found = stages[number]
    count = -(-count // parallelism.data)
    layout, slots = found.layout, found.layout.slots(count)
    return KvLayout(
        policy=found.policy.name,
        precision=found.precisions[0].name,
        caches=tuple(
            CacheRows(
                kind=cells.kind.title,
                layers=cells.kind.layers,
                rows=cells.rows,
                cells=cells.tokens,
                keys=float(cells.nbytes(cells.kind.cached.keys)),
                values=float(cells.nbytes(cells.kind.cached.values)),
            )
            for cells in layout.cells(count, length)
        ),
        states=tuple(
            StateSlots(
                kind=kind.title,
                layers=kind.layers,
                slots=slots,
                conv=float(slots * kind.layers * kind.kept.conv),
                scan=float(slots * kind.layers * kind.kept.scan),
            )
            for kind in layout.states()
        ),
        paged=float(layout.cache(count, length) + layout.state(count)),
    )
