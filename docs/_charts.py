"""An MkDocs hook: the charts of a page, drawn by the very code that stands above them.

``<!-- chart name: alt text -->`` becomes the picture of ``ax``, once for each theme of the site.
"""

from __future__ import annotations

import io
import re
from doctest import DocTestParser
from pathlib import Path
from typing import Any, Final

PAGES: Final = ("plots.md",)
THEMES: Final = ("light", "dark")

_CODE_OR_CHART: Final = re.compile(r"```python\n(.*?)```|<!-- chart ([\w-]+): (.*?) -->", re.DOTALL)


def charts(text: str, theme: str) -> dict[str, bytes]:
    """The charts of a page's text by name, as SVG."""
    from matplotlib import rc_context

    import perfmodel as pm

    found: dict[str, bytes] = {}
    names: dict[str, Any] = {}
    functions = [getattr(pm.plots, name) for name in pm.plots.__all__ if name[0].islower()]
    for function in functions:
        function.__kwdefaults__["theme"] = theme
    with rc_context({"svg.hashsalt": "perfmodel"}):  # the same picture, the same bytes
        # What follows the last chart is none of the hook's business, and may write files.
        for code, name, _ in _CODE_OR_CHART.findall(text[: text.rindex(" -->") + 4]):
            for example in DocTestParser().get_examples(code):
                exec(example.source, names)
            if name:
                file = io.BytesIO()
                names["ax"].figure.savefig(file, format="svg", metadata={"Date": None})
                found[name] = file.getvalue()
    for function in functions:
        function.__kwdefaults__["theme"] = THEMES[0]
    return found


def shown(text: str) -> str:
    """The text with pictures in place of what asks for them; each theme shows its own."""

    def pictures(found: re.Match[str]) -> str:
        _, name, alt = found.groups()
        if not name:
            return found[0]
        alt = " ".join(alt.split())
        return "\n".join(f"![{alt}](charts/{name}-{theme}.svg#only-{theme})" for theme in THEMES)

    return _CODE_OR_CHART.sub(pictures, text)


# -- what MkDocs calls -------------------------------------------------------------------------


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pictures to what is built."""
    from mkdocs.structure.files import File

    for page in PAGES:
        text = Path(config.docs_dir, page).read_text(encoding="utf-8")
        for theme in THEMES:
            for name, picture in charts(text, theme).items():
                path = f"charts/{name}-{theme}.svg"
                files.append(File.generated(config, path, content=picture))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Put the pictures where a page asks for them."""
    return shown(markdown) if page.file.src_uri in PAGES else markdown
