"""From the roof to an expectation: a few named parameters, never hidden in a spec or a formula."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from perfmodel.base._messages import shown
from perfmodel.base._num import Num, is_plain
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import (
    Exponent,
    Flag,
    Name,
    Origin,
    Quantity,
    QuantityOrZero,
    Share,
    Spec,
    checked_num,
    quantity,
)
from perfmodel.machine.forms import (
    AllReduceForm,
    HostForm,
    KernelForm,
    PrefillForm,
    joined,
    slowed_wire,
)
from perfmodel.machine.hardware import GpuSpec

# Whose kernels a format takes where its own are not known. With one static scale, inputs need no
# pass of their own: such kernels are those of bf16 at twice the peak.
NEAREST: Final = {
    "fp8-block": ("fp8",),
    "int8": ("fp8-static",),
    "w4afp8": ("fp8",),
    "mxfp8": ("fp8-block", "fp8"),
    "mxfp4": ("nvfp4",),
    "mxfp4a8": ("nvfp4", "fp8"),
}


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
        slowed = slowed_wire(wire, self.half)
        return self.launch + self.hop * others + slowed / (self.share * bandwidth)


class Band(Spec):
    """How measured times lie about what a form expects: eight of ten are between the two."""

    low: Quantity = quantity("r_{10}", "1", "10th percentile of measured over expected")
    high: Quantity = quantity("r_{90}", "1", "90th percentile of measured over expected")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise InvalidValueError(
                f"Band.low: expected at most high={self.high:g}, got {self.low:g}"
            )
        return self


class KernelEfficiency(Spec):
    """What is known of one kernel of an engine."""

    name: Name
    """The kernel, as ``"matrix.fp8-block"``."""
    form: KernelForm | PrefillForm
    """How long it takes."""
    band: Band | None = None
    """How measured times lie about that; None: not known."""


class CollectiveEfficiency(Spec):
    """What is known of one collective."""

    kind: Name
    """The collective, as ``"all-reduce"``."""
    form: LinkEfficiency | AllReduceForm
    """How long it takes."""
    band: Band | None = None
    """How measured times lie about that; None: not known."""


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
    kernels: tuple[KernelEfficiency, ...] = ()
    """A form for each kernel that is known; others take the shares above."""
    collectives: tuple[CollectiveEfficiency, ...] = ()
    """A form for each collective that is known; others take ``link``."""
    host: HostForm | None = None
    """What an engine adds to the kernels of a step; None: nothing."""
    graphs: Flag = True
    """Whether decode steps replay a graph of kernels; steps that read prompts never do."""
    block_overhead: QuantityOrZero = quantity(
        "t_b", "s", "Time of the small kernels between the matrices of one block", default=0.0
    )
    decode_band: Band | None = None
    """How decode steps lie about what kernels and host make together, beside the kernels' bands."""
    prefill_band: Band | None = None
    """The same of steps that read prompts."""
    engine: Name = ""
    """Whose kernels they are; empty: of no particular engine."""
    known: Literal["", "chip", "family", "unknown"] = ""
    """Whether they are fitted to this chip, to chips of its family, or to others."""
    origins: tuple[Origin, ...] = Field(default=(), repr=False)
    """Where the values come from, one origin a field."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The five shares and overheads; of what is known of kernels, whose it is."""
        whose = (name for name in ("engine", "known") if getattr(self, name))
        shown = (*list(type(self).model_fields)[:5], *whose)
        return ((name, getattr(self, name)) for name in shown)

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
        return joined(compute, memory, self.exponent) + self.call_overhead

    def kernel(self, name: str) -> KernelEfficiency | None:
        """What is known of a kernel, or of the nearest to it that is known.

        Parameters
        ----------
        name : str
            As ``"matrix.fp8-block"``; of another format, what is known of bf16 is taken [text].

        Returns
        -------
        KernelEfficiency or None
            None where nothing is known of this kind of kernel.
        """
        found = self._kernels.get(name)
        if found is None and self._kernels:
            kind, _, recipe = name.partition(".")
            nearest = (f"{kind}.{other}" for other in (*NEAREST.get(recipe, ()), "bf16"))
            found = next((self._kernels[n] for n in nearest if n in self._kernels), None)
        return found

    def collective(self, kind: str) -> CollectiveEfficiency | None:
        """What is known of a collective.

        Parameters
        ----------
        kind : str
            As ``"all-reduce"`` [text].

        Returns
        -------
        CollectiveEfficiency or None
            None where nothing is known of it.
        """
        return self._collectives.get(kind)

    @cached_property
    def _kernels(self) -> dict[str, KernelEfficiency]:
        return {known.name: known for known in self.kernels}

    @cached_property
    def _collectives(self) -> dict[str, CollectiveEfficiency]:
        return {known.kind: known for known in self.collectives}

    def kernel_time(
        self,
        name: str,
        gpu: GpuSpec,
        *,
        compute: Num,
        memory: Num,
        activations: Num = 0,
        inner: Num = 0,
        prepared: Num = 0,
        tiles: Num = 0,
        exponentials: Num = 0,
        launches: Num = 1,
    ) -> Num:
        """Expected time of a kernel by the form of its name, else by the shares for all.

        Parameters
        ----------
        name : str
            The kernel, as ``"matrix.fp8-block"`` [text].
        gpu : GpuSpec
            The chip.
        compute : float or array or symbol
            Time at the compute roof [s].
        memory : float or array or symbol
            Time at the memory roof [s].
        activations : float or array or symbol
            The part of it that inputs and outputs take [s].
        inner : int or array or symbol
            Elements that each output sums over [1].
        prepared : int or array or symbol
            Input elements that are quantized or sent first [1].
        tiles : int or array or symbol
            Pieces that one multiprocessor works through by itself [1].
        exponentials : float or array or symbol
            Exponentials of a softmax [1].
        launches : float
            Kernels that it counts as [1].

        Returns
        -------
        float or array or symbol
            Expected time, never less than its own roof [s].
        """
        known = self.kernel(name)
        if known is None:
            return self.time(compute=compute, memory=memory)
        form = known.form
        # Where a vendor names no multiprocessors, their number limits nothing.
        share = 0 if gpu.units is None else 1 / gpu.units
        if isinstance(form, PrefillForm):
            clock = gpu.matrix_clock or gpu.boost_clock
            rate = 0 if clock is None else share / clock
            found = form.time(
                compute=compute,
                memory=memory,
                exponentials=exponentials * rate,
                tiles=tiles * share,
            )
        else:
            found = form.time(
                compute=compute,
                memory=memory,
                inner=inner,
                inputs=prepared / gpu.memory_bandwidth,
                activations=activations,
                tiles=tiles * share,
            )
        return found - (1 - launches) * form.launch

    def collective_time(self, kind: str, *, wire: Num, others: Num, bandwidth: Num) -> Num:
        """Expected time of a collective by the form of its kind, else by the one for all.

        Parameters
        ----------
        kind : str
            As ``"all-reduce"`` [text].
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
        """
        known = self.collective(kind)
        form = self.link if known is None else known.form
        if form is None:
            return wire / bandwidth
        return form.time(wire=wire, others=others, bandwidth=bandwidth)


# Unchecked, so that importing perfmodel builds no validator.
IDEAL = Efficiency.trusted(
    compute=1.0,
    memory=1.0,
    call_overhead=0.0,
    step_overhead=0.0,
    exponent=math.inf,
    link=None,
    kernels=(),
    collectives=(),
    host=None,
    graphs=True,
    block_overhead=0.0,
    decode_band=None,
    prefill_band=None,
    engine="",
    known="",
    origins=(),
)
