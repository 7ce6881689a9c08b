"""A norm whose result is gated by a narrow network of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.feedforward import activation_step
from perfmodel.work.layers.layer import Layer, norm_step
from perfmodel.work.operation import Matrix, Operation


class GatedNorm(Layer):
    """The norm before a layer, times the sigmoid of a projection down to ``rank`` and up again."""

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["gated_norm"] = "gated_norm"
    """Tells the layers apart."""
    rank: Count = quantity("r_n", "1", "Width between the gate's two projections")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "gated norm"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The gate's projections."""
        return (Matrix("gate_down", hidden, self.rank), Matrix("gate_up", self.rank, hidden))

    def vectors(self, hidden: Num) -> Num:
        """None beside the norm [1]."""
        return 0

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The norm and the gating: nothing is added to the stream here."""
        yield norm_step(
            self.norm or "bare",
            name="norm",
            width=hidden,
            tokens=tokens,
            precision=precision,
            calls=calls,
        )
        yield activation_step(
            width=hidden, gated=True, tokens=tokens, precision=precision, calls=calls
        )
