"""What towers share: parameters of matrices, norms and encoder layers, and how a tower is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from perfmodel.base._messages import did_you_mean, shown
from perfmodel.base.errors import UnsupportedModelError
from perfmodel.sources.huggingface.config import MAX_LAYERS, REQUIRED, Config, Names
from perfmodel.sources.huggingface.families.parts import pair
from perfmodel.work.layers.layer import Norm, norm_params

# -- matrices and norms -----------------------------------------------------------------------


def linear(inner: int, outer: int, bias: bool = True) -> int:
    """A matrix, perhaps with a bias."""
    return inner * outer + (outer if bias else 0)


def convolution(inner: int, outer: int, *sides: int, bias: bool = True) -> int:
    """A kernel of some sides between so many channels."""
    kernel = inner
    for side in sides:
        kernel *= side
    return linear(kernel, outer, bias)


def norm(width: int, kind: Norm = "layer") -> int:
    """A norm; LayerNorm scales and shifts."""
    return int(norm_params(kind, width))


def mlp(width: int, inner: int, outer: int | None = None, *, bias: bool = True) -> int:
    """Two matrices, out of as many values as went in unless said otherwise."""
    return linear(width, inner, bias) + linear(inner, outer or width, bias)


def gated_mlp(width: int, inner: int, outer: int | None = None, *, bias: bool = False) -> int:
    """Gate, up and down."""
    return linear(width, inner, bias) + mlp(width, inner, outer, bias=bias)


def attention(
    width: int,
    *,
    queries: int | None = None,
    keys: int | None = None,
    bias: bool = True,
    output_bias: bool | None = None,
) -> int:
    """Queries, keys, values and output; ``queries`` and ``keys`` are widths of all heads."""
    queries = width if queries is None else queries
    keys = queries if keys is None else keys
    return (
        linear(width, queries, bias)
        + 2 * linear(width, keys, bias)
        + linear(queries, width, bias if output_bias is None else output_bias)
    )


# -- from a section ---------------------------------------------------------------------------


def encoder(
    c: Config,
    *,
    kind: Norm = "layer",
    gated: bool = False,
    bias: bool = True,
    mlp_bias: bool | None = None,
    extra: int = 0,
) -> int:
    """Encoder layers: attention and feed-forward, a norm before each; ``extra`` for what more."""
    width, inner = c.count("hidden_size"), c.count("intermediate_size")
    form = gated_mlp if gated else mlp
    feedforward = form(width, inner, bias=bias if mlp_bias is None else mlp_bias)
    one = attention(width, bias=bias) + feedforward + 2 * norm(width, kind) + extra
    return c.count("num_hidden_layers") * one


def patches(c: Config, *, bias: bool = True, frames: int = 1, width: str = "hidden_size") -> int:
    """The projection of a patch of pixels, over some frames, onto a width."""
    high, wide = sides(c, "patch_size")
    return linear(c.count("num_channels", 3) * high * wide * frames, c.count(width), bias)


def grid(c: Config) -> int:
    """Patches of an image of ``image_size``."""
    height, width = sides(c, "image_size")
    high, wide = sides(c, "patch_size")
    return (height // high) * (width // wide)


def sides(c: Config, key: str, default: Any = REQUIRED) -> tuple[int, int]:
    """Height and width: a number for both, or a list of the two."""
    if isinstance(c.get(key), list):
        return pair(c, key, (1, 1))
    side = c.count(key, default)
    return side, side


def several(c: Config, key: str, default: Sequence[int]) -> Sequence[int]:
    """A short list of sizes; null means the default."""
    told = c.get(key)
    if told is None:
        return default
    if not isinstance(told, list) or not 0 < len(told) <= 20 or 0 in told:
        raise c.wrong(key, "a list of 1 to 20 sizes")
    return c.counts(key, len(told)) or default


def members(c: Config, key: str, default: int) -> int:
    """How many a list has; a single number is one, and absence the default."""
    found = c.get(key)
    if found is None:
        return default
    if isinstance(found, list) and len(found) <= MAX_LAYERS:
        return len(found)
    if isinstance(found, int) and not isinstance(found, bool):
        return 1
    raise c.wrong(key, "a layer's number, or a list of them")


def head_dim(c: Config, width: str = "hidden_size", heads: str = "num_attention_heads") -> int:
    """Width of one head, as towers divide it: downwards."""
    return max(c.count(width) // c.count(heads), 1)


def sizes(width: int, inner: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    """A class's default sizes, by their common names."""
    return {
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        **more,
    }


# -- which tower ------------------------------------------------------------------------------


class Tower(NamedTuple):
    """How the section of a tower is counted."""

    count: Callable[[Config], int]
    """From the section to its parameters."""
    defaults: Mapping[str, Any] = MappingProxyType({})
    """What the class says of sizes that sections leave out."""
    names: Names = MappingProxyType({})
    """The class's own names for sizes: from the common name to its own."""


class Counted(NamedTuple):
    """A tower of some config."""

    params: int
    """Its parameters [1]."""
    section: Config
    """Its section, to ask for the width of what comes out of it."""

    @property
    def width(self) -> int:
        """Width of its layers [1]."""
        return self.section.count("hidden_size")


TIMM: Final = {"fastvit_mci3": 122_714_208, "mobilenetv5_300m_enc": 294_126_912}
"""Parameters of towers that a config names, and whose sizes stand in no config."""


def timm(c: Config) -> int:
    """TimmWrapperConfig: an architecture by name."""
    name = c.get("architecture")
    if not isinstance(name, str) or name not in TIMM:
        raise UnsupportedModelError(
            f"config.vision_config.architecture: {shown(name)} is no tower that is read; "
            f"{did_you_mean(name, TIMM)}"
        )
    return TIMM[name]


def counted(c: Config, key: str, tower: Tower, *, optional: bool = False) -> Counted:
    """The tower in a section that can hold no other kind; ``optional``: all may be left out."""
    if optional and not c.has_section(key):
        section = Config({}, tower.names, tower.defaults)
    else:
        section = c.section(key, tower.names, tower.defaults)
    return Counted(tower.count(section), section)


def found(c: Config, key: str, towers: Mapping[str, Tower], default: str) -> Counted:
    """The tower that the ``model_type`` of a section names."""
    kind = c.section(key).get("model_type")
    kind = default if kind is None else kind
    if not isinstance(kind, str) or kind not in towers:
        raise UnsupportedModelError(
            f"config.{key}.model_type: {shown(kind)} is no tower that is read; "
            f"{did_you_mean(kind, towers)}"
        )
    return counted(c, key, towers[kind])
