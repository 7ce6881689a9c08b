"""The matrix memory of xLSTM: linear attention with an input and a forget gate a head."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix


class MatrixMemory(Recurrent):
    """A state of ``key_dim x value_dim`` a head, a normalizer of ``key_dim`` and a largest gate.

    References
    ----------
    Beck et al., "xLSTM 7B: A Recurrent LLM for Fast and Efficient Inference", 2025.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads",)

    kind: Literal["mlstm"] = "mlstm"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Heads")
    key_dim: Count = quantity("d_k", "1", "Width of one query or key head")
    value_dim: Count = quantity("d_v", "1", "Width of one value head")
    bias: Flag = False
    """Whether projections and inner norm have biases; the two gates always do."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "mLSTM"

    @property
    def key_width(self) -> Num:
        """Width of all query heads, and of all key heads [1]."""
        return self.heads * self.key_dim

    @property
    def value_width(self) -> Num:
        """Width of all value heads together [1]."""
        return self.heads * self.value_dim

    @property
    def state_values(self) -> Num:
        """Memory, normalizer and largest gate of each head [1]."""
        return self.heads * (self.key_dim * self.value_dim + self.key_dim + 1)

    @property
    def passed_values(self) -> Num:
        """Queries, keys, values and gates in; the result out [1]."""
        return 2 * self.key_width + 2 * self.value_width + 2 * self.heads

    @property
    def token_flops(self) -> Num:
        """Decay, input, sum and output of every number of memory and normalizer [FLOP]."""
        return 5 * self.heads * self.key_dim * (self.value_dim + 1)

    @property
    def chunk_flops(self) -> Num:
        """Scores and values within the chunk, its memory, and what earlier ones give [FLOP]."""
        c, k, v = self.chunk_size, self.key_dim, self.value_dim
        within = 2 * c * c * (k + v)
        between = 2 * 2 * c * k * v
        return self.heads * (within + between)

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys, values and output gate; input and forget gate; output."""
        return (
            Matrix("qkvo", hidden, 2 * self.key_width + 2 * self.value_width),
            Matrix("gates", hidden, 2 * self.heads),
            Matrix("output", self.value_width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Biases of the two gates, the norm of the result, and other biases [1]."""
        found = 2 * self.heads + self.value_width
        if self.bias:
            found = found + 2 * self.key_width + 3 * self.value_width + hidden
        return found
