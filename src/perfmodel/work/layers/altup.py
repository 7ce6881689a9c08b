"""Alternating updates: a residual stream of several copies, of which a block runs on one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.layer import Layer, Norm, norm_params
from perfmodel.work.operation import Matrix, Operation, product, small_step
from perfmodel.work.step import Step


class AltUp(Layer):
    """Predicts all streams before a block, and corrects them by what the block made of one.

    References
    ----------
    Baykal et al., "Alternating Updates for Efficient Transformers", 2023.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"router", "predict", "correct"})

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["altup"] = "altup"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms the router's input itself."""
    streams: Count = quantity("n_s", "1", "Copies of the residual stream")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "AltUp"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The router, and what makes coefficients of its outputs."""
        streams = self.streams
        return (
            Matrix("router", hidden, streams),
            Matrix("predict", streams, streams * streams),
            Matrix("correct", streams, streams),
        )

    def vectors(self, hidden: Num) -> Num:
        """The router's norm and the scale of the corrected stream [1]."""
        return norm_params("rms", hidden) + hidden

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The router runs twice: before the block and after it."""
        router, predict, correct = self.costs(hidden, precision)
        yield product(router, tokens=step.tokens, calls=2 * calls)
        yield product(predict, tokens=step.tokens, calls=calls)
        yield product(correct, tokens=step.tokens, calls=calls)

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The mixing of the streams before, and their correction after: all read, all written."""
        streams, values = self.streams, tokens * hidden
        yield small_step(
            "altup",
            flops=(2 * streams + 3) * streams * values,
            activation_bytes=4 * streams * precision.linear.outputs.nbytes(values, tokens),
            tokens=tokens,
            compute=precision.attention,
            calls=calls,
        )


class StreamEnd(Layer):
    """Where one stream becomes several, or several one: a projection for each but the first."""

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["stream_end"] = "stream_end"
    """Tells the layers apart."""
    norm: Norm | None = None
    """None: the streams are projected as they are."""
    streams: Count = quantity("n_s", "1", "Copies of the residual stream")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "stream end"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """All projections as one matrix."""
        return (Matrix("streams", hidden, (self.streams - 1) * hidden),)

    def vectors(self, hidden: Num) -> Num:
        """None [1]."""
        return 0

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None: nothing is added."""
        return ()
