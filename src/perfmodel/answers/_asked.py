"""What was asked, checked once for every answer."""

from __future__ import annotations

from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import checked_count, checked_kind
from perfmodel.machine.hardware import GpuSpec
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


def check_gpu(gpu: GpuSpec) -> None:
    """Refuse anything but a chip.

    Raises
    ------
    InvalidValueError
        If it is something else.
    """
    checked_kind("gpu", gpu, GpuSpec, "pm.gpu(key) or pm.read_gpu(path)")


def decode_group(model: ModelShape, batch: int, context: int | None, shared_past: int) -> Group:
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
    model.require_positions(past + 1)
    shared = checked_count("shared_past", shared_past, 0)
    if shared > past:
        raise InvalidValueError(f"shared_past: expected less than context={past + 1}, got {shared}")
    return Group.trusted(count=count, new=1, past=past, logits=1, shared_past=shared)
