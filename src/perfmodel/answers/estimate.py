"""How long a step takes, and why: an estimate that keeps everything it was computed from."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import computed_field, model_validator

from perfmodel.answers.memory import DeviceMemory, memory_of
from perfmodel.base._num import Num, where
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Flag, Origin, Source, Spec
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.hardware import GpuSpec
from perfmodel.roofline import compute_time, memory_time, roofline_time
from perfmodel.work.forward import SmallSteps, forward
from perfmodel.work.operation import Operation
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Step

if TYPE_CHECKING:
    import pandas as pd

Phase: TypeAlias = Literal["decode", "prefill", "step"]
Bound: TypeAlias = Literal["memory", "compute", "network"]

# What JSON shows beside the fields; it is computed again when the JSON is read.
_COMPUTED: Final = (
    "operations",
    "time",
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


class Sums(NamedTuple):
    """Sums over the operations of a step."""

    time: float  # s, each operation at its own roof
    compute_time: float  # s
    least_compute_time: float  # s, matrix units alone
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


def _attends(row: OperationTime) -> bool:
    return row.operation.kind == "attention"


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

    def __repr__(self) -> str:
        from perfmodel.answers._explain import headline

        return f"<{headline(self)}>"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _drop_computed(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if key not in _COMPUTED}
        return data

    @model_validator(mode="after")
    def _can_be_answered(self) -> Self:
        self.sums  # noqa: B018  a format that the chip lacks is an error now, not at the first look
        return self

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """What the step does, in running order."""
        found = forward(self.model, self.step, self.precision, small_steps=self.small_steps)
        if self.weights_only:
            found = tuple(op.weights_only() for op in found if op.is_product)
        return found

    @cached_property
    def sums(self) -> Sums:
        """Sums over all operations, in one pass."""
        overhead = self.efficiency.step_overhead
        time: Num = overhead if overhead else 0
        compute: Num = 0
        least: Num = 0
        flops: Num = 0
        weight: Num = 0
        least_weight: Num = 0
        activation: Num = 0
        kv: Num = 0
        # What depends on the context last, so that the sums of a sweep's grid stay small till then.
        for op, at_compute, _, expected in sorted(self._rows, key=_attends):
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
        return Sums(time, compute, least, flops, weight, least_weight, activation, kv)

    @cached_property
    def _rows(self) -> list[OperationTime]:
        peaks: dict[str, float] = {}
        bandwidth, efficiency = self.gpu.memory_bandwidth, self.efficiency
        ideal = efficiency is IDEAL
        rows = []
        for op in self.operations:
            calls, fmt = op.calls, op.compute
            if fmt not in peaks:
                peaks[fmt] = self.gpu.peak(fmt)
            compute = compute_time(flops=op.flops, peak=peaks[fmt])
            memory = memory_time(nbytes=op.nbytes, bandwidth=bandwidth)
            time = (
                roofline_time(compute=compute, memory=memory)
                if ideal
                else efficiency.time(compute=compute, memory=memory)
            )
            rows.append(OperationTime(op, calls * compute, calls * memory, calls * time))
        return rows

    @computed_field  # type: ignore[prop-decorator]
    @property
    def time(self) -> float:
        """Operations one after another, each at its own roof (a sum of maxima) [s]."""
        return self.sums.time

    @computed_field  # type: ignore[prop-decorator]
    @property
    def floor(self) -> float:
        """What no honest cold run can beat: compulsory work, perfectly overlapped [s].

        The larger of all matrix FLOPs at their peaks and the compulsory bytes at the bandwidth:
        weights (of experts, the fewest that a batch can touch) and KV, not activations. Norms and
        their like may run beside the matrix units.
        """
        compulsory = self.sums.least_weight_bytes + self.sums.kv_bytes
        at_memory = memory_time(nbytes=compulsory, bandwidth=self.gpu.memory_bandwidth)
        return roofline_time(compute=self.sums.least_compute_time, memory=at_memory)  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def bound(self) -> Bound:
        """The largest of the three total times; a tie is memory."""
        return where(self.compute_time > self.memory_time, "compute", "memory")  # type: ignore[no-any-return]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def flops(self) -> int:
        """Floating-point operations of the step [FLOP]."""
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
        """Bytes between devices; one device has none [s]."""
        return 0.0

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
        return memory_of(self.model, self.gpu, self.step, self.precision)

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
        return list(self._rows)

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
