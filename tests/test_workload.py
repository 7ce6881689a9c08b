"""Is a workload what its requests are? Means by hand, traces from files, and hostile ones."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import perfmodel as pm
from perfmodel.answers.serving import trace
from perfmodel.answers.serving.workload import _classes

# Two kinds of requests, equally many: 100 in and 3 out, 400 in and 11 out.
PAIRS = pm.Workload(prompt=[100, 400], output=[3, 11], paired=True, concurrency=1)


# -- means by hand ---------------------------------------------------------------------------------


def test_contexts_are_a_mean_over_tokens():
    # Decoded tokens attend 101 and 102, and 401 to 410: (203 + 4055) / 12.
    assert PAIRS.mean_context == pytest.approx((101 + 102 + sum(range(401, 411))) / 12)
    assert PAIRS.contexts.mean() == pytest.approx(PAIRS.mean_context)
    # Ten of twelve tokens belong to the long request.
    assert (PAIRS.contexts > 300).mean() == pytest.approx(10 / 12, abs=1 / 16)
    assert PAIRS.reserved_context == pytest.approx((2 * 103 + 10 * 411) / 12)
    assert PAIRS.longest_context == 411


def test_lengths_that_are_no_pairs_are_combined():
    every = PAIRS.model_copy(update={"paired": False})
    tokens = [*range(101, 103), *range(401, 403), *range(101, 111), *range(401, 411)]
    assert every.mean_context == pytest.approx(sum(tokens) / len(tokens))
    assert every.contexts.mean() == pytest.approx(every.mean_context)


def test_pairs_of_query_and_key_are_quadratic():
    # 3 after 2 cached: 3 x 2 + (1 + 2 + 3) = 12; 7 after 2: 14 + 28 = 42.
    work = pm.Workload(prompt=[5, 9], output=2, prefix=2, concurrency=1)
    assert work.prompt_pairs == pytest.approx((12 + 42) / 2)
    assert work.new_tokens == 5


def test_weights_need_not_add_up_to_one():
    lengths = pm.Lengths(values=(1000, 5000), weights=(3, 1))
    assert lengths.mean == 2000
    assert pm.Workload(prompt={1000: 3, 5000: 1}, output=9, rate=1).prompt == lengths


def test_many_lengths_keep_their_mean_and_mean_square():
    lengths = np.random.default_rng(0).lognormal(7, 1, 3000) + 1
    found, shares = _classes(lengths, np.full(3000, 1 / 3000), 8)
    assert len(found) == 16
    assert found @ shares == pytest.approx(lengths.mean())
    assert found**2 @ shares == pytest.approx((lengths**2).mean())


# -- traces ----------------------------------------------------------------------------------------


def table(**columns):
    return pd.DataFrame(columns)


def test_a_trace_keeps_pairs_and_rate(tmp_path):
    path = tmp_path / "trace.csv"
    table(Timestamp=[0.0, 0.5, 2.0], ContextTokens=[100, 400, 400], GeneratedTokens=[3, 11, 11],
          more=["a", "b", "c"]).to_csv(path, index=False)  # fmt: skip
    found = pm.Workload.from_trace(path)
    assert found.rate == pytest.approx(2 / 2.0)
    assert found.paired
    assert found.prompt.mean == pytest.approx(300)
    # 2 tokens of the short one, 2 x 10 of the long ones
    assert found.mean_context == pytest.approx((101 + 102 + 2 * sum(range(401, 411))) / 22)
    assert pm.Workload.from_trace(path, concurrency=8).rate is None


def test_arrivals_may_be_dates(tmp_path):
    path = tmp_path / "trace.csv"
    start = datetime.datetime(2026, 5, 10, 12)
    times = [str(start + datetime.timedelta(seconds=s)) for s in (0, 4, 8)]
    table(TIMESTAMP=times, prompt_tokens=[1, 2, 3], output_tokens=[4, 5, 6]).to_csv(path)
    assert pm.Workload.from_trace(path).rate == pytest.approx(2 / 8)


def test_a_parquet_trace_is_a_csv_trace(tmp_path):
    pytest.importorskip("pyarrow")
    rows = table(input_tokens=[100, 400], output_tokens=[3, 11])
    rows.to_parquet(tmp_path / "t.parquet")
    rows.to_csv(tmp_path / "t.csv")
    same = [pm.Workload.from_trace(tmp_path / f"t.{kind}", rate=2.0) for kind in ("parquet", "csv")]
    assert same[0] == same[1]


def test_a_long_trace_is_gathered_into_classes(tmp_path):
    chance = np.random.default_rng(1)
    rows = table(prompt=chance.integers(1, 30000, 20000), output=chance.integers(1, 3000, 20000))
    rows.to_csv(tmp_path / "t.csv")
    found = pm.Workload.from_trace(tmp_path / "t.csv", rate=1.0)
    assert len(found.prompt.values) <= 4096
    assert found.prompt.mean == pytest.approx(rows.prompt.mean())
    assert found.output.mean == pytest.approx(rows.output.mean())
    weight = rows.output - 1
    context = (weight * (rows.prompt + rows.output / 2)).sum() / weight.sum()
    assert found.mean_context == pytest.approx(context, rel=2e-3)
    assert found.prompt.mean_square == pytest.approx((rows.prompt**2.0).mean(), rel=2e-3)


HEAD = b"prompt,output,time\n"
HOSTILE = {
    "no such file": None,
    "at least one request": HEAD,
    "a column of prompt tokens, as prompt_tokens, got []": b"",
    "a column of prompt tokens, as prompt_tokens, got ['a', 'b']": b"a,b\n1,2\n",
    "a column of prompt tokens, as prompt_tokens, got ['prompt;output']": b"prompt;output\n1;2\n",
    "a column of output tokens": b"prompt,b\n1,2\n",
    "one column 'prompt', got 2": b"prompt,prompt,output\n1,2,3\n",
    "one column 'Prompt Tokens', got 2": b"Prompt Tokens,prompt_tokens,output\n1,2,3\n",
    "prompt of request 2: expected a number of tokens from 1 to 1e8, got 'x'": HEAD
    + b"1,2,3\nx,2,4\n",
    "prompt of request 1: expected a number of tokens from 1 to 1e8, got '-5'": HEAD + b"-5,2,3\n",
    "got '1000000000000'": HEAD + b"1000000000000,2,3\n",
    "got '1,000'": HEAD + b'"1,000",2,3\n',
    "expected 3 fields in a row, as the header has, got ['1', '000', '2', '3']": HEAD
    + b"1,000,2,3\n",
    r"got '1\x000'": HEAD + b"1\x000,2,3\n",
    "output of request 1": HEAD + b"5,nan,3\n",
    "output of request 1: expected a number of tokens from 1 to 1e8, got ''": HEAD + b"5\n",
    "arrival of request 1: expected seconds, at most 1e11, or an ISO date, got 'soon'": HEAD
    + b"5,6,soon\n",
    "arrival of request 1: expected seconds, at most 1e11, or an ISO date, got ''": HEAD
    + b"5,6,\n5,6,1\n",
    "got '1700000000000'": HEAD + b"5,6,1700000000000\n",  # milliseconds since 1970
    "cannot be read as CSV ('unexpected end of data')": HEAD + b'"5,6,7\n',
    "field larger than field limit": HEAD + b'"5' + b",6,7\n" * 50_000,
    "cannot be read as CSV (\"'utf-8' codec can't decode byte 0xff": HEAD.decode().encode("utf-16"),
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_traces_are_one_clear_error(tmp_path, message):
    path = tmp_path / "trace.csv"
    written = HOSTILE[message]
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(pm.errors.ConfigError) as refused:
        pm.Workload.from_trace(path)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    "written",
    [
        b"\xef\xbb\xbf" + HEAD + b"10,20,0\n30,40,2\n",
        (HEAD + b"10,20,0\n30,40,2\n").replace(b"\n", b"\r\n"),
        (HEAD + b"10,20,0\n30,40,2").replace(b"\n", b"\r"),
        b"\n\n" + HEAD + b"\n10,20,0\n\n30,40,2\n\n",
        b" Prompt Tokens , OUTPUT-LEN,time\n 1e1 , 20.0 ,0\n30,4_0,2,,\n",
        b'text,prompt_tokens,output,time,prompt\n"a,\n""b""",10,20,0,hello\n,30,40,2,\n',
        b"prompt,output,Timestamp\n10,20,2026-05-10T12:00:00.0000000Z\n30,40,2026-05-10 12:00:02\n",
    ],
    ids=["mark", "Windows", "old Mac", "blank lines", "spelling", "texts", "dates"],
)
def test_a_table_may_be_written_in_many_ways(tmp_path, written):
    path = tmp_path / "trace.csv"
    path.write_bytes(written)
    found = pm.Workload.from_trace(path)
    assert found.prompt.values == (10, 30)
    assert found.output.values == (20, 40)
    assert found.rate == pytest.approx(1 / 2)


def test_too_many_requests_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(trace, "MAX_ROWS", 2)
    path = tmp_path / "trace.csv"
    path.write_text("prompt,output\n" + "1,2\n" * 3)
    with pytest.raises(pm.errors.ConfigError, match="expected at most 2 requests"):
        pm.Workload.from_trace(path, rate=1)
    monkeypatch.setattr(trace, "MAX_BYTES", 10)
    with pytest.raises(pm.errors.ConfigError, match="expected at most 10 bytes"):
        pm.Workload.from_trace(path, rate=1)


@pytest.mark.parametrize(
    ("path", "message"),
    [(5, "path: expected a CSV or Parquet file"), (".", "a folder, not a file"),
     ("/dev/null", "not a regular file"), ("a\0b", "'a\\\\x00b': "), ("a" * 999, "a{80}")],
)  # fmt: skip
def test_what_is_no_file_is_told_what_it_is(path, message):
    with pytest.raises(pm.errors.ConfigError, match=message):
        pm.Workload.from_trace(path)


def test_hostile_parquet_traces_are_one_clear_error(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(pm.errors.ConfigError, match="cannot be read as Parquet"):
        pm.Workload.from_trace(path)
    two = pa.array([1, 2])
    wrong = {
        "one column 'prompt', got 2": pa.Table.from_arrays(
            [two] * 3, ["prompt", "output", "prompt"]
        ),
        "prompt of request 2: .* got None": pa.table({"prompt": [1, None], "output": two}),
        "prompt of request 1: .* got True": pa.table({"prompt": [True, True], "output": two}),
        r"prompt of request 1: .* got \[1\]": pa.table({"prompt": [[1], [2]], "output": two}),
        "a column of output tokens": pa.table({"prompt": two}),
        "at least one request": pa.table({"prompt": two[:0], "output": two[:0]}),
    }
    for message, rows in wrong.items():
        parquet.write_table(rows, path)
        with pytest.raises(pm.errors.ConfigError, match=message):
            pm.Workload.from_trace(path)


def test_parquet_traces_may_have_any_kind_of_number_or_time(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    times = pa.array([0, 2_000_000], pa.timestamp("us"))
    numbers = [pa.array([10, 30], kind) for kind in (pa.int8(), pa.uint64(), pa.float32())]
    for prompts in (*numbers, numbers[0].dictionary_encode(), pa.array(["10", "30"])):
        parquet.write_table(
            pa.table({"prompt": prompts, "output": [20, 40], "time": times}), tmp_path / "t.pq"
        )
        found = pm.Workload.from_trace(tmp_path / "t.pq")
        assert (found.prompt.values, found.rate) == ((10, 30), pytest.approx(1 / 2))


def test_a_trace_without_times_needs_a_rate(tmp_path):
    table(prompt=[5], output=[6]).to_csv(tmp_path / "t.csv")
    with pytest.raises(pm.errors.InvalidValueError, match="no two arrival times"):
        pm.Workload.from_trace(tmp_path / "t.csv")


# -- wrong workloads -------------------------------------------------------------------------------

WRONG = [
    ({"prompt": 0}, "prompt: expected from 1 to 1e8 tokens"),
    ({"prompt": 1e300}, "prompt: expected from 1 to 1e8 tokens"),
    ({"prompt": "long"}, "prompt: expected a number of tokens"),
    ({"prompt": []}, "prompt: expected from 1 to 10,000 lengths"),
    ({"prompt": {}}, "Workload.prompt: expected from 1 to 10,000 lengths, got {}"),
    ({"prompt": {100: -1}}, "Workload.prompt: weights.0: expected a positive"),
    ({"output": [9, -1]}, "Workload.output: values.1: expected from 1 to 1e8 tokens, got [9, -1]"),
    ({"output": {"values": []}}, "Workload.output: values: "),
    ({"output": {"weights": [1]}}, "Workload.output: values: required"),
    ({"output": 1}, "output: expected more than one token"),
    ({"rate": 1.0}, "expected it or Workload.rate, got both"),
    ({"concurrency": None}, "expected it or Workload.rate, got none"),
    ({"concurrency": None, "rate": -1.0}, "rate: expected a positive"),
    ({"concurrency": 0.5}, "concurrency: expected at least 1 user"),
    ({"prefix": 100}, "prefix: expected at least one token less"),
    ({"rounds": 0.5}, "rounds: expected at least 1"),
    ({"paired": True, "prompt": [1, 2]}, "paired: expected as many outputs as prompts"),
    ({"conc": 1}, "unknown field"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=lambda value: str(value)[:30])
def test_wrong_workloads_are_refused(given, message):
    with pytest.raises(pm.errors.InvalidValueError) as refused:
        pm.Workload(**{"prompt": 100, "output": 10, "concurrency": 4} | given)
    assert message in str(refused.value)


def test_a_workload_survives_json():
    for work in (PAIRS, pm.Workload(prompt=100, output={5: 1, 9: 2}, rate=3.0, prefix=7)):
        assert pm.Workload.model_validate_json(work.model_dump_json()) == work
