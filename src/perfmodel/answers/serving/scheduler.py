"""How a server orders its work: chunks beside tokens, prompts first, or pools apart; drafts."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from perfmodel.base._num import Num, where
from perfmodel.base.spec import (
    Count,
    Flag,
    Rate,
    Spec,
    checked_choice,
    non_negative,
    quantity,
)
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

_NAMES: Final = ("chunked", "prefill-first", "disaggregated")


class Scheduler(Spec):
    """One pool of devices that reads prompts and writes tokens, as most servers are.

    ``chunked``: in a step, every sequence that decodes has its token, and the rest of ``budget``
    is filled with parts of prompts, first come, first served. ``prefill-first``: while prompts
    wait, steps read prompts alone, up to ``budget`` tokens, and sequences that decode stand still.

    Examples
    --------
    >>> Scheduler(budget=2048).kind
    'chunked'
    """

    kind: Literal["chunked", "prefill-first"] = "chunked"
    """What a step may hold."""
    budget: Count = quantity("T", "1", "Tokens of a step, at most", default=8192)
    sequences: Count | None = quantity(
        "B_1", "1", "Sequences of a replica that decode, at most; None: as memory allows",
        default=None,
    )  # fmt: skip
    reserves: Flag = False
    """Whether a sequence is admitted only where its whole output has room; else where it has now,
    as engines do that preempt."""


class Disaggregated(Spec):
    """Two pools: some replicas read prompts one by one, others write tokens, undisturbed.

    Keys and values of a prompt move between them once it is read; only then its first token is
    sent. ``Serving.balanced_pools`` says how many prefill replicas keep one decode replica busy.

    Examples
    --------
    >>> Disaggregated(prefill=2, decode=6, transfer=50e9).transfer
    50000000000.0
    """

    prefill: Count = quantity("n_p", "1", "Replicas that read prompts", default=1)
    decode: Count = quantity("n_d", "1", "Replicas that write tokens", default=1)
    prefill_parallelism: Parallelism | None = None
    """How a prefill replica is divided; None: as a decode replica."""
    transfer: Rate | None = quantity(
        r"\beta_t", "B/s", "Bandwidth from each device to the other pool; None: of the network, "
        "or where there is none of the link between chips", default=None,
    )  # fmt: skip
    sequences: Count | None = quantity(
        "B_1", "1", "Sequences of a replica that decode, at most; None: as memory allows",
        default=None,
    )  # fmt: skip
    reserves: Flag = False
    """Whether a sequence is admitted only where its whole output has room."""


SchedulerLike: TypeAlias = Scheduler | Disaggregated | str


def resolve_scheduler(given: SchedulerLike) -> Scheduler | Disaggregated:
    """The scheduler meant: as given, or the usual one of a name.

    Raises
    ------
    InvalidValueError
        If it is neither a scheduler nor one of the three names.
    """
    if isinstance(given, Scheduler | Disaggregated):
        return given
    checked_choice("scheduler", given, _NAMES)
    if given == "prefill-first":
        return Scheduler(kind="prefill-first")
    return Disaggregated() if given == "disaggregated" else Scheduler()


def _chance(value: Any) -> float:
    number = non_negative(value)
    if number > 1:
        raise ValueError("expected a chance from 0 to 1")
    return number


Chance: TypeAlias = Annotated[float, BeforeValidator(_chance)]


Guesses: TypeAlias = Annotated[int, Field(ge=1, le=1024, strict=True)]


class Speculation(Spec):
    """Drafts: a step checks k guessed tokens of each sequence and keeps those up to the first miss.

    Each guess is right with the same chance, independent of the others. A step then gives
    ``1 + a + a^2 + ... + a^k`` tokens.

    Examples
    --------
    >>> guess = Speculation(tokens=3, acceptance=0.8)
    >>> round(guess.expected_tokens, 3)  # 1 + 0.8 + 0.64 + 0.512
    2.952

    If checking takes 1.5 times as long as a plain step, what must be accepted to gain anything?

    >>> round(guess.breakeven_acceptance(1.5), 4)  # 1 + a + a^2 + a^3 = 1.5
    0.3425
    """

    tokens: Guesses = quantity("k", "1", "Tokens that are guessed in each step, at most 1,024")
    acceptance: Chance = quantity("a", "1", "Chance that a guess is right")
    draft: ModelShape | None = None
    """The model that guesses, one token after another, on the same devices; None: guesses cost
    nothing, as those looked up in the prompt."""

    @property
    def expected_tokens(self) -> float:
        """Tokens that a step gives a sequence, on average [1]."""
        return sum((self.acceptance**i for i in range(self.tokens + 1)), 0.0)

    def breakeven_acceptance(self, cost: Num) -> Num:
        """The chance above which a sequence gains: where expected tokens are the cost.

        Parameters
        ----------
        cost : float or array
            Time of a step with drafts and their check over that of a plain one [1].

        Returns
        -------
        float or array
            Chance; 1 where even that does not pay [1].
        """
        low, high = cost * 0.0, cost * 0.0 + 1.0
        for _ in range(60):  # to rounding: each round halves the interval
            middle = (low + high) / 2
            short = sum([middle**i for i in range(self.tokens + 1)]) < cost
            low, high = where(short, middle, low), where(short, high, middle)
        return high
