"""Do the parts that devices hold make up the whole, and what do they send each other?

The tables say of every kind of layer what devices hold whole. Expected values elsewhere are hand
arithmetic, or figures that engines and papers print.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    KINDS,
    at_most,
    batches,
    close,
    contexts,
    gpus,
    groups,
    hiddens,
    layers_of,
    models,
    precisions,
    steps,
)

import perfmodel as pm
from perfmodel import Parallelism
from perfmodel.base.precision import Precision
from perfmodel.work.collective import Collective
from perfmodel.work.layers import (
    Attention,
    ChannelMix,
    CompressedAttention,
    ConvolutionalAttention,
    CrossAttention,
    FeedForward,
    GatedDeltaNet,
    ImageExperts,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MatrixMemory,
    MixtureOfExperts,
    MixtureOfHeads,
    NetworkRoutedExperts,
    NGramEmbedding,
    PerLayerInput,
    RelativeAttention,
    RgLru,
    ShortConvolution,
    TimeMix,
    Totals,
)
from perfmodel.work.layers.layer import Layer, norm_params
from perfmodel.work.parallel import AllReduce
from perfmodel.work.shard import collectives, shard

BF16 = Precision.parse("bf16")
ALONE = Parallelism()
SILENT = {"communication": "ignored"}

# -- what each kind of layer divides ---------------------------------------------------------------

INDEXER = {"indexer query", "indexer key", "indexer weights"}
ROUTERS = {"router", "router_in", "router_first", "router_second"}
# Kinds that divide, with the matrices that every device holds whole; of all others, all of them.
WHOLE: dict[type[Layer], set[str]] = {
    Attention: INDEXER,
    ChannelMix: {"receptance"},  # it gates the sum
    CompressedAttention: {
        "query_down", "key", "compress", "indexer query", "indexer compress", "indexer weights",
    },
    ConvolutionalAttention: set(),
    CrossAttention: set(),
    FeedForward: set(),
    GatedDeltaNet: set(),
    ImageExperts: {*ROUTERS, "shared_gate", "latent_in", "latent_out"},
    KimiDeltaAttention: {"decay_down", "gate_down"},
    LatentAttention: {"query_down", "latent", *INDEXER},
    LightningAttention: set(),
    Mamba: set(),
    Mamba2: set(),
    MatrixMemory: set(),
    MixtureOfExperts: {*ROUTERS, "shared_gate", "latent_in", "latent_out"},
    MixtureOfHeads: {"router"},
    NetworkRoutedExperts: {*ROUTERS, "shared_gate", "latent_in", "latent_out"},
    RelativeAttention: {"profiles"},
    RgLru: set(),
    ShortConvolution: set(),
    TimeMix: set(),
}  # fmt: skip
TABLES = (NGramEmbedding, PerLayerInput)  # of which rows divide, and nothing else
UNDIVIDED = [kind for kind in KINDS if kind not in WHOLE and kind not in TABLES]
# Operations that every device runs, beside products with matrices held whole; an RWKV layer mixes
# the whole of two tokens too. Profiles are held whole, but a device's heads alone go through them.
RUN_BY_ALL = {"indexer"}


def _head_norms(layer: Attention) -> int:
    if layer.qk_norm != "head":
        return 0
    return (1 if layer.shares_kv else 2) * layer.head_dim * (2 if layer.qk_shift else 1)


def _of_attention(layer: Attention, hidden: int) -> int:
    indexer = 0 if layer.indexer is None else layer.indexer.vectors()
    return layer.output_bias * hidden + indexer + _head_norms(layer)


def _of_experts(layer: MixtureOfExperts, hidden: int) -> int:
    """Of biases, the router's, and those of results, which every device of a group adds."""
    router = layer.router_bias * layer.choices
    shared = hidden if layer.shared_width and layer.shared_bias else 0
    result = hidden if layer.latent is None else layer.latent
    return router + shared + layer.bias * layer.experts * result


# Biases and inner norms that are held whole: those of results, and norms head by head.
VECTORS: dict[type[Layer], Callable[[Any, int], int]] = {
    Attention: _of_attention,
    ChannelMix: lambda x, hidden: 2 * hidden,
    CompressedAttention: lambda x, hidden: x.vectors(hidden),
    ConvolutionalAttention: _of_attention,
    CrossAttention: lambda x, hidden: x.vectors(hidden),
    FeedForward: lambda x, hidden: x.bias * hidden,
    GatedDeltaNet: lambda x, hidden: x.value_dim,
    ImageExperts: _of_experts,
    KimiDeltaAttention: lambda x, hidden: x.head_dim,
    LatentAttention: lambda x, hidden: x.vectors(hidden),
    LightningAttention: lambda x, hidden: 0,
    Mamba: lambda x, hidden: x.bias * hidden + x.inner_norms * (x.dt_rank + 2 * x.state),
    Mamba2: lambda x, hidden: x.output_bias * hidden,
    MatrixMemory: lambda x, hidden: x.bias * hidden,
    MixtureOfExperts: _of_experts,
    MixtureOfHeads: lambda x, hidden: x.output_bias * hidden,
    NetworkRoutedExperts: lambda x, hidden: (
        _of_experts(x, hidden) + (5 if x.carries_router else 4) * x.router_rank
    ),
    RelativeAttention: _of_attention,
    RgLru: lambda x, hidden: hidden,
    ShortConvolution: lambda x, hidden: x.bias * hidden,
    TimeMix: lambda x, hidden: 3 * hidden,
}


def divisible(layer: Layer, devices: int) -> Layer:
    """The layer with as many times the heads, widths and groups: all of them divide."""
    sizes = {*(layer.DIVIDED or ()), *layer.REPEATED}
    if isinstance(layer, MixtureOfExperts):
        sizes.add("width")
    return layer.model_copy(update={name: devices * getattr(layer, name) for name in sizes})


@st.composite
def divided(draw: st.DrawFn, kinds: list[type[Layer]] | None = None) -> tuple[Layer, Layer, int]:
    """A layer, what each of some devices holds of it, and how many they are."""
    kind = draw(st.sampled_from(list(WHOLE) if kinds is None else kinds))
    given: dict[str, Any] = {"masks_keys": False} if issubclass(kind, Attention) else {}
    if kind is ConvolutionalAttention:
        given["value_dim"] = 64  # half of which lags: an odd width is rounded
        given["keys_as_values"] = False
    devices = draw(st.sampled_from([2, 3, 4, 8]))
    whole = divisible(draw(layers_of(kind, **given)), devices)
    return whole, whole.share(Parallelism(tensor=devices)), devices


def weights_of(layer: Layer, hidden: int) -> dict[str, int]:
    return {m.name: m.copies * m.inner * m.outer for m in layer.matrices(hidden)}


def held_whole(layer: Layer, hidden: int) -> int:
    """Parameters of a layer that every device holds."""
    found = weights_of(layer, hidden)
    matrices = sum(found[name] for name in found.keys() & WHOLE[type(layer)])
    around = norm_params(layer.norm, layer.read_width(hidden)) + norm_params(
        layer.post_norm, hidden
    )
    return matrices + VECTORS[type(layer)](layer, hidden) + around + layer.scalars


def test_the_tables_name_every_kind():
    assert set(WHOLE) == set(VECTORS)
    assert {*WHOLE, *TABLES, *UNDIVIDED} == set(KINDS)
    assert [kind.__name__ for kind in UNDIVIDED] == [
        "AltUp", "DepthAttention", "GatedNorm", "GatedResidual", "HyperConnection", "MessageGate",
        "MtpEntry", "Projection", "ResidualConvolution", "StreamEnd", "Totals",
    ]  # fmt: skip


@given(parts=divided(), hidden=hiddens)
def test_each_matrix_is_held_whole_or_in_equal_parts(parts, hidden):
    whole, part, devices = parts
    all_of_it, own = weights_of(whole, hidden), weights_of(part, hidden)
    assert list(all_of_it) == list(own)
    for name, weights in all_of_it.items():
        times = 1 if name in WHOLE[type(whole)] else devices
        assert own[name] * times == weights, name


@given(parts=divided(), hidden=hiddens)
def test_parameters_add_up_but_for_what_is_held_whole(parts, hidden):
    whole, part, devices = parts
    assert part.reused == whole.reused
    if whole.reused:
        assert part.params(hidden) == 0
        return
    again = (devices - 1) * held_whole(whole, hidden)
    assert devices * part.params(hidden) == whole.params(hidden) + again
    for precision in ("bf16", "uniform-fp8"):
        stored = Precision.parse(precision)
        one, summed = whole.weight_bytes(hidden, stored), part.weight_bytes(hidden, stored)
        assert close(devices * summed, one + again * (2 if precision == "bf16" else 1))


@given(parts=divided(), hidden=hiddens, step=steps())
def test_flops_add_up_but_for_what_all_devices_run(parts, hidden, step):
    whole, part, devices = parts
    every = list(whole.operations(hidden, step, BF16, 1))
    own = list(part.operations(hidden, step, BF16, 1))
    assert [op.name for op in every] == [op.name for op in own]
    for op, mine in zip(every, own, strict=True):
        by_all = op.name in (WHOLE[type(whole)] | RUN_BY_ALL) - {"profiles"}
        by_all |= op.name == "convolution" and isinstance(whole, ChannelMix | TimeMix)
        assert close(mine.flops * (1 if by_all else devices), op.flops), op.name
        for name in ("weight_bytes", "least_weight_bytes", "activation_bytes", "kv_bytes"):
            assert at_most(getattr(op, name), devices * getattr(mine, name)), (op.name, name)
            assert at_most(getattr(mine, name), getattr(op, name)), (op.name, name)


CACHED_BY_ALL = (CompressedAttention, LatentAttention)  # one key for all heads


@given(parts=divided(), group=groups())
def test_caches_and_states_add_up_but_for_latents_and_last_tokens(parts, group):
    whole, part, devices = parts
    kv = BF16.kv
    indexed = getattr(whole, "indexer", None)
    own, all_of_it = part.cache_bytes(group, kv), whole.cache_bytes(group, kv)
    if isinstance(whole, CACHED_BY_ALL):
        assert own == all_of_it
    else:
        keys = 0 if indexed is None else 2 * indexed.cached * whole.reach.held(group)
        assert close(devices * (own - keys), all_of_it - keys)
    state, own_state = whole.state_bytes(BF16), part.state_bytes(BF16)
    if isinstance(whole, CompressedAttention):
        assert own_state == state
    elif isinstance(whole, ChannelMix | TimeMix):
        last_token = 2 * whole.shifted * whole.conv_state
        assert close(devices * (own_state - last_token), state - last_token)
    else:
        assert close(devices * own_state, state)


@given(parts=divided([kind for kind in UNDIVIDED if kind is not Totals]), hidden=hiddens)
def test_mixers_entries_and_adapters_are_held_whole(parts, hidden):
    whole, part, devices = parts
    assert part == whole
    ways = Parallelism(tensor=devices)
    assert not list(part.collectives(hidden, 7, BF16, 1, ways))


@pytest.mark.parametrize("kind", TABLES)
@given(data=st.data(), hidden=hiddens, devices=st.integers(2, 9))
def test_tables_divide_by_rows_the_last_device_may_hold_fewer(kind, data, hidden, devices):
    whole = data.draw(layers_of(kind))
    ways = Parallelism(tensor=devices)
    part = whole.share(ways)
    assert (part.rows - 1) * devices < whole.rows <= part.rows * devices
    assert weights_of(part, hidden) == weights_of(whole, hidden)
    (found,) = part.collectives(hidden, 5, BF16, 3, ways)
    width = whole.width
    assert (found.kind, found.nbytes, found.least_nbytes, found.calls) == (
        "all-reduce", 5 * 2 * width, 0, 3,
    )  # fmt: skip


@given(parts=divided(), hidden=hiddens, tokens=st.integers(1, 4096))
def test_a_divided_layer_sums_its_result_once(parts, hidden, tokens):
    _, part, devices = parts
    found = list(part.collectives(hidden, tokens, BF16, 5, Parallelism(tensor=devices)))
    if isinstance(part, CrossAttention | ImageExperts):  # not run for a text
        assert not found
        return
    (last,) = found
    assert (last.kind, last.group, last.calls) == ("all-reduce", devices, 5)
    assert last.nbytes == last.least_nbytes == 2 * tokens * hidden


@given(layer=st.sampled_from([k for k in KINDS if k is not Totals]).flatmap(layers_of))
def test_one_device_holds_the_layer_itself(layer):
    assert layer.share(ALONE) == layer
    assert not list(layer.collectives(64, 1, BF16, 1, ALONE))


@given(parts=divided())
def test_what_marks_a_layer_survives(parts):
    whole, part, _ = parts
    for name in ("reused", "variant", "norm", "post_norm", "scalars", "shares_kv", "window"):
        assert getattr(part, name, None) == getattr(whole, name, None)


# -- sizes that are held again ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "heads", "kv_heads"),
    [(2, 32, 4), (8, 8, 1), (16, 4, 1), (64, 1, 1)],
)
def test_kv_heads_divide_then_repeat(tensor, heads, kv_heads):
    whole = Attention(heads=64, kv_heads=8, head_dim=128)
    part = whole.share(Parallelism(tensor=tensor))
    assert (part.heads, part.kv_heads) == (heads, kv_heads)


def test_groups_of_mamba2_repeat():
    whole = Mamba2(heads=128, head_dim=64, groups=8, state=128)
    part = whole.share(Parallelism(tensor=16))
    assert (part.heads, part.groups) == (8, 1)
    # z, x of 8 heads of 64; B and C of one group of 128; 8 time steps.
    assert weights_of(part, 4096)["in"] == 4096 * (2 * 512 + 2 * 128 + 8)


def test_devices_that_share_a_mamba_group_add_up_its_selection():
    whole = Mamba(inner=8192, state=16, dt_rank=256)
    part = whole.share(Parallelism(tensor=8))
    assert (part.inner, part.groups, part.spread) == (1024, 1, 8)
    inner, result = part.collectives(4096, 3, BF16, 64, Parallelism(tensor=8))
    assert (inner.nbytes, inner.group, inner.calls) == (3 * (256 + 32) * 2, 8, 64)
    assert result.nbytes == 3 * 4096 * 2
    two_groups = Mamba(inner=8192, state=16, dt_rank=256, groups=2)
    apart, shared = (two_groups.share(Parallelism(tensor=t)) for t in (2, 8))
    assert (apart.groups, apart.spread, shared.groups, shared.spread) == (1, 1, 1, 4)
    assert len(list(apart.collectives(4096, 3, BF16, 1, Parallelism(tensor=2)))) == 1
    assert next(iter(shared.collectives(4096, 3, BF16, 1, Parallelism(tensor=8)))).group == 4


# -- experts ---------------------------------------------------------------------------------------


@given(
    whole=layers_of(MixtureOfExperts),
    spread=st.integers(1, 64),
    tokens=st.integers(1, 4096),
    data=st.data(),
)
def test_experts_over_replicas_hold_and_touch_the_whole(whole, spread, tokens, data):
    spread = min(spread, whole.experts)
    part = whole.share(Parallelism(data=spread, expert=spread))
    held = {m.name: m.copies for m in part.matrices(64)}["experts_up"]
    assert whole.experts <= held * spread < whole.experts + spread
    every, own = whole.touched(tokens * spread), part.touched(tokens)
    assert at_most(every.expected, own.expected * spread)
    if whole.experts % spread == 0 and whole.top_k >= spread and not whole.zero_experts:
        assert close(own.expected * spread, every.expected)
    # The busiest device meets its share of what a single token chooses, rounded up.
    assert own.least == -(-every.least // spread)
    assert own.least <= own.expected * (1 + 1e-12)
    assert own.most <= held


def test_the_fewest_experts_of_a_device_are_rounded_up():
    """256 experts, 8 a token: on 32 devices the busiest reads 1, on 3 devices 3, on one 8."""
    whole = MixtureOfExperts(experts=256, top_k=8, width=2048)
    for spread, least, held in ((1, 8, 256), (3, 3, 86), (32, 1, 8), (256, 1, 1)):
        part = whole.share(Parallelism(data=spread, expert=spread))
        assert part.touched(1).least == least
        assert {m.name: m.copies for m in part.matrices(64)}["experts_up"] == held


def test_experts_divide_within_the_tensor_group_then_their_width():
    whole = MixtureOfExperts(experts=8, top_k=2, width=14336)
    for expert, copies, width in ((1, 8, 1792), (2, 4, 3584), (4, 2, 7168), (8, 1, 14336)):
        part = whole.share(Parallelism(tensor=8, expert=expert))
        down = part.matrices(4096)[-1]
        assert (down.copies, down.inner) == (copies, width)


@pytest.mark.parametrize(
    ("data", "expert", "batch", "rows"),
    [
        (8, 8, 1, 25),  # 100 tokens go to two experts each, one expert a device: 200 / 8
        (8, 8, 8, 200),
        (8, 8, 9, 225),  # 1,800 / 8, though the busiest replica has two sequences
        (4, 2, 1, 100),  # of two groups one has nothing to do, the other 200 / 2
        (4, 2, 4, 200),  # each group has two sequences: 400 / 2
    ],
)
def test_experts_see_the_tokens_that_there_are(data, expert, batch, rows):
    """A replica without a sequence sends none: experts work on what the others send."""
    experts = MixtureOfExperts(experts=8, top_k=2, width=64)
    block = (Attention(heads=8, kv_heads=8, head_dim=16), experts)
    model = pm.ModelShape(hidden=128, blocks=((1, block),))
    ways = Parallelism(data=data, expert=expert)
    step = pm.prefill(model, linked(H100), prompt=100, batch=batch, parallelism=ways)
    up, down = (op for op in step.operations if op.kind == "experts")
    assert close(up.flops, 2 * 128 * (2 * 64) * rows)
    assert close(down.flops, 2 * 64 * 128 * rows)
    qkv = step.operations[0]
    assert qkv.flops == 2 * 128 * (3 * 128) * 100 * -(-batch // data)


@pytest.mark.parametrize(("per_node", "part"), [(8, 8), (6, 5), (4, 4), (5, 4), (12, 8)])
def test_the_emptiest_node_sends_all_of_a_sum(per_node, part):
    """Of 16 devices in nodes of 6 one node has at most 5: these send the sum, a fifth each."""
    cluster = pm.Cluster(gpu=linked(H100), per_node=per_node, nodes=4, link=pm.Link(bandwidth=1e9))
    ways = Parallelism(tensor=16)
    step = pm.decode(LLAMA_70B, cluster, batch=64, context=1, parallelism=ways)
    (found,) = (row for row in step.exchanges() if row.collective.name == "attention sum")
    assert close(found.least_time, 80 * 64 * 8192 * 2 / part / 1e9)
    assert found.least_time <= found.time


def test_tokens_go_to_experts_across_replicas():
    """DeepSeek-V3's decode: 8 experts a token, fp8 out, bf16 back, 7,168 numbers a copy."""
    model = pm.model("deepseek-v3")
    ways = Parallelism(data=32, expert=32)
    (part,) = shard(model, ways)
    step = pm.Step(groups=(pm.Group(count=64, new=1, past=4095),))
    out, back = collectives(part, step, Precision.parse("fp8"), ways, sends=False)
    assert (out.kind, out.group, out.calls) == ("all-to-all", 32, 58)
    assert out.nbytes == 64 * 8 * 7168 * 1
    assert back.nbytes == 64 * 8 * 7168 * 2
    # Devices of a tensor group hold the same tokens, and send a part of them each.
    grouped = Parallelism(tensor=4, data=8, expert=32)
    (part,) = shard(model, grouped)
    found = {c.name: c for c in collectives(part, step, BF16, grouped, sends=False)}
    assert found["expert dispatch"].nbytes == 64 / 4 * 8 * 7168 * 2
    assert found["expert dispatch"].group == 32
    # In nodes of 8: 7 of 32 parts stay near, 24 of 32 cross.
    near, far = out.legs(8)
    assert near.wire == 64 * 8 * 7168 * 7 / 32
    assert far.wire == 64 * 8 * 7168 * 24 / 32


# -- models ----------------------------------------------------------------------------------------


def divisible_model(model: pm.ModelShape, devices: int) -> pm.ModelShape:
    rows = tuple(
        (n, tuple(divisible(layer, devices) for layer in layers)) for n, layers in model.blocks
    )
    return model.model_copy(update={"blocks": rows, "vocab": devices * model.vocab})


sizes = st.sampled_from([1, 2, 3, 4, 8])


@given(model=models(), tensor=sizes, group=groups())
def test_devices_of_a_tensor_group_make_up_the_model(model, tensor, group):
    whole = divisible_model(model, tensor)
    (part,) = shard(whole, Parallelism(tensor=tensor))
    again = 0
    for n, layer in whole.distinct_layers:
        again += n * held_whole(layer, whole.hidden)
    if whole.embedding is not None:
        again += (whole.embedding.positions or 0) * whole.hidden
    if whole.head is not None:
        again += norm_params(whole.head.norm, whole.hidden)
    assert tensor * part.params == whole.params + (tensor - 1) * again
    assert tensor * part.cache_of(group, BF16) == whole.cache_of(group, BF16)
    assert part.vocab * tensor == whole.vocab


@given(model=models(), data=st.data(), group=groups())
def test_stages_make_up_the_model(model, data, group):
    pipeline = data.draw(st.integers(1, min(model.layers, 9)))
    stages = shard(model, Parallelism(pipeline=pipeline))
    assert len(stages) == pipeline
    assert sum(stage.layers for stage in stages) == model.layers
    assert max(s.layers for s in stages) - min(s.layers for s in stages) <= 1
    copied = 0
    if pipeline > 1 and model.head is not None and model.head.tied:
        copied = model.vocab * model.hidden  # the last stage holds the tied table again
    assert sum(stage.params for stage in stages) == model.params + copied
    assert close(sum(s.cache_of(group, BF16) for s in stages), model.cache_of(group, BF16))
    step = pm.Step(groups=(group,))
    flops = [sum(op.calls * op.flops for op in pm.forward(s, step, BF16)) for s in stages]
    assert sum(flops) == sum(op.calls * op.flops for op in pm.forward(model, step, BF16))
    assert all(s.embedding is None for s in stages[1:])
    assert all(s.head is None for s in stages[:-1])


@pytest.mark.parametrize(
    ("blocks", "pipeline", "expected"),
    [
        (61, 4, (15, 15, 16, 15)),
        (62, 4, (15, 16, 16, 15)),
        (80, 4, (20,) * 4),
        (7, 4, (2, 2, 2, 1)),
    ],
)
def test_the_last_stage_holds_the_head_instead_of_a_further_block(blocks, pipeline, expected):
    """As vLLM splits them: what is left over goes to stages from the last but one backwards."""
    model = pm.ModelShape.dense(layers=blocks, hidden=64, heads=4, ffn=64)
    assert tuple(s.layers for s in shard(model, Parallelism(pipeline=pipeline))) == expected


@given(model=models(), stages=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_stages_are_as_they_are_stated(model, stages):
    ways = Parallelism(pipeline=len(stages), stages=tuple(stages))
    if sum(stages) == model.layers or len(stages) == 1:
        if len(stages) > 1:
            assert [s.layers for s in shard(model, ways)] == stages
        return
    with pytest.raises(
        pm.errors.InvalidValueError, match=rf"^Parallelism.stages: .*{model.layers}"
    ):
        shard(model, ways)


@given(step=steps(), replicas=st.integers(1, 64), parts=st.integers(1, 8))
def test_sequences_are_dealt_to_replicas(step, replicas, parts):
    ways = Parallelism(data=replicas)
    first = ways.replica(step)
    assert first.sequences == -(-step.sequences // replicas)
    assert first.tokens * replicas >= step.tokens  # none holds more
    if replicas > 1:
        assert first.groups[0].new == max(group.new for group in step.groups)
    piped = Parallelism(data=replicas, pipeline=parts)
    number = piped.micro_batches_of(step.sequences)
    assert number == min(parts, first.sequences)
    assert close(number * piped.micro_batch(step).tokens, first.tokens)


@pytest.mark.parametrize("counts", [(5,), (1, 2), (2, 2), (3, 9, 1), (8, 1, 7), (1, 1, 1, 1)])
@pytest.mark.parametrize("data", [2, 3, 8])
def test_replicas_are_as_many_as_differ(counts, data):
    """Dealt like cards, by hand: of each kind of hand one is counted, the first hand first."""
    groups = tuple(pm.Group(count=n, new=9 - i, past=i) for i, n in enumerate(counts))
    cards = [i for i, n in enumerate(counts) for _ in range(n)]
    hands = [tuple(sorted(cards[replica::data])) for replica in range(data)]
    found = [
        tuple(9 - group.new for group in held.groups for _ in range(group.count))
        for held in Parallelism(data=data).replicas(pm.Step(groups=groups))
    ]
    assert found[0] == hands[0]
    assert len(found) == len(set(found))
    if len(counts) > 1:
        assert set(found) == set(hands) - {()}


@st.composite
def divisions(draw: st.DrawFn) -> Parallelism:
    """Any way to share a dense model among up to 512 devices."""
    return Parallelism(
        tensor=draw(sizes),
        pipeline=draw(sizes),
        data=draw(sizes),
        micro_batches=draw(st.none() | st.integers(1, 16)),
        all_reduce=draw(st.sampled_from(get_args(AllReduce))),
        communication=draw(st.sampled_from(["serial", "overlapped", "ignored"])),
    )


def linked(gpu: pm.GpuSpec, topology: str = "switch") -> pm.GpuSpec:
    link = pm.Link(
        bandwidth=gpu.memory_bandwidth / 10 + 1e6, latency=1e-6, topology=topology, reduces=True
    )
    return gpu.model_copy(update={"link": link})


def divided_model(model: pm.ModelShape, ways: Parallelism) -> pm.ModelShape:
    """A model with enough blocks for all stages, whose sizes divide."""
    deep = model.blocks if model.layers >= ways.pipeline else ((8, model.blocks[0][1]),)
    return divisible_model(model.model_copy(update={"blocks": deep}), ways.tensor)


@given(
    model=models(), gpu=gpus(), batch=batches, context=contexts, precision=precisions(),
    ways=divisions(), prefill=st.booleans(),
)  # fmt: skip
def test_no_time_beats_the_floor_nor_all_devices_together(
    model, gpu, batch, context, precision, ways, prefill
):
    model, gpu = divided_model(model, ways), linked(gpu)
    how: dict[str, Any] = {"batch": batch, "precision": precision}
    ask = pm.prefill if prefill else pm.decode
    how["prompt" if prefill else "context"] = context
    alone = ask(model, gpu, **how)
    found = ask(model, gpu, **how, parallelism=ways)
    assert at_most(found.floor, found.time)
    # In one micro-batch at a time, stages wait for each other.
    assert at_most(alone.time, found.time * ways.devices)
    assert at_most(alone.floor, found.floor * ways.devices)
    assert at_most(alone.memory.needed, found.memory.needed * ways.devices)
    silent = ask(model, gpu, **how, parallelism=ways.model_copy(update=SILENT))
    assert at_most(silent.time, found.time)
    assert silent.network_time == 0.0
    assert not silent.collectives


@given(
    model=models(), gpu=gpus(), batch=batches, context=contexts,
    topology=st.sampled_from(["switch", "ring", "torus"]),
    ways=divisions(), per_node=st.integers(1, 16),
)  # fmt: skip
def test_no_time_beats_the_floor_across_nodes(model, gpu, batch, context, topology, ways, per_node):
    model = divided_model(model, ways)
    cluster = pm.Cluster(
        gpu=linked(gpu, topology),
        per_node=per_node,
        nodes=512,
        link=pm.Link(bandwidth=5e10, latency=5e-6),
    )
    if ways.devices > cluster.devices:
        return
    try:
        found = pm.decode(model, cluster, batch=batch, context=context, parallelism=ways)
    except pm.errors.InvalidValueError as error:
        if "share a node and its switch" not in str(error):
            raise
        return
    assert at_most(found.floor, found.time)


# -- collectives by hand ---------------------------------------------------------------------------

H100 = pm.GpuSpec(
    name="H100-like",
    memory_bandwidth=3.35e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 989e12},
    link=pm.Link(name="NVLink 4", bandwidth=450e9, latency=1e-6, domain=8),
)
LLAMA_70B = pm.ModelShape.dense(
    layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=128256, name="70B"
)


def test_what_eight_devices_send_in_a_decode_step_of_70b():
    est = pm.decode(LLAMA_70B, H100, batch=16, context=4096, parallelism=Parallelism(tensor=8))
    found = {one.name: one for one in est.collectives}
    result = 16 * 8192 * 2
    assert [(c.name, c.nbytes, c.calls) for c in est.collectives] == [
        ("embedding sum", result, 1),
        ("attention sum", result, 80),
        ("feed-forward sum", result, 80),
        ("logits", 16 * 128256 * 2, 1),
    ]
    # Around a ring of 8: 7 of 8 parts twice, in 14 messages; each to all: 7 times the whole.
    near, far = found["attention sum"].legs(8)
    assert (near.wire, near.hops, far.wire) == (2 * 7 / 8 * result, 14, 0)
    one_shot = found["attention sum"].model_copy(update={"algorithm": "one-shot"}).legs(8)[0]
    assert one_shot == (7 * result, 1)
    # In the switch: sent up once, and one eighth of the sum once more.
    in_switch = found["attention sum"].model_copy(update={"algorithm": "in-switch"}).legs(8)[0]
    assert in_switch == (9 / 8 * result, 2)
    # Logits: each device sends its 16,032 columns past 7 others.
    assert found["logits"].legs(8)[0] == (7 * 16 * 16032 * 2, 7)
    ring = 161 * (14e-6 + 1.75 * result / 450e9)
    gather = 7e-6 + 7 * 16 * 16032 * 2 / 450e9
    assert close(est.network_time, ring + gather)
    silent = Parallelism(tensor=8, communication="ignored")
    alone = pm.decode(LLAMA_70B, H100, batch=16, context=4096, parallelism=silent)
    assert close(est.time, alone.time + ring + gather)
    beside = Parallelism(tensor=8, communication="overlapped")
    hidden = pm.decode(LLAMA_70B, H100, batch=16, context=4096, parallelism=beside)
    assert hidden.time == max(alone.time, est.network_time)


def test_an_all_reduce_across_nodes_runs_in_two_levels():
    """16 devices, 8 a node: 2 x 7/8 of the vector inside, 2 x 1/2 of an eighth of it outside."""
    cluster = pm.Cluster(gpu=H100, per_node=8, nodes=2, link=pm.Link(bandwidth=50e9, latency=5e-6))
    ways = Parallelism(tensor=16)
    model = LLAMA_70B.with_(heads=128)
    est = pm.decode(model, cluster, batch=4, context=4096, parallelism=ways)
    found = next(c for c in est.collectives if c.name == "attention sum")
    size = 4 * 8192 * 2
    assert found.legs(8) == ((1.75 * size, 14), (size / 8, 2))
    row = next(r for r in est.exchanges() if r.collective == found)
    inside, outside = 14e-6 + 1.75 * size / 450e9, 2 * 5e-6 + size / 8 / 50e9
    assert close(row.time, 80 * (inside + outside))
    # One shot: to 7 near devices, and beside them to 8 far ones.
    shot = found.model_copy(update={"algorithm": "one-shot"})
    assert shot.legs(8) == ((7 * size, 1), (8 * size, 1))


def test_a_group_that_nodes_cannot_hold_is_cut_into_equal_parts():
    """12 devices, 8 a node: three parts of 4 that stand together, so 2/3 of a quarter crosses."""
    cluster = pm.Cluster(gpu=H100, per_node=8, nodes=2, link=pm.Link(bandwidth=50e9))
    model = pm.ModelShape.dense(layers=1, hidden=96, heads=48, kv_heads=12, ffn=96)
    est = pm.decode(model, cluster, batch=1, context=1, parallelism=Parallelism(tensor=12))
    size = 96 * 2
    for row in est.exchanges():
        assert close(row.wire, 2 * 3 / 4 * size + 2 * 2 / 3 * size / 4)


def test_a_pair_of_a_mesh_shares_one_of_seven_links():
    """An MI300X has 7 links of 64 GB/s, one to each other device of its node."""
    link = pm.Link(name="Infinity Fabric", bandwidth=448e9, domain=8, topology="mesh")
    chip = H100.model_copy(update={"link": link})
    times = {}
    for tensor in (2, 8):
        ways = Parallelism(tensor=tensor)
        est = pm.decode(LLAMA_70B, chip, batch=1, context=1, parallelism=ways)
        row = next(r for r in est.exchanges() if r.collective.name == "attention sum")
        times[tensor] = row.time / 80
    assert close(times[2], 2 * 1 / 2 * 8192 * 2 / 64e9)
    assert close(times[8], 2 * 7 / 8 * 8192 * 2 / 448e9)


def test_stages_hand_their_tokens_over():
    ways = Parallelism(pipeline=4)
    est = pm.prefill(LLAMA_70B, H100, batch=4, prompt=512, parallelism=ways)
    sent = [
        [c for c in device.collectives if c.kind == "point-to-point"] for device in est._devices
    ]
    assert [len(found) for found in sent] == [1, 1, 1, 0]
    # Four micro-batches of one prompt each.
    assert (sent[0][0].nbytes, sent[0][0].calls) == (512 * 8192 * 2, 4)


@pytest.mark.parametrize(
    ("tensor", "pipeline", "per_node", "crossing"),
    [
        (4, 4, 8, [2, 1, 2]),  # half a node a stage: near, far, near
        (8, 2, 8, [1]),
        (2, 4, 8, [2, 2, 2]),
        (3, 3, 8, [2, 1]),  # devices 5 and 8 stand apart
        (16, 2, 8, [1]),
    ],
)
def test_which_stages_stand_in_one_node(tensor, pipeline, per_node, crossing):
    model = pm.ModelShape.dense(layers=6, hidden=96, heads=48, ffn=96, vocab=96)
    cluster = pm.Cluster(gpu=H100, per_node=per_node, nodes=8, link=pm.Link(bandwidth=5e10))
    ways = Parallelism(tensor=tensor, pipeline=pipeline)
    est = pm.decode(model, cluster, batch=4, context=8, parallelism=ways)
    near = [
        device._near(one)
        for device in est._devices
        for one in device.collectives
        if one.kind == "point-to-point"
    ]
    assert near == crossing


@pytest.mark.parametrize("key", ["deepseek-v4-flash", "gemma-3n-e4b"])
def test_all_residual_streams_are_handed_over(key):
    model = pm.model(key)
    streams = max(getattr(layer, "streams", 1) for _, layer in model.distinct_layers)
    assert streams == 4
    first, _ = shard(model, Parallelism(pipeline=2))
    step = pm.Step(groups=(pm.Group(count=3, new=1, past=9),))
    *_, handed = collectives(first, step, BF16, Parallelism(pipeline=2), sends=True)
    assert handed.nbytes == 3 * 4 * model.hidden * 2


# -- pipelines by hand -----------------------------------------------------------------------------


@pytest.mark.parametrize(("pipeline", "micro"), [(2, 2), (4, 4), (4, 16), (8, 8), (8, 1)])
def test_a_pipeline_fills_and_drains(pipeline, micro):
    """p equal stages, m micro-batches of b each: (m + p - 1) b, of which p - 1 are the bubble."""
    model = pm.ModelShape.dense(layers=8, hidden=512, heads=8, ffn=2048)
    ways = Parallelism(pipeline=pipeline, micro_batches=micro, **SILENT)
    est = pm.prefill(model, H100, batch=16, prompt=256, parallelism=ways)
    stage = {device.sums.time for device in est._devices}
    (total,) = stage
    one = total / micro
    assert close(est.time, (micro + pipeline - 1) * one)
    bubble = 1 - micro * one / est.time
    assert close(bubble + 1, (pipeline - 1) / (micro + pipeline - 1) + 1)


def test_decode_through_a_pipeline_is_a_token_after_another():
    """As many micro-batches as stages keep all busy; fewer wait for their own token."""
    model = pm.ModelShape.dense(layers=8, hidden=512, heads=8, ffn=2048)
    for micro, expected in ((1, 4), (2, 2), (4, 1), (8, 1)):
        ways = Parallelism(pipeline=4, micro_batches=micro, **SILENT)
        est = pm.decode(model, H100, batch=16, context=256, parallelism=ways)
        (stage,) = {device.sums.time for device in est._devices}
        assert close(est.time, expected * stage)


def test_an_uneven_pipeline_waits_for_its_slowest_stage():
    model = pm.ModelShape.dense(layers=9, hidden=512, heads=8, ffn=2048)
    ways = Parallelism(pipeline=3, stages=(2, 2, 5), **SILENT)
    est = pm.decode(model, H100, batch=3, context=256, parallelism=ways)
    assert est.time == max(device.sums.time for device in est._devices)
    first, _, last = (device.sums for device in est._devices)
    assert close(est.time, 5 / 2 * first.time)
    # What is told of the step is what its slowest stage does, of a sweep too.
    assert (est.flops, est.compute_time) == (last.flops, last.compute_time)
    table = pm.sweep(model, H100, batch=[3], context=[256], parallelism=ways)
    assert table.flops[0] == last.flops


# -- witnesses from outside ------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "milliseconds"), [(1, 4.98), (8, 12.13), (16, 20.30)])
def test_llama_2_13b_on_eight_tpu_v5e(batch, milliseconds):
    """The worked answer of "How to Scale Your Model", inference chapter (2025): weights and KV.

    13 GB x 2 of weights and 6.7 GB of KV a sequence of 8,192 tokens, over 8 x 819 GB/s.
    """
    chip = pm.GpuSpec(name="TPU v5e", memory_bandwidth=819e9, peak_flops={"bf16": 197e12})
    model = pm.ModelShape.dense(layers=40, hidden=5120, heads=40, ffn=13824, vocab=32000)
    ways = Parallelism(tensor=8, **SILENT)
    est = pm.decode(model, chip, batch=batch, context=8192, precision="bf16", parallelism=ways)
    assert math.isclose(est.time, milliseconds * 1e-3, rel_tol=0.01)


@pytest.mark.parametrize(
    ("layers", "heads", "kv_heads", "tensor", "nbytes"),
    [
        (62, 48, 8, 4, 63_488),  # MiniMax-M2.7, KV-022: 14.46 GiB at 244,576 tokens a rank
        (40, 40, 40, 2, 409_600),  # CodeLlama-13B, KV-080: 16,384 tokens need 6.25 GiB
        (80, 64, 8, 4, 81_920),  # Llama-3.1-70B, KV-081: 131,072 tokens need 10.0 GiB
        (48, 40, 8, 8, 24_576),  # Llama-4-Scout, KV-087: 10,485,760 tokens need 240.00 GiB
    ],
)
def test_kv_bytes_of_a_rank_are_those_that_vllm_prints(layers, heads, kv_heads, tensor, nbytes):
    model = pm.ModelShape.dense(
        layers=layers, hidden=heads * 128, heads=heads, kv_heads=kv_heads, head_dim=128, ffn=1024
    )
    (part,) = shard(model, Parallelism(tensor=tensor))
    assert part.kv_bytes_per_token("bf16") == nbytes


def test_latents_are_whole_on_every_rank():
    """Kimi-K2.6 on 8 devices under SGLang (EN-027): 209,413 tokens take 13.71 GiB on each."""
    latent = LatentAttention(
        heads=64, query_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128
    )
    model = pm.ModelShape(hidden=7168, blocks=((61, (latent,)),))
    (part,) = shard(model, Parallelism(tensor=8))
    assert round(part.cache_bytes(209_413, "bf16") / 2**30, 2) == 13.71


def test_the_state_of_a_rank_is_that_of_its_heads():
    """Qwen3.6-27B on 2 devices under vLLM (KV-120): 24 heads of 128 x 128 in fp32, 1,572,864 B.

    Its convolution sees 10,240 channels, 5,120 a rank, of which 3 columns and 2 drafts are kept.
    """
    delta = GatedDeltaNet(key_heads=16, value_heads=48, key_dim=128, value_dim=128, conv_state=5)
    assert delta.conv_channels == 10_240
    part = delta.share(Parallelism(tensor=2))
    assert part.state_bytes(BF16) == 1_572_864 + 5_120 * 5 * 2 == 1_624_064


def test_three_hosts_hold_50_49_and_27_layers():
    """llama.cpp over RPC (EN-070): 4,096 cells of Llama-3.1-405B, 800 + 784 + 432 MiB."""
    model = pm.ModelShape.dense(layers=126, hidden=16384, heads=128, kv_heads=8, ffn=53248)
    stages = shard(model, Parallelism(pipeline=3, stages=(50, 49, 27)))
    assert [s.cache_bytes(4096, "fp16") / 2**20 for s in stages] == [800, 784, 432]


def test_two_stages_of_qwen3_coder_hold_24_layers_each():
    """Under vLLM (KV-096) 262,144 tokens need 24.0 GiB in all 48 layers."""
    model = pm.ModelShape.dense(
        layers=48, hidden=2048, heads=32, kv_heads=4, head_dim=128, ffn=1024
    )
    stages = shard(model, Parallelism(pipeline=2))
    assert [s.cache_bytes(262_144, "bf16") / 2**30 for s in stages] == [12.0, 12.0]


def test_each_of_eight_devices_holds_its_part_of_the_first_405b():
    """Llama-3.1-405B-FP8 as first released, on 8 devices under vLLM (KV-100): 57.74 GiB.

    Attention, two feed-forward layers and both ends stay bf16. Scales take 0.007 GiB and the table
    of rotary positions, 131,072 x 128 in bf16, 0.031 GiB; norms are smaller than what is printed.
    """
    attention = Attention(heads=128, kv_heads=16, head_dim=128, norm=None)
    wide = FeedForward(width=53248, norm=None)
    ends = {"embedding": pm.Embedding(), "head": pm.Head(norm=None)}
    plain = pm.ModelShape(
        hidden=16384, vocab=128256, blocks=((124, (attention,)), (2, (attention, wide))), **ends
    )
    narrow = pm.ModelShape(hidden=16384, blocks=((124, (wide,)),))
    ways = Parallelism(tensor=8)
    (one,), (other,) = shard(plain, ways), shard(narrow, ways)
    held = one.weight_bytes("bf16") + other.weight_bytes("uniform-fp8")
    assert round(held / 2**30 + 0.007 + 0.031, 2) == 57.74


def test_deepseek_v3_decodes_with_one_expert_a_device():
    """EP320 in the report (section 3.4.2): each GPU holds one expert. EP32 (3.4.1): eight."""
    model = pm.model("deepseek-v3")
    for ways, held in (
        (Parallelism(data=256, expert=256), 1),
        (Parallelism(tensor=4, data=8, expert=32), 8),
    ):
        (part,) = shard(model, ways)
        experts = next(x for _, x in part.distinct_layers if isinstance(x, MixtureOfExperts))
        assert {m.name: m.copies for m in experts.matrices(7168)}["experts_up"] == held


def test_every_split_of_eight_devices_is_answered():
    found = [
        Parallelism(tensor=t, pipeline=p, data=8 // (t * p))
        for t, p in product((1, 2, 4, 8), repeat=2)
        if 8 % (t * p) == 0
    ]
    assert len(found) == 10
    for ways in found:
        est = pm.decode(LLAMA_70B, H100, batch=64, context=4096, parallelism=ways)
        assert ways.devices == est.devices == 8
        assert est.floor <= est.time


# -- the ends --------------------------------------------------------------------------------------


def test_the_vocabulary_divides_with_its_bias():
    head = pm.Head(bias=True, norm="layer")
    model = pm.ModelShape(
        hidden=64,
        vocab=1001,
        blocks=((1, (FeedForward(width=64),)),),
        embedding=pm.Embedding(extra_rows=6, positions=100, norm="layer"),
        head=head,
    )
    (part,) = shard(model, Parallelism(tensor=4))
    assert part.vocab == 251  # 1,001 rows and three that stand for none
    assert part.vocab + part.embedding.extra_rows == 252  # 1,007 rows and one
    assert part.embedding.params(64, 251) == 252 * 64 + 100 * 64 + 2 * 64
    assert part.head.params(64, 251) == 251 * 64 + 251 + 2 * 64


def test_a_narrow_table_is_summed_before_it_is_projected():
    model = pm.ModelShape(
        hidden=64,
        vocab=1000,
        blocks=((1, (FeedForward(width=64),)),),
        embedding=pm.Embedding(width=16),
    )
    ways = Parallelism(tensor=2)
    (part,) = shard(model, ways)
    step = pm.Step(groups=(pm.Group(count=3, new=1),))
    rows, _ = collectives(part, step, BF16, ways, sends=False)
    assert rows.nbytes == 3 * 16 * 2
    (up,) = part.embedding.project(64, 3, BF16)
    assert up.weights == 16 * 64


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tensor", "pipeline", "expert", "data", "micro_batches"])
@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, math.inf, True, "8", 10**16, [8], None])
def test_a_division_has_whole_positive_numbers(name, bad):
    if name == "micro_batches" and bad is None:
        return
    with pytest.raises(pm.errors.InvalidValueError, match=rf"^Parallelism.{name}: expected"):
        Parallelism(**{name: bad})


@pytest.mark.parametrize("bad", ["tp8", 8, None, {"tensor": 8}, (8, 1)])
def test_a_division_is_a_parallelism(bad):
    with pytest.raises(pm.errors.InvalidValueError, match=r"^parallelism: expected Parallelism"):
        pm.decode(LLAMA_70B, H100, batch=1, context=1, parallelism=bad)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("all_reduce", "tree"), ("all_reduce", None), ("communication", "hidden"),
        ("communication", True), ("stages", (0,)), ("stages", "12"), ("stages", (1, 2)),
    ],
)  # fmt: skip
def test_a_division_refuses_unknown_ways(name, bad):
    with pytest.raises(pm.errors.InvalidValueError, match=rf"Parallelism.{name}"):
        Parallelism(**{name: bad})


@pytest.mark.parametrize("huge", [10**9, 10**15])
@pytest.mark.parametrize("name", ["tensor", "pipeline", "data", "expert"])
def test_huge_divisions_are_answered_at_once(name, huge):
    """No loop over devices: an error, or an answer."""
    deep = LLAMA_70B.model_copy(update={"blocks": ((10**15, LLAMA_70B.blocks[0][1]),)})
    for model in (LLAMA_70B, deep, LLAMA_70B.with_(width=10**15 - 1)):
        try:
            ways = Parallelism(**{name: huge, "micro_batches": huge})
            est = pm.decode(model, H100, batch=8, context=8, parallelism=ways)
        except pm.errors.InvalidValueError:
            continue
        assert 0 < est.floor <= est.time
        assert name == "data"


@pytest.mark.parametrize(
    ("layer", "tensor", "message"),
    [
        (Attention(heads=28, kv_heads=4, head_dim=64), 8, r"Attention.heads=28, as 7, got 8"),
        (Attention(heads=64, kv_heads=8, head_dim=64), 6, r"Attention.heads=64, as (4|8), got 6"),
        (Attention(heads=12, kv_heads=4, head_dim=64), 6, r"Attention.kv_heads=4, as 4, got 6"),
        (FeedForward(width=11008), 3, r"FeedForward.width=11008, as (2|4), got 3"),
        (FeedForward(width=10**15), 7, r"FeedForward.width=1000000000000000, as 8, got 7"),
        (Mamba2(heads=81, head_dim=64, groups=3, state=8), 2, r"Mamba2.heads=81, as 3, got 2"),
        (MixtureOfHeads(heads=8, kv_heads=4, head_dim=8, experts=4, top_k=2), 8,
         r"MixtureOfHeads.kv_heads=4, as 4, got 8"),
        (GatedDeltaNet(key_heads=16, value_heads=32, key_dim=8, value_dim=8), 32,
         r"GatedDeltaNet.key_heads=16, as 16, got 32"),
        (Attention(heads=8, kv_heads=8, head_dim=8, masks_keys=True), 2, r"expected 1, .* got 2"),
    ],
)  # fmt: skip
def test_what_does_not_divide_is_named_with_what_would(layer, tensor, message):
    with pytest.raises(pm.errors.InvalidValueError, match=r"^Parallelism.tensor: .*" + message):
        layer.share(Parallelism(tensor=tensor))


def test_a_lump_is_not_divided():
    coarse = pm.ModelShape.from_totals(params=8e9)
    with pytest.raises(pm.errors.InvalidValueError, match="coarse shape of totals"):
        pm.decode(coarse, H100, batch=1, parallelism=Parallelism(tensor=2))
    assert pm.decode(coarse, H100, batch=2, parallelism=Parallelism(data=2)).time > 0


@pytest.mark.parametrize(
    ("ways", "message"),
    [
        ({"expert": 3, "tensor": 2}, r"^Parallelism.expert: expected a divisor of tensor=2"),
        ({"expert": 4, "tensor": 2, "data": 3}, r"2 times a divisor of data=3, got 4"),
        ({"pipeline": 2, "stages": (1, 2, 3)}, r"^Parallelism.stages: .*pipeline=2 stages, got 3"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(ways, message):
    with pytest.raises(pm.errors.InvalidValueError, match=message):
        Parallelism(**ways)


def test_links_must_reach():
    model = LLAMA_70B.with_(heads=128, kv_heads=8)
    with pytest.raises(pm.errors.InvalidValueError, match=r"at most 8 devices.*got 16; pm.Cluster"):
        pm.decode(model, H100, batch=1, context=1, parallelism=Parallelism(tensor=16))
    with pytest.raises(pm.errors.InvalidValueError, match=r"at most 8 devices.*got 16; pm.Cluster"):
        pm.decode(model, H100, batch=1, context=1, parallelism=Parallelism(pipeline=16))
    bare = H100.model_copy(update={"link": None})
    with pytest.raises(pm.errors.InvalidValueError, match=r"^link: required between 8 devices"):
        pm.decode(model, bare, batch=1, context=1, parallelism=Parallelism(tensor=8))
    cluster = pm.Cluster(gpu=H100, per_node=8)
    with pytest.raises(pm.errors.InvalidValueError, match=r"^parallelism: .*8 devices of the clus"):
        pm.decode(model, cluster, batch=1, context=1, parallelism=Parallelism(tensor=16))
    for way in ({"tensor": 16}, {"pipeline": 16}):
        assert pm.decode(
            model, bare, batch=1, context=1, parallelism=Parallelism(**way, **SILENT)
        ).time


def test_a_chip_without_links_stops_no_other_chip_of_a_comparison():
    apple, sixteen = pm.gpu("apple-m4-max"), Parallelism(tensor=16)
    cluster = pm.Cluster(gpu=H100, per_node=8, nodes=2, link=pm.Link(bandwidth=5e10))
    chips = [H100, apple, cluster]
    table = pm.compare(LLAMA_70B.with_(kv_heads=16), chips, batch=1, context=1, parallelism=sixteen)
    far, none, joined = table.rows
    assert "at most 8 devices" in (far.unsupported or "")
    assert "Apple M4 Max states none" in (none.unsupported or "")
    assert joined.estimate is not None
    assert joined.estimate.devices == 16


@pytest.mark.parametrize("bad", [0, -1, 1.5, math.nan, True, "8", 10**16])
def test_a_cluster_has_whole_positive_numbers(bad):
    for name in ("per_node", "nodes"):
        fields = {"per_node": 8, "nodes": 2, name: bad}
        with pytest.raises(pm.errors.InvalidValueError, match=rf"^Cluster.{name}: expected"):
            pm.Cluster(gpu=H100, link=pm.Link(bandwidth=5e10), **fields)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("bandwidth", 0), ("bandwidth", -1), ("bandwidth", math.nan), ("bandwidth", 450),
        ("bandwidth", "450e9"), ("latency", -1e-6), ("latency", math.inf), ("domain", 0),
        ("domain", 1.5), ("topology", "star"), ("reduces", 1),
    ],
)  # fmt: skip
def test_a_link_has_positive_numbers(name, bad):
    with pytest.raises(pm.errors.InvalidValueError, match=rf"^Link.{name}: "):
        pm.Link(**{"bandwidth": 450e9, name: bad})


def test_a_cluster_of_nodes_needs_a_network():
    with pytest.raises(pm.errors.InvalidValueError, match=r"^Cluster.link: required"):
        pm.Cluster(gpu=H100, per_node=8, nodes=2)
    with pytest.raises(pm.errors.InvalidValueError, match=r"^Cluster.per_node: expected at most 8"):
        pm.Cluster(gpu=H100, per_node=16)


def test_a_switch_that_does_not_add_up_is_refused_where_it_would_have_to():
    ways = Parallelism(tensor=8, all_reduce="in-switch")
    with pytest.raises(pm.errors.InvalidValueError, match=r"NVLink 4 does not add up"):
        pm.decode(LLAMA_70B, H100, batch=1, context=1, parallelism=ways)
    stages = Parallelism(pipeline=8, all_reduce="in-switch")
    assert pm.decode(LLAMA_70B, H100, batch=1, context=1, parallelism=stages).time > 0


def test_a_collective_is_a_record_like_others():
    est = pm.decode(LLAMA_70B, H100, batch=3, context=9, parallelism=Parallelism(tensor=8))
    for one in est.collectives:
        assert Collective.model_validate_json(one.model_dump_json()) == one
    piped = pm.decode(LLAMA_70B, H100, batch=3, context=9, parallelism=Parallelism(pipeline=2))
    again = pm.Estimate.model_validate_json(piped.model_dump_json())
    assert again.time == piped.time
