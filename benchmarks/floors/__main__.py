"""Print what was checked, what lies below its floor and why, and what was not checked."""

from __future__ import annotations

import os
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

from floors.checks import Check, Unchecked
from floors.kernels import kernel_checks
from floors.runs import run_checks
from perfmodel.base.units import si

Found = list[Check | Unchecked]


def everything(folder: Path) -> Found:
    """Kernels, then runs."""
    return [*kernel_checks(folder), *run_checks(folder)]


def table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table as Markdown has it."""
    head = list(head)
    rule = ["---"] * len(head)
    return "\n".join(
        "| " + " | ".join(map(str, line)) + " |" for line in chain([head, rule], lines)
    )


def families(found: Found) -> str:
    """One line a file: rows, those checked, those below, and the closest of the others."""
    by_file: dict[str, Found] = defaultdict(list)
    for one in found:
        by_file[one.file].append(one)
    lines = []
    for file, ones in by_file.items():
        checks = [one for one in ones if isinstance(one, Check)]
        strict = [one.ratio for one in checks if not one.why]
        closest = f"{min(strict):.2f}" if strict else ""
        below = sum(one.below for one in checks)
        lines.append((file, len(ones), len(checks), len(strict), below, closest))
    total = [sum(line[i] for line in lines) for i in range(1, 5)]  # type: ignore[misc]
    head = ("file", "rows", "checked", "with no excuse", "below", "closest")
    return table(head, [*lines, ("all", *total, "")])


def exceptions(found: Found) -> str:
    """Every row below its floor."""
    below = [one for one in found if isinstance(one, Check) and one.below]
    lines = [
        (
            one.row,
            one.chip,
            f"{one.ratio:.3f}",
            si(one.working_set, "B"),
            si(one.cache, "B"),
            one.why or "**none**",
        )
        for one in below
    ]
    return table(("row", "chip", "measured / floor", "working set", "cache", "why"), lines)


def chips(found: Found) -> str:
    """How close the rows without an excuse come to the floors of each chip."""
    ratios: dict[str, list[float]] = defaultdict(list)
    for one in found:
        if isinstance(one, Check) and not one.why:
            ratios[one.chip].append(one.ratio)
    lines = [(name, len(ratios[name]), f"{min(ratios[name]):.2f}") for name in sorted(ratios)]
    return table(("chip", "rows with no excuse", "closest"), lines)


def unchecked(found: Found) -> str:
    """Why rows have no floor here."""
    counts = Counter((one.reason, one.file) for one in found if isinstance(one, Unchecked))
    lines = [(reason, file, count) for (reason, file), count in sorted(counts.items())]
    return table(("reason", "file", "rows"), lines)


def main() -> int:
    """Print the tables; 1 if a row lies below its floor without an excuse."""
    folder = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("PERFMODEL_REFERENCE_DATA")
    if not folder:
        sys.exit("usage: python -m floors FOLDER (or set PERFMODEL_REFERENCE_DATA)")
    found = everything(Path(folder))
    for part in (families, exceptions, chips, unchecked):
        print(part(found), end="\n\n")
    return int(any(isinstance(one, Check) and one.below and not one.why for one in found))


if __name__ == "__main__":
    sys.exit(main())
