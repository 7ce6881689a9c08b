"""The atom of the model: one kind of kernel, what it computes and what it moves."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, Self, TypeAlias

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import ComputeFormat, MatrixFormats, Precision, PrecisionLike
from perfmodel.base.spec import Amount, Name, NonNegative, Spec, checked_count, quantity

OperationKind: TypeAlias = Literal["embedding", "linear", "experts", "attention", "scan", "small"]


class Kernel(NamedTuple):
    """Which kernel an operation runs as, and what its sizes follow from."""

    kind: str = ""
    """What it does, as ``"matrix"``; empty: nothing that engines have a kernel of its own for."""
    recipe: str = ""
    """What is stored and computed in, as ``"fp8-block"``; empty: its bytes alone count."""
    inner: Num = 0
    """Elements that each output of a product sums over [1]."""
    heads: Num = 0
    """Heads of attention, of which each is worked through by itself [1]."""
    rows: Num | None = None
    """Rows of a product, or blocks of queries of one head; None: one a token [1]."""
    launches: Num = 1
    """Kernels of this name that it counts as: the two products of experts are one [1]."""

    @property
    def name(self) -> str:
        """Kind and recipe, as ``"matrix.fp8-block"``; the kind alone where there is no other."""
        return f"{self.kind}.{self.recipe}" if self.recipe else self.kind


PLAIN: Final = Kernel()
SMALL: Final = "small"  # the kernel of a norm, a residual addition or an activation
_BETWEEN: Final = Kernel(SMALL)


class Sizes(NamedTuple):
    """The sizes that the speed of a kernel depends on.

    Bytes and FLOPs say how fast it can go; these say how far below that it stays.
    """

    inner: Num = 0
    """Elements that each output sums over; of decode attention, the mean context [1]."""
    prepared: Num = 0
    """Input elements that are quantized, or sent to experts, before the product [1]."""
    tiles: Num = 0
    """Pieces of attention that one multiprocessor works through by itself [1]."""
    exponentials: Num = 0
    """Exponentials of a softmax: query and key pairs of all heads [1]."""
    launches: Num = 1
    """Kernels that it counts as [1]."""


class Operation(Spec):
    """One kind of kernel in a step: its work and traffic per call, and how often it is called.

    ``least_weight_bytes`` and ``kv_bytes`` are compulsory; activations may stay in a cache.
    """

    name: Name
    """As tables show it."""
    kind: OperationKind
    """Which kind of kernel it is."""
    flops: Amount | NonNegative = quantity(
        r"W", "FLOP", "Floating-point operations of one call; a mean need not be whole"
    )
    weight_bytes: NonNegative = quantity(r"Q_w", "B", "Weights read by one call")
    least_weight_bytes: NonNegative = quantity(
        r"Q_{w,0}", "B", "Weights that one call cannot avoid reading: the fewest experts, else all"
    )
    activation_bytes: NonNegative = quantity(r"Q_a", "B", "Inputs and outputs of one call")
    kv_bytes: NonNegative = quantity(
        r"Q_{kv}", "B", "KV cache and state that one call reads and writes"
    )
    calls: Amount = quantity(r"n_c", "1", "Calls in the step")
    compute: ComputeFormat
    """What it computes in."""
    tokens: Amount | NonNegative = quantity(
        r"T", "1", "Tokens that one call processes; a mean need not be whole"
    )
    weights: NonNegative = quantity(r"n_w", "1", "Matrix weights that one call reads")
    pairs: NonNegative = quantity(
        r"n_p", "1", "Query and key pairs of one head, all sequences together", default=0.0
    )
    kernel: Kernel = PLAIN
    """Which kernel it runs as, for what an engine makes of it."""

    @model_validator(mode="after")
    def _moves_something(self) -> Self:
        if not self.nbytes:
            raise InvalidValueError("Operation: expected some bytes to move, got none")
        return self

    @property
    def is_product(self) -> bool:
        """Whether it multiplies by weights."""
        return self.kind in ("linear", "experts")

    @property
    def nbytes(self) -> float:
        """Bytes moved by one call [B]."""
        return self.weight_bytes + self.activation_bytes + self.kv_bytes

    @property
    def intensity(self) -> float:
        """Arithmetic intensity [FLOP/B]."""
        return self.flops / self.nbytes

    @property
    def sizes(self) -> Sizes:
        """What the speed of its kernel depends on, worked out where an efficiency asks."""
        kernel = self.kernel
        if not kernel.recipe:
            return Sizes()
        rows = self.tokens if kernel.rows is None else kernel.rows
        if self.is_product:
            # A layer's experts prepare their rows once, for both of their products.
            prepared = kernel.launches * rows * kernel.inner
            return Sizes(kernel.inner, prepared, launches=kernel.launches)
        if kernel.rows is None:  # decode: the values of a context are summed over its tokens
            return Sizes(inner=self.pairs / rows, tiles=kernel.heads * rows)
        return Sizes(tiles=kernel.heads * rows, exponentials=kernel.heads * self.pairs)

    def weights_only(self) -> Self:
        """The same operation with nothing but its weights to move."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return self.trusted(**fields | {"activation_bytes": 0, "kv_bytes": 0})


class Matrix(NamedTuple):
    """A weight matrix of a layer: ``inner`` inputs, ``outer`` outputs, perhaps in many copies."""

    name: str
    inner: Num
    outer: Num
    copies: Num = 1  # one an expert


def linear(matrix: Matrix, *, tokens: Num, formats: MatrixFormats, calls: Num = 1) -> Operation:
    """A matrix product ``[T, k] x [k, n]``.

    Parameters
    ----------
    matrix : Matrix
        The weights, ``[k, n]`` [1].
    tokens : int or array or symbol
        Rows of the input, T [1].
    formats : MatrixFormats
        What weights, inputs and outputs are stored in, and what is computed in.
    calls : int
        How often it runs in the step [1].

    Returns
    -------
    Operation
        2Tkn FLOPs; the weight read once, inputs and outputs moved once.

    Examples
    --------
    >>> from perfmodel.base.precision import Precision
    >>> table = Matrix("table", 10_000, 10_000)
    >>> op = linear(table, tokens=4, formats=Precision.preset("fp32").linear)
    >>> op.flops, op.nbytes  # 2 * 4 * 1e8; 4 bytes * (1e8 + 4 * 2e4)
    (800000000, 400320000.0)
    """
    return product(matrix_cost(matrix, formats), tokens=tokens, calls=calls)


class MatrixCost(NamedTuple):
    """What a matrix product costs: a part that stands, and a part that every token adds."""

    name: str
    weights: Num  # 1
    weight_bytes: Num  # B
    token_bytes: Num  # B, inputs and outputs of one token
    compute: str
    kernel: Kernel


def matrix_cost(matrix: Matrix, formats: MatrixFormats) -> MatrixCost:
    """The cost of one copy of a matrix in given formats, whatever the step."""
    name, inner, outer = matrix.name, matrix.inner, matrix.outer
    weights = inner * outer
    token_bytes = formats.inputs.nbytes(inner, 1) + formats.outputs.nbytes(outer, 1)
    weight_bytes = formats.weights.nbytes(weights, outer)
    kernel = Kernel("matrix", formats.recipe, inner)
    return MatrixCost(name, weights, weight_bytes, token_bytes, formats.compute, kernel)


def grouped(cost: MatrixCost, groups: Num) -> MatrixCost:
    """All copies of a matrix, each over its own part of the input, as one kernel."""
    return cost._replace(
        weights=groups * cost.weights,
        weight_bytes=groups * cost.weight_bytes,
        token_bytes=groups * cost.token_bytes,
    )


def product(cost: MatrixCost, *, tokens: Num, calls: Num = 1) -> Operation:
    """So many tokens through a matrix whose cost is known."""
    name, weights, weight_bytes, token_bytes, compute, kernel = cost
    return Operation.trusted(
        name=name,
        kind="linear",
        flops=2 * weights * tokens,
        weight_bytes=weight_bytes,
        least_weight_bytes=weight_bytes,
        activation_bytes=token_bytes * tokens,
        kv_bytes=0,
        calls=calls,
        compute=compute,
        tokens=tokens,
        weights=weights,
        pairs=0,
        kernel=kernel,
    )


def gemm(*, inner: int, outer: int, tokens: int, precision: PrecisionLike = "bf16") -> Operation:
    """One matrix product as an operation, to put under a roof by itself.

    Parameters
    ----------
    inner : int
        Inputs of the matrix, k [1].
    outer : int
        Outputs of the matrix, n [1].
    tokens : int
        Rows of the input, T [1].
    precision : Precision or str or None
        The formats of the blocks' matrices.

    Returns
    -------
    Operation
        2Tkn FLOPs; the weight read once, inputs and outputs moved once.

    Raises
    ------
    InvalidValueError
        If a size is not a positive whole number.
    UnknownKeyError
        If there is no preset of that name.

    Examples
    --------
    >>> op = gemm(inner=10_000, outer=10_000, tokens=256, precision="fp32")
    >>> round(op.intensity, 2)  # 2 * 256 * 1e8 FLOPs over 4 * (1e8 + 256 * 2e4) bytes
    121.77
    """
    matrix = Matrix("gemm", checked_count("inner", inner), checked_count("outer", outer))
    formats = Precision.parse("bf16" if precision is None else precision)
    return linear(matrix, tokens=checked_count("tokens", tokens), formats=formats.linear)


def small_step(
    name: str, *, flops: Num, activation_bytes: Num, tokens: Num, compute: str, calls: Num
) -> Operation:
    """A norm, a residual addition or an activation: a few FLOPs on data that passes by."""
    return Operation.trusted(
        name=name,
        kind="small",
        flops=flops,
        weight_bytes=0,
        least_weight_bytes=0,
        activation_bytes=activation_bytes,
        kv_bytes=0,
        calls=calls,
        compute=compute,
        tokens=tokens,
        weights=0,
        pairs=0,
        kernel=_BETWEEN,
    )
