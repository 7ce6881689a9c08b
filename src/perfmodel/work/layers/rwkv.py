"""The two halves of an RWKV block: a decayed average of all values, and a feed-forward layer."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix


class _Shifted(Recurrent):
    """Mixes each token with the one before it, of which it keeps a copy."""

    shifted: Count = quantity("d_x", "1", "Width of the last token that is kept: the stream's")
    conv_kernel: Count = quantity("k_c", "1", "Tokens that are mixed: this and the last", default=2)
    conv_state: Count | None = quantity("n_c", "1", "Tokens that the state keeps", default=1)

    @property
    def conv_channels(self) -> Num:
        """Numbers kept of the last token [1]."""
        return self.shifted

    @property
    def chunk_flops(self) -> None:
        """None: there is no chunked form, each token by itself [FLOP]."""
        return None


class TimeMix(_Shifted):
    """An average of all values so far, weighted by their keys and decayed channel by channel.

    References
    ----------
    Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", 2023.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("inner",)

    kind: Literal["time_mix"] = "time_mix"
    """Tells the layers apart."""
    inner: Count = quantity("d_i", "1", "Channels of the average")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "time mix"

    @property
    def state_values(self) -> Num:
        """Sum of weighted values, sum of weights, largest exponent of each channel [1]."""
        return 3 * self.inner

    @property
    def passed_values(self) -> Num:
        """Keys, values and receptance in, the average out [1]."""
        return 4 * self.inner

    @property
    def token_flops(self) -> Num:
        """Both sums decayed and added to, for the output and to keep; a quotient [FLOP]."""
        return 11 * self.inner

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Key, value and receptance, each of its own mixture of the two tokens; output."""
        return (
            Matrix("key", hidden, self.inner),
            Matrix("value", hidden, self.inner),
            Matrix("receptance", hidden, self.inner),
            Matrix("output", self.inner, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Decay and first weight a channel, and three mixtures [1]."""
        return 2 * self.inner + 3 * hidden


class ChannelMix(_Shifted):
    """A feed-forward layer whose result is gated by the receptance of the token.

    References
    ----------
    Peng et al., "RWKV: Reinventing RNNs for the Transformer Era", 2023.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("width",)

    kind: Literal["channel_mix"] = "channel_mix"
    """Tells the layers apart."""
    width: Count = quantity("f", "1", "Inner width")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "channel mix"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Key (up), receptance, value (down)."""
        return (
            Matrix("key", hidden, self.width),
            Matrix("receptance", hidden, hidden),
            Matrix("value", self.width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Two mixtures [1]."""
        return 2 * hidden
