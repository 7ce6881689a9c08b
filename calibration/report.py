"""What was fitted, as catalog files and as tables to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Final

from perfmodel.sources._fits import COLUMNS, SAME, TESTED

if TYPE_CHECKING:
    from calibration.run import Fit
    from perfmodel.answers.calibrating.fitting import Tested

DATE: Final = "2026-11-30"
ORIGIN: Final = f"""\
[origin]
kind = "measured"
source = "aiconfigurator-core"
place = "systems/data/*/{{gemm,attention,mla,moe,comm}}/*.parquet, version 0.12.0"
date = "{DATE}"
note = "Fitted by calibration/ to half of the shapes; tested on the others, or on chips left out."
"""
ENGINES: Final = ("pooled", "trtllm", "vllm", "sglang")


def write_catalog(
    folder: Path, fits: Iterable[Fit], families: Mapping[str, tuple[str, ...]]
) -> None:
    """One file a chip, a family, and for a chip of which nothing is known."""
    folder.mkdir(parents=True, exist_ok=True)
    levels: dict[str, list[Fit]] = {}
    for fit in fits:
        levels.setdefault(fit.level, []).append(fit)
    of = {chip: family for family, chips in families.items() for chip in chips}
    for level, found in levels.items():
        lines = [f'key = "{level}"']
        if level in of:
            lines.append(f'family = "{of[level]}"')
        if level in families:
            lines.append("chips = [" + ", ".join(f'"{chip}"' for chip in families[level]) + "]")
        lines += ["", ORIGIN.rstrip()]
        for kind in dict.fromkeys(fit.kind for fit in found):
            lines += ["", *_kind([fit for fit in found if fit.kind == kind])]
        (folder / f"{level}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _kind(fits: Sequence[Fit]) -> Iterator[str]:
    """The table of one kind of kernel: what is not fitted in one of its rows is 0 there."""
    columns = sorted({name for fit in fits for name in fit.form})
    values = {name: {number(fit.form.get(name, 0.0)) for fit in fits} for name in columns}
    same = [f"{name} = {min(found)}" for name, found in values.items() if len(found) == 1]
    yield f"[{fits[0].kind}]"
    if len(fits) > 1 and same:
        yield f"{SAME} = {{{', '.join(same)}}}"
        columns = [name for name in columns if len(values[name]) > 1]
    yield row(COLUMNS, [f'"{name}"' for name in columns])
    for fit in fits:
        key = f"{fit.format}.{fit.engine}" if fit.format else fit.engine
        yield row(key, [number(fit.form.get(name, 0.0)) for name in columns] + shown(fit.tested))


def row(key: str, values: Iterable[str]) -> str:
    """One line of a table."""
    return f"{key} = [{', '.join(values)}]"


def shown(tested: Tested) -> list[str]:
    """What a catalog says of a test: rows, two errors, the band."""
    return [str(tested.rows), *(number(getattr(tested, name), 3) for name in TESTED[1:])]


def number(value: float, digits: int = 4) -> str:
    """A TOML float of few digits."""
    text = f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return text if "." in text or "e" in text else text + ".0"


# -- tables ----------------------------------------------------------------------------------------


def write_results(
    path: Path, fits: Iterable[Fit], excluded: Mapping[str, int], family: Mapping[str, str]
) -> None:
    """Errors of every fit, rows left out and why."""
    rows = list(fits)
    lines = [*_INTRODUCTION.splitlines()]
    for kind, form in dict.fromkeys((fit.kind, fit.format) for fit in rows):
        mine = [fit for fit in rows if (fit.kind, fit.format) == (kind, form)]
        chips = [fit for fit in mine if family.get(fit.level, "intel") != "intel"]
        pooled = [fit for fit in mine if fit.engine == "pooled"]
        cells = (
            _cell(fit.tested for fit in chips if fit.engine != "pooled"),
            _cell(fit.tested for fit in chips if fit.engine == "pooled"),
            _cell(fit.among for fit in chips if fit.engine != "pooled"),
            _cell(fit.among for fit in chips if fit.engine == "pooled"),
            _cell(fit.elsewhere for fit in chips if fit.engine == "pooled"),
            _cell(fit.tested for fit in pooled if fit.basis == "other chips"),
            _cell(fit.tested for fit in pooled if fit.level == "unknown"),
        )
        lines.append(f"| {kind} | {form} | " + " | ".join(cells) + " |")
    lines += ["", "## Every fit", "", _HEAD, "|---" * _HEAD.count(" | ") + "|---|"]
    lines += [_line(fit) for fit in rows]
    lines += ["", "## Rows left out", "", "| reason | rows |", "|---|---|"]
    lines += [f"| {reason} | {count:,} |" for reason, count in sorted(excluded.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


_HEAD: Final = (
    "| level | kind | format | engine | rows | mean | median | 90th | bias | band | parameters |"
)


_INTRODUCTION: Final = f"""\
# What the parameters miss

Written by `python -m calibration.run`, {DATE}. Errors are means of |predicted / measured - 1| in
%, on rows that were not fitted to. The band is the 10th and 90th percentile of measured over
predicted.

## By kind

Means over NVIDIA's chips, and the median chip in brackets. "Core" rows are those that the targets
speak of: matrices of at least 1024 x 1024; KV caches past twice the last cache. "Chip left out" is
a fit of all other chips (core rows); "family" one of the others of its family; "unknown" one of
other families.

| kind | format | one engine | pooled | core, one engine | core, pooled | chip left out | family | \
unknown |
|---|---|---|---|---|---|---|---|---|"""


def _cell(results: Iterable[Tested | None]) -> str:
    errors = [100 * result.mean for result in results if result]
    return f"{mean(errors):.1f} ({median(errors):.1f})" if errors else ""


def _line(fit: Fit) -> str:
    t = fit.tested
    errors = " | ".join(f"{100 * x:.1f}" for x in (t.mean, t.median, t.p90, t.bias))
    form = ", ".join(f"{name} {number(value, 3)}" for name, value in fit.form.items())
    named = f"{fit.level} | {fit.kind} | {fit.format} | {fit.engine}"
    return f"| {named} | {t.rows} | {errors} | {t.low:.2f} to {t.high:.2f} | {form} |"
