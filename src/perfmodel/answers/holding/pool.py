"""The pool that an engine takes for the cache: its blocks, and the tokens that they hold."""

from __future__ import annotations

from perfmodel.answers._asked import placed, require_positions
from perfmodel.answers._search import largest
from perfmodel.answers.holding.paging import Pool
from perfmodel.answers.holding.policies import PolicyLike, resolve_policy
from perfmodel.answers.holding.stages import Stage, stages_of
from perfmodel.base.errors import InvalidValueError, UnboundedError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import (
    Amount,
    Count,
    CountOrZero,
    Name,
    NonNegative,
    Quantity,
    Spec,
    checked_count,
    checked_kind,
    checked_positive,
    quantity,
)
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape


class KvPool(Spec):
    """Blocks of one pool on one device, as an engine reports them."""

    policy: Name
    """Name of the policy."""
    precision: Name
    """Name of the precision."""
    available: NonNegative = quantity("M_a", "B", "Memory that the pool is made of")
    block_tokens: CountOrZero = quantity("B_t", "1", "Tokens of the smallest block; 0 for states")
    block_bytes: Quantity = quantity("q_b", "B", "One block, of all layers that share it")
    tables: Count = quantity("n_g", "1", "Groups of layers, each with a block table of its own")
    blocks: Amount = quantity("n_b", "1", "Blocks that hold tokens or states")
    spare_blocks: CountOrZero = quantity("n_0", "1", "Blocks that are allocated and hold nothing")
    tokens: Amount = quantity("T_p", "1", "Tokens, as the engine prints them")
    longest: Amount | None = quantity(
        "S_p", "1", "Tokens of the longest sequence that it holds; None: no window fills it"
    )
    max_len: Count | None = quantity("S_1", "1", "Tokens of the longest request", default=None)
    blocks_per_request: Amount | None = quantity(
        "n_r", "1", "Blocks that a request of that length may need", default=None
    )

    def __repr__(self) -> str:
        return (
            f"<KvPool {self.policy}: {self.blocks:,} blocks of {self.block_tokens:,}, "
            f"{self.tokens:,} tokens>"
        )

    __str__ = __repr__

    @property
    def allocated(self) -> float:
        """All blocks, spare ones too [B]."""
        return (self.blocks + self.spare_blocks) * self.block_bytes

    @property
    def concurrency(self) -> float | None:
        """Requests of ``max_len`` that it holds at once; None without a length [1]."""
        return None if self.blocks_per_request is None else self.blocks / self.blocks_per_request

    @property
    def needed(self) -> float | None:
        """What one request of ``max_len`` may need; None without a length [B]."""
        if self.blocks_per_request is None:
            return None
        return self.blocks_per_request * self.block_bytes


def kv_pool(
    model: ModelShape,
    gpu: GpuSpec | Cluster | None = None,
    *,
    available: float | None = None,
    blocks: int | None = None,
    tokens: int | None = None,
    max_len: int | None = None,
    policy: PolicyLike = "vllm",
    precision: PrecisionLike = None,
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> KvPool:
    """The pool that an engine makes of some memory, block by block, as its log reports it.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster or None
        The chip, whose memory the policy divides; or give one of the next three.
    available : float or None
        Memory of one device for the pool [B].
    blocks : int or None
        Blocks of the pool [1].
    tokens : int or None
        Tokens as printed: the smallest pool that holds them [1].
    max_len : int or None
        Tokens of the longest request, for ``concurrency`` and ``needed`` [1].
    policy : MemoryPolicy or str
        How the engine lays the cache out.
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens and shares the blocks.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    KvPool
        Of the stage that holds the fewest tokens.

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the policy has no pool of blocks.

    Examples
    --------
    An 8B model's 131,072 B a token, in blocks of 16: 2 MiB a block, 2,048 blocks in 4 GiB.

    >>> from perfmodel import kv_pool, model
    >>> pool = kv_pool(model("llama-3.1-8b"), available=4 * 2**30, max_len=8192, policy="vllm")
    >>> pool.blocks, pool.tokens, pool.concurrency
    (2048, 32768, 4.0)
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    capacity = None if gpu is None else _capacity(model, gpu, parallelism)
    model.require_cache()
    given = [
        name
        for name, value in (
            ("gpu", gpu), ("available", available), ("blocks", blocks), ("tokens", tokens),
        )
        if value is not None
    ]  # fmt: skip
    if len(given) != 1:
        got = " and ".join(given) or "none"
        raise InvalidValueError(f"available: expected it, gpu, blocks or tokens, got {got}")
    if available is not None:
        available = checked_positive("available", available)
    if blocks is not None:
        blocks = checked_count("blocks", blocks)
    if tokens is not None:
        tokens = checked_count("tokens", tokens)
    if max_len is not None:
        max_len = checked_count("max_len", max_len)
    policy = resolve_policy(policy)
    if blocks is not None and blocks <= policy.spare_blocks:
        raise InvalidValueError(
            f"blocks: expected more than the {policy.spare_blocks} that {policy.name} spares, "
            f"got {blocks}"
        )
    stages = stages_of(
        model,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    if max_len is not None:
        require_positions(max_len, model, draft)
    pools = []
    for stage in stages:
        pool = stage.layout.pool
        if pool is None:
            if stage.layout.kinds:
                raise InvalidValueError(
                    f"policy: expected one with a pool of blocks, got {stage.policy.name}; "
                    "memory(..., policy=) tells its cells"
                )
            continue
        room = available if capacity is None else stage.room(capacity, 1)
        if room is None:
            spare = stage.policy.spare_blocks
            usable = (
                blocks - spare if blocks is not None else _holding(pool, tokens, max_len, stage)
            )
            room = (usable + spare) * pool.block_bytes
        pools.append(_pool(stage, pool, room, max_len))
    return min(pools, key=lambda found: found.tokens)


def _capacity(model: ModelShape, gpu: GpuSpec | Cluster, parallelism: Parallelism) -> float:
    chip = placed(model, gpu, parallelism).gpu
    if chip.capacity is None:
        raise InvalidValueError(
            f"memory_capacity: required to divide it, but {chip.name} does not state it"
        )
    return chip.capacity


def _pool(stage: Stage, pool: Pool, room: float, max_len: int | None) -> KvPool:
    policy = stage.policy
    usable = max(0, int(room // pool.block_bytes) - policy.spare_blocks)
    return KvPool.trusted(
        policy=policy.name,
        precision=stage.precisions[0].name,
        available=float(room),
        block_tokens=pool.block_tokens,
        block_bytes=float(pool.block_bytes),
        tables=sum(table.groups for table in pool.tables),
        blocks=usable,
        spare_blocks=policy.spare_blocks,
        tokens=_printed(pool, usable, max_len, stage),
        longest=_longest(pool, usable),
        max_len=max_len,
        blocks_per_request=None if max_len is None else pool.blocks(max_len),
    )


def _longest(pool: Pool, blocks: int) -> int | None:
    try:
        return pool.longest(blocks)
    except UnboundedError:
        return None


def _printed(pool: Pool, blocks: int, max_len: int | None, stage: Stage) -> int:
    """Tokens as the engine prints them."""
    if stage.policy.printed == "blocks" or max_len is None:
        return pool.tokens(blocks)
    return int(blocks / pool.blocks(max_len) * max_len)


def _holding(pool: Pool, tokens: int | None, max_len: int | None, stage: Stage) -> int:
    """The fewest blocks of which the engine would print so many tokens."""
    wanted = tokens or 0
    try:
        return 1 + largest(lambda blocks: _printed(pool, blocks, max_len, stage) < wanted)
    except UnboundedError:
        raise InvalidValueError(
            f"tokens: expected blocks= or available=, for blocks of {stage.models[0].name} under "
            f"{stage.policy.name} hold states and no tokens, got {wanted}; an engine that prints "
            "concurrency needs max_len="
        ) from None
