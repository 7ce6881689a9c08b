"""How errors are worded: one line that names the field, the value and what was expected."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from perfmodel.base.errors import InvalidValueError, PerfModelError, one_line

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


MAX_CHOICES: Final = 40  # more would push everything else out of a message
MAX_NEAR: Final = 5


def shown(value: object, limit: int = 60) -> str:
    """The repr of a value for a message, bounded, whatever the value does."""
    try:
        text = repr(value)
    except Exception:  # a hostile or enormous value must not break its own error message
        text = f"<{type(value).__name__}>"
    return one_line(" ".join(text.split()), limit)


def plain(text: str, limit: int = 60) -> str:
    """A text as it is, or its repr where it could not stand in one line of a message."""
    return text if text.isprintable() and len(text) <= limit else shown(text, limit)


def did_you_mean(key: object, choices: Iterable[str]) -> str:
    """The end of a message about a wrong key: the nearest choices, and all of them if few."""
    import difflib

    known = sorted(choices)
    asked = (key if isinstance(key, str) else shown(key))[:80].lower()
    # Of a longer name, as h100-sxm-80gb, the beginning counts: a100-sxm-80gb is another chip.
    stem = max((choice for choice in known if asked.startswith(f"{choice}-")), key=len, default="")
    akin = [choice for choice in known if choice.startswith(stem)]
    near = (
        [choice for choice in known if asked and choice.startswith(asked)][:MAX_NEAR]
        or difflib.get_close_matches(asked, akin, n=1, cutoff=0.8)
        or [stem] * bool(stem)
        or difflib.get_close_matches(asked, known, n=1, cutoff=0.5)
    )
    few = len(known) <= MAX_CHOICES
    every = f"one of: {', '.join(known)}" if few else f"one of {len(known)}"
    *others, last = map(repr, near or [""])
    meant = f"{', '.join(others)} or {last}" if others else last
    return f"did you mean {meant}? ({every})" if near else f"expected {every}"


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
