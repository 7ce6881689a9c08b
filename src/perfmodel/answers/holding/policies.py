"""How engines use memory: what they take, and how they lay a cache out in it."""

from __future__ import annotations

from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import InvalidValueError, UnknownKeyError
from perfmodel.base.formats import FORMATS, Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import (
    Count,
    CountOrZero,
    Flag,
    Name,
    QuantityOrZero,
    Share,
    Spec,
    checked_flag,
    checked_kind,
    checked_non_negative,
    checked_positive,
    quantity,
)
from perfmodel.work.layers.cached import CacheFormats, LatentCache

# An indexer's key in fp8, and a latent in fp8: one fp32 scale for 128 numbers.
_SCALED_FP8: Final = Format.trusted(name="fp8-g128", bits=8, scale_bits=32, block=128)


class MemoryPolicy(Spec):
    """What an engine takes of a device's memory, and how it lays the cache out in it.

    Presets are named after engines, and say what their logs agree on; every field can be changed.

    Examples
    --------
    >>> MemoryPolicy.preset("vllm").fraction
    0.9
    >>> MemoryPolicy.preset("vllm", block=32).block
    32
    """

    name: Name
    """A name to print."""
    share_of: Literal["all", "total", "free"] = "all"
    """What ``fraction`` is a share of: all memory, of which it takes what is asked; the total, for
    weights and activations too; or what is free beside them."""
    fraction: Share = quantity("u", "1", "Share of the memory that the engine takes", default=1.0)
    reserve: QuantityOrZero = quantity(
        "M_r", "B", "What the runtime holds: contexts, libraries, captured graphs", default=0.0
    )
    peak: Flag = False
    """Whether the activation peak comes out of the share."""
    step_tokens: Count = quantity("T_m", "1", "Tokens of the largest step", default=8192)
    logits: Literal["last", "all"] = "last"
    """Whether the largest step makes logits for one token a sequence, or for all."""
    activation: Format | None = None
    """What activations are kept in; None: as the precision says."""
    block: Count = quantity("B_t", "1", "Tokens of a block, or what cells are a multiple of")
    latent_block: Count | None = quantity(
        "B_l", "1", "Tokens of a block of latents; None: as of others", default=None
    )
    spare_blocks: CountOrZero = quantity(
        "n_0", "1", "Blocks that are allocated and hold no tokens", default=0
    )
    windows: Literal["window", "full", "groups", "cells"] = "window"
    """How a sliding window is held: no more than itself; like full attention; in groups of layers
    that share one pool, with the tokens of a step; or in cells, with the tokens of a step."""
    unified: Flag = False
    """Whether all sequences share one row of cells."""
    latents: LatentCache = "latent"
    """Whether a latent is cached itself, with its transpose beside it for the values, or as the
    keys and values of every head."""
    scaled_latents: Flag = False
    """Whether an fp8 latent has an fp32 scale for 128 numbers, and a bf16 rotary key."""
    keys: Format | None = None
    """What keys are stored in; None: as the precision says of the cache."""
    values: Format | None = None
    """What values are stored in; None: as the precision says of the cache."""
    indexer: Format | None = None
    """What the keys of an indexer are stored in; None: as the precision says of the cache."""
    state_pages: CountOrZero = quantity(
        "k_s", "1", "Blocks of the pool a constant state takes; 0: held apart", default=0
    )
    spare_states: CountOrZero = quantity(
        "n_s", "1", "States that are allocated beside those of sequences", default=0
    )
    short_conv: Flag = True
    """Whether a convolution keeps only the inputs before the next token."""
    conv: Format | None = None
    """What a convolution's inputs are kept in; None: as activations."""
    draft_tokens: CountOrZero = quantity(
        "n_d",
        "1",
        "Drafted tokens that a step checks: states and inputs are kept for each",
        default=0,
    )
    printed: Literal["blocks", "concurrency"] = "blocks"
    """Whether the engine prints tokens of its blocks, or concurrency times the longest sequence."""

    @model_validator(mode="after")
    def _has_no_rows(self) -> Self:
        for field in ("keys", "values", "indexer", "conv", "activation"):
            found: Format | None = getattr(self, field)
            if found is not None and found.per_row:
                raise InvalidValueError(
                    f"MemoryPolicy.{field}: expected a format without a scale a matrix row, as "
                    f"fp8 or q8_0, for what it holds has no rows, got {found.name}"
                )
        return self

    @classmethod
    def preset(cls, name: str, /, **changes: Any) -> MemoryPolicy:
        """The policy of an engine, perhaps with some fields changed.

        Parameters
        ----------
        name : str
            logical, vllm, vllm-v0, vllm-cpu, vllm-tpu, vllm-ascend, sglang, tensorrt-llm, lmdeploy,
            llama.cpp or llama.cpp-unified [text].
        **changes
            Fields of the policy.

        Returns
        -------
        MemoryPolicy
            Validated like any other.

        Raises
        ------
        UnknownKeyError
            If there is no policy of that name.

        Examples
        --------
        >>> MemoryPolicy.preset("llama.cpp", step_tokens=1024).windows
        'cells'
        """
        if not isinstance(name, str) or name not in _PRESETS:
            message = f"policy: no policy {shown(name)}; {did_you_mean(name, _PRESETS)}"
            raise UnknownKeyError(message)
        return cls(**{"name": name} | _PRESETS[name] | changes)

    def pool_bytes(
        self,
        *,
        total: float,
        weights: float,
        activations: float = 0.0,
        reserve: float | None = None,
    ) -> float:
        """What is left of a device's memory for the cache.

        Parameters
        ----------
        total : float
            Memory of the device [B].
        weights : float
            Weights, and whatever else is loaded [B].
        activations : float
            The activation peak; 0 where it does not come out of the share [B].
        reserve : float or None
            What the runtime holds; None: the policy's own [B].

        Returns
        -------
        float
            Bytes, 0 where the share is spent [B].

        Raises
        ------
        InvalidValueError
            If a number of bytes is negative, NaN or infinite, or no number at all.

        Examples
        --------
        A share of the total, and a share of what is free:

        >>> fixed = {"total": 80e9, "weights": 50e9, "activations": 2e9, "reserve": 1e9}
        >>> MemoryPolicy.preset("vllm", fraction=0.9).pool_bytes(**fixed) / 1e9
        19.0
        >>> MemoryPolicy.preset("tensorrt-llm", fraction=0.9).pool_bytes(**fixed) / 1e9
        24.3
        """
        total = checked_positive("total", total)
        kept = self.reserve if reserve is None else checked_non_negative("reserve", reserve)
        fixed = checked_non_negative("weights", weights) + kept
        fixed += checked_non_negative("activations", activations)
        if self.share_of == "free":
            return max(0.0, self.fraction * (total - fixed))
        return max(0.0, self.fraction * total - fixed)

    def tokens_of_block(self, latent: bool) -> int:
        """Tokens of a block.

        Parameters
        ----------
        latent : bool
            Whether the model caches latents [flag].

        Returns
        -------
        int
            Tokens [1].

        Raises
        ------
        InvalidValueError
            If the flag is neither True nor False.
        """
        checked_flag("latent", latent)
        return self.latent_block or self.block if latent else self.block

    def cache_formats(self, precision: Precision) -> CacheFormats:
        """What each part of the cache is stored in.

        Parameters
        ----------
        precision : Precision
            Its KV format counts where the policy names none.

        Returns
        -------
        CacheFormats
            Keys, values, rotary keys beside latents, keys of indexers.

        Raises
        ------
        InvalidValueError
            If it is no precision.
        """
        checked_kind("precision", precision, Precision, "pm.Precision.parse(name)")
        kv = precision.kv
        keys, rotary = self.keys or kv, self.keys or kv
        if self.scaled_latents and kv.bits == 8 and not kv.scale_bits:
            keys, rotary = _SCALED_FP8, FORMATS["bf16"]
        return CacheFormats(
            keys=keys,
            values=self.values or kv,
            rotary=rotary,
            indexer=self.indexer or kv,
            latents=self.latents,
        )


PolicyLike: TypeAlias = MemoryPolicy | str

_BLOCKS: Final[dict[str, Any]] = {
    "share_of": "total",
    "fraction": 0.9,
    "peak": True,
    "block": 16,
    "latent_block": 64,
    "indexer": _SCALED_FP8,
}
_VLLM: Final = _BLOCKS | {"windows": "groups", "state_pages": 2, "printed": "concurrency"}
_CELLS: Final[dict[str, Any]] = {
    "block": 256,
    "windows": "cells",
    "step_tokens": 512,
    "logits": "all",
    "peak": True,
    "activation": FORMATS["fp32"],
    "conv": FORMATS["fp32"],
}
_PRESETS: Final[dict[str, dict[str, Any]]] = {
    "logical": {"block": 1, "short_conv": False},
    "vllm": _VLLM,
    "vllm-v0": _BLOCKS | {"windows": "full"},
    "vllm-cpu": _VLLM | {"block": 128, "latent_block": None},
    "vllm-tpu": _VLLM | {"block": 256, "latent_block": None},
    "vllm-ascend": _VLLM | {"block": 128, "latent_block": None},
    "sglang": {
        "share_of": "total",
        "fraction": 0.88,
        "block": 1,
        "windows": "full",
        "indexer": _SCALED_FP8,
        "spare_states": 1,
    },
    "tensorrt-llm": {"share_of": "free", "fraction": 0.9, "peak": True, "block": 32},
    "lmdeploy": {"share_of": "free", "fraction": 0.8, "peak": True, "block": 64, "windows": "full"},
    "llama.cpp": _CELLS,
    "llama.cpp-unified": _CELLS | {"unified": True},
}

POLICIES: Final = tuple(_PRESETS)


def resolve_policy(policy: PolicyLike) -> MemoryPolicy:
    """A policy as it is, or the preset of that name.

    Raises
    ------
    UnknownKeyError
        If there is no policy of that name.
    """
    if isinstance(policy, MemoryPolicy):
        return policy
    known = _KNOWN.get(policy) if isinstance(policy, str) else None
    if known is None:
        known = MemoryPolicy.preset(policy)
        _KNOWN[policy] = known
    return known


_KNOWN: Final[dict[str, MemoryPolicy]] = {}
