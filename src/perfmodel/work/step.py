"""One pass over the weights: which sequences take part, with how many tokens each."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from pydantic import Field, model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Count, CountOrZero, Spec, quantity


class Group(Spec):
    """Sequences that do the same in a step: each adds ``new`` tokens to ``past`` cached ones."""

    count: Count = quantity("B", "1", "Sequences in the group")
    new: Count = quantity("N", "1", "New tokens of each sequence")
    past: CountOrZero = quantity("P", "1", "Tokens of each sequence already cached", default=0)
    logits: CountOrZero = quantity(
        "N_o", "1", "Positions of each sequence whose logits are computed", default=1
    )
    shared_past: CountOrZero = quantity(
        "P_s", "1", "Tokens of the past that all sequences share and that are read once", default=0
    )

    @model_validator(mode="after")
    def _parts_within_wholes(self) -> Self:
        if self.logits > self.new:
            raise InvalidValueError(
                f"Group.logits: expected at most new={self.new}, got {self.logits}"
            )
        if self.shared_past > self.past:
            raise InvalidValueError(
                f"Group.shared_past: expected at most past={self.past}, got {self.shared_past}"
            )
        return self

    @property
    def context(self) -> int:
        """Tokens that the last new one attends, itself included [1]."""
        return self.past + self.new


class Step(Spec):
    """Groups of sequences that pass the weights together.

    Prefill is ``past=0``; decode is ``new=1``; a chunk of a prompt, or a prompt after a cached
    prefix, is ``past>0``; checking k drafted tokens is
    ``new=k+1, logits=k+1``.
    """

    groups: tuple[Group, ...] = Field(min_length=1)
    """The groups, one or more."""

    @cached_property
    def tokens(self) -> Num:
        """Tokens that pass the weights [1]."""
        return sum([group.count * group.new for group in self.groups])

    @property
    def mean_tokens(self) -> Num:
        """Tokens of a replica on average: of all, where there is but one [1]."""
        return self.tokens

    @property
    def logit_tokens(self) -> Num:
        """Positions that pass the output head [1]."""
        return sum([group.count * group.logits for group in self.groups])

    @property
    def sequences(self) -> Num:
        """Sequences in the step [1]."""
        return sum([group.count for group in self.groups])
