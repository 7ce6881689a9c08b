"""A real decoder on this machine: predicted first, then measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from perfmodel.answers.estimate import Estimate
from perfmodel.answers.steps import decode, prefill
from perfmodel.base.errors import DoesNotFitError
from perfmodel.base.spec import Name, Spec, checked_count, checked_kind, checked_positive
from perfmodel.base.units import si
from perfmodel.interfaces.measuring.arrays import Arrays, arrays_of
from perfmodel.interfaces.measuring.decoder import Decoder, check_supported
from perfmodel.interfaces.measuring.measure import memory_for
from perfmodel.interfaces.measuring.record import Measurement, Times
from perfmodel.interfaces.measuring.stopwatch import REPEATS, Call, Stopwatch, Tell, whom
from perfmodel.work.shape import ModelShape

Predictions: TypeAlias = tuple[Estimate, ...]

_HEADROOM: Final = 1.1  # what activations and libraries take beside weights and cache


class MeasuredStep(Times):
    """A step that was predicted, and then ran."""

    predicted: Estimate
    """What was expected, before."""

    @property
    def ratio(self) -> float:
        """Measured time over the predicted floor [1]."""
        return self.time / self.predicted.floor


class MeasuredModel(Spec):
    """Steps of a real decoder with random weights: predicted, measured, compared."""

    model: ModelShape
    """What was asked for."""
    ran: ModelShape
    """What ran: the same, or its first blocks."""
    steps: tuple[MeasuredStep, ...]
    """A prefill and a decode step."""
    notes: tuple[Name, ...] = ()
    """What a reader should know."""

    def __repr__(self) -> str:
        steps = "; ".join(f"{step.name}: {step.ratio:.2f} of the floor" for step in self.steps)
        return f"<MeasuredModel {self.ran.name}: {steps}>"

    __str__ = __repr__

    def explain(self) -> str:
        """Each step as text: prediction, measurement, ratio.

        Returns
        -------
        str
            Several lines, ready to print.
        """
        lines = [f"{self.ran.name}: {self.ran.params:,} parameters in {self.ran.layers} blocks"]
        for step in self.steps:
            lines += [foretold(step.predicted), f"    {step.spread}: {step.ratio:.2f} of the floor"]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def measure_model(
    model: ModelShape,
    machine: Measurement,
    *,
    batch: int = 1,
    context: int = 512,
    prompt: int = 256,
    seconds: float = 60.0,
    memory: float | None = None,
    predicted: Callable[[Predictions], object] | None = None,
    progress: Tell | None = None,
) -> MeasuredModel:
    """Predict a prefill and a decode step on a measured machine, then run both on it.

    Parameters
    ----------
    model : ModelShape
        The model: full attention with grouped queries, plain or gated feed-forward layers.
    machine : Measurement
        This machine's, from ``measure``; its library, device, threads and format are used again.
    batch : int
        Sequences [1].
    context : int
        Tokens that the decode step attends, the new one included [1].
    prompt : int
        Tokens of each sequence that the prefill reads [1].
    seconds : float
        Time to take; each step runs at least once [s].
    memory : float or None
        Memory for all arrays; None: half of what is free. Where it is short, fewer blocks run [B].
    predicted : callable or None
        Told the estimates, before anything runs.
    progress : callable or None
        Told the share of the time that is used, and the name of what runs.

    Returns
    -------
    MeasuredModel
        Each step with its prediction, its time and their ratio.

    Raises
    ------
    InvalidValueError
        If an argument is not what it should be.
    UnsupportedModelError
        If the shape has a part that cannot be measured yet.
    DoesNotFitError
        If not even one block fits the memory.

    Notes
    -----
    Weights are random: no step is faster or slower for it. In every repeat the decode step writes
    the last of ``context`` tokens into the cache and reads all of them.

    Examples
    --------
    >>> found = measure(seconds=30, jobs=False)  # doctest: +SKIP
    >>> print(measure_model(pm.model("qwen2.5-0.5b"), found).explain())  # doctest: +SKIP
    """
    checked_kind("model", model, ModelShape, "pm.model")
    checked_kind("machine", machine, Measurement, "pm.measure()")
    seconds = checked_positive("seconds", seconds)
    lengths = [("batch", batch), ("context", context), ("prompt", prompt)]
    batch, context, prompt = (checked_count(name, given) for name, given in lengths)
    foretell, tell = whom("predicted", predicted), whom("progress", progress)
    check_supported(model)
    about, form, longest = machine.machine, machine.precision, max(context, prompt)
    arrays = arrays_of(about.backend, about.device, about.threads)
    ran = _fitting(model, form, (batch, prompt, longest), memory_for(arrays, memory))
    asked: dict[str, Any] = {"batch": batch, "precision": form}
    said = (
        prefill(ran, machine.gpu, prompt=prompt, **asked),
        decode(ran, machine.gpu, context=context, **asked),
    )
    foretell(said)
    with arrays.limited():
        watch = Stopwatch.started(seconds, tell)
        decoder = Decoder(ran, arrays, form, batch=batch, context=longest)
        calls = [
            (_name(one), _step(decoder, arrays, batch, one.step.groups[0].new, past))
            for one, past in zip(said, (0, context - 1), strict=True)
        ]
        timings = watch.rounds(calls)
    steps = tuple(
        MeasuredStep.of(_name(one), timing, predicted=one)
        for one, timing in zip(said, timings, strict=True)
    )
    notes = tuple(_notes(model, ran, steps, seconds))
    return MeasuredModel(model=model, ran=ran, steps=steps, notes=notes)


def foretold(step: Estimate) -> str:
    """What is expected of a step."""
    floor, at_roofs = si(step.floor, "s"), si(step.time, "s")
    return f"  {_name(step)}: floor {floor}, operation after operation at the roofs {at_roofs}"


def _name(step: Estimate) -> str:
    group = step.step.groups[0]
    tokens = f"{group.new} tokens" if step.phase == "prefill" else f"context {group.context}"
    return f"{step.phase}, batch {group.count}, {tokens}"


def _step(decoder: Decoder, arrays: Arrays, batch: int, new: int, past: int) -> Call:
    vocab = len(decoder.ends["table"])
    spread = [[(7919 * (row * new + i)) % vocab for i in range(new)] for row in range(batch)]
    tokens = arrays.array(spread)

    def call() -> None:
        decoder.step(tokens, past)
        arrays.wait()

    return call


def _fitting(
    model: ModelShape, form: str, sizes: tuple[int, int, int], memory: float
) -> ModelShape:
    """The model, or as many of its first blocks as the memory holds.

    Raises
    ------
    DoesNotFitError
        If it does not hold one.
    """
    batch, prompt, longest = sizes
    layers: list[Any] = [layer for _, row in model.blocks for layer in row]
    # The scores of a prefill twice, with what is computed of them, or the widest activations.
    wide = max(getattr(x, "heads", 0) * 2 * prompt + getattr(x, "up_width", 0) for x in layers)
    needed, passing = 0.0, 4.0 * batch * prompt * wide
    for count in range(model.layers, 0, -1):
        some = model if count == model.layers else _first_blocks(model, count)
        needed = passing + some.weight_bytes(form) + batch * some.cache_bytes(longest, form)
        if _HEADROOM * needed <= memory:
            return some
    raise DoesNotFitError(
        f"memory: expected at least {si(_HEADROOM * needed, 'B')}, for one block of {model.name} "
        f"in {form}, got {si(memory, 'B')}"
    )


def _first_blocks(model: ModelShape, count: int) -> ModelShape:
    blocks = [(1, row) for repeats, row in model.blocks for _ in range(repeats)]
    return model.model_copy(update={"blocks": tuple(blocks[:count])})


def _notes(
    model: ModelShape, ran: ModelShape, steps: tuple[MeasuredStep, ...], seconds: float
) -> Iterator[str]:
    """What a reader should know."""
    if ran is not model:
        yield f"memory is short: {ran.layers} of {model.layers} blocks ran"
        for step in steps:
            asked = step.predicted
            fields = {name: getattr(asked, name) for name in type(asked).model_fields}
            whole = Estimate(**fields | {"model": model}).time / asked.time
            yield f"scaled to all blocks as predicted, {step.name}: {si(whole * step.time, 's')}"
    if (fewest := min(step.repeats for step in steps)) < REPEATS:
        yield f"{seconds:g} s left {fewest} of {REPEATS} repeats to some steps"
