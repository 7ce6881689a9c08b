"""A mixture of experts whose router is a small network of its own."""

from __future__ import annotations

from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.experts import MixtureOfExperts
from perfmodel.work.operation import Matrix


class NetworkRoutedExperts(MixtureOfExperts):
    """Experts behind a router that projects down, and passes two layers of that width.

    A choice of its own may skip the experts; no token is taken to choose it.

    References
    ----------
    Zyphra, "ZAYA1: Training Foundation Models on a Full-Stack AMD Platform", 2025.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset(
        {"router_in", "router_first", "router_second", "router"}
    )

    kind: Literal["network_moe"] = "network_moe"  # type: ignore[assignment]
    """Tells the layers apart."""
    router_rank: Count = quantity("r_r", "1", "Width of the router's layers")
    carries_router: Flag = False
    """Whether the router adds that of the layer before, scaled channel by channel."""

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The router's four, and every expert's two."""
        router, *others = super().matrices(hidden)
        width = self.router_rank
        return (
            Matrix("router_in", hidden, width),
            Matrix("router_first", width, width),
            Matrix("router_second", width, width),
            Matrix("router", width, router.outer),
            *others,
        )

    def vectors(self, hidden: Num) -> Num:
        """The router's norm, three biases, and its scale if it has one; the experts' biases [1]."""
        own = 5 if self.carries_router else 4
        return super().vectors(hidden) + own * self.router_rank
