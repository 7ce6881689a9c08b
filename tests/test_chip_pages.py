"""The pages of the chips: every figure with its origin, and no link that leads nowhere."""

import importlib.util
import re
from pathlib import Path

import pytest

import perfmodel as pm

KINDS = {"datasheet", "quoted", "secondary", "derived", "device-reported", "assumed"}
DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def pages():
    spec = importlib.util.spec_from_file_location("_chips", DOCS / "_chips.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_chip_is_on_one_page_and_in_the_index(pages):
    found = [key for chips in pages.vendors().values() for key in chips]
    assert sorted(found) == list(pm.gpus())
    index = pages.index()
    assert all(f"`{key}`" in index for key in pm.gpus())


def test_every_figure_is_shown_with_its_origin(pages):
    for vendor, chips in pages.vendors().items():
        page = pages.page(vendor, chips)
        rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line[:1] == "|"]
        figures = [row for row in rows if len(row) >= 4 and row[2] in KINDS]
        assert len(figures) == sum(len(gpu.origins) for gpu in chips.values())
        assert all(all(row[:4]) for row in figures)


def test_links_within_a_page_lead_somewhere(pages):
    for vendor, chips in pages.vendors().items():
        page = pages.page(vendor, chips)
        places = set(re.findall(r'id="([^"]+)"', page)) | set(re.findall(r"\{#([^}]+)\}", page))
        assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= places


def test_a_value_reads_as_people_say_it(pages):
    gpu = pm.gpu("mi300x")
    said = {
        "memory_bandwidth": "5.30 TB/s",
        "visible_capacity": "206 GB (191.98 GiB)",
        "last_level_cache": "256 MiB",
        "units": "304 CU",
        "boost_clock": "2.100 GHz",
        "peak_flops.bf16": "1.307 PFLOP/s",
        "link.bandwidth": "448 GB/s",
        "link.domain": "8",
    }
    assert {field: pages.printed(gpu, field) for field in said} == said
