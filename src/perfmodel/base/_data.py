"""Reads files: those shipped with the package, and those of users, within bounds."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from perfmodel.base._messages import plain, shown
from perfmodel.base.errors import ConfigError

MAX_FILE_BYTES: Final = 4 * 2**20
MAX_TOML_BYTES: Final = 64 * 2**10
MAX_TOML_DOTS: Final = 100  # in one line: dotted keys cost their square in time and memory


@cache
def catalogs() -> Path:
    """The folder of shipped data: inside the installed package, or beside the sources."""
    installed = Path(__file__).parents[1] / "catalogs"
    return installed if installed.is_dir() else Path(__file__).parents[3] / "catalogs"


def printable(path: str | Path) -> str:
    """A path for a message: as it is, or shortened and escaped to fit one line."""
    return plain(str(path), 160)


def require_file(path: Path, most: int) -> None:
    """Refuse what is no regular file, and say what it is, or what is larger than so many bytes.

    Raises
    ------
    ConfigError
        If it is absent, a folder, a device, or too large.
    """
    try:
        if not path.is_file():
            there = "a folder, not a file" if path.is_dir() else "not a regular file"
            raise ConfigError(f"{printable(path)}: {there if path.exists() else 'no such file'}")
        large = path.stat().st_size > most
    except (OSError, ValueError) as error:  # no right to look, too long for a path, or a NUL in it
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{printable(path)}: cannot be read ({reason(error)})") from None
    if large:
        raise ConfigError(f"{printable(path)}: expected at most {most} bytes, got more")


def read_text(path: Path) -> str:
    """A file's text, if it is a regular file of sensible size.

    Raises
    ------
    ConfigError
        If it is absent, not a regular file, too large, or not UTF-8.
    """
    require_file(path, MAX_FILE_BYTES)
    try:
        with path.open("rb") as file:
            # Bounded by what is read, not by what the file system says the size is.
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{printable(path)}: cannot be read ({reason(error)})") from None
    if len(raw) > MAX_FILE_BYTES:
        raise ConfigError(f"{printable(path)}: expected at most {MAX_FILE_BYTES} bytes, got more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{printable(path)}: expected UTF-8 text, got something else") from None


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as a dict.

    Raises
    ------
    ConfigError
        If it cannot be read or is not TOML.
    """
    import tomllib

    text = read_text(path)
    dots = max((line.count(".") for line in text.splitlines()), default=0)
    if len(text) > MAX_TOML_BYTES or dots > MAX_TOML_DOTS:
        raise ConfigError(
            f"{printable(path)}: expected at most {MAX_TOML_BYTES} bytes and {MAX_TOML_DOTS} dots "
            "in a line, got more"
        )
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{printable(path)}: expected TOML ({reason(error)})") from None


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file as a dict, with the NaN and Infinity that Python writes; readers refuse them.

    Raises
    ------
    ConfigError
        If it cannot be read, is not JSON, or is not an object.
    """
    import json

    text = read_text(path)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{printable(path)}: expected JSON ({reason(error)})") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{printable(path)}: expected a JSON object, got {shown(found)}")
    return found


def reason(error: BaseException) -> str:
    """Why, in a few words, without the path that an OSError repeats."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return getattr(error, "strerror", None) or str(error)
