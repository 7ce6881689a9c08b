"""One arithmetic for three kinds of number.

Every formula in perfmodel is written once, with ``+ - * /`` and the functions below, and can
then be read on

* ``int`` and ``float``: one configuration,
* ``numpy.ndarray``: a whole sweep, by broadcasting,
* ``sympy.Expr``: the closed form itself.

This is the only module that may ask what kind of number it holds.
"""

from __future__ import annotations

import sys
from typing import Any, TypeAlias

Num: TypeAlias = Any  # int | float | numpy.ndarray | sympy.Expr

_PLAIN = frozenset({int, float})


def is_plain(*numbers: Num) -> bool:
    """Whether all are ordinary Python numbers, so that they can be validated."""
    return _PLAIN.issuperset(map(type, numbers))


def is_zero(x: Num) -> bool:
    """Whether a number is a plain zero: arrays and symbols stand for work that is there."""
    return type(x) in _PLAIN and bool(x == 0)


def is_symbolic(*numbers: Num) -> bool:
    """Whether any is a SymPy expression (never imports SymPy)."""
    sympy = sys.modules.get("sympy")
    return sympy is not None and any(isinstance(x, sympy.Basic) for x in numbers)


def is_array(x: Num) -> bool:
    """Whether a number is an array of real numbers (never imports NumPy)."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(x, numpy.ndarray) and x.dtype.kind in "iuf"


def maximum(a: Num, b: Num) -> Num:
    """The larger of two numbers: elementwise for arrays, ``Max`` for symbols."""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a >= b else b
    if is_symbolic(a, b):
        import sympy

        return sympy.Max(a, b)
    import numpy as np

    return np.maximum(a, b)


def minimum(a: Num, b: Num) -> Num:
    """The smaller of two numbers: elementwise for arrays, ``Min`` for symbols."""
    if type(a) in _PLAIN and type(b) in _PLAIN:
        return a if a <= b else b
    if is_symbolic(a, b):
        import sympy

        return sympy.Min(a, b)
    import numpy as np

    return np.minimum(a, b)


def ceil_div(a: Num, b: Num) -> Num:
    """``a / b`` rounded up: elementwise for arrays, ``ceiling`` for symbols."""
    if is_symbolic(a, b):
        import sympy

        return sympy.ceiling(a / b)
    return -(-a // b)


def divide(a: Num, b: Num) -> Num:
    """``a / b``, a whole number of plain ones that divide."""
    whole = type(a) is int and type(b) is int and a % b == 0
    return a // b if whole else a / b


def equal(a: Num, b: Num) -> Num:
    """Whether two numbers are equal: elementwise for arrays, an equation for symbols."""
    if is_symbolic(a, b):
        import sympy

        return sympy.Eq(a, b)
    return a == b


def highest(x: Num) -> Num | None:
    """The largest element; None for symbols, which have none."""
    if type(x) in _PLAIN:
        return x
    return None if is_symbolic(x) else x.max()


def where(condition: Num, yes: Num, no: Num) -> Num:
    """``yes`` where the condition holds, else ``no``: elementwise, ``Piecewise`` for symbols."""
    if isinstance(condition, bool):
        return yes if condition else no
    if is_symbolic(condition):
        import sympy

        return sympy.Piecewise((yes, condition), (no, True))
    import numpy as np

    return np.where(condition, yes, no)


def axes_of(*numbers: Num) -> int:
    """The most axes that one of several numbers has; a plain one has none."""
    return max(getattr(x, "ndim", 0) for x in numbers)


def as_array(values: Any) -> Any:
    """Numbers as a float64 array: products of integers must not wrap around at 2**63."""
    import numpy as np

    return np.asarray(values, dtype=np.float64)
