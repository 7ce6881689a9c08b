"""How an engine lays a cache out: cells of each kind of layer, or equal blocks of one pool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from perfmodel.answers._search import largest
from perfmodel.answers.holding.policies import MemoryPolicy
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.work.layers.cached import Cached, Kept
from perfmodel.work.shape import ModelShape

# A block that must hold a state is a multiple of so many tokens: what attention kernels read.
_KERNEL_TOKENS: Final = 16
# Where no kind has so many times the layers of another, a group is as large as the largest kind,
# else as the smallest: so fewer layers are padded.
_NEARLY_EQUAL: Final = 1.5


class Kind(NamedTuple):
    """Equal layers of the models on a device, and what a sequence holds in each of them."""

    title: str
    layers: int
    cached: Cached
    kept: Kept

    @property
    def is_state(self) -> bool:
        """Whether it holds a constant state and nothing a token."""
        return not self.cached.nbytes

    @property
    def clips(self) -> bool:
        """Whether the oldest tokens are no longer needed at some length."""
        return self.cached.window is not None or self.cached.chunk is not None


class Tables(NamedTuple):
    """Groups of layers that each have a block table of their own, with blocks of equal tokens."""

    groups: int
    tokens: int  # of a block; 0 for states
    window: int | None
    kinds: tuple[Kind, ...]


class Cells(NamedTuple):
    """What sequences hold in all layers of one kind."""

    kind: Kind
    rows: int  # one a sequence, or one for all
    tokens: int  # of each row

    def nbytes(self, token: float) -> float:
        """What they hold of a part that weighs so much a token and layer [B]."""
        return self.rows * self.tokens * self.kind.layers * token


class Pool(NamedTuple):
    """One pool of equal blocks: what a block weighs, and who takes how many of them."""

    tables: tuple[Tables, ...]
    block_bytes: float
    state_blocks: int  # of one sequence in one group of states
    step_tokens: int

    @property
    def block_tokens(self) -> int:
        """Tokens of the smallest block; 0 where only states are held [1]."""
        return min((table.tokens for table in self.tables if table.tokens), default=0)

    def blocks(self, context: int) -> int:
        """Blocks of one sequence in all tables, while a step works on it [1]."""
        return sum(table.groups * self._of_one(table, context) for table in self.tables)

    def _of_one(self, table: Tables, context: int) -> int:
        """Blocks of one sequence in one table [1]."""
        if not table.tokens:
            return self.state_blocks
        if table.window is None:
            return -(-context // table.tokens)
        # The window before the step, the step itself, and the block in which the window begins.
        held = min(context, table.window - 1 + self.step_tokens)
        return -(-held // table.tokens) + 1

    def cells(self, count: int, context: int) -> Iterator[Cells]:
        """What so many sequences hold of each kind that caches tokens, in whole blocks."""
        for table in self.tables:
            for kind in table.kinds if table.tokens else ():
                yield Cells(kind, count, self._of_one(table, context) * table.tokens)

    def longest(self, blocks: int) -> int:
        """Tokens of the longest sequence that so many blocks hold; 0 if none [1]."""
        return largest(lambda context: self.blocks(context) <= blocks)

    def tokens(self, blocks: int) -> int:
        """Tokens that so many blocks hold, shared evenly by all tables [1]."""
        return blocks // sum(table.groups for table in self.tables) * self.block_tokens


class Layout(NamedTuple):
    """A policy, and what the models of one device hold under it."""

    policy: MemoryPolicy
    kinds: tuple[Kind, ...]
    pool: Pool | None

    @property
    def _states_in_pool(self) -> bool:
        return self.pool is not None and any(not table.tokens for table in self.pool.tables)

    def cache(self, count: int, context: int) -> float:
        """Cache of so many sequences of a length, as blocks or cells hold it [B]."""
        if self.pool is not None and self.policy.windows == "groups":
            return count * self.pool.blocks(context) * self.pool.block_bytes
        return sum(cells.nbytes(cells.kind.cached.nbytes) for cells in self.cells(count, context))

    def saved(self, count: int, shared: int) -> float:
        """What so many sequences need not hold again of a prefix that all share [B].

        Whole blocks of layers that keep all tokens; rows of cells share none.
        """
        if self.pool is None:
            return 0.0
        if self.policy.windows == "groups":
            tables = [t for t in self.pool.tables if t.tokens and t.window is None]
            one = self.pool.block_bytes * sum(t.groups * (shared // t.tokens) for t in tables)
        else:
            (table,) = self.pool.tables
            kept = [k for k in table.kinds if self.policy.windows == "full" or not k.clips]
            tokens = shared // table.tokens * table.tokens
            one = tokens * sum(kind.layers * kind.cached.nbytes for kind in kept)
        return float((count - 1) * one)

    def slots(self, count: int) -> int:
        """Constant states that are held for so many sequences [1]."""
        return count + self.policy.spare_states

    def state(self, count: int) -> float:
        """Constant states of so many sequences, where they are held apart from the pool [B]."""
        one = sum([kind.layers * kind.kept.nbytes for kind in self.states()])
        return float(self.slots(count) * one)

    def states(self) -> Iterator[Kind]:
        """The kinds whose constant state is held apart from the pool."""
        for kind in self.kinds:
            if kind.kept.nbytes and not (kind.is_state and self._states_in_pool):
                yield kind

    def cells(self, count: int, context: int) -> Iterator[Cells]:
        """Rows of cells of every kind that caches tokens."""
        policy = self.policy
        if self.pool is not None and policy.windows == "groups":
            yield from self.pool.cells(count, context)
            return
        block = _block_of(self.kinds, policy)
        rows, row = (1, count * context) if policy.unified else (count, context)
        row = _rounded(row, block)
        for kind in self.kinds:
            if kind.is_state:
                continue
            window, tokens = kind.cached.window or kind.cached.chunk, row
            if window is not None and policy.windows == "cells":
                asked = window * count if policy.unified else window
                tokens = _rounded(min(row, asked + policy.step_tokens), block)
            elif window is not None and policy.windows == "window":
                tokens = _rounded(min(context, window), block)
            yield Cells(kind, rows, tokens)


def layout_of(
    models: Iterable[ModelShape], precisions: Iterable[Precision], policy: MemoryPolicy
) -> Layout:
    """What the models of one device hold under a policy.

    Raises
    ------
    InvalidValueError
        If tokens leave no equal parts in some layer.
    """
    kinds = _kinds(models, precisions, policy)
    return Layout(policy, kinds, _pool(kinds, policy))


def _kinds(
    models: Iterable[ModelShape], precisions: Iterable[Precision], policy: MemoryPolicy
) -> tuple[Kind, ...]:
    """The kinds of layers in which sequences hold something, over all models of a device."""
    counts: dict[tuple[str, Cached, Kept], int] = {}
    for model, precision in zip(models, precisions, strict=True):
        formats = policy.cache_formats(precision)
        conv = policy.conv or precision.linear.outputs
        for count, layer in model.distinct_layers:
            if not layer.has_cache:
                continue
            cached = layer.token_cache(formats)
            if cached is None:
                raise InvalidValueError(
                    f"policy: entries of {model.name} stand for several tokens and fill no blocks "
                    f'or cells, got {policy.name}; memory(..., policy="logical") counts their bytes'
                )
            kept = (
                layer.kept(precision, conv, policy.draft_tokens)
                if policy.short_conv
                else Kept(conv=0, scan=layer.state_bytes(precision))
            )
            key = (layer.title, cached, kept)
            counts[key] = counts.get(key, 0) + count
    return tuple(
        Kind(title, count, cached, kept) for (title, cached, kept), count in counts.items()
    )


def _block_of(kinds: tuple[Kind, ...], policy: MemoryPolicy) -> int:
    return policy.tokens_of_block(any(kind.cached.latent for kind in kinds))


def _pool(kinds: tuple[Kind, ...], policy: MemoryPolicy) -> Pool | None:
    """The pool of blocks that a policy makes of the layers; None for cells, or for no cache."""
    caches = [kind for kind in kinds if not kind.is_state]
    states = [kind for kind in kinds if kind.is_state] if policy.state_pages else []
    if policy.windows == "cells" or not (caches or states):
        return None
    tokens = _block_of(kinds, policy)
    if policy.windows == "groups" and (states or any(kind.cached.window for kind in caches)):
        tables, nbytes = _grouped(caches, states, tokens)
    else:
        tables = (Tables(1, tokens, None, tuple(caches)),)
        nbytes = tokens * sum(kind.layers * kind.cached.nbytes for kind in caches)
    return Pool(tables, nbytes, policy.state_pages + policy.draft_tokens, policy.step_tokens)


def _grouped(
    caches: list[Kind], states: list[Kind], tokens: int
) -> tuple[tuple[Tables, ...], float]:
    """Groups of equally many layers whose blocks weigh the same, whatever they hold.

    Chunks are held like full attention.
    """
    state = max((kind.kept.nbytes for kind in states), default=0)
    token = max((kind.cached.nbytes for kind in caches), default=0)
    if state and token:
        # A block of attention must be able to hold a state.
        tokens = max(tokens, _rounded(-(-state // token), _KERNEL_TOKENS))
    page = max(state, tokens * token)
    members: dict[tuple[int, int | None], list[Kind]] = {}
    for kind in caches:
        own = tokens * kind.cached.nbytes
        # A lighter kind gets longer blocks where that fits exactly, else padded ones.
        length = tokens * int(page // own) if page % own == 0 else tokens
        members.setdefault((length, kind.cached.window), []).append(kind)
    for kind in states:
        members.setdefault((0, None), []).append(kind)
    layers = [sum(kind.layers for kind in kinds) for kinds in members.values()]
    least, most = min(layers), max(layers)
    size = most if most < _NEARLY_EQUAL * least else least
    tables = tuple(
        Tables(-(-count // size), length, window, tuple(kinds))
        for count, ((length, window), kinds) in zip(layers, members.items(), strict=True)
    )
    return tables, size * page


def _rounded(size: float, multiple: int) -> int:
    return int(-(-size // multiple)) * multiple
