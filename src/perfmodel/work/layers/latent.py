"""Multi-head latent attention (MLA): the cache is one narrow latent, shared by all heads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, NamedTuple, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._num import Num, equal, is_zero, where
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, Flag, quantity
from perfmodel.work.layers.cached import Cached, CacheFormats
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.kernels import latent_kernel
from perfmodel.work.layers.layer import Layer, norm_params, norm_step
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import Matrix, Operation, product
from perfmodel.work.step import Group, Step

Form: TypeAlias = Literal["auto", "absorbed", "expanded"]
LatentGate: TypeAlias = Literal["value", "head", "query"]


class LatentAttention(Layer):
    """Attention whose keys and values are projected up from a cached latent of ``kv_rank`` numbers.

    Two forms compute the same. *Expanded*, the latent of all that is within reach becomes keys and
    values of every head again. *Absorbed*, the up-projections move to the queries and to the
    result, and all heads attend the latent itself. One new token a sequence is absorbed; a longer
    pass, or one over a past that sequences share, takes the form with fewer FLOPs; ``form`` fixes
    one of them.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V2: A Strong, Economical, and Efficient Mixture-of-Experts Language
    Model", 2024, section 2.1.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"indexer weights"})

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads",)

    kind: Literal["latent"] = "latent"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Query heads")
    query_rank: Count | None = quantity(
        "r_q", "1", "Width of the queries' latent; None: projected at once", default=None
    )
    kv_rank: Count = quantity("r_{kv}", "1", "Width of the cached latent")
    nope_dim: Count = quantity("d_n", "1", "Width of a head's part without positions")
    rope_dim: CountOrZero = quantity(
        "d_r", "1", "Width of the rotary part; its key is cached too; 0 for none"
    )
    value_dim: Count = quantity("d_v", "1", "Width of one value head")
    window: Count | None = quantity(
        "w", "1", "Tokens that a query attends at most, itself included", default=None
    )
    indexer: Indexer | None = None
    """What selects the tokens that a query attends; None: all."""
    form: Form = "auto"
    """Whether keys and values are expanded, or absorbed into queries and result."""
    gate: LatentGate | None = None
    """A projected gate on the result: one a value, one a head, or one a value that is projected
    together with the queries, from their latent before and after its norm; None for none."""
    shares_kv: Flag = False
    """Whether the latent is that of an earlier layer: neither projected nor cached here."""
    down_bias: Flag = False
    """Whether the projections onto the latents have biases."""
    output_bias: Flag = False
    """Whether the output projection has a bias."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.window is not None and self.indexer is not None:
            raise InvalidValueError("LatentAttention.window: expected it or an indexer, got both")
        if self.gate == "query" and self.query_rank is None:
            raise InvalidValueError(
                "LatentAttention.query_rank: required by a gate projected with the queries"
            )
        return self

    @property
    def cached(self) -> Num:
        """Numbers that one token's latent and rotary key are, whoever caches them [1]."""
        return self.kv_rank + self.rope_dim

    @property
    def reach(self) -> Reach:
        """Which of the tokens before it a query attends."""
        most = None if self.indexer is None else self.indexer.top_k
        return Reach(window=self.window, most=most)

    @property
    def title(self) -> str:
        """What a table calls it."""
        return self.reach.prefix + "latent attention"

    @property
    def has_cache(self) -> bool:
        """Whether a sequence holds anything here: the latent, or keys of the indexer."""
        return not self.shares_kv or (self.indexer is not None and not self.indexer.shared)

    @property
    def clips(self) -> bool:
        """Whether a window or a selection bounds what a query attends."""
        return self.window is not None or self.indexer is not None

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Queries, latent, gate, the indexer's, up-projection of keys and values, output."""
        indexer: tuple[Matrix, ...] = ()
        if self.indexer is not None:
            inner = hidden if self.query_rank is None else self.query_rank
            indexer = self.indexer.matrices(hidden, inner)
        latent = () if self.shares_kv else (Matrix("latent", hidden, self.cached),)
        return (
            *self._query_matrices(hidden),
            *latent,
            *self._gate_matrix(hidden),
            *indexer,
            Matrix("kv_up", self.kv_rank, self.heads * (self.nope_dim + self.value_dim)),
            Matrix("output", self.heads * self.value_dim, hidden),
        )

    def _query_matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        queries = self.heads * (self.nope_dim + self.rope_dim)
        if self.query_rank is None:
            return (Matrix("query", hidden, queries),)
        inner, outer = self.query_rank, queries
        if self.gate == "query":
            inner, outer = 2 * inner, outer + self.heads * self.value_dim
        return (
            Matrix("query_down", hidden, self.query_rank),
            Matrix("query_up", inner, outer),
        )

    def _gate_matrix(self, hidden: Num) -> tuple[Matrix, ...]:
        if self.gate == "value":
            return (Matrix("gate", hidden, self.heads * self.value_dim),)
        return (Matrix("gate", hidden, self.heads),) if self.gate == "head" else ()

    def vectors(self, hidden: Num) -> Num:
        """Biases, and the norms of both latents [1]."""
        down = (self.query_rank or 0) + (0 if self.shares_kv else self.cached)
        biases = down if self.down_bias else 0
        if self.output_bias:
            biases = biases + hidden
        indexer = 0 if self.indexer is None else self.indexer.vectors()
        return biases + norm_params("rms", self._normed) + indexer

    @property
    def _normed(self) -> Num:
        """Numbers of both latents that are normed here [1]."""
        return (self.query_rank or 0) + (0 if self.shares_kv else self.kv_rank)

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """Latents, and keys of the indexer, that a group holds in one such layer [B]."""
        values = 0 if self.shares_kv else self.cached
        if self.indexer is not None:
            values = values + self.indexer.cached
        return kv.nbytes(values) * self.reach.held(group)

    def token_cache(self, formats: CacheFormats) -> Cached:
        """Latent and rotary key of one token, or keys and values of all heads; an indexer's key."""
        keys, values, expanded = 0, 0, formats.latents == "expanded"
        if not self.shares_kv and expanded:
            keys = formats.keys.nbytes(self.heads * (self.nope_dim + self.rope_dim))
            values = formats.values.nbytes(self.heads * self.value_dim)
        elif not self.shares_kv:
            keys = formats.keys.nbytes(self.kv_rank) + formats.rotary.nbytes(self.rope_dim)
            if formats.latents == "transposed":
                values = formats.values.nbytes(self.kv_rank)
        if self.indexer is not None:
            keys = keys + formats.indexer.nbytes(self.indexer.cached)
        return Cached(keys, values, window=self.window, latent=not expanded)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Projections, the selection where there is one, the up-projection, attention, output."""
        *before, up, output = self.costs(hidden, precision)
        tokens, values, kv = step.tokens, precision.linear.outputs, precision.kv
        for cost in before:
            yield product(cost, tokens=tokens, calls=calls)
        if self.indexer is not None and not self.indexer.shared:
            yield self.indexer.select(step, precision, calls)
        formed = [self._form(group) for group in step.groups]
        rows = sum([f.rows for f in formed])
        split = sum([f.split for f in formed])
        pairs = sum([f.twice_pairs for f in formed]) / 2
        yield Operation.trusted(
            name=up.name,
            kind="linear",
            flops=2 * up.weights * rows,
            weight_bytes=up.weight_bytes,
            least_weight_bytes=up.weight_bytes,
            activation_bytes=values.nbytes(sum([f.up_values for f in formed]), tokens),
            kv_bytes=kv.nbytes(self.kv_rank) * split,
            calls=calls,
            compute=up.compute,
            tokens=rows,
            weights=up.weights,
            pairs=0,
            kernel=up.kernel,
        )
        yield Operation.trusted(
            name=self.title,
            kind="attention",
            flops=sum([f.attention_flops for f in formed]),
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=values.nbytes(sum([f.attention_values for f in formed]), tokens),
            kv_bytes=kv.nbytes(self.cached) * sum([f.whole for f in formed])
            + kv.nbytes(self.rope_dim) * split,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
            pairs=pairs,
            kernel=latent_kernel(step, precision, heads=self.heads),
        )
        yield product(output, tokens=tokens, calls=calls)

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Norms of the latents."""
        if not is_zero(self._normed):
            yield norm_step(
                "rms",
                name="latent norm",
                width=self._normed,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )

    def _form(self, group: Group) -> _Formed:
        """The work of a group in the form that is asked for, or that is the cheaper one."""
        single = is_zero(group.new - 1) and is_zero(group.shared_past)
        if self.form == "absorbed" or (self.form == "auto" and single):
            return self._absorbed(group)
        if self.form == "expanded":
            return self._expanded(group)
        absorbed, expanded = self._absorbed(group), self._expanded(group)
        up = 2 * self.kv_rank * self.heads * (self.nope_dim + self.value_dim)
        fewer = (
            absorbed.attention_flops + up * absorbed.rows
            <= expanded.attention_flops + up * expanded.rows
        )
        # Of a sweep, as of a single step: one new token that shares nothing is absorbed.
        alone, single = equal(group.shared_past, 0), equal(group.new, 1)
        return _Formed(
            *(
                where(single, where(alone, one, cheaper), cheaper)
                for one, cheaper in (
                    (one, where(fewer, one, other))
                    for one, other in zip(absorbed, expanded, strict=True)
                )
            )
        )

    def _moved(self, reach: Reach, group: Group) -> Num:
        """Cached tokens that move; those of an earlier layer are read here, not written."""
        return reach.read(group) if self.shares_kv else reach.moved(group)

    def _absorbed(self, group: Group) -> _Formed:
        """Queries are taken to the latent, and the result from it; attention reads the cache."""
        new = group.count * group.new
        twice_pairs = group.count * self.reach.twice_pairs(group)
        through = self.nope_dim + self.kv_rank + self.kv_rank + self.value_dim
        return _Formed(
            rows=new,
            up_values=new * self.heads * through,
            attention_flops=self.heads * (self.cached + self.kv_rank) * twice_pairs,
            attention_values=new * self.heads * (self.cached + self.kv_rank),
            whole=self._moved(self.reach, group),
            split=0,
            twice_pairs=twice_pairs,
        )

    def _expanded(self, group: Group) -> _Formed:
        """Keys and values of all tokens within reach: a selection may be another a query."""
        within = Reach(window=self.window)
        new = group.count * group.new
        rows = within.moved(_past_of(group)) + new
        twice_pairs = group.count * self.reach.twice_pairs(group)
        key = self.nope_dim + self.rope_dim
        expanded = rows * self.heads * (self.nope_dim + self.value_dim)
        return _Formed(
            rows=rows,
            up_values=new * self.kv_rank + expanded,
            attention_flops=self.heads * (key + self.value_dim) * twice_pairs,
            attention_values=new * self.heads * (key + self.value_dim) + expanded,
            whole=0,
            split=self._moved(within, group),
            twice_pairs=twice_pairs,
        )


def _past_of(group: Group) -> Group:
    """A group before it adds anything."""
    return Group.trusted(
        count=group.count, new=0, past=group.past, logits=0, shared_past=group.shared_past
    )


class _Formed(NamedTuple):
    """What one form makes of a group of sequences."""

    rows: Num  # through the up-projection
    up_values: Num  # in and out of it, the cache apart
    attention_flops: Num
    attention_values: Num  # in and out of attention, the cache apart
    whole: Num  # cached tokens that attention reads
    split: Num  # cached tokens of which the up-projection reads the latent, attention the key
    twice_pairs: Num
