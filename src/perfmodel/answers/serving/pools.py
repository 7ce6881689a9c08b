"""Prompts on devices of their own: waiting there, and moving keys and values over."""

from __future__ import annotations

from math import e
from typing import Final, NamedTuple

from perfmodel.answers.holding.policies import resolve_policy
from perfmodel.answers.holding.stages import stages_of
from perfmodel.answers.serving.costs import Server
from perfmodel.answers.serving.scheduler import Disaggregated
from perfmodel.answers.serving.workload import Workload
from perfmodel.base._num import Num, maximum, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.work.step import Group

SPARE: Final = 1e-6  # of the time, where a formula for stable queues is left
_STEEPEST: Final = 100.0  # a power of e, so that no wait overflows


def waiting(service: Num, square: Num, load: Num, servers: Num) -> Num:
    """Mean wait for one of several servers, first come, first served: Sakasegawa's approximation.

    ``s (1 + c_s^2) / 2  rho^(sqrt(2 (c + 1)) - 1) / (c (1 - rho))``; of one server it is exact for
    random arrivals. Users in a loop wait as long as it takes to keep the load below 1, so past
    nearly all of it the wait goes on growing, as steeply and without a bound.

    Parameters
    ----------
    service : float or array
        Mean time of a service, s [s].
    square : float or array
        Mean of its square over the square of its mean, 1 + c_s^2 [1].
    load : float or array
        Share of the time that servers are busy, rho [1].
    servers : int or array
        Servers, c [1].

    Returns
    -------
    float or array
        Time [s].
    """
    over = maximum(load - (1 - SPARE), 0.0) / SPARE
    load = minimum(load, 1 - SPARE)
    power = (2 * (servers + 1)) ** 0.5 - 1
    wait = service * square / 2 * load**power / (servers * (1 - load))
    return wait * e ** minimum(over, _STEEPEST)


class Pools(NamedTuple):
    """What two pools cost a request."""

    prefill: Num
    """Mean time of reading a prompt [s]."""
    square: Num
    """Mean of its square over the square of its mean [1]."""
    transfer: Num
    """Time in which keys and values of a prompt move [s]."""
    replicas: Num
    """Replicas that read prompts [1]."""

    def first(self, rate: Num) -> Num:
        """From a request to its first token, where others come at a rate [s]."""
        load = rate * self.prefill / self.replicas
        wait = waiting(self.prefill, self.square, load, self.replicas)
        return wait + self.prefill + self.transfer


def pools_of(server: Server, workload: Workload, apart: Disaggregated) -> Pools:
    """The prefill pool of a server, and the way from there.

    Raises
    ------
    InvalidValueError
        If nothing says how fast keys and values move.
    """
    reading = server._replace(parallelism=apart.prefill_parallelism or server.parallelism)
    new, shares = workload.prompts
    time = reading.estimate("prefill", 1.0, new, workload.prefix, 1.0).time + 0 * new
    mean = time @ shares
    return Pools(
        prefill=mean,
        square=(time**2 @ shares) / mean**2,
        transfer=_transfer(server, workload, apart),
        replicas=apart.prefill,
    )


def _transfer(server: Server, workload: Workload, apart: Disaggregated) -> Num:
    """Each device sends its part of a prompt's keys and values, all of them at once."""
    if not server.model.has_cache:
        return 0.0
    bandwidth, latency = _way(server, apart)
    past = max(1, round(workload.prompt.mean)) - 1
    one = Group.trusted(count=1, new=1, past=past, logits=1, shared_past=0)
    stages = stages_of(
        server.model,
        precision=server.precision,
        policy=resolve_policy("logical"),
        parallelism=server.parallelism,
        draft=None,
        mtp=False,
    )
    return latency + max(stage.kv(one) + stage.state_bytes for stage in stages) / bandwidth


def _way(server: Server, apart: Disaggregated) -> tuple[Num, Num]:
    if apart.transfer is not None:
        return apart.transfer, 0.0
    network = None if server.cluster is None else server.cluster.link
    chip = server.chip()
    link = network or chip.link or chip.host_link
    if link is None:
        raise InvalidValueError(
            f"Disaggregated.transfer: required, for {chip.name} has no link in the catalog, "
            "but missing"
        )
    return link.bandwidth, link.latency
