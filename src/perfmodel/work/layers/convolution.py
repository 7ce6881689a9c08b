"""Short convolutions, gated or added: the only state is the last few tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.layer import Norm
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix, Operation
from perfmodel.work.step import Step


class ShortConvolution(Recurrent):
    """A convolution over the last few tokens, gated before and after.

    References
    ----------
    Liquid AI, "LFM2 Technical Report", 2025.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("channels",)

    kind: Literal["convolution"] = "convolution"
    """Tells the layers apart."""
    channels: Count = quantity("d_c", "1", "Channels")
    bias: Flag = False
    """Whether convolution and projections have biases."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "short convolution"

    @property
    def conv_channels(self) -> Num:
        """Channels of the convolution [1]."""
        return self.channels

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """In (both gates and the channels) and out."""
        return (
            Matrix("in", hidden, 3 * self.channels),
            Matrix("output", self.channels, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """The convolution, and biases [1]."""
        biases = self.channels + 3 * self.channels + hidden if self.bias else 0
        return self.channels * self.conv_kernel + biases


class ResidualConvolution(Recurrent):
    """A convolution over the last few tokens, added to what goes into it.

    References
    ----------
    Thinking Machines, "Inkling", 2026.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["residual_convolution"] = "residual_convolution"
    """Tells the layers apart."""
    norm: Norm | None = None
    """None: it stands behind a layer, before its result is added."""
    channels: Count = quantity("d_c", "1", "Channels")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "residual convolution"

    @property
    def conv_channels(self) -> Num:
        """Channels of the convolution [1]."""
        return self.channels

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """None."""
        return ()

    def vectors(self, hidden: Num) -> Num:
        """The convolution [1]."""
        return self.channels * self.conv_kernel

    def state_bytes(self, precision: Precision) -> Num:
        """What it saw last, kept like the state of a recurrence [B]."""
        return precision.state.nbytes(self._conv_state_values)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The convolution."""
        yield self._along(
            "convolution",
            step,
            precision,
            calls,
            flops=2 * self.conv_kernel * self.channels * step.tokens,
            passed=2 * self.channels,
            state=self.state_bytes(precision),
        )
