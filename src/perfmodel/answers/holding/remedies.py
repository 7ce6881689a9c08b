"""What would make a batch fit that does not: one change each, all else equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from perfmodel.answers._search import largest
from perfmodel.answers.holding.question import Holding
from perfmodel.answers.holding.record import DeviceMemory, Remedy
from perfmodel.base.errors import InvalidValueError, UnboundedError
from perfmodel.base.precision import Precision
from perfmodel.machine.hardware import GpuSpec

# What is tried, from the widest to the narrowest: the cache first, then weights, then both.
_WEIGHTS: Final = ("bf16", "fp16", "fp8", "int8", "w8a16", "w4a16")
_NARROWER: Final = tuple(name + kv for name in _WEIGHTS for kv in ("", "+kv8"))
# Sizes of a tensor group: from one node's devices to a rack's.
GROUPS: Final = (1, 2, 4, 8, 16, 32, 64)

_Found: TypeAlias = Iterator[tuple[str, str, DeviceMemory]]


def remedies_of(holding: Holding, batch: int, context: int) -> tuple[Remedy, ...]:
    """What would make it fit: fewer bits, more devices, a shorter context, a smaller batch."""
    return tuple(
        Remedy.trusted(change=change, to=to, needed=held.needed)
        for found in (_fewer_bits, _more_devices, _shorter_context, _smaller_batch)
        for change, to, held in found(holding, batch, context)
    )


def in_words(remedies: tuple[Remedy, ...]) -> str:
    """The remedies as the end of a sentence; nothing where there are none."""
    told = " or ".join(map(str, remedies))
    return f"; it fits with {told}" if told else ""


def fewest_devices(holding: Holding, batch: int, context: int) -> tuple[int, DeviceMemory] | None:
    """The smallest tensor group on which it fits: the one asked about, or one of those larger."""
    asked = holding.split.tensor
    for tensor in (asked, *(group for group in GROUPS if group > asked)):
        try:
            split = holding.split.model_copy(update={"tensor": tensor})
            held = holding.changed(parallelism=split).of(batch, context)
        except InvalidValueError:  # a size that so many devices cannot share
            continue
        if held.fits:
            return tensor, held
    return None


def _fewer_bits(holding: Holding, batch: int, context: int) -> _Found:
    now = holding.of(batch, context).needed
    for name in _NARROWER:
        if _computes(holding.gpu, name):
            held = holding.changed(precision=name).of(batch, context)
            if held.fits and held.needed < now:
                yield "precision", name, held
                return


def _computes(gpu: GpuSpec, name: str) -> bool:
    return Precision.parse(name).linear.compute in gpu.peak_flops.formats


def _more_devices(holding: Holding, batch: int, context: int) -> _Found:
    found = fewest_devices(holding, batch, context)
    if found is not None:
        tensor, held = found
        yield "devices", str(tensor), held


def _shorter_context(holding: Holding, batch: int, context: int) -> _Found:
    if context > 1:
        yield from _most("context", lambda size: holding.of(batch, size))


def _smaller_batch(holding: Holding, batch: int, context: int) -> _Found:
    if batch > 1:
        yield from _most("batch", lambda size: holding.of(size, context))


def _most(change: str, held: Callable[[int], DeviceMemory]) -> _Found:
    try:
        size = largest(lambda asked: held(asked).fits)
    except UnboundedError:
        return
    if size:
        yield change, str(size), held(size)
