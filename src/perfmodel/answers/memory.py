"""What memory must hold, what fits, and how much of it fits."""

from __future__ import annotations

from typing import NoReturn

from perfmodel.answers._asked import decode_group, require_positions
from perfmodel.answers._search import largest
from perfmodel.answers.holding.policies import PolicyLike, resolve_policy
from perfmodel.answers.holding.question import Holding, sequences
from perfmodel.answers.holding.record import DeviceMemory
from perfmodel.answers.holding.remedies import GROUPS, fewest_devices, in_words, remedies_of
from perfmodel.answers.holding.stages import stages_of
from perfmodel.base.errors import DoesNotFitError
from perfmodel.base.precision import PrecisionLike
from perfmodel.base.spec import checked_count, checked_kind
from perfmodel.machine.hardware import Cluster, GpuSpec
from perfmodel.work.parallel import SINGLE, Parallelism
from perfmodel.work.shape import ModelShape


def memory(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    context: int | None = None,
    shared_past: int = 0,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> DeviceMemory:
    """What a chip must hold for a batch of sequences, whether it does, and what would help.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes; without a capacity,
        ``fits`` and ``free`` are None.
    batch : int
        Sequences of all devices together [1].
    context : int or None
        Tokens of each; None only for a shape without a cache [1].
    shared_past : int
        Tokens of a prefix that all sequences share and that is held once [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    DeviceMemory
        Of the device that holds most: ``weights``, ``kv``, ``state``, ``needed``, ``free`` [B],
        ``fits``, and ``remedies`` where it does not.

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    InvalidValueError
        If an argument is not what it should be.
    NoCacheError
        If a context is given for a shape without a cache.

    Notes
    -----
    The policy ``logical`` counts no paging, no runtime reserve and no activations. Under any other,
    ``kv`` and ``state`` are still the exact bytes; ``paged`` is what blocks and slots make of them,
    ``allocated`` the pool that the engine takes, and ``needed`` counts the peak of activations and
    the reserve too.

    Examples
    --------
    >>> from perfmodel import Cluster, GpuSpec, ModelShape, memory
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> held = memory(ModelShape.from_totals(params=8e9), card, batch=1)
    >>> held.fits, held.free
    (True, 8000000000.0)
    """
    holding = Holding(
        model,
        gpu,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    group = decode_group(model, batch, context, shared_past, draft)
    held = holding.of_groups(group)
    if held.fits is not False:
        return held
    return DeviceMemory.trusted(
        **dict(held) | {"remedies": remedies_of(holding, group.count, group.context)}
    )


def max_batch(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    context: int,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> int:
    """The most sequences of a context that a chip holds beside the weights.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    context : int
        Tokens of each sequence [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    int
        Sequences of all devices together [1]; this many fit and one more does not.

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    UnboundedError
        If the memory is so large that it limits nothing.
    DoesNotFitError
        If not even one sequence fits; the message says what would help.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    Beside 16 GB of weights, 8 GB are left for sequences of 1,000 tokens of 100 kB:

    >>> from perfmodel import Cluster, GpuSpec, ModelShape, max_batch
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> max_batch(ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), card, context=1000)
    80
    """
    holding = Holding(
        model,
        gpu,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    holding.require_capacity()
    context = checked_count("context", context)
    require_positions(context, model, draft)
    most = largest(lambda batch: holding.of(batch, context).fits)
    return most if most else _refuse(holding, 1, context)


def max_context(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> int:
    """The longest context of every sequence of a batch that a chip holds beside the weights.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    batch : int
        Sequences of all devices together [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    int
        Tokens [1]; learned positions limit it, rotary ones do not.

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    DoesNotFitError
        If not even one token of each sequence fits; the message says what would help.
    UnboundedError
        If every layer has a window and memory limits nothing.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    >>> from perfmodel import Cluster, GpuSpec, ModelShape, max_context
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> max_context(ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), card, batch=80)
    1000
    """
    holding = Holding(
        model,
        gpu,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    holding.require_capacity()
    batch = checked_count("batch", batch)
    limits = [one.position_limit for one in (model, draft) if one is not None]
    limit = min((limit for limit in limits if limit is not None), default=None)
    if limit is not None and holding.of(batch, limit).fits:
        return limit
    most = largest(lambda context: holding.of(batch, context).fits)
    return most if most else _refuse(holding, batch, 1)


def max_tokens(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    context: int,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> int:
    """The most tokens that a chip's cache holds, in sequences of a context and a last, shorter one.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    context : int
        Tokens of each sequence but the last [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    int
        Tokens of all sequences and devices together [1].

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    DoesNotFitError
        If not even one token fits; the message says what would help.
    UnboundedError
        If the memory is so large that it limits nothing.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    >>> from perfmodel import Cluster, GpuSpec, ModelShape, max_tokens
    >>> card = GpuSpec(
    ...     name="24 GB", memory_bandwidth=1e12, memory_capacity=24e9, peak_flops={"bf16": 1e14}
    ... )
    >>> max_tokens(ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5), card, context=3000)
    80000
    """
    holding = Holding(
        model,
        gpu,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    holding.require_capacity()
    context = checked_count("context", context)
    require_positions(context, model, draft)
    whole = largest(lambda batch: holding.of(batch, context).fits)
    replicas, full = holding.split.data, (sequences(whole, context),) if whole else ()
    # Another sequence on each replica, which is shorter, for a whole one would not fit.
    rest = largest(lambda size: holding.of_groups(*full, sequences(replicas, size)).fits)
    tokens = whole * context + replicas * rest
    return tokens if tokens else _refuse(holding, 1, 1)


def min_capacity(
    model: ModelShape,
    *,
    batch: int,
    context: int | None = None,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> float:
    """The memory that a device must have for a batch of sequences to fit.

    Parameters
    ----------
    model : ModelShape
        The model.
    batch : int
        Sequences of all devices together [1].
    context : int or None
        Tokens of each; None only for a shape without a cache [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    float
        Memory of each device, of which the policy takes its share [B].

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    InvalidValueError
        If an argument is not what it should be.
    NoCacheError
        If a context is given for a shape without a cache.

    Examples
    --------
    >>> from perfmodel import ModelShape, min_capacity
    >>> shape = ModelShape.from_totals(params=8e9, kv_bytes_per_token=1e5)
    >>> min_capacity(shape, batch=80, context=1000)
    24000000000.0
    """
    checked_kind("model", model, ModelShape, "pm.model(key) or pm.read_hf(path)")
    stages = stages_of(
        model,
        precision=precision,
        policy=resolve_policy(policy),
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    group = decode_group(model, batch, context, 0, draft)
    count = -(-group.count // parallelism.data)
    return max(stage.capacity_for(count, group.context) for stage in stages)


def min_devices(
    model: ModelShape,
    gpu: GpuSpec | Cluster,
    *,
    batch: int,
    context: int | None = None,
    precision: PrecisionLike = None,
    policy: PolicyLike = "logical",
    parallelism: Parallelism = SINGLE,
    draft: ModelShape | None = None,
    mtp: bool = False,
) -> int:
    """The fewest devices that must share each matrix for a batch of sequences to fit.

    Parameters
    ----------
    model : ModelShape
        The model.
    gpu : GpuSpec or Cluster
        The chip, or many of them and the network between their nodes, with a capacity.
    batch : int
        Sequences of all devices together [1].
    context : int or None
        Tokens of each; None only for a shape without a cache [1].
    precision : Precision or str or None
        What weights and KV are stored in; None: the checkpoint's own, else bf16.
    policy : MemoryPolicy or str
        How an engine uses the memory; ``"logical"``: exact bytes, and nothing else.
    parallelism : Parallelism
        Over how many devices each part of the model is divided; the default is one device.
    draft : ModelShape or None
        A model that drafts tokens: its weights and cache count too.
    mtp : bool
        Whether the model's extra prediction blocks are held [flag].

    Returns
    -------
    int
        Devices of a tensor group: as many as ``parallelism`` says, else the next of 2, 4, ... 64
        that divides the model [1].

    Raises
    ------
    UnknownKeyError
        If there is no preset or policy of that name.
    DoesNotFitError
        If it fits no such group.
    NoCacheError
        If the shape has no cache.
    InvalidValueError
        If an argument is not what it should be, or the chip's capacity is unknown.

    Examples
    --------
    >>> import perfmodel as pm
    >>> pm.min_devices(pm.model("llama-3.1-70b"), pm.gpu("h100-sxm"), batch=1, context=8192)
    2
    """
    holding = Holding(
        model,
        gpu,
        precision=precision,
        policy=policy,
        parallelism=parallelism,
        draft=draft,
        mtp=mtp,
    )
    holding.require_capacity()
    group = decode_group(model, batch, context, 0, draft)
    found = fewest_devices(holding, group.count, group.context)
    if found is None:
        held = holding.of(group.count, group.context)
        told = in_words(remedies_of(holding, group.count, group.context))
        raise DoesNotFitError(
            f"no group of up to {GROUPS[-1]} devices that share each matrix holds it; "
            f"with tensor={parallelism.tensor} each {held.shortfall()}{told}"
        )
    return found[0]


def _refuse(holding: Holding, batch: int, context: int) -> NoReturn:
    held = holding.of(batch, context)
    told = in_words(remedies_of(holding, batch, context))
    raise DoesNotFitError(f"even the smallest size does not fit: {held.shortfall()}{told}")
