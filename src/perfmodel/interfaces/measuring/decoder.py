"""A real decoder of a given shape with random weights: what a step computes, it computes."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, prod, sin, sqrt
from typing import Any, Final

from perfmodel.base.errors import UnsupportedModelError
from perfmodel.interfaces.measuring.arrays import Arrays
from perfmodel.work.layers.attention import Attention
from perfmodel.work.layers.embedding import Embedding, Head
from perfmodel.work.layers.feedforward import FeedForward
from perfmodel.work.shape import ModelShape

# What may differ from its default; everything else must not.
_KNOWN: Final[dict[type, set[str]]] = {
    Attention: {"norm", "heads", "kv_heads", "head_dim", "qkv_bias", "output_bias", "qk_norm"},
    FeedForward: {"norm", "width", "gated", "bias"},
    Embedding: {"positions", "unused_positions"},
    Head: {"tied", "norm"},
}
_ONE_OF: Final = {"norm": (None, "rms", "layer"), "qk_norm": (None, "head")}


def check_supported(model: ModelShape) -> None:
    """Refuse a shape with a part that the decoder does not compute.

    Raises
    ------
    UnsupportedModelError
        If there is one; the message names it.
    """
    layers = [layer for _, row in model.blocks for layer in row]
    for part in (model.embedding, model.head, *layers):
        known = _KNOWN.get(type(part))
        what = "no embedding or no head" if part is None else type(part).__name__
        wrong = [] if known else [what]
        for name, field in type(part).model_fields.items() if known and part else ():
            value = getattr(part, name)
            allowed = _ONE_OF.get(name, (value,)) if name in (known or ()) else (field.default,)
            if value not in allowed:
                wrong.append(f"{what}.{name}={value!r}")
        if wrong:
            raise UnsupportedModelError(
                f"{model.name}: {wrong[0]}: cannot be measured yet, only full attention with "
                "grouped queries and plain or gated feed-forward layers"
            )


class Decoder:
    """Weights and KV cache of a model that ``check_supported`` has passed."""

    def __init__(
        self, model: ModelShape, arrays: Arrays, form: str, *, batch: int, context: int
    ) -> None:
        self.arrays, self.form, self.hidden = arrays, form, model.hidden or 1
        embedding, head, vocab = model.embedding, model.head, model.vocab or 1
        self.ends = {"table": self._random(vocab, self.hidden)}
        if embedding is not None and embedding.positions is not None:
            rows = embedding.positions + embedding.unused_positions
            self.ends["positions"] = self._random(rows, self.hidden)
        if head is not None and not head.tied:
            self.ends["head"] = self._random(vocab, self.hidden)
        self.ends |= self._norm("norm", None if head is None else head.norm, self.hidden)
        row = [
            layer for repeats, layers in model.blocks for _ in range(repeats) for layer in layers
        ]
        self.layers: list[tuple[Any, dict[str, Any]]] = [
            (layer, dict(self._weights(layer))) for layer in row
        ]
        self.caches = {
            place: [self._random(batch, layer.kv_heads, context, layer.head_dim) for _ in "kv"]
            for place, layer in enumerate(row)
            if isinstance(layer, Attention)
        }
        widths = {layer.head_dim for layer in row if isinstance(layer, Attention)}
        rotary = "positions" not in self.ends
        self.turns = {width: self._turns(width, context) for width in widths if rotary}

    def _random(self, *shape: int, scale: float = 0.1) -> Any:
        return self.arrays.random(*shape, scale=scale, form=self.form)

    def _weights(self, layer: Any) -> Iterator[tuple[str, Any]]:
        yield from self._norm("norm", layer.norm, self.hidden).items()
        attends = isinstance(layer, Attention)
        biases = (layer.qkv_bias, layer.output_bias) if attends else (layer.bias, layer.bias)
        for matrix, bias in zip(layer.matrices(self.hidden), biases, strict=True):
            scale = sqrt(3 / matrix.inner)  # outputs as large as inputs
            yield matrix.name, self._random(matrix.outer, matrix.inner, scale=scale)
            if bias:
                yield f"{matrix.name} bias", self._random(matrix.outer)
        if attends and layer.qk_norm:
            for name in ("q norm", "k norm"):
                yield from self._norm(name, "rms", layer.head_dim).items()

    def _norm(self, name: str, kind: str | None, width: int) -> dict[str, Any]:
        names = {None: (), "rms": (name,), "layer": (name, f"{name} shift")}[kind]
        return {name: 1 + self._random(width) for name in names}

    def _turns(self, width: int, context: int) -> list[Any]:
        """Cosines and sines of rotary positions."""
        steps = [10_000 ** (-i / width) for i in range(0, width, 2)]
        return [
            self.arrays.array(
                [[f(at * step) for step in steps] for at in range(context)], self.form
            )
            for f in (cos, sin)
        ]

    @property
    def params(self) -> int:
        """Numbers in all weights [1]."""
        weights = [*self.ends.values(), *(w for _, held in self.layers for w in held.values())]
        return sum(prod(one.shape) for one in weights)

    def step(self, tokens: Any, past: int) -> Any:
        """Logits of the last of the new tokens, one row a sequence, behind so many cached ones."""
        batch, new = tokens.shape
        x = self.ends["table"][tokens.reshape(-1)]
        if "positions" in self.ends:
            at = self.ends["positions"][past : past + new]
            x = (x.reshape(batch, new, -1) + at).reshape(batch * new, -1)
        for place, (layer, held) in enumerate(self.layers):
            y = self._normed(x, held, "norm")
            if place in self.caches:
                x = x + self._attention(layer, held, y, self.caches[place], (batch, new, past))
            else:
                x = x + self._feedforward(layer, held, y)
        last = self._normed(x.reshape(batch, new, -1)[:, -1], self.ends, "norm")
        return self.arrays.product(last, self.ends.get("head", self.ends["table"]))

    def _normed(self, x: Any, held: dict[str, Any], name: str) -> Any:
        return self.arrays.norm(x, held[name], held.get(f"{name} shift")) if name in held else x

    def _linear(self, x: Any, held: dict[str, Any], name: str) -> Any:
        y = self.arrays.product(x, held[name])
        return y + held[f"{name} bias"] if f"{name} bias" in held else y

    def _attention(
        self,
        layer: Attention,
        held: dict[str, Any],
        x: Any,
        cache: list[Any],
        sizes: tuple[int, int, int],
    ) -> Any:
        """Project, append to the cache, attend all of it, project back."""
        (batch, new, past), heads, width = sizes, layer.heads, layer.head_dim
        qkv = self._linear(x, held, "qkv").reshape(batch, new, -1, width).swapaxes(1, 2)
        q = self._normed(qkv[:, :heads], held, "q norm")
        k = self._normed(qkv[:, heads : heads + layer.kv_heads], held, "k norm")
        if width in self.turns:
            turns = [one[past : past + new] for one in self.turns[width]]
            q, k = self.arrays.rotate(q, *turns), self.arrays.rotate(k, *turns)
        keys, values = (part[:, :, : past + new] for part in cache)
        keys[:, :, past:], values[:, :, past:] = k, qkv[:, heads + layer.kv_heads :]
        found = self.arrays.attend(q, keys, values).swapaxes(1, 2)
        return self._linear(found.reshape(batch * new, -1), held, "output")

    def _feedforward(self, layer: FeedForward, held: dict[str, Any], x: Any) -> Any:
        if not layer.gated:
            return self._linear(self.arrays.gelu(self._linear(x, held, "up")), held, "down")
        both = self._linear(x, held, "gate_up")
        gated = self.arrays.silu(both[:, : layer.width]) * both[:, layer.width :]
        return self._linear(gated, held, "down")
