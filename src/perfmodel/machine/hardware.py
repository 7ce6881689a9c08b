"""One accelerator, as its vendor states it: no efficiency hides in here."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError, UnsupportedFormatError
from perfmodel.base.spec import Name, Origin, Quantity, Rate, Spec, quantity


class PeakFlops(Spec):
    """Dense peaks, one a number format that the matrix units compute in."""

    fp32: Rate | None = quantity("F_{fp32}", "FLOP/s", "Dense fp32 peak", default=None)
    tf32: Rate | None = quantity("F_{tf32}", "FLOP/s", "Dense tf32 peak", default=None)
    fp16: Rate | None = quantity("F_{fp16}", "FLOP/s", "Dense fp16 peak", default=None)
    bf16: Rate | None = quantity("F_{bf16}", "FLOP/s", "Dense bf16 peak", default=None)
    fp8: Rate | None = quantity("F_{fp8}", "FLOP/s", "Dense fp8 peak", default=None)
    int8: Rate | None = quantity("F_{int8}", "FLOP/s", "Dense int8 peak", default=None)
    nvfp4: Rate | None = quantity("F_{nvfp4}", "FLOP/s", "Dense nvfp4 peak", default=None)

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.formats:
            raise InvalidValueError("PeakFlops: expected a peak for at least one format, got none")
        return self

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats that have a peak."""
        return tuple(name for name in type(self).model_fields if getattr(self, name) is not None)


class GpuSpec(Spec):
    """A chip: how fast it moves bytes, how fast it does arithmetic, how much it holds.

    Peaks are dense; a figure with structured sparsity does not belong here.

    Examples
    --------
    >>> mine = GpuSpec(name="mine", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> mine.peak("bf16") / mine.memory_bandwidth
    295.2238805970149
    """

    name: Name
    """A name to print."""
    memory_bandwidth: Rate = quantity(r"\beta", "B/s", "Peak memory bandwidth")
    peak_flops: PeakFlops = Field(description="Dense peak per format [FLOP/s]")
    memory_capacity: Quantity | None = quantity("C", "B", "Memory as marketed", default=None)
    visible_capacity: Quantity | None = quantity(
        "C_v", "B", "Memory as a program sees it", default=None
    )
    origins: tuple[Origin, ...] = Field(default=(), repr=False)
    """Where the values come from, one origin a field."""

    def peak(self, compute: str) -> float:
        """Dense peak of one format.

        Parameters
        ----------
        compute : str
            The format that is computed in [text].

        Returns
        -------
        float
            The peak [FLOP/s].

        Raises
        ------
        UnsupportedFormatError
            If the chip has none; the message says which it has.

        Examples
        --------
        >>> GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14}).peak("bf16")
        100000000000000.0
        """
        known = isinstance(compute, str) and compute in PeakFlops.model_fields
        found: float | None = getattr(self.peak_flops, compute) if known else None
        if found is None:
            has, wanted = ", ".join(self.peak_flops.formats), compute if known else shown(compute)
            message = f"{self.name} has no {wanted} peak; it has: {has}"
            if known and compute in ("fp8", "int8", "nvfp4") and "bf16" in self.peak_flops.formats:
                message += '. "+compute16" behind a precision computes in bf16'
            raise UnsupportedFormatError(message)
        return found

    @property
    def capacity(self) -> float | None:
        """Memory that a program sees where that is known, else the marketed figure [B]."""
        return self.visible_capacity or self.memory_capacity

    @property
    def capacity_kind(self) -> Literal["visible", "marketed"] | None:
        """Which of the two ``capacity`` is."""
        if self.visible_capacity:
            return "visible"
        return "marketed" if self.memory_capacity else None
