"""Mixture of experts: a router sends each token to a few of many feed-forward experts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import accumulate
from typing import ClassVar, Final, Literal, NamedTuple, Self

from pydantic import model_validator

from perfmodel.base._num import Num, ceil_div, is_zero, maximum, minimum
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.precision import Precision
from perfmodel.base.spec import Count, CountOrZero, Flag, NonNegative, quantity
from perfmodel.work.collective import Collective
from perfmodel.work.layers.feedforward import activation_step
from perfmodel.work.layers.layer import Layer
from perfmodel.work.operation import Kernel, Matrix, MatrixCost, Operation, product
from perfmodel.work.parallel import Parallelism
from perfmodel.work.step import Step

_MOST_SKEW: Final = 10


class Touched(NamedTuple):
    """How many distinct experts so many tokens are sent to."""

    least: Num
    """If all tokens choose the same [1]."""
    expected: Num
    """Under uniform, independent routing; an upper bound of the mean under skewed routing [1]."""
    most: Num
    """If tokens share none as long as they can [1]."""


class MixtureOfExperts(Layer):
    """``experts`` feed-forward experts, ``top_k`` of them for each token, and perhaps a shared one.

    References
    ----------
    Shazeer et al., "Outrageously Large Neural Networks: The Sparsely-Gated Mixture-of-Experts
    Layer", 2017.
    """

    ROUTING: ClassVar[frozenset[str]] = frozenset({"router", "shared_gate"})

    DIVIDED: ClassVar[tuple[str, ...] | None] = ("shared_width",)

    kind: Literal["moe"] = "moe"
    """Tells the layers apart."""
    experts: Count = quantity("E", "1", "Routed experts")
    top_k: Count = quantity("k_e", "1", "Experts that each token is sent to")
    width: Count = quantity("f_e", "1", "Inner width of one expert")
    gated: Flag = True
    """Whether experts have a gate beside the up projection."""
    shared_width: CountOrZero = quantity(
        "f_s",
        "1",
        "Inner width of the shared experts together, which every token passes",
        default=0,
    )
    shared_gate: Flag = False
    """Whether a projection onto one number scales the shared result."""
    zero_experts: CountOrZero = quantity(
        "E_0", "1", "Choices of the router that do nothing", default=0
    )
    latent: Count | None = quantity(
        "r_e", "1", "Width that experts read and write; None: that of the model", default=None
    )
    router_width: Count | None = quantity(
        "E_r", "1", "Outputs of the router; None: one for each choice", default=None
    )
    spread: Count = quantity(
        "e", "1", "Devices over which the experts are spread; this is one of them", default=1
    )
    gathered: Count = quantity("r_e", "1", "Replicas whose tokens meet at the experts", default=1)
    router_bias: Flag = False
    """Whether the router has learned biases, on its scores or on its choices alone."""
    skew: NonNegative = quantity(
        "s",
        "1",
        "How unequally experts are chosen: the n-th as often as n^-s; 0: all alike",
        default=0.0,
    )
    bias: Flag = False
    """Whether the routed experts' projections have biases."""
    shared_bias: Flag = False
    """Whether the shared experts' projections have biases."""

    @model_validator(mode="after")
    def _enough_to_choose_from(self) -> Self:
        if self.top_k > self.choices:
            raise InvalidValueError(
                f"MixtureOfExperts.top_k: expected at most experts={self.choices}, got {self.top_k}"
            )
        if self.spread > self.experts:
            raise InvalidValueError(
                f"MixtureOfExperts.spread: expected at most experts={self.experts}, one a device, "
                f"got {self.spread}"
            )
        if self.skew > _MOST_SKEW:
            raise InvalidValueError(
                f"MixtureOfExperts.skew: expected at most {_MOST_SKEW}, where a token's experts "
                f"are all but the same, got {self.skew:g}"
            )
        if self.gathered > self.spread:
            raise InvalidValueError(
                f"MixtureOfExperts.gathered: expected at most spread={self.spread}, "
                f"got {self.gathered}"
            )
        return self

    @property
    def title(self) -> str:
        """What a table calls it."""
        return "mixture of experts"

    @property
    def choices(self) -> Num:
        """Outputs of the router [1]."""
        return self.experts + self.zero_experts

    @property
    def chosen(self) -> Num:
        """Experts that do something for a token, on average [1]."""
        if not self.zero_experts:
            return self.top_k
        return self.top_k * self.experts / self.choices

    @property
    def _met(self) -> Num:
        """Of them, those that this device holds, on average [1]."""
        return self.chosen if self.spread == 1 else self.chosen * self._held / self.experts

    def touched(self, tokens: Num) -> Touched:
        """Distinct experts that so many tokens are sent to.

        ``E (1 - (1 - k/E)^T)`` are expected where each token chooses ``k`` distinct ones, all
        alike, whatever the others choose. With a skew, the n-th expert is chosen with probability
        ``p_n``, in proportion to ``n^-s`` up to 1, and ``sum_n 1 - (1 - p_n)^T`` are expected.

        Parameters
        ----------
        tokens : int or array or symbol
            Tokens of the step, T [1].

        Returns
        -------
        Touched
            The expected number, and the bounds ``k`` and ``min(E, kT)`` [1].

        Examples
        --------
        >>> mixtral = MixtureOfExperts(experts=8, top_k=2, width=14336)
        >>> mixtral.touched(4)
        Touched(least=2, expected=5.46875, most=8)
        >>> skewed = MixtureOfExperts(experts=2, top_k=1, width=8, skew=1)  # 2/3 and 1/3
        >>> round(skewed.touched(2).expected, 4)  # 2 - 1/9 - 4/9
        1.4444
        """
        return self._touched_by(tokens * self.gathered)

    def _touched_by(self, met: Num) -> Touched:
        """Distinct experts that the tokens of all replicas are sent to."""
        every = touched(self.experts, self.top_k, met, choices=self.choices, skew=self.skew)
        if self.spread == 1:
            return every
        # The busiest device has at least its share, rounded up, of the experts that are chosen.
        least = ceil_div(every.least, self.spread)
        return Touched(
            least=least,
            expected=maximum(every.expected * self._held / self.experts, least),
            most=minimum(self._held, self.top_k * met),
        )

    @property
    def _held(self) -> Num:
        """Routed experts of this device [1]."""
        return self.experts if self.spread == 1 else ceil_div(self.experts, self.spread)

    def share(self, parallelism: Parallelism) -> Self:
        """What one device holds: experts divide, then their width; the router is held by all.

        Raises
        ------
        InvalidValueError
            If there are too few experts, or a width cannot be divided.
        """
        tensor, spread = parallelism.tensor, parallelism.expert
        slices = tensor // spread if spread < tensor else 1
        return self.model_copy(
            update={
                "width": self._part("width", slices),
                "shared_width": self._part("shared_width", tensor),
                "spread": spread,
                "gathered": parallelism.replicas_per_expert,
            }
        )

    def collectives(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num, parallelism: Parallelism
    ) -> Iterable[Collective]:
        """Across replicas, tokens to their experts and results back; then the sum of all parts."""
        if self.gathered > 1:
            # Devices of a tensor group hold the same tokens, and send a part of them each.
            copies = self.chosen * tokens / parallelism.tensor
            width = hidden if self.latent is None else self.latent
            formats = precision.linear
            for name, values in (("dispatch", formats.inputs), ("combine", formats.outputs)):
                yield Collective.trusted(
                    name=f"expert {name}",
                    kind="all-to-all",
                    nbytes=values.nbytes(copies * width, copies),
                    least_nbytes=0,
                    group=parallelism.expert,
                    calls=calls,
                    algorithm="ring",
                    tokens=tokens,
                )
        yield from super().collectives(hidden, tokens, precision, calls, parallelism)

    def matrices(self, hidden: Num) -> tuple[Matrix, ...]:
        """Router, shared expert, ways into and out of the latent, and every expert's two."""
        inner = hidden if self.latent is None else self.latent
        scores = self.choices if self.router_width is None else self.router_width
        found = [Matrix("router", hidden, scores)]
        if self.shared_width:
            found.append(Matrix("shared_up", hidden, self._up(self.shared_width)))
            found.append(Matrix("shared_down", self.shared_width, hidden))
        if self.shared_width and self.shared_gate:
            found.append(Matrix("shared_gate", hidden, 1))
        if self.latent is not None:
            found.append(Matrix("latent_in", hidden, self.latent))
            found.append(Matrix("latent_out", self.latent, hidden))
        found.append(Matrix("experts_up", inner, self._up(self.width), self._held))
        found.append(Matrix("experts_down", self.width, inner, self._held))
        return tuple(found)

    def _up(self, width: Num) -> Num:
        return 2 * width if self.gated else width

    def vectors(self, hidden: Num) -> Num:
        """Biases of the router and of all experts [1]."""
        router = self.choices if self.router_bias else 0
        biased = self.shared_width and self.shared_bias
        shared = self._up(self.shared_width) + hidden if biased else 0
        return router + shared + self._held * self._expert_vectors(hidden)

    def _expert_vectors(self, hidden: Num) -> Num:
        if not self.bias:
            return 0
        return self._up(self.width) + (hidden if self.latent is None else self.latent)

    def active_params(self, hidden: Num) -> Num:
        """All parameters but those of the experts that a token is not sent to [1]."""
        if self.reused:
            return 0
        one = self._expert_vectors(hidden) + sum(
            [m.inner * m.outer for m in self.matrices(hidden)[-2:]]
        )
        idle = self._held - self._met
        return self.params(hidden) - idle * one

    def operations(
        self, hidden: Num, step: Step, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Router and shared expert for every token; then the experts that any token is sent to."""
        *dense, up, down = self.costs(hidden, precision)
        tokens = step.tokens
        for cost in dense:
            yield product(cost, tokens=tokens, calls=calls)
        # Of the replicas whose tokens meet here, one may hold all, and the others none.
        met = maximum(self.gathered * step.mean_tokens, tokens)
        touched, rows = self._touched_by(met), self._met * met
        for cost in (up, down):
            yield routed(
                cost,
                touched,
                rows=rows,
                # Each choice is sorted and summed on every device, wherever its expert is.
                routes=self.chosen * met,
                width=up.kernel.inner,
                tokens=tokens,
                calls=calls,
            )

    def inner_steps(
        self, hidden: Num, tokens: Num, precision: Precision, calls: Num
    ) -> Iterable[Operation]:
        """Activations of the experts that a token passes, the shared ones included."""
        width = self._met * self.gathered * self.width + self.shared_width
        yield activation_step(
            width=width, gated=self.gated, tokens=tokens, precision=precision, calls=calls
        )


def touched(experts: Num, top_k: Num, tokens: Num, *, choices: Num, skew: float = 0) -> Touched:
    """Distinct experts that so many tokens are sent to, each to ``top_k`` of the choices.

    Parameters
    ----------
    experts : int or symbol
        Experts, E [1].
    top_k : int or symbol
        Choices of one token, k [1].
    tokens : int or array or symbol
        Tokens of the step, T [1].
    choices : int or symbol
        What there is to choose from: the experts, and perhaps ways around them [1].
    skew : float
        How unequally experts are chosen [1].

    Returns
    -------
    Touched
        ``E (1 - (1 - k/E)^T)`` where all choices are experts, alike, and its bounds [1].
    """
    # One token misses all but those it chooses; each further one misses the same share of them.
    # So written, one token is sent to k experts without rounding.
    chosen = top_k if is_zero(choices - experts) else top_k * experts / choices
    idle = experts - chosen
    if skew:
        chances = _chances(int(experts), float(chosen), float(skew))
        missed = sum([(1 - p) ** tokens for p in chances])
    else:
        missed = 0 if is_zero(idle) else idle * (1 - top_k / choices) ** (tokens - 1)
    return Touched(
        least=maximum(top_k - (choices - experts), 0),
        expected=experts - missed,
        most=minimum(experts, top_k * tokens),
    )


@cache
def _chances(experts: int, chosen: float, skew: float) -> tuple[float, ...]:
    """How probably a token chooses each expert: as n^-s, none above 1, ``chosen`` in all."""
    shares = [n**-skew for n in range(1, experts + 1)]
    rests = list(accumulate(reversed(shares)))[::-1]  # of an expert and all that are rarer
    certain = 0
    while certain < chosen and shares[certain] * (chosen - certain) > rests[certain]:
        certain += 1
    rest = rests[certain] if certain < experts else 1.0
    return (1.0,) * certain + tuple(x * (chosen - certain) / rest for x in shares[certain:])


def routed(
    cost: MatrixCost,
    touched: Touched,
    *,
    rows: Num,
    routes: Num,
    width: Num,
    tokens: Num,
    calls: Num,
) -> Operation:
    """Tokens through a matrix of which every expert has a copy; each touched copy is read once.

    Parameters
    ----------
    cost : MatrixCost
        What one copy costs.
    touched : Touched
        How many copies the tokens meet [1].
    rows : int or array or symbol
        Products of one row with one copy: tokens times experts a token [1].
    routes : int or array or symbol
        Choices of all tokens, also of copies that other devices hold [1].
    width : int or symbol
        Values of a token that are sent for each choice [1].
    tokens : int or array or symbol
        Tokens of the step [1].
    calls : int or symbol
        How many such layers there are [1].

    Returns
    -------
    Operation
        Of kind ``"experts"``.
    """
    return Operation.trusted(
        name=cost.name,
        kind="experts",
        flops=2 * cost.weights * rows,
        weight_bytes=touched.expected * cost.weight_bytes,
        least_weight_bytes=touched.least * cost.weight_bytes,
        activation_bytes=cost.token_bytes * rows,
        kv_bytes=0,
        calls=calls,
        compute=cost.compute,
        tokens=tokens,
        weights=touched.expected * cost.weights,
        pairs=0,
        # The products of a layer's experts are one kernel.
        kernel=Kernel("experts", cost.kernel.recipe, width, rows=routes, launches=0.5),
    )
