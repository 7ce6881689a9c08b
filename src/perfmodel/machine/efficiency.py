"""From the roof to an expectation: a few named parameters, never hidden in a spec or a formula."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from perfmodel.base._num import Num, maximum, minimum
from perfmodel.base.spec import Origin, QuantityOrZero, Share, Spec, positive, quantity


def _exponent(value: Any) -> float:
    """At least 1; infinity, the ideal, is written "Infinity" in JSON."""
    if value in (math.inf, "Infinity"):
        return math.inf
    number = positive(value)
    if number < 1:
        raise ValueError("expected a number of at least 1, or infinity")
    return number


class Efficiency(Spec):
    """How far a real engine stays below the roofs. The default is the ideal: the roofs themselves.

    Examples
    --------
    >>> typical = Efficiency(compute=0.7, memory=0.8)
    >>> typical.time(compute=1e-3, memory=4e-3)  # memory-bound: 4 ms at 80 % of the bandwidth
    0.005
    """

    compute: Share = quantity("e_c", "1", "Share of the peak that is reached", default=1.0)
    memory: Share = quantity("e_b", "1", "Share of the bandwidth that is reached", default=1.0)
    call_overhead: QuantityOrZero = quantity(
        "t_0", "s", "Time that each kernel call adds", default=0.0
    )
    step_overhead: QuantityOrZero = quantity("t_s", "s", "Time that each step adds", default=0.0)
    exponent: Annotated[float, BeforeValidator(_exponent)] = quantity(
        "p", "1", "How the roofs join: infinite is the larger, 1 is the sum", default=math.inf
    )
    origins: tuple[Origin, ...] = Field(default=(), repr=False)

    def time(self, *, compute: Num, memory: Num) -> Num:
        """Expected time of one call, never less than its own roof.

        ``((compute / e_c)^p + (memory / e_b)^p)^(1/p) + t_0``

        Parameters
        ----------
        compute : float or array or symbol
            Time at the compute roof [s].
        memory : float or array or symbol
            Time at the memory roof; above 0 [s].

        Returns
        -------
        float or array or symbol
            Expected time [s].

        Examples
        --------
        >>> Efficiency().time(compute=3.0, memory=4.0)
        4.0
        >>> Efficiency(exponent=2).time(compute=3.0, memory=4.0)
        5.0
        """
        compute, memory = compute / self.compute, memory / self.memory
        longer = maximum(compute, memory)
        if self.exponent == math.inf:
            return longer + self.call_overhead
        # Scaled by the longer of the two, so that no power overflows.
        ratio = minimum(compute, memory) / longer
        return longer * (1 + ratio**self.exponent) ** (1 / self.exponent) + self.call_overhead


# Unchecked, so that importing perfmodel builds no validator.
IDEAL = Efficiency.trusted(
    compute=1.0,
    memory=1.0,
    call_overhead=0.0,
    step_overhead=0.0,
    exponent=math.inf,
    origins=(),
)
