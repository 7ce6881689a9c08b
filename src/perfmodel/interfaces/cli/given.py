"""What the options say, read: models, chips, numbers and lists."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.spec import whole
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources import catalog
from perfmodel.sources.efficiency_file import read_efficiency
from perfmodel.sources.huggingface import read_hf
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

USUAL_CONTEXT: Final = 2048  # tokens

T = TypeVar("T")


def model(name: str) -> ModelShape:
    """A key of the catalog before a file of the same name: ``./gpt2`` means the file."""
    if name not in catalog.models() and _is_path(name, ".json"):
        return read_hf(name)
    return catalog.model(name)


def gpu(name: str) -> GpuSpec:
    """A key of the catalog before a file of the same name."""
    if name not in catalog.gpus() and _is_path(name, ".toml"):
        return catalog.read_gpu(name)
    return catalog.gpu(name)


def anything(key: str) -> GpuSpec | ModelShape:
    """A chip or a model."""
    if key in catalog.gpus() or key.endswith(".toml"):
        return gpu(key)
    if key in catalog.models() or _is_path(key, ".json"):
        return model(key)
    known = [*catalog.gpus(), *catalog.models()]
    raise UnknownKeyError(f"no chip or model {shown(key)}; {did_you_mean(key, known)}")


def _is_path(name: str, suffix: str) -> bool:
    try:
        there = name != "" and Path(name).exists()  # which would be this folder
    except (OSError, ValueError):  # too long for a path, or a NUL in it
        there = False
    return there or name.endswith(suffix) or os.sep in name


def one_of(**options: object) -> None:
    """Refuse several options that exclude each other."""
    given = [name for name, value in options.items() if value not in (None, False)]
    found = [f"--{name.replace('_', '-')}" for name in given]
    if len(found) > 1:
        got = "both" if len(found) == 2 else "more"
        raise InvalidValueError(f"{', '.join(found)}: expected one of them, got {got}")


def parts(name: str, text: str) -> list[str]:
    """What stands between commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise InvalidValueError(f"--{name}: expected a list such as a,b,c, got {shown(text)}")
    return found


def precisions(text: str | None) -> list[str | None]:
    """Names of presets; None: the checkpoint's own."""
    return [None] if text is None else list(parts("precision", text))


def efficiency(engine: str | None, efficiency: str | None) -> dict[str, Any]:
    """What is expected of the chip, as arguments."""
    one_of(engine=engine, efficiency=efficiency)
    if efficiency is not None:
        named = efficiency in ("auto", "ideal")
        return {"efficiency": efficiency if named else read_efficiency(efficiency)}
    if engine is None:
        return {}
    return {"efficiency": "auto"} if engine == "auto" else {"engine": engine}


def parallelism(tensor: str, pipeline: str, expert: str, data: str) -> Parallelism:
    """How devices share the model."""
    return Parallelism(
        tensor=count("tensor", tensor),
        pipeline=count("pipeline", pipeline),
        expert=count("expert", expert),
        data=count("data", data),
    )


def length(name: str, text: str | None, shapes: list[ModelShape]) -> int:
    """A length as given, else the usual one, as far as learned positions reach."""
    if text is not None:
        return count(name, text)
    return min(USUAL_CONTEXT, *(shape.position_limit or USUAL_CONTEXT for shape in shapes))


def count(name: str, text: str) -> int:
    """A whole number of at least 1."""
    return number(name, text, whole)


def number(name: str, text: str, meant: Callable[[Any], T]) -> T:
    """A number as Python writes them, if a field that is meant so takes it."""
    try:
        return meant(real(text))
    except ValueError as error:
        raise InvalidValueError(f"--{name}: {error}, got {shown(text)}") from None


def real(text: str) -> float:
    """A number; NaN of what is none, which is refused like any other that cannot be."""
    try:
        return float(text) if text.isascii() else math.nan
    except ValueError:
        return math.nan
