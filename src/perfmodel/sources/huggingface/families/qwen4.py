"""Qwen's decoder of several residual streams, sparse attention and hashed n-grams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from perfmodel.sources.huggingface.config import Config
from perfmodel.sources.huggingface.families.delta import (
    LINEAR,
    delta_net,
    gated_attention,
    qwen_experts,
)
from perfmodel.sources.huggingface.families.parts import (
    FULL,
    Column,
    Family,
    Row,
    copy,
    decoder,
    divided,
    every,
    layer_types,
    number_of_layers,
)
from perfmodel.work.layers import Attention, GatedResidual, NGramEmbedding
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.shape import Block, ModelShape

INDEXED: Final = "indexed_attention"
MAX_HEADS: Final = 1_000  # for each of which a prime is found


def qwen4_exp(c: Config) -> ModelShape:
    """Qwen4ExpTextConfig: delta nets, and every fourth layer attention to selected blocks."""
    mix = GatedResidual(streams=c.count("hc_count", 4), rank=c.count("hc_lowrank", 320))
    full, sparse = indexed_attention(c), copy(qwen_experts(c), norm=None)
    mixers = {LINEAR: copy(delta_net(c), norm=None), FULL: full, INDEXED: full}
    kinds = layer_types(
        c, every(c.count("full_attention_interval", 4), FULL, LINEAR), tuple(mixers)
    )
    first = ngram_embeddings(c, mix.streams, kinds)
    last = copy(mix, injects=False)
    column: Column = [
        (*first.get(i, ()), mix, mixers[kind], mix, sparse) for i, kind in enumerate(kinds)
    ]
    column[-1] = (*first.get(len(kinds) - 1, ()), mix, mixers[kinds[-1]], mix, sparse, last)
    mtp = qwen4_mtp(c, (mix, full, mix, sparse), last)
    return decoder(c, column, None, norm=None, mtp=mtp)


def indexed_attention(c: Config) -> Attention:
    """Gated attention to a budget of tokens: whole blocks, and the block that is not yet full."""
    if c.count("indexer_kv_heads") != 1:
        raise c.wrong("indexer_kv_heads", "1")
    budget, pool = c.count("indexer_budget"), c.count("indexer_compress_ratio")
    divided(c, "indexer_budget", "indexer_compress_ratio")
    dim = c.count("indexer_head_dim")
    indexer = Indexer(
        heads=c.count("indexer_n_heads"),
        dim=dim,
        top_k=budget + pool - 1,
        pool=pool,
        gated=False,
        weighted=False,
        scalars=2 * dim,
    )
    return gated_attention(c, norm=None, indexer=indexer)


def qwen4_mtp(c: Config, layers: Row, last: GatedResidual) -> tuple[Block, ...]:
    """One extra block; its entry norms all streams, and the last mixture is its last norm."""
    count, hidden = c.count_or_zero("mtp_num_hidden_layers", 0), c.count("hidden_size")
    if not count:
        return ()
    if count > 1:
        raise c.wrong("mtp_num_hidden_layers", "0 or 1")
    return ((1, (MtpEntry(last_norm=False, scalars=(last.streams - 1) * hidden), *layers, last)),)


# -- hashed n-grams ---------------------------------------------------------------------------


def ngram_embeddings(c: Config, streams: int, kinds: list[str]) -> dict[int, Row]:
    """What stands before the layers of ``ple_layer_ids``, which are counted from 1."""
    numbers = sorted(c.indices("ple_layer_ids", number_of_layers(c) + 1))
    if not numbers:
        return {}
    if numbers[0] == 0 or any(kinds[number - 1] != LINEAR for number in numbers):
        raise c.wrong("ple_layer_ids", "numbers from 1 up of layers of linear attention")
    longest, hidden = c.count("ngram_size", 3), c.count("hidden_size")
    heads = (longest - 1) * c.count("heads_per_ngram", 8)
    if not 0 < heads * len(numbers) <= MAX_HEADS:
        raise c.wrong("heads_per_ngram", f"some, and at most {MAX_HEADS} in the whole model", heads)
    width = c.count("ple_embed_dim", hidden)
    if width % heads:
        raise c.wrong("ple_embed_dim", f"a multiple of {heads} heads", width)
    sizes = primes(c.count("ngram_vocab_size_base", 20_000_000))
    multiple = c.count("make_ngram_vocab_size_divisible_by", 128)
    kernel = c.count("ple_conv_kernel_size", 4)
    found: dict[int, Row] = {}
    for number in numbers:
        rows = sum(next(sizes) for _ in range(heads))
        found[number - 1] = (
            NGramEmbedding(
                rows=-(-rows // multiple) * multiple,
                heads=heads,
                head_dim=width // heads,
                channels=streams * hidden,
                longest=longest,
                conv_kernel=kernel,
                conv_state=(kernel - 1) * longest,
            ),
        )
    return found


def primes(start: int) -> Iterator[int]:
    """All primes from a number up: each hashed head has a table of the next."""
    number = start
    while True:
        if is_prime(number):
            yield number
        number += 1


def is_prime(number: int) -> bool:
    """Whether a number below 2**64 is prime: the test of Miller and Rabin, which is exact there."""
    witnesses = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if number < 2 or any(number % p == 0 for p in witnesses):
        return number in witnesses
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in witnesses:
        power = pow(witness, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


QWEN4: Final = {"qwen4_exp_text": Family(("Qwen4ExpForCausalLM",), qwen4_exp)}
