"""One long table: is it the same however it is made, and does it say what it holds?"""

from __future__ import annotations

import copy
import errno
import itertools
import json
import logging
import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import perfmodel as pm
from perfmodel.interfaces.cli import run
from perfmodel.interfaces.sweeping import grid as grids

pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

E = pm.errors
REL = 1e-12

FAST = pm.GpuSpec(
    name="fast",
    memory_bandwidth=4e12,
    memory_capacity=80e9,
    peak_flops={"bf16": 1e15, "fp8": 2e15},
    link={"bandwidth": 450e9, "domain": 8},
)
SLOW = pm.GpuSpec(
    name="slow",
    memory_bandwidth=1e12,
    memory_capacity=24e9,
    peak_flops={"bf16": 1e14},
    link={"bandwidth": 32e9, "domain": 8},
)
DENSE = pm.ModelShape.dense(
    layers=4, hidden=512, heads=8, kv_heads=4, ffn=1024, vocab=1000, name="dense"
)
WIDE = pm.ModelShape.dense(
    layers=2, hidden=1024, heads=8, kv_heads=8, ffn=2048, vocab=1000, name="wide"
)
WAYS = [pm.Parallelism(), pm.Parallelism(tensor=4), pm.Parallelism(pipeline=2, data=2)]
INNER: dict[str, Any] = {"batch": [1, 8, 64], "context": range(100, 1000, 100)}
OUTER: dict[str, Any] = {"precision": ["bf16", "fp8"], "parallelism": WAYS}


def several(**more: Any) -> pm.Sweep:
    return pm.sweep([DENSE, WIDE], FAST, **INNER | OUTER | more)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks and parts of a table of hundreds of rows."""
    monkeypatch.setattr(grids, "BLOCK", 8)
    monkeypatch.setattr(grids, "PART", 32)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


# -- what the rows are -----------------------------------------------------------------------------


def test_every_combination_has_every_batch_and_context_models_slowest():
    frame = several().to_frame()
    asked = itertools.product(
        ("dense", "wide"), ("bf16", "fp8"), WAYS, INNER["batch"], INNER["context"]
    )
    rows = zip(frame.model, frame.precision, frame.devices, frame.batch, frame.context, strict=True)
    assert list(rows) == [(m, p, w.devices, b, c) for m, p, w, b, c in asked]
    assert len(several()) == len(frame) == 2 * 2 * 3 * 3 * 9


@pytest.mark.parametrize("length", ["context", "prompt"])
def test_each_row_is_the_step_that_its_names_say(length):
    inner = {"batch": [3, 40], length: [7, 300]}
    table = pm.sweep([DENSE, WIDE], [FAST, SLOW], **inner, parallelism=WAYS, engine=[None, "vllm"])
    ask = pm.decode if length == "context" else pm.prefill
    wanted = itertools.product(
        (DENSE, WIDE), (FAST, SLOW), WAYS, (None, "vllm"), inner["batch"], inner[length]
    )
    frame = table.to_frame([*table.columns, "low", "network_time", "kv_traffic"])
    assert len(frame) == 2 * 2 * 3 * 2 * 4
    for row, (model, gpu, ways, engine, batch, n) in zip(frame.itertuples(), wanted, strict=True):
        step = ask(model, gpu, batch=batch, **{length: n}, parallelism=ways, engine=engine)
        assert (row.model, row.gpu, row.batch) == (model.name, gpu.name, batch)
        assert row.engine == (engine or "ideal")
        for name in ("time", "floor", "tokens_per_second", "network_time", "kv_traffic"):
            assert math.isclose(getattr(row, name), getattr(step, name), rel_tol=REL), name
        assert (row.bound, row.fits) == (step.bound, step.fits)
        assert math.isnan(row.low) if step.low is None else math.isclose(row.low, step.low)


def test_points_checked_by_hand():
    # 8e9 weights of 2 B or of 1 B, read once; 131,072 B of KV a token of context, in bf16.
    coarse = pm.ModelShape.from_totals(params=8e9, kv_bytes_per_token=131072, name="8B")
    table = pm.sweep(
        coarse, [FAST, SLOW], batch=[1, 10], context=1000, precision=["bf16", "w8a16"], skip=True
    )
    frame = table.to_frame().set_index(["gpu", "precision", "batch"])
    assert frame.time["fast", "bf16", 1] == pytest.approx((16e9 + 1.31072e8) / 4e12)
    assert frame.time["fast", "bf16", 10] == pytest.approx((16e9 + 1.31072e9) / 4e12)
    assert frame.time["slow", "bf16", 10] == pytest.approx((16e9 + 1.31072e9) / 1e12)
    assert frame.bytes["slow", "w8a16", 10] == pytest.approx(8e9 + 1.31072e9)
    # 17.3 GB and 9.3 GB in 24 GB.
    assert frame.needed["slow", "bf16", 10] == pytest.approx(17.31072e9)
    assert frame.fits.all()


def test_one_value_is_no_axis_and_a_list_of_one_is():
    assert list(pm.sweep(DENSE, FAST, batch=1, context=8).columns)[:3] == [
        "batch",
        "context",
        "time",
    ]
    found = pm.sweep([DENSE], (FAST,), batch=1, context=8, engine=iter([None]))
    assert list(found.columns)[:4] == ["model", "gpu", "engine", "batch"]


def test_checkpoints_of_their_own_precisions_are_told_apart():
    fp8 = WIDE.model_copy(update={"precision": pm.Precision.preset("fp8")})
    table = pm.sweep([DENSE, fp8], FAST, batch=1, context=8)
    assert list(table.precision) == ["bf16", "fp8"]
    assert pm.sweep([DENSE, WIDE], FAST, batch=1, context=8).precision == "bf16"


def test_the_same_name_for_two_models_is_refused():
    other = WIDE.model_copy(update={"name": "dense"})
    with pytest.raises(E.InvalidValueError, match=r"^model: .* names of what differs, got dense"):
        pm.sweep([DENSE, other], FAST, **INNER)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"model": [DENSE, WIDE, DENSE]}, "model: expected each once, got dense twice"),
        ({"gpu": [FAST, SLOW, FAST]}, "gpu: expected each once, got fast twice"),
        ({"precision": ["bf16", "fp8", "bf16"]}, "precision: expected each once, got bf16 twice"),
        # A checkpoint's own precision is bf16, whether it is named or not.
        ({"precision": [None, "bf16"]}, "precision: expected each once, got bf16 twice"),
        ({"engine": ["vllm", "vllm"]}, "engine: expected each once, got vllm twice"),
        ({"efficiency": ["ideal", pm.Efficiency()]}, "efficiency: .* got ideal twice"),
        ({"parallelism": [WAYS[1]] * 2}, "parallelism: expected each once, got tensor 4 twice"),
        (
            {"gpu": [FAST, FAST], "precision": ["bf16", "w8a16"]},
            "gpu: expected each once, got fast twice",
        ),
    ],
)
def test_the_same_twice_is_refused(given, named):
    asked = {"model": DENSE, "gpu": FAST} | INNER | given
    for skip in (False, True):
        with pytest.raises(E.InvalidValueError, match=f"^{named}"):
            pm.sweep(**asked, skip=skip)


def test_batches_and_lengths_are_arrays_and_may_repeat():
    # A log has the same step many times; its rows are those of the table, in their order.
    table = pm.sweep(DENSE, FAST, batch=[8, 1, 8], context=[100, 7, 100], grid=False)
    assert list(table.batch) == [8, 1, 8]
    assert table.time[0] == table.time[2] != table.time[1]
    assert len(pm.sweep(DENSE, FAST, batch=[8, 8], context=[7, 7, 7])) == 6


def test_divisions_that_differ_in_how_they_talk_have_different_names():
    ways = [pm.Parallelism(tensor=4), pm.Parallelism(tensor=4, all_reduce="one-shot")]
    table = pm.sweep(DENSE, FAST, batch=1, context=8, parallelism=ways)
    assert list(table.parallelism) == ["tensor 4", "tensor 4, all reduce one-shot"]


def test_what_fits_is_missing_where_a_capacity_is_not_known(tmp_path):
    unknown = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
    table = pm.sweep(DENSE, [FAST, unknown], batch=1, context=8)
    assert list(table.fits) == [True, None]
    frame = table.to_frame()
    assert frame.fits.isna().tolist() == [False, True]
    assert frame.needed[0] == frame.needed[1]
    table.to_parquet(tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet")["fits"].to_pylist() == [True, None]


# -- combinations that cannot be -------------------------------------------------------------------


def test_what_cannot_be_is_an_error_that_names_the_combination():
    with pytest.raises(E.UnsupportedFormatError, match=r"^wide, slow, fp8, one device: slow has"):
        pm.sweep(WIDE, [FAST, SLOW], **INNER, precision=["bf16", "fp8"])
    with pytest.raises(E.InvalidValueError, match=r"^dense, fast, bf16, tensor 3: .*heads=8"):
        pm.sweep(DENSE, FAST, **INNER, parallelism=[WAYS[0], pm.Parallelism(tensor=3)])
    short = DENSE.with_(positions=16).model_copy(update={"name": "short"})
    with pytest.raises(E.InvalidValueError, match=r"^short, fast, .* 16 learned positions"):
        pm.sweep([DENSE, short], FAST, **INNER)


def test_what_cannot_be_is_left_out_and_told_where_that_is_wanted():
    ways = [WAYS[0], pm.Parallelism(tensor=3)]
    found = pm.sweep(
        DENSE, [FAST, SLOW], **INNER, precision=["bf16", "fp8"], parallelism=ways, skip=True
    )
    frame = found.to_frame()
    rows = frame.groupby(["gpu", "precision", "parallelism"], observed=True).size()
    assert rows.to_dict() == {
        ("fast", "bf16", "one device"): 27,
        ("fast", "fp8", "one device"): 27,
        ("slow", "bf16", "one device"): 27,
    }
    left = [(one.gpu, one.precision, one.parallelism) for one in found.skipped]
    assert left == [
        ("fast", "bf16", "tensor 3"),
        ("fast", "fp8", "tensor 3"),
        ("slow", "bf16", "tensor 3"),
        ("slow", "fp8", "one device"),
        ("slow", "fp8", "tensor 3"),
    ]
    assert "slow has no fp8 peak" in found.skipped[3].reason
    assert [one["reason"] for one in frame.attrs["skipped"]] == [
        one.reason for one in found.skipped
    ]


def test_if_nothing_can_be_there_is_no_table():
    with pytest.raises(E.UnsupportedFormatError):
        pm.sweep(DENSE, SLOW, **INNER, precision=["fp8", "nvfp4"], skip=True)


@pytest.mark.parametrize("skip", [False, True])
def test_a_slip_is_an_error_whatever_is_left_out(skip):
    with pytest.raises(E.UnknownKeyError, match="bf61"):
        pm.sweep(DENSE, FAST, **INNER, precision=["bf16", "bf61"], skip=skip)
    with pytest.raises(E.UnknownKeyError, match="vlm"):
        pm.sweep(DENSE, FAST, **INNER, engine=["vllm", "vlm"], skip=skip)
    with pytest.raises(E.InvalidValueError, match=r"^gpu: "):
        pm.sweep(DENSE, [FAST, "slow"], **INNER, skip=skip)
    with pytest.raises(E.InvalidValueError, match=r"^precision"):
        pm.sweep(DENSE, FAST, **INNER, precision=["bf16", 8], skip=skip)


# -- the same in all modes -------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [True, False], ids=["grid", "pairs"])
@pytest.mark.parametrize("engine", [None, "vllm"])
def test_all_modes_give_the_same_table_to_the_bit(small_parts, client, tmp_path, grid, engine):
    length = np.arange(1, 60)
    asked = {"batch": length if not grid else [1, 9], "context": length * 7, "grid": grid}
    how: dict[str, Any] = OUTER | asked | {"engine": engine}
    here = pm.sweep([DENSE, WIDE], FAST, **how)
    there = pm.sweep([DENSE, WIDE], FAST, **how, client=client)
    whole = here.to_frame()
    blocks = list(here.blocks())
    assert len(blocks) > 10
    assert sum(map(len, blocks)) == len(here)
    for frame in (pd.concat(blocks, ignore_index=True), there.to_frame()):
        pd.testing.assert_frame_equal(frame, whole, check_exact=True)
        assert frame.attrs == whole.attrs
    here.to_parquet(tmp_path / "here.parquet")
    there.to_parquet(str(tmp_path / "there.parquet"))
    pd.testing.assert_frame_equal(
        pd.read_parquet(tmp_path / "here.parquet"), whole, check_exact=True
    )
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "there.parquet").read_bytes()
    assert pq.ParquetFile(tmp_path / "here.parquet").num_row_groups == len(blocks)
    for name, column in here.columns.items():
        assert np.array_equal(column, there.columns[name]), name
        assert np.array_equal(column, whole[name].to_numpy()), name


@pytest.mark.parametrize("length", ["context", "prompt"])
@pytest.mark.parametrize(
    "key", ["qwen3-30b-a3b", "deepseek-v3", "gpt-oss-20b", "qwen3-next-80b-a3b"]
)
def test_all_modes_agree_on_experts_latent_caches_windows_and_states(
    small_parts, client, tmp_path, key, length
):
    chip = pm.gpu("h100-sxm")
    asked: dict[str, Any] = {
        "batch": [1, 7, 64],
        length: range(100, 6000, 300),
        "parallelism": [pm.Parallelism(tensor=4), pm.Parallelism(tensor=4, data=2)],
        "engine": [None, "sglang"],
        "precision": "bf16",
    }
    here = pm.sweep(pm.model(key), [chip], **asked)
    there = pm.sweep(pm.model(key), [chip], **asked, client=client)
    columns = [*here.columns, "low", "network_time", "kv_traffic"]
    whole = here.to_frame(columns)
    cut = pd.concat(list(here.blocks(columns)), ignore_index=True)
    for name, table in (("here", here), ("there", there)):
        table.to_parquet(tmp_path / name, columns=columns)
        read = pd.read_parquet(tmp_path / name)
        for frame in (cut, table.to_frame(columns), read):
            pd.testing.assert_frame_equal(frame, whole, check_exact=True)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()


def test_how_the_table_is_cut_changes_no_bit(monkeypatch):
    whole = several().to_frame()
    for block in (1, 7, 10**6):
        monkeypatch.setattr(grids, "BLOCK", block)
        pd.testing.assert_frame_equal(several().to_frame(), whole, check_exact=True)


def test_workers_are_asked_for_no_more_than_two_parts_a_thread_ahead(
    small_parts, client, monkeypatch
):
    from perfmodel.interfaces.sweeping import workers

    done: list[int] = []
    plain = workers.computed

    def counted(*arguments: Any) -> Any:
        done.append(1)
        return plain(*arguments)

    monkeypatch.setattr(workers, "computed", counted)
    blocks = several(client=client).blocks()
    next(blocks)
    ahead = 2 * sum(client.nthreads().values())
    assert len(done) <= ahead
    assert sum(1 for _ in blocks) + 1 == len(done)
    assert len(done) > ahead


def test_a_worker_that_dies_is_made_up_for(small_parts):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as cluster,
        distributed.Client(cluster) as found,
    ):
        blocks = several(client=found).blocks()
        taken = [next(blocks)]
        one = min(found.run(os.getpid).values())
        os.kill(one, signal.SIGKILL)
        taken += blocks
    pd.testing.assert_frame_equal(
        pd.concat(taken, ignore_index=True), several().to_frame(), check_exact=True
    )


def test_a_cluster_that_fails_is_an_error_and_no_file(client, small_parts, tmp_path, monkeypatch):
    from perfmodel.interfaces.sweeping import workers

    def broken(*arguments: Any) -> Any:
        raise MemoryError("no more")

    monkeypatch.setattr(workers, "computed", broken)
    message = r"^client: expected a cluster that computes all parts, got MemoryError: no more$"
    with pytest.raises(E.InvalidValueError, match=message):
        several(client=client).to_parquet(tmp_path / "x.parquet")
    monkeypatch.undo()
    closed = sys.modules["distributed"].Client(client.cluster)
    table = several(client=closed)
    closed.close()
    with pytest.raises(E.InvalidValueError, match=r"^client: expected a cluster"):
        table.to_parquet(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_parts_that_somebody_cancels_are_an_error(client, small_parts):
    distributed = sys.modules["distributed"]
    blocks = several(client=client).blocks()
    next(blocks)
    client.cancel([distributed.Future(key, client) for key in list(client.futures)])
    with pytest.raises(E.InvalidValueError, match=r"^client: .* cancelled"):
        list(blocks)


def test_what_the_caller_does_to_its_arrays_does_not_matter():
    batch = np.array([1.0, 2.0])
    table = pm.sweep(DENSE, FAST, batch=batch, context=[8])
    batch[:] = 7
    assert list(table.batch) == [1, 2]


def test_a_copy_is_the_same_table():
    table = several(skip=True)
    again = copy.deepcopy(table)
    pd.testing.assert_frame_equal(again.to_frame(), table.to_frame(), check_exact=True)
    assert again.skipped == table.skipped


# -- what a table says of itself -------------------------------------------------------------------


def test_a_file_tells_units_meanings_version_and_assumptions(tmp_path):
    several().to_parquet(tmp_path / "x.parquet")
    schema = pq.read_schema(tmp_path / "x.parquet")
    told = json.loads(schema.metadata[b"perfmodel"])
    assert told["perfmodel"] == pm.__version__
    assert told["phase"] == "decode"
    assert told["asked"]["model"] == ["dense", "wide"]
    assert told["skipped"] == []
    assert list(told["units"]) == schema.names
    for field in schema:
        assert field.metadata[b"unit"].decode() == told["units"][field.name]
        assert field.metadata[b"meaning"].decode() == told["meanings"][field.name]
    units = {"batch": "1", "time": "s", "flops": "FLOP", "bytes": "B", "tokens_per_second": "1/s"}
    assert told["units"].items() >= units.items()
    assumed = set(told["assumptions"])
    assert assumed >= set(pm.decode(DENSE, FAST, batch=1, context=900).assumptions)
    assert assumed >= set(
        pm.decode(
            WIDE, FAST, batch=1, context=900, precision="fp8", parallelism=WAYS[1]
        ).assumptions
    )
    assert pd.read_parquet(tmp_path / "x.parquet").attrs == told
    assert several().to_frame().attrs == told


def test_names_are_kept_once_in_a_file(tmp_path):
    several().to_parquet(tmp_path / "x.parquet")
    file = pq.ParquetFile(tmp_path / "x.parquet")
    group = file.metadata.row_group(0)
    encodings = {
        group.column(at).path_in_schema: group.column(at).encodings
        for at in range(group.num_columns)
    }
    for name in ("model", "precision", "parallelism", "batch", "context", "bound"):
        assert any("DICTIONARY" in encoding for encoding in encodings[name]), name
    types = {field.name: str(field.type) for field in file.schema_arrow}
    assert types["model"] == "dictionary<values=string, indices=int32, ordered=0>"
    assert (types["batch"], types["time"], types["fits"]) == ("int64", "double", "bool")


def test_columns_are_those_that_are_chosen(tmp_path):
    names = ["low", "gpu", "context", "time"]
    table = several()
    assert list(table.to_frame(names)) == names
    assert [list(frame) for frame in table.blocks(names)] == [names]
    table.to_parquet(tmp_path / "x.parquet", columns=names)
    found = pq.read_table(tmp_path / "x.parquet")
    assert found.column_names == names
    assert found["low"].null_count == len(table)  # the ideal has no bands
    assert list(table.to_frame(["batch", "batch"])) == ["batch"]
    # What was asked needs no step computed.
    assert several().to_frame(["context"]).context.max() == 900


@pytest.mark.parametrize("columns", [["tiem"], ["prompt"], ["columns"], [1], ["time", None]])
def test_an_unknown_column_is_refused(tmp_path, columns):
    table = several()
    for ask in (
        table.to_frame,
        table.blocks,
        lambda names: table.to_parquet(tmp_path / "x.parquet", columns=names),
    ):
        with pytest.raises(E.UnknownKeyError, match=r"^columns: no column "):
            ask(columns)
    assert list(tmp_path.iterdir()) == []


def test_the_nearest_column_is_named():
    with pytest.raises(E.UnknownKeyError, match="did you mean 'time'"):
        several().blocks(["tiem"])


@pytest.mark.parametrize("columns", ["time", [], 3])
def test_columns_are_a_list_of_names(columns):
    with pytest.raises(E.InvalidValueError, match=r"^columns: expected "):
        several().to_frame(columns)


# -- files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_write_leaves_what_was_there(small_parts, tmp_path, monkeypatch, stop):
    sweeping = sys.modules["perfmodel.interfaces.sweep"]
    plain, calls = sweeping.computed, itertools.count()

    def interrupted(*arguments: Any) -> Any:
        if next(calls) == 3:
            raise stop
        return plain(*arguments)

    monkeypatch.setattr(sweeping, "computed", interrupted)
    with pytest.raises(stop):
        several().to_parquet(tmp_path / "new.parquet")
    assert list(tmp_path.iterdir()) == []
    old = tmp_path / "old.parquet"
    old.write_text("as it was")
    calls = itertools.count()
    with pytest.raises(stop):
        several().to_parquet(old)
    assert [path.name for path in tmp_path.iterdir()] == ["old.parquet"]
    assert old.read_text() == "as it was"


def test_a_file_takes_the_place_of_another(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_text("something else")
    several().to_parquet(path)
    assert pq.read_metadata(path).num_rows == len(several())


@pytest.mark.parametrize("name", ["missing/x.parquet", "", ".", "x\0y", "x" * 300])
def test_a_file_that_cannot_be_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(E.InvalidValueError, match=r"^path: expected a file in a folder"):
        several().to_parquet(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [None, 3, ["x.parquet"]])
def test_a_path_is_a_text_or_a_path(path):
    with pytest.raises(E.InvalidValueError, match=r"^path: expected a file, got "):
        several().to_parquet(path)


def test_a_disk_without_room_is_an_error_and_leaves_what_was_there(
    small_parts, tmp_path, monkeypatch
):
    path = tmp_path / "x.parquet"
    path.write_text("as it was")

    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", no_room)
    with pytest.raises(E.InvalidValueError, match=r"^path: expected room for a file.*No space"):
        several().to_parquet(path)
    assert [one.name for one in tmp_path.iterdir()] == ["x.parquet"]
    assert path.read_text() == "as it was"


def test_a_device_is_no_file(tmp_path):
    pipe = tmp_path / "x.parquet"
    os.mkfifo(pipe)
    with pytest.raises(E.InvalidValueError, match=r"^path: .*it is no file"):
        several().to_parquet(pipe)
    assert pipe.is_fifo()


def test_a_bar_counts_the_points(small_parts, tmp_path, capsys):
    pytest.importorskip("tqdm")
    several().to_parquet(tmp_path / "x.parquet", progress=True)
    shown = capsys.readouterr()
    assert "100%" in shown.err
    assert "/324" in shown.err
    assert shown.out == ""
    several().to_parquet(tmp_path / "x.parquet")
    assert capsys.readouterr().err == ""


# -- what is not there -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "extra", "ask"),
    [
        ("pyarrow", "sweep", lambda path: several().to_parquet(path)),
        ("tqdm", "sweep", lambda path: several().to_parquet(path, progress=True)),
        ("distributed", "dask", lambda _: several(client=object())),
    ],
)
def test_what_an_extra_installs_is_named_where_it_is_missing(
    monkeypatch, tmp_path, library, extra, ask
):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(E.MissingExtraError, match=rf'pip install "perfmodel\[{extra}\]"'):
        ask(tmp_path / "x.parquet")
    with pytest.raises(ImportError):
        ask(tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_needs_no_extra():
    code = """
import sys
for name in ("pyarrow", "tqdm", "dask", "distributed"):
    sys.modules[name] = None
import perfmodel as pm
shape = pm.ModelShape.from_totals(params=8e9)
chip = pm.GpuSpec(name="x", memory_bandwidth=1e12, peak_flops={"bf16": 1e14})
table = pm.sweep([shape], [chip], batch=[1, 2])
assert len(table.to_frame()) == sum(len(frame) for frame in table.blocks()) == 2
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# -- vandals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"precision": []}, "precision: expected from 1 to 10,000 items|precision: expected from"),
        ({"parallelism": []}, "parallelism: expected from 1"),
        ({"engine": ()}, "engine: expected from 1"),
        ({"batch": []}, "batch: expected at least one"),
        ({"batch": [1, math.nan]}, "batch: expected whole numbers from 1 to 1e15, got nan"),
        ({"context": [1, -1]}, "context: expected whole numbers from 1 to 1e15, got -1"),
        ({"precision": itertools.repeat("bf16")}, "precision: expected from 1 .* got more"),
        ({"precision": ["bf16"] * 400, "parallelism": WAYS * 100}, "at most 100,000 combinations"),
        ({"engine": ["vllm"], "efficiency": ["auto"]}, "engine, efficiency: expected one of them"),
        ({"efficiency": ["ideal", "perfect"]}, "efficiency: "),
        ({"parallelism": [None]}, "parallelism: "),
        ({"parallelism": "tensor"}, "parallelism: "),
        ({"skip": 1}, "skip: "),
        ({"client": "localhost:8786"}, r"client: expected a dask.distributed.Client"),
        ({"prompt": [1]}, "context, prompt: expected one of them"),
    ],
)  # fmt: skip
def test_axes_that_cannot_be_are_refused(given, message):
    with pytest.raises(E.InvalidValueError, match=message):
        pm.sweep(DENSE, FAST, **INNER | given)
    with pytest.raises(E.InvalidValueError, match=r"^(model|gpu): expected "):
        pm.sweep([], FAST, **INNER)


def test_a_grid_beyond_memory_streams_and_is_refused_as_a_whole():
    table = pm.sweep(DENSE, FAST, batch=range(1, 100_001), context=range(1, 100_001))
    assert len(table) == 10**10
    for ask in (lambda: table.time, lambda: table.columns, table.to_frame):
        with pytest.raises(E.InvalidValueError, match=r"got 10,000,000,000; blocks\(\)"):
            ask()
    first = next(table.blocks(["batch", "context", "time"]))
    assert 1 < len(first) <= 2**20
    assert (first.batch.iloc[-1], first.context.iloc[0]) == (len(first) // 100_000 + 1, 1)


def test_a_grid_without_end_is_refused():
    endless = range(1, 3_000_001)
    with pytest.raises(E.InvalidValueError, match="at most 1,000,000,000,000 configurations"):
        pm.sweep(DENSE, FAST, batch=endless, context=endless)


def test_ten_million_points_take_less_than_a_gigabyte(tmp_path):
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("only Linux tells what a program itself took at most")
    # Not getrusage: it counts what the parent of a program took before there was the program.
    code = f"""
import re
import perfmodel as pm
table = pm.sweep(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), batch=range(1, 1001),
                 context=range(16, 160_001, 16))
table.to_parquet({str(tmp_path / "x.parquet")!r})
print(re.search(r"VmHWM:\\s*(\\d+) kB", open({str(status)!r}).read())[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300
    )
    assert 1e7 < int(done.stdout) * 1024 < 1e9
    assert pq.read_metadata(tmp_path / "x.parquet").num_rows == 10**7


# -- the command line ------------------------------------------------------------------------------

SWEEP = ["sweep", "llama-3.1-8b", "--gpu", "h100-sxm"]


def out(capsys: Any, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return str(captured.out)


def refused(capsys: Any, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("perfmodel: ")
    assert captured.err.count("\n") == 1
    return str(captured.err)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7", [7]),
        ("1,2,4..64", [1, 2, 4, 8, 16, 32, 64]),
        ("3..20", [3, 6, 12]),
        ("1024:4096:1024", [1024, 2048, 3072, 4096]),
        ("1:3, 8", [1, 2, 3, 8]),
        ("1e3..4_000, 5.0", [1000, 2000, 4000, 5]),
    ],
)
def test_axes_as_they_are_spelled(capsys, text, meant):
    found = json.loads(out(capsys, *SWEEP, "--batch", text, "--context", "8", "--json"))
    assert [row["batch"] for row in found["rows"]] == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1,",
        "8..4",
        "0..4",
        "1:2:0",
        "5:4",
        "1..2..3",
        "-1",
        "1.5",
        "1e16",
        "nan..4",
        "1:2:3:4",
    ],
)
def test_what_is_no_axis_is_refused(capsys, text):
    message = refused(capsys, *SWEEP, f"--batch={text}")
    assert "--batch: expected whole numbers from 1 to 1e15, as 1,2,4..64 or 1024:131072" in message
    assert message.endswith(f"got {text!r}\n")


def test_numbers_without_end_are_refused(capsys):
    assert "at most 10,000,000" in refused(capsys, *SWEEP, "--batch", "1:999999999999")
    assert "at most 10,000 rows to print" in refused(capsys, *SWEEP, "--batch", "1:10001")


def test_the_command_line_prints_the_table(capsys):
    arguments = ["--batch", "1,64", "--context", "4096", "--precision", "bf16,fp8"]
    lines = out(capsys, *SWEEP, *arguments).splitlines()
    assert lines[0].split()[:5] == ["precision", "batch", "context", "time", "ms"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["bf16", "1", "4,096"],
        ["bf16", "64", "4,096"],
        ["fp8", "1", "4,096"],
        ["fp8", "64", "4,096"],
    ]
    step = pm.decode(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), batch=64, context=4096)
    assert f" {step.time * 1e3:.2f} " in lines[2]


def test_json_has_the_rows_and_what_they_mean(capsys):
    arguments = ["--batch", "64", "--context", "4096", "--engine", "ideal,vllm", "--json"]
    found = json.loads(out(capsys, *SWEEP, *arguments, "--columns", "engine,time,low"))
    assert found["units"] == {"engine": "", "time": "s", "low": "s"}
    asked = {"batch": 64, "context": 4096}
    model, gpu = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
    ideal, seen = pm.decode(model, gpu, **asked), pm.decode(model, gpu, **asked, engine="vllm")
    first, second = found["rows"]
    assert (first["engine"], first["low"]) == ("ideal", None)
    assert math.isclose(first["time"], ideal.time, rel_tol=REL)
    assert math.isclose(second["time"], seen.time, rel_tol=REL)
    assert math.isclose(second["low"], seen.low or 0, rel_tol=REL)


def test_the_command_line_takes_an_efficiency(capsys):
    arguments = ["--batch", "64", "--context", "4096", "--efficiency", "auto", "--json"]
    (row,) = json.loads(out(capsys, *SWEEP, *arguments))["rows"]
    model, gpu = pm.model("llama-3.1-8b"), pm.gpu("h100-sxm")
    known = pm.decode(model, gpu, batch=64, context=4096, efficiency="auto")
    assert math.isclose(row["time"], known.time, rel_tol=REL)
    assert row["time"] > 1.01 * known.floor


def test_the_command_line_writes_a_file(capsys, tmp_path):
    path = tmp_path / "x.parquet"
    arguments = ["--batch", "1:1000", "--context", "1:2000:100", "--tensor", "1,8"]
    assert out(capsys, *SWEEP, *arguments, "--out", str(path)) == f"40,000 rows in {path}\n"
    frame = pd.read_parquet(path)
    assert list(frame)[:4] == ["parallelism", "devices", "batch", "context"]
    assert len(frame) == 40_000


def test_the_command_line_says_what_it_left_out(capsys):
    arguments = ["--batch", "4", "--tensor", "1,3,4", "--expert", "1,2", "--skip"]
    lines = out(capsys, *SWEEP, *arguments).splitlines()
    left = [line for line in lines if line.startswith("left out: ")]
    assert len(left) == 3
    assert sum("expected a divisor of tensor=" in line for line in left) == 2
    assert "tensor 3: Parallelism.tensor: expected a divisor of" in left[-1]
    assert "tensor 3" in refused(capsys, *SWEEP, "--batch", "4", "--tensor", "1,3")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--context", "8", "--prompt", "8"],
        ["--json", "--out", "x.parquet"],
        ["--progress"],
        ["--columns", "tiem"],
        ["--columns", "time,"],
        ["--engine", "auto,ideal"],
        ["--engine", "vllm", "--efficiency", "auto"],
        ["--engine", "vlm"],
        ["--precision", "bf61"],
        ["--out", "missing/x.parquet"],
        ["--tensor", "0"],
    ],
)
def test_the_command_line_refuses(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    refused(capsys, *SWEEP, *arguments)
    assert list(Path().iterdir()) == []
