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
