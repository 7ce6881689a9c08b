"""Everything perfmodel raises on purpose: one family, each a plain Python error too."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class PerfModelError(Exception):
    """Base class of every error that perfmodel raises on purpose."""


class InvalidValueError(PerfModelError, ValueError):
    """A value is missing, of the wrong type, out of range, or contradicts another."""


class UnknownKeyError(PerfModelError, KeyError):
    """A catalog key, format, preset or field that does not exist."""

    def __str__(self) -> str:
        # KeyError prints the repr of its argument; a sentence should read as one.
        return str(self.args[0]) if self.args else ""


class UnsupportedFormatError(PerfModelError, ValueError):
    """The chip has no peak for a number format: nothing is extrapolated in its place."""


class UnsupportedModelError(PerfModelError, ValueError):
    """A config describes a model that perfmodel does not read: it is refused by name."""


class ConfigError(PerfModelError, ValueError):
    """A file or config cannot be read: absent, truncated, too large, or not what it should be."""


class NoCacheError(PerfModelError, ValueError):
    """A question about the KV cache of a shape that has none."""


class DoesNotFitError(PerfModelError, ValueError):
    """The model does not fit the memory even at the smallest size asked about."""


class UnboundedError(PerfModelError, ValueError):
    """Nothing limits the quantity asked for, so there is no largest value."""


class NoRidgeError(PerfModelError, ValueError):
    """The work stays memory-bound (or compute-bound) at every batch: there is no ridge."""


class MissingExtraError(PerfModelError, ImportError):
    """A part of perfmodel needs an optional dependency that is not installed."""


def shown(value: object, limit: int = 60) -> str:
    """The repr of a value for a message, bounded, whatever the value does."""
    try:
        text = repr(value)
    except Exception:  # a hostile or enormous value must not break its own error message
        text = f"<{type(value).__name__}>"
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in " ".join(text.split()))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def plain(text: str, limit: int = 60) -> str:
    """A text as it is, or its repr where it could not stand in one line of a message."""
    return text if text.isprintable() and len(text) <= limit else shown(text, limit)


def did_you_mean(key: object, choices: Iterable[str]) -> str:
    """The end of a message about a wrong key: the nearest choice, or all of them."""
    import difflib

    known = sorted(choices)
    asked = (key if isinstance(key, str) else shown(key))[:80].lower()
    near = (
        difflib.get_close_matches(asked, known, n=1, cutoff=0.8)
        or [choice for choice in known if asked and choice.startswith(asked)]
        or difflib.get_close_matches(asked, known, n=1, cutoff=0.5)
    )
    if near:
        return f"did you mean {near[0]!r}? (one of: {', '.join(known)})"
    return f"expected one of: {', '.join(known)}"


def from_pydantic(error: ValidationError, owner: str, fields: Iterable[str]) -> PerfModelError:
    """Turn Pydantic's report into one sentence: field, value, what was expected."""
    details = error.errors(include_url=False)
    # A misspelt field makes another one missing: the misspelling is what to mend.
    first = next((d for d in details if d["type"] == "extra_forbidden"), details[0])
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, PerfModelError):
        return cause
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return InvalidValueError(f"{owner}.{_sentence(first, fields)}{more}")


def _sentence(detail: ErrorDetails, fields: Iterable[str]) -> str:
    where = ".".join(plain(str(part)) for part in detail["loc"]) or "value"
    if detail["type"] == "missing":
        return f"{where}: required, but missing"
    if detail["type"] == "extra_forbidden":
        return f"{where}: unknown field; {did_you_mean(detail['loc'][-1], fields)}"
    expected = detail["msg"].removeprefix("Value error, ")
    return f"{where}: {expected[:1].lower()}{expected[1:]}, got {shown(detail['input'])}"
