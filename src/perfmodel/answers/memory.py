"""What memory must hold: weights and KV cache; what fits, and how much of it fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from perfmodel.answers._asked import decode_group, placed
from perfmodel.answers._search import largest
from perfmodel.base._num import Num, highest
from perfmodel.base.errors import DoesNotFitError, InvalidValueError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import (
    Name,
    NonNegative,
    Quantity,
    Spec,
    checked_count,
    quantity,
)
from perfmodel.base.units import si
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.shard import shard
from perfmodel.work.step import Group, Step


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

    def __repr__(self) -> str:
        return f"<DeviceMemory {self.precision}: {self.shortfall()}, fits={self.fits}>"

    __str__ = __repr__

    @property
    def needed(self) -> float:
        """Weights, KV cache and state together [B]."""
        return self.weights + self.kv + self.state

    @property
    def free(self) -> float | None:
        """What is left; negative where it does not fit, None where the capacity is unknown [B]."""
        return None if self.capacity is None else self.capacity - self.needed

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None where the chip's capacity is unknown."""
        return None if self.capacity is None else self.needed <= self.capacity

    def shortfall(self) -> str:
        """What is missing, in words: needs X, has Y (SI prefixes)."""
        has = "an unknown capacity" if self.capacity is None else si(self.capacity, "B", 4)
        return f"needs {si(self.needed, 'B', 4)}, has {has}"


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
    replica = parallelism.replica(step)
    found = [_held_by(shape, gpu, replica, precision) for shape in shard(model, parallelism)]

    def most(held: DeviceMemory) -> Num:
        return highest(held.needed)

    return max(found, key=most)


def _held_by(model: ModelShape, gpu: GpuSpec, step: Step, precision: Precision) -> DeviceMemory:
    return DeviceMemory.trusted(
        precision=precision.name,
        weights=model.weight_bytes(precision),
        kv=sum(model.cache_of(group, precision) for group in step.groups),
        state=step.sequences * model.state_bytes(precision),
        capacity=gpu.capacity,
        capacity_kind=gpu.capacity_kind,
    )


def memory(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    context: int | None = None,
    shared_past: int = 0,
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
) -> DeviceMemory:
    """What a chip must hold for a batch of sequences, and whether it does.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes; without a capacity,
        ``fits`` and ``free`` are None.
    batch : int
        Sequences [1].
    context : int or None
        Tokens of each; None only for a shape without a cache [1].
    shared_past : int
        Tokens of a prefix that all sequences share and that is held once [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    DeviceMemory
        ``weights``, ``kv``, ``state``, ``needed``, ``free`` [B] and ``fits``.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be.
    NoCacheError
        If a context is given for a shape without a cache.

    Notes
    -----
    Logical bytes: no paging, no runtime reserve, no activation buffers.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, memory
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> held = memory(ModelShape.from_totals(params=8e9), card, batch=1)
    >>> held.fits, held.free
    (True, 8000000000.0)
    """
    place = placed(model, gpu, parallelism)
    step = Step.trusted(groups=(decode_group(model, batch, context, shared_past),))
    formats = model.resolve_precision(precision)
    return memory_of(model, place.gpu, step, formats, place.parallelism)


def max_batch(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    context: int,
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
) -> int:
    """The most sequences of a context that a chip holds beside the weights.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    context : int
        Tokens of each sequence [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    int
        Sequences [1]; this many fit and one more does not.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    UnboundedError
        If the memory is so large that it limits nothing.
    DoesNotFitError
        If not even one sequence fits.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    Beside 16 GB of weights, 8 GB are left for sequences of 1,000 tokens of 100 kB:

    >>> from perfmodel import GpuSpec, ModelShape, max_batch
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> max_batch(ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), card, context=1000)
    80
    """
    held = _held(model, gpu, precision, parallelism)
    context = checked_count("context", context)
    model.require_positions(context)
    return _at_least_one(largest(lambda batch: held(batch, context).fits), held(1, context))


def max_context(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
) -> int:
    """The longest context of every sequence of a batch that a chip holds beside the weights.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    batch : int
        Sequences [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    int
        Tokens [1]; learned positions limit it, rotary ones do not.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    DoesNotFitError
        If not even one token of each sequence fits.
    UnboundedError
        If every layer has a window and memory limits nothing.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, max_context
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> max_context(ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), card, batch=80)
    1000
    """
    held = _held(model, gpu, precision, parallelism)
    batch = checked_count("batch", batch)
    limit = model.position_limit
    if limit is not None and held(batch, limit).fits:
        return limit
    return _at_least_one(largest(lambda context: held(batch, context).fits), held(batch, 1))


def _at_least_one(size: int, smallest: DeviceMemory) -> int:
    if not size:
        raise DoesNotFitError(f"even the smallest size does not fit: {smallest.shortfall()}")
    return size


def _held(
    model: ModelShape, gpu: GpuSpec | Cluster, precision: PrecisionLike, parallelism: Parallelism
) -> Callable[[int, int], DeviceMemory]:
    """A function of (batch, context) that tells the memory; the question itself is checked."""
    chip, _, ways = placed(model, gpu, parallelism)
    model.require_cache()
    if chip.capacity is None:
        raise InvalidValueError(
            f"memory_capacity: required to ask what fits, but {chip.name} does not state it"
        )
    formats = model.resolve_precision(precision)

    def held(batch: int, context: int) -> DeviceMemory:
        group = Group.trusted(count=batch, new=1, past=context - 1, logits=1, shared_past=0)
        return memory_of(model, chip, Step.trusted(groups=(group,)), formats, ways)

    return held
