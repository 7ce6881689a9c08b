"""Attention whose queries and keys are convolved along the sequence, and whose values lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.recurrent import states_read
from perfmodel.work.operation import PLAIN, Matrix, Operation, product
from perfmodel.work.step import Step


class ConvolutionalAttention(Attention):
    """Compressed convolutional attention: a KV cache, and a constant state beside it.

    Queries and keys pass a convolution channel by channel, then one head by head that mixes a
    head's channels. Half of every value head is projected from the token before.

    References
    ----------
    Figliolia et al., "Compressed Convolutional Attention: Efficient Attention in a Compressed
    Latent Space", 2025.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset()
    LACKS: ClassVar[tuple[str, ...]] = ("indexer", "masks_keys", "shares_kv")

    kind: Literal["cca"] = "cca"  # type: ignore[assignment]
    """Tells the layers apart."""
    channel_kernel: Count = quantity("k_c", "1", "Tokens that the first convolution sees")
    head_kernel: Count = quantity("k_h", "1", "Tokens that the second convolution sees")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return self.reach.prefix + "convolutional attention"

    @property
    def conv_channels(self) -> Num:
        """Channels of both convolutions: queries and keys [1]."""
        return (self.heads + self.kv_heads) * self.head_dim

    @property
    def state_values(self) -> Num:
        """What both convolutions look back on, and the values that lag [1]."""
        back = self.channel_kernel - 1 + self.head_kernel - 1
        return back * self.conv_channels + self._value_width // 2

    @property
    def _mixing(self) -> Matrix:
        """The second convolution, as one matrix a head."""
        inner = self.head_kernel * self.head_dim
        return Matrix("convolution", inner, self.head_dim, self.heads + self.kv_heads)

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys and values; the convolution of a head's channels; output."""
        qkv, output = super().matrices(hidden)
        return (qkv, self._mixing, output)

    def vectors(self, hidden: Num) -> Num:
        """The first convolution, biases of both, and what attention has [1]."""
        return super().vectors(hidden) + self.conv_channels * (self.channel_kernel + 2)

    def state_bytes(self, precision: Precision) -> Num:
        """What one sequence holds beside its cache, like activations [B]."""
        return precision.linear.outputs.nbytes(self.state_values)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """QKV projection, both convolutions, attention itself, output projection."""
        qkv, mixing, output = self.costs(hidden, precision)
        tokens, heads = step.tokens, self._mixing.copies
        yield product(qkv, tokens=tokens, calls=calls)
        states = sum([group.count + states_read(group) for group in step.groups])
        yield Operation.trusted(
            name="convolution",
            kind="scan",
            flops=2 * tokens * (self.channel_kernel * self.conv_channels + heads * mixing.weights),
            weight_bytes=heads * mixing.weight_bytes,
            least_weight_bytes=heads * mixing.weight_bytes,
            activation_bytes=precision.linear.outputs.nbytes(2 * self.conv_channels, 1) * tokens,
            kv_bytes=self.state_bytes(precision) * states,
            calls=calls,
            compute=mixing.compute,
            tokens=tokens,
            weights=heads * mixing.weights,
            pairs=0,
            kernel=PLAIN,
        )
        yield self._attend(step, tokens, precision, calls)
        yield product(output, tokens=tokens, calls=calls)
