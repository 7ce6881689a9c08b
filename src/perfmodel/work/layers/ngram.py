"""What a layer learns about the last few tokens themselves: hashed n-grams, looked up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Self

from perfmodel.base._num import Num, ceil_div
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.collective import Collective, all_reduce
from perfmodel.work.layers.cached import Kept
from perfmodel.work.layers.layer import Norm
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import PLAIN, Matrix, Operation, product
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Step

_TOKEN_BYTES: Final = 8  # a token that is remembered, as a 64-bit number


class NGramEmbedding(Recurrent):
    """Rows of one wide table for the n-grams that end at a token, gated into all streams.

    The rows together give a key for every stream and one value; a dilated convolution follows. A
    sequence holds the convolution's last inputs, and the tokens before the next.

    References
    ----------
    Cheng et al., "Conditional Memory via Scalable Lookup: A New Axis of Sparsity for Large Language
    Models", 2026.
    """

    kind: Literal["ngram"] = "ngram"
    """Tells the layers apart."""
    norm: Norm | None = None
    """It norms the streams itself."""
    rows: Count = quantity("V_n", "1", "Rows of the table")
    heads: Count = quantity("h_n", "1", "Rows looked up for a token")
    head_dim: Count = quantity("d_n", "1", "Width of the table")
    channels: Count = quantity("d_c", "1", "Width of all streams together")
    longest: Count = quantity("n_g", "1", "Tokens of the longest n-gram")

    def share(self, parallelism: Parallelism) -> Self:
        """What one device holds: rows of the table divide, the last device's may be fewer."""
        if parallelism.tensor == 1:
            return self
        return self.model_copy(update={"rows": ceil_div(self.rows, parallelism.tensor)})

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """The rows that were found, each by the device that holds it."""
        if parallelism.tensor > 1:
            size = precision.linear.outputs.nbytes(tokens * self.width, tokens)
            name = f"{self.title} sum"
            yield all_reduce(name, size, tokens, calls, parallelism, avoidable=True)

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "n-gram embedding"

    @property
    def width(self) -> Num:
        """Width of all rows of a token together [1]."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> Num:
        """Channels of the convolution: those of all streams [1]."""
        return self.channels

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """A key for every stream, and the value."""
        return (Matrix("key", self.width, self.channels), Matrix("value", self.width, hidden))

    def vectors(self, hidden: Num) -> Num:
        """The table, three norms of all streams, and the convolution [1]."""
        return self.rows * self.head_dim + self.channels * (3 + self.conv_kernel)

    def embedding_params(self, hidden: Num) -> Num:
        """The table, unless it is an earlier layer's [1]."""
        return 0 if self.reused else self.rows * self.head_dim

    def state_bytes(self, precision: Precision) -> Num:
        """The convolution's last inputs, and the tokens before the next [B]."""
        return super().state_bytes(precision) + (self.longest - 1) * _TOKEN_BYTES

    def kept(self, precision: Precision, conv: Format, drafts: int) -> Kept:
        """The convolution's last inputs, and the tokens before the next."""
        found = super().kept(precision, conv, drafts)
        return found._replace(scan=found.scan + (self.longest - 1) * _TOKEN_BYTES)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The lookup, both projections, and the convolution."""
        tokens = step.tokens
        read = precision.rest.nbytes(self.width * tokens, self.heads * tokens)
        written = precision.linear.outputs.nbytes(self.width * tokens, tokens)
        yield Operation.trusted(
            name="n-gram embedding",
            kind="embedding",
            flops=0,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=read + written,
            kv_bytes=0,
            calls=calls,
            compute=precision.head.compute,
            tokens=tokens,
            weights=0,
            pairs=0,
            kernel=PLAIN,
        )
        for cost in self.costs(hidden, precision):
            yield product(cost, tokens=tokens, calls=calls)
        yield self._along(
            "convolution",
            step,
            precision,
            calls,
            flops=2 * self.conv_kernel * self.channels * tokens,
            passed=2 * self.channels,
            state=self.state_bytes(precision),
        )
