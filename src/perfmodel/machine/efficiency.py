"""From the roof to an expectation: a few named parameters, never hidden in a spec or a formula."""

from __future__ import annotations

import math

from pydantic import Field

from perfmodel.base._messages import shown
from perfmodel.base._num import Num, is_plain, maximum, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import (
    Exponent,
    Origin,
    QuantityOrZero,
    Share,
    Spec,
    checked_num,
    quantity,
)


class LinkEfficiency(Spec):
    """How far a collective stays below its links: four parameters, ideal by default.

    ``launch + hop (n - 1) + (wire + sqrt(half wire)) / (share bandwidth)``

    Examples
    --------
    Around eight devices, 10 MB on the wire at 450 GB/s:

    >>> typical = LinkEfficiency(launch=4.5e-6, hop=1.6e-6, share=0.8, half=5e6)
    >>> round(typical.time(wire=10e6, others=7, bandwidth=450e9) * 1e6, 1)  # us
    63.1
    """

    launch: QuantityOrZero = quantity("a", "s", "Time that each collective adds", default=0.0)
    hop: QuantityOrZero = quantity("b", "s", "Time that each further device adds", default=0.0)
    share: Share = quantity(r"\eta", "1", "Share of the bandwidth that is reached", default=1.0)
    half: QuantityOrZero = quantity(
        "h", "B", "Bytes on the wire at which half of that share is reached", default=0.0
    )

    def time(self, *, wire: Num, others: Num, bandwidth: Num) -> Num:
        """Expected time of one collective over one kind of link.

        Parameters
        ----------
        wire : float or array or symbol
            Bytes that one device sends in one direction [B].
        others : int or array or symbol
            Devices that take part, less one [1].
        bandwidth : float or array or symbol
            Bandwidth of one device in one direction [B/s].

        Returns
        -------
        float or array or symbol
            Time [s].

        Raises
        ------
        InvalidValueError
            If a plain number is negative, NaN or too large, or no number at all, or there is no
            bandwidth.
        """
        checked_num("wire", wire)
        checked_num("others", others)
        checked_num("bandwidth", bandwidth, zero=False)
        slowed = wire + (self.half * wire) ** 0.5
        return self.launch + self.hop * others + slowed / (self.share * bandwidth)


class Efficiency(Spec):
    """How far a real engine stays below the roofs. The default is the ideal: the roofs themselves.

    ``call_overhead`` counts the calls of an estimate: a coarse shape has one or two, a full one a
    few for every block.

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
    exponent: Exponent = quantity(
        "p", "1", "How the roofs join: infinite is the larger, 1 is the sum", default=math.inf
    )
    link: LinkEfficiency | None = None
    """What collectives take beyond their bytes and hops; None: nothing."""
    origins: tuple[Origin, ...] = Field(default=(), repr=False)
    """Where the values come from, one origin a field."""

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

        Raises
        ------
        InvalidValueError
            If a plain number is negative, NaN or too large, or no number at all, or no time is
            spent on memory.

        Examples
        --------
        >>> Efficiency().time(compute=3.0, memory=4.0)
        4.0
        >>> Efficiency(exponent=2).time(compute=3.0, memory=4.0)
        5.0
        """
        if is_plain(compute, memory) and not (compute >= 0 and memory > 0):
            raise InvalidValueError(
                f"compute, memory: expected times of at least 0 and above 0, got "
                f"{shown(compute)}, {shown(memory)}"
            )
        try:
            compute, memory = compute / self.compute, memory / self.memory
        except (TypeError, OverflowError):
            got = f"{shown(compute)}, {shown(memory)}"
            raise InvalidValueError(f"compute, memory: expected numbers, got {got}") from None
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
    link=None,
    origins=(),
)
