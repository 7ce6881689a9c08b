"""The gated linear recurrent unit: one number of state a channel."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix


class RgLru(Recurrent):
    """A recurrence whose decay and input are gated channel by channel, beside a second branch.

    References
    ----------
    De et al., "Griffin: Mixing Gated Linear Recurrences with Local Attention for Efficient
    Language Models", 2024, section 2.4.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("gate_blocks", "channels")

    kind: Literal["rglru"] = "rglru"
    """Tells the layers apart."""
    channels: Count = quantity("d_r", "1", "Channels")
    gate_blocks: Count = quantity("n_b", "1", "Blocks of channels that the gates mix")

    @model_validator(mode="after")
    def _blocks_are_equal(self) -> Self:
        if self.channels % self.gate_blocks:
            raise InvalidValueError(
                f"RgLru.channels: expected a multiple of gate_blocks={self.gate_blocks}, "
                f"got {self.channels}"
            )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "RG-LRU"

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution [1]."""
        return self.channels

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.channels

    @property
    def passed_values(self) -> Num:
        """Channels, both gates and the other branch in; channels out [1]."""
        return 5 * self.channels

    @property
    def token_flops(self) -> Num:
        """A number's decay: 2 to make it, 1 to apply it; its input: 5 to scale it, 1 [FLOP]."""
        return 9 * self.channels

    @property
    def chunk_flops(self) -> None:
        """None: a state that decays number by number has no chunked form [FLOP]."""
        return None

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Both branches in, both gates block by block, out."""
        block = self.channels if self.gate_blocks == 1 else self.channels // self.gate_blocks
        return (
            Matrix("in", hidden, 2 * self.channels),
            Matrix("gates", block, 2 * block, self.gate_blocks),
            Matrix("output", self.channels, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Biases of all matrices, the convolution with its own, and a decay a channel [1]."""
        biases = 2 * self.channels + 2 * self.channels + hidden
        return biases + self.channels * (self.conv_kernel + 1) + self.channels
