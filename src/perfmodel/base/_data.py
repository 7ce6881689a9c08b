"""Reads files: those shipped with the package, and those of users, within bounds."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, NoReturn

from perfmodel.base.errors import ConfigError, shown

MAX_FILE_BYTES: Final = 4 * 2**20


@cache
def catalogs() -> Path:
    """The folder of shipped data: inside the installed package, or beside the sources."""
    installed = Path(str(files("perfmodel"))) / "catalogs"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "catalogs"


def read_text(path: Path) -> str:
    """A file's text, if it is a regular file of sensible size.

    Raises
    ------
    ConfigError
        If it is absent, not a regular file, too large, or not UTF-8.
    """
    try:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        with path.open("rb") as file:
            # Bounded by what is read, not by what the file system says the size is.
            raw = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{shown(str(path))}: cannot be read ({error})") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: expected at most {MAX_FILE_BYTES} bytes, got more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: expected UTF-8 text, got something else") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dict.

    Raises
    ------
    ConfigError
        If it cannot be read or is not TOML.
    """
    try:
        return tomllib.loads(read_text(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: expected TOML ({_reason(error)})") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: expected TOML ({_reason(error)})") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file as a dict; NaN and infinities are not JSON.

    Raises
    ------
    ConfigError
        If it cannot be read, is not JSON, or is not an object.
    """
    text = read_text(path)
    try:
        found = json.loads(text, parse_constant=_not_json)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: expected JSON ({_reason(error)})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: expected a JSON object, got {shown(found)}")
    return found


def _not_json(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _reason(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
