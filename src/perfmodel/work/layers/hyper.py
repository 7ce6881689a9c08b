"""Hyper-connections: a residual stream of several copies, read, written and mixed by weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.layer import Layer, Norm, norm_step
from perfmodel.work.operation import Matrix, Operation, small_step


class HyperConnection(Layer):
    """Stands before a layer: from all streams it projects the weights that join them to it.

    ``streams`` weights make the layer's input, as many add its output to each stream, and the
    square of it mix the streams; some models have only a part of them.

    References
    ----------
    Zhu et al., "Hyper-Connections", 2024; Xie et al., "mHC: Manifold-Constrained
    Hyper-Connections", 2025.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"streams"})

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["hyper"] = "hyper"
    """Tells the layers apart."""
    norm: Norm | None = None
    """The norm over all streams has learned nothing."""
    streams: Count = quantity("n_s", "1", "Copies of the residual stream")
    outputs: Count = quantity("n_h", "1", "Weights that are projected for each token")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "hyper-connection"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The projection of all streams together."""
        return (Matrix("streams", self.streams * hidden, self.outputs),)

    def vectors(self, hidden: Num) -> Num:
        """What is added to each weight [1]."""
        return self.outputs

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The norm, and the mixing: every stream read and written, and the layer's two ends."""
        values = tokens * hidden
        yield norm_step(
            "bare",
            name="norm",
            width=self.streams * hidden,
            tokens=tokens,
            precision=precision,
            calls=calls,
        )
        passed = precision.linear.outputs.nbytes(values, tokens)
        yield small_step(
            "mixing",
            flops=2 * self.outputs * values,
            activation_bytes=2 * (self.streams + 1) * passed,
            tokens=tokens,
            compute=precision.attention,
            calls=calls,
        )
