"""Layers for images alone, which a text without one passes by: held, but not run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, quantity
from perfmodel.work.collective import Collective
from perfmodel.work.layers.experts import MixtureOfExperts
from perfmodel.work.layers.layer import Layer, norm_params
from perfmodel.work.operation import Matrix, Operation
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Step


class CrossAttention(Layer):
    """Attention to an image and the feed-forward layer after it: held, but not run for text.

    References
    ----------
    Grattafiori et al., "The Llama 3 Herd of Models", 2024, section 7.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads", "width")
    REPEATED: ClassVar[tuple[str, ...]] = ("kv_heads",)

    kind: Literal["cross"] = "cross"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Query heads")
    kv_heads: Count = quantity("g", "1", "Key/value heads, over the tokens of the image")
    head_dim: Count = quantity("d_h", "1", "Width of one head")
    width: Count = quantity("f", "1", "Inner width of its feed-forward layer")

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "cross-attention"

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, keys and values, output; then gate and up, and down."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return (
            Matrix("query", hidden, queries),
            Matrix("image_kv", hidden, 2 * keys),
            Matrix("output", queries, hidden),
            Matrix("gate_up", hidden, 2 * self.width),
            Matrix("down", self.width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Norms of queries and keys and before the feed-forward layer; two gates [1]."""
        return 2 * self.head_dim + norm_params("rms", hidden) + 2

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """None: what is not run has no result to add up."""
        return ()

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None: tokens of a text without an image skip the layer."""
        return ()

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None either."""
        return ()


class ImageExperts(MixtureOfExperts):
    """Experts to which tokens of an image are sent, beside others for those of a text.

    References
    ----------
    Baidu ERNIE Team, "ERNIE 4.5 Technical Report", 2025.
    """

    kind: Literal["image_moe"] = "image_moe"  # type: ignore[assignment]
    """Tells the layers apart."""

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "image experts"

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """None: nothing is sent to experts that are not run."""
        return ()

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None: tokens of a text are sent to other experts."""
        return ()

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """None either."""
        return ()
