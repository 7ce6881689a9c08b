"""What is expected of whole steps: a batch, a single stream, a server in a closed loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from floors.shapes import model as written_out

import perfmodel as pm
from scores.kernels import Expected, engine_of
from scores.precisions import precision
from scores.records import HOSTLESS, Record


@cache
def model(key: str) -> pm.ModelShape:
    """A model of the catalog, or one that the readings of the floors write out."""
    found = written_out(key) if "/" in key else pm.model(key)
    assert found is not None
    return found


def step(record: Record) -> Expected:
    """What is expected of a record of whole steps."""
    return _READINGS[record.family](record)


def fits(record: Record) -> bool:
    """Whether all sequences find room at their longest."""
    longest = record.prompt + max(record.output, 1)
    return bool(_decode(record, record.batch, longest).fits)


def pooled(record: Record) -> bool:
    """Whether all sequences find room in vLLM's pool, if a step may hold the longest prompt."""
    shape = model(record.model)
    found = pm.kv_pool(
        shape,
        pm.gpu(record.gpu),
        policy=pm.MemoryPolicy.preset("vllm", step_tokens=shape.max_context),
        precision=precision(record.precision, shape),
        parallelism=pm.Parallelism(tensor=record.tensor),
    )
    return record.batch * (record.prompt + record.output) <= found.tokens


def _decode(record: Record, batch: int, context: int) -> pm.Estimate:
    return _estimate(record, pm.Group(count=batch, new=1, past=context - 1))


def _prefill(record: Record) -> pm.Estimate:
    return _estimate(record, pm.Group(count=record.batch, new=max(record.prompt, 1)))


def _estimate(record: Record, *groups: pm.Group) -> pm.Estimate:
    shape = model(record.model)
    return pm.estimate(
        shape,
        pm.gpu(record.gpu),
        pm.Step(groups=groups),
        precision=precision(record.precision, shape),
        parallelism=_parallelism(record),
        efficiency=_efficiency(record.gpu, engine_of(record), record.family != HOSTLESS),
    )


def _parallelism(record: Record) -> pm.Parallelism:
    return pm.Parallelism(tensor=record.tensor, pipeline=record.pipeline, expert=record.expert)


@cache
def _efficiency(gpu: str, engine: str | None, host: bool) -> pm.Efficiency:
    found = pm.efficiency(pm.gpu(gpu), engine=engine)
    alone = pm.efficiency(pm.gpu(gpu))  # of kernels alone: without a host, with the bands of that
    kept = {} if host else {"host": None, "decode_band": alone.decode_band}
    return found.model_copy(update=kept | _changed)


_changed: dict[str, None] = {}


@contextmanager
def kernels_only() -> Iterator[None]:
    """Bands of kernels alone, without that of whole steps."""
    _changed.update(decode_band=None, prefill_band=None)
    _efficiency.cache_clear()
    try:
        yield
    finally:
        _changed.clear()
        _efficiency.cache_clear()


def _band(found: pm.Estimate) -> Expected:
    assert found.low is not None
    assert found.high is not None
    return Expected(found.time, found.low, found.high, found.efficiency.known)


def _first_token(record: Record) -> Expected:
    return _band(_prefill(record))


def _batch(record: Record) -> Expected:
    """The prefill of all prompts together, then decode steps, each as long as the middle one."""
    first, steps = _first_token(record), record.output - 1
    if not steps:
        return first
    middle = _band(_decode(record, record.batch, record.prompt + record.output // 2))
    return Expected(
        time=first.time + steps * middle.time,
        low=first.low + steps * middle.low,
        high=first.high + steps * middle.high,
        known=first.known,
    )


def _single_stream(record: Record) -> Expected:
    """A decode step in the middle of the output."""
    return _band(_decode(record, 1, max(record.prompt + record.output // 2, 1)))


def _serving(record: Record) -> Expected:
    """Mean time a token of N users, each with a next request at once; the band of its step."""
    shape = model(record.model)
    found = pm.serve(
        shape,
        pm.gpu(record.gpu),
        pm.Workload(prompt=record.prompt, output=record.output, concurrency=record.batch),
        precision=precision(record.precision, shape),
        parallelism=_parallelism(record),
        efficiency=_efficiency(record.gpu, engine_of(record), record.family != HOSTLESS),
    )
    step, token = _band(found.step), found.tpot
    return Expected(token, token * step.low / step.time, token * step.high / step.time, step.known)


_READINGS = {
    "first token": _first_token,
    "batch": _batch,
    "study": _batch,
    "single stream": _single_stream,
    "serving": _serving,
    HOSTLESS: _serving,
}
