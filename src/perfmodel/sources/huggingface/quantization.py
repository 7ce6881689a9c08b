"""What a checkpoint is stored in: its dtype, and its ``quantization_config``.

A quantization is a list of rules, each with the modules it holds for, and a list of modules that
stay as they were. Blocks in which the rules fall otherwise than in most become variants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, TypeAlias

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnsupportedModelError
from perfmodel.base.formats import format_named
from perfmodel.base.precision import MatrixFormats, Precision
from perfmodel.sources.huggingface.config import MAX_LAYERS, TEXT_SECTIONS, Config, differ
from perfmodel.sources.huggingface.families.parts import Row, runs
from perfmodel.sources.huggingface.modules import names_of
from perfmodel.sources.huggingface.schemes import Scheme, formats_in, scheme_of
from perfmodel.work.layers import AnyLayer, FeedForward
from perfmodel.work.shape import ModelShape

_DTYPES: Final = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


def with_checkpoint_precision(config: Config, shape: ModelShape) -> ModelShape:
    """The shape with what its checkpoint is stored in, where the config says so."""
    half = _dtype(config)
    found = _quantization(config)
    if found is None:
        precision = None if half is None else Precision.preset(half)
        return shape.model_copy(update={"precision": precision})
    return _quantized(shape, scheme_of(found, config, half or "bf16"), half or "bf16")


def _dtype(config: Config) -> str | None:
    """``dtype`` (``torch_dtype`` before Transformers 5), of the whole or of the text model."""
    sections = [config.section(key) for key in TEXT_SECTIONS if config.has_section(key)]
    for part in (config, *sections):
        both = [part.get(key) for key in ("dtype", "torch_dtype")]
        if all(found is not None for found in both) and differ(*both):
            raise InvalidValueError(
                f"config.dtype: {shown(both[0])} contradicts torch_dtype, which is {shown(both[1])}"
            )
        for key in ("dtype", "torch_dtype"):
            found = part.get(key)
            if found is None or (isinstance(found, str) and found == "auto"):
                continue
            name = found.removeprefix("torch.") if isinstance(found, str) else None
            if name not in _DTYPES:
                known = did_you_mean(name, _DTYPES)
                raise UnsupportedModelError(f"config.{key}: {shown(found)} is not read; {known}")
            return _DTYPES[name]
    return None


def _quantization(config: Config) -> Config | None:
    """The section that tells how the checkpoint is quantized, at the top or in the text model's."""
    sections = [config.section(key) for key in TEXT_SECTIONS if config.has_section(key)]
    for part in (config, *sections):
        # MLX writes its own key, and another beside it since.
        for key in ("quantization_config", "compression_config", "quantization"):
            found = part.get(key)
            if found is None or (isinstance(found, Mapping) and not found):
                continue
            return part.section(key)
    return None


# -- from a scheme to the shape ---------------------------------------------------------------


def _quantized(shape: ModelShape, scheme: Scheme, half: str) -> ModelShape:
    """The shape with the scheme's formats; blocks that differ from most become variants."""
    if shape.layers > MAX_LAYERS:
        raise InvalidValueError(
            f"config.num_hidden_layers: expected at most {MAX_LAYERS} beside a "
            f"quantization_config, got {shape.layers}"
        )
    plain, linear = formats_in(half, half), scheme.rules[0].formats
    rows = [row for repeats, row in shape.blocks for row in [row] * repeats]
    told = _told(scheme, rows)
    distinct = _distinct(rows, told)
    marks = _marks(distinct)
    parts: dict[str, MatrixFormats] = {}
    for layer, one, _ in distinct:
        for matrix, stored in zip(_matrices(layer), one, strict=True):
            kept = plain if stored is None else stored
            usual = plain if matrix in layer.ROUTING else linear
            if kept != usual:
                parts[f"{marks[_kind(layer), one]}{layer.kind}.{matrix}"] = kept
    if (head := _head(scheme)) is not None:
        parts["head"] = head
    kv = half if scheme.kv is None else scheme.kv
    precision = Precision(
        name=f"checkpoint-{linear.weights.name}" + ("" if kv == half else f"+kv{kv}"),
        linear=linear,
        head=plain,
        kv=format_named(kv),
        attention=half,
        parts=tuple(sorted(parts.items())),
    )
    blocks = runs(_marked(rows, told, marks)) if any(marks.values()) else shape.blocks
    return shape.model_copy(update={"blocks": blocks, "precision": precision})


_Told: TypeAlias = tuple[MatrixFormats | None, ...]  # of each matrix of a layer; None: as it was
_Kind: TypeAlias = tuple[str, tuple[str, ...]]


def _kind(layer: AnyLayer) -> _Kind:
    """Layers that are told apart by no more than sizes are of one kind."""
    return layer.kind, _matrices(layer)


def _matrices(layer: AnyLayer) -> tuple[str, ...]:
    return tuple(matrix.name for matrix in layer.matrices(1))


def _told(scheme: Scheme, rows: list[Row]) -> list[tuple[_Told, ...]]:
    """What each matrix of each layer of each block is stored in."""
    lists = [scheme.kept, *(rule.modules for rule in scheme.rules if rule.modules is not None)]
    known: dict[object, tuple[_Told, ...]] = {}
    told = []
    for block, row in enumerate(rows):
        key = (tuple(map(id, row)), *(modules.in_block(block) for modules in lists))
        if key not in known:
            known[key] = tuple(_told_layer(scheme, block, layer, row) for layer in row)
        told.append(known[key])
    return told


def _told_layer(scheme: Scheme, block: int, layer: AnyLayer, row: Row) -> _Told:
    bare = any(isinstance(beside, FeedForward) for beside in row)
    return tuple(
        _told_matrix(scheme, block, layer, matrix, names_of(f"{layer.kind}.{matrix}", bare=bare))
        for matrix in _matrices(layer)
    )


def _told_matrix(
    scheme: Scheme, block: int, layer: AnyLayer, matrix: str, names: tuple[str, ...]
) -> MatrixFormats | None:
    for formats, modules in scheme.rules:
        if modules is not None and modules.mean(block, names):
            return formats
    if matrix in layer.ROUTING or scheme.kept.mean(block, names):
        return None
    return next((rule.formats for rule in scheme.rules if rule.modules is None), None)


def _distinct(rows: list[Row], told: list[tuple[_Told, ...]]) -> list[tuple[AnyLayer, _Told, int]]:
    """Each layer once with each of the ways it is stored, and how often: most blocks are one."""
    counts: dict[tuple[int, int], int] = {}
    first: dict[tuple[int, int], tuple[AnyLayer, _Told]] = {}
    for row, formats in zip(rows, told, strict=True):
        for layer, one in zip(row, formats, strict=True):
            key = id(layer), id(one)
            counts[key] = counts.get(key, 0) + 1
            first[key] = layer, one
    return [(*first[key], count) for key, count in counts.items()]


def _marks(distinct: list[tuple[AnyLayer, _Told, int]]) -> dict[tuple[_Kind, _Told], str]:
    """Of each kind of layer, what most are stored in needs no mark; the others are variants."""
    counts: dict[_Kind, Counter[_Told]] = {}
    for layer, one, count in distinct:
        counts.setdefault(_kind(layer), Counter())[one] += count
    return {
        (kind, one): "" if rank == 0 else f"variant {rank} "
        for kind, counter in counts.items()
        for rank, (one, _) in enumerate(counter.most_common())
    }


def _marked(
    rows: list[Row], told: list[tuple[_Told, ...]], marks: dict[tuple[_Kind, _Told], str]
) -> list[Row]:
    """The blocks with their variants marked."""
    known: dict[tuple[int, str], AnyLayer] = {}
    marked = []
    for row, formats in zip(rows, told, strict=True):
        layers = []
        for layer, one in zip(row, formats, strict=True):
            mark = marks[_kind(layer), one]
            if mark and (id(layer), mark) not in known:
                known[id(layer), mark] = layer.model_copy(update={"variant": mark})
            layers.append(known[id(layer), mark] if mark else layer)
        marked.append(tuple(layers))
    return marked


def _head(scheme: Scheme) -> MatrixFormats | None:
    """What the output head is stored in, if not in the checkpoint's dtype."""
    for formats, modules in scheme.rules:
        if modules is not None and modules.mean_head():
            return formats
    if scheme.head and not scheme.kept.mean_head():
        return next((rule.formats for rule in scheme.rules if rule.modules is None), None)
    return None
