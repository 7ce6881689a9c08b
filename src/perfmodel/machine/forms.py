"""How long kernels take: a small physical form for each kind, every parameter named.

A form reads times at the roofs, which the hardware and the work give, and says what will be seen.
With nothing but defaults it gives the roof itself, and no form ever gives less.
"""

from __future__ import annotations

import math

from perfmodel.base._messages import shown
from perfmodel.base._num import Num, is_plain, is_zero, maximum, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import (
    Exponent,
    NonNegative,
    Quantity,
    QuantityOrZero,
    Share,
    Spec,
    quantity,
)


def joined(compute: Num, memory: Num, exponent: float) -> Num:
    """Two times as one: their sum at exponent 1, the larger at infinity, between them otherwise.

    ``(compute^p + memory^p)^(1/p)``

    Parameters
    ----------
    compute : float or array or symbol
        Time of the arithmetic [s].
    memory : float or array or symbol
        Time of the traffic; above 0 [s].
    exponent : float
        p, at least 1, or infinite [1].

    Returns
    -------
    float or array or symbol
        Time [s].

    Examples
    --------
    >>> joined(3.0, 4.0, exponent=2)
    5.0
    >>> joined(3.0, 4.0, exponent=float("inf"))
    4.0
    """
    longer = maximum(compute, memory)
    if exponent == math.inf:
        return longer
    # Scaled by the longer of the two, so that no power overflows.
    ratio = minimum(compute, memory) / longer
    return longer * (1 + ratio**exponent) ** (1 / exponent)


class KernelForm(Spec):
    """A matrix product, grouped experts, or decode attention. The default is the roof itself.

    ``launch + fill k + prepare m k + ((compute / e_c)^p + (memory / e_b)^p + (tile n)^p)^(1/p)``

    The terms come one after another: a kernel is launched; its pipeline fills along the inner
    length k; the m k inputs are quantized, or sent to their experts; then arithmetic and traffic
    overlap.
    Decode attention works through tiles, one a sequence and KV head: with short contexts it is not
    their bytes that take the time, but their number. Where ``activation`` is given, activations
    move apart from the weights, at their own share of the bandwidth: grouped experts gather and
    scatter rows.

    Examples
    --------
    16 tokens through 4096 x 4096 in bf16, at 1e15 FLOP/s and 3.35e12 B/s:

    >>> typical = KernelForm(compute=0.8, memory=0.9, launch=3.4e-6, fill=2e-10, exponent=2)
    >>> seconds = typical.time(compute=0.537e-6, memory=10.1e-6, inner=4096)
    >>> round(seconds * 1e6, 2)  # us: 3.4 to launch, 0.82 to fill, 11.24 to move and compute
    15.46
    """

    compute: Quantity = quantity(
        "e_c", "1", "Share of the peak that a kernel reaches; above 1 it never binds", default=1.0
    )
    memory: Share = quantity(
        "e_b", "1", "Share of the bandwidth that a kernel reaches", default=1.0
    )
    launch: QuantityOrZero = quantity("t_0", "s", "Time that each kernel adds", default=0.0)
    fill: NonNegative = quantity(  # a fraction of a nanosecond
        r"\tau", "s", "Time that each element of the inner length adds", default=0.0
    )
    exponent: Exponent = quantity(
        "p", "1", "How compute and memory join: infinite is the larger, 1 the sum", default=math.inf
    )
    prepare: QuantityOrZero = quantity(
        "q", "B", "Bytes moved to quantize or route one input element first", default=0.0
    )
    tile: QuantityOrZero = quantity(
        "t_1", "s", "Least time of one tile on its multiprocessor", default=0.0
    )
    activation: Share | None = quantity(
        "e_a", "1", "Share of the bandwidth that activations reach; None: as weights", default=None
    )

    def time(
        self,
        *,
        compute: Num,
        memory: Num,
        inner: Num = 0,
        inputs: Num = 0,
        activations: Num = 0,
        tiles: Num = 0,
    ) -> Num:
        """Expected time of one kernel, never less than its own roof.

        Parameters
        ----------
        compute : float or array or symbol
            Time at the compute roof [s].
        memory : float or array or symbol
            Time at the memory roof, activations included; above 0 [s].
        inner : int or array or symbol
            Elements that each output sums over, k [1].
        inputs : float or array or symbol
            Time at the memory roof of one byte of each input element that is prepared [s].
        activations : float or array or symbol
            The part of ``memory`` that inputs and outputs take; less than all of it [s].
        tiles : float or array or symbol
            Tiles that one multiprocessor works through: sequences times KV heads over
            multiprocessors [1].

        Returns
        -------
        float or array or symbol
            Expected time [s].

        Raises
        ------
        InvalidValueError
            If a plain number is negative or NaN, or no time is spent on memory.

        Examples
        --------
        >>> KernelForm().time(compute=3.0, memory=4.0)
        4.0
        >>> KernelForm(compute=1.6, exponent=2).time(compute=4.0, memory=0.1)  # not below the roof
        4.0
        """
        _checked(compute, memory, inner, inputs, activations, tiles)
        ahead = self.launch + self.fill * inner + self.prepare * inputs / self.memory
        apart = 0 if self.activation is None else activations
        busy = joined(compute / self.compute, (memory - apart) / self.memory, self.exponent)
        if not is_zero(self.tile):
            busy = joined(busy, self.tile * tiles, self.exponent)
        if self.activation is not None:
            busy = busy + activations / self.activation
        return ahead + maximum(busy, maximum(compute, memory))


class PrefillForm(Spec):
    """Attention of many queries. The default is the roof itself.

    ``launch + ((compute / e_c)^p + (memory / e_b)^p)^(1/p) + exponentials / x + tile n``

    A multiprocessor takes few exponentials a clock: 16 up to Blackwell, 32 on Blackwell Ultra.
    Softmax takes one for every pair of query and key of every head, and low precision does not
    make it quicker. A tile, some queries of one head, takes a time of its own before it is at
    full speed: many short prompts are slow for that.

    Examples
    --------
    One sequence of 1,024 tokens and 32 heads, causal, at 132 multiprocessors of 1.83e9 Hz:

    >>> pairs = 32 * 1024 * 1025 / 2
    >>> form = PrefillForm(compute=0.8, memory=0.6, exponent=1, per_clock=16, launch=12e-6)
    >>> seconds = form.time(
    ...     compute=4 * 128 * pairs / 989e12, memory=5e-6, exponentials=pairs / (132 * 1.83e9)
    ... )
    >>> round(seconds * 1e6, 1)  # us: 12 + 10.9 + 8.3 + 4.3
    35.5
    """

    compute: Quantity = quantity(
        "e_c", "1", "Share of the peak that a kernel reaches; above 1 it never binds", default=1.0
    )
    memory: Share = quantity(
        "e_b", "1", "Share of the bandwidth that a kernel reaches", default=1.0
    )
    launch: QuantityOrZero = quantity("t_0", "s", "Time that each kernel adds", default=0.0)
    exponent: Exponent = quantity(
        "p", "1", "How compute and memory join: infinite is the larger, 1 the sum", default=math.inf
    )
    per_clock: Quantity | None = quantity(
        "x", "1", "Exponentials of one multiprocessor in a clock; None: no limit", default=None
    )
    tile: QuantityOrZero = quantity(
        "t_1", "s", "Least time of one tile on its multiprocessor", default=0.0
    )

    def time(self, *, compute: Num, memory: Num, exponentials: Num = 0, tiles: Num = 0) -> Num:
        """Expected time of one kernel, never less than its own roof.

        Parameters
        ----------
        compute : float or array or symbol
            Time at the compute roof [s].
        memory : float or array or symbol
            Time at the memory roof; above 0 [s].
        exponentials : float or array or symbol
            Time of all exponentials at one a clock and multiprocessor: pairs of all heads over
            multiprocessors times clock [s].
        tiles : float or array or symbol
            Tiles of 128 queries that one multiprocessor works through: those of all sequences and
            heads over multiprocessors [1].

        Returns
        -------
        float or array or symbol
            Expected time [s].

        Raises
        ------
        InvalidValueError
            If a plain number is negative or NaN, or no time is spent on memory.

        Examples
        --------
        >>> PrefillForm().time(compute=3.0, memory=4.0)
        4.0
        >>> PrefillForm(exponent=1, per_clock=16).time(compute=3.0, memory=4.0, exponentials=8.0)
        7.5
        """
        _checked(compute, memory, exponentials, tiles)
        busy = joined(compute / self.compute, memory / self.memory, self.exponent)
        if self.per_clock is not None:
            busy = busy + exponentials / self.per_clock
        return self.launch + maximum(busy + self.tile * tiles, maximum(compute, memory))


def slowed_wire(wire: Num, half: float) -> Num:
    """Bytes that take as long at full speed as a message does that is too short for it.

    ``wire + sqrt(half wire)``

    Parameters
    ----------
    wire : float or array or symbol
        Bytes sent [B].
    half : float
        Bytes at which half of the speed is reached [B].

    Returns
    -------
    float or array or symbol
        Bytes [B].

    Examples
    --------
    >>> slowed_wire(5e6, half=5e6)
    10000000.0
    """
    return wire + (half * wire) ** 0.5


class AllReduceForm(Spec):
    """An engine's own all-reduce: in one shot or in two, whichever is sooner. By default the wire.

    ``min(launch + hop (n - 1) + wire n / (2 eta bandwidth),``
    ``second + hop (n - 1) + (wire + sqrt(half wire)) / (eta bandwidth))``

    In one shot every device reads all that the others have, n / 2 times what a ring sends, and
    synchronizes once; in two it reduces a part and gathers the rest.

    Examples
    --------
    8 kB among eight devices at 450e9 B/s, 14.3 kB on a ring's wire:

    >>> form = AllReduceForm(launch=2.5e-6, second=5e-6, hop=1e-7, share=0.7, half=2e5)
    >>> round(form.time(wire=14336, others=7, bandwidth=450e9) * 1e6, 2)  # us: 2.5 + 0.7 + 0.18
    3.38
    """

    launch: QuantityOrZero = quantity("a_1", "s", "Time that one shot adds", default=0.0)
    second: QuantityOrZero = quantity("a_2", "s", "Time that two shots add", default=0.0)
    hop: QuantityOrZero = quantity("b", "s", "Time that each further device adds", default=0.0)
    share: Share = quantity(r"\eta", "1", "Share of the bandwidth that is reached", default=1.0)
    half: QuantityOrZero = quantity(
        "h", "B", "Bytes on the wire at which half of that share is reached", default=0.0
    )

    def time(self, *, wire: Num, others: Num, bandwidth: Num) -> Num:
        """Expected time of one all-reduce over one kind of link.

        Parameters
        ----------
        wire : float or array or symbol
            Bytes that one device of a ring sends in one direction [B].
        others : int or array or symbol
            Devices that take part, less one [1].
        bandwidth : float or array or symbol
            Bandwidth of one device in one direction [B/s].

        Returns
        -------
        float or array or symbol
            Time, never less than that of the wire [s].

        Examples
        --------
        >>> AllReduceForm().time(wire=450e6, others=7, bandwidth=450e9)
        0.001
        """
        reached = self.share * bandwidth
        once = self.launch + wire * (others + 1) / 2 / reached
        twice = self.second + slowed_wire(wire, self.half) / reached
        return self.hop * others + minimum(once, twice)


class StreamForm(Spec):
    """Matrix-vector kernels: a share of the bandwidth, but only so much a clock and multiprocessor.

    ``((e_b bandwidth)^-p + (rate units clock)^-p)^(-1/p)``, a smooth minimum.

    It is why the same kernels reach a smaller share of a faster memory: what a multiprocessor has
    under way is bounded, whatever the memory could deliver.

    Examples
    --------
    108 multiprocessors at 1.41e9 Hz and 6 B a clock carry 0.914e12 B/s of an A100's 2.039e12:

    >>> reached = StreamForm(memory=0.95, rate=6).bandwidth(2.039e12, units=108, clock=1.41e9)
    >>> round(reached / 1e12, 3)
    0.913
    """

    memory: Share = quantity(
        "e_b", "1", "Share of the bandwidth that a kernel reaches", default=1.0
    )
    rate: Quantity | None = quantity(
        "r", "B", "Bytes that one multiprocessor streams in a clock; None: no limit", default=None
    )
    exponent: Exponent = quantity(
        "p", "1", "How both limits join: infinite is the smaller", default=8.0
    )

    def bandwidth(self, bandwidth: Num, *, units: Num, clock: Num) -> Num:
        """The bandwidth that is reached, never more than the memory's.

        Parameters
        ----------
        bandwidth : float or array or symbol
            Of the memory [B/s].
        units : int or array or symbol
            Multiprocessors [1].
        clock : float or array or symbol
            Their clock [Hz].

        Returns
        -------
        float or array or symbol
            Bandwidth [B/s].

        Examples
        --------
        >>> StreamForm().bandwidth(2e12, units=108, clock=1.41e9)
        2000000000000.0
        """
        reached = self.memory * bandwidth
        if self.rate is None:
            return reached
        carried = self.rate * units * clock
        smaller = minimum(reached, carried)
        if self.exponent == math.inf:
            return smaller
        ratio = smaller / maximum(reached, carried)
        return smaller / (1 + ratio**self.exponent) ** (1 / self.exponent)


class HostForm(Spec):
    """What an engine adds to the kernels of a step. The default adds nothing.

    ``constant + sequence n``; and where no graph is replayed, each launch takes ``launch_scale``
    times as long.

    Examples
    --------
    A step for 32 sequences:

    >>> vllm = HostForm(constant=0.3e-3, sequence=9e-6)
    >>> round(vllm.time(sequences=32) * 1e3, 3)  # ms
    0.588
    """

    constant: QuantityOrZero = quantity("h_0", "s", "Time that each step adds", default=0.0)
    sequence: QuantityOrZero = quantity(
        "h_1", "s", "Time that each sequence of a step adds", default=0.0
    )
    launch_scale: Quantity = quantity(
        "s_0", "1", "Launches by the host itself against those of a replayed graph", default=1.0
    )

    def time(self, *, sequences: Num) -> Num:
        """What it adds to one step.

        Parameters
        ----------
        sequences : int or array or symbol
            Sequences in the step [1].

        Returns
        -------
        float or array or symbol
            Time [s].

        Examples
        --------
        >>> HostForm().time(sequences=32)
        0.0
        """
        return self.constant + self.sequence * sequences


def _checked(compute: Num, memory: Num, *others: Num) -> None:
    """Refuse plain numbers that are no times or counts; arrays and symbols pass."""
    if is_plain(compute, memory, *others) and not (
        memory > 0
        and min(compute, memory, *others) >= 0
        and max(compute, memory, *others) < math.inf
    ):
        got = ", ".join(shown(x) for x in (compute, memory, *others))
        raise InvalidValueError(
            f"compute, memory, ...: expected at least 0, and memory above 0, got {got}"
        )


class ServerForm(Spec):
    """What an engine's server adds to a request beside its steps. The default adds nothing.

    A first token reaches its user ``steps`` decode steps and ``delay`` after it is computed, for
    servers look for new requests, and send tokens, only so often. ``interference`` is the time
    that a prompt takes from decoding sequences, over what its kernels take.

    Examples
    --------
    >>> ServerForm(steps=3, delay=0.25).time(step=0.5)
    1.75
    """

    steps: QuantityOrZero = quantity("k", "1", "Steps until a first token is seen", default=0.0)
    delay: QuantityOrZero = quantity("c", "s", "Time until a first token is seen", default=0.0)
    interference: Quantity = quantity(
        r"\gamma", "1", "Time that a prompt takes from decoding, over that of its kernels",
        default=1.0,
    )  # fmt: skip

    def time(self, *, step: Num) -> Num:
        """How much later a first token is seen.

        Parameters
        ----------
        step : float or array or symbol
            Time of a decode step [s].

        Returns
        -------
        float or array or symbol
            Time [s].
        """
        return self.steps * step + self.delay
