"""Measuring: what is counted, how large jobs are, what medians and budgets make of times.

No test times anything: a clock that the test turns takes the real one's place.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.interfaces.measuring import host, stopwatch
from perfmodel.interfaces.measuring.arrays import Arrays, arrays_of
from perfmodel.interfaces.measuring.decoder import Decoder, check_supported
from perfmodel.interfaces.measuring.jobs import Bench, Job
from perfmodel.interfaces.measuring.measure import _largest_product
from perfmodel.interfaces.measuring.record import Machine, Times
from perfmodel.interfaces.measuring.sizing import Sizes, sized
from perfmodel.interfaces.measuring.stopwatch import Stopwatch, Timing

MIB = 2**20
ERRORS = pm.errors


# -- a clock that the test turns -------------------------------------------------------------------


class Clock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def takes(self, *seconds: float) -> Callable[[], None]:
        """A call that takes these times, one after another, the last of them ever after."""
        left = list(seconds)

        def call() -> None:
            self.now += left[0] if len(left) == 1 else left.pop(0)

        return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    turned = Clock()
    monkeypatch.setattr(stopwatch, "clock", turned)
    monkeypatch.setattr(stopwatch, "settle", lambda: None)
    return turned


def silent(used: float, name: str) -> None:
    """Nobody is told."""


def test_all_calls_warm_up_then_take_turns(clock):
    order: list[str] = []
    slow, quick = clock.takes(9, 1, 5, 3, 2, 4, 7, 6), clock.takes(0.5)
    calls = [
        ("slow", lambda: (order.append("slow"), slow())),
        ("quick", lambda: (order.append("quick"), quick())),
    ]
    first, second = Stopwatch.started(1000, silent).rounds(calls)
    assert order == ["slow", "quick"] * 8  # a warm-up and seven rounds
    assert first.times == (1, 5, 3, 2, 4, 7, 6)  # without the 9 of the warm-up
    assert first.median == 4
    assert first.warmed
    assert second.times == (0.5,) * 7


def test_what_the_time_does_not_hold_is_left_out(clock):
    # Warm-ups take 10 + 1 of 20 s, so 9 are left: ten do not fit, one at a time does.
    timings = Stopwatch.started(20, silent).rounds([("a", clock.takes(10)), ("b", clock.takes(1))])
    assert timings[0] == Timing((10,), warmed=False)
    assert timings[1] == Timing((1,) * 7, warmed=True)
    # 11 + 7 * 1: the rounds are over before the time is.
    assert clock.now == 100 + 18


def test_a_call_runs_once_however_little_the_time(clock):
    (timing,) = Stopwatch.started(1e-3, silent).rounds([("a", clock.takes(5))])
    assert timing == Timing((5,), warmed=False)


def test_the_budget_ends_the_rounds(clock):
    # 3 + 2 to warm up, then rounds of 5: 25 s hold four.
    timings = Stopwatch.started(25, silent).rounds([("a", clock.takes(3)), ("b", clock.takes(2))])
    assert [len(timing.times) for timing in timings] == [4, 4]
    assert clock.now == 125


def test_nothing_is_timed_while_threads_spin(monkeypatch):
    """As OpenBLAS does after a product: its threads use the processor while nobody calls."""
    spent, slept = iter([0.0, 0.01, 0.01, 0.02, 0.02, 0.0201]), []
    monkeypatch.setattr(stopwatch.time, "process_time", lambda: next(spent))
    monkeypatch.setattr(stopwatch.time, "sleep", slept.append)
    stopwatch.settle()
    assert len(slept) == 3  # 10 ms used in each of two waits, next to none in the third


@pytest.mark.parametrize(("spare", "side"), [(1e9, 1024), (3 * 4 * 512**2, 512)])
def test_the_product_is_the_largest_that_takes_a_small_part(clock, monkeypatch, spare, side):
    # A nanosecond a cubed side: 0.13 s, 1.07 s, 8.6 s; of 60 s, 4 s are allowed.
    op = pm.gemm(inner=1, outer=1, tokens=1, precision="fp32")
    monkeypatch.setattr(
        "perfmodel.interfaces.measuring.measure.product_of",
        lambda arrays, form, side: Job(str(side), op, clock.takes(side**3 * 1e-9)),
    )
    arrays, sizes = arrays_of("numpy", "cpu", None), Sizes(768, 0, int(spare))
    found = _largest_product(arrays, "fp32", sizes, Stopwatch.started(60, silent))
    assert found.name == str(side)


def test_progress_is_told_by_name_and_share_of_the_time(clock):
    told: list[tuple[float, str]] = []
    watch = Stopwatch.started(10, lambda used, name: told.append((used, name)))
    watch.rounds([("a", clock.takes(4)), ("b", clock.takes(1))])
    assert told[:3] == [(0, "a"), (0.4, "b"), (0.5, "a")]
    assert max(used for used, _ in told) <= 1


def test_a_record_of_times_keeps_median_and_extremes():
    found = Times.of("x", Timing((3.0, 1.0, 2.0, 8.0), warmed=True))
    assert (found.time, found.fastest, found.slowest, found.repeats) == (2.5, 1.0, 8.0, 4)
    assert found.spread == "2.50 s, median of 4 from 1.00 s to 8.00 s"
    assert Times.of("x", Timing((3.0,), warmed=False)).spread == "3.00 s, once, cold"


# -- sizes -----------------------------------------------------------------------------------------


def test_a_table_is_four_times_the_cache():
    found = sized(cache=4 * MIB, memory=1e9, width=4)
    # 16 MiB are 2,048 x 2,048 numbers; 512 inputs and as many outputs of 2,048 are 8 MiB more, a
    # quarter of the table is spared for the matrices of a large product.
    assert found == Sizes(side=2048, nbytes=28 * MIB, spare=4 * MIB)
    half = sized(cache=4 * MIB, memory=1e9, width=2)
    assert half.side**2 * 2 >= 16 * MIB > (half.side - 64) ** 2 * 2


def test_little_memory_makes_it_smaller_and_says_so():
    found = sized(cache=4 * MIB, memory=24 * MIB, width=4)
    assert found.nbytes <= 24 * MIB
    # 5 n^2 + 2 x 512 x 4 n = 24 MiB at n = 1,871; the multiple of 64 below is 1,856.
    assert found.side == 1856
    assert found.note == (
        "tables of 13.8 MB in place of 16.8 MB, for memory is 25.2 MB: 3.3 times the last-level "
        "cache"
    )
    twice = sized(cache=4 * MIB, memory=18 * MIB, width=4)
    assert twice.side**2 * 4 >= 8 * MIB
    assert twice.note.endswith(", of which some may serve")


def test_too_little_memory_is_refused_with_what_it_takes():
    # 8 MiB: 1,449 rows, of 64 together 1,472; 4 x 1,472^2 + 2 x 512 x 1,472 x 4 = 14.70 MB, and
    # three matrices of 512 x 512 are 3.15 MB.
    with pytest.raises(ERRORS.DoesNotFitError, match=r"memory: expected at least 17\.8 MB"):
        sized(cache=4 * MIB, memory=17e6, width=4)


def test_a_small_cache_does_not_make_jobs_too_short_to_time():
    assert sized(cache=MIB, memory=1e9, width=4, least=64 * MIB).side == 4096


def test_the_cache_is_that_of_the_last_level_each_shared_one_once(tmp_path):
    def cache(cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
        folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        told = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
        for name, value in told.items():
            (folder / name).write_text(f"{value}\n")

    for cpu in range(4):
        cache(cpu, 0, 1, "Data", "32K", str(cpu))
        cache(cpu, 1, 1, "Instruction", "64M", str(cpu))
        cache(cpu, 2, 3, "Unified", "16M", "0-1" if cpu < 2 else "2-3")
    assert host.caches(str(tmp_path)) == (4 * 32 * 1024, 32 * MIB)
    assert host.last_level_cache(str(tmp_path)) == 32 * MIB
    assert host.last_level_cache(str(tmp_path / "none")) is None
    assert host.caches(str(tmp_path / "none")) == ()


def test_caches_are_told_by_level():
    machine = measurement().machine.model_copy(update={"caches": (96_000, 4_000_000, 32 * MIB)})
    told = measurement(machine=machine).explain().splitlines()[1]
    assert told.startswith("2 cores, L1 96.0 kB, L2 4.00 MB, last-level cache 33.6 MB; ")
    assert "L1" not in measurement().explain()


@pytest.mark.parametrize("group", [
    {"memory.max": "4294967296", "memory.current": "1073741824"},
    {"memory/memory.limit_in_bytes": "4294967296", "memory/memory.usage_in_bytes": "1073741824"},
    {"memory.max": "max", "memory.current": "1073741824"},
])  # fmt: skip
def test_memory_is_what_a_container_has(monkeypatch, group):
    files = {f"/sys/fs/cgroup/{name}": f"{value}\n" for name, value in group.items()}
    files["/proc/meminfo"] = "MemTotal: 8388608 kB\nMemFree: 5 kB\nMemAvailable: 6291456 kB\n"
    monkeypatch.setattr(host, "_read", lambda path: files.get(path, ""))
    gib = 2**30
    unlimited = group.get("memory.max") == "max"
    assert host.memory() == ((8 * gib, 6 * gib) if unlimited else (4 * gib, 3 * gib))


def test_where_nothing_tells_the_memory_it_must_be_asked_for(monkeypatch):
    monkeypatch.setattr(host, "_read", lambda path: "")
    monkeypatch.setattr(host, "last_level_cache", lambda: MIB)
    assert host.memory() == (None, None)
    with pytest.raises(ERRORS.InvalidValueError, match="memory: required"):
        pm.measure(seconds=1)


def test_the_processor_has_a_name(monkeypatch):
    told = "processor\t: 0\nmodel name\t: Some  CPU @ 2 GHz\n"
    monkeypatch.setattr(host, "_read", lambda path: told)
    assert host.cpu_name() == "Some CPU @ 2 GHz"
    monkeypatch.setattr(host, "_read", lambda path: "")
    assert host.cpu_name()


def test_a_name_of_any_length_is_cut(monkeypatch):
    monkeypatch.setattr(host, "_read", lambda path: f"model name: {'x' * 900}\n")
    assert len(host.cpu_name()) == 200


def test_a_system_that_says_nothing_of_use_is_no_failure(monkeypatch):
    monkeypatch.setattr(host, "_read", lambda path: "MemTotal: lots kB\nMemFree:\n")
    assert host.memory() == (None, None)

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError("no")

    monkeypatch.setattr(host.os, "getloadavg", refuse)
    assert host.load() is None
    monkeypatch.delattr(host.os, "getloadavg")  # Windows
    assert host.load() is None
    for failed in (refuse, lambda *_, **__: (_ for _ in ()).throw(host.subprocess.SubprocessError)):
        monkeypatch.setattr(host.sys, "platform", "darwin")
        monkeypatch.setattr(host.subprocess, "run", failed)
        assert host.last_level_cache("/nowhere") is None
        assert host.memory() == (None, None)


# -- what is counted -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench.laid_out(arrays_of("numpy", "cpu", None), "fp32", Sizes(768, 0, 0))


def jobs_of(bench: Bench) -> dict[str, Job]:
    return {job.name: job for job in (*bench.traffic(), *bench.real())}


N = 768 * 768  # numbers of the table


@pytest.mark.parametrize(
    ("name", "flops", "nbytes"),
    [
        # 2 FLOPs a number and token; the table once, inputs and outputs of each token.
        ("table x 1 token", 2 * N, 4 * (N + 2 * 768)),
        ("table x 512 tokens", 512 * 2 * N, 4 * (N + 512 * 2 * 768)),
        # Two lists of half the table: a product and an addition each; one number comes out.
        ("dot product", 2 * (N / 2), 4 * (N + 1)),
        ("copy", 0, 2 * 4 * N / 2),
        ("triad", 2 * N / 3, 3 * 4 * N / 3),
        # 16 users: 768 x 768 / 2 / (16 x 1,024) = 18 tokens of keys, 18 of values, each 1,024
        # wide; 2 FLOPs with a key and 2 with a value; query and result pass too.
        ("own KV, 16 users", 16 * 18 * 1024 * 4, 4 * (16 * 18 * 1024 * 2 + 16 * 1024 * 2)),
        # 196,608 numbers are 192 rows of 1,024.
        ("add two lists", 192 * 1024, 3 * 4 * 192 * 1024),
    ],
)
def test_flops_and_bytes_by_hand(bench, name, flops, nbytes):
    op = jobs_of(bench)[name].operation
    assert (op.flops, op.nbytes, op.calls) == (flops, nbytes, 1)


def test_intensities_are_those_of_the_article():
    """Its table: 0.5 FLOP/B for one token, about 122 for 256, 0.5 for KV, 0.08 for adding."""
    op = pm.gemm(inner=10_000, outer=10_000, tokens=256, precision="fp32")
    assert round(op.intensity, 2) == 121.77
    jobs = jobs_of(Bench.laid_out(arrays_of("numpy", "cpu", None), "fp32", Sizes(3200, 0, 0)))
    assert jobs["table x 1 token"].operation.intensity == pytest.approx(0.5, rel=1e-3)
    for users in (16, 64):
        assert jobs[f"own KV, {users} users"].operation.intensity == pytest.approx(0.5, rel=0.02)
    assert jobs["add two lists"].operation.intensity == pytest.approx(1 / 12)


def test_jobs_compute_what_they_say(bench):
    table = bench.table.reshape(768, 768)
    x = bench.inputs[:4]
    bench.through_table(4).call()
    np.testing.assert_allclose(bench.outputs[:4], x @ table.T, rtol=1e-4, atol=1e-4)
    jobs = {job.name: job for job in bench.traffic()}
    a, b = bench.parts(2)
    assert float(jobs["dot product"].call()) == pytest.approx(float(a @ b), rel=1e-3, abs=1e-2)
    a, b, c = bench.parts(3)
    expected = a + 3 * b
    jobs["triad"].call()
    np.testing.assert_allclose(c, expected, rtol=1e-6)
    added = bench.addition()
    expected = a + b
    added.call()
    np.testing.assert_allclose(c[: 192 * 1024], expected[: 192 * 1024], rtol=1e-6)
    a, b = bench.parts(2)
    jobs["copy"].call()
    np.testing.assert_array_equal(a, b)


# -- a measurement ---------------------------------------------------------------------------------


def measurement(**changes: Any) -> pm.Measurement:
    """10 GB/s by the dot product, 100 GFLOP/s."""

    def timed(name: str, op: pm.Operation, time: float, counts: str = "") -> Any:
        from perfmodel.interfaces.measuring.record import Timed

        timing = Timing((time, time / 2, 2 * time), warmed=True)
        return Timed.of(name, timing, operation=op, counts=counts)

    table = pm.gemm(inner=10_000, outer=10_000, tokens=1, precision="fp32")
    dot = pm.gemm(inner=50_000_000, outer=1, tokens=1, precision="fp32")
    square = pm.gemm(inner=1000, outer=1000, tokens=1000, precision="fp32")
    many = pm.gemm(inner=10_000, outer=10_000, tokens=256, precision="fp32")
    fields: dict[str, Any] = {
        "machine": Machine(
            name="Chip", device="cpu", backend="numpy", version="2.0", blas="blas", threads=2,
            cores=2, cache=32 * MIB, memory=16e9, load=0.1,
        ),
        "date": "2026-11-30",
        "precision": "fp32",
        "traffic": (
            timed("table x 1 token", table, table.nbytes / 9e9),
            timed("dot product", dot, dot.nbytes / 10e9),
            timed("copy", dot, dot.nbytes / 20e9),  # faster, but it is no reading
        ),
        "products": (timed("matrices", square, square.flops / 100e9),),
        "jobs": (timed("one", table, 2 * table.nbytes / 10e9), timed("256", many, 1.0)),
        "seconds": 10,
        "took": 9,
        "allocated": 1e9,
    }  # fmt: skip
    return pm.Measurement(**fields | changes)


def test_the_memory_roof_is_the_faster_reading():
    found = measurement()
    assert found.reading.name == "dot product"
    assert found.gpu.memory_bandwidth == pytest.approx(10e9)
    assert found.gpu.peak("fp32") == pytest.approx(100e9)
    assert found.gpu.last_level_cache == 32 * MIB
    assert found.gpu.visible_capacity == 16e9


def test_shares_of_the_roof_by_hand():
    one, many = measurement().jobs
    found = measurement()
    assert found.share(one) == pytest.approx(0.5)  # twice as long as its bytes at 10 GB/s
    # 2 x 256 x 1e8 FLOPs at 100 GFLOP/s are 0.512 s of the second that it took.
    assert found.share(many) == pytest.approx(0.512)
    assert found.roof(many) == pytest.approx(100e9)  # 121.77 FLOP/B, past the ridge of 10
    assert found.roof(one) == pytest.approx(10e9 * one.intensity)
    assert many.rate == pytest.approx(51.2e9)


def test_the_text_has_the_table_and_the_notes():
    text = measurement(notes=("x is so",)).explain()
    assert "Chip, NumPy 2.0 (blas), 2 threads; 2026-11-30" in text
    assert "memory roof 10.0 GB/s: dot product" in text
    assert "compute roof 100 GFLOP/s in fp32; ridge at 10.0 FLOP/B" in text
    row = next(line for line in text.splitlines() if line.startswith("  256 "))
    assert row.split()[1:5] == ["121.77", "51.20", "100.00", "51%"]
    assert text.endswith("note: x is so")


def test_it_shows_itself_in_a_line():
    assert repr(measurement()) == (
        "<Measurement of Chip, NumPy 2.0 (blas), 2 threads: 10.0 GB/s, 100 GFLOP/s in fp32; 2 jobs>"
    )


def test_origins_say_how_it_was_measured():
    gpu = measurement().gpu
    origins = {origin.field: origin for origin in gpu.origins}
    assert set(origins) == set(gpu.figures())
    roof = origins["memory_bandwidth"]
    assert (roof.kind, roof.place, roof.date) == ("measured", "dot product", "2026-11-30")
    # Median 10 GB/s; one repeat took half as long, one twice.
    assert roof.note.startswith("median of 3, from 5.00 GB/s to 20.0 GB/s; Chip, NumPy 2.0")
    assert origins["last_level_cache"].kind == "device-reported"


def test_an_assumed_cache_is_no_figure_of_the_chip():
    machine = measurement().machine.model_copy(update={"cache_assumed": True})
    assert measurement(machine=machine).gpu.last_level_cache is None


@pytest.mark.parametrize("name", ["Chip", 'a "b" \\ c', "Größe µ"])
def test_the_file_reads_back_as_the_same_chip(tmp_path, name):
    machine = measurement().machine.model_copy(update={"name": name})
    found, path = measurement(machine=machine), tmp_path / "mine.toml"
    path.write_text(found.to_toml(), encoding="utf-8")
    assert pm.read_gpu(path) == found.gpu
    assert tomllib.loads(found.to_toml())["memory_bandwidth"]["kind"] == "measured"


def test_a_file_of_several_formats_reads_back_in_any_order(tmp_path):
    (fp32,), path = measurement().products, tmp_path / "mine.toml"
    products = [fp32]
    for form in ("bf16", "fp16"):
        op = pm.gemm(inner=1000, outer=1000, tokens=1000, precision=form)
        products.append(fp32.model_copy(update={"name": form, "operation": op}))
    for given in (products, products[::-1]):
        found = measurement(products=tuple(given))
        path.write_text(found.to_toml(), encoding="utf-8")
        assert pm.read_gpu(path) == found.gpu


def test_a_measurement_predicts_at_once():
    found = measurement()
    shape = pm.ModelShape.dense(layers=2, hidden=64, heads=4, ffn=256, vocab=1000)
    step = pm.decode(shape, found.gpu, batch=1, context=100, precision="fp32")
    assert step.floor > 0
    with pytest.raises(ERRORS.UnsupportedFormatError, match="it has: fp32"):
        pm.decode(shape, found.gpu, batch=1, context=100, precision="bf16")


def test_json_reads_back():
    found = measurement()
    assert pm.Measurement.model_validate_json(found.model_dump_json()) == found


# -- the whole of it, on a small cache -------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a cache of 1 MiB, where jobs are over at once."""
    monkeypatch.setattr(host, "last_level_cache", lambda: MIB)
    monkeypatch.setattr(Arrays, "least", 0)


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds it 1 ms later."""
    ticks = iter(range(10**9))
    monkeypatch.setattr(stopwatch, "clock", lambda: next(ticks) / 1000)
    monkeypatch.setattr(stopwatch, "settle", lambda: None)


@pytest.mark.usefixtures("small", "turned")
def test_a_measurement_has_every_job():
    found = pm.measure(seconds=60, memory=1e8)
    assert [one.name for one in found.traffic] == [
        "table x 1 token", "dot product", "copy", "triad"
    ]  # fmt: skip
    tokens = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert [job.name for job in found.jobs] == [
        *(f"table x {n} token{'s' * (n > 1)}" for n in tokens),
        "own KV, 16 users", "own KV, 64 users", "add two lists",
    ]  # fmt: skip
    assert all(one.repeats == 7 and one.warmed for one in (*found.traffic, *found.jobs))
    assert all(one.time == pytest.approx(1e-3) for one in (*found.traffic, *found.jobs))
    # 4 MiB of table: 1,024 rows of 1,024; 2 x 512 x 1,024 numbers pass it; three matrices of 512.
    assert found.allocated == 4 * MIB + 4 * 2 * 512 * 1024 + 3 * 4 * 512**2
    assert found.jobs[0].operation.weight_bytes == 4 * MIB
    assert not any("repeats" in note or "took" in note for note in found.notes)


@pytest.mark.usefixtures("small", "turned")
def test_roofs_alone_are_fewer_jobs():
    assert pm.measure(seconds=10, memory=1e8, jobs=False).jobs == ()


@pytest.mark.usefixtures("small", "turned")
def test_a_short_time_says_what_it_cut():
    found = pm.measure(seconds=1e-3, memory=1e8)
    assert {one.repeats for one in found.jobs} == {1}
    assert not any(one.warmed for one in found.jobs)
    cut, over = found.notes[-2:]
    assert cut == "0.001 s left 1 of 7 repeats to some jobs, and to 18 no call to warm up"
    assert over.endswith("not 0.001 s: each job runs at least once")


@pytest.mark.usefixtures("small", "turned")
def test_a_time_without_end_is_used_as_far_as_needed():
    found = pm.measure(seconds=1e18, memory=1e8, jobs=False)
    assert 0 < found.took < 60  # of so many ticks of 1 ms, which a float of 1e18 does not tell


@pytest.mark.usefixtures("turned")
def test_a_tiny_cache_still_leaves_each_user_a_token(monkeypatch):
    monkeypatch.setattr(host, "last_level_cache", lambda: 4096)
    monkeypatch.setattr(Arrays, "least", 0)
    found = pm.measure(seconds=1, memory=1e8)
    # 512 x 512 numbers, halved for keys and values: 2 tokens of 1,024 for each of 64 users.
    many = next(job for job in found.jobs if job.name == "own KV, 64 users").operation
    assert many.flops == 64 * 2 * 1024 * 4


@pytest.mark.usefixtures("small", "turned")
def test_all_roofs_are_of_as_many_threads(monkeypatch):
    """OPENBLAS_NUM_THREADS=1: lists are not dealt to more threads than a product has."""
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    monkeypatch.setattr(host, "cores", lambda: 2)
    for threads in (1, 2):
        arrays: Any = arrays_of("numpy", "cpu", threads)
        monkeypatch.setattr(arrays, "_threads", 2)  # as where nothing is asked for
        with arrays.limited():
            assert len(arrays._dealt(len, range(100))) == threads


@pytest.mark.usefixtures("small", "turned")
def test_a_device_without_a_word_about_its_cache_has_an_assumed_one(monkeypatch):
    monkeypatch.setattr(host, "last_level_cache", lambda: 0)
    monkeypatch.setattr(host, "ASSUMED_CACHE", MIB)
    assert pm.measure(seconds=1, memory=1e8, jobs=False).machine.cache_assumed


@pytest.mark.usefixtures("small", "turned")
def test_little_memory_is_a_note():
    found = pm.measure(seconds=1, memory=10e6, jobs=False)
    assert found.notes[0].startswith("tables of ")
    assert found.allocated <= 10e6


@pytest.mark.usefixtures("small", "turned")
def test_an_unknown_cache_and_other_programs_are_notes(monkeypatch):
    monkeypatch.setattr(host, "last_level_cache", lambda: None)
    monkeypatch.setattr(host, "ASSUMED_CACHE", MIB)
    monkeypatch.setattr(host, "load", lambda: 3.2)
    monkeypatch.setattr(host, "cores", lambda: 4)
    found = pm.measure(seconds=10, memory=1e8, jobs=False)
    assert found.gpu.last_level_cache is None
    assert "nothing tells the last-level cache; 1.05 MB assumed" in found.notes
    assert any("a load of 3.2 on 4 cores" in note for note in found.notes)


@pytest.mark.usefixtures("small", "turned")
def test_one_thread_where_one_is_asked_for():
    pytest.importorskip("threadpoolctl", reason="threadpoolctl is not installed")
    assert pm.measure(seconds=1, memory=1e8, jobs=False, threads=1).machine.threads == 1


@pytest.mark.usefixtures("small", "turned")
def test_without_threadpoolctl_threads_are_unknown_and_cannot_be_set(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "threadpoolctl", None)
    found = pm.measure(seconds=1, memory=1e8, jobs=False)
    assert found.machine.threads is None
    assert any(note.startswith("threads unknown") for note in found.notes)
    with pytest.raises(ERRORS.MissingExtraError, match=r"perfmodel\[measure\]"):
        pm.measure(seconds=1, memory=1e8, threads=2)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"seconds": 0}, ERRORS.InvalidValueError, "seconds: "),
        ({"seconds": math.nan}, ERRORS.InvalidValueError, "seconds: "),
        ({"seconds": "long"}, ERRORS.InvalidValueError, "seconds: "),
        ({"memory": 0}, ERRORS.InvalidValueError, "memory: "),
        ({"memory": 1e18}, ERRORS.InvalidValueError, "memory: expected at most"),
        ({"memory": 1e6}, ERRORS.DoesNotFitError, "memory: expected at least"),
        ({"threads": 0}, ERRORS.InvalidValueError, "threads: "),
        ({"threads": 10**6}, ERRORS.InvalidValueError, "threads: expected at most the "),
        ({"backend": "jax"}, ERRORS.InvalidValueError, "backend: expected one of numpy, torch"),
        ({"device": "cuda"}, ERRORS.InvalidValueError, "device: NumPy knows the cpu alone"),
        ({"device": "tpu"}, ERRORS.InvalidValueError, "device: expected one of cpu, cuda, mps"),
        ({"precision": "bf16"}, ERRORS.InvalidValueError, "precision: expected one of fp32"),
        ({"jobs": "no"}, ERRORS.InvalidValueError, "jobs: expected True or False"),
        ({"progress": True}, ERRORS.InvalidValueError, "progress: expected a function or None"),
    ],
)
@pytest.mark.usefixtures("small")
def test_wrong_input_is_named(wrong, error, said):
    with pytest.raises(error, match=said):
        pm.measure(**{"seconds": 1, "memory": 1e8} | wrong)


def test_pytorch_that_is_missing_is_named(monkeypatch):
    for name in ("torch", "torch.nn", "torch.nn.functional"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    monkeypatch.delitem(
        __import__("sys").modules, "perfmodel.interfaces.measuring._torch", raising=False
    )
    with pytest.raises(ERRORS.MissingExtraError, match="pip install torch"):
        pm.measure(backend="torch")


# -- the decoder -----------------------------------------------------------------------------------

TINY = pm.ModelShape.dense(
    layers=2, hidden=32, heads=4, kv_heads=2, head_dim=8, ffn=48, vocab=50, name="tiny"
)
PLAIN = pm.ModelShape.dense(
    layers=2, hidden=32, heads=4, ffn=48, vocab=50, gated=False, tied=True, norm="layer"
).with_(qkv_bias=True, output_bias=True, bias=True, positions=16)
# A head's bias is none that the decoder has.
PLAIN = PLAIN.model_copy(update={"head": PLAIN.head.model_copy(update={"bias": False})})
NORMED = TINY.with_(qk_norm="head")
SHAPES = {"grouped": TINY, "plain": PLAIN, "qk norm": NORMED}
BACKENDS = [
    "numpy",
    pytest.param("torch", marks=pytest.mark.skipif(
        not __import__("importlib.util").util.find_spec("torch"), reason="no PyTorch"
    )),
]  # fmt: skip


@pytest.fixture(params=BACKENDS)
def arrays(request: pytest.FixtureRequest) -> Iterator[Arrays]:
    found = arrays_of(request.param, "cpu", None)
    with found.limited():
        yield found


def as_numpy(x: Any) -> np.ndarray:
    return np.asarray(x).astype(np.float64)


def naive(decoder: Decoder, model: pm.ModelShape, tokens: list[int]) -> np.ndarray:
    """Logits of the last token, token by token and head by head, without a cache."""
    ends = {name: as_numpy(x) for name, x in decoder.ends.items()}

    def norm(x: np.ndarray, held: dict[str, np.ndarray], name: str) -> np.ndarray:
        if f"{name} shift" in held:
            x = (x - x.mean()) / math.sqrt(x.var() + 1e-6)
            return x * held[name] + held[f"{name} shift"]
        return x / math.sqrt((x * x).mean() + 1e-6) * held[name]

    def turned(x: np.ndarray, at: int) -> np.ndarray:
        if "positions" in ends:
            return x
        out, half = x.copy(), len(x) // 2
        for i in range(half):
            angle = at * 10_000 ** (-2 * i / len(x))
            pair = complex(x[i], x[i + half]) * complex(math.cos(angle), math.sin(angle))
            out[i], out[i + half] = pair.real, pair.imag
        return out

    rows = [ends["table"][token] for token in tokens]
    if "positions" in ends:
        rows = [row + ends["positions"][at] for at, row in enumerate(rows)]
    for layer, arrays_held in decoder.layers:
        held = {name: as_numpy(x) for name, x in arrays_held.items()}
        normed = [norm(row, held, "norm") for row in rows]
        if isinstance(layer, pm.Attention):
            h, g, d = layer.heads, layer.kv_heads, layer.head_dim
            queries, keys, values = [], [], []
            for at, x in enumerate(normed):
                qkv = held["qkv"] @ x + held.get("qkv bias", 0)
                heads = qkv.reshape(h + 2 * g, d)
                q, k = heads[:h], heads[h : h + g]
                if layer.qk_norm:
                    q = np.array([norm(one, held, "q norm") for one in q])
                    k = np.array([norm(one, held, "k norm") for one in k])
                queries.append([turned(one, at) for one in q])
                keys.append([turned(one, at) for one in k])
                values.append(heads[h + g :])
            for at in range(len(rows)):
                joined = []
                for head in range(h):
                    group = head // (h // g)  # neighbouring query heads share keys and values
                    scores = [queries[at][head] @ keys[j][group] / math.sqrt(d)
                              for j in range(at + 1)]  # fmt: skip
                    weights = np.exp(np.array(scores) - max(scores))
                    weights /= weights.sum()
                    joined.append(sum(w * values[j][group] for j, w in enumerate(weights)))
                out = held["output"] @ np.concatenate(joined) + held.get("output bias", 0)
                rows[at] = rows[at] + out
        else:
            for at, x in enumerate(normed):
                if layer.gated:
                    gate, up = np.split(held["gate_up"] @ x, 2)
                    inner = gate / (1 + np.exp(-gate)) * up
                else:
                    y = held["up"] @ x + held.get("up bias", 0)
                    tanh = np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3))
                    inner = y * (1 + tanh) / 2
                rows[at] = rows[at] + held["down"] @ inner + held.get("down bias", 0)
    return ends.get("head", ends["table"]) @ norm(rows[-1], ends, "norm")


@pytest.mark.parametrize("name", SHAPES)
def test_the_decoder_agrees_with_loops_over_tokens_and_heads(arrays, name):
    model, tokens = SHAPES[name], [7, 0, 31, 4, 4, 19]
    decoder = Decoder(model, arrays, "fp32", batch=1, context=8)
    found = as_numpy(decoder.step(arrays.array([tokens]), 0))[0]
    np.testing.assert_allclose(found, naive(decoder, model, tokens), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", SHAPES)
def test_a_prefill_then_decode_steps_are_one_prefill(arrays, name):
    decoder = Decoder(SHAPES[name], arrays, "fp32", batch=2, context=7)
    tokens = arrays.array([[7, 0, 31, 4, 4, 19], [1, 2, 3, 4, 5, 6]])
    whole = as_numpy(decoder.step(tokens, 0))
    decoder.step(tokens[:, :3], 0)  # a chunk, a chunk behind it, then a token
    decoder.step(tokens[:, 3:5], 3)
    found = as_numpy(decoder.step(tokens[:, 5:], 5))
    np.testing.assert_allclose(found, whole, atol=1e-5)
    # A decode step reads the cache: with another past it says something else.
    decoder.caches[0][0][:, :, 0] = 1.0
    assert np.abs(as_numpy(decoder.step(tokens[:, 5:], 5)) - whole).max() > 1e-4


@pytest.mark.parametrize("name", SHAPES)
def test_weights_are_as_many_as_the_library_counts(name):
    decoder = Decoder(SHAPES[name], arrays_of("numpy", "cpu", None), "fp32", batch=1, context=4)
    assert decoder.params == SHAPES[name].params
    held = [w for _, one in decoder.layers for w in one.values()]
    assert len({w.__array_interface__["data"][0] for w in held}) == len(held)  # none is shared


@pytest.mark.parametrize("key", ["qwen2.5-0.5b", "qwen3-0.6b", "llama-3.2-1b", "gpt2", "opt-125m"])
def test_models_that_can_be_measured(key):
    check_supported(pm.model(key))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("gemma-3-270m", r"Attention\.post_norm='rms'"),
        ("mixtral-8x7b", "MixtureOfExperts"),
        ("deepseek-v3", "LatentAttention"),
        ("mamba-1.4b", "Mamba"),
    ],
)
def test_models_that_cannot_be_measured_are_refused_by_the_part(key, said):
    with pytest.raises(ERRORS.UnsupportedModelError, match=said):
        pm.measure_model(pm.model(key), measurement())


def test_a_shape_without_a_vocabulary_is_refused():
    shape = pm.ModelShape.dense(layers=1, hidden=32, heads=4, ffn=48)
    with pytest.raises(ERRORS.UnsupportedModelError, match="no embedding or no head"):
        pm.measure_model(shape, measurement())


# -- a model measured ------------------------------------------------------------------------------


@pytest.mark.usefixtures("turned")
def test_the_prediction_comes_first_and_the_ratio_is_over_its_floor():
    told: list[Any] = []
    found = pm.measure_model(
        TINY, measurement(), context=6, prompt=5, memory=1e8, predicted=told.append
    )
    (prefill, decode), = told  # fmt: skip
    gpu = measurement().gpu
    assert prefill == pm.prefill(TINY, gpu, prompt=5, precision="fp32")
    assert decode == pm.decode(TINY, gpu, batch=1, context=6, precision="fp32")
    assert [step.name for step in found.steps] == [
        "prefill, batch 1, 5 tokens", "decode, batch 1, context 6"
    ]  # fmt: skip
    for step, said in zip(found.steps, told[0], strict=True):
        assert step.time == pytest.approx(1e-3)
        assert step.ratio == pytest.approx(1e-3 / said.floor)
    assert found.ran == TINY
    assert found.notes == ()
    ratio = f"{found.steps[1].ratio:.2f} of the floor"
    assert ratio in found.explain()
    assert repr(found).startswith("<MeasuredModel tiny: prefill, batch 1, 5 tokens: ")
    assert ratio in repr(found)
    assert type(found).model_validate_json(found.model_dump_json()) == found


@pytest.mark.usefixtures("turned")
def test_the_scores_of_a_long_prompt_take_memory_twice():
    deep = TINY.model_copy(update={"blocks": ((20, TINY.blocks[0][1]),)})
    # As below, but of 40 tokens 4 heads have 4 x 40 scores each token, twice: 320 numbers.
    block = 32 * 64 + 32 * 32 + 3 * 32 * 48 + 64
    needed = 4 * (10 * (block + 40 * 32) + 2 * 50 * 32 + 32 + 40 * 320)
    for memory, layers in ((1.1 * needed + 1, 10), (1.1 * needed - 1, 9)):
        found = pm.measure_model(deep, measurement(), context=6, prompt=40, memory=memory)
        assert found.ran.layers == layers


@pytest.mark.usefixtures("turned")
def test_where_memory_is_short_fewer_blocks_run_and_times_are_scaled():
    deep = TINY.model_copy(update={"blocks": ((20, TINY.blocks[0][1]),)})
    # A block holds 32 x 64 + 32 x 32 + 3 x 32 x 48 + 64 numbers and 2 x 16 of cache a token; both
    # tables 2 x 50 x 32, the last norm 32. Of a prefill of 5 tokens 96 numbers of gate and up pass,
    # more than the 2 x 4 x 5 of its scores.
    block = 32 * 64 + 32 * 32 + 3 * 32 * 48 + 64
    needed = 4 * (10 * (block + 6 * 32) + 2 * 50 * 32 + 32 + 5 * 96)
    found = pm.measure_model(deep, measurement(), context=6, prompt=5, memory=1.1 * needed + 1)
    assert found.ran.layers == 10
    less = pm.measure_model(deep, measurement(), context=6, prompt=5, memory=1.1 * needed - 1)
    assert less.ran.layers == 9
    assert found.notes[0] == "memory is short: 10 of 20 blocks ran"
    whole = pm.decode(deep, measurement().gpu, batch=1, context=6, precision="fp32").time
    scaled = 1e-3 * whole / found.steps[1].predicted.time
    assert found.notes[2].endswith(pm.units.si(scaled, "s"))
    with pytest.raises(ERRORS.DoesNotFitError, match="for one block of tiny"):
        pm.measure_model(deep, measurement(), context=6, prompt=5, memory=20e3)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"machine": pm.gpu("h100-sxm")}, "machine: expected Measurement"),
        ({"model": "tiny"}, "model: expected ModelShape"),
        ({"batch": 0}, "batch: "),
        ({"context": 1.5}, "context: "),
        ({"prompt": -1}, "prompt: "),
        ({"seconds": math.inf}, "seconds: "),
        ({"predicted": 3}, "predicted: expected a function"),
    ],
)
def test_wrong_questions_about_a_model_are_named(wrong, said):
    with pytest.raises(ERRORS.InvalidValueError, match=said):
        pm.measure_model(**{"model": TINY, "machine": measurement(), "memory": 1e8} | wrong)


# -- the command -----------------------------------------------------------------------------------


def command(*arguments: str) -> int:
    from perfmodel.interfaces.cli import run

    return run(["measure", *arguments])


@pytest.mark.usefixtures("small", "turned")
def test_the_command_prints_writes_and_predicts(capsys, tmp_path):
    from perfmodel.interfaces.cli import run

    file = tmp_path / "mine.toml"
    assert command("--seconds", "1", "--memory", "0.1", "--toml", str(file)) == 0
    assert "table x 512 tokens" in capsys.readouterr().out
    predict = ["predict", "qwen2.5-0.5b", "--gpu", str(file), "--precision", "fp32"]
    assert run(predict) == 0
    assert "NumPy" in capsys.readouterr().out


@pytest.mark.usefixtures("small", "turned")
def test_the_command_shows_the_prediction_before_the_measurement(capsys, tmp_path):
    config = {
        "model_type": "llama", "hidden_size": 32, "intermediate_size": 48, "vocab_size": 50,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    small_model = ["--model", str(tmp_path), "--seconds", "2", "--memory", "0.1"]
    assert command(*small_model, "--context", "9", "--prompt", "8") == 0
    out = capsys.readouterr().out
    assert out.index("predicted, before anything runs") < out.index("\nmeasured")
    assert out.count("decode, batch 1, context 9: floor") == 2
    assert command(*small_model, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [step["name"] for step in told["steps"]][1] == "decode, batch 1, context 512"
    assert told["steps"][1]["ratio"] == told["steps"][1]["time"] / told["steps"][1]["floor"]
    assert told["gpu"]["memory_bandwidth"] == max(one["bandwidth"] for one in told["roofs"][:2])
    assert told["rows"] == []


@pytest.mark.parametrize(
    "wrong",
    [
        ["--seconds", "0"], ["--seconds", "nan"], ["--memory", "0.000001"], ["--backend", "jax"],
        ["--toml", "no/such/folder/x.toml"], ["--model", "no-such-model"], ["--threads", "0"],
        ["--toml", "."], ["--toml", "a\0b"], ["--chart", ""], ["--chart", "x.doc"],
        ["--chart", "/"], ["--batch", "x"], ["--prompt", "0"], ["--model", "mixtral-8x7b"],
        ["--threads", "1e6"], ["--model", "gpt2", "--context", "1025"],
    ],
)  # fmt: skip
@pytest.mark.usefixtures("small")
def test_the_command_refuses_in_one_line_before_it_prints(capsys, wrong):
    assert command(*wrong) == 2
    out, said = capsys.readouterr()
    assert out == ""
    assert said.startswith("perfmodel: ")
    assert said.count("\n") == 1


def test_a_refused_measurement_leaves_no_file(tmp_path):
    file = tmp_path / "x.toml"
    assert command("--toml", str(file), "--threads", "1e6") == 2
    assert not file.exists()


def test_one_thread_is_one():
    machine = measurement().machine.model_copy(update={"threads": 1})
    assert str(machine).endswith(", 1 thread")


def test_a_chart_is_drawn_of_the_measured_jobs(tmp_path):
    pytest.importorskip("perfmodel.interfaces.plots", reason="no plots yet")
    pytest.importorskip("matplotlib", reason="Matplotlib is not installed")
    from perfmodel.interfaces.cli.measure import _draw

    path = Path(tmp_path) / "roof.svg"
    _draw(measurement(), str(path))
    assert path.read_text(encoding="utf-8").startswith("<?xml")
