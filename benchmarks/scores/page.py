"""The tables and the plot of the scorecard, and the page that they stand in."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator

from scores.bands import Tested
from scores.figures import Figures, Score, figures, left_score
from scores.records import FAMILIES, HOSTLESS, KERNELS, STEPS, Left, Record

# What the project set out to reach.
TARGETS = {
    "matrix product": "16 % mean, formats and engines pooled",
    "decode attention": "6 % mean where the cache cannot help",
    "prefill attention": "22 % mean",
    "experts": "22 % mean",
    "collective": "13 % mean, all-reduce on NVLink",
    "batch": "7 % median, 15 % for nine in ten",
    "single stream": "7 % median, 25 % for nine in ten",
    "serving": "8 % median",
    HOSTLESS: "11 % median",
}
WORST = 20

# Known causes, by what a record is and which way it errs; the first that holds is told.
_BEFORE_HOPPER = ("a100-sxm-80gb", "l40s")
_Cause = tuple[Callable[[Score], bool], str]
_CAUSES: tuple[_Cause, ...] = (
    (
        lambda s: s.record.model == "gpt-oss-120b" and s.error > 0,
        "routing is taken to be even: tokens that agree read fewer experts",
    ),
    (
        lambda s: (
            s.record.is_kernel
            and s.record.engine == "trtllm"
            and s.record.precision.startswith("nvfp4")
        ),
        "fp4 in TensorRT-LLM's tables: timed without its tuner; a server tunes",
    ),
    (
        lambda s: s.record.family == "latent attention" and s.record.gpu in _BEFORE_HOPPER,
        "kernels for latent attention on chips that they were not made for: far from any roof",
    ),
    (
        lambda s: s.expected.known == "unknown",
        "no kernel of this chip or of its family was measured",
    ),
    (
        lambda s: s.record.gpu.startswith("mi") and s.error < 0,
        "launches and links of AMD's chips are known from one model's whole steps",
    ),
    (
        lambda s: s.record.family in ("batch", "first token") and s.record.tensor > 1,
        "several devices with an engine of 2023 or 2024: slower than today's kernels",
    ),
    (
        lambda s: s.record.family == "study",
        "an engine of 2024 of no stated version, launched step by step",
    ),
    (
        lambda s: s.record.family == "first token",
        "early engines reach less of the fp8 peak than the kernels of today's tables",
    ),
    (
        lambda s: s.record.family == "single stream" and s.error < 0,
        "kernels for one row read slower than the roof: a limit of each multiprocessor",
    ),
)


def cause(one: Score) -> str:
    """Why a score is as it is, where that is known."""
    return next((why for holds, why in _CAUSES if holds(one)), "not explained")


def table(head: Iterable[str], lines: Iterable[Iterable[object]]) -> str:
    """A table as Markdown has it."""
    names: list[object] = list(head)
    found: list[Iterable[object]] = [names, ["---"] * len(names), *lines]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in found)


def percent(share: float) -> str:
    """A share as a whole percentage, with the sign of a bias."""
    return f"{100 * share:.0f} %"


def _columns(found: Figures) -> tuple[object, ...]:
    signed = f"{100 * found.bias:+.0f} %".replace("-0 %", "0 %").replace("+0 %", "0 %")
    shares = map(percent, (found.median, found.mean, found.ninetieth))
    return (found.rows, *shares, signed, percent(found.covered))


_HEAD = ("rows", "median", "mean", "nine in ten", "bias", "in band")


def _grouped(scores: list[Score], key: Callable[[Score], str]) -> dict[str, list[Score]]:
    groups: dict[str, list[Score]] = defaultdict(list)
    for one in scores:
        groups[key(one)].append(one)
    return groups


def _steps(scores: list[Score]) -> list[Score]:
    """Whole steps, each once."""
    return [one for one in scores if one.record.family in STEPS]


def families(scores: list[Score]) -> str:
    """One line a family, with the target."""
    groups = _grouped(scores, lambda one: one.record.family)
    lines = [
        (family, *_columns(figures(groups[family])), TARGETS.get(family, ""))
        for family in FAMILIES
        if family in groups
    ]
    return table(("family", *_HEAD, "target"), lines)


def knowledge(scores: list[Score]) -> str:
    """By what is known of the chip."""
    groups = _grouped(
        _steps(scores),
        lambda one: f"{one.record.family} | {one.expected.known}",
    )
    return table(("family", "known of", *_HEAD), _lines(groups))


def engines(scores: list[Score]) -> str:
    """By engine and chip."""
    groups = _grouped(
        _steps(scores), lambda one: f"{one.record.family} | {one.record.engine} | {one.record.gpu}"
    )
    return table(("family", "engine", "chip", *_HEAD), _lines(groups))


def devices(scores: list[Score]) -> str:
    """By how many devices share the matrices, on chips whose own kernels were measured."""
    steps = [
        one
        for one in scores
        if one.record.family in ("batch", "serving") and one.expected.known == "chip"
    ]
    groups = _grouped(steps, lambda one: f"{one.record.family} | {one.record.tensor}")
    return table(("family", "devices", *_HEAD), _lines(groups))


def models(scores: list[Score]) -> str:
    """By model and storage, of batches and serving."""
    steps = [one for one in scores if one.record.family in ("batch", "serving")]
    groups = _grouped(
        steps, lambda one: f"{one.record.family} | {one.record.model} | {one.record.precision}"
    )
    return table(("family", "model", "precision", *_HEAD), _lines(groups))


def _lines(groups: dict[str, list[Score]]) -> Iterator[tuple[object, ...]]:
    order = {family: place for place, family in enumerate(FAMILIES)}
    for key in sorted(groups, key=lambda key: (order[key.partition(" | ")[0]], key)):
        yield (key, *_columns(figures(groups[key])))


def spread(scores: list[Score]) -> str:
    """How many rows lie within how much."""
    steps = (0.05, 0.1, 0.2, 0.3, 0.5)
    lines = []
    for name, members in (("lone kernels", KERNELS), ("whole steps", STEPS)):
        errors = [abs(one.error) for one in scores if one.record.family in members]
        if errors:
            within = (percent(sum(e <= step for e in errors) / len(errors)) for step in steps)
            lines.append((name, len(errors), *within))
    return table(("within", "rows", *(percent(step) for step in steps)), lines)


def worst(scores: list[Score]) -> str:
    """The rows that are furthest off, on a scale where twice is as far as half, and why."""
    once = [one for one in scores if one.record.family != HOSTLESS]
    far = sorted(once, key=lambda one: -abs(math.log1p(one.error)))[:WORST]
    lines = [
        (
            one.record.family,
            one.record.gpu,
            one.record.engine,
            one.record.model,
            f"{one.record.tensor} / {one.record.batch} / {one.record.prompt} / {one.record.output}",
            f"{1 + one.error:.2f}",
            cause(one),
        )
        for one in far
    ]
    sizes = "devices / batch / prompt / output"
    head = ("family", "chip", "engine", "model or sizes", sizes, "expected / measured", "why")
    return table(head, lines)


def causes(scores: list[Score]) -> str:
    """Of whole steps more than a quarter off, how many each cause explains."""
    far = [one for one in _steps(scores) if abs(one.error) > 0.25]
    counts = Counter(cause(one) for one in far)
    lines = sorted(counts.items(), key=lambda line: (-line[1], line[0]))
    return table(("cause", "rows"), lines)


def counted(scores: list[Score]) -> str:
    """How many chips, models and engines are behind it."""
    records = [one.record for one in scores if one.record.family != HOSTLESS]
    whole = [one for one in records if not one.is_kernel]
    return table(
        ("rows", "chips", "models", "engines"),
        [
            (
                len(records),
                len({one.gpu for one in records}),
                len({one.model for one in whole}),
                len({one.engine for one in records if one.engine}),
            )
        ],
    )


def left_out(found: list[Left]) -> str:
    """Rows that are not scored and why; where one could be, its median error."""
    groups: dict[tuple[str, str], list[Left]] = defaultdict(list)
    for one in found:
        groups[one.family, one.reason].append(one)
    lines: list[tuple[object, ...]] = []
    for (family, reason), ones in sorted(groups.items()):
        known = [each for one in ones if (each := left_score(one))]
        error = percent(figures(known).median) if known else ""
        lines.append((family, reason, len(ones), error))
    lines.append(("all", "", len(found), ""))
    return table(("table", "why", "rows", "their median error"), lines)


def whole_bands(found: Iterable[Tested]) -> str:
    """Bands of whole steps beside those of their kernels, and what such bands hold."""
    lines = [
        (one.whose, one.phase, f"{one.band.low:.2f} to {one.band.high:.2f}", one.rows, held)
        for one in found
        for held in [percent(one.held)]
    ]
    return table(("of", "steps", "measured over expected", "rows", "held when left out"), lines)


def blocks(scores: list[Score]) -> dict[str, str]:
    """The tables of the fixture's rows, by the name of their place in the page."""
    made = (counted, families, spread, knowledge, devices, engines, models, worst, causes)
    return {one.__name__: one(scores) for one in made}


def whole_blocks(scores: list[Score], found: list[Left]) -> dict[str, str]:
    """The tables of all rows of the reference data."""
    return {
        "all families": families(scores),
        "all causes": causes(scores),
        "left out": left_out(found),
    }


def filled(page: str, made: dict[str, str]) -> str:
    """A page with the tables in their places."""
    for name, block in made.items():
        place = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not place.search(page):
            raise ValueError(f"the page has no place for {name!r}")
        page = place.sub(lambda match, block=block: f"{match[1]}\n{block}\n\n{match[2]}", page)  # type: ignore[misc]
    return page


# -- the plot --------------------------------------------------------------------------------------

_COLOURS = dict(
    zip(
        STEPS,
        ("#7a7a7a", "#1b6ca8", "#c8a13a", "#3a8f5c", "#b3473f"),
        strict=True,
    )
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 720, 360, 56, 40
_FIRST, _LAST = -4, 4  # decades of seconds
_LOW, _HIGH = 0.25, 4.0  # of expected over measured; what lies beyond is drawn at the edge


def plot(scores: list[Score]) -> str:
    """Expected over measured along the measured time, both on logarithmic scales, as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="11" fill="#555">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
    ]
    for ratio in (0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 4.0):
        y, shade = _up(ratio), "#333" if ratio == 1 else "#ddd"
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - 8}" stroke="{shade}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{ratio:g}</text>')
    for decade in range(_FIRST, _LAST, 2):
        x = _along(10.0**decade)
        label = f"{10.0**decade:g} s"
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 22}" text-anchor="middle">{label}</text>')
    for place, family in enumerate(STEPS):
        x = _LEFT + 120 * place
        parts.append(f'<circle cx="{x}" cy="{_HEIGHT - 8}" r="4" fill="{_COLOURS[family]}"/>')
        parts.append(f'<text x="{x + 8}" y="{_HEIGHT - 4}">{family}</text>')
    for one in _steps(scores):
        x, y = _along(one.record.measured), _up(1 + one.error)
        fill = _COLOURS[one.record.family]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{fill}" fill-opacity=".6"/>')
    return "\n".join([*parts, "</svg>", ""])


def _along(seconds: float) -> float:
    share = (math.log10(seconds) - _FIRST) / (_LAST - _FIRST)
    return _LEFT + share * (_WIDTH - _LEFT - 8)


def _up(ratio: float) -> float:
    inside = min(max(ratio, _LOW), _HIGH)
    share = math.log(inside / _LOW) / math.log(_HIGH / _LOW)
    return 10 + (1 - share) * (_HEIGHT - _BOTTOM - 20)


def split(found: Iterable[Record | Left]) -> tuple[list[Record], list[Left]]:
    """Records, and rows that are left out."""
    records: list[Record] = []
    left: list[Left] = []
    for one in found:
        if isinstance(one, Left):
            left.append(one)
        else:
            records.append(one)
    return records, left
