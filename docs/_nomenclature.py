"""An MkDocs hook: the nomenclature page's table, from the metadata of the fields themselves."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, NamedTuple

import perfmodel
from perfmodel.base.spec import Spec

PLACEHOLDER = "<!-- nomenclature -->"

# LaTeX as it occurs in the symbols, as text.
_TEXT = {r"\beta": "β"}


class Entry(NamedTuple):
    """One row of the table."""

    symbol: str
    meaning: str
    unit: str
    field: str


def entries() -> list[Entry]:
    """Every field that was declared by ``quantity()``, of every kind of ``Spec``, in order."""
    for module in pkgutil.walk_packages(perfmodel.__path__, "perfmodel."):
        # Ways in and out hold no quantities of their own, and may need what is not installed.
        if not module.name.startswith(("perfmodel.interfaces", "perfmodel.__main__")):
            importlib.import_module(module.name)
    classes = sorted(_subclasses(Spec), key=lambda cls: (cls.__module__, cls.__name__))
    return [entry for cls in classes for entry in _of(cls)]


def _subclasses(cls: type[Spec]) -> set[type[Spec]]:
    direct = set(cls.__subclasses__())
    return direct.union(*(_subclasses(child) for child in direct))


def _of(cls: type[Spec]) -> Iterator[Entry]:
    for name, field in cls.model_fields.items():
        extra = field.json_schema_extra
        # An inherited field is listed with the class that declares it.
        if isinstance(extra, dict) and "symbol" in extra and name in cls.__annotations__:
            unit = str(extra["unit"])
            meaning = (field.description or "").removesuffix(f" [{unit}]")
            yield Entry(str(extra["symbol"]), meaning, unit, f"{cls.__name__}.{name}")


def table() -> str:
    """The entries as a Markdown table."""
    lines = ["| symbol | meaning | unit | field |", "|---|---|---|---|"]
    lines += [
        f"| {as_html(entry.symbol)} | {entry.meaning} | {entry.unit} | `{entry.field}` |"
        for entry in entries()
    ]
    return "\n".join(lines)


def as_html(symbol: str) -> str:
    """A symbol such as ``Q_{kv}`` with its index set low."""
    base, _, index = symbol.partition("_")
    text = f"<em>{_TEXT.get(base, base)}</em>"
    return f"{text}<sub>{index.strip('{}')}</sub>" if index else text


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table where the page asks for it."""
    return markdown.replace(PLACEHOLDER, table()) if PLACEHOLDER in markdown else markdown
