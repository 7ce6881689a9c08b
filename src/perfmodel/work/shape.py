"""The shape of a model: widths, blocks and tables, from which all sizes follow."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

from pydantic import Field, model_validator

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base._num import Num, highest
from perfmodel.base.errors import InvalidValueError, NoCacheError, UnknownKeyError
from perfmodel.base.precision import FILE_TYPES, Precision, PrecisionLike, taken_apart, with_parts
from perfmodel.base.spec import Count, CountOrZero, Name, Origin, Spec, checked_count, quantity
from perfmodel.work.layers import AnyLayer, Attention, FeedForward, Totals
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.layer import Layer, Norm
from perfmodel.work.step import Group

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.base._html import Cells

Block: TypeAlias = tuple[Count, Annotated[tuple[AnyLayer, ...], Field(min_length=1)]]


class ModelShape(Spec):
    """A decoder-only language model, as far as its speed and size depend on it.

    ``blocks`` are ``(repeats, layers)`` in running order: equal blocks are written once.
    """

    name: Name = "model"
    """A name to print."""
    hidden: Count | None = quantity("d", "1", "Width of the residual stream", default=None)
    vocab: Count | None = quantity("V", "1", "Rows of the token embedding", default=None)
    blocks: tuple[Block, ...] = Field(min_length=1)
    """Pairs of repeats and layers, in running order."""
    mtp: tuple[Block, ...] = ()
    """Extra blocks that predict further tokens: counted apart, and run by no step."""
    tower_params: CountOrZero = quantity(
        "n_t",
        "1",
        "Parameters of vision and audio towers: held in memory, counted apart",
        default=0,
    )
    embedding: Embedding | None = None
    """The token embedding; None for a model without."""
    head: Head | None = None
    """The output head; None for a model without."""
    max_context: Count | None = quantity(
        "S_{max}", "1", "Context that a model with rotary positions was made for", default=None
    )
    precision: Precision | None = Field(
        default=None, description="What the checkpoint is stored in, where it says so"
    )
    origins: tuple[Origin, ...] = Field(default=(), repr=False)
    """Where the values come from, one origin a field."""

    @model_validator(mode="after")
    def _widths_are_known(self) -> Self:
        rows = (*self.blocks, *self.mtp)
        coarse = [isinstance(layer, Totals) for _, layers in rows for layer in layers]
        if any(coarse) and len(coarse) > 1:
            raise InvalidValueError("ModelShape.blocks: expected one Totals layer alone, got more")
        if not any(coarse) and self.hidden is None:
            raise InvalidValueError("ModelShape.hidden: required beside layers, but missing")
        if (self.embedding or self.head) and (self.vocab is None or self.hidden is None):
            raise InvalidValueError("ModelShape.vocab: required beside an embedding or a head")
        if self.head is not None and self.head.tied and self.embedding is None:
            raise InvalidValueError("ModelShape.head: a tied head needs an embedding to share")
        return self

    def __repr__(self) -> str:
        return f"<ModelShape {self.name}: {self.params:,} parameters in {self.layers} blocks>"

    __str__ = __repr__

    def _cells(self) -> Cells:
        return (), [(line,) for line in self.describe().splitlines()[1:]]

    # -- ways to make one -----------------------------------------------------------------------

    @classmethod
    def dense(
        cls,
        *,
        layers: int,
        hidden: int,
        heads: int,
        ffn: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        vocab: int | None = None,
        gated: bool = True,
        tied: bool = False,
        norm: Norm | None = "rms",
        name: str = "dense",
    ) -> ModelShape:
        """A plain dense transformer from its widths.

        Parameters
        ----------
        layers : int
            Blocks, all equal [1].
        hidden : int
            Width of the residual stream [1].
        heads : int
            Query heads [1].
        ffn : int
            Inner width of the feed-forward layers [1].
        kv_heads : int or None
            Key and value heads; None: as many as query heads [1].
        head_dim : int or None
            Width of one head; None: ``hidden / heads``, which must be whole [1].
        vocab : int or None
            Rows of the embedding; None: a model without embedding and head [1].
        gated : bool
            Whether feed-forward layers have three matrices (gate, up, down) or two [flag].
        tied : bool
            Whether the head shares the embedding's table [flag].
        norm : {"rms", "layer"} or None
            The norm before each layer and before the head.
        name : str
            A name to print [text].

        Returns
        -------
        ModelShape
            Without biases; ``blocks`` can be written out by hand for everything else.

        Raises
        ------
        InvalidValueError
            If a width is not a positive whole number or the heads do not divide.

        Examples
        --------
        Twelve blocks of width 768, matrices only: 12 (4 x 768 x 768 + 2 x 768 x 3072) weights.

        >>> ModelShape.dense(
        ...     layers=12, hidden=768, heads=12, ffn=3072, gated=False, norm=None
        ... ).params
        84934656
        """
        hidden, heads = checked_count("hidden", hidden), checked_count("heads", heads)
        if head_dim is None and hidden % heads:
            raise InvalidValueError(
                f"head_dim: required where heads={heads} do not divide hidden={hidden}"
            )
        attention = Attention(
            heads=heads,
            kv_heads=heads if kv_heads is None else kv_heads,
            head_dim=hidden // heads if head_dim is None else head_dim,
            norm=norm,
        )
        feedforward = FeedForward(width=ffn, gated=gated, norm=norm)
        return cls(
            name=name,
            hidden=hidden,
            vocab=vocab,
            blocks=((layers, (attention, feedforward)),),
            embedding=None if vocab is None else Embedding(),
            head=None if vocab is None else Head(tied=tied, norm=norm),
        )

    @classmethod
    def from_totals(
        cls,
        *,
        params: float,
        layers: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        kv_bytes_per_token: float | None = None,
        name: str = "coarse",
    ) -> ModelShape:
        """A coarse model: so many parameters, perhaps so much cache a token.

        Parameters
        ----------
        params : int or float
            Parameters, every one a matrix weight [1].
        layers, kv_heads, head_dim : int or None
            Together, the size of the cache: 2 x layers x kv_heads x head_dim numbers a token [1].
        kv_bytes_per_token : float or None
            Instead of them, the cache of one token in whatever format it has [B].
        name : str
            A name to print [text].

        Returns
        -------
        ModelShape
            With 2 FLOPs a parameter and token, no attention FLOPs, no activation traffic.

        Raises
        ------
        InvalidValueError
            If a number is not whole, or only some of the cache's sizes are given.

        Examples
        --------
        >>> ModelShape.from_totals(params=8e9).weight_bytes("bf16")
        16000000000.0
        """
        sizes = {"layers": layers, "kv_heads": kv_heads, "head_dim": head_dim}
        missing = [key for key, value in sizes.items() if value is None]
        values = None
        if not missing:
            values = 2
            for key, value in sizes.items():
                values *= checked_count(key, value)
        elif len(missing) < len(sizes):
            raise InvalidValueError(
                f"{missing[0]}: required beside the other sizes of the cache, but missing"
            )
        lump = Totals(
            matrix_weights=checked_count("params", params),
            kv_values_per_token=values,
            kv_bytes_per_token=kv_bytes_per_token,
        )
        return cls(name=name, blocks=((1, (lump,)),))

    def with_(self, **changes: Any) -> ModelShape:
        """The same model with some sizes changed, wherever they stand.

        Parameters
        ----------
        **changes
            Fields of the shape (``hidden``), of its layers (``kv_heads``, ``width``), of its
            embedding or its head (``tied``). A layer's field changes in every layer that has it.

        Returns
        -------
        ModelShape
            A new, validated shape. Origins are dropped: the numbers are now the caller's.

        Raises
        ------
        UnknownKeyError
            If no part has a field of that name.
        InvalidValueError
            If the new sizes contradict each other.

        Examples
        --------
        >>> wide = ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256)
        >>> wide.with_(kv_heads=1).kv_bytes_per_token() / wide.kv_bytes_per_token()
        0.25
        """
        used: set[str] = set()

        def changed(part: Spec) -> dict[str, Any]:
            own = {key: changes[key] for key in changes if key in type(part).model_fields}
            used.update(own)
            return {key: getattr(part, key) for key in type(part).model_fields} | own

        fields = changed(self)
        for end in ("embedding", "head"):
            if isinstance(fields[end], Spec):
                fields[end] = type(fields[end])(**changed(fields[end]))
        for blocks in ("blocks", "mtp"):
            if blocks not in changes:
                fields[blocks] = tuple(
                    (repeats, tuple(type(layer)(**changed(layer)) for layer in layers))
                    for repeats, layers in fields[blocks]
                )
        if unknown := set(changes) - used:
            rows = (*self.blocks, *self.mtp)
            parts: list[Spec] = [self, *(layer for _, row in rows for layer in row)]
            parts += [end for end in (self.embedding, self.head) if end is not None]
            known = {key for part in parts for key in type(part).model_fields}
            name = sorted(unknown)[0]
            raise UnknownKeyError(f"with_: no size {shown(name)}; {did_you_mean(name, known)}")
        return type(self)(**fields | {"origins": changes.get("origins", ())})

    # -- sizes ----------------------------------------------------------------------------------

    @cached_property
    def params(self) -> int:
        """All parameters of the language model, tied weights once [1].

        Towers (``tower_params``) and extra prediction blocks (``mtp_params``) are not in it.
        """
        total: Num = sum([n * layer.params(self.hidden) for n, layer in self.distinct_layers])
        for end in (self.embedding, self.head):
            if end is not None:
                total = total + end.params(self.hidden, self.vocab)
        return total  # type: ignore[no-any-return]

    @cached_property
    def active_params(self) -> int:
        """Parameters that one token meets: all but the experts that it is not sent to [1]."""
        idle: Num = sum(
            [
                n * (layer.params(self.hidden) - layer.active_params(self.hidden))
                for n, layer in self.distinct_layers
            ]
        )
        return self.params - idle  # type: ignore[no-any-return]

    @property
    def mtp_params(self) -> int:
        """Parameters of extra blocks that predict further tokens, not in ``params`` [1]."""
        return sum(
            repeats * sum(layer.params(self.hidden) for layer in layers)
            for repeats, layers in self.mtp
        )

    @property
    def non_embedding_params(self) -> int:
        """``params`` without the tables of the embedding and of an untied head and its bias [1]."""
        tables: Num = sum(
            [n * layer.embedding_params(self.hidden) for n, layer in self.distinct_layers]
        )
        for end in (self.embedding, self.head):
            if end is not None:
                tables = tables + end.table(self.hidden, self.vocab)
        if self.head is not None and self.head.bias and not self.head.tied:
            tables = tables + self.vocab
        return self.params - tables  # type: ignore[no-any-return]

    @cached_property
    def between(self) -> dict[Precision, Any]:
        """What ``forward.between`` has found out, by precision."""
        return {}

    @cached_property
    def distinct_layers(self) -> tuple[tuple[int, Layer], ...]:
        """Each distinct layer once, with how many there are, in the order they first run.

        What a step costs follows these, not the blocks.
        """
        counts: dict[Layer, Num] = {}
        for repeats, layers in self.blocks:
            for layer in layers:
                counts[layer] = counts.get(layer, 0) + repeats
        return tuple((count, layer) for layer, count in counts.items())

    @property
    def layers(self) -> int:
        """Blocks of the model [1]."""
        return sum(repeats for repeats, _ in self.blocks)

    @cached_property
    def has_cache(self) -> bool:
        """Whether the size of the KV cache is known."""
        return any(layer.has_cache for _, layer in self.distinct_layers)

    @property
    def clips(self) -> bool:
        """Whether a window or a selection makes some layer's cache or work stop growing."""
        return any(layer.clips for _, layer in self.distinct_layers)

    @property
    def position_limit(self) -> int | None:
        """Learned positions, beyond which no context can go [1]."""
        return self.embedding.positions if self.embedding is not None else None

    def resolve_precision(self, precision: PrecisionLike = None) -> Precision:
        """The precision meant: as given, else the checkpoint's own, else bf16.

        Parameters
        ----------
        precision : Precision or str or None
            A precision, the name of one, or None. The name may be a type of GGUF files, perhaps
            with other parts behind it, as ``"q4_k_m"`` or ``"q4_k_m+kvq8_0"``.

        Returns
        -------
        Precision
            Its ``name`` says which it is.

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.
        InvalidValueError
            If a file type is not known for such layers.

        Examples
        --------
        >>> shape = ModelShape.dense(layers=8, hidden=256, heads=4, ffn=512, vocab=1000)
        >>> dict(shape.resolve_precision("q4_k_m").parts)["head"].weights.name
        'q6_k'
        """
        if precision is None:
            return self.precision or Precision.parse("bf16")
        if isinstance(precision, str) and precision.partition("+")[0] in FILE_TYPES:
            return self._mixture(precision)
        return Precision.parse(precision)

    def _mixture(self, name: str) -> Precision:
        known = self._mixtures.get(name)
        if known is None:
            from perfmodel.work.gguf import mixture

            asked = taken_apart(name)
            known = self._mixtures[name] = with_parts(mixture(self, asked.preset), asked)
        return known

    @cached_property
    def _mixtures(self) -> dict[str, Precision]:
        """Precisions of GGUF files that were asked for: each is counted once."""
        return {}

    def weight_bytes(self, precision: PrecisionLike = None) -> float:
        """What memory holds of the weights, tied tables once, towers and scales included.

        Parameters
        ----------
        precision : Precision or str or None
            What they are stored in; None: the checkpoint's own, else bf16.

        Returns
        -------
        float
            Resident bytes [B]; what a step reads is another number.

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.

        Examples
        --------
        >>> shape = ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000)
        >>> shape.weight_bytes("bf16") == 2 * shape.params
        True
        """
        formats = self.resolve_precision(precision)
        known = self._weight_bytes.get(formats)
        if known is None:
            known = self._weight_bytes[formats] = self._count_weight_bytes(formats)
        return known  # type: ignore[no-any-return]

    @cached_property
    def _weight_bytes(self) -> dict[Precision, Num]:
        """What ``weight_bytes`` has counted: neither the shape nor a precision can change."""
        return {}

    def _count_weight_bytes(self, formats: Precision) -> Num:
        total: Num = sum(
            [n * layer.weight_bytes(self.hidden, formats) for n, layer in self.distinct_layers]
        )
        for end in (self.embedding, self.head):
            if end is not None:
                total = total + end.weight_bytes(self.hidden, self.vocab, formats)
        towers = formats.formats_of("tower", formats.head).weights
        return total + towers.nbytes(self.tower_params)

    def cache_bytes(self, context: int, precision: PrecisionLike = None) -> float:
        """KV cache of one sequence.

        Parameters
        ----------
        context : int
            Tokens of the sequence [1].
        precision : Precision or str or None
            Its KV format counts; None: the checkpoint's own, else bf16.

        Returns
        -------
        float
            Bytes [B]; a sliding window holds no more than itself.

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.
        NoCacheError
            If the shape does not say what its cache is.
        InvalidValueError
            If ``context`` is not a whole number, or exceeds learned positions.

        Examples
        --------
        >>> ModelShape.from_totals(
        ...     params=6e8, layers=28, kv_heads=8, head_dim=128
        ... ).cache_bytes(1, "bf16")
        114688.0
        """
        self.require_cache()
        context = checked_count("context", context, minimum=0)
        self.require_positions(context)
        alone = Group.trusted(count=1, new=context, past=0, logits=0, shared_past=0)
        return self.cache_of(alone, self.resolve_precision(precision))  # type: ignore[no-any-return]

    def cache_of(self, group: Group, precision: Precision) -> Num:
        """KV cache that a group holds after a step, for numbers of any kind, unchecked.

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.
        precision : Precision
            Its KV format counts.

        Returns
        -------
        float or array or symbol
            Bytes [B].
        """
        return sum([n * layer.cache_bytes(group, precision.kv) for n, layer in self._with_cache])

    @cached_property
    def _with_cache(self) -> tuple[tuple[int, Layer], ...]:
        """The distinct layers in which a sequence holds anything, growing or constant."""
        return tuple((count, layer) for count, layer in self.distinct_layers if layer.has_cache)

    def cache_by_kind(self, context: int, precision: PrecisionLike = None) -> dict[str, float]:
        """KV cache of one sequence, by kind of layer.

        Parameters
        ----------
        context : int
            Tokens of the sequence [1].
        precision : Precision or str or None
            Its KV format counts; None: the checkpoint's own, else bf16.

        Returns
        -------
        dict of str to float
            Bytes of all layers of a kind, for each kind that has a cache [B].

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.
        NoCacheError
            If the shape does not say what its cache is.
        InvalidValueError
            If ``context`` is not a whole number, or exceeds learned positions.

        Examples
        --------
        >>> layers = [Attention(heads=4, kv_heads=1, head_dim=64, window=w) for w in (128, None)]
        >>> ModelShape(hidden=256, blocks=((6, layers),)).cache_by_kind(1000, "bf16")
        {'window attention': 196608.0, 'attention': 1536000.0}
        """
        self.require_cache()
        context = checked_count("context", context, minimum=0)
        self.require_positions(context)
        kv = self.resolve_precision(precision).kv
        alone = Group.trusted(count=1, new=context, past=0, logits=0, shared_past=0)
        found: dict[str, float] = {}
        for count, layer in self._with_cache:
            if held := layer.cache_bytes(alone, kv):
                name = layer.title
                found[name] = found.get(name, 0.0) + count * held
        return found

    def require_cache(self) -> None:
        """Refuse a question about a cache that the shape does not know.

        Raises
        ------
        NoCacheError
            If the shape has no cache.
        """
        if not self.has_cache:
            raise NoCacheError(
                f"{self.name}: the shape says nothing about its KV cache; give from_totals "
                "layers=, kv_heads= and head_dim=, or kv_bytes_per_token="
            )

    def require_positions(self, context: Num) -> None:
        """Refuse a context that learned positions do not reach; rotary ones have no such end.

        Parameters
        ----------
        context : int or array or symbol
            Tokens of the longest sequence [1].

        Raises
        ------
        InvalidValueError
            If it exceeds the learned positions.
        """
        limit = self.position_limit
        longest = None if limit is None else highest(context)
        if limit is not None and longest is not None and longest > limit:
            raise InvalidValueError(
                f"context: {self.name} has {limit} learned positions, "
                f"got a context of {int(longest)}"
            )

    def kv_bytes_per_token(self, precision: PrecisionLike = None, *, context: int = 1) -> float:
        """Bytes that the cache of one sequence gains with its ``context``-th token.

        Parameters
        ----------
        precision : Precision or str or None
            Its KV format counts; None: the checkpoint's own, else bf16.
        context : int
            Where in the sequence: past a sliding window a token adds nothing there [1].

        Returns
        -------
        float
            Bytes [B].

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.
        NoCacheError
            If the shape does not say what its cache is.
        InvalidValueError
            If ``context`` is not a positive whole number, or exceeds learned positions.

        Examples
        --------
        >>> shape = ModelShape.dense(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336)
        >>> shape.kv_bytes_per_token("bf16")
        131072.0
        """
        context = checked_count("context", context)
        return self.cache_bytes(context, precision) - self.cache_bytes(context - 1, precision)

    def state_bytes(self, precision: PrecisionLike = None) -> float:
        """State of one sequence that does not grow with its context; attention has none.

        Parameters
        ----------
        precision : Precision or str or None
            What it is stored in; None: the checkpoint's own, else bf16.

        Returns
        -------
        float
            Bytes [B].

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.

        Notes
        -----
        Presets keep the recurrence in fp32 and a convolution's last inputs like activations, one
        column for each token it sees. Engines often keep one column less: ``with_(conv_state=3)``.

        Examples
        --------
        Each of 16 heads holds 128 x 128 numbers of 4 bytes, the convolution 4 columns of 2:

        >>> from perfmodel.work.layers import GatedDeltaNet
        >>> delta = GatedDeltaNet(key_heads=16, value_heads=16, key_dim=128, value_dim=128)
        >>> ModelShape(hidden=2048, blocks=((1, (delta,)),)).state_bytes("bf16")
        1097728.0
        """
        formats = self.resolve_precision(precision)
        known = self._state_bytes.get(formats)
        if known is None:
            held = sum([n * layer.state_bytes(formats) for n, layer in self._with_cache])
            known = self._state_bytes[formats] = held * 1.0
        return known  # type: ignore[no-any-return]

    @cached_property
    def _state_bytes(self) -> dict[Precision, Num]:
        """What ``state_bytes`` has counted."""
        return {}

    @cached_property
    def _shards(self) -> dict[object, tuple[ModelShape, ...]]:
        """What ``shard`` has found."""
        return {}

    # -- in words and in tables -----------------------------------------------------------------

    def describe(self) -> str:
        """The architecture in a few lines, as a model card would give it.

        Returns
        -------
        str
            Parameters, then each kind of layer with how many there are and its sizes.

        Examples
        --------
        >>> print(ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000).describe())
        dense: 259,392 parameters; 2 blocks of width 64
          2 x attention: 4 heads of 16
          2 x feed-forward: width 256, gated
          embedding and head: 1,000 tokens, untied
        """
        from perfmodel.work.card import describe

        return describe(self)

    def to_frame(self, precision: PrecisionLike = None) -> pd.DataFrame:
        """Every layer in running order, as a table.

        Parameters
        ----------
        precision : Precision or str or None
            What is stored in what; None: the checkpoint's own, else bf16.

        Returns
        -------
        pandas.DataFrame
            One row a layer, the ends included: block, layer, parameters and active ones [1], bytes
            of weights, of cache with the first token and of state [B].

        Raises
        ------
        UnknownKeyError
            If there is no preset of that name.
        """
        from perfmodel.work.card import to_frame

        return to_frame(self, self.resolve_precision(precision))
