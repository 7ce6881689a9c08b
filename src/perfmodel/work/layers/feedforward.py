"""Dense feed-forward layers, plain and gated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.layer import Layer
from perfmodel.work.operation import Matrix, Operation, small_step

# FLOPs an element, nominally: SiLU and a product; GELU by its tanh form.
_GATED_FLOPS = 5
_PLAIN_FLOPS = 8


class FeedForward(Layer):
    """Two matrices (up, down), or three (gate, up, down) when gated; gate and up run fused."""

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("width",)

    kind: Literal["feedforward"] = "feedforward"
    """Tells the layers apart."""
    width: Count = quantity("f", "1", "Inner width")
    gated: Flag = True
    """Whether there is a gate beside the up projection."""
    bias: Flag = False
    """Whether the projections have biases."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "feed-forward"

    @property
    def up_width(self) -> Num:
        """Outputs of the first product: both halves of a gated layer [1]."""
        return 2 * self.width if self.gated else self.width

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The (fused gate and) up projection, and the down projection."""
        name = "gate_up" if self.gated else "up"
        return (Matrix(name, hidden, self.up_width), Matrix("down", self.width, hidden))

    def vectors(self, hidden: Num) -> Num:
        """Biases [1]."""
        return self.up_width + hidden if self.bias else 0

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The activation, with the gating product."""
        yield activation_step(
            width=self.width, gated=self.gated, tokens=tokens, precision=precision, calls=calls
        )


def activation_step(
    *, width: Num, gated: bool, tokens: Num, precision: Precision, calls: Num
) -> Operation:
    """The activation between two products, gated or not, as a kernel of its own."""
    values = tokens * width
    read = precision.linear.outputs.nbytes(2 * values if gated else values, tokens)
    written = precision.linear.inputs.nbytes(values, tokens)
    return small_step(
        "activation",
        flops=(_GATED_FLOPS if gated else _PLAIN_FLOPS) * values,
        activation_bytes=read + written,
        tokens=tokens,
        compute=precision.attention,
        calls=calls,
    )
