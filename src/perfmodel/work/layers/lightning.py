"""Lightning attention: linear attention whose state decays at a fixed rate a head."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num, where
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix
from perfmodel.work.step import Group


class LightningAttention(Recurrent):
    """A state of ``head_dim x head_dim`` a head, to which every token adds its key and value.

    There is no convolution, and the state is kept like activations. A last, partial chunk of the
    chunked form costs no more than its tokens.

    References
    ----------
    Qin et al., "Lightning Attention-2: A Free Lunch for Handling Unlimited Sequence Lengths in
    Large Language Models", 2024.
    MiniMax, "MiniMax-01: Scaling Foundation Models with Lightning Attention", 2025.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads",)

    kind: Literal["lightning"] = "lightning"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Heads")
    head_dim: Count = quantity("d_h", "1", "Width of one query, key or value head")
    chunk_size: Count = quantity("c_s", "1", "Tokens of a chunk of the chunked form", default=256)

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "lightning attention"

    @property
    def width(self) -> Num:
        """Width of all heads together [1]."""
        return self.heads * self.head_dim

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.width * self.head_dim

    @property
    def passed_values(self) -> Num:
        """Queries, keys, values in; the result out [1]."""
        return 4 * self.width

    @property
    def token_flops(self) -> Num:
        """Decay, what the token adds, what the query recalls [FLOP]."""
        return 5 * self.state_values

    @property
    def chunk_flops(self) -> Num:
        """Queries on keys and values by them; two products with the state [FLOP]."""
        return self._product_flops(self.chunk_size)

    def _product_flops(self, tokens: Num) -> Num:
        return 2 * 2 * self.width * tokens * (tokens + self.head_dim)

    def _scan_flops(self, group: Group) -> Num:
        recurrent = self.token_flops * group.new
        if self.scan == "recurrent":
            return recurrent
        whole, rest = group.new // self.chunk_size, group.new % self.chunk_size
        chunked = whole * self.chunk_flops + self._product_flops(rest)
        return where(group.new <= 1, recurrent, chunked)

    def state_format(self, precision: Precision) -> Format:
        """What the state is stored in: like activations."""
        return precision.linear.outputs

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys and values; gate; output."""
        return (
            Matrix("qkv", hidden, 3 * self.width),
            Matrix("gate", hidden, self.width),
            Matrix("output", self.width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """The norm of the result [1]."""
        return self.width
