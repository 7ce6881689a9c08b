"""An MkDocs hook: the pages of the chips, one a vendor, from the catalog and its origins."""

from __future__ import annotations

import re
from typing import Any, Final

import perfmodel as pm
from perfmodel.base.spec import Origin, Source
from perfmodel.base.units import si

PLACEHOLDER: Final = "<!-- chips -->"

# In the order of the pages; others follow by name.
VENDORS: Final = ("NVIDIA", "AMD", "Intel", "Google", "AWS", "Apple", "Huawei")

FIGURES: Final = {
    "memory_bandwidth": "memory bandwidth",
    "memory_capacity": "memory, as marketed",
    "visible_capacity": "memory, as a program sees it",
    "l2_cache": "level-2 cache",
    "last_level_cache": "last-level cache",
    "boost_clock": "boost clock",
    "matrix_clock": "clock of the matrix peaks",
    "parts": "devices in the package",
    "link.bandwidth": "links, one direction",
    "link.domain": "devices that the links join",
    "host_link.bandwidth": "link to the host, one direction",
}


def vendors() -> dict[str, dict[str, pm.GpuSpec]]:
    """The chips by key, by vendor, in the order of the pages."""
    chips: dict[str, dict[str, pm.GpuSpec]] = {vendor: {} for vendor in VENDORS}
    for key in pm.gpus():
        gpu = pm.gpu(key)
        chips.setdefault(gpu.vendor or gpu.name.split()[0], {})[key] = gpu
    return {vendor: found for vendor, found in chips.items() if found}


def page(vendor: str, chips: dict[str, pm.GpuSpec]) -> str:
    """The page of one vendor: a table a chip, newest first, and what they refer to."""
    newest = sorted(chips.items(), key=lambda item: item[1].released, reverse=True)
    lines = [
        f"# {vendor}",
        "",
        "Dense peaks of one package, links in one direction, and where each figure comes from. "
        "[Dense, sparse, pairs and packages](../dense-sparse.md) says what that means.",
    ]
    for key, gpu in newest:
        lines += ["", f"## {gpu.name} {{#{anchor(key)}}}", "", described(key, gpu), ""]
        lines += ["| figure | value | kind | stated by | note |", "|---|---|---|---|---|"]
        lines += [row(gpu, origin) for origin in gpu.origins]
    lines += ["", "## Sources", ""]
    used = {o.source.key: o.source for gpu in chips.values() for o in gpu.origins if o.source}
    lines += [f"- {listed(used[key])}" for key in sorted(used)]
    return "\n".join(lines) + "\n"


def described(key: str, gpu: pm.GpuSpec) -> str:
    """One line on a chip: its key, generation and date, and how it is linked."""
    parts = [f'`pm.gpu("{key}")`', gpu.architecture, gpu.released]
    for name, link in (("links", gpu.link), ("host", gpu.host_link)):
        if link:
            parts.append(f"{name}: {', '.join(filter(None, (link.name, link.layout)))}")
    price = pm.prices().get(key)
    if price:
        low, high = price.low_per_hour, price.high_per_hour
        asked = f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"
        parts.append(f"seen at {asked} USD an hour ({price.date})")
    return "; ".join(part for part in parts if part) + "."


def row(gpu: pm.GpuSpec, origin: Origin) -> str:
    """One figure: its value, what stands behind it, who states it where, and what to know."""
    figure = FIGURES.get(origin.field, origin.field.removeprefix("peak_flops.").replace("_", " "))
    source = origin.source
    stated = f"[{source.key}](#{anchor(source.key)})" if source else ""
    place = ", ".join(filter(None, (stated, cell(origin.place), origin.date)))
    cells = (figure, printed(gpu, origin.field), origin.kind, place, cell(origin.note))
    return f"| {' | '.join(cells)} |"


def printed(gpu: pm.GpuSpec, field: str) -> str:
    """A value as people read it; memory also in GiB, caches in MiB."""
    value, unit = gpu.figures()[field]
    name = field.rpartition(".")[2]
    if name == "units":
        return f"{value:,} {gpu.unit}"
    if unit == "1":
        return f"{value:,}"
    if name in ("l2_cache", "last_level_cache"):
        return f"{value / 2**20:,.4g} MiB"
    if name == "visible_capacity":
        return f"{si(value, 'B')} ({value / 2**30:,.2f} GiB)"
    return si(value, unit, 4) if unit in ("FLOP/s", "Hz") else si(value, unit)


def listed(source: Source) -> str:
    """One source in the list at the end of a page."""
    title = f"[{cell(source.title)}]({source.url})" if source.url else cell(source.title)
    where = f'<a id="{anchor(source.key)}"></a>**{source.key}**'
    return f"{where}: {title}; {source.publisher}, {source.date}"


def index() -> str:
    """Every chip in a line: what decides most plans."""
    lines = []
    for vendor, chips in vendors().items():
        lines += ["", f"## [{vendor}]({path(vendor)})", ""]
        lines += ["| key | memory | bandwidth | bf16, dense | fp8, dense | links | ridge |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [summary(vendor, key, gpu) for key, gpu in chips.items()]
    return "\n".join(lines)


def summary(vendor: str, key: str, gpu: pm.GpuSpec) -> str:
    """A chip's line in the index."""
    peaks = gpu.peak_flops
    wide = peaks.bf16 or peaks.fp16
    cells = (
        f"[`{key}`]({path(vendor)}#{anchor(key)})",
        si(gpu.capacity, "B") if gpu.capacity else "",
        si(gpu.memory_bandwidth, "B/s"),
        (si(wide, "FLOP/s") + ("" if peaks.bf16 else " (fp16)")) if wide else "",
        si(peaks.fp8, "FLOP/s") if peaks.fp8 else "",
        si(gpu.link.bandwidth, "B/s") if gpu.link else "",
        f"{wide / gpu.memory_bandwidth:.0f}" if wide else "",
    )
    return f"| {' | '.join(cells)} |"


def path(vendor: str) -> str:
    """Where a vendor's page is."""
    return f"chips/{vendor.lower()}.md"


def anchor(key: str) -> str:
    """A key as the name of a place in a page."""
    return re.sub(r"[^a-z0-9-]+", "-", key)


def cell(text: str) -> str:
    """A text that cannot end the cell it stands in, nor mean anything to Markdown."""
    return re.sub(r"([|*_<\[\]`])", r"\\\1", text)


# -- what MkDocs calls -------------------------------------------------------------------------


def on_config(config: Any, **_: Any) -> Any:
    """Put the vendors' pages into the navigation, where the chips are."""
    for section in config.nav:
        if "Catalog" in section:
            section["Catalog"] += [{vendor: path(vendor)} for vendor in vendors()]
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the vendors' pages to what is built."""
    from mkdocs.structure.files import File

    for vendor, chips in vendors().items():
        files.append(File.generated(config, path(vendor), content=page(vendor, chips)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the index where a page asks for it."""
    return markdown.replace(PLACEHOLDER, index()) if PLACEHOLDER in markdown else markdown
