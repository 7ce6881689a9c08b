"""Layers of constant state: their sizes, what their state costs, and both forms of the recurrence.

Models are rebuilt from published sizes. A total named "published" is the number of parameters that
the checkpoint's own files sum up to, or that its paper states; FLOPs named "counted" are the matrix
products and convolutions that were seen while the class of Transformers 5.24 ran.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError
from perfmodel.work.layers import (
    Attention,
    FeedForward,
    Mamba,
    Mamba2,
    MixtureOfExperts,
    Projection,
    RgLru,
)
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.recurrent import Recurrent

H100 = pm.GpuSpec(
    name="H100", memory_bandwidth=3.35e12, memory_capacity=80e9, peak_flops={"bf16": 989e12}
)


def model(hidden: int, vocab: int, *blocks: tuple[int, tuple], tied: bool = False) -> pm.ModelShape:
    return pm.ModelShape(
        hidden=hidden, vocab=vocab, blocks=blocks, embedding=Embedding(), head=Head(tied=tied)
    )


def operations(shape: pm.ModelShape, **group: int) -> dict[str, pm.Operation]:
    step = pm.Step(groups=(pm.Group(**group),))
    return {op.name: op for op in pm.forward(shape, step, "bf16")}


def of(name: str, layer: Recurrent, **group: int) -> pm.Operation:
    """One operation of one layer, on a stream of 64."""
    return operations(pm.ModelShape(hidden=64, blocks=((1, (layer,)),)), **group)[name]


# Mamba-2 of 2.7 B: 64 layers of width 2560; 5120 channels in 80 heads of 64; 128 state numbers a
# channel; one group; a convolution over 4 tokens; 50,288 tokens, tied.
MAMBA_2 = Mamba2(heads=80, head_dim=64, groups=1, state=128, chunk_size=256)
MAMBA_2_7B = model(2560, 50_288, (64, (MAMBA_2,)), tied=True)

# Falcon-Mamba-7B: 64 layers of width 4096; 8192 channels of 16 state numbers; time steps from 256.
MAMBA = Mamba(inner=8192, state=16, dt_rank=256)
FALCON_MAMBA = model(4096, 65_024, (64, (MAMBA,)))

# Falcon-H1-0.5B: 36 blocks of width 1024: 8 heads of 64, 2 of them keys and values, beside 24 heads
# of 64 channels with 128 state numbers; then a feed-forward layer 2048 wide.
H1_BOTH = (
    Attention(heads=8, kv_heads=2, head_dim=64),
    Mamba2(heads=24, head_dim=64, groups=1, state=128, norm=None, gated_norm=False, chunk_size=256),
)
FALCON_H1 = model(1024, 32_784, (36, (*H1_BOTH, FeedForward(width=2048))))


def jamba() -> pm.ModelShape:
    """Jamba v0.1: of 8 layers the fifth attends; of 2 the second has 16 experts, 2 a token."""
    full = Attention(heads=32, kv_heads=8, head_dim=128)
    scan = Mamba(inner=8192, state=16, dt_rank=256, inner_norms=True)
    dense = FeedForward(width=14336)
    sparse = MixtureOfExperts(experts=16, top_k=2, width=14336)
    rows = [(full if i == 4 else scan, sparse if i % 2 else dense) for i in range(8)]
    return model(4096, 65_536, *((1, row) for row in 4 * rows))


JAMBA = jamba()


# -- parameters ---------------------------------------------------------------------------------


def test_parameters_of_mamba_2():
    channels = 5120 + 2 * 128  # of the convolution: the heads' and both maps of the one group
    matrices = 2560 * (5120 + channels + 80) + 5120 * 2560  # gate, channels, time steps; out
    vectors = channels * 4 + channels  # the convolution and its bias
    vectors += 3 * 80  # decay, skip and time step bias a head
    vectors += 5120 + 2560  # the gated norm, the norm before
    assert MAMBA_2.params(2560) == matrices + vectors == 40_216_560
    # Embedding, 64 layers, last norm: published, as 2.7 B in the paper.
    assert MAMBA_2_7B.params == 50_288 * 2560 + 64 * 40_216_560 + 2560 == 2_702_599_680


def test_parameters_of_mamba():
    matrices = 4096 * 2 * 8192  # channels and gate
    matrices += 8192 * (256 + 2 * 16)  # the time steps' latent and the state's maps
    matrices += 256 * 8192 + 8192 * 4096  # time steps, out
    vectors = 8192 * (4 + 1)  # the convolution and its bias
    vectors += 8192 * 16 + 8192 + 8192  # a decay a state number; skip and time step bias a channel
    assert MAMBA.params(4096) == matrices + vectors + 4096
    assert FALCON_MAMBA.params == 7_272_665_088  # published


def test_parameters_of_a_hybrid_with_experts():
    assert JAMBA.params == 51_570_323_328  # published
    assert round(JAMBA.active_params / 1e9) == 12  # "12B active" of "52B" in its paper


def test_parameters_of_attention_and_state_space_side_by_side():
    assert FALCON_H1.params == 521_411_104  # published


def test_parameters_of_a_gated_recurrence():
    # RecurrentGemma-2B: 26 layers of width 2560, every third attends: 10 heads of 256, one of them
    # keys and values; 18 recurrences of 2560 channels, whose gates mix 10 blocks of 256.
    recurrent = RgLru(channels=2560, gate_blocks=10, conv_state=3)
    matrices = 2560 * 2 * 2560 + 2 * 10 * 256 * 256 + 2560 * 2560  # branches, gates, out
    vectors = 4 * 2560 + 2560  # biases of branches and gates; of the projection out
    vectors += 4 * 2560 + 2560 + 2560  # the convolution, its bias, a decay a channel
    assert recurrent.params(2560) == matrices + vectors + 2560
    local = Attention(heads=10, kv_heads=1, head_dim=256, window=2048, output_bias=True)
    dense = FeedForward(width=7680, bias=True)
    kinds = itertools.islice(itertools.cycle((recurrent, recurrent, local)), 26)
    griffin = model(2560, 256_000, *((1, (kind, dense)) for kind in kinds), tied=True)
    assert griffin.params == 2_682_862_080  # published: 2.0 B and an embedding of 0.7 B
    assert griffin.state_bytes("bf16") == 18 * 2560 * (3 * 2 + 4)  # 3 columns in bf16, fp32
    # Past the window, the cache has stopped growing too.
    assert griffin.kv_bytes_per_token("bf16", context=1) == 8 * 2 * 256 * 2
    assert griffin.kv_bytes_per_token("bf16", context=2049) == 0


def test_parameters_of_one_block_at_several_depths():
    # Zamba-7B: 76 Mamba layers of width 3712, their 7424 channels in 2 groups; 13 times, from the
    # third layer on, the one block of 16 heads of 464 that reads 2 x 3712 numbers.
    scan = Mamba(inner=7424, state=16, dt_rank=232, groups=2)
    full = Attention(heads=16, kv_heads=16, head_dim=464, source=7424)
    dense = FeedForward(width=14848)
    again = tuple(part.model_copy(update={"reused": True}) for part in (full, dense))
    zamba = model(
        3712,
        32_000,
        (63, (scan,)),
        (1, (full, dense, Projection(norm=None), scan)),
        (12, (*again, Projection(norm=None), scan)),
        tied=True,
    )
    assert zamba.params == 7_232_490_496  # published
    # Every depth caches its own keys and values, and reads the block's weights anew.
    assert zamba.kv_bytes_per_token("bf16") == 13 * 2 * 7424 * 2
    once = 2 * (full.params(3712) + dense.params(3712) - 7424 - 3712)  # matrices alone
    assert full.weight_bytes(3712, pm.Precision.preset("bf16")) > 0 == again[0].params(3712)
    read = pm.decode(zamba, H100, batch=1, context=1, precision="bf16").weight_traffic
    matrices = sum(m.copies * m.inner * m.outer for m in scan.matrices(3712))
    assert read == 13 * once + 2 * (76 * matrices + 13 * 3712**2 + 3712 * 32_000)


def test_parameters_of_an_adapter():
    # Zamba2: 5120 numbers through 128 and back.
    adapter = Projection(inputs=5120, outputs=5120, rank=128, norm=None)
    assert adapter.params(2560) == 2 * 5120 * 128
    assert Projection(norm=None).params(2560) == 2560**2


# -- what a sequence holds ----------------------------------------------------------------------


def test_the_state_of_mamba_2():
    # 80 heads of 64 channels with 128 numbers of 4 B; 4 columns of 5376 channels of 2 B.
    assert MAMBA_2_7B.state_bytes("bf16") == 64 * (80 * 64 * 128 * 4 + 4 * 5376 * 2)


@pytest.mark.parametrize(
    ("shape", "counted"), [(FALCON_MAMBA, 37_748_736), (FALCON_H1, 28_827_648)]
)
def test_state_as_transformers_keeps_it(shape, counted):
    assert shape.state_bytes("bf16") == counted


def test_engines_keep_one_column_less():
    kept = MAMBA_2_7B.with_(conv_state=3)
    assert kept.state_bytes("bf16") == 64 * (80 * 64 * 128 * 4 + 3 * 5376 * 2)
    assert kept.params == MAMBA_2_7B.params
    assert MAMBA_2_7B.with_(conv_state=0).state_bytes("bf16") == 64 * 80 * 64 * 128 * 4


def test_the_recurrence_keeps_the_format_that_the_precision_names():
    bf16 = pm.Precision.preset("bf16")
    narrow = bf16.model_copy(update={"name": "narrow", "state": bf16.kv})
    assert MAMBA_2_7B.state_bytes(narrow) == 64 * (80 * 64 * 128 * 2 + 4 * 5376 * 2)


@pytest.mark.parametrize("shape", [MAMBA_2_7B, FALCON_MAMBA, FALCON_H1, JAMBA])
def test_state_is_the_same_at_any_context(shape):
    short, long = (pm.memory(shape, H100, batch=3, context=n, precision="bf16") for n in (1, 4096))
    assert short.state == long.state == 3 * shape.state_bytes("bf16")


@pytest.mark.parametrize("shape", [MAMBA_2_7B, FALCON_MAMBA])
def test_a_state_space_alone_has_no_growing_cache(shape):
    assert shape.has_cache
    assert shape.cache_bytes(1, "bf16") == shape.cache_bytes(10**6, "bf16") == 0


def test_16_only_the_attention_of_a_hybrid_caches():
    # Jamba's paper: 4 GB at a context of 256 K, where every layer of Mixtral makes it 32 GB.
    assert JAMBA.kv_bytes_per_token("bf16") == 4 * 2 * 8 * 128 * 2
    assert JAMBA.cache_bytes(2**18, "bf16") == 4 * 2**30
    assert JAMBA.layers * 2 * 8 * 128 * 2 == 8 * JAMBA.kv_bytes_per_token("bf16")  # the mistake
    assert set(JAMBA.cache_by_kind(1000, "bf16")) == {"attention"}


def test_attention_and_state_space_side_by_side_hold_both():
    token = 36 * 2 * 2 * 64 * 2
    assert FALCON_H1.kv_bytes_per_token("bf16") == token == 18_432
    one, two = (pm.memory(FALCON_H1, H100, batch=1, context=n, precision="bf16") for n in (1, 2))
    assert one.state == two.state == 28_827_648
    assert two.needed - one.needed == token


# -- what a step moves --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "times", "columns"),
    [
        # decode: the state is read and written; of the convolution's inputs three are read, and the
        # new one is written
        ({"count": 1, "new": 1, "past": 100}, 2, 3 + 1),
        ({"count": 8, "new": 1, "past": 100}, 2 * 8, 8 * (3 + 1)),
        ({"count": 8, "new": 1, "past": 9000}, 2 * 8, 8 * (3 + 1)),  # at any context
        # a chunk of a prompt: once for all its tokens, of which the last three are kept
        ({"count": 1, "new": 512, "past": 512}, 2, 3 + 3),
        ({"count": 1, "new": 512}, 1, 3),  # without a past there is nothing to read
        ({"count": 4, "new": 1}, 4, 4),
        # all share all of their past: one state stands for it
        ({"count": 8, "new": 1, "past": 100, "shared_past": 100}, 1 + 8, 3 + 8),
        ({"count": 8, "new": 1, "past": 100, "shared_past": 99}, 2 * 8, 8 * (3 + 1)),
    ],
)
def test_state_traffic(group, times, columns):
    ops = operations(MAMBA_2_7B, **group)
    assert ops["scan"].kv_bytes == times * 80 * 64 * 128 * 4
    assert ops["convolution"].kv_bytes == columns * 5376 * 2
    assert ops["scan"].calls == ops["convolution"].calls == 64


def test_a_decode_step_moves_state_twice_and_no_cache():
    step = pm.decode(MAMBA_2_7B, H100, batch=8, context=1000, precision="bf16")
    state, column = 64 * 80 * 64 * 128 * 4, 64 * 5376 * 2
    assert MAMBA_2_7B.state_bytes("bf16") == state + 4 * column
    assert step.kv_traffic == 8 * (2 * state + (3 + 1) * column)
    longer = pm.decode(MAMBA_2_7B, H100, batch=8, context=100_000, precision="bf16")
    assert longer.time == step.time


def test_what_passes_by_grows_with_tokens():
    # Mamba-2: 5376 channels after the convolution, the gate, 80 time steps in; 5120 channels out.
    passed = 5376 + 5120 + 80 + 5120
    for tokens in (1, 7):
        assert of("scan", MAMBA_2, count=1, new=tokens).activation_bytes == tokens * passed * 2
        assert of("convolution", MAMBA_2, count=1, new=tokens).activation_bytes == (
            tokens * 2 * 5376 * 2
        )


# -- what it computes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layer", "flops"),
    [
        # decay, input, output: a = decay x a; a = a + input x channel; channel = sum a x output
        (MAMBA_2, (1 + 2 + 2) * 80 * 64 * 128),
        # and each number's own decay: the exponential of a product
        (MAMBA, (2 + 1 + 2 + 2) * 8192 * 16),
        # decay: exponential, product, applied; input: 1 - a squared, its root, two products, added
        (RgLru(channels=2560, gate_blocks=10), (2 + 1 + 5 + 1) * 2560),
    ],
)
def test_the_recurrent_form_is_linear_in_tokens(layer, flops):
    for tokens in (1, 2, 300):
        assert of("scan", layer, count=3, new=tokens).flops == 3 * tokens * flops
        chunk = of("scan", layer, count=3, new=tokens, past=5)
        assert chunk.flops == 3 * tokens * flops


def test_a_convolution_multiplies_each_channel_by_its_kernel():
    assert of("convolution", MAMBA_2, count=2, new=10).flops == 2 * 10 * 2 * 4 * 5376


def chunked(tokens: int, layer: Mamba2 = MAMBA_2, **group: int) -> float:
    form = layer.model_copy(update={"scan": "chunked"})
    return of("scan", form, count=1, new=tokens, **group).flops


def test_the_chunked_form_is_the_sum_of_its_products():
    c, h, p, n = 256, 80, 64, 128
    one = 2 * c * c * h * n  # scores: both maps of all pairs of a chunk
    one += 2 * c * c * h * p  # their sums of the channels
    one += 2 * c * h * p * n  # what the chunk adds to the state
    one += 2 * c * h * p * n  # what the state before it adds to the channels
    state = 2 * h * p * n  # all chunks' states, and the first, times the decays between them
    assert chunked(512) == 2 * one + 3 * 3 * state
    assert chunked(257) == chunked(512)  # a last, partial chunk is filled up
    assert chunked(2) == chunked(256) == one + 2 * 2 * state
    assert chunked(256, past=1000) == chunked(256)
    # Three times the FLOPs of the recurrence, for the sake of matrix units.
    assert chunked(512) > 3 * of("scan", MAMBA_2, count=1, new=512).flops


def test_the_chunked_form_as_counted():
    # Falcon-H1-0.5B, a prompt of 32 tokens in one chunk of 256.
    shape = FALCON_H1.with_(scan="chunked")
    assert 36 * operations(shape, count=1, new=32)["scan"].flops == 29_047_652_352
    assert 36 * operations(shape, count=2, new=64)["scan"].flops == 58_095_304_704
    # Its convolutions also ran over three columns of zeros behind the 32.
    assert 36 * operations(shape, count=1, new=32)["convolution"].flops == 18_063_360 * 32 / 35


def test_one_token_runs_recurrent_in_any_form():
    assert chunked(1, past=99) == of("scan", MAMBA_2, count=1, new=1, past=99).flops
    # Its only matrix product, of the state and its output map, as counted in Falcon-H1-0.5B.
    assert 36 * 2 * H1_BOTH[1].state_values == 14_155_776


@pytest.mark.parametrize("layer", [MAMBA, RgLru(channels=2560, gate_blocks=10)])
def test_a_state_that_decays_number_by_number_has_no_chunked_form(layer):
    form = layer.model_copy(update={"scan": "chunked"})
    assert of("scan", form, count=2, new=77).flops == of("scan", layer, count=2, new=77).flops
    assert layer.chunk_flops is None


def test_arrays_of_prompts_cost_what_each_costs():
    form = pm.ModelShape(
        hidden=64, blocks=((1, (MAMBA_2.model_copy(update={"scan": "chunked"}),)),)
    )
    lengths = [1, 2, 256, 257]
    group = pm.Group.trusted(count=1, new=np.array(lengths), past=0, logits=0, shared_past=0)
    *_, scan, _ = pm.forward(form, pm.Step.trusted(groups=(group,)), "bf16")
    assert list(scan.flops) == [chunked(tokens) for tokens in lengths]


def test_projections_are_those_of_the_layer():
    ops = operations(MAMBA_2_7B, count=2, new=3)
    assert ops["in"].flops == 2 * 6 * 2560 * (2 * 5120 + 2 * 128 + 80)
    assert ops["output"].flops == 2 * 6 * 5120 * 2560
    ops = operations(FALCON_MAMBA, count=2, new=3)
    assert ops["select"].flops == 2 * 6 * 8192 * (256 + 2 * 16)
    assert ops["time_step"].flops == 2 * 6 * 256 * 8192


def test_groups_make_their_own_maps():
    # Zamba: 2 groups of 3712 channels, each with time steps from 232 and two maps of 16.
    scan = Mamba(inner=7424, state=16, dt_rank=232, groups=2)
    assert of("select", scan, count=1, new=1).flops == 2 * 2 * 3712 * (232 + 2 * 16)
    alone = Mamba(inner=7424, state=16, dt_rank=232)
    assert scan.params(3712) == alone.params(3712)
    assert scan.passed_values == alone.passed_values + 2 * 16


def test_gates_of_a_recurrence_are_block_diagonal():
    gates = of("gates", RgLru(channels=2560, gate_blocks=10), count=1, new=32)
    # Counted in 18 layers of RecurrentGemma: 1,509,949,440 for 32 tokens.
    assert 18 * gates.flops == 18 * 2 * 32 * 2 * 10 * 256 * 256 == 1_509_949_440


def test_norms_within_a_layer_run_apart_when_steps_do():
    def small(layer: Recurrent) -> set[str]:
        shape = pm.ModelShape(hidden=64, blocks=((1, (layer,)),))
        step = pm.Step(groups=(pm.Group(count=1, new=1),))
        ops = pm.forward(shape, step, "bf16", small_steps="separate")
        return {op.name for op in ops if op.kind == "small"}

    assert small(MAMBA_2) == {"norm", "gated norm", "residual"}
    assert small(MAMBA) == {"norm", "residual"}
    assert "selection norm" in small(MAMBA.model_copy(update={"inner_norms": True}))


# -- contradictions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Mamba2(heads=10, head_dim=64, groups=4, state=16), "Mamba2.heads"),
        (lambda: Mamba(inner=10, state=16, dt_rank=4, groups=4), "Mamba.inner"),
        (lambda: RgLru(channels=10, gate_blocks=4), "RgLru.channels"),
        (lambda: MAMBA_2_7B.with_(chunk_size=0), "chunk_size"),
        (lambda: MAMBA_2_7B.with_(conv_state=-1), "conv_state"),
        (lambda: MAMBA_2_7B.with_(scan="parallel"), "scan"),
    ],
)
def test_sizes_that_contradict_each_other(make, field):
    with pytest.raises(InvalidValueError, match=field):
        make()
