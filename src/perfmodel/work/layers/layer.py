"""What every kind of layer answers, and the norm that stands before it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Final, Literal, TypeAlias

from perfmodel.base._num import Num
from perfmodel.base.precision import Format, Precision
from perfmodel.base.spec import Spec
from perfmodel.work.operation import (
    Matrix,
    MatrixCost,
    Operation,
    matrix_cost,
    product,
    small_step,
)
from perfmodel.work.step import Group, Step

Norm: TypeAlias = Literal["rms", "layer"]

# Vectors of the hidden width that a norm holds: RMSNorm scales, LayerNorm scales and shifts.
_NORM_VECTORS: Final = {"rms": 1, "layer": 2}
# FLOPs an element, nominally: RMSNorm squares, adds, divides, scales; LayerNorm centres and shifts.
_NORM_FLOPS: Final = {"rms": 4, "layer": 7}


def norm_params(norm: Norm | None, width: Num) -> Num:
    """Parameters of a norm over ``width`` values [1]."""
    return 0 if norm is None else _NORM_VECTORS[norm] * width


def norm_step(
    norm: Norm, *, name: str, width: Num, tokens: Num, precision: Precision, calls: Num
) -> Operation:
    """A norm that runs as its own kernel: every value read once and written once."""
    values = tokens * width
    return small_step(
        name,
        flops=_NORM_FLOPS[norm] * values,
        activation_bytes=2 * precision.linear.outputs.nbytes(values, tokens),
        tokens=tokens,
        compute=precision.attention,
        calls=calls,
    )


class Layer(Spec):
    """One kind of layer; ``hidden`` is the width of the residual stream it reads and writes."""

    norm: Norm | None = "rms"
    """The norm before the layer; None for none."""

    @abstractmethod
    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The weight matrices, in the order they are used.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        tuple of Matrix
            Every matrix once.
        """

    @abstractmethod
    def vectors(self, hidden: Num) -> Num:
        """Biases and norms.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            Parameters that are no matrix [1].
        """

    def params(self, hidden: Num) -> Num:
        """All parameters of one such layer.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            Matrix weights, biases and norms [1].
        """
        return sum(m.inner * m.outer for m in self.matrices(hidden)) + self.vectors(hidden)

    def weight_bytes(self, hidden: Num, precision: Precision) -> Num:
        """What memory holds of one such layer, scales included.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        precision : Precision
            What weights are stored in.

        Returns
        -------
        float or symbol
            Bytes [B].
        """
        stored = precision.linear.weights
        matrices = sum(stored.nbytes(m.inner * m.outer, m.outer) for m in self.matrices(hidden))
        return matrices + precision.rest.nbytes(self.vectors(hidden))

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """KV cache that a group of sequences holds in one such layer after a step.

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.
        kv : Format
            What the cache is stored in.

        Returns
        -------
        float or array or symbol
            Bytes [B].
        """
        return 0

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """What such a layer does in a step, in order.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        step : Step
            Which sequences take part.
        precision : Precision
            What each part is stored, moved and computed in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        iterable of Operation
            Each with as many calls.
        """
        tokens = step.tokens
        for cost in self.costs(hidden, precision):
            yield product(cost, tokens=tokens, calls=calls)

    def costs(self, hidden: Num, precision: Precision) -> tuple[MatrixCost, ...]:
        """What each matrix costs, whatever the step: counted once, for a layer does not change.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        precision : Precision
            What each part is stored, moved and computed in.

        Returns
        -------
        tuple of MatrixCost
            In the order of ``matrices``.
        """
        known = self._costs.get((hidden, precision))
        if known is None:
            known = tuple(matrix_cost(m, precision.linear) for m in self.matrices(hidden))
            self._costs[hidden, precision] = known
        return known

    @cached_property
    def _costs(self) -> dict[tuple[Num, Precision], tuple[MatrixCost, ...]]:
        return {}

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """What is usually fused into its neighbours: the norm before, the addition after.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens of the step [1].
        precision : Precision
            What activations are moved in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        iterable of Operation
            Each with as many calls.
        """
        if self.norm is not None:
            yield norm_step(
                self.norm,
                name="norm",
                width=hidden,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )
        values = tokens * hidden
        yield small_step(
            "residual",
            flops=values,
            activation_bytes=3 * precision.linear.outputs.nbytes(values, tokens),
            tokens=tokens,
            compute=precision.attention,
            calls=calls,
        )
