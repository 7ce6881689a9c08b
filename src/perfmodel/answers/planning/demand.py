"""What a plan must do: requests of a model, answered within targets. No chip."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from perfmodel.answers.holding.policies import MemoryPolicy
from perfmodel.answers.serving.scheduler import Scheduler, Speculation
from perfmodel.answers.serving.workload import Workload
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Name, Quantity, Spec, quantity
from perfmodel.base.units import si
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.forms import ServerForm
from perfmodel.work.shape import ModelShape


class Slo(Spec):
    """Service targets: what a mean request may take, at most.

    They are held against means, for a static model has no percentiles.

    Examples
    --------
    >>> Slo(ttft=1.0, tpot=0.04)
    <first token within 1.00 s, then 40.0 ms a token>
    """

    ttft: Quantity | None = quantity(
        r"\hat t_1", "s", "From a request to its first token, at most", default=None
    )
    tpot: Quantity | None = quantity(
        r"\hat t_o", "s", "Mean time of each token after the first, at most", default=None
    )
    end_to_end: Quantity | None = quantity(
        r"\hat t_e", "s", "From a request to its last token, at most", default=None
    )

    @model_validator(mode="after")
    def _is_a_target(self) -> Self:
        if not self.targets:
            raise InvalidValueError("Slo: expected ttft, tpot or end_to_end [s], got none of them")
        if self.ttft and self.end_to_end and self.ttft > self.end_to_end:
            raise InvalidValueError(
                f"Slo.ttft: expected at most end_to_end ({self.end_to_end:g}), got {self.ttft:g}"
            )
        return self

    def __repr__(self) -> str:
        words = {"ttft": "first token within {}", "tpot": "{} a token", "end_to_end": "{} in all"}
        said = [words[name].format(si(value, "s")) for name, value in self.targets.items()]
        return f"<{', then '.join(said)}>"

    __str__ = __repr__

    @property
    def targets(self) -> dict[str, float]:
        """The targets that are set, by name [s]."""
        every = {name: getattr(self, name) for name in ("ttft", "tpot", "end_to_end")}
        return {name: value for name, value in every.items() if value is not None}


def told_apart(time: float, target: float) -> tuple[str, str]:
    """A time and the target that it breaks in words [s], with as many digits as it takes."""
    for digits in range(3, 12):
        told = si(time, "s", digits), si(target, "s", digits)
        if told[0] != told[1]:
            break
    return told


class Demand(Spec):
    """A model, its requests and targets, and how they are served: all but where."""

    model: ModelShape
    """The model."""
    workload: Workload
    """What is asked of it."""
    slo: Slo
    """What a mean request may take."""
    scheduler: Scheduler
    """How one pool orders its work; of two, how many sequences decode, and whether it reserves."""
    speculation: Speculation | None
    """What is guessed; None: nothing."""
    efficiency: Efficiency | Literal["ideal", "auto"]
    """How far below the roofs, of every chip."""
    engine: Name | None
    """Whose kernels and host are meant; None: nobody's."""
    server: ServerForm
    """What a server adds to a request beside its steps."""
    policy: MemoryPolicy
    """How the engine uses the memory."""

    def __repr__(self) -> str:
        return f"<{self.model.name}, {str(self.workload)[1:-1]}: {str(self.slo)[1:-1]}>"

    __str__ = __repr__

    @property
    def load(self) -> float:
        """Users at once, or requests a second [1 or 1/s]."""
        work = self.workload
        found = work.concurrency if work.rate is None else work.rate
        return 1.0 if found is None else found

    @property
    def is_open(self) -> bool:
        """Whether requests come by themselves, at a rate."""
        return self.workload.rate is not None

    def loaded(self, load: float) -> Workload:
        """The same requests, by so many users or so many a second.

        Parameters
        ----------
        load : float
            Users at once, or requests a second [1 or 1/s].

        Returns
        -------
        Workload
            With lengths, prefix and rounds as they were.
        """
        return self.workload.model_copy(update={"rate" if self.is_open else "concurrency": load})
