"""What llama.cpp stores each tensor in: a file type is a mixture that depends on the model.

Most tensors have the type that the file is named after. Some are worth more bits: the output
head, and in some layers the projections of values, of attention's result and of the feed-forward
layer's. A precision names one format for a kind of matrix in all layers, so what differs from
layer to layer, or within fused queries, keys and values, is their mean: the total is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format, format_named
from perfmodel.base.precision import MatrixFormats, Precision
from perfmodel.work.layers import AnyLayer, Attention, MixtureOfExperts
from perfmodel.work.operation import Matrix

if TYPE_CHECKING:
    from perfmodel.work.shape import ModelShape


class _Place(NamedTuple):
    """Where a tensor stands."""

    layer: int  # counted from 0
    layers: int
    grouped: int  # query heads that share a key and value head
    experts: int  # 1 where the feed-forward layer has none


def _everywhere(at: _Place) -> bool:
    return at.layer < at.layers


def _widely_grouped(at: _Place) -> bool:
    return at.grouped >= 4


def _first(layers: int) -> _When:
    return lambda at: at.layer < layers


def _first_part(of: int) -> _When:
    return lambda at: at.layer < at.layers // of


def _more_bits(at: _Place) -> bool:
    """The first eighth of the layers, the last, and every third of those between."""
    eighth = at.layers // 8
    last = at.layer >= 7 * at.layers // 8
    return at.layer < eighth or last or (at.layer - eighth) % 3 == 2


_When: TypeAlias = Callable[[_Place], bool]
_Rules: TypeAlias = tuple[tuple[_When, str], ...]  # the first that holds; the base if none does


class _Mixture(NamedTuple):
    """A file type: what most tensors are stored in, and which are stored otherwise where."""

    base: str
    value: _Rules = ()
    down: _Rules = ()
    result: _Rules = ()


def _all(name: str) -> _Rules:
    return ((_everywhere, name),)


# llama.cpp's src/llama-quant.cpp, without an importance matrix.
_MIXTURES: Final = {
    "q2_k": _Mixture(
        "q2_k", ((_widely_grouped, "q4_k"), (_everywhere, "q3_k")), _all("q3_k"), _all("q3_k")
    ),
    "q3_k_s": _Mixture("q3_k"),
    "q3_k_m": _Mixture(
        "q3_k",
        ((_first(2), "q5_k"), (_everywhere, "q4_k")),
        ((_first_part(16), "q5_k"), (_everywhere, "q4_k")),
        _all("q4_k"),
    ),
    "q3_k_l": _Mixture("q3_k", _all("q5_k"), _all("q5_k"), _all("q5_k")),
    "q4_0": _Mixture("q4_0"),
    "q4_1": _Mixture("q4_1"),
    "q4_k_s": _Mixture("q4_k", ((_first(4), "q5_k"),), ((_first_part(8), "q5_k"),)),
    "q4_k_m": _Mixture("q4_k", ((_more_bits, "q6_k"),), ((_more_bits, "q6_k"),)),
    "q5_0": _Mixture("q5_0"),
    "q5_1": _Mixture("q5_1"),
    "q5_k_s": _Mixture("q5_k"),
    "q5_k_m": _Mixture("q5_k", ((_more_bits, "q6_k"),), ((_more_bits, "q6_k"),)),
    "q6_k": _Mixture("q6_k"),
    "q8_0": _Mixture("q8_0"),
    "iq3_s": _Mixture("iq3_s", ((_widely_grouped, "q4_k"),)),
    "iq3_m": _Mixture("iq3_s", _all("q4_k"), ((_first_part(8), "q4_k"),), _all("q4_k")),
    "iq4_nl": _Mixture("iq4_nl", ((_widely_grouped, "q5_k"),), ((_first_part(8), "q5_k"),)),
    "iq4_xs": _Mixture("iq4_xs", ((_widely_grouped, "q5_k"),), ((_first_part(8), "q5_k"),)),
}
# In place of blocks of 256 where rows are no multiple of them.
_SHORT_ROWS: Final = {
    "q2_k": "q4_0",
    "q3_k": "q4_0",
    "q4_k": "q5_0",
    "q5_k": "q5_1",
    "q6_k": "q8_0",
    "iq3_s": "iq4_nl",
    "iq4_xs": "iq4_nl",
}
# With eight experts, attention is a small part, and worth more bits where the base has few.
_FEW_EXPERTS: Final = 8
_RAISED: Final = ("q2_k", "q3_k", "q4_k", "iq3_s", "iq4_nl", "iq4_xs")
_READ: Final = ("attention", "feedforward", "moe")


def mixture(shape: ModelShape, file_type: str) -> Precision:
    """What a file of this type stores of a model, and what llama.cpp computes it in.

    Quantized matrices are multiplied in int8 with inputs in blocks of q8_1. Whatever is no matrix
    of the blocks or table, routers included, is in fp32, and so is what passes between operations;
    the cache is in fp16.

    Parameters
    ----------
    shape : ModelShape
        The model.
    file_type : str
        One of ``FILE_TYPES`` [text].

    Returns
    -------
    Precision
        Of that name. Queries, keys and values count as three tensors, also where a file fuses
        them.

    Raises
    ------
    InvalidValueError
        If the model has layers other than attention, feed-forward layers and experts.
    """
    mixed = _MIXTURES[file_type]
    stored: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for number, row in enumerate(_rows(shape, file_type)):
        grouped = max((x.heads // x.kv_heads for x in row if isinstance(x, Attention)), default=1)
        experts = max((x.experts for x in row if isinstance(x, MixtureOfExperts)), default=1)
        at = _Place(number, shape.layers, grouped, experts)
        for layer in row:
            for matrix in layer.matrices(shape.hidden):
                if matrix.name in layer.ROUTING:
                    continue
                for name, weights in _tensors(mixed, layer, matrix, at):
                    stored[layer.part(matrix.name)][_fitting(name, matrix.inner)] += weights
    parts = {part: _multiplied(_mean(formats)) for part, formats in stored.items()}
    parts |= _ends(mixed, shape)
    parts["tower"] = _passed("fp16")  # in a file of its own
    return Precision(
        name=file_type,
        linear=_multiplied(format_named(mixed.base)),
        head=_passed("fp32"),
        kv=format_named("fp16"),
        attention="fp16",
        parts=tuple(sorted(parts.items())),
    )


def _rows(shape: ModelShape, file_type: str) -> Iterator[tuple[AnyLayer, ...]]:
    """The blocks in running order."""
    for repeats, row in shape.blocks:
        for layer in row:
            if layer.kind not in _READ:
                raise InvalidValueError(
                    f"precision: {file_type} is a mixture for layers of attention, feedforward and "
                    f"moe, and {shape.name} has {layer.kind}; expected a preset, such as 'w4a16'"
                )
        for _ in range(repeats):
            yield row


def _tensors(
    mixed: _Mixture, layer: AnyLayer, matrix: Matrix, at: _Place
) -> Iterator[tuple[str, int]]:
    """The formats that parts of one matrix are stored in, each with its weights."""
    weights = matrix.inner * matrix.outer * matrix.copies
    if isinstance(layer, Attention) and matrix.name == "qkv":
        keys = 0 if layer.shares_kv else matrix.inner * layer.kv_heads * layer.head_dim
        both = 0 if layer.shares_kv else matrix.inner * layer.kv_values
        values = 0 if layer.keys_as_values else both - keys
        few = at.experts == _FEW_EXPERTS
        yield mixed.base, weights - keys - values
        yield "q8_0" if few else mixed.base, keys
        yield "q8_0" if few else _value(mixed, at), values
    elif isinstance(layer, Attention) and matrix.name == "output":
        few = at.experts == _FEW_EXPERTS and mixed.base in _RAISED
        yield "q5_k" if few else _first_of(mixed.result, mixed.base, at), weights
    elif matrix.name in ("down", "shared_down", "experts_down"):
        yield _first_of(mixed.down, mixed.base, at), weights
    else:
        yield mixed.base, weights


def _value(mixed: _Mixture, at: _Place) -> str:
    """Values cost little where many heads share them, most of all in models of 70B."""
    name = _first_of(mixed.value, mixed.base, at)
    large = at.layers == 80 and at.grouped > 1
    return "q5_k" if large and name in ("q3_k", "q4_k") else name


def _first_of(rules: _Rules, base: str, at: _Place) -> str:
    return next((name for holds, name in rules if holds(at)), base)


def _fitting(name: str, inner: int) -> str:
    """The format, or what takes its place where its blocks do not fit a row."""
    if inner % (format_named(name).block or 1):
        name = _SHORT_ROWS.get(name, "fp16")
        return name if inner % (format_named(name).block or 1) == 0 else "fp16"
    return name


def _mean(stored: dict[str, int]) -> Format:
    """One format that holds as many weights in as many bytes."""
    formats = {format_named(name): weights for name, weights in stored.items() if weights}
    if len(formats) == 1:
        return next(iter(formats))
    bits_of = {f: f.bits + Fraction(f.scale_bits, f.block or 1) for f in formats}
    held = sum((bits_of[f] * weights for f, weights in formats.items()), Fraction())
    mean = held / sum(formats.values())
    bits, block = mean.numerator // mean.denominator, mean.denominator
    return Format(
        name="+".join(sorted(f.name for f in formats)),
        bits=bits,
        scale_bits=mean.numerator - bits * block,
        block=block if block > 1 else None,
    )


def _ends(mixed: _Mixture, shape: ModelShape) -> dict[str, MatrixFormats]:
    """The formats of the token table and of the head; tied, both are the head's."""
    if shape.hidden is None:
        return {}
    fits = shape.hidden % (format_named(mixed.base).block or 1) == 0
    head = _fitting("q6_k" if fits and mixed.base != "q8_0" else "q8_0", shape.hidden)
    tied = shape.head is not None and shape.head.tied
    table = head if tied else _fitting(mixed.base, shape.hidden)
    return {
        "embedding": _multiplied(format_named(table)),
        "head": _multiplied(format_named(head)),
    }


def _multiplied(weights: Format) -> MatrixFormats:
    """Blocks are multiplied as integers, with inputs in blocks too."""
    if weights.name == "fp16":
        return _passed("fp16")
    return MatrixFormats(
        weights=weights, inputs=format_named("q8_1"), outputs=format_named("fp32"), compute="int8"
    )


def _passed(name: str) -> MatrixFormats:
    """What is not in blocks."""
    wide = format_named("fp32")
    return MatrixFormats(weights=format_named(name), inputs=wide, outputs=wide, compute="fp16")
