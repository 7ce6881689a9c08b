"""Derivations of the pages, step by step: the library's own formulas, handed symbols.

Only the names on the left are typed in. Each right-hand side is what the code that answers with
numbers returns for symbols, as SymPy prints it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import sympy

from perfmodel import symbolic
from perfmodel.answers.serving.pools import waiting
from perfmodel.answers.serving.scheduler import Speculation
from perfmodel.answers.serving.steady import _above, _left
from perfmodel.base.precision import Precision
from perfmodel.interfaces._symbols import symbol
from perfmodel.roofline import compute_time, memory_time, network_time
from perfmodel.work.collective import _leg
from perfmodel.work.layers.experts import touched
from perfmodel.work.layers.reach import Reach
from perfmodel.work.operation import Matrix, Operation, linear
from perfmodel.work.step import Group

_T, _k, _n = symbolic.tokens, symbolic.inner, symbolic.outer
_F, _beta = symbolic.peak, symbolic.bandwidth


class Step(NamedTuple):
    """One step of a derivation."""

    words: str
    """What it says."""
    name: str
    """What stands on the left, in LaTeX."""
    value: Any
    """What stands on the right: an expression, or a number."""

    @property
    def formula(self) -> str:
        """Both, in LaTeX."""
        return f"{self.name} = {sympy.latex(self.value)}"


def _collected(fraction: sympy.Expr) -> sympy.Expr:
    """A fraction whose minus signs stand inside, where a reader expects them."""
    above, below = sympy.fraction(sympy.together(fraction))
    return sympy.expand(above) / below


def _table(precision: str = "bf16") -> Operation:
    """T tokens through a matrix of k inputs and n outputs."""
    formats = Precision.preset(precision).linear
    return linear(Matrix("table", _k, _n), tokens=_T, formats=formats)


def roofline() -> list[Step]:
    """One matrix: its work, its traffic, its intensity; the two times, and where they meet."""
    job = _table()
    intensity = sympy.cancel(job.flops / job.nbytes)
    wide = sympy.limit(intensity.subs(_n, _k), _k, sympy.oo)
    compute = compute_time(flops=job.flops, peak=_F)
    memory = memory_time(nbytes=sympy.factor(job.nbytes), bandwidth=_beta)
    ridge = symbolic.gemm_ridge_batch().expression
    return [
        Step(
            "$T$ tokens go through a matrix of $k$ inputs and $n$ outputs in 16 bits. Each weight "
            "and token is one multiplication and one addition:",
            "W",
            job.flops,
        ),
        Step(
            "The weights are read once; each token brings its inputs, takes its outputs:",
            "Q",
            job.nbytes,
        ),
        Step("Arithmetic intensity, in FLOP/B:", r"\frac{W}{Q}", intensity),
        Step(
            "Of a wide matrix it is the number of tokens:",
            r"\lim_{k, n \to \infty} \frac{W}{Q}",
            wide,
        ),
        Step(r"At the peak $F$ the arithmetic takes", "t_F", compute),
        Step(r"and at the bandwidth $\beta$ the traffic takes", r"t_\beta", memory),
        Step("They are equal, the ridge, at this many tokens:", "T", ridge),
        Step("and of a wide matrix at", "T", symbolic.wide_gemm_ridge_batch().expression),
    ]


def ridge() -> list[Step]:
    """A decode step: the batch at which it turns compute-bound, and where none is."""
    return [
        Step(
            "Matrix and attention arithmetic of $B$ sequences against weights, read once, and keys "
            "and values, read for each:",
            "B",
            symbolic.step_ridge_batch().expression,
        ),
        Step(
            "Its denominator falls as the context $S$ grows, and is 0 at the critical context:",
            "S",
            symbolic.critical_context().expression,
        ),
    ]


def causal_attention() -> list[Step]:
    """Pairs of new queries and keys: of a prompt, of its chunks, of one token, of a window."""
    new, past, window = symbol("n"), symbol("s"), symbol("w")

    def pairs(new: Any, past: Any, window: Any = None) -> Any:
        reach = Reach(window=window)
        group = Group.trusted(count=1, new=new, past=past, logits=0, shared_past=0)
        return reach.twice_pairs(group) / 2

    a, b = symbol("a"), symbol("b")
    rest = sympy.expand(pairs(a + b, 0) - pairs(a, 0) - pairs(b, a))
    return [
        Step(
            "$n$ new queries over $s$ cached keys, each seeing itself and what came before:",
            "P(n, s)",
            pairs(new, past),
        ),
        Step(
            "A whole prompt is half of a square and half of its diagonal:",
            "P(n, 0)",
            sympy.expand(pairs(new, 0)),
        ),
        Step("One more token sees its context:", "P(1, S - 1)", pairs(1, symbolic.context - 1)),
        Step(
            "Cut into chunks of $a$ and $b$ tokens, nothing is lost and nothing added:",
            "P(a + b, 0) - P(a, 0) - P(b, a)",
            rest,
        ),
        Step(
            "In a window of $w$ tokens, long ago filled, each sees",
            "P_w(1, s)",
            pairs(1, past + window, window),
        ),
    ]


def decode_attention() -> list[Step]:
    """The intensity of one token's attention, and its limit."""
    return [
        Step(
            "$h$ query heads share $g$ heads of keys and values, in 16 bits; in FLOP/B:",
            r"\frac{W}{Q}",
            symbolic.attention_intensity().expression,
        ),
        Step(
            "For long contexts:",
            r"\lim_{S \to \infty} \frac{W}{Q}",
            symbolic.limit_of_attention_intensity().expression,
        ),
    ]


def experts() -> list[Step]:
    """Distinct experts that T tokens touch, and the ridge of their weights."""
    count, chosen = symbol("E"), symbol("k")
    met = touched(count, chosen, _T, choices=count)
    return [
        Step(
            "Of $E$ experts each of $T$ tokens chooses $k$. The expected number of distinct ones:",
            "U",
            met.expected,
        ),
        Step("One token meets", "U(1)", sympy.simplify(met.expected.subs(_T, 1))),
        Step("and never more are met than", r"\max U", met.most),
        Step(
            "With all experts read, weights alone, the ridge of a model that sends a token to "
            "$k_e$ experts of width $f_e$:",
            "T",
            symbolic.ridge_batch(model=symbolic.any_experts()).expression,
        ),
    ]


def precision() -> list[Step]:
    """Ridges of a wide matrix by preset: what the bytes and what the peak do to them."""
    words = {
        "bf16": "16-bit weights and arithmetic:",
        "uniform-fp8": "8 bits everywhere, and twice the peak: half of both times:",
        "w8a16": "8-bit weights, 16-bit arithmetic:",
        "w4a16": "4-bit weights with a 16-bit scale for each 128, 16-bit arithmetic:",
    }
    return [
        Step(said, "T", symbolic.wide_gemm_ridge_batch(precision=name).expression)
        for name, said in words.items()
    ]


def all_reduce() -> list[Step]:
    """A ring all-reduce: bytes a device sends, messages one after another, and its time."""
    devices, size, link, latency = (symbol(name) for name in ("n", "Q", "b", "l"))
    leg = _leg("all-reduce", "ring", size, devices)
    time = network_time(wire=leg.wire, bandwidth=link, hops=leg.hops, latency=latency)
    return [
        Step(
            "$n$ devices in a ring add up $Q$ bytes, a share each, and hand them on. Each sends",
            "Q_n",
            sympy.factor(leg.wire),
        ),
        Step("in so many messages:", "m", sympy.factor(leg.hops)),
        Step(
            "On links of $b$ bytes a second in one direction, with a latency $l$ a message:",
            "t_n",
            sympy.factor(time),
        ),
    ]


def serving() -> list[Step]:
    """Means of prompts in a step, what is left of full steps, a queue, and drafts."""
    begin, load, square, chance = (symbol(name) for name in ("a", "u", "q", "alpha"))
    busy, service = symbol("rho"), symbol("s")
    above = [sympy.expand(_exact(one)) for one in _above(begin)]
    drafts = Speculation.trusted(tokens=3, acceptance=chance, draft=None)
    return [
        Step(
            "Prompts begin in a step at random, $a$ on average. That there is one or more adds the "
            "first one's time; further ones than the first come on average to",
            r"E[(A - 1)^+]",
            above[1],
        ),
        Step("and further ones than two to", r"E[(A - 2)^+]", above[2]),
        Step(
            "Prompts that take $u$ steps' room a step, with a mean square $q$ of what begins in "
            "one, leave full steps to those behind them, so many:",
            "Q",
            _exact(_left(load, square), load),
        ),
        Step(
            r"Requests that come by themselves queue for one server, busy a share $\rho$ of the "
            r"time, with services of mean $s$ and mean square $q s^2$:",
            "t_q",
            _exact(waiting(service, square, busy, 1), busy),
        ),
        Step(
            r"Three drafts, each right with chance $\alpha$, give so many tokens a step:",
            "E",
            sympy.expand(_exact(drafts.expected_tokens)),
        ),
    ]


def _exact(expression: Any, share: Any = None) -> sympy.Expr:
    """With exact numbers, and off its bounds: what holds where a share is a half."""

    def value(one: Any) -> float:
        return float(one.subs(share, sympy.Rational(1, 2)).subs(dict.fromkeys(one.free_symbols, 1)))

    def most(*choices: Any) -> Any:
        return max(choices, key=value)

    def least(*choices: Any) -> Any:
        return min(choices, key=value)

    bounded = sympy.sympify(expression).subs(math.e, sympy.E)
    return sympy.nsimplify(bounded.replace(sympy.Max, most).replace(sympy.Min, least))


def growth() -> list[Step]:
    """The batch at which the cache outweighs the weights, and the longest context that fits."""
    return [
        Step(
            "Sequences of $S$ tokens whose keys and values are as many bytes as the weights:",
            "B",
            symbolic.kv_overtakes_weights().expression,
        ),
        Step(
            "The longest context of $B$ sequences that a memory of $C$ bytes holds:",
            "S",
            _collected(symbolic.max_context_for_capacity().expression),
        ),
    ]


DERIVATIONS: Final[dict[str, Callable[[], list[Step]]]] = {
    made.__name__: made
    for made in (
        roofline,
        ridge,
        causal_attention,
        decode_attention,
        experts,
        precision,
        all_reduce,
        serving,
        growth,
    )
}
"""By the name that a page asks for."""
