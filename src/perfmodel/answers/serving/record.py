"""What a server does in its steady state: a record that explains itself."""

from __future__ import annotations

from functools import cached_property
from typing import Literal, TypeAlias

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.serving.costs import Server
from perfmodel.answers.serving.scheduler import Disaggregated, Scheduler, Speculation
from perfmodel.answers.serving.workload import Workload
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, NonNegative, Spec, quantity
from perfmodel.base.units import si
from perfmodel.machine.efficiency import Efficiency
from perfmodel.machine.forms import ServerForm
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.roofline import memory_time
from perfmodel.work.parallel import Parallelism
from perfmodel.work.shape import ModelShape

Limit: TypeAlias = Literal["memory", "compute", "network", "capacity", "prompts"]


class Serving(Spec):
    """The steady state of a server: means over its requests, and what they follow from.

    Rates and counts are those of all replicas together, unless they say otherwise.
    """

    model: ModelShape
    """The model."""
    gpu: GpuSpec
    """The chip."""
    cluster: Cluster | None
    """How the devices are joined; None: all over the links of one node."""
    parallelism: Parallelism
    """Over how many devices the model is divided; of pools, each replica that writes tokens."""
    precision: Precision
    """What each part is stored, moved and computed in."""
    efficiency: Efficiency
    """How far below the roofs."""
    workload: Workload
    """What is asked of it."""
    scheduler: Scheduler | Disaggregated
    """How it orders its work."""
    speculation: Speculation | None
    """What it guesses; None: nothing."""
    server: ServerForm
    """What it adds to a request beside its steps."""
    ttft: NonNegative = quantity("t_1", "s", "From a request to its first token")
    tpot: NonNegative = quantity("t_o", "s", "Mean time of each token after the first")
    requests_per_second: NonNegative = quantity("X", "1/s", "Requests answered in a second")
    decoding: NonNegative = quantity("B", "1", "Sequences that decode at a time")
    together: NonNegative = quantity(
        "b", "1", "Sequences in a step of one replica, as its tokens see it"
    )
    waiting: NonNegative = quantity("N_w", "1", "Requests that wait for memory")
    capacity: Count | None = quantity(
        "B_m", "1", "Sequences for which there is room; None: not known, or no limit"
    )
    plain: NonNegative = quantity("t_b", "s", "Mean step without prompts")
    iteration: NonNegative = quantity("t_i", "s", "Mean step, prompts included")
    load: NonNegative = quantity(
        "u", "1", "Share of what steps, or a prefill pool, can take of prompts that is taken"
    )
    transfer: NonNegative = quantity(
        "t_t", "s", "Time in which keys and values move between pools", default=0.0
    )
    pools: tuple[float, float] | None = None
    """Of pools: how long a prefill replica, and a decode replica, is busy with one request [s]."""

    def __repr__(self) -> str:
        many = "" if self.devices == 1 else f"{self.devices} x "
        return (
            f"<{self.model.name} on {many}{self.gpu.name}, {self.precision.name}, {self._asked}: "
            f"first token {si(self.ttft, 's')}, then {si(self.tpot, 's')} a token, "
            f"{self.output_tokens_per_second:,.0f} tokens/s>"
        )

    __str__ = __repr__

    @property
    def _asked(self) -> str:
        work = self.workload
        many = f"{work.rate:g} requests/s" if work.rate else f"{work.concurrency:g} users"
        return f"{many} of {work.prompt.mean:,.6g} + {work.output.mean:,.6g} tokens"

    @property
    def replicas(self) -> int:
        """Replicas that write tokens [1]."""
        pool = self.scheduler.decode if isinstance(self.scheduler, Disaggregated) else 1
        return pool * self.parallelism.data

    @property
    def devices(self) -> int:
        """Devices of all replicas and pools [1]."""
        apart = self.scheduler
        if not isinstance(apart, Disaggregated):
            return self.parallelism.devices
        reading = apart.prefill_parallelism or self.parallelism
        return apart.decode * self.parallelism.devices + apart.prefill * reading.devices

    @property
    def end_to_end(self) -> float:
        """From a request to its last token [s]."""
        return self.ttft + self.workload.decode_tokens * self.tpot

    @property
    def prompt_tokens_per_second(self) -> float:
        """Prompt tokens of the requests answered in a second, cached ones too [1/s]."""
        return self.requests_per_second * self.workload.prompt.mean

    @property
    def output_tokens_per_second(self) -> float:
        """Tokens written in a second, of all users together [1/s]."""
        return self.requests_per_second * self.workload.output.mean

    @property
    def total_tokens_per_second(self) -> float:
        """Prompt and output tokens in a second [1/s]."""
        return self.prompt_tokens_per_second + self.output_tokens_per_second

    @property
    def output_tokens_per_second_per_device(self) -> float:
        """Tokens written in a second by each device [1/s]."""
        return self.output_tokens_per_second / self.devices

    @property
    def output_tokens_per_second_per_replica(self) -> float:
        """Tokens written in a second by each replica [1/s]."""
        return self.output_tokens_per_second / self.replicas

    @property
    def tokens_per_second_per_user(self) -> float:
        """Tokens that a user sees in a second once they come [1/s]."""
        return 1 / self.tpot

    @property
    def interference(self) -> float:
        """Share of a token's time in which prompts of others are read [1]."""
        return 1 - self.plain / self.iteration

    @property
    def users(self) -> float:
        """Requests in the server at a time, waiting ones too: rate times time [1]."""
        return self.requests_per_second * self.end_to_end

    @property
    def kv_utilization(self) -> float | None:
        """Share of the room for sequences that is taken; None where it is not known [1]."""
        if self.capacity is None:
            return None
        return min(1.0, (self.users - self.waiting) / self.capacity)

    @cached_property
    def step(self) -> Estimate:
        """A decode step of the usual batch, at the mean context."""
        width = 1 if self.speculation is None else self.speculation.tokens + 1
        past = max(0, round(self.workload.mean_context) - 1) if self.model.has_cache else 0
        return self._server.estimate("decode", max(1, round(self.together)), width, past, width)

    @cached_property
    def prefill(self) -> Estimate:
        """The pass over a prompt of mean length."""
        new, past = max(1, round(self.workload.new_tokens)), round(self.workload.prefix)
        reading = self._server
        if isinstance(self.scheduler, Disaggregated) and self.scheduler.prefill_parallelism:
            reading = reading._replace(parallelism=self.scheduler.prefill_parallelism)
        return reading.estimate("prefill", 1, new, past if self.model.has_cache else 0, 1)

    @property
    def _server(self) -> Server:
        ways = self.parallelism
        if ways.data > 1 and ways.expert <= ways.tensor:
            ways = ways.model_copy(update={"data": 1})
        return Server(self.model, self.gpu, self.precision, self.efficiency, ways, self.cluster)

    def _busy(self, of_step: float, of_prefill: float) -> float:
        """Share of the time in which a replica that writes tokens is busy so."""
        each = self.requests_per_second / self.replicas
        accepted = 1.0 if self.speculation is None else self.speculation.expected_tokens
        steps = self.workload.decode_tokens / accepted / max(1, round(self.together))
        mixed = not isinstance(self.scheduler, Disaggregated)
        return min(1.0, each * (steps * of_step + mixed * of_prefill))

    @property
    def compute_utilization(self) -> float:
        """Share of the time that the compute roof is busy, of replicas that write tokens [1]."""
        return self._busy(self.step.compute_time, self.prefill.compute_time)

    @property
    def memory_utilization(self) -> float:
        """Share of the time that the memory roof is busy, of replicas that write tokens [1].

        Prompts that are read beside tokens share their reading of the weights.
        """
        prefill = self.prefill
        shared = isinstance(self.scheduler, Scheduler) and self.scheduler.kind == "chunked"
        nbytes = prefill.bytes - (prefill.weight_traffic if shared else 0.0)
        at_memory = memory_time(nbytes=nbytes, bandwidth=self.gpu.memory_bandwidth)
        return self._busy(self.step.memory_time, at_memory)

    @property
    def network_utilization(self) -> float:
        """Share of the time that links are busy, of replicas that write tokens [1]."""
        return self._busy(self.step.network_time, self.prefill.network_time)

    @property
    def bound(self) -> Limit:
        """What limits it: room for sequences, or the queue of prompts, or the busiest roof."""
        if self.waiting > 0:
            return "capacity"
        if self.load > 0.9:
            return "prompts"
        shares: dict[Limit, float] = {
            "memory": self.memory_utilization,
            "compute": self.compute_utilization,
            "network": self.network_utilization,
        }
        return max(shares, key=lambda name: shares[name])

    @property
    def balanced_pools(self) -> float | None:
        """Of pools: prefill replicas as busy as one decode replica; None of one pool [1]."""
        return None if self.pools is None else self.pools[0] / self.pools[1]

    @property
    def breakeven_acceptance(self) -> float | None:
        """Of drafts: the chance from which on they pay at this batch; None without [1].

        Expected tokens must exceed the cost: the step with drafts over the step without.
        """
        if self.speculation is None:
            return None
        without = self._server.estimate(
            "decode", max(1, round(self.together)), 1, self.step.step.groups[0].past, 1
        )
        return float(self.speculation.breakeven_acceptance(self.plain / without.time))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take for granted, and what they leave out."""
        from perfmodel.answers.serving.explained import assumptions

        return assumptions(self)

    def explain(self) -> str:
        """The steady state as text: times, rates, what they consist of, what is assumed.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        from perfmodel.answers.serving.explained import explain

        return explain(self)
