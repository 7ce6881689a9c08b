"""The small attention that selects which tokens the large one attends."""

from __future__ import annotations

from perfmodel.base._num import Num
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, Flag, Spec, quantity
from perfmodel.work.layers.entries import Entries
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import PLAIN, Matrix, Operation
from perfmodel.work.step import Step


class Indexer(Spec):
    """Scores every token of the context with a few small heads over one shared, cached key.

    References
    ----------
    DeepSeek-AI, "DeepSeek-V3.2-Exp: Boosting Long-Context Efficiency with DeepSeek Sparse
    Attention", 2025.
    """

    heads: Count = quantity("h_i", "1", "Heads of the indexer")
    dim: Count = quantity("d_i", "1", "Width of its heads and of its cached key")
    top_k: Count = quantity("k_i", "1", "Tokens that each query attends at most")
    shared: Flag = False
    """Whether the selection is that of an earlier layer: nothing is projected or cached here."""
    weighted: Flag = True
    """Whether a projection gives each head a weight."""
    pool: Count = quantity(
        "m_i", "1", "Tokens whose keys are merged before they are scored", default=1
    )
    gated: Flag = True
    """Whether keys merge by gates, projected and cached beside them, or else evenly."""
    scalars: CountOrZero = quantity("n_i", "1", "Parameters of its norms", default=0)

    @property
    def cached(self) -> Num:
        """Numbers that one token adds to its cache: a key, and a gate where keys are merged [1]."""
        if self.shared:
            return 0
        return 2 * self.dim if self.pool > 1 and self.gated else self.dim

    def matrices(self, hidden: Num, query_inner: Num) -> tuple[Matrix, ...]:
        """Its projections.

        Parameters
        ----------
        hidden : int or symbol
            Width of the residual stream, which gives keys and weights [1].
        query_inner : int or symbol
            Width of what gives the queries [1].

        Returns
        -------
        tuple of Matrix
            Queries, the key with its gate, and the heads' weights where it has them.
        """
        if self.shared:
            return ()
        weights = (Matrix("indexer weights", hidden, self.heads),) if self.weighted else ()
        return (
            Matrix("indexer query", query_inner, self.heads * self.dim),
            Matrix("indexer key", hidden, self.cached),
            *weights,
        )

    def vectors(self) -> Num:
        """Parameters of its norms [1]."""
        return 0 if self.shared else self.scalars

    def select(self, step: Step, precision: Precision, calls: Num) -> Operation:
        """The scores of all tokens before each query.

        Parameters
        ----------
        step : Step
            Which sequences take part.
        precision : Precision
            What the cache is stored in and attention computed in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        Operation
            Reads the key of every cached token, for none is out of its reach.
        """
        everything = Reach()
        scored = everything if self.pool == 1 else Entries(self.pool)
        moved = sum([everything.moved(g) for g in step.groups])
        return self.score(
            twice_pairs=sum([g.count * scored.twice_pairs(g) for g in step.groups]),
            kv_bytes=precision.kv.nbytes(self.cached) * moved,
            tokens=step.tokens,
            precision=precision,
            calls=calls,
        )

    def score(
        self, *, twice_pairs: Num, kv_bytes: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Operation:
        """The scores of so many pairs of a query and a key.

        Parameters
        ----------
        twice_pairs : int or array or symbol
            Twice the number of pairs, all sequences together [1].
        kv_bytes : float or array or symbol
            Keys read and written [B].
        tokens : int or array or symbol
            Queries [1].
        precision : Precision
            What queries are moved in and scores computed in.
        calls : int or symbol
            How many such layers there are [1].

        Returns
        -------
        Operation
            2 FLOPs per pair, head and element; where heads are weighted, 2 more per pair and head.
        """
        width = self.heads * self.dim
        return Operation.trusted(
            name="indexer",
            kind="attention",
            flops=(width + self.heads if self.weighted else width) * twice_pairs,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=precision.linear.outputs.nbytes(width, 1) * tokens,
            kv_bytes=kv_bytes,
            calls=calls,
            compute=precision.attention,
            tokens=tokens,
            weights=0,
            pairs=twice_pairs / 2,
            kernel=PLAIN,
        )
