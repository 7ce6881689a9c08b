"""What ``serve`` and ``plan`` are asked to bear: requests of these lengths, or of a trace."""

from __future__ import annotations

from perfmodel.answers.serving.workload import Workload
from perfmodel.base.errors import InvalidValueError
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
    if concurrency is not None and rate is not None:
        raise InvalidValueError(f"--{users}, --rate: expected one of them, got both")
    name, text = ("rate", rate) if concurrency is None else ("concurrency", concurrency)
    asked = "rate" if name == "rate" else users
    parts = [] if text is None else given.parts(asked, text)
    many: list[float | None] = [given.number(asked, part) for part in parts] or [None]
    cached = given.whole("prefix", prefix)
    if trace is not None:
        if prompt is not None or output is not None:
            raise InvalidValueError("--trace: expected it or --prompt and --output, got both")
        return [Workload.from_trace(trace, prefix=cached, **{name: one}) for one in many]
    if prompt is None or output is None:
        raise InvalidValueError("--prompt, --output: expected both, or --trace, got less")
    if text is None:
        raise InvalidValueError(f"--{users}: expected it, --rate or --trace, got none")
    lengths = {"prompt": given.whole("prompt", prompt), "output": given.whole("output", output)}
    return [Workload(**lengths, prefix=cached, **{name: one}) for one in many]
