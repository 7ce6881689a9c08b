"""Symbols for numbers, and specs made of them: what the formulas are handed for a closed form."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import sympy

from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import Spec
from perfmodel.machine.hardware import GpuSpec, PeakFlops
from perfmodel.work.layers import Attention, FeedForward, MixtureOfExperts
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.shape import ModelShape

S = TypeVar("S", bound=Spec)


def symbol(name: str) -> sympy.Symbol:
    """A positive symbol of this name."""
    return sympy.Symbol(name, positive=True)


batch: Final = symbol("B")
"""Sequences, B [1]."""
context: Final = symbol("S")
"""Tokens that a new token attends, itself included, S [1]."""
tokens: Final = symbol("T")
"""Tokens a pass, T [1]."""
inner: Final = symbol("k")
"""Inputs of a matrix, k [1]."""
outer: Final = symbol("n")
"""Outputs of a matrix, n [1]."""
peak: Final = symbol("F")
"""Dense peak of a 16-bit format, F [FLOP/s]."""
bandwidth: Final = symbol("beta")
"""Memory bandwidth, beta [B/s]."""
capacity: Final = symbol("C")
"""Memory capacity, C [B]."""
target: Final = symbol("t")
"""A step time that is asked for, t [s]."""


def exact_number(value: Any) -> Any:
    """A plain number as an exact SymPy number, so that algebra stays exact; else as it is."""
    if type(value) is int:
        return sympy.Integer(value)
    if type(value) is float:
        return sympy.Rational(value)
    return value


def twin(kind: type[S], **given: Any) -> S:
    """A spec whose required quantities are symbols, those of its own fields' declarations.

    Parameters
    ----------
    kind : type of Spec
        ``Attention``, ``FeedForward``, ``GpuSpec``, ...
    **given
        Fields that keep a value of their own.

    Returns
    -------
    Spec
        Unchecked: symbols have no range.

    Raises
    ------
    InvalidValueError
        If it is no kind of spec, or a required field has no symbol and is not given.
    UnknownKeyError
        If it has no field of a given name.

    Examples
    --------
    >>> twin(FeedForward).width
    f
    """
    if not (isinstance(kind, type) and issubclass(kind, Spec)):
        raise InvalidValueError(f"kind: expected a kind of Spec, got {shown(kind)}")
    for name in given:
        if name not in kind.model_fields:
            known = did_you_mean(name, kind.model_fields)
            raise UnknownKeyError(f"{kind.__name__}.{plain(name)}: unknown field; {known}")
    fields: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        extra = field.json_schema_extra
        if field.is_required() and isinstance(extra, dict):
            fields[name] = symbol(str(extra["symbol"]).lstrip("\\"))
        elif not field.is_required():
            fields[name] = field.get_default(call_default_factory=True)
        elif name not in given:
            raise InvalidValueError(f"{kind.__name__}.{name}: required, for it has no symbol")
    return kind.trusted(**fields | given)


def exact(spec: S) -> S:
    """A spec of numbers with the same numbers, made exact for algebra.

    Parameters
    ----------
    spec : Spec
        A model or a chip.

    Returns
    -------
    Spec
        Unchecked; integers and floats are SymPy numbers.

    Raises
    ------
    InvalidValueError
        If it is no spec.
    """
    if not isinstance(spec, Spec):
        raise InvalidValueError(f"spec: expected a model or a chip, got {shown(spec)}")
    return type(spec).trusted(
        **{name: _exact_field(getattr(spec, name)) for name in type(spec).model_fields}
    )


def _exact_field(value: Any) -> Any:
    if isinstance(value, Spec):
        return exact(value)
    if isinstance(value, tuple):
        return tuple(_exact_field(item) for item in value)
    return exact_number(value)


def any_gpu() -> GpuSpec:
    """A chip of symbols: bandwidth beta, capacity C, peak F in 16 bits, 2F in 8, 4F in 4.

    Returns
    -------
    GpuSpec
        Its fp32 and tf32 peaks are symbols of their own.
    """
    peaks = twin(
        PeakFlops,
        fp32=symbol("F_32"),
        tf32=symbol("F_tf32"),
        fp16=peak,
        bf16=peak,
        fp8=2 * peak,
        int8=2 * peak,
        nvfp4=4 * peak,
    )
    return twin(
        GpuSpec,
        name="any chip",
        memory_bandwidth=bandwidth,
        memory_capacity=capacity,
        peak_flops=peaks,
    )


def any_model() -> ModelShape:
    """A dense model of symbols: L blocks, untied ends, no norms or biases.

    Returns
    -------
    ModelShape
        Width d, query heads h, KV heads g, head width d_h, inner width f, vocabulary V.
    """
    block = (twin(Attention, norm=None), twin(FeedForward, norm=None))
    return twin(
        ModelShape,
        name="any model",
        hidden=symbol("d"),
        vocab=symbol("V"),
        blocks=((symbol("L"), block),),
        embedding=Embedding(),
        head=Head(norm=None),
    )


def any_experts() -> ModelShape:
    """A model of symbols that is nothing but mixtures of experts.

    Returns
    -------
    ModelShape
        Width d, E experts of inner width f_e, k_e of them for each token.

    Examples
    --------
    >>> any_experts().params  # a router, and three matrices an expert
    L*(3*E*d*f_e + E*d)
    """
    layer = twin(MixtureOfExperts, norm=None)
    return twin(
        ModelShape,
        name="any mixture of experts",
        hidden=symbol("d"),
        blocks=((symbol("L"), (layer,)),),
    )
