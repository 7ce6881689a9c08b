"""What one token leaves in an engine's cache, and what a sequence keeps whatever its length."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from perfmodel.base._num import Num
from perfmodel.base.formats import Format

LatentCache: TypeAlias = Literal["latent", "transposed", "expanded"]


class CacheFormats(NamedTuple):
    """What an engine stores each part of a cache in."""

    keys: Format
    """Keys, and latents."""
    values: Format
    """Values."""
    rotary: Format
    """The rotary key beside a latent."""
    indexer: Format
    """Keys of an indexer."""
    latents: LatentCache = "latent"
    """Whether a latent is cached itself, with its transpose beside it for the values, or as the
    keys and values of every head."""


class Cached(NamedTuple):
    """What one token leaves in one layer's cache."""

    keys: Num
    """Keys, latents and keys of an indexer [B]."""
    values: Num = 0
    """Values [B]."""
    window: int | None = None
    """Tokens after which the oldest are no longer needed; None: all are [1]."""
    chunk: int | None = None
    """Tokens of a chunk, before which none is needed; None: all are [1]."""
    latent: bool = False
    """Whether it is a latent that all heads share."""

    @property
    def nbytes(self) -> Num:
        """Keys and values [B]."""
        return self.keys + self.values


class Kept(NamedTuple):
    """What one sequence keeps in one layer, however long it is."""

    conv: Num
    """The last inputs of convolutions [B]."""
    scan: Num
    """State of a recurrence [B]."""

    @property
    def nbytes(self) -> Num:
        """Both [B]."""
        return self.conv + self.scan
