"""The two ends of a model: the token embedding and the output head."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, Flag, Spec, quantity
from perfmodel.work.layers.layer import Norm, norm_params
from perfmodel.work.operation import (
    PLAIN,
    Matrix,
    MatrixCost,
    Operation,
    linear,
    matrix_cost,
    product,
)


class Embedding(Spec):
    """A table of one row a token of the vocabulary, and perhaps one of learned positions."""

    positions: Count | None = quantity(
        "n_s", "1", "Learned positions, beyond which no context can go", default=None
    )
    unused_positions: CountOrZero = quantity(
        "n_u", "1", "Rows of the table of positions that stand for none", default=0
    )
    extra_rows: CountOrZero = quantity(
        "V_x", "1", "Rows of the table beyond those of the head", default=0
    )
    width: Count | None = quantity(
        "d_e",
        "1",
        "Width of the table, projected onto the model's; None: the model's",
        default=None,
    )
    norm: Norm | None = None
    """The norm after it; None for none."""

    def table(self, hidden: Num, vocab: Num) -> Num:
        """Numbers in both tables.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the token table [1].

        Returns
        -------
        int or symbol
            Rows times width [1].
        """
        tokens = (vocab + self.extra_rows) * (hidden if self.width is None else self.width)
        return tokens + ((self.positions or 0) + self.unused_positions) * hidden

    def params(self, hidden: Num, vocab: Num) -> Num:
        """Both tables, the projection and the norm after them.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the token table [1].

        Returns
        -------
        int or symbol
            Parameters [1].
        """
        projection = 0 if self.width is None else self.width * hidden
        return self.table(hidden, vocab) + projection + norm_params(self.norm, hidden)

    def weight_bytes(self, hidden: Num, vocab: Num, precision: Precision) -> Num:
        """What memory holds of both tables.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the token table [1].
        precision : Precision
            What tables are stored in.

        Returns
        -------
        float or symbol
            Bytes, scales included [B].
        """
        rows = vocab + self.extra_rows
        tokens = rows * (hidden if self.width is None else self.width)
        others = (self.positions or 0) + self.unused_positions
        stored = precision.formats_of("embedding", precision.head).weights
        rest = self.params(hidden, vocab) - tokens
        return stored.nbytes(tokens, rows) + precision.rest.nbytes(rest, others)

    def lookup(self, hidden: Num, tokens: Num, precision: Precision) -> Operation:
        """The rows used are read and the hidden state written: traffic without FLOPs.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens looked up [1].
        precision : Precision
            What the table is stored in, and activations moved in.

        Returns
        -------
        Operation
            Of activation traffic alone: the table as a whole is not read.
        """
        width = hidden if self.width is None else self.width
        stored = precision.formats_of("embedding", precision.head).weights
        read = stored.nbytes(tokens * width, tokens)
        if self.positions is not None:
            read = read + precision.rest.nbytes(tokens * hidden, tokens)
        written = precision.linear.outputs.nbytes(tokens * hidden, tokens)
        return Operation.trusted(
            name="embedding",
            kind="embedding",
            flops=0,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=read + written,
            kv_bytes=0,
            calls=1,
            compute=precision.head.compute,
            tokens=tokens,
            weights=0,
            pairs=0,
            kernel=PLAIN,
        )

    def project(self, hidden: Num, tokens: Num, precision: Precision) -> Iterable[Operation]:
        """The projection of a narrower table onto the residual stream, where there is one.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        tokens : int or array or symbol
            Tokens looked up [1].
        precision : Precision
            Its head's formats count.

        Returns
        -------
        iterable of Operation
            One matrix product, or none.
        """
        if self.width is None:
            return ()
        matrix = Matrix("embedding_up", self.width, hidden)
        return (linear(matrix, tokens=tokens, formats=precision.head),)


class Head(Spec):
    """The last norm and the projection onto the vocabulary; tied, it is the embedding's table."""

    tied: Flag = False
    """Whether its table is the embedding's."""
    norm: Norm | None = "rms"
    """The norm before it; None for none."""
    bias: Flag = False
    """Whether the projection has a bias."""
    width: Count | None = quantity(
        "d_o", "1", "Width of its table, which the stream is projected onto; None: the model's",
        default=None,
    )  # fmt: skip

    def matrices(self, hidden: Num, vocab: Num) -> tuple[Matrix, ...]:
        """The table, after the projection onto its width where it has one.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the table [1].

        Returns
        -------
        tuple of Matrix
            The table last.
        """
        if self.width is None:
            return (Matrix("head", hidden, vocab),)
        return (Matrix("head_down", hidden, self.width), Matrix("head", self.width, vocab))

    def table(self, hidden: Num, vocab: Num) -> Num:
        """Numbers in the table, unless it is the embedding's.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the table [1].

        Returns
        -------
        int or symbol
            Rows times width; 0 where it is tied [1].
        """
        *_, table = self.matrices(hidden, vocab)
        return 0 if self.tied else table.inner * table.outer

    def params(self, hidden: Num, vocab: Num) -> Num:
        """Parameters that no other part holds.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the table [1].

        Returns
        -------
        int or symbol
            Norm, bias, projection, and the table unless it is the embedding's [1].
        """
        return self._vectors(hidden, vocab) + self.table(hidden, vocab)

    def _vectors(self, hidden: Num, vocab: Num) -> Num:
        projection = 0 if self.width is None else hidden * self.width
        bias = vocab if self.bias else 0
        return norm_params(self.norm, hidden) + projection + bias

    def weight_bytes(self, hidden: Num, vocab: Num, precision: Precision) -> Num:
        """What memory holds of it and of no other part.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the token table [1].
        precision : Precision
            What tables are stored in.

        Returns
        -------
        float or symbol
            Bytes, scales included [B].
        """
        stored = precision.formats_of("head", precision.head).weights
        table = 0 if self.tied else stored.nbytes(self.table(hidden, vocab), vocab)
        return precision.rest.nbytes(self._vectors(hidden, vocab)) + table

    def project(
        self, hidden: Num, vocab: Num, tokens: Num, precision: Precision
    ) -> Iterable[Operation]:
        """Logits of so many positions; the table is read whole, tied or not.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream [1].
        vocab : int or symbol
            Rows of the table [1].
        tokens : int or array or symbol
            Positions whose logits are computed [1].
        precision : Precision
            Its head's formats count.

        Returns
        -------
        iterable of Operation
            One matrix product, after that onto a narrower table.
        """
        known = self._costs.get((hidden, vocab, precision))
        if known is None:
            known = self._costs[hidden, vocab, precision] = tuple(
                matrix_cost(matrix, precision.formats_of(matrix.name, precision.head))
                for matrix in self.matrices(hidden, vocab)
            )
        return [product(cost, tokens=tokens) for cost in known]

    @cached_property
    def _costs(self) -> dict[tuple[Num, Num, Precision], tuple[MatrixCost, ...]]:
        """What each matrix costs, whatever the step: counted once."""
        return {}
