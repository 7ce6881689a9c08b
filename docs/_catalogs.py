"""An MkDocs hook: the tables of models and of formats, from the catalogs and their origins."""

from __future__ import annotations

from typing import Final

import perfmodel as pm
from perfmodel.base.formats import FORMATS
from perfmodel.base.spec import Source
from perfmodel.base.units import si

MODELS: Final = "<!-- table of models -->"
FORMATS_TABLE: Final = "<!-- table of formats -->"
SOURCES: Final = "<!-- sources of models -->"

_ENOUGH: Final = 2**20  # numbers in a row: scales that come once a row weigh next to nothing


def models() -> str:
    """A row a model: its size, what a token of context costs, and where its shape is from."""
    lines = [
        "| `pm.model(...)` | parameters [10⁹] | active [10⁹] | KV a token "
        "| weights, as published | from |",
        "|---|---|---|---|---|---|",
    ]
    for key in pm.models():
        model = pm.model(key)
        precision = pm.Precision.parse(model.precision or "bf16")
        cells = (
            f"`{key}`",
            _billions(model.params),
            _billions(model.active_params),
            si(model.kv_bytes_per_token(precision, context=1), "B"),
            f"{precision.name}, {si(model.weight_bytes(precision), 'B')}",
            ", ".join(f"[{source.key}](#{source.key})" for source in _sources(model)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def sources() -> str:
    """What the shapes of models refer to, a line each."""
    found = {source.key: source for key in pm.models() for source in _sources(pm.model(key))}
    return "\n".join(f"- {_listed(found[key])}" for key in sorted(found))


def formats() -> str:
    """A row a format: bits of a number, of a scale, numbers to a scale, and what that makes."""
    lines = [
        "| format | bits | bits of a scale | numbers to a scale | bits a number, scales included |",
        "|---|---|---|---|---|",
    ]
    for name, one in FORMATS.items():
        shared = one.block or ("a row" if one.scale_bits else "")
        scale = one.scale_bits or ""
        total = 8 * one.nbytes(_ENOUGH) / _ENOUGH
        lines.append(f"| `{name}` | {one.bits:g} | {scale} | {shared} | {total:.7g} |")
    return "\n".join(lines)


def _billions(count: float) -> str:
    """Three digits, and no exponent for those of a thousand billions."""
    return f"{float(f'{count / 1e9:.3g}'):,g}"


def _sources(model: pm.ModelShape) -> list[Source]:
    return list({o.source.key: o.source for o in model.origins if o.source}.values())


def _listed(source: Source) -> str:
    title = f"[{source.title}]({source.url})" if source.url else source.title
    parts = (title, source.publisher, source.date)
    return f'<span id="{source.key}">`{source.key}`</span>: {", ".join(filter(None, parts))}'


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the tables where a page asks for them."""
    for wanted, table in ((MODELS, models), (FORMATS_TABLE, formats), (SOURCES, sources)):
        if wanted in markdown:
            markdown = markdown.replace(wanted, table())
    return markdown
