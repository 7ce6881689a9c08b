"""What a layer learns about the token itself: a table of its own, gated into the stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from perfmodel.base._num import Num, ceil_div
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.collective import Collective, all_reduce
from perfmodel.work.layers.layer import Layer, Norm
from perfmodel.work.operation import PLAIN, Matrix, Operation, product
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Step


class PerLayerInput(Layer):
    """A narrow row for the token, looked up and projected from its embedding, gates the stream.

    References
    ----------
    Gemma Team, "Gemma 3n", 2025.
    """

    kind: Literal["per_layer"] = "per_layer"
    """Tells the layers apart."""
    norm: Norm | None = None
    """None: the stream itself is read."""
    rows: Count = quantity("V_l", "1", "Rows of the layer's table")
    width: Count = quantity("d_l", "1", "Width of the layer's table")

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
        return "per-layer input"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """From the token's embedding, from the stream, and back into it."""
        return (
            Matrix("embedding_down", hidden, self.width),
            Matrix("gate", hidden, self.width),
            Matrix("output", self.width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """The table, which is looked up [1]."""
        return self.rows * self.width

    def embedding_params(self, hidden: Num) -> Num:
        """The table, unless it is an earlier layer's [1]."""
        return 0 if self.reused else self.rows * self.width

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The lookup, then the products."""
        tokens = step.tokens
        read = precision.rest.nbytes(self.width * tokens, tokens)
        written = precision.linear.outputs.nbytes(self.width * tokens, tokens)
        yield Operation.trusted(
            name="per-layer embedding",
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
