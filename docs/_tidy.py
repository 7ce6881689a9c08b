"""An MkDocs hook: no marks for tests, numbers beside units, a search that explains first."""

from __future__ import annotations

import re
from typing import Any, Final

_FOR_TESTS: Final = re.compile(r"  # doctest: \+\w+$", re.MULTILINE)
_NUMBER_AND_UNIT: Final = re.compile(r"(<td[^>]*>(?:<strong>)?[-+]?[\d.,]+) ([^\s<]{1,8}<)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leave out what only tells a test how to read a line; let a search find answers first."""
    if page.url.startswith("reference/"):  # whoever seeks a word wants it explained
        page.meta["search"] = {"boost": 0.3}
    return _FOR_TESTS.sub("", markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Join a number in a cell with its unit, by a space at which no line breaks."""
    return _NUMBER_AND_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", html)
