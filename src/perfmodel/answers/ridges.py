"""Where work turns from memory-bound to compute-bound: in intensity, in tokens, in context."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, NamedTuple

from perfmodel.answers._asked import check_gpu, check_subjects
from perfmodel.answers._search import largest
from perfmodel.base._num import Num
from perfmodel.base.errors import NoRidgeError, UnboundedError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.base.spec import checked_count, checked_positive
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import attainable, break_even, compute_time, memory_time, ridge
from perfmodel.work.forward import forward
from perfmodel.work.operation import Matrix, Operation, linear
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step

_ALL_EXPERTS: Final = 1e15  # tokens that surely reach every expert


class Balance(NamedTuple):
    """Work of one unit (a token, a sequence) against traffic that is there anyway."""

    fixed_memory: Num  # s, weights
    memory: Num  # s, what each unit adds
    compute: Num  # s, what each unit adds


def balance(
    operations: Iterable[Operation], gpu: GpuSpec, *, kv: bool, activations: bool
) -> Balance:
    """The balance of operations that were counted for one unit; for numbers of any kind.

    Parameters
    ----------
    operations : iterable of Operation
        The work of one token or one sequence.
    gpu : GpuSpec
        The chip.
    kv, activations : bool
        Whether this traffic counts [flag].

    Returns
    -------
    Balance
        Times of the weights, and of what each unit adds [s].
    """
    fixed: Num = 0
    memory: Num = 0
    compute: Num = 0
    for op in operations:
        moved = (op.kv_bytes if kv else 0) + (op.activation_bytes if activations else 0)
        bandwidth = gpu.memory_bandwidth
        fixed = fixed + op.calls * memory_time(nbytes=op.weight_bytes, bandwidth=bandwidth)
        memory = memory + op.calls * memory_time(nbytes=moved, bandwidth=bandwidth)
        compute = compute + op.calls * compute_time(flops=op.flops, peak=gpu.peak(op.compute))
    return Balance(fixed, memory, compute)


def sequences(
    model: ModelShape, context: Num, precision: Precision, count: Num = 1
) -> tuple[Operation, ...]:
    """The operations of a decode step of so many sequences; for numbers of any kind."""
    group = Group.trusted(count=count, new=1, past=context - 1, logits=1, shared_past=0)
    return forward(model, Step.trusted(groups=(group,)), precision)


def size_at_ridge(
    model: ModelShape, gpu: GpuSpec, context: int, precision: Precision, one: Balance
) -> float:
    """The batch at which arithmetic takes as long as traffic, be the weights read fixed or not.

    Experts make the weights that a step reads grow with the batch, ever more slowly and up to all
    of them. From the batch that would pay for all, each round pays for what the last one reads:
    the sequence falls, and stops at the ridge.
    """
    size = math.inf
    weights = one.fixed_memory
    experts = any(op.kind == "experts" for op in sequences(model, context, precision))
    many: float = _ALL_EXPERTS if experts else 1
    while True:
        if many != 1:
            weights = _weights_time(sequences(model, context, precision, many), gpu)
        found = break_even(fixed_memory=weights, memory=one.memory, compute=one.compute)
        if many == 1 or not found < size * (1 - 1e-15):
            return found  # type: ignore[no-any-return]
        size = many = found


def _weights_time(operations: Iterable[Operation], gpu: GpuSpec) -> float:
    read = sum([op.calls * op.weight_bytes for op in operations])
    return memory_time(nbytes=read, bandwidth=gpu.memory_bandwidth)  # type: ignore[no-any-return]


def one_token(matrix: Matrix, precision: Precision) -> tuple[Operation, ...]:
    """One token through one matrix; for numbers of any kind."""
    return (linear(matrix, tokens=1, formats=precision.linear),)


def roof(gpu: GpuSpec, *, intensity: float, precision: PrecisionLike = "bf16") -> float:
    """The one-line model: the best speed at an arithmetic intensity.

    ``min(peak, bandwidth * intensity)``

    Parameters
    ----------
    gpu : GpuSpec
        The chip.
    intensity : float
        FLOPs for each byte moved [FLOP/B].
    precision : Precision or str or None
        Its matrix format chooses the peak.

    Returns
    -------
    float
        Speed [FLOP/s].

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for the format.

    Examples
    --------
    >>> from perfmodel import GpuSpec, roof
    >>> cpu = GpuSpec(name="CPU", memory_bandwidth=15e9, peak_flops={"fp32": 164.3e9})
    >>> roof(cpu, intensity=0.5, precision="fp32")
    7500000000.0
    """
    peak = _matrix_peak(gpu, precision)
    intensity = checked_positive("intensity", intensity)
    return attainable(intensity=intensity, peak=peak, bandwidth=gpu.memory_bandwidth)  # type: ignore[no-any-return]


def ridge_intensity(gpu: GpuSpec, *, precision: PrecisionLike = "bf16") -> float:
    """The intensity at which the two roofs of a chip meet.

    Parameters
    ----------
    gpu : GpuSpec
        The chip.
    precision : Precision or str or None
        Its matrix format chooses the peak.

    Returns
    -------
    float
        Intensity [FLOP/B].

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for the format.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ridge_intensity
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> round(ridge_intensity(h100))
    295
    """
    peak = _matrix_peak(gpu, precision)
    return ridge(peak=peak, bandwidth=gpu.memory_bandwidth)  # type: ignore[no-any-return]


def ridge_batch(model: ModelShape, gpu: GpuSpec, *, precision: PrecisionLike = None) -> float:
    """Tokens a pass at which a model's matrix FLOPs take as long as reading its weights.

    For one format, ``peak / bandwidth * bytes per weight / 2``; experts move it by the ratio of
    the weights that the step reads, in the end all of them, to those that a token multiplies by.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec
        The chip.
    precision : Precision or str or None
        What weights are stored and computed in; None: the checkpoint's own, else bf16.

    Returns
    -------
    float
        Tokens [1]. Activations and KV are not counted.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for a format.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, ridge_batch
    >>> h100 = GpuSpec(
    ...     name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12, "fp8": 1978e12}
    ... )
    >>> [round(ridge_batch(ModelShape.from_totals(params=8e9), h100, precision=p))
    ...  for p in ("bf16", "uniform-fp8", "w4a16")]
    [295, 295, 76]
    >>> from perfmodel import model
    >>> round(ridge_batch(model("mixtral-8x7b"), h100))  # 295 * 46.57e9 / 12.75e9 weights
    1078
    """
    check_subjects(model, gpu)
    formats = model.resolve_precision(precision)
    matrices = [op for op in sequences(model, 1, formats) if op.is_product]
    one = balance(matrices, gpu, kv=False, activations=False)
    return size_at_ridge(model, gpu, 1, formats, one)


def gemm_ridge_batch(
    gpu: GpuSpec, *, inner: int, outer: int, precision: PrecisionLike = "bf16"
) -> float:
    """Tokens at which one matrix product turns compute-bound, its inputs and outputs counted.

    In bf16, ``F k n / (beta k n - F (k + n))``.

    Parameters
    ----------
    gpu : GpuSpec
        The chip.
    inner : int
        Inputs of the matrix, k [1].
    outer : int
        Outputs of the matrix, n [1].
    precision : Precision or str or None
        The formats of the blocks' matrices.

    Returns
    -------
    float
        Tokens [1].

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If inputs and outputs alone keep it memory-bound at every batch.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for the format.

    Examples
    --------
    >>> from perfmodel import GpuSpec, gemm_ridge_batch
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> round(gemm_ridge_batch(h100, inner=4096, outer=4096))
    345
    """
    _matrix_peak(gpu, precision)
    matrix = Matrix("gemm", checked_count("inner", inner), checked_count("outer", outer))
    one = balance(one_token(matrix, _formats(precision)), gpu, kv=False, activations=True)
    if one.compute <= one.memory:
        raise NoRidgeError(
            f"a {inner} x {outer} matrix takes longer to move a token's inputs and outputs than "
            "to compute on them: it stays below the ridge, memory-bound at every batch"
        )
    return break_even(**one._asdict())  # type: ignore[no-any-return]


def step_ridge_batch(
    model: ModelShape, gpu: GpuSpec, *, context: int, precision: PrecisionLike = None
) -> float:
    """Sequences at which a decode step's arithmetic takes as long as its weights and KV.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec
        The chip.
    context : int
        Tokens that each new token attends, itself included [1].
    precision : Precision or str or None
        What is stored and computed in; None: the checkpoint's own, else bf16.

    Returns
    -------
    float
        Sequences [1]. Weights, KV and all FLOPs are counted, activations are not.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If every further sequence adds more KV time than arithmetic: past the critical context.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for a format.

    Examples
    --------
    Each sequence of 100 tokens adds 5.2 GFLOP-bound microseconds against 3.9 of KV:

    >>> from perfmodel import GpuSpec, ModelShape, step_ridge_batch
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> shape = ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072)
    >>> round(step_ridge_batch(shape, h100, context=100))
    389
    """
    check_subjects(model, gpu)
    model.require_cache()
    formats = model.resolve_precision(precision)
    context = checked_count("context", context)
    one = balance(sequences(model, context, formats), gpu, kv=True, activations=False)
    if one.compute <= one.memory:
        critical = max(critical_context(model, gpu, precision=formats), 1.0)
        raise NoRidgeError(
            f"context: {context} tokens are past the critical context of {critical:.0f}: each "
            "sequence adds more KV time than arithmetic, so the step is memory-bound at every batch"
        )
    return size_at_ridge(model, gpu, context, formats, one)


def critical_context(model: ModelShape, gpu: GpuSpec, *, precision: PrecisionLike = None) -> float:
    """The context past which no batch makes a decode step compute-bound.

    There, the KV of one more sequence takes as long as its arithmetic.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec
        The chip.
    precision : Precision or str or None
        What is stored and computed in; None: the checkpoint's own, else bf16.

    Returns
    -------
    float
        Tokens [1]; where windows clip the KV, a whole context: it has a ridge and the next has
        none. Chunks and compressed entries make the KV rise and fall, so that there may be more
        than one such place.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If arithmetic outgrows KV at every context: there is always a ridge.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedFormatError
        If the chip has no peak for a format.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, critical_context
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> llama = ModelShape.dense(
    ...     layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=128256
    ... )
    >>> round(critical_context(llama, h100))
    393
    """
    check_subjects(model, gpu)
    model.require_cache()
    formats = model.resolve_precision(precision)

    def at(context: int) -> Balance:
        return balance(sequences(model, context, formats), gpu, kv=True, activations=False)

    always = f"{model.name} on {gpu.name}: every context has a ridge; it is compute-bound past it"
    if at(1).compute <= at(1).memory:
        raise NoRidgeError(
            f"{model.name} on {gpu.name}: not even a context of one token has a ridge; decode is "
            "memory-bound at every batch"
        )
    if model.clips:
        try:
            return float(largest(lambda context: at(context).compute > at(context).memory))
        except UnboundedError:
            raise NoRidgeError(always) from None
    # From the second token on, each adds the same; the first finds no state to read.
    two, three = at(2), at(3)
    if two.compute <= two.memory:
        return 1.0
    more_memory, more_compute = three.memory - two.memory, three.compute - two.compute
    if more_memory <= more_compute:
        raise NoRidgeError(always)
    left = two.compute - two.memory
    return 2 + break_even(fixed_memory=left, memory=more_compute, compute=more_memory)  # type: ignore[no-any-return]


def _formats(precision: PrecisionLike) -> Precision:
    return Precision.parse("bf16" if precision is None else precision)


def _matrix_peak(gpu: GpuSpec, precision: PrecisionLike) -> float:
    check_gpu(gpu)
    return gpu.peak(_formats(precision).linear.compute)
