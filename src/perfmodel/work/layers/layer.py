"""What every kind of layer answers, and the norms that stand before and after it."""

# Annotations are not postponed here: Pydantic would evaluate those of Layer for every kind of it.
from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from math import gcd
from typing import ClassVar, Final, Literal, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._messages import shown
from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.formats import Format
from perfmodel.base.precision import MatrixFormats, Precision
from perfmodel.base.spec import CountOrZero, Flag, Name, Spec, quantity
from perfmodel.work.collective import Collective, all_reduce
from perfmodel.work.layers.cached import Cached, CacheFormats, Kept
from perfmodel.work.operation import (
    Matrix,
    MatrixCost,
    Operation,
    matrix_cost,
    product,
    small_step,
)
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Group, Step

Norm: TypeAlias = Literal["rms", "layer", "layer-scale", "bare"]

# Vectors of the normed width: RMSNorm scales; LayerNorm scales and shifts, or only scales; a bare
# norm has learned nothing.
_NORM_VECTORS: Final = {"rms": 1, "layer": 2, "layer-scale": 1, "bare": 0}
# FLOPs an element, nominally: RMSNorm squares, adds, divides, scales; LayerNorm centres and shifts.
_NORM_FLOPS: Final = {"rms": 4, "layer": 7, "layer-scale": 6, "bare": 5}
_NEAR: Final = 10_000  # how far from what was asked for a divisor is looked for


def norm_params(norm: Norm | None, width: Num) -> Num:
    """Parameters of a norm over ``width`` values [1]."""
    return 0 if norm is None else _NORM_VECTORS[norm] * width


def norm_step(
    norm: Norm, *, name: str, width: Num, tokens: Num, precision: Precision, calls: Num
) -> Operation:
    """A norm that runs as its own kernel: every value read once and written once."""
    values = tokens * width
    return small_step(
        name,
        flops=_NORM_FLOPS[norm] * values,
        activation_bytes=2 * precision.linear.outputs.nbytes(values, tokens),
        tokens=tokens,
        compute=precision.attention,
        calls=calls,
    )


def _nearest_divisor(size: int, wanted: int) -> int:
    """A divisor of a size near to what was asked for; the larger of two that are as near."""
    for away in range(_NEAR):
        for found in (wanted + away, wanted - away):
            if 0 < found <= size and size % found == 0:
                return found
    return size if wanted > size else gcd(size, wanted)


class Layer(Spec):
    """One kind of layer; ``hidden`` is the width of the residual stream it reads and writes."""

    ROUTING: ClassVar[frozenset[str]] = frozenset()
    """Names of matrices that presets leave in the head's formats, such as a router."""
    LACKS: ClassVar[tuple[str, ...]] = ()
    """Fields that a kind has from its like but does not know: they keep their defaults."""
    DIVIDED: ClassVar[tuple[str, ...] | None] = None
    """Sizes of which tensor-parallel devices hold equal parts; () if each device holds all of the
    layer, None for a kind that cannot be divided."""
    REPEATED: ClassVar[tuple[str, ...]] = ()
    """Sizes that divide as far as they go, and past that are held again: KV heads."""

    norm: Norm | None = "rms"
    """The norm before the layer; None for none."""
    post_norm: Norm | None = None
    """The norm after the layer, before its result is added or of the sum; None for none."""
    scalars: CountOrZero = quantity(
        "n_1", "1", "Further learned numbers, such as sinks or scales of the residual", default=0
    )
    reused: Flag = False
    """Whether the weights are those of an earlier, equal layer: read again, but held once."""
    variant: Name = ""
    """Marks layers that a quantized checkpoint stores otherwise than their like."""

    @model_validator(mode="after")
    def _lacks_what_it_does_not_know(self) -> Self:
        for name in self.LACKS:
            value, default = getattr(self, name), type(self).model_fields[name].default
            if value != default:
                raise InvalidValueError(
                    f"{type(self).__name__}.{name}: expected {shown(default)}, for this kind of "
                    f"layer has no other, got {shown(value)}"
                )
        return self

    @abstractmethod
    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """The weight matrices, in the order they are used.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        tuple of Matrix
            Every matrix once.
        """

    @abstractmethod
    def vectors(self, hidden: Num) -> Num:
        """Biases and inner norms; the norms around the layer are counted for every kind alike.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            Parameters that are no matrix [1].
        """

    def params(self, hidden: Num) -> Num:
        """All parameters that one such layer adds to a model.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            Matrix weights, biases and norms; none where they are an earlier layer's [1].
        """
        if self.reused:
            return 0
        weights = sum([m.copies * m.inner * m.outer for m in self.matrices(hidden)])
        return weights + self._all_vectors(hidden)

    def active_params(self, hidden: Num) -> Num:
        """Parameters of one such layer that one token meets.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            All but those of experts that the token is not sent to [1].
        """
        return self.params(hidden)

    def embedding_params(self, hidden: Num) -> Num:
        """Parameters of one such layer that are a table of the vocabulary.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            Looked up, not multiplied by [1].
        """
        return 0

    def read_width(self, hidden: Num) -> Num:
        """Width of what the layer reads, and of the norm before it.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].

        Returns
        -------
        int or symbol
            The stream's own, unless the layer also reads something else [1].
        """
        return hidden

    def _all_vectors(self, hidden: Num) -> Num:
        before = norm_params(self.norm, self.read_width(hidden))
        around = before + norm_params(self.post_norm, hidden)
        return self.vectors(hidden) + around + self.scalars

    def weight_bytes(self, hidden: Num, precision: Precision) -> Num:
        """What memory holds of one such layer, scales included.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        precision : Precision
            What weights are stored in.

        Returns
        -------
        float or symbol
            Bytes; none where the weights are an earlier layer's [B].
        """
        if self.reused:
            return 0
        held = precision.rest.nbytes(self._all_vectors(hidden))
        for matrix in self.matrices(hidden):
            stored = self.formats_of(matrix, precision).weights
            one = stored.nbytes(matrix.inner * matrix.outer, matrix.outer)
            held = held + matrix.copies * one
        return held

    def formats_of(self, matrix: Matrix, precision: Precision) -> MatrixFormats:
        """What one of the matrices is stored, fed and computed in.

        Parameters
        ----------
        matrix : Matrix
            One of ``matrices``.
        precision : Precision
            The precision of the model.

        Returns
        -------
        MatrixFormats
            The precision's word for this part, else what it says of all matrices; a router is
            stored like the head.
        """
        default = precision.head if matrix.name in self.ROUTING else precision.linear
        return precision.formats_of(self.part(matrix.name), default)

    def part(self, matrix: str) -> str:
        """The name under which ``Precision.parts`` knows a matrix.

        Parameters
        ----------
        matrix : str
            Name of one of ``matrices`` [text].

        Returns
        -------
        str
            Variant, kind and matrix, as ``"attention.qkv"``.
        """
        return f"{self.variant}{self.kind}.{matrix}"  # type: ignore[attr-defined]

    def cache_bytes(self, group: Group, kv: Format) -> Num:
        """KV cache that a group of sequences holds in one such layer after a step.

        Parameters
        ----------
        group : Group
            Sequences with their new, past and shared tokens.
        kv : Format
            What the cache is stored in.

        Returns
        -------
        float or array or symbol
            Bytes [B].
        """
        return 0

    def state_bytes(self, precision: Precision) -> Num:
        """What one sequence holds in one such layer, however long it is.

        Parameters
        ----------
        precision : Precision
            What a state is stored in.

        Returns
        -------
        float or symbol
            Bytes [B].
        """
        return 0

    def share(self, parallelism: Parallelism) -> Self:
        """What one device holds of such a layer.

        Parameters
        ----------
        parallelism : Parallelism
            Over how many devices it is divided.

        Returns
        -------
        Layer
            Of the same kind, with smaller sizes; the same layer where every device holds all.

        Raises
        ------
        InvalidValueError
            If a size cannot be divided.
        """
        tensor = parallelism.tensor
        if tensor == 1:
            return self
        if self.DIVIDED is None:
            raise InvalidValueError(
                f"Parallelism.tensor: expected 1, for {self.title} layers cannot be divided, "
                f"got {tensor}"
            )
        parts = {name: self._part(name, tensor) for name in self.DIVIDED}
        repeated = {name: self._part_or_copy(name, tensor) for name in self.REPEATED}
        return self.model_copy(update=parts | repeated)

    def _part(self, name: str, devices: int) -> int:
        """A size divided, which must leave nothing over."""
        size: int = getattr(self, name)
        if size % devices:
            raise InvalidValueError(
                f"Parallelism.tensor: expected a divisor of {type(self).__name__}.{name}={size}, "
                f"as {_nearest_divisor(size, devices)}, got {devices}"
            )
        return size // devices

    def _part_or_copy(self, name: str, devices: int) -> int:
        """A size divided, or 1 where there are more devices; either must leave nothing over."""
        size: int = getattr(self, name)
        if size % devices and devices % size:
            raise InvalidValueError(
                f"Parallelism.tensor: expected a divisor or a multiple of "
                f"{type(self).__name__}.{name}={size}, as {_nearest_divisor(size, devices)}, "
                f"got {devices}"
            )
        return max(1, size // devices)

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """What the devices that share such a layer send each other after it.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens of the step [1].
        precision : Precision
            What activations are moved in.
        calls : int or symbol
            How many such layers there are [1].
        parallelism : Parallelism
            Over how many devices it is divided.

        Returns
        -------
        iterable of Collective
            An all-reduce of the result where each device holds a part of the layer, else none.
        """
        if parallelism.tensor == 1 or not self.DIVIDED:
            return ()
        size = precision.linear.outputs.nbytes(tokens * hidden, tokens)
        return (all_reduce(f"{self.title} sum", size, tokens, calls, parallelism),)

    def token_cache(self, formats: CacheFormats) -> Cached | None:
        """What one token leaves in one such layer's cache, as an engine lays it out.

        Parameters
        ----------
        formats : CacheFormats
            What each part of the cache is stored in.

        Returns
        -------
        Cached or None
            Bytes of a token and how long they are needed; None where tokens leave no equal parts.
        """
        one = Group.trusted(count=1, new=1, past=0, logits=0, shared_past=0)
        return Cached(keys=self.cache_bytes(one, formats.keys))

    def kept(self, precision: Precision, conv: Format, drafts: int) -> Kept:
        """What one sequence keeps in one such layer whatever its length, as an engine lays it out.

        Parameters
        ----------
        precision : Precision
            What a state is stored in.
        conv : Format
            What the last inputs of a convolution are stored in.
        drafts : int
            Drafted tokens that a step checks [1].

        Returns
        -------
        Kept
            Bytes of convolutions, which keep what comes before the next tokens, and of states.
        """
        return Kept(conv=0, scan=self.state_bytes(precision))

    @property
    def title(self) -> str:
        """What a table calls this kind of layer."""
        return self.kind  # type: ignore[attr-defined, no-any-return]

    @property
    def has_cache(self) -> bool:
        """Whether a sequence holds anything in such a layer, growing or constant."""
        return False

    @property
    def clips(self) -> bool:
        """Whether the cache stops growing, or the work a token, at some context."""
        return False

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """What such a layer does in a step, in order.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        step : Step
            Which sequences take part.
        precision : Precision
            What each part is stored, moved and computed in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        iterable of Operation
            Each with as many calls.
        """
        tokens = step.tokens
        for cost in self.costs(hidden, precision):
            yield product(cost, tokens=tokens, calls=calls)

    def costs(self, hidden: Num, precision: Precision) -> tuple[MatrixCost, ...]:
        """What each matrix costs, whatever the step: counted once, for a layer does not change.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        precision : Precision
            What each part is stored, moved and computed in.

        Returns
        -------
        tuple of MatrixCost
            In the order of ``matrices``.
        """
        known = self._costs.get((hidden, precision))
        if known is None:
            known = tuple(
                matrix_cost(m, self.formats_of(m, precision)) for m in self.matrices(hidden)
            )
            self._costs[hidden, precision] = known
        return known

    @cached_property
    def _costs(self) -> dict[tuple[Num, Precision], tuple[MatrixCost, ...]]:
        return {}

    def small_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """What is usually fused into its neighbours: norms, activations, the addition after.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens of the step [1].
        precision : Precision
            What activations are moved in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        iterable of Operation
            Each with as many calls.
        """

        def around(norm: Norm | None, name: str, width: Num) -> Iterable[Operation]:
            if norm is not None:
                yield norm_step(
                    norm,
                    name=name,
                    width=width,
                    tokens=tokens,
                    precision=precision,
                    calls=calls,
                )

        yield from around(self.norm, "norm", self.read_width(hidden))
        yield from self.inner_steps(hidden, tokens, precision, calls)
        yield from around(self.post_norm, "post norm", hidden)
        values = tokens * hidden
        yield small_step(
            "residual",
            flops=values,
            activation_bytes=3 * precision.linear.outputs.nbytes(values, tokens),
            tokens=tokens,
            compute=precision.attention,
            calls=calls,
        )

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The small steps between the norm before and the norm after.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens of the step [1].
        precision : Precision
            What activations are moved in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        iterable of Operation
            Each with as many calls.
        """
        return ()
