"""What ``serve`` and ``plan`` are asked to bear: requests of these lengths, or of a trace."""

from __future__ import annotations

from perfmodel.answers.serving.lengths import tokens
from perfmodel.answers.serving.workload import Workload
from perfmodel.base.errors import InvalidValueError
from perfmodel.base.spec import non_negative, positive
from perfmodel.interfaces.cli import given


def workloads(
    prompt: str | None,
    output: str | None,
    trace: str | None,
    prefix: str,
    concurrency: str | None,
    rate: str | None,
    *,
    users: str = "concurrency",
) -> list[Workload]:
    """One workload for each number of users or rate that was asked for; an option's name."""
    given.one_of(**{users: concurrency, "rate": rate})
    name, text = ("rate", rate) if concurrency is None else ("concurrency", concurrency)
    asked = "rate" if name == "rate" else users
    parts = [] if text is None else given.parts(asked, text)
    many: list[float | None] = [given.number(asked, part, positive) for part in parts] or [None]
    cached = given.number("prefix", prefix, non_negative)
    if trace is not None:
        if prompt is not None or output is not None:
            raise InvalidValueError("--trace: expected it or --prompt and --output, got both")
        first = Workload.from_trace(trace, prefix=cached, **{name: many[0]})
        return [first, *(first.model_copy(update={name: one}) for one in many[1:])]
    if prompt is None or output is None:
        raise InvalidValueError("--prompt, --output: expected both, or --trace, got less")
    if text is None:
        raise InvalidValueError(f"--{users}: expected it, --rate or --trace, got none")
    read = given.number("prompt", prompt, tokens)
    written = given.number("output", output, tokens)
    return [Workload(prompt=read, output=written, prefix=cached, **{name: n}) for n in many]
