"""Engines that serve one user: published speeds, and what is expected of chips not fitted to.

Each row of ``fixtures/single_stream.csv`` is one published speed, or the median of ``runs`` of
them, as milliseconds a token (decode) or of a whole prompt (prefill), with a key of the catalog's
sources. ``tokens`` is the mean context, or the length of the prompt; where a source states none,
64. ``llama-cpp-threads`` are llama.cpp's pull requests 17505 and 19053, a gist of A. Ginns (M1 Pro
and M3 Pro), a post of C. Kecskemeti (RTX 5090), and the wiki of VulkanForge (RX 9070 XT).
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

import perfmodel as pm

ROWS = Path(__file__).parent / "fixtures" / "single_stream.csv"
ENGINES = ("exllamav2", "gpt-fast", "llama.cpp", "llama.cpp-graphs", "mlc", "pytorch", "tinychat")
LLAMA = pm.model("llama-3-8b")


def rows(phase: str) -> list[dict[str, str]]:
    """Those whose model and format the catalog has by name."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        found = [row for row in csv.DictReader(file) if row["phase"] == phase]
    named = ("int4", "exl2")
    return [r for r in found if r["model"] in pm.models() and not r["format"].startswith(named)]


def expected(row: dict[str, str]) -> pm.Estimate:
    """One row, asked of the library as a user would."""
    chip, fmt = pm.gpu(row["chip"]), row["format"]
    plain = fmt.startswith("q") and "int8" not in chip.peak_flops.formats
    return pm.decode(
        pm.model(row["model"]),
        chip,
        batch=1,
        context=int(row["tokens"]),
        precision=fmt + "+compute16" if plain else fmt,
        engine=row["engine"],
    )


def test_the_engines_are_named():
    assert set(ENGINES) <= set(pm.engines())


def test_published_steps_lie_within_their_bands():
    inside = defaultdict(list)
    for row in rows("decode"):
        step, measured = expected(row), float(row["ms"]) * 1e-3
        assert step.floor < measured
        inside[row["engine"], step.gpu.vendor].append(step.low <= measured <= step.high)
    assert len(inside) == 8
    shares = {key: sum(each) / len(each) for key, each in inside.items()}
    assert all(share >= 0.6 for share in shares.values()), shares
    everything = [one for each in inside.values() for one in each]
    assert 0.72 <= sum(everything) / len(everything) <= 0.95


def test_steps_of_llama_cpp_on_nvidia_s_chips_are_close():
    errors = sorted(
        abs(step.time / (float(row["ms"]) * 1e-3) - 1)
        for row in rows("decode")
        for step in [expected(row)]
        if row["engine"] == "llama.cpp" and step.gpu.vendor == "NVIDIA"
    )
    assert len(errors) > 80
    assert median(errors) < 0.04
    assert errors[len(errors) * 9 // 10] < 0.10


def test_what_is_left_out_is_expected_all_the_same():
    pytest.importorskip("pandas")
    pytest.importorskip("scipy", reason="the extra calibration is not installed")
    from calibration import stream

    fits = stream.everything(stream.read())
    large, missed, pooled = stream.large, stream.missed, stream.pooled
    figures = {
        "llama.cpp, chips": (missed(large(fits[0].away)), 0.04, 0.10),
        "all, chips": (missed(large(pooled(fits, "chip"))), 0.07, 0.25),
        "all, models": (missed(large(pooled(fits, "model"))), 0.08, 0.22),
    }
    for name, (errors, middle, most) in figures.items():
        assert errors.median < middle, name
        assert errors.p90 < most, name
    # What ships is what the script finds.
    for fit in fits:
        if fit.entry.vendor == "NVIDIA":
            shipped = pm.efficiency(pm.gpu("rtx-4090"), engine=fit.entry.engine)
            assert math.isclose(shipped.block_overhead, fit.found["block"], rel_tol=1e-3)


def chip(**fields) -> pm.GpuSpec:
    peaks = {"bf16": 1e15, "fp16": 1e15}
    return pm.GpuSpec(name="chip", vendor="NVIDIA", peak_flops=peaks, **fields)


def share(gpu: pm.GpuSpec, engine: str = "llama.cpp") -> float:
    return pm.efficiency(gpu, engine=engine).kernel("matrix.w4a16").form.memory


def test_units_and_clock_bound_the_share_of_the_bandwidth():
    # 108 units at 1.41 GHz carry 0.9 to 1.0 TB/s of an A100 at 6 to 6.5 B a clock, whatever the
    # memory has: PCIe (1.94 TB/s) and SXM (2.04 TB/s) were measured within 2 % of each other.
    pcie, sxm = (pm.gpu(f"a100-{kind}-80gb") for kind in ("pcie", "sxm"))
    reached = [share(gpu) * gpu.memory_bandwidth for gpu in (pcie, sxm)]
    assert all(0.9e12 < one < 1.0e12 for one in reached)
    assert math.isclose(*reached, rel_tol=0.02)
    # Memory binds where it is slow: an RTX 4000 Ada was measured at 93 to 98 % of it.
    assert 0.93 < share(pm.gpu("rtx-4000-ada")) < 0.98


def test_without_units_or_clock_only_the_memory_binds():
    known = {"memory_bandwidth": 8e12, "units": 10, "boost_clock": 1e9}
    slow, free = chip(**known), chip(memory_bandwidth=8e12)
    # Ten units at 1 GHz and about 6 B a clock: 60 GB/s.
    assert math.isclose(share(slow) * 8e12, 60e9, rel_tol=0.1)
    for missing in ("units", "boost_clock"):
        less = {name: value for name, value in known.items() if name != missing}
        assert share(chip(**less)) == share(free) > 0.9


def test_compiled_kernels_stream_more_a_clock():
    a100 = pm.gpu("a100-sxm-80gb")
    assert share(a100, "exllamav2") < share(a100, "pytorch") < share(a100, "gpt-fast")


def test_a_step_is_layers_weights_and_cache_by_hand():
    gpu = chip(memory_bandwidth=1e12)
    known = pm.efficiency(gpu, engine="exllamav2")
    memory = known.kernel("matrix.bf16").form.memory
    step = pm.decode(LLAMA, gpu, batch=1, context=1000, precision="bf16", engine="exllamav2")
    # 7.50e9 parameters but for the embedding, a cache of 32 x 2 x 8 x 128 values a token, 2 B each.
    weights, cache = 2 * 7.50e9 / (memory * 1e12), 1000 * 131072 / (memory * 1e12)
    by_hand = 32 * known.block_overhead + weights + cache
    assert math.isclose(step.time, by_hand, rel_tol=5e-3)


def test_a_context_costs_more_than_its_bytes_without_flash_attention():
    gpu = pm.gpu("rtx-4090")
    short, long = (
        pm.decode(LLAMA, gpu, batch=1, context=c, precision="q4_k_m", engine="llama.cpp").time
        for c in (256, 4096)
    )
    # 131072 B a token: 0.13 us at the memory; about twice as much again was measured.
    slope = (long - short) / (4096 - 256)
    assert 1.5 * 131072 / gpu.memory_bandwidth < slope < 4 * 131072 / gpu.memory_bandwidth


def test_vendors_have_their_own_and_others_less_certain_ones():
    keys = {"rtx-4090": "family", "apple-m2-ultra": "family", "rx-9070-xt": "family"}
    keys |= {"epyc-9654": "unknown", "arc-b580": "unknown"}
    for key, known in keys.items():
        assert pm.efficiency(pm.gpu(key), engine="llama.cpp").known == known
    mine = pm.efficiency(pm.gpu("mi300x"), engine="mlc")
    assert mine.known == "unknown"
    close = pm.efficiency(pm.gpu("rtx-4090"), engine="mlc").kernels[0].band
    far = mine.kernels[0].band
    assert far.low < close.low < 1 < close.high < far.high


@pytest.mark.parametrize("engine", ENGINES)
def test_every_chip_can_be_asked_of(engine):
    for key in pm.gpus():
        found = pm.efficiency(pm.gpu(key), engine=engine)
        assert found.engine == engine
        assert found.origins[0].source is not None
        assert all(0 < known.form.memory <= 1 for known in found.kernels)


def test_prompts_are_expected_at_a_share_of_the_peak():
    ratios = []
    for row in rows("prefill"):
        gpu = pm.gpu(row["chip"])
        if gpu.vendor != "NVIDIA":
            continue
        model, tokens, fmt = pm.model(row["model"]), int(row["tokens"]), row["format"]
        step = pm.prefill(model, gpu, prompt=tokens, precision=fmt, engine="llama.cpp")
        ratios.append(step.time / (float(row["ms"]) * 1e-3))
    assert len(ratios) > 70
    assert 0.75 < median(ratios) < 1.3
