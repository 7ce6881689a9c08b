"""The two ends of a model: the token embedding and the output head."""

from __future__ import annotations

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, Flag, Spec, quantity
from perfmodel.work.layers.layer import Norm, norm_params
from perfmodel.work.operation import Matrix, Operation, linear


class Embedding(Spec):
    """A table of one row a token of the vocabulary, and perhaps one of learned positions."""

    positions: Count | None = quantity(
        "n_s", "1", "Learned positions, beyond which no context can go", default=None
    )

    def params(self, hidden: Num, vocab: Num) -> Num:
        """Rows of both tables times their width.

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
        return (vocab + (self.positions or 0)) * hidden

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
        rows = vocab + (self.positions or 0)
        return precision.rest.nbytes(rows * hidden, rows)

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
        rows = tokens if self.positions is None else 2 * tokens
        read = precision.rest.nbytes(rows * hidden, rows)
        written = precision.linear.outputs.nbytes(tokens * hidden, tokens)
        return Operation.trusted(
            name="embedding",
            kind="embedding",
            flops=0,
            weight_bytes=0,
            activation_bytes=read + written,
            kv_bytes=0,
            calls=1,
            compute=precision.head.compute,
            tokens=tokens,
            weights=0,
        )


class Head(Spec):
    """The last norm and the projection onto the vocabulary; tied, it is the embedding's table."""

    tied: Flag = False
    """Whether its table is the embedding's."""
    norm: Norm | None = "rms"
    """The norm before it; None for none."""

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
            The norm, and the table unless it is the embedding's [1].
        """
        return norm_params(self.norm, hidden) + (0 if self.tied else hidden * vocab)

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
        table = 0 if self.tied else precision.rest.nbytes(hidden * vocab, vocab)
        return precision.rest.nbytes(norm_params(self.norm, hidden)) + table

    def project(self, hidden: Num, vocab: Num, tokens: Num, precision: Precision) -> Operation:
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
        Operation
            One matrix product.
        """
        return linear(Matrix("head", hidden, vocab), tokens=tokens, formats=precision.head)
