"""What a block is made of: each kind knows its parameters, its cache, its operations."""

from typing import Annotated, TypeAlias

from pydantic import Field

from perfmodel.work.layers.altup import AltUp, StreamEnd
from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.cca import ConvolutionalAttention
from perfmodel.work.layers.compressed import CompressedAttention
from perfmodel.work.layers.convolution import ResidualConvolution, ShortConvolution
from perfmodel.work.layers.cross import CrossAttention, ImageExperts
from perfmodel.work.layers.delta import GatedDeltaNet, KimiDeltaAttention
from perfmodel.work.layers.depth import DepthAttention, MessageGate
from perfmodel.work.layers.experts import MixtureOfExperts
from perfmodel.work.layers.feedforward import FeedForward
from perfmodel.work.layers.gated_norm import GatedNorm
from perfmodel.work.layers.heads import MixtureOfHeads
from perfmodel.work.layers.hyper import HyperConnection
from perfmodel.work.layers.latent import LatentAttention
from perfmodel.work.layers.lightning import LightningAttention
from perfmodel.work.layers.mamba import Mamba, Mamba2
from perfmodel.work.layers.mlstm import MatrixMemory
from perfmodel.work.layers.mtp import MtpEntry
from perfmodel.work.layers.ngram import NGramEmbedding
from perfmodel.work.layers.per_layer import PerLayerInput
from perfmodel.work.layers.projection import Projection
from perfmodel.work.layers.relative import RelativeAttention
from perfmodel.work.layers.rglru import RgLru
from perfmodel.work.layers.routed import NetworkRoutedExperts
from perfmodel.work.layers.rwkv import ChannelMix, TimeMix
from perfmodel.work.layers.streams import GatedResidual
from perfmodel.work.layers.totals import Totals

AnyLayer: TypeAlias = Annotated[
    AltUp
    | Attention
    | ChannelMix
    | CompressedAttention
    | ConvolutionalAttention
    | CrossAttention
    | DepthAttention
    | FeedForward
    | GatedDeltaNet
    | GatedNorm
    | GatedResidual
    | HyperConnection
    | ImageExperts
    | KimiDeltaAttention
    | LatentAttention
    | LightningAttention
    | Mamba
    | Mamba2
    | MatrixMemory
    | MessageGate
    | MixtureOfExperts
    | MixtureOfHeads
    | MtpEntry
    | NGramEmbedding
    | NetworkRoutedExperts
    | PerLayerInput
    | Projection
    | RelativeAttention
    | ResidualConvolution
    | RgLru
    | ShortConvolution
    | StreamEnd
    | TimeMix
    | Totals,
    Field(discriminator="kind"),
]

__all__ = [
    "AltUp",
    "AnyLayer",
    "Attention",
    "ChannelMix",
    "CompressedAttention",
    "ConvolutionalAttention",
    "CrossAttention",
    "DepthAttention",
    "FeedForward",
    "GatedDeltaNet",
    "GatedNorm",
    "GatedResidual",
    "HyperConnection",
    "ImageExperts",
    "KimiDeltaAttention",
    "LatentAttention",
    "LightningAttention",
    "Mamba",
    "Mamba2",
    "MatrixMemory",
    "MessageGate",
    "MixtureOfExperts",
    "MixtureOfHeads",
    "MtpEntry",
    "NGramEmbedding",
    "NetworkRoutedExperts",
    "PerLayerInput",
    "Projection",
    "RelativeAttention",
    "ResidualConvolution",
    "RgLru",
    "ShortConvolution",
    "StreamEnd",
    "TimeMix",
    "Totals",
]
