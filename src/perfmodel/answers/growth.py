"""How the KV cache grows with context, and where it overtakes the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from pydantic import Field, model_validator

from perfmodel.answers._search import largest
from perfmodel.base.errors import InvalidValueError, UnboundedError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import (
    Count,
    Name,
    NonNegative,
    Quantity,
    Spec,
    checked_count,
    checked_kind,
    checked_list,
    quantity,
)
from perfmodel.base.units import si
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.base._html import Cells


class KvGrowth(Spec):
    """Bytes of KV cache against context, and where they overtake the weights."""

    batch: Count
    """Sequences [1]."""
    precision: Name
    """Name of the precision."""
    weights: Quantity = quantity("M_w", "B", "Weights that memory holds")
    contexts: tuple[Count, ...] = Field(min_length=1)
    """Tokens of each sequence, as asked [1]."""
    kv: tuple[NonNegative, ...]
    """KV cache of the batch at each context [B]."""
    overtakes: Count | None
    """The shortest context at which KV exceeds the weights; None if none does [1]."""

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        if len(self.kv) != len(self.contexts):
            raise InvalidValueError(
                f"KvGrowth.kv: expected {len(self.contexts)}, one a context, got {len(self.kv)}"
            )
        return self

    def __repr__(self) -> str:
        never = self.overtakes is None
        when = "at no context" if never else f"from {self.overtakes:,} tokens on"
        weights = f"more than the {si(self.weights, 'B')} of weights"
        return f"<KvGrowth {self.precision}, batch {self.batch:,}: {weights} {when}>"

    def _cells(self) -> Cells:
        rows = zip(self.contexts, self.kv, strict=True)
        return ("context", "KV"), ((f"{context:,}", si(kv, "B")) for context, kv in rows)

    def to_frame(self) -> pd.DataFrame:
        """One row a context: tokens [1], bytes of the batch [B], ratio to the weights [1]."""
        import pandas as pd

        ratio = [kv / self.weights for kv in self.kv]
        return pd.DataFrame({"context": self.contexts, "kv": self.kv, "kv_over_weights": ratio})


def kv_growth(
    model: ModelShape,
    *,
    contexts: Sequence[int],
    batch: int = 1,
    precision: PrecisionLike = None,
) -> KvGrowth:
    """How the KV cache of a batch grows with context, and where it overtakes the weights.

    Parameters
    ----------
    model : ModelShape
        The model.
    contexts : sequence of int
        Tokens of each sequence, one or more lengths [1].
    batch : int
        Sequences [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.

    Returns
    -------
    KvGrowth
        ``kv`` [B] for each context, and ``overtakes``: the shortest context at which KV exceeds
        the weights [1], or None if none does.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be.

    Examples
    --------
    >>> from perfmodel import ModelShape, kv_growth
    >>> growth = kv_growth(
    ...     ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), contexts=[1000], batch=64
    ... )
    >>> growth.kv, growth.overtakes  # 64 * 1e5 B a token; 16e9 / 6.4e6 = 2500 tokens
    ((6400000000.0,), 2501)
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    model.require_cache()
    formats = model.resolve_precision(precision)
    batch = checked_count("batch", batch)
    lengths = tuple(
        checked_count("contexts", context) for context in checked_list("contexts", contexts)
    )
    model.require_positions(max(lengths))

    def kv(context: int) -> float:
        group = Group.trusted(count=batch, new=context, past=0, logits=0, shared_past=0)
        return model.cache_of(group, formats)  # type: ignore[no-any-return]

    weights = model.weight_bytes(formats)
    try:
        overtakes = 1 + largest(lambda context: kv(context) <= weights)
    except UnboundedError:
        overtakes = None
    if overtakes is not None and overtakes > (model.position_limit or overtakes):
        overtakes = None
    return KvGrowth(
        batch=batch,
        precision=formats.name,
        weights=weights,
        contexts=lengths,
        kv=tuple(kv(context) for context in lengths),
        overtakes=overtakes,
    )
