"""Full and sliding-window attention with grouped queries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num, maximum, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Format, Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.layer import Layer, norm_params, norm_step
from perfmodel.work.operation import Matrix, Operation, product
from perfmodel.work.step import Group, Step


class Attention(Layer):
    """Attention in which ``heads`` query heads share ``kv_heads`` key and value heads.

    References
    ----------
    Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
    Checkpoints", 2023.
    """

    kind: Literal["attention"] = "attention"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Query heads")
    kv_heads: Count = quantity("g", "1", "Key/value heads")
    head_dim: Count = quantity("d_h", "1", "Width of one head")
    window: Count | None = quantity(
        "w", "1", "Tokens that a query attends at most, itself included", default=None
    )
    qkv_bias: Flag = False
    """Whether the QKV projection has a bias."""
    output_bias: Flag = False
    """Whether the output projection has a bias."""
    qk_norm: Flag = False
    """Whether queries and keys are normed, head by head."""

    @model_validator(mode="after")
    def _queries_share_evenly(self) -> Self:
        if self.heads % self.kv_heads:
            raise InvalidValueError(
                f"Attention.heads: expected a multiple of kv_heads={self.kv_heads}, "
                f"got {self.heads}"
            )
        return self

    @property
    def query_width(self) -> Num:
        """Width of all query heads together [1]."""
        return self.heads * self.head_dim

    @property
    def kv_values(self) -> Num:
        """Numbers that one token adds to the cache of one such layer: its key and its value [1]."""
        return 2 * self.kv_heads * self.head_dim

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The fused query, key and value projection, and the output projection."""
        return (
            Matrix("qkv", hidden, self.query_width + self.kv_values),
            Matrix("output", self.query_width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Biases, the norm before, and the norms of queries and keys (one head wide) [1]."""
        qkv_bias = self.query_width + self.kv_values if self.qkv_bias else 0
        output_bias = hidden if self.output_bias else 0
        qk_norms = 2 * self.head_dim if self.qk_norm else 0
        return qkv_bias + output_bias + qk_norms + norm_params(self.norm, hidden)

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """KV cache that a group holds in one such layer after the step [B]."""
        return kv.nbytes(self.kv_values) * kv_tokens_held(group, self.window)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """QKV projection, attention itself, output projection."""
        qkv, output = self.costs(hidden, precision)
        tokens = step.tokens
        yield product(qkv, tokens=tokens, calls=calls)
        yield self._attend(step, tokens, precision, calls)
        yield product(output, tokens=tokens, calls=calls)

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Norm, norms of queries and keys, residual addition."""
        norm_and_residual = list(super().small_steps(hidden, tokens, precision, calls))
        yield from norm_and_residual[:-1]
        if self.qk_norm:
            yield norm_step(
                "rms",
                name="qk norm",
                width=self.query_width + self.kv_heads * self.head_dim,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )
        yield norm_and_residual[-1]

    def _attend(self, step: Step, tokens: Num, precision: Precision, calls: Num) -> Operation:
        """Scores and weighted values: 4 FLOPs per pair and head element; queries in, result out."""
        twice_pairs = sum(g.count * twice_pairs_attended(g, self.window) for g in step.groups)
        cached = sum(kv_tokens_moved(g, self.window) for g in step.groups)
        query_bytes = precision.linear.outputs.nbytes(self.query_width, 1)
        return Operation.trusted(
            name="attention" if self.window is None else "window attention",
            kind="attention",
            flops=2 * self.query_width * twice_pairs,
            weight_bytes=0,
            activation_bytes=2 * query_bytes * tokens,
            kv_bytes=precision.kv.nbytes(self.kv_values) * cached,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
        )


def twice_pairs_attended(group: Group, window: Num | None) -> Num:
    """Twice the (query, key) pairs of one head and one sequence: an integer without a division.

    ``new`` causal queries over ``past`` keys attend ``new * past + new (new + 1) / 2`` pairs; a
    query whose context is longer than the window attends ``window`` keys.

    Parameters
    ----------
    group : Group
        New and past tokens of the sequence.
    window : int or None
        Tokens that a query attends at most [1].

    Returns
    -------
    int or array or symbol
        Twice the number of pairs [1].

    Examples
    --------
    >>> twice_pairs_attended(Group(count=1, new=3), None)  # 1 + 2 + 3 pairs
    12
    >>> twice_pairs_attended(Group(count=1, new=3, past=1), 3)  # 2 + 3 + 3 pairs
    16
    """
    new, past = group.new, group.past
    if window is None:
        return new * (2 * past + new + 1)
    whole = minimum(maximum(window - past, 0), new)  # queries that the window does not clip yet
    return whole * (2 * past + whole + 1) + 2 * (new - whole) * window


def kv_tokens_moved(group: Group, window: Num | None) -> Num:
    """Cached tokens that a group moves in one layer: the past read, the new written [1].

    A window reads at most ``window - 1`` past tokens and keeps at most ``window`` new ones. A past
    that all sequences share is read once.

    Parameters
    ----------
    group : Group
        Sequences with their new, past and shared tokens.
    window : int or None
        Tokens that a query attends at most [1].

    Returns
    -------
    int or array or symbol
        Tokens whose keys and values move [1].

    Examples
    --------
    >>> kv_tokens_moved(Group(count=8, new=1, past=99), None)  # exactly the context, each
    800
    >>> kv_tokens_moved(Group(count=8, new=1, past=99, shared_past=90), None)
    170
    """
    past, new, shared = group.past, group.new, group.shared_past
    if window is not None:
        # The first new query sees the last window - 1 past tokens; of the shared past, the rest.
        shared = maximum(shared - maximum(past + 1 - window, 0), 0)
        past = minimum(past, window - 1)
        new = minimum(new, window)
    return shared + group.count * (past - shared + new)


def kv_tokens_held(group: Group, window: Num | None) -> Num:
    """Tokens that a group keeps cached in one layer after the step [1].

    A window keeps no more than itself. A past that all sequences share is held once, as far as
    the window still reaches it.

    Parameters
    ----------
    group : Group
        Sequences with their new, past and shared tokens.
    window : int or None
        Tokens that a query attends at most [1].

    Returns
    -------
    int or array or symbol
        Tokens whose keys and values are held [1].

    Examples
    --------
    >>> kv_tokens_held(Group(count=8, new=1, past=99), 64)
    512
    """
    context, shared = group.context, group.shared_past
    if window is not None:
        shared = maximum(shared - maximum(context - window, 0), 0)
        context = minimum(context, window)
    return shared + group.count * (context - shared)
