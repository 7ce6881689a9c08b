"""Does the physics hold for every kind of layer, in any step, at any precision?

Each kind is drawn with every field it has (``strategies.FIELDS``). Where a property cannot hold
for a kind, the exception stands beside it, with its reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, get_args

import numpy as np
import pytest
import sympy
from hypothesis import assume, find, given, settings
from hypothesis import strategies as st
from strategies import (
    FIELDS,
    KINDS,
    REL,
    any_models,
    at_most,
    batches,
    close,
    gpus,
    groups,
    hiddens,
    layers_of,
    named_precisions,
    pasts,
    precisions,
    small_steps,
    steps,
)

import perfmodel as pm
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import PRESETS, Precision
from perfmodel.base.spec import Spec
from perfmodel.work.layers import (
    AltUp,
    AnyLayer,
    Attention,
    ChannelMix,
    CompressedAttention,
    ConvolutionalAttention,
    CrossAttention,
    DepthAttention,
    ImageExperts,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MixtureOfExperts,
    MixtureOfHeads,
    NGramEmbedding,
    PerLayerInput,
    RelativeAttention,
    ResidualConvolution,
    RgLru,
    ShortConvolution,
    TimeMix,
    Totals,
)
from perfmodel.work.layers.layer import Layer
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Operation
