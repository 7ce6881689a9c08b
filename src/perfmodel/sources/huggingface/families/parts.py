"""What families share: the parts of a block from the keys that most classes agree on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from perfmodel.base.errors import InvalidValueError
from perfmodel.sources.huggingface.config import COMMON_NAMES, MAX_LAYERS, REQUIRED, Config, Names
from perfmodel.work.layers import AnyLayer, Attention, FeedForward, MixtureOfExperts
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.layer import Layer, Norm
from perfmodel.work.shape import Block, ModelShape

Row: TypeAlias = tuple[AnyLayer, ...]
Column: TypeAlias = list[AnyLayer | Row | None]
PerLayer: TypeAlias = AnyLayer | Column

FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


class Family(NamedTuple):
    """How one ``model_type`` is read, and the classes whose weights it describes."""

    architectures: tuple[str, ...]
    """The classes; a config that names another is refused."""
    read: Callable[[Config], ModelShape]
    """From the config, or from the section of the text model, to the shape."""
    names: Names = COMMON_NAMES
    """The class's own names for sizes: from the common name to its own."""
    defaults: Mapping[str, Any] = MappingProxyType({})
    """What the class says of sizes that its published configs leave out."""


# -- attention --------------------------------------------------------------------------------


def attention(
    config: Config, *, kv_heads: int | None = None, head_dim: int | None = None, **fields: Any
) -> Attention:
    """Grouped-query attention from the common keys.

    ``kv_heads`` and ``head_dim`` are the class's defaults; None: as many as query heads, and
    ``hidden_size / num_attention_heads``. ``fields`` are those of ``Attention`` that differ.
    """
    heads = config.count("num_attention_heads")
    fields.setdefault("kv_heads", number_of_kv_heads(config, kv_heads))
    if "head_dim" not in fields:
        fields["head_dim"] = width_of_head(config, head_dim)
    return Attention(heads=heads, **fields)


def biases(config: Config, key: str = "attention_bias", default: bool = False) -> dict[str, Any]:
    """One flag for the biases of all four projections of an attention."""
    flag = config.flag(key, default)
    return {"qkv_bias": flag, "output_bias": flag}


def number_of_kv_heads(config: Config, default: int | None) -> int:
    """Absent means the class's default; null, in every family, as many as query heads."""
    heads = config.count("num_attention_heads")
    kv_heads = config.optional_count("num_key_value_heads", default) or heads
    if heads % kv_heads:
        raise config.wrong(
            "num_attention_heads", f"a multiple of num_key_value_heads={kv_heads}", heads
        )
    return kv_heads


def width_of_head(config: Config, default: int | None = None) -> int:
    """``head_dim`` is its own number; null, and absent without a default, are hidden / heads."""
    if config.get("head_dim") is not None:
        return config.count("head_dim")
    if default is not None and not config.has("head_dim"):
        return default
    return divided(config, "hidden_size", "num_attention_heads")


def divided(config: Config, whole_key: str, parts_key: str) -> int:
    """One size over another, which must divide it."""
    whole, parts = config.count(whole_key), config.count(parts_key)
    if whole % parts:
        raise config.wrong(whole_key, f"a multiple of {config.called(parts_key)}={parts}", whole)
    return whole // parts


def scaled(config: Config, key: str, factor: float, size: int) -> int:
    """A size times a factor that the config gives, which must come out whole."""
    product = factor * size
    if product != int(product) or product < 1:
        raise config.wrong(key, f"a factor that makes a whole number of {size}")
    return int(product)


def pair(config: Config, key: str, default: tuple[int, int]) -> tuple[int, int]:
    """A list of two sizes; null means the default."""
    found = config.get(key)
    if found is None:
        return default
    if not isinstance(found, list) or len(found) != 2 or 0 in found:
        raise config.wrong(key, "a list of two sizes")
    first, second = config.counts(key, 2) or default
    return first, second


# -- which layer is what ----------------------------------------------------------------------


def number_of_layers(config: Config) -> int:
    """``num_hidden_layers``, where layers are told apart and therefore listed."""
    count = config.count("num_hidden_layers")
    if count > MAX_LAYERS:
        raise config.wrong("num_hidden_layers", f"at most {MAX_LAYERS} where layers differ", count)
    return count


def layer_types(
    config: Config, default: Callable[[int], str], known: Sequence[str] = (FULL, SLIDING)
) -> list[str]:
    """Each layer's kind: as ``layer_types`` lists them, else by the class's own rule."""
    count = number_of_layers(config)
    listed = config.kinds("layer_types", count, known)
    return [default(i) for i in range(count)] if listed is None else listed


def per_layer(config: Config, count: int) -> dict[int, Config] | None:
    """What ``per_layer_config`` says, by layer, whose number may be written with zeros before."""
    found = config.get("per_layer_config")
    if found is None:
        return None
    if not isinstance(found, Mapping) or len(found) > count:
        raise config.wrong("per_layer_config", "sizes by layer number")
    section = config.section("per_layer_config")
    told = {}
    for key in found:
        if not (isinstance(key, str) and key.isdecimal() and len(key) < 9 and int(key) < count):
            raise config.wrong("per_layer_config", f"layer numbers below {count}", key)
        told[int(key)] = section.section(key)
    return told


def every(period: int, special: str, otherwise: str, *, offset: int = -1) -> Callable[[int], str]:
    """A rule for ``layer_types``: one layer of each period is special, by default the last."""
    return lambda i: special if i % period == offset % period else otherwise


def by_kind(kinds: Iterable[str], layers: dict[str, AnyLayer]) -> Column:
    """The layer of each kind, in the order of the kinds."""
    return [layers[kind] for kind in kinds]


# -- feed-forward -----------------------------------------------------------------------------


def feedforward(
    config: Config, key: str = "intermediate_size", *, default: Any = REQUIRED, **fields: Any
) -> FeedForward:
    """A feed-forward layer whose inner width stands under a key."""
    return FeedForward(width=config.count(key, default), **fields)


def experts(
    config: Config,
    *,
    count: str = "num_experts",
    top_k: str = "num_experts_per_tok",
    width: str = "moe_intermediate_size",
    shared: int = 0,
    **fields: Any,
) -> MixtureOfExperts:
    """A mixture of experts; arguments name the keys, ``shared`` is the shared experts' width."""
    number, chosen = config.count(count), config.count(top_k)
    if chosen > number:
        raise config.wrong(top_k, f"at most {count}={number}", chosen)
    return MixtureOfExperts(
        experts=number,
        top_k=chosen,
        width=config.count(width),
        shared_width=shared,
        **fields,
    )


def dense_first(config: Config, first: int, dense: FeedForward, sparse: MixtureOfExperts) -> Column:
    """Some dense layers, then mixtures of experts to the end."""
    return [dense if i < first else sparse for i in range(number_of_layers(config))]


def by_mlp_type(
    config: Config, dense: FeedForward, sparse: MixtureOfExperts, *, first: int
) -> Column:
    """Dense layers and mixtures of experts as ``mlp_layer_types`` lists them, else dense first."""
    listed = config.kinds("mlp_layer_types", number_of_layers(config), ("dense", "sparse"))
    if listed is None:
        return dense_first(config, first, dense, sparse)
    return by_kind(listed, {"dense": dense, "sparse": sparse})


# -- the whole --------------------------------------------------------------------------------


def decoder(
    config: Config,
    mixers: PerLayer,
    feedforwards: PerLayer | None,
    *,
    tied: bool = False,
    norm: Norm | None = "rms",
    embedding: Embedding | None = None,
    head_bias: bool = False,
    head_width: int | None = None,
    mtp: tuple[Block, ...] = (),
    layers: int | None = None,
) -> ModelShape:
    """A model of ``num_hidden_layers`` blocks: a mixer and a feed-forward layer each.

    Either may be one layer for all blocks or a list, in which an item may be several layers or
    None. ``tied`` is the class's default; ``norm`` the one before the head; ``layers`` the number
    of blocks where a list says it, and no key.
    """
    return ModelShape(
        hidden=config.count("hidden_size"),
        vocab=config.count("vocab_size"),
        blocks=_blocks(config, mixers, feedforwards, layers),
        mtp=mtp,
        embedding=embedding or Embedding(),
        head=Head(
            tied=config.flag("tie_word_embeddings", tied),
            norm=norm,
            bias=head_bias,
            width=head_width,
        ),
        max_context=config.optional_count("max_position_embeddings", None),
    )


def _blocks(
    config: Config, mixers: PerLayer, feedforwards: PerLayer | None, layers: int | None
) -> tuple[Block, ...]:
    if isinstance(mixers, Layer) and (feedforwards is None or isinstance(feedforwards, Layer)):
        row: Row = (mixers,) if feedforwards is None else (mixers, feedforwards)
        return ((config.count("num_hidden_layers"), row),)
    count = number_of_layers(config) if layers is None else layers
    columns = [_column(part, count) for part in (mixers, feedforwards)]
    rows = [first + second for first, second in zip(*columns, strict=True)]
    if not all(rows):
        raise InvalidValueError("config.num_hidden_layers: a block without any layer is not read")
    return runs(rows)


def _column(part: PerLayer | None, count: int) -> list[Row]:
    if part is None or isinstance(part, Layer):
        return [() if part is None else (part,)] * count
    return [() if x is None else (x,) if isinstance(x, Layer) else x for x in part]


def runs(rows: Sequence[Row]) -> tuple[Block, ...]:
    """Equal neighbours, counted: blocks are written once however often they repeat."""
    found: list[tuple[int, Row]] = []
    for row in rows:
        if found and found[-1][1] == row:
            found[-1] = (found[-1][0] + 1, row)
        else:
            found.append((1, row))
    return tuple(found)


def copy(layer: Any, **fields: Any) -> Any:
    """The same layer with some fields changed."""
    return layer.model_copy(update=fields)
