"""Engines that serve one user at a time: a few numbers that hold for all chips of a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.spec import Origin
from perfmodel.machine.efficiency import Band, Efficiency, KernelEfficiency
from perfmodel.machine.forms import KernelForm, StreamForm
from perfmodel.machine.hardware import GpuSpec
from perfmodel.sources.catalog import catalog_sources

_OTHER: Final = "other"  # chips of vendors without rows of their own
_FIRST: Final = "NVIDIA"  # an engine that was measured on one vendor's chips was on these
_WIDEST: Final = "llama.cpp"  # the engine that was measured on chips of several vendors


@cache
def streams() -> Mapping[str, Any]:
    """What the catalog knows, by engine and vendor."""
    table = read_toml(catalogs() / "engines.toml")["streams"]
    return {name: rows for name, rows in table.items() if name != "origin"}


def stream_efficiency(gpu: GpuSpec, engine: str) -> Efficiency:
    """What is known of an engine on a chip, by its vendor, bandwidth, units and clock.

    Where a vendor names no units or no clock, they limit nothing.
    """
    rows = streams()[engine]
    # An EPYC is no Radeon: a vendor's rows are of its graphics chips.
    vendor = gpu.vendor if gpu.vendor in rows and gpu.unit != "core" else _OTHER
    limits = dict(rows.get(vendor, rows[_FIRST])["stream"])
    if gpu.units is None or gpu.boost_clock is None:
        limits.pop("rate", None)
    form, bandwidth = StreamForm(**limits), gpu.memory_bandwidth
    reached = form.bandwidth(bandwidth, units=gpu.units or 0, clock=gpu.boost_clock or 0)
    return _efficiency(engine, vendor, reached / bandwidth)


@cache
def _efficiency(engine: str, vendor: str, share: float) -> Efficiency:
    """Weights at their share of the bandwidth, the cache at the memory's own."""
    rows = streams()[engine]
    row = rows.get(vendor, rows[_FIRST])
    tested = row["tested"] if vendor in rows else streams()[_WIDEST][_OTHER]["tested"]
    band = Band(low=tested["low"], high=tested["high"])
    compute, memory = row["compute"], row["stream"]["memory"]
    forms = {
        f"{kind}.{recipe}": KernelForm(compute=compute[recipe], memory=share, exponent=2)
        for kind in ("matrix", "experts")
        for recipe in ("bf16", "int8")
        if recipe in compute
    }
    decode = KernelForm(memory=memory, fill=row["context"])
    prefill = KernelForm(compute=compute["attention"], memory=memory, exponent=2)
    forms |= {
        "decode-attention.bf16": decode,
        "latent-decode.bf16": decode,
        "prefill-attention.bf16": prefill,
        "latent-prefill.bf16": prefill,
    }
    return Efficiency(
        kernels=tuple(
            KernelEfficiency(name=name, form=form, band=band) for name, form in forms.items()
        ),
        block_overhead=row["block_overhead"],
        engine=engine,
        known="family" if vendor in rows and vendor != _OTHER else "unknown",
        origins=(_origin(row),),
    )


def _origin(row: Mapping[str, Any]) -> Origin:
    fields = read_toml(catalogs() / "engines.toml")["streams"]["origin"]
    source = catalog_sources()[row["source"]]
    return Origin(field="kernels", source=source, note=row.get("note", ""), **fields)
