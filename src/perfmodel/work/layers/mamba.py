"""Selective state spaces: Mamba and Mamba-2."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal, Self

from pydantic import model_validator

from perfmodel.base._num import Num
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, Flag, quantity
from perfmodel.work.collective import Collective, all_reduce
from perfmodel.work.layers.layer import norm_step
from perfmodel.work.layers.recurrent import Recurrent
from perfmodel.work.operation import Matrix, Operation
from perfmodel.work.parallel import Parallelism


class Mamba(Recurrent):
    """A selective state space with a state of ``state`` numbers a channel.

    Every number of the state decays by itself, so there is no form in matrix products.

    References
    ----------
    Gu, Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("inner",)
    REPEATED: ClassVar[tuple[str, ...]] = ("groups",)

    kind: Literal["mamba"] = "mamba"
    """Tells the layers apart."""
    inner: Count = quantity("d_i", "1", "Channels")
    state: Count = quantity("n", "1", "State numbers a channel")
    dt_rank: Count = quantity("r_t", "1", "Width that time steps are projected from")
    groups: Count = quantity(
        "g_m", "1", "Groups of channels that each make their own time steps and maps", default=1
    )
    spread: Count = quantity(
        "e_m", "1", "Devices over which each group is spread; this is one of them", default=1
    )
    conv_bias: Flag = True
    """Whether the convolution has a bias."""
    bias: Flag = False
    """Whether the projections in and out have biases."""
    inner_norms: Flag = False
    """Whether time steps and the state's maps are normed, with scales."""

    @model_validator(mode="after")
    def _groups_are_equal(self) -> Self:
        if self.inner % self.groups:
            raise InvalidValueError(
                f"Mamba.inner: expected a multiple of groups={self.groups}, got {self.inner}"
            )
        return self

    def share(self, parallelism: Parallelism) -> Self:
        """What one device holds: channels divide, and past the number of groups these too.

        Raises
        ------
        InvalidValueError
            If channels or groups cannot be divided.
        """
        part = super().share(parallelism)
        spread = max(1, parallelism.tensor // self.groups)
        return part if spread == 1 else part.model_copy(update={"spread": spread})

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """Time steps and maps, where devices share a group and each saw some channels; the sum."""
        if self.spread > 1:
            size = precision.linear.outputs.nbytes(tokens * self._selected, tokens)
            yield all_reduce("selection sum", size, tokens, calls, parallelism, group=self.spread)
        yield from super().collectives(hidden, tokens, precision, calls, parallelism)

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "Mamba"

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution [1]."""
        return self.inner

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.inner * self.state

    @property
    def passed_values(self) -> Num:
        """Channels, gate, time steps in; channels out; the state's maps of each group [1]."""
        return 4 * self.inner + 2 * self.groups * self.state

    @property
    def token_flops(self) -> Num:
        """A number's decay: 2 to make it, 1 to apply it; its input: 2; its output: 2 [FLOP]."""
        return 7 * self.state_values

    @property
    def chunk_flops(self) -> None:
        """None: a state that decays number by number has no chunked form [FLOP]."""
        return None

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """In (channels and gate), time steps and maps of each group, time steps, out."""
        group = self.inner if self.groups == 1 else self.inner // self.groups
        return (
            Matrix("in", hidden, 2 * self.inner),
            Matrix("select", group, self._selected, self.groups),
            Matrix("time_step", self.dt_rank, self.inner),
            Matrix("output", self.inner, hidden),
        )

    @property
    def _selected(self) -> Num:
        """Numbers that one group selects by: its time steps' latent and the state's maps."""
        return self.dt_rank + 2 * self.state

    def vectors(self, hidden: Num) -> Num:
        """Convolution, decay and skip a channel, time step bias, and what is optional [1]."""
        found = self.inner * (self.conv_kernel + self.state + 2)
        if self.conv_bias:
            found = found + self.inner
        if self.bias:
            found = found + 2 * self.inner + hidden
        if self.inner_norms:
            found = found + self._selected
        return found

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Norms of time steps and maps."""
        if self.inner_norms:
            yield norm_step(
                "rms",
                name="selection norm",
                width=self.groups * self._selected,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )


class Mamba2(Recurrent):
    """A selective state space of heads whose whole state decays alike.

    References
    ----------
    Dao, Gu, "Transformers are SSMs: Generalized Models and Efficient Algorithms Through
    Structured State Space Duality", 2024.
    """

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("heads", "unused_inputs")
    REPEATED: ClassVar[tuple[str, ...]] = ("groups",)

    kind: Literal["mamba2"] = "mamba2"
    """Tells the layers apart."""
    heads: Count = quantity("h_m", "1", "Heads")
    head_dim: Count = quantity("d_m", "1", "Channels a head")
    groups: Count = quantity("g_m", "1", "Groups of heads that share the state's maps")
    state: Count = quantity("n", "1", "State numbers a channel")
    conv_bias: Flag = True
    """Whether the convolution has a bias."""
    bias: Flag = False
    """Whether the projection in has a bias."""
    output_bias: Flag = False
    """Whether the projection out has a bias."""
    gated_norm: Flag = True
    """Whether the result is normed, gated, before the projection out."""
    unused_inputs: CountOrZero = quantity(
        "n_u", "1", "Outputs of the projection in that nothing uses", default=0
    )

    @model_validator(mode="after")
    def _groups_are_equal(self) -> Self:
        if self.heads % self.groups:
            raise InvalidValueError(
                f"Mamba2.heads: expected a multiple of groups={self.groups}, got {self.heads}"
            )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "Mamba-2"

    @property
    def inner(self) -> Num:
        """Channels of all heads [1]."""
        return self.heads * self.head_dim

    @property
    def conv_channels(self) -> Num:
        """Channels of the short convolution: those of the heads, and the state's maps [1]."""
        return self.inner + 2 * self.groups * self.state

    @property
    def state_values(self) -> Num:
        """Numbers in the state [1]."""
        return self.inner * self.state

    @property
    def passed_values(self) -> Num:
        """Channels and maps after the convolution, gate and time steps in; channels out [1]."""
        return self.conv_channels + 2 * self.inner + self.heads

    @property
    def token_flops(self) -> Num:
        """A number's decay: 1, which its head makes once; its input: 2; its output: 2 [FLOP]."""
        return 5 * self.state_values

    @property
    def chunk_flops(self) -> Num:
        """Scores and values within the chunk, its state, and what earlier ones give [FLOP]."""
        within = 2 * self.chunk_size * (self.heads * self.state + self.inner)
        between = 2 * 2 * self.inner * self.state
        return self.chunk_size * (within + between)

    def passing_flops(self, chunks: Num) -> Num:
        """One product of the chunks' states and the first with all decays between them [FLOP]."""
        return 2 * (chunks + 1) ** 2 * self.state_values

    @property
    def _in(self) -> Num:
        """Outputs of the projection in: gate, channels, maps, time steps."""
        return self.inner + self.conv_channels + self.heads + self.unused_inputs

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """In (gate, channels, maps, time steps) and out."""
        return (Matrix("in", hidden, self._in), Matrix("output", self.inner, hidden))

    def vectors(self, hidden: Num) -> Num:
        """Convolution; decay, skip and time step bias a head; and what is optional [1]."""
        found = self.conv_channels * self.conv_kernel + 3 * self.heads
        if self.conv_bias:
            found = found + self.conv_channels
        if self.bias:
            found = found + self._in
        if self.output_bias:
            found = found + hidden
        if self.gated_norm:
            found = found + self.inner
        return found

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """The gated norm of the result."""
        if self.gated_norm:
            yield norm_step(
                "rms",
                name="gated norm",
                width=self.inner,
                tokens=tokens,
                precision=precision,
                calls=calls,
            )
