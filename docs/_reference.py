"""A griffe extension: fields as the reference shows them, with their meaning and their default.

A field's meaning and unit stand in its declaration, as ``quantity(symbol, unit, meaning)`` or
``Field(description=...)``. Here they become its docstring, and the declaration vanishes.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe


class Fields(griffe.Extension):
    """Fields get docstrings; types are shown where fields have them, and not in signatures."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Describe a field by what it is declared with."""
        if attr.parent is None or not attr.parent.is_class or "property" in attr.labels:
            return
        meaning, default = _declared(attr.value)
        if attr.docstring is not None:  # written below the field
            meaning = attr.docstring.value.strip()
        attr.value = None
        text = _sentence(meaning, default)
        if text:
            attr.docstring = griffe.Docstring(text, parent=attr)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Leave types to the docstring, which says them once, in words."""
        for parameter in func.parameters:
            parameter.annotation = None
        func.returns = None


def _declared(value: Any) -> tuple[str, str | None]:
    """The meaning and the default that the right-hand side of a field states."""
    if value is None:
        return "", None
    name = str(value.function) if isinstance(value, griffe.ExprCall) else ""
    if name not in ("quantity", "Field"):
        return "", str(value)
    named = {
        part.name: str(part.value)
        for part in value.arguments
        if isinstance(part, griffe.ExprKeyword)
    }
    plain = [str(part) for part in value.arguments if not isinstance(part, griffe.ExprKeyword)]
    if name == "Field":
        meaning = _text(named["description"]) if "description" in named else ""
    else:
        _, unit, meaning = (_text(part) for part in plain)
        meaning = f"{meaning} [{unit}]"
    return meaning, named.get("default")


def _text(literal: str) -> str:
    return str(ast.literal_eval(literal))


def _sentence(meaning: str, default: str | None) -> str:
    meaning = meaning.removesuffix(".")
    if default is None:
        return f"{meaning}." if meaning else ""
    return f"{meaning}; default `{default}`." if meaning else f"Default `{default}`."
