"""The model of a name of the data: of the catalog, or written out where it has none."""

from __future__ import annotations

from functools import cache

import perfmodel as pm
from floors.names import MODELS

# As their configs have them: layers, hidden, heads, KV heads, inner width, vocabulary, gated.
_PLAIN = {
    "BAAI/Aquila-7B": (32, 4096, 32, 32, 11008, 100008, True),
    # Its key and value heads differ from layer to layer; none has fewer than one.
    "Deci/DeciLM-7B": (32, 4096, 32, 1, 14336, 32000, True),
    "Qwen/Qwen1.5-72B": (80, 8192, 64, 64, 24576, 152064, True),
    "Qwen/Qwen1.5-7B": (32, 4096, 32, 32, 11008, 151936, True),
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": (22, 2048, 32, 4, 5632, 32000, True),
    "bigscience/bloom-7b1": (30, 4096, 32, 32, 16384, 250880, False),
    "codellama/CodeLlama-34b-Instruct-hf": (48, 8192, 64, 8, 22016, 32000, True),
    "codellama/CodeLlama-34b-hf": (48, 8192, 64, 8, 22016, 32000, True),
    "huggyllama/llama-30b": (60, 6656, 52, 52, 17920, 32000, True),
    "huggyllama/llama-65b": (80, 8192, 64, 64, 22016, 32000, True),
    "huggyllama/llama-7b": (32, 4096, 32, 32, 11008, 32000, True),
    "internlm/internlm-20b": (60, 5120, 40, 40, 13824, 103168, True),
    "mistralai/Mistral-7B-Instruct-v0.2": (32, 4096, 32, 8, 14336, 32000, True),
    "mistralai/Mistral-7B-v0.1": (32, 4096, 32, 8, 14336, 32000, True),
    "mosaicml/mpt-30b": (48, 7168, 64, 64, 28672, 50432, False),
    "mosaicml/mpt-7b": (32, 4096, 32, 32, 16384, 50432, False),
    "openlm-research/open_llama_3b": (26, 3200, 32, 32, 8640, 32000, True),
}
_WINDOWS = {"mistralai/Mistral-7B-v0.1": 4096}
# Made for so many positions: vLLM ends a sequence there, whatever was asked.
POSITIONS = {
    "BAAI/Aquila-7B": 2048,
    "EleutherAI/gpt-j-6b": 2048,
    "bigscience/bloom-7b1": 2048,
    "facebook/opt-6.7b": 2048,
    "huggyllama/llama-7b": 2048,
}


@cache
def model(name: str) -> pm.ModelShape | None:
    """The model of a name of the data; None where it is known by none."""
    if name in MODELS:
        return pm.model(MODELS[name])
    if name in _PLAIN:
        return _plain(name)
    if name in _OTHERS:
        return _OTHERS[name]()
    return None


def _plain(name: str) -> pm.ModelShape:
    layers, hidden, heads, kv_heads, ffn, vocab, gated = _PLAIN[name]
    shape = pm.ModelShape.dense(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        vocab=vocab,
        gated=gated,
        tied=not gated,  # those without a gate share the embedding's table
        name=name,
    )
    return shape.with_(window=_WINDOWS.get(name))


def _gemma_2b() -> pm.ModelShape:
    return pm.ModelShape.dense(
        layers=18,
        hidden=2048,
        heads=8,
        kv_heads=1,
        head_dim=256,
        ffn=16384,
        vocab=256000,
        tied=True,
    )


def _hunyuan_a13b() -> pm.ModelShape:
    """80,393,183,232 parameters, as its file counts them."""
    attention = pm.Attention(heads=32, kv_heads=8, head_dim=128, qk_norm="head")
    experts = pm.MixtureOfExperts(experts=64, top_k=8, width=3072, shared_width=3072)
    return pm.ModelShape(
        name="Hunyuan-A13B",
        hidden=4096,
        vocab=128167,
        blocks=((32, (attention, experts)),),
        embedding=pm.Embedding(),
        head=pm.Head(tied=True),
    )


def _dots_llm1() -> pm.ModelShape:
    """142,774,381,696 parameters, as its file counts them."""
    attention = pm.Attention(heads=32, kv_heads=32, head_dim=128, qk_norm="head")
    experts = pm.MixtureOfExperts(
        experts=128, top_k=6, width=1408, shared_width=2 * 1408, router_bias=True
    )
    return pm.ModelShape(
        name="dots.llm1",
        hidden=4096,
        vocab=152064,
        blocks=((1, (attention, pm.FeedForward(width=10944))), (61, (attention, experts))),
        embedding=pm.Embedding(),
        head=pm.Head(),
    )


def _glm_47_flash() -> pm.ModelShape:
    """29,943,390,976 parameters, as Transformers counts them."""
    attention = pm.LatentAttention(
        heads=20, query_rank=768, kv_rank=512, nope_dim=192, rope_dim=64, value_dim=256
    )
    experts = pm.MixtureOfExperts(experts=64, top_k=4, width=1536, shared_width=1536)
    return pm.ModelShape(
        name="GLM-4.7-Flash",
        hidden=2048,
        vocab=154880,
        blocks=((1, (attention, pm.FeedForward(width=10240))), (46, (attention, experts))),
        embedding=pm.Embedding(),
        head=pm.Head(),
    )


_OTHERS = {
    "google/gemma-2b-it": _gemma_2b,
    "rednote-hilab/dots.llm1.inst": _dots_llm1,
    "tencent/Hunyuan-A13B-Instruct": _hunyuan_a13b,
    "zai-org/GLM-4.7-Flash": _glm_47_flash,
}
