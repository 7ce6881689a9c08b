"""A whole model as one lump: so many weights, perhaps so much cache a token."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Quantity, quantity
from perfmodel.work.layers.layer import Layer, Norm
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import PLAIN, Matrix, Operation
from perfmodel.work.step import Group, Step


class Totals(Layer):
    """Every parameter a matrix weight; no activations and no attention FLOPs are known.

    The cache is given in numbers a token, whose format is a choice, or in bytes a token.
    """

    LACKS: ClassVar[tuple[str, ...]] = ("norm", "post_norm", "scalars", "reused")

    kind: Literal["totals"] = "totals"
    """Tells the layers apart."""
    norm: Norm | None = None
    """A lump has none."""
    matrix_weights: Count = quantity("n_p", "1", "Parameters, all of them matrix weights")
    kv_values_per_token: Count | None = quantity(
        "n_{kv}", "1", "Numbers that a token adds to the cache", default=None
    )
    kv_bytes_per_token: Quantity | None = quantity(
        "q_{kv}", "B", "Bytes that a token adds to the cache, whatever the format", default=None
    )

    @model_validator(mode="after")
    def _one_way_to_say_it(self) -> Self:
        if self.kv_values_per_token is not None and self.kv_bytes_per_token is not None:
            raise InvalidValueError(
                "Totals.kv_bytes_per_token: expected it or kv_values_per_token, got both"
            )
        return self

    @property
    def has_cache(self) -> bool:
        """Whether the cache is known."""
        return self.kv_values_per_token is not None or self.kv_bytes_per_token is not None

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """One column of all weights: a lump has no rows that could carry scales."""
        return (Matrix("weights", self.matrix_weights, 1),)

    def vectors(self, hidden: Num) -> Num:
        """None are known [1]."""
        return 0

    def weight_bytes(self, hidden: Num, precision: Precision) -> Num:
        """What memory holds; scales a row are left out, scales a block counted [B]."""
        return precision.linear.weights.nbytes(self.matrix_weights)

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """KV cache that a group of sequences holds after a step [B]."""
        return self._kv_bytes(Reach().held(group), kv)

    def _kv_bytes(self, tokens: Num, kv: Format) -> Num:
        if self.kv_bytes_per_token is not None:
            return self.kv_bytes_per_token * tokens
        return kv.nbytes((self.kv_values_per_token or 0) * tokens)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """All weights once, with 2 FLOPs a weight and token; then the cache."""
        tokens, held = step.tokens, self.weight_bytes(hidden, precision)
        yield Operation.trusted(
            name="weights",
            kind="linear",
            flops=2 * self.matrix_weights * tokens,
            weight_bytes=held,
            least_weight_bytes=held,
            activation_bytes=0,
            kv_bytes=0,
            calls=calls,
            compute=precision.linear.compute,
            tokens=tokens,
            weights=self.matrix_weights,
            pairs=0,
            kernel=PLAIN,
        )
        if self.has_cache:
            cached = sum(Reach().moved(group) for group in step.groups)
            yield Operation.trusted(
                name="cache",
                kind="attention",
                flops=0,
                weight_bytes=0,
                least_weight_bytes=0,
                activation_bytes=0,
                kv_bytes=self._kv_bytes(cached, precision.kv),
                calls=calls,
                compute=precision.attention,
                tokens=tokens,
                weights=0,
                pairs=0,
                kernel=PLAIN,
            )

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None are known."""
        return ()
