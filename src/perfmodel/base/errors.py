"""Everything perfmodel raises on purpose: one family, each a plain Python error too."""

from __future__ import annotations

from typing import Final

MAX_MESSAGE: Final = 380  # characters


def one_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """A text with its unprintable characters escaped, cut to a length."""
    escaped = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


class PerfModelError(Exception):
    """Base class of every error that perfmodel raises on purpose."""

    def __init__(self, message: str = "") -> None:
        # Whatever a name in it holds, a message is one printable line of moderate length.
        super().__init__(one_line(message))


class InvalidValueError(PerfModelError, ValueError):
    """A value is missing, of the wrong type, out of range, or contradicts another."""


class UnknownKeyError(PerfModelError, KeyError):
    """A catalog key, format, preset or field that does not exist."""

    def __str__(self) -> str:
        # KeyError prints the repr of its argument; a sentence should read as one.
        return str(self.args[0]) if self.args else ""


class UnsupportedFormatError(PerfModelError, ValueError):
    """The chip has no peak for a number format: nothing is extrapolated in its place."""


class UnsupportedGroupError(InvalidValueError):
    """The chip has no link that joins so many devices: none is made up in its place."""


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
    """A library is needed that only an extra installs; the message names the extra."""
