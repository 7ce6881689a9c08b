"""What one device of each stage holds: its part of the model, of a draft, of extra blocks."""

from __future__ import annotations

from functools import cached_property

from perfmodel.answers.holding.activations import block_peak, head_peak
from perfmodel.answers.holding.paging import Layout, layout_of
from perfmodel.answers.holding.policies import MemoryPolicy, resolve_policy
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import checked_flag, checked_kind
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.shard import shard
from perfmodel.work.step import Group


class Stage:
    """The models on one device under a policy: the target's part, and perhaps a draft's."""

    def __init__(
        self,
        models: tuple[ModelShape, ...],
        precisions: tuple[Precision, ...],
        policy: MemoryPolicy,
    ) -> None:
        self.models, self.precisions, self.policy = models, precisions, policy
        self._parts = tuple(zip(models, precisions, strict=True))

    @cached_property
    def is_logical(self) -> bool:
        """Whether the policy counts the exact bytes of what is held, and nothing else."""
        return self.policy == resolve_policy("logical")

    @cached_property
    def weights(self) -> float:
        """Weights of all models [B]."""
        return sum(m.weight_bytes(p) for m, p in self._parts)

    @cached_property
    def state_bytes(self) -> float:
        """Constant state of one sequence [B]."""
        return sum(m.state_bytes(p) for m, p in self._parts)

    @cached_property
    def layout(self) -> Layout:
        """How the policy lays the cache out."""
        return layout_of(self.models, self.precisions, self.policy)

    def kv(self, group: Group) -> float:
        """Exact bytes of the tokens that a group holds [B]."""
        return float(sum([m.cache_of(group, p) for m, p in self._parts]))

    @cached_property
    def _block_peak(self) -> float:
        return max(block_peak(m, self.policy, p) for m, p in self._parts)

    def peak(self, batch: int) -> float:
        """The activation peak, where the policy takes it from its share [B]."""
        if not self.policy.peak:
            return 0.0
        heads = [head_peak(m, self.policy, p, batch) for m, p in self._parts]
        return max(self._block_peak, *heads)

    def room(self, capacity: float, batch: int) -> float:
        """What is left for the pool [B]."""
        return self.policy.pool_bytes(
            total=capacity, weights=self.weights, activations=self.peak(batch)
        )

    def budget(self, capacity: float, batch: int) -> float:
        """What the engine may use of a device's memory, weights and all [B]."""
        if self.policy.share_of != "free":
            return self.policy.fraction * capacity
        fixed = self.weights + self.peak(batch) + self.policy.reserve
        return min(capacity, fixed + self.room(capacity, batch))

    def capacity_for(self, batch: int, context: int) -> float:
        """The memory that a device must have for so many sequences of a length [B]."""
        policy = self.policy
        fixed = self.weights + self.peak(batch) + policy.reserve
        if self.is_logical:
            alone = Group.trusted(count=batch, new=context, past=0, logits=0, shared_past=0)
            return fixed + self.kv(alone) + batch * self.state_bytes
        cache = self.layout.cache(batch, context) + self.layout.state(batch)
        if policy.share_of == "free":
            return fixed + cache / policy.fraction
        return (fixed + cache) / policy.fraction


def stages_of(
    model: ModelShape,
    *,
    precision: PrecisionLike,
    policy: MemoryPolicy,
    parallelism: Parallelism,
    draft: ModelShape | None,
    mtp: bool,
) -> tuple[Stage, ...]:
    """One device of each stage; a draft and extra prediction blocks stand on the last.

    Raises
    ------
    InvalidValueError
        If an argument is of another kind, or a size cannot be divided, or the model has no extra
        blocks.
    UnknownKeyError
        If there is no preset of that name.
    """
    checked_kind("parallelism", parallelism, Parallelism, "pm.Parallelism(tensor=8)")
    checked_flag("mtp", mtp)
    if mtp and not model.mtp:
        raise InvalidValueError(
            f"mtp: expected False, for {model.name} has no extra prediction blocks, got True; "
            "draft= takes a model of its own"
        )
    formats = model.resolve_precision(precision)
    parts = [(shape,) for shape in shard(model, parallelism)]
    precisions = [(formats,)] * len(parts)
    if mtp:
        parts[-1] = (_with_extra_blocks(parts[-1][0]),)
    if draft is not None:
        checked_kind("draft", draft, ModelShape, "pm.model(key) or pm.read_hf(path)")
        (own,) = shard(draft, Parallelism(tensor=parallelism.tensor))
        parts[-1] += (own,)  # type: ignore[assignment]
        precisions[-1] += (draft.resolve_precision(precision),)  # type: ignore[assignment]
    made: dict[tuple[int, ...], Stage] = {}  # equal stages are the same object here too
    return tuple(
        made.setdefault(tuple(map(id, models)), Stage(models, kept, policy))
        for models, kept in zip(parts, precisions, strict=True)
    )


def _with_extra_blocks(model: ModelShape) -> ModelShape:
    """The model with the blocks that predict further tokens behind its own."""
    fields = {name: getattr(model, name) for name in ModelShape.model_fields}
    return ModelShape.trusted(**fields | {"blocks": model.blocks + model.mtp, "mtp": ()})
