"""Which tokens a query reaches: all before it, a window, its own chunk, or a selection.

From that follow three counts: the pairs of queries and keys, the cached tokens that a step moves,
and the cached tokens that memory holds.
"""

from __future__ import annotations

from typing import NamedTuple

from perfmodel.base._num import Num, maximum, minimum
from perfmodel.work.step import Group


class Reach(NamedTuple):
    """How far a causal query sees; at most one of the three limits is set."""

    window: Num | None = None
    """Tokens that a query attends at most, the latest, itself included [1]."""
    chunk: Num | None = None
    """Tokens of a chunk; a query attends those of its own [1]."""
    most: Num | None = None
    """Tokens that a query attends at most, wherever they stand: all stay cached [1]."""

    @property
    def prefix(self) -> str:
        """What distinguishes the operation in a table."""
        if self.window is not None:
            return "window "
        if self.chunk is not None:
            return "chunk "
        return "" if self.most is None else "sparse "

    def twice_pairs(self, group: Group) -> Num:
        """Twice the (query, key) pairs of one head and one sequence: whole without a division.

        ``new`` causal queries over ``past`` keys attend ``new * past + new (new + 1) / 2`` pairs;
        a query whose context is longer than its limit attends only so many.

        Parameters
        ----------
        group : Group
            New and past tokens of the sequence.

        Returns
        -------
        int or array or symbol
            Twice the number of pairs [1].

        Examples
        --------
        >>> Reach().twice_pairs(Group(count=1, new=3))  # 1 + 2 + 3 pairs
        12
        >>> Reach(window=3).twice_pairs(Group(count=1, new=3, past=1))  # 2 + 3 + 3 pairs
        16
        >>> Reach(chunk=2).twice_pairs(Group(count=1, new=3, past=1))  # 2 + 1 + 2 pairs
        10
        """
        new, past = group.new, group.past
        if self.chunk is not None:
            return _twice_pairs_in_chunks(past + new, self.chunk) - _twice_pairs_in_chunks(
                past, self.chunk
            )
        limit = self.window if self.most is None else self.most
        if limit is None:
            return new * (2 * past + new + 1)
        whole = minimum(maximum(limit - past, 0), new)  # queries that the limit does not clip yet
        return whole * (2 * past + whole + 1) + 2 * (new - whole) * limit

    def moved(self, group: Group) -> Num:
        """Cached tokens that a group moves in one layer: the past read, the new written [1].

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.

        Returns
        -------
        int or array or symbol
            Tokens whose keys and values move [1].

        Examples
        --------
        >>> Reach().moved(Group(count=8, new=1, past=99))  # exactly the context, each
        800
        >>> Reach().moved(Group(count=8, new=1, past=99, shared_past=90))
        170
        """
        return self.read(group) + self.written(group)

    def read(self, group: Group) -> Num:
        """Cached tokens of the past that a group reads in one layer [1].

        Of a window the last ``window - 1``, of a chunk what stands of it; of a selection no fewer
        than one query selects. A past that all sequences share is read once.

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.

        Returns
        -------
        int or array or symbol
            Tokens whose keys and values are read [1].

        Examples
        --------
        >>> Reach(window=64).read(Group(count=8, new=1, past=99))
        504
        """
        past, shared = group.past, group.shared_past
        if self.window is not None:
            # The first new query sees the last window - 1 past tokens; of the shared, the rest.
            shared = maximum(shared - maximum(past + 1 - self.window, 0), 0)
            past = minimum(past, self.window - 1)
        elif self.chunk is not None:
            started = past % self.chunk
            shared = maximum(shared - (past - started), 0)
            past = started
        elif self.most is not None:
            # The least: all sequences may select the same tokens of what they share.
            past = minimum(past, self.most - 1)
            shared = minimum(shared, past)
        return shared + group.count * (past - shared)

    def written(self, group: Group) -> Num:
        """New tokens that a group caches in one layer: a window or a chunk keeps no others [1].

        Parameters
        ----------
        group : Group
            Sequences with their new tokens.

        Returns
        -------
        int or array or symbol
            Tokens whose keys and values are written [1].

        Examples
        --------
        >>> Reach(window=64).written(Group(count=8, new=100))
        512
        """
        limit = self.window if self.chunk is None else self.chunk
        new = group.new if limit is None else minimum(group.new, limit)
        return group.count * new

    def held(self, group: Group) -> Num:
        """Tokens that a group keeps cached in one layer after the step [1].

        A window or a chunk keeps no more than itself, a selection keeps all. A past that all
        sequences share is held once, as far as it is still within reach.

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.

        Returns
        -------
        int or array or symbol
            Tokens whose keys and values are held [1].

        Examples
        --------
        >>> Reach(window=64).held(Group(count=8, new=1, past=99))
        512
        """
        context, shared = group.context, group.shared_past
        limit = self.window if self.chunk is None else self.chunk
        if limit is not None:
            shared = maximum(shared - maximum(context - limit, 0), 0)
            context = minimum(context, limit)
        return shared + group.count * (context - shared)


def _twice_pairs_in_chunks(length: Num, chunk: Num) -> Num:
    """Twice the pairs of a whole sequence of some length, chunk by chunk."""
    rest = length % chunk
    return (length - rest) * (chunk + 1) + rest * (rest + 1)
