"""Collectives: what devices send each other, how much of it, and over how many hops."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Amount, Count, Name, NonNegative, Spec, checked_count, quantity
from perfmodel.work.parallel import AllReduce, Parallelism

CollectiveKind: TypeAlias = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "point-to-point"
]


class Collective(Spec):
    """An exchange between ``group`` devices that each hold, or end up with, ``nbytes``.

    The bytes are those of the whole vector: what is reduced, what is gathered, what is scattered,
    what one device sends all others and itself, or one message.
    """

    name: Name
    """As tables show it."""
    kind: CollectiveKind
    """What is exchanged."""
    nbytes: NonNegative = quantity("S", "B", "The whole vector of one device")
    least_nbytes: NonNegative = quantity(
        "S_0", "B", "What routing cannot avoid of it: nothing where all experts chosen are near"
    )
    group: Count = quantity("n", "1", "Devices that take part")
    calls: Amount = quantity("n_c", "1", "Calls in the step")
    algorithm: AllReduce = "ring"
    """How an all-reduce adds up; the others have but one way."""
    tokens: Amount | NonNegative = quantity("T", "1", "Tokens that it moves; as of an operation")

    @model_validator(mode="after")
    def _least_is_less(self) -> Self:
        if self.least_nbytes > self.nbytes:
            raise InvalidValueError(
                f"Collective.least_nbytes: expected at most nbytes ({self.nbytes:g}), "
                f"got {self.least_nbytes:g}"
            )
        return self

    def _near(self, near: int) -> int:
        if checked_count("near", near) > self.group:
            raise InvalidValueError(
                f"near: expected at most the {self.group} devices of the group, got {near}"
            )
        return int(near)

    @property
    def sends_to_all(self) -> bool:
        """Whether each device sends to every other at once, over both kinds of link."""
        one_shot = self.kind == "all-reduce" and self.algorithm == "one-shot"
        return one_shot or self.kind == "all-to-all"

    def legs(self, near: int) -> tuple[Leg, Leg]:
        """What one device sends inside its node, and over the network.

        Reductions and gathers run in two levels: ``near`` devices of a node, then the nodes, each
        device with its own share.

        Parameters
        ----------
        near : int
            Devices of the group in one node [1].

        Returns
        -------
        tuple of Leg
            The inner and the outer one; no bytes where nothing crosses.

        Raises
        ------
        InvalidValueError
            If the group has not so many devices.
        """
        near = self._near(near)
        size, nodes, far = self.nbytes, -(-self.group // near), self.group - near
        if self.sends_to_all:
            one = size / self.group if self.kind == "all-to-all" else size
            return Leg((near - 1) * one, min(1, near - 1)), Leg(far * one, min(1, far))
        if self.kind == "point-to-point":
            here = near == self.group
            sent, nothing = Leg(size, 1), Leg(0, 0)
            return (sent, nothing) if here else (nothing, sent)
        outer = _leg(self.kind, "ring", size / near, nodes)
        return _leg(self.kind, self.algorithm, size, near), outer

    def least_legs(self, near: int) -> tuple[Num, Num]:
        """Bytes that a device cannot avoid sending, inside and outside, whatever the algorithm.

        An all-reduce takes every device's vector once, even in a switch that adds up. Once nodes
        are involved, what a node must send is spread over its devices; the inside may hide.

        Parameters
        ----------
        near : int
            Devices of the group in one node [1].

        Returns
        -------
        tuple of float or array or symbol
            Bytes in one direction [B].

        Raises
        ------
        InvalidValueError
            If the group has not so many devices.
        """
        near = self._near(near)
        size = self.least_nbytes
        whole = self.kind in ("all-reduce", "point-to-point")
        if near == self.group:
            return size if whole else (self.group - 1) / self.group * size, 0
        return 0, (size if whole else (self.group - near) / self.group * size) / near


def all_reduce(
    name: str,
    nbytes: Num,
    tokens: Num,
    calls: Num,
    parallelism: Parallelism,
    *,
    group: int | None = None,
    avoidable: bool = False,
) -> Collective:
    """The sum of what each device of a group holds, known to all of them after it.

    The group is the tensor group, or fewer of it. What is looked up in a table can be avoided:
    every device may hold all rows.
    """
    return Collective.trusted(
        name=name,
        kind="all-reduce",
        nbytes=nbytes,
        least_nbytes=0 if avoidable else nbytes,
        group=parallelism.tensor if group is None else group,
        calls=calls,
        algorithm=parallelism.all_reduce,
        tokens=tokens,
    )


class Leg(NamedTuple):
    """What one device sends over one kind of link."""

    wire: Num
    """Bytes in one direction [B]."""
    hops: int
    """Messages one after another [1]."""


def _leg(kind: CollectiveKind, algorithm: AllReduce, size: Num, devices: int) -> Leg:
    """A reduction or a gather among so many devices."""
    others = devices - 1
    if not others:
        return Leg(0, 0)
    if kind != "all-reduce":
        return Leg(others / devices * size, others)
    if algorithm == "in-switch":
        # Sent up whole, and the device's own share sent up again to be handed to all.
        return Leg((devices + 1) / devices * size, 2)
    # Each share goes round twice: added up, then handed on.
    return Leg(2 * others / devices * size, 2 * others)
