"""What steps cost a server, for every number of sequences beside them: tables made once.

A steady state asks the same few questions for many batch sizes, and a plan for many chips. They
are answered for a grid of batch sizes at once, by estimates on arrays, and read off by linear
interpolation; between the knots a step's time is all but straight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from perfmodel.answers.estimate import Estimate, Phase
from perfmodel.answers.serving.scheduler import Scheduler, Speculation
from perfmodel.answers.serving.workload import Workload
from perfmodel.answers.steps import estimate_unchecked
from perfmodel.base._num import Num, axes_of, ceil_div, maximum, minimum, where
from perfmodel.base.precision import Precision
from perfmodel.machine.efficiency import IDEAL, Efficiency
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.machine.stack import Stack
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group

_PASTS: Final = 4  # of a prompt's chunks, at which their attention is asked
_TOGETHER: Final = (2, 4, 8, 16)  # prompts in one step, beside one alone


class Server(NamedTuple):
    """One replica: what runs where."""

    model: ModelShape
    gpu: GpuSpec | Stack
    """The chip; or many of them, for which tables then have a row each."""
    precision: Precision
    efficiency: Efficiency | None
    """How far below the roofs; None: a stack knows it of each."""
    parallelism: Parallelism
    cluster: Cluster | None

    @property
    def lanes(self) -> int:
        """Groups of sequences that step together, for their tokens meet at the experts [1]."""
        return self.parallelism.data

    @property
    def without_graphs(self) -> Server:
        """The same where prompts are read, and no step is replayed."""
        if isinstance(self.gpu, Stack):
            return self._replace(gpu=self.gpu.without_graphs)
        if self.efficiency is None or self.efficiency.host is None:
            return self
        return self._replace(efficiency=self.efficiency.model_copy(update={"graphs": False}))

    def chip(self, axes: int = 0) -> GpuSpec:
        """The chip; of many, one whose figures vary along an axis before so many others."""
        return self.gpu.across(axes)[0] if isinstance(self.gpu, Stack) else self.gpu

    def estimate(self, phase: Phase, count: Num, new: Num, past: Num, logits: Num) -> Estimate:
        """A step of equal sequences in each lane; all numbers may be arrays."""
        group = Group.trusted(
            count=self.lanes * count, new=new, past=past, logits=logits, shared_past=0
        )
        chip, efficiency = self.gpu, self.efficiency
        if isinstance(chip, Stack):
            chip, efficiency = chip.across(axes_of(count, new, past))
        return estimate_unchecked(
            phase,
            self.model,
            chip,
            (group,),
            precision=self.precision,
            efficiency=efficiency or IDEAL,
            parallelism=self.parallelism,
            cluster=self.cluster,
        )


class Costs(NamedTuple):
    """Times for a number of sequences that decode in each lane; the last axis is that number.

    ``knots`` begins at none. Tables of several servers with the same knots, stacked, are the
    costs of all of them at once.
    """

    knots: Any
    """Sequences that decode beside [1]."""
    step: Any
    """A step without prompts; 0 for none [s]."""
    one: Any
    """By how much a prompt makes its steps longer, all its chunks together [s]."""
    two: Any
    """By how much two prompts do that are read together [s]."""
    four: Any
    """By how much four do [s]."""
    eight: Any
    """By how much eight do [s]."""
    sixteen: Any
    """By how much sixteen do [s]."""
    read: Any
    """From the first chunk of a prompt to its last, steps of the others included [s]."""
    load: Any
    """Share of a step's budget that a prompt takes; above 1, so many steps [1]."""
    square: Any
    """Mean square of that share, over prompts [1]."""
    chunks: Any
    """Steps in which a prompt is read [1]."""

    def at(self, number: Num) -> Costs:
        """The costs at so many sequences, straight between knots; at most at the last."""
        number = minimum(number, self.knots[-1])
        return Costs(number, *map(self._reader(number), self[1:]))

    def step_at(self, number: Num) -> Num:
        """A step without prompts, of so many sequences [s]."""
        return self._reader(minimum(number, self.knots[-1]))(self.step)

    def _reader(self, number: Num) -> Callable[[Any], Any]:
        """Reads a table off between two knots; of many servers, each in its own row."""
        import numpy as np

        knots = self.knots
        left = np.clip(np.searchsorted(knots, number, side="right") - 1, 0, len(knots) - 2)
        part = (number - knots[left]) / (knots[left + 1] - knots[left])
        if self.step.ndim > 1:
            rows, columns = self.step.shape
            left = left + (columns * np.arange(rows)).reshape(-1, *[1] * (left.ndim - 1))
        right = left + 1

        def read(table: Any) -> Any:
            flat = table.reshape(-1)
            low = flat.take(left)
            return low + part * (flat.take(right) - low)

        return read


def knots_up_to(most: float) -> Any:
    """Batch sizes from none to more than so many: all up to eight, then four an octave."""
    import numpy as np

    found, step = list(range(9)), 2
    while found[-1] <= most:
        found += [found[-1] + i * step for i in range(1, 5)]
        step *= 2
    return np.array(found, dtype=np.float64)


def costs_of(
    server: Server,
    workload: Workload,
    scheduler: Scheduler,
    speculation: Speculation | None,
    knots: Any,
) -> Costs:
    """The tables of a server whose steps hold prompts and tokens as a scheduler says."""
    import numpy as np

    width = 1 if speculation is None else speculation.tokens + 1
    alone, beside = _decode(server, workload, knots[1:], width)
    step = _from_none(alone + _drafts(server, workload, speculation, knots[1:]))
    beside = _from_none(beside)
    decoding = knots if scheduler.kind == "chunked" else 0 * knots
    room = maximum(scheduler.budget - width * decoding, 1.0)[:, None]
    new, shares = workload.prompts
    chunks = ceil_div(new, room)
    attention = _attention(server, workload.prefix, new / chunks, chunks)
    # Where so many fill a step, twice as many take two.
    asked = [n for n in _TOGETHER if n / 2 * (shares @ new) < scheduler.budget]
    sizes = np.concatenate([new / chunks, _together(shares @ new, room, asked)], axis=1)
    longer = _beside(server, decoding[:, None], sizes, width, "decode")
    if scheduler.kind == "chunked":
        longer = maximum(longer - beside[..., None], 0.0)
    kinds = len(new)
    # Of a prompt in stages, time passes till the last has seen it; they are busy for less.
    passing = longer[..., :kinds]
    if server.parallelism.pipeline > 1:
        once = _beside(server, decoding[:, None], sizes[:, :kinds], width, "prefill")
        passing = once - (beside[..., None] if scheduler.kind == "chunked" else 0)
    one = (chunks * (longer[..., :kinds] + attention)) @ shares
    read = (chunks * (passing + attention)) @ shares
    if scheduler.kind == "chunked":
        read = read + step * (chunks @ shares)
    first = longer[..., :kinds] @ shares
    several = [one]
    for i, n in enumerate(asked):
        grown = _growth(longer[..., kinds + i], first, sizes[:, kinds + i], shares @ new, n)
        several.append(n * one + grown)
    while len(several) <= len(_TOGETHER):
        several.append(2 * several[-1])
    return Costs(
        knots=knots,
        step=step,
        one=one,
        two=several[1],
        four=several[2],
        eight=several[3],
        sixteen=several[4],
        read=read,
        load=(new / room) @ shares,
        square=((new / room) ** 2) @ shares,
        chunks=chunks @ shares,
    )


def decode_costs(
    server: Server, workload: Workload, speculation: Speculation | None, knots: Any
) -> Costs:
    """The tables of a server that reads no prompts."""
    width = 1 if speculation is None else speculation.tokens + 1
    time, _ = _decode(server, workload, knots[1:], width)
    step = _from_none(time + _drafts(server, workload, speculation, knots[1:]))
    none = 0.0 * knots
    return Costs(knots, step, *[none] * (len(Costs._fields) - 2))


def _decode(server: Server, workload: Workload, batch: Any, width: int) -> tuple[Any, Any]:
    """Time of a step at the mean over contexts, and the part of it beside attention."""
    has_cache = server.model.has_cache
    past = workload.contexts[None, :] - 1 if has_cache else 0.0
    found = server.estimate("decode", batch[:, None], width, past, width)
    share = _attention_share(found)
    time = found.time + 0.0 * batch[:, None]
    return time.mean(axis=-1), (time * (1 - share)).mean(axis=-1)


def _from_none(table: Any) -> Any:
    """A table that begins with no sequences at all, which take no time."""
    import numpy as np

    return np.concatenate([0.0 * table[..., :1], table], axis=-1)


def _drafts(server: Server, workload: Workload, speculation: Speculation | None, batch: Any) -> Any:
    """Time in which a draft guesses its tokens, one after another."""
    if speculation is None or speculation.draft is None:
        return 0.0
    draft, tensor = speculation.draft, server.parallelism.tensor
    drafting = server._replace(
        model=draft,
        precision=draft.resolve_precision(server.precision),
        parallelism=SINGLE if tensor == 1 else Parallelism(tensor=tensor),
    )
    time, _ = _decode(drafting, workload, batch, 1)
    return speculation.tokens * time


def _attention(server: Server, prefix: float, size: Any, chunks: Any) -> Any:
    """Attention of a prompt's chunk, on average over a few of its chunks."""
    import numpy as np

    at = np.arange(_PASTS) / (_PASTS - 1)
    past = prefix + size[..., None] * (chunks[..., None] - 1) * at
    found = server.estimate("prefill", 1.0, size[..., None], past, 1.0)
    # The trapezoid: attention is straight in the past but where a window ends.
    weight = np.array([1, *[2] * (_PASTS - 2), 1]) / (2 * (_PASTS - 1))
    return (found.time * _attention_share(found) + 0.0 * past) @ weight


def _together(prompt: float, room: Any, numbers: list[int]) -> Any:
    """Tokens of so many prompts, as far as one step has room for them."""
    import numpy as np

    return minimum(prompt * np.array(numbers or [1])[None, :], room)


def _growth(longer: Any, first: Any, size: Any, prompt: float, prompts: int) -> Any:
    """What so many prompts in one step take beside attention, less as many times what one does.

    Where a step has no room for all of them, what fits is scaled up.
    """
    several = size / prompt
    enough = several > 1
    scaled = longer * prompts / maximum(several, 1.0)
    return (scaled - prompts * first) * enough


def _beside(server: Server, decoding: Any, size: Any, width: int, phase: Phase) -> Any:
    """A step with a chunk beside decoding sequences, all but attention.

    Matrices know tokens, and the host sequences, but not whose they are: it is a step of equal
    sequences, one more than decode, with as many tokens in all.
    """
    count = decoding + 1
    new, logits = (width * decoding + size) / count, (width * decoding + 1) / count
    found = server.without_graphs.estimate(phase, count, new, 0.0, logits)
    return found.time * (1 - _attention_share(found)) + 0.0 * size


def _attention_share(found: Estimate) -> Any:
    """Share of a step's time that its attention takes, on the device that takes longest."""
    longest: Any = 0.0
    attention: Any = 0.0
    for device in found.each_device:
        time = device.sums.time
        own = sum([row.time for row in device.rows if row.operation.kind == "attention"])
        attention = where(time > longest, own, attention)
        longest = maximum(time, longest)
    return attention / longest
