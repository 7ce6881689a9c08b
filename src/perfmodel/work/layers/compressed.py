"""Attention over a window of tokens and, further back, over entries that stand for several."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._messages import shown
from perfmodel.base._num import Num, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.cached import CacheFormats
from perfmodel.work.layers.entries import Entries
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.layer import Layer, norm_params, norm_step
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import PLAIN, Matrix, Operation, grouped, product
from perfmodel.work.step import Group, Step


class CompressedAttention(Layer):
    """Attention whose single key is its value too, compressed where it has left the window.

    Queries come from a latent; an entry merges ``ratio`` tokens by projected gates, or twice as
    many where neighbours overlap; an indexer, with entries of its own, selects among them; the
    result goes out through a latent that is projected group by group.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V4", 2026, section 2.3.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset(
        {"compress", "indexer compress", "indexer weights"}
    )

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads", "output_groups")

    kind: Literal["compressed"] = "compressed"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Query heads")
    head_dim: Count = quantity("d_h", "1", "Width of one head, of the key and of an entry")
    query_rank: Count = quantity("r_q", "1", "Width of the queries' latent")
    window: Count = quantity("w", "1", "Tokens attended uncompressed at most, itself included")
    ratio: Count | None = quantity(
        "m", "1", "Tokens of one compressed entry; None: nothing but the window", default=None
    )
    overlap: Flag = False
    """Whether an entry merges the tokens before its own too, from a second series."""
    indexer: Indexer | None = None
    """What selects the entries that a query attends; None: all."""
    output_groups: Count = quantity("g_o", "1", "Groups of heads in the output projection")
    output_rank: Count = quantity("r_o", "1", "Width of one group's latent of the output")

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.heads * self.head_dim) % self.output_groups:
            raise InvalidValueError(
                f"CompressedAttention.output_groups: expected a divisor of heads * head_dim="
                f"{self.heads * self.head_dim}, got {self.output_groups}"
            )
        if self.ratio is None and (self.overlap or self.indexer is not None):
            raise InvalidValueError(
                "CompressedAttention.ratio: required by an overlap and by an indexer, but missing"
            )
        if self.indexer is not None:
            heads, dim, top_k = self.indexer.heads, self.indexer.dim, self.indexer.top_k
            if self.indexer != Indexer(heads=heads, dim=dim, top_k=top_k):
                raise InvalidValueError(
                    "CompressedAttention.indexer: expected heads, dim and top_k alone, for entries "
                    f"are merged as the layer's own, got {shown(self.indexer)}"
                )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        if self.ratio is None:
            return "window attention"
        return "sparse compressed attention" if self.indexer else "compressed attention"

    @property
    def has_cache(self) -> bool:
        """Whether a sequence holds anything here: a window, and entries."""
        return True

    @property
    def clips(self) -> bool:
        """Whether the work a token stops growing: within the window, always."""
        return True

    @property
    def result_width(self) -> Num:
        """Width of the result of all heads together [1]."""
        return self.heads * self.head_dim

    @property
    def _series(self) -> Num:
        """Numbers of a token for each number of an entry, its gate apart."""
        return 2 if self.overlap else 1

    @property
    def _entry(self) -> Num:
        """Numbers of one entry, that of the indexer included; 0 without any."""
        if self.ratio is None:
            return 0
        return self.head_dim if self.indexer is None else self.head_dim + self.indexer.dim

    @property
    def _merged(self) -> Num:
        """Numbers of a token that its entry is made of, with their gates."""
        return 2 * self._series * self._entry

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, the key, what entries are made of, the indexer's, and both of the output."""
        compress: tuple[Matrix, ...] = ()
        if self.ratio is not None:
            compress = (Matrix("compress", hidden, 2 * self._series * self.head_dim),)
        if self.indexer is not None:
            heads, dim = self.indexer.heads, self.indexer.dim
            compress = (
                *compress,
                Matrix("indexer query", self.query_rank, heads * dim),
                Matrix("indexer compress", hidden, 2 * self._series * dim),
                Matrix("indexer weights", hidden, heads),
            )
        group = self.result_width // self.output_groups
        return (
            Matrix("query_down", hidden, self.query_rank),
            Matrix("query_up", self.query_rank, self.result_width),
            Matrix("key", hidden, self.head_dim),
            *compress,
            Matrix("output_down", group, self.output_rank, self.output_groups),
            Matrix("output_up", self.output_groups * self.output_rank, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Norms of the latent, the key and the entries; what entries add to gates by place [1]."""
        places = 0 if self.ratio is None else self.ratio * self._series * self._entry
        return norm_params("rms", self.query_rank + self.head_dim + self._entry) + places

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """The window, the entries, and what waits to become one: at most a token less than it [B].

        A window's key is its value: held once.
        """
        held = kv.nbytes(self.head_dim) * Reach(window=self.window).held(group)
        if self.ratio is None:
            return held
        waiting = group.count * minimum(group.context, self.ratio - 1)
        entries = kv.nbytes(self._entry) * Entries(self.ratio).held(group)
        return held + entries + kv.nbytes(self._merged) * waiting

    def token_cache(self, formats: CacheFormats) -> None:
        """None: an entry stands for several tokens, and leaves with none of them."""
        return

    def state_bytes(self, precision: Precision) -> Num:
        """What overlapping entries keep of the last tokens merged: a series, and its gates [B]."""
        if not self.overlap:
            return 0
        values = self.ratio * self._entry
        return precision.linear.outputs.nbytes(values) + precision.state.nbytes(values)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Projections, the selection where there is one, attention, both output projections."""
        *before, down, up = self.costs(hidden, precision)
        tokens = step.tokens
        for cost in before:
            yield product(cost, tokens=tokens, calls=calls)
        if self.indexer is not None:
            yield self._select(self.indexer, step, precision, calls)
        yield self._attend(step, precision, calls)
        yield product(grouped(down, self.output_groups), tokens=tokens, calls=calls)
        yield product(up, tokens=tokens, calls=calls)

    def _select(self, indexer: Indexer, step: Step, precision: Precision, calls: Num) -> Operation:
        """The scores of all entries before each query."""
        entries = Entries(self.ratio)
        return indexer.score(
            twice_pairs=sum([g.count * entries.twice_pairs(g) for g in step.groups]),
            kv_bytes=precision.kv.nbytes(indexer.dim)
            * sum([entries.moved(g) for g in step.groups]),
            tokens=step.tokens,
            precision=precision,
            calls=calls,
        )

    def _attend(self, step: Step, precision: Precision, calls: Num) -> Operation:
        """Scores and weighted values, of the window and of the entries."""
        window = Reach(window=self.window)
        twice_pairs = sum([g.count * window.twice_pairs(g) for g in step.groups])
        moved = self.head_dim * sum([window.moved(g) for g in step.groups])
        if self.ratio is not None:
            entries = Entries(self.ratio, None if self.indexer is None else self.indexer.top_k)
            twice_pairs = twice_pairs + sum([g.count * entries.twice_pairs(g) for g in step.groups])
            # What waits is written once and, when its entry is made, read once.
            waiting = 2 * sum([g.count * minimum(g.new, self.ratio - 1) for g in step.groups])
            read = sum([entries.moved(g) for g in step.groups])
            moved = moved + self.head_dim * read + self._merged * waiting
        passed = 2 * self.result_width
        return Operation.trusted(
            name=self.title,
            kind="attention",
            flops=passed * twice_pairs,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=precision.linear.outputs.nbytes(passed, 2) * step.tokens,
            kv_bytes=precision.kv.nbytes(moved),
            calls=calls,
            compute=precision.attention,
            tokens=step.tokens,
            weights=0,
            pairs=twice_pairs / 2,
            kernel=PLAIN,
        )

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Norms of the latent, of each query head and of the key."""
        yield norm_step(
            "rms",
            name="qk norm",
            width=self.query_rank + self.result_width + self.head_dim,
            tokens=tokens,
            precision=precision,
            calls=calls,
        )
