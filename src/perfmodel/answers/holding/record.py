"""What one device must hold, and what it has: a record of the answer."""

from __future__ import annotations

from typing import Any, Final, Literal

from perfmodel.base._num import where
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Name, NonNegative, Quantity, Spec, quantity
from perfmodel.base.units import si
from perfmodel.machine.hardware import GpuSpec
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.shard import shard
from perfmodel.work.step import Step

_WORDS: Final = {
    "precision": "{} instead",
    "devices": "{} devices that share each matrix",
    "context": "a context of {} tokens",
    "batch": "a batch of {}",
}


class Remedy(Spec):
    """One change that would make it fit, all else equal."""

    change: Literal["precision", "devices", "context", "batch"]
    """What is changed."""
    to: Name
    """What it is changed to: a precision, devices that share each matrix, tokens, sequences."""
    needed: NonNegative = quantity("M_n", "B", "What one device must hold then")

    def __str__(self) -> str:
        return _WORDS[self.change].format(self.to)


class DeviceMemory(Spec):
    """What one device must hold for a batch of sequences, and what it has."""

    precision: Name
    """Name of the precision."""
    weights: NonNegative = quantity("M_w", "B", "Weights that memory holds")
    kv: NonNegative = quantity("M_{kv}", "B", "KV cache of all sequences")
    state: NonNegative = quantity("M_s", "B", "State that does not grow with the context")
    capacity: Quantity | None = quantity("C", "B", "What there is, visible or marketed")
    capacity_kind: Literal["visible", "marketed"] | None
    """Which of the two ``capacity`` is; None where it is unknown."""
    policy: Name = "logical"
    """Name of the policy: how an engine uses the memory."""
    paged: NonNegative | None = quantity(
        "M_p", "B", "KV and states as blocks and slots hold them; None: no blocks", default=None
    )
    allocated: NonNegative | None = quantity(
        "M_a", "B", "Pool that the engine takes for them; None: no pool", default=None
    )
    activations: NonNegative = quantity(
        "M_x", "B", "Activation peak, where it comes out of the engine's share", default=0.0
    )
    reserve: NonNegative = quantity("M_r", "B", "What the runtime holds", default=0.0)
    budget: NonNegative | None = quantity(
        "M_b", "B", "What the engine may use; None: the capacity", default=None
    )
    remedies: tuple[Remedy, ...] = ()
    """What would make it fit, one change each, where ``memory`` found that it does not."""

    def __repr__(self) -> str:
        return f"<DeviceMemory {self.precision}: {self.shortfall()}, fits={self.fits}>"

    __str__ = __repr__

    @property
    def needed(self) -> float:
        """Weights, KV cache and state together, and what else the policy counts [B]."""
        if self.paged is None:
            return self.weights + self.state + self.kv  # what depends on the context last
        return self.weights + self.paged + self.activations + self.reserve

    @property
    def limit(self) -> float | None:
        """What may be used: the policy's budget, else the capacity [B]."""
        return self.capacity if self.budget is None else self.budget

    @property
    def free(self) -> float | None:
        """What is left; negative where it does not fit, None where the capacity is unknown [B]."""
        limit = self.limit
        return None if limit is None else limit - self.needed

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where the chip's capacity is unknown."""
        limit = self.limit
        return None if limit is None else self.needed <= limit

    def shortfall(self) -> str:
        """What is missing, in words: needs X, has Y (SI prefixes)."""
        limit = self.limit
        has = "an unknown capacity" if limit is None else si(limit, "B", 4)
        return f"needs {si(self.needed, 'B', 4)}, has {has}"


# What a record says beside the bytes themselves where no policy is asked for.
LOGICAL: Final[dict[str, Any]] = {
    "policy": "logical",
    "paged": None,
    "allocated": None,
    "activations": 0.0,
    "reserve": 0.0,
    "budget": None,
    "remedies": (),
}


def memory_of(
    model: ModelShape,
    gpu: GpuSpec,
    step: Step,
    precision: Precision,
    parallelism: Parallelism = SINGLE,
) -> DeviceMemory:
    """Memory after a step, its new tokens included; for numbers of any kind, unchecked.

    Of many devices, that of the stage which must hold most.
    """
    if parallelism is SINGLE:
        return _held_by(model, gpu, step, precision)
    shapes = shard(model, parallelism)
    found, *others = (
        _held_by(shape, gpu, replica, precision)
        for replica in parallelism.replicas(step)
        for shape in shapes
    )
    for other in others:
        found = _fuller(found, other)
    return found


def _fuller(one: DeviceMemory, other: DeviceMemory) -> DeviceMemory:
    """What of two devices holds more; of arrays, element by element."""
    more = other.needed > one.needed
    fields = {name: getattr(one, name) for name in DeviceMemory.model_fields}
    sizes = {
        name: where(more, getattr(other, name), fields[name]) for name in ("weights", "kv", "state")
    }
    return DeviceMemory.trusted(**fields | sizes)


def _held_by(model: ModelShape, gpu: GpuSpec, step: Step, precision: Precision) -> DeviceMemory:
    return DeviceMemory.trusted(
        precision=precision.name,
        weights=model.weight_bytes(precision),
        kv=sum([model.cache_of(group, precision) for group in step.groups]),
        state=step.sequences * model.state_bytes(precision),
        capacity=gpu.capacity,
        capacity_kind=gpu.capacity_kind,
        **LOGICAL,
    )
