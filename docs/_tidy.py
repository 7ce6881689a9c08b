"""An MkDocs hook: a page without what is there for its tests, and numbers beside their units."""

from __future__ import annotations

import re
from typing import Any, Final

_FOR_TESTS: Final = re.compile(r"  # doctest: \+\w+$", re.MULTILINE)
_NUMBER_AND_UNIT: Final = re.compile(r"(<td[^>]*>(?:<strong>)?[-+]?[\d.,]+) ([^\s<]{1,8}<)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Leave out what only tells a test how to read a line."""
    return _FOR_TESTS.sub("", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Join a number in a cell with its unit, by a space at which no line breaks."""
    return _NUMBER_AND_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", html)
