"""Does the physics hold for every kind of layer, in any step, at any precision?

Each kind is drawn with every field it has (``strategies.FIELDS``). Where a property cannot hold
for a kind, the exception stands beside it, with its reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np
import pytest
import sympy
from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st
from strategies import (
    FIELDS,
    KINDS,
    REL,
    any_models,
    at_most,
    batches,
    close,
    gpus,
    groups,
    hiddens,
    indexers,
    layers_of,
    pasts,
    precisions,
    small_steps,
    steps,
)

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PRESETS, Precision
from perfmodel.machine.hardware import PeakFlops
from perfmodel.work.layers import (
    AltUp,
    AnyLayer,
    Attention,
    ChannelMix,
    CompressedAttention,
    ConvolutionalAttention,
    CrossAttention,
    ImageExperts,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MatrixMemory,
    MixtureOfExperts,
    MixtureOfHeads,
    NGramEmbedding,
    RelativeAttention,
    ResidualConvolution,
    RgLru,
    ShortConvolution,
    StreamEnd,
    TimeMix,
    Totals,
)
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.layer import Layer
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Operation

CHIP = pm.GpuSpec(
    name="a chip for questions that are not about chips",
    memory_bandwidth=2e12,
    memory_capacity=1e11,
    peak_flops=dict.fromkeys(PeakFlops.model_fields, 5e14),
)
BF16 = Precision.preset("bf16")
COUNTED = ("flops", "weight_bytes", "least_weight_bytes", "activation_bytes", "kv_bytes", "calls",
           "tokens", "weights", "pairs")  # fmt: skip

# A token of a text without an image passes these by: they are held, but do nothing in a step.
UNRUN = (CrossAttention, ImageExperts)
RUN = [kind for kind in KINDS if kind not in UNRUN]
RECURRENT = [kind for kind in KINDS if issubclass(kind, Recurrent)]
ATTENTION = [kind for kind in KINDS if issubclass(kind, Attention)]
EXPERTS = [kind for kind in KINDS if issubclass(kind, MixtureOfExperts)]
# Every token by itself: nothing that could be cut into chunks.
NO_CHUNKED_FORM = (ChannelMix, Mamba, NGramEmbedding, ResidualConvolution, RgLru, ShortConvolution,
                   TimeMix)  # fmt: skip

names = {"ids": lambda kind: kind.__name__}
each_kind = pytest.mark.parametrize("kind", KINDS, **names)
each_that_runs = pytest.mark.parametrize("kind", RUN, **names)
each_recurrent = pytest.mark.parametrize("kind", RECURRENT, **names)
each_attention = pytest.mark.parametrize("kind", ATTENTION, **names)
few = settings(max_examples=max(settings().max_examples // 15, 1))  # for each of so many kinds
some_more = settings(max_examples=max(settings().max_examples // 3, 1))  # where limits meet
repeats = st.integers(1, 64)


def alone(layer: Layer, hidden: int = 64, repeats: int = 1) -> pm.ModelShape:
    """A model of nothing else."""
    width = None if isinstance(layer, Totals) else hidden
    return pm.ModelShape(hidden=width, blocks=((repeats, (layer,)),))


def step_of(**group: Any) -> pm.Step:
    return pm.Step(groups=(pm.Group(**group),))


def run(
    layer: Layer, *groups: pm.Group, hidden: int = 64, precision: Any = BF16, **how: Any
) -> tuple[Operation, ...]:
    return pm.forward(alone(layer, hidden), pm.Step(groups=groups), precision, **how)


def counted(op: Operation) -> dict[str, Any]:
    return {name: getattr(op, name) for name in COUNTED}


def total(operations: Iterable[Operation], name: str, *kinds: str) -> Any:
    """Sum over the calls of all operations, or of those of some kinds."""
    found = [op for op in operations if not kinds or op.kind in kinds]
    return sum(op.calls * getattr(op, name) for op in found)


def copy(layer: Layer, **changes: Any) -> Layer:
    """The same layer, with those of the changes whose fields it has."""
    known = {name: value for name, value in changes.items() if name in type(layer).model_fields}
    return layer.model_copy(update=known)


def selects(layer: Layer) -> bool:
    return getattr(layer, "indexer", None) is not None


def unchunked(layer: Layer) -> Layer:
    """The layer in a form whose FLOPs are a sum over tokens, whatever the pass they are in."""
    if isinstance(layer, LatentAttention) and layer.form == "auto":
        layer = copy(layer, form="absorbed")
    return copy(layer, scan="recurrent") if isinstance(layer, Recurrent) else layer


# -- what is drawn ---------------------------------------------------------------------------------


# What tells a device's share of the experts from all of them: tests/test_parallel.py.
SHARES = {"spread", "gathered"}


def test_every_kind_is_drawn_with_every_field():
    union, _ = get_args(AnyLayer)
    assert set(KINDS) == set(get_args(union)), "layers.__all__ and AnyLayer differ"
    for kind in KINDS:
        assert kind in FIELDS, f"strategies.FIELDS has no {kind.__name__}"
        drawn = {name for parent in kind.__mro__ for name in FIELDS.get(parent, {})}
        assert drawn == set(kind.model_fields) - {"kind", *SHARES}, kind.__name__


@each_kind
def test_a_field_that_a_kind_does_not_know_is_refused(kind):
    for name in kind.LACKS:
        default = kind.model_fields[name].default
        values = FIELDS[declares(kind, name)][name]
        other = some(values, lambda value, default=default: value != default)
        layer = some(layers_of(kind), lambda layer: True)
        with pytest.raises(InvalidValueError, match=rf"^{kind.__name__}\.{name}: expected "):
            layer.model_copy(update={name: other})


def some(values: st.SearchStrategy[Any], condition: Callable[[Any], bool]) -> Any:
    """The first that is found, not the simplest."""
    patient = settings(phases=[Phase.generate], database=None, max_examples=2000)
    return find(values, condition, settings=patient)


def declares(kind: type[Layer], name: str) -> type[Layer]:
    """The class whose strategy of a field holds for a kind."""
    return next(parent for parent in kind.__mro__ if name in FIELDS.get(parent, {}))


# Fields of a kind that change nothing by themselves.
WITHOUT_EFFECT: dict[type[Layer], set[str]] = {
    # There is no convolution.
    LightningAttention: {"conv_kernel", "conv_state"},
    MatrixMemory: {"conv_kernel", "conv_state"},
    # No token of a text is sent to them.
    ImageExperts: {"skew"},
    # They change together, or contradict each other.
    MixtureOfHeads: {"heads", "kv_heads", "top_k"},
    # Every token by itself, whatever the scan.
    **{kind: {"scan", "chunk_size"} for kind in NO_CHUNKED_FORM},
}


def all_numbers(layer: Layer) -> list[Any]:
    """What is known of a layer, as far as one can ask."""
    model = alone(layer)
    found: list[Any] = [model.params, model.active_params, model.non_embedding_params]
    groups = (
        pm.Group(count=3, new=1, past=4000),
        pm.Group(count=2, new=300, past=77, shared_past=9),
        pm.Group(count=1, new=5000),
    )
    found += [model.weight_bytes("bf16"), model.state_bytes("bf16")]
    for group in groups:
        found.append(model.cache_of(group, BF16))
        found += map(counted, run(layer, group, small_steps="separate"))
    return found


def matters(pair: tuple[Layer, Layer], name: str) -> bool:
    """Whether a layer is another in any respect with another's field; no if it cannot be."""
    layer, other = pair
    try:
        changed = layer.model_copy(update={name: getattr(other, name)})
    except InvalidValueError:
        return False
    return changed != layer and all_numbers(changed) != all_numbers(layer)


@each_kind
def test_every_field_of_a_kind_changes_something(kind):
    pairs = st.tuples(layers_of(kind), layers_of(kind))
    # A variant is a name, by which a precision may tell its parts.
    idle = {"kind", "variant", *SHARES, *kind.LACKS} | WITHOUT_EFFECT.get(kind, set())
    for name in sorted(set(kind.model_fields) - idle):
        some(pairs, lambda pair, name=name: matters(pair, name))


@pytest.mark.parametrize("kind", [Attention, LatentAttention], **names)
@pytest.mark.parametrize("name", sorted(Indexer.model_fields))
def test_every_field_of_an_indexer_changes_something(kind, name):
    def changes(drawn: tuple[Layer, Indexer]) -> bool:
        layer, other = drawn
        mixed = layer.indexer.model_copy(update={name: getattr(other, name)})
        return matters((layer, copy(layer, indexer=mixed)), "indexer")

    limits = {x: None for x in ("window", "chunk") if x in kind.model_fields}
    layers = indexers.flatmap(lambda found: layers_of(kind, **limits, indexer=found))
    some(st.tuples(layers, indexers), changes)


@each_kind
def test_matrices_that_presets_treat_as_routing_are_matrices(kind):
    for name in kind.ROUTING:
        layer = some(layers_of(kind), lambda x, name=name: name in matrix_names(x))
        assert layer.formats_of(layer.matrices(64)[0], BF16)


def matrix_names(layer: Layer) -> list[str]:
    return [matrix.name for matrix in layer.matrices(64)]


# -- parameters ------------------------------------------------------------------------------------

NORMS = {None: 0, "rms": 1, "layer": 2, "layer-scale": 1, "bare": 0}


def all_vectors(layer: Layer, hidden: int) -> int:
    """Biases, tables, norms within the layer and around it, further numbers."""
    around = NORMS[layer.norm] and NORMS[layer.norm] * layer.read_width(hidden)
    after = NORMS[layer.post_norm] and NORMS[layer.post_norm] * hidden
    return layer.vectors(hidden) + around + after + layer.scalars


def of_experts(layer: Layer) -> dict[str, float]:
    """The matrices of which each expert has a copy, with the copies that one token meets."""
    if isinstance(layer, MixtureOfExperts):
        return dict.fromkeys(("experts_up", "experts_down"), layer.chosen)
    if isinstance(layer, MixtureOfHeads):
        return dict.fromkeys(("experts_query", "experts_output"), layer.top_k)
    return {}


def matrix_weights(layer: Layer, hidden: int, *, active: bool) -> float:
    met = of_experts(layer) if active else {}
    return sum(met.get(m.name, m.copies) * m.inner * m.outer for m in layer.matrices(hidden))


@each_kind
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats)
def test_parameters_are_matrices_and_vectors_to_the_last_one(kind, data, hidden, repeats):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden, repeats)
    assert len(set(matrix_names(layer))) == len(layer.matrices(hidden))
    one = matrix_weights(layer, hidden, active=False) + all_vectors(layer, hidden)
    assert type(model.params) is int
    assert layer.params(hidden) == (0 if layer.reused else one)
    assert model.params == repeats * layer.params(hidden)
    assert 0 <= model.active_params <= model.params
    assert 0 <= model.non_embedding_params <= model.params
    assert (model.params > 0) != layer.reused or not one


@each_kind
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats)
def test_a_token_meets_all_parameters_but_those_of_idle_experts(kind, data, hidden, repeats):
    layer = data.draw(layers_of(kind, reused=False))
    model = alone(layer, hidden, repeats)
    idle = matrix_weights(layer, hidden, active=False) - matrix_weights(layer, hidden, active=True)
    if isinstance(layer, MixtureOfExperts) and layer.bias:
        out = hidden if layer.latent is None else layer.latent
        idle += (layer.experts - layer.chosen) * ((1 + layer.gated) * layer.width + out)
    assert close(model.active_params + repeats * idle, model.params)
    if not of_experts(layer):
        assert model.active_params == model.params


@each_kind
@few
@given(data=st.data(), hidden=hiddens, precision=precisions())
def test_memory_holds_each_parameter_once_in_its_format(kind, data, hidden, precision):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden)
    for name, bits in (("bf16", 16), ("uniform-fp8", 8), ("uniform-fp32", 32)):
        assert model.weight_bytes(name) == bits * model.params / 8
    formats = (precision.linear.weights, precision.head.weights)
    # A scale a row is at most one for each number.
    least = min(f.bits for f in formats) / 8 * model.params
    most = max(f.bits + f.scale_bits for f in formats) / 8 * model.params
    assert least * (1 - REL) <= model.weight_bytes(precision) <= most * (1 + REL)
    assert (model.weight_bytes(precision) > 0) == (model.params > 0)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "reused" not in kind.LACKS], **names)
@few
@given(data=st.data(), hidden=hiddens, step=steps(), precision=precisions(), small=small_steps)
def test_reused_weights_are_read_again_but_held_once(kind, data, hidden, step, precision, small):
    first = data.draw(layers_of(kind, reused=False))
    again = copy(first, reused=True)
    both = pm.ModelShape(hidden=hidden, blocks=((1, (first, again)),))
    one, two = alone(first, hidden), alone(again, hidden)
    assert two.params == two.active_params == two.weight_bytes(precision) == 0
    assert two.non_embedding_params == 0
    assert both.params == one.params
    assert both.active_params == one.active_params
    assert both.weight_bytes(precision) == one.weight_bytes(precision)
    assert both.non_embedding_params == one.non_embedding_params
    how = {"precision": precision, "small_steps": small}
    assert pm.forward(one, step, **how) == pm.forward(two, step, **how)
    assert one.cache_of(step.groups[0], precision) == two.cache_of(step.groups[0], precision)
    assert one.state_bytes(precision) == two.state_bytes(precision)


@each_that_runs
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats, precision=precisions())
def test_a_step_of_very_many_tokens_reads_each_matrix_that_memory_holds(
    kind, data, hidden, repeats, precision
):
    layer = data.draw(layers_of(kind, reused=False))
    model = alone(layer, hidden, repeats)
    # So many tokens leave no expert out, not even in the last digit.
    found = pm.forward(model, step_of(count=10**6, new=10**6), precision)
    twice = [op.calls - repeats for op in found if op.kind == "linear" and op.calls != repeats]
    assert twice == ([repeats] if kind is AltUp else [])  # its router runs before and after
    once = [op.model_copy(update={"calls": repeats}) for op in found]
    held = repeats * matrix_weights(layer, hidden, active=False)
    assert close(total(once, "weights"), held)
    unread = repeats * precision.rest.nbytes(all_vectors(layer, hidden))
    assert close(total(once, "weight_bytes") + unread, model.weight_bytes(precision))


# -- operations ------------------------------------------------------------------------------------


@each_that_runs
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats, step=steps(), precision=precisions(),
       small=small_steps)  # fmt: skip
def test_every_operation_moves_something_and_counts_nothing_below_zero(
    kind, data, hidden, repeats, step, precision, small
):
    layer = data.draw(layers_of(kind))
    found = pm.forward(alone(layer, hidden, repeats), step, precision, small_steps=small)
    assert found
    for op in found:
        assert all(math.isfinite(value) and value >= 0 for value in counted(op).values()), op
        assert op.nbytes > 0
        assert op.tokens > 0
        assert op.calls in (repeats, 2 * repeats)
        assert at_most(op.least_weight_bytes, op.weight_bytes)
        assert op.compute in CHIP.peak_flops.formats
        assert op == Operation(**dict(op)), "not what validation lets through"


@pytest.mark.parametrize("kind", UNRUN, **names)
@few
@given(data=st.data(), step=steps(), small=small_steps)
def test_what_is_for_images_does_nothing_for_a_text(kind, data, step, small):
    layer = data.draw(layers_of(kind))
    assert pm.forward(alone(layer), step, small_steps=small) == ()
    assert not alone(layer).has_cache


@each_that_runs
@few
@given(data=st.data(), gpu=gpus(), step=steps(), precision=precisions(), small=small_steps,
       hidden=hiddens)  # fmt: skip
def test_time_lies_between_floor_and_the_sum_of_both_roofs(
    kind, data, gpu, step, precision, small, hidden
):
    layer = data.draw(layers_of(kind))
    how = {"precision": precision, "small_steps": small}
    found = pm.estimate(alone(layer, hidden), gpu, step, **how)
    # Where one stream remains one, there is nothing to project it by.
    assert found.floor > 0 or (kind is StreamEnd and layer.streams == 1)
    assert at_most(found.floor, found.time)
    assert at_most(max(found.compute_time, found.memory_time), found.time)
    assert at_most(found.time, found.compute_time + found.memory_time)
    peaks = {key: 2 * gpu.peak(key) for key in gpu.peak_flops.formats}
    double = {"memory_bandwidth": 2 * gpu.memory_bandwidth, "peak_flops": peaks}
    fast = pm.estimate(alone(layer, hidden), gpu.model_copy(update=double), step, **how)
    assert close(fast.time, found.time / 2)
    assert close(fast.floor, found.floor / 2)


@each_that_runs
@few
@given(data=st.data(), step=steps(), hidden=hiddens, precision=precisions())
def test_a_product_does_2_flops_a_weight_and_token(kind, data, step, hidden, precision):
    layer = data.draw(layers_of(kind))
    for op in run(layer, *step.groups, hidden=hidden, precision=precision):
        if op.kind == "linear":
            assert op.flops == 2 * op.weights * op.tokens
            assert op.kv_bytes == 0 or op.name == "kv_up"  # which reads the latents it expands
            assert op.least_weight_bytes == op.weight_bytes
        elif op.kind == "experts":
            copies = {m.name: m.inner * m.outer for m in layer.matrices(hidden)}
            met = of_experts(layer)[op.name]
            assert close(op.flops, 2 * met * copies[op.name] * step.tokens)
        elif kind is ConvolutionalAttention and op.name == "convolution":
            # Both convolutions are one kernel: a head's channels are mixed by matrices.
            by_channel = 2 * layer.channel_kernel * layer.conv_channels * op.tokens
            assert op.flops == 2 * op.weights * op.tokens + by_channel
        else:
            assert op.weights == op.weight_bytes == op.least_weight_bytes == 0


def test_a_product_by_groups_of_channels_reads_and_writes_every_channel():
    def moved(layer: Layer, name: str) -> float:
        [op] = [op for op in run(layer, pm.Group(count=1, new=1)) if op.name == name]
        return op.activation_bytes

    # 64 channels in, two gates of as many out, 2 bytes each; whatever the blocks.
    for blocks in (1, 8, 64):
        assert moved(RgLru(channels=64, gate_blocks=blocks), "gates") == 2 * (64 + 2 * 64)
    # 64 channels in; of each group 8 for time steps, two maps of 16.
    for n in (1, 4):
        mamba = Mamba(inner=64, state=16, dt_rank=8, groups=n)
        assert moved(mamba, "select") == 2 * (64 + n * (8 + 2 * 16))
    # Heads of 8 x 8 in, 2 or 4 latents of 5 out.
    for n in (2, 4):
        fields = {"heads": 8, "head_dim": 8, "query_rank": 3, "window": 9, "output_rank": 5}
        layer = CompressedAttention(**fields, output_groups=n)
        assert moved(layer, "output_down") == 2 * (64 + 5 * n)


@each_that_runs
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats, tokens=st.integers(1, 4096))
def test_products_of_a_pass_do_2_flops_with_each_weight_that_a_token_meets(
    kind, data, hidden, repeats, tokens
):
    layer = data.draw(layers_of(kind))
    found = pm.forward(alone(layer, hidden, repeats), step_of(count=tokens, new=1))
    flops = total(found, "flops", "linear", "experts")
    weights = matrix_weights(layer, hidden, active=True)
    by_name = {m.name: m.inner * m.outer * m.copies for m in layer.matrices(hidden)}
    if kind is AltUp:  # the router runs before the block and after it
        weights += by_name["router"]
    if kind is RelativeAttention:  # every query head mixes the profiles
        weights += (layer.heads - 1) * by_name["profiles"]
    if kind is ConvolutionalAttention:  # counted with the convolution beside it
        weights -= by_name["convolution"]
    assert close(flops, 2 * repeats * tokens * weights)


@each_kind
@few
@given(data=st.data(), hidden=hiddens, step=steps(), precision=precisions())
def test_small_steps_come_beside_the_others_and_change_none(kind, data, hidden, step, precision):
    layer = data.draw(layers_of(kind))
    how = {"hidden": hidden, "precision": precision}
    fused = run(layer, *step.groups, **how)
    separate = run(layer, *step.groups, **how, small_steps="separate")
    assert tuple(op for op in separate if op.kind != "small") == fused
    assert all(op.kind != "small" for op in fused)
    for op in separate:
        if op.kind == "small":
            assert op.weight_bytes == op.kv_bytes == op.weights == op.pairs == 0
            assert op.flops > 0
            # What streams past the units: a few FLOPs a number, and every number moves.
            assert op.flops <= 100 * op.activation_bytes
            assert op.tokens == step.tokens


@each_that_runs
@few
@given(data=st.data(), hidden=hiddens, step=steps(), precision=precisions())
def test_without_activations_and_cache_the_weights_remain(kind, data, hidden, step, precision):
    layer = data.draw(layers_of(kind))
    found = run(layer, *step.groups, hidden=hidden, precision=precision)
    weights = total((op.weights_only() for op in found if op.is_product), "nbytes")
    if kind is ConvolutionalAttention:  # the small matrices of the convolution go with its kernel
        weights += total((op for op in found if op.kind == "scan"), "weight_bytes")
    assert close(weights, total(found, "weight_bytes"))


@each_kind
@few
@given(data=st.data(), hidden=hiddens, step=steps(), extra=groups(), precision=precisions())
def test_groups_add_up_but_share_the_weights(kind, data, hidden, step, extra, precision):
    layer = unchunked(data.draw(layers_of(kind)))
    how = {"hidden": hidden, "precision": precision}
    first, second = run(layer, *step.groups, **how), run(layer, extra, **how)
    both = run(layer, *step.groups, extra, **how)
    for one, other, together in zip(first, second, both, strict=True):
        for name in ("flops", "activation_bytes", "kv_bytes", "tokens", "pairs"):
            assert close(getattr(one, name) + getattr(other, name), getattr(together, name)), name
        least = max(one.weight_bytes, other.weight_bytes)
        assert at_most(least, together.weight_bytes)
        assert at_most(together.weight_bytes, one.weight_bytes + other.weight_bytes)
        if together.kind != "experts":
            assert one.weight_bytes == together.weight_bytes


@each_kind
@few
@given(data=st.data(), hidden=hiddens, group=groups(), count=st.integers(2, 5),
       precision=precisions())  # fmt: skip
def test_a_group_is_as_many_groups_of_one_sequence_each(
    kind, data, hidden, group, count, precision
):
    layer = data.draw(layers_of(kind))
    fields = dict(group) | {"shared_past": 0}
    whole, single = pm.Group(**fields | {"count": count}), pm.Group(**fields | {"count": 1})
    how = {"hidden": hidden, "precision": precision}
    one, many = run(layer, whole, **how), run(layer, *(single,) * count, **how)
    for a, b in zip(one, many, strict=True):
        assert all(close(getattr(a, name), getattr(b, name)) for name in COUNTED)
    model = alone(layer, hidden)
    assert close(model.cache_of(whole, precision), count * model.cache_of(single, precision))


# -- attention, pair by pair -----------------------------------------------------------------------


def attended(layer: Layer, position: int) -> range:
    """Tokens before a query, itself included, that it may attend; of them, it may select some."""
    if layer.window is not None:
        return range(max(position + 1 - layer.window, 0), position + 1)
    chunk = getattr(layer, "chunk", None)
    return range(0 if chunk is None else position - position % chunk, position + 1)


short = st.integers(1, 40)
short_groups = st.builds(
    lambda count, new, past, part: pm.Group(
        count=count, new=new, past=past, shared_past=int(part * past)
    ),
    count=st.integers(1, 5), new=st.just(1) | short, past=st.just(0) | short, part=st.floats(0, 1),
)  # fmt: skip


def queries(group: pm.Group) -> range:
    return range(group.past, group.context)


def read_once(group: pm.Group, positions: set[int]) -> int:
    """Reads of some of the past, where what all sequences share is read once."""
    past = {p for p in positions if p < group.past}
    shared = {p for p in past if p < group.shared_past}
    return len(shared) + group.count * len(past - shared)


@pytest.mark.parametrize("kind", [*ATTENTION, LatentAttention], **names)
@some_more
@given(data=st.data(), group=short_groups, precision=precisions())
def test_attention_meets_the_pairs_and_reads_the_tokens_of_a_loop(kind, data, group, precision):
    layer = data.draw(layers_of(kind))
    if kind is LatentAttention and layer.form == "auto":
        layer = copy(layer, form=data.draw(st.sampled_from(["absorbed", "expanded"])))
    [op] = [op for op in run(layer, group, precision=precision)
            if op.kind == "attention" and op.name != "indexer"]  # fmt: skip
    within = [set(attended(layer, p)) for p in queries(group)]
    most = layer.indexer.top_k if selects(layer) else math.inf
    pairs = group.count * sum(min(len(seen), most) for seen in within)
    assert op.pairs == pairs
    if kind is not LatentAttention:
        widths = layer.heads * (layer.head_dim + (layer.value_dim or layer.head_dim))
        assert op.flops == 2 * widths * pairs * (2 if layer.differential else 1)
        one = layer.kv_heads * (layer.head_dim + (layer.value_dim or layer.head_dim))
    elif layer.form == "absorbed":
        assert op.flops == 2 * layer.heads * (2 * layer.kv_rank + layer.rope_dim) * pairs
        one = layer.kv_rank + layer.rope_dim
    else:
        key = layer.nope_dim + layer.rope_dim
        assert op.flops == 2 * layer.heads * (key + layer.value_dim) * pairs
        [up] = [op for op in run(layer, group, precision=precision) if op.name == "kv_up"]
        new = group.count * group.new
        assert up.tokens == read_once(group, set().union(*within)) + new
        one = layer.rope_dim  # the latents are read by what expands them
    if selects(layer) and getattr(layer, "form", None) != "expanded":
        return  # which tokens, is not known: no fewer than one query selects
    read = read_once(group, set().union(*within))
    limits = [group.new, layer.window, getattr(layer, "chunk", None)]
    written = group.count * min(limit for limit in limits if limit is not None)
    moved = read + (0 if layer.shares_kv else written)
    assert close(op.kv_bytes, precision.kv.nbytes(one) * moved)


@pytest.mark.parametrize("kind", [Attention, LatentAttention, CompressedAttention], **names)
@few
@given(data=st.data(), group=short_groups, indexer=indexers)
def test_an_indexer_scores_each_key_or_entry_before_a_query(kind, data, group, indexer):
    given_: dict[str, Any] = {"window": None, "chunk": None}
    if kind is CompressedAttention:
        given_ = {"ratio": data.draw(st.integers(1, 5))}
    known = {name: value for name, value in given_.items() if name in kind.model_fields}
    layer = data.draw(layers_of(kind, indexer=indexer, **known))
    indexer = layer.indexer
    found = [op for op in run(layer, group) if op.name == "indexer"]
    if indexer.shared:
        assert not found
        return
    merged = layer.ratio if kind is CompressedAttention else indexer.pool
    pairs = group.count * sum((p + 1) // merged for p in queries(group))
    assert found[0].pairs == pairs
    each = indexer.heads * (indexer.dim + 1 if indexer.weighted else indexer.dim)
    assert found[0].flops == 2 * each * pairs


@given(layer=layers_of(CompressedAttention), group=short_groups)
def test_compressed_attention_meets_the_window_and_the_entries_of_a_loop(layer, group):
    [op] = [op for op in run(layer, group) if op.kind == "attention" and op.name != "indexer"]
    most = layer.indexer.top_k if selects(layer) else math.inf
    entries = [0 if layer.ratio is None else (p + 1) // layer.ratio for p in queries(group)]
    window = sum(len(attended(layer, p)) for p in queries(group))
    pairs = group.count * (window + sum(min(n, most) for n in entries))
    assert op.pairs == pairs
    assert op.flops == 2 * 2 * layer.heads * layer.head_dim * pairs
    # An entry is there with the last of its tokens; of the past, it is read, if it is not selected.
    written = group.count * min(group.new, layer.window)
    within = set().union(*(attended(layer, p) for p in queries(group)))
    moved = layer.head_dim * (read_once(group, within) + written)
    if layer.ratio is not None:
        made = [p for p in range(group.context) if (p + 1) % layer.ratio == 0]
        read, shared = read_once(group, set(made)), sum(p < group.shared_past for p in made)
        if selects(layer):
            before = sum(p < group.past for p in made)
            read = min(shared, most) + group.count * (min(before, most) - min(shared, most))
        entries = read + group.count * sum(p >= group.past for p in made)
        series = 2 if layer.overlap else 1
        merged = 2 * series * (layer.head_dim + (layer.indexer.dim if selects(layer) else 0))
        waiting = 2 * group.count * min(group.new, layer.ratio - 1)
        moved += layer.head_dim * entries + merged * waiting
    assert close(op.kv_bytes, BF16.kv.nbytes(moved))


@pytest.mark.parametrize("kind", [*ATTENTION, LatentAttention, CompressedAttention], **names)
@some_more
@given(data=st.data(), group=short_groups, precision=precisions())
def test_memory_holds_the_tokens_of_a_loop(kind, data, group, precision):
    layer = data.draw(layers_of(kind))

    def held_once(positions: Iterable[int]) -> int:
        shared = [p for p in positions if p < group.shared_past]
        return len(shared) + group.count * (len(positions) - len(shared))

    limit = layer.window or getattr(layer, "chunk", None) or group.context
    tokens = held_once(range(max(group.context - limit, 0), group.context))
    if kind is CompressedAttention:
        values = layer.head_dim * tokens
        if layer.ratio is not None:
            entry = layer.head_dim + (layer.indexer.dim if selects(layer) else 0)
            made = [p for p in range(group.context) if (p + 1) % layer.ratio == 0]
            series = 2 if layer.overlap else 1
            waiting = group.count * min(group.context, layer.ratio - 1)
            values += entry * held_once(made) + 2 * series * entry * waiting
    else:
        latent = kind is LatentAttention
        own = layer.cached if latent else layer.kv_values
        keys = layer.indexer.cached if selects(layer) else 0
        values = ((0 if layer.shares_kv else own) + keys) * tokens
    assert close(layer.cache_bytes(group, precision.kv), precision.kv.nbytes(values))


# -- experts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*EXPERTS, MixtureOfHeads], **names)
@few
@given(data=st.data(), tokens=st.integers(1, 10**6), hidden=hiddens, precision=precisions())
def test_touched_experts_grow_ever_more_slowly_between_their_bounds(
    kind, data, tokens, hidden, precision
):
    layer = data.draw(layers_of(kind))
    if kind is MixtureOfHeads:
        layer = MixtureOfExperts(experts=layer.experts, top_k=layer.top_k, width=1)
    first, one, two, three = (layer.touched(n) for n in (1, tokens, tokens + 1, tokens + 2))
    if not layer.zero_experts:
        assert close(first.expected, layer.top_k)
        assert first.least == layer.top_k
    assert close(first.expected, layer.chosen)
    slack = REL * layer.experts
    assert one.expected <= two.expected + slack
    assert three.expected - two.expected <= two.expected - one.expected + slack
    for found in (first, one, two, three):
        assert 0 <= found.least <= found.most <= layer.experts
        assert at_most(found.least, found.expected)
        assert at_most(found.expected, found.most)


@pytest.mark.parametrize("kind", [k for k in [*EXPERTS, MixtureOfHeads] if k in RUN], **names)
@few
@given(data=st.data(), step=steps(), hidden=hiddens, precision=precisions())
def test_weights_of_experts_lie_between_those_of_the_fewest_and_the_most(
    kind, data, step, hidden, precision
):
    layer = data.draw(layers_of(kind))
    top, number = layer.top_k, layer.experts
    fewest = max(top - getattr(layer, "zero_experts", 0), 0)
    most = min(number, top * step.tokens)
    found = pm.estimate(alone(layer, hidden), CHIP, step, precision=precision)
    formats = {m.name: (m, layer.formats_of(m, precision).weights) for m in layer.matrices(hidden)}
    for op in found.operations:
        if op.kind == "experts":
            matrix, stored = formats[op.name]
            one = stored.nbytes(matrix.inner * matrix.outer, matrix.outer)
            assert close(op.least_weight_bytes, fewest * one)
            assert at_most(fewest * one, op.weight_bytes)
            assert at_most(op.weight_bytes, most * one)
    compulsory = total(found.operations, "least_weight_bytes") + found.kv_traffic
    assert close(found.floor, max(found.compute_time, compulsory / CHIP.memory_bandwidth))


@pytest.mark.parametrize("kind", EXPERTS, **names)
@few
@given(data=st.data(), hidden=hiddens, step=steps())
def test_without_a_shared_expert_nothing_of_it_is_counted(kind, data, hidden, step):
    layer = data.draw(layers_of(kind, shared_width=0))
    bare = copy(layer, shared_gate=False, shared_bias=False)
    assert layer.params(hidden) == bare.params(hidden)
    assert run(layer, *step.groups, hidden=hidden) == run(bare, *step.groups, hidden=hidden)


# -- chunks of a prompt ----------------------------------------------------------------------------


def pieces(data: st.DataObject, whole: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Start and length of the chunks of a prompt; starts are multiples of a number."""
    cuts = data.draw(st.lists(st.integers(0, whole // multiple), max_size=5))
    ends = [*sorted({multiple * cut for cut in cuts} - {0, whole}), whole]
    return [(start, end - start) for start, end in zip([0, *ends], ends, strict=False)]


@each_that_runs
@few
@given(data=st.data(), hidden=hiddens, whole=st.integers(2, 20_000), past=st.just(0) | pasts,
       count=batches)  # fmt: skip
def test_the_flops_of_the_chunks_of_a_prompt_sum_to_the_whole_exactly(
    kind, data, hidden, whole, past, count
):
    layer = unchunked(data.draw(layers_of(kind)))
    once = run(layer, pm.Group(count=count, new=whole, past=past), hidden=hidden)
    parts = [
        run(layer, pm.Group(count=count, new=new, past=past + start), hidden=hidden)
        for start, new in pieces(data, whole)
    ]
    for op, *chunks in zip(once, *parts, strict=True):
        flops = sum(chunk.flops for chunk in chunks)
        if op.name == "kv_up" and layer.form == "expanded":
            # Every chunk expands what is within its reach anew.
            assert flops >= op.flops
        elif isinstance(op.flops, float):  # a share of experts on average, of no whole number
            assert close(flops, op.flops)
        else:
            assert flops == op.flops, op.name
            assert type(flops) is int
        assert sum(chunk.pairs for chunk in chunks) == op.pairs


@each_recurrent
@few
@given(data=st.data(), chunks=st.integers(1, 20), rest=st.integers(0, 256), past=pasts)
def test_a_scan_in_chunks_adds_up_over_whole_chunks(kind, data, chunks, rest, past):
    layer = data.draw(layers_of(kind, scan="chunked"))
    size = layer.chunk_size
    whole = chunks * size + rest % size
    assume(whole > 1)
    # A piece of one token would run recurrent.
    cut = [(a, n) for a, n in pieces(data, whole, size) if n > 1]
    assume(sum(n for _, n in cut) == whole)

    def scan(new: int, past: int) -> int:
        found = run(layer, pm.Group(count=1, new=new, past=past))
        return sum(op.flops for op in found if op.name == "scan")

    one, parts = scan(whole, past), sum(scan(new, past + start) for start, new in cut)
    if kind is Mamba2:  # the states of all chunks are combined in one product, of a square
        assert parts <= one
    else:
        assert parts == one
    full, rest = size * (whole // size), whole % size
    if kind in NO_CHUNKED_FORM:
        assert one == layer.token_flops * whole
    elif rest and full > 1:
        assert scan(full, past) < one
        # A last, partial chunk costs a whole one, or no more than its tokens.
        upper = scan(full + size, past)
        assert one < upper if kind is LightningAttention else one == upper
    assert scan(1, past) == layer.token_flops


# -- cache and state -------------------------------------------------------------------------------


def held(layer: Layer, tokens: int, past: int = 0, count: int = 1, shared: int = 0) -> float:
    group = pm.Group.trusted(count=count, new=tokens, past=past, logits=0, shared_past=shared)
    return layer.cache_bytes(group, BF16.kv)


def strides(layer: Layer) -> int:
    """Contexts at which a layer can be compared: entries come as a whole, chunks begin anew."""
    if isinstance(layer, CompressedAttention):
        return layer.ratio or 1
    return getattr(layer, "chunk", None) or 1


# Short ones, near which the limits lie, and long ones.
lengths = st.integers(0, 40) | st.integers(0, 10_000) | st.integers(0, 10**6)


@each_kind
@few
@given(data=st.data(), length=lengths, more=st.integers(1, 10_000))
def test_a_cache_grows_with_the_context_and_ever_more_slowly(kind, data, length, more):
    layer = data.draw(layers_of(kind))
    assert held(layer, length) <= held(layer, length + more)
    step = layer.ratio or 1 if kind is CompressedAttention else 1  # entries come as a whole
    first = step * (length // step)
    one, two, three = (held(layer, first + i * step * more) for i in range(3))
    assert three - two <= (two - one) * (1 + REL)
    assert held(layer, 0) == 0
    limited = isinstance(layer, Attention | LatentAttention) and (
        layer.window or getattr(layer, "chunk", None)
    )
    if limited:
        assert held(layer, limited) == held(layer, limited + more)


@each_kind
@few
@given(data=st.data(), new=st.just(1) | st.integers(1, 10_000), past=lengths, count=batches,
       share=st.floats(0, 1))  # fmt: skip
def test_a_cache_depends_on_the_context_alone_and_a_shared_past_makes_it_no_larger(
    kind, data, new, past, count, share
):
    layer = data.draw(layers_of(kind))
    length, shared = past + new, int(share * past)
    whole = held(layer, length, count=count)
    assert held(layer, length - past, past, count) == whole
    assert close(whole, count * held(layer, length))
    some_shared = held(layer, length - past, past, count, shared)
    assert at_most(some_shared, whole)
    assert at_most(held(layer, length - past, past, count, past), some_shared)
    assert held(layer, length - past, past, count, 0) == whole
    assert held(layer, length - past, past, 1, shared) == held(layer, length)


@each_kind
@few
@given(data=st.data(), length=st.integers(1, 10_000), precision=precisions())
def test_what_holds_something_says_so(kind, data, length, precision):
    layer = data.draw(layers_of(kind))
    model = alone(layer)
    state = layer.state_bytes(precision)
    cache = held(layer, length)
    assert layer.has_cache or state == cache == 0
    assert layer.has_cache or not issubclass(kind, Recurrent)
    assert model.state_bytes(precision) == state
    if layer.has_cache:
        assert close(model.cache_bytes(length, "bf16"), cache)
        assert model.kv_bytes_per_token("bf16", context=length) >= 0
        by_kind = model.cache_by_kind(length, "bf16")
        assert close(sum(by_kind.values()), cache)
        assert set(by_kind) <= {layer.title}
    else:
        with pytest.raises(pm.errors.NoCacheError):
            model.cache_bytes(length)


# -- what moves of cache and state -----------------------------------------------------------------


@each_that_runs
@few
@given(data=st.data(), step=steps(), precision=precisions(), hidden=hiddens)
def test_a_state_is_read_once_and_written_once(kind, data, step, precision, hidden):
    layer = data.draw(layers_of(kind))
    found = [op for op in run(layer, *step.groups, precision=precision, hidden=hidden)
             if op.kind == "scan"]  # fmt: skip
    # Sequences that share all of their past go on from one state.
    wholly = [group.past == group.shared_past for group in step.groups]
    reads = sum(
        (1 if whole else group.count) if group.past else 0
        for group, whole in zip(step.groups, wholly, strict=True)
    )
    recurrence = 0.0
    if isinstance(layer, Recurrent):
        recurrence = layer.state_format(precision).nbytes(layer.state_values)
    scans = total((op for op in found if op.name == "scan"), "kv_bytes")
    assert close(scans, (reads + step.sequences) * recurrence)
    # A convolution needs no more than what is kept of its last inputs, nor writes more of them.
    columns = layer.state_bytes(precision) - recurrence
    others = total((op for op in found if op.name != "scan"), "kv_bytes")
    if kind is CompressedAttention:
        # What waits to be merged moves with the cache, token by token; of it, some stays longer.
        assert others == 0
    else:
        assert others <= (reads + step.sequences) * columns * (1 + REL)
    # However long the past is.
    later = [
        g.model_copy(update={"past": g.past + more, "shared_past": g.shared_past + more * whole})
        for g, whole in zip(step.groups, wholly, strict=True)
        for more in [1000 * (g.past > 0)]
    ]
    again = run(layer, *later, precision=precision, hidden=hidden)
    assert total(again, "kv_bytes", "scan") == total(found, "kv_bytes")


@each_that_runs
@few
@given(data=st.data(), count=batches, past=st.integers(0, 100) | pasts, precision=precisions())
def test_a_decode_step_moves_the_cache_of_its_context(kind, data, count, past, precision):
    layer = data.draw(layers_of(kind))
    group = pm.Group(count=count, new=1, past=past)
    moved = total(run(layer, group, precision=precision), "kv_bytes", "attention", "linear")
    whole = layer.cache_bytes(group, precision.kv)
    if kind is CompressedAttention and layer.ratio is not None:
        # A token that waits for its entry is written now and read when that is made, at twice
        # the numbers of an entry, its gates included, in one series or two.
        entry = layer.head_dim + (layer.indexer.dim if selects(layer) else 0)
        waits = precision.kv.nbytes(2 * (1 + layer.overlap) * entry) * count
        assert moved <= (whole + 2 * waits) * (1 + REL)
    elif getattr(layer, "shares_kv", False):
        # Another layer holds what this one reads; its own are the keys of an indexer.
        assert at_most(whole, moved)
    elif selects(layer) or getattr(layer, "chunk", None) is not None:
        # Of what is held for queries to come, this one reads a part.
        assert at_most(moved, whole)
        assert (past > 0) <= (moved > 0)
    else:
        assert close(moved, whole)


@pytest.mark.parametrize("kind", [k for k in RUN if k is not CompressedAttention], **names)
@few
@given(data=st.data(), count=batches, past=pasts, precision=precisions())
def test_with_full_attention_one_more_token_of_context_moves_one_more(
    kind, data, count, past, precision
):
    layer = unlimited(data.draw(layers_of(kind)))
    assert not layer.clips

    def moved(past: int) -> float:
        group = pm.Group(count=count, new=1, past=past)
        return total(run(layer, group, precision=precision), "kv_bytes", "attention", "linear")

    group = pm.Group(count=count, new=1)
    token = layer.cache_bytes(group, precision.kv)
    if getattr(layer, "shares_kv", False):
        token = copy(layer, shares_kv=False).cache_bytes(group, precision.kv)
    assert abs(moved(past + 1) - moved(past) - token) <= REL * moved(past + 1)


def unlimited(layer: Layer) -> Layer:
    """The same layer, attending all."""
    return copy(layer, window=None, chunk=None, indexer=None)


@pytest.mark.parametrize("kind", [*ATTENTION, LatentAttention], **names)
@few
@given(data=st.data(), step=steps(), hidden=hiddens, precision=precisions())
def test_no_limit_moves_or_computes_more_than_full_attention(kind, data, step, hidden, precision):
    layer = data.draw(layers_of(kind))
    if kind is LatentAttention and layer.form == "auto":
        # Either form moves as much; but the cheaper of two forms is one of them.
        layer = copy(layer, form=data.draw(st.sampled_from(["absorbed", "expanded"])))
    how = {"hidden": hidden, "precision": precision}
    found = run(layer, *step.groups, **how)
    mine = [op for op in found if op.name != "indexer"]
    full = run(unlimited(layer), *step.groups, **how)
    for name in ("kv_bytes", "flops", "pairs"):
        part = total((op for op in mine if op.kind == "attention"), name)
        assert at_most(part, total((op for op in full if op.kind == "attention"), name)), name
    moved = total((op for op in mine if op.kind != "scan"), "kv_bytes")
    assert at_most(moved, total((op for op in full if op.kind != "scan"), "kv_bytes"))


@each_that_runs
@few
@given(data=st.data(), step=steps(), share=st.floats(0, 1), hidden=hiddens, precision=precisions())
def test_a_shared_past_moves_no_more_and_computes_as_much(
    kind, data, step, share, hidden, precision
):
    layer = unchunked(data.draw(layers_of(kind)))
    how = {"hidden": hidden, "precision": precision}

    def shared(part: float) -> tuple[Operation, ...]:
        fields = [dict(g) | {"shared_past": int(part * g.past)} for g in step.groups]
        return run(layer, *(pm.Group(**one) for one in fields), **how)

    none, partly, wholly = shared(0), shared(share), shared(1)
    for less, more in ((wholly, partly), (partly, none)):
        for one, other in zip(less, more, strict=True):
            assert at_most(one.kv_bytes, other.kv_bytes)
            if isinstance(layer, LatentAttention) and layer.form == "expanded":
                # A prefix is expanded once for all that share it.
                assert one.flops <= other.flops
                assert at_most(one.activation_bytes, other.activation_bytes)
            else:
                assert one.flops == other.flops
                assert one.activation_bytes == other.activation_bytes


# -- more is never faster --------------------------------------------------------------------------


@each_that_runs
@few
@given(data=st.data(), gpu=gpus(), count=batches, past=st.integers(0, 100) | pasts,
       more=st.integers(1, 4096), precision=precisions(), hidden=hiddens)  # fmt: skip
def test_a_decode_step_never_gets_faster_as_batch_or_context_grow(
    kind, data, gpu, count, past, more, precision, hidden
):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden)

    def decode(count: int, past: int) -> pm.Estimate:
        step = step_of(count=count, new=1, past=past)
        return pm.estimate(model, gpu, step, precision=precision)

    found, bigger = decode(count, past), decode(count + more, past)
    # A new chunk has nothing before it, and an entry is written in one step of so many: only as
    # far into the next chunk, or to the next entry, there is as much again.
    longer = decode(count, past + strides(layer) * more)
    for other in (bigger, longer):
        assert at_most(found.time, other.time)
        assert at_most(found.floor, other.floor)
        assert at_most(found.bytes, other.bytes)
        assert at_most(found.flops, other.flops)
    assert bigger.tokens_per_second * (1 + REL) >= found.tokens_per_second


@each_that_runs
@few
@given(data=st.data(), count=batches, new=st.integers(1, 40) | st.integers(1, 20_000), past=pasts,
       more=st.integers(1, 4096), hidden=hiddens)  # fmt: skip
def test_a_longer_prompt_is_never_less_work(kind, data, count, new, past, more, hidden):
    layer = data.draw(layers_of(kind))
    if isinstance(layer, LatentAttention) and layer.form == "auto":
        # The form of a longer pass may have fewer FLOPs than that of a single token, and moves
        # other activations: as a whole it is monotone in either form.
        layer = copy(layer, form=data.draw(st.sampled_from(["absorbed", "expanded"])))
    short = run(layer, pm.Group(count=count, new=new, past=past), hidden=hidden)
    long = run(layer, pm.Group(count=count, new=new + more, past=past), hidden=hidden)
    for one, other in zip(short, long, strict=True):
        for name in ("flops", "weight_bytes", "activation_bytes", "tokens", "pairs", "kv_bytes"):
            if kind is CompressedAttention and name == "kv_bytes" and selects(layer):
                continue  # entries written differ by place
            assert at_most(getattr(one, name), getattr(other, name)), name


# -- numbers of any kind ---------------------------------------------------------------------------

arrays = st.lists(
    st.tuples(
        st.integers(1, 4096),
        st.just(1) | st.integers(1, 40) | st.integers(1, 20_000),
        st.just(0) | st.integers(0, 40) | pasts,
    ),
    min_size=1,
    max_size=5,
)


def group_of(count: Any, new: Any, past: Any, shared: Any = 0) -> pm.Group:
    return pm.Group.trusted(count=count, new=new, past=past, logits=1, shared_past=shared)


def forward_unchecked(model: pm.ModelShape, group: pm.Group, precision: Precision, small: str):
    return pm.forward(model, pm.Step.trusted(groups=(group,)), precision, small_steps=small)


@each_kind
@few
@given(data=st.data(), cells=arrays, hidden=hiddens, precision=precisions(), small=small_steps)
def test_arrays_have_the_numbers_of_single_steps(kind, data, cells, hidden, precision, small):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden, 3)
    swept = data.draw(st.sets(st.sampled_from(["count", "new", "past"]), min_size=1))
    shares = data.draw(st.booleans())

    are_swept = [name in swept for name in ("count", "new", "past")]
    # What is not swept is the same in every cell.
    cells = [
        tuple(x if free else y for x, y, free in zip(cell, cells[0], are_swept, strict=True))
        for cell in cells
    ]
    columns = [
        np.array(values, dtype=float) if free else values[0]
        for values, free in zip(zip(*cells, strict=True), are_swept, strict=True)
    ]
    group = group_of(*columns, columns[2] // 2 if shares else 0)
    many = forward_unchecked(model, group, precision, small)
    cache = np.broadcast_to(model.cache_of(group, precision), (len(cells),))
    for row, cell in enumerate(cells):
        single = group_of(*cell, cell[2] // 2 if shares else 0)
        one = forward_unchecked(model, single, precision, small)
        assert [op.name for op in one] == [op.name for op in many]
        for a, b in zip(one, many, strict=True):
            for name in COUNTED:
                found = np.broadcast_to(getattr(b, name), (len(cells),))[row]
                assert close(getattr(a, name), float(found)), (a.name, name)
        assert close(model.cache_of(single, precision), float(cache[row]))


B, N, P, Q = sympy.symbols("B N P Q", positive=True)
SYMBOLS = {"count": B, "new": N, "past": P, "shared": Q}
presets = st.sampled_from(PRESETS).map(Precision.preset)


@each_kind
@few
@given(data=st.data(), precision=presets, small=small_steps)
def test_symbols_become_the_numbers_of_a_step(kind, data, precision, small):
    layer = data.draw(layers_of(kind))
    model = alone(layer, 64, 3)
    free = data.draw(st.sets(st.sampled_from(sorted(SYMBOLS)), min_size=1))
    if "new" not in free:
        free.add("count")
    past = data.draw(st.integers(0, 300))
    picked = {
        "count": data.draw(st.integers(1, 40)),
        "new": data.draw(st.just(1) | st.integers(1, 300)),
        "past": past,
        "shared": data.draw(st.integers(0, past)),
    }
    values = {SYMBOLS[name]: picked[name] for name in free}
    given_ = {name: SYMBOLS[name] if name in free else picked[name] for name in picked}
    formal = pm.symbolic.exact(model)
    closed = forward_unchecked(formal, group_of(*given_.values()), precision, small)
    single = group_of(*picked.values())
    plain = forward_unchecked(model, single, precision, small)
    assert [op.name for op in closed] == [op.name for op in plain]
    for a, b in zip(plain, closed, strict=True):
        for name in COUNTED:
            found = sympy.sympify(getattr(b, name)).subs(values)
            assert not found.free_symbols
            assert close(getattr(a, name), float(found)), (a.name, name)
    held = sympy.sympify(formal.cache_of(group_of(*given_.values()), precision)).subs(values)
    assert close(model.cache_of(single, precision), float(held))
    for name in ("params", "active_params", "non_embedding_params"):
        assert close(getattr(model, name), float(getattr(formal, name)))
    assert close(model.weight_bytes(precision), float(formal.weight_bytes(precision)))
    assert close(model.state_bytes(precision), float(formal.state_bytes(precision)))


# -- records, words, tables ------------------------------------------------------------------------


@each_kind
@few
@given(data=st.data(), hidden=hiddens, repeats=repeats)
def test_a_layer_comes_back_from_json_and_equals_its_like(kind, data, hidden, repeats):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden, repeats)
    again = pm.ModelShape.model_validate_json(model.model_dump_json())
    assert again == model
    [(_, (same,))] = again.blocks
    assert type(same) is kind
    assert same == layer == layer.model_copy() == kind.model_validate(layer.model_dump())
    assert hash(same) == hash(layer)
    assert again.distinct_layers == model.distinct_layers == ((repeats, layer),)
    # What has been counted once is no part of what is equal.
    assert model.weight_bytes() == 2 * model.params
    assert len(layer.costs(hidden, BF16)) == len(layer.matrices(hidden))
    assert again == model
    assert hash(same) == hash(layer)
    if kind is not Totals:
        rows = ((1, (layer, same)), (repeats, (layer,)))
        twice = pm.ModelShape(hidden=hidden, blocks=rows)
        assert twice.distinct_layers == ((repeats + 2, layer),)
        whole, step = alone(layer, hidden, repeats + 2), step_of(count=2, new=3)
        assert twice.params == whole.params
        assert pm.forward(twice, step) == pm.forward(whole, step)


@each_kind
@few
@given(data=st.data(), other=st.data(), hidden=hiddens)
def test_with_changes_any_field_as_a_copy_of_the_layer_does(kind, data, other, hidden):
    layer = data.draw(layers_of(kind))
    model = alone(layer, hidden, 2)
    different = dict(other.draw(layers_of(kind)))
    for name in sorted(set(kind.model_fields) - {"kind"}):
        value = different[name]
        if type(value) is int:  # a number beside what was drawn: perhaps it fits no more
            value += other.draw(st.sampled_from([0, 1]))
        try:
            expected = layer.model_copy(update={name: value})
        except InvalidValueError:
            with pytest.raises(InvalidValueError):
                model.with_(**{name: value})
        else:
            changed = model.with_(**{name: value})
            assert changed == alone(expected, hidden, 2)
            assert changed.params == 2 * expected.params(hidden)
            assert (changed == model) == (getattr(layer, name) == value)


@given(model=any_models(), precision=precisions())
def test_a_table_of_any_model_adds_up_to_it(model, precision):
    frame = model.to_frame(precision)
    assert frame["params"].sum() == model.params
    assert close(frame["active_params"].sum(), model.active_params)
    assert close(frame["weight_bytes"].sum(), model.weight_bytes(precision))
    assert close(frame["state_bytes"].sum(), model.state_bytes(precision))
    first = pm.Group(count=1, new=1)
    assert close(frame["cache_bytes_per_token"].sum(), model.cache_of(first, precision))
    ends = sum(end is not None for end in (model.embedding, model.head))
    assert len(frame) == ends + sum(count * len(row) for count, row in model.blocks)
    assert set(frame["layer"]) >= {layer.title for _, layer in model.distinct_layers}


@given(model=any_models())
def test_any_model_describes_every_kind_of_layer_it_has(model):
    told = model.describe().split("\n")
    assert f"{model.params:,} parameters" in told[0]
    assert len(told) >= 1 + len(model.distinct_layers)
    for (count, layer), line in zip(model.distinct_layers, told[1:], strict=False):
        assert re.match(rf"  {count} x {re.escape(layer.title)}($|: \S.*\S$)", line), line


@given(model=any_models(), precision=precisions())
def test_any_model_comes_back_from_json(model, precision):
    again = pm.ModelShape.model_validate_json(model.model_dump_json())
    assert again == model
    assert again.params == model.params
    assert again.weight_bytes(precision) == model.weight_bytes(precision)


BEFORE = ("embedding", "embedding_up", "embedding norm")
AFTER = ("last norm", "head_down", "head")


@given(model=any_models(), step=steps(), precision=precisions(), small=small_steps)
def test_any_model_is_its_layers_between_its_ends(model, step, precision, small):
    parts = [alone(layer, model.hidden, count) for count, layer in model.distinct_layers]
    how = {"small_steps": small}
    found = pm.forward(model, step, precision, **how)
    before = [op for op in found if op.name in BEFORE]
    after = [op for op in found if op.name in AFTER]
    layers = [op for part in parts for op in pm.forward(part, step, precision, **how)]
    assert list(found) == [*before, *layers, *after]
    bare = model.with_(embedding=None, head=None)
    assert bare.params == sum(part.params for part in parts)
    for name in ("active_params", "non_embedding_params"):
        assert close(getattr(bare, name), sum(getattr(part, name) for part in parts))
    assert close(bare.weight_bytes(precision), sum(part.weight_bytes(precision) for part in parts))
    for group in step.groups:
        caches = sum(part.cache_of(group, precision) for part in parts)
        assert close(model.cache_of(group, precision), caches)
    states = sum(part.state_bytes(precision) for part in parts)
    assert close(model.state_bytes(precision), states)
    if found:
        memory = pm.estimate(model, CHIP, step, precision=precision, **how).memory
        assert close(memory.state, step.sequences * states)
