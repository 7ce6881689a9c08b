"""Full, sliding-window, chunked and sparse attention with grouped queries."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar, Literal, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, quantity
from perfmodel.work.layers.cached import Cached, CacheFormats
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.kernels import attention_kernel
from perfmodel.work.layers.layer import Layer, norm_step
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import Matrix, Operation, product
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Group, Step

QkNorm: TypeAlias = Literal["head", "full", "bare"]
Gate: TypeAlias = Literal["value", "head"]


class Attention(Layer):
    """Attention in which ``heads`` query heads share ``kv_heads`` key and value heads.

    References
    ----------
    Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from Multi-Head
    Checkpoints", 2023.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"indexer weights"})
    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads",)
    REPEATED: ClassVar[tuple[str, ...]] = ("kv_heads",)

    kind: Literal["attention"] = "attention"
    """Tells the layers apart."""
    heads: Count = quantity("h", "1", "Query heads")
    kv_heads: Count = quantity("g", "1", "Key/value heads")
    head_dim: Count = quantity("d_h", "1", "Width of one head")
    value_dim: Count | None = quantity(
        "d_v", "1", "Width of one value head; None: ``head_dim``", default=None
    )
    window: Count | None = quantity(
        "w", "1", "Tokens that a query attends at most, itself included", default=None
    )
    chunk: Count | None = quantity(
        "c", "1", "Tokens of a chunk, outside of which no query attends", default=None
    )
    source: Count | None = quantity(
        "d_s", "1", "Width that it reads, norms and projects; None: that of the model", default=None
    )
    indexer: Indexer | None = None
    """What selects the tokens that a query attends; None: all."""
    shares_kv: Flag = False
    """Whether keys and values are those of an earlier layer: neither projected nor cached here."""
    keys_as_values: Flag = False
    """Whether one projection gives both keys and values; both are cached."""
    gate: Gate | None = None
    """A projected gate on the result, one a value or one a head; None for none."""
    qkv_bias: Flag = False
    """Whether the QKV projection has a bias."""
    gate_bias: Flag = True
    """Whether a gate shares in the bias of the QKV projection."""
    output_bias: Flag = False
    """Whether the output projection has a bias."""
    qk_norm: QkNorm | None = None
    """The norm of queries and keys: head by head with one scale, a scale for each of their values,
    or a bare one that has learned nothing."""
    differential: Flag = False
    """Whether each head weighs the values of two heads and differences are taken, which standard
    kernels do in two passes."""
    masks_keys: Flag = False
    """Whether a projection of the values onto one number a head masks keys."""
    qk_shift: Flag = False
    """Whether the norms of queries and keys shift as well as scale."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.heads % self.kv_heads:
            raise InvalidValueError(
                f"Attention.heads: expected a multiple of kv_heads={self.kv_heads}, "
                f"got {self.heads}"
            )
        if self.window is not None and self.chunk is not None:
            raise InvalidValueError("Attention.chunk: expected it or a window, got both")
        if self.indexer is not None and (self.window or self.chunk) is not None:
            raise InvalidValueError(
                "Attention.indexer: expected it or a window or a chunk, got more than one"
            )
        if self.keys_as_values and self.value_dim not in (None, self.head_dim):
            raise InvalidValueError(
                f"Attention.value_dim: expected head_dim={self.head_dim} where keys are values, "
                f"got {self.value_dim}"
            )
        return self

    def share(self, parallelism: Parallelism) -> Self:
        """What one device holds: query heads divide; an indexer is held by all.

        Raises
        ------
        InvalidValueError
            If heads cannot be divided, or keys are masked, each by the values of all heads.
        """
        if self.masks_keys and parallelism.tensor > 1:
            raise InvalidValueError(
                "Parallelism.tensor: expected 1, for the values of all heads mask the keys of "
                f"each, got {parallelism.tensor}"
            )
        return super().share(parallelism)

    @cached_property
    def query_width(self) -> Num:
        """Width of all query heads together [1]."""
        return self.heads * self.head_dim

    @cached_property
    def result_width(self) -> Num:
        """Width of the result of all heads together [1]."""
        return self.heads * self._value_dim

    @cached_property
    def kv_values(self) -> Num:
        """Numbers that one token's key and value are, whoever caches them [1]."""
        return self.kv_heads * (self.head_dim + self._value_dim)

    @cached_property
    def reach(self) -> Reach:
        """Which of the tokens before it a query attends."""
        most = None if self.indexer is None else self.indexer.top_k
        return Reach(window=self.window, chunk=self.chunk, most=most)

    @property
    def title(self) -> str:
        """What a table calls it."""
        return self.reach.prefix + "attention"

    @property
    def has_cache(self) -> bool:
        """Whether a sequence holds anything here: keys and values, or keys of the indexer."""
        return not self.shares_kv or (self.indexer is not None and not self.indexer.shared)

    @property
    def clips(self) -> bool:
        """Whether a window, a chunk or a selection bounds what a query attends."""
        return self.window is not None or self.chunk is not None or self.indexer is not None

    @property
    def _value_dim(self) -> Num:
        return self.head_dim if self.value_dim is None else self.value_dim

    @property
    def _value_width(self) -> Num:
        return self.kv_heads * self._value_dim

    @property
    def _projected(self) -> Num:
        """Outputs of the QKV projection, a gate's included."""
        if self.shares_kv:
            return self.query_width + self._gate_width
        kv = self.kv_heads * self.head_dim if self.keys_as_values else self.kv_values
        return self.query_width + kv + self._gate_width

    @property
    def _gate_width(self) -> Num:
        return {None: 0, "value": self.result_width, "head": self.heads}[self.gate]

    def read_width(self, hidden: Num) -> Num:
        """Width that queries, keys and values are projected from [1]."""
        return hidden if self.source is None else self.source

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The fused query, key and value projection, the indexer's, and the output projection."""
        read = self.read_width(hidden)
        indexer = () if self.indexer is None else self.indexer.matrices(read, read)
        mask = (Matrix("key_mask", self._value_width, self.kv_heads),) if self.masks_keys else ()
        return (
            Matrix("qkv", read, self._projected),
            *indexer,
            *mask,
            Matrix("output", self.result_width, hidden),
        )

    def vectors(self, hidden: Num) -> Num:
        """Biases, and the norms of queries and keys [1]."""
        biases = self._projected if self.qkv_bias else 0
        if self.qkv_bias and self.masks_keys:
            biases = biases + self.kv_heads
        if self.qkv_bias and not self.gate_bias:
            biases = biases - self._gate_width
        if self.output_bias:
            biases = biases + hidden
        indexer = 0 if self.indexer is None else self.indexer.vectors()
        norms = self._qk_norm_params * (2 if self.qk_shift else 1)
        return biases + norms + indexer

    @property
    def _qk_norm_params(self) -> Num:
        if self.qk_norm in (None, "bare"):
            return 0
        heads, kv_heads = (1, 1) if self.qk_norm == "head" else (self.heads, self.kv_heads)
        return (heads if self.shares_kv else heads + kv_heads) * self.head_dim

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """Keys and values, and keys of the indexer, that a group holds in one such layer [B]."""
        values = 0 if self.shares_kv else self.kv_values
        if self.indexer is not None:
            values = values + self.indexer.cached
        return kv.nbytes(values) * self.reach.held(group)

    def token_cache(self, formats: CacheFormats) -> Cached:
        """Key and value of one token, and the key of the indexer."""
        keys = 0 if self.shares_kv else formats.keys.nbytes(self.kv_heads * self.head_dim)
        values = 0 if self.shares_kv else formats.values.nbytes(self._value_width)
        if self.indexer is not None:
            keys = keys + formats.indexer.nbytes(self.indexer.cached)
        return Cached(keys, values, window=self.window, chunk=self.chunk)

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """QKV projection, the selection where there is one, attention itself, output projection."""
        qkv, *inner, output = self.costs(hidden, precision)
        tokens = step.tokens
        yield product(qkv, tokens=tokens, calls=calls)
        for cost in inner:
            yield product(cost, tokens=tokens, calls=calls)
        if self.indexer is not None and not self.indexer.shared:
            yield self.indexer.select(step, precision, calls)
        yield self._attend(step, tokens, precision, calls)
        yield product(output, tokens=tokens, calls=calls)

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Norms of queries and keys."""
        if self.qk_norm:
            keys = 0 if self.shares_kv else self.kv_heads * self.head_dim
            yield norm_step(
                "layer" if self.qk_shift else "rms",
                name="qk norm",
                width=self.query_width + keys,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )

    def _attend(self, step: Step, tokens: Num, precision: Precision, calls: Num) -> Operation:
        """Scores and weighted values: 2 FLOPs per pair and element of a key, and of a value."""
        reach, groups = self.reach, step.groups
        twice_pairs = sum([g.count * reach.twice_pairs(g) for g in groups])
        # Keys and values of an earlier layer are read here, not written.
        moved = reach.read if self.shares_kv else reach.moved
        cached = sum([moved(g) for g in groups])
        queries_and_result = self.query_width + self.result_width
        passed, kv = self._token_bytes(precision)
        passes = 2 if self.differential else 1
        return Operation.trusted(
            name=reach.prefix + "attention",
            kind="attention",
            flops=passes * queries_and_result * twice_pairs,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=passed * tokens,
            kv_bytes=kv * cached,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
            pairs=twice_pairs / 2,
            kernel=attention_kernel(
                step, precision, heads=passes * self.heads, kv_heads=passes * self.kv_heads
            ),
        )

    def _token_bytes(self, precision: Precision) -> tuple[Num, Num]:
        """Queries and result of one token, and its key and value [B]; counted once."""
        known = self._known_bytes.get(precision)
        if known is None:
            passed = precision.linear.outputs.nbytes(self.query_width + self.result_width, 2)
            known = self._known_bytes[precision] = passed, precision.kv.nbytes(self.kv_values)
        return known

    @cached_property
    def _known_bytes(self) -> dict[Precision, tuple[Num, Num]]:
        return {}
