"""Does the physics hold for any valid input?

One device. Equalities and orders hold to rounding (1e-12), unless they are of integers.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    MAX_CONTEXT,
    at_most,
    batches,
    close,
    coarse_models,
    contexts,
    decades,
    efficiencies,
    full_attention_models,
    gpus,
    groups,
    models,
    named_precisions,
    pasts,
    precisions,
    prompts,
    shapes,
    small_steps,
    steps,
    windows,
    with_capacity,
)

import perfmodel as pm
from perfmodel.base.spec import Spec
from perfmodel.machine.hardware import PeakFlops

CHIP = pm.GpuSpec(
    name="a chip for questions that are not about chips",
    memory_bandwidth=2e12,
    memory_capacity=1e11,
    peak_flops=dict.fromkeys(PeakFlops.model_fields, 5e14),
)


def faster(gpu: pm.GpuSpec, factor: float) -> pm.GpuSpec:
    peaks = {key: factor * gpu.peak(key) for key in gpu.peak_flops.formats}
    bandwidth = factor * gpu.memory_bandwidth
    return gpu.model_copy(update={"memory_bandwidth": bandwidth, "peak_flops": peaks})


def matrices(estimate: pm.Estimate) -> list[pm.Operation]:
    return [op for op in estimate.operations if op.kind == "linear"]


def vectors(model: pm.ModelShape) -> int:
    """Norms and biases of the blocks, counted by hand."""
    width = model.hidden
    norm = {None: 0, "rms": width, "layer": 2 * width}
    total = 0
    for repeats, layers in model.blocks:
        for layer in layers:
            one = norm[layer.norm]
            if isinstance(layer, pm.Attention):
                outputs = (layer.heads + 2 * layer.kv_heads) * layer.head_dim
                one += outputs * layer.qkv_bias + width * layer.output_bias
                normed = {None: 0, "head": 2, "full": layer.heads + layer.kv_heads}
                one += normed[layer.qk_norm] * layer.head_dim
            else:
                one += ((1 + layer.gated) * layer.width + width) * layer.bias
            total += repeats * one
    return total


def last_norm(model: pm.ModelShape) -> int:
    return 0 if model.head is None else {None: 0, "rms": 1, "layer": 2}[model.head.norm]


# -- time and its bounds ---------------------------------------------------------------------------


@given(
    model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps,
    only=st.booleans(),
)  # fmt: skip
def test_time_lies_between_floor_and_the_sum_of_both_roofs(
    model, gpu, step, precision, small, only
):
    found = pm.estimate(model, gpu, step, precision=precision, small_steps=small, weights_only=only)
    assert found.floor > 0
    assert at_most(found.floor, found.time)
    assert at_most(max(found.compute_time, found.memory_time), found.time)
    assert at_most(found.time, found.compute_time + found.memory_time)


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions())
def test_floor_is_the_compulsory_work_perfectly_overlapped(model, gpu, step, precision):
    found = pm.estimate(model, gpu, step, precision=precision)
    by_format: dict[str, int] = {}
    for op in found.operations:
        by_format[op.compute] = by_format.get(op.compute, 0) + op.calls * op.flops
    arithmetic = math.fsum(flops / gpu.peak(name) for name, flops in by_format.items())
    compulsory = math.fsum(op.calls * (op.weight_bytes + op.kv_bytes) for op in found.operations)
    assert close(found.floor, max(arithmetic, compulsory / gpu.memory_bandwidth))


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions())
def test_totals_and_rates_follow_from_the_operations(model, gpu, step, precision):
    found = pm.estimate(model, gpu, step, precision=precision)
    tokens = sum(group.count * group.new for group in step.groups)
    assert found.flops == sum(op.calls * op.flops for op in found.operations)
    assert close(found.bytes, math.fsum(op.calls * op.nbytes for op in found.operations))
    assert close(found.bytes, found.weight_traffic + found.kv_traffic + found.activation_traffic)
    assert close(found.time, math.fsum(row.time for row in found.rows()))
    assert close(found.memory_time, found.bytes / gpu.memory_bandwidth)
    assert close(found.compute_time, math.fsum(row.compute_time for row in found.rows()))
    assert close(found.tokens_per_second * found.time, tokens)
    assert close(found.intensity * found.bytes, found.flops)
    assert close(found.compute_utilization * found.time, found.compute_time)
    assert close(found.memory_utilization * found.time, found.memory_time)
    assert (found.bound == "compute") == (found.compute_time > found.memory_time)
    assert found.fits == (found.memory.needed <= gpu.capacity)


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps)
def test_everything_twice_as_fast_takes_half_the_time(model, gpu, step, precision, small):
    slow = pm.estimate(model, gpu, step, precision=precision, small_steps=small)
    fast = pm.estimate(model, faster(gpu, 2), step, precision=precision, small_steps=small)
    assert close(fast.time, slow.time / 2)
    assert close(fast.floor, slow.floor / 2)
    assert fast.bound == slow.bound


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions())
def test_a_faster_roof_helps_only_the_operations_that_it_binds(model, gpu, step, precision):
    found = pm.estimate(model, gpu, step, precision=precision)
    wider = gpu.model_copy(update={"memory_bandwidth": 2 * gpu.memory_bandwidth})
    stronger = faster(wider, 2).model_copy(update={"memory_bandwidth": gpu.memory_bandwidth})
    for chip, roof in ((wider, "memory"), (stronger, "compute")):
        other = pm.estimate(model, chip, step, precision=precision)
        assert at_most(other.time, found.time)
        assert at_most(found.time, 2 * other.time)
        reached = math.fsum(row.time for row in found.rows() if row.bound == roof)
        assert at_most(found.time, other.time + reached / 2)


# -- monotony --------------------------------------------------------------------------------------


@given(
    model=shapes(), gpu=gpus(), batch=batches, context=contexts, more=st.integers(1, 4096),
    precision=precisions(), efficiency=st.just(pm.Efficiency()) | efficiencies(),
)  # fmt: skip
def test_a_decode_step_never_gets_faster_as_batch_or_context_grow(
    model, gpu, batch, context, more, precision, efficiency
):
    how = {"precision": precision, "efficiency": efficiency}
    found = pm.decode(model, gpu, batch=batch, context=context, **how)
    bigger = pm.decode(model, gpu, batch=batch + more, context=context, **how)
    longer = pm.decode(model, gpu, batch=batch, context=context + more, **how)
    for other in (bigger, longer):
        assert at_most(found.time, other.time)
        assert at_most(found.floor, other.floor)
        assert at_most(found.bytes, other.bytes)
        assert found.flops <= other.flops
    assert bigger.flops > found.flops


@given(
    model=shapes(), gpu=gpus(), batch=batches, prompt=prompts, past=pasts,
    more=st.integers(1, 4096), precision=precisions(), logits=st.sampled_from(["last", "all"]),
)  # fmt: skip
def test_a_prefill_never_gets_faster_as_batch_prompt_or_past_grow(
    model, gpu, batch, prompt, past, more, precision, logits
):
    def time(**asked: int) -> pm.Estimate:
        return pm.prefill(model, gpu, precision=precision, logits=logits, **asked)

    found = time(prompt=prompt, batch=batch, past=past)
    bigger = time(prompt=prompt, batch=batch + more, past=past)
    longer = time(prompt=prompt + more, batch=batch, past=past)
    later = time(prompt=prompt, batch=batch, past=past + more)
    for other in (bigger, longer, later):
        assert at_most(found.time, other.time)
        assert at_most(found.floor, other.floor)
        assert at_most(found.bytes, other.bytes)
        assert found.flops <= other.flops
    assert bigger.flops > found.flops
    assert longer.flops > found.flops


@given(model=shapes(), gpu=gpus(), step=steps(), extra=groups(), precision=precisions())
def test_another_group_never_makes_a_step_faster_but_shares_its_weights(
    model, gpu, step, extra, precision
):
    alone = pm.estimate(model, gpu, step, precision=precision)
    apart = pm.estimate(model, gpu, pm.Step(groups=(extra,)), precision=precision)
    together = pm.estimate(model, gpu, pm.Step(groups=(*step.groups, extra)), precision=precision)
    assert at_most(alone.time, together.time)
    assert at_most(together.time, alone.time + apart.time)
    assert together.flops == alone.flops + apart.flops
    assert close(together.kv_traffic, alone.kv_traffic + apart.kv_traffic)
    assert close(together.weight_traffic, max(alone.weight_traffic, apart.weight_traffic))


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions())
def test_a_group_is_as_many_groups_of_one_sequence_each(model, gpu, step, precision):
    group = step.groups[0]
    whole = group.model_copy(update={"count": 3, "shared_past": 0})
    single = group.model_copy(update={"count": 1, "shared_past": 0})
    one = pm.estimate(model, gpu, pm.Step(groups=(whole,)), precision=precision)
    three = pm.estimate(model, gpu, pm.Step(groups=(single,) * 3), precision=precision)
    assert one.flops == three.flops
    assert close(one.bytes, three.bytes)
    assert close(one.time, three.time)
    assert close(one.memory.needed, three.memory.needed)


@given(
    model=shapes(), gpu=gpus(), batch=batches, more=st.integers(1, 4096), context=contexts,
    precision=precisions(), efficiency=st.just(pm.Efficiency()) | efficiencies(),
)  # fmt: skip
def test_a_larger_batch_never_decodes_fewer_tokens_a_second(
    model, gpu, batch, more, context, precision, efficiency
):
    how = {"context": context, "precision": precision, "efficiency": efficiency}
    found = pm.decode(model, gpu, batch=batch, **how)
    bigger = pm.decode(model, gpu, batch=batch + more, **how)
    assert at_most(found.tokens_per_second, bigger.tokens_per_second)


@given(model=models(), gpu=gpus(), step=steps(), precision=precisions())
def test_fewer_kv_heads_are_never_slower_or_larger(model, gpu, step, precision):
    found = pm.estimate(model, gpu, step, precision=precision)
    multi_query = pm.estimate(model.with_(kv_heads=1), gpu, step, precision=precision)
    assert at_most(multi_query.time, found.time)
    assert at_most(multi_query.floor, found.floor)
    assert multi_query.flops <= found.flops
    assert at_most(multi_query.memory.needed, found.memory.needed)


@given(model=full_attention_models(), gpu=gpus(), step=steps(), window=st.integers(1, 8192))
def test_a_window_is_never_slower_or_larger_and_a_wide_one_is_invisible(model, gpu, step, window):
    full = pm.estimate(model, gpu, step)
    clipped = pm.estimate(model.with_(window=window), gpu, step)
    wide = pm.estimate(model.with_(window=2 * MAX_CONTEXT), gpu, step)
    assert at_most(clipped.time, full.time)
    assert clipped.flops <= full.flops
    assert at_most(clipped.kv_traffic, full.kv_traffic)
    assert at_most(clipped.memory.needed, full.memory.needed)
    renamed = [op.model_copy(update={"name": "any"}) for op in wide.operations]
    assert renamed == [op.model_copy(update={"name": "any"}) for op in full.operations]
    assert wide.memory == full.memory


# -- bytes -----------------------------------------------------------------------------------------


@given(model=shapes(), step=steps(), precision=precisions(), small=small_steps)
def test_weight_traffic_does_not_depend_on_the_batch(model, step, precision, small):
    def traffic(groups: tuple[pm.Group, ...]) -> float:
        step = pm.Step(groups=groups)
        found = pm.estimate(model, CHIP, step, precision=precision, small_steps=small)
        return found.weight_traffic

    groups = tuple(group.model_copy(update={"logits": 1}) for group in step.groups)
    assert traffic(groups) == traffic((pm.Group(count=1, new=1),))


@given(model=shapes(), batch=batches, context=contexts, precision=precisions())
def test_a_decode_step_moves_the_cache_of_exactly_its_context(model, batch, context, precision):
    found = pm.decode(model, CHIP, batch=batch, context=context, precision=precision)
    assert close(found.kv_traffic, batch * model.cache_bytes(context, precision))
    assert close(found.memory.kv, found.kv_traffic)


@given(
    model=full_attention_models() | coarse_models(), batch=batches, context=contexts,
    precision=precisions(),
)  # fmt: skip
def test_with_full_attention_a_longer_context_moves_one_more_token_a_sequence(
    model, batch, context, precision
):
    found = pm.decode(model, CHIP, batch=batch, context=context, precision=precision)
    longer = pm.decode(model, CHIP, batch=batch, context=context + 1, precision=precision)
    token = batch * model.kv_bytes_per_token(precision, context=1)
    # A difference of two totals keeps their rounding, not its own.
    slack = 1e-12 * longer.bytes
    assert abs(longer.bytes - found.bytes - token) <= slack
    assert abs(longer.kv_traffic - found.kv_traffic - token) <= 1e-12 * longer.kv_traffic
    assert close(longer.kv_traffic / (context + 1), found.kv_traffic / context)


@given(model=models(), batch=batches, context=contexts, precision=precisions())
def test_past_every_window_a_longer_context_moves_nothing_more(model, batch, context, precision):
    keeps_all = None in windows(model)
    context = max(context, *(window or 1 for window in windows(model)))
    found = pm.decode(model, CHIP, batch=batch, context=context, precision=precision)
    longer = pm.decode(model, CHIP, batch=batch, context=context + 1, precision=precision)
    assert (longer.kv_traffic > found.kv_traffic) == keeps_all
    assert (longer.flops > found.flops) == keeps_all
    assert (model.kv_bytes_per_token(precision, context=context + 1) > 0) == keeps_all
    assert keeps_all or longer.bytes == found.bytes


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), share=st.floats(0, 1))
def test_a_shared_prefix_is_never_slower_or_larger_and_of_no_tokens_invisible(
    model, gpu, step, precision, share
):
    def with_shared(part: float) -> pm.Estimate:
        groups = tuple(
            pm.Group(**dict(group) | {"shared_past": int(part * group.past)})
            for group in step.groups
        )
        return pm.estimate(model, gpu, pm.Step(groups=groups), precision=precision)

    none, some, everything = with_shared(0), with_shared(share), with_shared(1)
    for less, more in ((everything, some), (some, none)):
        assert at_most(less.time, more.time)
        assert at_most(less.kv_traffic, more.kv_traffic)
        assert at_most(less.memory.needed, more.memory.needed)
        assert less.flops == more.flops
        assert less.activation_traffic == more.activation_traffic


@given(
    model=full_attention_models(), batch=batches, context=contexts, part=st.floats(0, 1),
    precision=precisions(),
)  # fmt: skip
def test_a_shared_prefix_is_read_once_and_held_once(model, batch, context, part, precision):
    shared = int(part * (context - 1))
    asked = {"batch": batch, "context": context, "precision": precision}
    found = pm.decode(model, CHIP, shared_past=shared, **asked)
    unshared = batch * model.cache_bytes(context - shared, precision)
    assert close(found.kv_traffic, unshared + model.cache_bytes(shared, precision))
    assert close(found.memory.kv, found.kv_traffic)
    assert pm.decode(model, CHIP, shared_past=0, **asked) == pm.decode(model, CHIP, **asked)
    held = pm.memory(model, CHIP, shared_past=shared, **asked)
    assert held.model_copy(update={"remedies": ()}) == found.memory


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps)
def test_weights_only_moves_exactly_the_weights(model, gpu, step, precision, small):
    whole = pm.estimate(model, gpu, step, precision=precision, small_steps=small)
    found = pm.estimate(model, gpu, step, precision=precision, small_steps=small, weights_only=True)
    assert found.bytes == found.weight_traffic == whole.weight_traffic
    assert found.kv_traffic == found.activation_traffic == 0
    assert found.flops == sum(op.calls * op.flops for op in matrices(whole))
    assert close(found.floor, max(found.compute_time, found.memory_time))
    assert at_most(found.time, whole.time)


@given(model=models(), precision=precisions())
def test_memory_holds_the_weights_that_are_read_and_what_no_matrix_reads(model, precision):
    found = pm.decode(model, CHIP, batch=1, context=1, precision=precision, weights_only=True)
    width, vocab = model.hidden, model.vocab
    unread = precision.rest.nbytes(vectors(model) + last_norm(model) * width)
    if model.embedding is not None:
        positions = model.embedding.positions or 0
        unread += precision.rest.nbytes(positions * width, positions)
        if model.head is None or not model.head.tied:
            unread += precision.rest.nbytes(vocab * width, vocab)
    assert close(model.weight_bytes(precision), found.bytes + unread)


@given(model=models().map(lambda model: model.with_(head=None)))
def test_scales_are_counted_one_a_row_or_one_a_block(model):
    def read(precision: str) -> float:
        return pm.decode(model, CHIP, batch=1, context=1, precision=precision).weight_traffic

    rows = weights = 0
    for repeats, layers in model.blocks:
        for layer in layers:
            if isinstance(layer, pm.Attention):
                query = layer.heads * layer.head_dim
                outputs, inner = query + 2 * layer.kv_heads * layer.head_dim, query
            else:
                outputs, inner = (1 + layer.gated) * layer.width, layer.width
            rows += repeats * (outputs + model.hidden)
            weights += repeats * (outputs + inner) * model.hidden
    assert read("int8") == read("fp8") == weights
    assert read("w8a16") == weights + 2 * rows
    assert close(read("w4a16"), weights * 4.125 / 8)
    assert close(read("nvfp4"), weights * 4.5 / 8)


@given(model=models(), step=steps(), precision=precisions())
def test_an_embedding_lookup_moves_only_the_rows_it_uses(model, step, precision):
    found = pm.estimate(model, CHIP, step, precision=precision)
    larger = pm.estimate(
        model.with_(vocab=model.vocab + 1, head=None), CHIP, step, precision=precision
    )
    lookups = [op for op in found.operations if op.kind == "embedding"]
    assert len(lookups) == (model.embedding is not None)
    assert lookups == [op for op in larger.operations if op.kind == "embedding"]
    assert all(op.flops == op.weight_bytes == op.kv_bytes == 0 for op in lookups)


# -- FLOPs -----------------------------------------------------------------------------------------


@given(
    model=shapes(), whole=st.integers(2, 20_000), past=st.just(0) | pasts, batch=batches,
    cuts=st.lists(st.floats(0, 1), min_size=1, max_size=6), small=small_steps,
)  # fmt: skip
def test_the_flops_of_the_chunks_of_a_prefill_sum_to_the_whole_exactly(
    model, whole, past, batch, cuts, small
):
    how = {"batch": batch, "small_steps": small}
    ends = [*sorted({round(cut * whole) for cut in cuts} - {0, whole}), whole]
    starts = [0, *ends[:-1]]
    chunks = [
        pm.prefill(
            model, CHIP, prompt=end - start, past=past + start,
            logits="last" if end == whole else "none", **how,
        ).flops
        for start, end in zip(starts, ends, strict=True)
    ]  # fmt: skip
    total = pm.prefill(model, CHIP, prompt=whole, past=past, **how).flops
    # The last norm runs on every token, its head only on the last: neither is counted twice.
    assert sum(chunks) == total
    assert all(type(flops) is int for flops in (*chunks, total))


@given(
    model=models(), prompt=st.integers(1, 200), past=st.integers(0, 300),
    window=st.integers(1, 400),
)  # fmt: skip
def test_attention_counts_every_pair_of_a_query_and_a_key_that_it_sees(model, prompt, past, window):
    found = pm.prefill(model.with_(window=window), CHIP, prompt=prompt, past=past)
    pairs = sum(min(past + query + 1, window) for query in range(prompt))
    each = [x for _, row in model.with_(window=window).blocks for x in row]
    layers = dict.fromkeys(x for x in each if isinstance(x, pm.Attention))
    attention = [op for op in found.operations if op.kind == "attention"]
    for op, layer in zip(attention, layers, strict=True):
        assert op.flops == 4 * layer.head_dim * layer.heads * pairs


@given(model=shapes(), step=steps(), precision=precisions(), small=small_steps)
def test_each_matrix_does_2_flops_a_weight_and_token_it_sees(model, step, precision, small):
    found = pm.estimate(model, CHIP, step, precision=precision, small_steps=small)
    tokens = sum(group.count * group.new for group in step.groups)
    positions = sum(group.count * group.logits for group in step.groups)
    for op in matrices(found):
        assert op.tokens == (positions if op.name == "head" else tokens)
        assert op.flops == 2 * op.weights * op.tokens
        assert op.weight_bytes > 0
    assert ("head" in {op.name for op in matrices(found)}) == (
        getattr(model, "head", None) is not None and positions > 0
    )


@given(model=models(), step=steps(), precision=precisions())
def test_matrix_weights_embeddings_biases_and_norms_are_the_parameters(model, step, precision):
    step = pm.Step(groups=(*step.groups, pm.Group(count=1, new=1)))
    found = pm.estimate(model, CHIP, step, precision=precision)
    total = sum(op.calls * op.weights for op in matrices(found))
    total += vectors(model) + last_norm(model) * model.hidden
    if model.embedding is not None:
        tied = model.head is not None and model.head.tied
        rows = (model.embedding.positions or 0) + (0 if tied else model.vocab)
        total += rows * model.hidden
    assert total == model.params == model.active_params


@given(model=coarse_models() | coarse_models(cache=False), step=steps(), precision=precisions())
def test_every_parameter_of_a_coarse_model_is_a_matrix_weight(model, step, precision):
    found = pm.estimate(model, CHIP, step, precision=precision)
    tokens = sum(group.count * group.new for group in step.groups)
    assert found.flops == 2 * tokens * model.params
    assert found.weight_traffic == model.weight_bytes(precision)
    assert found.activation_traffic == 0


@given(model=shapes(), step=steps(), small=small_steps)
def test_weight_only_formats_and_other_caches_never_change_flops(model, step, small):
    names = ("bf16", "w8a16", "w4a16", "bf16+kv8", "w4a16+kv8", "fp8", "nvfp4", "uniform-fp8")
    found = [
        pm.estimate(model, CHIP, step, precision=name, small_steps=small).flops for name in names
    ]
    assert set(found) == {found[0]}


@given(model=shapes(), gpu=gpus(), step=steps())
def test_weight_only_formats_are_never_slower_and_compute_at_the_rate_of_16_bits(model, gpu, step):
    wide, w8, w4 = (pm.estimate(model, gpu, step, precision=p) for p in ("bf16", "w8a16", "w4a16"))
    assert at_most(w4.weight_traffic, w8.weight_traffic)
    assert at_most(w8.weight_traffic, wide.weight_traffic)
    assert at_most(w4.time, w8.time)
    assert at_most(w8.time, wide.time)
    assert wide.compute_time == w8.compute_time == w4.compute_time


# -- precision and the ridge -----------------------------------------------------------------------


@given(model=models() | coarse_models(cache=False), gpu=gpus(), step=steps(), small=small_steps)
def test_uniform_fp8_halves_the_time_where_its_peak_doubles(model, gpu, step, small):
    wide = pm.estimate(model, gpu, step, precision="uniform-bf16", small_steps=small)
    narrow = pm.estimate(model, gpu, step, precision="uniform-fp8", small_steps=small)
    assert close(narrow.time, wide.time / 2)
    assert close(narrow.floor, wide.floor / 2)
    assert close(narrow.bytes, wide.bytes / 2)
    assert narrow.flops == wide.flops
    assert close(narrow.intensity, 2 * wide.intensity)


@given(model=models() | coarse_models(), gpu=gpus())
def test_uniform_fp8_keeps_the_ridge_in_tokens_and_doubles_it_in_flops_a_byte(model, gpu):
    wide, narrow = pm.Precision.uniform("bf16"), pm.Precision.uniform("fp8")
    ridge = pm.ridge_batch(model, gpu, precision=wide)
    assert close(pm.ridge_batch(model, gpu, precision=narrow), ridge)
    assert close(ridge, gpu.peak("bf16") / gpu.memory_bandwidth)
    assert close(
        pm.ridge_intensity(gpu, precision=narrow), 2 * pm.ridge_intensity(gpu, precision=wide)
    )


@given(model=shapes(), gpu=gpus(), precision=precisions())
def test_the_ridge_batch_is_where_weights_alone_turn_compute_bound(model, gpu, precision):
    ridge = pm.ridge_batch(model, gpu, precision=precision)

    def at(batch: int) -> pm.Estimate:
        asked = {"precision": precision, "weights_only": True}
        return pm.decode(model, gpu, batch=batch, context=1, **asked)

    # Arithmetic grows with the batch, weights do not: the ridge is their ratio at one token.
    assert close(ridge, at(1).memory_time / at(1).compute_time)
    below, above = math.floor(ridge * (1 - 1e-9)), math.ceil(ridge * (1 + 1e-9))
    assert at(above).bound == "compute"
    assert below < 1 or at(below).bound == "memory"


# -- efficiency ------------------------------------------------------------------------------------


@given(
    model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps,
    efficiency=efficiencies(),
)  # fmt: skip
def test_no_efficiency_makes_anything_faster_and_no_operation_beats_its_roof(
    model, gpu, step, precision, small, efficiency
):
    how = {"precision": precision, "small_steps": small}
    ideal = pm.estimate(model, gpu, step, **how)
    real = pm.estimate(model, gpu, step, efficiency=efficiency, **how)
    assert at_most(ideal.time, real.time)
    assert real.floor == ideal.floor
    assert (real.compute_time, real.memory_time) == (ideal.compute_time, ideal.memory_time)
    for row in real.rows():
        assert at_most(max(row.compute_time, row.memory_time), row.time)
    rows = math.fsum(row.time for row in real.rows())
    assert close(real.time, rows + efficiency.step_overhead)


@given(
    model=shapes(), gpu=gpus(), step=steps(), efficiency=efficiencies(),
    share=st.floats(0.1, 0.999), overhead=decades(1e-9, 1), exponent=st.floats(1, 64),
)  # fmt: skip
def test_each_part_of_an_efficiency_only_ever_adds_time(
    model, gpu, step, efficiency, share, overhead, exponent
):
    found = pm.estimate(model, gpu, step, efficiency=efficiency)
    calls = sum(op.calls for op in found.operations)

    def with_(**changes: float) -> float:
        worse = pm.Efficiency(**dict(efficiency) | changes)
        return pm.estimate(model, gpu, step, efficiency=worse).time

    assert at_most(found.time, with_(compute=efficiency.compute * share))
    assert at_most(found.time, with_(memory=efficiency.memory * share))
    a_call = with_(call_overhead=efficiency.call_overhead + overhead)
    assert close(a_call, found.time + calls * overhead)
    assert close(with_(step_overhead=efficiency.step_overhead + overhead), found.time + overhead)
    assert at_most(found.time, with_(exponent=min(exponent, efficiency.exponent)))


@given(model=shapes(), gpu=gpus(), step=steps(), part=st.floats(0.05, 1))
def test_equal_shares_of_both_roofs_scale_the_time(model, gpu, step, part):
    ideal = pm.estimate(model, gpu, step)
    real = pm.estimate(model, gpu, step, efficiency=pm.Efficiency(compute=part, memory=part))
    summed = pm.estimate(model, gpu, step, efficiency=pm.Efficiency(exponent=1))
    assert close(real.time, ideal.time / part)
    assert close(summed.time, ideal.compute_time + ideal.memory_time)


@given(model=shapes(), gpu=gpus(), step=steps(), precision=precisions())
def test_separate_small_steps_are_never_faster_and_leave_the_matrices_alone(
    model, gpu, step, precision
):
    fused = pm.estimate(model, gpu, step, precision=precision)
    apart = pm.estimate(model, gpu, step, precision=precision, small_steps="separate")
    small = [op for op in apart.operations if op.kind == "small"]
    assert at_most(fused.time, apart.time)
    assert tuple(op for op in apart.operations if op.kind != "small") == fused.operations
    assert apart.floor == fused.floor
    assert all(op.weight_bytes == op.kv_bytes == op.weights == 0 for op in small)
    assert all(op.nbytes > 0 and op.flops > 0 for op in small)
    expected = sum(n * len(row) for n, row in model.blocks if model.hidden is not None)
    assert sum(op.calls * (op.name == "residual") for op in small) == expected


# -- memory ----------------------------------------------------------------------------------------


@given(model=shapes(), batch=batches, context=contexts, precision=precisions())
def test_memory_needed_grows_with_batch_and_context(model, batch, context, precision):
    def held(batch: int, context: int) -> pm.DeviceMemory:
        return pm.memory(model, CHIP, batch=batch, context=context, precision=precision)

    found, bigger, longer = held(batch, context), held(batch + 1, context), held(batch, context + 1)
    assert found.kv < bigger.kv
    assert found.kv <= longer.kv
    assert found.weights == bigger.weights == longer.weights == model.weight_bytes(precision)
    assert close(found.kv, batch * model.cache_bytes(context, precision))
    assert found.needed == found.weights + found.kv + found.state
    assert found.needed <= bigger.needed
    assert found.needed <= longer.needed
    assert found.fits == (found.free >= 0)
    grows = any(window is None or context < window for window in windows(model))
    assert (found.kv < longer.kv) == grows


@given(model=shapes(), gpu=gpus(), context=contexts, precision=precisions(), room=decades(0.1, 1e6))
def test_the_largest_batch_fits_and_one_more_sequence_does_not(
    model, gpu, context, precision, room
):
    one = model.cache_bytes(context, precision)
    gpu = with_capacity(gpu, model.weight_bytes(precision) + room * one)

    def fits(batch: int) -> bool:
        found = pm.memory(model, gpu, batch=batch, context=context, precision=precision)
        return found.fits

    if not fits(1):
        with pytest.raises(pm.errors.DoesNotFitError):
            pm.max_batch(model, gpu, context=context, precision=precision)
        return
    most = pm.max_batch(model, gpu, context=context, precision=precision)
    assert fits(most)
    assert not fits(most + 1)
    # Memory that is filled to the last byte still holds it.
    needed = pm.memory(model, gpu, batch=most, context=context, precision=precision).needed
    full = with_capacity(gpu, needed)
    assert pm.max_batch(model, full, context=context, precision=precision) == most
    assert pm.memory(model, full, batch=most, context=context, precision=precision).free == 0


@given(model=shapes(), gpu=gpus(), batch=batches, precision=precisions(), room=decades(0.1, 1e6))
def test_the_longest_context_fits_and_one_more_token_does_not(model, gpu, batch, precision, room):
    one = batch * model.cache_bytes(1, precision)
    gpu = with_capacity(gpu, model.weight_bytes(precision) + room * one)

    def fits(context: int) -> bool:
        found = pm.memory(model, gpu, batch=batch, context=context, precision=precision)
        return found.fits

    if not fits(1):
        with pytest.raises(pm.errors.DoesNotFitError):
            pm.max_context(model, gpu, batch=batch, precision=precision)
        return
    try:
        most = pm.max_context(model, gpu, batch=batch, precision=precision)
    except pm.errors.UnboundedError:
        assert None not in windows(model)
        assert fits(max(windows(model)))
        return
    assert fits(most)
    assert most == model.position_limit or not fits(most + 1)


@given(model=shapes(), batch=batches, precision=precisions())
def test_kv_growth_overtakes_at_the_first_context_whose_cache_exceeds_the_weights(
    model, batch, precision
):
    how = {"batch": batch, "precision": precision}
    overtakes = pm.kv_growth(model, contexts=[1], **how).overtakes
    if overtakes is None:
        assert batch * model.cache_bytes(
            model.position_limit or 10**15, precision
        ) <= model.weight_bytes(precision)
        return
    before, there = max(overtakes - 1, 1), overtakes
    growth = pm.kv_growth(model, contexts=[before, there], **how)
    assert growth.weights == model.weight_bytes(precision)
    assert growth.kv[1] > growth.weights
    assert before == there or growth.kv[0] <= growth.weights
    assert growth.kv[1] == pm.memory(model, CHIP, context=there, **how).kv


# -- generation ------------------------------------------------------------------------------------


@given(
    model=shapes(), gpu=gpus(), batch=batches, prompt=prompts, output=st.integers(1, 40),
    precision=precisions(), efficiency=st.just(pm.Efficiency()) | efficiencies(),
    small=small_steps,
)  # fmt: skip
def test_a_generation_is_a_prefill_and_the_sum_of_its_decode_steps(
    model, gpu, batch, prompt, output, precision, efficiency, small
):
    how = {
        "batch": batch, "precision": precision, "efficiency": efficiency, "small_steps": small,
    }  # fmt: skip
    found = pm.generate(model, gpu, prompt=prompt, output=output, **how)
    steps = [
        pm.decode(model, gpu, context=context, **how)
        for context in range(prompt + 1, prompt + output)
    ]
    prefill = pm.prefill(model, gpu, prompt=prompt, **how)
    assert found.prefill == prefill
    assert found.last_step == (steps[-1] if steps else None)
    assert close(found.decode_time, math.fsum(step.time for step in steps))
    assert found.ttft == prefill.time
    assert close(found.total, math.fsum([prefill.time, *(step.time for step in steps)]))
    assert found.fits == (steps[-1] if steps else prefill).fits
    if output > 1:
        assert close(found.tpot * (output - 1), found.decode_time)
        assert at_most(steps[0].time, found.tpot)
        assert at_most(found.tpot, steps[-1].time)
    else:
        assert found.tpot is None


@given(model=coarse_models(cache=False), gpu=gpus(), prompt=prompts, output=st.integers(2, 10**6))
def test_without_a_cache_every_decode_step_takes_as_long(model, gpu, prompt, output):
    found = pm.generate(model, gpu, prompt=prompt, output=output)
    assert close(found.decode_time, (output - 1) * pm.decode(model, gpu, batch=1).time)


# -- objects ---------------------------------------------------------------------------------------


def rebuilt(spec: Spec) -> Spec:
    """The same object through the constructor that validates, its parts as well."""

    def again(value: object) -> object:
        if isinstance(value, Spec):
            return rebuilt(value)
        return tuple(map(again, value)) if isinstance(value, tuple) else value

    return type(spec)(**{key: again(getattr(spec, key)) for key in type(spec).model_fields})


@given(
    model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps,
    efficiency=st.just(pm.Efficiency()) | efficiencies(), only=st.booleans(),
)  # fmt: skip
def test_what_was_trusted_equals_what_is_validated(
    model, gpu, step, precision, small, efficiency, only
):
    found = pm.estimate(
        model, gpu, step, precision=precision, efficiency=efficiency, small_steps=small,
        weights_only=only,
    )  # fmt: skip
    for spec in (*found.operations, *found.step.groups, found.step, found.memory, found):
        again = rebuilt(spec)
        assert again == spec
        assert hash(again) == hash(spec)
    assert rebuilt(found).time == found.time


@given(
    model=shapes(), gpu=gpus(), batch=batches, context=contexts, precision=precisions(),
    part=st.floats(0, 1),
)  # fmt: skip
def test_what_decode_trusts_equals_what_is_validated(model, gpu, batch, context, precision, part):
    shared = int(part * (context - 1))
    found = pm.decode(
        model, gpu, batch=batch, context=context, shared_past=shared, precision=precision
    )
    asked = pm.Group(count=batch, new=1, past=context - 1, shared_past=shared)
    assert found.step == pm.Step(groups=(asked,))
    assert found.operations == pm.estimate(model, gpu, found.step, precision=precision).operations
    assert rebuilt(found) == found


@given(
    model=shapes(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps,
    efficiency=st.just(pm.Efficiency()) | efficiencies(), batch=batches, context=contexts,
    prompt=prompts, output=st.integers(1, 5),
)  # fmt: skip
def test_json_comes_back_as_an_equal_object(
    model, gpu, step, precision, small, efficiency, batch, context, prompt, output
):
    how = {"precision": precision, "efficiency": efficiency, "small_steps": small}
    found = pm.estimate(model, gpu, step, **how)
    for spec in (
        model, gpu, precision, efficiency, step, found, found.memory,
        pm.memory(model, gpu, batch=batch, context=context, precision=precision),
        pm.decode(model, gpu, batch=batch, context=context, **how),
        pm.prefill(model, gpu, prompt=prompt, batch=batch, **how),
        pm.generate(model, gpu, prompt=prompt, output=output, batch=batch, **how),
        pm.kv_growth(model, contexts=[context, prompt], precision=precision),
    ):  # fmt: skip
        again = type(spec).model_validate_json(spec.model_dump_json())
        assert again == spec
        assert again.model_dump_json() == spec.model_dump_json()
        assert type(spec).model_validate(spec.model_dump()) == spec


@given(
    model=shapes(), gpu=gpus(), other=gpus(), step=steps(), efficiency=efficiencies(),
    precision=precisions(),
)  # fmt: skip
def test_a_copy_with_a_changed_part_is_computed_anew(
    model, gpu, other, step, efficiency, precision
):
    found = pm.estimate(model, gpu, step, precision=precision)
    moved = found.model_copy(update={"gpu": other})
    asked = pm.estimate(model, other, step, precision=precision)
    assert moved == asked
    assert moved.time == asked.time
    assert moved.memory == asked.memory
    slowed = found.model_copy(update={"efficiency": efficiency})
    assert (
        slowed.time
        == pm.estimate(model, gpu, step, precision=precision, efficiency=efficiency).time
    )


@given(model=models(), width=st.integers(1, 512))
def test_a_copied_shape_is_counted_anew(model, width):
    assume(32 * width != model.hidden)
    assert model.params == model.model_copy().params
    copied = model.model_copy(update={"hidden": 32 * width})
    assert copied.params == model.with_(hidden=32 * width).params != model.params


@given(precision=named_precisions, kv=st.sampled_from(["bf16", "fp8", "int8", "fp16", "nvfp4"]))
def test_the_name_of_a_precision_says_it_all(precision, kv):
    assert pm.Precision.parse(precision.name) == precision
    preset = precision.name.partition("+")[0]
    if not preset.startswith("uniform-"):
        changed = pm.Precision.preset(preset, kv=kv)
        assert pm.Precision.parse(changed.name) == changed
        assert changed.kv.name == kv
