"""Is a workload what its requests are? Means by hand, traces from files, and hostile ones."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest

import perfmodel as pm
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


HOSTILE = {
    "no such file": None,
    "at least one request": "prompt,output\n",
    "column of prompt tokens": "a,b\n1,2\n",
    "column of output tokens": "prompt,b\n1,2\n",
    "request 2: expected from 1 to 1e8, got 'x'": "prompt,output\n1,2\nx,2\n",
    "expected from 1 to 1e8, got -5": "prompt,output\n-5,2\n",
    "got 1000000000000": "prompt,output\n1000000000000,2\n",
    "output tokens of request 1": "prompt,output\n5,nan\n",
    "arrivals in seconds or as ISO dates": "prompt,output,time\n5,6,soon\n",
    "an arrival of every request": "prompt,output,time\n5,6,\n5,6,1\n",
    "cannot be read as CSV": '"prompt,output\n1',
}


@pytest.mark.parametrize("message", HOSTILE)
def test_hostile_traces_are_one_clear_error(tmp_path, message):
    path = tmp_path / "trace.csv"
    text = HOSTILE[message]
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(pm.errors.ConfigError) as refused:
        pm.Workload.from_trace(path)
    assert message in str(refused.value)


def test_what_is_no_trace_is_refused(tmp_path):
    with pytest.raises(pm.errors.ConfigError, match="expected a CSV or Parquet file"):
        pm.Workload.from_trace(5)  # type: ignore[arg-type]
    with pytest.raises(pm.errors.ConfigError, match="no such file"):
        pm.Workload.from_trace(tmp_path)
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(pm.errors.ConfigError, match="cannot be read as Parquet"):
        pm.Workload.from_trace(tmp_path / "t.parquet")


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
