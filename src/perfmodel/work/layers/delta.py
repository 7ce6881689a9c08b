"""Linear attention with a delta rule: the state forgets what a new key overwrites."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix


class GatedDeltaNet(Recurrent):
    """A state of ``key_dim x value_dim`` a head that decays, and is corrected by each token.

    Each query and key head serves as many value heads as there are for one. A chunk of the chunked
    form starts with two triangular systems, which are no matrix products and are not counted.

    References
    ----------
    Yang, Kautz, Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("key_heads", "value_heads")

    kind: Literal["delta"] = "delta"
    """Tells the layers apart."""
    key_heads: Count = quantity("h_k", "1", "Query and key heads")
    value_heads: Count = quantity("h_v", "1", "Value heads")
    key_dim: Count = quantity("d_k", "1", "Width of one query or key head")
    value_dim: Count = quantity("d_v", "1", "Width of one value head")

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.value_heads % self.key_heads:
            raise InvalidValueError(
                f"GatedDeltaNet.value_heads: expected a multiple of key_heads={self.key_heads}, "
                f"got {self.value_heads}"
            )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "gated delta net"

    @property
    def key_width(self) -> Num:
        """Width of all key heads together [1]."""
        return self.key_heads * self.key_dim

    @property
    def value_width(self) -> Num:
        """Width of all value heads together [1]."""
        return self.value_heads * self.value_dim

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution: queries, keys, values [1]."""
        return 2 * self.key_width + self.value_width

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.value_width * self.key_dim

    @property
    def passed_values(self) -> Num:
        """Queries, keys, values, gate, decay and rate in; the result out [1]."""
        return self.conv_channels + 2 * self.value_width + 2 * self.value_heads

    @property
    def token_flops(self) -> Num:
        """Decay, what the key recalls, its correction, what the query recalls [FLOP]."""
        return 7 * self.state_values

    @property
    def chunk_flops(self) -> Num:
        """Keys and queries on keys, values by them; three products with the state [FLOP]."""
        c, k, v = self.chunk_size, self.key_dim, self.value_dim
        return self.value_heads * (2 * c * c * (2 * k + v) + 3 * 2 * c * k * v)

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys, values and gate; decay and rate; output."""
        return (
            Matrix("qkvz", hidden, self.conv_channels + self.value_width),
            Matrix("decay_rate", hidden, 2 * self.value_heads),
            Matrix("output", self.value_width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Convolution; decay and time step bias a head; the norm of one head [1]."""
        return self.conv_channels * self.conv_kernel + 2 * self.value_heads + self.value_dim


class KimiDeltaAttention(Recurrent):
    """A gated delta net whose state decays key channel by key channel.

    A chunk of the chunked form weighs its pairs of keys, and of queries and keys, channel by
    channel: these are no matrix products and are not counted.

    References
    ----------
    Kimi Team, "Kimi Linear: An Expressive, Efficient Attention Architecture", 2025.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads",)

    kind: Literal["kimi_delta"] = "kimi_delta"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Heads")
    head_dim: Count = quantity("d_h", "1", "Width of one query, key or value head")
    gate_rank: Count | None = quantity(
        "r_g", "1", "Width that decay and gate are projected through; None: at once", default=None
    )

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "Kimi delta attention"

    @property
    def width(self) -> Num:
        """Width of all heads together [1]."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution: queries, keys, values [1]."""
        return 3 * self.width

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.width * self.head_dim

    @property
    def passed_values(self) -> Num:
        """Queries, keys, values, decay, gate and rate in; the result out [1]."""
        return 6 * self.width + self.heads

    @property
    def token_flops(self) -> Num:
        """Decay, what the key recalls, its correction, what the query recalls [FLOP]."""
        return 7 * self.state_values

    @property
    def chunk_flops(self) -> Num:
        """Values and keys corrected, values weighed; three products with the state [FLOP]."""
        c, d = self.chunk_size, self.head_dim
        return self.heads * (3 * 2 * c * c * d + 3 * 2 * c * d * d)

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys and values; decay; rate; gate; output."""
        return (
            Matrix("qkv", hidden, self.conv_channels),
            *self._gate("decay", hidden),
            Matrix("rate", hidden, self.heads),
            *self._gate("gate", hidden),
            Matrix("output", self.width, hidden),
        )

    def _gate(self, name: str, hidden: Num) -> tuple[Matrix, ...]:
        if self.gate_rank is None:
            return (Matrix(name, hidden, self.width),)
        return (
            Matrix(f"{name}_down", hidden, self.gate_rank),
            Matrix(f"{name}_up", self.gate_rank, self.width),
        )

    def vectors(self, hidden: Num) -> Num:
        """Convolution; the decay's bias a channel, its scale a head; the norm of one head [1]."""
        convolution = self.conv_channels * self.conv_kernel
        return convolution + self.width + self.heads + self.head_dim
