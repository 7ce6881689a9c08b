"""Number formats, and which of them each part of a model uses.

A preset is one row of a table: what the matrices of the blocks are stored in, what goes in and
out of them, what the head keeps, what the KV cache holds, and what the matrix units compute in.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import Field, model_validator

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.formats import FORMATS, Format, format_named
from perfmodel.base.spec import Name, Spec

ComputeFormat: TypeAlias = Literal[
    "fp32",
    "tf32",
    "fp16",
    "fp16_acc16",
    "bf16",
    "fp8",
    "fp8_acc16",
    "mxfp8",
    "int8",
    "mxfp6",
    "mxfp4",
    "nvfp4",
    "int4",
]


class MatrixFormats(Spec):
    """The formats of a matrix product: its weights, its inputs, its outputs, its arithmetic."""

    weights: Format
    """What the weights are stored in."""
    inputs: Format
    """What the inputs are moved in."""
    outputs: Format
    """What the outputs are moved in."""
    compute: ComputeFormat
    """What the matrix units compute in."""

    @property
    def recipe(self) -> str:
        """What kernels of engines are named by: ``"bf16"``, ``"fp8-block"``, ``"w4a16"``.

        One scale for a whole matrix is known beforehand, so that ``"fp8-static"`` needs no pass
        over its inputs; with a scale a row (``"fp8"``) or a block, each token's is found first.
        """
        stored, compute = self.weights, self.compute
        if stored.name == "mxfp4" and compute in ("fp8", "mxfp8"):
            return "mxfp4a8"
        if compute == "fp8":
            named = {"fp8": "fp8-static", "fp8-128x128": "fp8-block"}
            return "w4afp8" if stored.bits == 4 else named.get(stored.name, "fp8")
        if compute in ("bf16", "fp16", "tf32", "fp32"):
            if stored.bits == 4:
                return "mxfp4a16" if stored.name == "mxfp4" else "w4a16"
            return "bf16" if stored.bits >= 16 else "w8a16"
        return compute


# preset: (linears: weights, inputs, outputs, compute), (head and the rest), KV, attention computes
_HALF: Final = ("bf16", "bf16", "bf16", "bf16")
_TF32: Final = ("fp32", "fp32", "fp32", "tf32")
_FourNames: TypeAlias = tuple[str, str, str, str]
_PRESETS: Final[dict[str, tuple[_FourNames, _FourNames, str, str]]] = {
    "bf16": (_HALF, _HALF, "bf16", "bf16"),
    "fp16": (("fp16", "fp16", "fp16", "fp16"), ("fp16", "fp16", "fp16", "fp16"), "fp16", "fp16"),
    "fp32": (("fp32", "fp32", "fp32", "fp32"), ("fp32", "fp32", "fp32", "fp32"), "fp32", "fp32"),
    "tf32": (_TF32, _TF32, "fp32", "tf32"),
    "fp8": (("fp8", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16"),
    "fp8-channel": (("fp8-row", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16"),
    "fp8-block": (("fp8-128x128", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16"),
    "int8": (("int8", "int8", "bf16", "int8"), _HALF, "bf16", "bf16"),
    "w8a16": (("int8-row", "bf16", "bf16", "bf16"), _HALF, "bf16", "bf16"),
    "w4a16": (("int4-g128", "bf16", "bf16", "bf16"), _HALF, "bf16", "bf16"),
    "w4a8": (("int4-g128", "int8", "bf16", "int8"), _HALF, "bf16", "bf16"),
    "w4afp8": (("int4-g128", "fp8", "bf16", "fp8"), _HALF, "bf16", "bf16"),
    "w4a4": (("int4-g128", "int4", "bf16", "int4"), _HALF, "bf16", "bf16"),
    "mxfp8a16": (("mxfp8", "bf16", "bf16", "bf16"), _HALF, "bf16", "bf16"),
    "mxfp8": (("mxfp8", "mxfp8", "bf16", "mxfp8"), _HALF, "bf16", "bf16"),
    "mxfp6": (("mxfp6", "mxfp6", "bf16", "mxfp6"), _HALF, "bf16", "bf16"),
    "mxfp4a16": (("mxfp4", "bf16", "bf16", "bf16"), _HALF, "bf16", "bf16"),
    "mxfp4": (("mxfp4", "mxfp4", "bf16", "mxfp4"), _HALF, "bf16", "bf16"),
    "nvfp4a16": (("nvfp4", "bf16", "bf16", "bf16"), _HALF, "bf16", "bf16"),
    "nvfp4": (("nvfp4", "nvfp4", "bf16", "nvfp4"), _HALF, "bf16", "bf16"),
}
_ALIASES: Final = {"w8a8": "int8"}
# How a format of the cache or of states is written behind a preset.
_LONG: Final = {"8": "fp8", "16": "bf16"}
_SHORT: Final = {long: short for short, long in _LONG.items()}
_UNIFORM: Final = (
    "fp32", "fp16", "bf16", "fp8", "mxfp8", "int8", "mxfp6", "mxfp4", "nvfp4", "int4",
)  # fmt: skip

PRESETS: Final = tuple(_PRESETS)
# Types of GGUF files: mixtures that depend on the model, which resolves them.
FILE_TYPES: Final = (
    "q2_k", "q3_k_s", "q3_k_m", "q3_k_l", "q4_0", "q4_1", "q4_k_s", "q4_k_m", "q5_0", "q5_1",
    "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs",
)  # fmt: skip


class Asked(NamedTuple):
    """The name of a precision, taken apart; None where nothing is said."""

    preset: str
    kv: str | None = None
    state: str | None = None
    compute: str | None = None


class Precision(Spec):
    """Which format each part of a model is stored, moved and computed in."""

    name: Name
    """As it can be written again."""
    linear: MatrixFormats = Field(description="The matrices of the blocks")
    head: MatrixFormats = Field(
        description="The output head; embedding, norms and biases share its weight format"
    )
    kv: Format = Field(description="The KV cache")
    attention: ComputeFormat = Field(description="What attention computes in")
    state: Format = Field(default=format_named("fp32"), description="The state of recurrent layers")
    parts: tuple[tuple[Name, MatrixFormats], ...] = Field(
        default=(),
        description="Matrices of the blocks that differ from ``linear``, as (part, formats)",
    )

    @model_validator(mode="after")
    def _has_no_rows(self) -> Self:
        _refuse_rows(self.kv)
        _refuse_rows(self.state)
        return self

    def __repr__(self) -> str:
        return f"<Precision {self.name}>"

    __str__ = __repr__

    def __hash__(self) -> int:
        return hash(self.name)  # equal precisions have equal names; sizes are cached by precision

    def formats_of(self, part: str, default: MatrixFormats | None = None) -> MatrixFormats:
        """The formats of one matrix of the blocks.

        Parameters
        ----------
        part : str
            Kind of layer and name of the matrix, as ``"attention.qkv"`` [text].
        default : MatrixFormats or None
            What holds where ``parts`` says nothing; None: ``linear``.

        Returns
        -------
        MatrixFormats
            Those of ``parts`` where it names the part.

        Examples
        --------
        >>> Precision.preset("fp8").formats_of("attention.qkv").weights.name
        'fp8'
        """
        for name, formats in self.parts:
            if name == part:
                return formats
        return self.linear if default is None else default

    @property
    def rest(self) -> Format:
        """Storage format of embedding, norms and biases."""
        return self.head.weights

    def computing(self, compute: str) -> Precision:
        """The same storage, computed in another format that is as wide or wider.

        Engines do so where a chip lacks the narrow one: weights are widened as they are read, and
        inputs are moved as wide as the arithmetic. What computes in more bits stays as it is.

        Parameters
        ----------
        compute : str
            What the matrix units compute in: fp8, int8, bf16, fp16, tf32 or fp32, with sums in
            fp32 (int32); or fp16_acc16 or fp8_acc16, with sums in 16 bits [text].

        Returns
        -------
        Precision
            Named as it can be written again: ``"fp8+compute16"``; this one if nothing changes.

        Raises
        ------
        UnknownKeyError
            If there is no such format.
        InvalidValueError
            If everything is computed in more bits.

        Examples
        --------
        >>> Precision.preset("nvfp4").computing("bf16").linear.compute
        'bf16'
        """
        if not isinstance(compute, str) or compute not in _OPERANDS:
            message = f"compute: no format {shown(compute)}; {did_you_mean(compute, _OPERANDS)}"
            raise UnknownKeyError(message)
        changed = {
            "linear": _computing(self.linear, compute),
            "head": _computing(self.head, compute),
            "attention": _asked(self.attention, compute),
            "parts": tuple((name, _computing(formats, compute)) for name, formats in self.parts),
        }
        now = {self.linear.compute, self.head.compute, self.attention}
        if all(_WIDTHS[compute] < _WIDTHS[part] for part in now):
            raise InvalidValueError(
                f"compute: expected a format as wide as {self.name} computes in "
                f"({self.linear.compute}), or wider, got {compute}"
            )
        if all(getattr(self, field) == value for field, value in changed.items()):
            return self
        name = f"{self.name.partition('+compute')[0]}+compute{_SHORT.get(compute, compute)}"
        return self.model_copy(update={"name": name, **changed})

    @classmethod
    def preset(
        cls,
        name: str,
        *,
        kv: str | None = None,
        state: str | None = None,
        compute: str | None = None,
    ) -> Precision:
        """A preset of the field, perhaps with another cache, other states, or other arithmetic.

        Parameters
        ----------
        name : str
            bf16, fp16, fp32, tf32, fp8, fp8-channel, fp8-block, int8 (w8a8), w8a16, w4a16, w4a8,
            w4afp8, w4a4, mxfp8a16, mxfp8, mxfp6, mxfp4a16, mxfp4, nvfp4a16 or nvfp4 [text].
        kv : str or None
            Storage format of the KV cache, if not the preset's own [text].
        state : str or None
            Storage format of the states of recurrent layers, if not fp32 [text].
        compute : str or None
            What the matrix units compute in, if not the preset's own, as for ``computing`` [text].

        Returns
        -------
        Precision
            Named as it can be written again: ``"fp8+kv8"``.

        Raises
        ------
        UnknownKeyError
            If the preset or a format does not exist.
        InvalidValueError
            If the format of the cache or of states has a scale a matrix row, or ``compute`` is
            narrower than the preset's own.

        Examples
        --------
        >>> Precision.preset("fp8", kv="fp8", state="bf16").name
        'fp8+kv8+state16'
        """
        key = _ALIASES.get(name, name) if isinstance(name, str) else name
        if not isinstance(key, str) or key not in _PRESETS:
            raise UnknownKeyError(f"precision: {_unknown(name)}")
        linear, head, usual, attention = _PRESETS[key]
        found = cls(
            name=key,
            linear=_matrix_formats(*linear),
            head=_matrix_formats(*head),
            kv=format_named(usual),
            attention=attention,
        )
        return with_parts(found, Asked(key, kv, state, compute))

    @classmethod
    def uniform(cls, name: str) -> Precision:
        """One format everywhere, outputs, head and KV cache included: an idealization.

        Parameters
        ----------
        name : str
            A format that matrix units compute in: fp32, fp16, bf16, fp8, mxfp8, int8, mxfp6, mxfp4,
            nvfp4, int4 [text].

        Returns
        -------
        Precision
            Named ``"uniform-<format>"``.

        Raises
        ------
        UnknownKeyError
            If there is no such format.

        Examples
        --------
        >>> Precision.uniform("fp8").kv.bits
        8
        """
        if not isinstance(name, str) or name not in _UNIFORM:
            message = f"precision: no uniform format {shown(name)}; {did_you_mean(name, _UNIFORM)}"
            raise UnknownKeyError(message)
        same = _matrix_formats(name, name, name, name)
        kv = format_named(name)
        return cls(name=f"uniform-{name}", linear=same, head=same, kv=kv, attention=name, state=kv)

    @classmethod
    def parse(cls, text: Precision | str) -> Precision:
        """Read what ``name`` writes: ``"fp8"``, ``"fp8+kv8"``, ``"uniform-fp8"``.

        Parameters
        ----------
        text : Precision or str
            A preset, perhaps with ``+kv8`` or ``+kv<format>`` and ``+state16`` or
            ``+state<format>``, or ``uniform-<format>``; then perhaps ``+compute16`` or
            ``+compute<format>``; a precision is what it is [text].

        Returns
        -------
        Precision
            The precision of that name.

        Raises
        ------
        UnknownKeyError
            If any part of it does not exist.
        InvalidValueError
            If it is not a text, or its parts do not go together.

        Examples
        --------
        >>> Precision.parse("fp8+kv8") == Precision.preset("fp8", kv="fp8")
        True
        """
        if isinstance(text, Precision):
            return text
        if not isinstance(text, str):
            raise InvalidValueError(
                f"precision: expected a Precision or a preset's name, got {shown(text)}"
            )
        return _parse(text)


PrecisionLike: TypeAlias = Precision | str | None


def _matrix_formats(weights: str, inputs: str, outputs: str, compute: str) -> MatrixFormats:
    return MatrixFormats(
        weights=format_named(weights),
        inputs=format_named(inputs),
        outputs=format_named(outputs),
        compute=compute,
    )


# What may be computed in by choice, and what the operands are stored in then.
_OPERANDS: Final = {
    "fp8": "fp8",
    "fp8_acc16": "fp8",
    "int8": "int8",
    "bf16": "bf16",
    "fp16": "fp16",
    "fp16_acc16": "fp16",
    "tf32": "fp32",
    "fp32": "fp32",
}
# Bits of an operand, as the matrix units see it.
_WIDTHS: Final[dict[str, int]] = {
    **dict.fromkeys(("int4", "mxfp4", "nvfp4"), 4),
    "mxfp6": 6,
    **dict.fromkeys(("int8", "fp8", "fp8_acc16", "mxfp8"), 8),
    **dict.fromkeys(("bf16", "fp16", "fp16_acc16"), 16),
    "tf32": 19,
    "fp32": 32,
}


def _asked(now: str, compute: str) -> str:
    """What is computed in where ``compute`` is asked for: it, unless it is narrower."""
    return compute if _WIDTHS[compute] >= _WIDTHS[now] else now


def _computing(formats: MatrixFormats, compute: str) -> MatrixFormats:
    """A matrix product computed in another format; as it was if that is narrower."""
    if _asked(formats.compute, compute) == formats.compute:
        return formats
    return formats.model_copy(
        update={"inputs": format_named(_OPERANDS[compute]), "compute": compute}
    )


@lru_cache(maxsize=256)
def _parse(text: str) -> Precision:
    stored, compute_given, compute = text.partition("+compute")
    if compute_given:
        return _parse(stored).computing(_LONG.get(compute, compute))
    if text.startswith("uniform-"):
        return Precision.uniform(text.removeprefix("uniform-"))
    asked = taken_apart(text)
    return Precision.preset(asked.preset, kv=asked.kv, state=asked.state)


def taken_apart(text: str) -> Asked:
    """The parts of a name such as ``"fp8+kv8+state16+compute16"``.

    Raises
    ------
    UnknownKeyError
        If what stands behind ``+kv`` or ``+state`` is no format.
    """
    stored, compute_given, compute = text.partition("+compute")
    rest, state_given, state = stored.partition("+state")
    preset, kv_given, kv = rest.partition("+kv")
    return Asked(
        preset,
        kv=_format_after("KV", kv) if kv_given else None,
        state=_format_after("state", state) if state_given else None,
        compute=_LONG.get(compute, compute) if compute_given else None,
    )


def with_parts(stored: Precision, asked: Asked) -> Precision:
    """A precision with the cache, the states and the arithmetic that a name asks for.

    Raises
    ------
    UnknownKeyError
        If a format does not exist.
    InvalidValueError
        If formats do not go together, as for ``Precision.preset``.
    """
    name, formats = stored.name, {"kv": stored.kv, "state": stored.state}
    for part, usual in tuple(formats.items()):
        wanted = getattr(asked, part)
        found = usual if wanted is None else _without_rows(wanted)
        if found.name != usual.name:
            formats[part] = found
            name = f"{name}+{part}{_SHORT.get(found.name, found.name)}"
    if name != stored.name:
        stored = stored.model_copy(update={"name": name, **formats})
    return stored if asked.compute is None else stored.computing(asked.compute)


def _unknown(name: object) -> str:
    """What is wrong with a name that no preset has."""
    if isinstance(name, str) and name in FILE_TYPES:
        return (
            f"{name!r} is a type of GGUF files, which depends on the model; expected a model "
            f"beside it, as in model.resolve_precision({name!r})"
        )
    return f"no preset {shown(name)}; {did_you_mean(name, [*_PRESETS, *_ALIASES, *FILE_TYPES])}"


def _format_after(part: str, name: str) -> str:
    """The format that stands behind ``+kv`` or ``+state``."""
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        message = f"precision: no {part} format {shown(name)}; {did_you_mean(name, FORMATS)}"
        raise UnknownKeyError(message)
    return _LONG.get(name, name)


def _without_rows(name: str) -> Format:
    """A format for what is no matrix, and has no rows."""
    found = format_named(name)
    _refuse_rows(found)
    return found


def _refuse_rows(found: Format) -> None:
    if found.per_row:
        raise InvalidValueError(
            f"precision: {found.name} has a scale a matrix row, and a KV cache or a state has no "
            f"rows; expected one of: {', '.join(f.name for f in FORMATS.values() if not f.per_row)}"
        )
