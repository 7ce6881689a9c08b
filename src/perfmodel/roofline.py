"""The roofline: where work meets machine. A few formulas, no state.

``time >= max(FLOPs / peak, bytes / bandwidth)``

References
----------
Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for Multicore
Architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

from perfmodel.base._num import Num, maximum, minimum


def compute_time(*, flops: Num, peak: Num) -> Num:
    """Time of so much arithmetic at the compute roof.

    Parameters
    ----------
    flops : float or array or symbol
        Floating-point operations [FLOP].
    peak : float or array or symbol
        Dense peak of the format computed in [FLOP/s].

    Returns
    -------
    float or array or symbol
        Time [s].

    Examples
    --------
    >>> compute_time(flops=989e12, peak=989e12)
    1.0
    """
    return flops / peak


def memory_time(*, nbytes: Num, bandwidth: Num) -> Num:
    """Time of so much traffic at the memory roof.

    Parameters
    ----------
    nbytes : float or array or symbol
        Bytes moved [B].
    bandwidth : float or array or symbol
        Memory bandwidth [B/s].

    Returns
    -------
    float or array or symbol
        Time [s].

    Examples
    --------
    >>> memory_time(nbytes=16e9, bandwidth=4e12)
    0.004
    """
    return nbytes / bandwidth


def network_time(*, wire: Num, bandwidth: Num, hops: Num = 0, latency: Num = 0) -> Num:
    """Time of so many bytes over a link, after the latency of each hop.

    Parameters
    ----------
    wire : float or array or symbol
        Bytes that one device sends in one direction [B].
    bandwidth : float or array or symbol
        Bandwidth of one device in one direction [B/s].
    hops : int or array or symbol
        Messages one after another [1].
    latency : float or array or symbol
        Latency of one of them [s].

    Returns
    -------
    float or array or symbol
        Time [s].

    Examples
    --------
    >>> network_time(wire=450e6, bandwidth=450e9, hops=14, latency=1e-6)
    0.001014
    """
    return hops * latency + wire / bandwidth


def roofline_time(*, compute: Num, memory: Num) -> Num:
    """The least time of work whose arithmetic and traffic overlap perfectly.

    Parameters
    ----------
    compute : float or array or symbol
        Time at the compute roof [s].
    memory : float or array or symbol
        Time at the memory roof [s].

    Returns
    -------
    float or array or symbol
        Time [s].

    Examples
    --------
    >>> roofline_time(compute=0.001, memory=0.004)
    0.004
    """
    return maximum(compute, memory)


def attainable(*, intensity: Num, peak: Num, bandwidth: Num) -> Num:
    """The roof itself: the best speed at an arithmetic intensity.

    Parameters
    ----------
    intensity : float or array or symbol
        Arithmetic intensity of the work [FLOP/B].
    peak : float or array or symbol
        Dense peak of the format computed in [FLOP/s].
    bandwidth : float or array or symbol
        Memory bandwidth [B/s].

    Returns
    -------
    float or array or symbol
        Speed [FLOP/s].

    Examples
    --------
    >>> attainable(intensity=0.5, peak=164.3e9, bandwidth=15e9)
    7500000000.0
    """
    return minimum(peak, bandwidth * intensity)


def ridge(*, peak: Num, bandwidth: Num) -> Num:
    """The intensity at which both roofs meet: below it work is memory-bound.

    Parameters
    ----------
    peak : float or array or symbol
        Dense peak of the format computed in [FLOP/s].
    bandwidth : float or array or symbol
        Memory bandwidth [B/s].

    Returns
    -------
    float or array or symbol
        Intensity [FLOP/B].

    Examples
    --------
    >>> round(ridge(peak=312e12, bandwidth=2.039e12), 2)
    153.02
    """
    return peak / bandwidth


def break_even(*, fixed_memory: Num, memory: Num, compute: Num) -> Num:
    """The size at which arithmetic takes as long as traffic that grows from a fixed part.

    ``n`` in ``n * compute = fixed_memory + n * memory``. Where ``compute <= memory`` there is
    none: the caller must ask first.

    Parameters
    ----------
    fixed_memory : float or array or symbol
        Time of the traffic that does not depend on the size [s].
    memory : float or array or symbol
        Time of the traffic that each unit adds [s].
    compute : float or array or symbol
        Time of the arithmetic that each unit adds [s].

    Returns
    -------
    float or array or symbol
        Size, in units [1].

    Examples
    --------
    >>> break_even(fixed_memory=6.0, memory=1.0, compute=3.0)
    3.0
    """
    return fixed_memory / (compute - memory)
