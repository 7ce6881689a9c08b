"""Other classes around a family's decoder: it alone, or with a row a label in place of the head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from perfmodel.base._messages import shown
from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.parts import Family, copy
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.shape import ModelShape

End: TypeAlias = Callable[[Config, ModelShape], ModelShape]


def end_of(config: Config, family: Family) -> End:
    """What the class that ``architectures`` names has behind the blocks; refused where unknown."""
    named = config.get("architectures")
    listed = named if isinstance(named, list) else [named]
    if named is None or not listed:
        return _as_it_is
    ends = _ends(family)
    known = [ends[name] for name in listed if isinstance(name, str) and name in ends]
    if not known:
        raise UnsupportedModelError(
            f"config.architectures: expected {' or '.join(family.architectures)}, "
            f"got {shown(named)}"
        )
    return _as_it_is if _as_it_is in known else known[0]


def _ends(family: Family) -> dict[str, End]:
    """By the name of the class: the family's own, and those of other names around its decoder."""
    ends: dict[str, End] = {}
    for name in family.architectures:
        for generating in ("ForCausalLM", "LMHeadModel"):
            if name.endswith(generating):
                stem = name.removesuffix(generating)
                ends |= {stem + ending: end for ending, end in _ENDS.items()}
        if name.endswith("ForConditionalGeneration"):
            stem = name.removesuffix("ForConditionalGeneration")
            ends[f"{stem}ForCausalLM"] = _without_towers
        ends |= _REWARDS.get(name, {})
    return ends | dict.fromkeys(family.architectures, _as_it_is)


def _as_it_is(_config: Config, shape: ModelShape) -> ModelShape:
    return shape


def _without_towers(_config: Config, shape: ModelShape) -> ModelShape:
    """The decoder of a model with towers."""
    return shape.model_copy(update={"tower_params": 0})


def _bare(config: Config, shape: ModelShape) -> ModelShape:
    """No head; the last norm, which a head holds, is counted with the embedding."""
    head, embedding = shape.head or Head(norm=None), shape.embedding or Embedding()
    if embedding.norm is not None or head.width is not None:
        raise UnsupportedModelError(
            f"config.architectures: {shown(config.get('architectures'))} is not read: this family "
            "is read with its head alone"
        )
    return shape.model_copy(update={"head": None, "embedding": copy(embedding, norm=head.norm)})


def _scoring(config: Config, shape: ModelShape) -> ModelShape:
    """A row for each label; the table of tokens has so many more."""
    labels = config.get("id2label")
    told = len(labels) if isinstance(labels, dict) and labels else 2
    return _with_rows(shape, config.count("num_labels", told))


def _with_rows(shape: ModelShape, rows: int) -> ModelShape:
    head, embedding = shape.head or Head(norm=None), shape.embedding or Embedding()
    more = (shape.vocab or 0) + embedding.extra_rows - rows
    if more < 0:
        raise UnsupportedModelError(f"config.num_labels: {rows} labels, more than the tokens")
    return shape.model_copy(
        update={
            "vocab": rows,
            "embedding": copy(embedding, extra_rows=more),
            "head": copy(head, tied=False, bias=False),
        }
    )


_ENDS: Final[dict[str, End]] = {
    "Model": _bare,
    "TextModel": _bare,
    "ForSequenceClassification": _scoring,
}
_REWARDS: Final[dict[str, dict[str, End]]] = {
    "InternLM2ForCausalLM": {
        "InternLM2ForRewardModel": lambda _config, shape: _with_rows(shape, 1)
    },
}
"""Classes whose reward is one row, by that of the head; those of others have layers more."""
