"""SI multipliers, and printing. Inside perfmodel every number is in SI base units."""

from __future__ import annotations

from typing import Final

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import checked_count

KB: Final = 1e3
MB: Final = 1e6
GB: Final = 1e9
TB: Final = 1e12
KiB: Final = 2.0**10
MiB: Final = 2.0**20
GiB: Final = 2.0**30
GFLOPS: Final = 1e9
TFLOPS: Final = 1e12

_PREFIXES: Final = (
    (1e18, "E"),
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
    (1e-12, "p"),
    (1e-15, "f"),
)


def si(value: float, unit: str, digits: int = 3) -> str:
    """Format a number with an SI prefix.

    Parameters
    ----------
    value : float
        The number, in ``unit`` [unit].
    unit : str
        An SI unit, such as ``"B/s"`` [text].
    digits : int
        Significant digits [1].

    Returns
    -------
    str
        For instance ``"3.35 TB/s"``.

    Raises
    ------
    InvalidValueError
        If the value is not a number, or ``digits`` not a positive whole number.

    Examples
    --------
    >>> si(3.35e12, "B/s")
    '3.35 TB/s'
    >>> si(0.0047761, "s")
    '4.78 ms'
    >>> si(999.9996, "B")
    '1.00 kB'
    """
    digits = min(checked_count("digits", digits), 17)
    try:
        value = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidValueError(f"value: expected a number, got {shown(value)}") from None
    if value == 0:
        return f"0 {unit}"
    # Round first, so that 999.9996 becomes 1.00 k and not 1e+03.
    value = float(f"{value:.{digits - 1}e}")
    if not _PREFIXES[-1][0] <= abs(value) < 1e3 * _PREFIXES[0][0]:
        return f"{value:.{digits - 1}e} {unit}"
    scale, prefix = next(p for p in _PREFIXES if abs(value) >= p[0])
    scaled = value / scale
    whole_digits = len(str(int(abs(scaled))))
    return f"{scaled:.{max(digits - whole_digits, 0)}f} {prefix}{unit}"
