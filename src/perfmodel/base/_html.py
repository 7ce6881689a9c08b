"""Records as tables for a notebook: plain HTML, in the ink of the page it stands on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perfmodel.base._messages import shown
from perfmodel.base.units import si

if TYPE_CHECKING:
    from perfmodel.base.spec import Spec

Cells: TypeAlias = tuple[Sequence[str], Iterable[Iterable[str]]]
_ROWS: Final = 40  # of a table; a notebook is no place for more
_LONG: Final = 100  # characters of a cell


def told(value: Any, unit: str = "") -> str:
    """A value as people read it: SI prefixes and thousands, and a dash where there is none."""
    if value is None:
        return "-"
    if not unit:
        return value if isinstance(value, str) else shown(value, _LONG)
    if unit in ("1", "1/s", "USD/h"):
        digits = 4 if value % 1 else 10
        return f"{value:,.{digits}g}" + f" {unit}" * (unit != "1")
    return si(value, unit)


def fields(spec: Spec) -> Cells:
    """The fields that a repr would show: name, value, and what it means."""
    found = []
    for name, value in spec.__repr_args__():
        field = type(spec).model_fields[str(name)]
        extra = field.json_schema_extra
        unit = str(extra["unit"]) if isinstance(extra, dict) else ""
        meaning = (field.description or "").removesuffix(f" [{unit}]")
        found.append((str(name).replace("_", " "), told(value, unit), meaning))
    return (), found


def table(
    title: str, header: Sequence[str], rows: Iterable[Iterable[str]], total: int | None = None
) -> str:
    """A table with a caption; every text of it is escaped, whoever wrote it."""

    def row(cells: Iterable[str], tag: str = "td") -> str:
        told = "".join(f'<{tag} style="text-align:left">{escape(cell)}</{tag}>' for cell in cells)
        return f"<tr>{told}</tr>"

    rows = iter(rows)
    lines = [row(cells) for cells in islice(rows, _ROWS)]
    left = sum(1 for _ in rows) if total is None else total - len(lines)
    lines += [row((f"and {left:,} more",))] * (left > 0)
    head = f"<thead>{row(header, 'th')}</thead>" * bool(header)
    body = "\n".join(lines)
    caption = f'<caption style="text-align:left;white-space:nowrap">{escape(title)}</caption>'
    return f"<table>{caption}{head}<tbody>\n{body}\n</tbody></table>"
