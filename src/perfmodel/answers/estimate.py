"""How long a step takes, and why: an estimate that keeps everything it was computed from."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias

from pydantic import computed_field, model_validator

from perfmodel.answers._asked import require_devices
from perfmodel.answers._device import (
    Bound,
    CollectiveTime,
    Device,
    OperationTime,
    Sums,
    devices_of,
    least_time,
    slowest,
    slowest_spread,
    slowest_sums,
    step_time,
)
from perfmodel.answers.holding.record import DeviceMemory, memory_of
from perfmodel.base._num import maximum, where
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Flag, Origin, Source, Spec
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.roofline import memory_time
from perfmodel.work.collective import Collective
from perfmodel.work.forward import SmallSteps
from perfmodel.work.operation import Operation
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Step

if TYPE_CHECKING:
    import pandas as pd

    from perfmodel.base._html import Cells

Phase: TypeAlias = Literal["decode", "prefill", "step"]

# What JSON shows beside the fields; it is computed again when the JSON is read.
_COMPUTED: Final = (
    "operations",
    "collectives",
    "time",
    "low",
    "high",
    "floor",
    "bound",
    "flops",
    "bytes",
    "intensity",
    "weight_traffic",
    "kv_traffic",
    "activation_traffic",
    "compute_time",
    "memory_time",
    "network_time",
    "compute_utilization",
    "memory_utilization",
    "tokens_per_second",
    "fits",
    "assumptions",
)


class Estimate(Spec):
    """One step of a model on a chip: its time, its limits, and everything they follow from.

    The fields say what was asked and what the step does; all else is computed from them. The same
    properties can be read on arrays (``sweep``) and, all but ``bound``, on symbols (``symbolic``).
    """

    phase: Phase
    """Which question was asked: ``"decode"``, ``"prefill"``, or any other ``"step"``."""
    model: ModelShape
    """The model."""
    gpu: GpuSpec
    """The chip."""
    precision: Precision
    """What each part is stored, moved and computed in."""
    step: Step
    """Which sequences take part, with how many tokens each."""
    efficiency: Efficiency
    """How far below the roofs; the ideal is the roofs themselves."""
    small_steps: SmallSteps
    """Whether norms, residual additions and activations are listed with their own traffic."""
    weights_only: Flag
    """Whether nothing counts but reading the weights and multiplying by them."""
    parallelism: Parallelism = SINGLE
    """Over how many devices each part of the model is divided."""
    cluster: Cluster | None = None
    """How the devices are joined; None: all over the links of one node."""

    def __repr__(self) -> str:
        from perfmodel.answers._explain import headline

        return f"<{headline(self)}>"

    __str__ = __repr__

    def _cells(self) -> Cells:
        from perfmodel.answers._explain import HEADER, cells

        return HEADER, cells(self)

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if key not in _COMPUTED}
        return data

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        if self.cluster is not None:
            if self.cluster.gpu != self.gpu:
                raise InvalidValueError(
                    f"Estimate.cluster: expected nodes of the chip of Estimate.gpu, "
                    f"{self.gpu.name}, got nodes of {self.cluster.gpu.name} with other figures; "
                    "change both together"
                )
            require_devices(self.cluster, self.parallelism)
        self.sums  # noqa: B018  a format that the chip lacks is an error now, not at the first look
        return self

    @cached_property
    def _devices(self) -> tuple[Device, ...]:
        """One device of each stage."""
        return devices_of(self)

    @property
    def each_device(self) -> tuple[Device, ...]:
        """What a device of each stage does; equal stages are one."""
        return self._devices

    @cached_property
    def _device(self) -> Device:
        """The device that takes longest."""
        return slowest(self._devices)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def operations(self) -> tuple[Operation, ...]:
        """What the device that takes longest does, in running order."""
        return self._device.operations

    @computed_field  # type: ignore[prop-decorator]
    @property
    def collectives(self) -> tuple[Collective, ...]:
        """What that device exchanges with others, in running order; one device has none."""
        return self._device.collectives

    @cached_property
    def sums(self) -> Sums:
        """Sums over the operations and collectives of the device that takes longest."""
        return slowest_sums(self._devices)

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def time(self) -> float:
        """Operations one after another, each at its own roof (a sum of maxima) [s].

        With more than one stage: from the first micro-batch's start to the last one's end; of
        decode, which repeats, the time from token to token.
        """
        return step_time(self, self._devices)  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def low(self) -> float | None:
        """What nine of ten measurements exceed; None where the efficiency has no bands [s]."""
        low = self._band(-1, 0)
        return None if low is None else maximum(low, self.floor)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def high(self) -> float | None:
        """What nine of ten measurements stay below; None where the efficiency has no bands [s]."""
        return self._band(1, 1)

    @property
    def ideal(self) -> float:
        """What the same step takes at the roofs themselves [s]."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return type(self).trusted(**fields | {"efficiency": IDEAL}).time

    def _band(self, sign: int, side: int) -> float | None:
        if self.efficiency is IDEAL:
            return None
        spread = slowest_spread(self._devices)
        if spread is None:
            return None
        # All stages are taken to err like the slowest one.
        return self.time * (1 + sign * spread[side])  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def floor(self) -> float:
        """What no honest cold run can beat: compulsory work, perfectly overlapped [s].

        The largest of all matrix FLOPs at their peaks, the compulsory bytes at the bandwidth, and
        the compulsory bytes at the links: weights (of experts, the fewest that a batch can touch)
        and KV, not activations. Norms and their like may run beside the matrix units. Of many
        devices: however an engine deals sequences out, and cuts them into chunks and micro-batches.
        """
        ways, groups = self.parallelism, self.step.groups
        if (ways.pipeline, ways.micro_batches, len(groups)) == (1, None, 1):
            return self._device.floor  # type: ignore[no-any-return]
        return least_time(self)  # type: ignore[no-any-return]

    @property
    def devices(self) -> int:
        """Devices in all [1]."""
        return self.parallelism.devices

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bound(self) -> Bound:
        """The largest of the three total times; a tie is memory."""
        compute, memory = self.compute_time, self.memory_time
        at_roofs = where(compute > memory, "compute", "memory")
        if self.parallelism is SINGLE:
            return at_roofs  # type: ignore[no-any-return]
        return where(self.network_time > maximum(compute, memory), "network", at_roofs)  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def flops(self) -> int | float:
        """Floating-point operations of the step; a mean need not be whole [FLOP]."""
        return self.sums.flops

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bytes(self) -> float:
        """Bytes that the step moves [B]."""
        return self.sums.weight_bytes + self.sums.activation_bytes + self.sums.kv_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def intensity(self) -> float:
        """Arithmetic intensity of the whole step [FLOP/B]."""
        return self.flops / self.bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def weight_traffic(self) -> float:
        """Weights that the step reads; what memory holds is ``ModelShape.weight_bytes`` [B]."""
        return self.sums.weight_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def kv_traffic(self) -> float:
        """KV cache and state that the step reads and writes [B]."""
        return self.sums.kv_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def activation_traffic(self) -> float:
        """Inputs and outputs of the operations, and the embedding rows used [B]."""
        return self.sums.activation_bytes

    @computed_field  # type: ignore[prop-decorator]
    @property
    def compute_time(self) -> float:
        """All FLOPs, each at its format's peak [s]."""
        return self.sums.compute_time

    @computed_field  # type: ignore[prop-decorator]
    @property
    def memory_time(self) -> float:
        """All bytes at the bandwidth [s]."""
        return memory_time(nbytes=self.bytes, bandwidth=self.gpu.memory_bandwidth)  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def network_time(self) -> float:
        """Bytes between devices, each at its link; one device has none [s]."""
        return self.sums.network_time * 1.0

    @computed_field  # type: ignore[prop-decorator]
    @property
    def compute_utilization(self) -> float:
        """Share of ``time`` that the compute roof is busy [1]."""
        return self.compute_time / self.time

    @computed_field  # type: ignore[prop-decorator]
    @property
    def memory_utilization(self) -> float:
        """Share of ``time`` that the memory roof is busy [1]."""
        return self.memory_time / self.time

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_per_second(self) -> float:
        """Tokens of the step over its time, of all sequences together [1/s]."""
        return self.step.tokens / self.time  # type: ignore[no-any-return]

    @cached_property
    def memory(self) -> DeviceMemory:
        """What memory must hold for this step, and whether it does."""
        return memory_of(self.model, self.gpu, self.step, self.precision, self.parallelism)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def fits(self) -> bool | None:
        """Whether weights and KV cache fit; None where the chip's capacity is not known."""
        return self.memory.fits

    @computed_field  # type: ignore[prop-decorator]
    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the numbers take for granted, and what they leave out."""
        from perfmodel.answers._explain import assumptions

        return assumptions(self)

    @property
    def origins(self) -> tuple[Origin, ...]:
        """Where the values that were used come from: the chip's, the model's, the efficiency's."""
        from perfmodel.answers._explain import chip_figures

        used = {field for field, _, _ in chip_figures(self)}
        chip = (origin for origin in self.gpu.origins if origin.field in used)
        return (*chip, *self.model.origins, *self.efficiency.origins)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources of these values, each once."""
        found = {origin.source.key: origin.source for origin in self.origins if origin.source}
        return tuple(found.values())

    def rows(self) -> list[OperationTime]:
        """Each operation with its work and its times, all calls together."""
        return list(self._device.rows)

    def exchanges(self) -> list[CollectiveTime]:
        """Each collective with its bytes and its time, all calls together."""
        return list(self._device.exchanges)

    def explain(self) -> str:
        """The estimate as text: each operation, both roofs, which binds, assumptions, sources.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        from perfmodel.answers._explain import explain

        return explain(self)

    def to_frame(self) -> pd.DataFrame:
        """The operations as a table.

        Returns
        -------
        pandas.DataFrame
            One row an operation; FLOPs [FLOP], bytes [B] and times [s] of all its calls.
        """
        from perfmodel.answers._explain import to_frame

        return to_frame(self)
