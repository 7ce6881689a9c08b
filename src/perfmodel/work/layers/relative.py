"""Attention with convolved keys and values, and learned biases of relative positions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.recurrent import states_read
from perfmodel.work.operation import PLAIN, Matrix, Operation, product
from perfmodel.work.step import Step


class RelativeAttention(Attention):
    """A short convolution along the sequence of keys and of values, and a bias of every score.

    Each query head projects a few numbers, which mix learned profiles of the bias over distance.
    What the convolutions saw last is a constant state beside the KV cache.

    References
    ----------
    Thinking Machines, "Inkling", 2026.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset()
    LACKS: ClassVar[tuple[str, ...]] = ("indexer", "masks_keys", "shares_kv")

    kind: Literal["relative"] = "relative"  # type: ignore[assignment]
    """Tells the layers apart."""
    profiles: Count = quantity("d_p", "1", "Profiles of the bias over distance")
    extent: Count = quantity("s_p", "1", "Distances that a profile has")
    conv_kernel: Count = quantity("k_c", "1", "Tokens that the convolutions see", default=4)
    dynamic: Flag = False
    """Whether a projection adds to the convolutions' weights, head by head, for each token."""
    sinks: Flag = False
    """Whether a sink is projected for each head."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return self.reach.prefix + "relative attention"

    @property
    def conv_channels(self) -> Num:
        """Channels of both convolutions: keys and values [1]."""
        return self.kv_values

    @property
    def _projected(self) -> Num:
        taps = 2 * self.kv_heads * self.conv_kernel if self.dynamic else 0
        sinks = self.heads if self.sinks else 0
        return super()._projected + self.heads * self.profiles + taps + sinks

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys, values and what else a token projects; the profiles; output."""
        qkv, output = super().matrices(hidden)
        return (qkv, Matrix("profiles", self.profiles, self.extent), output)

    def vectors(self, hidden: Num) -> Num:
        """The convolutions, and what attention has [1]."""
        return super().vectors(hidden) + self.conv_channels * self.conv_kernel

    def state_bytes(self, precision: Precision) -> Num:
        """What the convolutions saw last, kept like the state of a recurrence [B]."""
        return precision.state.nbytes(self.conv_channels * self.conv_kernel)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """QKV projection, both convolutions, the profiles of all heads, attention, output."""
        qkv, profiles, output = self.costs(hidden, precision)
        tokens = step.tokens
        yield product(qkv, tokens=tokens, calls=calls)
        states = sum([group.count + states_read(group) for group in step.groups])
        yield Operation.trusted(
            name="convolution",
            kind="scan",
            flops=2 * self.conv_kernel * self.conv_channels * tokens,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=precision.linear.outputs.nbytes(2 * self.conv_channels, 1) * tokens,
            kv_bytes=self.state_bytes(precision) * states,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
            pairs=0,
            kernel=PLAIN,
        )
        yield product(profiles, tokens=self.heads * tokens, calls=calls)
        yield self._attend(step, tokens, precision, calls)
        yield product(output, tokens=tokens, calls=calls)
