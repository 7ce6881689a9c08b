"""The command line against typing errors and malice: one line that says why, and exit code 2."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from perfmodel.interfaces.cli import run
from perfmodel.interfaces.cli.tables import print_json

PREDICT = ["predict", "llama-3.1-8b", "--gpu", "h100-sxm"]
LENGTHS = ["--prompt", "100", "--output", "20", "--rate", "1"]
SERVE = ["serve", "llama-3.1-8b", "--gpu", "h100-sxm", "--prompt", "1000", "--output", "200"]


def out(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refused(capsys, *arguments: str) -> str:
    code = run(list(arguments))
    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert captured.err.startswith("perfmodel: ")
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("perfmodel: ").rstrip("\n")


# -- numbers ---------------------------------------------------------------------------------------


def test_numbers_are_read_as_python_writes_them(capsys):
    plain = ["--prompt", "1000", "--output", "200", "--rate", "0.5"]
    spelt = ["--prompt", "1e3", "--output", "2_00", "--rate", "5e-1"]
    serve = [*SERVE[:4], "--json"]
    assert out(capsys, *serve, *spelt) == out(capsys, *serve, *plain)
    plain = out(capsys, *PREDICT, "--batch", "1000", "--context", "1000000")
    assert out(capsys, *PREDICT, "--batch", "1e3", "--context", "1e6") == plain


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "-1", "0", "1e-10", "0x10"])
def test_a_rate_that_cannot_be_is_told_why(capsys, text):
    why = f"--rate: expected a positive, finite number (1e-9 to 1e30), got {text!r}"
    assert refused(capsys, *SERVE, f"--rate={text}") == why


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1.5", "1e16", "\u0663", "9" * 5000])
def test_a_count_that_cannot_be_is_told_why(capsys, text):
    why = "--batch: expected a whole number from 1 to 1e15, got "
    assert refused(capsys, *PREDICT, "--batch", f"8,{text}").startswith(why)


@pytest.mark.parametrize("text", ["0", "-5", "2e8", "nan"])
def test_a_length_that_cannot_be_is_told_why(capsys, text):
    why = f"--prompt: expected from 1 to 1e8 tokens, got {text!r}"
    assert refused(capsys, *SERVE[:4], "--output=9", "--rate=1", f"--prompt={text}") == why


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*SERVE, "--rate", "4", "--rate=8"], "--rate: expected once, got '4' and '8'"),
        ([*SERVE, "--gpu", "l4"], "--gpu: expected once, got 'h100-sxm' and 'l4'"),
        ([*PREDICT, "--batch", "1", "--batch", "1"], "--batch: expected once, got '1' and '1'"),
    ],
)
def test_an_option_given_twice_is_refused(capsys, arguments, told):
    assert refused(capsys, *arguments) == told


def test_what_only_looks_like_an_option_given_twice_is_none(capsys):
    # A value may look like an option; flags, and options that make a list, may come again.
    told = refused(capsys, *PREDICT, "--context", "--batch", "--batch", "1")
    assert told.endswith("got '--batch'")
    chips = ["--gpu", "l4", "--gpu", "l40s"]
    assert out(capsys, "compare", "gpt2", *chips, "--json", "--json").count('"gpu"') == 2


@pytest.mark.parametrize(
    "command",
    ["predict", "compare", "calibrate", "serve", "sweep", "plan", "gpus", "models", "show"],
)
@pytest.mark.parametrize("columns", [80, 120])
def test_help_lists_options_in_groups_within_the_terminal(capsys, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = out(capsys, command, "--help").splitlines()
    assert max(map(len, lines)) <= columns
    options = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len(options) == len(set(options))
    titles = {line for line in lines if line.endswith(":") and not line.startswith(" ")}
    assert titles <= {"Arguments:", "Chips:", "Load:", "Targets:", "Assumptions:", "Report:"}
    assert "Report:" in titles


# -- JSON ------------------------------------------------------------------------------------------

PLAN = ["plan", "llama-3.1-8b", "--prompt", "1000", "--output", "200", "--gpu", "l4", "--all"]


def no_constant(text: str) -> None:
    raise AssertionError(f"{text} is no JSON")


def rows(capsys, *arguments: str) -> list[dict[str, object]]:
    found = json.loads(out(capsys, *arguments, "--json"), parse_constant=no_constant)["rows"]
    assert found
    assert len({tuple(row) for row in found}) == 1
    return found


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("predict", [*PREDICT, "--precision", "bf16,nvfp4"]),
        ("predict", ["compare", "gpt2", "--gpu", "l4", "--precision", "bf16,nvfp4"]),
        ("serve", [*SERVE, "--concurrency", "1,1e6"]),
        ("plan", [*PLAN, "--users", "4", "--tpot", "0.1"]),
        ("plan", [*PLAN, "--rate", "1e-9", "--ttft", "1e-9"]),
        ("plan", [*PLAN, "--devices", "1e9", "--end-to-end", "1e9"]),
    ],
)
def test_rows_have_the_keys_that_the_page_lists(capsys, command, asked):
    page = (Path(__file__).parents[1] / "docs" / "command-line.md").read_text(encoding="utf-8")
    section = page.split(f"\n`{command}`", 1)[1].split("\n\n")[1]
    assert set(rows(capsys, *asked)[0]) == set(re.findall("`([a-z_]+)`", section))


@pytest.mark.parametrize("engine", ["ideal", "auto", "vllm", "ideal,vllm", "auto,sglang"])
def test_a_sweep_says_its_units(capsys, engine):
    asked = ["sweep", "gpt2", "--gpu", "l4", "--batch", "1,2", "--engine", engine]
    columns = set(rows(capsys, *asked)[0])
    found = json.loads(out(capsys, *asked, "--json"))
    assert set(found) >= {"units", "skipped", "rows"}
    assert set(found["units"]) == columns


def test_what_has_no_bound_is_null(capsys):
    print_json({"a": float("inf"), "b": [float("nan"), -0.0, 1e308]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 0, 1e308]}


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder of things that are not what their names say."""
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "folder.toml", "folder.csv", "folder.json", "folder.parquet"):
        (tmp_path / name).mkdir()
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe=")
    (tmp_path / "open.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "empty").write_text("")
    (tmp_path / "trace.csv").write_text("prompt,output,time\n100,20,0\n200,30,1\n")
    (tmp_path / "zeros.csv").write_bytes(b"\0\0")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["predict", "folder", "--gpu", "l4"], "expected a folder with a config.json"),
        (["predict", "folder.json", "--gpu", "l4"], "expected a folder with a config.json"),
        (["predict", "open.json", "--gpu", "l4"], "expected JSON"),
        (["predict", "list.json", "--gpu", "l4"], "expected a JSON object"),
        (["predict", "", "--gpu", "l4"], "model: no model ''"),
        (["predict", "gpt2", "--gpu", ""], "gpu: no gpu ''"),
        (["predict", "gpt2", "--gpu", "folder.toml"], "folder.toml: a folder, not a file"),
        (["predict", "gpt2", "--gpu", "bytes.toml"], "expected UTF-8 text"),
        (["predict", "gpt2", "--gpu", "/dev/null"], "/dev/null: not a regular file"),
        (["serve", "gpt2", "--gpu", "l4", "--efficiency", "folder", *LENGTHS], "folder: a folder"),
        (["predict", "gpt2", "--gpu", "l4", "--engine", "vlm"], "did you mean 'vllm'"),
        (["serve", "gpt2", "--gpu", "l4", "--trace", "folder.csv"], "folder.csv: a folder, not"),
        (["serve", "gpt2", "--gpu", "l4", "--trace", "zeros.csv"], "a column of prompt tokens"),
        (["serve", "gpt2", "--gpu", "l4", "--trace", "folder.parquet"], "a folder, not a file"),
        (["calibrate", "folder.csv", "--gpu", "l4"], "folder.csv: a folder, not a file"),
        (["calibrate", "zeros.csv", "--gpu", "l4"], "expected rows of measurements"),
        (
            ["sweep", "gpt2", "--gpu", "l4", "--out", "folder.parquet"],
            "'folder.parquet' (it is a folder)",
        ),
        (
            ["sweep", "gpt2", "--gpu", "l4", "--out", "missing/x.parquet"],
            "'missing/x.parquet' (No such",
        ),
        (["sweep", "gpt2", "--gpu", "l4", "--out", "\0"], r"'\x00'"),
        (["show", "folder"], "expected a folder with a config.json"),
        (["show", "h100-sxn"], "did you mean 'h100-sxm'"),
    ],
)
def test_files_that_are_none_are_told_what_they_are(capsys, files, arguments, told):
    assert told in refused(capsys, *arguments)


# -- anything --------------------------------------------------------------------------------------

NUMBERS = [
    "1", "8", "1,2", "0", "-1", "1e6", "1e-3", "nan", "-inf", "x", "", "1..8", "8..1", "1:9:3",
    "1e15", "1:1e15", "9" * 400, "1e308", "2.5", "--", "1,,2", "\0", "\u0663", "\n",
]  # fmt: skip
NAMES = [
    "gpt2", "llama-3.1-8b", "h100-sxm", "l4", "vllm", "auto", "ideal", "bf16", "fp8,", "nvfp4", "",
    "\0", "x" * 5000, "both", "apart", "time", "l4=2", "l4=-1", "=", "empty", "folder",
    "folder.toml", "bytes.toml", "trace.csv", "zeros.csv", "/dev/null", "no/such",
]  # fmt: skip
COMMANDS = {
    "predict": ["gpt2", "--gpu", "l4", "--batch", "1,8"],
    "compare": ["gpt2", "--gpu", "l4", "--batch", "8"],
    "serve": ["gpt2", "--gpu", "l4", *LENGTHS],
    "sweep": ["gpt2", "--gpu", "l4", "--batch", "1,8"],
    "plan": ["gpt2", "--gpu", "l4", *LENGTHS, "--tpot", "1"],
    "calibrate": ["trace.csv", "--gpu", "l4"],
    "show": ["gpt2"],
}


def options_of(capsys, command: str) -> dict[str, bool]:
    """Each option, and whether a value follows it."""
    lines = [line.split() for line in out(capsys, command, "--help").splitlines()]
    return {words[0]: words[1].isupper() for words in lines if words and words[0][:2] == "--"}


@pytest.mark.parametrize("command", COMMANDS)
def test_whatever_is_typed_the_answer_is_one_line_or_a_result(capsys, files, command):
    chance = random.Random(command)
    options = options_of(capsys, command)
    for _ in range(40):
        usual = COMMANDS[command]
        arguments = [w if chance.random() < 0.9 else chance.choice(NAMES) for w in usual]
        for name in chance.sample(list(options), min(2, len(options))):
            value = chance.choice(NUMBERS + NAMES)
            arguments += [name, value] if options[name] else [name]
        code = run([command, *arguments])
        captured = capsys.readouterr()
        assert code in (0, 2), arguments
        if code == 0:
            assert (captured.out != "", captured.err) == (True, ""), arguments
            if captured.out.startswith("{"):
                json.loads(captured.out, parse_constant=no_constant)
        else:
            assert captured.out == "", arguments
            assert captured.err.startswith("perfmodel: "), arguments
            assert captured.err.count("\n") == 1, arguments
            assert len(captured.err) < 400, arguments
