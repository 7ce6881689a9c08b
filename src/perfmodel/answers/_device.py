"""One device in a step: its operations under its roofs, what it exchanges over which links."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

from perfmodel.base._num import Num, highest, is_zero, maximum, minimum, where
from perfmodel.base.errors import InvalidValueError
from perfmodel.machine.efficiency import IDEAL, Band
from perfmodel.machine.hardware import Link
from perfmodel.roofline import compute_time, memory_time, network_time, roofline_time
from perfmodel.work.collective import Collective, Leg
from perfmodel.work.forward import between, forward
from perfmodel.work.operation import SMALL, Operation
from perfmodel.work.parallel import SINGLE, cut
from perfmodel.work.shape import ModelShape
from perfmodel.work.shard import collectives, shard
from perfmodel.work.step import Group, Step

if TYPE_CHECKING:
    from perfmodel.answers.estimate import Estimate

Bound: TypeAlias = Literal["memory", "compute", "network"]


class Sums(NamedTuple):
    """Sums over what a device does in a step."""

    time: float  # s, each operation at its own roof, each collective over its links
    compute_time: float  # s
    least_compute_time: float  # s, matrix units alone
    network_time: float  # s
    least_network_time: float  # s, compulsory bytes without latency
    flops: int
    weight_bytes: float
    least_weight_bytes: float
    activation_bytes: float
    kv_bytes: float


class OperationTime(NamedTuple):
    """One row of an explanation: all calls of an operation in the step."""

    operation: Operation
    """The operation; its numbers are those of one call."""
    compute_time: float
    """All calls at the compute roof [s]."""
    memory_time: float
    """All calls at the memory roof [s]."""
    time: float
    """All calls, expected with the efficiency [s]."""

    @property
    def flops(self) -> float:
        """Floating-point operations [FLOP]."""
        return self.operation.calls * self.operation.flops

    @property
    def bytes(self) -> float:
        """Bytes moved [B]."""
        return self.operation.calls * self.operation.nbytes

    @property
    def bound(self) -> Bound:
        """The longer of the two roofs; a tie is memory."""
        return "compute" if self.compute_time > self.memory_time else "memory"


class CollectiveTime(NamedTuple):
    """One row of an explanation: all calls of a collective in the step."""

    collective: Collective
    """The collective; its numbers are those of one call."""
    wire: float
    """Bytes that all calls send in one direction, over both kinds of link [B]."""
    time: float
    """All calls, expected with the efficiency [s]."""
    least_time: float
    """What no algorithm avoids: compulsory bytes, without latency [s]."""


class Device:
    """One device of a stage, in a step of an estimate.

    It works on one micro-batch at a time; its calls are those of all of them.
    """

    def __init__(
        self, asked: Estimate, shape: ModelShape, stage: int, step: Step, passes: Num
    ) -> None:
        # Parts of the estimate, not itself: each would keep the other in memory for no one.
        self._gpu = asked.gpu
        self._cluster = asked.cluster
        self._parallelism = asked.parallelism
        self._efficiency = asked.efficiency
        # A prompt of one token is a prompt, too: arrays of lengths do not tell it from others.
        decodes = [asked.phase != "prefill" and _decodes(group) for group in step.groups]
        decoding = asked.phase == "decode"
        self._prompts = not decoding and not any(decodes)
        self._launches = self._launch_scale(decoding or all(decodes))
        self._shape = shape
        self._stage = stage
        self._step = step
        self.passes = passes  # micro-batches that follow each other, each of them such a step
        self.operations = self._operations(asked)
        """What it does, in running order."""
        self.collectives = self._collectives(asked)
        """What it exchanges with others, in running order."""
        self.rows = self._timed(self.operations)
        """Each operation at both roofs, all calls together."""
        self.exchanges = [self._exchange(one) for one in self.collectives]
        """Each collective over its links, all calls together."""
        self._between = self._unlisted(asked)
        self.sums = self._sums()
        """Sums over all operations and collectives."""

    def _launch_scale(self, decoding: bool) -> float:
        """How long launches take, over those of a replayed graph [1]."""
        host, replayed = self._efficiency.host, decoding and self._efficiency.graphs
        return 1.0 if host is None or replayed else host.launch_scale

    def _operations(self, asked: Estimate) -> tuple[Operation, ...]:
        found = forward(self._shape, self._step, asked.precision, small_steps=asked.small_steps)
        if asked.weights_only:
            found = tuple(op.weights_only() for op in found if op.is_product)
        once = is_zero(self.passes - 1)
        return found if once else tuple(_repeated(op, self.passes) for op in found)

    def _unlisted(self, asked: Estimate) -> Num:
        """Small kernels between the others, where they are not listed but take time [s]."""
        efficiency, listed = self._efficiency, asked.small_steps == "separate"
        if listed or asked.weights_only or efficiency.kernel(SMALL) is None:
            return 0
        small = between(self._shape, asked.precision)
        if is_zero(small.launches):  # a model of totals lists none
            return 0
        # Their arithmetic never binds: a few FLOPs on each byte.
        return efficiency.kernel_time(
            SMALL,
            self._gpu,
            compute=0,
            memory=memory_time(
                nbytes=small.token_bytes * self._step.tokens * self.passes,
                bandwidth=self._gpu.memory_bandwidth,
            ),
            launches=small.launches * self.passes * self._launches,
        )

    def _collectives(self, asked: Estimate) -> tuple[Collective, ...]:
        ways = self._parallelism
        if ways is SINGLE or ways.communication == "ignored" or asked.weights_only:
            return ()
        sends = self._stage < ways.pipeline - 1
        found = collectives(self._shape, self._step, asked.precision, ways, sends=sends)
        return tuple(_repeated(one, self.passes) for one in found)

    def _timed(self, operations: Iterable[Operation]) -> list[OperationTime]:
        gpu, efficiency = self._gpu, self._efficiency
        peaks: dict[str, float] = {}
        bandwidth = gpu.memory_bandwidth
        ideal = efficiency is IDEAL
        rows = []
        for op in operations:
            calls, fmt = op.calls, op.compute
            if fmt not in peaks:
                peaks[fmt] = gpu.peak(fmt)
            compute = compute_time(flops=op.flops, peak=peaks[fmt])
            memory = memory_time(nbytes=op.nbytes, bandwidth=bandwidth)
            if ideal:
                time = roofline_time(compute=compute, memory=memory)
            else:
                sizes = op.sizes
                time = efficiency.kernel_time(
                    op.kernel.name,
                    gpu,
                    compute=compute,
                    memory=memory,
                    activations=memory_time(nbytes=op.activation_bytes, bandwidth=bandwidth),
                    inner=sizes.inner,
                    prepared=sizes.prepared,
                    tiles=sizes.tiles,
                    exponentials=sizes.exponentials,
                    launches=sizes.launches * self._launches,
                )
            rows.append(OperationTime(op, calls * compute, calls * memory, calls * time))
        return rows

    def _exchange(self, one: Collective) -> CollectiveTime:
        near = self._near(one)
        inside, outside = one.legs(near)
        least_inside, least_outside = one.least_legs(self._near_at_best(one, near))
        time: Num = 0
        least: Num = 0
        if near == 1 and one.kind == "all-reduce" and one.algorithm == "in-switch":
            raise InvalidValueError(
                "Parallelism.all_reduce: expected ring or one-shot, for no two of the "
                f"{one.group} devices share a node and its switch, got 'in-switch'"
            )
        if near > 1:
            # Stages far apart are joined as well: the links must reach all of them.
            joined = near if one.kind != "point-to-point" else self._in_node
            link = self._gpu.link_to(joined)
            if one.algorithm == "in-switch" and not link.reduces:
                raise InvalidValueError(
                    "Parallelism.all_reduce: expected ring or one-shot, for the switch of "
                    f"{link.name} does not add up, got 'in-switch'"
                )
            time = self._leg_time(one.kind, inside, link, near)
            least = network_time(wire=least_inside, bandwidth=link.bandwidth)
        if near < one.group:
            link = self._network
            across = self._leg_time(one.kind, outside, link, one.group // near)
            time = maximum(time, across) if one.sends_to_all else time + across
            least = maximum(least, network_time(wire=least_outside, bandwidth=link.bandwidth))
        wire = inside.wire + outside.wire
        return CollectiveTime(one, one.calls * wire, one.calls * time, one.calls * least)

    def _leg_time(self, kind: str, leg: Leg, link: Link, devices: int) -> Num:
        expected = self._efficiency.collective_time(
            kind, wire=leg.wire, others=devices - 1, bandwidth=link.among(devices)
        )
        return leg.hops * link.latency + expected

    @property
    def _network(self) -> Link:
        """What joins nodes."""
        link = None if self._cluster is None else self._cluster.link
        if link is None:
            raise InvalidValueError("cluster: expected nodes that a network joins, got none")
        return link

    @property
    def _in_node(self) -> int:
        """Devices of the model in one node."""
        ways, cluster = self._parallelism, self._cluster
        return ways.devices if cluster is None else min(ways.devices, cluster.per_node)

    def _near(self, one: Collective) -> int:
        """Devices of a collective's group that share a node."""
        ways, cluster = self._parallelism, self._cluster
        if cluster is None or ways.devices <= cluster.per_node:
            return one.group
        if one.kind != "point-to-point":
            return gcd(one.group, cluster.per_node)
        # Each device sends to its like of the next stage: do both stages stand in one node?
        stage = ways.tensor * ways.data
        first, last = self._stage * stage, (self._stage + 2) * stage - 1
        return 2 if first // cluster.per_node == last // cluster.per_node else 1

    def _near_at_best(self, one: Collective, near: int) -> int:
        """Devices of the group in its emptiest node, as many as can be: of 16 in nodes of 6, 5."""
        cluster = self._cluster
        if cluster is None or near == one.group or one.kind == "point-to-point":
            return near
        return one.group // max(2, -(-one.group // cluster.per_node))

    def _sums(self) -> Sums:
        time: Num = self._overhead
        compute: Num = 0
        least: Num = 0
        flops: Num = 0
        weight: Num = 0
        least_weight: Num = 0
        activation: Num = 0
        kv: Num = 0
        # What depends on the context last, so that the sums of a sweep's grid stay small till then.
        for op, at_compute, _, expected in sorted(self.rows, key=_attends):
            time = time + expected
            compute = compute + at_compute
            if op.kind != "small":
                least = least + at_compute
            calls = op.calls
            flops = flops + calls * op.flops
            weight = weight + calls * op.weight_bytes
            least_weight = least_weight + calls * op.least_weight_bytes
            activation = activation + calls * op.activation_bytes
            kv = kv + calls * op.kv_bytes
        network: Num = 0
        least_network: Num = 0
        if self.collectives:
            network = sum([row.time for row in self.exchanges])
            least_network = sum([row.least_time for row in self.exchanges])
            beside = self._parallelism.communication == "overlapped"
            time = maximum(time, network) if beside else time + network
        return Sums(
            time, compute, least, network, least_network,
            flops, weight, least_weight, activation, kv,
        )  # fmt: skip

    @property
    def spread(self) -> tuple[Num, Num] | None:
        """How far eight of ten measurements lie below and above what is expected [s].

        Kernels of one band err together, others by themselves, and by itself what no kernel tells:
        hosts, versions, wiring. The parts add as squares. What no band is known of is taken to be
        exact.
        """
        efficiency = self._efficiency
        parts: dict[Band, Num] = {}
        for row in self.rows:
            kernel = efficiency.kernel(row.operation.kernel.name)
            if kernel is not None and kernel.band is not None:
                parts[kernel.band] = parts.get(kernel.band, 0) + row.time
        for exchange in self.exchanges:
            known = efficiency.collective(exchange.collective.kind)
            if known is not None and known.band is not None:
                parts[known.band] = parts.get(known.band, 0) + exchange.time
        whole = efficiency.prefill_band if self._prompts else efficiency.decode_band
        if whole is not None:
            parts[whole] = parts.get(whole, 0) + self.sums.time
        if not parts:
            return None
        below = sum([(time * max(0.0, 1 - band.low)) ** 2 for band, time in parts.items()])
        above = sum([(time * max(0.0, band.high - 1)) ** 2 for band, time in parts.items()])
        return below**0.5, above**0.5

    @property
    def _overhead(self) -> Num:
        """What all its passes take beside operations and collectives [s]."""
        efficiency = self._efficiency
        if efficiency is IDEAL:
            return 0
        each = efficiency.step_overhead + self._shape.layers * efficiency.block_overhead
        if efficiency.host is not None:
            each = each + efficiency.host.time(sequences=self._step.sequences)
        return each * self.passes + self._between

    @property
    def floor(self) -> Num:
        """What all its passes take at least, perfectly overlapped [s]."""
        sums, gpu = self.sums, self._gpu
        compulsory = sums.least_weight_bytes + sums.kv_bytes
        at_memory = memory_time(nbytes=compulsory, bandwidth=gpu.memory_bandwidth)
        at_roofs = roofline_time(compute=sums.least_compute_time, memory=at_memory)
        return maximum(at_roofs, sums.least_network_time) if self.collectives else at_roofs


def _decodes(group: Group) -> bool:
    """Whether sequences write a token, or check guesses: after others, and each is scored."""
    guesses = is_zero(group.new - group.logits) and not is_zero(group.past)
    return is_zero(group.new - 1) or guesses


def _attends(row: OperationTime) -> bool:
    return row.operation.kind == "attention"


Work = TypeVar("Work", Operation, Collective)


def _repeated(one: Work, times: Num) -> Work:
    fields = {name: getattr(one, name) for name in type(one).model_fields}
    return one.trusted(**fields | {"calls": one.calls * times})


def devices_of(asked: Estimate) -> tuple[Device, ...]:
    """One device of each stage, of the replica that takes longest."""
    ways, step = asked.parallelism, asked.step
    if ways is SINGLE:
        return (Device(asked, asked.model, 0, step, 1),)
    if ways.data == 1 or len(step.groups) == 1:
        return _staged(asked, ways.micro_batch(step), ways.micro_batches_of(step.sequences))
    found = []
    for held in ways.replicas(step):
        parts = minimum(ways.micro_batches_of(step.sequences), held.sequences)
        found.append(_staged(asked, cut(held, parts), parts))
    return max(found, key=lambda devices: step_time(asked, devices))


def step_time(asked: Estimate, devices: tuple[Device, ...]) -> Num:
    """From the first micro-batch's start to the last one's end, or to the next token [s]."""
    if len(devices) == 1:
        return devices[0].sums.time
    times = [device.sums.time for device in devices]
    return piped(times, devices[0].passes, repeats=asked.phase == "decode")


def _staged(asked: Estimate, step: Step, passes: Num) -> tuple[Device, ...]:
    """One device of each stage, which so many such micro-batches pass."""
    shapes = shard(asked.model, asked.parallelism)
    return tuple(Device(asked, shape, i, step, passes) for i, shape in enumerate(shapes))


def least_time(asked: Estimate) -> Num:
    """What devices take at least, however an engine deals sequences out and cuts the step [s].

    Each stage has its own work to do, at best at once, and one part must pass them all. Of
    prompts it is a token, for even those of one sequence may come in chunks; of decode, one of as
    many micro-batches as there are stages. Larger ones take longer to pass; with more of them, the
    slowest stage takes longer than that alone.
    """
    ways, longest = asked.parallelism, 0
    one = Group.trusted(count=1, new=1, past=0, logits=0, shared_past=0)
    for held in ways.least_shares(asked.step):
        if ways.pipeline > 1:
            token = ways.replica(Step.trusted(groups=(one,)))
            parts = minimum(ways.pipeline, held.sequences)
            part = cut(held, parts) if asked.phase == "decode" else token
            passing = sum([stage.floor for stage in _staged(asked, part, 1)])
            longest = maximum(longest, passing)
        for stage in _staged(asked, held, 1):
            longest = maximum(longest, stage.floor)
    return longest


def slowest(devices: tuple[Device, ...]) -> Device:
    """The device that takes longest; of arrays, where the longest of all is."""
    if len(devices) == 1:
        return devices[0]

    def longest(device: Device) -> Num:
        return highest(device.sums.time)

    return max(devices, key=longest)


def slowest_sums(devices: tuple[Device, ...]) -> Sums:
    """The sums of the device that takes longest; of arrays, element by element."""
    found = devices[0].sums
    for device in devices[1:]:
        other = device.sums
        longer = other.time > found.time
        found = Sums(*(where(longer, b, a) for a, b in zip(found, other, strict=True)))
    return found


def slowest_spread(devices: tuple[Device, ...]) -> tuple[Num, Num] | None:
    """Spread of the device that takes longest, as shares of its time; element by element."""
    spreads = [device.spread for device in devices]
    if not any(spreads):
        return None
    time: Num = 0.0
    below: Num = 0.0
    above: Num = 0.0
    for device, spread in zip(devices, spreads, strict=True):
        own = device.sums.time
        low, high = (part / own for part in spread or (0.0, 0.0))
        longer = own > time
        below, above = where(longer, low, below), where(longer, high, above)
        time = where(longer, own, time)
    return below, above


def piped(times: Iterable[Num], passes: Num, *, repeats: bool) -> Num:
    """Time of a step whose micro-batches follow each other through stages.

    Once, the pipeline fills and drains: the first micro-batch takes all stages, each further one
    the slowest. Repeated, as decode is, a micro-batch enters again while others are still under
    way: a step takes as long as one sequence, or as the slowest stage with all of them.

    Parameters
    ----------
    times : iterable of float or array or symbol
        Time of each stage for all micro-batches together [s].
    passes : int or array or symbol
        Micro-batches [1].
    repeats : bool
        Whether the step is one of many alike [flag].

    Returns
    -------
    float or array or symbol
        Time [s].
    """
    every = list(times)
    if len(every) == 1:
        return every[0]
    one, longest = sum(every) / passes, every[0]
    for time in every[1:]:
        longest = maximum(longest, time)
    return maximum(one, longest) if repeats else one + (passes - 1) * longest / passes
