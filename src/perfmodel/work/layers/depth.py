"""Attention along the depth of a model: what a layer reads is a mixture of earlier states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.layer import Layer, Norm
from perfmodel.work.operation import PLAIN, Matrix, Operation
from perfmodel.work.step import Step


class DepthAttention(Layer):
    """Learned queries, the same for every token, attend a token's states at the ends of blocks.

    References
    ----------
    Kimi Team, "Attention Residuals", 2026.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["depth"] = "depth"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms the states itself, and has learned nothing for that."""
    queries: Count = quantity("n_q", "1", "Queries, each of which makes one input")
    states: Count = quantity("n_b", "1", "States that a query attends")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "depth attention"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """None: queries are learned, keys and values are the states."""
        return ()

    def vectors(self, hidden: Num) -> Num:
        """The queries [1]."""
        return self.queries * hidden

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Scores and weighted states: 2 FLOPs per query, state and element for each."""
        tokens, pairs = step.tokens, self.queries * self.states
        passed = (self.states + self.queries) * hidden
        yield Operation.trusted(
            name="depth attention",
            kind="attention",
            flops=2 * 2 * pairs * hidden * tokens,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=precision.linear.outputs.nbytes(passed, 1) * tokens,
            kv_bytes=0,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
            pairs=0,
            kernel=PLAIN,
        )


class MessageGate(Layer):
    """Forgets a part of what a layer reads, and adds a part of a message from an earlier pass.

    References
    ----------
    Thinking Machines, "Inkling 2", 2026.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["message_gate"] = "message_gate"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms both inputs itself, and has learned nothing for that."""
    rank: Count = quantity("r_m", "1", "Width that both gates are projected through")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "message gate"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Both inputs onto the rank, and each gate from there."""
        return (
            Matrix("down", 2 * hidden, self.rank),
            Matrix("forget", self.rank, hidden),
            Matrix("message", self.rank, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """None [1]."""
        return 0
