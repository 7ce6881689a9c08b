"""The command line: thin, every number comes from the library."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from perfmodel.base.errors import PerfModelError, one_line
from perfmodel.interfaces.cli.calibrate import calibrate
from perfmodel.interfaces.cli.catalog import gpus, models, show
from perfmodel.interfaces.cli.command import Command
from perfmodel.interfaces.cli.compare import compare
from perfmodel.interfaces.cli.measure import measure
from perfmodel.interfaces.cli.plan import plan
from perfmodel.interfaces.cli.predict import predict
from perfmodel.interfaces.cli.serve import serve
from perfmodel.interfaces.cli.sweep import sweep

app = typer.Typer(
    name="perfmodel",
    help="How fast an LLM will go on a chip, what limits it, and what fits.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
)

# Typer names only this child of the class that all wrong command lines raise.
_UsageError: Any = typer.BadParameter.__base__


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : sequence of str or None
        What follows the program's name; None: what it was started with [text].

    Returns
    -------
    int
        Exit code: 0, or 2 for bad input, which is one line on stderr.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names and µ, on an ASCII terminal
    try:
        app(args=None if arguments is None else list(arguments), standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except _UsageError as error:
        return _refuse(error.format_message())
    except PerfModelError as error:
        return _refuse(str(error))
    except typer.Abort:
        return _refuse("aborted")
    except BrokenPipeError:
        # The reader of the pipe has seen enough; nothing more can be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _refuse(f"cannot write: {error.strerror}")
    return 0


def _refuse(message: str) -> int:
    print("perfmodel: " + one_line(message), file=sys.stderr)
    return 2


def _without_command(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(sys.modules["perfmodel"].__version__)  # no import points up
    elif context.invoked_subcommand is None:
        print(context.get_help())


app.callback()(_without_command)
for command in (predict, compare, measure, calibrate, serve, sweep, plan, gpus, models, show):
    app.command(cls=Command)(command)
