"""A single matrix where other blocks have a whole layer, or an adapter of low rank beside one."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.layer import Layer
from perfmodel.work.operation import Matrix


class Projection(Layer):
    """One matrix from the residual stream onto itself, as a search leaves it in cheap blocks.

    With a ``rank`` it is an adapter: what tells apart the depths that share one block.

    References
    ----------
    Bercovich et al., "Puzzle: Distillation-Based NAS for Inference-Optimized LLMs", 2024;
    Glorioso et al., "The Zamba2 Suite: Technical Report", 2024.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ()

    kind: Literal["projection"] = "projection"
    """Tells the layers apart."""
    inputs: Count | None = quantity(
        "d_{in}", "1", "Width that it reads; None: that of the model", default=None
    )
    outputs: Count | None = quantity(
        "d_{out}", "1", "Width that it writes; None: that of the model", default=None
    )
    rank: Count | None = quantity(
        "r", "1", "Width between two matrices of an adapter; None: one matrix", default=None
    )
    bias: Flag = False
    """Whether it has a bias."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "projection" if self.rank is None else "adapter"

    def read_width(self, hidden: Num) -> Num:
        """Width that it reads [1]."""
        return hidden if self.inputs is None else self.inputs

    def _written_width(self, hidden: Num) -> Num:
        return hidden if self.outputs is None else self.outputs

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The matrix, or both of an adapter."""
        inner, outer = self.read_width(hidden), self._written_width(hidden)
        if self.rank is None:
            return (Matrix("projection", inner, outer),)
        return (Matrix("down", inner, self.rank), Matrix("up", self.rank, outer))

    def vectors(self, hidden: Num) -> Num:
        """The bias [1]."""
        return self._written_width(hidden) if self.bias else 0
