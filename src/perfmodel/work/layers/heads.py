"""Mixture of attention heads: each token's queries and results pass a few of many experts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.experts import routed, touched
from perfmodel.work.operation import Matrix, Operation, product
from perfmodel.work.step import Step


class MixtureOfHeads(Attention):
    """Attention whose query and output projections are experts, over keys and values for all.

    Each of the ``top_k`` experts that a token is sent to gives it as many query heads as there are
    key and value heads.

    References
    ----------
    Zhang et al., "Mixture of Attention Heads: Selecting Attention Heads Per Token", 2022.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"router"})
    LACKS: ClassVar[tuple[str, ...]] = (
        "source",
        "indexer",
        "shares_kv",
        "keys_as_values",
        "gate",
        "qkv_bias",
        "gate_bias",
        "qk_norm",
        "masks_keys",
        "qk_shift",
    )

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("kv_heads", "heads")
    REPEATED: ClassVar[tuple[str, ...]] = ()

    kind: Literal["moa"] = "moa"  # type: ignore[assignment]
    """Tells the layers apart."""
    experts: Count = quantity("E_h", "1", "Experts for queries and results")
    top_k: Count = quantity("k_h", "1", "Experts that each token is sent to")

    @model_validator(mode="after")
    def _heads_are_the_experts(self) -> Self:
        if self.top_k > self.experts:
            raise InvalidValueError(
                f"MixtureOfHeads.top_k: expected at most experts={self.experts}, got {self.top_k}"
            )
        if self.heads != self.top_k * self.kv_heads:
            raise InvalidValueError(
                f"MixtureOfHeads.heads: expected top_k * kv_heads={self.top_k * self.kv_heads}, "
                f"got {self.heads}"
            )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "mixture of attention heads"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Router, keys and values for all, and every expert's queries and output."""
        width = self.kv_heads * self.head_dim
        return (
            Matrix("router", hidden, self.experts),
            Matrix("kv", hidden, self.kv_values),
            Matrix("experts_query", hidden, width, self.experts),
            Matrix("experts_output", width, hidden, self.experts),
        )

    def vectors(self, hidden: Num) -> Num:
        """The bias of the result, one for all experts [1]."""
        return hidden if self.output_bias else 0

    def active_params(self, hidden: Num) -> Num:
        """All parameters but the queries and outputs of experts that a token is not sent to [1]."""
        if self.reused:
            return 0
        one = sum([m.inner * m.outer for m in self.matrices(hidden)[-2:]])
        return self.params(hidden) - (self.experts - self.top_k) * one

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Router, keys and values, the queries of the experts, attention, their outputs."""
        router, kv, query, output = self.costs(hidden, precision)
        tokens = step.tokens
        for cost in (router, kv):
            yield product(cost, tokens=tokens, calls=calls)
        rows = self.top_k * tokens
        met = touched(self.experts, self.top_k, tokens, choices=self.experts)
        sent = {"rows": rows, "routes": rows, "width": hidden, "tokens": tokens, "calls": calls}
        yield routed(query, met, **sent)
        yield self._attend(step, tokens, precision, calls)
        yield routed(output, met, **sent)
