"""A command as its users meet it: each option once, and help in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from perfmodel.base._messages import shown
from perfmodel.base.errors import InvalidValueError


class Command(TyperCommand):
    """A command that refuses an option given twice, and lists options by what they are about."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read arguments; of two values for one option, Typer would drop the first in silence.

        Raises
        ------
        InvalidValueError
            If an option that takes one value is given more.
        """
        takes = {name: one for one in self.params for name in one.opts if name.startswith("--")}
        seen: dict[str, str] = {}
        words = iter(args)
        for word in words:
            if word == "--":
                break
            name, joined, value = word.partition("=")
            option: Any = takes.get(name)
            if option is None or option.is_flag:
                continue
            value = value if joined else next(words, "")
            if name in seen and not option.multiple:
                both = f"{shown(seen[name])} and {shown(value)}"
                raise InvalidValueError(f"{name}: expected once, got {both}")
            seen[name] = value
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """List the options of each group under its name."""
        groups: dict[str, list[Any]] = {}
        for one in self.get_params(ctx):
            about = "Arguments" if one.param_type_name == "argument" else "Report"
            about = getattr(one, "rich_help_panel", None) or about
            if record := one.get_help_record(ctx):
                groups.setdefault(about, []).append(record)
        for about, records in groups.items():
            with formatter.section(about):
                formatter.write_dl(records)
