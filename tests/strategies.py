"""The one place that says what a plausible chip, model, step, precision or efficiency is.

Wide on purpose: from a phone to the next generation's rack, from a toy to 10 trillion parameters.
"""

from __future__ import annotations

import math
import os
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from perfmodel import (
    Attention,
    Efficiency,
    Embedding,
    FeedForward,
    GpuSpec,
    Group,
    Head,
    ModelShape,
    PeakFlops,
    Precision,
    Step,
)
from perfmodel.base.formats import Format
from perfmodel.base.precision import PRESETS, MatrixFormats
from perfmodel.work import layers as kinds
from perfmodel.work.layers import (
    AltUp,
    ChannelMix,
    CompressedAttention,
    ConvolutionalAttention,
    CrossAttention,
    DepthAttention,
    GatedDeltaNet,
    GatedNorm,
    GatedResidual,
    HyperConnection,
    ImageExperts,
    KimiDeltaAttention,
    LatentAttention,
    LightningAttention,
    Mamba,
    Mamba2,
    MatrixMemory,
    MessageGate,
    MixtureOfExperts,
    MixtureOfHeads,
    MtpEntry,
    NetworkRoutedExperts,
    NGramEmbedding,
    PerLayerInput,
    Projection,
    RelativeAttention,
    ResidualConvolution,
    RgLru,
    ShortConvolution,
    StreamEnd,
    TimeMix,
    Totals,
)
from perfmodel.work.layers.indexer import Indexer
from perfmodel.work.layers.layer import Layer
from perfmodel.work.layers.recurrent import Recurrent

settings.register_profile("here", deadline=None, max_examples=100)
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
# A mistake that needs a hundred cases to be seen is none that a mutant makes.
settings.register_profile("mutants", settings.get_profile("ci"), max_examples=40)
settings.load_profile({None: "here", "mutants": "mutants"}.get(os.environ.get("CI"), "ci"))

REL = 1e-12  # what rounding may do to an equality or an order
MAX_CONTEXT = 2**20

batches = st.integers(1, 4096)
contexts = st.integers(1, MAX_CONTEXT)
prompts = st.integers(1, 32_768)
pasts = st.integers(0, 131_072)
small_steps = st.sampled_from(["fused", "separate"])


def close(a: float, b: float) -> bool:
    """Equal but for rounding."""
    return math.isclose(a, b, rel_tol=REL)


def at_most(a: float, b: float) -> bool:
    """Not above, but for rounding."""
    return a <= b * (1 + REL)


def decades(low: float, high: float) -> st.SearchStrategy[float]:
    """Positive floats of which every power of ten is equally likely."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda x: min(max(10**x, low), high))


# -- chips -----------------------------------------------------------------------------------------


@st.composite
def gpus(draw: st.DrawFn) -> GpuSpec:
    """A chip with a peak for every format: 8 bits twice as fast as 16, 4 bits twice that."""
    bf16 = draw(decades(1e10, 1e16))
    capacity = draw(decades(1e9, 1e14))
    return GpuSpec(
        name="any chip",
        memory_bandwidth=draw(decades(1e9, 1e14)),
        memory_capacity=capacity,
        visible_capacity=draw(st.none() | st.floats(0.9, 1).map(lambda part: part * capacity)),
        peak_flops=PeakFlops(
            fp32=bf16 / 16,
            tf32=bf16 / 2,
            fp16=bf16,
            fp16_acc16=2 * bf16,
            bf16=bf16,
            fp8=2 * bf16,
            fp8_acc16=4 * bf16,
            mxfp8=2 * bf16,
            int8=2 * bf16,
            mxfp6=2 * bf16,
            mxfp4=4 * bf16,
            nvfp4=4 * bf16,
            int4=4 * bf16,
        ),
    )


def with_capacity(gpu: GpuSpec, capacity: float) -> GpuSpec:
    """The same chip with so much memory."""
    return gpu.model_copy(update={"memory_capacity": capacity, "visible_capacity": None})


# -- models ----------------------------------------------------------------------------------------

norms = st.sampled_from(["rms", "layer", None])


@st.composite
def attentions(draw: st.DrawFn, *, windows: bool = True) -> Attention:
    """Multi-head, grouped or multi-query; with or without a sliding window."""
    kv_heads = draw(st.integers(1, 32))
    return Attention(
        heads=kv_heads * draw(st.integers(1, 16)),
        kv_heads=kv_heads,
        head_dim=draw(st.sampled_from([32, 64, 80, 96, 128, 192, 256])),
        window=draw(st.none() | st.integers(1, 8192)) if windows else None,
        qkv_bias=draw(st.booleans()),
        output_bias=draw(st.booleans()),
        qk_norm=draw(st.sampled_from([None, "head", "full"])),
        norm=draw(norms),
    )


@st.composite
def feedforwards(draw: st.DrawFn) -> FeedForward:
    """Plain or gated, with or without biases."""
    return FeedForward(
        width=draw(st.integers(1, 2048)) * 32,
        gated=draw(st.booleans()),
        bias=draw(st.booleans()),
        norm=draw(norms),
    )


@st.composite
def models(draw: st.DrawFn, *, windows: bool = True) -> ModelShape:
    """Dense models: one to three kinds of block, of which the first has attention."""
    blocks = []
    for _ in range(draw(st.integers(1, 3))):
        attention, feedforward = draw(attentions(windows=windows)), draw(feedforwards())
        rows = [(attention, feedforward), (attention,)] + [(feedforward,)] * bool(blocks)
        blocks.append((draw(st.integers(1, 64)), draw(st.sampled_from(rows))))
    positions = draw(st.sampled_from([None, None, 2 * MAX_CONTEXT]))
    embedding = draw(st.sampled_from([None, Embedding(), Embedding(positions=positions)]))
    tied = draw(st.booleans()) if embedding is not None else False
    head = draw(st.sampled_from([None, Head(tied=tied), Head(tied=tied, norm=draw(norms))]))
    return ModelShape(
        name="any model",
        hidden=draw(st.integers(1, 512)) * 32,
        vocab=draw(st.integers(256, 300_000)),
        blocks=tuple(blocks),
        embedding=embedding,
        head=head,
    )


def windows(model: ModelShape) -> list[int | None]:
    """The window of each layer that has a cache; None: it keeps every token."""
    layers = [layer for _, row in model.blocks for layer in row]
    return [getattr(x, "window", None) for x in layers if not isinstance(x, FeedForward)]


def full_attention_models() -> st.SearchStrategy[ModelShape]:
    """Models without a sliding window."""
    return models(windows=False)


@st.composite
def coarse_models(draw: st.DrawFn, *, cache: bool = True) -> ModelShape:
    """So many parameters; with a cache, its size in numbers or in bytes a token."""
    sizes: dict[str, float] = {}
    if cache and draw(st.booleans()):
        sizes["kv_bytes_per_token"] = draw(decades(1e2, 1e7))
    elif cache:
        sizes["layers"] = draw(st.integers(1, 128))
        sizes["kv_heads"] = draw(st.integers(1, 64))
        sizes["head_dim"] = draw(st.sampled_from([64, 80, 128, 256]))
    return ModelShape.from_totals(params=round(draw(decades(1e6, 1e13))), **sizes)


def shapes() -> st.SearchStrategy[ModelShape]:
    """Any model with a cache."""
    return models() | coarse_models()


# -- what they are stored and computed in ----------------------------------------------------------

_KV = ["bf16+kv8", "fp8+kv8", "w8a16+kvint8", "w4a16+kv8", "nvfp4+kvnvfp4", "bf16+kvq8_0"]
_WIDER = ["fp8+compute16", "nvfp4+compute16", "mxfp4+compute16", "w4a4+compute8"]
_UNIFORM = [f"uniform-{name}" for name in ("fp32", "fp16", "bf16", "fp8", "int8", "mxfp4")]
named_precisions = st.sampled_from([*PRESETS, *_KV, *_WIDER, *_UNIFORM]).map(Precision.parse)


def _with_quantized_head(precision: Precision) -> Precision:
    """Embedding and head in int8 with a 16-bit scale a row."""
    head = MatrixFormats(
        weights=Format(name="int8-row", bits=8, scale_bits=16),
        inputs=precision.head.inputs,
        outputs=precision.head.outputs,
        compute=precision.head.compute,
    )
    return Precision(
        name=f"{precision.name}, int8 head",
        linear=precision.linear,
        head=head,
        kv=precision.kv,
        attention=precision.attention,
    )


def precisions() -> st.SearchStrategy[Precision]:
    """Every preset, other KV formats, one format everywhere, and quantized heads."""
    quantized = named_precisions.map(_with_quantized_head)
    return st.one_of(named_precisions, named_precisions, named_precisions, quantized)


@st.composite
def efficiencies(draw: st.DrawFn) -> Efficiency:
    """From the ideal to an engine at a twentieth of the roofs."""
    overheads = st.just(0.0) | decades(1e-9, 1e-3)
    return Efficiency(
        compute=draw(st.floats(0.05, 1)),
        memory=draw(st.floats(0.05, 1)),
        call_overhead=draw(overheads),
        step_overhead=draw(overheads),
        exponent=draw(st.just(math.inf) | st.floats(1, 64)),
    )


# -- steps -----------------------------------------------------------------------------------------


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """Prefill, decode, a chunk, a cached or a shared prefix, the check of a few drafts."""
    new = draw(st.just(1) | st.integers(1, 8) | prompts)
    past = draw(st.just(0) | pasts)
    return Group(
        count=draw(batches),
        new=new,
        past=past,
        logits=draw(st.sampled_from([0, 1, new])),
        shared_past=draw(st.just(0) | st.integers(0, past)),
    )


def steps() -> st.SearchStrategy[Step]:
    """One to four groups that pass the weights together."""
    return st.lists(groups(), min_size=1, max_size=4).map(lambda found: Step(groups=tuple(found)))


# -- every kind of layer ---------------------------------------------------------------------------

hiddens = st.integers(1, 128).map(lambda n: 64 * n)
_flags = st.booleans()
_widths = st.integers(1, 8192)
_few = st.integers(1, 9)
_head_dims = st.integers(1, 17) | st.sampled_from([64, 80, 128, 192])
_limits = st.integers(1, 17) | st.integers(1, 8192)
_scans = st.sampled_from(["recurrent", "chunked"])
_chunk_sizes = st.sampled_from([1, 2, 7, 64, 256])


def _maybe(sizes: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | sizes


indexers = st.builds(
    Indexer,
    heads=st.integers(1, 64),
    dim=_head_dims,
    top_k=st.integers(1, 17) | st.integers(1, 4096),
    shared=_flags,
    weighted=_flags,
    pool=st.sampled_from([1, 1, 2, 4, 7]),
    gated=_flags,
    scalars=st.integers(0, 256),
)

# What a field may be. A kind has its own fields and those of the classes that it comes from.
FIELDS: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    Layer: {
        "norm": st.sampled_from([None, "rms", "layer", "layer-scale", "bare"]),
        "post_norm": st.sampled_from([None, None, "rms", "layer"]),
        "scalars": st.integers(0, 64),
        "reused": st.sampled_from([False, False, False, True]),
        "variant": st.sampled_from(["", "other."]),
    },
    Recurrent: {
        "conv_kernel": _few,
        "conv_state": st.none() | st.integers(0, 9),
        "scan": _scans,
        "chunk_size": _chunk_sizes,
    },
    AltUp: {"streams": _few},
    Attention: {
        "heads": st.integers(1, 16),  # for each key and value head
        "kv_heads": st.integers(1, 16),
        "head_dim": _head_dims,
        "value_dim": _maybe(_head_dims),
        "window": _maybe(_limits),
        "chunk": _maybe(_limits),
        "source": _maybe(_widths),
        "indexer": _maybe(indexers),
        "shares_kv": _flags,
        "keys_as_values": _flags,
        "gate": st.sampled_from([None, "value", "head"]),
        "qkv_bias": _flags,
        "gate_bias": _flags,
        "output_bias": _flags,
        "qk_norm": st.sampled_from([None, "head", "full", "bare"]),
        "differential": _flags,
        "masks_keys": _flags,
        "qk_shift": _flags,
    },
    ChannelMix: {"width": _widths, "shifted": hiddens},
    CompressedAttention: {
        "heads": st.integers(1, 64),  # for each group of the output
        "head_dim": _head_dims,
        "query_rank": _widths,
        "window": _limits,
        "ratio": _maybe(st.sampled_from([1, 2, 3, 4, 128])),
        "overlap": _flags,
        "indexer": _maybe(indexers),
        "output_groups": _few,
        "output_rank": _widths,
    },
    ConvolutionalAttention: {"channel_kernel": _few, "head_kernel": _few},
    CrossAttention: {
        "heads": st.integers(1, 64),
        "kv_heads": st.integers(1, 16),
        "head_dim": _head_dims,
        "width": _widths,
    },
    DepthAttention: {"queries": _few, "states": _few},
    FeedForward: {"width": _widths, "gated": _flags, "bias": _flags},
    GatedDeltaNet: {
        "key_heads": st.integers(1, 32),
        "value_heads": st.integers(1, 4),  # for each key head
        "key_dim": _head_dims,
        "value_dim": _head_dims,
    },
    GatedNorm: {"rank": _widths},
    GatedResidual: {"streams": _few, "rank": _widths, "injects": _flags},
    HyperConnection: {"streams": _few, "outputs": st.integers(1, 99)},
    ImageExperts: {},
    KimiDeltaAttention: {
        "heads": st.integers(1, 64),
        "head_dim": _head_dims,
        "gate_rank": _maybe(_widths),
    },
    LatentAttention: {
        "heads": st.integers(1, 128),
        "query_rank": _maybe(_widths),
        "kv_rank": st.integers(1, 512),
        "nope_dim": _head_dims,
        "rope_dim": st.just(0) | _head_dims,
        "value_dim": _head_dims,
        "window": _maybe(_limits),
        "indexer": _maybe(indexers),
        "form": st.sampled_from(["auto", "absorbed", "expanded"]),
        "gate": st.sampled_from([None, "value", "head", "query"]),
        "shares_kv": _flags,
        "down_bias": _flags,
        "output_bias": _flags,
    },
    LightningAttention: {"heads": st.integers(1, 64), "head_dim": _head_dims},
    Mamba: {
        "inner": st.integers(1, 2048),  # for each group
        "state": st.integers(1, 64),
        "dt_rank": st.integers(1, 256),
        "groups": _few,
        "conv_bias": _flags,
        "bias": _flags,
        "inner_norms": _flags,
    },
    Mamba2: {
        "heads": st.integers(1, 32),  # for each group
        "head_dim": _head_dims,
        "groups": _few,
        "state": st.integers(1, 128),
        "conv_bias": _flags,
        "bias": _flags,
        "output_bias": _flags,
        "gated_norm": _flags,
        "unused_inputs": st.integers(0, 99),
    },
    MatrixMemory: {
        "heads": st.integers(1, 64),
        "key_dim": _head_dims,
        "value_dim": _head_dims,
        "bias": _flags,
    },
    MessageGate: {"rank": _widths},
    MixtureOfExperts: {
        "experts": st.integers(1, 17) | st.integers(1, 512),
        "top_k": st.integers(1, 16),  # at most
        "width": _widths,
        "gated": _flags,
        "shared_width": st.just(0) | _widths,
        "shared_gate": _flags,
        "zero_experts": st.just(0) | st.integers(0, 256),
        "skew": st.just(0.0) | st.floats(0, 3),
        "latent": _maybe(_widths),
        "router_width": _maybe(st.integers(1, 1024)),
        "router_bias": _flags,
        "bias": _flags,
        "shared_bias": _flags,
    },
    MixtureOfHeads: {
        "experts": st.integers(1, 64),
        "top_k": st.integers(1, 16),  # at most
    },
    MtpEntry: {"last_norm": _flags},
    NGramEmbedding: {
        "rows": st.integers(1, 10**6),
        "heads": st.integers(1, 16),
        "head_dim": _head_dims,
        "channels": hiddens,
        "longest": _few,
    },
    NetworkRoutedExperts: {"router_rank": _widths, "carries_router": _flags},
    PerLayerInput: {"rows": st.integers(1, 10**6), "width": _widths},
    Projection: {
        "inputs": _maybe(_widths),
        "outputs": _maybe(_widths),
        "rank": _maybe(_widths),
        "bias": _flags,
    },
    RelativeAttention: {
        "profiles": st.integers(1, 64),
        "extent": _widths,
        "conv_kernel": _few,
        "dynamic": _flags,
        "sinks": _flags,
    },
    ResidualConvolution: {"channels": hiddens},
    RgLru: {"channels": st.integers(1, 1024), "gate_blocks": _few},  # channels of each block
    ShortConvolution: {"channels": hiddens, "bias": _flags},
    StreamEnd: {"streams": _few},
    TimeMix: {"inner": _widths, "shifted": hiddens},
    Totals: {
        "matrix_weights": decades(1e6, 1e13).map(round),
        "kv_values_per_token": _maybe(st.integers(1, 10**7)),
        "kv_bytes_per_token": st.none() | decades(1e2, 1e7),
    },
}


def _consistent(kind: type[Layer], drawn: dict[str, Any]) -> dict[str, Any]:
    """What was drawn, without the contradictions that a kind refuses."""
    fixed = dict(drawn)
    if issubclass(kind, MixtureOfHeads):
        fixed["top_k"] = min(drawn["top_k"], drawn["experts"])
        fixed["heads"] = fixed["top_k"]
    if issubclass(kind, Attention):
        fixed["heads"] *= drawn["kv_heads"]
        limits = [name for name in ("window", "chunk", "indexer") if drawn[name] is not None]
        fixed |= dict.fromkeys(limits[1:])
        if drawn["keys_as_values"]:
            fixed["value_dim"] = None
    if issubclass(kind, CompressedAttention):
        fixed["heads"] *= drawn["output_groups"]
        if drawn["ratio"] is None:
            fixed |= {"overlap": False, "indexer": None}
        elif drawn["indexer"] is not None:
            sizes = {name: getattr(drawn["indexer"], name) for name in ("heads", "dim", "top_k")}
            fixed["indexer"] = Indexer(**sizes)
    if issubclass(kind, LatentAttention):
        if drawn["window"] is not None:
            fixed["indexer"] = None
        if drawn["gate"] == "query" and drawn["query_rank"] is None:
            fixed["gate"] = None
    if issubclass(kind, GatedDeltaNet):
        fixed["value_heads"] *= drawn["key_heads"]
    if issubclass(kind, Mamba):
        fixed["inner"] *= drawn["groups"]
    if issubclass(kind, Mamba2):
        fixed["heads"] *= drawn["groups"]
    if issubclass(kind, RgLru):
        fixed["channels"] *= drawn["gate_blocks"]
    if issubclass(kind, ChannelMix | TimeMix):
        fixed["conv_state"] = drawn["conv_state"] or 1
    if issubclass(kind, MixtureOfExperts):
        fixed["top_k"] = min(drawn["top_k"], drawn["experts"] + drawn["zero_experts"])
    if issubclass(kind, Totals) and drawn["kv_values_per_token"] is not None:
        fixed["kv_bytes_per_token"] = None
    return fixed


def layers_of(kind: type[Layer], **given: Any) -> st.SearchStrategy[Any]:
    """Any layer of a kind, perhaps with some fields as given."""
    fields: dict[str, st.SearchStrategy[Any]] = {}
    for parent in reversed(kind.__mro__):
        fields |= FIELDS.get(parent, {})
    defaults = {name: kind.model_fields[name].default for name in kind.LACKS}
    fields |= {name: st.just(value) for name, value in (defaults | given).items()}
    return st.fixed_dictionaries(fields).map(lambda drawn: kind(**_consistent(kind, drawn)))


KINDS: list[type[Layer]] = sorted(
    (getattr(kinds, name) for name in kinds.__all__ if name != "AnyLayer"),
    key=lambda kind: kind.__name__,
)


@st.composite
def any_layers(draw: st.DrawFn) -> Layer:
    """Any layer of any kind, but the lump that stands alone."""
    kind = draw(st.sampled_from([kind for kind in KINDS if kind is not Totals]))
    return draw(layers_of(kind))


@st.composite
def any_models(draw: st.DrawFn) -> ModelShape:
    """Models made of layers of every kind, some of them more than once; with or without ends."""
    found = draw(st.lists(any_layers(), min_size=1, max_size=5))
    rows = st.lists(st.sampled_from(found), min_size=1, max_size=4).map(tuple)
    blocks = draw(st.lists(st.tuples(st.integers(1, 64), rows), min_size=1, max_size=3))
    embedding = draw(st.none() | st.builds(Embedding, width=_maybe(_widths), norm=norms))
    tied = draw(_flags) if embedding is not None and embedding.width is None else False
    head = draw(st.none() | st.builds(Head, tied=st.just(tied), norm=norms, bias=_flags))
    return ModelShape(
        name="a model of any layers",
        hidden=draw(hiddens),
        vocab=draw(st.integers(256, 300_000)),
        blocks=tuple(blocks),
        embedding=embedding,
        head=head,
    )
