"""A whole generation: the prompt once, then a decode step for each further token."""

from __future__ import annotations

from typing import Final, Self

from pydantic import model_validator

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode, decode_time_between, prefill
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import Count, NonNegative, Spec, checked_count, quantity
from perfmodel.base.units import si
from perfmodel.machine.efficiency import IDEAL
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike
from perfmodel.work.forward import SmallSteps
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape

MAX_OUTPUT: Final = 1_000_000  # steps that are summed as one array


class Generation(Spec):
    """From a prompt to its last output token.

    ``prefill`` gives the first token; ``last_step`` is the decode step at the longest context, or
    None for an output of one token.
    """

    prefill: Estimate
    """The pass over the prompt; it gives the first token."""
    last_step: Estimate | None
    """The decode step at the longest context; None for an output of one token."""
    output: Count
    """Tokens that each sequence generates [1]."""
    decode_time: NonNegative = quantity("t_d", "s", "Time of all decode steps")

    @model_validator(mode="after")
    def _steps_follow(self) -> Self:
        if (self.last_step is None) != (self.output == 1):
            raise InvalidValueError(
                f"Generation.last_step: expected one unless output is 1, got output={self.output}"
            )
        return self

    def __repr__(self) -> str:
        rate = "" if self.tpot is None else f", then {si(self.tpot, 's')} a token"
        first = self.prefill
        many = "" if first.devices == 1 else f"{first.devices} x "
        return (
            f"<{self.output:,} tokens of {first.model.name} on {many}{first.gpu.name}, "
            f"{first.precision.name}: the first after {si(self.ttft, 's')}{rate}>"
        )

    __str__ = __repr__

    def explain(self) -> str:
        """Both ends as text: the prefill, and the decode step at the longest context.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        last = "" if self.last_step is None else f"\n\n{self.last_step.explain()}"
        return f"{self}\n\n{self.prefill.explain()}{last}"

    @property
    def ttft(self) -> float:
        """Time to the first token: the prefill [s]."""
        return self.prefill.time

    @property
    def tpot(self) -> float | None:
        """Mean time of each token after the first; None for an output of one [s]."""
        return self.decode_time / (self.output - 1) if self.output > 1 else None

    @property
    def total(self) -> float:
        """Time to the last token [s]."""
        return self.prefill.time + self.decode_time

    @property
    def fits(self) -> bool | None:
        """Whether the memory holds it to the last step."""
        return (self.last_step or self.prefill).fits


def generate(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    prompt: int,
    output: int,
    batch: int = 1,
    precision: PrecisionLike = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    small_steps: SmallSteps = "fused",
    parallelism: Parallelism = SINGLE,
) -> Generation:
    """Estimate a generation: prefill, then a decode step for every further token.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    prompt : int
        Tokens of each prompt [1].
    output : int
        Tokens that each sequence generates; prefill gives the first [1].
    batch : int
        Sequences that run together [1].
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    small_steps : {"fused", "separate"}
        Whether norms, residual additions and activations are listed with their own traffic.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Generation
        ``ttft``, ``tpot``, ``total`` [s].

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be, or the context exceeds learned positions, or the
        model cannot be divided so.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.

    Notes
    -----
    The decode steps attend contexts from prompt + 1 to prompt + output - 1; their times are
    summed, not taken at a mean context.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, generate
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> run = generate(ModelShape.from_totals(params=8e9), h100, prompt=2048, output=256)
    >>> f"{run.ttft * 1e3:.1f} ms, then {run.tpot * 1e3:.2f} ms a token"
    '33.1 ms, then 4.78 ms a token'
    """
    steps = checked_count("output", output) - 1
    if steps > MAX_OUTPUT:
        raise InvalidValueError(f"output: expected at most {MAX_OUTPUT} tokens, got {steps + 1}")
    first = prefill(
        model,
        gpu,
        prompt=prompt,
        batch=batch,
        precision=precision,
        efficiency=efficiency,
        engine=engine,
        small_steps=small_steps,
        parallelism=parallelism,
    )
    if not steps:
        return Generation(prefill=first, last_step=None, output=1, decode_time=0.0)
    prompt = first.step.groups[0].new
    last = decode(
        model,
        gpu,
        batch=batch,
        context=prompt + steps if model.has_cache else None,
        precision=precision,
        efficiency=efficiency,
        engine=engine,
        small_steps=small_steps,
        parallelism=parallelism,
    )
    total = decode_time_between(last, prompt + 1) if model.has_cache else steps * last.time
    return Generation(prefill=first, last_step=last, output=steps + 1, decode_time=total)
