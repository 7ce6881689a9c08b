"""The page beside other tools: its tables say what the code below them prints, row by row."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parent.parent / "docs" / "comparison.md").read_text(encoding="utf-8")


def numbers(text: str) -> set[float]:
    return {float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def test_each_row_repeats_what_its_code_prints():
    printed: dict[str, set[float]] = {}
    for row, rest in re.findall(r"^(\d+): (.+)$", PAGE, re.MULTILINE):
        printed.setdefault(row, set()).update(numbers(rest))
    rows = re.findall(r"^\| \*\*(\d+)\*\* (.+) \|$", PAGE, re.MULTILINE)
    assert [int(row) for row, _ in rows] == list(range(1, len(rows) + 1))
    assert len(rows) >= 12
    for row, cells in rows:
        ours = cells.split(" | ")[3]
        assert numbers(ours), row
        assert numbers(ours) <= printed[row], (row, ours)


def test_each_row_says_why_and_names_its_source():
    for row, cells in re.findall(r"^\| \*\*(\d+)\*\* (.+) \|$", PAGE, re.MULTILINE):
        assert f"\n- **{row}.** " in PAGE, row
        source = cells.split(" | ")[0]
        # A thread or a file of a repository, or a figure that another page of ours has.
        assert "](https://github.com/" in source or row in ("5", "6", "11", "28", "29", "31"), row
