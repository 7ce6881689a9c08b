"""What is timed: calls on arrays, each beside the operation that says what it does and moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from perfmodel.base.formats import format_named
from perfmodel.interfaces.measuring.arrays import Arrays
from perfmodel.interfaces.measuring.sizing import TOKENS, Sizes
from perfmodel.work.forward import forward
from perfmodel.work.operation import Operation, gemm, small_step
from perfmodel.work.shape import ModelShape
from perfmodel.work.step import Group, Step

USERS: Final = (16, 64)
WIDTH: Final = 1024  # of one wide head: a user's keys are one matrix


class Job(NamedTuple):
    """One call, and what the library says of it."""

    name: str
    operation: Operation
    call: Callable[[], object]
    counts: str = ""
    """Which bytes the operation counts."""


class Bench(NamedTuple):
    """A table past the cache, and the arrays that pass it; all jobs work in its memory."""

    arrays: Arrays
    precision: str
    side: int
    table: Any  # flat
    inputs: Any
    outputs: Any

    @classmethod
    def laid_out(cls, arrays: Arrays, precision: str, sizes: Sizes) -> Bench:
        """Fill the memory with numbers."""
        side = sizes.side
        passing = [arrays.random(TOKENS[-1], side, form=precision) for _ in range(2)]
        table = arrays.random(sizes.values, form=precision)
        return cls(arrays, precision, side, table, *passing)

    def parts(self, count: int) -> list[Any]:
        """The table's memory as so many lists."""
        size = len(self.table) // count
        return [self.table[i * size : (i + 1) * size] for i in range(count)]

    # -- the memory roof ----------------------------------------------------------------------

    def traffic(self) -> Iterator[Job]:
        """What moves bytes and computes next to nothing: two kinds of reading, copy, triad."""
        yield self.through_table(1)._replace(counts="the table, read once")
        a, b = self.parts(2)
        x, y = self.arrays.wide(a), self.arrays.wide(b)
        dot = gemm(inner=len(x), outer=1, tokens=1, precision="fp32")
        yield Job("dot product", dot, lambda: self.arrays.dot(x, y), "two lists, read once")
        copied = self._small("copy", len(a), moved=2, flops=0)
        yield Job("copy", copied, lambda: self.arrays.copy(a, b), _STREAM.format("one", 3))
        c, d, e = self.parts(3)
        triad = self._small("triad", len(c), moved=3, flops=2)
        yield Job("triad", triad, lambda: self.arrays.triad(c, d, e), _STREAM.format("two", 4))

    def _small(self, name: str, values: int, *, moved: int, flops: int) -> Operation:
        return small_step(
            name,
            flops=flops * values,
            activation_bytes=moved * format_named(self.precision).nbytes(values),
            tokens=1,
            compute=self.precision,
            calls=1,
        )

    # -- real jobs ----------------------------------------------------------------------------

    def real(self) -> Iterator[Job]:
        """Tokens through a table, users with a KV cache each, the addition of two lists."""
        for tokens in TOKENS:
            yield self.through_table(tokens)
        for users in USERS:
            yield self.own_kv(users)
        yield self.addition()

    def through_table(self, tokens: int) -> Job:
        """So many tokens through the table, which is read once for all of them."""
        side, table = self.side, self.table.reshape(self.side, self.side)
        x, out = self.inputs[:tokens], self.outputs[:tokens]
        op = gemm(inner=side, outer=side, tokens=tokens, precision=self.precision)
        name = f"table x {tokens} token{'s' if tokens > 1 else ''}"
        return Job(name, op, lambda: self.arrays.product(x, table, out))

    def own_kv(self, users: int) -> Job:
        """One query of each user over that user's own keys and values."""
        keys, values = self.parts(2)
        context = len(keys) // (users * WIDTH)
        size, shape = users * context * WIDTH, (users, 1, context, WIDTH)
        k, v = keys[:size].reshape(shape), values[:size].reshape(shape)
        q = self.arrays.random(users, 1, 1, WIDTH, form=self.precision)

        def attend() -> None:
            k[:, :, -1:], v[:, :, -1:] = q, q  # the new token's
            self.arrays.attend(q, k, v)

        step = Step(groups=(Group(count=users, new=1, past=context - 1),))
        return Job(f"own KV, {users} users", self._of_block("attention", step), attend)

    def addition(self) -> Job:
        """Two lists added into a third: the residual addition of a block."""
        a, b, out = self.parts(3)
        tokens = len(a) // WIDTH
        a, b, out = (part[: tokens * WIDTH] for part in (a, b, out))
        added = self._of_block("residual", Step(groups=(Group(count=tokens, new=1),)))
        return Job("add two lists", added, lambda: self.arrays.add(a, b, out))

    def _of_block(self, name: str, step: Step) -> Operation:
        """One operation of a block with one head."""
        block = ModelShape.dense(layers=1, hidden=WIDTH, heads=1, ffn=1)
        every = forward(block, step, self.precision, small_steps="separate")
        return next(op for op in every if op.name == name)


def product_of(arrays: Arrays, form: str, side: int) -> Job:
    """One large matrix product, to show how fast arithmetic gets."""
    x, weights, out = (arrays.random(side, side, form=form) for _ in range(3))
    op = gemm(inner=side, outer=side, tokens=side, precision=form)
    return Job(f"{form} matrices of {side:,}", op, lambda: arrays.product(x, weights, out))


_STREAM: Final = (
    "{} read, one written, as STREAM counts; where a store reads its line first, {} lists move"
)
