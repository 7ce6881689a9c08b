"""Plans: what to buy, what it does and costs, and why the rest will not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from perfmodel.answers.planning.candidates import PlanLimit
from perfmodel.answers.planning.demand import Demand
from perfmodel.answers.serving.record import Serving
from perfmodel.answers.serving.scheduler import Disaggregated, Scheduler
from perfmodel.answers.serving.serve import serve
from perfmodel.answers.serving.workload import Workload
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Amount, Count, CountOrZero, NonNegative, Spec, quantity
from perfmodel.base.units import si
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.prices import Price
from perfmodel.work.parallel import Parallelism

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.base._html import Cells

HOUR = 3600.0  # s
MILLION = 1e6


class Plan(Spec):
    """Chips for a demand: how many, divided how, what they do, and what limits them.

    Where a limit is broken, ``broken`` names it and ``reason`` says how. Where no number of
    replicas keeps a target, the plan stands for one, and its times are those of a request that is
    all but alone; where there is nothing to serve with, there are no numbers.
    """

    demand: Demand
    """What it must do."""
    gpu: GpuSpec
    """The chip."""
    cluster: Cluster | None
    """How nodes are joined; None: a replica stays where the chip's own links reach."""
    price: Price | None
    """What an hour of one device costs; None: not known."""
    precision: Precision
    """What each part is stored, moved and computed in."""
    parallelism: Parallelism
    """How one replica is divided."""
    replicas: Count = quantity("n", "1", "Replicas that write tokens")
    prefill_replicas: CountOrZero = quantity(
        "n_p", "1", "Replicas that only read prompts; 0: prompts are read beside tokens"
    )
    workload: Workload
    """The load for which the numbers are."""
    ttft: NonNegative | None = quantity("t_1", "s", "From a request to its first token")
    tpot: NonNegative | None = quantity("t_o", "s", "Mean time of each token after the first")
    requests_per_second: NonNegative | None = quantity("X", "1/s", "Requests answered in a second")
    batch: NonNegative | None = quantity("b", "1", "Sequences in a step of one replica")
    capacity: Amount | None = quantity(
        "B_m", "1", "Sequences for which all replicas that write tokens have room"
    )
    prompt_share: NonNegative | None = quantity(
        r"\sigma", "1", "Share of the devices' time that is spent on prompts"
    )
    used: tuple[tuple[PlanLimit, NonNegative], ...]
    """Share of each limit that is used; above 1 it is broken [1]."""
    broken: PlanLimit | None
    """The limit that it breaks; None: it does what is asked."""
    reason: str
    """How it breaks it, in words."""

    def __repr__(self) -> str:
        return f"<{self.purchase}: {self.reason or self._does}>"

    __str__ = __repr__

    @property
    def purchase(self) -> str:
        """What is bought, in words."""
        many = f"{self.devices} x " if self.devices > 1 else ""
        how = f", {self.division}" if self.devices > 1 else ""
        return f"{many}{self.gpu.name}, {self.precision.name}{how}"

    @property
    def division(self) -> str:
        """How the devices are divided, in words."""
        if self.prefill_replicas:
            pools = f"{self.prefill_replicas} + {self.replicas} prefill + decode replicas"
            return f"{pools} of {self.parallelism}"
        if self.replicas > 1:
            return f"{self.replicas} replicas of {self.parallelism}"
        return str(self.parallelism)

    @property
    def _does(self) -> str:
        return (
            f"first token {si(self.ttft or 0.0, 's')}, then {si(self.tpot or 0.0, 's')} a token, "
            f"{self.output_tokens_per_second:,.0f} tokens/s"
            + ("" if self.cost_per_hour is None else f", {self.cost_per_hour:,.2f} USD/h")
        )

    @property
    def feasible(self) -> bool:
        """Whether no limit is broken."""
        return self.broken is None

    @property
    def devices(self) -> int:
        """Devices of all replicas and pools [1]."""
        return self.parallelism.devices * (self.replicas + self.prefill_replicas)

    @property
    def scheduler(self) -> Scheduler | Disaggregated:
        """How it orders its work."""
        order = self.demand.scheduler
        if not self.prefill_replicas:
            return order
        return Disaggregated(
            prefill=self.prefill_replicas,
            decode=self.replicas,
            sequences=order.sequences,
            reserves=order.reserves,
        )

    # -- what it does ------------------------------------------------------------------------------

    @property
    def end_to_end(self) -> float | None:
        """From a request to its last token [s]."""
        if self.ttft is None or self.tpot is None:
            return None
        return self.ttft + self.workload.decode_tokens * self.tpot

    @property
    def users(self) -> float | None:
        """Requests in the servers at a time [1]."""
        if self.end_to_end is None or self.requests_per_second is None:
            return None
        return self.requests_per_second * self.end_to_end

    @property
    def output_tokens_per_second(self) -> float:
        """Tokens written in a second; 0 without numbers [1/s]."""
        return (self.requests_per_second or 0.0) * self.workload.output.mean

    @property
    def prompt_tokens_per_second(self) -> float:
        """Prompt tokens of the requests answered in a second; 0 without numbers [1/s]."""
        return (self.requests_per_second or 0.0) * self.workload.prompt.mean

    @property
    def output_tokens_per_second_per_device(self) -> float:
        """Tokens written in a second by each device [1/s]."""
        return self.output_tokens_per_second / self.devices

    @property
    def tokens_per_second_per_user(self) -> float | None:
        """Tokens that a user sees in a second once they come [1/s]."""
        return 1 / self.tpot if self.tpot else None

    # -- what it costs -----------------------------------------------------------------------------

    @property
    def cost_per_hour(self) -> float | None:
        """All devices for an hour, at the lowest price seen; None without a price [USD]."""
        return None if self.price is None else self.devices * self.price.low_per_hour

    def _per_million(self, rate: float, share: float) -> float | None:
        hourly = self.cost_per_hour
        return None if hourly is None or not rate else hourly * share / HOUR / rate * MILLION

    @property
    def cost_per_million(self) -> float | None:
        """A million tokens, prompts and outputs alike [USD]."""
        return self._per_million(self.prompt_tokens_per_second + self.output_tokens_per_second, 1.0)

    @property
    def cost_per_million_input(self) -> float | None:
        """A million prompt tokens, which bear the time that is spent on prompts [USD]."""
        return self._per_million(self.prompt_tokens_per_second, self.prompt_share or 0.0)

    @property
    def cost_per_million_output(self) -> float | None:
        """A million written tokens, which bear the rest of the time [USD]."""
        return self._per_million(self.output_tokens_per_second, 1 - (self.prompt_share or 0.0))

    @property
    def power(self) -> float | None:
        """All devices at their power limits: a bound, without hosts and cooling [W]."""
        return None if self.gpu.power is None else self.devices * self.gpu.power

    @property
    def energy_per_million(self) -> float | None:
        """A million tokens, prompts and outputs alike, at that power: a bound too [J]."""
        rate = self.prompt_tokens_per_second + self.output_tokens_per_second
        return None if self.power is None or not rate else self.power / rate * MILLION

    # -- what limits it ----------------------------------------------------------------------------

    @property
    def binding(self) -> PlanLimit | None:
        """The limit that is broken, or of those kept the one that is used most."""
        if self.broken is not None:
            return self.broken
        return max(self.used, key=lambda item: item[1])[0] if self.used else None

    @property
    def headroom(self) -> float | None:
        """What is left of the limit that is used most; below 0 it is broken [1]."""
        return 1 - max(share for _, share in self.used) if self.used else None

    def serving(self) -> Serving:
        """The steady state of the plan in full, as ``serve`` answers it.

        Returns
        -------
        Serving
            Of all replicas; of one pool whose replicas are groups that share experts, of one group
            and its load.

        Raises
        ------
        InvalidValueError
            If it has no steady state, for it breaks a limit that leaves it none.
        """
        if self.requests_per_second is None:
            raise InvalidValueError(f"plan: expected one that can be served, got: {self.reason}")
        demand, ways, work = self.demand, self.parallelism, self.workload
        if self.prefill_replicas:  # its scheduler counts the replicas of both pools
            pass
        elif ways.data == 1:
            ways = ways.model_copy(update={"data": self.replicas})
        elif self.replicas > 1:
            each = (work.rate or work.concurrency or 1.0) / self.replicas
            work = demand.loaded(each if demand.is_open else max(1.0, each))
        return serve(
            demand.model,
            self.cluster or self.gpu,
            work,
            parallelism=ways,
            precision=self.precision,
            scheduler=self.scheduler,
            efficiency=demand.efficiency,
            engine=demand.engine,
            server=demand.server,
            speculation=demand.speculation,
            policy=demand.policy,
        )

    def elasticities(self) -> dict[str, float]:
        """What more of each figure of the chip would buy: larger loads within the same targets.

        Returns
        -------
        dict of str to float
            Of ``"bandwidth"``, ``"compute"``, ``"link"`` and ``"memory"``: by how many per cent the
            largest load grows with each per cent more, over the next ten [1].

        Raises
        ------
        InvalidValueError
            If the plan breaks a limit.
        """
        from perfmodel.answers.planning.whatif import elasticities

        return elasticities(self)

    def explain(self) -> str:
        """The plan in a paragraph: what is bought, what it does, what limits it, what it costs.

        Returns
        -------
        str
            A few sentences, ready to print.
        """
        from perfmodel.answers.planning.explained import explain_plan

        return explain_plan(self)

    def row(self) -> dict[str, Any]:
        """The plan as numbers with names: times [s], rates [1/s], costs [USD], power [W]."""
        return {
            "gpu": self.gpu.key or self.gpu.name,
            "devices": self.devices,
            "replicas": self.replicas,
            "prefill_replicas": self.prefill_replicas,
            **{name: getattr(self.parallelism, name) for name in _SIZES},
            "precision": self.precision.name,
            **{name: getattr(self, name) for name in _NUMBERS},
            "broken": self.broken,
            "reason": self.reason,
        }


_SIZES = ("tensor", "pipeline", "expert", "data")
_NUMBERS = (
    "batch",
    "capacity",
    "ttft",
    "tpot",
    "end_to_end",
    "users",
    "requests_per_second",
    "output_tokens_per_second",
    "output_tokens_per_second_per_device",
    "tokens_per_second_per_user",
    "cost_per_hour",
    "cost_per_million",
    "cost_per_million_input",
    "cost_per_million_output",
    "power",
    "energy_per_million",
    "headroom",
    "binding",
)


class Plans(Spec):
    """Every candidate, the best first: those that do what is asked before those that do not."""

    rows: tuple[Plan, ...]
    """The plans. Of chips with a price, the cheapest first; then those without, fewest devices
    first."""
    by: Literal["hour", "token"]
    """What is cheapest: an hour, for a load that is given; a token, where the load is sought."""
    devices: Count = quantity("N_d", "1", "Devices in all, at most")

    def __repr__(self) -> str:
        kept = sum(plan.feasible for plan in self.rows)
        best = self.best
        told = "none" if best is None else str(best)[1:-1]
        return f"<{kept:,} of {len(self.rows):,} plans do; best: {told}>"

    __str__ = __repr__

    def _cells(self) -> Cells:
        from perfmodel.base._html import told

        def cells(plan: Plan) -> tuple[str, ...]:
            about = (plan.purchase, told(plan.ttft, "s"), told(plan.tpot, "s"))
            rate = told(plan.output_tokens_per_second_per_device, "1/s")
            return (*about, rate, told(plan.cost_per_hour, "USD/h"), plan.reason or "does")

        header = "plan", "first token", "each token", "tokens of a device", "cost", ""
        return header, map(cells, self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def best(self) -> Plan | None:
        """The first plan; None where none does what is asked."""
        return self.rows[0] if self.rows and self.rows[0].feasible else None

    @property
    def feasible(self) -> tuple[Plan, ...]:
        """The plans that do what is asked."""
        return tuple(plan for plan in self.rows if plan.feasible)

    @property
    def by_chip(self) -> tuple[Plan, ...]:
        """The best plan of each chip, or the one that comes closest."""
        found: dict[str, Plan] = {}
        for plan in self.rows:
            found.setdefault(plan.gpu.key or plan.gpu.name, plan)
        return tuple(found.values())

    @property
    def pareto(self) -> tuple[Plan, ...]:
        """The plans that no other beats in cost and in both times.

        Cost is that of an hour, or of a token where the load is sought; at the same cost fewer
        devices are better. Of chips with a price, where there are any; else devices stand for
        cost. Of each candidate only the plan that is held counts: more replicas than that are
        dearer and may be faster.
        """
        every = self.feasible
        priced = [plan for plan in every if plan.price is not None]
        kept: list[tuple[Plan, tuple[Any, ...]]] = []
        for plan in priced or every:  # in this order: a later one never beats an earlier
            marks = _marks(plan, self.by)
            if not any(_beats(other, marks) for _, other in kept):
                kept.append((plan, marks))
        return tuple(plan for plan, _ in kept)

    def winning_price(self, gpu: str | GpuSpec) -> float | None:
        """At which price a chip would be as cheap as the best of the others.

        Parameters
        ----------
        gpu : str or GpuSpec
            One of the chips of the plans, or its key or name.

        Returns
        -------
        float or None
            An hour of one device; None where the chip will not do, or no other has a price [USD].

        Raises
        ------
        UnknownKeyError
            If it is none of the chips.
        """
        from perfmodel.answers.planning.whatif import winning_price

        return winning_price(self, gpu)

    def winning_bandwidth(self, gpu: str | GpuSpec) -> float | None:
        """With which memory bandwidth a chip would be as cheap as the best of the others.

        Parameters
        ----------
        gpu : str or GpuSpec
            One of the chips of the plans, or its key or name.

        Returns
        -------
        float or None
            Bandwidth, to a thousandth; None where not even 64 times its own is enough, or it or
            the others have no price [B/s].

        Raises
        ------
        UnknownKeyError
            If it is none of the chips.
        """
        from perfmodel.answers.planning.whatif import winning_bandwidth

        return winning_bandwidth(self, gpu)

    def to_frame(self) -> pd.DataFrame:
        """The plans as a table.

        Returns
        -------
        pandas.DataFrame
            One row a plan; times [s], rates [1/s], costs [USD], power [W], energy [J].
        """
        import pandas as pd

        return pd.DataFrame([plan.row() for plan in self.rows])

    def explain(self) -> str:
        """The best plan in a paragraph, what else would do, and why the rest will not.

        Returns
        -------
        str
            A few sentences, ready to print.
        """
        from perfmodel.answers.planning.explained import explain_plans

        return explain_plans(self)


def _beats(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether the first is nowhere larger and somewhere smaller."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


def measure(plan: Plan, by: str) -> float:
    """What plans are ranked by: cost, or of chips without a price the devices it takes."""
    spent = plan.cost_per_hour
    return _per(plan, float(plan.devices) if spent is None else spent, by)


def _per(plan: Plan, spent: float, by: str) -> float:
    return spent if by == "hour" else spent / max(plan.output_tokens_per_second, 1e-30)


def _marks(plan: Plan, by: str) -> tuple[Any, ...]:
    """By what plans are compared, the first first; devices only where the cost is the same."""
    spent = (measure(plan, by), _per(plan, plan.devices, by))
    return spent, plan.tpot or 0.0, plan.ttft or 0.0


def ranked(plans: list[Plan], by: Literal["hour", "token"], devices: int) -> Plans:
    """The plans, best first; of those that break a limit, the closest first."""

    def key(plan: Plan) -> tuple[Any, ...]:
        if not plan.feasible:
            return (2, -(plan.headroom if plan.headroom is not None else -float("inf")))
        return (plan.price is None, *_marks(plan, by))

    return Plans.trusted(rows=tuple(sorted(plans, key=key)), by=by, devices=devices)
