"""How long prompts or outputs are: one length, or several with their weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import MAX_LIST, Quantity, Spec, positive

MAX_LENGTH: Final = 1e8  # tokens; more is no request


def tokens(value: Any) -> float:
    """A length that a prompt or an output can have."""
    try:
        number = positive(value)
        if 1 <= number <= MAX_LENGTH:
            return number
    except ValueError:
        pass
    raise ValueError("expected from 1 to 1e8 tokens")


Tokens: TypeAlias = Annotated[float, BeforeValidator(tokens)]


class Lengths(Spec):
    """Lengths of prompts or of outputs, each with the share of the requests that has it.

    Wherever one is expected, a number stands for that length alone, a list for lengths that are
    equally likely, and a dict for lengths with weights.

    Examples
    --------
    Three of four prompts of 1,000 tokens, one of 5,000:

    >>> lengths = Lengths(values=(1000, 5000), weights=(3, 1))
    >>> lengths.mean, lengths.mean_square
    (2000.0, 7000000.0)
    """

    values: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=MAX_LIST)]
    """The lengths; a mean need not be whole [1]."""
    weights: Annotated[tuple[Quantity, ...], Field(max_length=MAX_LIST)] | None = None
    """How likely each is, in any unit; None: all alike."""

    @model_validator(mode="after")
    def _are_as_many(self) -> Self:
        if self.weights is not None and len(self.weights) != len(self.values):
            raise InvalidValueError(
                f"Lengths.weights: expected as many as values has ({len(self.values)}), "
                f"got {len(self.weights)}"
            )
        return self

    def __repr__(self) -> str:
        if len(self.values) == 1:
            return f"<{self.mean:,.6g} tokens>"
        return f"<{min(self.values):,.6g} to {max(self.values):,.6g} tokens, mean {self.mean:,.6g}>"

    __str__ = __repr__

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the requests of each length; they add up to 1 [1]."""
        weights = self.weights or (1.0,) * len(self.values)
        total = sum(weights)
        return tuple(weight / total for weight in weights)

    @property
    def mean(self) -> float:
        """Mean length [1]."""
        return sum(s * x for s, x in zip(self.shares, self.values, strict=True))

    @property
    def mean_square(self) -> float:
        """Mean of the squares, on which the attention of prompts depends [1]."""
        return sum(s * x * x for s, x in zip(self.shares, self.values, strict=True))


def as_lengths(given: Any) -> Lengths:
    """Lengths of a number, of a list, or of a dict of weights."""
    if isinstance(given, Lengths):
        return given
    try:
        return Lengths(**_spelt(given))
    except InvalidValueError as error:  # whoever asked names its own field, and what it got
        raise ValueError(str(error).removeprefix("Lengths.").split(", got ")[0]) from None


def _spelt(given: Any) -> dict[str, Any]:
    """The fields of lengths, however they are given."""
    if isinstance(given, Mapping):
        if given and set(given) <= {"values", "weights"}:
            return dict(given)
        return {"values": _listed(given.keys()), "weights": _listed(given.values())}
    if isinstance(given, str | bytes | bytearray | memoryview):
        raise ValueError("expected a number of tokens, a list, or a dict of weights")
    if isinstance(given, Iterable):
        return {"values": _listed(given)}
    return {"values": (_one(given),)}


def _one(given: Any) -> float:
    try:
        return tokens(given)
    except ValueError:
        raise ValueError(
            "expected from 1 to 1e8 tokens, a list of such numbers, or a dict of weights"
        ) from None


def _listed(given: Iterable[Any]) -> tuple[Any, ...]:
    try:
        found = tuple(islice(given, MAX_LIST + 1))
    except Exception:  # an iterator that fails
        raise ValueError(f"expected a list of lengths, got {shown(given)}") from None
    if not 1 <= len(found) <= MAX_LIST:
        raise ValueError(f"expected from 1 to {MAX_LIST:,} lengths")
    return found


LengthsLike: TypeAlias = Annotated[Lengths, BeforeValidator(as_lengths)]
