"""Documentation run as tests: README, the pages under ``docs``, and every docstring.

A page is one story: its examples share names, and run in an empty folder of their own. A block
with a title is a file of that folder. Nothing is shared between pages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from doctest import ELLIPSIS
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer
from sybil.parsers.rest import DocTestParser

_titled = RawFencedCodeBlockLexer(re.compile(r'\w+ title="(?P<name>[\w.-]+)"$\n', re.MULTILINE))


def _files(document: Document) -> Iterable[Region]:
    """Blocks such as ```` ```toml title="mine.toml" ````: the examples after them can read them."""
    for region in _titled(document):
        region.parsed, region.evaluator = region.lexemes, _write
        yield region


def _write(example: Example) -> None:
    Path(example.parsed["name"]).write_text(example.parsed["source"], encoding="utf-8")


def _enter_folder(namespace: dict[str, Any]) -> None:
    namespace["_before"] = os.getcwd()
    namespace["_folder"] = TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_before"])
    namespace["_folder"].cleanup()


_pages = Sybil(
    name="pages",
    parsers=[PythonCodeBlockParser(doctest_optionflags=ELLIPSIS), _files],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    setup=_enter_folder,
    teardown=_leave_folder,
)
_docstrings = Sybil(
    name="docstrings",
    parsers=[DocTestParser(optionflags=ELLIPSIS)],
    pattern="src/perfmodel/*.py",
    patterns=["src/perfmodel/*/*.py", "src/perfmodel/*/*/*.py"],
)

pytest_collect_file = (_pages + _docstrings).pytest()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers, a page stays with one of them: its examples build on one another."""
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class PagesStayTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            page, example, _ = nodeid.partition("::sybil:")
            return page if example else nodeid

    return PagesStayTogether(config, log)
