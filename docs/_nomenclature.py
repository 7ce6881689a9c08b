"""An MkDocs hook: the tables of the nomenclature page, from the metadata of the fields."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import perfmodel
from perfmodel.base.spec import Spec

PLACEHOLDER: Final = "<!-- nomenclature -->"

# In the order of the page. A kind of Spec that is not named here comes last, under its own name.
OBJECTS: Final = {
    "ModelShape": "The model",
    "Attention": "An attention layer",
    "FeedForward": "A feed-forward layer",
    "Embedding": "The embedding",
    "Totals": "A coarse model",
    "Group": "A group of a step",
    "GpuSpec": "The chip",
    "PeakFlops": "The peaks of a chip",
    "Price": "A price",
    "Operation": "An operation",
    "Efficiency": "The efficiency",
    "DeviceMemory": "What memory holds",
    "MemoryPolicy": "How an engine uses memory",
    "KvPool": "A pool of blocks",
    "Generation": "A generation",
    "Workload": "A workload",
    "Scheduler": "A scheduler",
    "Disaggregated": "Two pools",
    "Speculation": "Drafts",
    "ServerForm": "A server",
    "Serving": "A steady state",
    "Slo": "Service targets",
    "Plan": "A plan",
    "Plans": "Plans",
}

# LaTeX as it occurs in the symbols, as text.
_TEXT: Final = {r"\beta": "β"}


class Entry(NamedTuple):
    """One row of a table."""

    owner: str
    symbol: str
    meaning: str
    unit: str
    field: str


def entries() -> list[Entry]:
    """Every field that was declared by ``quantity()``, in the order of the page.

    What two objects both have, in the same words, is listed with the first.
    """
    for module in pkgutil.walk_packages(perfmodel.__path__, "perfmodel."):
        # Ways in and out hold no quantities of their own, and may need what is not installed.
        if not module.name.startswith(("perfmodel.interfaces", "perfmodel.__main__")):
            importlib.import_module(module.name)
    places = list(OBJECTS)

    def place(cls: type[Spec]) -> tuple[int, str]:
        known = cls.__name__ in OBJECTS
        return places.index(cls.__name__) if known else len(places), cls.__name__

    found: dict[tuple[str, str, str], Entry] = {}
    for cls in sorted(_subclasses(Spec), key=place):
        for entry in _of(cls):
            found.setdefault((entry.symbol, entry.meaning, entry.unit), entry)
    return list(found.values())


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
            yield Entry(cls.__name__, str(extra["symbol"]), meaning, unit, name)


def tables() -> str:
    """One heading and one Markdown table an object."""
    lines: list[str] = []
    owner = None
    for entry in entries():
        if entry.owner != owner:
            owner = entry.owner
            lines += ["", f"## {OBJECTS.get(owner, owner)}", ""]
            lines += [f"| symbol | meaning | unit | field of `{owner}` |", "|---|---|---|---|"]
        lines.append(
            f"| {as_html(entry.symbol)} | {entry.meaning} | {entry.unit} | `{entry.field}` |"
        )
    return "\n".join(lines)


def as_html(symbol: str) -> str:
    """A symbol such as ``Q_{kv}`` with its index set low."""
    base, _, index = symbol.partition("_")
    text = f"<em>{_TEXT.get(base, base)}</em>"
    return f"{text}<sub>{index.strip('{}')}</sub>" if index else text


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where the page asks for them."""
    return markdown.replace(PLACEHOLDER, tables()) if PLACEHOLDER in markdown else markdown
