"""Prices: indicative, dated, sourced, apart from the chips, and the user's to replace."""

import csv
import os
from datetime import date
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.errors import PerfModelError


@pytest.mark.parametrize("key", pm.prices())
def test_every_price_is_a_dated_and_sourced_range_of_a_chip_in_the_catalog(key):
    price = pm.prices()[key]
    assert key in pm.gpus()
    assert 0.05 <= price.low_per_hour <= price.high_per_hour <= 20
    assert price.sources
    assert price.note
    # No price is from a day after the table was made, none older than two years before it.
    assert date(2024, 11, 29) <= date.fromisoformat(price.date) <= date(2026, 11, 29)


def test_sources_of_prices_are_those_of_prices():
    known = {key for key in read_toml(catalogs() / "sources.toml") if key.startswith("price-")}
    used = {source.key for price in pm.prices().values() for source in price.sources}
    assert used == known


def test_no_price_is_part_of_a_chip():
    assert not [field for field in pm.GpuSpec.model_fields if "price" in field or "cost" in field]


# What single clouds asked, from their lists [USD/h]: the range holds each of them.
SEEN = {
    "h100-sxm": (2.29, 2.69, 3.20, 3.85, 3.99, 6.155, 6.88, 10.98, 12.29),
    "h200-sxm": (3.39, 4.50, 6.305, 63.296 / 8),
    "b200-sxm": (4.89, 5.98, 6.99, 7.15, 8.60, 14.24),
    "a100-sxm-40gb": (1.99, 2.745, 3.40),
    "mi300x": (2.59,),
    "tpu-v5p": (4.20,),
}


@pytest.mark.parametrize("key", SEEN)
def test_the_range_is_from_the_cheapest_to_the_dearest(key):
    price = pm.prices()[key]
    assert (price.low_per_hour, price.high_per_hour) == (min(SEEN[key]), max(SEEN[key]))


def test_a_price_of_ones_own_replaces_a_shipped_one():
    mine = pm.prices() | {"h100-sxm": pm.Price(low_per_hour=1.9, high_per_hour=1.9)}
    assert mine["h100-sxm"].high_per_hour == 1.9
    assert pm.prices()["h100-sxm"].high_per_hour == 12.29  # nobody else's dict has changed
    pm.prices().clear()
    assert pm.prices()


MINE = """\
h100-sxm = 1.85

[my-chip]
low_per_hour = 1
high_per_hour = 2
date = 2026-11-29
sources = ["a quote"]
"""


def read(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return pm.read_prices(path)


def test_a_users_file_has_bare_numbers_or_tables(tmp_path):
    found = read(tmp_path, MINE)
    assert (found["h100-sxm"].low_per_hour, found["h100-sxm"].high_per_hour) == (1.85, 1.85)
    assert found["my-chip"].date == "2026-11-29"
    assert found["my-chip"].sources[0].title == "a quote"
    assert set(pm.prices() | found) == {*pm.prices(), "my-chip"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("h100-sxm = 'cheap'", ["mine.toml", "h100-sxm", "low_per_hour", "cheap"]),
        ("h100-sxm = -1", ["mine.toml", "h100-sxm", "-1"]),
        ("h100-sxm = nan", ["mine.toml", "h100-sxm", "nan"]),
        ("h100-sxm = true", ["mine.toml", "h100-sxm", "True"]),
        ("[x]\nlow_per_hour = 1", ["mine.toml", "x", "high_per_hour", "missing"]),
        ("[x]\nlow_per_hour = 3\nhigh_per_hour = 2", ["mine.toml", "x", "at most", "3"]),
        ("[x]\nlow = 1", ["mine.toml", "x.low", "did you mean 'low_per_hour'"]),
        ("[x]\nlow_per_hour = 1\nhigh_per_hour = 1\nsources = 'a'", ["x.sources", "list", "'a'"]),
        ("[x]\nlow_per_hour = 1\nhigh_per_hour = 1\nsources = [1]", ["x.sources", "list", "1"]),
        ("[x]\nlow_per_hour = 1\nhigh_per_hour = 1\ndate = 5", ["mine.toml", "x", "date", "5"]),
        ("x = ", ["mine.toml", "TOML"]),
    ],
)
def test_a_wrong_file_is_one_clear_error(tmp_path, text, named):
    with pytest.raises(PerfModelError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in named:
        assert word in message


@pytest.mark.parametrize("path", [5, None, ["x"]])
def test_a_path_is_a_path(path):
    with pytest.raises(PerfModelError, match="expected the path of a TOML file"):
        pm.read_prices(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PerfModelError, match=r"none\.toml: no such file"):
        pm.read_prices(tmp_path / "none.toml")


def test_the_reference_table_has_the_same_prices():
    folder = os.environ.get("PERFMODEL_REFERENCE_DATA")
    if not folder:
        pytest.skip("PERFMODEL_REFERENCE_DATA names no folder of reference data")
    with (Path(folder) / "hardware" / "hardware.csv").open(encoding="utf-8") as file:
        theirs = sorted(
            (float(row["price_usd_per_hour_low"]), float(row["price_usd_per_hour_high"]))
            for row in csv.DictReader(file)
            if row["price_usd_per_hour_low"]
        )
    ours = sorted((price.low_per_hour, price.high_per_hour) for price in pm.prices().values())
    assert ours == theirs
