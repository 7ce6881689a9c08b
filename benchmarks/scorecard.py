"""The scorecard: what the library expects beside what was measured.

``python benchmarks/scorecard.py`` scores the rows of the fixture and writes the page and its plot;
with ``--data FOLDER`` it also scores every row of the reference data, which the repository does not
hold; with ``--restate`` it first chooses the fixture's rows from there anew. ``--bands`` only
writes the bands of whole steps to catalogs/engines.toml.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

from scores.bands import bands, written  # noqa: E402
from scores.figures import score  # noqa: E402
from scores.page import blocks, filled, plot, split, whole_bands, whole_blocks  # noqa: E402
from scores.records import FAMILIES, read, rounded, write  # noqa: E402
from scores.restate import chosen, restated  # noqa: E402

FIXTURE = ROOT / "tests" / "fixtures" / "scorecard.csv"
PAGE = ROOT / "docs" / "scorecard.md"
ENGINES = ROOT / "catalogs" / "engines.toml"
PLOT = ROOT / "docs" / "scorecard.svg"
# Rows of a family in the fixture, at most.
MOST = dict.fromkeys(FAMILIES, 40) | {
    "matrix product": 120,
    "first token": 100,
    "batch": 120,
    "study": 60,
    "single stream": 120,
    "serving": 160,
}


def main() -> None:
    """Write the page, its plot, and perhaps the fixture."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--data", default=os.environ.get("PERFMODEL_REFERENCE_DATA"))
    asked.add_argument("--restate", action="store_true")
    asked.add_argument("--bands", action="store_true")
    options = asked.parse_args()
    if options.bands:
        ENGINES.write_text(
            written(ENGINES.read_text(encoding="utf-8"), bands(read(FIXTURE))), encoding="utf-8"
        )
        return
    made = {}
    if options.data:
        records, left = split(restated(Path(options.data)))
        if options.restate:
            write(FIXTURE, chosen(records, MOST))
        made = whole_blocks(score(map(rounded, records)), left)
    scores = score(read(FIXTURE))
    made |= blocks(scores) | {"bands": whole_bands(bands(read(FIXTURE)))}
    page = filled(PAGE.read_text(encoding="utf-8"), made)
    PAGE.write_text(page, encoding="utf-8")
    PLOT.write_text(plot(scores), encoding="utf-8")


if __name__ == "__main__":
    main()
