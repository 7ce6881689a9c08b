"""What a block is made of: each kind knows its parameters, its cache, its operations."""

from typing import Annotated, TypeAlias

from pydantic import Field

from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.feedforward import FeedForward
from perfmodel.work.layers.totals import Totals

AnyLayer: TypeAlias = Annotated[Attention | FeedForward | Totals, Field(discriminator="kind")]

__all__ = ["AnyLayer", "Attention", "FeedForward", "Totals"]
