"""What stages of a pipeline take at least, however an engine cuts prompts between them."""

from __future__ import annotations

from math import isclose

import pytest

import perfmodel as pm

# 1e12 B/s and 1e14 FLOP/s, and links that cost nothing.
CHIP = pm.GpuSpec(
    name="chip", memory_bandwidth=1e12, peak_flops={"bf16": 1e14}, link={"bandwidth": 1e18}
)
MODEL = pm.ModelShape.dense(layers=4, hidden=1024, heads=8, ffn=4096, norm=None)
# A block has 4 x 1024 x 1024 weights of attention and 3 x 1024 x 4096 of the gated feed-forward.
WEIGHTS = 2 * 4 * (4 * 1024 * 1024 + 3 * 1024 * 4096) / 1e12  # s to read all
TOKEN = 2 * 4 * (2 * 1024) / 1e12  # s to read the keys and values of one token


def test_one_sequence_passes_its_stages_one_after_another() -> None:
    found = pm.decode(MODEL, CHIP, batch=1, context=1000, parallelism=pm.Parallelism(pipeline=4))
    assert isclose(found.floor, WEIGHTS + 1000 * TOKEN, rel_tol=1e-9)


def test_unequal_stages_may_see_all_sequences_at_once() -> None:
    """Two sequences on stages of 1 and 3 blocks: a step of decode that nothing beats.

    In two micro-batches the larger stage reads its weights twice, 6 blocks; in one, all stages
    read 4 blocks and two caches after each other. No engine does with less than the 4 blocks and
    the cache of one sequence, whatever the estimate was told of micro-batches.
    """
    ask = {"batch": 2, "context": 1000}
    ways = [pm.Parallelism(pipeline=2, stages=(1, 3), micro_batches=m) for m in (None, 1, 2, 7)]
    found = [pm.decode(MODEL, CHIP, **ask, parallelism=way) for way in ways]
    assert all(isclose(step.floor, WEIGHTS + 1000 * TOKEN, rel_tol=1e-9) for step in found)
    slowest, once = found[0].time, found[1].time
    assert slowest > 6 / 4 * WEIGHTS > once > found[0].floor


def test_many_sequences_on_unequal_stages_all_pass_the_largest() -> None:
    """A hundred: three blocks' weights and all their caches, more than one micro-batch's way."""
    ways = pm.Parallelism(pipeline=2, stages=(1, 3))
    found = pm.decode(MODEL, CHIP, batch=100, context=1000, parallelism=ways)
    one_way = WEIGHTS + 50 * 1000 * TOKEN  # a half of them, through four blocks
    largest = 3 / 4 * (WEIGHTS + 100 * 1000 * TOKEN)
    assert isclose(found.floor, max(one_way, largest), rel_tol=1e-9)


def test_sequences_of_different_lengths_may_be_dealt_otherwise() -> None:
    """A prompt of 10,000 tokens and two of 6,000 on two replicas: the short ones together.

    Dealt in turn, one replica has 16,000 tokens; at best none has more than 12,000. No floor is
    above the time of those two prompts alone, and some replica reads the long one or the mean.
    """
    groups = (pm.Group(count=1, new=10_000), pm.Group(count=2, new=6_000))
    two = pm.Parallelism(data=2)
    found = pm.estimate(MODEL, CHIP, pm.Step(groups=groups), parallelism=two)
    short = pm.prefill(MODEL, CHIP, prompt=6_000, batch=2)
    long = pm.prefill(MODEL, CHIP, prompt=10_000)
    mean = pm.estimate(MODEL, CHIP, pm.Step(groups=groups)).compute_time / 2
    assert isclose(found.floor, max(long.floor, mean), rel_tol=1e-9)
    assert found.floor < short.time < found.time


def test_the_replica_with_fewer_new_tokens_may_take_longer() -> None:
    """Two short prompts and two long contexts on eight replicas: the contexts bind.

    Seven new tokens read the weights and write 7 of the cache; one new token reads them too, and
    a cache of 100,000.
    """
    groups = (pm.Group(count=2, new=1, past=100_000), pm.Group(count=2, new=7))
    step = pm.Step(groups=groups)
    found = pm.estimate(MODEL, CHIP, step, parallelism=pm.Parallelism(data=8))
    assert found.kv_traffic == 100_001 * TOKEN * 1e12
    assert isclose(found.floor, WEIGHTS + 100_001 * TOKEN, rel_tol=1e-9)
    assert found.memory.kv == 100_001 * TOKEN * 1e12
    assert found.floor <= found.time


def test_one_device_may_take_all_micro_batches_at_once() -> None:
    found = pm.decode(MODEL, CHIP, batch=8, context=10, parallelism=pm.Parallelism(micro_batches=4))
    assert isclose(found.floor, WEIGHTS + 80 * TOKEN, rel_tol=1e-9)
    assert found.time > 4 * WEIGHTS


def test_a_tensor_group_hands_over_a_part_each() -> None:
    """Devices of a tensor group hold the same; the next group gathers it over its own links.

    vLLM and Megatron-LM do so. 512 tokens of 1,024 numbers in bf16 are 1,048,576 B: over 1 MB/s
    each of four devices sends a quarter, 0.262144 s.
    """
    slow = pm.Cluster(gpu=CHIP, per_node=4, nodes=2, link=pm.Link(bandwidth=1e6))
    ways = pm.Parallelism(tensor=4, pipeline=2)
    found = pm.prefill(MODEL, slow, prompt=512, parallelism=ways)
    assert isclose(found.floor, 512 * 1024 * 2 / 4 / 1e6, rel_tol=1e-9)
    assert found.time > 512 * 1024 * 2 / 1e6  # which counts all of it


def test_chunks_of_one_prompt_fill_the_stages() -> None:
    """Each of four equal stages does a quarter of a long prompt's work, at the same time.

    Witness: llama.cpp reads 8,107 tokens/s of a prompt of 4,096 on one H100 PCIe and 20,561 on
    four, the layers of Llama-3-8B split between them (XiongjieDai, GPU benchmarks on LLM
    inference, May 2024): 2.5 times as fast, with one sequence.
    """
    ways = pm.Parallelism(pipeline=4)
    alone = pm.prefill(MODEL, CHIP, prompt=4096)
    found = pm.prefill(MODEL, CHIP, prompt=4096, parallelism=ways)
    assert isclose(found.floor, alone.floor / 4, rel_tol=1e-9)
    assert alone.floor / found.floor > 20_561 / 8_107
    assert found.floor <= found.time


def test_a_short_prompt_reads_the_weights_of_all_stages_in_turn() -> None:
    found = pm.prefill(MODEL, CHIP, prompt=8, parallelism=pm.Parallelism(pipeline=4))
    # The weights, and one token written to the cache of each block.
    assert isclose(found.floor, WEIGHTS + TOKEN, rel_tol=1e-9)


@pytest.mark.parametrize("pipeline", [2, 3, 4])
@pytest.mark.parametrize("batch", [1, 3, 8])
def test_no_split_of_prompts_beats_the_roofs_of_all(pipeline: int, batch: int) -> None:
    """Devices together do all the work, and none is faster than its roofs; time is no less."""
    ways = pm.Parallelism(pipeline=pipeline)
    alone = pm.prefill(MODEL, CHIP, batch=batch, prompt=700)
    found = pm.prefill(MODEL, CHIP, batch=batch, prompt=700, parallelism=ways)
    assert found.floor >= alone.floor / pipeline * (1 - 1e-12)
    assert found.floor <= found.time * (1 + 1e-12)
