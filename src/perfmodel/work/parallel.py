"""How devices share the work: by tensor, by pipeline, by expert, by data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from perfmodel.base._num import Num, ceil_div, divide, is_zero, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Count, Spec, checked_kind, checked_num, quantity
from perfmodel.work.step import Group, Step

AllReduce: TypeAlias = Literal["ring", "one-shot", "in-switch"]
Communication: TypeAlias = Literal["serial", "overlapped", "ignored"]

MAX_STAGES: Final = 1000  # each is counted by itself


class Parallelism(Spec):
    """Over how many devices each part of a model is divided.

    ``tensor`` devices share every matrix, ``pipeline`` stages share the blocks, ``data`` replicas
    share the sequences. ``expert`` devices share the experts: within the tensor group, or, as a
    multiple of it, across replicas, whose tokens then meet at the experts (attention
    data-parallel, feed-forward expert-parallel). Neighbouring devices are those of a tensor group,
    then replicas, then stages.

    Examples
    --------
    >>> Parallelism(tensor=4, pipeline=2).devices
    8

    Attention on 32 replicas, experts over all of them:

    >>> Parallelism(data=32, expert=32).devices
    32
    """

    tensor: Count = quantity("t", "1", "Devices that share each matrix", default=1)
    pipeline: Count = quantity("p", "1", "Stages that share the blocks", default=1)
    expert: Count = quantity("e", "1", "Devices that share the experts", default=1)
    data: Count = quantity("r", "1", "Replicas that share the sequences", default=1)
    micro_batches: Count | None = quantity(
        "m",
        "1",
        "Parts of a replica's batch that follow each other through the stages; None: one a stage",
        default=None,
    )
    stages: Annotated[tuple[Count, ...], Field(max_length=MAX_STAGES)] | None = None
    """Blocks of each stage; None: as equal as can be, the rest before the last stage."""
    all_reduce: AllReduce = "ring"
    """How partial sums are added up: around a ring, by sending all to all, or in the switch."""
    communication: Communication = "serial"
    """Whether communication follows the operations, runs beside them, or is left out."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        tensor, expert = self.tensor, self.expert
        within, across = tensor % expert == 0, expert % tensor == 0
        if not within and not (across and self.data % (expert // tensor) == 0):
            raise InvalidValueError(
                f"Parallelism.expert: expected a divisor of tensor={tensor}, or {tensor} times a "
                f"divisor of data={self.data}, got {expert}"
            )
        if self.pipeline > MAX_STAGES:
            raise InvalidValueError(
                f"Parallelism.pipeline: expected at most {MAX_STAGES} stages, got {self.pipeline}"
            )
        if self.stages is not None and len(self.stages) != self.pipeline:
            raise InvalidValueError(
                f"Parallelism.stages: expected the blocks of pipeline={self.pipeline} stages, "
                f"got {len(self.stages)}"
            )
        return self

    def __repr__(self) -> str:
        return f"<Parallelism {self}>"

    def __str__(self) -> str:
        sizes = ("tensor", "pipeline", "expert", "data")
        used = [f"{name} {getattr(self, name)}" for name in sizes if getattr(self, name) > 1]
        return ", ".join(used) or "one device"

    @property
    def devices(self) -> int:
        """Devices in all [1]."""
        return self.tensor * self.pipeline * self.data

    @property
    def replicas_per_expert(self) -> int:
        """Replicas whose tokens meet at the same experts [1]."""
        return max(1, self.expert // self.tensor)

    def micro_batches_of(self, sequences: Num) -> Num:
        """Into how many parts a replica's share of a step is cut.

        Parameters
        ----------
        sequences : int or array or symbol
            Sequences of all replicas [1].

        Returns
        -------
        int or array or symbol
            Micro-batches, none of them empty [1].

        Raises
        ------
        InvalidValueError
            If there are no sequences.
        """
        checked_num("sequences", sequences, zero=False)
        if self.pipeline == 1 and self.micro_batches is None:
            return 1
        wanted = self.pipeline if self.micro_batches is None else self.micro_batches
        return minimum(wanted, ceil_div(sequences, self.data))

    def replica(self, step: Step) -> Step:
        """What the first replica holds of a step.

        Sequences are dealt to the replicas in turn, those with most new tokens first.

        Parameters
        ----------
        step : Step
            Sequences of all replicas.

        Returns
        -------
        Step
            All micro-batches of one replica, of which none has fewer sequences or new tokens.

        Raises
        ------
        InvalidValueError
            If it is no step.
        """
        checked_kind("step", step, Step)
        return next(self.replicas(step))

    def replicas(self, step: Step) -> Iterator[Step]:
        """What replicas hold of a step, the first of them first, and each share once.

        Parameters
        ----------
        step : Step
            Sequences of all replicas.

        Yields
        ------
        Step
            Of equal sequences that of the busiest. Of others, one that holds fewer new tokens may
            hold more past ones.
        """
        if self.data == 1:
            yield step
            return
        mean = divide(step.tokens, self.data)
        groups = sorted(step.groups, key=lambda group: (group.new, group.past), reverse=True)
        dealt = list(accumulate(group.count for group in groups))
        # Past the one that gets a group's last sequence, replicas hold one less of all up to it.
        others = {count % self.data for count in dealt} if len(groups) > 1 else set()
        for index in (0, *sorted(others - {0})):
            upto = [ceil_div(count - index, self.data) for count in dealt]
            held = [
                _counted(group, after - before)
                for group, before, after in zip(groups, (0, *upto), upto, strict=False)
                if not is_zero(after - before)
            ]
            if held:
                yield _Part.trusted(groups=tuple(held), mean=mean)

    def micro_batch(self, step: Step) -> Step:
        """What the busiest replica sees at once, on average over its micro-batches.

        Parameters
        ----------
        step : Step
            Sequences of all replicas.

        Returns
        -------
        Step
            One micro-batch of one replica; its counts need not be whole.

        Raises
        ------
        InvalidValueError
            If it is no step.
        """
        held, parts = self.replica(step), self.micro_batches_of(step.sequences)
        return held if is_zero(parts - 1) else cut(held, parts)

    def least_shares(self, step: Step) -> Iterator[Step]:
        """What some replica holds at least, however sequences are dealt to the replicas.

        Parameters
        ----------
        step : Step
            Sequences of all replicas.

        Yields
        ------
        Step
            Of equal sequences the busiest replica's; else the mean, and of each group alone the
            most that one replica is sure to hold.
        """
        if self.data > 1 and len(step.groups) > 1:
            yield cut(step, self.data)
            for group in step.groups:
                yield self.replica(Step.trusted(groups=(group,)))
        else:
            yield self.replica(step)


def cut(step: Step, parts: Num) -> Step:
    """One of so many equal parts of a step; its counts need not be whole."""
    groups = tuple(_counted(group, divide(group.count, parts)) for group in step.groups)
    return _Part.trusted(groups=groups, mean=divide(step.mean_tokens, parts))


class _Part(Step):
    """What one of several replicas does of a step, beside others that do more or less."""

    mean: float

    @property
    def mean_tokens(self) -> Num:
        """Tokens of a replica on average [1]."""
        return self.mean


def _counted(group: Group, count: Num) -> Group:
    """As many sequences that do the same."""
    fields = {name: getattr(group, name) for name in Group.model_fields}
    return Group.trusted(**fields | {"count": count})


# Unchecked, so that importing perfmodel builds no validator.
SINGLE: Final = Parallelism.trusted(
    tensor=1,
    pipeline=1,
    expert=1,
    data=1,
    micro_batches=None,
    stages=None,
    all_reduce="ring",
    communication="serial",
)
