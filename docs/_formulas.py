"""An MkDocs hook: formulas as MathML, which browsers show without a script or a network.

``$...$`` and ``$$...$$`` are LaTeX. ``<!-- derivation: NAME -->`` is replaced by the steps of one
of ``_derivations``, printed from the code that answers with numbers, run on symbols.
"""

from __future__ import annotations

import re
import sys
from html import unescape
from pathlib import Path
from typing import Any, Final

from latex2mathml.converter import convert

sys.path.insert(0, str(Path(__file__).parent))
from _derivations import DERIVATIONS, Step

_WANTED: Final = re.compile(r"<!-- derivation: (\w+) -->")
_INLINE: Final = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAYED: Final = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def derivation(name: str) -> str:
    """The steps of a derivation in Markdown: what each says, and its formula."""
    return "\n\n".join(shown(step) for step in DERIVATIONS[name]())


def shown(step: Step) -> str:
    """One step in Markdown."""
    return f"{step.words}\n\n$$\n{step.formula}\n$$"


def mathml(html: str) -> str:
    """A page with its LaTeX as MathML."""
    html = _INLINE.sub(lambda found: convert(unescape(found[1]).strip()), html)
    return _DISPLAYED.sub(
        lambda found: (
            '<div class="formula" tabindex="0">'
            f"{convert(unescape(found[1]).strip(), display='block')}</div>"
        ),
        html,
    )


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put in the derivations that a page asks for."""
    return _WANTED.sub(lambda found: derivation(found[1]), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Turn the formulas of a page into MathML."""
    return mathml(html)
