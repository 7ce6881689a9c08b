"""Layers with a constant state: a short convolution, and a recurrence along the sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

from perfmodel.base._num import Num, is_zero, minimum, where
from perfmodel.base.formats import Format
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, quantity
from perfmodel.work.layers.cached import Kept
from perfmodel.work.layers.layer import Layer
from perfmodel.work.operation import PLAIN, MatrixCost, Operation, grouped, product
from perfmodel.work.step import Group, Step

Scan: TypeAlias = Literal["recurrent", "chunked"]


class Recurrent(Layer):
    """A layer that carries a state of constant size from token to token.

    A pass of many tokens can run *recurrent*, token by token, or *chunked*: as matrix products
    within and between chunks, which keep matrix units busy, mostly with more FLOPs.
    """

    conv_kernel: Count = quantity("k_c", "1", "Tokens that the short convolution sees", default=4)
    conv_state: CountOrZero | None = quantity(
        "n_c", "1", "Tokens that its state keeps; None: as many as it sees", default=None
    )
    scan: Scan = "recurrent"
    """How a pass of more than one token runs along the sequence."""
    chunk_size: Count = quantity("c_s", "1", "Tokens of a chunk of the chunked form", default=64)

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution; 0 for none [1]."""
        return 0

    @property
    def state_values(self) -> Num:
        """Numbers in the state of the recurrence; 0 for none [1]."""
        return 0

    @property
    def passed_values(self) -> Num:
        """Numbers that go into the recurrence and come out of it, a token [1]."""
        return 0

    @property
    def token_flops(self) -> Num:
        """FLOPs of one token in the recurrent form [FLOP]."""
        return 0

    @property
    def chunk_flops(self) -> Num | None:
        """FLOPs of the matrix products of one chunk; None where there is no such form [FLOP]."""
        return None

    def passing_flops(self, chunks: Num) -> Num:
        """FLOPs of the matrix products that pass the state on from chunk to chunk.

        Parameters
        ----------
        chunks : int or array or symbol
            Chunks of the pass [1].

        Returns
        -------
        int or array or symbol
            None, unless a layer combines all chunks' states in one product [FLOP].
        """
        return 0

    @property
    def has_cache(self) -> bool:
        """Whether a sequence holds anything here: its state."""
        return True

    def state_format(self, precision: Precision) -> Format:
        """What the state of the recurrence is stored in.

        Parameters
        ----------
        precision : Precision
            The precision of the model.

        Returns
        -------
        Format
            The precision's format for states.
        """
        return precision.state

    def state_bytes(self, precision: Precision) -> Num:
        """What one sequence holds in one such layer: both states [B]."""
        return self._conv_state_bytes(precision) + self._scan_state_bytes(precision)

    def kept(self, precision: Precision, conv: Format, drafts: int) -> Kept:
        """The inputs that come before the next token, those of drafts too; the state itself."""
        columns = self.conv_kernel - 1 + drafts
        return Kept(
            conv=conv.nbytes(self.conv_channels * columns), scan=self._scan_state_bytes(precision)
        )

    def _conv_state_bytes(self, precision: Precision) -> Num:
        return precision.linear.outputs.nbytes(self._conv_state_values)

    @property
    def _conv_state_values(self) -> Num:
        kept = self.conv_kernel if self.conv_state is None else self.conv_state
        return self.conv_channels * kept

    @property
    def _needed_columns(self) -> Num:
        """Past tokens that a convolution needs beside the new one, of those that are kept [1]."""
        kept = self.conv_kernel if self.conv_state is None else self.conv_state
        return minimum(kept, self.conv_kernel - 1)

    def _columns_bytes(self, columns: Num, precision: Precision) -> Num:
        return precision.linear.outputs.nbytes(self.conv_channels * columns)

    def _scan_state_bytes(self, precision: Precision) -> Num:
        return self.state_format(precision).nbytes(self.state_values)

    def costs(self, hidden: Num, precision: Precision) -> tuple[MatrixCost, ...]:
        """What each matrix costs, all its copies together: those of groups of channels are one."""
        return tuple(
            grouped(cost, matrix.copies)
            for cost, matrix in zip(
                super().costs(hidden, precision), self.matrices(hidden), strict=True
            )
        )

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Projections in, convolution, recurrence, projection out."""
        *before, output = self.costs(hidden, precision)
        tokens = step.tokens
        for cost in before:
            yield product(cost, tokens=tokens, calls=calls)
        if not is_zero(self.conv_channels):
            yield self._along(
                "convolution",
                step,
                precision,
                calls,
                flops=2 * self.conv_kernel * self.conv_channels * tokens,
                passed=2 * self.conv_channels,
                state=self._columns_bytes(self._needed_columns, precision),
                written=self._columns_bytes(1, precision),
            )
        if not is_zero(self.state_values):
            yield self._along(
                "scan",
                step,
                precision,
                calls,
                flops=sum([group.count * self._scan_flops(group) for group in step.groups]),
                passed=self.passed_values,
                state=self._scan_state_bytes(precision),
            )
        yield product(output, tokens=tokens, calls=calls)

    def _scan_flops(self, group: Group) -> Num:
        """FLOPs of one sequence's recurrence; a last, partial chunk costs a whole one."""
        one, recurrent = self.chunk_flops, self.token_flops * group.new
        if self.scan == "recurrent" or one is None:
            return recurrent
        chunks = -(-group.new // self.chunk_size)
        return where(group.new <= 1, recurrent, chunks * one + self.passing_flops(chunks))

    def _along(
        self,
        name: str,
        step: Step,
        precision: Precision,
        calls: Num,
        *,
        flops: Num,
        passed: Num,
        state: Num,
        written: Num | None = None,
    ) -> Operation:
        """Work along the sequence: the state is read if there is a past, and written.

        ``written`` is what each new token changes of it, if not all: a convolution's last input.
        """
        moved: Num = 0
        for group in step.groups:
            new = state if written is None else minimum(group.new * written, state)
            moved = moved + states_read(group) * state + group.count * new
        return Operation.trusted(
            name=name,
            kind="scan",
            flops=flops,
            weight_bytes=0,
            least_weight_bytes=0,
            activation_bytes=precision.linear.outputs.nbytes(passed, 1) * step.tokens,
            kv_bytes=moved,
            calls=calls,
            compute=precision.attention,
            tokens=step.tokens,
            weights=0,
            pairs=0,
            kernel=PLAIN,
        )


def states_read(group: Group) -> Num:
    """States that a group reads: one a sequence with a past, one in all if they share all of it.

    Parameters
    ----------
    group : Group
        Sequences with their past and shared tokens.

    Returns
    -------
    int or array or symbol
        States [1].

    Examples
    --------
    >>> pasts = ((0, 0), (9, 4), (9, 9))  # none; a prefix in common; all of it in common
    >>> [states_read(Group(count=8, new=1, past=p, shared_past=s)) for p, s in pasts]
    [0, 8, 1]
    """
    own = minimum(group.past - group.shared_past, 1)  # 1 if sequences have a past of their own
    return group.count * own + (1 - own) * minimum(group.past, 1)
