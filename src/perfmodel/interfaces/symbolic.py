"""Closed forms, derived by running the ordinary formulas on symbols.

Nothing here restates a formula. Each function hands symbols to the same code that answers with
floats, and lets SymPy do the algebra; what comes back can be read, printed as LaTeX, or turned
into a NumPy function. Given a model or a chip of numbers, those take the place of its symbols.
"""

from __future__ import annotations

from typing import Any, Final

import sympy

from perfmodel.answers._asked import check_subjects
from perfmodel.answers.estimate import Estimate
from perfmodel.answers.ridges import Balance, balance, one_token, sequences
from perfmodel.answers.steps import estimate_unchecked
from perfmodel.base.errors import InvalidValueError, NoRidgeError
from perfmodel.base.precision import Precision, PrecisionLike
from perfmodel.interfaces._closed_form import ClosedForm
from perfmodel.interfaces._symbols import (
    any_experts,
    any_gpu,
    any_model,
    bandwidth,
    batch,
    capacity,
    context,
    exact,
    inner,
    outer,
    peak,
    target,
    tokens,
    twin,
)
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import memory_time, ridge
from perfmodel.work.operation import Matrix
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group

__all__ = [
    "ClosedForm",
    "any_experts",
    "any_gpu",
    "any_model",
    "attention_intensity",
    "attention_ridge_batch",
    "bandwidth",
    "batch",
    "capacity",
    "context",
    "critical_context",
    "exact",
    "gemm_ridge_batch",
    "inner",
    "kv_overtakes_weights",
    "limit_of_attention_intensity",
    "max_batch_for_time",
    "max_context_for_capacity",
    "outer",
    "peak",
    "ridge_batch",
    "step_intensity",
    "step_ridge_batch",
    "step_time",
    "target",
    "tokens",
    "twin",
    "wide_gemm_ridge_batch",
]

_WINDOWS: Final = "expected one without windows, experts or states: its traffic is not linear in"
_BELOW: Final = (
    "each further unit adds more traffic time than arithmetic: memory-bound at any batch"
)


# -- one matrix -------------------------------------------------------------------------------


def gemm_ridge_batch(*, gpu: GpuSpec | None = None, precision: PrecisionLike = None) -> ClosedForm:
    """Tokens at which a ``k x n`` matrix turns compute-bound, inputs and outputs counted.

    Parameters
    ----------
    gpu : GpuSpec or None
        A chip of numbers; None: symbols F and beta.
    precision : Precision or str or None
        The formats of the blocks' matrices.

    Returns
    -------
    ClosedForm
        Tokens [1], in k, n, F, beta.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> gemm_ridge_batch().expression
    F*k*n/(-F*k - F*n + beta*k*n)
    """
    return ClosedForm("ridge batch of one matrix", "1", _gemm_ridge(gpu, precision), _BELOW)


def wide_gemm_ridge_batch(
    *, gpu: GpuSpec | None = None, precision: PrecisionLike = None
) -> ClosedForm:
    """The limit of ``gemm_ridge_batch`` for a matrix that is wide on both sides.

    Parameters
    ----------
    gpu : GpuSpec or None
        A chip of numbers; None: symbols F and beta.
    precision : Precision or str or None
        The formats of the blocks' matrices.

    Returns
    -------
    ClosedForm
        Tokens [1], in F, beta.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> wide_gemm_ridge_batch().expression
    F/beta
    >>> wide_gemm_ridge_batch(precision="w4a16").expression  # 4 bits and a scale, of 16
    33*F/(128*beta)
    """
    square = _gemm_ridge(gpu, precision).subs(outer, inner)
    limit = sympy.limit(sympy.cancel(square), inner, sympy.oo)
    return ClosedForm("ridge batch of a wide matrix", "1", limit)


def _gemm_ridge(gpu: GpuSpec | None, precision: PrecisionLike) -> sympy.Expr:
    matrix = Matrix("gemm", inner, outer)
    _, chip = _subjects(None, gpu)
    one = balance(one_token(matrix, _formats(precision)), chip, kv=False, activations=True)
    return _solve(tokens * one.compute, one.fixed_memory + tokens * one.memory, tokens)


# -- attention --------------------------------------------------------------------------------


def attention_intensity(
    *, model: ModelShape | None = None, precision: PrecisionLike = None
) -> ClosedForm:
    """Arithmetic intensity of attention in a decode step.

    It does not depend on the batch: every sequence reads its own KV. With the context it tends to
    ``limit_of_attention_intensity``.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    precision : Precision or str or None
        Its KV and activation formats count.

    Returns
    -------
    ClosedForm
        Intensity [FLOP/B], in S and the model's widths.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If the model has no attention, or is too coarse to know it.

    Examples
    --------
    >>> attention_intensity().symbols
    ('S', 'g', 'h')
    """
    attention = [op for op in _step(model, None, precision).operations if op.kind == "attention"]
    flops = sum(op.calls * op.flops for op in attention)
    if flops == 0:
        raise InvalidValueError("model: expected one whose attention is known, got none")
    found = sympy.factor(flops / sum(op.calls * op.nbytes for op in attention))
    return ClosedForm("arithmetic intensity of attention in a decode step", "FLOP/B", found)


def limit_of_attention_intensity(
    *, model: ModelShape | None = None, precision: PrecisionLike = None
) -> ClosedForm:
    """What the intensity of attention tends to as the context grows.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    precision : Precision or str or None
        Its KV format counts.

    Returns
    -------
    ClosedForm
        Intensity [FLOP/B]: in bf16, query heads over KV heads.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If the model has no attention, is too coarse to know it, or has sliding windows.

    Examples
    --------
    >>> limit_of_attention_intensity().expression
    h/g
    """
    found = attention_intensity(model=model, precision=precision).expression
    try:
        limit = sympy.simplify(sympy.limit(found, context, sympy.oo))
    except NotImplementedError:
        raise InvalidValueError(f"model: {_WINDOWS} S") from None
    return ClosedForm("arithmetic intensity of attention, long contexts", "FLOP/B", limit)


def attention_ridge_batch(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """Ask for the batch that makes attention compute-bound: there is none, and why.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        Its KV, activation and attention formats count.

    Returns
    -------
    ClosedForm
        Never: arithmetic and traffic of attention both grow with the batch.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        Always; it says on which side of the chip's ridge attention stays.

    Examples
    --------
    >>> attention_ridge_batch()
    Traceback (most recent call last):
        ...
    perfmodel.base.errors.NoRidgeError: attention: FLOPs and bytes both grow with the batch, \
so its intensity (h/g FLOP/B for long contexts) stays on one side of the ridge (F/beta FLOP/B) at \
every batch: memory-bound wherever it is the smaller
    """
    _, chip = _subjects(model, gpu)
    formats = _formats(precision, model)
    at_ridge = ridge(peak=chip.peak(formats.attention), bandwidth=chip.memory_bandwidth)
    reached = limit_of_attention_intensity(model=model, precision=formats).expression
    # The intensity grows with the context towards its limit; on symbols the side stays open.
    side = {
        True: "below it, memory-bound",
        False: "above it for long contexts, compute-bound there",
        None: "memory-bound wherever it is the smaller",
    }[sympy.simplify(reached - at_ridge).is_negative]
    raise NoRidgeError(
        "attention: FLOPs and bytes both grow with the batch, so its intensity "
        f"({_short(reached)} FLOP/B for long contexts) stays on one side of the ridge "
        f"({_short(at_ridge)} FLOP/B) at every batch: {side}"
    )


def _short(expression: sympy.Expr) -> str:
    return f"{float(expression):.3g}" if expression.is_number else str(expression)


# -- the whole step ---------------------------------------------------------------------------


def step_time(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """Time of a decode step: the sum over operations of the larger roof.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        What is stored, moved and computed in.

    Returns
    -------
    ClosedForm
        Time [s], in B, S, and the symbols of the model and the chip.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> form = step_time(model=ModelShape.from_totals(params=8e9))  # Max(16e9/beta, 16e9*B/F)
    >>> form(B=1, F=989e12, beta=3.35e12)
    0.004776119402985075
    """
    found = _step(model, gpu, precision)
    return ClosedForm("time of a decode step", "s", found.time)


def step_intensity(
    *, model: ModelShape | None = None, precision: PrecisionLike = None
) -> ClosedForm:
    """Arithmetic intensity of a whole decode step.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    precision : Precision or str or None
        What is stored and moved in.

    Returns
    -------
    ClosedForm
        Intensity [FLOP/B], in B, S and the model's widths.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> step_intensity(model=ModelShape.from_totals(params=8e9)).expression
    B
    """
    found = sympy.cancel(_step(model, None, precision).intensity)
    return ClosedForm("arithmetic intensity of a decode step", "FLOP/B", found)


def ridge_batch(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """Tokens a pass at which matrix FLOPs take as long as reading the weights, all experts read.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols, one mixture of experts and no attention.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        What weights are stored and computed in.

    Returns
    -------
    ClosedForm
        Tokens [1]: the ridge of a dense model times all its weights over those that a token
        multiplies by. ``perfmodel.ridge_batch`` counts the experts that so few tokens miss, too.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    Of E experts of three matrices each, a token multiplies by k_e; the router is read, too:

    >>> ridge_batch().expression
    E*F*(3*f_e + 1)/(beta*(E + 3*f_e*k_e))
    """
    shape, chip = _subjects(any_experts() if model is None else model, gpu)
    matrices = [op for op in sequences(shape, 1, _formats(precision, shape)) if op.is_product]
    one = balance(matrices, chip, kv=False, activations=False)
    weights = _all_weights_time(shape, chip, sympy.Integer(1), precision, products=True)
    found = _solve(tokens * one.compute, weights, tokens)
    return ClosedForm("ridge batch with all experts read", "1", found)


def step_ridge_batch(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """Sequences at which a decode step's arithmetic takes as long as its weights and KV.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        What is stored and computed in.

    Returns
    -------
    ClosedForm
        Sequences [1], in S and the symbols; past ``critical_context`` there is no such batch. All
        experts are read.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> step_ridge_batch(model=ModelShape.from_totals(params=8e9)).expression
    F/beta
    """
    one = _balance(model, gpu, precision)
    found = _solve(batch * one.compute, one.fixed_memory + batch * one.memory, batch)
    return ClosedForm("ridge batch of a decode step", "1", found, _BELOW)


def critical_context(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """The context past which no batch makes a decode step compute-bound.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers, without windows; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        What is stored and computed in.

    Returns
    -------
    ClosedForm
        Tokens [1].

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If the model has no KV cache that could outgrow its arithmetic.

    Examples
    --------
    >>> coarse = ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072)
    >>> critical_context(model=coarse).expression  # 2 * 8e9 / 131072 * beta / F
    1953125*beta/(16*F)
    """
    one = _balance(model, gpu, precision)
    found = _solve(one.compute, one.memory, context)
    return ClosedForm("critical context", "1", found, "every context has a ridge")


def kv_overtakes_weights(
    *, model: ModelShape | None = None, precision: PrecisionLike = None
) -> ClosedForm:
    """Sequences whose KV cache is as large as all the weights.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers, with a cache; None: symbols.
    precision : Precision or str or None
        What weights and KV are stored in.

    Returns
    -------
    ClosedForm
        Sequences [1], in S and the model's widths.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If there is no cache.

    Examples
    --------
    >>> coarse = ModelShape.from_totals(params=8e9, kv_bytes_per_token=100_000)
    >>> kv_overtakes_weights(model=coarse).expression
    160000/S
    """
    held = _step(model, None, precision).memory
    return ClosedForm(
        "batch whose KV equals the weights", "1", _solve(held.kv, held.weights, batch)
    )


def max_batch_for_time(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """The largest batch whose decode step takes at most t, arithmetic and traffic overlapped.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers; None: symbols.
    precision : Precision or str or None
        What is stored and computed in.

    Returns
    -------
    ClosedForm
        Sequences [1], in t, S and the symbols: the smaller of what each roof allows. Weights, KV
        and all FLOPs are counted, activations are not.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If the model has experts.

    Examples
    --------
    >>> form = max_batch_for_time(model=ModelShape.from_totals(params=8e9))
    >>> round(form(t=0.01, F=989e12, beta=3.35e12), 1)  # 989e12 * 0.01 / 16e9; 4.8 ms of weights
    618.1
    """
    one = _balance(model, gpu, precision)
    if any(op.kind == "experts" for op in _step(model, gpu, precision).operations):
        raise InvalidValueError(
            "model: expected one without experts: which of them a step reads depends on its batch"
        )
    by_compute = _solve(batch * one.compute, target, batch)
    if one.memory == 0:
        # Without a cache the traffic is the weights alone, whatever the batch.
        enough = sympy.Ge(target, one.fixed_memory)
        found = sympy.Piecewise((by_compute, enough), (0, True))
    else:
        by_memory = _solve(one.fixed_memory + batch * one.memory, target, batch)
        found = sympy.Min(by_compute, by_memory)
    return ClosedForm("largest batch for a step time", "1", found, "the weights alone take longer")


def max_context_for_capacity(
    *,
    model: ModelShape | None = None,
    gpu: GpuSpec | None = None,
    precision: PrecisionLike = None,
) -> ClosedForm:
    """The longest context at which weights and KV of B sequences just fill the memory.

    Parameters
    ----------
    model : ModelShape or None
        A model of numbers, with a cache and without windows; None: symbols.
    gpu : GpuSpec or None
        A chip of numbers, with a capacity; None: symbols.
    precision : Precision or str or None
        What weights and KV are stored in.

    Returns
    -------
    ClosedForm
        Tokens [1], in B and the symbols.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    NoRidgeError
        If there is no cache.
    InvalidValueError
        If the chip's capacity is unknown.

    Examples
    --------
    >>> coarse = ModelShape.from_totals(params=8e9, kv_bytes_per_token=100_000)
    >>> max_context_for_capacity(model=coarse).expression
    (C - 16000000000)/(100000*B)
    """
    step = _step(model, gpu, precision)
    held, limit = step.memory, step.model.position_limit
    if held.capacity is None:
        raise InvalidValueError("memory_capacity: required to ask what fits, but missing")
    found = _solve(held.needed, held.capacity, context)
    if limit is not None:
        found = sympy.Min(found, limit)  # learned positions end where they end
    return ClosedForm("longest context for a capacity", "1", found, "the weights alone do not fit")


def _subjects(model: ModelShape | None, gpu: GpuSpec | None) -> tuple[ModelShape, GpuSpec]:
    shape = any_model() if model is None else model
    chip = any_gpu() if gpu is None else gpu
    check_subjects(shape, chip)
    return exact(shape), exact(chip)


def _formats(precision: PrecisionLike, model: ModelShape | None = None) -> Precision:
    """As for the floats: as given, else the checkpoint's own, else bf16."""
    shape, _ = _subjects(model, None)
    return shape.resolve_precision(precision)


def _step(model: ModelShape | None, gpu: GpuSpec | None, precision: PrecisionLike) -> Estimate:
    shape, chip = _subjects(model, gpu)
    group = Group.trusted(count=batch, new=1, past=context - 1, logits=1, shared_past=0)
    formats = _formats(precision, model)
    return estimate_unchecked("decode", shape, chip, (group,), precision=formats)


def _balance(model: ModelShape | None, gpu: GpuSpec | None, precision: PrecisionLike) -> Balance:
    shape, chip = _subjects(model, gpu)
    operations = sequences(shape, context, _formats(precision, model))
    one = balance(operations, chip, kv=True, activations=False)
    return one._replace(fixed_memory=_all_weights_time(shape, chip, context, precision))


def _all_weights_time(
    shape: ModelShape, chip: GpuSpec, length: Any, precision: PrecisionLike, products: bool = False
) -> sympy.Expr:
    """Time to read the weights of a step so large that it is sent to every expert.

    The share of experts that T tokens miss, ``(1 - k/E)^T``, is the only power of the batch.
    """
    operations = sequences(shape, length, _formats(precision, shape), batch)
    read = sum(op.calls * op.weight_bytes for op in operations if op.is_product or not products)
    everything = sympy.sympify(read).replace(
        lambda part: part.is_Pow and part.exp.has(batch), lambda _: sympy.Integer(0)
    )
    return memory_time(nbytes=everything, bandwidth=chip.memory_bandwidth)


def _solve(left: Any, right: Any, unknown: sympy.Symbol) -> sympy.Expr:
    """The one solution of an equation that is linear in the unknown.

    The sign is left to the reader: past a critical context a ridge batch is negative.
    """
    difference = sympy.together(sympy.sympify(left) - sympy.sympify(right))
    try:
        numerator = sympy.Poly(sympy.numer(difference), unknown)
    except sympy.PolynomialError:
        raise InvalidValueError(f"model: {_WINDOWS} {unknown}") from None
    if numerator.degree() != 1:
        raise NoRidgeError(f"the balance does not depend on {unknown}: nothing to solve for")
    slope, rest = numerator.all_coeffs()
    return sympy.factor(sympy.cancel(-rest / slope))
