"""An expression with its meaning: to read, to print, to evaluate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy

from perfmodel.base._messages import did_you_mean, plain, shown
from perfmodel.base._num import as_array
from perfmodel.base.errors import InvalidValueError, NoRidgeError, UnknownKeyError
from perfmodel.base.spec import checked_positive, positive
from perfmodel.interfaces._symbols import exact_number, symbol


@dataclass(frozen=True)
class ClosedForm:
    """An expression with its meaning: to read, to print, to evaluate."""

    meaning: str
    """What it is, in words."""
    unit: str
    """The unit of its value."""
    expression: sympy.Expr
    """The expression itself, as SymPy has it."""
    absent: str = ""
    """Why there may be no solution, in words; empty where there always is one."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Names of the free symbols, sorted: the arguments of ``function``."""
        return tuple(sorted(str(symbol) for symbol in self.expression.free_symbols))

    @property
    def latex(self) -> str:
        """The expression in LaTeX."""
        return str(sympy.latex(self.expression))

    def function(self) -> Callable[..., Any]:
        """A NumPy function of the free symbols, by name, or by position as in ``symbols``.

        Returns
        -------
        callable
            Takes floats or arrays, broadcasts, returns what the float path would; NaN where
            there is no solution.
        """
        import numpy as np

        arguments = sorted(self.expression.free_symbols, key=str)
        formula: Callable[..., Any] = sympy.lambdify(arguments, self.expression, "numpy")

        def on_floats(*values: Any, **named: Any) -> Any:
            names, given = self.symbols, len(values)
            if given > len(names) or sorted(named) != list(names[given:]):
                got = [*names[:given], *named]
                raise InvalidValueError(f"symbols: expected {', '.join(names)}, got {shown(got)}")
            floats = [_float_array(x) for x in (*values, *(named[key] for key in names[given:]))]
            try:
                np.broadcast_shapes(*(array.shape for array in floats))
            except ValueError:
                shapes = [array.shape for array in floats]
                raise InvalidValueError(f"symbols: shapes differ: {shown(shapes)}") from None
            with np.errstate(divide="ignore", invalid="ignore"):
                found = formula(*floats)
            if self.absent:
                found = np.where((found > 0) & np.isfinite(found), found, np.nan)
            return found[()] if isinstance(found, np.ndarray) else found

        return on_floats

    def __call__(self, **values: float) -> float:
        """The value at numbers for all free symbols, given by name.

        Raises
        ------
        InvalidValueError
            If a symbol has no value.
        UnknownKeyError
            If a name is not a symbol of the expression.
        NoRidgeError
            If there is no solution at these numbers: the algebra gives none, or a negative one.
        """
        for name in values:
            if name not in self.symbols:
                known = did_you_mean(name, self.symbols)
                raise UnknownKeyError(f"{plain(name)}: not a symbol; {known}")
        for name in self.symbols:
            if name not in values:
                raise InvalidValueError(f"{name}: required, but missing")
        exact = {symbol(name): exact_number(_number(name, value)) for name, value in values.items()}
        number = self.expression.subs(exact)
        if self.absent and not (number.is_finite and number > 0):
            raise NoRidgeError(f"{self.meaning}: {self.absent}")
        return float(number)


def _number(name: str, value: Any) -> int | float:
    """A plain number: a NumPy scalar of few digits would make the algebra as coarse as itself."""
    number = checked_positive(name, value)
    return value if type(value) is int else number


def _float_array(value: Any) -> Any:
    """Floats: in integer arrays, products of sizes would wrap around."""
    import numpy as np

    try:
        given = np.asarray(value)
        if given.dtype.kind == "O":  # fractions, and integers beyond 64 bits
            flat = [positive(item) for item in given.flat]
            return as_array(flat).reshape(given.shape)
        if given.dtype.kind not in "iuf":
            raise TypeError
        return as_array(given)
    except Exception:  # texts, truth values, and objects that only pretend to be numbers
        raise InvalidValueError(f"symbols: expected numbers, got {shown(value)}") from None
