"""Which modules a quantized checkpoint means: names, globs and simple regular expressions.

Checkpoints list modules by their names in the reference implementation. A matrix here stands for
one module or for several that run fused; it is meant if any of the names it may have is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from itertools import combinations, product
from typing import Any, Final

from perfmodel.base._messages import shown
from perfmodel.base.errors import UnsupportedModelError

MAX_PATTERNS: Final = 50_000
MAX_GLOBS: Final = 500  # of those that hold for all blocks
MAX_PATTERN: Final = 300  # characters
MAX_ALTERNATIVES: Final = 64  # of one pattern

_MIXERS: Final = (
    "self_attn",
    "attn",
    "attention",
    "self_attention",
    "mixer",
    "linear_attn",
    "mamba",
)
_MLPS: Final = ("mlp", "feed_forward", "ffn", "block_sparse_moe", "mixer", "moe", "shared_mlp")
_UP: Final = ("gate_proj", "up_proj", "gate_up_proj", "w1", "w3", "fc1", "c_fc", "dense_h_to_4h")
_DOWN: Final = ("down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h")
_EXPERTS: Final = ("experts", "experts.0")
_SHARED: Final = ("shared_expert", "shared_experts", "shared_mlp", "shared_experts.0")
_QKV: Final = ("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value", "c_attn", "Wqkv", "qkv")
_OUT: Final = ("o_proj", "out_proj", "dense", "c_proj", "wo")

_HEADS: Final = ("lm_head", "head", "output", "embed_out")

# kind of layer and matrix -> (where the module may stand, what it may be called there)
_NAMES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "attention.qkv": (_MIXERS, _QKV),
    "attention.output": (_MIXERS, _OUT),
    "feedforward.gate_up": (_MLPS, _UP),
    "feedforward.up": (_MLPS, _UP),
    "feedforward.down": (_MLPS, _DOWN),
    "latent.query": (_MIXERS, ("q_proj",)),
    "latent.query_down": (_MIXERS, ("q_a_proj", "wq_a")),
    "latent.query_up": (_MIXERS, ("q_b_proj", "wq_b")),
    "latent.latent": (_MIXERS, ("kv_a_proj_with_mqa", "wkv_a")),
    "latent.kv_up": (_MIXERS, ("kv_b_proj", "wkv_b")),
    "latent.output": (_MIXERS, _OUT),
    "moe.router": (_MLPS, ("gate", "router", "router.proj", "router.layer")),
    "moe.shared_gate": (_MLPS, ("shared_expert_gate",)),
    "moe.shared_up": (_MLPS, tuple(f"{s}.{x}" for s in _SHARED for x in _UP)),
    "moe.shared_down": (_MLPS, tuple(f"{s}.{x}" for s in _SHARED for x in _DOWN)),
    "moe.experts_up": (_MLPS, tuple(f"{s}.{x}" for s in _EXPERTS for x in _UP)),
    "moe.experts_down": (_MLPS, tuple(f"{s}.{x}" for s in _EXPERTS for x in _DOWN)),
    "delta.qkvz": (_MIXERS, ("in_proj_qkvz", "in_proj_qkv", "in_proj_z")),
    "delta.decay_rate": (_MIXERS, ("in_proj_ba", "in_proj_a", "in_proj_b")),
    "delta.output": (_MIXERS, _OUT),
}
# Experts that stand beside the dense layer of their block, not within it.
_BARE: Final = {"moe.experts_up": _UP, "moe.experts_down": _DOWN}


@cache
def names_of(part: str, *, bare: bool = False) -> tuple[str, ...]:
    """The names that a matrix may have within its block, ``part`` as kind of layer and matrix.

    ``bare`` experts stand in the block itself, beside a dense layer.
    """
    if part not in _NAMES:
        kind, matrix = part.split(".", 1)
        return tuple(f"{owner}.{x}" for owner in _MIXERS for x in (f"{matrix}_proj", matrix, kind))
    owners, modules = _NAMES[part]
    if bare and part in _BARE:
        return tuple(f"{s}.{x}" for s in _EXPERTS for x in _BARE[part])
    return tuple(f"{owner}.{module}" for owner in owners for module in modules)


class Modules:
    """A list of modules, asked for the modules of one block after the other."""

    def __init__(self, patterns: Iterable[Any], path: str) -> None:
        self._path = path
        self._count = 0
        self._names: set[str] = set()
        self._globs: list[str] = []
        self._at: dict[int, list[str]] = {}
        self._at_digits: dict[str, list[str]] = {}  # layers.1* is also 10 to 19
        self._rests: dict[int, tuple[str, ...]] = {}
        self._same: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._known: dict[tuple[int, tuple[str, ...]], bool] = {}
        for pattern in patterns:
            if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
                raise UnsupportedModelError(f"{path}: {shown(pattern)} is no name of a module")
            for glob in _globs(pattern, path):
                self._add(glob)

    def _add(self, glob: str) -> None:
        self._count += 1 if "*" not in glob else 3  # patterns take longer to match than names
        if self._count > MAX_PATTERNS or len(self._globs) > MAX_GLOBS:
            raise UnsupportedModelError(
                f"{self._path}: more modules than are read ({MAX_PATTERNS} names, of them "
                f"{MAX_GLOBS} patterns for all blocks)"
            )
        found = re.search(r"(?:^|[.*])(?:layers|h|blocks)\.(\d{1,6})(\*?)(?:\.|$)", glob)
        if found is None:
            if "*" in glob:
                self._globs.append(glob)
            else:
                self._names.add(glob)
            return
        before, rest = glob[: found.start()], glob[found.end() :]
        if re.search(r"visi|visual|audio|mtp|tower|draft", before):
            return  # a tower's layer, or an extra prediction layer's
        if found[2]:
            self._at_digits.setdefault(found[1], []).append(rest)
        else:
            self._at.setdefault(int(found[1]), []).append(rest)

    def in_block(self, block: int) -> tuple[str, ...]:
        """What the list says of one block alone; blocks that agree in it get the same object."""
        if block not in self._rests:
            digits = str(block)
            here = list(self._at.get(block, ()))
            for end in range(1, len(digits) + 1):
                here += self._at_digits.get(digits[:end], ())
            told = tuple(sorted(set(here)))
            self._rests[block] = self._same.setdefault(told, told)
        return self._rests[block]

    def mean(self, block: int, names: tuple[str, ...]) -> bool:
        """Whether any of these modules of a block is meant."""
        here = self.in_block(block)
        key = id(here), names
        if key not in self._known:
            self._known[key] = any(self._anywhere(f"model.layers.0.{name}") for name in names) or (
                any(_here(here, name) for name in names) if here else False
            )
        return self._known[key]

    def mean_head(self) -> bool:
        """Whether the output head is meant, which stands outside the blocks."""
        owners = ("", "model.", "language_model.")
        return any(self._anywhere(f"{owner}{name}") for owner in owners for name in _HEADS)

    def _anywhere(self, name: str) -> bool:
        """Whether a pattern names the module, one that it is part of, or words of its name."""
        words = name.split(".")
        spans = combinations(range(len(words) + 1), 2)
        if self._names and any(".".join(words[a:b]) in self._names for a, b in spans):
            return True
        return any(_means(glob, name) for glob in self._globs)


def _means(glob: str, name: str) -> bool:
    """Whether a pattern with stars names a module, or one that it is part of."""
    if max(glob.split("*"), key=len) not in f"{name}.":  # most patterns mean something else
        return False
    return _matches(glob, name) or _matches(f"{glob}.*", name)


def _here(rests: tuple[str, ...], name: str) -> bool:
    """Whether what follows a block's number names the module, or one that it is part of."""
    words = name.split(".")
    owners = {".".join(words[:end]) for end in range(len(words) + 1)}  # the block itself is ""
    return any(rest in owners or ("*" in rest and _means(rest, name)) for rest in rests)


def _matches(glob: str, text: str) -> bool:
    """A glob in which ``*`` stands for anything: each piece where it first fits."""
    first, *pieces, last = glob.split("*")
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for piece in pieces:
        found = text.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return text.endswith(last)


# -- regular expressions ----------------------------------------------------------------------

_ANYTHING: Final = (".*", ".+", r"\d+", r"\d*", "[0-9]+", r"[0-9]*", r"\w+", r"\w*")


# A few characters of which any one stands there, such as [0-3] or [qkv].
_ONE_OF: Final = r"\[(?:[0-9]-[0-9]|[A-Za-z0-9])+\]"
_SIMPLE: Final = rf"(?:\w|\\?[.\-]|{_ONE_OF})*"


def _spelled(text: str) -> list[str]:
    """A text with each of its characters to choose from written out, up to a limit."""
    texts = [""]
    for part in re.split(f"({_ONE_OF})", text):
        choices = [part]
        if part.startswith("["):
            spans = re.findall(r"[0-9]-[0-9]|[A-Za-z0-9]", part)
            choices = [chr(x) for span in spans for x in range(ord(span[0]), ord(span[-1]) + 1)]
        texts = [before + choice for before in texts for choice in choices]
        if len(texts) > MAX_ALTERNATIVES:
            break  # refused by whoever counts them
    return texts


def _globs(pattern: str, path: str) -> list[str]:
    """A pattern as globs; a regular expression is never run, only the simple ones are read."""
    if not pattern.startswith("re:"):
        if "[" in pattern or "?" in pattern:
            raise UnsupportedModelError(
                f"{path}: {shown(pattern)} is more than the names with stars that are read"
            )
        return [pattern]
    text, end = pattern.removeprefix("re:").removeprefix("^").replace(r"\d", "[0-9]"), "*"
    if text.endswith("$") and not text.endswith(r"\$"):
        text, end = text[:-1], ""
    pieces: list[list[str]] = []
    while text:
        for anything in _ANYTHING:
            if text.startswith(anything):
                pieces.append(["*"])
                text = text.removeprefix(anything)
                break
        else:
            found = re.match(r"(\(\?:|\()([^()]*)\)|\\([.\-_/])|([\w.\-/:])|(\[[^]]*\])", text)
            if found is None:
                raise UnsupportedModelError(
                    f"{path}: {shown(pattern)} is more than the simple expressions that are read"
                )
            several = [found[5]] if found[5] else [] if found[2] is None else found[2].split("|")
            spelled = [_spelled(one.replace("\\", "")) for one in several]
            if not all(spelled) or any(not re.fullmatch(_SIMPLE, one) for one in several):
                raise UnsupportedModelError(
                    f"{path}: {shown(pattern)} is more than the simple expressions that are read"
                )
            pieces.append([one for ones in spelled for one in ones] or [found[3] or found[4]])
            text = text[found.end() :]
    count = 1
    for piece in pieces:
        count *= len(piece)
        if count > MAX_ALTERNATIVES:
            raise UnsupportedModelError(f"{path}: {shown(pattern)} has too many alternatives")
    return ["".join(choice) + end for choice in product(*pieces)]
