"""An MkDocs hook: in a cell of a table, a number and its unit stay on one line."""

from __future__ import annotations

import re
from typing import Any, Final

_NUMBER_AND_UNIT: Final = re.compile(r"(<td[^>]*>(?:<strong>)?[-+]?[\d.,]+) ([^\s<]{1,8}<)")


def on_page_content(html: str, **_: Any) -> str:
    """Join them by a space at which no line breaks."""
    return _NUMBER_AND_UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", html)
