"""What users ask for: how long prompts and outputs are, and how many come at once. No chip."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from pydantic import model_validator

from perfmodel.answers.serving.lengths import Lengths, LengthsLike
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import Flag, Quantity, QuantityOrZero, Spec, quantity

_NODES: Final = 16  # of contexts; each stands for an equal share of the tokens
_CLASSES: Final = 64  # of many lengths, before prompts and outputs are crossed
_PROMPTS: Final = 8  # classes of prompts, two lengths each


class Requests(NamedTuple):
    """Kinds of requests as arrays of one length."""

    prompt: Any
    """Tokens of the prompt [1]."""
    output: Any
    """Tokens of the output [1]."""
    share: Any
    """Share of the requests [1]."""


class Workload(Spec):
    """Requests as a server sees them: lengths, and so many users at once or so many a second.

    ``concurrency`` is a closed loop: each user sends the next request when the last is answered.
    ``rate`` is an open one: requests come by themselves, at random times. ``prefix`` tokens of
    every prompt are cached already: they are attended, and not computed again.

    Examples
    --------
    >>> chat = Workload(prompt=2000, output=500, concurrency=32)
    >>> chat.mean_context  # of a token in the middle of the output
    2250.0

    Half of the requests write 100 tokens, half 900: nine of ten tokens belong to the long ones.

    >>> Workload(prompt=1000, output=[101, 901], rate=2.0).mean_context
    1410.5
    """

    prompt: LengthsLike
    """Tokens of a prompt [1]."""
    output: LengthsLike
    """Tokens of an output [1]."""
    prefix: QuantityOrZero = quantity(
        "S_0", "1", "Tokens of each prompt whose keys and values are cached already", default=0.0
    )
    concurrency: Quantity | None = quantity(
        "N", "1", "Users, each with a next request at once; or give rate", default=None
    )
    rate: Quantity | None = quantity(
        r"\lambda", "1/s", "Requests that come in a second; or give concurrency", default=None
    )
    rounds: Quantity | None = quantity(
        "R", "1", "Requests of each user from a common start; None: without end", default=None
    )
    paired: Flag = False
    """Whether the first prompt comes with the first output, and so on; else all are combined."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if (self.concurrency is None) == (self.rate is None):
            got = "none" if self.rate is None else "both"
            raise InvalidValueError(
                f"Workload.concurrency: expected it or Workload.rate, got {got}"
            )
        if self.concurrency is not None and self.concurrency < 1:
            raise InvalidValueError(
                f"Workload.concurrency: expected at least 1 user, got {self.concurrency:g}"
            )
        if self.rounds is not None and (self.rounds < 1 or self.concurrency is None):
            raise InvalidValueError(
                "Workload.rounds: expected at least 1 round, of concurrency= users, "
                f"got {self.rounds:g}"
            )
        if self.prefix > min(self.prompt.values) - 1:
            raise InvalidValueError(
                "Workload.prefix: expected at least one token less than the shortest prompt "
                f"({min(self.prompt.values):g} tokens), got {self.prefix:g}"
            )
        if max(self.output.values) <= 1:
            raise InvalidValueError(
                "Workload.output: expected more than one token of some requests, got "
                f"{self.output.mean:g}; prefill() answers for prompts alone"
            )
        if self.paired and len(self.prompt.values) != len(self.output.values):
            raise InvalidValueError(
                f"Workload.paired: expected as many outputs as prompts "
                f"({len(self.prompt.values)}), got {len(self.output.values)}"
            )
        if self.paired and self.prompt.weights != self.output.weights:
            raise InvalidValueError(
                "Workload.paired: expected the same weights of prompts and outputs, got others"
            )
        return self

    @classmethod
    def from_trace(
        cls,
        path: str | Path,
        *,
        concurrency: float | None = None,
        rate: float | None = None,
        prefix: float = 0,
    ) -> Workload:
        """The workload of a recorded trace: a table with one request a line.

        Parameters
        ----------
        path : str or Path
            A CSV or Parquet file with a column of prompt tokens and one of output tokens, under
            one of their usual names, and perhaps one of arrival times [s].
        concurrency : float or None
            Users in a closed loop, in place of the rate of the trace [1].
        rate : float or None
            Requests a second, in place of the rate of the trace [1/s].
        prefix : float
            Tokens of each prompt whose keys and values are cached already [1].

        Returns
        -------
        Workload
            Its lengths in pairs; more than 4,096 different pairs are gathered into classes.

        Raises
        ------
        ConfigError
            If the file cannot be read, has no such columns, is empty, or holds what is no length.
        InvalidValueError
            If neither the trace nor an argument says how many requests there are.
        """
        from perfmodel.answers.serving.trace import read_trace

        trace = read_trace(path)
        if concurrency is None and rate is None:
            if trace.rate is None:
                raise InvalidValueError(
                    "rate: expected it or concurrency, for the trace has no two arrival times, "
                    "got none"
                )
            rate = trace.rate
        return cls(
            prompt=Lengths(values=trace.prompts, weights=trace.weights),
            output=Lengths(values=trace.outputs, weights=trace.weights),
            prefix=prefix,
            concurrency=concurrency,
            rate=rate,
            paired=True,
        )

    def __repr__(self) -> str:
        many = f"{self.rate:g} a second" if self.rate else f"{self.concurrency:g} at once"
        cached = f", {self.prefix:g} of them cached" if self.prefix else ""
        return (
            f"<requests of {self.prompt.mean:,.6g} tokens{cached} and {self.output.mean:,.6g} out, "
            f"{many}>"
        )

    __str__ = __repr__

    @property
    def decode_tokens(self) -> float:
        """Tokens of a request after its first, on average [1]."""
        return self.output.mean - 1

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt that are computed, on average [1]."""
        return self.prompt.mean - self.prefix

    @property
    def prompt_pairs(self) -> float:
        """Pairs of query and key of a prompt, on average: quadratic in its length [1].

        ``E[n s_0 + n (n + 1) / 2]`` for n tokens after a prefix of s_0.
        """
        new, square = self.new_tokens, self.prompt.mean_square
        square = square - 2 * self.prefix * self.prompt.mean + self.prefix**2
        return self.prefix * new + (square + new) / 2

    @property
    def mean_context(self) -> float:
        """Tokens that a decoded token attends, on average over tokens and not requests [1].

        ``E[(O - 1)(S + O / 2)] / E[O - 1]``: a request counts as often as it has tokens.
        """
        return self._weighed(lambda r: r.prompt + r.output / 2)

    @property
    def longest_context(self) -> float:
        """Tokens of the longest request, its last token included [1]."""
        kinds = self.requests
        return float((kinds.prompt + kinds.output).max())

    @property
    def reserved_context(self) -> float:
        """Tokens of a request at its end, on average over tokens and not requests [1]."""
        return self._weighed(lambda r: r.prompt + r.output)

    def _weighed(self, of: Any) -> float:
        kinds = self.requests
        weight = kinds.share * (kinds.output - 1)
        return float((weight * of(kinds)).sum() / weight.sum())

    @cached_property
    def requests(self) -> Requests:
        """Each kind of request: pairs as given, or every prompt with every output."""
        import numpy as np

        prompts, outputs = _arrays(self.prompt), _arrays(self.output)
        if self.paired:
            return Requests(prompts[0], outputs[0], prompts[1])
        if len(prompts[0]) * len(outputs[0]) > _CLASSES**2:
            prompts, outputs = _classes(*prompts, _CLASSES), _classes(*outputs, _CLASSES)
        prompt, output = np.meshgrid(prompts[0], outputs[0], indexing="ij")
        share = np.multiply.outer(prompts[1], outputs[1])
        return Requests(prompt.ravel(), output.ravel(), share.ravel())

    @cached_property
    def contexts(self) -> Any:
        """Sixteen contexts of decoded tokens, each the mean of an equal share of them [1].

        Of a request, tokens attend S + 1 to S + O - 1, all alike. The distribution is integrated
        exactly, so that the mean of the sixteen is ``mean_context``.
        """
        import numpy as np

        kinds = self.requests
        kept = kinds.output > 1
        prompt, output = kinds.prompt[kept], kinds.output[kept]
        low, high = prompt + 0.5, prompt + output - 0.5
        density = kinds.share[kept] / (self.output.mean - 1)  # of tokens at each context
        ends = np.concatenate([low, high])
        order = np.argsort(ends, kind="stable")
        edges = ends[order]
        rate = np.cumsum(np.concatenate([density, -density])[order])[:-1]
        rate = np.maximum(rate, 0)
        upto = np.concatenate([[0], np.cumsum(rate * np.diff(edges))])
        moment = np.concatenate([[0], np.cumsum(rate * np.diff(edges**2) / 2)])
        cuts = np.linspace(0, upto[-1], _NODES + 1)
        at = np.interp(cuts, upto, edges)
        part = np.clip(np.searchsorted(edges, at, side="right") - 1, 0, len(rate) - 1)
        area = moment[part] + rate[part] * (at**2 - edges[part] ** 2) / 2
        return np.diff(area) * _NODES / upto[-1]

    @cached_property
    def prompts(self) -> tuple[Any, Any]:
        """New tokens of a few kinds of prompts, and their shares: same mean, same mean square."""
        import numpy as np

        found, kind = np.unique(self.requests.prompt, return_inverse=True)
        shares = np.bincount(kind, weights=self.requests.share)
        return _classes(found - self.prefix, shares, _PROMPTS)


def _arrays(lengths: Lengths) -> tuple[Any, Any]:
    import numpy as np

    return np.array(lengths.values), np.array(lengths.shares)


def _classes(values: Any, shares: Any, most: int) -> tuple[Any, Any]:
    """Fewer lengths with the same mean and mean square: classes of equal shares, of two each.

    The two lie a standard deviation of their class above and below its mean.
    """
    import numpy as np

    if len(values) <= most:
        return values, shares
    order = np.argsort(values, kind="stable")
    values, shares = values[order], shares[order]
    middle = np.cumsum(shares) - shares / 2
    _, kind = np.unique(np.minimum((middle * most).astype(int), most - 1), return_inverse=True)
    share = np.bincount(kind, weights=shares)
    mean = np.bincount(kind, weights=shares * values) / share
    square = np.bincount(kind, weights=shares * (values - mean[kind]) ** 2) / share
    off = np.minimum(np.sqrt(square), mean - 1)
    return np.concatenate([mean - off, mean + off]), np.concatenate([share, share]) / 2
