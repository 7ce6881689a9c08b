"""A question about memory, checked once, and then answered for any batch and context."""

from __future__ import annotations

from typing import Any

from perfmodel.answers._asked import placed
from perfmodel.answers.holding.policies import PolicyLike, resolve_policy
from perfmodel.answers.holding.record import LOGICAL, DeviceMemory
from perfmodel.answers.holding.stages import Stage, stages_of
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PrecisionLike
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step


class Holding:
    """The devices of a model, and what the fullest of them holds."""

    def __init__(
        self,
        model: ModelShape,
        gpu: GpuSpec | Cluster,
        *,
        precision: PrecisionLike,
        policy: PolicyLike,
        parallelism: Parallelism,
        draft: ModelShape | None,
        mtp: bool,
    ) -> None:
        place = placed(model, gpu, parallelism)
        self.model, self.gpu, self.split = model, place.gpu, place.parallelism
        self._where = gpu
        self._asked: dict[str, Any] = {
            "precision": precision,
            "policy": resolve_policy(policy),
            "parallelism": parallelism,
            "draft": draft,
            "mtp": mtp,
        }
        self.stages = stages_of(model, **self._asked)

    def changed(self, **changes: Any) -> Holding:
        """The same question with something changed."""
        return Holding(self.model, self._where, **self._asked | changes)

    def require_capacity(self) -> None:
        """Refuse to search where nothing limits the size.

        Raises
        ------
        NoCacheError
            If the shape has no cache.
        InvalidValueError
            If the chip's capacity is unknown.
        """
        self.model.require_cache()
        if self.gpu.capacity is None:
            raise InvalidValueError(
                f"memory_capacity: required to ask what fits, but {self.gpu.name} does not state it"
            )

    def of(self, batch: int, context: int) -> DeviceMemory:
        """What a device holds for a batch of sequences of a length."""
        return self.of_groups(sequences(batch, context))

    def of_groups(self, *groups: Group) -> DeviceMemory:
        """What the device of the fullest stage holds for groups, their new tokens included."""
        shares = [groups]
        if self.split.data > 1:
            shares = [held.groups for held in self.split.replicas(Step.trusted(groups=groups))]
        stages = dict.fromkeys(self.stages)
        found = [held_by(stage, self.gpu, share) for share in shares for stage in stages]
        return found[0] if len(found) == 1 else max(found, key=_overdrawn)


def sequences(count: int, context: int) -> Group:
    """So many sequences of a length, each with its last token new."""
    return Group.trusted(count=count, new=1, past=context - 1, logits=1, shared_past=0)


def _overdrawn(held: DeviceMemory) -> float:
    return held.needed - (held.limit or 0.0)


def held_by(stage: Stage, gpu: GpuSpec, groups: tuple[Group, ...]) -> DeviceMemory:
    """What one device of a stage holds for groups of sequences."""
    more = LOGICAL if stage.is_logical else _under(stage, gpu, groups)
    return DeviceMemory.trusted(
        precision=stage.precisions[0].name,
        weights=stage.weights,
        kv=sum([stage.kv(group) for group in groups]),
        state=sum([group.count for group in groups]) * stage.state_bytes,
        capacity=gpu.capacity,
        capacity_kind=gpu.capacity_kind,
        **more,
    )


def _under(stage: Stage, gpu: GpuSpec, groups: tuple[Group, ...]) -> dict[str, Any]:
    """What a policy of blocks, pools and reserves makes of it."""
    policy, layout, capacity = stage.policy, stage.layout, gpu.capacity
    count = sum(group.count for group in groups)
    cache = sum(layout.cache(g.count, g.context) for g in groups)
    paged = cache + layout.state(count)
    paged -= sum(layout.saved(g.count, g.shared_past) for g in groups if g.shared_past)
    taken = paged if policy.share_of == "all" else None
    if taken is None and capacity is not None:
        taken = stage.room(capacity, count)
    return LOGICAL | {
        "policy": policy.name,
        "paged": paged,
        "allocated": taken,
        "activations": stage.peak(count),
        "reserve": policy.reserve,
        "budget": None if capacity is None else stage.budget(capacity, count),
    }
