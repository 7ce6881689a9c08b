"""What was asked, checked once for every answer."""

from __future__ import annotations

from typing import NamedTuple

from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import checked_count, checked_kind
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group


def check_subjects(model: ModelShape, gpu: GpuSpec) -> None:
    """Refuse anything but a model and a chip, in this order.

    Raises
    ------
    InvalidValueError
        If one of them is something else.
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    check_gpu(gpu)


class Place(NamedTuple):
    """Where a model runs: the chip, how chips are joined, and how they share the work."""

    gpu: GpuSpec
    cluster: Cluster | None
    parallelism: Parallelism


def placed(model: ModelShape, gpu: GpuSpec | Cluster, parallelism: Parallelism) -> Place:
    """Where a model runs; anything but a model, a chip or a cluster, and a division is refused.

    Raises
    ------
    InvalidValueError
        If one of them is something else, or the cluster has too few devices.
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    cluster = gpu if isinstance(gpu, Cluster) else None
    chip = gpu.gpu if isinstance(gpu, Cluster) else gpu
    check_gpu(chip)
    if parallelism is SINGLE:
        return Place(chip, cluster, SINGLE)
    checked_kind("parallelism", parallelism, Parallelism, "pm.Parallelism(tensor=8)")
    if parallelism == SINGLE:
        return Place(chip, cluster, SINGLE)
    if cluster is not None:
        require_devices(cluster, parallelism)
    return Place(chip, cluster, parallelism)


def require_devices(cluster: Cluster, parallelism: Parallelism) -> None:
    """Refuse a division over more devices than there are.

    Raises
    ------
    InvalidValueError
        If the cluster has too few devices.
    """
    if parallelism.devices > cluster.devices:
        raise InvalidValueError(
            f"parallelism: expected at most the {cluster.devices} devices of the cluster, "
            f"got {parallelism.devices} ({parallelism})"
        )


def check_gpu(gpu: GpuSpec) -> None:
    """Refuse anything but a chip.

    Raises
    ------
    InvalidValueError
        If it is something else.
    """
    checked_kind("gpu", gpu, GpuSpec, "pm.gpu(key) or pm.read_gpu(path)")


def require_positions(context: int, *models: ModelShape | None) -> None:
    """Refuse a context that learned positions of a model, or of its draft, do not reach.

    Raises
    ------
    InvalidValueError
        If it exceeds the learned positions of one of them.
    """
    for model in models:
        if model is not None:
            model.require_positions(context)


def decode_group(
    model: ModelShape,
    batch: int,
    context: int | None,
    shared_past: int,
    draft: ModelShape | None = None,
) -> Group:
    """A checked batch of sequences, each with its last token new.

    Raises
    ------
    InvalidValueError
        If a number is not what it should be, or the context is missing.
    NoCacheError
        If a context is given for a shape without a cache.
    """
    if not model.has_cache:
        if context is not None:
            model.require_cache()
        context = 1
    elif context is None:
        raise InvalidValueError("context: required for a model with a KV cache, but missing")
    count = checked_count("batch", batch)
    past = checked_count("context", context) - 1
    require_positions(past + 1, model, draft)
    shared = checked_count("shared_past", shared_past, 0)
    if shared > past:
        raise InvalidValueError(f"shared_past: expected less than context={past + 1}, got {shared}")
    return Group.trusted(count=count, new=1, past=past, logits=1, shared_past=shared)
