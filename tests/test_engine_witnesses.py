"""What engines printed about their caches and weights, against the same models here.

Rows whose model was stated and that need no rule of an engine but rounding to blocks. Each names
the log it comes from; figures are restated. Engines print binary units, often labelled GB.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest

import perfmodel as pm
from perfmodel.base.precision import Precision

GIB = 2**30
MIB = 2**20


def cache(key: str, context: int, precision: Precision | str = "bf16") -> float:
    return pm.model(key).cache_bytes(context, precision)


def a_token(key: str) -> float:
    return pm.model(key).kv_bytes_per_token("bf16")


# -- blocks: floor(memory / bytes of a block), exactly ---------------------------------------------


class Blocks(NamedTuple):
    log: str
    model: str
    memory: float  # B
    block: int  # tokens
    blocks: int


BLOCKS = [
    # the swap space of early vLLM: 4 GiB, or 2
    Blocks("vllm-project/vllm#10517", "llama-3.1-8b", 4 * GIB, 16, 2048),
    Blocks("KV-054, vLLM 0.7", "qwen2.5-1.5b", 4 * GIB, 16, 9362),
    Blocks("KV-060, vLLM 0.7", "llama-3.1-8b", 2 * GIB, 16, 1024),
    Blocks("KV-074, vLLM 0.2.7, Chinese-Alpaca-2-7B", "llama-2-7b", 4 * GIB, 16, 512),
    # the whole cache space of the CPU back end: 232,960 tokens in blocks of 128
    Blocks("KV-018, vLLM for CPU", "opt-125m", 8 * GIB, 128, 232_960 // 128),
]


@pytest.mark.parametrize("case", BLOCKS, ids=lambda case: case.log)
def test_blocks_that_fit(case):
    assert case.memory // (case.block * a_token(case.model)) == case.blocks


class Tokens(NamedTuple):
    log: str
    model: str
    gib: float  # as printed, to a hundredth
    block: int
    tokens: int


TOKENS = [
    Tokens("vllm-project/vllm#10517", "llama-3.1-8b", 2.89, 16, 23_648),
    Tokens("KV-046, vLLM V0", "llama-3.1-8b", 4.60, 16, 37_696),
    Tokens("KV-020, vLLM", "qwen2.5-1.5b", 0.56, 16, 20_992),
    Tokens("KV-024, vLLM", "qwen2.5-0.5b", 4.17, 16, 364_592),
    Tokens("KV-035, vLLM", "qwen2.5-7b", 8.0, 16, 149_712),
    Tokens("KV-054, vLLM 0.7", "qwen2.5-1.5b", 2.36, 16, 88_304),
]


@pytest.mark.parametrize("case", TOKENS, ids=lambda case: case.log)
def test_tokens_that_fit_within_what_was_printed(case):
    """The printed memory is rounded to 0.01 GiB (8.0 to 0.1): the tokens lie in that band."""
    half = 0.05 if case.gib == 8.0 else 0.005
    block = case.block * a_token(case.model)
    least, most = (
        math.floor((case.gib + sign * half) * GIB / block) * case.block for sign in (-1, 1)
    )
    assert least - case.block <= case.tokens <= most


# -- bytes of so many tokens, as printed -----------------------------------------------------------


class Held(NamedTuple):
    log: str
    model: str
    tokens: int
    share: int  # of the KV heads, on one device
    printed: float
    unit: int
    half: float  # of the last printed digit


HELD = [
    Held("KV-017, vLLM 0.26", "qwen3-1.7b", 226_800, 1, 24.22, GIB, 0.006),
    Held("KV-019, vLLM 0.26", "qwen2.5-3b", 205_888, 1, 7.07, GIB, 0.005),
    Held("KV-022, vLLM, MiniMax-M2.7", "minimax-m2.5", 244_576, 4, 14.46, GIB, 0.005),
    Held("KV-026, vLLM", "qwen3-8b", 256, 1, 36.0, MIB, 0.05),
    Held("KV-048, vLLM", "llama-3.1-8b", 131_072, 1, 16.0, GIB, 0.05),
    Held("KV-080, vLLM 0.2", "codellama-13b", 16_384, 2, 6.25, GIB, 0.005),
    Held("KV-081, vLLM", "llama-3.1-70b", 131_072, 4, 10.0, GIB, 0.05),
    Held("KV-096, vLLM", "qwen3-coder-30b-a3b", 262_144, 1, 24.0, GIB, 0.05),
    Held("EN-014, SGLang", "qwen3.6-27b", 403_904, 1, 2 * 12.33, GIB, 0.01),
    Held("EN-027, SGLang", "kimi-k2.6", 209_413, 1, 13.71, GIB, 0.005),
    Held("EN-041, TensorRT-LLM, a Llama-3.1-8B shape", "llama-3.1-8b", 12_800, 1, 1.56, GIB, 0.005),
    Held("EN-042, TensorRT-LLM", "qwen2.5-1.5b", 273_792, 1, 7.31, GIB, 0.005),
    Held("EN-043, TensorRT-LLM", "qwen2.5-0.5b", 190_656, 1, 2.18, GIB, 0.005),
    Held("EN-069, llama.cpp", "phi-3-mini-4k", 4096, 1, 1536.0, MIB, 0.005),
    Held("EN-070, llama.cpp", "llama-3.1-405b", 4096, 1, 2016.0, MIB, 0.005),
    Held("EN-080, llama.cpp", "qwen3.6-27b", 262_144, 1, 16_384.0, MIB, 0.005),
]


@pytest.mark.parametrize("case", HELD, ids=lambda case: case.log)
def test_bytes_of_so_many_tokens(case):
    # llama.cpp holds every cell of a window too, so phi-3-mini (window 2047) is asked by the token.
    held = case.tokens * a_token(case.model) / case.share
    assert abs(held / case.unit - case.printed) <= case.half


@pytest.mark.parametrize(
    ("tokens", "context", "printed"),
    [(226_800, 34_816, 6.51), (23_648, 29_000, 0.82), (232_960, 2048, 113.75)],
)
def test_concurrency_is_tokens_over_context(tokens, context, printed):
    assert round(tokens / context, 2) == pytest.approx(printed, abs=0.006)


# -- windows, latents, shared caches ---------------------------------------------------------------


def test_gpt_oss_by_kind_of_layer():
    """llama.cpp (EN-047, EN-048), two sequences: 18 full layers of 131,072 cells, 9,216 MiB; 18
    window layers of 1,280 cells, 90 MiB. vLLM (KV-141): 4.5 GiB for the full layers of one.
    """
    kinds = pm.model("gpt-oss-120b").cache_by_kind(131_072, "bf16")
    assert kinds["attention"] == 4.5 * GIB == 9216 * MIB / 2
    # A window of 128 is a tenth of the 1,280 cells that the engine kept.
    assert kinds["window attention"] == 90 * MIB / 2 / 10


def test_deepseek_r1_in_q8_0():
    """ik_llama.cpp (EN-078): 1,166.62 MiB at 32,768 tokens, 34 B for 32 numbers."""
    q8 = "bf16+kvq8_0"
    assert cache("deepseek-r1", 32_768, q8) / MIB == pytest.approx(1166.62, abs=0.0051)  # 1166.625
    # EN-067, llama.cpp: 612.00 MiB for 8,192 cells of a Qwen3-VL-8B shape.
    assert cache("qwen3-vl-8b", 8192, q8) / MIB == pytest.approx(612.0, abs=0.005)


def test_gemma_4_e4b_shares_caches():
    """llama.cpp (EN-053, EN-054): 42 blocks, of which 24 cache: 4 of them everything, 512.00 MiB
    at 32,768 cells; 20 a window, 40.00 MiB in 1,024 cells.
    """
    kinds = pm.model("gemma-4-e4b").cache_by_kind(32_768, "bf16")
    assert kinds["attention"] == 512 * MIB
    window = kinds["window attention"]
    assert window / 512 == 40 * MIB / 1024  # a window of 512, half of the cells


# -- constant state --------------------------------------------------------------------------------


def test_state_of_qwen_hybrids():
    """vLLM (KV-110, KV-122): 3,207,168 B and 2,146,304 B a layer: fp32, and 3 columns in bf16."""
    large = pm.model("qwen3.6-27b").with_(conv_state=3)
    small = pm.model("qwen3.5-35b-a3b").with_(conv_state=3)
    assert large.state_bytes("bf16") == 48 * 3_207_168
    assert small.state_bytes("bf16") == 30 * 2_146_304


def test_state_pools_of_sglang():
    """SGLang (EN-013, EN-015): slots + 1 states; 21.80 and 0.43 GiB, 50.77 and 0.99 GiB."""
    model = pm.model("qwen3.6-27b")
    both = model.with_(conv_state=3).state_bytes("bf16")
    recurrent = model.with_(conv_state=0).state_bytes("bf16")
    for slots, ssm, conv in ((154, 21.80, 0.43), (360, 50.77, 0.99)):
        assert (slots + 1) * recurrent / GIB == pytest.approx(ssm, abs=0.005)
        assert (slots + 1) * (both - recurrent) / GIB == pytest.approx(conv, abs=0.005)


def test_recurrent_cells_of_llama_cpp():
    """LM Studio (EN-080): 598.50 MiB in 4 cells, the convolution's 3 columns in fp32 too."""
    model = pm.model("qwen3.6-27b").with_(conv_state=3)
    fp32 = Precision.preset("fp32")
    assert 4 * model.state_bytes(fp32) / MIB == pytest.approx(598.50, abs=0.005)


# -- weights ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "key", "rotary", "printed", "half"),
    [
        # beside the weights, an engine keeps the rotary table: positions x rotary width x 2 B
        ("KV-042, vLLM", "qwen3-8b", 40_960 * 128 * 2, 15.27, 0.005),
        ("KV-059, vLLM V0", "phi-4-mini", 131_072 * 96 * 2, 7.1694, 0.001),
    ],
)
def test_weights_as_loaded(log, key, rotary, printed, half):
    loaded = pm.model(key).weight_bytes("bf16") + rotary
    assert abs(loaded / GIB - printed) <= half
