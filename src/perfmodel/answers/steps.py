"""Steps as people ask for them: decode, prefill, or any mix of sequences in one pass."""

from __future__ import annotations

from typing import Literal

from perfmodel.answers._asked import decode_group, placed
from perfmodel.answers.estimate import Estimate, Phase
from perfmodel.base._num import as_array
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import checked_choice, checked_count, checked_flag, checked_kind
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.sources.efficiency import EfficiencyLike, resolve_efficiency
from perfmodel.work.forward import SmallSteps
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step


def estimate(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    step: Step,
    *,
    precision: PrecisionLike = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    small_steps: SmallSteps = "fused",
    weights_only: bool = False,
    parallelism: Parallelism = SINGLE,
) -> Estimate:
    """Estimate any step: prefill, decode, chunks, verification, or several of them at once.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    step : Step
        Which sequences take part, with how many tokens each.
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    small_steps : {"fused", "separate"}
        Whether norms, residual additions and activations are listed with their own traffic.
    weights_only : bool
        Count nothing but reading the weights and multiplying by them [flag].
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Estimate
        Times, traffic, limits; ``explain()`` says how they came about.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be, or a context exceeds learned positions, or the
        model cannot be divided so.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.

    Examples
    --------
    Eight sequences that decode beside a 512-token chunk of a prompt, in one pass:

    >>> from perfmodel import GpuSpec, Group, ModelShape, Step, estimate
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> mixed = Step(groups=(Group(count=8, new=1, past=999), Group(count=1, new=512, logits=0)))
    >>> shape = ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072)
    >>> estimate(shape, h100, mixed).step.tokens
    520
    """
    place = placed(model, gpu, parallelism)
    checked_kind("step", step, Step, "pm.Step(groups=(pm.Group(...),))")
    return estimate_unchecked(
        "step",
        model,
        place.gpu,
        step.groups,
        precision=precision,
        efficiency=resolve_efficiency(efficiency, place.gpu, engine),
        small_steps=small_steps,
        weights_only=weights_only,
        parallelism=place.parallelism,
        cluster=place.cluster,
    )


def decode(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    context: int | None = None,
    shared_past: int = 0,
    precision: PrecisionLike = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    small_steps: SmallSteps = "fused",
    weights_only: bool = False,
    parallelism: Parallelism = SINGLE,
) -> Estimate:
    """Estimate one decode step: every sequence of the batch gains one token.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    batch : int
        Sequences [1].
    context : int or None
        Tokens that the new token attends, itself included; None only for a shape without a
        cache [1].
    shared_past : int
        Tokens of a prefix that all sequences share; their KV is read and held once [1].
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    small_steps : {"fused", "separate"}
        Whether norms, residual additions and activations are listed with their own traffic.
    weights_only : bool
        Count nothing but reading the weights and multiplying by them [flag].
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Estimate
        Times, traffic, limits; ``explain()`` says how they came about.

    Raises
    ------
    UnknownKeyError
        If there is no preset of that name.
    InvalidValueError
        If an argument is not what it should be, or the context exceeds learned positions, or the
        model cannot be divided so.
    NoCacheError
        If a context is given for a shape without a cache.
    UnsupportedFormatError
        If the chip has no peak for a format that the precision computes in.

    Notes
    -----
    Assumes the conventions page: 2 FLOPs per multiply-add, weights once a step, KV
    of exactly ``context`` tokens a sequence, norms and activations fused.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, decode
    >>> h100 = GpuSpec(name="H100", memory_bandwidth=3.35e12, peak_flops={"bf16": 989e12})
    >>> step = decode(ModelShape.from_totals(params=8e9), h100, batch=64)
    >>> f"{step.time * 1e3:.2f} ms, {step.tokens_per_second:,.0f} tokens/s, {step.bound}"
    '4.78 ms, 13,400 tokens/s, memory'
    """
    place = placed(model, gpu, parallelism)
    group = decode_group(model, batch, context, shared_past)
    return estimate_unchecked(
        "decode",
        model,
        place.gpu,
        (group,),
        precision=precision,
        efficiency=resolve_efficiency(efficiency, place.gpu, engine),
        small_steps=small_steps,
        weights_only=weights_only,
        parallelism=place.parallelism,
        cluster=place.cluster,
    )


def prefill(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    prompt: int,
    batch: int = 1,
    past: int = 0,
    shared_past: int = 0,
    logits: Literal["last", "all", "none"] = "last",
    precision: PrecisionLike = None,
    efficiency: EfficiencyLike = IDEAL,
    engine: str | None = None,
    small_steps: SmallSteps = "fused",
    weights_only: bool = False,
    parallelism: Parallelism = SINGLE,
) -> Estimate:
    """Estimate the pass over a prompt, or over a chunk of it.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes.
    prompt : int
        New tokens of each sequence [1].
    batch : int
        Sequences [1].
    past : int
        Tokens of each sequence already cached: earlier chunks, or a prefix [1].
    shared_past : int
        Those of them that all sequences share; their KV is read and held once [1].
    logits : {"last", "all", "none"}
        For which positions the output head runs; "none" for all chunks but the last.
    precision : Precision or str or None
        What is stored, moved and computed in; None: the checkpoint's own, else bf16.
    efficiency : Efficiency or {"ideal", "auto"}
        How far below the roofs; the default is the roofs themselves, "auto" what is known of the
        chip.
    engine : str or None
        Whose kernels and host are meant, of ``engines()``; implies "auto".
    small_steps : {"fused", "separate"}
        Whether norms, residual additions and activations are listed with their own traffic.
    weights_only : bool
        Count nothing but reading the weights and multiplying by them [flag].
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.

    Returns
    -------
    Estimate
        Times, traffic, limits; ``explain()`` says how they came about.

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
    Assumes causal attention: ``prompt * past + prompt (prompt + 1) / 2`` pairs a head.

    Examples
    --------
    >>> from perfmodel import GpuSpec, ModelShape, prefill
    >>> a100 = GpuSpec(name="A100", memory_bandwidth=2.039e12, peak_flops={"bf16": 312e12})
    >>> step = prefill(ModelShape.from_totals(params=596049920), a100, prompt=512)
    >>> step.intensity, step.bound
    (512.0, 'compute')
    """
    place = placed(model, gpu, parallelism)
    checked_choice("logits", logits, ("last", "all", "none"))
    new = checked_count("prompt", prompt)
    group = Group(
        count=checked_count("batch", batch),
        new=new,
        past=checked_count("past", past, 0),
        logits={"last": 1, "all": new, "none": 0}[logits],
        shared_past=checked_count("shared_past", shared_past, 0),
    )
    return estimate_unchecked(
        "prefill",
        model,
        place.gpu,
        (group,),
        precision=precision,
        efficiency=resolve_efficiency(efficiency, place.gpu, engine),
        small_steps=small_steps,
        weights_only=weights_only,
        parallelism=place.parallelism,
        cluster=place.cluster,
    )


def estimate_unchecked(
    phase: Phase,
    model: ModelShape,
    gpu: GpuSpec,
    groups: tuple[Group, ...],
    *,
    precision: PrecisionLike = None,
    efficiency: Efficiency = IDEAL,
    small_steps: SmallSteps = "fused",
    weights_only: bool = False,
    parallelism: Parallelism = SINGLE,
    cluster: Cluster | None = None,
) -> Estimate:
    """The estimate of a step whose numbers have been checked, or are arrays or symbols."""
    checked_flag("weights_only", weights_only)
    checked_kind("efficiency", efficiency, Efficiency)
    found = Estimate.trusted(
        phase=phase,
        model=model,
        gpu=gpu,
        precision=model.resolve_precision(precision),
        step=Step.trusted(groups=groups),
        efficiency=efficiency,
        small_steps=small_steps,
        weights_only=weights_only,
        parallelism=parallelism,
        cluster=cluster,
    )
    found.sums  # noqa: B018  a format that the chip lacks is an error now, not at the first look
    return found


def decode_time_between(last: Estimate, first_context: int) -> float:
    """Time of all decode steps from one context to that of an estimate, both included [s]."""
    import numpy as np

    group = last.step.groups[0]
    past = as_array(np.arange(first_context - 1, group.past + 1))
    every = Group.trusted(count=group.count, new=1, past=past, logits=1, shared_past=0)
    steps = estimate_unchecked(
        "decode",
        last.model,
        last.gpu,
        (every,),
        precision=last.precision,
        efficiency=last.efficiency,
        small_steps=last.small_steps,
        parallelism=last.parallelism,
        cluster=last.cluster,
    )
    return float(np.sum(steps.time))
