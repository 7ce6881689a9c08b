"""An MkDocs hook: the command line's page, from what the commands say of themselves."""

from __future__ import annotations

import re
from typing import Any, Final

import typer
from typer.core import TyperGroup

from perfmodel.interfaces.cli import app

PLACEHOLDER: Final = "<!-- commands -->"


def commands() -> str:
    """A section a command: what it does, and a table of its arguments and options."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return "\n\n".join(section(name, group.commands[name]) for name in sorted(group.commands))


def section(name: str, command: Any) -> str:
    """One command in Markdown."""
    lines = [f"### `perfmodel {name}`", "", _words(command.help)]
    rows = [row(parameter) for parameter in command.params if not parameter.hidden]
    if rows:
        lines += ["", "| argument | default | what it is |", "|---|---|---|", *rows]
    return "\n".join(lines)


def row(parameter: Any) -> str:
    """One argument or option: how it is written, what it is without it, and what it is."""
    option = parameter.param_type_name == "option"
    written = ", ".join(parameter.opts) if option else parameter.name.upper()
    default = parameter.default
    cell = (
        "required" if parameter.required else "" if default in (None, False, "") else f"`{default}`"
    )
    return f"| `{written}` | {cell} | {_words(parameter.help)} |"


def _words(text: str | None) -> str:
    """A help text on one line, its brackets and bars not taken for Markdown."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", re.sub(r"\s+", " ", text or "").strip())


def on_page_markdown(markdown: str, **_: object) -> str:
    """Put the commands where the page asks for them."""
    return markdown.replace(PLACEHOLDER, commands()) if PLACEHOLDER in markdown else markdown
