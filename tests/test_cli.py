"""The command line as users meet it: output, exit codes, one line of stderr."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import perfmodel as pm
from perfmodel.interfaces.cli import run

PREDICT = ["predict", "llama-3.1-8b", "--gpu", "h100-sxm"]


def out(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("perfmodel: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_predict_prints_a_line_for_each_batch_then_prefill(capsys):
    lines = out(capsys, *PREDICT).splitlines()
    batches = [line.split()[0] for line in lines if "bf16 " in line and line.strip()[0].isdigit()]
    assert batches == ["1", "8", "64", "256", "512", "1,024", "2,048"]
    assert "8,030,261,248" in lines[0]
    headings = "batch precision step ms weights ms KV ms act. ms math ms tokens/s per user limit"
    assert " ".join(lines[2].split()) == headings
    assert any(line.startswith("prefill") for line in lines)


def test_predict_says_what_does_not_fit(capsys):
    # 16.06 GB and 1,024 x 2,048 x 131,072 B of KV: 290.9 GB; a batch of 1 fits.
    lines = out(capsys, *PREDICT, "--batch", "1,1024").splitlines()
    (large,) = [line for line in lines if line.lstrip().startswith("1,024")]
    assert "needs 290.9 GB, has " in large
    assert not any("needs" in line for line in lines if line.lstrip().startswith("1 "))


def test_predict_prints_precisions_side_by_side_and_marks_what_a_chip_lacks(capsys):
    arguments = ["predict", "llama-3.1-8b", "--gpu", "a100-sxm-80gb", "--batch", "1"]
    text = out(capsys, *arguments, "--precision", "bf16,fp8,w4a16")
    decode = [line.split() for line in text.splitlines() if line.lstrip().startswith("1 ")]
    assert [line[1] for line in decode] == ["bf16", "fp8", "w4a16"]
    assert "has no fp8 peak; it has: " in text
    assert float(decode[0][2]) > float(decode[2][2])


def test_weights_only_gives_the_articles_table(capsys, tmp_path):
    # 8.03e9 parameters less embedding and norms, 2 B each, at 3.35e12 B/s: 4.48 ms.
    text = out(capsys, *PREDICT, "--weights-only", "--batch", "1", "--json")
    row = json.loads(text)["rows"][0]
    assert row["time"] == pytest.approx(2 * 7_504_658_432 / 3.35e12)
    assert row["kv_time"] == 0


def test_json_and_csv_hold_the_same_rows(capsys):
    rows = json.loads(out(capsys, *PREDICT, "--json"))["rows"]
    table = list(csv.DictReader(io.StringIO(out(capsys, *PREDICT, "--csv"))))
    assert [float(row["time"]) for row in table] == [row["time"] for row in rows]
    assert [row["phase"] for row in rows] == ["decode"] * 6 + ["prefill"]


def test_json_is_what_the_library_says(capsys):
    row = json.loads(out(capsys, *PREDICT, "--json", "--batch", "64"))["rows"][0]
    step = pm.decode(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), batch=64, context=2048)
    assert row["time"] == step.time
    assert row["tokens_per_second"] == step.tokens_per_second
    assert row["tokens_per_second_per_user"] == pytest.approx(1 / step.time)


def test_explain_lists_operations_assumptions_and_sources(capsys):
    text = out(capsys, *PREDICT, "--batch", "1", "--explain")
    for word in ("gate_up", "attention", "head", "assumptions", "sources", "memory_bandwidth"):
        assert word in text


def test_a_config_and_a_folder_and_a_toml_file_are_read(capsys, tmp_path):
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.toml").write_text(
        'name = "mine"\nmemory_bandwidth = 1e12\npeak_flops.bf16 = 1e14\n'
    )
    for model in (str(tmp_path), str(tmp_path / "config.json")):
        text = out(capsys, "predict", model, "--gpu", str(tmp_path / "mine.toml"))
        assert " on mine, " in text


def test_learned_positions_bound_the_default_context(capsys):
    assert "1,024 tokens of context" in out(capsys, "predict", "gpt2", "--gpu", "l4")
    error = refused(capsys, "predict", "gpt2", "--gpu", "l4", "--context", "2048")
    assert "1024 learned positions" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict"], ["model"]),
        (["predict", "llama-3.1-8b"], ["--gpu"]),
        (["predict", "llama-3.1-8", "--gpu", "h100-sxm"], ["did you mean 'llama-3.1-8b'"]),
        (["predict", "llama-3.1-8b", "--gpu", "h100"], ["did you mean", "or 'h100-sxm'"]),
        (["predict", "no/such/config.json", "--gpu", "h100-sxm"], ["no such file"]),
        (["predict", "llama-3.1-8b", "--gpu", "none.toml"], ["no such file"]),
        ([*PREDICT, "--batch", "1,x"], ["--batch", "'x'"]),
        ([*PREDICT, "--batch", ""], ["--batch"]),
        ([*PREDICT, "--batch", "0"], ["batch", "0"]),
        ([*PREDICT, "--batch", "-1"], ["batch", "-1"]),
        ([*PREDICT, "--context", "0"], ["context", "0"]),
        ([*PREDICT, "--context", "many"], ["--context"]),
        ([*PREDICT, "--prompt", "-5"], ["prompt", "-5"]),
        ([*PREDICT, "--precision", "fp9"], ["fp9", "did you mean"]),
        ([*PREDICT, "--precision", "bf16,,fp8"], ["--precision"]),
        ([*PREDICT, "--json", "--csv"], ["--json, --csv"]),
        ([*PREDICT, "--bath", "1"], ["--bath"]),
        (["predicts"], ["predicts"]),
        (["show", "h100"], ["did you mean", "or 'h100-sxm'"]),
        (["compare", "llama-3.1-8b", "--gpu", "h200"], ["did you mean", "or 'h200-sxm'"]),
    ],
)
def test_bad_input_is_one_line_on_stderr(capsys, arguments, words):
    error = refused(capsys, *arguments)
    for word in words:
        assert word in error


def test_compare_lists_every_combination(capsys):
    arguments = ["compare", "llama-3.1-8b", "qwen3-8b", "--gpu", "h100-sxm", "--gpu", "l4"]
    text = out(capsys, *arguments, "--precision", "bf16,fp8", "--batch", "8")
    assert text.count("Llama-3.1-8B") == text.count("Qwen3-8B") == 4
    rows = json.loads(out(capsys, *arguments, "--json"))["rows"]
    assert len(rows) == 4
    assert rows[0]["time"] < rows[1]["time"]  # an H100 against an L4


def test_the_catalog_is_listed_and_shown_with_origins(capsys):
    assert all(key in out(capsys, "gpus") for key in pm.gpus())
    assert all(key in out(capsys, "models") for key in pm.models())
    text = out(capsys, "show", "h100-sxm")
    for origin in pm.gpu("h100-sxm").origins:
        assert f"{origin.field} = " in text
        for part in (origin.kind, origin.source.title, origin.place, origin.date, origin.note):
            assert " ".join(part.split()) in " ".join(text.split())
    assert "8,030,261,248" in out(capsys, "show", "llama-3.1-8b")
    assert json.loads(out(capsys, "show", "h100-sxm", "--json"))["memory_bandwidth"] == 3.35e12


def test_the_version_is_printed(capsys):
    assert out(capsys, "--version").strip() == pm.__version__


def test_predict_takes_one_chip(capsys):
    assert "perfmodel compare" in refused(capsys, *PREDICT, "--gpu", "l4")


def test_predict_says_how_many_sequences_the_memory_holds(capsys):
    held = pm.max_batch(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), context=2048)
    assert f"holds up to {held:,} sequences of 2,048 tokens" in out(capsys, *PREDICT)


def test_a_context_past_what_the_model_was_made_for_is_noted(capsys):
    arguments = ["predict", "qwen3-8b", "--gpu", "h100-sxm", "--batch", "1"]
    assert "made for 40,960 tokens" in out(capsys, *arguments, "--context", "131072")
    assert "made for" not in out(capsys, *arguments)


def test_the_parts_of_a_row_explain_its_limit(capsys):
    # Memory-bound although weights and KV together take less time than the math: activations.
    arguments = ["predict", "gpt2", "--gpu", "l4", "--json"]
    row = json.loads(out(capsys, *arguments))["rows"][-1]
    moved = row["weight_time"] + row["kv_time"] + row["activation_time"]
    assert row["bound"] == "memory"
    assert row["weight_time"] + row["kv_time"] < row["compute_time"] < moved


def test_the_readme_shows_what_the_command_prints(capsys):
    text = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    command, shown = text.split("```\n")[1:4:2]
    assert out(capsys, *command.split("perfmodel ", 1)[1].split()) == shown


def test_help_without_arguments(capsys):
    assert "predict" in out(capsys)


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "perfmodel", *PREDICT, "--batch", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_a_missing_extra_is_named(tmp_path):
    # A typer that cannot be imported stands in for one that is not installed.
    (tmp_path / "typer.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "perfmodel", "gpus"],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode != 0
    assert 'pip install "perfmodel[cli]"' in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_checkpoint_s_own_precision_is_what_is_predicted(capsys):
    text = out(capsys, "predict", "gpt-oss-120b", "--gpu", "h200-sxm", "--batch", "64")
    assert "checkpoint-mxfp4" in text
    assert "memory, checkpoint-mxfp4: holds up to 1,0" in text  # beside 65 GB of weights
    assert "no preset" not in text


def test_what_devices_send_is_a_column_where_several_share_the_work(capsys):
    """Eight L40S on PCIe: sums of 8,192 tokens in 160 layers are 1.2 s of a prefill of 1.6 s."""
    asked = ["predict", "llama-3.1-70b", "--gpu", "l40s", "--batch", "1", "--prompt", "8192"]
    lines = out(capsys, *asked, "--tensor", "8").splitlines()
    assert " ".join(lines[2].split()).endswith("math ms network ms tokens/s per user limit")
    assert "network ms" not in out(capsys, *asked)
    row = json.loads(out(capsys, *asked, "--tensor", "8", "--json"))["rows"][-1]
    # 2 x 7/8 of 8,192 x 8,192 numbers of 2 B, 161 times, over 31.5e9 B/s.
    assert row["network_time"] == pytest.approx(161 * 1.75 * 8192**2 * 2 / 31.5e9, rel=1e-2)
    assert row["bound"] == "network"


# -- serve -----------------------------------------------------------------------------------------

SERVE = ["serve", "llama-3.1-8b", "--gpu", "h100-sxm"]
LENGTHS = ["--prompt", "1000", "--output", "200"]


def test_serve_prints_a_line_for_each_number_of_users(capsys):
    lines = out(capsys, *SERVE, *LENGTHS, "--concurrency", "1,8,64").splitlines()
    assert "requests of 1,000 tokens and 200 out" in lines[0]
    assert [line.split()[0] for line in lines[2:]] == ["1", "8", "64"]
    # Alone: 200 tokens take what a generation takes.
    alone = pm.generate(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), prompt=1000, output=200)
    assert float(lines[2].split()[4]) == pytest.approx(alone.total, abs=0.006)


def test_serve_as_json_has_what_a_record_has(capsys):
    text = out(capsys, *SERVE, *LENGTHS, "--rate", "2.5", "--engine", "vllm", "--json")
    (row,) = json.loads(text)["rows"]
    work = pm.Workload(prompt=1000, output=200, rate=2.5)
    found = pm.serve(pm.model("llama-3.1-8b"), pm.gpu("h100-sxm"), work, engine="vllm")
    assert row["ttft"] == found.ttft
    assert row["output_tokens_per_second"] == pytest.approx(500)


def test_serve_explains_and_reads_traces(capsys, tmp_path):
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival,prompt_tokens,output_tokens\n0,900,150\n1,1100,250\n")
    text = out(capsys, *SERVE, "--trace", str(trace), "--explain")
    assert "1 requests/s of 1,000 + 200 tokens" in text
    assert "assumptions" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompt", "5"], "--prompt, --output: expected both"),
        ([*LENGTHS], "--concurrency: expected it, --rate or --trace"),
        (
            [*LENGTHS, "--rate", "1", "--concurrency", "1"],
            "--concurrency, --rate: expected one of them, got both",
        ),
        (
            [*LENGTHS, "--rate", "-1"],
            "--rate: expected a positive, finite number (1e-9 to 1e30), got '-1'",
        ),
        ([*LENGTHS, "--rate", "1e9"], "expected less than"),
        ([*LENGTHS, "--rate", "9999"], "expected less than"),
        ([*LENGTHS, "--trace", "x.csv", "--rate", "1"], "--trace: expected it or"),
        (["--trace", "no.csv"], "no such file"),
        ([*LENGTHS, "--concurrency", "1", "--scheduler", "best"], "scheduler: expected one of"),
    ],
)
def test_serve_refuses_in_one_line(capsys, arguments, message):
    assert message in refused(capsys, *SERVE, *arguments)
