"""``perfmodel`` and ``python -m perfmodel``: the command line, if its extra is installed."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; say what is missing where its libraries are."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f'perfmodel: the command line needs {error.name}: pip install "perfmodel[cli]"')
    from perfmodel.interfaces.cli import run

    sys.exit(run())


if __name__ == "__main__":
    main()
