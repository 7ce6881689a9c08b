"""What is particular to the chips that NVIDIA did not make: packages, weak figures, clocks."""

from math import isclose

import chips_of_others as others
import pytest

import perfmodel as pm

# Packages that a program sees as two devices, with bf16 [FLOP/s] and memory [B] of one of them.
PACKAGES = {
    "mi250": (181.05e12, 64 * 2**30 - 2**24),
    "mi250x": (191.5e12, 64 * 2**30 - 2**24),
    "max-1550": (419.4e12, 64e9),
    "ascend-910c": (376e12, 64e9),
    "tpu-v3": (61.5e12, 16 * 2**30),
    "tpu-v4": (137.5e12, 16 * 2**30),
    "tpu-v5p": (229.5e12, 47.5 * 2**30),
    "tpu-v7": (1153.5e12, 96 * 2**30),
}


@pytest.mark.parametrize("key", others.CHIPS)
def test_figures_are_those_of_the_package(key):
    gpu = pm.gpu(key)
    assert gpu.parts == (2 if key in PACKAGES else 1)
    if key in PACKAGES:
        peak, memory = PACKAGES[key]
        assert isclose(gpu.peak("bf16") / 2, peak, rel_tol=0.001)
        assert isclose(gpu.capacity / 2, memory, rel_tol=0.001)


def test_fp4_of_the_mi350_series_is_printed_dense():
    # 10.1e15 is its fp8 with sparsity, and its fp4 and fp6 without.
    assert isclose(pm.gpu("mi355x").peak("mxfp4"), 10.1e15, rel_tol=0.01)
    assert pm.gpu("mi355x").peak("mxfp6") == pm.gpu("mi355x").peak("mxfp4")


@pytest.mark.parametrize("key", [key for key in others.CHIPS if key.startswith("apple")])
def test_an_apple_core_has_128_lanes_at_a_clock_that_it_could_have(key):
    gpu = pm.gpu(key)
    # M1 has run at 1.28 GHz (metal-benchmarks); later ones are faster, none reaches 2.3.
    assert 1.25e9 <= gpu.peak("fp32") / (256 * gpu.units) <= 2.3e9


def test_ascend_cores_run_at_one_clock():
    # 376 of 24 cores and 313 of 20 are one clock, which is why 313 is not the 910B2's.
    for key in ("ascend-910b2", "ascend-910b3", "ascend-910c"):
        gpu = pm.gpu(key)
        assert isclose(gpu.peak("fp16") / (8192 * gpu.units), 1.91e9, rel_tol=0.005)


# What one device moves towards one other, of those that are joined each with each other [B/s].
PAIRS = {
    "mi250": 100e9,  # two of six links
    "mi250x": 50e9,
    "mi300a": 128e9,  # two of six links
    "mi300x": 64e9,
    "mi325x": 64e9,
    "mi350x": 76.8e9,
    "mi355x": 76.8e9,
    "gaudi2": 3 * 100e9 / 8,  # three ports
    "gaudi3": 3 * 200e9 / 8,
    "ascend-910b2": 28e9,
    "ascend-910b3": 28e9,
    "ascend-910b4": 28e9,
}


@pytest.mark.parametrize("key", others.CHIPS)
def test_a_pair_in_a_mesh_has_its_own_links_only(key):
    link = pm.gpu(key).link
    if link is None:
        return
    assert (link.topology == "mesh") == (key in PAIRS)
    assert isclose(link.among(2), PAIRS.get(key, link.bandwidth), rel_tol=1e-6)
    if key.startswith("tpu"):
        assert link.topology == "torus"


# Figures that must not pass for facts.
WEAK = {
    "mi455x": ("peak_flops.bf16", "link.bandwidth"),
    "mi250": ("link.domain", "power"),
    "ascend-950dt": ("memory_bandwidth", "link.domain"),
    "gaudi2": ("peak_flops.fp16",),
    "apple-m5": ("peak_flops.fp16", "peak_flops.bf16"),
    "apple-m5-max": ("peak_flops.fp16", "peak_flops.bf16"),
    "ascend-910b2": ("power", "last_level_cache", "units"),
    "ascend-910b3": ("power", "last_level_cache", "units"),
    "ascend-910b4": ("power", "last_level_cache", "units"),
    "tpu-v3": ("link.bandwidth",),
    "trainium1": ("link.bandwidth",),
    "trainium2": ("power",),
    "trainium3": ("link.bandwidth",),
    "cerebras-wse3": ("peak_flops.fp16", "power"),
    "xeon-8480plus": ("memory_capacity", "peak_flops.bf16"),
    "xeon-6980p": ("memory_capacity", "peak_flops.bf16"),
    "epyc-9654": ("memory_capacity",),
    "epyc-9755": ("memory_capacity",),
    "graviton4": ("memory_capacity",),
}
CAVEATS = ("weak", "assumed", "announced", "estimate", "unlabelled", "base clock")


@pytest.mark.parametrize("key", WEAK)
def test_what_is_weak_says_so(key):
    origins = {origin.field: origin for origin in pm.gpu(key).origins}
    for field in WEAK[key]:
        said = f"{origins[field].kind} {origins[field].note}".lower()
        assert any(word in said for word in CAVEATS), field


@pytest.mark.parametrize("key", others.CHIPS)
def test_an_assumption_names_no_source(key):
    for origin in pm.gpu(key).origins:
        assert (origin.kind == "assumed") == (origin.source is None), origin.field
