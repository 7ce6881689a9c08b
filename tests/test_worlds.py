"""Do arrays give the answers of plain numbers? There is one set of formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    MAX_CONTEXT,
    REL,
    batches,
    coarse_models,
    contexts,
    efficiencies,
    gpus,
    models,
    precisions,
    prompts,
    shapes,
)

import perfmodel as pm
from perfmodel.work.layers import MixtureOfExperts

CHIP = pm.GpuSpec(
    name="H100-like", memory_bandwidth=3.35e12, memory_capacity=8e10, peak_flops={"bf16": 989e12}
)
TINY = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000)
COLUMNS = ("time", "floor", "tokens_per_second", "flops", "bytes")

few_batches = st.lists(batches, min_size=1, max_size=3)
few_contexts = st.lists(contexts, min_size=1, max_size=3)
few_prompts = st.lists(prompts, min_size=1, max_size=3)


def exact(estimate: pm.Estimate) -> bool:
    """Whether floats hold every integer on the way: FLOPs, and bits of blocks of up to 128."""
    return max(estimate.flops, 8 * 128 * estimate.bytes) < 2**53


def agree(table: pm.Sweep, row: int, estimate: pm.Estimate, *, bitwise: bool) -> None:
    for name in COLUMNS:
        one, other = float(getattr(table, name)[row]), getattr(estimate, name)
        assert one == other if bitwise else math.isclose(one, other, rel_tol=REL), name
    held = float(table.needed[row])
    assert math.isclose(held, estimate.memory.needed, rel_tol=REL)
    if not math.isclose(held, estimate.gpu.capacity, rel_tol=REL):
        assert bool(table.fits[row]) is estimate.fits
    if not math.isclose(estimate.compute_time, estimate.memory_time, rel_tol=REL):
        assert table.bound[row] == estimate.bound


# -- arrays equal floats ---------------------------------------------------------------------------


@given(
    model=shapes(), gpu=gpus(), batch=few_batches, context=few_contexts, precision=precisions(),
    efficiency=st.just(pm.Efficiency()) | efficiencies(),
)  # fmt: skip
def test_a_sweep_over_contexts_is_as_many_decode_steps(
    model, gpu, batch, context, precision, efficiency
):
    how = {"precision": precision, "efficiency": efficiency}
    table = pm.sweep(model, gpu, batch=batch, context=context, **how)
    asked = [(b, c) for b in batch for c in context]
    assert list(zip(table.batch, table.context, strict=True)) == asked
    assert len(table) == len(asked)
    assert table.precision == precision.name
    for row, (b, c) in enumerate(asked):
        agree(table, row, pm.decode(model, gpu, batch=b, context=c, **how), bitwise=False)


@given(
    model=models() | coarse_models(cache=False), gpu=gpus(), batch=few_batches,
    prompt=few_prompts, precision=precisions(),
    efficiency=st.just(pm.Efficiency()) | efficiencies(),
)  # fmt: skip
def test_a_sweep_over_prompts_is_as_many_prefills(model, gpu, batch, prompt, precision, efficiency):
    how = {"precision": precision, "efficiency": efficiency}
    table = pm.sweep(model, gpu, batch=batch, prompt=prompt, **how)
    asked = [(b, p) for b in batch for p in prompt]
    assert list(zip(table.batch, table.prompt, strict=True)) == asked
    for row, (b, p) in enumerate(asked):
        agree(table, row, pm.prefill(model, gpu, batch=b, prompt=p, **how), bitwise=False)


@given(
    model=shapes(), gpu=gpus(), batch=st.integers(1, 64), context=st.integers(1, 2048),
    precision=precisions(), decode=st.booleans(),
)  # fmt: skip
def test_arrays_agree_to_the_bit_where_floats_hold_every_integer(
    model, gpu, batch, context, precision, decode
):
    if decode:
        found = pm.decode(model, gpu, batch=batch, context=context, precision=precision)
        swept = {"context": [context, MAX_CONTEXT]}
    else:
        found = pm.prefill(model, gpu, batch=batch, prompt=context, precision=precision)
        swept = {"prompt": [context, MAX_CONTEXT]}
    assume(exact(found))
    table = pm.sweep(model, gpu, batch=[batch, 4096], precision=precision, **swept)
    agree(table, 0, found, bitwise=True)
    assert float(table.needed[0]) == found.memory.needed
    assert bool(table.fits[0]) is found.fits
    assert table.bound[0] == found.bound


@given(
    model=shapes(), gpu=gpus(), pairs=st.lists(st.tuples(batches, contexts), min_size=1, max_size=4)
)
def test_without_a_grid_batches_and_contexts_go_in_pairs(model, gpu, pairs):
    batch, context = zip(*pairs, strict=True)
    table = pm.sweep(model, gpu, batch=batch, context=context, grid=False)
    whole = pm.sweep(model, gpu, batch=batch, context=context)
    assert len(table) == len(pairs)
    for row, (b, c) in enumerate(pairs):
        agree(table, row, pm.decode(model, gpu, batch=b, context=c), bitwise=False)
        assert table.time[row] == whole.time[row * (len(pairs) + 1)]


@given(model=shapes(), batch=few_batches, context=few_contexts)
def test_a_table_has_a_row_a_configuration(model, batch, context):
    table = pm.sweep(model, CHIP, batch=batch, context=context)
    frame = table.to_frame()
    assert len(frame) == len(table) == len(batch) * len(context)
    for name in ("batch", "context", *COLUMNS, "bound", "needed", "fits"):
        assert (frame[name].to_numpy() == getattr(table, name)).all()


def test_a_sweep_on_a_chip_of_unknown_capacity_says_nothing_about_what_fits():
    chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
    table = pm.sweep(TINY, chip, batch=[1], context=[1])
    assert not hasattr(table, "fits")
    assert "fits" not in table.to_frame()


# -- many devices ----------------------------------------------------------------------------------

LINK = pm.Link(bandwidth=450e9, latency=1e-6, domain=8)
NODE = CHIP.model_copy(update={"link": LINK})
PLACES = {
    "one node": NODE,
    "nodes of two": pm.Cluster(gpu=NODE, per_node=2, nodes=8, link=pm.Link(bandwidth=5e10)),
}
SMALL = pm.ModelShape.dense(layers=6, hidden=64, heads=4, kv_heads=2, ffn=256, vocab=1000)
EXPERTS = SMALL.model_copy(
    update={
        "blocks": (
            (5, (SMALL.blocks[0][1][0], MixtureOfExperts(experts=8, top_k=2, width=64))),
            (1, SMALL.blocks[0][1]),
        )
    }
)
WAYS = (
    pm.Parallelism(tensor=4),
    pm.Parallelism(tensor=2, data=2, all_reduce="one-shot"),
    pm.Parallelism(pipeline=3),
    pm.Parallelism(pipeline=2, micro_batches=5, stages=(2, 4), communication="overlapped"),
    pm.Parallelism(tensor=2, pipeline=2, data=2, expert=2),
    pm.Parallelism(data=4, expert=4),
)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("ways", WAYS, ids=str)
@given(
    model=st.sampled_from([SMALL, EXPERTS]), batch=few_batches, length=few_contexts,
    prefill=st.booleans(), efficiency=st.just(pm.Efficiency()) | efficiencies(),
)  # fmt: skip
def test_a_sweep_over_many_devices_is_as_many_steps(
    place, ways, model, batch, length, prefill, efficiency
):
    gpu = PLACES[place]
    how = {"efficiency": efficiency, "parallelism": ways}
    name, ask = ("prompt", pm.prefill) if prefill else ("context", pm.decode)
    table = pm.sweep(model, gpu, batch=batch, **{name: length}, **how)
    asked = [(b, n) for b in batch for n in length]
    for row, (b, n) in enumerate(asked):
        found = ask(model, gpu, batch=b, **{name: n}, **how)
        for column in ("time", "floor", "tokens_per_second"):
            assert math.isclose(getattr(table, column)[row], getattr(found, column), rel_tol=REL)
        assert math.isclose(table.needed[row], found.memory.needed, rel_tol=REL)
        times = [device.sums.time for device in found._devices]
        if sum(math.isclose(time, max(times), rel_tol=REL) for time in times) == 1:
            # One stage alone takes longest: it is the one that both speak of.
            assert math.isclose(table.flops[row], found.flops, rel_tol=REL)
            assert math.isclose(table.bytes[row], found.bytes, rel_tol=REL)


# -- no integer wraps around -----------------------------------------------------------------------

LARGE = pm.ModelShape.dense(
    layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248, vocab=128256
)
# Every matrix that multiplies, counted by hand: QKV and output, gate, up and down, head.
BLOCK_WEIGHTS = 16384 * (128 + 2 * 8) * 128 + 128 * 128 * 16384 + 3 * 16384 * 53248
HEAD_WEIGHTS = 128256 * 16384


def test_405_billion_parameters_are_counted():
    assert LARGE.params == 405_853_388_800
    norms = (2 * 126 + 1) * 16384
    assert 126 * BLOCK_WEIGHTS + 2 * HEAD_WEIGHTS + norms == LARGE.params


@pytest.mark.parametrize("context", [1, 8192, 131_072, 1_048_576])
@pytest.mark.parametrize("batch", [1, 64, 1024])
def test_no_integer_overflows_in_a_large_decode(batch, context):
    table = pm.sweep(LARGE, CHIP, batch=[1, batch], context=[1, context])
    flops = 2 * batch * (126 * BLOCK_WEIGHTS + HEAD_WEIGHTS)
    flops += 126 * 4 * 128 * 128 * batch * context
    cache = 2 * 126 * 2 * 8 * 128 * batch * context
    assert pm.decode(LARGE, CHIP, batch=batch, context=context).flops == flops
    assert math.isclose(table.flops[-1], flops, rel_tol=REL)
    assert math.isclose(table.needed[-1], 2 * LARGE.params + cache, rel_tol=REL)


@pytest.mark.parametrize("batch", [1, 1024])
def test_no_integer_overflows_in_a_large_prefill(batch):
    prompt = 131_072
    table = pm.sweep(LARGE, CHIP, batch=[batch], prompt=[prompt])
    pairs = prompt * (prompt + 1) // 2
    flops = 2 * batch * (prompt * 126 * BLOCK_WEIGHTS + HEAD_WEIGHTS)
    flops += 126 * 4 * 128 * 128 * batch * pairs
    assert batch == 1 or flops > 2**63
    assert pm.prefill(LARGE, CHIP, batch=batch, prompt=prompt).flops == flops
    assert math.isclose(table.flops[0], flops, rel_tol=REL)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32, np.int64, np.float32, np.uint64])
def test_narrow_numbers_do_not_wrap_around(kind):
    swept = {"batch": np.array([1, 120], dtype=kind), "context": np.array([100, 127], dtype=kind)}
    table = pm.sweep(LARGE, CHIP, **swept)
    plain = pm.sweep(LARGE, CHIP, batch=[1, 120], context=[100, 127])
    assert (table.flops == plain.flops).all()
    assert (table.time == plain.time).all()


# -- what a sweep refuses --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch", "context", "prompt"])
@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        ([1, -1], "got -1"),
        ([0], "got 0"),
        ([float("nan")], "got nan"),
        ([float("inf")], "got inf"),
        ([1.5], "got 1.5"),
        ([2e15], r"got 2e\+15"),
        (["1"], r"got \['1'\]"),
        ("12", "got '12'"),
        ([True], r"got \[True\]"),
        ([1, None], r"got \[1, None\]"),
        ([10**20], "got .1000"),
        ([], r"got \[\]"),
        ([[1, 2], [3, 4]], r"got \[\[1"),
        ([[1], [2, 3]], r"got \[\[1"),
        (np.ones((1, 1)), "got array"),
    ],
    ids=str,
)
def test_a_sweep_refuses_what_is_not_a_row_of_positive_whole_numbers(name, bad, shown):
    asked: dict[str, Any] = {"batch": [1], "prompt" if name == "prompt" else "context": [1]}
    with pytest.raises(pm.errors.InvalidValueError, match=rf"^{name}: expected .*{shown}"):
        pm.sweep(TINY, CHIP, **asked | {name: bad})


def test_a_sweep_refuses_pairs_of_different_lengths():
    with pytest.raises(pm.errors.InvalidValueError, match=r"as many as batch has \(2\), got 3"):
        pm.sweep(TINY, CHIP, batch=[1, 2], context=[1, 2, 3], grid=False)


def test_a_sweep_is_over_either_contexts_or_prompts():
    with pytest.raises(pm.errors.InvalidValueError, match=r"^context, prompt: expected one"):
        pm.sweep(TINY, CHIP, batch=[1], context=[1], prompt=[1])
    with pytest.raises(pm.errors.InvalidValueError, match=r"^context: required"):
        pm.sweep(TINY, CHIP, batch=[1])


def test_a_sweep_refuses_contexts_of_a_shape_without_a_cache():
    with pytest.raises(pm.errors.NoCacheError):
        pm.sweep(pm.ModelShape.from_totals(params=8e9), CHIP, batch=[1], context=[1])


def test_a_sweep_refuses_a_format_that_the_chip_lacks():
    with pytest.raises(pm.errors.UnsupportedFormatError, match="H100-like has no fp8 peak"):
        pm.sweep(TINY, CHIP, batch=[1], context=[1], precision="fp8")


def test_a_sweep_refuses_contexts_past_the_learned_positions():
    short = TINY.with_(positions=16)
    assert len(pm.sweep(short, CHIP, batch=[1], context=[1, 16])) == 2
    with pytest.raises(pm.errors.InvalidValueError, match="16 learned positions"):
        pm.sweep(short, CHIP, batch=[1], context=[1, 17])


def test_a_sweep_has_no_column_that_was_not_asked_for():
    with pytest.raises(AttributeError, match="no column 'tiem'"):
        pm.sweep(TINY, CHIP, batch=[1], context=[1]).tiem  # noqa: B018


def test_the_fullest_stage_of_a_sweep_changes_with_the_context():
    # The first stage holds a wide table and windows, the second attention that grows.
    sizes = {"heads": 8, "kv_heads": 8, "head_dim": 64}
    blocks = tuple((2, (pm.Attention(**sizes, window=window),)) for window in (128, None))
    shape = pm.ModelShape(hidden=512, vocab=100_000, blocks=blocks, embedding=pm.Embedding())
    ways = pm.Parallelism(pipeline=2, communication="ignored")
    contexts = [100, 10_000, 100_000]
    table = pm.sweep(shape, CHIP, batch=[1], context=contexts, precision="bf16", parallelism=ways)
    alone = [
        pm.memory(shape, CHIP, batch=1, context=c, precision="bf16", parallelism=ways).needed
        for c in contexts
    ]
    assert list(table.needed) == alone
    # 2 x 4 x 512^2 weights of 2 bytes; 2 layers x 2 x 512 numbers of 2 bytes a token.
    assert alone[-1] == 2 * 4 * 512**2 * 2 + 2 * 512 * 2 + 100_000 * 2 * 2 * 512 * 2
    assert alone[0] > 100_000 * 512 * 2
