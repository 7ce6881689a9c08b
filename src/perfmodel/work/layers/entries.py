"""Entries of a cache that stand for several tokens each: pairs, what moves, what is held."""

from __future__ import annotations

from typing import NamedTuple

from perfmodel.base._num import Num, minimum
from perfmodel.work.step import Group


class Entries(NamedTuple):
    """Compressed entries: one for every so many tokens, there as soon as its last token is."""

    ratio: Num
    """Tokens of an entry [1]."""
    most: Num | None = None
    """Entries that a query attends at most; None: all before it [1]."""

    def twice_pairs(self, group: Group) -> Num:
        """Twice the (query, entry) pairs of one head and one sequence.

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
        >>> Entries(2).twice_pairs(Group(count=1, new=5))  # 0 + 1 + 1 + 2 + 2 pairs
        12
        >>> Entries(2, most=1).twice_pairs(Group(count=1, new=5))  # 0 + 1 + 1 + 1 + 1 pairs
        8
        """
        return self._twice_pairs_of(group.context) - self._twice_pairs_of(group.past)

    def _twice_pairs_of(self, length: Num) -> Num:
        """Those of a whole sequence of some length."""
        unclipped = length if self.most is None else minimum(length, self.most * self.ratio)
        whole = unclipped // self.ratio
        rest = unclipped - whole * self.ratio
        pairs = self.ratio * whole * (whole - 1) + 2 * whole * (rest + 1)
        return pairs if self.most is None else pairs + 2 * self.most * (length - unclipped)

    def moved(self, group: Group) -> Num:
        """Entries that a group moves in one layer: those of the past read, new ones written [1].

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.

        Returns
        -------
        int or array or symbol
            Entries; the least where they are selected [1].

        Examples
        --------
        >>> Entries(4).moved(Group(count=2, new=1, past=11))  # two read, the third written
        6
        """
        before, shared = group.past // self.ratio, group.shared_past // self.ratio
        made = group.context // self.ratio - before
        if self.most is not None:
            before = minimum(before, self.most)
            shared = minimum(shared, before)
        return shared + group.count * (before - shared + made)

    def held(self, group: Group) -> Num:
        """Entries that a group keeps in one layer after the step [1].

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.

        Returns
        -------
        int or array or symbol
            Entries; those of a past that all share are held once [1].

        Examples
        --------
        >>> Entries(4).held(Group(count=2, new=1, past=11))
        6
        """
        shared = group.shared_past // self.ratio
        return shared + group.count * (group.context // self.ratio - shared)
