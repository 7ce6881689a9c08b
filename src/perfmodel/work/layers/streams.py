"""Hyper-connections: several residual streams, of which every layer reads a learned mixture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.layer import Layer, Norm, norm_step
from perfmodel.work.operation import Matrix, Operation, small_step


class GatedResidual(Layer):
    """Norms all streams, gates each value by a projection through a low rank, and takes the mean.

    It stands before the layer that reads the mixture; the layer's result is added to every stream,
    by a weight that it is injected with.

    References
    ----------
    Zhu et al., "Hyper-Connections", 2024.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["gated_residual"] = "gated_residual"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms all streams itself."""
    streams: Count = quantity("n_s", "1", "Residual streams")
    rank: Count = quantity("r_s", "1", "Width that the gates are projected through")
    injects: Flag = True
    """Whether a result is added to the streams afterwards, by a weight each."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "gated residual"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The gates through their rank, and the weights of the result."""
        wide = self.streams * hidden
        inject = (Matrix("inject", wide, self.streams),) if self.injects else ()
        return (Matrix("mix_down", wide, self.rank), Matrix("mix_up", self.rank, wide), *inject)

    def vectors(self, hidden: Num) -> Num:
        """The norm of all streams [1]."""
        return self.streams * hidden

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The norm of all streams, and their gated mean."""
        wide = self.streams * hidden
        yield norm_step(
            "rms", name="stream norm", width=wide, tokens=tokens, precision=precision, calls=calls
        )
        values = precision.linear.outputs
        yield small_step(
            "stream mix",
            flops=2 * wide * tokens,
            activation_bytes=values.nbytes((2 * wide + hidden) * tokens, tokens),
            tokens=tokens,
            compute=precision.attention,
            calls=calls,
        )
