"""What policies make of memory: three sizes of a cache, shares, searches, and what would help."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import perfmodel as pm
from perfmodel.answers.holding.policies import POLICIES

GIB = 2**30
LLAMA = pm.model("llama-3.1-8b")  # 131,072 B a token in bf16
H100 = pm.gpu("h100-sxm")
policy = pm.MemoryPolicy.preset


def chip(capacity: float) -> pm.GpuSpec:
    return pm.GpuSpec(
        name="x",
        memory_bandwidth=1e12,
        memory_capacity=capacity,
        peak_flops={"bf16": 1e14, "fp8": 2e14},
    )


# -- three sizes of a cache ------------------------------------------------------------------------


def test_the_default_counts_exact_bytes_and_nothing_else():
    held = pm.memory(LLAMA, H100, batch=3, context=1001)
    assert held == pm.memory(LLAMA, H100, batch=3, context=1001, policy="logical")
    assert held.kv == 3 * 1001 * 131_072
    assert held.needed == held.weights + held.kv
    assert (held.paged, held.allocated, held.budget) == (None, None, None)
    assert held.activations == held.reserve == 0


def test_exact_paged_and_allocated_are_three_numbers():
    """Three sequences of 1,001 tokens take 63 blocks of 16 each; the engine takes 90 %."""
    held = pm.memory(LLAMA, H100, batch=3, context=1001, policy="vllm")
    assert held.kv == 3 * 1001 * 131_072
    assert held.paged == 3 * 63 * 16 * 131_072
    pool = 0.9 * H100.capacity - held.weights - held.activations
    assert held.allocated == pytest.approx(pool, rel=1e-12)
    assert held.needed == held.weights + held.paged + held.activations
    assert held.limit == held.budget == pytest.approx(0.9 * H100.capacity)
    assert held.fits


def test_shares_of_the_total_and_of_what_is_free():
    """80 of which 50 are weights, 2 activations, 1 reserve: 0.9 * 80 - 53, and 0.9 * (80 - 53)."""
    fixed = {"total": 80.0, "weights": 50.0, "activations": 2.0, "reserve": 1.0}
    assert policy("vllm").pool_bytes(**fixed) == pytest.approx(19.0)
    assert policy("tensorrt-llm").pool_bytes(**fixed) == pytest.approx(24.3)
    assert policy("lmdeploy").pool_bytes(**fixed) == pytest.approx(21.6)
    assert policy("llama.cpp").pool_bytes(**fixed) == pytest.approx(27.0)
    assert policy("vllm", reserve=3.0).pool_bytes(total=80.0, weights=50.0) == pytest.approx(19.0)


def test_a_reserve_is_asked_for_and_counts():
    more = policy("vllm", reserve=2e9)
    assert policy("vllm").reserve == 0
    plain, reserved = (
        pm.memory(LLAMA, H100, batch=1, context=100, policy=rule) for rule in ("vllm", more)
    )
    assert reserved.reserve == 2e9
    assert reserved.needed - plain.needed == 2e9
    assert plain.allocated - reserved.allocated == pytest.approx(2e9)


def test_the_activation_peak_is_the_widest_operation_of_the_largest_step():
    """Llama-3.1-8B, 8,192 tokens in bf16: the product of gate and up reads 2 x 14,336 numbers a
    token and writes 14,336, beside the residual's 4,096: 8,192 * 47,104 * 2 B.
    """
    held = pm.memory(LLAMA, H100, batch=1, context=100, policy="vllm", precision="bf16")
    assert held.activations == 8192 * (3 * 14_336 + 4096) * 2


def test_a_longer_step_leaves_fewer_tokens():
    """As vLLM found without chunks of prefill (vllm-project/vllm#10517)."""
    short, long = (
        pm.kv_pool(LLAMA, H100, policy=policy("vllm", step_tokens=tokens))
        for tokens in (2048, 29_000)
    )
    assert long.tokens < short.tokens


def test_logits_can_be_the_peak():
    """llama.cpp: 512 tokens, 4,096 numbers in and 128,256 out, all in fp32."""
    held = pm.memory(LLAMA, H100, batch=1, context=100, policy="llama.cpp")
    assert held.activations == 512 * (4096 + 128_256) * 4


def test_llama_cpp_takes_what_is_asked_and_no_more():
    held = pm.memory(LLAMA, H100, batch=2, context=300, policy="llama.cpp")
    assert held.paged == held.allocated == 2 * 512 * 131_072
    assert held.limit == H100.capacity


def test_whole_blocks_of_a_shared_prefix_are_held_once():
    """1,000 tokens are 63 blocks of 16; of 500 that four sequences share, 31 are whole."""
    asked = {"batch": 4, "context": 1000, "precision": "bf16", "shared_past": 500}
    held = pm.memory(LLAMA, H100, policy="vllm", **asked)
    assert held.paged == (4 * 63 - 3 * 31) * 16 * 131_072
    assert held.kv == (4 * 1000 - 3 * 500) * 131_072
    cells = pm.memory(LLAMA, H100, policy="llama.cpp", **asked)
    assert cells.paged == 4 * 1024 * 131_072  # each sequence has a row of its own


def test_a_window_shares_no_blocks():
    """Four layers of each kind; only those that keep all tokens share 31 of 63 blocks."""
    asked = {"batch": 4, "context": 1000, "precision": "bf16", "shared_past": 500}
    block = 4 * 16 * 2 * 2 * 64 * 2
    for name, mine in {"vllm": 63 + 11, "tensorrt-llm": 63 + 7}.items():
        rule = policy(name, block=16, step_tokens=50)
        held = pm.memory(alternating(100), H100, policy=rule, **asked)
        assert held.paged == (4 * mine - 3 * 31) * block


# -- windows, latents, states ----------------------------------------------------------------------


def alternating(window: int, layers: int = 4) -> pm.ModelShape:
    attention = {"heads": 8, "kv_heads": 2, "head_dim": 64}
    row = (pm.Attention(**attention, window=window), pm.Attention(**attention))
    return pm.ModelShape(hidden=512, blocks=((layers, row),))


def test_groups_hold_a_window_and_a_step():
    """Blocks of 16: 1,000 tokens fill 63; a window of 100 and a step of 50 fill 10 and one more."""
    rule = policy("vllm", step_tokens=50)
    pool = pm.kv_pool(alternating(100), blocks=1000, max_len=1000, policy=rule)
    assert (pool.tables, pool.blocks_per_request) == (2, 63 + 10 + 1)
    assert pool.block_bytes == 4 * 16 * 2 * 2 * 64 * 2
    assert pool.concurrency == pytest.approx(1000 / 74)
    assert pool.tokens == int(1000 / 74 * 1000)


def test_a_layout_in_groups_shows_the_blocks_of_each_kind():
    """A window of 100 and a step of 50 tokens: 11 blocks of 16; 1,000 tokens: 63."""
    rule = policy("vllm", step_tokens=50)
    held = pm.kv_layout(alternating(100), batch=3, context=1000, policy=rule)
    assert [(row.kind, row.cells) for row in held.caches] == [
        ("window attention", 11 * 16),
        ("attention", 63 * 16),
    ]
    assert held.paged == sum(row.keys + row.values for row in held.caches)


def test_other_ways_to_hold_a_window():
    """100 of 1,000 tokens: all of them, 112 in blocks of 16, 256 in cells by 256 with a step."""
    shape, how = alternating(100), {"batch": 1, "context": 1000}
    cells = {
        name: [row.cells for row in pm.kv_layout(shape, policy=rule, **how).caches]
        for name, rule in {
            "vllm-v0": "vllm-v0",
            "tensorrt-llm": policy("tensorrt-llm", block=16),
            "llama.cpp": policy("llama.cpp", step_tokens=50),
            "logical": "logical",
        }.items()
    }
    assert cells == {
        "vllm-v0": [1008, 1008],
        "tensorrt-llm": [112, 1008],
        "llama.cpp": [256, 1024],
        "logical": [100, 1000],
    }


def test_groups_are_as_large_as_the_smaller_kind_unless_they_are_nearly_equal():
    """12 windows beside 13 full layers are padded to 13; 10 full beside 50 windows make 1 + 5."""

    def shape(windows: int, full: int) -> pm.ModelShape:
        attention = {"heads": 8, "kv_heads": 2, "head_dim": 64}
        window, whole = pm.Attention(**attention, window=100), pm.Attention(**attention)
        return pm.ModelShape(hidden=512, blocks=((windows, (window,)), (full, (whole,))))

    one = 16 * 2 * 2 * 64 * 2
    near, far = (pm.kv_pool(shape(*of), blocks=1) for of in ((12, 13), (50, 10)))
    assert (near.tables, near.block_bytes) == (2, 13 * one)
    assert (far.tables, far.block_bytes) == (6, 10 * one)


def test_latents_have_blocks_of_their_own_and_can_be_expanded():
    """DeepSeek-V2-Lite: 27 layers of 512 + 64 numbers, or 16 heads of 192 keys and 128 values."""
    model = pm.model("deepseek-v2-lite")
    latent = pm.kv_pool(model, blocks=1, precision="bf16")
    assert (latent.block_tokens, latent.block_bytes) == (64, 64 * 27 * 576 * 2)
    expanded = pm.kv_pool(
        model, blocks=1, precision="bf16", policy=policy("vllm", latents="expanded")
    )
    assert expanded.block_bytes == 16 * 27 * 16 * (192 + 128) * 2
    # Its transpose, beside it: 512 numbers without positions.
    rule = policy("llama.cpp", latents="transposed")
    (row,) = pm.kv_layout(model, batch=1, context=256, precision="bf16", policy=rule).caches
    assert (row.keys, row.values) == (256 * 27 * 576 * 2, 256 * 27 * 512 * 2)
    # An fp8 latent, plain and with scales: 576 B, and 512 + 4 * 4 + 64 * 2 = 656 B.
    for scaled, token in ((False, 576), (True, 656)):
        rule = policy("vllm", scaled_latents=scaled)
        one = pm.kv_pool(model, blocks=1, precision="bf16+kv8", policy=rule)
        assert one.block_bytes == 64 * 27 * token


def test_a_block_of_attention_holds_a_state():
    """Qwen3.6-27B: a state of 3,207,168 B, 4,096 B a token and layer: 783, by 16 that is 784."""
    pool = pm.kv_pool(pm.model("qwen3.6-27b"), blocks=1, max_len=7840, precision="bf16")
    assert (pool.block_tokens, pool.tables) == (784, 4)
    assert pool.block_bytes == 16 * 784 * 4096
    assert pool.blocks_per_request == 10 + 3 * 2


def test_drafted_tokens_need_states_and_columns():
    """Two drafts: two more columns of 10,240 channels in bf16, two more blocks a group."""
    model, rule = pm.model("qwen3.6-27b"), policy("sglang", draft_tokens=2)
    plain, drafting = (
        pm.kv_layout(model, batch=1, context=1, policy=name).states[0] for name in ("sglang", rule)
    )
    assert drafting.conv - plain.conv == 2 * 48 * 2 * 10_240 * 2
    pool = pm.kv_pool(model, blocks=1, max_len=1, policy=policy("vllm", draft_tokens=2))
    assert pool.blocks_per_request == 1 + 3 * 4


def test_states_alone_fill_blocks_too():
    model = pm.model("falcon-mamba-7b")
    pool = pm.kv_pool(model, available=1e9, max_len=1_000_000)
    assert pool.block_tokens == 0
    assert pool.blocks_per_request == 2
    assert pool.longest is None


def test_entries_that_stand_for_several_tokens_fill_no_blocks():
    with pytest.raises(pm.errors.InvalidValueError, match=r"policy: .* several tokens"):
        pm.kv_pool(pm.model("deepseek-v4-flash"), available=1e9)
    assert pm.memory(pm.model("deepseek-v4-flash"), H100, batch=1, context=100).kv > 0


# -- drafts and extra blocks -----------------------------------------------------------------------


def test_extra_blocks_count_where_they_are_asked_for():
    model = pm.model("deepseek-v3")
    asked = {"batch": 1, "context": 100, "precision": "bf16"}
    without, with_ = (pm.memory(model, H100, mtp=mtp, **asked) for mtp in (False, True))
    assert with_.weights - without.weights == 2 * model.mtp_params
    assert with_.kv - without.kv == 100 * 576 * 2  # one layer more


def test_a_draft_counts_with_its_own_cache():
    draft = pm.model("llama-3.2-1b")
    asked = {"batch": 2, "context": 100, "precision": "bf16"}
    alone, both = (pm.memory(LLAMA, H100, draft=one, **asked) for one in (None, draft))
    assert both.weights - alone.weights == draft.weight_bytes("bf16")
    assert both.kv - alone.kv == 2 * draft.cache_bytes(100, "bf16")
    assert pm.max_batch(LLAMA, H100, context=4096, draft=draft) < pm.max_batch(
        LLAMA, H100, context=4096
    )


# -- many devices ----------------------------------------------------------------------------------


def test_replicas_share_the_sequences():
    two = pm.Parallelism(data=2)
    held = pm.memory(LLAMA, H100, batch=5, context=100, policy="vllm", parallelism=two)
    assert held == pm.memory(LLAMA, H100, batch=3, context=100, policy="vllm")
    one = pm.max_batch(LLAMA, H100, context=4096, policy="vllm")
    assert pm.max_batch(LLAMA, H100, context=4096, policy="vllm", parallelism=two) == 2 * one


def test_a_pipeline_holds_as_much_as_its_fullest_stage():
    """32 layers as 8 and 24: the second stage holds 24 * 4,096 B a token."""
    stages = pm.Parallelism(pipeline=2, stages=(8, 24))
    held = pm.memory(LLAMA, H100, batch=1, context=1000, parallelism=stages, precision="bf16")
    assert held.kv == 1000 * 24 * 4096
    pool = pm.kv_pool(LLAMA, available=GIB, parallelism=stages, precision="bf16")
    assert pool.block_bytes == 16 * 24 * 4096


# -- searches and their inverses -------------------------------------------------------------------

POOLS = [name for name in POLICIES if name != "logical"]


@settings(deadline=None, max_examples=50)
@given(
    name=st.sampled_from(POLICIES), context=st.integers(1, 20_000), room=st.floats(0.2, 20),
    model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "qwen3.5-35b-a3b", "deepseek-v2-lite"]),
)  # fmt: skip
def test_the_largest_size_fits_and_one_more_does_not(name, context, room, model):
    shape = pm.model(model)
    asked = {"policy": name, "precision": "bf16"}
    base = pm.min_capacity(shape, batch=1, context=context, **asked)
    gpu = chip(base * (1 + room / 10))

    def fits(**size: int) -> bool:
        return pm.memory(shape, gpu, **size, **asked).fits

    batch = pm.max_batch(shape, gpu, context=context, **asked)
    assert fits(batch=batch, context=context)
    assert not fits(batch=batch + 1, context=context)
    longest = pm.max_context(shape, gpu, batch=1, **asked)
    assert longest >= context
    assert fits(batch=1, context=longest)
    assert not fits(batch=1, context=longest + 1)
    tokens = pm.max_tokens(shape, gpu, context=context, **asked)
    assert batch * context <= tokens < (batch + 1) * context


@settings(deadline=None, max_examples=50)
@given(
    name=st.sampled_from(POLICIES), batch=st.integers(1, 200), context=st.integers(1, 20_000),
    model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "qwen3.6-27b", "falcon-mamba-7b"]),
)  # fmt: skip
def test_the_least_capacity_just_fits(name, batch, context, model):
    shape, asked = pm.model(model), {"policy": name, "precision": "bf16"}
    least = pm.min_capacity(shape, batch=batch, context=context, **asked)
    enough, short = (
        pm.memory(shape, chip(least * share), batch=batch, context=context, **asked).fits
        for share in (1 + 1e-9, 1 - 1e-6)
    )
    assert enough
    assert not short


@settings(deadline=None, max_examples=50)
@given(
    name=st.sampled_from(POOLS), batch=st.integers(1, 200), context=st.integers(1, 20_000),
    model=st.sampled_from(["llama-3.1-8b", "gpt-oss-20b", "gemma-3-4b", "qwen3.5-35b-a3b"]),
)  # fmt: skip
def test_blocks_hold_no_less_than_the_exact_bytes(name, batch, context, model):
    shape = pm.model(model)
    held = pm.memory(shape, H100, batch=batch, context=context, precision="bf16", policy=name)
    # Engines keep one column of a convolution less than is counted exactly.
    exact = shape.with_(conv_state=3) if "qwen" in model else shape
    assert held.paged >= held.kv + batch * exact.state_bytes("bf16")


def test_a_pool_and_the_memory_of_its_sequences_agree():
    """As many sequences fit as the pool's concurrency says, rounded down."""
    for model in ("llama-3.1-8b", "gpt-oss-20b", "qwen3.6-27b"):
        shape = pm.model(model)
        asked = {"policy": "vllm", "precision": "bf16"}
        pool = pm.kv_pool(shape, H100, max_len=10_000, **asked)
        batch = pm.max_batch(shape, H100, context=10_000, **asked)
        assert batch == int(pool.concurrency)


def test_tokens_of_a_pool_and_its_bytes_are_inverse():
    for tokens in (1, 16, 17, 100_000):
        pool = pm.kv_pool(LLAMA, tokens=tokens)
        assert pool.tokens - 16 < tokens <= pool.tokens
        again = pm.kv_pool(LLAMA, available=pool.allocated)
        assert again.blocks == pool.blocks


def test_spare_blocks_hold_nothing():
    """Qwen3-4B: 16 tokens of 147,456 B are 2.25 MiB; of 10 blocks in 23 MiB one stays empty."""
    rule = policy("vllm-v0", spare_blocks=1)
    pool = pm.kv_pool(pm.model("qwen3-4b"), available=23 * 2**20, policy=rule)
    assert (pool.blocks, pool.spare_blocks, pool.tokens) == (9, 1, 144)
    assert pool.allocated == 22.5 * 2**20
    assert pm.kv_pool(pm.model("qwen3-4b"), blocks=10, policy=rule) == pool.model_copy(
        update={"available": 22.5 * 2**20}
    )
    assert pm.kv_pool(pm.model("qwen3-4b"), tokens=144, policy=rule).allocated == pool.allocated


def test_the_fewest_devices():
    """141 GB of weights: two of 85 GB. A 405B model's 812 GB need sixteen."""
    asked = {"batch": 1, "context": 8192, "precision": "bf16"}
    assert pm.min_devices(LLAMA, H100, **asked) == 1
    assert pm.min_devices(pm.model("llama-3.1-70b"), H100, **asked) == 2
    assert pm.min_devices(pm.model("llama-3.1-405b"), H100, **asked) == 16


def test_where_no_group_holds_it_the_largest_is_named():
    """Two bytes of 671e9 weights on 64 cards of 12 GB: 1.3 TB on 768 GB."""
    small = pm.gpu("rtx-3060-12gb")
    said = r"no group of up to 64 devices .* with tensor=1 each needs 1\.34\d? TB"
    with pytest.raises(pm.errors.DoesNotFitError, match=said):
        pm.min_devices(pm.model("deepseek-v3"), small, batch=1, context=1, precision="bf16")


# -- what would help -------------------------------------------------------------------------------


def test_what_fits_needs_no_remedy():
    assert pm.memory(LLAMA, H100, batch=1, context=100).remedies == ()


@pytest.mark.parametrize("name", ["logical", "vllm", "sglang", "tensorrt-llm", "llama.cpp"])
@pytest.mark.parametrize(("batch", "context"), [(64, 32_768), (2, 400_000)])
def test_each_remedy_makes_it_fit(name, batch, context):
    asked = {"batch": batch, "context": context, "policy": name, "precision": "bf16"}
    held = pm.memory(LLAMA, H100, **asked)
    assert held.fits is False
    assert {remedy.change for remedy in held.remedies} >= {"devices", "context", "batch"}
    for remedy in held.remedies:
        changed = {
            "precision": {"precision": remedy.to},
            "devices": {"parallelism": pm.Parallelism(tensor=int(remedy.to or 1))}
            if remedy.change == "devices"
            else {},
            "context": {"context": remedy.to},
            "batch": {"batch": remedy.to},
        }[remedy.change]
        if remedy.change in ("context", "batch"):
            changed = {name: int(size) for name, size in changed.items()}
        again = pm.memory(LLAMA, H100, **asked | changed)
        assert again.fits, remedy
        assert again.needed == remedy.needed


def test_a_format_that_the_chip_lacks_is_no_remedy():
    a100 = pm.gpu("a100-sxm-80gb")
    found = pm.memory(pm.model("llama-3.1-70b"), a100, batch=1, context=100).remedies
    (precision,) = (remedy.to for remedy in found if remedy.change == "precision")
    assert precision == "int8"  # 68.4 GB of matrices, 4.2 GB of embedding and head


def test_weights_alone_may_be_narrow_where_the_chip_has_no_narrow_peak():
    """An M4 Max computes in 16 bits at least: 68.4 GB of 8-bit matrices, 4.2 GB of the rest."""
    apple = pm.gpu("apple-m4-max")
    found = pm.memory(pm.model("llama-3.1-70b"), apple, batch=1, context=100).remedies
    (remedy,) = (remedy for remedy in found if remedy.change == "precision")
    assert remedy.to == "w8a16"
    assert 72e9 < remedy.needed < 73e9


def test_an_error_says_what_would_help():
    with pytest.raises(pm.errors.DoesNotFitError, match=r"it fits with fp8 instead or 2 devices"):
        pm.max_batch(pm.model("llama-3.1-70b"), H100, context=2048)
    found = pm.decode(pm.model("llama-3.1-70b"), H100, batch=1, context=2048)
    assert "it fits with fp8 instead or 2 devices that share each matrix" in found.explain()


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "available: expected it, gpu, blocks or tokens, got none"),
        ({"available": 1e9, "blocks": 4}, "got available and blocks"),
        ({"available": -1}, "available: expected a positive"),
        ({"blocks": 0}, "blocks: expected a whole number"),
        ({"blocks": 1, "max_len": 1.5}, "max_len: expected a whole number"),
        ({"blocks": 1, "policy": "llama.cpp"}, "policy: expected one with a pool of blocks"),
        ({"blocks": 1, "draft": "tiny"}, "draft: expected ModelShape"),
        ({"blocks": 1, "mtp": "no"}, "mtp: expected True or False"),
        ({"blocks": 1, "parallelism": 8}, "parallelism: expected Parallelism"),
    ],
)
def test_a_pool_of_nothing_is_refused(asked, said):
    with pytest.raises(pm.errors.InvalidValueError, match=said):
        pm.kv_pool(LLAMA, **asked)


def test_an_unknown_policy_names_the_nearest():
    with pytest.raises(pm.errors.UnknownKeyError, match=r"did you mean 'vllm'\?"):
        pm.memory(LLAMA, H100, batch=1, context=1, policy="vlm")
    with pytest.raises(pm.errors.InvalidValueError, match="did you mean 'block'"):
        policy("vllm", blok=3)
