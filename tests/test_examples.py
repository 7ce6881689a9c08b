"""The examples run by themselves and print the figures that others published or measured."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"

# Whole rows where there are any, white space squeezed: a figure must stand in its own row.
EXPECTED = {
    # What the question or the article counts, restated in the script.
    "plan_long_prompts.py": ("fp8+kv8 163,840 B 88.6 GB", "fp8 327,680 B 177.2 GB"),
    "plan_users_of_a_card.py": ("round figures 488,281 tokens 48 users",),
    # 11.56 and 6.76 ms were measured: 1.71 times, and one card is too slow for 8 ms a token.
    "plan_two_cards.py": ("6.76 ms, 1.71 times", "11.6 ms even alone", "6.78 ms 1.70"),
    "plan_four_bits.py": ("measured 1.16 times",),
    "plan_long_contexts.py": (
        "327,680 B a token; weights 141 GB",
        "4,096 tokens 1.34 GB, 1.25 GiB, of eight users 10.7 GB",
        "16,384 tokens 5.37 GB, 5.00 GiB, of eight users 42.9 GB",
        "32,768 tokens 10.74 GB, 10.00 GiB, of eight users 85.9 GB",
        "131,072 tokens 42.95 GB, 40.00 GiB, of eight users 343.6 GB",
    ),
    "cpu_roofline.py": (
        "15.0 GB/s and 164.3 GFLOP/s meet at 10.95 FLOP/B",
        # tokens, FLOP/B, roof at 15.0 GB/s, roof as the article prints it, measured, share
        "1 0.50 7.5 7.5 7.7 103%",
        "2 1.00 15.0 15.0 6.4 43%",
        "4 2.00 30.0 29.9 14.2 47%",
        "8 3.99 59.9 59.7 27.7 46%",
        "16 7.97 119.6 119.3 49.5 41%",
        "32 15.90 164.3 164.3 77.6 47%",
        "64 31.60 164.3 164.3 103.1 63%",
        "128 62.40 164.3 164.3 118.8 72%",
        "256 121.77 164.3 164.3 143.2 87%",
        "512 232.22 164.3 164.3 156.0 95%",
        # the KV of 16 and 64 users; query heads, KV heads, FLOP/B
        "16 0.50 7.5 6.9 92%",
        "64 0.50 7.5 6.6 88%",
        "32 32 0.50",
        "32 8 2.00",
        "1 FLOP per 12 bytes, 0.083 FLOP/B",
        "roof 1.25 GFLOP/s, measured 0.8",
    ),
    "where_jobs_land.py": (
        "two-core CPU, fp32: ridge at 11.0 FLOP/B",
        "tables, decode of 1 0.50 left, memory",
        "tables, decode of 8 3.99 left, memory",
        "tables, decode of 64 31.36 right, compute",
        "tables, prompt of 256 118.33 right, compute",
        "own KV, decode of 1 2.00 left, memory",
        "own KV, decode of 64 2.00 left, memory",
        "small step, residual 0.08 left, memory 1.25 GFLOP/s",
        "H100 SXM, bf16: ridge at 295.2 FLOP/B",
        "tables, decode of 1 1.00 left, memory 3.35 TFLOP/s",
        "tables, prompt of 256 236.66 left, memory",
        "tables, prompt of 1024 771.71 right, compute 989 TFLOP/s",
        "small step, residual 0.17 left, memory",
        "bandwidth 223 times, math 6,019 times, so the ridge lies 27 times further right",
    ),
    "predict_8b.py": (
        # tokens, step ms, fetch ms, math ms, tokens/s, limit
        "1 4.78 4.78 0.02 209 memory",
        "8 4.78 4.78 0.13 1,675 memory",
        "64 4.78 4.78 1.04 13,400 memory",
        "256 4.78 4.78 4.14 53,600 memory",
        "512 8.28 4.78 8.28 61,812 compute",
        "1024 16.57 4.78 16.57 61,812 compute",
        "bf16 16 GB: 4.78 ms a token, at most 209 tokens/s; the ridge needs 295 tokens",
        "fp8 8 GB: 2.39 ms a token, at most 419 tokens/s; the ridge needs 295 tokens",
        "H100 SXM 295.2 bf16",
        "B200 281.2 bf16",
        "A100 SXM 80 GB 153.0 bf16",
        "two-core CPU 10.1 fp32",
    ),
    "tiny_factory.py": (
        "tables 339.7 MB 84,934,656 weights",
        "KV of 512 tokens 37.7 MB",
        "to fetch for a token 377.5 MB",
        "no faster than 31.5 ms bound by memory",
        "measured 37.5 ms",
        "share of the roof 84%",
        "64 2,415.9 7.1 229.6 ms",
    ),
    "forge_qwen3.py": (
        "596,049,920 parameters, 1.192 GB in bf16, 114,688 B of KV a token",
        "moves 1.662 GB: 0.815 ms",
        "math 1.192 GFLOP: 3.8 us",
        "1,227 tokens/s, bound by memory, compute busy 0.5%",
        "intensity 0.72 FLOP/B against a ridge of 153",
        "1.96 ms, bound by compute intensity 512 FLOP/B",
        "attention 939.5 470.0 2.00 44.1%",
        "intensity 1.28 FLOP/B against a ridge of 153",
        "without them 0.72 FLOP/B, with them 1.28",
    ),
    "calibrate_llama_cpp.py": (
        # Known of llama.cpp on this chip: 45 to 47 % of the bandwidth, 70 to 95 us a layer.
        "told by the rows: constant, memory",
        "share of the bandwidth 45%",
        "us a layer",
        # precision, context, measured ms
        "bf16 2048 19.22",
        "bf16 4096 19.79",
        "q4_k_m 4096 8.63",
    ),
    "draw_roofs.py": (
        "H100 SXM.svg: ridge at 295 FLOP/B; memory-bound",
        "B200.svg: ridge at 281 FLOP/B; memory-bound",
        "bf16: 989 TFLOP/s",
        "memory: 8.00 TB/s",
        "bf16: 2.25 PFLOP/s",
    ),
    "closed_forms.py": (
        "F*k*n/(-F*k - F*n + beta*k*n)",
        r"in LaTeX: \frac{F k n}{- F k - F n + \beta k n}",
        "= 344.9 at k = 4096, n = 4096",
        "bf16 F/beta 1",
        "uniform-fp8 F/beta 1",
        "int8 F/beta 1",
        "w8a16 F/(2*beta) 1/2",
        "w4a16 33*F/(128*beta) 33/128",
        "h/g",
        "attention: FLOPs and bytes both grow with the batch, so its intensity (4 FLOP/B for long "
        "contexts) stays on one side of the ridge (295 FLOP/B) at every batch",
        "= 846.0 at S = 256",
        "114512*beta/(F - 4*beta)",
        "= 393.2",
        "1960513/(16*S) = 29.9 at S = 4096",
        "= 34.4 at t = 0.01, S = 4096",
        "975639/(2*B) = 30,488.7 at B = 16",
    ),
}


@cache
def run(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-X", "utf8", "-W", "error", str(EXAMPLES / name)],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_runs_quietly(name):
    done = run(name)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", EXPECTED)
def test_an_example_prints_the_figures(name):
    printed = " ".join(run(name).stdout.split())
    missing = [figure for figure in EXPECTED[name] if figure not in printed]
    assert not missing, run(name).stdout


@pytest.mark.parametrize("name", EXPECTED)
def test_the_lines_of_an_example_fit_a_page(name):
    prose = ("attention: ",)  # an error's message is one line, however long
    lines = [line for line in run(name).stdout.splitlines() if not line.strip().startswith(prose)]
    assert max(map(len, lines)) <= 100


def test_every_example_is_covered():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)
