"""The shipped chips and models against the outside world: arithmetic, published counts, origins."""

import csv
import os
from datetime import date
from math import isclose
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.base._data import catalogs, read_toml
from perfmodel.base.errors import PerfModelError, UnknownKeyError

GPUS = ("a100-sxm-80gb", "b200-sxm", "h100-sxm", "h200-sxm", "l4", "mi300x", "rtx-4090")
MODELS = ("gpt2", "llama-3.1-70b", "llama-3.1-8b", "mistral-7b-v0.3", "qwen3-0.6b", "qwen3-8b")

# A value that somebody measured or typed in has no place in a shipped chip.
KINDS = {"datasheet", "quoted", "secondary", "derived", "device-reported", "assumed"}


def values(gpu):
    """Every number of a chip, by the name that its origin has."""
    plain = ("memory_bandwidth", "memory_capacity", "visible_capacity")
    found = {field: getattr(gpu, field) for field in plain}
    found |= {f"peak_flops.{f}": gpu.peak(f) for f in gpu.peak_flops.formats}
    return {field: value for field, value in found.items() if value is not None}


def test_the_catalog_is_complete():
    assert set(GPUS) <= set(pm.gpus())
    assert set(MODELS) <= set(pm.models())


def test_every_chip_and_every_model_has_its_witnesses():
    for name, table, keys in (
        ("CHIPS", CHIPS, pm.gpus()),
        ("SPARSE", SPARSE, pm.gpus()),
        ("BUSES", BUSES, pm.gpus()),
        ("WITNESSES", WITNESSES, pm.models()),
    ):
        missing, unknown = sorted(set(keys) - set(table)), sorted(set(table) - set(keys))
        assert not missing, f"{name} in tests/test_catalog.py needs a row for: {', '.join(missing)}"
        assert not unknown, f"{name} has rows for what is not in the catalog: {', '.join(unknown)}"


# -- origins ----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", pm.gpus())
def test_every_value_of_a_chip_has_one_sourced_and_dated_origin(key):
    gpu = pm.gpu(key)
    assert sorted(origin.field for origin in gpu.origins) == sorted(values(gpu))
    for origin in gpu.origins:
        assert origin.kind in KINDS
        assert origin.source is not None
        assert origin.place
        assert date.fromisoformat(origin.date) >= date.fromisoformat("2020-01-01")


@pytest.mark.parametrize("key", pm.models())
def test_every_size_of_a_model_has_a_sourced_and_dated_origin(key):
    origins = pm.model(key).origins
    fields = [origin.field for origin in origins]
    assert len(fields) == len(set(fields)) > 0
    for origin in origins:
        assert origin.kind in KINDS
        assert origin.source is not None
        assert date.fromisoformat(origin.date)


def test_sources_resolve_and_are_all_used():
    known = read_toml(catalogs() / "sources.toml")
    for source in known.values():
        assert source["title"]
        assert source["publisher"]
        assert source["url"].startswith("https://")
        assert date.fromisoformat(source["date"])
    parts = [pm.gpu(key) for key in pm.gpus()] + [pm.model(key) for key in pm.models()]
    used = {origin.source for part in parts for origin in part.origins}
    assert {source.key for source in used} == set(known)
    for source in used:
        assert source.url == known[source.key]["url"]


# -- dense peaks: units x FLOP a clock x clock -------------------------------------------------

# Units (SM or CU), dense bf16 FLOP a clock and unit with fp32 sums, the clock that the vendor
# rates tensor peaks at, and the highest clock of the chip [Hz]. Hopper's tensor peaks are rated
# below its top clock; Blackwell's rated clock is not printed, 1.856e9 is what gives 2250e12 back.
# From the white papers (GA100, H100 V1.04, Ada v2.1, CDNA 3) and, for B200, the device itself.
CHIPS = {
    "a100-sxm-80gb": (108, 2048, 1.410e9, 1.410e9),
    "h100-sxm": (132, 4096, 1.830e9, 1.980e9),
    "h200-sxm": (132, 4096, 1.830e9, 1.980e9),
    "b200-sxm": (148, 8192, 1.856e9, 1.965e9),
    "l4": (58, 1024, 2.040e9, 2.040e9),
    "rtx-4090": (128, 512, 2.520e9, 2.520e9),
    "mi300x": (304, 2048, 2.100e9, 2.100e9),
}

# FLOP a clock of one unit's vector fp32: 64 lanes on A100, 128 on the others, 2 FLOP each.
VECTOR = dict.fromkeys(CHIPS, 256) | {"a100-sxm-80gb": 128}


@pytest.mark.parametrize("key", CHIPS)
def test_dense_peaks_are_units_by_ops_by_clock(key):
    units, ops, rated, highest = CHIPS[key]
    gpu = pm.gpu(key)
    assert isclose(gpu.peak("bf16"), units * ops * rated, rel_tol=0.015)
    assert isclose(gpu.peak("fp16"), gpu.peak("bf16"), rel_tol=0.001)
    assert isclose(gpu.peak("tf32"), units * ops / 2 * rated, rel_tol=0.015)
    assert isclose(gpu.peak("fp32"), units * VECTOR[key] * highest, rel_tol=0.015)
    assert gpu.peak("bf16") <= 1.001 * units * ops * highest  # 0.1 %: vendors round up, too


@pytest.mark.parametrize("key", CHIPS)
def test_eight_bits_run_at_twice_the_rate_of_sixteen(key):
    gpu = pm.gpu(key)
    if key == "a100-sxm-80gb":  # Ampere has no fp8
        assert "fp8" not in gpu.peak_flops.formats
    else:
        assert isclose(gpu.peak("fp8"), 2 * gpu.peak("bf16"), rel_tol=0.001)
    # GeForce halves what it sums in fp32, but not what it sums in int32.
    int8 = 4 if key == "rtx-4090" else 2
    assert isclose(gpu.peak("int8"), int8 * gpu.peak("bf16"), rel_tol=0.001)


@pytest.mark.parametrize("key", CHIPS)
def test_only_blackwell_has_nvfp4_at_four_times_bf16(key):
    gpu = pm.gpu(key)
    assert ("nvfp4" in gpu.peak_flops.formats) == (key == "b200-sxm")
    if key == "b200-sxm":
        assert isclose(gpu.peak("nvfp4"), 4 * gpu.peak("bf16"), rel_tol=0.001)


# What the same datasheets print with structured sparsity [TFLOP/s]: where dense figures go wrong.
SPARSE = {
    "a100-sxm-80gb": {"tf32": 312, "fp16": 624, "bf16": 624, "int8": 1248},
    "h100-sxm": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "h200-sxm": {"tf32": 989, "fp16": 1979, "bf16": 1979, "fp8": 3958, "int8": 3958},
    "b200-sxm": {
        "tf32": 2250,
        "fp16": 4500,
        "bf16": 4500,
        "fp8": 9000,
        "int8": 9000,
        "nvfp4": 18000,
    },
    "l4": {"tf32": 120, "fp16": 242, "bf16": 242, "fp8": 485, "int8": 485},
    "rtx-4090": {"tf32": 165.2, "fp16": 330.4, "bf16": 330.4, "fp8": 660.6, "int8": 1321.2},
    "mi300x": {"tf32": 1307.4, "fp16": 2614.9, "bf16": 2614.9, "fp8": 5229.8, "int8": 5229.8},
}


@pytest.mark.parametrize("key", SPARSE)
def test_no_peak_is_a_sparse_figure(key):
    gpu = pm.gpu(key)
    assert set(SPARSE[key]) == set(gpu.peak_flops.formats) - {"fp32"}
    for compute, sparse in SPARSE[key].items():
        assert isclose(gpu.peak(compute), sparse * 1e12 / 2, rel_tol=0.005)


# -- memory -----------------------------------------------------------------------------------

# Bus [bit] and data rate of a pin [bit/s]: device reports and spec sheets. H200 and B200 ship with
# 47/48 and 15/16 of the pins of their stacks.
BUSES = {
    "a100-sxm-80gb": (5120, 3.186e9),
    "h100-sxm": (5120, 5.238e9),
    "h200-sxm": (6016, 6.402e9),
    "b200-sxm": (7680, 7.992e9),
    "l4": (192, 12.5e9),
    "rtx-4090": (384, 21e9),
    "mi300x": (8192, 5.2e9),
}


@pytest.mark.parametrize("key", BUSES)
def test_bandwidth_is_bus_by_data_rate(key):
    bits, rate = BUSES[key]
    assert isclose(pm.gpu(key).memory_bandwidth, bits / 8 * rate, rel_tol=0.015)


@pytest.mark.parametrize("key", pm.gpus())
def test_a_program_sees_about_what_was_sold(key):
    # Vendors sell GiB as GB (up to 7.4 % more), less ECC and what the driver keeps.
    gpu = pm.gpu(key)
    if gpu.visible_capacity is None:
        # What CUDA sees of an L4 has no public report that could be cited.
        assert key == "l4", f"{key} has no visible_capacity: name it here, with the reason"
        return
    assert 0.90 <= gpu.visible_capacity / gpu.memory_capacity <= 1.08
    assert (gpu.capacity, gpu.capacity_kind) == (gpu.visible_capacity, "visible")


# -- models -----------------------------------------------------------------------------------

# Parameters: what Transformers 5.24 counts when it builds the class of the config, tied
# weights once. The checkpoints' own totals are the same for Qwen3-8B and Mistral; Qwen3-0.6B's
# 751,632,384 holds the tied head a second time (151936 x 1024), and GPT-2's 137,022,720 holds its
# causal masks (12 x 1024 x 1024).
# KV: layers x 2 x KV heads x head width x 2 B, and what Transformers' cache grows by a token.
WITNESSES = {
    "qwen3-0.6b": (596_049_920, 28 * 2 * 8 * 128 * 2, 114_688),
    "qwen3-8b": (8_190_735_360, 36 * 2 * 8 * 128 * 2, 147_456),
    "llama-3.1-8b": (8_030_261_248, 32 * 2 * 8 * 128 * 2, 131_072),
    "llama-3.1-70b": (70_553_706_496, 80 * 2 * 8 * 128 * 2, 327_680),
    "mistral-7b-v0.3": (7_248_023_552, 32 * 2 * 8 * 128 * 2, 131_072),
    "gpt2": (124_439_808, 12 * 2 * 12 * 64 * 2, 36_864),
}


@pytest.mark.parametrize("key", WITNESSES)
def test_models_have_the_published_parameters_and_cache(key):
    params, by_hand, by_cache = WITNESSES[key]
    model = pm.model(key)
    assert model.params == params
    assert model.kv_bytes_per_token("bf16") == by_hand == by_cache


@pytest.mark.parametrize("key", WITNESSES)
def test_no_catalog_model_has_a_window(key):
    # Mistral v0.3's sliding_window is null; an absent key would mean v0.1's 4096.
    context = pm.model(key).position_limit or 32_768
    assert pm.model(key).cache_bytes(context, "bf16") == context * WITNESSES[key][2]


# -- keys -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wrong", "nearest"),
    [
        (pm.gpu, "h100", "h100-sxm"),
        (pm.gpu, "A100-SXM-80", "a100-sxm-80gb"),
        (pm.gpu, "rtx4090", "rtx-4090"),
        (pm.model, "llama-3.1-8", "llama-3.1-8b"),
        (pm.model, "mistral-7b", "mistral-7b-v0.3"),
        (pm.model, "gpt-2", "gpt2"),
    ],
)
def test_an_unknown_key_suggests_the_nearest(call, wrong, nearest):
    with pytest.raises(UnknownKeyError, match=f"did you mean '{nearest}'"):
        call(wrong)


@pytest.mark.parametrize("key", ["", "zzzzzz", "../h100-sxm"])
def test_a_hopeless_key_lists_what_there_is(key):
    with pytest.raises(UnknownKeyError, match="h100-sxm"):
        pm.gpu(key)


# -- a user's own chip ------------------------------------------------------------------------

MINE = """\
name = "Mine"
memory_bandwidth = 1e12
peak_flops.bf16 = 1e14

[visible_capacity]
value = 80_000_000_000
unit = "B"
kind = "measured"
source = "my bench"
place = "run 3"
date = "2026-01-31"
"""


def read(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text, encoding="utf-8")
    return pm.read_gpu(file)


def test_a_users_chip_keeps_the_origins_it_was_given(tmp_path):
    gpu = read(tmp_path, MINE)
    assert (gpu.name, gpu.memory_bandwidth, gpu.peak("bf16")) == ("Mine", 1e12, 1e14)
    assert gpu.visible_capacity == 80e9
    origins = {origin.field: origin for origin in gpu.origins}
    assert set(origins) == {"memory_bandwidth", "peak_flops.bf16", "visible_capacity"}
    assert origins["memory_bandwidth"].kind == origins["peak_flops.bf16"].kind == "user"
    assert origins["memory_bandwidth"].place == "mine.toml"
    mine = origins["visible_capacity"]
    assert (mine.kind, mine.source.title, mine.date) == ("measured", "my bench", "2026-01-31")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (MINE.replace('unit = "B"', 'unit = "GB"'), ["mine.toml", "visible_capacity", "'GB'"]),
        (MINE.replace("value = 80_000_000_000\n", ""), ["mine.toml", "visible_capacity.value"]),
        (MINE.replace('place = "run 3"', 'where = "run 3"'), ["mine.toml", "where"]),
        (MINE.replace('kind = "measured"', 'kind = "guessed"'), ["kind", "guessed"]),
        (MINE.replace("= 1e12", "= -1e12"), ["memory_bandwidth", "-1"]),
        (MINE.replace("= 1e12", '= "fast"'), ["memory_bandwidth", "fast"]),
        ("memory_clock = 1e9\n" + MINE, ["memory_clock", "unknown field"]),
        (MINE.replace("memory_bandwidth = 1e12\n", ""), ["memory_bandwidth", "missing"]),
        (MINE.replace("peak_flops.bf16", "peak_flops.bf17"), ["bf17", "did you mean 'bf16'"]),
        (MINE.replace("peak_flops.bf16 = 1e14", "peak_flops = 1e14"), ["mine.toml", "peak_flops"]),
        (MINE.replace("peak_flops.bf16 = 1e14\n", ""), ["format"]),
        ("name = ", ["mine.toml", "TOML"]),
    ],
    ids=[
        "wrong unit",
        "missing value",
        "unknown part of an origin",
        "unknown kind",
        "negative",
        "text",
        "unknown field",
        "missing field",
        "unknown format",
        "peaks without formats",
        "no peaks",
        "not TOML",
    ],
)
def test_a_users_mistake_is_one_clear_error(tmp_path, text, named):
    with pytest.raises(PerfModelError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert "\n" not in message
    for word in named:
        assert word in message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(PerfModelError, match=r"none\.toml: no such file"):
        pm.read_gpu(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("memory_bandwidth = {value = 1e12, field = 'x'}", ["memory_bandwidth.field", "unknown"]),
        ("memory_bandwidth = {value = 1e12, source = ['a']}", ["memory_bandwidth.source", "['a']"]),
        ("memory_bandwidth = {value = 1e12, kind = 'rumour'}", ["memory_bandwidth", "'rumour'"]),
        ("memory_bandwidth = 1e12\norigins = []", ["origins", "unknown field"]),
        ("memory_bandwith = 1e12", ["memory_bandwith", "did you mean 'memory_bandwidth'"]),
        ("memory_clock = {value = 1e9, unit = 'Hz'}", ["memory_clock", "unknown field"]),
    ],
)
def test_a_wrong_table_names_file_and_field(tmp_path, text, named):
    path = tmp_path / "mine.toml"
    path.write_text(f"{text}\n[peak_flops]\nbf16 = 1e14\n")
    with pytest.raises(PerfModelError) as caught:
        pm.read_gpu(path)
    assert "mine.toml" in str(caught.value)
    for word in named:
        assert word in str(caught.value)


@pytest.mark.parametrize("path", [5, None, ["x"]])
def test_a_path_is_a_path(path):
    with pytest.raises(PerfModelError, match="expected the path of a TOML file"):
        pm.read_gpu(path)


def test_toml_dates_are_dates(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        "memory_bandwidth = {value = 1e12, date = 2026-11-29}\npeak_flops.bf16 = 1e14\n"
    )
    assert pm.read_gpu(path).origins[0].date == "2026-11-29"


# -- the reference table ------------------------------------------------------------------------

REFERENCE_IDS = {
    "a100-sxm-80gb": "a100-sxm4-80gb",
    "b200-sxm": "b200-sxm-180gb",
    "h100-sxm": "h100-sxm5-80gb",
    "h200-sxm": "h200-sxm-141gb",
    "l4": "l4-24gb",
    "mi300x": "mi300x-192gb",
    "rtx-4090": "rtx-4090-24gb",
}


@pytest.mark.parametrize("key", REFERENCE_IDS)
def test_an_independent_table_agrees(key):
    folder = os.environ.get("PERFMODEL_REFERENCE_DATA")
    if not folder:
        pytest.skip("PERFMODEL_REFERENCE_DATA names no folder of reference data")
    with (Path(folder) / "hardware" / "hardware.csv").open(encoding="utf-8") as file:
        row = next(r for r in csv.DictReader(file) if r["id"] == REFERENCE_IDS[key])
    gpu = pm.gpu(key)
    assert isclose(gpu.memory_bandwidth, float(row["mem_bw_Bps"]), rel_tol=1e-3)
    for name in ("fp32", "tf32", "fp16", "bf16", "fp8", "int8"):
        stated, ours = row[f"peak_{name}_flops"], getattr(gpu.peak_flops, name)
        assert (ours is None) == (not stated), name
        if stated:
            assert isclose(ours, float(stated), rel_tol=1e-3), name
